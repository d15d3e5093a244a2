"""Privacy on real and virtual nodes: clip, noise, a count that never falls, and what is told."""

import dataclasses
import json
import math
import shutil
import socket

import numpy as np
import pytest
from scipy.stats import norm
from typer.testing import CliRunner

import levywalk as lw
from levywalk.cli.main import app
from levywalk.errors import InvalidParameter, LevywalkError
from levywalk.fleet.checking.log_pieces import DiskLog
from levywalk.fleet.checking.logs import judge, judge_folder
from levywalk.fleet.checking.machines import made_of
from levywalk.fleet.checking.schedules import sweep
from levywalk.fleet.checking.spent_watch import check_changes, check_spent
from levywalk.fleet.checking.violation import Violation
from levywalk.fleet.operate.any_fleet import open_any_fleet
from levywalk.fleet.operate.folder import FleetFolder
from levywalk.fleet.operate.merge import merge
from levywalk.fleet.protocol.messages import Prepare
from levywalk.fleet.protocol.node import Node
from levywalk.fleet.protocol.node_step import Neighbour, NodeSite, Visit
from levywalk.fleet.protocol.records import BudgetSpent, Spending
from levywalk.fleet.protocol.terms import HandOffTerms
from levywalk.fleet.protocol.token import Epoch, Token
from levywalk.fleet.runtime.process import Process
from levywalk.fleet.runtime.spending import fleet_spending, spending_of, system_noise
from levywalk.fleet.setup.budget_file import BUDGET, first_spending, use_up, write_budget
from levywalk.fleet.setup.build import Fleet
from levywalk.fleet.setup.create import PrivateProblem, create
from levywalk.fleet.setup.manifest import Manifest
from levywalk.fleet.setup.node_file import NodeFile
from levywalk.fleet.setup.read_fleet import fleet_of
from levywalk.fleet.simulate.virtual import PlannedFault, VirtualFleet
from levywalk.memory import unpacked
from levywalk.privacy import noise as noise_module
from levywalk.registry import to_dict
from tests.fleet.nodes import up
from tests.limits import PATIENCE, eventually
from tests.unit.privacy.test_attack import (
    ONE_RETURN,
    START,
    STEP,
    OneSample,
    distance,
    reconstructed,
)

PRIVACY = lw.Privacy(clip=5.0, noise=3.0, budget=8.0)  # 24 updates of each node
NODES = 4


def virtual_of(update=None, privacy=PRIVACY, steps=150, **more):
    given = {"steps": steps, "step_size": 0.002, "record_every": 10, "seed": 3, **more}
    problem = lw.homogeneous(NODES, dim=3, seed=1)
    update = lw.sgd() if update is None else update
    return Fleet.of(lw.ring(NODES), problem, lw.unif_rw(), privacy=privacy, update=update, **given)


def new_fleet(folder, *, privacy=PRIVACY, problem=None, design=None, nodes=NODES, **more):
    given = {
        "steps": 150,
        "step_size": 0.002,
        "name": "test",
        "metrics": False,
        "record_every": 1,
        "terms": HandOffTerms(run=b"", dead_after=PATIENCE),
        **more,
    }
    problem = lw.homogeneous(nodes, dim=3, seed=1) if problem is None else problem
    design = lw.unif_rw() if design is None else design
    return create(folder, lw.ring(nodes), problem, design, privacy=privacy, **given)


def spent(virtual):
    return [0 if m.disk["spent"] is None else m.disk["spent"].releases for m in virtual.machines]


# The mechanism


@pytest.mark.parametrize("update", [lw.sgd(), lw.saga()], ids=["sgd", "saga"])
def test_a_virtual_fleet_is_the_simulation_to_the_bit_also_when_budgets_are_spent(update):
    fleet = virtual_of(update)
    virtual = VirtualFleet(fleet)
    assert virtual.run()
    found = merge(virtual.logs, fleet)
    simulated = lw.run(
        fleet.network,
        fleet.problem,
        lw.unif_rw(),
        steps=150,
        step_size=0.002,
        record_every=10,
        seed=3,
        update=update,
        privacy=PRIVACY,
        backend="reference",
        record_walk=True,
    )
    assert np.array_equal(found.model, simulated.model)
    told, promised = found.provenance["privacy"], simulated.provenance["privacy"]
    for name in ("definition", "updates_at_cap", "epsilon_at_cap", "simulated", "clip", "noise"):
        assert told[name] == promised[name]
    assert np.array_equal(found.walk, simulated.walk)
    visits = np.bincount(simulated.walk[0], minlength=NODES)
    assert visits.max() > 24
    assert spent(virtual) == np.minimum(visits, 24).tolist()
    told = fleet_spending_of(fleet, spent(virtual))
    assert told["epsilon_spent"] == pytest.approx(simulated.provenance["privacy"]["epsilon_spent"])


class _OfManifest:
    def __init__(self, published):
        self.published = published


def fleet_spending_of(fleet, counts):
    return fleet_spending(_OfManifest(fleet.published), dict(enumerate(counts)))


def site_with_system_noise(problem, privacy, design=None):
    fleet = Fleet.of(
        lw.ring(NODES),
        problem,
        lw.unif_rw() if design is None else design,
        steps=9,
        step_size=0.1,
        privacy=privacy,
    )
    site = NodeSite(
        fleet.published,
        1,
        problem,
        1,
        fleet.scores_of(1),
        fleet.key(1),
        noise=system_noise(_OfManifest(fleet.published)),
    )
    site.know(_near(fleet, 1), 2)
    return site


def _near(fleet, v):
    near = map(int, fleet.network.neighbours(v))
    return [Neighbour(u, 2, fleet.scores_of(u), True) for u in near]


@pytest.mark.parametrize("design", [lw.unif_rw(), lw.mhlj(p_jump=0.0)], ids=["unif_rw", "mhlj"])
def test_a_node_clips_after_the_weight_and_adds_the_systems_noise(monkeypatch, design):
    """An oracle in plain numpy, with what the operating system draws as a known number."""
    features, targets = np.random.default_rng(4).normal(size=(12, 3)), np.arange(12.0)
    problem = lw.LeastSquares(features, targets, node=np.repeat(range(NODES), 3), ridge=0.25)
    privacy = lw.Privacy(clip=2.0, noise=1.5, scores="public")
    site = site_with_system_noise(problem, privacy, design)
    drawn = []

    def urandom(count):
        drawn.append(count)
        return (np.arange(1, 1 + count // 8, dtype=np.uint64) << np.uint64(62)).tobytes()

    monkeypatch.setattr(noise_module.os, "urandom", urandom)
    x = np.array([0.5, -1.0, 2.0])
    after, _ = site.decide(Token.first(x))
    smoothness = problem.smoothness
    weight = 1.0 if design.name == "UnifRW" else smoothness.mean() / smoothness[1]
    parts = [
        2.0 * weight * (a @ x - y) * a for a, y in zip(features[3:6], targets[3:6], strict=True)
    ]
    clipped = [part * min(1.0, 2.0 / np.linalg.norm(part)) for part in parts]
    noise = norm.ppf((np.arange(1, 4) / 4.0) + 0.5 * 2.0**-52)
    release = np.mean(clipped, axis=0) + 1.5 * (2 * 2.0 / 3) * noise
    expected = x - 0.1 * (release + weight * 0.25 * x)
    assert drawn == [24]
    assert np.allclose(after.model, expected, rtol=1e-12, atol=1e-12)
    assert site.spent == 1


def test_noise_does_not_come_from_the_draws_of_the_walk():
    problem = lw.homogeneous(NODES, dim=3, seed=1)
    choices, models = set(), set()
    for _ in range(5):
        site = site_with_system_noise(problem, PRIVACY)
        token, to = site.decide(Token.first(np.zeros(3)))
        choices.add(to)
        models.add(token.model.tobytes())
    assert len(choices) == 1  # the walk is that of the key
    assert len(models) == 5  # the noise is not


def test_memory_sends_noisy_gradients_alone():
    """What SAGA carries is the sum of releases: without noise it is another one."""
    problem = lw.homogeneous(NODES, dim=3, seed=1)
    found = []
    for _ in range(2):
        fleet = virtual_of(lw.saga())
        site = NodeSite(
            *(fleet.published, 1, problem, 1, fleet.scores_of(1), fleet.key(1)),
            noise=system_noise(_OfManifest(fleet.published)),
        )
        site.know(_near(fleet, 1), 2)
        token, _ = site.decide(fleet.published.first_token(np.zeros(3)))
        found.append((token.memory.tobytes(), site.kept().tobytes()))
    assert found[0][0] != found[1][0]
    assert found[0][1] != found[1][1]


# The count


def test_schedules_with_privacy():
    outcome = sweep(range(6), privacy=True)
    assert not outcome.failures, outcome.failures[0]


@pytest.mark.more
@pytest.mark.parametrize("chunk", range(10))
def test_more_schedules_with_privacy(chunk):
    outcome = sweep(range(1000 + 20 * chunk, 1020 + 20 * chunk), privacy=True)
    assert not outcome.failures, outcome.failures[0]


class GivesBackWithAnEpoch(Node):
    """In a new epoch the budget is whole again."""

    def _recall_spent(self):
        super()._recall_spent()
        held = self.disk.held
        if held is not None and held.token.epoch.counter:
            self.site.spent = min(self.site.spent, 1)


class CountsLater(Node):
    """The count is written after the visit, in another transaction."""

    def _keep_spent(self, token):
        if self.site.counts:
            self._commit()
            super()._keep_spent(token)


class NeverStops(Node):
    """A node whose budget is spent makes updates all the same."""

    def _recall_spent(self):
        super()._recall_spent()
        self.site.spent = min(self.site.spent, self.site.cap - 1)


@pytest.mark.parametrize("mutant", [GivesBackWithAnEpoch, CountsLater, NeverStops])
def test_a_wrong_count_is_found(mutant):
    outcome = sweep(range(4), made_of(mutant), privacy=True)
    assert any("I9" in why for _, why in outcome.failures)


def test_a_lost_disk_gives_no_budget_back():
    fleet = virtual_of(terms=HandOffTerms(b"", dead_after=1.0, heartbeat=0.1, retry=0.05))
    virtual = VirtualFleet(fleet)
    virtual.at(0.1, PlannedFault("lose disk", 2))
    virtual.at(0.2, PlannedFault("gone", 2))
    virtual.at(0.3, PlannedFault("restart", 2))
    assert virtual.run()
    assert spent(virtual)[2] == 24
    lines = virtual.logs[2]
    assert any(isinstance(line, Visit) for line in lines)  # it was visited with its new disk …
    assert not any(isinstance(line, BudgetSpent) for line in lines)  # … and made no update


def test_a_copy_of_the_folder_from_before_the_first_start_gives_no_budget_back(monkeypatch):
    """It says that nothing was spent, but the neighbours knew the disk that is lost."""
    fleet = virtual_of(terms=HandOffTerms(b"", dead_after=1.0, heartbeat=0.1, retry=0.05))
    whole = dataclasses.replace(fleet.disk(2), spent=Spending(0, first=True))
    monkeypatch.setattr(Fleet, "lost_disk", lambda self, v: whole)
    virtual = VirtualFleet(fleet)
    virtual.at(0.1, PlannedFault("lose disk", 2))
    virtual.at(0.2, PlannedFault("gone", 2))
    virtual.at(0.3, PlannedFault("restart", 2))
    assert virtual.run()
    assert virtual.machines[2].disk["spent"] == Spending(24)
    assert any(told.what == "budget counts as spent" for told in virtual.reports)
    assert not any(isinstance(line, BudgetSpent) for line in virtual.logs[2])
    said = dataclasses.replace(fleet.disk(2), spent=Spending(3))  # an operator's order is kept
    monkeypatch.setattr(Fleet, "lost_disk", lambda self, v: said)
    virtual = VirtualFleet(fleet)
    virtual.at(0.1, PlannedFault("lose disk", 2))
    virtual.at(0.2, PlannedFault("gone", 2))
    virtual.at(0.3, PlannedFault("restart", 2))
    assert virtual.run()
    assert 3 < spent(virtual)[2] <= 24
    assert not any(told.what == "budget counts as spent" for told in virtual.reports)


def test_the_end_of_a_budget_is_logged_once():
    fleet = virtual_of()
    virtual = VirtualFleet(fleet)
    assert virtual.run()
    for v, count in enumerate(spent(virtual)):
        ends = [line for line in virtual.logs[v] if isinstance(line, BudgetSpent)]
        assert len(ends) == (count == 24)
    verdict = judge(fleet, [DiskLog(v, lines) for v, lines in virtual.logs.items()])
    assert verdict.steps == 150


def test_the_judge_finds_false_counts_and_changes():
    fleet = virtual_of(record_every=1)
    virtual = VirtualFleet(fleet)
    assert virtual.run()
    v = int(np.argmax(spent(virtual)))
    lines = virtual.logs[v]
    passed = check_spent(fleet, v, [(lines, 24)])
    assert passed
    with pytest.raises(Violation, match="I9"):
        check_spent(fleet, v, [(lines, 23)])
    with pytest.raises(Violation, match="its whole budget on 2 disks"):
        check_spent(fleet, v, [(lines, 24), (lines, 24)])
    visits = {}
    for u, log in virtual.logs.items():
        for line in log:
            if isinstance(line, Visit):
                visits.setdefault(Epoch(*line.token_epoch), {})[line.step] = u, line
    whole = {
        place
        for u, log in virtual.logs.items()
        for place in check_spent(fleet, u, [(log, spent(virtual)[u])])
    }
    assert check_changes(fleet, visits, whole) == 150
    (epoch,) = visits
    still = next(t for e, t in sorted(whole) if t + 1 in visits[epoch])
    moving = next(t for t in sorted(visits[epoch]) if (epoch, t) not in whole)
    for t, by in ((still, 1e-9), (moving, 10.0)):
        u, line = visits[epoch][t + 1]
        changed = {**visits[epoch], t + 1: (u, line._replace(model=line.model + by))}
        with pytest.raises(Violation, match="has moved the model by"):
            check_changes(fleet, {epoch: changed}, whole)


# The first disk


def test_only_the_first_disk_has_a_whole_budget(tmp_path):
    folder = new_fleet(tmp_path / "fleet")
    at, manifest = folder / "node-1", Manifest.read(folder / "manifest.json")
    assert first_spending(at, manifest) == Spending(0, first=True)
    use_up(at)
    assert not (at / BUDGET).exists()
    assert first_spending(at, manifest) == Spending(24)
    write_budget(at, manifest, 7, first=False)
    assert first_spending(at, manifest) == Spending(7)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "not JSON"),
        ('{"run": "x", "spent": 0, "first": true}', "run must be"),
        ('{"run": "RUN", "spent": -1, "first": true}', "spent must be"),
        ('{"run": "RUN", "spent": 25, "first": true}', "spent must be"),
        ('{"run": "RUN", "spent": 2, "first": 1}', "first must be"),
        ('{"run": "RUN"}', "spent is missing"),
        ("9" * 5000, "larger than"),
    ],
)
def test_a_wrong_budget_file_is_refused(tmp_path, text, why):
    folder = new_fleet(tmp_path / "fleet")
    at, manifest = folder / "node-1", Manifest.read(folder / "manifest.json")
    (at / BUDGET).write_text(text.replace("RUN", manifest.run))
    with pytest.raises(LevywalkError, match=why):
        first_spending(at, manifest)


def test_a_node_that_starts_uses_the_file_up(tmp_path):
    folder = new_fleet(tmp_path / "fleet")
    for left, expected in ((True, Spending(0, first=True)), (False, Spending(24))):
        assert (folder / "node-1" / BUDGET).exists() is left
        process = Process(folder / "node-1" / "node.toml")
        assert process.runners[0].node.disk.spent == expected
        assert process.metrics is None
        assert process.runners[0].sightings.problem is None
        process.runners[0].store.close()
        assert not (folder / "node-1" / BUDGET).exists()
        shutil.rmtree(folder / "node-1" / "state")  # the disk is lost


def test_a_file_that_cannot_be_removed_stops_the_node(tmp_path, monkeypatch):
    folder = new_fleet(tmp_path / "fleet")

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.unlink", refuse)
    with pytest.raises(InvalidParameter, match="would give a lost budget back"):
        use_up(folder / "node-1")


def fleet_command(*words):
    return CliRunner().invoke(app, ["fleet", *map(str, words)])


def test_the_operator_may_know_what_a_lost_disk_had_spent(tmp_path):
    folder = new_fleet(tmp_path / "fleet")
    use_up(folder / "node-1")
    done = fleet_command("budget", folder, 1, "--spent", 17)
    assert done.exit_code == 0, done.output
    assert "17 of 24 updates spent" in done.output
    refused = fleet_command("budget", folder, 1, "--spent", 25)
    assert "spent must be" in str(refused.exception)
    process = Process(folder / "node-1" / "node.toml")
    assert process.runners[0].node.disk.spent == Spending(17)
    process.runners[0].store.close()
    refused = fleet_command("budget", folder, 1, "--spent", 0)
    assert "nothing lowers that count" in str(refused.exception)
    plain = new_fleet(tmp_path / "plain", privacy=None)
    assert "without privacy" in str(fleet_command("budget", plain, 1, "--spent", 0).exception)


# The manifest


def test_privacy_is_part_of_what_is_hashed(tmp_path):
    folder = new_fleet(tmp_path / "fleet")
    manifest = Manifest.read(folder / "manifest.json")
    bound = manifest.published.privacy
    assert (bound.privacy, bound.cap) == (PRIVACY, 24)
    assert manifest.mean_smoothness == 1.0  # the true mean is a function of the data
    content = json.loads(manifest.text)
    content["privacy"]["noise"] = 4.0
    content["privacy"]["updates_at_cap"] = PRIVACY_OF_FOUR
    other = Manifest.parse(json.dumps(content).encode())
    assert other.digest != manifest.digest
    assert not any("smoothness" in key and value != 1.0 for key, value in content.items())


PRIVACY_OF_FOUR = dataclasses.replace(PRIVACY, noise=4.0).updates_within()


def changed(content, path, value):
    *tables, key = path
    for table in tables:
        content = content[table]
    content[key] = value


@pytest.mark.parametrize(
    ("path", "value", "why"),
    [
        (("privacy", "updates_at_cap"), 25, "this node's accountant allows"),
        (("privacy", "noise"), 4.0, "this node's accountant allows"),
        (("privacy", "noise"), -1.0, "noise must be"),
        (("privacy", "noise"), 0.0, "cannot be kept with noise = 0"),
        (("privacy", "clip"), "big", "clip must be"),
        (("privacy", "adversary"), "nobody", "adversary must be"),
        (("privacy", "more"), 1, "unknown key privacy.more"),
        (("draws", "shared_key"), True, "cannot be used with privacy"),
        (("problem", "mean_smoothness"), 3.5, "is a function of the data"),
        (("update",), {"kind": "newton_token"}, "newton_token"),
    ],
)
def test_a_node_refuses_a_manifest_whose_privacy_it_cannot_keep(tmp_path, path, value, why):
    content = json.loads((new_fleet(tmp_path / "fleet") / "manifest.json").read_text())
    if path == ("update",):
        value = to_dict("update", lw.newton_token())
    changed(content, path, value)
    with pytest.raises(LevywalkError, match=why):
        Manifest.parse(json.dumps(content).encode())


def test_a_node_refuses_a_weighted_walk_with_private_scores(tmp_path):
    public = dataclasses.replace(PRIVACY, scores="public")
    folder = new_fleet(tmp_path / "fleet", privacy=public, design=lw.mhlj())
    content = json.loads((folder / "manifest.json").read_text())
    content["privacy"]["scores"] = "private"
    with pytest.raises(LevywalkError, match="depends on the nodes' scores"):
        Manifest.parse(json.dumps(content).encode())


def test_released_scores_have_noise_and_are_released_once(tmp_path):
    released = lw.Privacy(
        5.0, 3.0, 99.0, scores="released", score_low=0.1, score_high=1e4, score_noise=0.1
    )
    problem = lw.homogeneous(NODES, dim=3, seed=1)
    folder = new_fleet(tmp_path / "fleet", privacy=released, design=lw.mhlj(), problem=problem)
    manifest = Manifest.read(folder / "manifest.json")
    files = [NodeFile.read(folder / f"node-{v}" / "node.toml") for v in range(NODES)]
    scores = np.array([file.score for file in files])
    assert not np.isclose(scores, problem.smoothness, rtol=1e-6).any()
    assert manifest.mean_smoothness == pytest.approx(scores.mean())
    assert np.array_equal(fleet_of(folder).scores[0], scores)
    process = Process(folder / "node-1" / "node.toml")
    assert process.scores == (scores[1],)  # and not another draw at each start
    process.runners[0].store.close()
    again = new_fleet(tmp_path / "again", privacy=released, design=lw.mhlj(), problem=problem)
    assert NodeFile.read(again / "node-1" / "node.toml").score != scores[1]  # no seed tells it
    with pytest.raises(InvalidParameter, match="only their owners have"):
        new_fleet(
            tmp_path / "owners",
            privacy=released,
            design=lw.mhlj(),
            problem=PrivateProblem(NODES, 3, 2.0),
        )


# What is told


def test_epsilon_of_a_node_and_of_the_fleet_is_that_of_the_accountant():
    manifest = _OfManifest(virtual_of().published)
    told = spending_of(manifest, 10)
    assert told["epsilon_spent"] == PRIVACY.epsilon(10)
    assert told["epsilon_at_cap"] == PRIVACY.epsilon(24) <= 8.0
    whole = fleet_spending(manifest, {0: 10, 1: 24, 2: 0})
    assert whole["epsilon_spent"] == PRIVACY.epsilon(24)
    assert (whole["nodes_out_of_budget"], whole["updates_spent"]) == ([1], 34)
    assert "one sample of one node" in whole["definition"]
    unknown = fleet_spending(manifest, {0: 10, 1: None})
    assert (unknown["epsilon_spent"], unknown["nodes_unknown"]) == (PRIVACY.epsilon(24), [1])
    stops = _OfManifest(
        virtual_of(privacy=dataclasses.replace(PRIVACY, scores="public"), stop="detector").published
    )
    assert spending_of(stops, 3)["epsilon_spent"] == PRIVACY.epsilon(24)


def fetched(address):
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE) as line:
        line.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        return b"".join(iter(lambda: line.recv(1 << 16), b"")).decode()


@pytest.mark.more
def test_real_nodes_from_init_to_a_spent_budget(tmp_path):
    """Three processes: noise, counts, status, metrics, the operator port, and a lost disk."""
    folder = new_fleet(tmp_path / "fleet", nodes=3, steps=100, metrics=True, operator_port=0)
    fleet = FleetFolder.open(folder)
    with up(fleet):
        eventually(lambda: fleet.status()["finished"])
        status = fleet.status()
        told = status["privacy"]
        assert told["updates_spent"] == 72
        assert told["nodes_out_of_budget"] == [0, 1, 2]
        assert told["epsilon_spent"] == PRIVACY.epsilon(24)
        assert status["loss"] is None
        assert all(row["loss"] is None for row in status["nodes"])
        assert open_any_fleet(folder / "operator").status()["privacy"] == told
        shown = fetched(fleet.files[1].metrics)
        assert 'levywalk_privacy_updates_spent{node="1"} 24' in shown
        assert "levywalk_privacy_epsilon_spent" in shown
        assert "local_loss" not in shown
    done = fleet_command("status", folder)
    assert "ε = 7.809 spent" in done.output
    assert "24 of 24" in done.output
    assert "spent their budget" in fleet_command("doctor", folder).output
    said = fleet_command("logs", folder).output
    assert "begins with an empty disk: 0 of the 24 updates of its privacy budget" in said
    assert "has spent its privacy budget, 24 updates, and passes the model on" in said
    verdict = judge_folder(fleet_of(folder), folder)
    assert (verdict.steps, verdict.models) == (100, 100)  # each change is within its bound
    trace = tmp_path / "trace.nc"
    done = fleet_command("trace", folder, "--out", trace)
    assert done.exit_code == 0, done.output
    assert "functions of the nodes' data" in done.output
    found = lw.load_trace(trace)
    assert np.isnan(found.loss).all()
    assert "simulated" not in found.provenance["privacy"]
    assert found.walk.shape == (1, 100)
    shutil.rmtree(folder / "node-2" / "state")
    process = Process(folder / "node-2" / "node.toml")
    assert process.runners[0].node.disk.spent == Spending(24)
    process.runners[0].store.close()


@pytest.mark.more
def test_real_nodes_that_are_killed_and_lose_a_disk_never_get_budget_back(tmp_path):
    privacy = lw.Privacy(clip=5.0, noise=12.0, budget=8.0)
    folder = new_fleet(
        tmp_path / "fleet",
        privacy=privacy,
        steps=900,
        terms=HandOffTerms(run=b"", heartbeat=0.3, dead_after=3.0, retry=0.3),
    )
    fleet = FleetFolder.open(folder)
    counts = dict.fromkeys(range(NODES), 0)
    fleet.up(PATIENCE)
    try:
        for v in (1, 2, 3, 0):
            before = fleet.status()["step"]
            eventually(lambda before=before: fleet.status()["step"] > before + 40)
            fleet.stop(PATIENCE, force=True, nodes=[v])
            row = fleet.status()["nodes"][v]["privacy"]
            assert row["updates_spent"] >= counts[v]
            counts[v] = row["updates_spent"]
            if v == 3:
                (folder / "node-3" / "state").rename(folder / "node-3" / "state.lost-1")
                counts[v] = row["updates_at_cap"]
            fleet.up(PATIENCE)
        eventually(lambda: fleet.status()["finished"])
        rows = fleet.status()["nodes"]
        assert all(rows[v]["privacy"]["updates_spent"] >= counts[v] for v in range(NODES))
        assert rows[3]["privacy"]["epsilon_spent"] == rows[3]["privacy"]["epsilon_at_cap"]
    finally:
        fleet.stop(PATIENCE, force=True)
    judge_folder(fleet_of(folder), folder)


# What a neighbour sees on the wire


def on_the_wire(a, y, update, privacy, seed=0):
    """The tokens that node 0 gets from node 1, to which START has come: all of their bytes."""
    problem = OneSample([np.ones(6), a], [0.0, y])
    fleet = Fleet.of(
        lw.path(2),
        problem,
        lw.unif_rw(),
        **ONE_RETURN,
        update=update,
        privacy=privacy,
        seed=seed,
    )
    virtual, seen = VirtualFleet(fleet), []
    perform = virtual._perform

    def watched(v, machine, effects):
        seen.extend(e.message for e in effects if v == 1 and hasattr(e, "message"))
        perform(v, machine, effects)

    virtual._perform = watched
    assert virtual.run()
    tokens = [message.token for message in seen if isinstance(message, Prepare)]
    assert tokens
    return tokens[0], fleet.published


def recovered(gradient, size):
    """The sample that has this gradient at START, from that and ‖a‖."""
    return reconstructed(START - STEP * gradient, 2.0 * size**2)


def gradients(token, published):
    """What a neighbour can take for the gradient: from the model, and from carried memory."""
    found = [(START - token.model) / STEP]
    if published.token_memory:
        carried = unpacked(token.memory, published.token_memory, 6)
        found += [array * 2.0 for name, array in carried.items() if array.shape == (6,)]
    return found


@pytest.mark.parametrize("update", [lw.sgd(), lw.saga()], ids=["sgd", "saga"])
def test_without_noise_a_neighbour_recovers_the_sample_from_the_wire(update):
    sample = np.random.default_rng(5).normal(size=7)
    size = np.linalg.norm(sample[:6])
    for privacy in (None, lw.Privacy(clip=1e6, noise=1e-15, scores="public")):
        token, published = on_the_wire(sample[:6], sample[6], update, privacy)
        errors = [distance(recovered(g, size), sample) for g in gradients(token, published)]
        assert min(errors) < 1e-6 * np.linalg.norm(sample)


@pytest.mark.parametrize("update", [lw.sgd(), lw.saga()], ids=["sgd", "saga"])
def test_with_noise_no_reconstruction_from_the_wire_is_better_than_the_bound(update):
    """Le Cam's two points, as in tests/unit/privacy/test_attack.py, with all that a token has."""
    a, b = np.eye(6)[0] * 2.0, np.eye(6)[1] * 2.0
    samples = [np.append(a, a @ START - 4.0), np.append(b, b @ START + 4.0)]
    privacy = lw.Privacy(clip=1.0, noise=2.0, scores="public")
    bound = 0.5 * distance(*samples) * (2.0 - 2.0 * norm.cdf(privacy.mu(1) / 2.0))
    by_formula, by_likelihood = [], []
    clean = [2.0 * (s[:6] @ START - s[6]) * s[:6] for s in samples]
    clipped = [g / max(1.0, np.linalg.norm(g)) for g in clean]
    runs = 25
    for seed in range(runs):
        for sample in samples:
            token, published = on_the_wire(sample[:6], sample[6], update, privacy, seed)
            views = gradients(token, published)
            by_formula.append(min(distance(recovered(g, 2.0), sample) for g in views))
            nearest = int(np.argmin([np.linalg.norm(views[0] - g) for g in clipped]))
            by_likelihood.append(distance(samples[nearest], sample))
    spread = distance(*samples) / math.sqrt(2 * runs)
    assert np.mean(by_formula) > bound
    assert np.mean(by_likelihood) > bound - 5 * spread


@pytest.mark.more
def test_what_a_real_neighbour_has_on_its_disk(tmp_path):
    """One return between two processes: the whole sample without privacy, hardly any with it."""
    sample = np.random.default_rng(5).normal(size=7)
    problem = OneSample([np.ones(6), sample[:6]], [0.0, sample[6]])
    errors = []
    for i, privacy in enumerate((None, lw.Privacy(clip=1.0, noise=2.0, scores="public"))):
        folder = create(
            tmp_path / f"fleet-{i}",
            lw.path(2),
            problem,
            lw.unif_rw(),
            **ONE_RETURN,
            privacy=privacy,
            metrics=False,
        )
        fleet = FleetFolder.open(folder)
        with up(fleet):
            eventually(lambda fleet=fleet: fleet.status()["finished"])
        (copy,) = [one for one in fleet.copies(0) if one.final]
        gradient = (START - fleet.fetched(copy).token.model) / STEP
        errors.append(distance(recovered(gradient, np.linalg.norm(sample[:6])), sample))
    assert errors[0] < 1e-9
    assert errors[1] > 1e-3
