"""Commands in processes of their own, in which Ctrl-C is pressed at an exact moment.

A moment is the n-th call of a function of the package: a profiler counts calls, so that nothing has
to be slept for and the package needs no failpoints.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import levywalk
from tests.forked import FORKED, redirect
from tests.limits import PATIENCE

PACKAGE = str(Path(levywalk.__file__).parent) + os.sep
# Before these Python answers by itself, and after them the command is over.
_OUTSIDE = ("cli/entry.py", "cli/main.py:main")
_TRIES = 5  # runs until a moment must have come
Moment = tuple[str, int]  # a function and the number of its call


class Pressed(NamedTuple):
    """A command in which Ctrl-C was pressed: how it ended, where, and after how many seconds."""

    ended: subprocess.CompletedProcess[str]
    folder: Path
    seconds: float


def calls(arguments: list[str], cwd: Path) -> list[Moment]:
    """Run a command and return all calls of functions of the package in its main thread, in order.

    Functions that another run calls another number of times are left out.
    """
    first, second = (_seen(arguments, cwd / name) for name in ("one", "two"))
    again = Counter(second)
    stable = {name for name, count in Counter(first).items() if again[name] == count}
    found: list[Moment] = []
    count: Counter[str] = Counter()
    for name in first:
        if name in stable:
            count[name] += 1
            found.append((name, count[name]))
    return found


def spread(moments: list[Moment], count: int) -> list[Moment]:
    """Return moments at about equal distances: the first and the last call of every function."""
    last = Counter(name for name, _ in moments)
    ends = [moment for moment in moments if moment[1] in (1, last[moment[0]])]
    ends = [moment for moment in ends if not moment[0].startswith(_OUTSIDE)]
    return [ends[round(i * (len(ends) - 1) / max(count - 1, 1))] for i in range(count)]


def pressed(
    arguments: list[str], place: Callable[[], Path], moment: Moment, presses: int = 1
) -> Pressed:
    """Run a command in a folder of ``place`` with Ctrl-C at that moment.

    How long a piece of a walk is depends on the time that the last one took, so that a function may
    be called less often than in another run, however many runs have agreed. A run that ends before
    the moment comes is repeated in another folder, with the press at the last call that it made.
    """
    name, number = moment
    for _ in range(_TRIES):
        cwd = place()
        with tempfile.TemporaryDirectory() as folder:
            stamp, made = Path(folder, "pressed"), Path(folder, "made")
            how = {"moment": (name, number), "presses": presses}
            ended = _run(arguments, cwd, how | {"stamp": str(stamp), "made": str(made)})
            if stamp.exists():
                return Pressed(ended, cwd, time.monotonic() - float(stamp.read_text()))
            assert ended.returncode == 0, ended.stderr
            number = max(int(made.read_text()), 1)
    raise AssertionError(f"{moment} was not reached: {ended.stderr}")


def ran(arguments: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return _run(arguments, cwd, {})


def _seen(arguments: list[str], cwd: Path) -> list[str]:
    cwd.mkdir()
    for file in cwd.parent.glob("*.toml"):
        (cwd / file.name).write_text(file.read_text())
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "calls")
        ended = _run(arguments, cwd, {"log": str(log)})
        assert ended.returncode == 0, ended.stderr
        return json.loads(log.read_text())  # type: ignore[no-any-return]


def _run(arguments: list[str], cwd: Path, how: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryDirectory() as folder:
        said = [Path(folder, name) for name in ("out", "err")]
        process = FORKED.Process(target=_main, args=(arguments, cwd, dict(os.environ), how, *said))
        process.start()
        process.join(PATIENCE)
        code = process.exitcode
        if code is None:
            process.kill()
            raise subprocess.TimeoutExpired(arguments, PATIENCE)
        out, err = (path.read_text(encoding="utf-8") for path in said)
        return subprocess.CompletedProcess(arguments, code, out, err)


def _main(
    arguments: list[str],
    cwd: Path,
    environment: dict[str, str],
    how: dict[str, Any],
    out: Path,
    err: Path,
) -> None:
    redirect(cwd, environment, out, err)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = ["levywalk", *arguments]
    if arguments[0] == "reproduce":
        _shorten_reproduction()
    from levywalk.cli.entry import main

    names: dict[CodeType, str] = {}
    seen: list[str] = []
    wanted, number = how.get("moment", ("", 0))
    left = number

    def profile(frame: FrameType, event: str, _: Any) -> None:
        nonlocal left
        if event != "call":
            return
        code = frame.f_code
        name = names.get(code)
        if name is None:
            inside = code.co_filename.startswith(PACKAGE)
            place = code.co_filename.removeprefix(PACKAGE)
            name = names[code] = f"{place}:{code.co_qualname}" if inside else ""
        if not wanted:
            if name:
                seen.append(name)
        elif name == wanted:
            left -= 1
            if left == 0:
                sys.setprofile(None)
                Path(how["stamp"]).write_text(str(time.monotonic()))
                for _ in range(how["presses"]):
                    os.kill(os.getpid(), signal.SIGINT)

    if how:
        _compile_unwatched()
        sys.setprofile(profile)
    try:
        main()
    finally:
        sys.setprofile(None)
        if "log" in how:
            Path(how["log"]).write_text(json.dumps(seen))
        if "made" in how:
            Path(how["made"]).write_text(str(number - left))


def _compile_unwatched() -> None:
    """Let numba compile without the profiler, under which it takes several times as long."""
    from numba.core import compiler

    compile_extra = compiler.compile_extra

    def unwatched(*arguments: Any, **options: Any) -> Any:
        profile = sys.getprofile()
        sys.setprofile(None)
        try:
            return compile_extra(*arguments, **options)
        finally:
            sys.setprofile(profile)

    compiler.compile_extra = unwatched


def _shorten_reproduction() -> None:
    """Make `reproduce --quick` take a second."""
    from levywalk.reproduction import measurement, paper

    less = {"instances": 2, "tuning_instances": 1, "walks": 2, "tuning_walks": 2, "shorter": 500}
    paper.QUICK = dataclasses.replace(paper.QUICK, **less)
    measurement._SETTLED = measurement._MANY = 100
