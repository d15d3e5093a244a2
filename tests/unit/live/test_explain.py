"""The page that opens from disk: one small file that asks nobody for anything."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import levywalk as lw
from levywalk.cli.main import app
from levywalk.live.explain import explain_page, write_explain


def test_the_page_is_small_and_complete() -> None:
    page = explain_page()
    assert len(page.encode()) < 150_000
    assert not re.search(r"(src|href)=\"(?!data:|#)", page)
    assert "http://" not in page.replace("http-equiv", "")
    assert "https://" not in page
    assert "default-src 'none'" in page


def test_the_command_writes_it(tmp_path: Path) -> None:
    out = tmp_path / "mine.html"
    done = CliRunner().invoke(app, ["explain", "--out", str(out), "--seed", "4"])
    assert done.exit_code == 0
    assert str(out) in done.output
    assert out.read_text() == explain_page(4)


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(lw.InvalidParameter, match="can be written"):
        write_explain(tmp_path / "no" / "such" / "folder.html")
