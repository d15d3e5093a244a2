"""Files of a fleet's folder that are not what they should be end no command with a traceback."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from levywalk.cli.main import app
from levywalk.errors import LevywalkError
from tests.fleet.nodes import make
from tests.limits import mostly_more


def lock(text: str) -> Callable[[Path], None]:
    """Return what writes a text into the lock of a node that does not run."""

    def write(node: Path) -> None:
        (node / "state").mkdir(exist_ok=True)
        (node / "state" / "lock").write_text(text)

    return write


def log(line: bytes) -> Callable[[Path], None]:
    """Return what writes two lines into the log of a node."""

    def write(node: Path) -> None:
        (node / "node.log").write_bytes(b'{"time": "2026", "event": "started"}\n' + line + b"\n")

    return write


def folder(name: str) -> Callable[[Path], None]:
    """Return what puts a folder where a file should be."""

    def write(node: Path) -> None:
        (node / name).unlink(missing_ok=True)
        (node / name).mkdir()

    return write


def dangling(node: Path) -> None:
    (node / "loop").symlink_to(node / "loop")
    (node / "state").mkdir(exist_ok=True)
    (node / "state" / "nowhere").symlink_to(node / "absent")


ODD = {
    "a lock with a number that is too large": lock("9" * 19),
    "a lock that names all processes": lock("-1"),
    "a lock that names the first process": lock("1"),
    "a log that is a folder": folder("node.log"),
    "a log with a very deep line": log(b"[" * 200_000),
    "a log with a time that is a number": log(b'{"time": 3, "event": "x"}'),
    "a key that is a folder": folder("node.key"),
    "a certificate that is a folder": folder("node.crt"),
    "links that lead nowhere": dangling,
}
COMMANDS = (["status"], ["doctor"], ["logs"], ["stop"], ["gone", "1"], ["rejoin", "1"], ["revive"])


@pytest.mark.parametrize("odd", mostly_more(ODD, lambda odd: "too large" in odd or "key" in odd))
def test_every_command_says_what_is_wrong_or_does_its_work(tmp_path: Path, odd: str) -> None:
    fleet = make(tmp_path / "fleet", 3)
    ODD[odd](fleet / "node-1")
    for command, *more in (*COMMANDS, ["rotate"], ["revoke", "1"]):
        done = CliRunner().invoke(app, ["fleet", command, str(fleet), *more])
        raised = done.exception
        # `levywalk` prints a LevywalkError as a message (tests/unit/cli/test_command.py).
        assert raised is None or isinstance(raised, SystemExit | LevywalkError), (command, raised)
        assert done.exit_code in (0, 1, 2), command
