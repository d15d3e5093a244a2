"""docs/promises.md names a test for each promise, and the tests exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
PAGE = (HERE.parents[1] / "docs" / "promises.md").read_text()
TABLE = PAGE.partition("## The test of each promise")[2]
# Headings without a row of their own: the first is about waiting, the last is the table.
WITHOUT = {"Slow or dead", "The test of each promise"}


def named() -> list[str]:
    return re.findall(r"`(test_\w+\.py::\w+)`", TABLE)


@cache
def functions_of(file: str) -> set[str]:
    tree = ast.parse((HERE / file).read_text())
    return {one.name for one in tree.body if isinstance(one, ast.FunctionDef)}


def test_every_test_that_is_named_exists() -> None:
    assert len(named()) > 50
    for name in named():
        file, _, function = name.partition("::")
        assert function in functions_of(file), name


def test_every_section_of_the_page_has_promises_with_tests() -> None:
    headings = set(re.findall(r"^## (.*)$", PAGE, re.MULTILINE)) - WITHOUT
    sections = re.findall(r"^\| \*\*(.*)\*\* \| \|$", TABLE, re.MULTILINE)
    assert set(sections) == headings
    rows = [line for line in TABLE.splitlines() if line.startswith("| ") and "**" not in line][1:]
    assert all("`test_" in line for line in rows)
