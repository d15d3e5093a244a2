"""Methods of a user's own in a fleet: with what travels, and with what stays at nodes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import levywalk as lw
from levywalk.errors import InvalidParameter, InvalidSpec
from levywalk.fleet.operate import export
from levywalk.fleet.operate.folder import FleetFolder
from levywalk.fleet.operate.merge import merge
from levywalk.fleet.protocol.terms import HandOffTerms
from levywalk.fleet.runtime.launch import command
from levywalk.fleet.setup.build import Fleet
from levywalk.fleet.setup.create import create
from levywalk.fleet.setup.manifest import Manifest
from levywalk.fleet.simulate.virtual import VirtualFleet
from levywalk.memory import unpacked
from levywalk.registry import LOAD, load_file, names
from tests.fleet.test_replay import assert_same
from tests.limits import PATIENCE, eventually, mostly_soak

METHODS = Path(__file__).with_name("own_methods.py")
N = 6
QUICK = HandOffTerms(b"", renew_after=3, heartbeat=0.25, dead_after=PATIENCE, retry=0.2)


@pytest.fixture(autouse=True)
def loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Know the methods here and in processes that a test starts, and in no others."""
    monkeypatch.setenv(LOAD, "")
    load_file(METHODS)


def update(name: str, **arguments: Any) -> lw.Update:
    made: lw.Update = names("update")[f"test_{name}"](**arguments)
    return made


def design(name: str) -> lw.Walk:
    made: lw.Walk = names("design")[f"test_{name}"]()
    return made


def problem_of(n: int = N) -> lw.Problem:
    rng = np.random.default_rng(n)
    rows = rng.standard_normal((3 * n, 3))
    return lw.LeastSquares(rows, rng.standard_normal(3 * n), node=np.tile(np.arange(n), 3))


def how(walk: lw.Walk, change: lw.Update | None = None) -> dict[str, Any]:
    """Return the arguments that `Fleet.of` and `run` have in common."""
    given: dict[str, Any] = {
        "network": lw.watts_strogatz(N, 4, 0.3, seed=1),
        "problem": problem_of(),
        "design": walk,
    }
    more = {"steps": 80, "step_size": 0.01, "seed": 5, "record_every": 7}
    return given | more | ({} if change is None else {"update": change})


def reference(given: dict[str, Any]) -> lw.Trace:
    return lw.run(**given, backend="reference", record_walk=True)


# What stays at the nodes


WITH_NODE_MEMORY = {
    "sag": lambda: how(lw.mhlj(0.3), update("sag")),
    "least_used_edge": lambda: how(design("least_used_edge")),
    "longest_ago": lambda: how(design("longest_ago")),
    "both": lambda: how(design("least_used_edge"), update("sag")),
}


@pytest.mark.parametrize("renew_after", [1, 100])
@pytest.mark.parametrize("loops", ["none", "counted"])
@pytest.mark.parametrize("case", WITH_NODE_MEMORY)
def test_a_virtual_fleet_with_memory_at_its_nodes_is_the_reference_backend(
    case, loops, renew_after
):
    given = WITH_NODE_MEMORY[case]()
    given["network"] = given["network"].with_self_loops(loops)
    fleet = Fleet.of(**given, terms=HandOffTerms(b"own", renew_after=renew_after))
    virtual = VirtualFleet(fleet)
    assert virtual.run()
    found, expected = merge(virtual.logs, fleet), reference(given)
    assert_same(found, expected)
    assert np.array_equal(found.small_messages, expected.small_messages)
    assert virtual.final.small_messages == expected.small_messages[0, -1]
    assert (expected.small_messages[0, -1] > 0) == (case == "longest_ago")
    assert found.provenance["fleet"]["lost_updates"] == 0


def test_what_a_node_remembers_is_on_its_disk_when_the_token_has_left():
    given = how(design("least_used_edge"))
    virtual = VirtualFleet(Fleet.of(**given, terms=HandOffTerms(b"own")))
    assert virtual.run()
    trace = reference(given)
    left = np.bincount(trace.walk[0, :80], minlength=N)
    for v, machine in enumerate(virtual.machines):
        kept = machine.disk["memory"]
        assert (kept is None) == (left[v] == 0)
        assert kept is None or kept.entries[-1].content.view("<i8").sum() == left[v]


def test_fleets_refuse_to_ask_neighbours_for_more_than_a_number():
    walk = design("longest_ago")
    wide = type("Wide", (type(walk),), {"node_memory": {"last": lw.Like("model")}, "name": "wide"})
    with pytest.raises(InvalidParameter, match="design wide asks its neighbours for 'last', which"):
        Fleet.of(**how(wide()))


# What a manifest names


def content_of(given: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Manifest.of(Fleet.of(**given)).text)
    return found


def by_hand(content: dict[str, Any], **changes: Any) -> bytes:
    """Return a manifest in which some recipes were replaced, as somebody would who writes one by
    hand.
    """
    fresh = json.loads(json.dumps(content))
    for path, value in changes.items():
        *outer, last = path.split("__")
        at = fresh
        for key in outer:
            at = at[key]
        at[last] = value
    return json.dumps(fresh).encode()


HAND_WRITTEN = [
    ({"design__recipe": {"kind": "test_unheard_of"}}, "unknown design 'test_unheard_of'"),
    ({"update": {"kind": "test_unheard_of"}}, "unknown update 'test_unheard_of'"),
    ({"problem__loss": {"kind": "test_unheard_of"}}, "unknown loss 'test_unheard_of'"),
]


@pytest.mark.parametrize(
    ("changes", "says"), HAND_WRITTEN, ids=[says[:40] for _, says in HAND_WRITTEN]
)
def test_a_manifest_that_names_what_a_node_cannot_do_is_refused_by_name(changes, says):
    content = content_of(how(lw.unif_rw()))
    assert Manifest.parse(by_hand(content)).design == lw.unif_rw()
    with pytest.raises(InvalidSpec, match=says):
        Manifest.parse(by_hand(content, **changes), "some.json")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ([], "the design and the update declare"),
        (
            [{"name": "update.velocity", "dtype": "float64", "shape": [3]}],
            "the design and the update declare",
        ),
        (None, "memory"),
    ],
)
def test_a_manifest_whose_memory_is_not_what_its_methods_declare_is_refused(changes, says):
    content = content_of(how(lw.unif_rw(), update("heavy_ball")))
    assert content["memory"] == [
        {"name": "update.velocity", "dtype": "float64", "shape": [3]},
        {"name": "update.updates", "dtype": "int64", "shape": []},
    ]
    with pytest.raises(InvalidSpec, match=says):
        Manifest.parse(by_hand(content, memory=changes))


@pytest.mark.parametrize(
    ("changes", "says"), HAND_WRITTEN[:1], ids=[says[:40] for _, says in HAND_WRITTEN[:1]]
)
def test_a_node_does_not_start_with_a_manifest_that_names_what_it_cannot_do(
    changes, says, tmp_path
):
    given = how(lw.unif_rw())
    folder = create(tmp_path / "fleet", **given, metrics=False, terms=QUICK) / "node-0"
    (folder / "manifest.json").write_bytes(by_hand(content_of(given), **changes))
    done = subprocess.run(
        command(folder / "node.toml"), capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert done.returncode == 1
    assert says in done.stdout + done.stderr
    assert not (folder / "state" / "state.db").exists()


@pytest.mark.more
def test_a_node_that_does_not_know_a_user_s_method_does_not_start(tmp_path, monkeypatch):
    given = how(lw.unif_rw(), update("heavy_ball"))
    folder = create(tmp_path / "fleet", **given, metrics=False, terms=QUICK) / "node-0"
    monkeypatch.setenv(LOAD, "")  # as on a machine where nobody has loaded it
    done = subprocess.run(
        command(folder / "node.toml"), capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert done.returncode == 1
    assert "unknown update 'test_heavy_ball'" in done.stdout + done.stderr
    assert not (folder / "state" / "state.db").exists()


# What travels


def with_token_memory(case: str) -> dict[str, Any]:
    walk = design("non_backtracking") if case != "heavy_ball" else lw.mhlj(0.3)
    return how(walk, None if case == "non_backtracking" else update("heavy_ball", beta=0.75))


@pytest.mark.parametrize("renew_after", [1, 100])
@pytest.mark.parametrize("case", ["heavy_ball", "non_backtracking", "both"])
def test_a_virtual_fleet_carries_a_token_s_memory_as_the_reference_backend_does(case, renew_after):
    given = with_token_memory(case)
    fleet = Fleet.of(**given, terms=HandOffTerms(b"own", renew_after=renew_after))
    virtual = VirtualFleet(fleet)
    assert virtual.run()
    assert_same(merge(virtual.logs, fleet), reference(given))
    last = unpacked(virtual.final.memory, fleet.published.method.token_memory, fleet.published.dim)
    if case != "non_backtracking":
        assert last["update.updates"] == 80
    if case != "heavy_ball":
        assert 0 < last["walk.avoided"] < 80
        assert last["walk.path"].shape == (2, 3)


def test_heavy_ball_and_a_detector_travel_together():
    given = how(
        lw.switching(lw.mhlj(), lw.unif_rw(), threshold=0.9, window=5, patience=3),
        update("heavy_ball"),
    )
    fleet = Fleet.of(**given)
    virtual = VirtualFleet(fleet)
    assert virtual.run()
    found = merge(virtual.logs, fleet)
    assert_same(found, reference(given))
    assert 0 < found.switched_at[0] < 79
    manifest = Manifest.of(fleet)
    assert manifest.published.phases == fleet.published.phases
    assert manifest.published.detector == fleet.published.detector
    assert manifest.published.update.beta == 0.5
    assert manifest.first_token.digest() == fleet.token.digest()


@pytest.mark.more
@pytest.mark.parametrize(
    "case",
    mostly_soak(
        ["heavy_ball", "both", "sag", "least_used_edge", "longest_ago"],
        lambda case: case in ("both", "longest_ago"),
    ),
)
def test_real_nodes_with_memory_walk_as_the_reference_backend_does(case, tmp_path):
    known = WITH_NODE_MEMORY.get(case, lambda: with_token_memory(case))
    given = with_token_memory(case) if case == "both" else known()
    create(tmp_path / "fleet", **given, shared_key=True, terms=QUICK, metrics=False)
    fleet = FleetFolder.open(tmp_path / "fleet")
    try:
        assert fleet.up() == list(range(N))
        eventually(lambda: all(node["finished"] for node in fleet.status()["nodes"]))
        found = export.trace(fleet)
    finally:
        fleet.stop(force=True)
    assert_same(found, reference(given))
    assert found.provenance["fleet"]["lost_updates"] == 0
