"""What a walk needs to know about a problem: local losses, their gradients and their smoothness."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol, runtime_checkable

import numpy as np

from levywalk import checks
from levywalk.arrays import Floats, Ints
from levywalk.errors import InvalidData, LevywalkError

MODEL_TYPES = ("float64", "float32")  # of problems made of samples and a loss
IDLE = ("error", "pass")  # what becomes of nodes without data
_FEWEST: ContextVar[int] = ContextVar("fewest nodes of a problem", default=2)
_REQUIRED = ("n", "dim", "smoothness", "local_loss", "local_gradient")


@runtime_checkable
class Problem(Protocol):
    """The local losses f_v of n nodes over models of ``dim`` numbers; f is their mean.

    Any object with these five attributes and methods is a problem. A sixth, ``optimum`` (the
    minimiser of f, an array of ``dim`` numbers, or None), is optional: without it a run cannot
    measure the error, see `optimum_of`. So is a seventh, ``holders``: if some nodes of the network
    hold no data, the problem's nodes 0 to n-1 are the others, and ``holders`` has their numbers in
    the network, in ascending order, see `holders_of`.

    A problem may say ``has_smoothness = False``: then walks that need no L_v can use it. It may
    have a first model of its own, ``x0`` (zeros otherwise), and a type of its models, ``dtype``
    (float64 otherwise), see `array_type`. With ``sample_count(v)``, and ``local_gradient(v, x,
    samples=positions)``, updates can draw minibatches.

    Examples
    --------
    >>> class Bowls:
    ...     n, dim, smoothness = 3, 1, np.ones(3)
    ...     def local_loss(self, v, x):
    ...         return 0.5 * float((x[0] - v) ** 2)
    ...     def local_gradient(self, v, x):
    ...         return x - v
    >>> isinstance(Bowls(), Problem)
    True
    """

    @property
    def n(self) -> int:
        """The number of nodes."""

    @property
    def dim(self) -> int:
        """The number of a model's entries."""

    @property
    def smoothness(self) -> Floats:
        """The smoothness constants L_v, one per node, all above 0."""

    def local_loss(self, v: int, x: Floats) -> float:
        """Return f_v(x)."""

    def local_gradient(self, v: int, x: Floats) -> Floats:
        """Return the gradient of f_v at x."""


@contextmanager
def single_node_problems() -> Iterator[None]:
    """Let problems have a single node: that is what a real node of a fleet makes of its own data.

    Examples
    --------
    >>> from levywalk.problem import LeastSquares
    >>> with single_node_problems():
    ...     LeastSquares([[1.0], [2.0]], [0.0, 1.0], node=[0, 0]).n
    1
    """
    before = _FEWEST.set(1)
    try:
        yield
    finally:
        _FEWEST.reset(before)


def fewest_nodes() -> int:
    """Return the least number of nodes of a problem: 2, and 1 within `single_node_problems`."""
    return _FEWEST.get()


def optimum_of(problem: Problem) -> Floats | None:
    """Return the problem's minimiser, or None if the problem does not provide one.

    Raises
    ------
    NoMinimiser
        The problem has no minimiser and reports this, such as a separable logistic regression
        without ridge.

    Examples
    --------
    >>> from levywalk.problem import LeastSquares
    >>> optimum_of(LeastSquares([[1.0], [1.0]], [0.0, 2.0]))
    array([1.])
    """
    optimum = getattr(problem, "optimum", None)
    if optimum is None:
        return None
    return _vector("optimum", optimum, problem.dim)


def holders_of(problem: Problem) -> Ints | None:
    """Return the nodes of the network that hold data, in ascending order, or None if all do.

    Node i of the problem is node ``holders[i]`` of the network.

    Examples
    --------
    >>> from levywalk.problem import LeastSquares
    >>> holders_of(LeastSquares([[1.0], [1.0]], [0.0, 2.0], node=[7, 3], idle="pass"))
    array([3, 7])
    """
    holders = getattr(problem, "holders", None)
    if holders is None:
        return None
    clean = np.asarray(holders)
    if clean.shape != (problem.n,) or clean.dtype.kind not in "iu":
        raise InvalidData(
            f"problem.holders must be one node number for each of its {problem.n} nodes, got "
            f"{holders!r:.80}"
        )
    if clean[0] < 0 or (np.diff(clean.astype(np.int64)) <= 0).any():
        raise InvalidData(
            f"problem.holders must be at least 0 and in ascending order, got {holders!r:.80}"
        )
    return clean.astype(np.int64, copy=False)


def known_smoothness(problem: Problem) -> Floats | None:
    """Return the smoothness constants, or None if the problem says that it has none.

    Examples
    --------
    >>> from levywalk.problem import LeastSquares
    >>> known_smoothness(LeastSquares([[1.0], [2.0]], [0.0, 2.0]))
    array([2., 8.])
    """
    if not getattr(problem, "has_smoothness", True):
        return None
    try:
        return np.asarray(problem.smoothness, dtype=np.float64)
    except (TypeError, ValueError) as error:
        if isinstance(error, LevywalkError):
            raise
        raise InvalidData(
            f"problem.smoothness must be an array of {problem.n} numbers, got "
            f"{problem.smoothness!r}"
        ) from None


def first_model(problem: Problem) -> Floats:
    """Return the first model of a walk: the problem's own ``x0``, or zeros.

    Examples
    --------
    >>> from levywalk.problem import LeastSquares
    >>> first_model(LeastSquares([[1.0], [1.0]], [0.0, 2.0]))
    array([0.])
    """
    x0 = getattr(problem, "x0", None)
    return np.zeros(problem.dim) if x0 is None else _vector("problem.x0", x0, problem.dim)


def model_type(problem: Problem) -> np.dtype[Any]:
    """Return the type of a model's numbers: float64 unless the problem has another.

    Examples
    --------
    >>> from levywalk.problem import LeastSquares
    >>> model_type(LeastSquares([[1.0], [1.0]], [0.0, 2.0]))
    dtype('float64')
    """
    return np.dtype(getattr(problem, "dtype", np.float64))


def array_type(problem: Problem) -> np.dtype[Any]:
    """Return the type of the arrays that hold a model and the memory of updates in a simulation.

    It is the model's own type, or float64 for a problem that says ``in_doubles``: its updates are
    computed in float64 and the model is rounded to its type when they are done.

    Examples
    --------
    >>> from levywalk.problem import LeastSquares
    >>> single = LeastSquares([[1.0], [1.0]], [0.0, 2.0]).astype("float32")
    >>> model_type(single), array_type(single)
    (dtype('float32'), dtype('float64'))
    """
    doubles = getattr(problem, "in_doubles", False)
    return np.dtype(np.float64) if doubles else model_type(problem)


def has_samples(problem: Problem) -> bool:
    """Return whether minibatches can be drawn from the problem's samples.

    Examples
    --------
    >>> from levywalk.problem import LeastSquares
    >>> has_samples(LeastSquares([[1.0], [1.0]], [0.0, 2.0]))
    True
    """
    return callable(getattr(problem, "sample_count", None))


def check_problem(problem: Any) -> None:
    """Refuse an object that is not a problem, and name what is missing.

    Examples
    --------
    >>> check_problem(object())
    Traceback (most recent call last):
    levywalk.errors.InvalidData: problem (of type object) lacks n, dim, smoothness, ...
    """
    known = getattr(problem, "has_smoothness", True)
    required = [name for name in _REQUIRED if known or name != "smoothness"]
    missing = [name for name in required if not hasattr(problem, name)]
    if missing:
        raise InvalidData(
            f"problem (of type {type(problem).__name__}) lacks {', '.join(missing)}; "
            f"a problem has {', '.join(_REQUIRED)} and optionally optimum"
        )
    for name in ("local_loss", "local_gradient"):
        if not callable(getattr(problem, name)):
            raise InvalidData(
                f"problem.{name} must be a method (v, x), got {getattr(problem, name)!r}"
            )
    n = checks.integer("problem.n", problem.n, low=fewest_nodes())
    dim = checks.integer("problem.dim", problem.dim, low=1)
    smoothness = known_smoothness(problem)
    if smoothness is not None and not (_vector("problem.smoothness", smoothness, n) > 0).all():
        v = int(np.argmin(smoothness > 0))
        raise InvalidData(
            f"problem.smoothness must be above 0 at every node, got {float(smoothness[v])!r} at "
            f"node {v}; "
            "add a ridge if a node has no curvature"
        )
    # One call at the origin detects a wrong shape now instead of in the middle of a run.
    _vector("problem.local_gradient(0, zeros)", problem.local_gradient(0, np.zeros(dim)), dim)


def _vector(name: str, value: Any, length: int) -> Floats:
    try:
        clean = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidData(f"{name} must be an array of {length} numbers, got {value!r}") from None
    if clean.shape != (length,):
        raise InvalidData(f"{name} must have shape ({length},), got {clean.shape}")
    if not np.isfinite(clean).all():
        position = int(np.argmin(np.isfinite(clean)))
        raise InvalidData(
            f"{name} must be finite, got {float(clean[position])!r} at position {position}"
        )
    return clean
