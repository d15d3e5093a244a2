"""A model that has overflowed says so: in the status, the metrics, the export and the trace."""

from __future__ import annotations

import json
import math
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

import levywalk as lw
from levywalk.cli.main import app
from levywalk.errors import DivergedWarning
from levywalk.fleet.checking.walk_replay import check_replay
from levywalk.fleet.operate import doctor, export
from levywalk.fleet.operate.fleet_status import fleet_status
from levywalk.fleet.operate.folder import FleetFolder
from levywalk.fleet.operate.node_processes import FleetProblem
from levywalk.fleet.protocol.records import Disk, Held, Known, Own
from levywalk.fleet.protocol.token import FIRST, Token
from levywalk.fleet.runtime import metrics
from levywalk.fleet.runtime.sightings import Sightings
from levywalk.fleet.setup.create import create
from levywalk.fleet.setup.read_fleet import fleet_of
from levywalk.fleet.simulate.virtual import VirtualFleet
from tests.fleet.nodes import stored

RING, PROBLEM = lw.ring(5), lw.heterogeneous(5, dim=3, important=1, seed=1)
GIVEN = {"steps": 300, "seed": 4, "record_every": 20}


@pytest.fixture(scope="module")
def diverged(tmp_path_factory: pytest.TempPathFactory) -> tuple[FleetFolder, VirtualFleet]:
    folder = tmp_path_factory.mktemp("diverged") / "fleet"
    create(folder, RING, PROBLEM, lw.mhlj(), step_size=3e4, shared_key=True, **GIVEN)
    virtual = VirtualFleet(fleet_of(folder))
    assert virtual.run()
    return stored(folder, virtual), virtual


def test_the_fleet_diverges_where_the_simulation_does(
    diverged: tuple[FleetFolder, VirtualFleet],
) -> None:
    fleet, virtual = diverged
    with pytest.warns(DivergedWarning):
        simulated = lw.run(
            RING, PROBLEM, lw.mhlj(), step_size=3e4, backend="reference", record_walk=True, **GIVEN
        )
    at = int(simulated.diverged_at[0])
    assert 0 < at < 300
    trace = export.trace(fleet)
    for name in ("diverged_at", "distance2", "loss", "excess_loss", "model", "walk"):
        assert np.array_equal(getattr(trace, name), getattr(simulated, name)), name
    assert np.isinf(trace.loss[0, -1])
    check_replay(virtual.fleet, [*trace.walk[0], int(trace.final_node[0])], virtual.final)
    assert fleet.status()["diverged_at"] == at


def test_a_model_that_has_diverged_is_not_exported_by_accident(
    diverged: tuple[FleetFolder, VirtualFleet], tmp_path: Path
) -> None:
    fleet, virtual = diverged
    out = tmp_path / "model"
    with pytest.raises(FleetProblem, match=r"diverged: update \d+ would .* --force"):
        export.model(fleet, out)
    done = CliRunner().invoke(app, ["fleet", "model", str(fleet.path), "--out", str(out)])
    assert (done.exit_code, out.exists()) == (1, False)
    forced = CliRunner().invoke(
        app, ["fleet", "model", str(fleet.path), "--out", str(out), "--force"]
    )
    assert forced.exit_code == 0
    assert np.array_equal(np.fromfile(out, "<f8", offset=128), virtual.final.model)


def test_it_is_told_by_status_doctor_and_trace(
    diverged: tuple[FleetFolder, VirtualFleet], tmp_path: Path
) -> None:
    fleet, _ = diverged

    def said(*arguments: str) -> str:
        done = CliRunner().invoke(app, ["fleet", *arguments], env={"COLUMNS": "300"})
        return done.output

    assert "the model has diverged" in said("status", str(fleet.path))
    assert "The model has diverged" in said(
        "trace", str(fleet.path), "--out", str(tmp_path / "walk.nc")
    )
    found = [one for one in doctor.examine(fleet.path) if "diverged" in one.what]
    assert [one.level for one in found] == ["problem"]


def about_a_loss(model: float, diverged_at: int = -1) -> SimpleNamespace:
    """A process that has just received that model."""
    token = Token.first(np.full(3, model))._replace(step=5, diverged_at=diverged_at)
    disk = Disk(Known(FIRST, 0), Own(2, 0, leaving=False), {})
    sightings = Sightings(disk, PROBLEM)
    disk.held = Held("prepared", token, 0, 1, -1, 5, FIRST)
    sightings.look(disk)
    disk.held = disk.held._replace(status="active")
    sightings.look(disk)
    manifest = SimpleNamespace(published=SimpleNamespace(privacy=None))
    runner = SimpleNamespace(
        number=0,
        node=SimpleNamespace(
            disk=disk, fenced="", awaited=set(), published=SimpleNamespace(check=None)
        ),
        sightings=sightings,
        manifest=manifest,
        stalled=False,
        out_of_order="",
        counts={"commits": 0, "regenerated": 0, "refused": 0},
    )
    return SimpleNamespace(
        runners=[runner],
        manifest=manifest,
        file=SimpleNamespace(id=0, neighbours=()),
        transport=SimpleNamespace(links={}),
        began=0.0,
        identity=SimpleNamespace(
            certificate=SimpleNamespace(not_valid_after_utc=SimpleNamespace(timestamp=lambda: 1.0))
        ),
    )


@pytest.mark.parametrize(("model", "diverged_at"), [(9e305, -1), (1.0, 4), (9e305, 4)])
def test_an_infinite_loss_is_told_and_stays_in_the_mean(model: float, diverged_at: int) -> None:
    process = about_a_loss(model, diverged_at)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert process.runners[0].sightings.loss() == {"step": 5, "value": math.inf}
    lines = metrics.text(process).splitlines()
    assert 'levywalk_local_loss{node="0"} +Inf' in lines
    assert f'levywalk_diverged{{node="0"}} {int(diverged_at >= 0)}' in lines


def test_one_infinite_loss_makes_the_mean_infinite(
    diverged: tuple[FleetFolder, VirtualFleet],
) -> None:
    fleet, _ = diverged
    views = fleet.node_views()
    losses = [1.0, math.inf, 2.0]
    for v, value in enumerate(losses):
        more = {"loss": {"step": 1, "value": value}, "hops_per_second": None, "waits": None}
        views[v] = views[v]._replace(answers=True, about=views[v].about | more)
    found = fleet_status(views, fleet.manifest, begun=True)
    assert found["loss"] == math.inf
    assert found["loss_is_infinite"]
    assert [node["loss_is_infinite"] for node in found["nodes"][:3]] == [False, True, False]


def test_status_as_json_has_no_number_that_JSON_lacks(
    diverged: tuple[FleetFolder, VirtualFleet], monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet, _ = diverged
    monkeypatch.setattr(FleetFolder, "status", lambda self: {"loss": math.inf})
    said = CliRunner().invoke(app, ["fleet", "status", str(fleet.path), "--json"]).output
    assert json.loads(said) == {"loss": None}
