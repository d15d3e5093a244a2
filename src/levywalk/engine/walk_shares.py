"""Walkers without a model: what is recorded, and how they are advanced.

They are advanced by compiled code or by the reference step.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from levywalk.arrays import Floats, Ints, Words64
from levywalk.draws import Key, Words, expanded_keys
from levywalk.engine.bind import Sites
from levywalk.engine.reference import ask_nodes
from levywalk.engine.standings import Standings
from levywalk.engine.threads import Share
from levywalk.memory import NodeMemory
from levywalk.step import Travelling, moved, passed
from levywalk.trace.walk_record import WalkRecord

if TYPE_CHECKING:
    from levywalk.engine.kernels.walkers import Scratch, StepParameters, Tables

BATCHES = 200  # of consecutive steps, for the observable


class WalkNotes:
    """The positions of the walkers and what was recorded, one row per replica."""

    def __init__(
        self,
        n: int,
        steps: int,
        replicas: int,
        nodes: Ints,
        visits: bool,
        dwell: bool,
        first: bool,
        walk: bool,
        observable: Floats,
    ) -> None:
        def zeros() -> Ints:
            return np.zeros(replicas, np.int64)

        self.node, self.hops, self.transfers = nodes, zeros(), zeros()
        self.small_messages = zeros()
        self.visits = np.zeros((replicas, n if visits else 0), np.int64)
        self.walk = np.zeros((replicas, steps if walk else 0), np.int32)
        self.first_visit = np.full((replicas, n if first else 0), -1, np.int64)
        self.dwell = dwell
        self.previous, self.stay, self.stays = zeros() - 1, zeros(), zeros()
        self.longest, self.longest_at = zeros(), zeros()
        # Deviations from the middle, so that sums of squares do not lose digits.
        self.middle = float(observable.mean()) if observable.size else 0.0
        self.observable = observable - self.middle
        self.total, self.square = np.zeros(replicas), np.zeros(replicas)
        self.totals = np.zeros((replicas, BATCHES if observable.size else 0))

    def note(self, r: int, v: int, t: int) -> None:
        """Record that replica r is at node v in step t."""
        if self.visits.shape[1]:
            self.visits[r, v] += 1
        if self.walk.shape[1]:
            self.walk[r, t] = v
        if self.first_visit.shape[1] and self.first_visit[r, v] < 0:
            self.first_visit[r, v] = t
        if self.dwell:
            same = v == self.previous[r]
            self.stay[r] = self.stay[r] + 1 if same else 1
            self.stays[r] += not same
            self.previous[r] = v
            if self.stay[r] > self.longest[r]:
                self.longest[r], self.longest_at[r] = self.stay[r], v
        if self.observable.size:
            value = self.observable[v]
            self.total[r] += value
            self.square[r] += value * value

    def published(
        self, done: int, ends: Ints, law: Floats, provenance: dict[str, Any]
    ) -> WalkRecord:
        """Return the public record of the walks."""
        sums = variance = None
        batches = np.diff(ends, prepend=0)
        if self.observable.size:
            totals = self.totals[:, : len(ends)]
            sums = np.diff(totals, axis=1, prepend=0.0)
            count = max(done * len(self.node), 1)
            variance = max(float(self.square.sum() / count - (self.total.sum() / count) ** 2), 0.0)
        return WalkRecord(
            steps=done,
            visits=self.visits if self.visits.size else None,
            walk=self.walk[:, :done] if self.walk.size else None,
            hops=self.hops,
            transfers=self.transfers,
            small_messages=self.small_messages,
            stays=self.stays if self.dwell else None,
            longest_dwell=self.longest if self.dwell else None,
            longest_dwell_node=self.longest_at if self.dwell else None,
            first_visit=self.first_visit if self.first_visit.size else None,
            batches=batches,
            batch_sums=sums,
            observable_middle=self.middle,
            observable_variance=variance,
            final_node=self.node,
            target=law,
            provenance=provenance,
        )


class KernelWalkShare(Share):
    """One thread's walkers: whole groups in vector lanes, the others one by one."""

    def __init__(
        self,
        record: WalkNotes,
        rows: slice,
        walk_keys: Words64,
        tables: Tables,
        iid: bool,
        reach: int,
        step_parameters: Callable[[int, int], StepParameters],
    ) -> None:
        from levywalk.engine.kernels import walkers
        from levywalk.engine.kernels.machine import shape
        from levywalk.engine.kernels.tables import parts_of, widths_of

        self.record, self.tables, self.step_parameters = record, tables, step_parameters
        case = (0, False, False, iid, reach)
        parts = parts_of(rows.start, rows.stop, widths_of(0, walkers.WALK, iid))
        self.parts = [
            (
                walkers.compiled_walkers(walkers.WALK, width, shape().chunk, *case),
                part,
                expanded_keys(walk_keys[part]),
                walkers.scratch(tables, step_parameters(0, 1), width),
            )
            for width, part in parts
        ]

    def advance(self, marks: Ints, column: int) -> None:
        """Walk to the last of the marks."""
        step_parameters = self.step_parameters(self.done, int(marks[-1]))
        for compiled, part, part_keys, scratch in self.parts:
            self._advance(compiled, part, part_keys, scratch, marks, column, step_parameters)

    def _advance(
        self,
        compiled: Callable[..., None],
        part: slice,
        part_keys: Words64,
        scratch: Scratch,
        marks: Ints,
        column: int,
        step_parameters: StepParameters,
    ) -> None:
        from levywalk.engine.kernels.walkers import Diary, Rows

        record, count = self.record, part.stop - part.start
        rows = Rows(
            part_keys,
            np.ones(count),
            np.ones(count, np.bool_),
            record.node[part],
            np.empty((count, 0)),
            record.hops[part],
            record.transfers[part],
            record.visits[part],
            record.walk[part],
        )
        seen = Standings.empty(count, len(marks), 0)
        totals = np.empty((count, len(marks)))
        diary = Diary(
            record.first_visit[part],
            record.dwell,
            record.previous[part],
            record.stay[part],
            record.stays[part],
            record.longest[part],
            record.longest_at[part],
            record.observable,
            record.total[part],
            record.square[part],
            totals,
        )
        compiled(rows, seen, self.done, marks, self.tables, step_parameters, diary, scratch)
        record.node[part], record.hops[part] = seen.node[:, -1], seen.hops[:, -1]
        record.transfers[part] = seen.transfers[:, -1]
        if record.observable.size:
            record.totals[part, column : column + len(marks)] = totals


class ReferenceWalkShare(Share):
    """All walkers one after the other, with the walk's own `decide`; this supports any walk."""

    def __init__(
        self, record: WalkNotes, walk_keys: Words64, sites: Sites, memory: NodeMemory | None
    ) -> None:
        self.record, self.sites, self.memory = record, sites, memory
        self.keys = [Key(int(k0), int(k1)) for k0, k1 in walk_keys]
        first = sites.method.first_memory()
        nothing = np.empty(0)
        self.tokens = [
            Travelling(nothing, {name: array.copy() for name, array in first.items()})
            for _ in self.keys
        ]
        self.asks = any(phase.walk.asks_neighbours for phase in sites.method.phases)

    def most_steps(self) -> int:
        """Return a number of steps that takes well under a second."""
        return max(1, 10_000 // len(self.keys))

    def advance(self, marks: Ints, column: int) -> None:
        """Walk to the last of the marks."""
        self.sites.method.prepare(self.done, int(marks[-1]))
        for r in range(len(self.keys)):
            start = self.done
            for i, stop in enumerate(marks.tolist()):
                self._advance_one(r, start, stop)
                start = stop
                if self.record.observable.size:
                    self.record.totals[r, column + i] = self.record.total[r]

    def _advance_one(self, r: int, start: int, stop: int) -> None:
        record, sites, memory, token = self.record, self.sites, self.memory, self.tokens[r]
        v, idle = int(record.node[r]), sites.bounds[0].idle
        for t in range(start, stop):
            record.note(r, v, t)
            token, words = token._replace(step=t + 1, passes=0), Words(self.keys[r], t)
            while True:
                site = sites(v)
                if memory is not None:
                    site.memory = memory.at(r, v)
                    site.ask = partial(ask_nodes, memory, r) if self.asks else None
                token, to = moved(site, token, words)
                record.transfers[r] += to != v
                v = to
                if token.distance:
                    continue
                if idle is None or not idle[v]:
                    break
                token = passed(token)
        record.node[r], record.hops[r], record.small_messages[r] = (
            v,
            token.hops,
            token.small_messages,
        )
        self.tokens[r] = token
