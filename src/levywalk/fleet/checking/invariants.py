"""The invariants I1 to I8, checked over all disks after every write and at the end.

A node knows little about the others; here all disks are known. `Invariants.persisted` is called for
every write to any disk, and raises `Violation` as soon as an invariant is broken:

- I1: of the tokens on disk that are ACTIVE, MOVING, WITHDRAWING or ENDING there is at most one per
  epoch. One that is MOVING or WITHDRAWING does not count once the register has released exactly its
  choice: it can only become a guardian's copy.
- I2: on a disk that is not lost for ever there is a copy that can continue. Its epoch must not be
  below the highest epoch that any disk of a running node knows (it would be archived). It is: the
  end; or a token that is not just PREPARED; or a guarded copy with an empty register; or a
  PREPARED token whose certificate is on the disk of a running node.
- I3, I4: a register is written once and by one guardian; once it says REGENERATED, no later token
  of that epoch becomes active; each (epoch, seq) becomes active once.
- I5: the epoch that a disk knows never falls.
- No node is reported to have lied: all nodes are honest here, and their signatures are symbolic.
- I6: each (epoch, step) is logged once, and no decision that is on disk is made again with another
  result.

`judge` checks the whole walk when it is over: I7, I8 (see `memory_watch`), and what was lost. It
is in the same class, although that is long, because it judges what `persisted` has noted.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, NamedTuple

from levywalk.fleet.checking.growing import SizeAt, size_of, sizes_along, sizes_told
from levywalk.fleet.checking.memory_watch import NOTHING_REMEMBERED, MemoryWatch
from levywalk.fleet.checking.spent_watch import SpentWatch
from levywalk.fleet.checking.violation import Violation
from levywalk.fleet.checking.walk_replay import check_replay
from levywalk.fleet.protocol.messages import Certificate
from levywalk.fleet.protocol.node_step import Visit
from levywalk.fleet.protocol.records import (
    Archived,
    Began,
    Disk,
    Guarded,
    Held,
    HeldStatus,
    Line,
    NewSize,
    RegisterValue,
)
from levywalk.fleet.protocol.terms import GuardianPolicy
from levywalk.fleet.protocol.token import FIRST, Epoch, Token
from levywalk.fleet.setup.build import Fleet

LIVE = (*(HeldStatus.ACTIVE, HeldStatus.MOVING, HeldStatus.WITHDRAWING, HeldStatus.ENDING),)
Place = tuple[Epoch, int]


class WalkCost(NamedTuple):
    """What the faults have cost: new epochs, how many of them a guardian began, and updates that do
    not count.
    """

    epochs: int
    regenerated: int
    lost: int


class Invariants:
    """Watches all disks."""

    def __init__(self, fleet: Fleet, disks: list[Disk]) -> None:
        self.fleet, self.disks = fleet, disks
        self.dead: set[int] = set()
        self.started = False  # whether the first token is on a disk
        self.whole = (
            False  # whether holder and guardian both had a copy since the last permanent death
        )
        self.deaths = 0  # permanent losses of a node or of its disk
        self.misled = False  # whether the operator has said of a living node that it is gone
        self.ended: dict[int, Epoch] = {}
        self.live: dict[Epoch, set[int]] = {}
        self.registers: dict[Place, Certificate | str] = {}
        self.guardians: dict[Place, int] = {}
        self.holders: dict[Place, int] = {}
        self.choices: dict[tuple[int, Epoch, int, int], int] = {}
        self.visits: dict[Epoch, dict[int, tuple[int, Visit]]] = {}
        self.began: dict[Epoch, tuple[Epoch, int]] = {}
        self.archived: list[tuple[int, Archived]] = []
        self.sizes: dict[tuple[int, NewSize], NewSize] = {}
        self.regenerated: set[Epoch] = set()
        self.revived: dict[Place, set[int]] = {}  # prepared tokens that were revived, and where
        self.forgotten: set[Place] = set()  # registers on disks that are lost
        self.doubtful: dict[int, int] = {}  # disks that were rolled back, and to which write
        self.writes = [0] * len(disks)
        self._made: list[list[tuple[int, dict[Any, Any], Any]]] = [[] for _ in disks]
        self._held: list[Held | None] = [None] * len(disks)
        self._known = [FIRST] * len(disks)
        self._top: Epoch | None = None  # the highest known epoch; None if it must be looked for
        self._copy = 0  # the disk on which the last look has found a copy that can continue
        self.memory = MemoryWatch(fleet, self._note)
        self.spent = SpentWatch(fleet, self._note)

    # After every write

    def persisted(self, v: int, slots: dict[str, Any], lines: Iterable[Line]) -> None:
        """Note one write, and check what it can break."""
        self.writes[v] += 1
        if "known" in slots:
            self._know(v, slots["known"].epoch)
        if slots.get("liars"):
            raise Violation("lie", f"node {v} says that an honest node has lied: {slots['liars']}")
        for line in lines:
            self._log(v, line)
        if self.memory.on:
            self.memory.persisted(v, slots, lines, self.disks[v])
        if self.spent.on:
            self.spent.persisted(v, slots, lines)
        if "guarded" in slots and slots["guarded"] is not None:
            self._guard(v, slots["guarded"])
        if "held" in slots:
            self._hold(v, slots["held"])
        if "final" in slots:
            self._end(v, slots["final"])
        if self.started and not _COPIES.isdisjoint(slots):
            self.check_copy()

    def _know(self, v: int, epoch: Epoch) -> None:
        if epoch < self._known[v]:
            raise Violation(
                "I5", f"node {v} knew epoch {tuple(self._known[v])} and now {tuple(epoch)}"
            )
        if epoch != self._known[v]:
            self._known[v], self._top = epoch, None

    def _log(self, v: int, line: Line) -> None:
        if isinstance(line, Visit):
            steps = self.visits.setdefault(Epoch(*line.token_epoch), {})
            if line.step in steps:
                raise Violation(
                    "I6",
                    f"step {line.step} of {tuple(line.token_epoch)} at nodes {steps[line.step][0]} "
                    f"and {v}",
                )
            steps[line.step] = v, line
            self._note(v, steps, line.step)
        elif isinstance(line, Began):
            if line.epoch not in self.began:
                self._note(v, self.began, line.epoch)
            if self.began.setdefault(line.epoch, line[1:]) != line[1:]:
                raise Violation(
                    "log",
                    f"epoch {tuple(line.epoch)} began twice, from {self.began[line.epoch]} and "
                    f"{line}",
                )
        elif isinstance(line, NewSize):
            self.sizes[v, line] = line
            self._note(v, self.sizes, (v, line))
        elif isinstance(line, Archived):
            self.archived.append((v, line))

    def _guard(self, v: int, guarded: Guarded) -> None:
        place = guarded.copy.epoch, guarded.copy.seq
        if place in self.forgotten:
            self.forgotten.discard(place)
            self.registers.pop(place, None)
        if place not in self.guardians:
            self._note(v, self.guardians, place)
        if self.guardians.setdefault(place, v) != v:
            raise Violation(
                "I3", f"{_at(place)} has two guardians, {self.guardians[place]} and {v}"
            )
        register = guarded.register
        if register is None:
            if self.registers.get(place) is not None:
                raise Violation("I3", f"node {v} has wiped the register of {_at(place)}")
            return
        if place not in self.registers:
            self._note(v, self.registers, place)
        if self.registers.setdefault(place, register) != register:
            raise Violation("I3", f"the register of {_at(place)} was written twice")
        if register == RegisterValue.REGENERATED:
            self.regenerated.add(place[0])
            later = [p for p in self.holders if p[0] == place[0] and p[1] > place[1]]
            if later:
                raise Violation("I3", f"{_at(place)} was regenerated, but {_at(later[0])} is alive")

    def _hold(self, v: int, held: Held | None) -> None:
        before, self._held[v] = self._held[v], held
        if before is not None and before.status in LIVE:
            self.live[before.token.epoch].discard(v)
        if held is None:
            return
        self.started = True
        epoch = held.token.epoch
        if held.to >= 0:
            self._check_choice(v, held)
        if held.status in LIVE:
            self.live.setdefault(epoch, set()).add(v)
            if before is None or before.status not in LIVE or before.token.epoch != epoch:
                self._comes_to_life(v, held)
            self._check_single(epoch)

    def _check_choice(self, v: int, held: Held) -> None:
        made = (v, held.token.epoch, held.token.seq, held.token.version)
        if made not in self.choices:
            self._note(v, self.choices, made)
        if self.choices.setdefault(made, held.to) != held.to:
            raise Violation(
                "choice",
                f"node {v} chose {self.choices[made]} after step {held.token.step}, then {held.to}",
            )

    def _comes_to_life(self, v: int, held: Held) -> None:
        place = held.token.epoch, held.token.seq
        if place in self.holders:
            raise Violation(
                "I4",
                f"{_at(place)} became active at node {self.holders[place]} and then at node {v}",
            )
        self.holders[place] = v
        self._note(v, self.holders, place)
        dead = [
            p
            for p, r in self.registers.items()
            if p[0] == place[0] and p[1] < place[1] and r == RegisterValue.REGENERATED
        ]
        if dead:
            raise Violation(
                "I3", f"{_at(place)} became active at node {v} after {_at(dead[0])} was regenerated"
            )
        if held.guardian not in self.dead:
            guarded = self.disks[held.guardian].guarded
            if (
                guarded is not None
                and (guarded.copy.epoch, guarded.copy.seq) == place
                and guarded.register is None
            ):
                self.whole = self.whole or held.token.epoch >= self._highest()

    def _check_single(self, epoch: Epoch) -> None:
        nodes = self.live[epoch]
        if len(nodes) > 1:
            counted = [v for v in nodes if not self._is_released(v)]
            if len(counted) > 1:
                raise Violation("I1", f"epoch {tuple(epoch)} is alive at nodes {sorted(counted)}")

    def _is_released(self, v: int) -> bool:
        held = self._held[v]
        assert held is not None
        register = self.registers.get((held.token.epoch, held.token.seq))
        if held.to < 0 or not isinstance(register, Certificate):
            return False
        sent = held.token.handed_over(v, held.to)
        return register[3:6] == (held.to, v, sent.digest())

    def _end(self, v: int, final: Token | None) -> None:
        if final is None:
            self.ended.pop(v, None)
        else:
            self.ended[v] = final.epoch

    def _highest(self) -> Epoch:
        if self._top is None:
            self._top = max(epoch for v, epoch in enumerate(self._known) if self._counts(v))
        return self._top

    def _counts(self, v: int) -> bool:
        return v not in self.dead and v not in self.doubtful

    def check_copy(self) -> None:
        """Check I2."""
        highest, last = self._highest(), self._copy
        if self._counts(last) and self._can_continue(self.disks[last], last, highest):
            return  # usually it is where it was
        for v, disk in enumerate(self.disks):
            if self._counts(v) and self._can_continue(disk, v, highest):
                self._copy = v
                return
        raise Violation("I2", f"no copy of epoch {tuple(highest)} or later can continue")

    def _can_continue(self, disk: Disk, v: int, highest: Epoch) -> bool:
        held, guarded = disk.held, disk.guarded
        lives = held is not None and (
            held.status != HeldStatus.PREPARED or self._is_certified(v, held)
        )
        if held is not None and lives and held.token.epoch >= highest:
            return True
        if guarded is not None and guarded.copy.epoch >= highest and guarded.register is None:
            return True
        return disk.final is not None and disk.final.epoch >= highest

    def _is_certified(self, v: int, held: Held) -> bool:
        """Return whether the certificate that a prepared token needs is on a disk from which it can
        be sent.
        """
        for u in (held.guardian, held.giver):
            guarded = None if u < 0 or not self._counts(u) else self.disks[u].guarded
            for found in () if guarded is None else (guarded.register, guarded.activate):
                if isinstance(found, Certificate) and found[1:4] == (
                    held.token.epoch,
                    held.token.seq - 1,
                    v,
                ):
                    return True
        return False

    def died(self, v: int) -> None:
        """Note that a node is dead, and its disk lost, for ever."""
        self.dead.add(v)
        self._top = None
        self.memory.lost(v)
        self.deaths += 1
        self.whole = False
        self._hold(v, None)
        self.ended.pop(v, None)
        if self.started:
            self.check_copy()

    def wiped(self, v: int, disk: Disk) -> None:
        """Replace a disk by an empty one."""
        self._hold(v, None)
        self.doubtful.pop(v, None)
        self._made[v] = []
        self.forgotten |= {
            place for place, guardian in self.guardians.items() if guardian == v
        }  # all its registers
        self.disks[v] = disk
        self.memory.lost(v)
        self.spent.wiped(v)
        self.deaths += 1
        self._known[v], self._top = FIRST, None
        self.whole = False
        self.ended.pop(v, None)
        self.check_copy()

    def rolled_back(self, v: int, disk: Disk, writes: int) -> None:
        """Replace a disk by what it was so many writes ago. Nothing on it counts until it is clear
        whether another node has seen the later writes.
        """
        self._hold(v, None)
        self.disks[v] = disk
        self.deaths += 1
        self._known[v], self._top = disk.known.epoch, None
        self.whole = False
        self._end(v, None)
        self.doubtful[v] = self.writes[v] - writes
        self.check_copy()

    def rollback_is_unseen(self, v: int) -> None:
        """No node has seen the writes that were lost with a rollback: they have not happened."""
        writes, self._top = self.doubtful.pop(v), None
        for _, table, key in [made for made in self._made[v] if made[0] > writes]:
            table.pop(key, None)
        self._made[v] = [made for made in self._made[v] if made[0] <= writes]
        self.writes[v] = writes
        disk = self.disks[v]
        self.spent.unseen(v, disk)
        self._end(v, disk.final)
        self._held[v] = disk.held
        if disk.held is not None and disk.held.status in LIVE:
            self.live.setdefault(disk.held.token.epoch, set()).add(v)
            self._check_single(disk.held.token.epoch)

    def _note(self, v: int, table: dict[Any, Any], key: Any) -> None:
        """Remember which write of a node has made an entry."""
        self._made[v].append((self.writes[v], table, key))

    # When the walk is over

    def judge(self, policy: str) -> WalkCost:
        """Check I6 and I7 along the winning chain, the counters, and that no more was lost than the
        promise allows.
        """
        final = next(
            disk.final
            for v, disk in enumerate(self.disks)
            if v in self.ended and disk.final is not None
        )
        chain = self._chain(final.epoch)
        walk = self._walk(chain, final)
        _check_counters(walk, final)
        self._check_links(chain, final)
        nodes = [v for v, _ in walk]
        models = {line.step: line.model for _, line in walk[:-1] if line.model is not None}
        remembered = NOTHING_REMEMBERED
        if self.memory.on:
            remembered = self.memory.judge(chain, nodes, misled=self.misled)
        passed = self.spent.passed.keys()
        still = {at.step for _, at in walk if (Epoch(*at.token_epoch), at.step) in passed}
        sizes = {}
        if self.sizes:
            first = size_of(self.fleet, self.fleet.network.n)
            means = tuple(phase.mean_score for phase in self.fleet.published.phases)
            told = sizes_told(self.sizes.values())
            sizes = sizes_along(chain, told, SizeAt(*first[1:3], means))
        check_replay(self.fleet, nodes, final, remembered, models, still, sizes)
        return self._count(chain, final, policy)

    def _chain(self, epoch: Epoch) -> list[tuple[Epoch, int]]:
        """Return the epochs that led to one, each with the step at which it began."""
        chain = []
        while epoch != FIRST:
            if epoch not in self.began:
                raise Violation("I7", f"nobody has logged how epoch {tuple(epoch)} began")
            parent, base = self.began[epoch]
            chain.append((epoch, base))
            epoch = parent
        return chain[::-1]

    def _walk(self, chain: list[tuple[Epoch, int]], final: Token) -> list[tuple[int, Visit]]:
        """Return which node made each step that counts; the last line is the end itself."""
        ends = [base for _, base in chain[1:]] + [final.step + 1]
        walk = []
        for (epoch, base), end in zip(chain, ends, strict=True):
            for step in range(base, end):
                if step not in self.visits.get(epoch, {}):
                    raise Violation("I6", f"nobody has logged step {step} of epoch {tuple(epoch)}")
                walk.append(self.visits[epoch][step])
        return walk

    def _check_links(self, chain: list[tuple[Epoch, int]], final: Token) -> None:
        """Check that the hash over all hand-offs agrees with the registers."""
        link = b""
        starts = [epoch.seq for epoch, _ in chain] + [final.seq]
        openers = [epoch.node for epoch, _ in chain[1:]] + [-1]
        ends = zip(pairwise(starts), openers, strict=True)
        for (epoch, _), ((first, last), opener) in zip(chain, ends, strict=True):
            giver = epoch.node
            for seq in range(first, last):
                register = self.registers.get((epoch, seq))
                if seq + 1 == last and opener in self.revived.get((epoch, last), ()):
                    to = opener  # its prepared token was never released, or another one was
                elif isinstance(register, Certificate):
                    to = register.to
                else:
                    raise Violation("chain", f"{_at((epoch, seq))} was never released")
                link = hashlib.sha256(link + _LINK.pack(*epoch, seq, giver, to)).digest()
                giver = to
        if link != final.chain:
            raise Violation("chain", "the hash over all hand-offs is not that of the registers")

    def _check_reports(self, chain: list[tuple[Epoch, int]], lost: dict[Epoch, int]) -> None:
        """Check how many updates nodes report as lost, after they learned of a higher epoch."""
        bases = {epoch: base for (epoch, _), (_, base) in pairwise(chain)}
        for v, line in self.archived:
            epoch = line.token.epoch
            if epoch not in bases or line.what == "guarded":
                continue
            if line.by not in self.began or self.began[line.by][0] != epoch:
                continue
            true = max(0, line.token.step - self.began[line.by][1])
            if line.lost != true:
                raise Violation(
                    "report",
                    f"node {v} says that {line.lost} updates of {tuple(epoch)} are lost, not "
                    f"{true}",
                )

    def _count(self, chain: list[tuple[Epoch, int]], final: Token, policy: str) -> WalkCost:
        """Count the updates that do not count; compare with the promise and with the reports."""
        ends = {epoch: base for (epoch, _), (_, base) in pairwise(chain)} | {
            final.epoch: final.step
        }
        most, lost = self.fleet.terms.renew_after, {}
        for epoch, steps in self.visits.items():
            beyond = [
                s for s in steps if s >= ends.get(epoch, 0) and s < self.fleet.published.steps
            ]
            lost[epoch] = len([s for s in beyond if epoch != final.epoch])
            if policy == GuardianPolicy.EAGER or self.misled:
                continue  # there may be a second branch
            allowed = most if epoch in self.regenerated or self.deaths else 0
            if epoch not in ends and not self.deaths:
                raise Violation("loss", f"epoch {tuple(epoch)} was overtaken without a register")
            if epoch in ends and lost[epoch] > allowed:
                raise Violation(
                    "loss",
                    f"{lost[epoch]} updates of epoch {tuple(epoch)} are lost, {allowed} may be",
                )
        self._check_reports(chain, lost)
        return WalkCost(len(chain), len(self.regenerated), sum(lost.values()))


_COPIES = frozenset(("held", "guarded", "final", "known"))
_LINK = struct.Struct("<6q")


def _at(place: Place) -> str:
    return f"{tuple(place[0])}/{place[1]}"


def _check_counters(walk: list[tuple[int, Visit]], final: Token) -> None:
    """Check hops and transfers from line to line."""
    if final.transfers != final.seq:
        raise Violation("counters", f"{final.transfers} transfers but {final.seq} hand-offs")
    for (v, line), (u, after) in pairwise(walk):
        hops, transfers = after.hops - line.hops, after.transfers - line.transfers
        brought_back = (
            line.token_epoch != after.token_epoch
        )  # by a guardian, which already had the copy
        if not brought_back and not (max(1, transfers) <= hops and transfers >= int(v != u)):
            raise Violation("counters", f"from {v} to {u} in {hops} hops and {transfers} transfers")
