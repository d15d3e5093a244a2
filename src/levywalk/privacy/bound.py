"""Privacy that is bound to a run: what it refuses, each node's cap, and what a visit may see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from levywalk.arrays import AnyArray, Floats
from levywalk.draws import Domain, generator
from levywalk.errors import InvalidParameter
from levywalk.memory import Kind, Number
from levywalk.privacy.noise import NoiseSource, no_noise
from levywalk.privacy.privacy import Privacy
from levywalk.privacy.private_data import RELEASES, GradientsOnly, PrivateData
from levywalk.problem import Problem, known_smoothness
from levywalk.remedy import python_or_command
from levywalk.updates import (
    Averaged,
    Finito,
    LocalData,
    NewtonToken,
    PointSaga,
    Update,
    Walkman,
)
from levywalk.walks import Degree, Uniform, Walk, as_target

_SCORES = (0, 0, 1)  # the stream that draws the noise of released scores
_REVEALING: dict[type[Update], str] = {
    NewtonToken: "sends second derivatives and gradients of a node's samples, whose noise would "
    "have to be far larger",
    PointSaga: "sends proximal points, which are no gradients and have no clip",
    Finito: "sends L_v and gradients that it computes from the samples themselves",
    Walkman: "sends a node's own copy of the model, of which no clip bounds the change",
}


@dataclass(frozen=True)
class BoundPrivacy:
    """Privacy with the number of releases that each node may make for one token.

    Examples
    --------
    >>> bound = bind_privacy(Privacy(clip=1.0, noise=20.0, budget=2.0), steps=1000, tokens=3)
    >>> bound.cap, bound.whole_cap
    (33, 99)
    """

    privacy: Privacy
    cap: int
    tokens: int = field(default=1, repr=False)  # saved states name a run by what is shown here

    @property
    def whole_cap(self) -> int:
        """The number of releases that each node may make for all tokens together."""
        return self.cap * self.tokens

    @property
    def node_memory(self) -> dict[str, Kind]:
        """What a node remembers for it: how many releases it has made; nothing without noise, when
        nothing is private and nothing is counted.
        """
        return {RELEASES: Number(np.int64)} if self.privacy.hides else {}

    def visit(
        self,
        local: LocalData,
        memory: Mapping[str, AnyArray],
        weight: float,
        noise: NoiseSource | None,
    ) -> PrivateData | None:
        """Return the node's data as the update may see them; None if its budget is spent."""
        if not self.privacy.hides:
            return PrivateData(local, self.privacy, weight, no_noise, self.cap)
        left = self.cap - int(memory[RELEASES])
        if left < 1:
            return None
        if noise is None:
            raise InvalidParameter("privacy needs a source of noise, which this node does not have")
        return PrivateData(local, self.privacy, weight, noise, left)


def bind_privacy(
    privacy: Privacy, steps: int, tokens: int, *, checked: bool = False
) -> BoundPrivacy:
    """Return the privacy of a run; a node's cap is shared by the tokens.

    ``checked`` says whether guardians compare models, which alone may do without noise.

    Examples
    --------
    >>> bind_privacy(Privacy(clip=1.0, noise=20.0, budget=2.0), steps=1000, tokens=2).cap
    50
    """
    if not privacy.hides and not checked:
        raise InvalidParameter(
            "noise = 0 makes nothing private; use a noise such as noise=20, or, in a fleet, "
            + python_or_command("check_updates=True", "--check-updates")
            + ", which needs the clip alone"
        )
    if privacy.budget is None:
        return BoundPrivacy(privacy, steps, tokens)
    allowed = privacy.updates_within()
    if allowed < tokens:
        raise InvalidParameter(
            f"budget = {privacy.budget:g} allows a node {allowed} updates, fewer than one for each "
            f"of the {tokens} tokens; use a larger noise or budget, or fewer tokens"
        )
    return BoundPrivacy(privacy, min(steps, allowed // tokens), tokens)


def fitted_update(privacy: Privacy, update: Update, problem: Problem) -> Update:
    """Return the update as it is used under privacy; refuse one that reveals more than gradients.

    Examples
    --------
    >>> import levywalk as lw
    >>> fitted_update(Privacy(clip=1.0, noise=1.0), lw.point_saga(), lw.homogeneous(5))
    Traceback (most recent call last):
    levywalk.errors.InvalidParameter: update point_saga is refused under privacy: ...
    """
    inner = update
    while isinstance(inner, Averaged):
        inner = inner.update
    for kind, why in _REVEALING.items():
        if isinstance(inner, kind):
            raise InvalidParameter(
                f"update {update.name} is refused under privacy: it {why}; use "
                + python_or_command("update=lw.saga(), lw.sag() or lw.sgd()", "saga, sag or sgd")
            )
    return update.fitted(GradientsOnly(problem))  # type: ignore[arg-type]


def uses_scores(design: Walk) -> bool:
    """Return whether a walk, or when it switches, depends on numbers of the nodes' data.

    Examples
    --------
    >>> import levywalk as lw
    >>> uses_scores(lw.unif_rw()), uses_scores(lw.mhlj()), uses_scores(lw.simple_rw())
    (False, True, False)
    """
    free = (Uniform, Degree)
    return design.detector is not None or any(
        type(as_target(walk.target)) not in free for walk in design.phases
    )


def check_scores(privacy: Privacy, design: Walk, step_size: Any) -> None:
    """Refuse a design or a step size that depends on L_v, unless L_v is public or released."""
    if privacy.scores != "private" or not isinstance(
        design, Walk
    ):  # what is no walk is refused later
        return
    declared = python_or_command(
        "declare them to be no secret by scores='public' of lw.Privacy, or publish them once with "
        "noise: scores='released', score_low=0.1, score_high=10, score_noise=10",
        "declare them to be no secret by scores=public in --privacy, or publish them once with "
        "noise: scores=released,score_low=0.1,score_high=10,score_noise=10",
    )
    if uses_scores(design):
        plain = python_or_command("lw.unif_rw()", "unif_rw")
        raise InvalidParameter(
            f"design {design.name} depends on the nodes' scores L_v, which are functions of their "
            f"data; {declared}; or use {plain}"
        )
    if isinstance(step_size, str) and step_size == "theory":
        number = python_or_command("step_size=0.01", "--step-size 0.01")
        raise InvalidParameter(
            "step_size = 'theory' depends on the largest L_v, a function of the nodes' data; give "
            f"a number, such as {number}; or {declared}"
        )


class Rescored:
    """A problem whose L_v are others, and whose losses and gradients are the same."""

    def __init__(self, problem: Problem, smoothness: Floats) -> None:
        self._problem, self.smoothness = problem, smoothness

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._problem, name)


def scored_problem(
    privacy: Privacy | None, problem: Problem, seed: int, noise: NoiseSource | None = None
) -> Problem:
    """Return the problem with the L_v that walks may know: with noise if they are released.

    The noise is that of the seed, as in a simulation, unless a source is given.

    Examples
    --------
    >>> import levywalk as lw
    >>> released = Privacy(
    ...     clip=1.0, noise=1.0, scores="released", score_low=1.0, score_high=100.0, score_noise=1.0
    ... )
    >>> known = scored_problem(released, lw.homogeneous(50), seed=0).smoothness
    >>> bool((known >= 1.0).all() and (known <= 100.0).all())
    True
    """
    if privacy is None or privacy.scores != "released":
        return problem
    smoothness = known_smoothness(problem)
    if smoothness is None:
        raise InvalidParameter("scores='released' needs a problem that knows its L_v")
    assert privacy.score_low is not None
    assert privacy.score_high is not None
    assert privacy.score_noise is not None
    low, high = np.log(privacy.score_low), np.log(privacy.score_high)
    if noise is None:
        draws = generator(seed, Domain.PRIVACY, *_SCORES).standard_normal(len(smoothness))
    else:
        draws = noise(0, len(smoothness))
    noisy = np.clip(np.log(smoothness), low, high) + privacy.score_noise * (high - low) * draws
    noisy = np.clip(noisy, low, high)
    known = np.clip(np.exp(noisy), privacy.score_low, privacy.score_high)
    return Rescored(problem, known)
