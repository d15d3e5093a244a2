"""Scores of nodes for weighted walks, where no formula gives a smoothness constant.

A neural network has no L_v. A node can still say how much it matters, from its own data alone: by
the largest eigenvalue of its Hessian at the first model, which a few products of the Hessian with a
vector find, or by the norm of its gradient there. Both are local in space and in time: they are
computed at x0, and are no bound of anything that happens later.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from levywalk import checks
from levywalk.arrays import Floats, Ints
from levywalk.errors import InvalidData, InvalidParameter

if TYPE_CHECKING:
    from levywalk.problem.differentiable import DifferentiableProblem

WAYS = ("hessian", "gradient")
PRODUCTS = 12  # of the Hessian with a vector, for each node
LEAST = 1e-3  # of the mean: no node has a smaller score, because its updates would be too heavy
_NODES = 256  # whose products are computed together


class NodeScores:
    """The smoothness constants of a problem: given, estimated when they are first needed, or
    unknown.
    """

    def __init__(
        self, problem: DifferentiableProblem, smoothness: str | npt.ArrayLike | None
    ) -> None:
        self._problem = problem
        self._way: str | None = None
        self._given: Floats | None = None
        if isinstance(smoothness, str):
            self._way = str(checks.choice("smoothness", smoothness, WAYS))
        elif smoothness is not None:
            self._given = _checked(smoothness, problem.n)

    @property
    def known(self) -> bool:
        """Whether there are constants, or a way to estimate them."""
        return self._way is not None or self._given is not None

    @property
    def source(self) -> str:
        """Where the constants come from."""
        if self._given is not None:
            return f"given {self._given.tolist()}"
        return str(self._way)

    @cached_property
    def values(self) -> Floats:
        """The constants, one per node."""
        if self._given is not None:
            return self._given
        if self._way is None:
            raise InvalidParameter(
                "the smoothness L_v of this problem is not known; give smoothness='hessian' (each "
                "node's own estimate at x0), smoothness='gradient' (the norm of its gradient at "
                "x0) or one number per node, or use a walk that needs none, such as lw.unif_rw()"
            )
        found = _eigenvalues(self._problem) if self._way == "hessian" else _norms(self._problem)
        if not np.isfinite(found).all() or not found.max() > 0.0:
            raise InvalidData(
                f"smoothness={self._way!r} found no usable number at x0: the local losses are "
                "constant or not finite there; give one number per node"
            )
        return np.asarray(np.maximum(found, LEAST * found.mean()))


def _checked(smoothness: Any, n: int) -> Floats:
    try:
        clean = np.array(smoothness, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidData(
            f"smoothness must be 'hessian', 'gradient' or one number per node ({n}), got "
            f"{smoothness!r:.80}"
        ) from None
    if clean.shape != (n,) or not np.isfinite(clean).all() or not (clean > 0).all():
        raise InvalidData(
            f"smoothness must be one finite number above 0 per node ({n}), got {smoothness!r:.80}"
        )
    return clean


def _norms(problem: DifferentiableProblem) -> Floats:
    """Return ‖∇f_v(x0)‖ of every node."""
    return np.array(
        [np.linalg.norm(problem.local_gradient(v, problem.x0)) for v in range(problem.n)]
    )


def _eigenvalues(problem: DifferentiableProblem) -> Floats:
    """Return the largest absolute eigenvalue of every node's Hessian at x0, by Lanczos' method.

    `PRODUCTS` products give a lower estimate of it. All nodes begin with the same vector.
    """
    if problem.why_one_at_a_time() is not None:
        raise InvalidParameter(
            f"smoothness='hessian' is not possible here: {problem.why_one_at_a_time()}; give "
            "smoothness='gradient' or one number per node"
        )
    found = np.empty(problem.n)
    together = _NODES if problem.is_even or problem.is_mean_of_samples else 1
    for at in range(0, problem.n, together):
        rows = problem.node_rows[at : at + together]
        rows = rows[:, (rows >= 0).any(axis=0)]
        found[at : at + len(rows)] = _lanczos(problem, rows)
    return found


def _lanczos(problem: DifferentiableProblem, rows: Ints) -> Floats:
    """Return the largest absolute eigenvalue of the Hessians on these rows of samples."""
    count = min(PRODUCTS, problem.dim)
    first = np.random.default_rng(0).standard_normal(problem.dim)
    vectors = np.tile(first / np.linalg.norm(first), (len(rows), 1))
    basis: list[Floats] = []
    small = np.zeros((len(rows), count, count))
    rounding = 100.0 * float(np.finfo(problem.dtype).eps)
    for j in range(count):
        basis.append(vectors)
        products = np.array(
            problem.many_products(vectors.astype(problem.dtype), rows), dtype=np.float64
        )
        small[:, j, j] = np.einsum("ij,ij->i", products, vectors)
        for _ in range(2):  # once more, against rounding
            for one in basis:
                products -= np.einsum("ij,ij->i", products, one)[:, None] * one
        norms = np.linalg.norm(products, axis=1)
        # What is left of rounding alone is no new direction.
        norms[norms <= rounding * np.abs(small).max(axis=(1, 2))] = 0.0
        if j + 1 < count:
            small[:, j, j + 1] = small[:, j + 1, j] = norms
        vectors = np.where(norms[:, None] > 0.0, products, 0.0)
        vectors /= np.where(norms > 0.0, norms, 1.0)[:, None]
    return np.asarray(np.abs(np.linalg.eigvalsh(small)).max(axis=1))
