"""Models that are several named arrays: such a problem is walked as if it had one vector.

Walks, updates, state files and traces know a model as one vector. A problem may declare
``model_arrays``, names and shapes, and then gets and gives dicts of arrays; `flat_problem` puts a
thin layer between the two. It may also declare ``model_dtype``, one type or one for each name, such
as "float32": its arrays then have these types, and every model of a walk can be written in them
without a loss, because each update is rounded to them. The arithmetic of updates stays in float64.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from levywalk.arrays import Floats
from levywalk.errors import InvalidData, InvalidParameter

DTYPES = ("float64", "float32", "float16")


class ModelArrays:
    """Names, shapes and types of a model's arrays, in the order in which they lie in the vector.

    Examples
    --------
    >>> arrays = ModelArrays({"weight": (2, 2), "bias": (2,)})
    >>> arrays.dim, arrays.unpack(np.arange(6.0))["bias"]
    (6, array([4., 5.]))
    >>> arrays.pack({"weight": [[0, 1], [2, 3]], "bias": [4, 5]})
    array([0., 1., 2., 3., 4., 5.])
    >>> small = ModelArrays({"weight": (2,)}, "float32")
    >>> small.unpack(small.rounded(np.array([0.1, 0.5])))["weight"].dtype, small.nbytes
    (dtype('float32'), 8)
    """

    def __init__(self, shapes: Mapping[str, Any], dtype: Any = "float64") -> None:
        if not isinstance(shapes, Mapping) or not shapes:
            raise InvalidData(
                f"problem.model_arrays must be a dict of names and shapes, got {shapes!r}"
            )
        self.shapes: dict[str, tuple[int, ...]] = {}
        for name, shape in shapes.items():
            clean = (shape,) if isinstance(shape, int) else tuple(shape)
            if not isinstance(name, str) or not all(isinstance(i, int) and i >= 1 for i in clean):
                raise InvalidData(
                    f"problem.model_arrays must map names to shapes such as (3, 4), "
                    f"got {name!r}: {shape!r}"
                )
            self.shapes[name] = clean
        types = dtype if isinstance(dtype, Mapping) else dict.fromkeys(self.shapes, dtype)
        if set(types) != set(self.shapes):
            raise InvalidData(
                f"problem.model_dtype must be one type or one for each of {', '.join(self.shapes)}"
                f", got {dtype!r:.80}"
            )
        self.dtypes = {name: _clean_dtype(types[name]) for name in self.shapes}
        self.exact = all(kind == np.float64 for kind in self.dtypes.values())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ModelArrays):
            return NotImplemented
        return list(self.shapes.items()) == list(other.shapes.items()) and (
            self.dtypes == other.dtypes
        )

    def __hash__(self) -> int:
        return hash(tuple(self.shapes.items()))

    def __repr__(self) -> str:
        told = ", ".join(
            f"{name} {self.dtypes[name]}{list(shape)}" for name, shape in self.shapes.items()
        )
        return f"ModelArrays({told})"

    @property
    def nbytes(self) -> int:
        """The number of bytes of a model in its own types."""
        return sum(
            self.dtypes[name].itemsize * math.prod(shape) for name, shape in self.shapes.items()
        )

    def rounded(self, vector: Floats) -> Floats:
        """Return a vector whose numbers can be written in the arrays' own types."""
        if self.exact:
            return vector
        with np.errstate(over="ignore", under="ignore"):
            return np.concatenate(
                [array.astype(np.float64).ravel() for array in self.unpack(vector).values()]
            )

    @property
    def dim(self) -> int:
        """The number of all entries."""
        return sum(math.prod(shape) for shape in self.shapes.values())

    def unpack(self, vector: Floats) -> dict[str, Floats]:
        """Return a vector as named arrays of their own types; leading axes, such as replicas,
        stay.
        """
        found, at = {}, 0
        for name, shape in self.shapes.items():
            size = math.prod(shape)
            piece = vector[..., at : at + size].reshape((*vector.shape[:-1], *shape))
            found[name] = piece.astype(self.dtypes[name], copy=False)
            at += size
        return found

    def pack(self, arrays: Any) -> Floats:
        """Return named arrays as a vector; a missing name or a wrong shape is refused."""
        if not isinstance(arrays, Mapping) or set(arrays) != set(self.shapes):
            names = ", ".join(self.shapes)
            raise InvalidParameter(
                f"a model must be a dict of the arrays {names}, got {arrays!r:.80}"
            )
        pieces = []
        for name, shape in self.shapes.items():
            piece = np.asarray(arrays[name], dtype=np.float64)
            if piece.shape != shape:
                raise InvalidParameter(f"array {name!r} must have shape {shape}, got {piece.shape}")
            pieces.append(piece.ravel())
        return np.concatenate(pieces)


class FlatProblem:
    """A problem with named arrays as one whose model is a vector.

    Examples
    --------
    >>> class Bowl:
    ...     n, smoothness, model_arrays = 2, np.ones(2), {"a": (2,), "b": ()}
    ...     def local_loss(self, v, x):
    ...         return 0.5 * float((x["a"] ** 2).sum() + (x["b"] - v) ** 2)
    ...     def local_gradient(self, v, x):
    ...         return {"a": x["a"], "b": x["b"] - v}
    >>> flat_problem(Bowl()).local_gradient(1, np.array([1.0, 2.0, 3.0]))
    array([1., 2., 2.])
    """

    def __init__(self, problem: Any) -> None:
        self.named = problem
        self.arrays = ModelArrays(problem.model_arrays, getattr(problem, "model_dtype", "float64"))
        self.n, self.dim = problem.n, self.arrays.dim
        if hasattr(problem, "smoothness"):
            self.smoothness = problem.smoothness
        self.holders = getattr(problem, "holders", None)
        optimum = getattr(problem, "optimum", None)
        self.optimum = None if optimum is None else self.arrays.pack(optimum)
        if hasattr(problem, "sample_count"):  # it has samples, so it can draw minibatches
            self.sample_count = problem.sample_count

    def local_loss(self, v: int, x: Floats) -> float:
        """Return f_v(x)."""
        return float(self.named.local_loss(v, self.arrays.unpack(x)))

    def local_gradient(self, v: int, x: Floats, samples: Any = None) -> Floats:
        """Return the gradient of f_v at x, over all samples or the given positions."""
        drawn = {} if samples is None else {"samples": samples}
        return self.arrays.pack(self.named.local_gradient(v, self.arrays.unpack(x), **drawn))


def flat_problem(problem: Any) -> Any:
    """Return a problem whose model is a vector; one that declares ``model_arrays`` is wrapped."""
    return FlatProblem(problem) if hasattr(problem, "model_arrays") else problem


def arrays_of(problem: Any) -> ModelArrays | None:
    """Return names, shapes and types of a flat problem's arrays; None if its model is a vector."""
    found = getattr(problem, "arrays", None)
    return found if isinstance(found, ModelArrays) else None


def _clean_dtype(dtype: Any) -> np.dtype[Any]:
    try:
        clean: np.dtype[Any] = np.dtype(dtype)
    except TypeError:
        clean = np.dtype(object)
    if clean.name not in DTYPES:
        raise InvalidData(f"problem.model_dtype must be one of {', '.join(DTYPES)}, got {dtype!r}")
    return clean.newbyteorder("=")


def flat_model(problem: Any, x0: Any) -> Any:
    """Return the first model as a vector, if it was given as named arrays of a `FlatProblem`."""
    if isinstance(x0, Mapping) and isinstance(problem, FlatProblem):
        return problem.arrays.pack(x0)
    return x0
