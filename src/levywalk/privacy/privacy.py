"""`Privacy`: how much a node's updates may reveal about its samples, and to whom."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from levywalk import checks
from levywalk.errors import InvalidParameter
from levywalk.privacy.accountant import gaussian_epsilon, gaussian_mu

ADJACENCIES = {
    "sample": "one sample of one node replaced by any other",
    "node": "all samples of one node replaced by any others",
}
ADVERSARIES = {
    "colluding": "any number of other nodes that share all they see, the final model included",
    "neighbour": "any one other node, which sees the model when it holds it and knows the walk",
    "final": "whoever sees the final model alone and knows the walk",
}
SCORES = ("private", "public", "released")
SIMULATED = (
    "The noise of a simulation is computed from its seed and protects nobody; errors, losses, "
    "metrics and callbacks of a trace are functions of the data and are not counted."
)


@dataclass(frozen=True)
class Privacy:
    """Clipped gradients, Gaussian noise at each node, and a budget per node.

    At a visit a node computes w(v) times its gradient, clips it (each sample's part for problems
    made of samples, otherwise the whole), adds Gaussian noise, and gives only that to the update.
    All that leaves the node is made from such releases. Their loss is counted exactly; a node whose
    budget is spent passes the model on without an update. docs/privacy.md says what is promised,
    against whom, and what is not.

    Parameters
    ----------
    clip
        The largest norm C of w(v) times the gradient of a sample, or of a node. It must be chosen
        without looking at the data.
    noise
        The standard deviation of each entry's noise, as a multiple of the sensitivity: the most by
        which neighbouring data can change a release, 2C, or 2C/m for one of the m samples of a
        node. One release costs ρ = 1/(2 noise²). 0 is for a fleet whose guardians compare models
        (``check_updates``) and need the clip alone: then nothing is private, ε is infinite, and
        the scores count as public.
    budget
        ε that no node exceeds; None sets no limit but the number of steps.
    delta
        δ of all ε.
    adjacency
        Which data sets are to be indistinguishable: "sample" (one sample replaced; the number of
        samples of each node is public) or "node" (all samples of a node replaced).
    adversary
        "colluding" (any number of other nodes together), "neighbour" (any one other node) or
        "final" (whoever sees the final model alone). Budgets always hold against "colluding".
    scores
        What may be known of L_v, on which weighted walks and ``step_size="theory"`` depend:
        "private" (nothing: they are refused), "public" (declared to be no secret), or "released":
        log L_v, clipped to [score_low, score_high], is published once with noise, whose ε counts.
    score_low, score_high, score_noise
        For ``scores="released"``: the range of L_v, and the noise as a multiple of the
        sensitivity, log(score_high/score_low).

    Examples
    --------
    >>> import levywalk as lw
    >>> privacy = lw.Privacy(clip=1.0, noise=20.0, budget=2.0)
    >>> privacy.updates_within(), round(privacy.epsilon(100), 4)
    (100, 1.9931)
    >>> network, problem = lw.ring(20), lw.homogeneous(20)
    >>> trace = lw.run(
    ...     network, problem, lw.unif_rw(), steps=200, step_size=0.001, privacy=privacy
    ... )
    >>> trace.provenance["privacy"]["epsilon_at_cap"] <= 2.0
    True
    """

    clip: float
    noise: float
    budget: float | None = None
    delta: float = 1e-5
    adjacency: str = "sample"
    adversary: str = "colluding"
    scores: str = "private"
    score_low: float | None = None
    score_high: float | None = None
    score_noise: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "clip", checks.positive("clip", self.clip))
        noise = checks.real("noise", self.noise, "of at least 0", low=0.0)
        object.__setattr__(self, "noise", noise)
        if self.budget is not None:
            object.__setattr__(self, "budget", checks.positive("budget", self.budget))
        delta = checks.real(
            "delta", self.delta, "between 0 and 1", low=0.0, high=1.0, low_open=True, high_open=True
        )
        object.__setattr__(self, "delta", delta)
        checks.choice("adjacency", self.adjacency, ADJACENCIES)
        checks.choice("adversary", self.adversary, ADVERSARIES)
        checks.choice("scores", self.scores, SCORES)
        if not self.hides:
            self._check_noiseless()
        self._check_released()
        if self.budget is not None and self.updates_within() < 1:
            raise InvalidParameter(
                f"budget = {self.budget:g} does not suffice for one update: with noise = "
                f"{self.noise:g} it costs ε = {self.epsilon(1):.3g}; use a larger noise, such as "
                f"noise={self._enough(1):.3g}, or a larger budget"
            )

    @property
    def hides(self) -> bool:
        """Whether there is noise; without it nothing is private.

        Examples
        --------
        >>> Privacy(clip=1.0, noise=10.0).hides, Privacy(clip=1.0, noise=0.0).hides
        (True, False)
        """
        return self.noise > 0.0

    def _check_noiseless(self) -> None:
        if self.budget is not None:
            raise InvalidParameter(
                f"budget = {self.budget:g} cannot be kept with noise = 0, with which nothing is "
                "private; use a noise such as noise=20, or leave budget out"
            )
        if self.scores == "released":
            raise InvalidParameter(
                "scores='released' needs noise, got noise = 0, with which nothing is private; "
                "leave scores out"
            )
        object.__setattr__(self, "scores", "public")

    def _check_released(self) -> None:
        names = ("score_low", "score_high", "score_noise")
        given = [name for name in names if getattr(self, name) is not None]
        if self.scores != "released":
            if given:
                raise InvalidParameter(
                    f"{given[0]} belongs to scores='released', got scores={self.scores!r}; "
                    "leave it out"
                )
            return
        if len(given) < len(names):
            missing = next(name for name in names if name not in given)
            raise InvalidParameter(
                f"scores='released' needs {missing}, such as score_low=0.1, score_high=10, "
                "score_noise=10"
            )
        for name in names:
            object.__setattr__(self, name, checks.positive(name, getattr(self, name)))
        if self.score_low >= self.score_high:  # type: ignore[operator]
            raise InvalidParameter(
                f"score_high must be above score_low = {self.score_low:g}, got {self.score_high:g}"
            )
        if self.budget is not None and self.epsilon(0) >= self.budget:
            raise InvalidParameter(
                f"budget = {self.budget:g} is spent by the release of the scores, which costs ε = "
                f"{self.epsilon(0):.3g}; use a larger score_noise or a larger budget"
            )

    def _enough(self, updates: int) -> float:
        """Return a noise with which this many updates are within the budget."""
        assert self.budget is not None
        left = gaussian_mu(self.budget, self.delta) ** 2 - self._mu2_of_scores
        return math.sqrt(updates / left) * 1.01  # so that three digits of it suffice

    @property
    def _mu2_of_scores(self) -> float:
        return 0.0 if self.score_noise is None else self.score_noise**-2

    @property
    def rho(self) -> float:
        """The cost of one release in zCDP.

        Examples
        --------
        >>> Privacy(clip=1.0, noise=10.0).rho
        0.005
        """
        return 0.5 / self.noise**2 if self.hides else math.inf

    def mu(self, updates: int) -> float:
        """Return μ of Gaussian differential privacy after this many updates of a node.

        Examples
        --------
        >>> Privacy(clip=1.0, noise=10.0).mu(4)
        0.2
        """
        if not self.hides:
            return math.inf if updates else 0.0
        return math.sqrt(updates / self.noise**2 + self._mu2_of_scores)

    def epsilon(self, updates: int) -> float:
        """Return ε after this many updates of a node, the release of its score included.

        Examples
        --------
        >>> round(Privacy(clip=1.0, noise=10.0).epsilon(100), 3)
        4.377
        """
        updates = checks.integer("updates", updates, low=0)
        mu = self.mu(updates)
        if math.isinf(mu):
            return math.inf
        return gaussian_epsilon(mu, self.delta) if mu else 0.0

    def updates_within(self, budget: float | None = None) -> int:
        """Return how many updates of a node are within a budget, by default its own.

        Examples
        --------
        >>> Privacy(clip=1.0, noise=10.0).updates_within(1.0)
        7
        """
        limit = self.budget if budget is None else checks.positive("budget", budget)
        if limit is None:
            raise InvalidParameter(
                "budget must be a number, got None; give one, such as budget=1.0"
            )
        if not self.hides:
            return 0
        left = gaussian_mu(limit, self.delta) ** 2 - self._mu2_of_scores
        found = max(0, math.floor(left * self.noise**2) + 1)
        while found > 0 and self.epsilon(found) > limit:
            found -= 1
        return found

    @classmethod
    def calibrated(cls, *, clip: float, budget: float, updates: int, **rest: Any) -> Privacy:
        """Return the privacy with the least noise for which a node may make this many updates.

        Examples
        --------
        >>> privacy = Privacy.calibrated(clip=1.0, budget=1.0, updates=50)
        >>> round(privacy.noise, 2), privacy.updates_within()
        (26.38, 50)
        """
        updates = checks.integer("updates", updates, low=1)
        score_noise = rest.get("score_noise")
        left = gaussian_mu(checks.positive("budget", budget), rest.get("delta", 1e-5)) ** 2
        left -= 0.0 if score_noise is None else score_noise**-2
        if left <= 0.0:
            raise InvalidParameter(
                f"budget = {budget:g} is spent by the release of the scores with score_noise = "
                f"{score_noise:g}; use a larger score_noise or a larger budget"
            )
        return cls(clip, math.sqrt(updates / left) * (1.0 + 1e-9), budget, **rest)

    @property
    def definition(self) -> str:
        """The definition in one sentence: which data are indistinguishable, and for whom."""
        return (
            f"(ε, δ)-differential privacy with δ = {self.delta:g} for "
            f"{ADJACENCIES[self.adjacency]}, against {ADVERSARIES[self.adversary]}"
        )

    def record(self) -> dict[str, Any]:
        """Return the settings as plain data, for provenance."""
        return {
            name: value for name, value in dataclasses.asdict(self).items() if value is not None
        }


_FIELDS = {field.name: field for field in dataclasses.fields(Privacy)}
_WORDS = ("adjacency", "adversary", "scores")


def as_privacy(value: Any) -> Privacy | None:
    """Return privacy from an argument: None, `Privacy`, a dict, or a text.

    Examples
    --------
    >>> as_privacy("clip=1,noise=20,budget=2,adjacency=node")
    Privacy(clip=1.0, noise=20.0, budget=2.0, delta=1e-05, adjacency='node',
            adversary='colluding', scores='private', score_low=None, score_high=None,
            score_noise=None)
    """
    if value is None or isinstance(value, Privacy):
        return value
    if isinstance(value, str):
        value = settings_of_text(value)
    if not isinstance(value, dict):
        raise InvalidParameter(
            f"privacy must be lw.Privacy(...), a text such as 'clip=1,noise=20,budget=2', or None, "
            f"got {value!r:.80}"
        )
    unknown = [key for key in value if key not in _FIELDS]
    if unknown:
        raise InvalidParameter(f"privacy must be made of {', '.join(_FIELDS)}, got {unknown[0]!r}")
    missing = [key for key in ("clip", "noise") if key not in value]
    if missing:
        raise InvalidParameter(
            f"privacy must have a number for {' and '.join(missing)}, such as "
            "clip=1,noise=20,budget=2"
        )
    return Privacy(**value)


def settings_of_text(text: str) -> dict[str, Any]:
    """Return the settings of a text, numbers as numbers.

    Examples
    --------
    >>> settings_of_text("delta=1e-6,scores=public")
    {'delta': 1e-06, 'scores': 'public'}
    """
    found: dict[str, Any] = {}
    for word in text.split(","):
        key, equals, given = (part.strip() for part in word.partition("="))
        if key not in _FIELDS or not equals:
            raise InvalidParameter(
                f"privacy must be made of {', '.join(f'{name}=…' for name in _FIELDS)}, got "
                f"{word.strip()!r}"
            )
        if key in found:
            raise InvalidParameter(f"privacy must give each setting once, got {key} twice")
        try:
            found[key] = given if key in _WORDS else float(given)
        except ValueError:
            raise InvalidParameter(
                f"privacy must have a number for {key}, got {word.strip()!r}"
            ) from None
    return found
