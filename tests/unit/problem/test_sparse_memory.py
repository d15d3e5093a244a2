"""A LIBSVM file with 47,000 features runs in a part of the memory of the dense matrix, also with
SAGA.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.limits import mostly_soak

FEATURES, NONZEROS = 47_000, 75
CHILD = """
import json, resource, sys
import numpy as np
import levywalk as lw

data = lw.read_data(sys.argv[1])
network = lw.watts_strogatz(int(sys.argv[2]), 4, 0.1, seed=0)
node = lw.partition(data.features, data.targets, network.n, seed=0)
problem = lw.Logistic(data.features, data.targets, node, ridge=1e-3)
found = {"shape": data.features.shape, "words": data.description}
for update, gamma in ((lw.sgd(minibatch=1), 0.02), (lw.saga(minibatch=1), "theory")):
    trace = lw.run(network, problem, lw.mhlj(), steps=int(sys.argv[3]), step_size=gamma,
                   update=update, replicas=2, seed=1)
    found[update.name] = [trace.provenance["backend"], *trace.distance2.mean(axis=0)[[0, -1]]]
found["gib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
print(json.dumps(found))
"""


def write(path: Path, samples: int) -> None:
    """Write samples with the density of rcv1: few features are frequent, and most are rare."""
    rng = np.random.default_rng(0)
    truth = rng.normal(size=FEATURES)
    with path.open("w") as file:
        for _ in range(samples):
            columns = np.unique((FEATURES * rng.random(NONZEROS) ** 3).astype(int))
            values = rng.exponential(size=len(columns))
            values /= np.linalg.norm(values)
            label = 1 if values @ truth[columns] + 0.3 * rng.normal() > 0 else -1
            pairs = " ".join(f"{j + 1}:{x:.4f}" for j, x in zip(columns, values, strict=True))
            file.write(f"{label} {pairs}\n")


# Samples, nodes, steps, and the limit in GiB; the dense matrix alone would take 1.4 and 7 GiB,
# and compiling takes half of one.
SIZES = [(4_000, 1_000, 60_000, 1.3), (20_000, 5_000, 300_000, 2.0)]


@pytest.mark.more
@pytest.mark.parametrize("size", mostly_soak(SIZES, lambda size: size[0] == 4_000))
def test_a_file_as_sparse_as_rcv1_takes_little_memory(
    size: tuple[int, int, int, float], tmp_path: Path
) -> None:
    samples, nodes, steps, limit = size
    file = tmp_path / "made.svm"
    write(file, samples)
    command = [sys.executable, "-c", CHILD, str(file), str(nodes), str(steps)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["shape"][0] == samples
    assert FEATURES - 200 < found["shape"][1] <= FEATURES
    assert "kept sparse" in found["words"]
    for update in ("sgd", "saga"):
        backend, first, last = found[update]
        assert backend == "kernel"
        assert last < 0.9 * first
    assert found["gib"] < limit
