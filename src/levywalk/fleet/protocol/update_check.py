"""How far honest updates can have moved a model: what a guardian compares before it lets one go on.

A guardian has the model as it was before the holder's updates. The holder updates it by
x ← x - γ_t(g + ξ + λx), where ‖g‖ is at most the clip (g is w(v) times a gradient, clipped after
the weight, for all samples or a minibatch of them), ξ is the noise, whose entries have at most the
standard deviation σ, and λ is the ridge, which is not clipped. So after the updates of the steps
a, …, b-1

    ‖x_b - x_a‖ ≤ Σ γ_t (clip + λ‖x_a‖) + ‖Z‖,    Z normal, with at most the variance σ² Σ γ_t²

as long as γ_t λ ≤ 2; beyond, the recursion of `UpdateCheck.limit` grows accordingly. A step without
an update (a spent budget) moves nothing, so the bound holds for it as well. The norm of Z is above
its quantile with at most the probability that was asked for.

A node that opens an epoch shows the token as it was given to it (`levywalk.fleet.protocol.given`):
another node has signed its hash, so the new guardian has something to compare with.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from levywalk.arrays import Floats
from levywalk.fleet.protocol.links import EpochLink, LinkKind
from levywalk.fleet.protocol.token import Token
from levywalk.schedule import schedule_values

if TYPE_CHECKING:
    from levywalk.fleet.protocol.published_walk import PublishedWalk
    from levywalk.step import PublishedPhase

_SLACK = 1e-6  # of a clipped gradient's norm, which is computed in floating-point numbers
_FEW = 1024  # steps whose bound is computed one by one
_ROUNDINGS = 4.0  # of a number of the model in one update
MOST_UPDATES = 1_000_000  # of one node between the token that it was given and a new epoch


@dataclass(frozen=True)
class UpdateCheck:
    """What guardians compare, as the manifest says it and as a node computes with it.

    Attributes
    ----------
    alarm
        The probability that a run of honest nodes has a single false alarm.
    avoid_after
        After how many refused models a guardian avoids the sender.
    samples
        The least number of samples of a node with data, on which the noise depends; 1 if it does
        not.
    clip, ridge
        The bound of ‖g‖, and λ.
    deviation
        σ, the largest standard deviation of an entry of the noise; 0 if there is none.
    quantile
        The norm of as many standard normal numbers as the model has entries, which one of the run's
        steps exceeds with the probability ``alarm`` divided by their number.
    first
        The hash of the first model (`model_hash`), which the manifest has.
    """

    alarm: float
    avoid_after: int
    samples: int
    clip: float
    ridge: float
    deviation: float
    quantile: float
    first: str

    def limit(
        self, phase: PublishedPhase, model: Floats, start: int, stop: int, eps: float
    ) -> float:
        """Return the most by which the updates of steps start, …, stop-1 move a model.

        Parameters
        ----------
        eps
            The relative spacing of the model's numbers.

        Examples
        --------
        >>> import levywalk as lw
        >>> from levywalk.fleet.setup.build import Fleet
        >>> fleet = Fleet.of(
        ...     lw.ring(5), lw.homogeneous(5), lw.unif_rw(), steps=9, step_size=0.1,
        ...     privacy="clip=2,noise=0", check_updates=True,
        ... )
        >>> check = fleet.published.check
        >>> round(check.limit(fleet.published.phases[0], fleet.x0, 0, 3, 0.0), 4)
        0.6
        """
        size = float(np.linalg.norm(model))
        moved, power = self._sums(phase, size, start, stop)
        most = (1.0 + _SLACK) * (moved + self.quantile * math.sqrt(power))
        return most + (stop - start) * _ROUNDINGS * eps * (size + most)

    def _sums(
        self, phase: PublishedPhase, size: float, start: int, stop: int
    ) -> tuple[float, float]:
        """Return by how much the updates of these steps move a model of this norm without noise,
        and the variance of each entry of their noise.
        """
        if stop - start > _FEW:  # a stranger claims so many, and must not keep this node busy
            sizes = np.minimum(
                schedule_values("step_size", phase.step_size, start, stop), phase.most
            )
            if sizes.max() * self.ridge <= 2.0:
                moved = float(sizes.sum()) * (self.clip + self.ridge * size)
                return moved, float(sizes @ sizes) * self.deviation**2
        moved = power = 0.0
        for t in range(start, stop):
            step_size = phase.step_size_at(t, 1.0)
            grows = max(1.0, abs(1.0 - step_size * self.ridge))
            moved = grows * moved + step_size * (self.clip + self.ridge * size)
            power = grows * grows * power + (step_size * self.deviation) ** 2
        return moved, power


def refuses_change(
    published: PublishedWalk, copy: Token, token: Token, renew_after: int
) -> str | None:
    """Return why a token cannot be what honest updates have made of a copy, or None.

    Both are of one holder: the copy is from before its updates, and the token as it was before it
    is handed over, or as the next node gets it.
    """
    check = published.check
    assert check is not None
    for name in ("epoch", "base", "phase", "switched_at"):
        if getattr(token, name) != getattr(copy, name):
            return f"its {name} is {getattr(token, name)}, and that of the copy is " + str(
                getattr(copy, name)
            )
    made = token.step - copy.step
    if not 0 <= made <= renew_after:
        return f"{made} updates since the copy, where 0 to {renew_after} are possible"
    return _refuses_model(published, copy, token)


def _refuses_model(published: PublishedWalk, copy: Token, token: Token) -> str | None:
    """Return why the model of a token cannot be what its updates have made of a copy, or None."""
    check, made = published.check, token.step - copy.step
    assert check is not None
    if token.diverged_at != copy.diverged_at:
        return "it says that its update has overflowed, which a clipped update cannot do"
    if made == 0 or copy.diverged_at >= 0:
        same = copy.model.tobytes() == token.model.tobytes()
        return None if same else "it has changed the model, although no update was made"
    eps = 2.0**-23 if published.method.itemsize == 4 else 2.0**-52
    limit = check.limit(published.phases[0], copy.model, copy.step, token.step, eps)
    with np.errstate(over="ignore"):
        change = float(np.linalg.norm(token.model - copy.model))
    if change <= limit:
        return None
    return (
        f"{made} update{'s' if made > 1 else ''} changed the model by {change:.6g}, where at most "
        f"{limit:.6g} is possible"
    )


def model_hash(model: Floats) -> str:
    """Return the SHA-256 of a model's numbers as float64.

    Examples
    --------
    >>> model_hash(np.zeros(1))
    'af5570f5a1810b7af78caf4bc70a660f0df51e42baf91d4de5b2328de0e83dfc'
    """
    return hashlib.sha256(np.ascontiguousarray(model, dtype="<f8").tobytes()).hexdigest()


def refuses_opening(
    published: PublishedWalk, link: EpochLink, given: Token | None, token: Token
) -> str | None:
    """Return why the token of a new epoch cannot be what honest updates have made of the token that
    its sender was given, or None. The link itself is valid, and about this token.

    The given token is the one whose hash is in the link's right, which another node has signed;
    without a right it is the first one, of which the manifest has the model. Between the two lie

    - nothing, if the walk begins, if the operator has revived the copy, or if the giver of a token
      that was prepared is gone: then the model is the same to the bit;
    - the updates that a holder makes until its guardian is gone, or that a guardian's copy has been
      renewed by. Nobody has signed how many there were; each is within the bound;
    - if the walk had come back to its own guardian, whose right is about the token before, also the
      hand-off by the node in between, and its updates.
    """
    one, right = link
    signed = right.release or right.link
    if given is None and one.kind == LinkKind.FIRST:
        given = token
    if given is None:
        return "it does not show the token that it was given"
    why = _refuses_given(published, given, None if signed is None else signed.digest)
    if why is not None:
        return why
    ahead, made = token.seq - given.seq, token.step - given.step
    expected = given
    if ahead == 1 and right.holder is not None and right.guardian == one.epoch.node:
        expected = given.handed_over(right.holder, one.epoch.node)
    for name in ("seq", "transfers", "chain", "phase", "switched_at"):
        if getattr(token, name) != getattr(expected, name):
            return f"its value of {name} does not follow from the token that it was given"
    same = one.kind in (LinkKind.FIRST, LinkKind.REVIVED)
    if same or (one.kind == LinkKind.GIVER_GONE and ahead == 0):
        if made:
            return f"{made} updates since the token that it was given, where none is possible"
    elif not 0 <= made <= MOST_UPDATES:
        return (
            f"{made} updates since the token that it was given, where 0 to {MOST_UPDATES} are "
            "possible"
        )
    return _refuses_model(published, given, token)


def _refuses_given(published: PublishedWalk, given: Token, signed: bytes | None) -> str | None:
    """Return why a token is not the one whose hash was signed, or the first one, or None."""
    check = published.check
    assert check is not None
    why = published.refuses(given)
    if why is not None:
        return f"the token that it was given is impossible: {why}"
    if signed is not None:
        fine = given.digest() == signed
        return None if fine else "the token that it shows is not the one whose hash was signed"
    counts = (given.seq, given.step, given.transfers, given.hops, given.diverged_at)
    if counts == (0, 0, 0, 0, -1) and model_hash(given.model) == check.first:
        return None
    return "the walk does not begin with the first model of the manifest"
