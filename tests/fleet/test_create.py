"""Founding a fleet: a folder that is whole or not there, and the way back from it to the bit."""

import os
import shutil
import socket
import stat
from contextlib import ExitStack

import numpy as np
import pytest

import levywalk as lw
from levywalk.errors import InvalidParameter, InvalidSpec, LevywalkError, MissingFile
from levywalk.fleet.identity.authority import Authority
from levywalk.fleet.identity.certificates import key_fingerprint
from levywalk.fleet.identity.node_identity import Identity
from levywalk.fleet.operate.merge import merge
from levywalk.fleet.protocol.terms import HandOffTerms
from levywalk.fleet.runtime.own_data import own_problem, scores
from levywalk.fleet.setup import places as module
from levywalk.fleet.setup.build import Fleet
from levywalk.fleet.setup.create import PrivateProblem, create
from levywalk.fleet.setup.manifest import Manifest
from levywalk.fleet.setup.node_file import NodeFile, host_port
from levywalk.fleet.setup.places import HIGHEST_PORT, LOWEST_PORT
from levywalk.fleet.setup.read_fleet import fleet_of
from levywalk.fleet.simulate.virtual import VirtualFleet
from levywalk.updates import Sgd

WAYS = {"steps": 60, "step_size": "theory"}


def several(loss, n=6):
    rng = np.random.default_rng(3)
    node = rng.permutation(np.repeat(np.arange(n), np.arange(1, n + 1)))
    targets = rng.integers(0, 2, len(node)) if loss is lw.Logistic else rng.normal(size=len(node))
    return loss(rng.normal(size=(len(node), 4)), targets, node, 0.1)


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def grid():
    return lw.grid(2, 3)


CASES = {
    "ring": (lambda: (lw.ring(6), lw.heterogeneous(6, p_high=0.5), lw.mhlj()), {}),
    "several samples": (
        lambda: (grid(), several(lw.LeastSquares), lw.mixed_rw(0.2)),
        {"update": Sgd(minibatch=2)},
    ),
    "logistic": (lambda: (grid(), several(lw.Logistic), lw.unif_rw()), {"stop": "detector"}),
    "switching, counted loops": (
        lambda: (
            grid().with_self_loops("counted"),
            several(lw.LeastSquares),
            lw.switching(lw.mhlj(), lw.simple_rw()),
        ),
        {"x0": [1.0, 2.0, 3.0, 1 / 3], "record_every": 3, "start": 2},
    ),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("shared_key", [True, False])
def test_there_and_back_to_the_bit(case, shared_key, tmp_path):
    make, more = CASES[case]
    network, problem, design = make()
    before = Fleet.of(network, problem, design, seed=7, shared_key=shared_key, **WAYS, **more)
    folder = create(
        tmp_path / "fleet", network, problem, design, seed=7, shared_key=shared_key, **WAYS, **more
    )
    after = fleet_of(folder)
    assert after.published == before.published
    assert after.design == design
    assert after.design.describe() == design.describe()
    assert (after.start, after.seed, after.shared_key) == (before.start, 7, shared_key)
    assert after.network.fingerprint() == network.fingerprint()
    assert (after.network.name, after.network.self_loops) == (network.name, network.self_loops)
    assert (
        after.problem.fingerprint() == problem.fingerprint()
    )  # of the loss, ridge, samples and nodes
    for name in ("sorted_features", "sorted_targets", "offsets", "smoothness"):
        assert getattr(after.problem, name).tobytes() == getattr(problem, name).tobytes()
    assert after.token.digest() == before.token.digest()
    for one, other in zip(after.scores, before.scores, strict=True):
        assert one.tobytes() == other.tobytes()
    manifest = Manifest.read(folder / "manifest.json")
    assert after.terms == manifest.terms
    for v in range(6):  # what node v finds out by itself
        file = NodeFile.read(folder / f"node-{v}" / "node.toml")
        own = own_problem(Manifest.read(file.manifest), file)
        degree = len(file.neighbours) + (manifest.self_loops == "counted")
        assert degree == network.degree[v]
        assert scores(manifest, own, degree) == before.scores_of(v)


def test_a_trace_is_merged_from_what_the_folder_says(tmp_path):
    network, problem, design = lw.ring(6), several(lw.LeastSquares), lw.mhlj()
    folder = create(tmp_path / "fleet", network, problem, design, shared_key=True, **WAYS)
    virtual = VirtualFleet(fleet_of(folder))
    assert virtual.run()
    merged = merge(virtual.logs, fleet_of(folder))
    plain = lw.run(
        network, problem, design, record_walk=True, backend="reference", record_every=1, **WAYS
    )
    np.testing.assert_array_equal(merged.walk, plain.walk)
    np.testing.assert_array_equal(merged.model, plain.model)


def test_each_node_has_what_it_needs_and_nothing_of_others(tmp_path):
    network, problem = lw.ring(5), several(lw.LeastSquares, 5)
    folder = create(tmp_path / "fleet", network, problem, lw.mhlj(), name="five", days=30, **WAYS)
    assert names_in(folder) == ["authority", "manifest.json", *(f"node-{v}" for v in range(5))]
    assert names_in(folder / "authority") == ["ca.crt", "ca.key", "operator.key"]
    assert Authority.load(folder / "authority").fleet == "five"
    text = (folder / "manifest.json").read_bytes()
    for v in range(5):
        at = folder / f"node-{v}"
        assert names_in(at) == [
            "ca.crt",
            "data.npz",
            "manifest.json",
            "node.crt",
            "node.key",
            "node.toml",
        ]
        assert (at / "manifest.json").read_bytes() == text
        file = NodeFile.read(at / "node.toml")
        assert file.id == v
        assert all(
            getattr(file, key).parent == at
            for key in ("manifest", "data", "state", "key", "certificate")
        )
        who = Identity.load(file.key, file.certificate, file.authority, node=v)
        assert who.fleet == "five"
        with np.load(file.data) as data:
            np.testing.assert_array_equal(data["features"], problem.features[problem.node == v])
            np.testing.assert_array_equal(data["targets"], problem.targets[problem.node == v])
        assert [peer.id for peer in file.neighbours] == [u for u in network.neighbours(v) if u != v]
        for peer in file.neighbours:
            other = NodeFile.read(folder / f"node-{peer.id}" / "node.toml")
            assert peer.address == other.listen
            assert peer.state == other.state
            assert peer.fingerprint == key_fingerprint(other.certificate.read_bytes())


def test_keys_and_data_are_their_owners_alone(tmp_path):
    before = os.umask(0)  # the most generous there is
    try:
        folder = create(tmp_path / "fleet", lw.ring(3), lw.homogeneous(3), lw.mhlj(), **WAYS)
    finally:
        os.umask(before)
    for at in (folder, folder / "node-0", folder / "authority"):
        assert stat.S_IMODE(at.stat().st_mode) == 0o700
    for path in ("node-0/node.key", "node-0/data.npz", "authority/ca.key"):
        assert stat.S_IMODE((folder / path).stat().st_mode) == 0o600


def test_the_folder_can_be_moved(tmp_path):
    folder = create(tmp_path / "fleet", lw.ring(3), lw.homogeneous(3), lw.mhlj(), **WAYS)
    assert str(tmp_path) not in (folder / "node-0" / "node.toml").read_text()
    moved = folder.rename(tmp_path / "elsewhere")
    assert fleet_of(moved).start == Manifest.read(moved / "manifest.json").start
    assert (
        NodeFile.read(moved / "node-0" / "node.toml").neighbours[0].state
        == moved / "node-1" / "state"
    )


def test_nothing_is_overwritten(tmp_path):
    at = tmp_path / "fleet"
    at.mkdir()
    parts = (lw.ring(3), lw.homogeneous(3), lw.mhlj())
    create(at, *parts, **WAYS)  # an empty folder will do
    text = (at / "manifest.json").read_bytes()
    with pytest.raises(InvalidParameter, match="never overwritten"):
        create(at, *parts, **WAYS)
    assert (at / "manifest.json").read_bytes() == text
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InvalidParameter, match="never overwritten"):
        create(tmp_path / "file", *parts, **WAYS)
    assert names_in(tmp_path) == ["file", "fleet"]


class _Interrupting:
    """Is interrupted after some nodes."""

    def __init__(self):
        self.left = 2

    def advance(self, amount):
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt


def test_an_interrupted_founding_leaves_nothing(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        create(
            tmp_path / "fleet",
            lw.ring(3),
            lw.homogeneous(3),
            lw.mhlj(),
            **WAYS,
            progress=_Interrupting(),
        )
    assert names_in(tmp_path) == []


def test_what_is_wrong_is_said_before_anything_is_made(tmp_path):
    parts = (lw.ring(3), lw.homogeneous(3), lw.mhlj())

    def refused(match, *parts, **more):
        with pytest.raises(LevywalkError, match=match):
            create(tmp_path / "fleet", *parts, **(WAYS | more))
        assert names_in(tmp_path) == []

    refused("fleet_name", *parts, name="No Spaces")
    refused("deploy", *parts, deploy="docker")
    refused("days", *parts, days=0)
    refused("nodes", lw.ring(4), lw.homogeneous(3), lw.mhlj())
    refused("must walk", lw.ring(3), lw.homogeneous(3), lw.iid_uniform())
    refused("addresses", *parts, addresses=["a:1", "b:1"])
    refused("addresses", *parts, addresses=["a:1", "b:1", "a:1"])
    refused("host:port each", *parts, addresses=["a:1", "b:1", "c"])
    refused("metrics=False", *parts, addresses=["a:65535", "b:1", "c:1"])
    refused("port must be None", *parts, addresses=["a:1", "b:1", "c:1"], port=5)
    refused("must not be given", *parts, deploy="compose", port=5)
    refused("port of node 0", *parts, port=65_535)
    refused("host must be", *parts, host="not a host")
    refused(
        "address of this machine", *parts, host="192.0.2.1"
    )  # of a network that is only for documents

    class Clipped(lw.LeastSquares):
        def local_gradient(self, v, x):
            return np.clip(super().local_gradient(v, x), -1, 1)

    refused("LeastSquares or Logistic", lw.ring(3), Clipped(np.eye(3), [1, 2, 3]), lw.mhlj())


def ports_of(folder, n):
    files = [NodeFile.read(folder / f"node-{v}" / "node.toml") for v in range(n)]
    return [host_port(file.listen)[1] for file in files], [
        file.metrics and host_port(file.metrics)[1] for file in files
    ]


def test_free_ports_are_found_below_those_of_clients(tmp_path):
    folder = create(tmp_path / "fleet", lw.ring(8), lw.homogeneous(8), lw.mhlj(), **WAYS)
    listen, metrics = ports_of(folder, 8)
    assert len({*listen, *metrics}) == 16
    assert min(listen + metrics) >= LOWEST_PORT
    assert max(listen + metrics) <= HIGHEST_PORT == 32_767


def test_ports_in_use_are_left_out(monkeypatch):
    with ExitStack() as stack:
        lines = [stack.enter_context(socket.socket()) for _ in range(3)]
        for line in lines:
            line.bind(("127.0.0.1", 0))
        taken = sorted(line.getsockname()[1] for line in lines)
        monkeypatch.setattr(module, "LOWEST_PORT", taken[0])
        monkeypatch.setattr(module, "HIGHEST_PORT", taken[-1])
        if taken[-1] - taken[0] > 3:
            assert not set(module.free_ports("127.0.0.1", 1)) & set(taken)
        span = taken[-1] - taken[0] + 1
        with pytest.raises(InvalidParameter, match="are free on"):
            module.free_ports("127.0.0.1", span)
        with pytest.raises(InvalidParameter, match="give port="):
            module.free_ports("127.0.0.1", span + 1)


def test_given_ports_count_up(tmp_path):
    parts = (lw.ring(3), lw.homogeneous(3), lw.mhlj())
    assert ports_of(create(tmp_path / "one", *parts, **WAYS, port=21_000), 3) == (
        [21_000, 21_001, 21_002],
        [21_003, 21_004, 21_005],
    )
    folder = create(tmp_path / "two", *parts, **WAYS, port=65_533, metrics=False)
    assert ports_of(folder, 3) == ([65_533, 65_534, 65_535], [None, None, None])


def test_machines_of_their_own(tmp_path):
    where = ["alice.example.org:7400", "192.0.2.7:7400", "[2001:db8::1]:7500"]
    folder = create(
        tmp_path / "fleet", lw.ring(3), lw.homogeneous(3), lw.mhlj(), **WAYS, addresses=where
    )
    files = [NodeFile.read(folder / f"node-{v}" / "node.toml") for v in range(3)]
    assert [file.listen for file in files] == ["0.0.0.0:7400", "0.0.0.0:7400", "[::]:7500"]
    assert [file.metrics for file in files] == [
        "127.0.0.1:7501",
        "127.0.0.1:7502",
        "127.0.0.1:7503",
    ]
    assert {(peer.id, peer.address) for file in files for peer in file.neighbours} == set(
        enumerate(where)
    )
    assert all(peer.state is None for file in files for peer in file.neighbours)
    who = Identity.open(folder / "node-0")
    assert who.addresses == ("alice.example.org",)


def test_terms_and_host_are_taken(tmp_path):
    terms = HandOffTerms(b"", 7, "eager", 0.25, 2.5, 0.5)
    folder = create(
        tmp_path / "deep" / "fleet",
        lw.ring(3),
        lw.homogeneous(3),
        lw.mhlj(),
        **WAYS,
        terms=terms,
        host="localhost",
    )
    kept = Manifest.read(folder / "manifest.json")
    assert kept.terms == HandOffTerms(kept.digest, 7, "eager", 0.25, 2.5, 0.5, start=kept.start)
    assert NodeFile.read(folder / "node-1" / "node.toml").listen.startswith("localhost:")


def test_two_fleets_differ_in_their_run(tmp_path):
    one, other = (
        create(tmp_path / name, lw.ring(3), lw.homogeneous(3), lw.mhlj(), **WAYS)
        for name in ("one", "other")
    )
    assert (
        Manifest.read(one / "manifest.json").digest != Manifest.read(other / "manifest.json").digest
    )


# Data that never was here


def test_data_that_stays_with_its_owners(tmp_path):
    network, problem = lw.ring(4), several(lw.LeastSquares, 4)
    mean = float(problem.smoothness.mean())
    folder = create(
        tmp_path / "fleet",
        network,
        PrivateProblem(4, 4, mean, ridge=0.1),
        lw.mixed_rw(0.5),
        steps=60,
        step_size=0.01,
    )
    assert not list(folder.glob("node-*/data*"))
    manifest = Manifest.read(folder / "manifest.json")
    assert (manifest.published.phases[0].mean_score, manifest.mean_smoothness) == (
        pytest.approx(mean),
        pytest.approx(mean),
    )
    file = NodeFile.read(folder / "node-2" / "node.toml")
    with pytest.raises(MissingFile, match=r"data\.csv"):
        own_problem(manifest, file)
    with pytest.raises(MissingFile, match=r"data\.csv"):
        fleet_of(folder)
    for v in range(4):
        rows = np.column_stack([problem.features, problem.targets])[problem.node == v].tolist()
        text = "\n".join(",".join(map(repr, row)) for row in rows)
        (folder / f"node-{v}" / "data.csv").write_text(text + "\n")
    assert scores(manifest, own_problem(manifest, file), 2)[0] == pytest.approx(
        (mean + problem.smoothness[2]) / 2
    )
    assert fleet_of(folder).problem.fingerprint() == problem.fingerprint()


@pytest.mark.parametrize(
    ("design", "step_size"),
    [
        (lw.unif_rw(), "theory"),
        (lw.switching(lw.mhlj(), lw.unif_rw()), 0.01),
        (lw.switching(lw.mhlj(), lw.unif_rw(), step_size="theory"), 0.01),
    ],
)
def test_step_sizes_that_need_the_data_are_refused_without_it(design, step_size, tmp_path):
    with pytest.raises(InvalidParameter, match="not known here"):
        create(
            tmp_path / "fleet",
            lw.ring(4),
            PrivateProblem(4, 4, 1.0),
            design,
            steps=60,
            step_size=step_size,
        )


# A folder that was changed


@pytest.fixture
def folder(tmp_path):
    return create(tmp_path / "fleet", lw.ring(4), lw.homogeneous(4), lw.mhlj(), **WAYS)


def test_a_missing_node_is_named(folder):
    shutil.rmtree(folder / "node-2")
    with pytest.raises(MissingFile, match="node-2"):
        fleet_of(folder)


def test_a_node_in_anothers_folder_is_named(folder):
    shutil.copy(folder / "node-1" / "node.toml", folder / "node-2" / "node.toml")
    with pytest.raises(InvalidSpec, match="id must be 2"):
        fleet_of(folder)


def test_a_manifest_of_another_run_is_named(folder, tmp_path):
    other = create(tmp_path / "other", lw.ring(4), lw.homogeneous(4), lw.mhlj(), **WAYS)
    shutil.copy(other / "manifest.json", folder / "node-1" / "manifest.json")
    with pytest.raises(
        InvalidSpec, match=r"node-1.manifest\.json: this is not the fleet's manifest"
    ):
        fleet_of(folder)


def test_a_one_sided_edge_is_named(folder):
    path = folder / "node-1" / "node.toml"
    text = path.read_text()
    path.write_text(text[: text.rindex("[[neighbours]]")])
    with pytest.raises(InvalidSpec, match="node 2 has node 1 as a neighbour"):
        fleet_of(folder)
