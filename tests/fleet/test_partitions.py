"""Many machines in one: nodes in network namespaces whose links flap, and whose network is split
into halves for longer than ``dead_after``, under both policies, without and with memory at the
nodes.

All traffic is inside the namespaces. Every loop has a limit of rounds and of time.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

import levywalk as lw
from levywalk.fleet.checking.logs import WalkVerdict, judge_folder
from levywalk.fleet.checking.namespaces import Namespaces, NoNamespaces
from levywalk.fleet.checking.process_faults import nearest_half, ways_between
from levywalk.fleet.checking.processes import TERMS, settle
from levywalk.fleet.checking.running_fleet import RunningFleet
from levywalk.fleet.protocol.terms import GuardianPolicy
from tests.limits import PATIENCE, mostly_soak
from tests.limits import eventually as until

NODES = 6
FLAPS = 8
# Without memory, with oldest neighbour and SAGA (0), and with least-used edge and SAGA (1).
CASES = [(policy, memory) for policy in GuardianPolicy for memory in (None, 0, 1)]
NAMES = {None: "SGD", 0: "oldest neighbour", 1: "least-used edge"}


def named(case: tuple[GuardianPolicy, int | None]) -> str:
    """Return a case in words."""
    return f"{case[0]}, {NAMES[case[1]]}"


@pytest.fixture
def between() -> Iterator[Namespaces]:
    """Network namespaces, which are deleted at the end."""
    try:
        made = Namespaces(NODES)
    except NoNamespaces as error:
        pytest.skip(str(error))
    with closing(made):
        yield made


def walking(
    folder: Path, between: Namespaces, policy: GuardianPolicy, memory: int | None
) -> RunningFleet:
    """Start a fleet in the namespaces; its walk has begun."""
    network = lw.watts_strogatz(NODES, 4, 0.2, seed=3)
    terms = replace(TERMS, policy=policy)
    live = RunningFleet(settle(folder, network, seed=1, terms=terms, memory=memory), between)
    try:
        live.begin(PATIENCE)
        until(lambda: live.pulse().transfers > NODES)
    except BaseException:
        live.__exit__(None, None, None)
        raise
    return live


def cut_for(between: Namespaces, ways: list[tuple[int, int]], seconds: float) -> None:
    """Cut these ways, wait, and heal them."""
    for way in ways:
        between.cut(*way)
    end = time.monotonic() + seconds
    until(lambda: time.monotonic() > end)
    for way in ways:
        between.heal(*way)


def ended(live: RunningFleet) -> WalkVerdict:
    """Wait until all nodes know of one epoch and the walk goes on in it; then judge the logs."""
    until(lambda: len({tuple(one["epoch"]) for one in live.statuses().values()}) == 1)
    until(
        lambda: all(
            edge["up"] for one in live.statuses().values() for edge in one["edges"].values()
        )
    )
    live.wait(live.pulse(), PATIENCE)
    until(lambda: len(live.statuses()) == live.n)
    for v in live.running():
        assert live.end(v) == 0
    verdict = judge_folder(live.fleet, live.folder)
    if live.fleet.published.remembers:  # I8 was judged, and not in vain
        assert verdict.models > 0
        assert verdict.entries > NODES
    return verdict


@pytest.mark.more
@pytest.mark.parametrize(
    "case",
    mostly_soak(CASES, lambda case: case == ("eager", 0)),
    ids=named,
)
def test_links_that_flap(tmp_path, between, case):
    """No cut is as long as ``dead_after``: nobody is dead, so nothing is lost and nothing is
    restored, unless this machine itself was too slow.
    """
    policy, memory = case
    with walking(tmp_path / "fleet", between, policy, memory) as live:
        edges = [(a, b) for a in range(NODES) for b in live.neighbours(a) if a < b]
        for i in range(FLAPS):
            a, b = edges[(5 * i) % len(edges)]
            cut_for(between, [(a, b), (b, a)], 0.25 * TERMS.dead_after)
        verdict = ended(live)
    assert verdict.steps > FLAPS
    if verdict.epochs == 1:
        assert verdict.lost == 0
    else:  # a node that does not get the processor for seconds is silent, too
        assert verdict.lost <= (verdict.epochs - 1) * TERMS.renew_after or policy == "eager"
    assert verdict.shown == (verdict.lost, verdict.lost)


@pytest.mark.more
@pytest.mark.parametrize(
    "case",
    mostly_soak(CASES, lambda case: case in [("wait", 0), ("eager", 1)]),
    ids=named,
)
def test_a_split_into_halves(tmp_path, between, case):
    """The holder is on one side and its guardian on the other, for longer than ``dead_after``."""
    policy, memory = case
    with walking(tmp_path / "fleet", between, policy, memory) as live:
        holder = live.catch("holder", PATIENCE)
        half = nearest_half(live, holder)
        guardian = live._disk(holder)[0].guardian  # type: ignore[union-attr]
        if guardian in half:
            half = [v for v in half if v != guardian]
        ways = ways_between(live, half)
        before = live.pulse()
        for way in ways:
            between.cut(*way)
        live.thaw(holder)
        others = [v for v in range(NODES) if v not in half]
        until(lambda: any(tuple(live.statuses()[v]["epoch"]) > before.epoch for v in others))
        live.wait(before, PATIENCE)
        here = {tuple(live.statuses()[v]["epoch"]) for v in half}
        if policy == GuardianPolicy.WAIT:  # no second walk: the holder's side cannot open an epoch
            assert here == {before.epoch}
        else:
            until(lambda: all(tuple(live.statuses()[v]["epoch"]) > before.epoch for v in half))
            live.wait(live.pulse(), PATIENCE)
        for way in ways:
            between.heal(*way)
        verdict = ended(live)
    assert verdict.epochs >= 2
    if policy == GuardianPolicy.WAIT:
        assert verdict.lost <= (verdict.epochs - 1) * TERMS.renew_after
    assert verdict.shown == (
        verdict.lost,
        verdict.lost,
    )  # what the operator sees is the true number
