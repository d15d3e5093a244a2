"""A node may run on a small machine: what it imports must not bring the simulation's libraries
along.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from levywalk.problem import LeastSquares

HEAVY = ("scipy", "networkx", "numba", "pydantic", "matplotlib", "typer", "rich", "h5py", "xarray")
FEATURES, TARGETS = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 7.0]]), np.array([1.0, -1.0, 2.0])

NODE = """
import levywalk.fleet.identity.authority, levywalk.fleet.identity.node_identity
import levywalk.fleet.protocol.events, levywalk.fleet.protocol.messages, \
levywalk.fleet.protocol.node
import levywalk.fleet.protocol.node_step, levywalk.fleet.protocol.records
import levywalk.fleet.protocol.tensors, levywalk.fleet.protocol.token
import levywalk.fleet.storage.codec, levywalk.fleet.storage.store
from levywalk.walks import Detector, FixedDistance, JumpLaw, PowerLaw, TruncatedGeometric, hop, \
metropolis_hastings
from levywalk.draws import Key
from levywalk.problem import LeastSquares, Logistic
from levywalk.problem.files import load_dataset
from levywalk.schedule import Constant, Decaying, Dropping
from levywalk.updates import Sgd

Detector().bind(2, 1.0)
Logistic([[1.0], [2.0]], [0, 1]).smoothness
"""
ASK = """
problem = LeastSquares(*load_dataset(sys.argv[1]))
problem.local_loss(1, [1.0, 1.0])
print(problem.smoothness.tolist(), problem.local_gradient(1, [1.0, 1.0]).tolist())
"""


def loaded(code: str, *arguments: str) -> tuple[list[str], str]:
    """Run the code in a fresh process; return which heavy packages it loaded, and what it printed
    before.
    """
    code = f"import sys\n{code}\nprint(*(name for name in {HEAVY} if name in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    *printed, names = done.stdout.splitlines()
    return names.split(), "".join(printed)


@pytest.mark.parametrize("name", ["data.npz", "data.csv", "data.svm"])
def test_a_node_loads_no_library_of_the_simulation(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if path.suffix == ".npz":
        np.savez(path, features=FEATURES, targets=TARGETS)
    elif path.suffix == ".csv":
        np.savetxt(path, np.column_stack([FEATURES, TARGETS]), delimiter=",")
    else:
        path.write_text(
            "".join(f"{y} 1:{a} 2:{b}\n" for (a, b), y in zip(FEATURES, TARGETS, strict=True))
        )
    names, printed = loaded(NODE + ASK, str(path))
    assert names == []
    same = LeastSquares(FEATURES, TARGETS)
    assert printed == f"{same.smoothness.tolist()} {same.local_gradient(1, [1.0, 1.0]).tolist()}"


def test_the_probe_sees_what_is_loaded() -> None:
    names, _ = loaded("import levywalk.network")
    assert names == ["scipy"]
