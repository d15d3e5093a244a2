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
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from levywalk.arrays import Floats
from levywalk.fleet.protocol.token import Token

if TYPE_CHECKING:
    from levywalk.fleet.protocol.published_walk import PublishedWalk
    from levywalk.step import PublishedPhase

_SLACK = 1e-6  # of a clipped gradient's norm, which is computed in floating-point numbers
_ROUNDINGS = 4.0  # of a number of the model in one update


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
    """

    alarm: float
    avoid_after: int
    samples: int
    clip: float
    ridge: float
    deviation: float
    quantile: float

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
        moved = power = 0.0
        for t in range(start, stop):
            step_size = phase.step_size_at(t, 1.0)
            grows = max(1.0, abs(1.0 - step_size * self.ridge))
            moved = grows * moved + step_size * (self.clip + self.ridge * size)
            power = grows * grows * power + (step_size * self.deviation) ** 2
        most = (1.0 + _SLACK) * (moved + self.quantile * math.sqrt(power))
        return most + (stop - start) * _ROUNDINGS * eps * (size + most)


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
    if token.diverged_at != copy.diverged_at:
        return "it says that its update has overflowed, which a clipped update does not"
    if made == 0 or copy.diverged_at >= 0:
        same = copy.model.tobytes() == token.model.tobytes()
        return None if same else "it has changed the model without an update"
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
