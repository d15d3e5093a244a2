"""Problems whose local losses are those of any differentiable model: what torch and JAX share.

A model is named arrays of any shape, which lie one after the other in a vector. f_v is the loss of
the model's outputs on all samples of node v, and f is the mean over the nodes. Losses and gradients
are those of the framework; everything that surrounds them is here, in numpy.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from levywalk import checks
from levywalk.arrays import AnyArray, Floats, Ints
from levywalk.contracts import depth
from levywalk.errors import InvalidData, InvalidParameter
from levywalk.problem.named import ModelArrays
from levywalk.problem.node_scores import NodeScores
from levywalk.problem.problem import IDLE
from levywalk.problem.samples import clean_nodes, read_only

DTYPES = ("float32", "float64")
_TOGETHER = 1 << 14  # (model, sample) pairs whose losses are computed together
_PROBES = 16  # nodes whose losses identify a problem
_MEAN_SAMPLES, _MEAN_TOLERANCE = 8, 1e-4  # whether a loss is a mean over samples


class DifferentiableProblem:
    """The nodes' own samples, and a model with a loss that a framework differentiates.

    `levywalk.torch_problem` and `levywalk.jax_problem` make such problems; their parameters are
    described there.

    Attributes
    ----------
    n, dim, n_samples
        The number of nodes with data, of the model's entries, and of all samples.
    arrays
        Names and shapes of the model's arrays, in the order in which they lie in the vector.
    x0
        The first model as a vector: the initialisation that the module or the parameters have.
    dtype
        The type of the model's numbers, float32 or float64.
    holders
        As in `levywalk.GeneralizedLinear`.
    framework
        The framework and its version.
    has_smoothness
        Whether ``smoothness`` is known. Walks that need no scores do not need it.
    """

    framework: str = ""
    holders: Ints | None = None
    optimum = None

    def __init__(
        self,
        arrays: Mapping[str, AnyArray],
        features: Any,
        targets: Any,
        node: Any,
        dtype: str,
        idle: str,
        smoothness: str | npt.ArrayLike | None,
    ) -> None:
        self.dtype: np.dtype[Any] = np.dtype(checks.choice("dtype", dtype, DTYPES))
        self.arrays = ModelArrays({name: array.shape for name, array in arrays.items()})
        self.dim = self.arrays.dim
        self.x0: Floats = read_only(self.arrays.pack(arrays).astype(self.dtype).astype(np.float64))
        if not np.isfinite(self.x0).all():
            raise InvalidData("the model's first parameters must be finite, got NaN or infinity")
        clean = _numbers("features", features, self.dtype)
        values = _numbers("targets", targets, self.dtype)
        if len(values) != len(clean):
            raise InvalidData(
                f"targets must have one entry per sample ({len(clean)}), got {len(values)}"
            )
        self.n_samples = len(clean)
        passes = checks.choice("idle", idle, IDLE) == "pass"
        whose = (
            np.arange(self.n_samples)
            if node is None
            else clean_nodes(node, self.n_samples, holes=passes)
        )
        if passes:
            holders, whose = np.unique(whose, return_inverse=True)
            self.holders = read_only(holders)
        counts = np.bincount(whose)
        self.n = len(counts)
        self.offsets: Ints = read_only(np.concatenate([[0], np.cumsum(counts)]).astype(np.int64))
        order = np.argsort(whose, kind="stable")
        self.sorted_features: AnyArray = read_only(clean[order])
        self.sorted_targets: AnyArray = read_only(values[order])
        self.compiled: dict[Any, Any] = {}  # functions that a framework has compiled for it
        self._scores = NodeScores(self, smoothness)

    # ---- what a framework provides, for arrays of numpy ------------------------------------------

    def value_of(self, model: AnyArray, features: AnyArray, targets: AnyArray) -> float:
        """Return the loss of one model on some samples."""
        raise NotImplementedError

    def gradient_of(self, model: AnyArray, features: AnyArray, targets: AnyArray) -> AnyArray:
        """Return the gradient of `value_of` in the model."""
        raise NotImplementedError

    def outputs_of(self, model: AnyArray, features: AnyArray) -> AnyArray:
        """Return a model's outputs on some samples."""
        raise NotImplementedError

    def many_values(self, models: AnyArray, rows: Ints) -> AnyArray:
        """Return the loss of each model on each of the samples (rows of the sorted samples)."""
        raise NotImplementedError

    def many_gradients(self, models: AnyArray, rows: Ints) -> AnyArray:
        """Return each model's gradient on its own row of samples; -1 is no sample."""
        raise NotImplementedError

    def many_products(self, vectors: AnyArray, rows: Ints) -> AnyArray:
        """Return the products of each vector with the Hessian at x0 on its own row of samples."""
        raise NotImplementedError

    def why_one_at_a_time(self) -> str | None:
        """Return why several models cannot be computed at once, or None if they can."""
        raise NotImplementedError

    # ---- what a problem is -----------------------------------------------------------------------

    def sample_count(self, v: int) -> int:
        """Return the number of node v's samples."""
        rows = self._rows(v)
        return int(rows.stop - rows.start)

    def node_samples(self, v: int) -> tuple[AnyArray, AnyArray]:
        """Return node v's features and targets."""
        rows = self._rows(v)
        return self.sorted_features[rows], self.sorted_targets[rows]

    def local_loss(self, v: int, x: Any) -> float:
        """Return f_v(x), for a vector or named arrays."""
        return self.value_of(self.vector(x), *self.node_samples(v))

    def local_gradient(self, v: int, x: Any, samples: Any = None) -> Any:
        """Return the gradient of f_v at x, over all of the node's samples or the given positions.

        It is a vector, or named arrays if x is.
        """
        features, targets = self.node_samples(v)
        if samples is not None:
            features, targets = features[samples], targets[samples]
        found = self.gradient_of(self.vector(x), features, targets)
        return self.arrays.unpack(found) if isinstance(x, Mapping) else found

    def loss(self, x: Any) -> float:
        """Return f(x), the mean of the local losses."""
        return float(self.mean_losses(self.vector(x)[None])[0])

    def mean_losses(self, models: AnyArray, nodes: Ints | None = None) -> Floats:
        """Return the mean of f_v over some nodes (None: all), for each model."""
        chosen = np.arange(self.n) if nodes is None else np.asarray(nodes, dtype=np.int64)
        given = np.asarray(models).astype(self.dtype)
        together = self._stands_for("many_values", "local_loss", "value_of", "node_samples")
        if not together or self.why_one_at_a_time() is not None or not self.is_mean_of_samples:
            return np.array([np.mean([self.local_loss(v, x) for v in chosen]) for x in given])
        counts = self.offsets[chosen + 1] - self.offsets[chosen]
        rows = np.concatenate([np.arange(*self.offsets[v : v + 2]) for v in chosen])
        values = np.empty((len(given), len(rows)))
        piece = max(1, _TOGETHER // len(given))
        for at in range(0, len(rows), piece):
            some = rows[at : at + piece]
            # One shape for all pieces: a framework compiles again for another.
            padded = np.resize(some, min(piece, len(rows))) if len(some) < piece else some
            values[:, at : at + len(some)] = self.many_values(given, padded)[:, : len(some)]
        means = np.add.reduceat(values, np.cumsum(counts) - counts, axis=1) / counts
        found: Floats = means.mean(axis=1)
        return found

    def all_gradients(self, models: AnyArray) -> Floats:
        """Return the gradient of every node's loss, each at its own model: one row per node."""
        given = np.asarray(models).astype(self.dtype)
        together = self._stands_for(
            "many_gradients", "local_gradient", "gradient_of", "node_samples"
        )
        if (
            not together
            or self.why_one_at_a_time() is not None
            or not (self.is_even or self.is_mean_of_samples)
        ):
            return np.array([self.local_gradient(v, x) for v, x in enumerate(given)])
        return np.asarray(self.many_gradients(given, self.node_rows), dtype=np.float64)

    def predict(self, model: Any, features: Any) -> AnyArray:
        """Return the outputs of a model, which is a vector or named arrays, on some features.

        Examples
        --------
        ``(problem.predict(trace.model[0], features).argmax(axis=1) == labels).mean()`` is the
        accuracy of a classifier.
        """
        return self.outputs_of(self.vector(model), _numbers("features", features, self.dtype))

    def named(self, model: Any) -> dict[str, AnyArray]:
        """Return a model, such as ``trace.model[0]``, as named arrays of the problem's type."""
        return self.arrays.unpack(self.vector(model))

    def vector(self, model: Any) -> AnyArray:
        """Return a model as a vector in the problem's type."""
        if isinstance(model, Mapping):
            return self.arrays.pack(model).astype(self.dtype)
        found = np.asarray(model)
        if found.shape != (self.dim,):
            raise InvalidParameter(
                f"model must be a vector of {self.dim} numbers or named arrays, such as "
                f"trace.model[0], got shape {found.shape}"
            )
        return found.astype(self.dtype)

    @property
    def has_smoothness(self) -> bool:
        """Whether the smoothness constants are known."""
        return self._scores.known

    @property
    def smoothness(self) -> Floats:
        """The smoothness constants L_v as they were given or are estimated."""
        return self._scores.values

    @cached_property
    def is_mean_of_samples(self) -> bool:
        """Whether the loss of several samples is the mean of their losses, at x0."""
        count = min(self.n_samples, _MEAN_SAMPLES)
        features, targets = self.sorted_features, self.sorted_targets
        model = self.vector(self.x0)
        together = self.value_of(model, features[:count], targets[:count])
        apart = np.mean(
            [self.value_of(model, features[i : i + 1], targets[i : i + 1]) for i in range(count)]
        )
        return bool(abs(together - apart) <= _MEAN_TOLERANCE * (1.0 + abs(together)))

    @property
    def is_even(self) -> bool:
        """Whether all nodes have the same number of samples."""
        counts = np.diff(self.offsets)
        return bool((counts == counts[0]).all())

    @cached_property
    def node_rows(self) -> Ints:
        """The samples of every node, one row for each; -1 where a node has fewer than another."""
        counts = np.diff(self.offsets)
        place = np.arange(counts.max())
        rows = self.offsets[:-1, None] + place
        return np.where(place < counts[:, None], rows, -1)

    def fingerprint(self) -> str:
        """Return 16 hexadecimal digits that identify the samples, the first model and its losses
        there.
        """
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        told = f"{type(self).__name__} {self.dtype} {self.arrays.shapes} {self._scores.source}"
        digest = hashlib.sha256(told.encode())
        for array in (self.sorted_features, self.sorted_targets, self.offsets, self.x0):
            digest.update(np.ascontiguousarray(array).data)
        if self.holders is not None:
            digest.update(self.holders.data)
        # Module and loss are known by what they do, in few digits: machines differ in the last.
        nodes = np.unique(np.linspace(0, self.n - 1, min(self.n, _PROBES)).astype(np.int64))
        model = self.vector(self.x0)
        for v in nodes.tolist():
            slope = np.linalg.norm(self.local_gradient(v, model))
            digest.update(f"{self.local_loss(v, model):.3e} {slope:.3e}".encode())
        return digest.hexdigest()[:16]

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(n={self.n}, dim={self.dim}, n_samples={self.n_samples}, "
            f"dtype={self.dtype})"
        )

    def _stands_for(self, several: str, *single: str) -> bool:
        """Return whether a method for several models stands for those for one: no subclass, nor the
        object itself, replaces only the latter.
        """
        return depth(self, several) <= min(depth(self, name) for name in single)

    def _rows(self, v: int) -> slice:
        if not 0 <= v < self.n:
            raise InvalidParameter(f"v must lie in [0, {self.n - 1}], got {v!r}")
        return slice(int(self.offsets[v]), int(self.offsets[v + 1]))


def _numbers(name: str, values: Any, dtype: np.dtype[Any]) -> AnyArray:
    """Return samples of any shape: floats in the model's type, integers as they are."""
    try:
        array = np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidData(f"{name} must be an array of numbers: {error}") from None
    if array.dtype.kind not in "biuf" or array.ndim == 0 or not array.size:
        raise InvalidData(
            f"{name} must be an array of numbers with one entry per sample, got dtype "
            f"{array.dtype} and shape {array.shape}; number the classes, say with "
            "np.unique(labels, return_inverse=True)[1]"
        )
    if array.dtype.kind != "f":
        return np.ascontiguousarray(array, dtype=np.int64)
    clean = np.ascontiguousarray(array, dtype=dtype)
    if not np.isfinite(clean).all():
        row = int(np.argwhere(~np.isfinite(clean))[0][0])
        raise InvalidData(f"{name} must be finite, got NaN or infinity in sample {row}; drop it")
    return clean
