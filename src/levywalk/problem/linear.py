"""Generalised linear problems: the nodes' own samples and a loss, with what theory needs.

It is one class with the attributes and methods that a problem has; fits, spectra, sparse features
and fingerprints are in files of their own. scipy is imported only where it is used, because a
fleet's node with a least-squares problem does not need it.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Self

import numpy as np

from levywalk import checks
from levywalk.arrays import Floats, Ints
from levywalk.contracts import depth
from levywalk.errors import DataWarning, InvalidData, InvalidParameter
from levywalk.notebook import table_html
from levywalk.problem.fingerprint import fingerprint_of
from levywalk.problem.losses import Loss, SquaredErrors, check_loss
from levywalk.problem.losses.loss import check_own_loss
from levywalk.problem.problem import IDLE, MODEL_TYPES, fewest_nodes
from levywalk.problem.samples import clean_features, clean_nodes, clean_targets, read_only
from levywalk.problem.sparse_features import (
    clean_sparse,
    dense_features,
    is_sparse,
    read_only_features,
)
from levywalk.problem.spectra import check_curvature, gram_extremes
from levywalk.remedy import python_or_command
from levywalk.room import require_room

_BLOCK = 1 << 20  # entries of a block of local gradients: 8 MiB
_ROUNDING = 1e-9  # how far below f(x*), relative to it, a loss may be by rounding


class GeneralizedLinear:
    """A problem that is made of samples and a loss φ(aᵀx, y).

    The local loss f_v is the mean over the samples of node v plus (ridge/2)‖x‖², and f is the mean
    of f_v over all nodes that hold data.

    This is the base class of `LeastSquares`, `Logistic`, `Softmax`, `Huber`, `Poisson`,
    `SquaredHinge` and `Quantile`, which differ in φ and in what is known in closed form. Attributes
    that need a pass over the data (``smoothness``, ``optimum``, …) are computed at the first access
    and then kept.

    Parameters
    ----------
    features
        One row per sample: an array, or a sparse matrix of scipy, which stays sparse (CSR).
    targets
        One number per sample.
    loss
        Any `Loss`, either one of `levywalk.losses` or your own.
    node
        The node of each sample; None means one sample per node.
    ridge
        The strength of the regularisation: (ridge/2)‖x‖² is added to every f_v.
    l1
        The strength of the l1 penalty: l1 ‖x‖₁ is added to f, and makes entries of the minimiser
        exactly 0. It is no part of ``local_gradient``: an update shrinks the model's entries after
        its step, by a soft threshold.
    idle
        What to do with nodes of the network that have no sample. "error" refuses them. With "pass"
        they pass the model on without an update; the problem's own nodes, which its methods and
        arrays number 0 to n-1, are then the nodes with data in ascending order (``holders``).

    Attributes
    ----------
    features, targets
        The samples in the caller's order, float64, read-only; sparse features as a CSR array with
        sorted columns and without zeros.
    sample_loss
        The loss of one sample.
    node
        Each sample's node, by the problem's own numbers.
    n, dim, n_samples, ridge, l1
        The number of nodes with data, the number of the model's entries, the total number of
        samples, the ridge and the l1 penalty.
    holders
        The nodes of the network that hold data, in ascending order: node i of the problem is node
        ``holders[i]`` of the network. None if all do, that is, with ``idle="error"``.
    sorted_features, sorted_targets, offsets
        The samples in the order of the nodes: node v has the rows ``offsets[v]`` to ``offsets[v +
        1] - 1``.

    Examples
    --------
    >>> import levywalk as lw
    >>> problem = GeneralizedLinear([[1.0], [2.0]], [1.0, 0.0], lw.losses.least_squares())
    >>> problem, problem.smoothness
    (GeneralizedLinear(n=2, dim=1, n_samples=2, ridge=0.0), array([2., 8.]))

    A network of five nodes of which only nodes 1 and 4 have data:

    >>> problem = lw.LeastSquares([[1.0], [2.0]], [1.0, 0.0], node=[4, 1], idle="pass")
    >>> problem.holders, problem.smoothness
    (array([1, 4]), array([8., 2.]))
    >>> trace = lw.run(lw.ring(5), problem, lw.unif_rw(), steps=50, step_size=0.1)
    >>> trace.visits[0, [0, 2, 3]], int(trace.visits.sum())
    (array([0, 0, 0]), 50)

    An l1 penalty; the second feature is left out:

    >>> rows, y = [[1.0, 0.1], [1.0, -0.1]], [1.0, 1.2]
    >>> GeneralizedLinear(rows, y, lw.losses.least_squares(), l1=0.5).optimum.round(9)
    array([0.85, 0.  ])
    """

    holders: Ints | None = None
    dtype: np.dtype[Any] = np.dtype(np.float64)
    in_doubles = True  # updates compute in float64, whatever the type of the models
    _judged: tuple[Floats, bool] | None = None  # an optimum, and whether closed forms hold for it
    _computed: Floats | None = None  # the optimum, unless it was assigned

    def __init__(
        self,
        features: Any,
        targets: Any,
        loss: Loss,
        node: Any = None,
        ridge: float = 0.0,
        idle: str = "error",
        *,
        l1: float = 0.0,
    ) -> None:
        self.sample_loss = check_loss(loss)
        sparse = is_sparse(features)
        clean = clean_sparse(features) if sparse else clean_features(features)
        self.n_samples = int(clean.shape[0])
        several = isinstance(self.sample_loss, SquaredErrors)  # has a column for each output
        values = self.sample_loss.clean_targets(clean_targets(targets, self.n_samples, several))
        check_own_loss(self.sample_loss, values)
        self.ridge = checks.real("ridge", ridge, "at least 0", low=0.0)
        self.l1 = checks.real("l1", l1, "at least 0", low=0.0)
        self.features: Any = read_only_features(clean)
        self.targets: Floats = read_only(values)
        self.dim = clean.shape[1] * self.sample_loss.n_outputs
        passes = checks.choice("idle", idle, IDLE) == "pass"
        whose = None if node is None else clean_nodes(node, self.n_samples, holes=passes)
        if passes:
            holders = np.arange(self.n_samples)
            if whose is not None:
                holders, whose = np.unique(whose, return_inverse=True)
            self.holders = read_only(holders)
        self._assign(whose)
        check_curvature(self.sorted_features, self.offsets, self.ridge, self.holders)

    def _assign(self, node: Ints | None) -> None:
        self.sorted_features, self.sorted_targets = self.features, self.targets
        if node is None:
            self.n = self.n_samples
            self.offsets: Ints = read_only(np.arange(self.n + 1))
            self.node: Ints = self.offsets[:-1]
        else:
            counts = np.bincount(node)
            self.n = len(counts)
            self.offsets = read_only(np.concatenate([[0], np.cumsum(counts)]).astype(np.int64))
            self.node = read_only(node)
            if (node[1:] < node[:-1]).any():
                order = np.argsort(node, kind="stable")
                self.sorted_features = read_only_features(self.features[order])
                self.sorted_targets = read_only(self.targets[order])
        if self.n < fewest_nodes():
            raise InvalidData(f"node must name at least 2 nodes, got {self.n}; see partition()")

    @property
    def kind(self) -> str:
        """The name of the loss."""
        return self.sample_loss.name

    def _predictions(self, features: Floats, model: Floats) -> Floats:
        """Return z = aᵀx of each row; one column per output if there are several."""
        outputs = self.sample_loss.n_outputs
        return features @ (model if outputs == 1 else model.reshape(-1, outputs))

    def _losses(self, z: Floats, y: Floats) -> Floats:
        return self.sample_loss.value(z, y)

    def _slopes(self, z: Floats, y: Floats) -> Floats:
        return self.sample_loss.slope(z, y)

    def _minimise(self) -> tuple[Floats, bool]:
        """Return a minimiser of f and whether it is unique."""
        from levywalk.problem.fit import minimise

        return minimise(self)

    def _penalty(self, x: Floats) -> float:
        """Return (ridge/2)‖x‖² + l1‖x‖₁."""
        squares = 0.5 * self.ridge * float(x @ x)
        return squares + self.l1 * float(np.abs(x).sum()) if self.l1 else squares

    def astype(self, dtype: str) -> Self:
        """Return the same problem with models of another type: "float32" or "float64".

        A model of float32 is rounded to it after each update, which itself is computed in float64,
        and counts 4 bytes per number. Kernels and the reference agree to about 1e-5 then, because
        the last bit of a rounding may differ. Memory of updates stays float64.

        Examples
        --------
        >>> import levywalk as lw
        >>> problem = lw.homogeneous(20)
        >>> given = {"steps": 50, "step_size": 0.01}
        >>> one = lw.run(lw.ring(20), problem, lw.unif_rw(), **given)
        >>> other = lw.run(lw.ring(20), problem.astype("float32"), lw.unif_rw(), **given)
        >>> (other.bytes * 2 == one.bytes).all(), (other.model == other.model.astype("f4")).all()
        (np.True_, np.True_)
        """
        checks.choice("dtype", dtype, MODEL_TYPES)
        made = copy.copy(self)
        made.dtype = np.dtype(dtype)
        for key in ("_fingerprint", "recipe"):  # they are those of the other type
            made.__dict__.pop(key, None)
        return made

    def excess_loss(self, x: Any) -> float:
        """Return f(x) - f(x*), or inf if x has overflowed.

        It is negative if ``optimum`` was set to a point that is no minimiser.
        """
        least = self.loss(self.optimum)
        value = self.loss(x) - least
        if not np.isfinite(value):
            return float("inf")
        return 0.0 if -_ROUNDING * abs(least) <= value < 0.0 else value

    def _has_closed_excess(self) -> bool:
        """Return whether a closed form of f(x) - f(x*) holds: losses are those of the data, and
        x* is their minimiser.
        """
        if self.l1:
            return False
        optimum = self.optimum
        judged = self._judged
        if judged is None or judged[0] is not optimum:
            from levywalk.problem.shortcuts import follows_its_loss, minimises

            judged = self._judged = (optimum, follows_its_loss(self) and minimises(self))
        return judged[1]

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(n={self.n}, dim={self.dim}, n_samples={self.n_samples}, "
            f"ridge={self.ridge!r}{f', l1={self.l1!r}' if self.l1 else ''})"
        )

    def _repr_html_(self) -> str:
        L = np.asarray(self.smoothness)
        rows: list[tuple[str, object]] = [
            ("nodes", self.n),
            ("samples", self.n_samples),
            ("dimension", self.dim),
            ("ridge", self.ridge),
            *([("l1", self.l1)] if self.l1 else []),
            ("L, least to largest", f"{L.min():.3g} to {L.max():.3g}"),
            ("largest L over the mean", float(L.max() / L.mean())),
        ]
        return table_html(rows, type(self).__name__)

    def fingerprint(self) -> str:
        """Return 16 hexadecimal digits that identify the loss, the penalties, the samples and
        their nodes.
        """
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        return fingerprint_of(self)

    @cached_property
    def _counts(self) -> Ints:
        return np.diff(self.offsets)

    @cached_property
    def _weights(self) -> Floats:
        """The weight of each sorted sample in f: 1/(n m_v)."""
        if self.n_samples == self.n:
            return np.broadcast_to(1.0 / self.n, self.n_samples)
        return np.repeat(1.0 / (self.n * self._counts), self._counts)

    @cached_property
    def _extremes(self) -> tuple[Floats, Floats]:
        return gram_extremes(self.sorted_features, self.offsets)

    @cached_property
    def smoothness(self) -> Floats:
        """The smoothness constants L_v: the gradient of f_v is L_v-Lipschitz."""
        return read_only(self.sample_loss.curvature_max * self._extremes[0] + self.ridge)

    @cached_property
    def local_strong_convexity(self) -> Floats:
        """The strong convexity μ_v of every f_v.

        It is the ridge at nodes whose samples do not span the space.
        """
        return read_only(self.sample_loss.curvature_min * self._extremes[1] + self.ridge)

    @cached_property
    def strong_convexity(self) -> float:
        """The strong convexity μ of f."""
        return self.ridge

    @cached_property
    def optimum(self) -> Floats:
        """The minimiser x* of f; if there are several, the one of smallest norm, with a
        `DataWarning`. Where the loss itself is flat at the minimum it is one of them.
        """
        if self.l1:
            from levywalk.problem.l1 import minimise_with_l1

            x, unique = minimise_with_l1(self)
        else:
            x, unique = self._minimise()
        if not unique:
            which = "one of them" if self._is_flat(x) else "the one of smallest norm"
            warnings.warn(
                f"the minimiser is not unique: {self._why_not_unique(x)}; optimum is {which} ("
                + python_or_command(
                    "a ridge above 0 makes it unique)",
                    "with a data file --ridge 0.01 makes it unique, with drawn data more nodes)",
                ),
                DataWarning,
                stacklevel=3,
            )
        self._computed = read_only(x)
        return self._computed

    def _is_flat(self, x: Floats) -> bool:
        """Return whether some sample has no curvature at the model x."""
        if self.sample_loss.curvature_min > 0.0 or self.sample_loss.n_outputs > 1:
            return False
        z = self._predictions(self.sorted_features, x)
        return not bool((self.sample_loss.curvature(z, self.sorted_targets) > 0.0).all())

    def _why_not_unique(self, x: Floats) -> str:
        if self._is_flat(x):
            return f"the {self.kind} loss is flat around its minimum"
        return f"{self.n_samples} samples do not span the {self.dim} dimensions"

    @cached_property
    def _noise(self) -> tuple[float, float]:
        total = largest = 0.0
        # With l1 the gradient of f does not vanish at x*, and its noise is around the mean.
        mean = self._gradient(self.optimum) if self.l1 else 0.0
        for _, gradients in self._gradient_blocks(self.optimum):
            gradients = gradients - mean if self.l1 else gradients
            squares = np.einsum("ij,ij->i", gradients, gradients)
            total += float(squares.sum())
            largest = max(largest, float(squares.max()))
        return total / self.n, largest

    @property
    def sigma_star2(self) -> float:
        """The mean over nodes of ‖∇f_v(x*)‖²; with l1, of ‖∇f_v(x*) - ∇f(x*)‖²."""
        return self._noise[0]

    @property
    def sigma_max2(self) -> float:
        """The largest ‖∇f_v(x*)‖² of all nodes; with l1, ‖∇f_v(x*) - ∇f(x*)‖²."""
        return self._noise[1]

    def sample_count(self, v: int) -> int:
        """Return the number of node v's samples."""
        rows = self._rows(v)
        return int(rows.stop - rows.start)

    def node_samples(self, v: int) -> tuple[Floats, Floats]:
        """Return node v's features, as a dense matrix, and targets."""
        rows = self._rows(v)
        return dense_features(self.sorted_features[rows]), self.sorted_targets[rows]

    def loss(self, x: Any) -> float:
        """Return f(x), or inf if x has overflowed."""
        model = self._model(x)
        if depth(self, "local_loss") < depth(self, "loss"):  # a subclass has its own
            value = float(np.mean([self.local_loss(v, model) for v in range(self.n)]))
            return value if np.isfinite(value) else float("inf")
        with np.errstate(over="ignore", invalid="ignore"):
            losses = self._losses(
                self._predictions(self.sorted_features, model), self.sorted_targets
            )
            if self.n_samples != self.n:
                losses = np.add.reduceat(losses, self.offsets[:-1]) / self._counts
            value = float(losses.mean()) + self._penalty(model)
        return value if np.isfinite(value) else float("inf")

    def local_loss(self, v: int, x: Any) -> float:
        """Return f_v(x), the penalties included."""
        rows, model = self._rows(v), self._model(x)
        losses = self._losses(
            self._predictions(self.sorted_features[rows], model), self.sorted_targets[rows]
        )
        return float(losses.mean()) + self._penalty(model)

    def sample_losses(self, features: Floats, targets: Floats, models: Floats) -> Floats:
        """Return the loss of each sample under each model, without penalties, a row per model.

        The predictions of a model are computed by themselves, so that its numbers do not depend on
        the other models; the losses are computed together.
        """
        z = np.concatenate([self._predictions(features, x) for x in models])
        again = np.concatenate([targets] * len(models))
        return self._losses(z, again).reshape(len(models), -1)

    def local_gradient(self, v: int, x: Any, samples: Any = None) -> Floats:
        """Return the gradient of f_v at x, over all of the node's samples or the given ones.

        The l1 penalty, which has no gradient, is left out.

        Parameters
        ----------
        v
            The node.
        x
            The model.
        samples
            A minibatch: positions 0 to ``sample_count(v) - 1`` among the node's own samples. A
            position that is repeated counts several times.
        """
        rows, model = self._rows(v), self._model(x)
        a, y = self.sorted_features[rows], self.sorted_targets[rows]
        if samples is not None:
            chosen = self._minibatch(samples, len(y), v)
            a, y = a[chosen], y[chosen]
        if self.sample_loss.n_outputs > 1 or is_sparse(a):
            slopes = self._slopes(self._predictions(a, model), y)
            return np.asarray((a.T @ slopes).ravel() / len(y) + self.ridge * model)
        # `dot` gives the same bits as `@` and takes a third of the time for a few numbers.
        gradient: Floats = self._slopes(a.dot(model), y).dot(a)
        if len(y) > 1:
            gradient /= len(y)
        return gradient + self.ridge * model if self.ridge else gradient

    def _gradient(self, x: Floats) -> Floats:
        """Return the gradient of f at x, without l1."""
        slopes = self._slopes(self._predictions(self.sorted_features, x), self.sorted_targets)
        weights = self._weights if slopes.ndim == 1 else self._weights[:, None]
        turned = (self.sorted_features.T @ (weights * slopes)).ravel()
        return np.asarray(turned + self.ridge * x)

    def local_gradients(self, x: Any) -> Floats:
        """Return the gradients of all f_v at x as rows."""
        remedy = "ask for some nodes with local_gradient"
        require_room("the gradients of all nodes", (self.n, self.dim), 8, remedy)
        gradients = np.empty((self.n, self.dim))
        for nodes, block in self._gradient_blocks(self._model(x)):
            gradients[nodes] = block
        return gradients

    def _gradient_blocks(self, x: Floats) -> Iterator[tuple[slice, Floats]]:
        for nodes in self._node_blocks():
            start, stop = int(self.offsets[nodes.start]), int(self.offsets[nodes.stop])
            a, y = self.sorted_features[start:stop], self.sorted_targets[start:stop]
            slopes = self._slopes(self._predictions(a, x), y)
            a = dense_features(a)
            if self.sample_loss.n_outputs > 1:
                outer = (a[:, :, None] * slopes[:, None, :]).reshape(len(a), -1)
                block = np.add.reduceat(outer, self.offsets[nodes] - start, axis=0)
            elif nodes.stop - nodes.start == 1:  # a large node: avoid a temporary array of its size
                block = (slopes @ a)[None]
            elif stop - start == nodes.stop - nodes.start:
                block = a * slopes[:, None]
            else:
                block = np.add.reduceat(a * slopes[:, None], self.offsets[nodes] - start, axis=0)
            block = block / self._counts[nodes, None]
            yield nodes, block + self.ridge * x

    def _node_blocks(self) -> Iterator[slice]:
        size = max(1, _BLOCK // self.dim)
        start = 0
        while start < self.n:
            stop = int(np.searchsorted(self.offsets, self.offsets[start] + size, side="right")) - 1
            stop = min(max(stop, start + 1), self.n)
            yield slice(start, stop)
            start = stop

    def _rows(self, v: int) -> slice:
        if not 0 <= v < self.n or not isinstance(v, int | np.integer):
            raise InvalidParameter(f"v must be a node in [0, {self.n - 1}], got {v!r}")
        return slice(int(self.offsets[v]), int(self.offsets[v + 1]))

    def _model(self, x: Any) -> Floats:
        try:
            model = np.asarray(x, dtype=np.float64)
        except (TypeError, ValueError):
            raise InvalidParameter(f"x must be an array of {self.dim} numbers, got {x!r}") from None
        outputs = self.sample_loss.n_outputs
        if model.shape == (self.dim // outputs, outputs) and outputs > 1:
            model = model.reshape(self.dim)
        if model.shape != (self.dim,):
            raise InvalidParameter(f"x must have shape ({self.dim},), got {model.shape}")
        return model

    @staticmethod
    def _minibatch(samples: Any, count: int, v: int) -> Ints:
        chosen = np.asarray(samples)
        if chosen.ndim != 1 or chosen.dtype.kind not in "iu" or len(chosen) == 0:
            raise InvalidParameter(
                f"samples must be a list of at least one position, got {samples!r}"
            )
        if int(chosen.min()) < 0 or int(chosen.max()) >= count:
            raise InvalidParameter(
                f"samples of node {v} must lie in [0, {count - 1}], got {samples!r}"
            )
        return chosen.astype(np.int64)
