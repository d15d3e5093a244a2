"""What nodes report, as sentences."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import levywalk.fleet
from levywalk.fleet.operate.log_entries import in_words
from levywalk.fleet.operate.log_text import _SENTENCES, sentence
from levywalk.fleet.runtime.log_writer import LogWriter
from levywalk.fleet.simulate.virtual import _FAULTS

_SOURCES = Path(levywalk.fleet.__file__).parent
_REPORTS = (
    "log",
    "_record",
    "_begin_again",
    "TimedReport",
)  # what is called with the name of an event


def reported() -> Iterator[tuple[str, str]]:
    """Yield all events whose names the sources of fleet/ say, and where."""
    for path in sorted(_SOURCES.rglob("*.py")):
        if "checking" in path.parts:
            continue
        for found in ast.walk(ast.parse(path.read_text())):
            if isinstance(found, ast.Dict):  # a line that is written without a log writer
                pairs = zip(found.keys, found.values, strict=True)
                names = [
                    value
                    for key, value in pairs
                    if isinstance(key, ast.Constant) and key.value == "event"
                ]
            elif isinstance(found, ast.Call):
                function = found.func
                called = getattr(function, "attr", getattr(function, "id", ""))
                names = found.args if called in _REPORTS else []
            else:
                continue
            for name in names:
                choices = [name.body, name.orelse] if isinstance(name, ast.IfExp) else [name]
                for one in choices:
                    if isinstance(one, ast.Constant) and isinstance(one.value, str):
                        yield one.value, f"{path.relative_to(_SOURCES)}:{one.lineno}"


def test_every_event_has_a_sentence() -> None:
    found = list(reported())
    assert {"fault", "not kept", "edge up", "left", "cannot run", "nobody"} <= {
        what for what, _ in found
    }
    assert [(what, at) for what, at in found if what not in _SENTENCES] == []
    assert set(_FAULTS) - set(_SENTENCES) == set()


@pytest.mark.parametrize(
    ("what", "about", "says"),
    [
        (
            "fault",
            {"message": "Traceback:\n  File …\nZeroDivisionError: division by zero\n"},
            "an error in levywalk or in the model's own code: ZeroDivisionError: division by zero; "
            "the node continues from its disk in a few seconds",
        ),
        (
            "not kept",
            {"path": "peers/3.der", "message": "No space left on device"},
            "could not write peers/3.der: No space left on device; the walk does not need this "
            "file",
        ),
        (
            "no longer a neighbour",
            {"neighbour": 4},
            "node 4 is no longer in the node file: it is treated as gone",
        ),
    ],
)
def test_sentences(what: str, about: dict[str, object], says: str) -> None:
    assert sentence(what, about) == says
    entry = {"time": "2026-01-01T12:00:00", "level": "error", "node": 3, "event": what}
    assert in_words(entry | about).endswith(f"✗ {says}")


# How many lines


def written(writer: LogWriter) -> list[dict[str, Any]]:
    return [json.loads(line) for _, line in writer.kept]


@pytest.mark.parametrize(("event", "who"), [("link closed", "neighbour"), ("refused", "sender")])
def test_strangers_do_not_hide_what_is_said_about_neighbours(event: str, who: str) -> None:
    writer = LogWriter(0, 10_000, neighbours=[1, 2])
    for i in range(1000):
        writer.write(event, "info", {who: -1 if i % 2 else 77 + i, "why": "a stranger"})
        writer.write(event, "info", {who: 1, "why": "a neighbour that floods"})
    assert len(written(writer)) == 2 * 100
    writer.write(event, "info", {who: 2, "why": "it matters"})
    assert written(writer)[-1]["why"] == "it matters"
    writer.write(event, "info", {who: -1, "why": "a stranger"})
    writer.write(event, "info", {who: 1, "why": "a neighbour that floods"})
    assert len(written(writer)) == 2 * 100 + 1


def test_many_neighbours_cannot_fill_the_disk() -> None:
    writer = LogWriter(0, 1_000_000, neighbours=range(1, 2000))
    for v in range(1, 2000):
        for _ in range(101):
            writer.write("refused", "warning", {"sender": v, "why": "nonsense"})
    found = written(writer)
    assert len(found) == (200 + 1) * 100
    writer.write("started", "info", {})
    writer.write("link closed", "info", {"neighbour": 1999, "why": "another event"})
    assert len(written(writer)) == len(found) + 2
