"""The README's fifteen lines run as they stand."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.limits import PATIENCE

README = Path(__file__).parents[2] / "README.md"


@pytest.mark.more
@pytest.mark.skipif(
    not README.exists(), reason="an installed package has no README beside its tests"
)
def test_the_fifteen_lines_run_and_draw_their_figure(tmp_path: Path) -> None:
    (code,) = re.findall(
        r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL
    )
    lines = [line for line in code.splitlines() if line.strip()]
    assert len(lines) <= 15
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Comparison(steps to 10 % of the initial error: UnifRW" in done.stdout
    assert (tmp_path / "comparison.png").stat().st_size > 10_000


def test_what_the_readme_links_to_exists() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README.read_text(encoding="utf-8")):
        assert (README.parent / target).exists(), target
