"""Whether guardians compare models: what is refused when a fleet is created, what its manifest
says, and what a node checks before it takes part.

The bound is that of plain SGD with clipped gradients (`levywalk.fleet.protocol.update_check`), so
everything for which it does not hold is refused.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

from levywalk import checks
from levywalk.arrays import Floats
from levywalk.errors import InvalidData, InvalidParameter
from levywalk.fleet.protocol.published_walk import PublishedWalk
from levywalk.fleet.protocol.update_check import UpdateCheck, model_hash
from levywalk.fleet.setup.fields import Fields
from levywalk.problem import Problem, has_l1, has_samples
from levywalk.remedy import python_or_command
from levywalk.updates import Sgd
from levywalk.walks import Uniform, as_target

if TYPE_CHECKING:
    from levywalk.privacy import Privacy

TABLE = "check_updates"
_MOST_COUNT = 2**31 - 1


@dataclasses.dataclass(frozen=True)
class CheckSettings:
    """What is chosen about the comparison.

    Attributes
    ----------
    alarm
        The probability of a false alarm in a whole run of honest nodes.
    avoid_after
        After how many refused models a guardian avoids the sender.
    samples
        The least number of samples of a node; None: as the nodes' data have it, 1 if only their
        owners know them.
    """

    alarm: float = 1e-6
    avoid_after: int = 3
    samples: int | None = None

    def __post_init__(self) -> None:
        alarm = checks.real(
            "alarm", self.alarm, "between 0 and 1", low=0.0, high=1.0, low_open=True, high_open=True
        )
        object.__setattr__(self, "alarm", alarm)
        checks.integer("avoid_after", self.avoid_after, low=1, high=_MOST_COUNT)
        if self.samples is not None:
            checks.integer("samples", self.samples, low=1, high=_MOST_COUNT)


def as_check_settings(value: Any) -> CheckSettings | None:
    """Return the settings from an argument: None or False, True, or a dict.

    Examples
    --------
    >>> as_check_settings({"avoid_after": 1})
    CheckSettings(alarm=1e-06, avoid_after=1, samples=None)
    """
    if value is None or value is False:
        return None
    if isinstance(value, CheckSettings):
        return value
    names = [field.name for field in dataclasses.fields(CheckSettings)]
    if value is True:
        value = {}
    if not isinstance(value, dict) or set(value) - set(names):
        raise InvalidParameter(
            f"check_updates must be True, False or a dict of {', '.join(names)}, got {value!r:.80}"
        )
    return CheckSettings(**value)


def with_check(
    published: PublishedWalk, settings: CheckSettings | None, problem: Problem, first: Floats
) -> PublishedWalk:
    """Return what is published about a walk whose guardians compare models; refuse a method for
    which they cannot. ``first`` is the model with which the walk begins.

    Examples
    --------
    >>> import levywalk as lw
    >>> from levywalk.fleet.setup.build import Fleet
    >>> Fleet.of(
    ...     lw.ring(5), lw.homogeneous(5), lw.unif_rw(), steps=9, step_size=0.1, update="saga",
    ...     privacy="clip=2,noise=20", check_updates=True,
    ... )
    Traceback (most recent call last):
    levywalk.errors.InvalidParameter: check_updates needs plain SGD, whose updates have a bound, ...
    """
    if settings is None:
        return published
    if has_l1(problem):
        raise InvalidParameter(
            f"{_option()} needs a problem without an l1 penalty, which moves the model further "
            f"than the clip says, got l1 = {problem.l1:g}; "  # type: ignore[attr-defined]
            f"use {python_or_command('a ridge', '--ridge')}, or leave {_option()} out"
        )
    private = published.method.privacy
    _check_clip(None if private is None else private.privacy)
    assert private is not None
    samples = settings.samples
    if samples is None:
        samples = _least_samples(problem)
    if not _noise_falls(private.privacy, published):
        samples = 1
    found = dataclasses.replace(settings, samples=samples)
    ridge = 0.0 if hasattr(problem, "code") else float(getattr(problem, "ridge", 0.0))
    return bound_check(published, found, ridge, model_hash(first))


def _option() -> str:
    return python_or_command("check_updates", "--check-updates")


def _check_clip(privacy: Privacy | None) -> None:
    if privacy is None:
        raise InvalidParameter(
            f"{_option()} needs a clip, because without it the size of an update has no bound; add "
            + python_or_command("privacy='clip=5,noise=20'", "--privacy clip=5,noise=20")
            + ", or clip=5,noise=0 if nothing has to be private"
        )


def _least_samples(problem: Problem) -> int:
    """Return the least number of samples of a node with data, as far as it is known here."""
    if not has_samples(problem):
        return 1
    counted = problem.sample_count  # type: ignore[attr-defined]
    return max(1, min(int(counted(v)) for v in range(problem.n)))


def _noise_falls(privacy: Privacy, published: PublishedWalk) -> bool:
    """Return whether the noise of a node falls with the number of its samples."""
    whole = getattr(published.update, "minibatch", None) is None
    return privacy.hides and privacy.adjacency == "sample" and whole


def bound_check(
    published: PublishedWalk, settings: CheckSettings, ridge: float, first: str
) -> PublishedWalk:
    """Return a walk whose guardians compare models, with the numbers of the bound and the hash of
    the first model.
    """
    from levywalk.privacy.private_data import sensitivity

    update, bound = published.update, published.method.privacy
    _check_clip(None if bound is None else bound.privacy)
    assert bound is not None
    if type(update) is not Sgd:
        raise InvalidParameter(
            f"{_option()} needs plain SGD, whose updates have a bound, got update {update.name}; "
            f"use {python_or_command('update=lw.sgd()', '--update sgd')}, or leave {_option()} out"
        )
    if published.detector is not None:
        raise InvalidParameter(
            f"{_option()} cannot be used with a detector, whose averages travel with the model "
            "and have no bound; use "
            + python_or_command("stop='steps' and a design", "--stop steps and a design")
            + " that does not switch"
        )
    phase = published.phases[0]
    weighted = phase.mean_score is not None and not isinstance(
        as_target(phase.walk.target), Uniform
    )
    if ridge > 0.0 and weighted:
        raise InvalidParameter(
            f"{_option()} cannot be used with a ridge and a weighted design: the ridge's part of "
            f"an update is weighted and not clipped, got ridge = {ridge:g} and design "
            f"{phase.walk.name}; use {python_or_command('ridge=0', '--ridge 0')} or "
            + python_or_command("lw.unif_rw()", "--design unif_rw")
        )
    assert settings.samples is not None
    deviation = bound.privacy.noise * sensitivity(bound.privacy, settings.samples)
    quantile = 0.0
    if deviation:
        updates = published.steps * bound.tokens  # of a whole run
        quantile = norm_quantile(published.dim, settings.alarm / updates)
    return dataclasses.replace(
        published,
        check=UpdateCheck(
            *(settings.alarm, settings.avoid_after, settings.samples),
            *(bound.privacy.clip, ridge, deviation, quantile),
            first,
        ),
    )


def norm_quantile(dim: int, probability: float) -> float:
    """Return what the norm of so many standard normal numbers exceeds with a probability.

    Examples
    --------
    >>> round(norm_quantile(1, 0.05), 4), round(norm_quantile(10, 1e-9), 4)
    (1.96, 7.9338)
    """
    from scipy.special import chdtri

    found = math.sqrt(float(chdtri(dim, probability)))
    if not math.isfinite(found):
        raise InvalidParameter(
            f"alarm is too small for this number of steps: {probability:g} for each of them; use "
            + python_or_command("alarm=1e-6", "--false-alarm 1e-6")
        )
    return found


def check_table(check: UpdateCheck) -> dict[str, Any]:
    """Return what a manifest says about the comparison."""
    return {name.name: getattr(check, name.name) for name in dataclasses.fields(CheckSettings)}


def read_check(top: Fields, published: PublishedWalk, ridge: float, first: str) -> PublishedWalk:
    """Return the walk of a manifest with what its guardians compare, if it says so."""
    if TABLE not in top:
        return published
    table = top.table(TABLE, needed=("alarm", "avoid_after", "samples"))
    settings = table.make(lambda: CheckSettings(**table.values))
    if settings.samples is None:
        raise table.bad("samples", "a number of at least 1")
    return table.make(bound_check, published, settings, ridge, first)


def check_own_samples(published: PublishedWalk, problem: Problem | None) -> None:
    """Refuse to take part with fewer samples than the manifest says: the noise of this node would
    be larger than its guardians think, and its models would be refused.
    """
    check = published.check
    if check is None or problem is None or check.samples == 1:
        return
    own = _least_samples(problem)
    if own < check.samples:
        raise InvalidData(
            f"this node has {own} samples, fewer than the {check.samples} that the manifest says "
            f"(check_updates.samples): its noise would be taken for a false model; create the "
            f"fleet again with levywalk fleet init, or give the node more samples"
        )
