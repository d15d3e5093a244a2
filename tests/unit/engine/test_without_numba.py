"""The reference backend needs no numba, and measures the same errors without it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import levywalk as lw
from levywalk.engine import kernels, plain_measure

BLOCKED = """
import sys
sys.modules["numba"] = None
import levywalk as lw
squares = lw.homogeneous(8)
for problem in (squares, lw.Logistic(squares.features, [0, 1] * 4, ridge=0.1)):
    given = {"steps": 20, "step_size": 0.01, "backend": "reference"}
    trace = lw.run(lw.ring(8), problem, lw.mhlj(), **given)
    print(trace.distance2[0, -1] > 0, trace.excess_loss[0, -1] > 0)
    file = sys.argv[1] + type(problem).__name__
    for _ in range(2):  # the state is written, and read again
        again = lw.run(lw.ring(8), problem, lw.mhlj(), resume=file, **given)
        print((again.model == trace.model).all())
"""


UNINSTALLED = """
import importlib.metadata as metadata
installed = metadata.version
def version(name):
    if name == "numba":
        raise metadata.PackageNotFoundError(name)
    return installed(name)
metadata.version = version
"""


@pytest.mark.parametrize("code", [BLOCKED, UNINSTALLED + BLOCKED], ids=["blocked", "uninstalled"])
def test_the_reference_path_runs_without_numba(code: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "state")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == 2 * "True True\nTrue\nTrue\n", done.stderr


@pytest.mark.parametrize("logistic", [False, True])
def test_plain_and_compiled_errors_agree(logistic: bool) -> None:
    rng = np.random.default_rng(3)
    models, active = rng.normal(size=(3, 4, 5)), np.array([[True] * 4, [True] * 4, [False] * 4])
    models[1, 2] = 1e200
    problem = lw.homogeneous(20, dim=5)
    if logistic:
        labels = rng.integers(0, 2, 20).astype(float)
        ours, theirs = np.empty(12), np.empty(12)
        for module, out in ((kernels, ours), (plain_measure, theirs)):
            offsets = np.arange(21)
            rows = models.reshape(12, 5).clip(-1e3, 1e3)
            module.logistic_loss(rows, problem.features, labels, offsets, 0.2, out)
        assert ours == pytest.approx(theirs, rel=1e-12)
        return
    ours, theirs = np.empty((3, 3, 6)), np.empty((3, 3, 6))
    for module, out in ((kernels, ours), (plain_measure, theirs)):
        out.fill(np.nan)
        given = (models, active, problem.optimum, problem.hessian, 0.25, out, 1)
        module.quadratic_excess(*given)
    assert np.array_equal(np.isnan(ours), np.isnan(theirs))
    assert np.allclose(ours, theirs, rtol=1e-11, equal_nan=True)
