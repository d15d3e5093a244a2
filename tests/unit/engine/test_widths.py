"""The same bits on every machine: all widths of registers, groups and single walkers, two loops."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from levywalk.engine.kernels import machine

WALKS = """
import hashlib
import numpy as np, levywalk as lw
rng, digest = np.random.default_rng(0), hashlib.sha256()
def add(problem, update=None):
    for replicas in (11, 1):
        trace = lw.run(lw.ring(30), problem, lw.mhlj(p_jump=0.2), steps=300, step_size=0.002,
                       replicas=replicas, record_walk=True, update=update, progress=False)
        for array in (trace.walk, trace.transfers, trace.hops, trace.model):
            digest.update(np.ascontiguousarray(array).tobytes())
for dim in (10, 70):
    features = rng.normal(size=(30, dim)); targets = features @ rng.normal(size=dim)
    add(lw.LeastSquares(features, targets, ridge=0.1))
    add(lw.Logistic(features, (targets > 0).astype(float), ridge=0.1))
features = rng.normal(size=(120, 7)); targets = features @ rng.normal(size=7)
node = np.repeat(np.arange(30), 4)
add(lw.LeastSquares(features, targets, node))
add(lw.Logistic(features, (targets > 0).astype(float), node, ridge=0.1), lw.sgd(minibatch=2))
print(digest.hexdigest())
"""


def digest(**environment: str) -> str:
    said = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", WALKS],
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
    OTHERS["128 bits"] = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "+avx,+fma"}
    OTHERS["no vectors"] = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "+sse2"}


@pytest.mark.more
def test_all_widths_and_both_loops_give_the_same_bits() -> None:
    here = digest()
    assert {name: digest(**environment) for name, environment in OTHERS.items()} == dict.fromkeys(
        OTHERS, here
    )


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
