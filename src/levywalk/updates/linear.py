"""What updates of linear models share: slopes instead of gradients, and proximal steps.

For a problem made of samples and a loss with one output, the gradient of a node's loss is
Σ φ'(aᵀx, y) a / m: one slope per sample stands for it. The ridge is not part of it; updates add it
exactly, at the model of the moment.
"""

from __future__ import annotations

import numpy as np

from levywalk.arrays import Floats, Ints
from levywalk.draws import MINIBATCH, Words, split
from levywalk.errors import InvalidParameter
from levywalk.problem import GeneralizedLinear, Problem, follows_its_loss
from levywalk.remedy import python_or_command
from levywalk.updates.update import LocalData

NEWTON_STEPS = 60  # of an inner solve; quadratic convergence needs fewer than ten
DEPTH = 1e-15  # relative accuracy of an inner solve
# A Newton step that goes too far is halved, until it is small or ends before the line rises by more
# than this share of its first fall; at most so often that this share of it is left.
SMALL, BEYOND, LEAST_SHARE = 1e-6, 0.1, 1e-6


def is_linear(problem: Problem) -> bool:
    """Return whether a node's gradient is a combination of its samples, one slope for each.

    Examples
    --------
    >>> import levywalk as lw
    >>> is_linear(lw.homogeneous(5))
    True
    """
    return outputs_of(problem) == 1


def outputs_of(problem: Problem) -> int:
    """Return how many slopes per sample stand for a node's gradient; 0 if they cannot.

    Examples
    --------
    >>> import levywalk as lw
    >>> outputs_of(lw.Softmax([[1.0], [2.0], [3.0]], ["a", "b", "c"]))
    3
    """
    if isinstance(problem, GeneralizedLinear) and follows_its_loss(problem):
        return problem.sample_loss.n_outputs
    return 0


def require_linear(update: str, problem: Problem) -> None:
    """Refuse a problem whose gradients are no combinations of samples, with one slope for each."""
    if not is_linear(problem):
        raise InvalidParameter(
            f"{update} needs a problem made of samples and a loss with one output, got a "
            f"{type(problem).__name__}; use {python_or_command('lw.saga()', 'saga')}"
        )


def drawn_samples(minibatch: int | None, local: LocalData, words: Words) -> Ints | None:
    """Return the positions of a minibatch, drawn with replacement, or None for all samples."""
    if minibatch is None or local.n_samples <= minibatch:
        return None
    return np.array(
        [split(words(MINIBATCH + j), local.n_samples)[0] for j in range(minibatch)], dtype=np.int64
    )


def proximal(point: Floats, local: LocalData, step_size: float) -> tuple[Floats, Floats]:
    """Return argmin f_v(x) + ‖x - point‖²/(2γ), and the slopes of the node's samples there.

    One sample needs the root of a scalar equation, which has a closed form for the squared error
    and is found by Newton's method otherwise; several samples need Newton's method in dim numbers,
    of which one step is exact for the squared error.
    """
    features, targets = local.samples
    shrink = step_size / (1.0 + step_size * local.ridge)
    centre = point / (1.0 + step_size * local.ridge)
    if len(targets) == 1:
        a, y = features[0], targets
        slope = _scalar_root(float(a @ centre), shrink * float(a @ a), float(y[0]), local)
        return centre - shrink * slope * a, np.array([slope])
    x = centre.copy()
    count = len(targets)
    for _ in range(NEWTON_STEPS):
        z = features @ x
        slopes, bends = local.loss_slopes(z), local.loss_curvatures(z)
        residual = (x - centre) / shrink + slopes @ features / count
        matrix = (features.T * bends) @ features / count + np.eye(len(x)) / shrink
        change: Floats = np.asarray(np.linalg.solve(matrix, residual), dtype=np.float64)
        x = x - _share(x, centre, change, z, features @ change, shrink, local) * change
        if np.abs(change).max() <= DEPTH * (1.0 + np.abs(x).max()):
            break
    slopes = local.loss_slopes(features @ x)
    return centre - shrink * (slopes @ features) / count, slopes


def _share(
    x: Floats,
    centre: Floats,
    change: Floats,
    predictions: Floats,
    along: Floats,
    shrink: float,
    local: LocalData,
) -> float:
    """Return the share of a Newton step to take: all of it, unless it goes too far.

    Where a loss is flat on both sides of a bend, whole steps would alternate without end.
    """
    if np.abs(change).max() <= SMALL * (1.0 + np.abs(x).max()):
        return 1.0
    pull, square = float(change @ (x - centre)), float(change @ change)

    def rise(share: float) -> float:
        slopes = local.loss_slopes(predictions - share * along)
        return (pull - share * square) / shrink + float(slopes @ along) / len(along)

    first, share = rise(0.0), 1.0
    while share > LEAST_SHARE and rise(share) < -BEYOND * first:
        share *= 0.5
    return share


def _scalar_root(centre: float, gain: float, y: float, local: LocalData) -> float:
    """Return the slope at the root u of u - centre + gain φ'(u, y) = 0.

    The root lies between the centre and centre - gain φ'(centre, y): Newton's method, and bisection
    where it leaves this interval or does not halve its steps.
    """
    target = np.array([y])

    def slope_at(u: float) -> float:
        return float(local.loss_slopes(np.array([u]), target)[0])

    first = slope_at(centre)
    low, high = sorted((centre, centre - gain * first))
    u, last = centre, high - low
    for _ in range(NEWTON_STEPS):
        value = u - centre + gain * slope_at(u)
        if value > 0.0:
            high = u
        else:
            low = u
        bend = 1.0 + gain * float(local.loss_curvatures(np.array([u]), target)[0])
        following = u - value / bend
        # Between two flat ends Newton's method can go to and fro and never leave the interval.
        if not low <= following <= high or abs(following - u) > 0.5 * last:
            following = 0.5 * (low + high)
        last = abs(following - u)
        done = last <= DEPTH * (1.0 + abs(u))
        u = following
        if done:
            break
    return slope_at(u)
