"""The examples of docs/models.md run as they are printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "models.md"


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_the_examples_of_the_page_run(
    framework: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(framework, reason=f"needs levywalk[{framework}]; `make frameworks` has it")
    (code,) = re.findall(rf"```python {framework}\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(compile(code.replace("steps=2000", "steps=100"), str(PAGE), "exec"), names)
    trace = names["trace"]
    assert trace.provenance["backend"] == "batched"  # type: ignore[attr-defined]
    assert trace.loss[:, -1].mean() < trace.loss[:, 0].mean()  # type: ignore[attr-defined]
