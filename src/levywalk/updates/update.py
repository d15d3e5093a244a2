"""The contract of an update: what a visited node does with the model. See docs/extending.md."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from levywalk.arrays import Floats, Ints
from levywalk.draws import Words
from levywalk.errors import InvalidParameter
from levywalk.memory import Kind, Memory, check_declaration
from levywalk.problem import Problem, has_l1
from levywalk.remedy import python_or_command


class LocalData:
    """The data of one node, which are the only data that an update may use.

    Attributes
    ----------
    n
        The number of nodes of the network, a published constant.
    n_samples, smoothness
        The number of samples of the node, and L_v, its own smoothness constant.

    Examples
    --------
    >>> import levywalk as lw
    >>> local = LocalData(lw.LeastSquares([[1.0], [2.0]], [1.0, 0.0]), index=1, n=2)
    >>> local.gradient(np.array([1.0])), local.loss(np.array([1.0])), local.n_samples
    (array([8.]), 4.0, 1)
    """

    __slots__ = ("_index", "_problem", "n")

    def __init__(self, problem: Problem, index: int, n: int) -> None:
        self._problem, self._index, self.n = problem, index, n

    @property
    def n_samples(self) -> int:
        """The number of samples of the node; 1 for a problem that is not made of samples."""
        count: Callable[[int], int] | None = getattr(self._problem, "sample_count", None)
        return 1 if count is None else count(self._index)

    def gradient(self, model: Floats, samples: Ints | None = None) -> Floats:
        """Return the gradient of f_v, over all samples of the node or over the given positions."""
        if samples is None:
            return np.asarray(self._problem.local_gradient(self._index, model), dtype=np.float64)
        drawn = self._problem.local_gradient(  # type: ignore[call-arg]
            self._index, model, samples=samples
        )
        return np.asarray(drawn, dtype=np.float64)

    def loss(self, model: Floats) -> float:
        """Return f_v at the model."""
        return self._problem.local_loss(self._index, model)

    @property
    def ridge(self) -> float:
        """The strength of the regularisation in f_v."""
        return float(getattr(self._problem, "ridge", 0.0))

    @property
    def l1(self) -> float:
        """The strength of the l1 penalty."""
        return float(getattr(self._problem, "l1", 0.0))

    def slopes(self, model: Floats, samples: Ints | None = None) -> Floats:
        """Return φ'(aᵀx, y) of the node's samples, or of the given positions; one row per sample
        for several outputs.
        """
        features, targets = self.samples
        if samples is not None:
            features, targets = features[samples], targets[samples]
        if self._loss.n_outputs > 1:
            model = model.reshape(-1, self._loss.n_outputs)
        return self.loss_slopes(features @ model, targets)

    def loss_slopes(self, predictions: Floats, targets: Floats | None = None) -> Floats:
        """Return φ'(z, y) at given predictions z, for the node's own targets or given ones."""
        y = self.samples[1] if targets is None else targets
        slopes: Floats = self._loss.slope(predictions, y)
        return slopes

    def loss_curvatures(self, predictions: Floats, targets: Floats | None = None) -> Floats:
        """Return φ''(z, y) at given predictions z, for the node's own targets or given ones."""
        y = self.samples[1] if targets is None else targets
        curvatures: Floats = self._loss.curvature(predictions, y)
        return curvatures

    @property
    def _loss(self) -> Any:
        return self._problem.sample_loss  # type: ignore[attr-defined]

    @property
    def smoothness(self) -> float:
        """The node's smoothness constant L_v."""
        return float(self._problem.smoothness[self._index])

    @property
    def samples(self) -> tuple[Floats, Floats]:
        """The node's features and targets, if the problem has them."""
        own = getattr(self._problem, "node_samples", None)
        if own is None:
            raise InvalidParameter(
                f"a {type(self._problem).__name__} has no samples that an update could use"
            )
        features, targets = own(self._index)
        return features, targets

    @property
    def problem(self) -> Problem:
        """The problem to which the node's loss belongs.

        On a real node it contains only the samples of that node.
        """
        return self._problem

    @property
    def index(self) -> int:
        """The node's number in that problem."""
        return self._index


class Update:
    """What a visited node does with the model.

    It computes a new model from the old one, the node's own data and the update's memory.

    A subclass has a ``name`` and implements either `direction` (the model then moves by -γ times
    it) or `apply`.

    Attributes
    ----------
    name
        The name of the update in tables, figures and files.
    node_memory, token_memory
        What the update remembers at a node and in the token: name to kind, see `levywalk.memory`.
    local
        Whether a node's own data are enough, so that the update can run in a fleet.
    tunable
        Whether the step size is worth tuning; an update that sets its own steps says no, and
        `levywalk.compare` then takes its default.
    threshold_steps
        For problems with an l1 penalty: after a step γ the model's entries are shrunk by the soft
        threshold ``threshold_steps`` γ l1. It is 1 if the direction is ∇f once the walk has
        settled. None, or a subclass with a direction of its own that does not state it, refuses l1.

    Examples
    --------
    >>> import levywalk as lw
    >>> class SignedSgd(lw.Update):
    ...     name = "signed_sgd"
    ...     def direction(self, model, memory, local, weight, words):
    ...         return weight * np.sign(local.gradient(model))
    >>> trace = lw.run(
    ...     lw.ring(5), lw.homogeneous(5, dim=2), lw.unif_rw(), steps=9, step_size=0.5,
    ...     update=SignedSgd(),
    ... )
    >>> set((trace.model[0] % 0.5).tolist())
    {0.0}
    """

    name: str = "update"
    node_memory: Mapping[str, Kind] = {}
    token_memory: Mapping[str, Kind] = {}
    local: bool = True
    tunable: bool = True
    threshold_steps: float | None = None

    def fitted(self, problem: Problem) -> Update:
        """Return the update as a problem needs it: itself, unless its memory depends on that."""
        return self

    def direction(
        self, model: Floats, memory: Memory, local: LocalData, weight: float, words: Words
    ) -> Floats:
        """Return the direction g of the step x ← x - γ g."""
        raise InvalidParameter(f"update {type(self).__name__} must implement direction or apply")

    def apply(
        self,
        model: Floats,
        memory: Memory,
        local: LocalData,
        weight: float,
        step_size: float,
        words: Words,
    ) -> Floats:
        """Return the new model. The old one must not be changed in place; the memory may be.

        Parameters
        ----------
        model
            The model as it arrived.
        memory
            ``memory.token`` travels with the model, ``memory.node`` stays at this node.
        local
            The node's own data.
        weight
            w(v) = 1/(nπ(v)) under the walk's target.
        step_size
            γ of this step.
        words
            The step's random words; draw from the slots ``MINIBATCH + j`` or ``OWN + i``.
        """
        return model - step_size * self.direction(model, memory, local, weight, words)

    def check(self, problem: Problem) -> None:
        """Refuse a problem that the update does not support, before the run starts."""

    def default_step_size(self, largest: float, problem: Problem) -> float:
        """Return the value of ``step_size="theory"``: 1/L* with L* = max w(v)L_v."""
        return 1.0 / largest

    def compiled(self) -> Callable[..., Any] | None:
        """Return a numba-compiled twin of `apply` that is given the gradient, or None.

        docs/extending.md describes its arguments.
        """
        return None

    def compiled_linear(self) -> Callable[..., Any] | None:
        """Return a numba-compiled twin of `apply` that is given the node's samples, or None.

        It is for problems made of samples and a loss; docs/extending.md describes its arguments.
        """
        return None

    def compiled_several(self) -> Callable[..., Any] | None:
        """Return the same for losses with several outputs, such as softmax, or None."""
        return None

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


def check_update(update: Update, problem: Problem) -> None:
    """Refuse an update with invalid declarations, or one that does not fit the problem."""
    owner = type(update).__name__
    check_declaration(owner, "node_memory", update.node_memory)
    check_declaration(owner, "token_memory", update.token_memory)
    update.check(problem)
    if has_l1(problem) and threshold_steps(update) is None:
        raise InvalidParameter(
            f"update {update.name} has no step for the l1 penalty (l1 = "
            f"{problem.l1:g}); "  # type: ignore[attr-defined]
            + python_or_command(
                "use lw.sgd(), lw.heavy_ball(), lw.sag() or lw.saga(), or a ridge instead of l1",
                "use sgd, heavy_ball, sag or saga, or --ridge instead of --l1",
            )
        )


def threshold_steps(update: Update) -> float | None:
    """Return an update's `threshold_steps`, for the direction that it really has, or None.

    Examples
    --------
    >>> import levywalk as lw
    >>> threshold_steps(lw.sgd()), threshold_steps(lw.adam())
    (1.0, None)
    """
    own = getattr(update, "__dict__", {})
    if "direction" in own or "apply" in own:
        return None
    for base in type(update).__mro__:
        if "threshold_steps" in vars(base):
            return update.threshold_steps
        if "direction" in vars(base) or "apply" in vars(base):
            return None
    return None
