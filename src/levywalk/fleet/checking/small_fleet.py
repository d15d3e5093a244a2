"""A fleet so small that everything that can happen to it can be tried.

Its moves are fixed in advance by a script.

The protocol is the real one. Only what a node does with the model is replaced: an update notes the
step and the node, and the next move is that of the script: "on" (to the next larger neighbour, or
from the largest to the smallest), "back" (the other way round), "stay", "jump" (two hops "on"), or
"oldest": the node asks its neighbours when they were visited last, and the model goes to the one
whose visit is the oldest, as `levywalk.oldest_neighbour` does; of several, to the smallest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np

from levywalk.arrays import AnyArray, Floats
from levywalk.fleet.checking.violation import Violation
from levywalk.fleet.protocol.fleet_size import FleetSize
from levywalk.fleet.protocol.lineage import Lineage, MemoryLoss
from levywalk.fleet.protocol.node import Node
from levywalk.fleet.protocol.node_step import Neighbour, NodeSite, Unanswered, Visit, visit_of
from levywalk.fleet.protocol.records import NOBODY, Disk, Edge, Known, Own
from levywalk.fleet.protocol.terms import GuardianPolicy, HandOffTerms
from levywalk.fleet.protocol.token import FIRST, Epoch, Token

SCORES = (1.0,)
OLDEST = "oldest"
NEVER = -1  # the last visit of a node that the model has not visited


class Applied(tuple[tuple[int, int], ...]):
    """A model that remembers which step was applied at which node.

    It can be hashed and has bytes, as a model must.
    """

    __slots__ = ()
    itemsize = 8  # as float64 has

    @property
    def data(self) -> bytes:
        """Return its bytes."""
        return repr(tuple(self)).encode()

    @property
    def nbytes(self) -> int:
        """Return the number of its bytes."""
        return len(self.data)


class CarriedLineage(tuple[Any, ...]):
    """What a token with memory carries: its lineage. It can be hashed and has bytes."""

    __slots__ = ()
    itemsize = 1

    @property
    def data(self) -> bytes:
        """Return its bytes."""
        return repr(tuple(self)).encode()

    @property
    def nbytes(self) -> int:
        """Return the number of its bytes."""
        return len(self.data)


def applied(token: Token) -> Applied:
    """Return the token's model with its type."""
    return cast(Applied, token.model)


def last_visit(token: Token, v: int, since: int) -> int:
    """Return the step of a node's last update that the model contains, from a step on."""
    return max((step for step, u in applied(token) if u == v and step >= since), default=NEVER)


@dataclass(frozen=True)
class SmallFleet:
    """A network, a script, and what may go wrong.

    Attributes
    ----------
    edges, script, start
        The network, the moves by step, and where the walk starts.
    renew_after, policy
        As in `HandOffTerms`.
    mortal
        Nodes that may die for good; at most one of them does.
    silences
        How often a guardian may consider its holder dead.
    mistakes
        How often an operator may say of a living node that it is gone. (Of a dead node this may be
        said at any time.)
    revivals
        How often an operator may say that the walk is dead although it is not, so that a node makes
        its own copy a new epoch.
    suspicions
        How often a node may consider a neighbour dead, or wait no longer for its answer.
    leaving
        Nodes that may leave.
    sizes
        How many later sizes of the fleet the operator may tell, each to any node.
    forgetful
        The node that may lose its disk, once, and start again without it.
    remembers
        Whether each node remembers at which steps it was visited. What it reads must be the visits
        that the token's model contains (I8), since the token's memory generation began. The same
        goes for what its neighbours answer, if the script asks them.
    """

    name: str
    edges: tuple[tuple[int, int], ...]
    script: tuple[str, ...]
    start: int = 0
    renew_after: int = 1
    policy: str = GuardianPolicy.WAIT
    mortal: tuple[int, ...] = ()
    silences: int = 1
    mistakes: int = 0
    suspicions: int = 0
    revivals: int = 0
    sizes: int = 0
    leaving: tuple[int, ...] = ()
    forgetful: int = NOBODY
    remembers: bool = False

    @property
    def asks(self) -> bool:
        """Whether neighbours are asked before decisions."""
        return OLDEST in self.script

    @property
    def n(self) -> int:
        """The number of nodes."""
        return 1 + max(max(edge) for edge in self.edges)

    def around(self, v: int) -> list[int]:
        """Return a node's neighbours, in order."""
        return sorted({a + b - v for a, b in self.edges if v in (a, b)})

    def terms(self) -> HandOffTerms:
        """Return times with which a fair run needs few rounds."""
        return HandOffTerms(
            b"tiny",
            self.renew_after,
            self.policy,
            heartbeat=1.0,
            dead_after=2.5,
            retry=1.0,
            start=self.start,
        )

    def disk(self, v: int) -> Disk:
        """Return a node's disk at the beginning."""
        edges = {u: Edge(0, True, len(self.around(u)), SCORES, joined=True) for u in self.around(v)}
        return Disk(Known(FIRST, 0), Own(len(edges), 0, leaving=False), edges)

    def size(self, version: int) -> FleetSize:
        """Return what the operator tells: with each version there is one node more."""
        return FleetSize(version, self.n + version, 1.0 + version, b"")

    def node(self, v: int, disk: Disk, kind: type[Node] = Node) -> Node:
        """Return a node's state machine."""
        return kind(cast(NodeSite, ScriptedSite(self, v)), self.terms(), disk)

    def token(self) -> Token:
        """Return the first token."""
        return Token.first(np.zeros(0))._replace(
            model=cast(Floats, Applied()),
            memory=cast(AnyArray, CarriedLineage(Lineage()) if self.remembers else ()),
        )

    def choice(self, v: int, move: str, up: Sequence[int]) -> int:
        """Return the node to which a move leads."""
        around = self.around(v)
        if move == "stay":
            return v
        if move == "back":
            to = max((u for u in around if u < v), default=around[-1])
        else:
            to = min((u for u in around if u > v), default=around[0])
        return to if to in up else v


class ScriptedMethod(NamedTuple):
    """The number of nodes that updates count, and how large a token is."""

    n: int
    token_bytes: int = 8


class ScriptedWalk:
    """Says when the scripted walk ends. It accepts every token."""

    idle = 0
    check = None  # no guardian compares models

    def __init__(self, setting: SmallFleet, nodes: int) -> None:
        self.method = ScriptedMethod(nodes)
        self.steps, self.remembers = len(setting.script), setting.remembers
        self.phases = ("the only one",)

    def asked(self, phase: int) -> tuple[str]:
        """Return what neighbours are asked for: one number."""
        return ("last",)

    def ends(self, token: Token) -> bool:
        """Return whether the walk is over."""
        return not token.distance and token.step >= self.steps

    def recorded(self, step: int) -> bool:
        """Return False: no models are kept in the log."""
        return False

    def refuses(self, token: Token) -> str | None:
        """Return None: nothing is wrong."""
        return None

    def lineage(self, token: Token) -> Lineage:
        """Return the ancestors and the memory generation of a token."""
        return Lineage(*token.memory) if self.remembers else Lineage()

    def reopened(self, token: Token, epoch: Epoch, parent: Epoch) -> Token:
        """Return a token that is brought back in a new epoch."""
        fresh = token._replace(epoch=epoch, base=token.step, size=0)
        if not self.remembers or parent != token.epoch:
            return fresh
        lineage = self.lineage(token).reopened(parent, token.hops)
        return fresh._replace(memory=cast(AnyArray, CarriedLineage(lineage)))

    def risen(self, token: Token, losses: tuple[MemoryLoss, ...] = ()) -> Token:
        """Return a token with a new memory generation."""
        lineage = self.lineage(token).risen(token.hops, losses)
        return token._replace(memory=cast(AnyArray, CarriedLineage(lineage)))


class ScriptedSite:
    """What a node does with the model: like `levywalk.fleet.protocol.node_step.NodeSite`, but by
    the script.
    """

    scores = SCORES
    idle = stuck = counts = False
    edges: tuple[int, ...] = ()

    def __init__(self, setting: SmallFleet, v: int) -> None:
        self.setting, self.node, self.size = setting, v, 0
        self.published = ScriptedWalk(setting, setting.n)
        self.remembers, self.asks = setting.remembers, setting.asks
        self.answers: dict[int, bytes | None] = {}
        self.silent: set[int] = set()
        self.visits: tuple[int, ...] = ()  # the steps that the node remembers
        self.up: list[int] = []

    def resize(self, size: FleetSize) -> None:
        """Use another number of nodes."""
        self.published, self.size = ScriptedWalk(self.setting, size.nodes), size.version

    def recall(self, content: AnyArray | None, edges: tuple[int, ...] = ()) -> bool:
        """Remember what was kept."""
        self.visits = () if content is None else cast("tuple[int, ...]", content)
        return True

    def kept(self) -> AnyArray:
        """Return what the node remembers."""
        return cast(AnyArray, self.visits)

    def _remember(self, token: Token) -> None:
        """Check that the node remembers its visits that the model contains, and add this one.

        Without jumps the number of decisions is that of steps. A node that has lost its disk
        remembers nothing, until the memory starts again.
        """
        since = self.published.lineage(token).since
        true = tuple(step for step, v in applied(token) if v == self.node and step >= since)
        lost = self.setting.forgetful == self.node and true[len(true) - len(self.visits) :]
        if self.visits not in (true, lost):
            raise Violation(
                "I8",
                f"node {self.node} remembers the steps {self.visits} before step {token.step} of "
                f"{tuple(token.epoch)}, the model contains {true}",
            )
        self.visits = (*self.visits, token.step)

    def told(self, content: AnyArray | None, edges: tuple[int, ...], phase: int) -> bytes:
        """Return the answer to a neighbour's question: the step of the last visit."""
        steps = () if content is None else cast("tuple[int, ...]", content)
        return max(steps, default=NEVER).to_bytes(8, "little", signed=True)

    def _oldest(self, token: Token) -> int:
        """Return the neighbour that was visited longest ago, by what the neighbours have answered.

        The answers must be what the model contains (I8). Of a node that has lost its disk they may
        be that it was never visited, until the memory starts again.
        """
        missing = tuple(u for u in self.up if u not in self.answers)
        if missing:
            raise Unanswered(missing, 0)
        since = self.published.lineage(token).since
        ages = {}
        for u in self.up:
            answer = self.answers[u]
            if answer is None:
                self.silent.add(u)
                continue
            age, true = int.from_bytes(answer, "little", signed=True), last_visit(token, u, since)
            if age != true and not (u == self.setting.forgetful and age == NEVER):
                raise Violation(
                    "I8",
                    f"node {u} answered node {self.node} before step {token.step} of "
                    f"{tuple(token.epoch)} that its last visit was {age}, the model says {true}",
                )
            ages[u] = age
        return min(ages, key=lambda u: (ages[u], u), default=self.node)

    def know(self, neighbours: Sequence[Neighbour], degree: int) -> None:
        """Note which neighbours are connected."""
        self.up = [u.node for u in neighbours if u.up]

    def lines(self, token: Token, keep: bool) -> Iterator[Visit]:
        """Yield the log's line about a token."""
        yield visit_of(token, keep)

    def updates(self, token: Token) -> bool:
        """Return whether the next decision begins with an update."""
        return not token.jumping

    def decide(self, token: Token) -> tuple[Token, int]:
        """Note the update, unless in a jump, and look up the move."""
        self.silent, to = set(), NOBODY
        if token.size != self.size:
            raise Violation(
                "size",
                f"node {self.node} makes step {token.step} for size {self.size}, the token says "
                f"{token.size}",
            )
        if self.asks:
            to = self._oldest(token)
        if self.remembers:
            self._remember(token)
        if not token.jumping:
            model = Applied((*applied(token), (token.step, self.node)))
            token = token._replace(step=token.step + 1, model=cast(Floats, model))
            if self.setting.script[token.step - 1] == "jump":
                token = token._replace(hop=0, distance=2)
        if not self.asks:
            to = self.setting.choice(self.node, self.setting.script[token.step - 1], self.up)
        if token.jumping:
            last = token.hop + 1 == token.distance
            token = token._replace(
                hop=0 if last else token.hop + 1, distance=0 if last else token.distance
            )
        return token._replace(version=token.version + 1, hops=token.hops + 1, came_from=NOBODY), to
