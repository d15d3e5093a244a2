"""The same bits on every machine: all widths of registers, groups and single walkers, two loops."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from functools import cache

import pytest

from levywalk.engine.kernels import machine
from tests.limits import mostly_soak

START = """
import hashlib
import numpy as np, levywalk as lw
rng, digest = np.random.default_rng(0), hashlib.sha256()
def add(problem, update=None):
    for replicas in (13, 1):  # wide groups, groups and single walkers
        trace = lw.run(lw.ring(30), problem, lw.mhlj(p_jump=0.2), steps=300, step_size=0.002,
                       replicas=replicas, record_walk=True, update=update, progress=False)
        for array in (trace.walk, trace.transfers, trace.hops, trace.model):
            digest.update(np.ascontiguousarray(array).tobytes())
def data(samples, dim):
    features = rng.normal(size=(samples, dim))
    return features, features @ rng.normal(size=dim)
"""
# Both losses, and all layouts: a short record, a long one, many samples. Each takes two loops,
# which are compiled for every width.
ONE_WALK = """
features, targets = data(30, 10)
add(lw.LeastSquares(features, targets, ridge=0.1))
"""
WALKS = """
add(lw.Logistic(features, (targets > 0).astype(float), ridge=0.1))
add(lw.LeastSquares(*data(30, 70), ridge=0.1))
features, targets = data(120, 7)
node = np.repeat(np.arange(30), 4)
add(lw.Logistic(features, (targets > 0).astype(float), node, ridge=0.1), lw.sgd(minibatch=2))
"""
# The same walk by the loops for tables in a slow cache and in memory, and by the usual ones.
FAR_WALKS = """
from levywalk.engine.kernels import tables
features, targets = data(30, 10)
for tables._NEAR_EDGES, tables._NEAR in ((0, tables._NEAR), (0, 0)):
    add(lw.LeastSquares(features, targets, ridge=0.1))
"""
NEAR_WALKS = FAR_WALKS.replace("tables._NEAR_EDGES, tables._NEAR in", "_ in")
ONE_TABLE = """
add(lw.LeastSquares(*data(120, 7), np.repeat(np.arange(30), 4)), lw.saga())
"""
TABLES = """
features, targets = data(30, 10)
add(lw.Logistic(features, (targets > 0).astype(float), ridge=0.1), lw.point_saga())
"""


def one_loss(what: str) -> bool:
    return what in (ONE_WALK, ONE_TABLE)


@cache
def digest(what: str, **environment: str) -> str:
    said = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", f"{START}{what}print(digest.hexdigest())"],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return said.stdout.strip()


# LLVM splits vectors that are wider than the registers, so every shape runs on every machine.
OTHERS = {
    "plain loop": {"LEVYWALK_KERNELS": "plain"},
    "shape of 512 bits": {"LEVYWALK_VECTOR_BITS": "512"},
    "shape of 256 bits": {"LEVYWALK_VECTOR_BITS": "256"},
    "shape of 128 bits": {"LEVYWALK_VECTOR_BITS": "128"},
}
if platform.machine() == "x86_64":
    # Registers of 128 bits with a fused multiply-add, as on ARM; and processors that have none.
    del OTHERS["shape of 128 bits"]  # the same shape
    OTHERS["128 bits"] = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "+avx,+fma"}
    OTHERS["no vectors"] = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "+sse2"}


@pytest.mark.more
@pytest.mark.parametrize(
    "what", mostly_soak([ONE_WALK, ONE_WALK + WALKS], one_loss), ids=["one", "all"]
)
@pytest.mark.parametrize("name", OTHERS)
def test_all_widths_and_both_loops_give_the_same_bits(name: str, what: str) -> None:
    assert digest(what, **OTHERS[name]) == digest(what)


VECTORS = [name for name in OTHERS if name != "plain loop"]


@pytest.mark.more
@pytest.mark.parametrize("name", mostly_soak(VECTORS, lambda name: name == VECTORS[-1]))
def test_tables_that_seem_far_away_give_the_same_bits_on_all_widths(name: str) -> None:
    assert digest(FAR_WALKS, **OTHERS[name]) == digest(NEAR_WALKS)


# The plain loop adds in another order: there the models agree to rounding.
CHOSEN = [name for name in ("shape of 512 bits", "no vectors") if name in OTHERS]


@pytest.mark.more
@pytest.mark.parametrize(
    "what", mostly_soak([ONE_TABLE, ONE_TABLE + TABLES], one_loss), ids=["one", "all"]
)
@pytest.mark.parametrize("name", mostly_soak(CHOSEN, lambda name: name == CHOSEN[-1]))
def test_updates_with_a_table_have_the_same_bits_on_all_widths(name: str, what: str) -> None:
    assert digest(what, **OTHERS[name]) == digest(what)


def test_the_width_follows_the_features_that_code_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = "+avx512f,+avx512dq,+avx512vl,+avx2"
    for features, bits in ((wide, 512), ("+avx2,+fma", 256), ("+sse2", 128), ("+neon", 128)):
        monkeypatch.setattr(machine.config, "CPU_FEATURES", features)
        machine.vector_bits.cache_clear()
        assert machine.vector_bits() == bits
        assert machine.shape().bits == bits
    monkeypatch.setenv("LEVYWALK_VECTOR_BITS", "100")
    machine.vector_bits.cache_clear()
    with pytest.raises(machine.InvalidParameter, match="128, 256 or 512"):
        machine.vector_bits()
    monkeypatch.undo()
    machine.vector_bits.cache_clear()
