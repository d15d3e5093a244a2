"""Real node processes, killed, stopped, cut off and robbed of their disks: their logs must hold I1
to I7.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import levywalk as lw
from levywalk.fleet.checking import processes
from levywalk.fleet.checking.log_pieces import DiskLog, pieces
from levywalk.fleet.checking.logs import WalkVerdict, judge, judge_folder
from levywalk.fleet.checking.namespaces import Namespaces, NoNamespaces
from levywalk.fleet.checking.process_faults import FaultInjector
from levywalk.fleet.checking.processes import settle
from levywalk.fleet.checking.proxy import Proxy
from levywalk.fleet.checking.running_fleet import RunningFleet
from levywalk.fleet.checking.violation import Violation
from levywalk.fleet.operate.folder import FleetFolder
from levywalk.fleet.protocol.node_step import Visit
from levywalk.fleet.protocol.records import REVIVED, Archived, Began
from levywalk.fleet.protocol.terms import GuardianPolicy, HandOffTerms
from levywalk.fleet.setup.build import Fleet
from levywalk.fleet.setup.create import create
from levywalk.fleet.setup.read_fleet import fleet_of
from levywalk.fleet.simulate.virtual import PlannedFault, VirtualFleet
from levywalk.fleet.storage.reader import StoreReader
from tests.fleet.nodes import logged
from tests.limits import PATIENCE, mostly_soak
from tests.limits import eventually as until

NODES = 8
SLOWER = 60.0  # times what is promised on a machine with nothing else to do

RING = lw.ring(NODES)
SMALL_WORLD = lw.watts_strogatz(NODES, 4, 0.1, seed=1)
Make = Callable[..., RunningFleet]


@pytest.fixture
def alive(tmp_path: Path) -> Iterator[Make]:
    """Make fleets that walk, and end all their processes."""
    with ExitStack() as stack:

        def make(network: lw.Network, links: Proxy | None = None, seed: int = 0) -> RunningFleet:
            if links is not None:
                stack.callback(links.close)
            live = stack.enter_context(
                RunningFleet(settle(tmp_path / f"fleet-{seed}", network, seed=seed), links)
            )
            live.begin(PATIENCE)
            until(
                lambda: all(
                    edge["up"] for one in live.statuses().values() for edge in one["edges"].values()
                )
            )
            return live

        yield make


def told(live: RunningFleet, v: int) -> list[dict[str, Any]]:
    """Return a node's log."""
    return logged(live.folder / f"node-{v}")


def ended(live: RunningFleet) -> WalkVerdict:
    """End all nodes that run, and judge what they have left."""
    until(
        lambda: len(live.statuses()) == len(live.running())
    )  # one that has not begun does not end as it should
    for v in live.running():
        assert live.end(v) == 0
    return judge_folder(live.fleet, live.folder)


@pytest.mark.more
@pytest.mark.parametrize(
    ("network", "seed"),
    [pytest.param(RING, 1, marks=pytest.mark.soak), (SMALL_WORLD, 2)],
    ids=lambda x: getattr(x, "name", x),
)
def test_random_faults(alive, network, seed):
    live = alive(network, seed=seed)
    havoc = FaultInjector(
        live, random.Random(seed), patience=SLOWER, kinds=("kill", "stop", "end", "failpoint")
    )
    faults = 0
    try:
        while faults < 12:
            faults += havoc.strike()
        havoc.lose("holder")
        verdict = ended(live)
    except Violation as broken:
        pytest.fail("\n".join([f"seed {seed}: {broken}", *havoc.tally.timeline]))
    assert verdict.steps > faults  # each was followed by an update
    assert verdict.epochs > 1  # the last one by a new epoch
    assert verdict.models > 0


@pytest.mark.more
@pytest.mark.parametrize(
    "role", mostly_soak(["holder", "releasing", "guardian"], lambda role: role != "releasing")
)
def test_one_node_is_lost_for_good(alive, role):
    live = alive(RING)
    havoc = FaultInjector(live, random.Random(0), patience=SLOWER)
    havoc.lose(role)
    before = live.pulse()
    until(
        lambda: live.pulse().transfers > before.transfers + NODES
    )  # it goes back and forth on what is left
    if (
        role == "guardian"
    ):  # the holder lives, and waits for it: it is the kernel that says that it may go on
        (lost,) = set(range(NODES)) - set(live.running())
        said = [line for u in live.neighbours(lost) for line in told(live, u)]
        assert {line["neighbour"] for line in said if line["event"] == "process is dead"} == {lost}
        assert [line["guardian"] for line in said if line["event"] == "guardian gone"] == [lost]
    verdict = ended(live)
    assert verdict.lost <= (0 if role == "guardian" else live.fleet.terms.renew_after)


@pytest.mark.more
def test_a_holder_that_was_stopped_for_too_long_says_what_it_has_lost(alive):
    live = alive(RING)
    holder = live.catch("holder", PATIENCE)
    with StoreReader(live.state(holder)) as reading:
        disk = reading.load()
    assert disk is not None
    assert disk.held is not None
    old = disk.held.token
    until(lambda: live.pulse().epoch > old.epoch)
    went_on = live.pulse()
    live.wait(went_on, PATIENCE)
    live.thaw(holder)
    archived: list[Archived] = []

    def has_said() -> bool:
        with StoreReader(live.state(holder)) as reading:
            archived[:] = [
                line
                for line in reading.lines()
                if isinstance(line, Archived) and line.token.epoch == old.epoch
            ]
        return bool(archived)

    until(has_said)
    live.wait(live.pulse(), PATIENCE)
    verdict = ended(live)
    logs = pieces(live.folder)
    by = next(
        line
        for piece in logs
        for line in piece.lines
        if isinstance(line, Began) and line.parent == old.epoch
    )
    made = [
        line
        for piece in logs
        for line in piece.lines
        if isinstance(line, Visit) and line.token_epoch == old.epoch and line.step >= by.base
    ]
    assert [line.lost for line in archived] == [len(made)]
    # On a busy machine others may be considered dead as well: what they lose comes on top of it.
    assert verdict.lost >= verdict.reported >= len(made)
    assert verdict.epochs > 2 or verdict.lost == len(made)


@pytest.mark.more
def test_a_lost_disk(alive):
    live = alive(RING)
    havoc = FaultInjector(live, random.Random(0), patience=SLOWER)
    havoc.settle()
    holder = live.catch("holder", PATIENCE)
    live.kill(holder)
    live.lose_disk(holder)
    since = live.pulse()
    live.start(holder)
    live.wait(since, PATIENCE)
    logs = [live.folder / f"node-{u}" / "node.log" for u in live.neighbours(holder)]
    until(lambda: all("lost its disk" in log.read_text() for log in logs))
    verdict = ended(live)
    assert len([piece for piece in pieces(live.folder) if piece.node == holder]) == 2
    assert verdict.lost <= live.fleet.terms.renew_after


@pytest.mark.more
def test_a_holder_that_is_cut_off_comes_back(alive):
    links = Proxy()
    live = alive(SMALL_WORLD, links)
    holder = live.catch("holder", PATIENCE)
    before = live.pulse()
    ways = [way for u in live.neighbours(holder) for way in ((u, holder), (holder, u))]
    for a, b in ways:
        links.cut(a, b)
    live.thaw(holder)
    live.wait(before, PATIENCE)
    for a, b in ways:
        links.heal(a, b)
    until(
        lambda: len({tuple(status["epoch"]) for status in live.statuses().values()}) == 1
    )  # all have heard
    live.wait(live.pulse(), PATIENCE)
    ended(live)


@pytest.mark.more
def test_a_model_that_takes_longer_than_a_death(tmp_path):
    """Every part of it is a sign of life, and it is not sent twice."""
    n, dim, rate = 3, 300_000, 2.5e5
    rows = np.random.default_rng(0).normal(size=(n, dim))
    problem = lw.LeastSquares(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.ones(n))
    terms = HandOffTerms(b"", renew_after=10**6, heartbeat=0.3, dead_after=6.0, retry=0.2)
    folder = create(
        *(tmp_path / "slow", lw.ring(n), problem, lw.mhlj()),
        steps=10**6,
        record_every=10**6,
        step_size=0.1,
        terms=terms,
        metrics=False,
    )
    size = 8 * dim
    assert size / rate > 1.5 * terms.dead_after
    links = Proxy()
    with closing(links), RunningFleet(folder, links) as live:
        for a in range(n):
            for b in range(n):
                links.rate(a, b, rate)
        live.begin(PATIENCE)
        until(lambda: live.pulse().transfers >= 2)
        sent, pulse = links.passed.total(), live.pulse()
        assert sent < 1.1 * size * (
            1 + pulse.transfers + 1
        )  # the first guardian's, and the one that is on its way
        statuses = live.statuses()
    assert {tuple(one["epoch"]) for one in statuses.values()} == {(0, 0, live.fleet.start)}
    assert all(edge["up"] for one in statuses.values() for edge in one["edges"].values())
    odd = {"edge down", "regenerated", "archived", "guardian gone", "process is dead"}
    assert not odd & {line["event"] for v in range(n) for line in told(live, v)}


@pytest.mark.more
@pytest.mark.parametrize("memory", [2, 3], ids=["Point-SAGA", "heavy ball"])
def test_faults_with_methods_that_remember(tmp_path: Path, memory: int) -> None:
    """SAGA has `test_partitions`, under its two walks."""
    network, total = lw.watts_strogatz(5, 4, 0.1, seed=3), processes.Total()
    folder = settle(tmp_path / "fleet", network, seed=4, memory=memory)
    with closing(Proxy()) as links:
        processes.check_fleet(folder, links, random.Random(7), 6, total, SLOWER)
    (verdict,) = total.verdicts
    assert total.tally.kinds.total() > 6
    assert verdict.epochs > 1
    assert verdict.models > 0
    assert (verdict.entries > 0) == (memory == 2)  # with heavy ball, nodes remember nothing


@pytest.mark.more
def test_a_holder_that_is_started_again_goes_on_in_ten_seconds(tmp_path):
    """With the timings that everybody has: this is promised."""
    folder = settle(tmp_path / "fleet", lw.ring(3), seed=0, terms=HandOffTerms(b""))
    terms = fleet_of(folder).terms
    assert (terms.heartbeat, terms.dead_after, terms.retry) == (5.0, 60.0, 1.0)
    with RunningFleet(folder) as live:
        live.begin(PATIENCE)
        fleet = FleetFolder.open(folder)
        try:
            began = time.monotonic()
            live.kill(0)
            assert fleet.up() == [0]
            start = (
                time.monotonic() - began
            )  # what a process needs to start here: beside other work that may be long
            for _ in range(5):  # a machine may be busy for once; who breaks it, breaks it always
                live.wait(live.pulse(), PATIENCE)
                holder = live.catch("holder", PATIENCE)
                live.kill(holder)
                since, epoch, began = fleet.status()["step"], live.pulse().epoch, time.monotonic()
                assert fleet.up() == [holder]
                until(lambda since=since: fleet.status()["step"] > since)
                took = time.monotonic() - began
                assert live.pulse().epoch == epoch  # nobody was considered dead
                if took < 10.0 + 5 * start:
                    break
            else:
                raise AssertionError(f"the walk stood for {took:.0f} s, five times")
        finally:
            fleet.stop(force=True)


def test_namespaces_leave_nothing():
    try:
        made = Namespaces(2)
    except NoNamespaces as error:
        pytest.skip(str(error))
    names = [Path("/run/netns", made.of(v)) for v in (0, 1)]
    assert all(name.exists() for name in names)
    made.cut(0, 1)
    made.heal(0, 1)
    made.close()
    assert not any(name.exists() for name in names)


# The judge can find fault


def logs_of(
    regenerated: bool = False, policy: GuardianPolicy = GuardianPolicy.WAIT
) -> tuple[Fleet, list[DiskLog]]:
    """Return the logs of a virtual fleet, in which a node was lost, or none."""
    terms = HandOffTerms(
        b"judge", policy=policy, renew_after=20, heartbeat=0.1, dead_after=1.0, retry=0.05
    )
    problem = lw.heterogeneous(NODES, seed=1, important=1)
    fleet = Fleet.of(
        RING, problem, lw.mhlj(), steps=300, step_size="theory", seed=2, terms=terms, record_every=3
    )
    virtual = VirtualFleet(fleet)
    if regenerated:
        while not any(  # a guardian that is the next node itself would have the token
            (held := m.disk["held"])
            and held.status == "moving"
            and held.to != held.guardian
            and held.token.step > 100
            for m in virtual.machines
        ):
            virtual.step()
        holder = virtual.whose("holder")
        virtual.at(virtual.now, PlannedFault("kill", holder))
        virtual.at(virtual.now + 1.2, PlannedFault("restart", holder))
    assert virtual.run()
    return fleet, [DiskLog(v, list(lines), virtual.final) for v, lines in virtual.logs.items()]


def change(
    logs: list[DiskLog], which: Callable[[Visit], bool], make: Callable[[Visit], list[Visit]]
) -> list[DiskLog]:
    """Replace one visit by others."""
    for piece in logs:
        for i, line in enumerate(piece.lines):
            if isinstance(line, Visit) and which(line):
                lines = [*piece.lines[:i], *make(line), *piece.lines[i + 1 :]]
                return [
                    piece._replace(lines=lines) if piece.node == other.node else other
                    for other in logs
                ]
    raise AssertionError("there is no such visit")


def _visits(line: object, step: int) -> bool:
    return isinstance(line, Visit) and line.step == step


def moved(logs: list[DiskLog], step: int) -> list[DiskLog]:
    """Put one visit into another node's log, where it belongs by its order in the epoch."""
    made = {piece.node for piece in logs for line in piece.lines if _visits(line, step)}
    found: list[Visit] = []
    logs = change(logs, lambda line: line.step == step, lambda line: found.append(line) or [])
    away = next(i for i, piece in enumerate(logs) if piece.node not in made)
    at = len([line for line in logs[away].lines if not isinstance(line, Visit) or line.step < step])
    lines = [*logs[away].lines[:at], *found, *logs[away].lines[at:]]
    return [piece._replace(lines=lines) if i == away else piece for i, piece in enumerate(logs)]


@pytest.mark.parametrize("regenerated", [False, True])
def test_the_judge_finds_nothing_in_good_logs(regenerated):
    fleet, logs = logs_of(regenerated)
    verdict = judge(fleet, logs)
    assert (verdict.steps, verdict.epochs) == (300, 1 + regenerated)
    assert verdict.models >= 100


@pytest.mark.parametrize(
    ("invariant", "which", "make"),
    [
        ("I6", lambda line: line.step == 100, lambda line: [line, line._replace(hops=line.hops)]),
        ("I6", lambda line: line.step == 100, lambda line: []),
        (
            "I7",
            lambda line: line.step == 99,
            lambda line: [line._replace(model=np.nextafter(line.model, 1e9))],
        ),
        (
            "I1",
            lambda line: line.step == 100,
            lambda line: [line._replace(transfers=line.transfers - 50)],
        ),
        (
            "I4",
            lambda line: line.step == 100,
            lambda line: [line._replace(transfers=line.transfers + 1)],
        ),
        (
            "I5",
            lambda line: line.step == 100,
            lambda line: [line._replace(token_epoch=(5, 0, 0)), line],
        ),
    ],
)
def test_the_judge_finds_what_is_wrong(invariant, which, make):
    fleet, logs = logs_of()
    with pytest.raises(Violation) as caught:
        judge(fleet, change(logs, which, make))
    assert caught.value.which in (invariant, "I1")


def test_the_judge_finds_an_update_made_by_another_node():
    fleet, logs = logs_of()
    with pytest.raises(Violation, match=r"I[147]"):
        judge(fleet, moved(logs, 100))


def test_the_judge_finds_work_beyond_a_register():
    fleet, logs = logs_of(regenerated=True)
    child = next(
        line
        for piece in logs
        for line in piece.lines
        if isinstance(line, Began) and line.epoch.counter == 1
    )
    last = max(
        (
            line
            for piece in logs
            for line in piece.lines
            if isinstance(line, Visit) and line.token_epoch == child.parent
        ),
        key=lambda line: line.step,
    )
    beyond = last._replace(
        step=last.step + 1, hops=last.hops + 1, transfers=child.epoch.seq + 1, model=None
    )
    with pytest.raises(Violation, match="I3"):
        judge(fleet, change(logs, lambda line: line is last, lambda line: [line, beyond]))


def forked(policy: GuardianPolicy) -> tuple[Fleet, list[DiskLog], list[DiskLog]]:
    """Return logs of a walk, and of two branches of it that both went on."""
    fleet, logs = logs_of(policy=policy)
    began = next(line for piece in logs for line in piece.lines if isinstance(line, Began))
    parent = began.epoch
    steps = {
        line.step: (piece.node, line)
        for piece in logs
        for line in piece.lines
        if isinstance(line, Visit)
    }
    node, at = steps[150]
    left, right = ((1, at.transfers, v) for v in (node, node + 1))
    fork = [
        DiskLog(
            node,
            [
                Began(began.epoch._replace(counter=e[0], seq=e[1], node=e[2]), parent, 150),
                at._replace(token_epoch=e),
            ],
        )
        for e in (left, right)
    ]
    kept = [
        piece._replace(
            lines=[line for line in piece.lines if not isinstance(line, Visit) or line.step < 150],
            token=None,
        )
        for piece in logs
    ]
    return fleet, kept, fork


def test_the_judge_finds_a_fork():
    """Two branches of one epoch both went on: one of them is lost without a word."""
    fleet, kept, fork = forked(GuardianPolicy.WAIT)
    with pytest.raises(Violation, match="fork"):
        judge(fleet, [*kept, *fork])
    assert judge(fleet, [*kept, fork[1]]).lost == 0  # one branch alone is none


def test_the_judge_counts_a_branch_that_eager_or_the_operator_may_make():
    fleet, kept, fork = forked(GuardianPolicy.EAGER)
    assert judge(fleet, [*kept, *fork]).lost == 1
    fleet, kept, fork = forked(GuardianPolicy.WAIT)
    began = fork[1].lines[0]
    assert isinstance(began, Began)
    token = logs_of()[1][0].token
    assert token is not None
    word = Archived(token._replace(epoch=began.parent), REVIVED, began.epoch, 0)
    verdict = judge(fleet, [*kept, fork[0], fork[1]._replace(lines=[word, *fork[1].lines])])
    assert (verdict.lost, verdict.revived) == (1, 1)


def test_the_judge_finds_a_wrong_report():
    fleet, logs = logs_of(regenerated=True)
    archived = [
        (piece, line)
        for piece in logs
        for line in piece.lines
        if isinstance(line, Archived) and line.what != "guarded"
    ]
    (piece, line), *_ = archived
    lines = [line._replace(lost=line.lost + 1) if one is line else one for one in piece.lines]
    with pytest.raises(Violation, match="report"):
        judge(fleet, [piece._replace(lines=lines) if other is piece else other for other in logs])
