"""Which of the paper's assumptions hold for a network, a problem and a design, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csgraph

from levywalk.arrays import Floats
from levywalk.errors import InvalidParameter, NoMinimiser
from levywalk.network import Network
from levywalk.notebook import columns_html
from levywalk.problem import Problem, holders_of
from levywalk.remedy import python_or_command
from levywalk.theory.chain.stochastic_matrix import ChainOperator, period
from levywalk.theory.chain.transition import affordable_chain
from levywalk.theory.judge.closed_form import states_constant
from levywalk.theory.judge.curvature import local_gradients
from levywalk.theory.judge.setting import checked_optimum, local_strong_convexity, not_stated
from levywalk.walks import Design

ABOUT = 2.0  # [hetedata] says L_min ≈ L̄; here this means: equal up to a factor of 2


_VERDICTS = {True: "holds", False: "FAILS", None: "unknown"}


@dataclass(frozen=True, repr=False)
class Assumption:
    """One assumption of the paper, and whether it holds.

    Attributes
    ----------
    name
        "Assumption 1" to "Assumption 4", or "hetedata".
    says
        What the paper assumes.
    holds
        Whether it holds; None if the problem does not state enough to decide.
    why
        The reason in one sentence. If the assumption fails, the sentence also says what would make
        it hold.
    numbers
        The numbers that decided.
    """

    name: str
    says: str
    holds: bool | None
    why: str
    numbers: dict[str, float]

    def __repr__(self) -> str:
        return f"Assumption({self.name!r} {_VERDICTS[self.holds].lower()}: {self.why})"


@dataclass(frozen=True, repr=False)
class Assumptions:
    """All assumptions, by name. Iterating gives them in the order of the paper.

    Attributes
    ----------
    entries
        The assumptions, in that order.

    Examples
    --------
    >>> import levywalk as lw
    >>> found = lw.assumptions(lw.ring(9), lw.homogeneous(9, dim=2), lw.mhlj())
    >>> found["Assumption 2"].holds
    False
    """

    entries: tuple[Assumption, ...]

    def __iter__(self) -> Any:
        return iter(self.entries)

    def __getitem__(self, name: str) -> Assumption:
        for assumption in self.entries:
            if assumption.name == name:
                return assumption
        names = ", ".join(repr(assumption.name) for assumption in self.entries)
        raise InvalidParameter(f"name must be one of {names}, got {name!r}")

    def __str__(self) -> str:
        return "\n".join(f"{a.name:<13} {_VERDICTS[a.holds]:<8} {a.why}" for a in self.entries)

    def __repr__(self) -> str:
        groups = {
            word: [a.name for a in self.entries if a.holds is verdict]
            for verdict, word in ((True, "hold"), (False, "fail"), (None, "unknown"))
        }
        parts = [f"{word}: {', '.join(names)}" for word, names in groups.items() if names]
        return f"Assumptions({'; '.join(parts)})"

    def _repr_html_(self) -> str:
        rows = [[a.name, a.says, _VERDICTS[a.holds], a.why] for a in self.entries]
        return columns_html(
            ["name", "it says", "verdict", "reason"], rows, "The paper's assumptions"
        )

    @property
    def hold(self) -> bool:
        """Whether Assumptions 1 to 4, which the theorems need, are all known to hold."""
        return all(a.holds is True for a in self.entries if a.name != "hetedata")


def assumptions(network: Network, problem: Problem, design: Design) -> Assumptions:
    """Return which of Assumptions 1 to 4 and [hetedata] hold for a network, a problem and a design.

    Parameters
    ----------
    network, problem, design
        As for `levywalk.run`. The design must have one chain. If its p_jump changes with the step,
        the chain of the first step is judged.

    Examples
    --------
    >>> import levywalk as lw
    >>> found = lw.assumptions(lw.ring(100), lw.homogeneous(100, dim=2), lw.unif_rw())
    >>> print(found)
    Assumption 1  holds    L_v is known at every node, at most ...
    Assumption 2  FAILS    μ_v = 0 at 100 of 100 nodes: ... ridge above 0 ...
    Assumption 3  holds    ...
    Assumption 4  FAILS    the chain has period 2: ...
    hetedata      FAILS    L̄/L_min = ...
    >>> found
    Assumptions(hold: Assumption 1, Assumption 3; fail: Assumption 2, Assumption 4, hetedata)
    """
    P = affordable_chain(network, problem, design)
    smoothness = np.asarray(problem.smoothness, dtype=np.float64)
    return Assumptions(
        (
            _smooth(problem, smoothness),
            _strongly_convex(problem),
            _bounded(problem),
            _ergodic(P),
            _heterogeneous(smoothness),
        )
    )


def _smooth(problem: Problem, smoothness: Floats) -> Assumption:
    says = "every ∇f_v is L_v-Lipschitz"
    why = (
        f"L_v is known at every node, at most {smoothness.max():.4g} "
        f"and {smoothness.mean():.4g} on average"
    )
    numbers = {
        "L_min": float(smoothness.min()),
        "L_mean": float(smoothness.mean()),
        "L_max": float(smoothness.max()),
    }
    if not states_constant(problem, "smoothness"):
        return Assumption("Assumption 1", says, None, not_stated(problem, "smoothness"), numbers)
    return Assumption("Assumption 1", says, True, why, numbers)


def _strongly_convex(problem: Problem) -> Assumption:
    says = "every f_v is μ-strongly convex"
    local = local_strong_convexity(problem)
    if local is None:
        return Assumption(
            "Assumption 2", says, None, not_stated(problem, "local_strong_convexity"), {}
        )
    flat = int((local <= 0.0).sum())
    numbers = {"mu_min": float(local.min()), "n_flat_nodes": float(flat)}
    world = (
        getattr(problem, "strong_convexity", None)
        if states_constant(problem, "strong_convexity")
        else None
    )
    if world is not None:
        numbers["mu_global"] = float(world)
    if flat == 0:
        why = f"the smallest μ_v is {local.min():.4g}"
        return Assumption("Assumption 2", says, True, why, numbers)
    average = "" if world is None else f" (f itself has μ = {float(world):.4g})"
    why = (
        f"μ_v = 0 at {flat} of {len(local)} nodes: their samples span fewer than {problem.dim} "
        f"dimensions{average}; a ridge above 0 makes it hold"
    )
    return Assumption("Assumption 2", says, False, why, numbers)


def _bounded(problem: Problem) -> Assumption:
    says = "‖∇f_v(x*)‖² ≤ σ²max at every node"
    try:
        optimum = checked_optimum(problem)
    except NoMinimiser as error:
        return Assumption("Assumption 3", says, False, f"there is no x*: {error}", {})
    except InvalidParameter as error:
        return Assumption("Assumption 3", says, None, str(error), {})
    if optimum is None:
        why = f"a {type(problem).__name__} does not state its optimum"
        return Assumption("Assumption 3", says, None, why, {})
    squares = np.square(local_gradients(problem, optimum)).sum(axis=1)
    largest, mean = float(squares.max()), float(squares.mean())
    worst, holders = int(squares.argmax()), holders_of(problem)
    node = worst if holders is None else int(holders[worst])
    why = f"σ²max = {largest:.4g} at node {node}, σ*² = {mean:.4g} on average"
    return Assumption("Assumption 3", says, True, why, {"sigma_max2": largest, "sigma_star2": mean})


def _ergodic(P: Any) -> Assumption:
    says = "P is irreducible and aperiodic, and v₀ is drawn from its stationary law"
    if isinstance(P, ChainOperator):
        assert P.classes is not None  # known for all designs
        classes = P.classes
    else:
        classes, _ = csgraph.connected_components(P, directed=True, connection="strong")
    if classes > 1:
        why = f"the chain is reducible: its nodes form {classes} classes"
        return Assumption(
            "Assumption 4", says, False, why, {"n_classes": float(classes), "period": 0.0}
        )
    turns = period(P)
    numbers = {"n_classes": 1.0, "period": float(turns)}
    if turns > 1:
        why = (
            f"the chain has period {turns}: it visits {turns} groups of nodes in a fixed order; "
            "self_loops='counted', or jumps of even and odd distances, make it aperiodic; "
            "a walk can be run in any case"
        )
        return Assumption("Assumption 4", says, False, why, numbers)
    return Assumption(
        "Assumption 4",
        says,
        True,
        "the chain is irreducible and aperiodic; "
        + python_or_command(
            "run with start='stationary'",
            "`levywalk run FILE.toml --set run.start=stationary` starts from its law",
        ),
        numbers,
    )


def _heterogeneous(smoothness: Floats) -> Assumption:
    low = float(smoothness.mean() / smoothness.min())
    high = float(smoothness.max() / smoothness.mean())
    holds = low <= ABOUT
    verdict = (
        "L_min ≈ L̄"
        if holds
        else f"L_min is not close to L̄ (they differ by more than a factor of {ABOUT:g})"
    )
    why = f"L̄/L_min = {low:.4g}, L_max/L̄ = {high:.4g}: {verdict}"
    numbers = {"L_mean_over_L_min": low, "L_max_over_L_mean": high}
    return Assumption("hetedata", "L_min ≈ L̄ ≤ L_max", holds, why, numbers)
