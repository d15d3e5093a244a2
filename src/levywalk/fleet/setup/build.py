"""Make the nodes of a fleet from what a simulation needs: a network, a problem, a design."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np

from levywalk import checks
from levywalk.arrays import Floats
from levywalk.draws import Domain, Key, token_keys
from levywalk.engine.bind import bind_phases
from levywalk.engine.prepare import start_nodes
from levywalk.engine.tokens import per_token
from levywalk.errors import InvalidParameter
from levywalk.fleet.protocol.node import Node
from levywalk.fleet.protocol.node_state import Signer
from levywalk.fleet.protocol.node_step import NodeSite, PublishedWalk
from levywalk.fleet.protocol.records import Disk, Edge, Known, Own, Spending
from levywalk.fleet.protocol.terms import HandOffTerms
from levywalk.fleet.protocol.token import FIRST, Token
from levywalk.fleet.setup.built import BuiltProblem
from levywalk.fleet.setup.privacy_terms import known_scores
from levywalk.fleet.setup.several_tokens import check_fleet_tokens, run_of_token
from levywalk.fleet.setup.update_check_terms import as_check_settings, with_check
from levywalk.network import Network
from levywalk.privacy import SeededNoise, as_privacy, noise_keys
from levywalk.problem import Problem, model_type
from levywalk.problem.named import flat_model, flat_problem
from levywalk.schedule import Schedule
from levywalk.walks import Walk, as_target, nodes_with_data

_key = lru_cache(maxsize=1024)(Key.of)  # a replay asks for it at every step


@dataclass(frozen=True)
class Fleet:
    """Everything that determines a fleet's walk; makes its nodes.

    Attributes
    ----------
    shared_key
        Whether all nodes draw from one key, as `levywalk.run` with this seed does: then a walk
        without faults is the walk of `levywalk.run`, to the bit. Otherwise each node draws from its
        own key.
    known
        The problem with the L_v that nodes may know under privacy; None if it is the problem.
    real
        Whether the nodes' noise is the operating system's, which nobody can compute again.
    starts, token_number
        Where each of several tokens starts (empty: there is one), and which of them this is: see
        `of_token`.

    Examples
    --------
    >>> import levywalk as lw
    >>> fleet = Fleet.of(lw.ring(5), lw.homogeneous(5), lw.mhlj(), steps=100, step_size="theory")
    >>> fleet.node(3).site.node, fleet.start
    (3, 0)
    """

    network: Network
    problem: Problem
    design: Walk
    published: PublishedWalk
    terms: HandOffTerms
    scores: tuple[Floats, ...]  # by phase
    start: int
    x0: Floats
    seed: int
    shared_key: bool
    known: Problem | None = None
    real: bool = False
    starts: tuple[int, ...] = ()
    token_number: int = 0

    @classmethod
    def of(
        cls,
        network: Network,
        problem: Problem,
        design: Walk,
        *,
        steps: int,
        step_size: float | str | Schedule,
        seed: int = 0,
        start: Any = "uniform",
        x0: Any = None,
        shared_key: bool = True,
        terms: HandOffTerms | None = None,
        privacy: Any = None,
        real: bool = False,
        tokens: int = 1,
        check_updates: Any = None,
        **more: Any,
    ) -> Fleet:
        """Bind a design to a network and a problem.

        The arguments are those of `levywalk.run`; ``more`` are those of `PublishedWalk.of`.
        ``check_updates`` says whether guardians compare models (`CheckSettings`).
        """
        tokens = check_fleet_tokens(tokens, design, more.get("stop"))
        start, _ = per_token(start, None, 1, tokens)
        settings = as_check_settings(check_updates)
        problem, x0 = flat_problem(problem), flat_model(flat_problem(problem), x0)
        private = as_privacy(privacy)
        known = known_scores(private, problem, design, step_size, more.get("stop"), seed, real=real)
        published = PublishedWalk.of(
            *(network, problem, design),
            **{"steps": steps, "step_size": step_size, "privacy": private, "known": known, **more},
            checked=settings is not None,
            tokens=tokens,
        )
        phases = bind_phases(network, known, design, published.update, step_size)
        drawn = token_keys(seed, Domain.START, range(1), tokens)
        begin = start_nodes(start, design, network, problem, phases[0].bound, drawn)
        if x0 is None:
            x0 = getattr(problem, "x0", None)
        first = np.zeros(problem.dim) if x0 is None else np.array(x0, dtype=np.float64)
        first = first.astype(model_type(problem)).astype(np.float64)
        published = with_check(published, settings, problem, first)
        return cls(
            network,
            problem,
            design,
            published,
            replace(terms or HandOffTerms(run=b"levywalk"), start=int(begin[0])),
            tuple(phase.bound.scores for phase in phases),
            int(begin[0]),
            first,
            seed,
            shared_key,
            None if known is problem else known,
            real,
            tuple(map(int, begin)) if tokens > 1 else (),
        )

    @property
    def tokens(self) -> int:
        """The number of tokens."""
        return len(self.starts) or 1

    def of_token(self, number: int) -> Fleet:
        """Return the fleet of one of its tokens: with its start, its key and its name of the run.

        Examples
        --------
        >>> import levywalk as lw
        >>> fleet = Fleet.of(
        ...     lw.ring(5), lw.homogeneous(5), lw.mhlj(), steps=100, step_size=0.1, tokens=3
        ... )
        >>> fleet.tokens, fleet.starts == tuple(fleet.of_token(k).start for k in range(3))
        (3, True)
        """
        checks.integer("token", number, low=0, high=self.tokens - 1)
        if self.token_number or not number:
            assert self.token_number == number  # it is the fleet of this token already
            return self
        start = self.starts[number]
        terms = replace(self.terms, run=run_of_token(self.terms.run, number), start=start)
        return replace(self, terms=terms, start=start, token_number=number)

    @property
    def token(self) -> Token:
        """The first token."""
        return self.published.first_token(self.x0)

    @property
    def mean_smoothness(self) -> float:
        """The mean of the L_v that nodes may know."""
        return float(np.mean((self.known or self.problem).smoothness))

    def key(self, v: int) -> Key:
        """Return the key that a node draws from."""
        return (
            _key(self.seed, Domain.WALK, 0, self.token_number)
            if self.shared_key
            else _key(self.seed, Domain.FLEET, v, self.token_number)
        )

    def scores_of(self, v: int) -> tuple[float, ...]:
        """Return a node's scores, by phase."""
        return tuple(float(scores[v]) for scores in self.scores)

    def disk(self, v: int) -> Disk:
        """Return a node's disk at the start: both ends know the records of their edges."""
        edges = {
            int(u): Edge(0, True, int(self.network.degree[u]), self.scores_of(int(u)), joined=True)
            for u in self.network.neighbours(v)
        }
        return Disk(Known(FIRST, 0), Own(int(self.network.degree[v]), 0, leaving=False), edges)

    def site(self, v: int) -> NodeSite:
        """Return a node's own part of the walk: its data and its key."""
        index = self.index(v)
        problem = None if index < 0 else self.problem
        own = problem.own_metrics(index) if isinstance(problem, BuiltProblem) else None
        scores, key = self.scores_of(v), self.key(v)
        noise = None if self.published.privacy is None else self.noise
        rescored = partial(self._scores_at, v)
        return NodeSite(self.published, v, problem, index, scores, key, own, noise, rescored)

    def _scores_at(self, v: int, mean: float) -> tuple[float, ...]:
        """Return a node's scores, by phase, for another L̄."""
        index, degree = self.index(v), np.array([self.network.degree[v]])
        own = np.array([mean if index < 0 else float(self.problem.smoothness[index])])
        targets = [as_target(part.target) for part in self.design.phases]
        return tuple(float(target.scores(degree, own, mean)[0]) for target in targets)

    def noise(self, step: int) -> SeededNoise:
        """Return the noise of a step of a virtual fleet: that of `levywalk.run` with this seed."""
        if self._noise_key is None:
            raise InvalidParameter("the noise of real nodes cannot be computed again")
        return SeededNoise(self._noise_key, step)

    @cached_property
    def _noise_key(self) -> Key | None:
        if self.real:
            return None
        rows = noise_keys(self.seed, Domain.WALK, range(1), self.tokens)
        return Key(*(int(word) for word in rows[self.token_number]))

    def lost_disk(self, v: int) -> Disk:
        """Return a node's disk after it has lost the one before: its budget counts as spent."""
        privacy = self.published.privacy
        spent = None if privacy is None else Spending(privacy.cap)
        return replace(self.disk(v), spent=spent)

    def index(self, v: int) -> int:
        """Return the number of a node in the problem, -1 if it has no data."""
        holders = nodes_with_data(self.network, self.problem)
        if holders is None:
            return v
        at = int(np.searchsorted(holders, v))
        return at if at < len(holders) and holders[at] == v else -1

    def node(self, v: int, disk: Disk | None = None, signer: Signer | None = None) -> Node:
        """Return a node's state machine, with a new disk or the given one."""
        return Node(self.site(v), self.terms, self.disk(v) if disk is None else disk, signer)
