"""Text from others commands no terminal, wherever a command prints it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from levywalk.cli.fleet.common import carried_out
from levywalk.cli.main import app
from levywalk.errors import LevywalkError
from levywalk.fleet.operate.folder import FleetFolder
from levywalk.fleet.operate.log_entries import in_words, parsed
from levywalk.fleet.operate.node_processes import FleetProblem
from levywalk.printable import printable, printable_values

EVIL = "all is well\x1b[2J\x9b31m\r\u202eenog si 3 edon\x07\x7f"
COMMANDS = ("\x1b", "\x9b", "\r", "\u202e", "\x07", "\x7f")


def harmless(text: str) -> bool:
    return not any(one in text for one in COMMANDS)


@given(st.text())
def test_nothing_is_left_that_a_terminal_would_obey(text: str) -> None:
    shown = printable(text)
    assert all(c.isprintable() or c.isspace() for c in shown)
    assert not set(shown) & set(map(chr, [*range(32), *range(127, 160), 0x2028, 0x2029]))
    assert printable(shown) == shown
    if text.isprintable():
        assert shown == text


def test_spaces_and_letters_of_all_languages_stay() -> None:
    text = "fünf nœuds, 5\u00a0узлов, 五个节点"
    assert printable(text) == text
    assert printable_values({"a": [text, (EVIL, None)]})["a"][0] == text


def test_keys_are_cleaned_as_values_are() -> None:
    shown = printable_values({"nodes": [{"metrics": {EVIL: 0.5}}], 3: EVIL})
    ((key, value),) = shown["nodes"][0]["metrics"].items()
    assert harmless(key)
    assert (key, value) == (printable(EVIL), 0.5)
    assert shown[3] == printable(EVIL)


def test_a_refusal_of_a_neighbour_reaches_the_log_as_text() -> None:
    line = {"event": "gives up", "level": "info", "to": 3, "why": EVIL}
    said = in_words(parsed(1, json.dumps(line).encode()))
    assert harmless(said)
    assert "all is well\\x1b[2J" in said
    assert harmless(in_words(parsed(1, EVIL.encode())))  # output that is no JSON
    unknown = {"event": "of a later version", "level": EVIL, "what": EVIL}
    assert harmless(in_words(parsed(1, json.dumps(unknown).encode())))


def test_an_error_with_words_of_others_is_printed_as_text(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: object) -> None:
        raise FleetProblem(f"the walk cannot start: {EVIL}\nsecond line")

    with pytest.raises(typer.Exit):
        carried_out(fails)
    said = capsys.readouterr().err
    assert harmless(said)
    assert said.endswith("\nsecond line\n")

    def refuses(**_: object) -> None:
        raise LevywalkError(EVIL)

    monkeypatch.setattr("levywalk.cli.main.app", refuses)
    monkeypatch.setattr("sys.argv", ["levywalk"])
    from levywalk.cli.main import main

    with pytest.raises(SystemExit):
        main()
    assert harmless(capsys.readouterr().err)


def test_status_and_doctor_print_words_of_others_as_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from levywalk.fleet.operate import doctor
    from tests.fleet.nodes import make

    place = make(tmp_path / "fleet", 3)
    whole = FleetFolder.status

    def told(self: FleetFolder, patience: float = 1.0) -> dict[str, Any]:
        found = whole(self, patience)
        rows = [row | {"name": EVIL, "metrics": {EVIL: 0.25}} for row in found["nodes"]]
        return found | {"waits": [EVIL], "name": EVIL, "metrics": {EVIL: 0.25}, "nodes": rows}

    monkeypatch.setattr(FleetFolder, "status", told)
    monkeypatch.setattr(doctor, "examine", lambda *_, **__: [doctor.Finding("problem", EVIL, EVIL)])
    for command in ("status", "doctor"):
        said = CliRunner().invoke(app, ["fleet", command, str(place)]).output
        assert "all is well" in said
        assert harmless(said), command
        assert "0.25" in said or command == "doctor"


def test_status_shows_names_as_they_are_and_not_as_markup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rich.console import Console

    from levywalk.cli.fleet.status import picture
    from tests.fleet.nodes import make

    place = make(tmp_path / "fleet", 3)
    found = FleetFolder.open(place).status()
    name = "[bold]a[/bold][/red]"
    rows = [row | {"name": name, "metrics": {name: 0.25}} for row in found["nodes"]]
    found |= {"name": name, "metrics": {name: 0.25}, "nodes": rows}
    console = Console(width=200)
    with console.capture() as caught:
        console.print(picture(found))  # as --watch draws it
    assert caught.get().count(name) == 2
    monkeypatch.setattr(FleetFolder, "status", lambda self, patience=1.0: found)
    monkeypatch.setenv("COLUMNS", "200")
    said = CliRunner().invoke(app, ["fleet", "status", str(place)]).output
    assert said.count(name) == 2 + 1 + 3  # the column of the metric, and a name in each row
