"""The contract of a walk: how the model moves.

You can add a walk with one class in your own file; see docs/extending.md.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from levywalk import checks
from levywalk.arrays import Ints
from levywalk.draws import Words
from levywalk.errors import InvalidParameter
from levywalk.memory import Kind, Memory, check_declaration
from levywalk.problem import Problem, check_problem, holders_of, known_smoothness
from levywalk.registry import to_dict
from levywalk.schedule import Schedule
from levywalk.walks.bound_walk import BoundWalk
from levywalk.walks.target import Uniform, as_target
from levywalk.walks.view import Decision, LocalView

if TYPE_CHECKING:
    from levywalk.network import Network
    from levywalk.walks.detector import Detector


class Walk(ABC):
    """How the model moves.

    A node decides from its local view, the walk's memory and the step's random words.

    A subclass has a ``name`` and implements `decide`; everything else has a default.

    Attributes
    ----------
    name
        The name of the walk in tables, figures and files.
    target
        The target law π of the walk; it determines the scores in the view and the weights of
        updates.
    reweight
        Whether an update at v is weighted by w(v) = 1/(nπ(v)), which makes it unbiased if the
        walk's law is π.
    node_memory, token_memory
        What the walk remembers at a node and in the token: name to kind, see `levywalk.memory`.
    asks_neighbours
        The names of entries of ``node_memory`` that a node asks its neighbours for before it
        decides. Each question and each answer is a small message.
    local
        Whether local knowledge is enough, so that the walk can run in a fleet. A walk with ``local
        = False`` finds the whole network in ``view.server``.
    max_hops
        The longest move in hops: 1 for a walk that never returns a `Decision` with hops left.

    Examples
    --------
    >>> import levywalk as lw
    >>> class Forward(lw.Walk):
    ...     name = "forward"
    ...     def decide(self, view, memory, words):
    ...         return lw.Decision(view.neighbours[words.index(view.degree)])
    >>> trace = lw.run(lw.ring(5), lw.homogeneous(5, dim=2), Forward(), steps=9, step_size=0.1)
    >>> int(trace.transfers[0, -1])
    9
    """

    name: str = "walk"
    target: Any = Uniform()
    reweight: bool = True
    node_memory: Mapping[str, Kind] = {}
    token_memory: Mapping[str, Kind] = {}
    asks_neighbours: tuple[str, ...] = ()
    local: bool = True
    max_hops: int = 1
    detector: Detector | None = None  # decides when the first phase ends, if there are two

    @abstractmethod
    def decide(self, view: LocalView, memory: Memory, words: Words) -> Decision:
        """Return where the model goes. Staying is ``Decision(view.node)``.

        The result may depend only on the arguments: the same arguments must give the same result.
        """

    def questions(self, view: LocalView, memory: Memory, words: Words) -> Sequence[int]:
        """Return the neighbours that are asked before the decision: all that are alive.

        Only a walk with ``asks_neighbours`` asks. A walk that needs fewer answers returns fewer
        nodes; their answers are in ``view.answers``, those of the others are None.
        """
        return [u for u in view.live if u != view.node]

    def chain(self, network: Network, problem: Problem) -> Any:
        """Return the walk's transition matrix for theory, or None if theory cannot use one.

        A sparse matrix with one row per node is a chain on nodes; one with a row per entry of
        ``network.indices`` is a chain on directed edges.
        """
        return None

    def compiled(self) -> Callable[..., Any] | None:
        """Return a numba-compiled twin of `decide`, or None.

        docs/extending.md describes its arguments.
        """
        return None

    @property
    def schedules(self) -> Mapping[str, Schedule]:
        """Numbers that change with the step; the values of a step are in ``view.scheduled``."""
        return {}

    @property
    def phases(self) -> tuple[Walk, ...]:
        """The walks of the phases in order; only a `switching` walk has more than itself."""
        return (self,)

    def bind(self, network: Network, problem: Problem) -> BoundWalk:
        """Check that network and problem fit, and compute every node's score and weight.

        Examples
        --------
        >>> import levywalk as lw
        >>> bound = lw.weight_rw().bind(lw.ring(5), lw.homogeneous(5))
        >>> round(float(bound.law.sum()), 12)
        1.0
        """
        check_fit(network, problem)
        check_walk(self)
        smoothness = known_smoothness(problem)
        if smoothness is None:  # unknown numbers make unknown scores where they are used
            smoothness = np.full(problem.n, np.nan)
        mean = float(smoothness.mean())
        holders = nodes_with_data(network, problem)
        known = smoothness
        if holders is not None:  # an idle node counts as a node of mean smoothness
            known = np.full(network.n, mean)
            known[holders] = smoothness
        target = as_target(self.target)
        scores = np.asarray(target.scores(network.degree, known, mean), dtype=np.float64)
        if np.isnan(scores).any() and np.isnan(mean):
            raise InvalidParameter(
                f"{self.name} needs the smoothness L_v of every node, which this problem does not "
                "know; give the problem smoothness='hessian' (each node's own estimate at x0), "
                "'gradient' or one number per node, or use a walk that needs none, such as "
                "lw.unif_rw()"
            )
        if scores.shape != (network.n,) or not np.isfinite(scores).all() or (scores <= 0).any():
            raise InvalidParameter(
                f"target {target!r} must give one positive finite score per node"
            )
        return BoundWalk.of(network, self, scores, smoothness, holders)

    def called(self, name: str) -> Self:
        """Return the same walk under another name.

        Examples
        --------
        >>> import levywalk as lw
        >>> lw.mhlj().called("ours").name
        'ours'
        """
        made = copy.copy(self)
        object.__setattr__(made, "name", name)
        return made

    def describe(self) -> dict[str, Any]:
        """Return a description of the walk as plain data for provenance.

        It contains the walk's name, and its recipe if the walk is registered.
        """
        return {
            "name": self.name,
            "local": all(walk.local for walk in self.phases),
            "recipe": to_dict("design", self, strict=False),
        }


def check_walk(walk: Walk) -> None:
    """Refuse a walk with invalid declarations."""
    owner = type(walk).__name__
    declared = check_declaration(owner, "node_memory", walk.node_memory)
    check_declaration(owner, "token_memory", walk.token_memory)
    asked: Any = walk.asks_neighbours
    if isinstance(asked, str):
        raise InvalidParameter(
            f"asks_neighbours of {owner} must be a tuple of names, such as ({asked!r},), got "
            f"{asked!r}"
        )
    unknown = [name for name in walk.asks_neighbours if name not in declared]
    if unknown:
        raise InvalidParameter(
            f"asks_neighbours of {owner} must name entries of its node_memory, got {unknown[0]!r}"
        )
    checks.integer(f"max_hops of {owner}", walk.max_hops, low=1)


def check_fit(network: Network, problem: Problem) -> None:
    """Refuse a network and a problem that do not fit together; the error gives the remedy."""
    from levywalk.network import (
        Network,  # imported here: it needs scipy, which a fleet's node does not need
    )

    check_problem(problem)
    if not isinstance(network, Network):
        raise InvalidParameter(
            f"network must be a levywalk Network, got {type(network).__name__}; "
            "use lw.ring(n), lw.as_network(graph), lw.read_network(path), …"
        )
    holders = holders_of(problem)
    if holders is not None:
        if holders[-1] >= network.n:
            raise InvalidParameter(
                f"network has {network.n} nodes but problem has data of node {int(holders[-1])}; "
                f"number the nodes 0 to {network.n - 1}"
            )
    elif problem.n != network.n:
        idle = ", or let the nodes without data pass the model on with idle='pass'"
        raise InvalidParameter(
            f"network has {network.n} nodes but problem has {problem.n}; give each node its data "
            f"(see lw.partition){idle if problem.n < network.n else ''}"
        )
    network.require_connected()


def nodes_with_data(network: Network, problem: Problem) -> Ints | None:
    """Return the nodes with data if some node of the network has none, else None."""
    holders = holders_of(problem)
    return None if holders is None or len(holders) == network.n else holders
