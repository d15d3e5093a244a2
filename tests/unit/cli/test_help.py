"""The help of every command: brackets are text, switches take no value, lines fit a terminal."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
import typer
from typer.testing import CliRunner

from levywalk.cli.main import app


def commands() -> list[tuple[str, ...]]:
    """Return the words of every command."""
    top = typer.main.get_command(app)
    found: list[tuple[str, ...]] = [()]
    for name, command in top.commands.items():  # type: ignore[attr-defined]
        found.append((name,))
        found += [(name, inner) for inner in getattr(command, "commands", {})]
    return found


def helped(*words: str) -> str:
    done = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "80", "TERM": "dumb"})
    assert done.exit_code == 0
    return done.stdout


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_help_fits_and_switches_are_switches(words: tuple[str, ...]) -> None:
    text = helped(*words)
    assert "<bool>" not in text.replace("\n", "")
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "..." not in text.partition("Commands:")[2]


def test_the_sweep_table_is_text() -> None:
    assert "table [sweep]" in helped("sweep")


def test_a_mistyped_command_is_answered_with_the_right_one() -> None:
    done = CliRunner().invoke(app, ["comapre"])
    assert done.exit_code == 2
    assert "compare" in done.output
    assert isinstance(done.exception, SystemExit | click.ClickException)


@pytest.mark.more
def test_completion_is_installed_and_completes(tmp_path: Path) -> None:
    own = {
        "HOME": str(tmp_path),
        "SHELL": "/bin/bash",
        "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1",
    }
    run = [sys.executable, "-c", "import sys; sys.argv[0] = 'levywalk'; "
           "from levywalk.cli.main import main; main()"]  # fmt: skip
    done = subprocess.run(
        [*run, "--install-completion", "bash"],
        env=os.environ | own, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    script = tmp_path / ".bash_completions" / "levywalk.sh"
    assert "_LEVYWALK_COMPLETE=complete_bash" in script.read_text()
    asked = {
        "_LEVYWALK_COMPLETE": "complete_bash",
        "COMP_WORDS": "levywalk insp",
        "COMP_CWORD": "1",
    }
    done = subprocess.run(
        run, env=os.environ | own | asked, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["inspect"]
