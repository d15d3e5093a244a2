"""A model of a user's own in a fleet: built from a file that every operator installs, in its own
type, with metrics on held-out data.
"""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from typer.testing import CliRunner

import levywalk as lw
from levywalk.cli.main import app
from levywalk.errors import InvalidData, InvalidParameter, InvalidSpec, LevywalkError, MissingFile
from levywalk.fleet.checking.running_fleet import RunningFleet
from levywalk.fleet.operate import export
from levywalk.fleet.operate.fleet_status import fleet_status, view_nodes
from levywalk.fleet.operate.folder import FleetFolder
from levywalk.fleet.operate.merge import merge, with_metrics
from levywalk.fleet.operate.whole_status import joint_status as together_status
from levywalk.fleet.protocol import messages
from levywalk.fleet.protocol.events import Persist
from levywalk.fleet.protocol.node_step import Measured
from levywalk.fleet.protocol.records import Disk, Known, Own
from levywalk.fleet.protocol.schema import TensorSchema
from levywalk.fleet.protocol.tensors import CHUNK, Incoming, Malformed, Tensor
from levywalk.fleet.protocol.terms import HandOffTerms
from levywalk.fleet.protocol.token import FIRST, Token
from levywalk.fleet.runtime.own_data import own_part, own_problem
from levywalk.fleet.runtime.sightings import Sightings
from levywalk.fleet.runtime.wire import (
    FORMAT,
    Hello,
    Reader,
    chunk_frames,
    encode_frame,
    hello_frame,
)
from levywalk.fleet.setup.build import Fleet
from levywalk.fleet.setup.built import BuiltProblem, OwnMetrics, built_problem
from levywalk.fleet.setup.create import create
from levywalk.fleet.setup.manifest import Manifest
from levywalk.fleet.setup.node_data import Shard
from levywalk.fleet.setup.node_file import NodeFile
from levywalk.fleet.setup.read_fleet import fleet_of
from levywalk.fleet.setup.shards import read_scores, read_shards, with_held_out
from levywalk.fleet.simulate.virtual import VirtualFleet
from levywalk.fleet.storage.codec import decode_line, decode_slot, encode
from levywalk.fleet.storage.limits import Limits
from levywalk.fleet.storage.store import NodeStore, whole
from levywalk.problem.named import ModelArrays
from tests.fleet.test_every_loss import relayed
from tests.fleet.test_lean import HEAVY
from tests.limits import PATIENCE, eventually

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_model.py"
pytestmark = pytest.mark.filterwarnings("ignore:problem has no optimum")
N = 4
SIZES = (12, 7, 9, 15)


def shards_of_noise(pixels: int = 64) -> list[Shard]:
    rng = np.random.default_rng(1)
    found = []
    for size in SIZES:
        rows = rng.integers(0, 17, (size, pixels)).astype(np.float64)
        found.append(Shard(rows, rng.integers(0, 10, size)))
    return found


def together(problem: BuiltProblem) -> Any:
    """Return the user's own problem of all nodes' samples, as a simulation has it."""
    features, targets = (np.concatenate([shard[i] for shard in problem.shards]) for i in range(2))
    node = np.repeat(np.arange(len(problem.shards)), [len(s.targets) for s in problem.shards])
    return problem._loaded.build(features, targets, node=node)


def built(path: Path = EXAMPLE, held_out: float | None = 0.25, **more: Any) -> BuiltProblem:
    shards = shards_of_noise()
    if held_out is not None:
        shards = with_held_out(shards, held_out, seed=2)
    return built_problem(path, "build", shards, **more)


HOW: dict[str, Any] = {"steps": 40, "step_size": 0.02, "seed": 5, "record_every": 4}


def make(folder: Path, problem: BuiltProblem, **changes: Any) -> Path:
    given = HOW | {"update": lw.adam(minibatch=5), "shared_key": True, "metrics": False} | changes
    design = given.pop("design", lw.unif_rw())
    return create(folder, lw.ring(N), problem, design, **given)


def node_file(folder: Path, v: int = 1) -> NodeFile:
    return NodeFile.read(folder / f"node-{v}" / "node.toml")


def written(folder: Path, code: str) -> Path:
    """Write a file of a model."""
    path = folder / "my_model.py"
    path.write_text(code)
    return path


# The walk


@pytest.mark.parametrize(
    "update", [lw.adam(minibatch=5), lw.averaged(lw.heavy_ball())], ids=lambda one: one.name
)
def test_the_walk_is_that_of_the_reference_backend(tmp_path: Path, update: lw.Update) -> None:
    problem = built()
    expected = lw.run(
        lw.ring(N), together(problem), lw.unif_rw(), **HOW, update=update, backend="reference",
        record_walk=True,
    )  # fmt: skip
    assert np.array_equal(expected.model, expected.model.astype(np.float32))
    at = make(tmp_path / "fleet", problem, update=update)
    last = relayed(at)
    assert np.array_equal(last.model, expected.model[0])
    again = fleet_of(at)
    virtual = VirtualFleet(again)
    assert virtual.run()
    found = merge(virtual.logs, again)
    assert np.array_equal(found.walk, expected.walk)
    assert np.array_equal(found.model, expected.model)
    assert np.array_equal(found.bytes, expected.bytes)
    assert last.transfers == expected.transfers[0, -1]


def test_a_loss_of_the_package_in_a_file_of_ones_own_is_the_same_walk(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "import levywalk as lw\n"
        "def build(features, targets, node=None):\n"
        "    return lw.LeastSquares(features[:, :9], targets, node=node, ridge=0.1)\n",
    )
    problem = built(path, held_out=None)
    how = {"update": lw.sgd(minibatch=3), "step_size": "theory"}
    at = make(tmp_path / "fleet", problem, **how, design=lw.mhlj())
    given = HOW | how | {"backend": "reference"}
    direct = lw.run(lw.ring(N), together(problem), lw.mhlj(), **given)
    assert np.array_equal(relayed(at).model, direct.model[0])
    assert Manifest.read(at / "manifest.json").schema is None  # one vector of float64, as before


def test_a_loss_of_the_package_with_models_of_float32_is_rounded_on_nodes_too(
    tmp_path: Path,
) -> None:
    path = written(
        tmp_path,
        "import levywalk as lw\n"
        "def build(features, targets, node=None):\n"
        "    made = lw.LeastSquares(features[:, :9], targets, node=node, ridge=0.1)\n"
        "    return made.astype('float32')\n",
    )
    problem = built(path, held_out=None)
    for update, tolerance in ((lw.sgd(), 0.0), (lw.heavy_ball(minibatch=2), 1e-6)):
        given = HOW | {"step_size": 1e-4, "update": update}
        at = make(tmp_path / update.name, problem, **given)
        direct = lw.run(lw.ring(N), together(problem), lw.unif_rw(), **given, backend="reference")
        model = relayed(at).model
        assert np.array_equal(model, model.astype(np.float32))
        assert np.abs(model - direct.model[0]).max() <= tolerance * np.abs(model).max()
        schema = Manifest.read(at / "manifest.json").schema
        assert schema is not None
        assert schema.dtype == np.float32


def test_metrics_are_those_of_the_node_that_has_the_model(tmp_path: Path) -> None:
    problem = built()
    fleet = Fleet.of(lw.ring(N), problem, lw.unif_rw(), **HOW)
    virtual = VirtualFleet(fleet)
    assert virtual.run()
    lines = [(v, line) for v, log in virtual.logs.items() for line in log]
    kept = {
        line.step: (v, line.model) for v, line in lines if getattr(line, "model", None) is not None
    }
    told = {line.step: (v, line.values) for v, line in lines if isinstance(line, Measured)}
    assert sorted(told) == sorted(kept) == [*range(0, 40, 4), 40]
    for step, (v, (accuracy,)) in told.items():
        shard = problem.shards[v]
        model = problem.arrays.unpack(kept[step][1])  # type: ignore[union-attr]
        assert (v, shard.held_targets is not None) == (kept[step][0], True)
        pixels = np.asarray(shard.held_features) / 16.0
        hidden = np.tanh(pixels @ model["hidden.weight"] + model["hidden.bias"])
        best = (hidden @ model["output.weight"] + model["output.bias"]).argmax(axis=1)
        assert accuracy == np.mean(best == shard.held_targets)
    trace = merge(virtual.logs, fleet)
    if hasattr(trace, "metrics"):
        values = [told[step][1][0] for step in sorted(told)]
        assert trace.metrics["accuracy"].tolist() == [values]


def test_a_metric_that_fails_is_no_number_and_stops_nothing(tmp_path: Path) -> None:
    code = EXAMPLE.read_text() + (
        "\ncalls = []\n"
        "def metrics(features, targets):\n"
        "    def odd(model):\n"
        "        calls.append(0)\n"
        "        return 1 / (len(calls) % 2)\n"
        "    return {'odd': odd}\n"
    )
    problem = built(written(tmp_path, code))
    virtual = VirtualFleet(Fleet.of(lw.ring(N), problem, lw.unif_rw(), **HOW))
    assert virtual.run()
    values = [
        line.values[0]
        for log in virtual.logs.values()
        for line in log
        if isinstance(line, Measured)
    ]
    assert set(map(str, values)) == {"1.0", "nan"}


def test_a_metric_that_is_no_number_shows_in_the_mean(tmp_path: Path) -> None:
    fleet = FleetFolder.open(make(tmp_path / "fleet", built()))
    for v, file in fleet.files.items():
        value = math.nan if v == 1 else 0.5
        with NodeStore(file.state, fleet.manifest.digest) as store:
            store.persist(whole(Disk(Known(FIRST, 0), Own(2, 0, leaving=False), {})))
            store.persist(Persist({}, (Measured(FIRST, 0, (value,)),)))
    found = fleet.status()
    assert [math.isnan(row["metrics"]["accuracy"]) for row in found["nodes"]] == [0, 1, 0, 0]
    assert math.isnan(found["metrics"]["accuracy"])
    both = together_status([found, found], fleet.manifest)
    assert math.isnan(both["metrics"]["accuracy"])
    place = str(tmp_path / "fleet")
    said = CliRunner().invoke(app, ["fleet", "status", place, "--json"]).output
    assert json.loads(said)["metrics"] == {"accuracy": None}
    assert "nan" in CliRunner().invoke(app, ["fleet", "status", place]).output


def test_a_running_node_tells_a_metric_that_is_no_number() -> None:
    disk = Disk(Known(FIRST, 0), Own(2, 0, leaving=False), {})
    problem = built()
    odd = OwnMetrics(problem, {"odd": lambda model: math.inf, "one": lambda model: 1.0})
    seen = Sightings(disk, None, odd)
    assert seen.metrics() == {}
    seen.taken = Token.first(problem.x0.astype(np.float64))
    assert list(map(str, seen.metrics().values())) == ["nan", "1.0"]


# What a node refuses


def test_a_node_refuses_a_file_that_is_missing_or_was_changed(tmp_path: Path) -> None:
    path = tmp_path / "my_model.py"
    shutil.copy(EXAMPLE, path)
    at = make(tmp_path / "fleet", built(path))
    manifest, file = Manifest.read(at / "manifest.json"), node_file(at)
    assert own_problem(manifest, file) is not None
    assert manifest.code is not None
    path.write_text(path.read_text() + "\nraise SystemExit('run')\n")
    with pytest.raises(InvalidSpec, match=r"has the sha256 .*\(nothing of it was run"):
        own_problem(manifest, file)
    path.unlink()
    with pytest.raises(
        MissingFile, match=f"install it there with the sha256 {manifest.code.sha256}"
    ):
        own_problem(manifest, file)
    node = subprocess.run(
        [sys.executable, "-m", "levywalk", "node", str(at / "node-1" / "node.toml")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert node.returncode == 1
    assert "does not exist: install it there" in node.stdout
    assert not (at / "node-1" / "state").exists()  # nothing has begun


def test_on_other_machines_the_file_is_beside_the_node_file_and_is_not_copied(
    tmp_path: Path,
) -> None:
    at = make(tmp_path / "fleet", built(), addresses=[f"host{v}:7000" for v in range(N)])
    assert node_file(at).model == at.resolve() / "node-1" / "own_model.py"
    assert not list(at.rglob("*.py"))
    texts = [path.read_bytes() for path in at.rglob("*") if path.is_file()]
    assert not any(b"def build" in text for text in texts)
    with pytest.raises(MissingFile, match=r"node-1/own_model\.py does not exist"):
        own_problem(Manifest.read(at / "manifest.json"), node_file(at))
    shutil.copy(EXAMPLE, at / "node-1")
    assert own_problem(Manifest.read(at / "manifest.json"), node_file(at)) is not None


SAMPLES = """
import numpy as np
class Own:
    {attributes}
    def __init__(self, n, classes):
        self.n, self.model_arrays = n, {{"w": (64, classes)}}
        self.smoothness = np.ones(n)
    def local_loss(self, v, x):
        return 0.0
    def local_gradient(self, v, x):
        return {{"w": np.zeros({gradient})}}
def build(features, targets, node=None):
    return Own({n}, {classes})
"""


def own_file(
    folder: Path,
    n: str = "int(node.max()) + 1",
    classes: str = "2",
    gradient: str = "(64, 2)",
    attributes: str = "",
) -> Path:
    return written(
        folder, SAMPLES.format(n=n, classes=classes, gradient=gradient, attributes=attributes)
    )


BAD: dict[str, tuple[Callable[[Path], Path], str]] = {
    "no function": (
        lambda at: written(at, "def train(): ..."),
        "no function 'build'; it has train",
    ),
    "syntax": (lambda at: written(at, "def build(:"), r"cannot be run: SyntaxError"),
    "import": (lambda at: written(at, "import nothing_like_it"), "install what it imports"),
    "raises": (
        lambda at: written(at, "def build(features, targets, node=None):\n    return 1 / 0"),
        r"build of .*my_model\.py has failed: ZeroDivisionError: .* \(line 2\)",
    ),
    "no problem": (
        lambda at: written(at, "def build(features, targets, node=None):\n    return 7"),
        "must return a problem, got int, which lacks n, local_loss",
    ),
    "nodes": (lambda at: own_file(at, n="3"), "a problem with 4 nodes, .* got n = 3"),
    "gradient": (lambda at: own_file(at, gradient="3"), "'w' must have shape"),
    "dtype": (lambda at: own_file(at, attributes="dtype = 'float16'"), "dtype float64 or float32"),
    "x0": (
        lambda at: own_file(at, attributes="x0 = {'w': np.full((64, 2), np.nan)}"),
        "x0|finite",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_file_that_builds_no_problem_is_refused_in_words(tmp_path: Path, case: str) -> None:
    write, expected = BAD[case]
    with pytest.raises(LevywalkError, match=expected):
        built(write(tmp_path), held_out=None)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MissingFile, match="install it there"):
        built(tmp_path / "none.py")


def test_arrays_that_depend_on_a_nodes_samples_are_refused_there(tmp_path: Path) -> None:
    path = own_file(tmp_path, classes="int(len(set(targets)))", gradient="self.model_arrays['w']")
    at = make(tmp_path / "fleet", built(path, held_out=None), update=lw.sgd())
    with pytest.raises(InvalidSpec, match=r"the manifest says w float64\[64, 10\]"):
        own_problem(Manifest.read(at / "manifest.json"), node_file(at))


def test_a_shard_of_another_shape_is_refused_at_the_node(tmp_path: Path) -> None:
    at = make(tmp_path / "fleet", built(held_out=None))
    manifest, file = Manifest.read(at / "manifest.json"), node_file(at)
    np.savez(file.data, features=np.zeros((3, 9)), targets=np.zeros(3))
    with pytest.raises(InvalidData, match=r"must have the shape \(64,\).* got \(9,\)"):
        own_problem(manifest, file)
    file.data.unlink()
    with pytest.raises(MissingFile, match="put the node's data file there"):
        own_problem(manifest, file)


CHANGES: dict[str, tuple[list[str], Any]] = {
    "a folder": (["problem", "code", "file"], "../own_model.py"),
    "no Python": (["problem", "code", "file"], "own_model.so"),
    "function": (["problem", "code", "function"], "os.system"),
    "hash": (["problem", "code", "sha256"], "ab"),
    "sample": (["problem", "code", "sample"], [0]),
    "metrics": (["problem", "code", "metrics"], ["a b"]),
    "more": (["problem", "code", "more"], 1),
    "x0": (["model", "x0"], "zero"),
    "dtype": (["model", "arrays", 0, "dtype"], "float16"),  # type: ignore[list-item]
    "two types": (["model", "arrays", 0, "dtype"], "float64"),  # type: ignore[list-item]
    "shape": (["model", "arrays", 0, "shape"], [-1]),  # type: ignore[list-item]
    "huge": (["model", "arrays", 0, "shape"], [1 << 20, 1 << 20]),  # type: ignore[list-item]
    "twice": (["model", "arrays", 0, "name"], "hidden.bias"),  # type: ignore[list-item]
    "no arrays": (["model", "arrays"], []),
}


@pytest.fixture(scope="module")
def fleet_text() -> bytes:
    return Manifest.of(Fleet.of(lw.ring(N), built(), lw.unif_rw(), **HOW), name="own").text


@pytest.mark.parametrize("case", CHANGES)
def test_a_manifest_with_impossible_code_or_arrays_is_refused(fleet_text: bytes, case: str) -> None:
    content = json.loads(fleet_text)
    assert Manifest.parse(fleet_text).code is not None
    (*keys, last), value = CHANGES[case]
    table = content
    for key in keys:
        table = table[key]
    table[last] = value
    with pytest.raises(InvalidSpec):
        Manifest.parse(json.dumps(content).encode())


def test_the_first_model_is_compared_with_the_manifest(tmp_path: Path) -> None:
    at = make(tmp_path / "fleet", built())
    manifest = Manifest.read(at / "manifest.json")
    assert np.array_equal(manifest.first_model(at), built().x0)
    assert (at / f"node-{manifest.start}" / "x0.safetensors").exists()
    content = bytearray((at / "x0.safetensors").read_bytes())
    content[-1] ^= 1
    (at / "x0.safetensors").write_bytes(content)
    with pytest.raises(InvalidSpec, match="not the first model of this fleet"):
        manifest.first_model(at)
    (at / "x0.safetensors").unlink()
    with pytest.raises(MissingFile, match="copy it from the fleet's folder"):
        manifest.first_model(at)


# Shards, scores


def test_shards_are_found_by_number_or_name(tmp_path: Path) -> None:
    graph = nx.Graph([("oslo", "rome"), ("rome", "lima"), ("lima", "oslo")])
    network = lw.Network.from_networkx(graph)
    for name, rows in (("oslo.npz", 2), ("node-1.npz", 3), ("2.csv", 4)):
        if name.endswith("csv"):
            np.savetxt(tmp_path / name, np.ones((rows, 6)), delimiter=",")
        else:
            np.savez(tmp_path / name, features=np.ones((rows, 5)), targets=np.zeros(rows))
    (tmp_path / "notes.md").write_text("not data")
    names = list(network.names)
    sizes = [len(shard.targets) for shard in read_shards(tmp_path, network)]
    assert dict(zip(names, sizes, strict=True))["oslo"] == 2
    assert sorted(sizes) == [2, 3, 4]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda at: (at / "node-2.npz").unlink(), r"no file for node 2; put node-2\.npz"),
        (lambda at: (at / "node-2.npz").rename(at / "node-9.npz"), "belongs to no node .* 0 to 3"),
        (lambda at: shutil.copy(at / "node-2.npz", at / "2.npz"), "node 2 has two files"),
        (lambda at: np.savez(at / "node-2.npz", features=np.ones((2, 3)), targets=[0, 1]),
         r"all shards must have the same features, .* \(5,\) .* \(3,\)"),
        (lambda at: np.savez(at / "node-2.npz", features=np.ones((2, 5)), targets=[[0], [1]]),
         "all shards must have the same targets"),
        (lambda at: np.savez(at / "node-2.npz", features=np.ones((2, 5)), targets=[0]),
         "one entry per row"),
        (lambda at: np.savez(at / "node-2.npz", features=np.full((1, 5), np.nan), targets=[0]),
         "must be finite"),
        (lambda at: (at / "node-2.npz").write_bytes(b"PK"), "node-2.npz"),
        (lambda at: np.savez(at / "node-2.npz", X=np.ones((1, 5))), "no array 'features'"),
        (lambda at: np.savez(at / "node-2.npz", features=np.ones((2, 5)), targets=[0, 1],
                             held_features=np.ones((2, 5))), "belong together"),
        (lambda at: np.savez(at / "node-2.npz", features=np.ones((2, 5)), targets=[0, 1],
                             held_features=np.ones((1, 4)), held_targets=[0]), "held_features"),
    ],
)  # fmt: skip
def test_wrong_shards_are_refused(tmp_path: Path, change: Any, expected: str) -> None:
    for v in range(N):
        np.savez(tmp_path / f"node-{v}.npz", features=np.ones((2, 5)), targets=np.zeros(2))
    change(tmp_path)
    with pytest.raises(InvalidData, match=expected):
        read_shards(tmp_path, lw.ring(N))


def test_each_node_holds_out_a_share_of_its_own(tmp_path: Path) -> None:
    whole, split = shards_of_noise(), with_held_out(shards_of_noise(), 0.25, seed=2)
    for before, after in zip(whole, split, strict=True):
        assert after.held_features is not None
        assert len(after.held_features) == max(1, round(0.25 * len(before.targets)))
        both = np.concatenate([after.features, after.held_features])
        assert sorted(map(tuple, both)) == sorted(map(tuple, before.features))
    with pytest.raises(InvalidParameter, match="have held_features already"):
        with_held_out(split, 0.25, seed=2)
    with pytest.raises(InvalidData, match="node 0 has 1 sample"):
        with_held_out([Shard(np.ones((1, 2)), np.ones(1))], 0.5, seed=0)
    for share in (0.0, 1.0, -1.0, np.nan):
        with pytest.raises(InvalidParameter, match="--held-out must be"):
            with_held_out(whole, share, seed=0)


def test_weighted_walks_take_scores_and_say_so_if_there_are_none(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="--scores FILE"):
        make(tmp_path / "fleet", built(), design=lw.mhlj())
    with pytest.raises(InvalidParameter, match=r"--step-size 0\.05"):
        make(tmp_path / "fleet", built(), step_size="theory")
    file = tmp_path / "scores.txt"
    file.write_text("1\n2\n4\n1.5\n")
    problem = built(scores=read_scores(file, N))
    at = make(tmp_path / "fleet", problem, design=lw.mhlj())
    assert node_file(at, 2).score == 4.0
    user = together(problem)
    user.has_smoothness, user.smoothness = True, np.array([1.0, 2.0, 4.0, 1.5])
    expected = lw.run(
        lw.ring(N), user, lw.mhlj(), **HOW, update=lw.adam(minibatch=5), backend="reference"
    )
    assert np.array_equal(relayed(at).model, expected.model[0])
    for text in ("1\n2\n", "1\n2\n0\n1\n", "a\n"):
        file.write_text(text)
        with pytest.raises(InvalidParameter, match="--scores"):
            read_scores(file, N)


# On the wire and on disk


SCHEMA = TensorSchema(ModelArrays({"a": (2, 3), "b": ()}), "float32")
LIMITS = Limits(7, 1, 0, SCHEMA)
SMALL = np.array([1.5, -2.0, 0.25, 3.0, 0.0, 1e-3, 7.0]).astype(np.float32).astype(np.float64)


def test_named_arrays_are_safetensors_in_their_own_type() -> None:
    data = b"".join(Tensor("model", SMALL, SCHEMA).chunks())
    length = int.from_bytes(data[:8], "little")
    about = json.loads(data[8 : 8 + length])
    assert about == {
        "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
        "b": {"dtype": "F32", "shape": [], "data_offsets": [24, 28]},
    }
    assert np.array_equal(np.frombuffer(data[8 + length :], "<f4"), SMALL.astype(np.float32))
    token = Token.first(SMALL)
    found = decode_slot("final", encode(token, schema=SCHEMA), LIMITS)
    assert np.array_equal(found.model, SMALL)  # type: ignore[attr-defined]
    with pytest.raises(Malformed, match="as the manifest says"):
        decode_slot("final", encode(token), LIMITS)
    with pytest.raises(Malformed, match="cannot hold"):
        encode(Token.first(np.full(7, 0.1)), schema=SCHEMA)


def test_a_false_header_or_a_number_that_is_not_finite_is_refused() -> None:
    other = TensorSchema(ModelArrays({"a": (3, 2), "b": ()}), "float32")
    data = b"".join(Tensor("model", SMALL, other).chunks())
    incoming = Incoming("model", len(data), 7, schema=SCHEMA)
    with pytest.raises(Malformed, match="got the header"):
        incoming.take(data)
    data = SCHEMA.header + np.full(7, np.inf, "<f4").tobytes()
    incoming = Incoming("model", len(data), 7, schema=SCHEMA)
    incoming.take(data)
    with pytest.raises(Malformed, match="NaN or infinity"):
        incoming.done()


@pytest.mark.parametrize("dim", [1000, 700_000])
def test_named_arrays_travel_inline_or_in_chunks(dim: int) -> None:
    schema = TensorSchema(ModelArrays({"w": (dim // 2, 2)}), "float32")
    model = np.random.default_rng(0).standard_normal(dim).astype(np.float32).astype(np.float64)
    frame, after = encode_frame(3, messages.Renew(Token.first(model)), schema=schema)
    chunks = [chunk for tensor in after for chunk in chunk_frames(tensor)]
    assert len(chunks) == (0 if dim == 1000 else -(-(4 * dim) // CHUNK))
    reader = Reader(Limits(dim, 1, 0, schema), 3)
    reader.take(hello_frame(3, Hello(FORMAT, bytes(32), bytes(16), "", b"")))
    found = [reader.take(data) for data in (frame, *chunks)][-1]
    assert isinstance(found, tuple)
    assert np.array_equal(found[0].token.model, model)  # type: ignore[union-attr]
    assert not found[0].token.model.flags.writeable  # type: ignore[union-attr]


@pytest.mark.parametrize("values", [(), (0.5,), (1.0, np.nan, -3.25)])
def test_lines_of_metrics_have_one_encoding(values: tuple[float, ...]) -> None:
    line = Measured((1, 2, 3), 7, values)
    data = encode(line)
    found = decode_line(data)
    assert isinstance(found, Measured)
    assert np.array_equal(found.values, values, equal_nan=True)
    assert encode(found) == data
    with pytest.raises(Malformed, match="infinite"):
        encode(line._replace(values=(np.inf,)))
    if values and np.isnan(values).any():
        other = bytearray(data)
        other[-9] ^= 0x80  # another NaN
        with pytest.raises(Malformed):
            decode_line(bytes(other))


# The command


def invoke(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, [str(word) for word in words])
    error = "" if done.exception is None else str(done.exception)
    return done.exit_code, done.output + error


@pytest.fixture
def digits(tmp_path: Path) -> Path:
    """A folder with a model's file and shards."""
    shutil.copy(EXAMPLE, tmp_path / "my_model.py")
    (tmp_path / "shards").mkdir()
    for v, shard in enumerate(shards_of_noise()):
        np.savez(
            tmp_path / "shards" / f"node-{v}.npz", features=shard.features, targets=shard.targets
        )
    return tmp_path


BASE = ("fleet", "init", "--network", "ring:4", "--design", "unif_rw", "--step-size", "0.01")


def test_the_command_makes_a_fleet_from_shards_or_from_one_file(digits: Path) -> None:
    given = (*BASE, "--model", digits / "my_model.py:build", "--update", "adam:minibatch=4")
    code, said = invoke(*given, "--data", digits / "shards", "--held-out", "0.2", digits / "one")
    assert code == 0, said
    manifest = Manifest.read(digits / "one" / "manifest.json")
    assert manifest.code is not None
    assert manifest.code.metrics == ("accuracy",)
    assert f"only if its sha256 is {manifest.code.sha256}" in said
    assert "hidden.weight float32[64, 32]" in said
    code, said = invoke("node", digits / "one" / "node-1" / "node.toml", "--check")
    assert code == 0, said
    assert "6 samples, 1 sample held out, metrics accuracy; a model of 2,410 numbers" in said
    shards = shards_of_noise()
    table = np.column_stack(
        [np.concatenate([shard.features for shard in shards]),
         np.concatenate([shard.targets for shard in shards])]
    )  # fmt: skip
    np.savetxt(digits / "all.csv", table, delimiter=",")
    code, said = invoke(
        *given, "--data", digits / "all.csv", "--partition", "label", digits / "two"
    )
    assert code == 0, said
    parts = [own_part(manifest, node_file(digits / "one", v)) for v in range(N)]
    assert all(metrics is not None for _, metrics in parts)
    shards = fleet_of(digits / "two").problem.shards  # type: ignore[attr-defined]
    assert sum(len(shard.targets) for shard in shards) == sum(SIZES)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--model", "my_model.py"), "such as my_model.py:build"),
        (("--model", "my_model.py:none"), "no function 'none'; it has"),
        (("--model", "other.py:build"), "other.py does not exist"),
        (("--model", "my_model.py:build", "--loss", "huber"), "--loss cannot be used with --model"),
        (("--model", "my_model.py:build", "--target", "3"), "with a folder of shards"),
        (("--model", "my_model.py:build", "--dim", "3"), "cannot be used with --model"),
        (("--held-out", "0.2"), "--held-out and --scores need --model"),
        (("--model", "my_model.py:build", "--design", "mhlj"), "--scores FILE"),
        (("--model", "my_model.py:build", "--scores", "none.txt"), "--scores must name a file"),
        (("--model", "my_model.py:build", "--data", "homogeneous"), "a folder of shards"),
        (("--model", "my_model.py:build", "--data", "none/"), "a folder with one file per node"),
    ],
)
def test_the_command_says_what_is_wrong(
    digits: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], expected: str
) -> None:
    monkeypatch.chdir(digits)
    code, said = invoke(*BASE, "--data", "shards", *words, "fleet")
    assert code != 0
    assert expected in " ".join(said.split())
    assert not (digits / "fleet").exists()


def test_held_out_data_need_metrics(digits: Path) -> None:
    path = digits / "my_model.py"
    path.write_text(path.read_text().replace("def metrics(", "def others("))
    given = ("--model", f"{path}:build", "--data", digits / "shards", "--held-out", "0.2")
    code, said = invoke(*BASE, *given, digits / "fleet")
    assert code != 0
    assert "no function metrics(features, targets)" in " ".join(said.split())


def test_a_node_with_a_model_in_numpy_loads_no_framework(tmp_path: Path) -> None:
    at = make(tmp_path / "fleet", built())
    heavy = (*HEAVY, "torch", "jax", "sklearn")
    code = (
        "import sys, numpy as np\n"
        "import levywalk.fleet.runtime.process\n"
        "from levywalk.fleet.runtime.own_data import own_part\n"
        "from levywalk.fleet.setup.manifest import Manifest\n"
        "from levywalk.fleet.setup.node_file import NodeFile\n"
        f"file = NodeFile.read({str(at / 'node-1' / 'node.toml')!r})\n"
        "problem, metrics = own_part(Manifest.read(file.manifest), file)\n"
        "metrics(problem.x0), problem.local_gradient(0, problem.x0)\n"
        f"print(*(name for name in {heavy} if name in sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr


# Eight real nodes


TORCH = """
import numpy as np
import torch
import levywalk as lw

torch.set_num_threads(1)  # sums in one order

def build(features, targets, node=None):
    torch.manual_seed(0)
    module = torch.nn.Sequential(
        torch.nn.Linear(64, 32), torch.nn.Tanh(), torch.nn.Linear(32, 10)
    )
    features = np.asarray(features, np.float32) / 16.0
    labels = np.asarray(targets, np.int64)
    return lw.torch_problem(module, torch.nn.functional.cross_entropy, features, labels, node=node)

def metrics(features, targets):
    problem = build(features, targets, node=np.zeros(len(targets), np.int64))
    pixels = np.asarray(features, np.float32) / 16.0
    def accuracy(model):
        return float((problem.predict(model, pixels).argmax(axis=1) == targets).mean())
    return {"accuracy": accuracy}
"""
STEPS = 600


def digits_over(nodes: int) -> list[Shard]:
    """Return the digits of scikit-learn, split over the nodes, a fifth of each held out."""
    found = pytest.importorskip("sklearn.datasets", reason="the digits are those of scikit-learn")
    data = found.load_digits()
    node = np.random.default_rng(0).integers(0, nodes, len(data.target))
    shards = [Shard(data.data[node == v], data.target[node == v]) for v in range(nodes)]
    return with_held_out(shards, 0.2, seed=0)


def _all_edges_up(live: RunningFleet) -> bool:
    edges = [edge for one in live.statuses().values() for edge in one["edges"].values()]
    return len(edges) == 16 and all(edge["up"] for edge in edges)


@pytest.mark.more
@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_eight_real_nodes_reach_the_accuracy_of_the_simulation_though_one_is_killed(
    tmp_path: Path, framework: str
) -> None:
    path = EXAMPLE
    if framework == "torch":
        pytest.importorskip("torch", reason="the extra torch is not installed")
        path = written(tmp_path, TORCH)
    problem = built_problem(path, "build", digits_over(8))
    given: dict[str, Any] = {"steps": STEPS, "step_size": 0.01, "seed": 3, "record_every": 20}
    given |= {"update": lw.adam(minibatch=16)}
    terms = HandOffTerms(b"", renew_after=20, heartbeat=0.5, dead_after=PATIENCE, retry=0.2)
    at = create(
        tmp_path / "fleet", lw.ring(8), problem, lw.unif_rw(), **given, shared_key=True, terms=terms
    )
    with RunningFleet(at) as live:
        for v in range(8):
            live.start(v)
        eventually(lambda: _all_edges_up(live))  # or the first moves would be stays
        eventually(live._order_begin)
        eventually(lambda: live.pulse().step > 0)
        victim = live.catch("holder", PATIENCE)
        before = live.pulse()
        live.kill(victim)
        live.start(victim)
        eventually(lambda: live.pulse().goes_on_from(before))
        eventually(lambda: all(one["final"] for one in live.statuses().values()))
        assert len(live.statuses()) == 8
        folder = FleetFolder.open(at)
        shown = fleet_status(view_nodes(folder.files, folder.manifest), folder.manifest, begun=True)
        for v in range(8):
            assert live.end(v) == 0
    simulated = lw.run(
        lw.ring(8), together(problem), lw.unif_rw(), **given, backend="reference", record_walk=True
    )
    trace = export.trace(folder)
    assert np.array_equal(trace.walk, simulated.walk)
    assert np.array_equal(trace.model, simulated.model)  # to the bit, across the kill
    assert trace.provenance["fleet"]["lost_updates"] == 0
    hits = [
        problem.own_metrics(v)(simulated.model[0].astype(np.float64))[0]  # type: ignore[misc]
        for v in range(8)
    ]
    assert np.mean(hits) > 0.93
    assert shown["metrics"]["accuracy"] > 0.9  # each node's, of the model that it saw last
    export.model(folder, tmp_path / "model.safetensors")
    data = (tmp_path / "model.safetensors").read_bytes()
    names = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    assert list(names) == list(problem.arrays.shapes)  # type: ignore[union-attr]
    assert {about["dtype"] for about in names.values()} == {"F32"}
    if hasattr(trace, "metrics"):
        assert np.isfinite(trace.metrics["accuracy"]).all()


def test_traces_that_have_metrics_get_them() -> None:
    @dataclass(frozen=True)
    class Stub:
        step: np.ndarray
        metrics: dict[str, Any] = field(default_factory=dict)
        metric_step: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))

    given = {"accuracy": np.array([[0.5, np.nan]])}
    found: Any = with_metrics(Stub(np.array([0, 4])), given)  # type: ignore[arg-type]
    assert found.metrics is given
    assert found.metric_step.tolist() == [0, 4]
