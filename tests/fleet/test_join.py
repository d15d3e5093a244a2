"""Nodes join a fleet beyond the number that it was created for: the record of its size, what tokens
carry of it, and that every update uses the number of nodes and the L̄ that its log says.
"""

from __future__ import annotations

import numpy as np
import pytest

import levywalk as lw
from levywalk.fleet.checking.growing import SizeAt, founded_by, size_of
from levywalk.fleet.checking.violation import Violation
from levywalk.fleet.checking.walk_replay import check_replay
from levywalk.fleet.operate.merge import merge
from levywalk.fleet.protocol.records import NewSize
from levywalk.fleet.protocol.terms import HandOffTerms
from levywalk.fleet.setup.build import Fleet
from levywalk.fleet.simulate.virtual import PlannedFault, VirtualFleet

N = 7  # nodes at the end; the last one joins
TERMS = HandOffTerms(run=b"join", heartbeat=0.5, dead_after=5.0, retry=0.2)
METHODS = {
    "importance": (lw.mhlj(), None),
    "mixed": (lw.mixed_rw(0.5), None),
    "uniform": (lw.unif_rw(), None),
    "saga": (lw.unif_rw(), "saga"),
    "switching": (lw.switching(lw.mhlj(), lw.unif_rw()), None),
}


def grown(method: str, steps: int = 400) -> Fleet:
    """Return a fleet of seven nodes that was created for six."""
    design, update = METHODS[method]
    network = lw.watts_strogatz(N, 4, 0.3, seed=2)
    problem = lw.heterogeneous(N, dim=3, seed=1, important=2)
    more = {} if update is None else {"update": update}
    fleet = Fleet.of(
        network, problem, design, steps=steps, step_size=0.01, seed=4, start=0, terms=TERMS, **more
    )
    return founded_by(fleet, N - 1)


def sizes_used(virtual: VirtualFleet) -> dict[int, SizeAt]:
    """Return from which steps on which size was used, as the nodes' logs say."""
    fleet = virtual.fleet
    first = size_of(fleet, N - 1)
    lines = [line for one in virtual.machines for line in one.log if isinstance(line, NewSize)]
    found = {0: SizeAt(first.nodes, first.mean_smoothness)}
    return found | {line.step: SizeAt(line.nodes, line.mean_smoothness) for line in lines}


def walked(virtual: VirtualFleet) -> list[int]:
    logs = {v: machine.log for v, machine in enumerate(virtual.machines)}
    trace = merge(logs, virtual.fleet)
    return [*trace.walk[0].tolist(), int(trace.final_node[0])]


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("method", list(METHODS))
def test_a_node_joins_and_every_update_is_that_of_its_size(method: str, signed: bool) -> None:
    fleet = grown(method)
    last = size_of(fleet, N)
    virtual = VirtualFleet(fleet, absent={N - 1}, grows=last, signed=signed)
    virtual.at(0.5, PlannedFault("join", N - 1))
    assert virtual.run()
    assert virtual.final is not None
    assert virtual.final.size == 1
    kept = [machine.disk["size"] for machine in virtual.machines]
    assert {one[:3] for one in kept} == {last[:3]}
    walk, sizes = walked(virtual), sizes_used(virtual)
    assert len(sizes) == 2
    assert N - 1 in walk
    at = max(sizes)
    assert N - 1 not in walk[:at]
    check_replay(fleet, walk, virtual.final, sizes=sizes)
    if method != "uniform":  # whose updates depend on neither number
        for wrong in ({0: sizes[0]}, {0: sizes[at]}, {0: sizes[0], at + 1: sizes[at]}):
            with pytest.raises(Violation):
                check_replay(fleet, walk, virtual.final, sizes=wrong)


@pytest.mark.parametrize("method", ["importance", "mixed", "uniform", "switching"])
def test_the_law_after_the_join_is_the_target_of_all_nodes(method: str) -> None:
    """The Metropolis rule with what the nodes know at the end gives the target of all seven nodes,
    by exact linear algebra, and the mean of its scores is the published one.
    """
    fleet = grown(method)
    virtual = VirtualFleet(fleet, absent={N - 1}, grows=size_of(fleet, N))
    virtual.at(0.5, PlannedFault("join", N - 1))
    assert virtual.run()
    virtual.run(until=virtual.now + 20 * TERMS.heartbeat)
    smoothness, degree = fleet.problem.smoothness, fleet.network.degree
    mean = float(np.mean(smoothness))
    for phase, part in enumerate(fleet.design.phases):
        target = lw.walks.as_target(part.target).scores(degree, smoothness, mean)
        P = np.zeros((N, N))
        for v in range(N):
            site = virtual.node(v).site
            view = site.views[phase]
            assert view.degree == degree[v]
            t, d = view.score, view.degree
            for u, other_d, other_t in zip(
                view.neighbours, view.neighbour_degrees, view.neighbour_scores, strict=True
            ):
                P[v, u] = min(t / d, other_t / other_d) / t
            P[v, v] = 1.0 - P[v].sum()
            published = site.published.phases[phase]
            if published.mean_score is not None:
                assert published.mean_score == pytest.approx(target.mean(), rel=1e-14)
        values, vectors = np.linalg.eig(P.T)
        law = np.real(vectors[:, np.argmax(np.real(values))])
        np.testing.assert_allclose(law / law.sum(), target / target.sum(), atol=1e-12)
