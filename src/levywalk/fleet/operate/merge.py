"""Merge the nodes' logs into the `Trace` that a simulation would have made.

Every node logs its updates (`Visit`), the epochs that it began (`Began`) and the tokens that a
higher epoch replaced (`Archived`). The walk that counts is that of the highest epoch: its own steps
from its base on, the steps of its parent epoch below that base, and so on. All other updates in the
logs are lost, and are counted.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any

import numpy as np

from levywalk.arrays import Floats, Ints
from levywalk.engine.measure import Measure, loss_nodes
from levywalk.engine.standings import Standings
from levywalk.errors import DataWarning, InvalidParameter
from levywalk.fleet.protocol.node_step import Measured, PublishedWalk, Visit
from levywalk.fleet.protocol.records import Archived, Began, Line, NewGeneration
from levywalk.fleet.protocol.token import FIRST, Epoch
from levywalk.fleet.setup.build import Fleet
from levywalk.fleet.setup.built import BuiltProblem
from levywalk.privacy.privacy import SIMULATED
from levywalk.trace import Trace
from levywalk.trace.provenance import provenance_of

NO_MODELS = "logs must contain at least one model"  # how this error of `merge` begins
Logs = Mapping[int, Sequence[Line]]


@dataclass(frozen=True)
class Chain:
    """The walk that counts, as far as the logs contain it.

    Attributes
    ----------
    epochs
        The winning lineage from the first epoch to the last, each with the step at which it began.
    visits
        By step: the node, and its log line.
    missing
        Steps that no log contains.
    lost
        Updates in the logs that do not count: (epoch, step). None if it is not known how an epoch
        began, because a log is missing.
    """

    epochs: tuple[tuple[Epoch, int], ...]
    visits: dict[int, tuple[int, Visit]]
    missing: tuple[int, ...]
    lost: tuple[tuple[Epoch, int], ...] | None


def merge(logs: Logs, fleet: Fleet, *, missing: str = "refuse", until: int | None = None) -> Trace:
    """Merge the nodes' logs into one trace.

    Parameters
    ----------
    logs
        Every node's log lines, by node.
    fleet
        The fleet that made the walk.
    missing
        What to do when lines are missing because a disk was lost. "refuse": raise an error. "mark":
        such steps are -1 in the walk, their checkpoints are left out, and
        ``provenance["fleet"]["missing"]`` lists them.
    until
        The last step that the trace contains; None for all.

    Returns
    -------
    Trace
        Without faults and with a shared key it is that of
        ``run(..., backend="reference", record_walk=True)``, to the bit.

    Examples
    --------
    >>> import levywalk as lw
    >>> from levywalk.fleet.simulate.virtual import VirtualFleet
    >>> fleet = Fleet.of(
    ...     lw.ring(12),
    ...     lw.homogeneous(12),
    ...     lw.mhlj(),
    ...     steps=100,
    ...     step_size="theory",
    ...     record_every=10,
    ... )
    >>> virtual = VirtualFleet(fleet)
    >>> virtual.run()
    True
    >>> trace = merge(virtual.logs, fleet)
    >>> trace, trace.provenance["fleet"]["lost_updates"]
    (Trace(MHLJ: 1 replica x 100 steps), 0)
    """
    if missing not in ("refuse", "mark"):
        raise InvalidParameter(f"missing must be 'refuse' or 'mark', got {missing!r}")
    chain = winning_chain(logs, fleet.published)
    if chain.missing and missing == "refuse":
        raise InvalidParameter(
            f"logs must contain every step, but {len(chain.missing)} are missing "
            f"({_few(chain.missing)}): a disk was lost, visits were pruned, or a log was left "
            "out; use missing='mark' to continue without them"
        )
    if until is not None:
        visits = {step: found for step, found in chain.visits.items() if step <= until}
        chain = replace(chain, visits=visits)
    return _trace(chain, logs, fleet)


def winning_chain(logs: Logs, published: PublishedWalk) -> Chain:
    """Find the walk that counts: the highest epoch, its parent, and so on."""
    began: dict[Epoch, Began] = {}
    lines: dict[Epoch, dict[int, tuple[int, Visit]]] = {}
    for v, line in _lines(logs):
        if isinstance(line, Began):
            if line.possible:
                began[line.epoch] = line
        elif isinstance(line, Visit):
            steps = lines.setdefault(Epoch(*line.token_epoch), {})
            if line.step in steps:
                other = steps[line.step][0]
                raise InvalidParameter(
                    f"logs must contain each step of an epoch once, but nodes {other} and {v} both "
                    "have "
                    f"step {line.step} of epoch {tuple(line.token_epoch)}"
                )
            steps[line.step] = v, line
    if not lines and not began:
        raise InvalidParameter("logs must contain at least one line: there is nothing to merge")
    epochs, visits = _lineage(began, lines)
    missing = tuple(step for step in range(max(visits, default=0)) if step not in visits)
    whole = epochs[0][0] in began
    return Chain(
        tuple(epochs), visits, missing, tuple(_lost(lines, epochs, published)) if whole else None
    )


def _lines(logs: Logs) -> Iterator[tuple[int, Line]]:
    return ((v, line) for v, log in sorted(logs.items()) for line in log)


def _lineage(
    began: dict[Epoch, Began], lines: dict[Epoch, dict[int, tuple[int, Visit]]]
) -> tuple[list[tuple[Epoch, int]], dict[int, tuple[int, Visit]]]:
    """Follow the parents of the highest epoch.

    The parents of an epoch whose beginning is in no log are not known.
    """
    epoch, end = max([*began, *lines]), 1 << 62
    epochs: list[tuple[Epoch, int]] = []
    visits: dict[int, tuple[int, Visit]] = {}
    while epoch != FIRST:
        own = lines.get(epoch, {})
        known = began.get(epoch)
        base = min(own, default=end) if known is None else known.base
        visits |= {step: found for step, found in own.items() if base <= step < end}
        epochs.append((epoch, base))
        if known is None:
            break
        epoch, end = known.parent, min(end, base)
    return epochs[::-1], visits


def _lost(
    lines: dict[Epoch, dict[int, tuple[int, Visit]]],
    epochs: list[tuple[Epoch, int]],
    published: PublishedWalk,
) -> Iterator[tuple[Epoch, int]]:
    """Yield the updates that do not count: those of other epochs, and those beyond the base of the
    next epoch.
    """
    ends = {epoch: base for (epoch, _), (_, base) in pairwise(epochs)} | {epochs[-1][0]: 1 << 62}
    for epoch, steps in sorted(lines.items()):
        for step, (_, line) in sorted(steps.items()):
            if step >= ends.get(epoch, 0) and not _is_end(line, published):
                yield epoch, step


def _is_end(line: Visit, published: PublishedWalk) -> bool:
    """Return whether the line is the last one of the walk, after the last update."""
    return line.step >= published.steps or (published.stop == "detector" and line.switched_at >= 0)


def _trace(chain: Chain, logs: Logs, fleet: Fleet) -> Trace:
    published, problem = fleet.published, fleet.problem
    kept = [found for _, found in sorted(chain.visits.items()) if found[1].model is not None]
    if not kept:
        raise InvalidParameter(
            f"{NO_MODELS}, and no line has one: those with a model were "
            "pruned, or their disks are lost. The walk records one every "
            f"{published.record_every:,} updates and at its end: try again after that"
        )
    node, last = kept[-1]
    lines = [line for _, line in kept]
    walk = np.full((1, last.step), -1, np.int32)
    for step, (v, _) in chain.visits.items():
        if step < last.step:
            walk[0, step] = v
    nodes = loss_nodes("auto", problem, published.update, published.steps, len(kept), fleet.seed)
    with warnings.catch_warnings():
        if isinstance(problem, BuiltProblem):  # nobody expects a network's optimum to be known
            warnings.simplefilter("ignore", DataWarning)
        measure = Measure(problem, nodes)
    counts = (
        np.array([[getattr(line, name) for line in lines]])
        for name in ("hops", "transfers", "small_messages")
    )
    hops, transfers, small = counts
    errors = _errors(measure, kept, hops, transfers)
    bound = fleet.design.phases[0].bind(fleet.network, problem)
    found = Trace(
        step=np.array([line.step for line in lines]),
        distance2=errors[:, 0],
        excess_loss=errors[:, 1],
        loss=errors[:, 2],
        hops=hops,
        transfers=transfers,
        bytes=transfers * published.method.token_bytes,
        small_messages=small,
        visits=np.bincount(walk[walk >= 0], minlength=fleet.network.n)[None],
        walk=walk,
        final_node=np.array([node]),
        model=np.array([last.model]),
        diverged_at=np.array([last.diverged_at]),
        switched_at=np.array([last.switched_at if fleet.design.detector is not None else -1]),
        target=bound.spread(bound.law),
        optimum=measure.optimum,
        provenance=_provenance(chain, logs, fleet, bound.largest, last)
        | {"loss": measure.describe()},
        node_names=fleet.network.given_names,
    )
    return with_metrics(found, _metrics(kept, logs, fleet))


def _metrics(kept: list[tuple[int, Visit]], logs: Logs, fleet: Fleet) -> dict[str, Floats]:
    """Return the metrics at the checkpoints, (1, checkpoints) each: what the node that held the
    model has measured on its own held-out data.
    """
    if not isinstance(fleet.problem, BuiltProblem) or not fleet.problem.code.metrics:
        return {}
    names = fleet.problem.code.metrics
    told = {
        (v, Epoch(*line.token_epoch), line.step): line.values
        for v, line in _lines(logs)
        if isinstance(line, Measured) and len(line.values) == len(names)
    }
    none = (np.nan,) * len(names)
    rows = [told.get((v, Epoch(*line.token_epoch), line.step), none) for v, line in kept]
    return {name: np.array([[row[i] for row in rows]]) for i, name in enumerate(names)}


def with_metrics(trace: Trace, metrics: dict[str, Floats]) -> Trace:
    """Return the trace with metrics, where traces have them."""
    if not metrics:
        return trace
    given: dict[str, Any] = {"metrics": metrics, "metric_step": trace.step}
    known = {entry.name for entry in fields(trace)}
    return replace(trace, **{name: value for name, value in given.items() if name in known})


def _errors(measure: Measure, kept: list[tuple[int, Visit]], hops: Ints, transfers: Ints) -> Floats:
    """Return distance2, excess_loss and loss at the checkpoints, as a simulation measures them."""
    models = np.array([[line.model for _, line in kept]])
    active = np.array([[line.diverged_at < 0 for _, line in kept]])
    nodes = np.array([[v for v, _ in kept]])
    seen = Standings(nodes, models, hops, transfers, np.zeros_like(hops), active)
    errors = np.full((1, 3, len(kept)), np.nan)
    measure(seen, errors, 0)
    return errors


def _provenance(
    chain: Chain, logs: Logs, fleet: Fleet, largest: float, last: Visit
) -> dict[str, Any]:
    published = fleet.published
    return provenance_of(
        fleet.network,
        fleet.problem,
        fleet.design,
        published.update,
        (phase.step_size for phase in published.phases),
        largest,
        backend="fleet",
        seed=fleet.seed,
        steps=published.steps,
        replicas=1,
    ) | {
        "start": fleet.start,
        "interrupted": not _is_end(last, published),
        "fleet": _of_fleet(chain, logs, fleet, last),
        **_privacy(fleet),
    }


def _privacy(fleet: Fleet) -> dict[str, Any]:
    """Return what was promised before the walk; what is spent is on the nodes' disks."""
    bound = fleet.published.privacy
    if bound is None:
        return {}
    found = bound.privacy.record() | {
        "definition": bound.privacy.definition,
        "updates_at_cap": bound.whole_cap,  # of all tokens together, as in a simulation
        "epsilon_at_cap": bound.privacy.epsilon(bound.whole_cap),
        "accountant": "composition",
    }
    return {"privacy": found if fleet.real else found | {"simulated": SIMULATED}}


def _of_fleet(chain: Chain, logs: Logs, fleet: Fleet, last: Visit) -> dict[str, Any]:
    """Return what only a fleet knows: its epochs, what was lost, when it stopped."""
    archived = [line for _, line in _lines(logs) if isinstance(line, Archived)]
    return {
        **({"token": fleet.token_number} if fleet.tokens > 1 else {}),
        "shared_key": fleet.shared_key,
        "epochs": [{"epoch": list(epoch), "base": base} for epoch, base in chain.epochs],
        "lost_updates": None if chain.lost is None else len(chain.lost),
        "archived": len(archived),
        "missing": list(chain.missing),
        "memory_starts": [
            line.plain()
            for _, line in sorted(_lines(logs), key=lambda found: found[0])
            if isinstance(line, NewGeneration) and line.token_epoch in dict(chain.epochs)
        ],
        "stop": fleet.published.stop,
        "stopped_at": last.step if _is_end(last, fleet.published) else -1,
    }


def _few(steps: Sequence[int]) -> str:
    shown = ", ".join(map(str, steps[:5]))
    return f"steps {shown}, …" if len(steps) > 5 else f"steps {shown}"
