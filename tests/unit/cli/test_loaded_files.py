"""A mistake in a file that --load runs is told in one line: the place, the mistake, the remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.forked import levywalk

START = "import levywalk as lw\n"
WALK = (
    START
    + """class Mine(lw.Walk):
    name = "mine"
    def {}
lw.register("design", "mine", Mine)
"""
)
MISTAKES = {
    "no Python": ("lw.register(", "line 1: SyntaxError: '(' was never closed; correct the file"),
    "a missing module": ("\nimport nothere", "line 2: ModuleNotFoundError: No module named"),
    "a typing error": (
        WALK.format("decide(self, view, memory, words):\n        return view.neighbors"),
        "line 5, in decide: AttributeError: 'LocalView' object has no attribute 'neighbors'",
    ),
    "a wrong signature": (
        WALK.format("decide(self, view):\n        return lw.Decision(view.node)"),
        "TypeError: Mine.decide() takes 2 positional arguments but 4 were given",
    ),
    "a missing method": (
        WALK.format("decides(self, view, memory, words):\n        pass"),
        "TypeError: Can't instantiate abstract class Mine with abstract method decide",
    ),
}


@pytest.mark.parametrize(("content", "told"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_in_a_loaded_file_is_one_line(tmp_path: Path, content: str, told: str) -> None:
    (tmp_path / "own.py").write_text(content)
    given = ["compare", "ring:10", "--designs", "mine", "--steps", "50", "--replicas", "1"]
    done = levywalk("--load", "own.py", *given, "--out", "out", cwd=tmp_path)
    assert done.returncode == 2
    line = done.stderr.strip().splitlines()[-1]
    assert line.startswith(f"error: {tmp_path / 'own.py'}")
    assert told in line
    assert "correct the file" in line
    assert "Traceback" not in done.stderr
