"""Sparse samples on real nodes: each keeps its own rows sparse, and the walk is that of the
reference backend with the same sparse problem, to the bit.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from typer.testing import CliRunner

import levywalk as lw
from levywalk.cli.main import app
from levywalk.errors import InvalidData
from levywalk.fleet.operate import export
from levywalk.fleet.operate.folder import FleetFolder
from levywalk.fleet.operate.merge import merge
from levywalk.fleet.runtime.own_data import own_problem
from levywalk.fleet.setup.build import Fleet
from levywalk.fleet.setup.create import create
from levywalk.fleet.setup.manifest import Manifest
from levywalk.fleet.setup.node_data import linear_samples, read_shard
from levywalk.fleet.setup.node_file import NodeFile
from levywalk.fleet.setup.read_fleet import fleet_of
from levywalk.fleet.setup.sparse_shard import sparse_arrays
from levywalk.fleet.simulate.virtual import VirtualFleet
from tests.fleet.test_every_loss import relayed
from tests.fleet.test_replay import assert_same
from tests.limits import eventually

N, ROWS, WIDTH = 4, 20, 1200
RNG = np.random.default_rng(3)
CSR = sp.random_array((ROWS, WIDTH), density=0.01, rng=RNG, format="csr")
NUMBERS, LABELS = RNG.standard_normal(ROWS), RNG.integers(0, 2, ROWS)
NODE = np.tile(np.arange(N), ROWS // N)
PROBLEMS: dict[str, lw.Problem] = {
    "logistic": lw.Logistic(CSR, LABELS, node=NODE, ridge=0.1),
    "several": lw.LeastSquares(CSR, np.stack([NUMBERS, -NUMBERS], axis=1), node=NODE, ridge=0.1),
    "softmax": lw.Softmax(CSR, NODE % 3, node=NODE, ridge=0.1),
}


def how(problem: lw.Problem, update: lw.Update | None = None, **more: Any) -> dict[str, Any]:
    given = {"network": lw.ring(N), "problem": problem, "design": lw.mhlj()}
    return given | {"steps": 40, "step_size": 0.05, "seed": 4, "update": update} | more


@pytest.mark.filterwarnings("ignore::levywalk.DataWarning")  # the reference is asked for
@pytest.mark.parametrize(
    ("name", "update"),
    [
        ("logistic", lw.sgd()),
        ("logistic", lw.adam(minibatch=2)),
        ("several", lw.sgd(minibatch=2)),
        ("softmax", lw.heavy_ball()),
    ],
)
def test_the_walk_is_that_of_the_reference_backend(
    tmp_path: Path, name: str, update: lw.Update
) -> None:
    given = how(PROBLEMS[name], update)
    expected = lw.run(**given, backend="reference", record_walk=True, record_every=8)
    virtual = VirtualFleet(fleet := Fleet.of(**given, record_every=8))
    assert virtual.run()
    assert_same(merge(virtual.logs, fleet), expected)
    at = create(tmp_path / "fleet", **given, shared_key=True, metrics=False)
    assert np.array_equal(relayed(at).model, expected.model[0])
    again: Any = fleet_of(at).problem
    problem: Any = PROBLEMS[name]
    assert (again.features != problem.sorted_features).nnz == 0
    assert np.array_equal(again.targets, problem.sorted_targets)
    assert np.array_equal(again.smoothness, problem.smoothness)
    # An oracle that knows nothing of sparse features.
    dense = type(problem)(CSR.toarray(), problem.targets, node=NODE, ridge=0.1)
    other = lw.run(**(given | {"problem": dense}), backend="reference")
    assert np.abs(other.model - expected.model).max() < 1e-9


def test_a_node_has_its_own_rows_and_no_dense_matrix(tmp_path: Path) -> None:
    at = create(tmp_path / "fleet", **how(PROBLEMS["logistic"]), metrics=False)
    manifest = Manifest.read(at / "manifest.json")
    for v in range(N):
        own: Any = own_problem(manifest, NodeFile.read(at / f"node-{v}" / "node.toml"))
        assert sp.issparse(own.features)
        assert (own.features != CSR[v == NODE]).nnz == 0
        assert (at / f"node-{v}" / "data.npz").stat().st_size < 8 * own.features.shape[0] * WIDTH


@pytest.mark.more
@pytest.mark.filterwarnings("ignore::levywalk.DataWarning")
def test_real_processes_with_sparse_rows_and_models_of_float32(tmp_path: Path) -> None:
    problem = lw.Logistic(CSR[:15], LABELS[:15], node=NODE[:15] % 3, ridge=0.1).astype("float32")
    given = how(problem, lw.sgd(minibatch=2), network=lw.ring(3), record_every=8)
    expected = lw.run(**given, backend="reference", record_walk=True)
    fleet = FleetFolder.open(create(tmp_path / "fleet", **given, shared_key=True, metrics=False))
    try:
        fleet.up()
        eventually(lambda: all(node["finished"] for node in fleet.status()["nodes"]))
    finally:
        fleet.stop(force=True)
    assert_same(export.trace(fleet), expected)
    export.model(fleet, tmp_path / "model.safetensors")
    found = lw.load_model(tmp_path / "model.safetensors")["model"]
    assert found.dtype == np.float32
    assert np.array_equal(found, expected.model[0])


def test_idle_nodes_have_no_rows(tmp_path: Path) -> None:
    problem = lw.Logistic(CSR, LABELS, node=NODE * 2, ridge=0.1, idle="pass")
    at = create(tmp_path / "fleet", **how(problem, network=lw.ring(8)), metrics=False)
    manifest, file = Manifest.read(at / "manifest.json"), at / "node-1" / "node.toml"
    assert own_problem(manifest, NodeFile.read(file)) is None
    (at / "node-1" / "data.npz").write_bytes((at / "node-2" / "data.npz").read_bytes())
    with pytest.raises(InvalidData, match=r"has 5 samples.*no data"):
        own_problem(manifest, NodeFile.read(file))


HOSTILE: dict[str, tuple[dict[str, Any], str]] = {
    "column": ({"feature_columns": [0, WIDTH]}, "indices must be <"),
    "negative": ({"feature_columns": [0, -1]}, "indices must be >="),
    "wrapped": ({"feature_columns": np.array([0, 2**64 - 1], np.uint64)}, "below 2\\^63"),
    "falling": ({"feature_starts": [0, 2, 1, 2]}, "non-decreasing"),
    "falling unsigned": ({"feature_starts": np.array([0, 2, 1, 2], np.uint64)}, "non-decreasing"),
    "first": ({"feature_starts": [1, 1, 2]}, "start with 0"),
    "length": ({"feature_starts": [0, 1, 3]}, "number of entries, 2, got 3"),
    "too much": ({"feature_starts": [0, 1, 1]}, "number of entries, 2, got 1"),
    "values": ({"feature_values": [1.0]}, "same size"),
    "finite": ({"feature_values": [1.0, np.nan]}, "must be finite"),
    "floats": ({"feature_columns": [0.0, 1.0]}, "plain arrays are needed"),
    "dims": ({"feature_values": [[1.0, 2.0]]}, "dimensions"),
    "both": ({"features": np.ones((2, WIDTH))}, "leave one of the two out"),
    "none": ({"feature_starts": [0]}, "no sample"),
    "targets": ({"targets": [1.0]}, "one entry per row"),
    "objects": ({"targets": np.array([None, 1])}, "plain arrays are needed"),
    "missing": ({"feature_values": None}, "has no array 'feature_values'"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_and_named(tmp_path: Path, name: str) -> None:
    changed, said = HOSTILE[name]
    whole = {"feature_starts": [0, 1, 2], "feature_columns": [3, 5], "feature_values": [1.0, 2.0]}
    arrays = whole | {"targets": [0.0, 1.0]} | changed
    path = tmp_path / "data.npz"
    np.savez(path, **{key: value for key, value in arrays.items() if value is not None})
    with pytest.raises(InvalidData, match=said) as raised:
        linear_samples(path, lw.losses.logistic(), WIDTH)
    assert str(path) in str(raised.value)


def test_repeated_columns_are_added_and_zeros_left_out(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    rows = {"feature_starts": [0, 3], "feature_columns": [7, 2, 7], "feature_values": [1.0, 0.0, 2]}
    np.savez(path, **rows, targets=[1.0])
    features, _ = linear_samples(path, lw.losses.logistic(), WIDTH)
    assert (features.indices.tolist(), features.data.tolist()) == ([7], [3.0])


def libsvm(path: Path) -> Path:
    rows = (
        " ".join([str(label), *(f"{j + 1}:{value!r}" for j, value in enumerate(row) if value)])
        for label, row in zip(LABELS.tolist(), CSR.toarray().tolist(), strict=True)
    )
    path.write_text("\n".join(rows) + "\n")
    return path


def test_the_command_keeps_a_libsvm_file_sparse_and_says_the_size_of_the_model(
    tmp_path: Path,
) -> None:
    data, at = libsvm(tmp_path / "few.svm"), tmp_path / "fleet"
    given = ["--network", "ring:4", "--data", str(data), "--loss", "logistic", "--ridge", "0.1"]
    done = CliRunner().invoke(app, ["fleet", "init", *given, "--steps", "9", str(at)])
    assert done.exit_code == 0, done.output
    width = Manifest.read(at / "manifest.json").published.dim
    assert f"The model is dense: {width:,} numbers, 9 KiB in each hand-off" in done.output
    own: Any = own_problem(
        Manifest.read(at / "manifest.json"), NodeFile.read(at / "node-0" / "node.toml")
    )
    assert sp.issparse(own.features)
    # An owner may put a LIBSVM file there instead.
    assert sp.issparse(linear_samples(data, lw.losses.logistic(), WIDTH)[0])
    # A model of a user's own gets dense arrays.
    assert isinstance(read_shard(data).features, np.ndarray)
    model = tmp_path / "own.py"
    model.write_text("def build(features, targets, node=None): ...\n")
    own_model = ["--model", f"{model}:build", "--data", str(data), "--network", "ring:4"]
    done = CliRunner().invoke(app, ["fleet", "init", *own_model, str(tmp_path / "other")])
    assert "add --dense" in str(done.exception)


def test_arrays_of_rows_come_back(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", **sparse_arrays(CSR), targets=NUMBERS)  # type: ignore[arg-type]
    features, targets = linear_samples(tmp_path / "data.npz", lw.losses.huber(), WIDTH)
    assert (features != CSR).nnz == 0
    assert np.array_equal(targets, NUMBERS)
