"""`levywalk doctor`: what it checks, its exit code and its JSON."""

from __future__ import annotations

import json
import os
import shlex
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import levywalk as lw
from levywalk.cli.main import app
from levywalk.engine import installation
from levywalk.extras import EXTRAS, Extra, pip_command


def asked(*options: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["doctor", *options])
    return done.exit_code, done.stdout


def test_everything_is_checked_and_a_good_installation_has_no_problem() -> None:
    code, text = asked("--json")
    found = json.loads(text)
    said = " ".join(check["what"] for check in found["checks"])
    assert code == 0
    assert found["problems"] == 0
    parts = ("Python 3.", "numba 0.", "llvmlite 0.", "cores", "bits", "C compiler", "GB free")
    assert all(part in said for part in (*parts, lw.__version__, "compiled code is stored in"))
    assert all(f"extra {name}" in said for name in EXTRAS)
    assert "a compiled walk of 200 steps equals the one in plain Python" in said


def test_what_is_missing_is_a_note_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = Extra("frames", ("no_such_module",), "tables")
    monkeypatch.setitem(installation.EXTRAS, "frames", absent)
    code, text = asked()
    assert code == 0
    assert f"note     extra frames lacks no_such_module, for: tables\n{'':8} → " in text
    assert f"→ {pip_command('frames')}\n" in text
    assert text.endswith("No problems.\n")


def test_a_problem_gives_exit_code_1_and_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "_writable", lambda folder: False)
    code, text = asked()
    assert code == 1
    assert "problem  compiled code would be stored in " in text
    assert "→ export NUMBA_CACHE_DIR=" in text
    assert text.endswith("\n1 problem.\n")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_rights_cannot_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert not installation._writable(tmp_path / "new")


def test_a_file_in_the_way_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert not installation._writable(tmp_path / "file")
    assert installation._writable(tmp_path / "new")


def test_a_wrong_compiled_walk_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = import_module("levywalk.engine.run")
    real = engine.run

    def wrong(*arguments: Any, backend: str, **options: Any) -> lw.Trace:
        trace = real(*arguments, backend=backend, **options)
        walk = trace.walk.copy()
        walk[0, -1] = (walk[0, -1] + (backend == "kernel")) % 20
        return replace(trace, walk=walk)

    monkeypatch.setattr(engine, "run", wrong)
    found = installation._compiled_walk()
    assert found.level == "problem"
    assert "do not use its numbers" in found.what


def test_a_full_disk_is_seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for free, level in ((1 << 34, "ok"), (1 << 29, "note"), (1 << 20, "problem")):
        usage = type("Usage", (), {"free": free})
        monkeypatch.setattr(installation.shutil, "disk_usage", lambda _, usage=usage: usage)
        assert installation._space(tmp_path).level == level


def test_levels_are_names_and_their_json_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    few = [installation._compiler(), installation._vectors()]
    assert all(type(check.level) is installation.CheckLevel for check in few)
    monkeypatch.setattr(installation, "check_installation", lambda: iter(few))
    found = json.loads(CliRunner().invoke(app, ["doctor", "--json"]).output)
    assert [check["level"] for check in found["checks"]] == [str(check.level) for check in few]


def test_the_command_for_an_extra_can_be_typed() -> None:
    words = shlex.split(pip_command("fleet"))
    assert words[1:] == ["-m", "pip", "install", "levywalk[fleet]"]
    assert Path(words[0]).exists()
