"""Nodes join a fleet with privacy: what L̄ reveals of the newcomer, and its budget."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import levywalk as lw
from levywalk.errors import InvalidParameter, InvalidSpec
from levywalk.fleet.checking.logs import judge_folder
from levywalk.fleet.operate import join as joining
from levywalk.fleet.operate.folder import FleetFolder
from levywalk.fleet.operate.join import join
from levywalk.fleet.protocol.terms import HandOffTerms
from levywalk.fleet.runtime.own_data import own_part, scores
from levywalk.fleet.setup.budget_file import BUDGET
from levywalk.fleet.setup.create import PrivateProblem, create
from levywalk.fleet.setup.manifest import Manifest
from levywalk.fleet.setup.node_file import NodeFile
from levywalk.fleet.setup.read_fleet import fleet_of
from levywalk.privacy import noise
from tests.fleet.nodes import up
from tests.limits import PATIENCE, eventually

PRIVATE = {"clip": 5.0, "noise": 20.0, "budget": 2.0}
RELEASED = {"scores": "released", "score_low": 0.1, "score_high": 100.0, "score_noise": 4.0}
WHERE = "10.0.0.4:7400"


def founded(folder: Path, design: lw.Walk, privacy: dict[str, Any], **more: Any) -> FleetFolder:
    """Make a fleet of three nodes, on other machines unless it is said otherwise."""
    given = {
        "steps": 500,
        "step_size": 0.002,
        "name": "test",
        "addresses": [f"10.0.0.{v}:7400" for v in range(1, 4)],
        **more,
    }
    problem = given.pop("problem", lw.heterogeneous(3, dim=4, seed=1, important=1))
    settings = lw.Privacy(**(PRIVATE | privacy))
    create(folder, lw.ring(3), problem, design, privacy=settings, **given)
    return FleetFolder.open(folder)


def samples(path: Path, rows: int = 2) -> Path:
    rng = np.random.default_rng(3)
    np.savez(path, features=1.5 * rng.normal(size=(rows, 4)), targets=np.ones(rows))
    return path


def newcomer(fleet: FleetFolder) -> tuple[NodeFile, Manifest]:
    """Return the node file of the newcomer, and the manifest as it reads it."""
    file = NodeFile.read(fleet.path / "node-3" / "node.toml")
    return file, Manifest.read(file.manifest)


def smoothness(file: NodeFile, manifest: Manifest) -> float:
    """Return the newcomer's true L_v."""
    problem, _ = own_part(manifest, file)
    assert problem is not None
    return float(problem.smoothness[0])


def told(file: NodeFile, manifest: Manifest) -> tuple[float, ...]:
    """Return the scores that the newcomer tells its neighbours."""
    problem, _ = own_part(manifest, file)
    return scores(manifest, problem, 2, file.score)


@pytest.mark.parametrize("here", [True, False], ids=["data here", "data at its owner"])
def test_with_private_scores_everybody_publishes_1_and_so_does_the_newcomer(
    tmp_path: Path, here: bool
) -> None:
    """L̄ is 1 before and after, to the bit, so it tells nothing."""
    problem = None if here else {"problem": PrivateProblem(3, dim=4, mean_smoothness=1.0)}
    fleet = founded(tmp_path / "fleet", lw.unif_rw(), {}, **(problem or {}))
    data = samples(tmp_path / "new.npz")
    assert fleet.manifest.mean_smoothness == 1.0
    with pytest.raises(InvalidParameter, match="with private scores every node publishes 1"):
        join(fleet, [0, 2], smoothness=3.0, address=WHERE)
    found = join(fleet, [0, 2], data=data if here else None, address=WHERE)
    assert found.size[:3] == (1, 4, 1.0)
    file, manifest = newcomer(fleet)
    assert (manifest.mean_smoothness, file.score) == (1.0, None)
    if here:
        assert told(file, manifest) == (1.0,)
        assert smoothness(file, manifest) > 5.0  # which nobody learns
    assert json.loads((fleet.path / "node-3" / BUDGET).read_text()) == {
        "run": manifest.run,
        "spent": 0,
        "first": True,
    }


@pytest.mark.parametrize("here", [True, False], ids=["data here", "data at its owner"])
def test_public_scores_are_no_secret(tmp_path: Path, here: bool) -> None:
    fleet = founded(tmp_path / "fleet", lw.mhlj(), {"scores": "public"})
    data = samples(tmp_path / "new.npz")
    given = {"data": data} if here else {"smoothness": 4.5}
    before = fleet.manifest.mean_smoothness
    found = join(fleet, [0, 2], address=WHERE, **given)
    file, manifest = newcomer(fleet)
    own = smoothness(file, manifest) if here else 4.5
    assert found.size.mean_smoothness == (3 * before + own) / 4
    assert manifest.mean_smoothness == found.size.mean_smoothness
    assert (fleet.path / "node-3" / BUDGET).exists()


@pytest.mark.parametrize("draw", [0.25, -0.1, 40.0, -40.0])
def test_a_released_score_has_the_noise_of_the_manifest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, draw: float
) -> None:
    """log L_v is clipped, gets `score_noise` times log(high/low) of noise, and is clipped again; L̄
    is made of what is published.
    """
    fleet = founded(tmp_path / "fleet", lw.mhlj(), RELEASED)
    asked = []

    def drawn(self: object, call: int, count: int) -> np.ndarray:
        asked.append((call, count))
        return np.full(count, draw)

    monkeypatch.setattr(noise.SystemNoise, "__call__", drawn)
    before = fleet.manifest.mean_smoothness
    found = join(fleet, [0, 2], data=samples(tmp_path / "new.npz"), address=WHERE)
    assert asked == [(0, 1)]  # one number, once
    file, manifest = newcomer(fleet)
    low, high = np.log(0.1), np.log(100.0)
    exact = np.log(smoothness(file, manifest)) + 4.0 * (high - low) * draw
    exact = float(np.exp(np.clip(exact, low, high)))
    assert file.score == pytest.approx(exact, rel=1e-12)
    assert told(file, manifest) == (file.score,)
    assert found.size.mean_smoothness == (3 * before + file.score) / 4
    others = [one.score for one in fleet.files.values()]
    assert before == pytest.approx(np.mean(others), rel=1e-15)  # which are noisy as well


def test_a_released_score_is_drawn_by_the_system_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A join that is interrupted and typed again keeps the score that was told: a second one would
    cost as much again.
    """
    fleet, data = founded(tmp_path / "fleet", lw.mhlj(), RELEASED), samples(tmp_path / "new.npz")
    done = joining._tell
    with monkeypatch.context() as patch:

        def interrupted(*given: Any) -> None:
            done(*given)
            raise KeyboardInterrupt

        patch.setattr(joining, "_tell", interrupted)
        with pytest.raises(KeyboardInterrupt):
            join(fleet, [0, 2], data=data, address=WHERE)
    first = newcomer(fleet)[0].score
    monkeypatch.setattr(noise.SystemNoise, "__call__", None)  # nothing is drawn any more
    found = join(FleetFolder.open(fleet.path), [0, 2], data=data, address=WHERE)
    assert newcomer(fleet)[0].score == first
    assert found.size.mean_smoothness == (3 * fleet.manifest.mean_smoothness + first) / 4
    assert first not in (None, 1.0)


def test_what_is_refused_is_named_with_a_remedy(tmp_path: Path) -> None:
    released = founded(tmp_path / "released", lw.mhlj(), RELEASED)
    for given in ({}, {"smoothness": 3.0}):
        with pytest.raises(InvalidParameter, match=r"scores of this fleet are released.*--data"):
            join(released, [0, 2], address=WHERE, **given)
    rows = np.random.default_rng(1).normal(size=(12, 4))
    three = lw.LeastSquares(rows, np.ones(12), node=np.repeat([0, 1, 2], 4))
    more = {"check_updates": True, "problem": three}
    compared = founded(tmp_path / "compared", lw.unif_rw(), {}, **more)
    with pytest.raises(InvalidSpec, match="2 samples, fewer than the 4 that the manifest says"):
        join(compared, [0, 2], address=WHERE, data=samples(tmp_path / "new.npz"))
    enough = samples(tmp_path / "enough.npz", rows=4)
    assert join(compared, [0, 2], address=WHERE, data=enough).size.mean_smoothness == 1.0


@pytest.mark.more
@pytest.mark.parametrize("kind", ["private", "released"])
def test_real_nodes_with_privacy_are_joined(tmp_path: Path, kind: str) -> None:
    """The newcomer has a whole budget of its own, spends it, and stops at its cap."""
    design, privacy = (lw.unif_rw(), {}) if kind == "private" else (lw.mhlj(), RELEASED)
    terms = HandOffTerms(run=b"", heartbeat=0.5, dead_after=PATIENCE)
    more = {"addresses": None, "terms": terms, "steps": 100_000, "metrics": False}
    few = {"noise": 10.0}  # a cap of about 25 updates, which are soon made
    fleet = founded(tmp_path / "fleet", design, privacy | few, **more)
    with up(fleet):
        try:
            found = join(fleet, [0, 2], data=samples(tmp_path / "new.npz"), timeout=PATIENCE)
            assert (found.node, found.started) == (3, True)
            after = FleetFolder.open(fleet.path)
            bound = after.manifest.published.privacy
            assert bound is not None
            whole = bound.privacy.epsilon(bound.cap)

            def spent() -> bool:
                rows = after.status(PATIENCE)["nodes"]
                return rows[3]["privacy"]["updates_spent"] == bound.cap

            row = after.status(PATIENCE)["nodes"][3]["privacy"]
            assert (row["updates_at_cap"], row["epsilon_at_cap"]) == (bound.cap, whole)
            assert not (fleet.path / "node-3" / BUDGET).exists()
            eventually(spent)
            row = after.status(PATIENCE)["nodes"][3]["privacy"]
            assert row["epsilon_spent"] == whole
        finally:
            FleetFolder.open(fleet.path).stop(PATIENCE, force=True)
    verdict = judge_folder(fleet_of(fleet.path), fleet.path)
    assert verdict[2:4] == (1, 0)
