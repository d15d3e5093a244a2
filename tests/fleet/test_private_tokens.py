"""Several tokens with privacy: they share a node's budget in equal parts, each counts its own part
on its own disk, and ε is that of the sum.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import levywalk as lw
from levywalk.cli.main import app
from levywalk.errors import InvalidParameter, LevywalkError
from levywalk.fleet.checking.faults import drawing
from levywalk.fleet.checking.logs import judge_folder
from levywalk.fleet.checking.machines import made_of
from levywalk.fleet.checking.token_worlds import play_tokens, shared
from levywalk.fleet.checking.violation import Violation
from levywalk.fleet.operate import forgive as forgiving
from levywalk.fleet.operate.folder import FleetFolder
from levywalk.fleet.operate.join import join
from levywalk.fleet.operate.merge import merge
from levywalk.fleet.operate.whole_status import whole_status
from levywalk.fleet.protocol.events import Persist
from levywalk.fleet.protocol.node import Node
from levywalk.fleet.protocol.records import Spending
from levywalk.fleet.protocol.refusals import Refusals
from levywalk.fleet.protocol.terms import HandOffTerms
from levywalk.fleet.protocol.token import Epoch
from levywalk.fleet.runtime import metrics
from levywalk.fleet.runtime.process import Process
from levywalk.fleet.runtime.spending import spending_of, whole_spending
from levywalk.fleet.setup.budget_file import BUDGET, first_spending, share_of, use_up, write_budget
from levywalk.fleet.setup.build import Fleet
from levywalk.fleet.setup.create import create
from levywalk.fleet.setup.manifest import Manifest
from levywalk.fleet.setup.read_fleet import fleet_of
from levywalk.fleet.setup.update_check_terms import norm_quantile
from levywalk.fleet.simulate.virtual import PlannedFault
from levywalk.fleet.simulate.virtual_tokens import VirtualTokens
from levywalk.fleet.storage.store import NodeStore
from levywalk.trace import Trace
from tests.fleet.nodes import stored, up
from tests.fleet.test_tokens import killed_at_first_start
from tests.limits import PATIENCE, eventually, mostly_more

pytestmark = pytest.mark.filterwarnings("ignore:the minimiser is not unique")
NODES, STEPS = 4, 150
PRIVACY = lw.Privacy(clip=5.0, noise=3.0, budget=8.0)  # 24 updates of each node, 12 for each token
GIVEN: dict[str, Any] = {"steps": STEPS, "step_size": 0.002, "record_every": 10, "seed": 3}
PROBLEM = lw.homogeneous(NODES, dim=3, seed=1)


def fleet_with(tokens: int = 2, *, privacy: Any = PRIVACY, **more: Any) -> Fleet:
    given = GIVEN | {"privacy": privacy, "tokens": tokens} | more
    return Fleet.of(lw.ring(NODES), PROBLEM, lw.unif_rw(), **given)


def manifest_with(tokens: int = 2, **more: Any) -> Manifest:
    return Manifest.of(fleet_with(tokens, shared_key=False, real=True, **more))


def new_fleet(folder: Path, tokens: int = 2, *, privacy: Any = PRIVACY, **more: Any) -> FleetFolder:
    given = GIVEN | {"metrics": False, "name": "test", "tokens": tokens} | more
    create(folder, lw.ring(NODES), PROBLEM, lw.unif_rw(), privacy=privacy, **given)
    return FleetFolder.open(folder)


def run(*words: object) -> Result:
    return CliRunner().invoke(app, ["fleet", *map(str, words)])


def spent(virtual: VirtualTokens) -> list[list[int]]:
    """What each node has spent, for each token."""
    disks = [[machine.disk["spent"] for machine in one.machines] for one in virtual.each]
    return [[0 if one is None else one.releases for one in row] for row in disks]


def on_disks(process: Process) -> list[Spending | None]:
    """What the disks of a node say, which are closed then."""
    found = [one.node.disk.spent for one in process.runners]
    for one in process.runners:
        one.store.close()
    return found


# The walks


@pytest.mark.parametrize("update", [lw.sgd(), lw.saga()], ids=["sgd", "saga"])
@pytest.mark.parametrize("tokens", mostly_more([2, 3], lambda count: count == 2))
def test_each_token_has_its_share_and_the_walks_are_those_of_the_simulation(
    update: Any, tokens: int
) -> None:
    """To the bit, also when budgets are spent, and with the ε of the sum over tokens."""
    virtual = VirtualTokens(fleet_with(tokens, update=update))
    assert virtual.run()
    simulated = lw.run(
        lw.ring(NODES), PROBLEM, lw.unif_rw(), **GIVEN, update=update, privacy=PRIVACY,
        tokens=tokens, backend="reference",
    )  # fmt: skip
    models = np.array([one.final.model for one in virtual.each])
    assert np.array_equal((models / tokens).sum(axis=0), simulated.model[0])
    told, found = simulated.provenance["privacy"], np.array(spent(virtual))
    share = 24 // tokens
    assert found.max() == share
    assert found.sum() == told["updates_made"]
    sums = [dict(enumerate(map(int, row))) for row in found]
    manifest: Any = type("Published", (), {"published": virtual.fleet.published})
    whole = whole_spending(manifest, sums)
    assert whole is not None
    for name in ("epsilon_spent", "epsilon_at_cap", "updates_at_cap", "definition"):
        assert whole[name] == told[name]
    assert whole["updates_at_cap"] == share * tokens
    trace = merge(virtual.each[1].logs, virtual.each[1].fleet)
    for name in ("epsilon_at_cap", "updates_at_cap", "clip", "noise", "definition"):
        assert trace.provenance["privacy"][name] == told[name]


def test_each_token_has_noise_of_its_own() -> None:
    """The difference of two models with the same noise would show the gradients without it."""
    fleet = fleet_with(3)
    drawn = [fleet.of_token(k).noise(7)(0, 4) for k in range(3)]
    assert len({row.tobytes() for row in drawn}) == 3


def test_a_lost_disk_has_spent_the_shares_of_all_tokens() -> None:
    terms = HandOffTerms(b"", dead_after=1.0, heartbeat=0.1, retry=0.05)
    virtual = VirtualTokens(fleet_with(terms=terms))
    virtual.at(0.1, PlannedFault("lose disk", 2))
    virtual.at(0.2, PlannedFault("gone", 2))
    virtual.at(0.3, PlannedFault("restart", 2))
    assert virtual.run()
    assert [row[2] for row in spent(virtual)] == [12, 12]


@pytest.mark.parametrize("seeds", mostly_more([range(4), range(4, 60)], lambda one: 0 in one))
def test_random_faults_keep_what_each_token_may_spend(seeds: range) -> None:
    found = [outcome for seed in seeds for outcome in play_tokens(drawing(privacy=True)(seed))]
    assert sum(one.finished for one in found) > 0.7 * len(found)
    published = drawing(privacy=True)(2).fleet.published
    before, bound = published.privacy, shared(published, 2).privacy
    assert before is not None
    assert bound is not None
    assert (before.cap, bound.cap, bound.whole_cap) == (4, 2, 4)


class NeverStops(Node):
    """A node whose share is spent makes updates all the same."""

    def _recall_spent(self) -> None:
        super()._recall_spent()
        self.site.spent = min(self.site.spent, self.site.cap - 1)


def test_a_share_that_is_not_kept_is_found() -> None:
    def played() -> None:
        for seed in range(8):
            play_tokens(drawing(privacy=True)(seed), make=made_of(NeverStops))

    with pytest.raises(Violation, match="I9"):
        played()


# The manifest


def test_the_manifest_says_the_cap_of_all_tokens_and_nodes_find_it_themselves() -> None:
    manifest = manifest_with(5)  # 24 updates do for 4 of each token
    bound = manifest.published.privacy
    assert bound is not None
    assert (bound.cap, bound.tokens, bound.whole_cap) == (4, 5, 20)
    assert manifest.of_token(3).published.privacy == bound
    content = json.loads(manifest.text)
    assert content["privacy"]["updates_at_cap"] == 20
    for starts, cap, why in (
        (content["walk"]["starts"], 24, r"updates_at_cap must be 20"),
        (content["walk"]["starts"][:4], 20, r"updates_at_cap must be 24"),
        (content["walk"]["starts"] * 6, 20, "fewer than one for each of the 30 tokens"),
    ):
        content["walk"]["starts"], content["privacy"]["updates_at_cap"] = starts, cap
        with pytest.raises(LevywalkError, match=why):
            Manifest.parse(json.dumps(content).encode())


def test_a_budget_must_do_for_one_update_of_each_token(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="24 updates, fewer than one for each of the 25"):
        new_fleet(tmp_path / "fleet", 25)
    assert not (tmp_path / "fleet").exists()


def test_without_a_budget_every_token_may_take_all_steps() -> None:
    bound = fleet_with(privacy=lw.Privacy(clip=5.0, noise=3.0)).published.privacy
    assert bound is not None
    assert (bound.cap, bound.whole_cap) == (STEPS, 2 * STEPS)


# The first disks


@pytest.mark.parametrize("tokens", range(1, 8))
def test_the_parts_of_what_is_spent_are_the_whole(tokens: int) -> None:
    for count in range(5 * tokens + 1):
        parts = [share_of(count, tokens, number) for number in range(tokens)]
        assert sum(parts) == count
        assert max(parts) - min(parts) <= 1
        assert max(parts) <= 5  # a share of the cap


def test_each_disk_gets_its_part_of_what_the_file_says(tmp_path: Path) -> None:
    fleet = new_fleet(tmp_path / "fleet")
    at, each = fleet.place(1), [fleet.manifest.of_token(k) for k in range(2)]

    def said() -> list[Spending | None]:
        return [first_spending(at, one) for one in each]

    assert said() == [Spending(0, first=True)] * 2
    use_up(at)
    assert said() == [Spending(12)] * 2
    write_budget(at, fleet.manifest, 7, first=False)
    assert said() == [Spending(3), Spending(4)]
    write_budget(at, fleet.manifest, 25, first=False)
    with pytest.raises(LevywalkError, match="spent must be"):
        said()


@pytest.mark.parametrize("before", [0, 1], ids=["one disk is written", "no disk is written"])
def test_a_first_start_that_is_interrupted_gives_the_budget_once(
    tmp_path: Path, before: int
) -> None:
    """The disk of the second token is written first; the file is removed after both."""
    fleet = new_fleet(tmp_path / "fleet")
    file = fleet.place(3) / "node.toml"
    killed_at_first_start(file, before)
    assert (file.parent / BUDGET).exists()
    assert on_disks(Process(file)) == [Spending(0, first=True)] * 2
    assert not (file.parent / BUDGET).exists()
    shutil.rmtree(fleet.files[3].state)  # lost disks give nothing back
    assert on_disks(Process(file)) == [Spending(12)] * 2


def test_the_disk_of_the_first_token_alone_is_lost(tmp_path: Path) -> None:
    """Its share counts as spent, and that of the other token is what its disk says."""
    fleet = new_fleet(tmp_path / "fleet")
    process = Process(fleet.place(3) / "node.toml")
    process.runners[1].store.persist(Persist({"spent": Spending(5)}, ()))
    on_disks(process)
    for path in fleet.files[3].state.iterdir():
        if path.is_file():
            path.unlink()
    done = run("budget", fleet.path, 3, "--spent", 5)
    assert "has lost the disk of token 0, but not that of token 1" in str(done.exception)
    assert not (fleet.place(3) / BUDGET).exists()
    assert on_disks(Process(fleet.place(3) / "node.toml")) == [Spending(12), Spending(5)]


@pytest.mark.parametrize("count", [0, 5, 17, 23, 24])
def test_what_an_operator_says_is_left_in_all(tmp_path: Path, count: int) -> None:
    fleet = new_fleet(tmp_path / "fleet")
    use_up(fleet.place(1))
    done = run("budget", fleet.path, 1, "--spent", count)
    assert f"{count} of 24 updates spent" in done.output, done.output
    found = [one for one in on_disks(Process(fleet.place(1) / "node.toml")) if one is not None]
    assert sum(12 - one.releases for one in found) == 24 - count
    assert max(one.releases for one in found) <= 12
    refused = run("budget", fleet.path, 1, "--spent", 0)
    assert "nothing lowers that count" in str(refused.exception)
    assert "spent must be" in str(run("budget", fleet.path, 2, "--spent", 25).exception)


# What is told


def test_epsilon_is_that_of_the_sum_over_tokens() -> None:
    manifest = manifest_with()
    told = whole_spending(manifest, [{0: 3, 1: 12, 2: 12, 3: None}, {0: 4, 1: 12, 2: 2, 3: 9}])
    assert told is not None
    assert told["epsilon_at_cap"] == PRIVACY.epsilon(24)
    assert (told["updates_at_cap"], told["updates_at_cap_of_token"]) == (24, 12)
    assert (told["nodes_out_of_budget"], told["nodes_unknown"]) == ([1], [3])
    assert told["nodes_out_of_share"] == [[2], []]
    assert told["epsilon_spent"] == PRIVACY.epsilon(24)  # of node 1, and what is unknown counts so
    known = whole_spending(manifest, [{0: 3, 2: 12}, {0: 4, 2: 2}])
    assert known is not None
    assert known["epsilon_spent"] == PRIVACY.epsilon(14)
    row = spending_of(manifest, 5, of_token=True)
    assert row is not None
    assert (row["updates_spent"], row["updates_at_cap"], row["epsilon_spent"]) == (5, 12, None)


def test_metrics_count_for_each_token_and_have_one_epsilon(tmp_path: Path) -> None:
    fleet = new_fleet(tmp_path / "fleet")
    process = Process(fleet.place(1) / "node.toml")
    for runner, count in zip(process.runners, (3, 4), strict=True):
        runner.node.disk.spent = Spending(count)
    lines = metrics.text(process).splitlines()
    on_disks(process)
    for token, count in ((0, 3), (1, 4)):
        assert f'levywalk_privacy_updates_spent{{node="1",token="{token}"}} {count}' in lines
        assert f'levywalk_privacy_updates_cap{{node="1",token="{token}"}} 12' in lines
    (epsilon,) = [line for line in lines if line.startswith("levywalk_privacy_epsilon_spent{")]
    assert epsilon == f'levywalk_privacy_epsilon_spent{{node="1"}} {PRIVACY.epsilon(7):.17g}'
    (most,) = [line for line in lines if line.startswith("levywalk_privacy_epsilon_cap{")]
    assert float(most.split()[1]) == PRIVACY.epsilon(24)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> FleetFolder:
    """A private fleet of two tokens whose walks are over; its nodes do not run."""
    fleet = new_fleet(tmp_path_factory.mktemp("tokens") / "fleet", steps=60)
    virtual = VirtualTokens(replace(fleet_of(fleet.path), real=False))
    assert virtual.run()
    for one in virtual.each:
        stored(fleet.path, one)
    return fleet


def test_the_commands_say_what_all_tokens_have_spent(stopped: FleetFolder, tmp_path: Path) -> None:
    found = json.loads(run("status", stopped.path, "--json").stdout)
    each = [[row["privacy"]["updates_spent"] for row in token["nodes"]] for token in (
        json.loads(run("status", stopped.path, "--token", k, "--json").stdout) for k in range(2)
    )]  # fmt: skip
    sums = [sum(pair) for pair in zip(*each, strict=True)]
    assert sum(sums) == found["privacy"]["updates_spent"] > 0
    assert [row["privacy"]["updates_spent"] for row in found["nodes"]] == sums
    assert found["privacy"]["epsilon_spent"] == PRIVACY.epsilon(max(sums))
    assert [row["privacy"]["epsilon_spent"] for row in found["nodes"]] == [
        PRIVACY.epsilon(count) for count in sums
    ]
    assert [row["tokens"][1]["privacy"]["updates_spent"] for row in found["nodes"]] == each[1]
    said = " ".join(run("status", stopped.path).stdout.replace("│", " ").split())
    assert f"ε = {PRIVACY.epsilon(max(sums)):.4g} spent, 7.809 at the cap of 24 updates" in said
    assert "24 updates of each node, 12 for each token" in said
    assert f"{sums[0]} of 24" in said
    one = " ".join(run("status", stopped.path, "--token", 1).stdout.replace("│", " ").split())
    assert "at most 12 updates of each node for this token" in one
    assert "ε counts the updates for all tokens: leave --token out" in one
    findings = json.loads(run("doctor", stopped.path, "--json").stdout)["findings"]
    (finding,) = [one["what"] for one in findings if one["what"].startswith("privacy: ")]
    assert "24 updates of each node, 12 for each token" in finding
    out = tmp_path / "walk.nc"
    assert run("trace", stopped.path, "--out", out).exit_code == 0
    trace: Trace = lw.load_trace(out)
    assert trace.provenance["privacy"]["updates_at_cap"] == 24
    assert trace.replicas == 2
    assert np.isnan(trace.loss).all()  # it is a function of the data


def test_the_doctor_names_nodes_whose_share_for_one_token_is_spent(
    stopped: FleetFolder, tmp_path: Path
) -> None:
    fleet = FleetFolder.open(shutil.copytree(stopped.path, tmp_path / "fleet"))
    for number, counts in enumerate(((12, 3, 12, 1), (12, 3, 5, 1))):
        one = fleet.token(number)
        for v, count in enumerate(counts):
            limits = one.manifest.limits
            with NodeStore(one.files[v].state, one.manifest.digest, limits=limits) as store:
                store.persist(Persist({"spent": Spending(count)}, ()))
    findings = json.loads(run("doctor", fleet.path, "--json").stdout)["findings"]
    about = [one["what"] for one in findings if "have spent" in one["what"]]
    assert about == [
        "nodes 0 have spent their budget and pass the model on without updates",
        "nodes 2 have spent their share of the budget for token 0 and pass its model on without "
        "updates",
    ]
    said = run("status", fleet.path).stdout
    assert "1 node has spent the budget" in said
    assert "1 node has spent the share of token 0" in said


def test_a_log_says_that_a_share_begins(tmp_path: Path) -> None:
    fleet = new_fleet(tmp_path / "fleet")
    process = Process(fleet.place(1) / "node.toml")
    on_disks(process)
    (fleet.place(1) / "node.log").write_text(
        json.dumps(
            {"time": "2026-01-01T00:00:00", "level": "info", "node": 1, "event": "budget begins",
             "token": 1, "spent": 3, "cap": 12}
        ) + "\n"
    )  # fmt: skip
    said = run("logs", fleet.path).stdout
    assert (
        "token 1: begins with an empty disk: 3 of the 12 updates of its share of its privacy budget"
        in said
    )


# Guardians that compare models


def test_the_false_alarms_of_a_run_are_shared_by_its_tokens() -> None:
    checked = {"check_updates": {"alarm": 1e-3}}
    for tokens in (1, 3):
        check = fleet_with(tokens, **checked).published.check
        assert check is not None
        assert check.alarm == 1e-3
        assert check.quantile == norm_quantile(3, 1e-3 / (STEPS * tokens))
    manifest = manifest_with(3, **checked)
    assert manifest.published == fleet_with(3, **checked).published


@pytest.mark.parametrize("privacy", [PRIVACY, "clip=5,noise=0"], ids=["noise", "no noise"])
def test_each_guardian_refuses_false_models_of_each_token(privacy: Any) -> None:
    terms = HandOffTerms(b"", dead_after=1.0, heartbeat=0.1, retry=0.05)
    virtual = VirtualTokens(fleet_with(privacy=privacy, check_updates=True, terms=terms))
    virtual.at(0.1, PlannedFault("poison", 2))
    assert virtual.run()
    for one in virtual.each:
        assert {told.what for told in one.reports} >= {"poison", "model refused"}
        assert float(np.linalg.norm(one.final.model)) < 50.0


@pytest.mark.parametrize("seeds", mostly_more([range(2), range(2, 30)], lambda one: 0 in one))
def test_honest_nodes_are_never_refused(seeds: range) -> None:
    found = [outcome for seed in seeds for outcome in play_tokens(drawing(checked=True)(seed))]
    assert sum(one.finished for one in found) > 0.7 * len(found)


def test_refusals_of_every_token_are_shown_and_forgiven(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = new_fleet(tmp_path / "fleet", check_updates=True)
    process = Process(fleet.place(1) / "node.toml")
    refusals = Refusals().counted(2, Epoch(0, 0, 1), 17, avoid_after=1)
    process.runners[1].store.persist(Persist({"refusals": refusals}, ()))
    on_disks(process)
    found = whole_status(fleet)
    (refused,) = found["refused_models"]
    assert refused == {"token": 1, "by": 1, "node": 2, "count": 1, "step": 17, "avoided": True}
    (warning,) = found["warnings"]
    assert warning.startswith("token 1: node 1 has refused 1 model of node 2")
    asked: list[tuple[int, int]] = []

    def ask(self: FleetFolder, node: int, do: str, /, **about: Any) -> dict[str, Any]:
        asked.append((node, self.manifest.token_number))
        return {"done": asked[-1] == (1, 1)}

    monkeypatch.setattr(FleetFolder, "ask", ask)
    assert forgiving.forgive(fleet, 2).told == [1]
    assert asked == [(v, k) for v in range(NODES) for k in range(2)]


# Real processes


@pytest.mark.more
def test_real_nodes_never_spend_more_than_their_budget_over_all_tokens(tmp_path: Path) -> None:
    """Two tokens, nodes that are killed, one that loses its disks, and one that joins: no count
    falls, and no sum exceeds the cap.
    """
    privacy = lw.Privacy(clip=5.0, noise=15.0, budget=8.0)
    terms = HandOffTerms(run=b"", heartbeat=0.3, dead_after=3.0, retry=0.3)
    fleet = new_fleet(
        tmp_path / "fleet", privacy=privacy, steps=1500, terms=terms, record_every=1,
        operator_port=0,
    )  # fmt: skip
    bound = fleet.manifest.published.privacy
    assert bound is not None
    most = bound.whole_cap
    assert bound.cap < 1500 / NODES  # every share will be spent
    data = tmp_path / "new.npz"
    np.savez(data, features=np.random.default_rng(3).normal(size=(2, 3)), targets=np.ones(2))
    counts: dict[tuple[int, int], int] = {}

    def looked(now: FleetFolder) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = whole_status(now)["nodes"]
        for row in rows:
            told = row["privacy"]["updates_spent"]
            assert told is None or told <= most
            for k, one in enumerate(row["tokens"]):
                count = one["privacy"]["updates_spent"]
                if count is not None:
                    assert counts.get((row["id"], k), 0) <= count <= bound.cap
                    counts[row["id"], k] = count
        return rows

    def steps(now: FleetFolder) -> int:
        return min(one["step"] for one in whole_status(now)["tokens"])

    with up(fleet):
        try:
            for v in (1, 3, 2):
                before = steps(fleet)
                eventually(lambda before=before: steps(fleet) > before + 30)
                os.kill(looked(fleet)[v]["pid"], signal.SIGKILL)
                if v == 3:
                    eventually(lambda: not whole_status(fleet)["nodes"][3]["up"])
                    (fleet.place(3) / "state").rename(fleet.place(3) / "state.lost-1")
                fleet.up(PATIENCE)
                if v == 3:
                    lost = looked(fleet)[3]["privacy"]
                    assert lost["updates_spent"] == most
            found = join(fleet, [0, 2], data=data, timeout=PATIENCE)
            assert (found.node, found.started) == (NODES, True)
            after = FleetFolder.open(fleet.path)
            eventually(lambda: whole_status(after)["finished"])
            rows = looked(after)
            assert len(rows) == NODES + 1
            assert 0 < rows[NODES]["privacy"]["updates_spent"] <= most
            told = whole_status(after)["privacy"]
            assert told["epsilon_spent"] == privacy.epsilon(most) <= 8.0
            away = json.loads(run("status", fleet.path / "operator", "--json").stdout)
            assert away["privacy"] == told
            assert run("doctor", fleet.path / "operator").exit_code == 0
        finally:
            FleetFolder.open(fleet.path).stop(PATIENCE, force=True)
    whole = fleet_of(fleet.path)
    for number in range(2):
        judge_folder(whole.of_token(number), fleet.path)


def test_an_operator_who_says_again_that_a_node_is_gone_settles_its_late_greeting() -> None:
    """In this schedule a neighbour that starts again would wait for a dead node for ever."""
    assert [one.finished for one in play_tokens(drawing(privacy=True)(5105))] == [1, 1]
