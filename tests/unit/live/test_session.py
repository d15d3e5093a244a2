"""What a page is told, what it may ask for, and the file that gives the same numbers."""

from __future__ import annotations

import base64
import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import levywalk as lw
from levywalk.experiments.execute import execute
from levywalk.experiments.spec import check_experiment
from levywalk.live.export import export_experiment
from levywalk.live.playback import TraceSession, network_of
from levywalk.live.session import LiveSession
from levywalk.live.walk_player import WalkPlayer

SECTIONS: dict[str, Any] = {
    "network": {"family": "ring", "n": 60},
    "problem": {"data": "heterogeneous", "dim": 3, "important": 2, "seed": 1},
    "designs": {"WeightRW": {"kind": "weight_rw"}, "MHLJ": {"kind": "mhlj"}},
}
DESIGNS = {"WeightRW": lw.weight_rw(), "MHLJ": lw.mhlj()}


def session(seed: int = 3) -> LiveSession:
    problem = lw.heterogeneous(60, dim=3, important=2, seed=1)
    return LiveSession(lw.ring(60), problem, DESIGNS, seed=seed)


def decoded(text: str) -> Any:
    return np.frombuffer(base64.b64decode(text), "<f4")


def test_all_that_is_told_is_json_and_visits_can_be_counted_from_the_path() -> None:
    found = session()
    hello = json.loads(json.dumps(found.hello(), allow_nan=False))
    assert [design["name"] for design in hello["designs"]] == ["WeightRW", "MHLJ"]
    counted = [decoded(run["visits"]).copy() for run in hello["frame"]["runs"]]
    at = [run["node"] for run in hello["frame"]["runs"]]
    for steps in (1, 40, 200):
        found.advance(steps)
        frame = json.loads(json.dumps(found.frame(), allow_nan=False))
        for i, run in enumerate(frame["runs"]):
            assert "visits" not in run
            for to in run["path"]:
                counted[i][at[i]] += 1
                at[i] = to
            assert at[i] == run["node"]
            assert len(run["far"]) == steps
    for i, run in enumerate(found.runs):
        assert (counted[i] == run.visits).all()
    found.advance(5000)
    frame = found.frame()
    assert (decoded(frame["runs"][0]["visits"]) == found.runs[0].visits).all()
    assert len(frame["runs"][0]["path"]) == 256


def test_the_exported_file_gives_the_numbers_of_the_page(tmp_path: Path) -> None:
    found = session()
    found.advance(700)
    found.change(0, 0.2, 0.4, 5)
    found.advance(300)
    made = export_experiment(found, SECTIONS)
    spec = check_experiment(tomllib.loads(made["toml"]), "the export")
    result = execute(spec, tmp_path)
    for run, (name, trace) in zip(found.live, result.traces.items(), strict=True):
        assert run.name == name
        assert run.node == trace.final_node[0]
        assert run.error == trace.distance2[0, -1]
        assert (run.state.model == trace.model).all()


def test_a_link_goes_to_the_same_step_with_the_same_changes() -> None:
    first, again = session(), session(seed=9)
    first.advance(700)
    first.change(0, 0.2, 0.4, 5)
    first.advance(300)
    again.restart(3, [[0, 700, 0.2, 0.4, 5]], 1000)
    assert [run.node for run in again.runs] == [run.node for run in first.runs]
    assert [run.error for run in again.runs] == [run.error for run in first.runs]
    assert again.hello()["frame"]["step"] == 1000


@pytest.mark.parametrize(
    "given",
    [
        {"seed": -1},
        {"seed": "1"},
        {"seed": None},
        {"seed": 2**60},
        {"seed": 0, "step": 10**12},
        {"seed": 0, "step": 5, "changes": "no"},
        {"seed": 0, "step": 5, "changes": [[0, 1]]},
        {"seed": 0, "step": 5, "changes": [[0, "1", 0.1, 0.5, 3], [0, 2, 0.1, 0.5, 3]]},
        {"seed": 0, "step": 5, "changes": [[7, 1, 0.1, 0.5, 3]]},
        {"seed": 0, "step": 5, "changes": [[0, 9, 0.1, 0.5, 3]]},
        {"seed": 0, "step": 5, "changes": [[0, 1, 1.5, 0.5, 3]]},
        {"seed": 0, "step": 5, "changes": [[0, 1, 0.1, 0.5, 10**9]]},
        {"seed": 0, "changes": [{"a": 1}]},
    ],
)
def test_what_is_no_view_is_refused_and_changes_nothing(given: dict[str, Any]) -> None:
    found = session()
    found.advance(10)
    with pytest.raises(lw.InvalidParameter):
        WalkPlayer(found, "walks").do({"do": "restart", **given})
    assert (found.step, found.seed) == (10, 3)


def test_a_node_has_its_data() -> None:
    found = session()
    found.advance(5000)
    v = int(np.argmax(found.runs[0].visits))
    told = found.node(v)
    visits = int(found.runs[0].visits[v])
    assert told["degree"] == 2
    assert told["smoothness"] == found.problem.smoothness[v]
    assert told["runs"][0]["visits"] == visits
    assert told["runs"][0]["independent"] == pytest.approx(1 / (1 - found.runs[0].target[v]))
    assert told["runs"][0]["dwell"] >= 1
    for wrong in (-1, 60, "3", None, 1.5):
        with pytest.raises(lw.InvalidParameter):
            found.node(wrong)


def test_more_than_four_designs_are_refused() -> None:
    five = {str(k): lw.mhlj(0.1 * k) for k in range(1, 6)}
    with pytest.raises(lw.InvalidParameter, match="1 to 4"):
        LiveSession(lw.ring(5), lw.homogeneous(5), five)


def test_a_large_network_is_a_picture_of_squares() -> None:
    network, problem = lw.ring(6000), lw.homogeneous(6000, dim=3)
    found = LiveSession(network, problem, {"MHLJ": lw.mhlj()})
    found.advance(2000)
    hello = json.loads(json.dumps(found.hello(), allow_nan=False))
    assert sum(hello["network"]["nodes"]) == 6000
    assert decoded(hello["frame"]["runs"][0]["visits"]).sum() == 2000
    assert "places" not in hello["network"]
    assert len(json.dumps(hello)) < 400_000


# --- the player -----------------------------------------------------------------------------------


def test_a_player_makes_the_steps_that_are_due() -> None:
    player = WalkPlayer(session(), "walks")
    assert player.pause() is None
    player.do({"do": "speed", "speed": 50})
    player.do({"do": "play"})
    frame = player.tick(1.0)
    assert frame is not None
    assert frame["step"] == 51  # the first at once
    player.do({"do": "speed", "speed": 1})
    assert player.tick(0.25) is None
    assert player.tick(0.75) is not None
    player.do({"do": "pause"})
    assert player.tick(9.0) is None
    assert player.do({"do": "step", "steps": 3})["frame"]["step"] == 55


@pytest.mark.parametrize(
    "command",
    [
        {"do": "format the disk"},
        {"do": "speed", "speed": 1e9},
        {"do": "speed", "speed": "fast"},
        {"do": "step", "steps": 10**9},
        {"do": "node"},
        {"do": "change", "design": 5, "p_jump": 0.1, "p_distance": 0.5, "max_hops": 3},
        {"do": "change", "design": 0},
        {"do": "export"},
    ],
)
def test_a_wrong_command_is_refused(command: dict[str, Any]) -> None:
    with pytest.raises(lw.InvalidParameter):
        WalkPlayer(session(), "walks").do(command)


# --- recorded traces ------------------------------------------------------------------------------


def recorded(**more: Any) -> lw.Trace:
    problem = lw.heterogeneous(60, dim=3, important=2, seed=1)
    given = {"steps": 900, "step_size": "theory", "seed": 3, "record_walk": True, **more}
    return lw.run(lw.ring(60), problem, lw.mhlj(), **given)


def test_a_trace_is_played_as_it_was_walked() -> None:
    trace, now = recorded(record_every=1), session()
    played = TraceSession(trace, network_of(trace, Path("a.nc")), Path("a.nc"))
    for steps in (1, 300, 100):
        played.advance(steps)
        now.advance(steps)
    then, live = played.runs[0], now.runs[1]
    assert (then.node, then.error, then.transfers) == (live.node, live.error, live.transfers)
    assert (then.visits == live.visits).all()
    assert (then.stays.now, then.stays.longest) == (live.stays.now, live.stays.longest)
    played.advance(10**6)
    assert played.step == 900
    json.dumps(played.hello(), allow_nan=False)
    WalkPlayer(played, "trace").do({"do": "restart", "seed": 0, "step": 7})
    assert played.step == 7


def test_a_trace_without_a_walk_or_of_another_network_says_what_to_do() -> None:
    trace = recorded(record_walk=False)
    with pytest.raises(lw.InvalidParameter, match="record_walk=True"):
        TraceSession(trace, lw.ring(60), Path("a.nc"))
    with pytest.raises(lw.InvalidParameter, match="60 nodes"):
        TraceSession(recorded(), lw.ring(61), Path("a.nc"))
    network = lw.watts_strogatz(60, 4, 0.1, seed=5)
    problem = lw.homogeneous(60, dim=3)
    random = lw.run(network, problem, lw.mhlj(), steps=5, step_size=0.01, record_walk=True)
    with pytest.raises(lw.InvalidParameter, match=r"levywalk live my\.edges --trace a\.nc"):
        network_of(random, Path("a.nc"))
