"""Classification with several classes over the nodes' own samples."""

from __future__ import annotations

from typing import Any

import numpy as np

from levywalk.arrays import AnyArray, Floats
from levywalk.errors import InvalidData, NoMinimiser
from levywalk.problem.linear import GeneralizedLinear
from levywalk.problem.losses import SoftmaxLoss
from levywalk.problem.samples import read_only
from levywalk.problem.sparse_features import dense_features, is_sparse
from levywalk.remedy import python_or_command
from levywalk.room import require_bytes

_CERTAIN = 8.0  # a margin beyond may grow without end, if classes can be separated
_SHOWN = 5


class Softmax(GeneralizedLinear):
    """Softmax regression: the loss of a sample is log Σ e^{z_k} - z_y with z = Xᵀa.

    The model X has one row per feature and one column per class. Walks, traces and files know it as
    one vector of ``dim`` numbers, row by row; methods here take it in both forms, and `matrix`
    turns one into the other.

    Parameters
    ----------
    features, node, ridge, idle, l1
        As in `LeastSquares`; add a column of ones for an intercept.
    labels
        The class of each sample: integers, strings or anything else that numpy can sort.
    classes
        All classes, in the order of the model's columns; None takes those among the labels,
        sorted. Give it if the data may lack a class.

    Attributes
    ----------
    classes
        The classes, in the order of the model's columns; ``targets`` has their positions.
    n_features
        The number of features; ``dim`` is n_features times the number of classes.

    Notes
    -----
    The same number added to all columns of a row changes nothing. Without ridge the minimiser is
    therefore not unique, and ``optimum`` is the one of smallest norm, whose rows sum to 0. If the
    classes can be separated there is none, and ``optimum`` raises `NoMinimiser`.

    Examples
    --------
    >>> import levywalk as lw
    >>> features = [[1.0, 0.0], [1.0, 1.0], [1.0, 2.0], [1.0, 2.5]]
    >>> problem = lw.Softmax(features, ["cat", "dog", "cat", "eel"], ridge=0.1)
    >>> problem
    Softmax(n=4, dim=6, n_samples=4, ridge=0.1)
    >>> problem.classes
    array(['cat', 'dog', 'eel'], dtype='<U3')
    >>> problem.matrix(problem.optimum).shape, problem.predict(problem.optimum, [[1.0, 9.0]])
    ((2, 3), array(['eel'], dtype='<U3'))
    """

    def __init__(
        self,
        features: Any,
        labels: Any,
        node: Any = None,
        ridge: float = 0.0,
        idle: str = "error",
        *,
        l1: float = 0.0,
        classes: Any = None,
    ) -> None:
        self.classes, codes = _encoded(labels, classes)
        super().__init__(features, codes, SoftmaxLoss(len(self.classes)), node, ridge, idle, l1=l1)

    @property
    def n_features(self) -> int:
        """The number of features."""
        return int(self.features.shape[1])

    def matrix(self, x: Any) -> Floats:
        """Return a model as a matrix: one row per feature, one column per class."""
        return self._model(x).reshape(self.n_features, len(self.classes))

    def predict(self, x: Any, features: Any = None) -> AnyArray:
        """Return the most likely class of each row of features; by default of the own samples."""
        rows = self.features if features is None else features
        rows = rows if is_sparse(rows) else np.asarray(rows, dtype=np.float64)
        return np.asarray(self.classes[np.argmax(rows @ self.matrix(x), axis=1)])

    def _minimise(self) -> tuple[Floats, bool]:
        try:
            x, unique = super()._minimise()
        except NoMinimiser:
            self._require_minimiser()
            raise
        if self.ridge == 0.0:
            z = self._predictions(self.sorted_features, x)
            if float((z.max(axis=1) - z.min(axis=1)).max()) > _CERTAIN:
                self._require_minimiser()
        return x, unique

    def _why_not_unique(self, x: Floats) -> str:
        return "the same number added to all classes changes no probability"

    def _require_minimiser(self) -> None:
        """Refuse data with a direction along which no sample's class loses and some gain."""
        from levywalk.problem.logistic_fit import separating_direction

        a, y = dense_features(self.sorted_features), self.sorted_targets.astype(int)
        count = len(self.classes)
        rows = self.n_samples * (count - 1)
        require_bytes(
            "the search for a direction that separates the classes",
            8 * rows * self.dim,
            "give " + python_or_command("a ridge above 0", "--ridge 0.01"),
        )
        differences = np.zeros((self.n_samples, count - 1, self.n_features, count))
        samples = np.arange(self.n_samples)
        for other in range(count - 1):
            differences[samples, other, :, (y + 1 + other) % count] = a
            differences[samples, other, :, y] -= a
        if separating_direction(differences.reshape(rows, self.dim), np.ones(rows)) is not None:
            raise NoMinimiser(
                "the softmax loss has no minimiser: a direction separates some class from the "
                "others, and the loss falls along it for ever; add a ridge, for example "
                f"{python_or_command('ridge=1e-3', '--ridge 0.001')}"
            )


def _encoded(labels: Any, classes: Any) -> tuple[AnyArray, Floats]:
    """Return all classes, and the position of each label's class among them."""
    try:
        found = np.asarray(labels)
    except ValueError as error:
        raise InvalidData(f"labels must be one class per sample: {error}") from None
    if found.ndim != 1 or found.dtype.kind not in "biufUSO" or len(found) == 0:
        raise InvalidData(
            f"labels must be one class per sample, got an array of shape {found.shape} and type "
            f"{found.dtype}"
        )
    try:
        known, codes = np.unique(found, return_inverse=True)
    except TypeError as error:
        raise InvalidData(
            f"labels must be of one kind, so that they can be sorted: {error}"
        ) from None
    if known.dtype.kind == "f" and not np.isfinite(known).all():
        raise InvalidData("labels must not contain NaN or infinity; drop such samples")
    if classes is not None:
        wanted = np.asarray(list(classes))
        places = {label: place for place, label in enumerate(wanted.tolist())}
        strange = [label for label in known.tolist() if label not in places]
        if strange:
            shown = ", ".join(repr(label) for label in strange[:_SHOWN])
            raise InvalidData(f"labels contain {shown}, which classes does not list")
        codes = np.array([places[label] for label in known.tolist()])[codes]
        known = wanted
    if len(known) < 2:
        raise InvalidData(
            f"labels must have at least 2 classes, got {len(known)}: {known.tolist()!r}"
        )
    return read_only(known), codes.reshape(-1).astype(np.float64)
