"""Models of float32: rounded after each update, 4 bytes per number, kernel and reference alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import levywalk as lw
from tests.limits import mostly_more

RNG = np.random.default_rng(37)
N, DIM = 12, 6
NETWORK = lw.watts_strogatz(N, 4, 0.3, seed=1)
X = RNG.normal(size=(N, DIM))
LABELS = RNG.integers(0, 2, N)
DOUBLE = lw.Logistic(X, LABELS, ridge=0.1)
SINGLE = DOUBLE.astype("float32")
GIVEN: dict[str, Any] = {"steps": 400, "step_size": 0.1, "seed": 2, "replicas": 2}


def test_every_update_is_rounded() -> None:
    trace = lw.run(NETWORK, SINGLE, lw.unif_rw(), backend="reference", record_walk=True, **GIVEN)
    for r in range(2):
        x = np.zeros(DIM, np.float32)
        for v in trace.walk[r]:
            slope = 1 / (1 + np.exp(-X[v] @ x.astype(float))) - LABELS[v]
            x = (x - 0.1 * (slope * X[v] + 0.1 * x.astype(float))).astype(np.float32)
        assert trace.model[r] == pytest.approx(x, abs=1e-6)
        assert (trace.model[r] == trace.model[r].astype(np.float32)).all()


@pytest.mark.more
@pytest.mark.parametrize(
    "update",
    mostly_more([lw.sgd(), lw.saga()], lambda update: update.name == "sgd"),
    ids=lambda update: update.name,
)
def test_the_kernel_is_the_reference_to_1e_5(update: Any) -> None:
    runs = [
        lw.run(NETWORK, problem, lw.mhlj(), update=update, backend=backend, **GIVEN)
        for problem, backend in ((SINGLE, "kernel"), (SINGLE, "reference"), (DOUBLE, "kernel"))
    ]
    kernel, plain, double = runs
    assert kernel.model == pytest.approx(plain.model, abs=1e-5)
    assert kernel.model == pytest.approx(double.model, abs=1e-4)
    assert (kernel.model == kernel.model.astype(np.float32)).all()
    assert (kernel.model != double.model).any()
    sums = 0 if update.name == "sgd" else 8 * DIM
    assert (kernel.bytes == kernel.transfers * (4 * DIM + sums)).all()


def test_first_models_overflow_and_identity() -> None:
    x0 = np.full(DIM, 0.1)
    trace = lw.run(
        NETWORK, SINGLE, lw.unif_rw(), x0=x0, steps=1, step_size=1e-30, backend="reference"
    )
    assert (trace.model[0] == np.float32(0.1)).all()
    squares = lw.LeastSquares(X, X[:, 0]).astype("float32")
    for backend in ("kernel", "reference"):
        with pytest.warns(lw.DivergedWarning):
            trace = lw.run(
                NETWORK, squares, lw.unif_rw(), steps=400, step_size=9.0, backend=backend
            )
        assert trace.diverged_at[0] > 0
        assert np.abs(trace.model).max() < 3.5e38
    assert SINGLE.fingerprint() != DOUBLE.fingerprint()
    assert SINGLE.astype("float64").fingerprint() == DOUBLE.fingerprint()
    with pytest.raises(lw.InvalidParameter, match="dtype must be one of 'float64', 'float32'"):
        DOUBLE.astype("float16")


def test_where_it_does_not_work_it_says_so() -> None:
    sparse = lw.Logistic(sp.csr_array(X), LABELS, ridge=0.1).astype("float32")
    with pytest.raises(lw.InvalidParameter, match="float32 have no kernel for sparse features"):
        lw.run(NETWORK, sparse, lw.unif_rw(), backend="kernel", **GIVEN)
    with pytest.warns(lw.DataWarning, match="plain Python.*float32"):
        trace = lw.run(NETWORK, sparse, lw.unif_rw(), **GIVEN)
    assert (trace.model == trace.model.astype(np.float32)).all()


def test_there_is_one_way_to_say_the_type_of_a_model() -> None:
    """A problem's ``dtype`` is that of its models, whether or not updates compute in it."""

    class Own:
        n, dim, smoothness, dtype = N, DIM, np.ones(N), np.dtype("float32")

        def local_loss(self, v: int, x: Any) -> float:
            return float(((x - v) ** 2).sum())

        def local_gradient(self, v: int, x: Any) -> Any:
            return 2.0 * (x - v)

    with pytest.warns(lw.DataWarning, match="no optimum"):
        trace = lw.run(NETWORK, Own(), lw.unif_rw(), update=lw.heavy_ball(), **GIVEN)
    assert trace.provenance["problem"]["model_dtype"] == "float32"
    assert (trace.bytes == trace.transfers * 8 * DIM).all()  # the velocity is float32 too
    assert SINGLE.dtype == np.float32
    assert DOUBLE.dtype == np.float64
    trace = lw.run(
        NETWORK, SINGLE, lw.unif_rw(), update=lw.heavy_ball(), backend="reference", **GIVEN
    )
    assert trace.provenance["problem"]["model_dtype"] == "float32"
    assert (trace.bytes == trace.transfers * 12 * DIM).all()  # computed and kept in float64
