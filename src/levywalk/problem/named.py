"""Models that are several named arrays: such a problem is walked as if it had one vector.

Walks, updates, state files and traces know a model as one vector. A problem may declare
``model_arrays``, names and shapes, and then gets and gives dicts of arrays; `flat_problem` puts a
thin layer between the two.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from levywalk.arrays import Floats
from levywalk.errors import InvalidData, InvalidParameter


class ModelArrays:
    """Names and shapes of a model's arrays, in the order in which they lie in the vector.

    Examples
    --------
    >>> arrays = ModelArrays({"weight": (2, 2), "bias": (2,)})
    >>> arrays.dim, arrays.unpack(np.arange(6.0))["bias"]
    (6, array([4., 5.]))
    >>> arrays.pack({"weight": [[0, 1], [2, 3]], "bias": [4, 5]})
    array([0., 1., 2., 3., 4., 5.])
    """

    def __init__(self, shapes: Mapping[str, Any]) -> None:
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

    @property
    def dim(self) -> int:
        """The number of all entries."""
        return sum(math.prod(shape) for shape in self.shapes.values())

    def unpack(self, vector: Floats) -> dict[str, Floats]:
        """Return a vector as named arrays; leading axes, such as replicas, stay."""
        found, at = {}, 0
        for name, shape in self.shapes.items():
            size = math.prod(shape)
            found[name] = vector[..., at : at + size].reshape((*vector.shape[:-1], *shape))
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
        self.named, self.arrays = problem, ModelArrays(problem.model_arrays)
        self.n, self.dim = problem.n, self.arrays.dim
        self.has_smoothness = getattr(problem, "has_smoothness", True)
        self.holders = getattr(problem, "holders", None)
        self.dtype = np.dtype(getattr(problem, "dtype", np.float64))
        first = getattr(problem, "x0", None)
        self.x0 = None if first is None else self.arrays.pack(first)
        optimum = getattr(problem, "optimum", None)
        self.optimum = None if optimum is None else self.arrays.pack(optimum)
        if hasattr(problem, "sample_count"):  # it has samples, so it can draw minibatches
            self.sample_count = problem.sample_count

    @property
    def smoothness(self) -> Floats:
        """The smoothness constants L_v."""
        found: Floats = self.named.smoothness
        return found

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
    """Return names and shapes of a flat problem's arrays; None if its model is a vector alone."""
    found = getattr(problem, "arrays", None)
    return found if isinstance(found, ModelArrays) else None


def flat_model(problem: Any, x0: Any) -> Any:
    """Return the first model as a vector, if it was given as the named arrays of a problem."""
    arrays = getattr(problem, "arrays", None)
    if isinstance(x0, Mapping) and isinstance(arrays, ModelArrays):
        return arrays.pack(x0)
    return x0


def model_form(problem: Any, vector: Floats) -> Any:
    """Return a copy of a model in the form that a user knows it by.

    It is a dict of named arrays, a matrix with one column per class or output, or a vector.

    Examples
    --------
    >>> import levywalk as lw
    >>> problem = lw.Softmax([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]], ["a", "b", "c"])
    >>> model_form(problem, np.zeros(6)).shape
    (2, 3)
    """
    model = np.array(vector, dtype=np.float64)
    if isinstance(problem, FlatProblem):
        return problem.arrays.unpack(model)
    outputs = int(getattr(getattr(problem, "sample_loss", None), "n_outputs", 1))
    return model if outputs == 1 else model.reshape(-1, outputs)
