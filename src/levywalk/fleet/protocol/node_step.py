"""What one node does with the model while it is there.

`NodeSite` is one node: its own data, its own key, its memory, and what its edge records say about
its neighbours. `NodeSite.decide` makes the step of `levywalk.step`, as the reference backend does,
so that a fleet without faults replays it to the bit. What all nodes know is `PublishedWalk`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from levywalk.arrays import AnyArray, Floats
from levywalk.draws import Key, Words
from levywalk.fleet.protocol.fleet_size import FleetSize, resized
from levywalk.fleet.protocol.published_walk import PASSES as PASSES
from levywalk.fleet.protocol.published_walk import STOPS as STOPS
from levywalk.fleet.protocol.published_walk import PublishedWalk as PublishedWalk
from levywalk.fleet.protocol.published_walk import check_local as check_local
from levywalk.fleet.protocol.tensors import sealed_model
from levywalk.fleet.protocol.token import Token
from levywalk.memory import PerEdge, Sizes, memory_arrays, packed, unpacked
from levywalk.problem import Problem
from levywalk.step import WALKS, Site, Travelling, step
from levywalk.updates import LocalData
from levywalk.walks import LocalView

if TYPE_CHECKING:
    from levywalk.privacy import NoiseSource  # it needs scipy, a node without privacy does not


class Visit(NamedTuple):
    """One line of a node's log: the token was here before update ``step``, or at the end, after the
    last update.
    """

    token_epoch: tuple[int, int, int]
    step: int
    hops: int
    transfers: int
    small_messages: int
    switched_at: int
    diverged_at: int
    model: Floats | None  # kept at the recorded steps


def visit_of(token: Token, keep: bool) -> Visit:
    """Return the log's line about a token that is about to be updated, or has ended."""
    return Visit(
        token.epoch,
        token.step,
        token.hops,
        token.transfers,
        token.small_messages,
        token.switched_at,
        token.diverged_at,
        token.model if keep else None,
    )


class Measured(NamedTuple):
    """One line of a node's log: the metrics of the model that was here before update ``step``, on
    what the node has held out, in the order of the manifest; NaN where there is no number.
    """

    token_epoch: tuple[int, int, int]
    step: int
    values: tuple[float, ...]


def _as_carried(model: AnyArray) -> Floats:
    """Return a model as tokens carry it: float64, which holds a float32 without a loss."""
    return sealed_model(model.astype(np.float64, copy=False))


class Neighbour(NamedTuple):
    """What an edge record says about the node at the other end."""

    node: int
    degree: int
    scores: tuple[float, ...]  # by phase
    up: bool


class Unanswered(Exception):
    """A decision needs answers of neighbours that have not been asked yet."""

    def __init__(self, nodes: tuple[int, ...], phase: int) -> None:
        super().__init__(nodes, phase)
        self.nodes, self.phase = nodes, phase


class NodeSite:
    """One node: its data, its key, its memory, and what it knows about its neighbours.

    Under the policy "counted" a node is one of its own neighbours.

    Parameters
    ----------
    problem, index
        The node's data, as a node of a problem; None if it has no data and passes the model on.
    noise
        Where the noise of the visit before an update of that number comes from, under privacy.
    rescored
        The node's scores by phase as a function of L̄; None if they do not depend on it.

    Attributes
    ----------
    spent
        How many releases the node has made, under privacy; its disk keeps it.
    memory
        What the node remembers, by full name; empty for a method without memory at the nodes.
    answers
        What neighbours have answered, as bytes; None from one that is silent.
    silent
        The neighbours that were silent in the last decision.
    metrics
        What the node computes of a model on its held-out data; None if there is nothing.
    """

    def __init__(
        self,
        published: PublishedWalk,
        node: int,
        problem: Problem | None,
        index: int,
        scores: tuple[float, ...],
        key: Key,
        metrics: Callable[[Floats], tuple[float, ...]] | None = None,
        noise: Callable[[int], NoiseSource] | None = None,
        rescored: Callable[[float], tuple[float, ...]] | None = None,
    ) -> None:
        self.metrics, self._problem, self._index = metrics, problem, index
        self.noise, self.spent = noise, 0
        self.node, self.key, self._rescored = node, key, rescored
        self.views: list[LocalView] = []
        self._ahead: tuple[Token, tuple[Token, int]] | None = None
        self._publish(published, scores)
        self.memory: dict[str, AnyArray] = {}
        self.answers: dict[int, bytes | None] = {}
        self.silent: set[int] = set()
        self.near: tuple[int, ...] = ()

    def _publish(self, published: PublishedWalk, scores: tuple[float, ...]) -> None:
        self.published, self.scores, method = published, scores, published.method
        problem, self._ahead = self._problem, None
        self._local = None if problem is None else LocalData(problem, self._index, method.n)
        self._site = Site(method, self.node, self._local, scores, self.views)
        self._site.ask = self._answered

    def resize(self, size: FleetSize) -> None:
        """Use another number of nodes and another L̄; `know` must follow, since the node's score
        may depend on L̄.
        """
        mean = size.mean_smoothness
        scores = self.scores if self._rescored is None else self._rescored(mean)
        self._publish(resized(self.published, size), scores)

    @property
    def idle(self) -> bool:
        """Whether the node has no data and only passes the model on."""
        return self._local is None

    @property
    def stuck(self) -> bool:
        """Whether the node has no data and no neighbour that it could pass the model on to."""
        return self.idle and not any(u != self.node for u in self.views[0].live)

    def lines(self, token: Token, keep: bool) -> Iterator[Visit | Measured]:
        """Yield the log's lines about a token that is about to be updated, or has ended."""
        if keep and self.metrics is not None:
            yield Measured(token.epoch, token.step, self.metrics(token.model))
        yield visit_of(token, keep)

    def updates(self, token: Token) -> bool:
        """Return whether the node's next decision on a token begins with an update."""
        return not token.jumping and not self.idle

    @property
    def counts(self) -> bool:
        """Whether the node counts what its updates reveal."""
        return self.published.privacy is not None

    @property
    def cap(self) -> int:
        """How many releases the node's budget allows."""
        assert self.published.privacy is not None
        return self.published.privacy.cap

    @property
    def asks(self) -> bool:
        """Whether the walk asks neighbours before its decisions."""
        return any(phase.asks for phase in self.published.phases)

    def _answered(self, name: str, nodes: Sequence[int]) -> list[Any]:
        """Return what neighbours have answered to the question for an entry."""
        phase = next(i for i, prefix in enumerate(WALKS) if name.startswith(prefix))
        missing = tuple(u for u in nodes if u != self.node and u not in self.answers)
        if missing:
            raise Unanswered(missing, phase)
        kinds, values = self.published.asked(phase), []
        for u in nodes:
            content = None if u == self.node else self.answers[u]
            if u == self.node:
                values.append(self.memory[name].item())
            elif content is None:
                self.silent.add(u)
                values.append(None)
            else:
                packed_values = np.frombuffer(content, np.uint8)
                values.append(unpacked(packed_values, kinds, self.published.dim)[name].item())
        return values

    def told(self, content: AnyArray | None, edges: tuple[int, ...], phase: int) -> bytes:
        """Return the answer to a neighbour's question, from what is kept; empty if it does not
        fit.
        """
        arrays = self._remembered(content, edges)
        return b"" if arrays is None else packed(arrays, self.published.asked(phase)).tobytes()

    def know(self, neighbours: Sequence[Neighbour], degree: int) -> None:
        """Take in the edge records; the degree counts dead neighbours too."""
        alive = None if all(u.up for u in neighbours) else [u.up for u in neighbours]
        self.views = [
            LocalView(
                self.node,
                degree,
                score,
                [u.node for u in neighbours],
                [u.degree for u in neighbours],
                [u.scores[phase] for u in neighbours],
                alive,
            )
            for phase, score in enumerate(self.scores)
        ]
        self._site.views, self._ahead = self.views, None
        self.near = tuple(u.node for u in neighbours)

    @property
    def remembers(self) -> bool:
        """Whether the node keeps memory for walk and update."""
        return self.published.remembers

    @property
    def edges(self) -> tuple[int, ...]:
        """The neighbours in the order of what is kept per edge; empty if nothing is."""
        kinds = self.published.node_memory.values()
        return self.near if any(isinstance(kind, PerEdge) for kind in kinds) else ()

    def recall(self, content: AnyArray | None, edges: tuple[int, ...] = ()) -> bool:
        """Remember what was kept, as bytes, or begin afresh; return whether it fits."""
        found = self._remembered(content, edges)
        if found is not None:
            self.memory = found
        return found is not None

    def _remembered(
        self, content: AnyArray | None, edges: tuple[int, ...]
    ) -> dict[str, AnyArray] | None:
        """Return what was kept as arrays; None if it does not fit.

        What is kept per edge follows the edges; a new edge begins afresh.
        """
        kinds, dim = self.published.node_memory, self.published.dim
        samples = 0 if self._local is None else self._local.n_samples
        found = memory_arrays(kinds, Sizes(dim, len(self.near), samples))
        if content is None:
            return found
        sizes = Sizes(dim, len(edges), samples)
        if len(content) != sum(one.nbytes for one in memory_arrays(kinds, sizes).values()):
            return None
        for name, array in unpacked(content, kinds, dim, sizes).items():
            if isinstance(kinds[name], PerEdge):
                before = dict(zip(edges, array, strict=True))
                for i, u in enumerate(self.near):
                    found[name][i] = before.get(u, kinds[name].initial)
            else:
                found[name] = array
        return found

    def kept(self) -> AnyArray:
        """Return what the node remembers, as bytes for its disk."""
        return sealed_model(packed(self.memory, self.published.node_memory))

    def decide_ahead(self, token: Token) -> tuple[Token, int] | None:
        """Return what `decide` will answer about a token that is not to be used yet, and keep the
        answer for it; None if it may depend on more than the token, the data and the edges.
        """
        if self.remembers or self.asks or self.published.method.privacy is not None:
            return None
        found = self.decide(token)
        self._ahead = token, found
        return found

    def decide(self, token: Token) -> tuple[Token, int]:
        """Make the walk's step: update the model, unless it is in a jump or the node has no data,
        and choose where it goes.

        Returns the new token and the node. Update and choice are functions of the token, the data,
        the memory and the key alone: asked again, after a crash, the answer is the same. Under
        privacy with the operating system's noise this is true of the choice alone; what was not
        written before the crash was not sent either, so no release is made twice.
        """
        if self._ahead is not None and self._ahead[0] is token:
            found, self._ahead = self._ahead[1], None
            return found
        published, method = self.published, self.published.method
        carried: Any = {}
        if published.token_memory:
            carried = unpacked(token.memory, published.token_memory, method.dim)
        passes = int(carried.pop(PASSES)) if published.idle else 0
        doubles = method.itemsize == 8 or method.in_doubles
        before = Travelling(
            token.model if doubles else token.model.astype(np.float32),
            carried,
            token.step,
            token.hop,
            token.distance,
            token.came_from,
            token.phase,
            token.switched_at,
            token.diverged_at,
            token.hops,
            token.small_messages,
            passes,
        )
        if self.remembers and not self.memory:
            self.recall(None)
        self._site.memory, spent = self.memory, np.array(self.spent, np.int64)
        if method.privacy is not None:
            self._site.memory = self.memory | dict.fromkeys(method.privacy.node_memory, spent)
            self._site.noise = None if self.noise is None else self.noise(token.step)
        self.silent = set()
        t = token.step if self.updates(token) else max(token.step - 1, 0)
        after, to = step(self._site, before, Words(self.key, t))
        self.spent = int(spent)
        kept = after.memory
        if published.idle:
            kept = {PASSES: np.array(after.passes), **kept}
        return (
            token._replace(
                version=token.version + 1,
                model=token.model if after.model is before.model else _as_carried(after.model),
                memory=sealed_model(packed(kept, published.token_memory)) if kept else token.memory,
                step=after.step,
                hop=after.hop,
                distance=after.distance,
                came_from=-1,  # set when it is handed over
                phase=after.phase,
                switched_at=after.switched_at,
                diverged_at=after.diverged_at,
                hops=after.hops,
                small_messages=after.small_messages,
            ),
            to,
        )
