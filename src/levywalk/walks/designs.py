"""Designs: the walks that the paper compares, and other combinations of target and jump law."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from levywalk import checks
from levywalk.arrays import Floats
from levywalk.contracts import keeps
from levywalk.draws import HOP, JUMP, Words, unit
from levywalk.errors import InvalidParameter, InvalidSpec
from levywalk.memory import Memory
from levywalk.registry import registered
from levywalk.schedule import Schedule, is_schedule
from levywalk.walks.detector import AUTO, Detector
from levywalk.walks.jump import (
    DistanceLaw,
    FixedDistance,
    JumpLaw,
    PowerLaw,
    TruncatedGeometric,
    jump_distance,
)
from levywalk.walks.rule import hop, metropolis_hastings
from levywalk.walks.target import Degree, Importance, Mixed, Uniform, as_target
from levywalk.walks.view import Decision, LocalView
from levywalk.walks.walk import Walk

if TYPE_CHECKING:
    from levywalk.network import Network
    from levywalk.problem import Problem
    from levywalk.walks.bound_walk import BoundWalk

MOVES = ("walk", "iid")
LEVY = ("algorithm", "printed")


@registered("design", "design")
@dataclass(frozen=True)
class Design(Walk):
    """A walk that is composed of a target and a jump law.

    The methods that the paper compares are special cases.

    Parameters
    ----------
    target
        The law π that the walk aims at: "uniform", "importance", "degree", ``Mixed(mix)`` or one
        score per node.
    jump
        A `JumpLaw`, or None for a walk without jumps.
    moves
        "walk": Metropolis-Hastings to neighbours. "iid": each node is drawn from π independently,
        which only a server could do.
    reweight
        Whether an update at v is weighted by w(v) = 1/(nπ(v)), which makes it unbiased; otherwise w
        = 1.
    name
        The name in tables and figures.

    Examples
    --------
    >>> import levywalk as lw
    >>> lw.Design(
    ...     target="importance",
    ...     jump=lw.JumpLaw(0.05, lw.PowerLaw(1.5, max_hops=20)),
    ...     name="heavy tail",
    ... ).name
    'heavy tail'
    """

    target: Any = "uniform"
    jump: JumpLaw | None = None
    moves: str = "walk"
    reweight: bool = True
    name: str = field(default="design", compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "target", as_target(self.target))
        checks.choice("moves", self.moves, MOVES)
        if self.jump is not None and not isinstance(self.jump, JumpLaw):
            raise InvalidParameter(
                f"jump must be a JumpLaw or None, got {self.jump!r}; write JumpLaw(p_jump, "
                "distance)"
            )
        if self.jump is not None and self.moves == "iid":
            raise InvalidParameter(
                "jump must be None when moves is 'iid': i.i.d. sampling does not move along edges"
            )

    @cached_property
    def _scheduled(self) -> bool:
        """Whether p_jump changes with the step."""
        return bool(self.schedules)

    @cached_property
    def _cumulative(self) -> Floats:
        """The cumulative law of the jump's distance."""
        assert self.jump is not None
        return self.jump.cumulative()

    def decide(self, view: LocalView, memory: Memory, words: Words) -> Decision:
        """Decide by Algorithm [alg:jump].

        With probability p_jump the model jumps; otherwise a neighbour is proposed and is accepted,
        or the model stays.
        """
        if view.server is not None:
            return Decision(view.server.table.pick(words(HOP)))
        if view.hops_left:
            return Decision(hop(view, words(HOP + view.hop)), view.hops_left - 1)
        if self.jump is not None:
            p_jump: Any = view.scheduled["p_jump"] if self._scheduled else self.jump.p_jump
            distance = jump_distance(unit(words(JUMP)), p_jump, self._cumulative)
            if distance:
                return Decision(hop(view, words(HOP)), distance - 1)
        return Decision(metropolis_hastings(view, words(HOP)))

    @property
    def local(self) -> bool:  # type: ignore[override]
        """Whether a node can decide alone: i.i.d. sampling needs a server."""
        return self.moves == "walk"

    @property
    def max_hops(self) -> int:  # type: ignore[override]
        """The longest jump."""
        return 1 if self.jump is None else len(self._cumulative)

    @property
    def schedules(self) -> Mapping[str, Schedule]:
        """p_jump, if it changes with the step."""
        if self.jump is None or not is_schedule(self.jump.p_jump):
            return {}
        return {"p_jump": self.jump.p_jump}


@registered("design", "custom_switching")
@dataclass(frozen=True)
class Switching(Walk):
    """Walk by ``first`` until the detector finds the model stationary, then by ``then``.

    See `switching`.

    Examples
    --------
    >>> import levywalk as lw
    >>> lw.Switching(lw.mhlj(), lw.unif_rw()).detector
    Detector(threshold='auto', window='auto', patience='auto')
    """

    first: Walk
    then: Walk
    detector: Detector = field(default_factory=Detector)
    step_size: float | str = AUTO
    name: str = field(default="switching", compare=False)

    def __post_init__(self) -> None:
        for label, walk in (("first", self.first), ("then", self.then)):
            if not isinstance(walk, Walk) or len(walk.phases) != 1:
                raise InvalidParameter(
                    f"{label} must be a walk such as mhlj() or unif_rw(), got {walk!r}"
                )
            if not walk.local:
                raise InvalidParameter(
                    f"{label} must be a walk over edges; i.i.d. sampling cannot be a phase of "
                    "a switching walk"
                )
        if not isinstance(self.detector, Detector):
            raise InvalidParameter(
                f"detector must be a Detector(threshold, window, patience), got {self.detector!r}"
            )
        if isinstance(self.step_size, str):
            checks.choice("step_size of the second phase", self.step_size, (AUTO, "theory"))
        else:
            object.__setattr__(
                self, "step_size", checks.positive("step_size of the second phase", self.step_size)
            )

    @property
    def phases(self) -> tuple[Walk, ...]:
        """The walk of each phase."""
        return self.first, self.then

    def decide(self, view: LocalView, memory: Memory, words: Words) -> Decision:
        """Raise an error, because each phase makes its own decisions."""
        raise InvalidParameter(
            "a switching walk cannot decide itself: use the walk of a phase in Switching.phases"
        )

    def bind(self, network: Network, problem: Problem) -> BoundWalk:
        """Raise an error, because each phase must be bound separately."""
        raise InvalidParameter("a switching walk has two phases: bind each of Switching.phases")


@registered("design")
def simple_rw(reweight: bool = False) -> Design:
    """Walk to a uniform neighbour at every step; nodes are visited in proportion to their degree.

    ``reweight=False`` is the paper's biased form (w = 1); ``True`` corrects it by w(v) = d̄/deg(v).

    Examples
    --------
    >>> import levywalk as lw
    >>> lw.simple_rw().name
    'SimpleRW'
    """
    return Design(
        target=Degree(),
        reweight=bool(reweight),
        name="SimpleRW (reweighted)" if reweight else "SimpleRW",
    )


@registered("design")
def unif_rw() -> Design:
    """Walk by Metropolis-Hastings with the uniform target law: the paper's UnifRW.

    Examples
    --------
    >>> import levywalk as lw
    >>> lw.unif_rw().target
    Uniform()
    """
    return Design(target=Uniform(), name="UnifRW")


@registered("design")
def weight_rw() -> Design:
    """Walk by Metropolis-Hastings with the target π ∝ L_v, Eq. [impmh]: the paper's WeightRW.

    Examples
    --------
    >>> import levywalk as lw
    >>> lw.weight_rw().target
    Importance()
    """
    return Design(target=Importance(), name="WeightRW")


@registered("design")
def mixed_rw(mix: float) -> Design:
    """Walk by Metropolis-Hastings with the target π_λ = λ/n + (1-λ)π_IS: MixedRW.

    ``mix`` = λ is the share of the uniform law.

    Examples
    --------
    >>> import levywalk as lw
    >>> lw.mixed_rw(0.3).name
    'MixedRW(0.3)'
    """
    target = Mixed(mix)
    return Design(target=target, name=f"MixedRW({target.mix:g})")


@registered("design")
def mhlj(
    p_jump: float = 0.1,
    p_distance: float = 0.5,
    max_hops: int = 3,
    schedule: Schedule | None = None,
    levy: str = "algorithm",
) -> Design:
    """Metropolis-Hastings with Lévy jumps, Algorithm [alg:jump].

    Parameters
    ----------
    p_jump
        p_J, the probability to jump instead of applying the Metropolis-Hastings rule.
    p_distance, max_hops
        p_d and r of the truncated geometric law of the jump's distance.
    schedule
        p_J as a function of the step, such as ``Decaying(0.1)``; replaces ``p_jump`` when given. A
        decaying schedule removes the bias of jumps. At tuned step sizes this bias is far below the
        noise; to reach a lower final error, use `switching` or smaller step sizes.
    levy
        "algorithm": a jump makes moves to uniform neighbours. "printed": jumps by the formula that
        the paper prints for P_Lévy, see `levywalk.walks.printed_levy`; a node cannot decide that
        alone, so it runs in simulations only. Both are the same on regular networks.

    Returns
    -------
    Design
        With ``levy="printed"`` a `PrintedJumps`.

    Examples
    --------
    >>> import levywalk as lw
    >>> lw.mhlj(p_jump=0.05).jump
    JumpLaw(p_jump=0.05, distance=TruncatedGeometric(p_distance=0.5, max_hops=3))
    """
    if schedule is not None and not is_schedule(schedule):
        raise InvalidParameter(
            f"schedule must have values(start, stop), such as Decaying(0.1, 1000); got {schedule!r}"
        )
    distance: DistanceLaw = TruncatedGeometric(p_distance, max_hops)
    jump = JumpLaw(checks.probability("p_jump", p_jump) if schedule is None else schedule, distance)
    design = Design(target=Importance(), jump=jump, name="MHLJ")
    if checks.choice("levy", levy, LEVY) == "algorithm":
        return design
    from levywalk.walks.printed_levy import PrintedJumps  # a kind of Design

    return PrintedJumps(design.target, design.jump)


@registered("design")
def iid_uniform() -> Design:
    """Draw each node uniformly and independently, which only a server could do.

    Examples
    --------
    >>> import levywalk as lw
    >>> lw.iid_uniform().moves
    'iid'
    """
    return Design(target=Uniform(), moves="iid", name="i.i.d. uniform")


@registered("design")
def iid_weighted() -> Design:
    """Draw each node from π ∝ L_v independently: weighted sampling by a server, Eq. [wsgd].

    Examples
    --------
    >>> import levywalk as lw
    >>> lw.iid_weighted().name
    'i.i.d. weighted'
    """
    return Design(target=Importance(), moves="iid", name="i.i.d. weighted")


@registered("design")
def switching(
    first: Walk,
    then: Walk,
    *,
    threshold: float | str = AUTO,
    window: float | str = AUTO,
    patience: int | str = AUTO,
    step_size: float | str = AUTO,
) -> Switching:
    """Walk by ``first`` until the model is stationary, then by ``then``: the paper's [switch].

    The defaults should work without changes: on the paper's networks, at every step size that was
    tried, the switch came when the error had reached its floor, after about eleven times dim/(γL̄)
    updates; docs/paper.md has the numbers. The exception is a problem whose features are far from
    evenly spread, where the switch comes too early: give a ``window``.

    Parameters
    ----------
    first, then
        Usually ``mhlj()`` and ``unif_rw()``.
    threshold, window, patience
        Parameters of the `Detector` that travels with the model; "auto" derives them from the
        problem's dimension and the step size. A smaller ``threshold`` or a larger ``window``
        switches later.
    step_size
        γ₂ of the second phase. "auto" is the step size of the first phase (a number or a schedule),
        but never above 1/L*, with L* = max w(v)L_v of ``then`` (L_max for the uniform law); it
        cannot increase the noise. "theory" is 1/L* itself, which can increase the noise on a
        network that needs step sizes far below 1/L*. A smaller number gives a lower final error,
        after proportionally more updates.

    Examples
    --------
    >>> import levywalk as lw
    >>> lw.switching(lw.mhlj(), lw.unif_rw()).name
    'MHLJ, then UnifRW'
    """
    detector = Detector(threshold, window, patience)
    name = f"{getattr(first, 'name', first)}, then {getattr(then, 'name', then)}"
    return Switching(first, then, detector, step_size, name)


@registered("design")
def custom(
    target: str,
    mix: float | None = None,
    p_jump: float = 0.0,
    distance: str = "geometric",
    p_distance: float = 0.5,
    exponent: float = 2.0,
    max_hops: int = 3,
    schedule: Schedule | None = None,
    reweight: bool = True,
) -> Design:
    """Compose a `Design` from plain values, which an experiment file can contain.

    ``target`` is "uniform", "importance", "degree" or "mixed" (with ``mix``); ``distance`` is
    "geometric", "fixed" or "power".

    Examples
    --------
    >>> custom("mixed", mix=0.3, p_jump=0.1, distance="fixed", max_hops=2).jump
    JumpLaw(p_jump=0.1, distance=FixedDistance(hops=2))
    """
    checks.choice("target", target, ("uniform", "importance", "degree", "mixed"))
    checks.choice("distance", distance, ("geometric", "fixed", "power"))
    if (target == "mixed") != (mix is not None):
        raise InvalidSpec(
            f'mix can only be given with target = "mixed", got target = {target!r}, mix = {mix!r}'
        )
    law: DistanceLaw = TruncatedGeometric(p_distance, max_hops)
    if distance == "fixed":
        law = FixedDistance(max_hops)
    elif distance == "power":
        law = PowerLaw(exponent, max_hops)
    probability = schedule if schedule is not None else checks.probability("p_jump", p_jump)
    jump = JumpLaw(probability, law) if probability != 0.0 else None
    return Design(Mixed(mix) if mix is not None else target, jump, reweight=reweight)


def is_plain_design(walk: object) -> bool:
    """Return whether a walk is a `Design` and not a subclass with its own decisions.

    Kernels and theory support plain designs directly; any other walk must provide its compiled twin
    or its chain.

    Examples
    --------
    >>> class Stubborn(Design):
    ...     def decide(self, view, memory, words):
    ...         return Decision(view.node)
    >>> is_plain_design(mhlj()), is_plain_design(Stubborn())
    (True, False)
    """
    return (
        isinstance(walk, Design)
        and keeps(walk, Design, "decide", "bind", "schedules")
        and not walk.token_memory
        and not walk.node_memory
    )


def paper_designs() -> Mapping[str, Design]:
    """Return the designs that the paper's figures compare, by name.

    Weighted i.i.d. sampling is included as the baseline.

    Examples
    --------
    >>> list(paper_designs())
    ['UnifRW', 'WeightRW', 'MHLJ', 'i.i.d. weighted']
    """
    return {design.name: design for design in (unif_rw(), weight_rw(), mhlj(), iid_weighted())}
