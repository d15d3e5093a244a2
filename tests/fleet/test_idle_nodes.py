"""Nodes without data in a fleet: they pass the model on, and no update is theirs."""

from __future__ import annotations

import json

import numpy as np
import pytest

import levywalk as lw
from levywalk.cli.fleet.node import node
from levywalk.fleet.checking.faults import SOME_IDLE, draw
from levywalk.fleet.checking.schedules import play
from levywalk.fleet.checking.walk_replay import check_replay
from levywalk.fleet.operate import export
from levywalk.fleet.operate.doctor import examine
from levywalk.fleet.operate.folder import FleetFolder
from levywalk.fleet.operate.merge import merge
from levywalk.fleet.protocol.node_step import Neighbour, Visit
from levywalk.fleet.protocol.terms import HandOffTerms
from levywalk.fleet.runtime.findings import FindingLevel
from levywalk.fleet.runtime.own_data import own_problem
from levywalk.fleet.setup.build import Fleet
from levywalk.fleet.setup.create import create
from levywalk.fleet.setup.manifest import Manifest
from levywalk.fleet.simulate.virtual import PlannedFault, VirtualFleet
from tests.limits import PATIENCE, eventually, mostly_soak

HOLDERS = (0, 2, 5, 7, 8)
STEPS = 150


def parts():
    rng = np.random.default_rng(0)
    edges = [(v, (v + 1) % 10) for v in range(10)] + [(0, 4), (3, 7), (6, 9)]
    whose = np.array([*HOLDERS, 2, 7])
    features, targets = rng.normal(size=(7, 2)), rng.normal(size=7)
    problem = lw.LeastSquares(features, targets, node=whose, idle="pass")
    return lw.Network.from_edges(edges, n=10), problem


@pytest.mark.parametrize(
    ("design", "update"),
    [
        (lw.mhlj(0.3), lw.sgd()),
        (lw.mhda(), lw.saga()),
        (lw.switching(lw.mhlj(), lw.weight_rw(), threshold=0.6, window=3, patience=2), lw.sgd()),
    ],
    ids=["mhlj", "mhda and saga", "switching"],
)
def test_a_fleet_with_idle_nodes_is_the_run_to_the_bit(design, update):
    network, problem = parts()
    arguments = {"steps": STEPS, "step_size": 0.01, "seed": 5, "update": update}
    virtual = VirtualFleet(Fleet.of(network, problem, design, record_every=10, **arguments))
    assert virtual.run()
    run = lw.run(
        network,
        problem,
        design,
        backend="reference",
        record_walk=True,
        record_every=10,
        **arguments,
    )
    found = merge(virtual.logs, virtual.fleet)
    assert np.array_equal(found.walk, run.walk)
    assert np.array_equal(found.visits, run.visits)
    assert np.array_equal(found.model, run.model)
    assert np.array_equal(found.hops, run.hops)
    assert np.array_equal(found.transfers, run.transfers)
    assert np.array_equal(found.target, run.target)
    assert found.hops[0, -1] > 1.5 * STEPS
    assert virtual.final.model.tolist() == run.model[0].tolist()
    for v in set(range(10)) - set(HOLDERS):
        assert not any(isinstance(line, Visit) for line in virtual.logs[v])
    walk = [*found.walk[0].tolist(), int(found.final_node[0])]
    check_replay(virtual.fleet, walk, virtual.final)


def test_faults_do_not_stop_a_fleet_with_idle_nodes():
    network, problem = parts()
    fleet = Fleet.of(network, problem, lw.mhlj(), steps=STEPS, step_size=0.01, seed=3)
    for when in (0.05, 0.2, 0.33):
        virtual = VirtualFleet(fleet)
        virtual.at(when, PlannedFault("kill", "holder"))
        virtual.at(when + 1.0, PlannedFault("kill", 4))
        virtual.at(when + 20.0, PlannedFault("restart", 4))
        for v in range(10):
            virtual.at(when + 30.0 + v, PlannedFault("restart", v))
        assert virtual.run()
        assert virtual.final.step == STEPS
        walk = merge(virtual.logs, fleet).walk
        assert np.isin(walk, HOLDERS).all()


@pytest.mark.more
@pytest.mark.parametrize("chunk", mostly_soak(range(8), lambda chunk: chunk < 2))
def test_random_faults_hold_all_invariants_with_idle_nodes(chunk):
    """Also where an idle holder has no live neighbour: it waits and does not pass in circles."""
    finished = 0
    for seed in range(30 * chunk, 30 * (chunk + 1)):
        finished += play(draw(seed, problem=SOME_IDLE)).finished
    assert finished > 24


def test_an_idle_node_without_a_live_neighbour_waits():
    network, problem = parts()
    fleet = Fleet.of(network, problem, lw.unif_rw(), steps=9, step_size=0.01)
    site = fleet.site(1)
    site.know([Neighbour(0, 3, (1.0,), True), Neighbour(2, 2, (1.0,), False)], 2)
    assert not site.stuck
    site.know([Neighbour(0, 3, (1.0,), False), Neighbour(2, 2, (1.0,), False)], 2)
    assert site.stuck
    other = fleet.site(0)
    other.know([Neighbour(1, 2, (1.0,), False)], 1)
    assert not other.stuck  # it has data to work with


def test_a_hostile_count_of_visits_without_data_is_refused():
    network, problem = parts()
    published = Fleet.of(network, problem, lw.mhlj(), steps=9, step_size=0.01).published
    token = published.first_token(np.zeros(2))
    assert published.refuses(token) is None
    wrong = np.array([-1], np.int64).view(np.uint8)
    assert "-1 visits to nodes without data" in published.refuses(token._replace(memory=wrong))
    assert "came_from must be a node below 10, or -1, got 10" in published.refuses(
        token._replace(came_from=10)
    )
    assert published.refuses(token._replace(came_from=9)) is None


@pytest.fixture
def founded(tmp_path):
    """A ring of five real nodes, of which 1 and 3 have no data."""
    rng = np.random.default_rng(1)
    features, targets = rng.normal(size=(5, 2)), rng.normal(size=5)
    problem = lw.LeastSquares(features, targets, node=[0, 2, 4, 4, 0], idle="pass")
    given = {"steps": 80, "step_size": 0.02, "seed": 4, "record_every": 20}
    create(
        tmp_path / "fleet", lw.ring(5), problem, lw.mhlj(0.3), shared_key=True, metrics=False,
        terms=HandOffTerms(b"", heartbeat=0.25, dead_after=PATIENCE, retry=0.2), **given,
    )  # fmt: skip
    return FleetFolder.open(tmp_path / "fleet"), problem, given


@pytest.mark.more
def test_real_nodes_without_data_pass_the_model_on(founded, capsys):
    fleet, problem, given = founded
    assert fleet.manifest.idle == (1, 3)
    problems = [one for one in examine(fleet.path) if one.level == FindingLevel.PROBLEM]
    assert not problems
    node(fleet.path / "node-1" / "node.toml", check=True)
    assert "no data, 2 neighbours: it passes the model on without an update" in (
        capsys.readouterr().out
    )
    try:
        fleet.up()
        eventually(lambda: all(one["finished"] for one in fleet.status()["nodes"]))
        found = export.trace(fleet)
    finally:
        fleet.stop(force=True)
    run = lw.run(lw.ring(5), problem, lw.mhlj(0.3), backend="reference", record_walk=True, **given)
    for name in ("step", "walk", "model", "transfers", "hops", "distance2", "visits", "target"):
        assert np.array_equal(getattr(found, name), getattr(run, name)), name
    assert run.hops[0, -1] > 100


def test_a_node_that_should_have_no_data_and_has_some_is_refused(founded):
    fleet, _, _ = founded
    at = fleet.path / "node-1"
    (at / "data.npz").write_bytes((fleet.path / "node-0" / "data.npz").read_bytes())
    with pytest.raises(lw.InvalidData, match="has 2 samples, but the manifest says that node 1"):
        own_problem(fleet.manifest, fleet.files[1])
    assert own_problem(fleet.manifest, fleet.files[3]) is None
    assert own_problem(fleet.manifest, fleet.files[0]).n_samples == 2


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"idle": [3, 1]},
            "network.idle must be a list of 1 to 3 nodes below 5 in ascending order",
        ),
        ({"idle": [1, 3, 5]}, "network.idle must be a list of 1 to 3 nodes"),
        ({"idle": [0, 1, 2, 3]}, "network.idle must be a list of 1 to 3 nodes"),
        ({"idle": [True]}, "network.idle must be a list of 1 to 3 nodes"),
        ({"idle": []}, "network.idle must be a list of 1 to 3 nodes"),
        ({"idle": None}, "network.idle must be a list of 1 to 3 nodes"),
        ({}, "memory must be"),
    ],
)
def test_manifests_that_list_impossible_nodes_are_refused(founded, change, said):
    content = json.loads(founded[0].manifest.text)
    if change:
        content["network"] |= change
    else:
        del content["network"]["idle"]
    with pytest.raises(lw.InvalidSpec, match=said):
        Manifest.parse(json.dumps(content).encode())
    content = json.loads(founded[0].manifest.text)
    content["walk"]["start"] = 3
    with pytest.raises(lw.InvalidSpec, match=r"walk.start must be a node with data"):
        Manifest.parse(json.dumps(content).encode())
