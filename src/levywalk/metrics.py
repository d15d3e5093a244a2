"""Metrics on held-out data, for ``lw.run(..., metrics={"accuracy": …})`` and `levywalk.compare`.

A metric is any function from a model to a number. The model has the form that the problem gives it:
a vector, a matrix with one column per class or output, or a dict of named arrays. The functions
here return such functions for linear models. They know their direction (``higher_is_better``) and
what they cost, so that a run can say at how many checkpoints it evaluates them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from levywalk.arrays import AnyArray, Floats, Ints
from levywalk.errors import InvalidData, InvalidParameter
from levywalk.problem import GeneralizedLinear
from levywalk.problem.samples import clean_features, clean_targets

__all__ = [
    "HeldOutMetric",
    "accuracy",
    "log_loss",
    "loss",
    "mean_absolute_error",
    "mean_squared_error",
    "r2",
]

_RISING = ("accuracy", "auc", "f1", "precision", "r2", "recall", "score")


class HeldOutMetric:
    """A function from a linear model to a number, computed on held-out samples.

    Parameters
    ----------
    name
        What it measures.
    features
        The held-out features, with the same columns as those of the problem.
    judge
        A function from the predictions (features @ model) to a number.
    higher_is_better
        Its direction, for rankings.
    key
        What distinguishes two metrics of one name, such as the targets.

    Attributes
    ----------
    work
        The number of features of all samples: what an evaluation costs per output.

    Examples
    --------
    >>> import levywalk as lw
    >>> metric = lw.metrics.mean_squared_error([[1.0], [2.0]], [2.0, 4.0])
    >>> metric([2.0]), metric([0.0]), metric.higher_is_better
    (0.0, 10.0, False)
    """

    def __init__(
        self,
        name: str,
        features: Any,
        judge: Callable[[Floats], float],
        *,
        higher_is_better: bool,
        key: AnyArray,
    ) -> None:
        self.__name__ = name
        self.features, self.judge = features, judge
        self.higher_is_better = higher_is_better
        self._key = key
        self.work = int(np.prod(features.shape))

    def __call__(self, model: Any) -> float:
        """Return the number for one model: a vector, or a matrix with one column per output."""
        if isinstance(model, dict):
            raise InvalidParameter(
                f"{self.__name__} is for linear models, which are a vector or a matrix, got a dict "
                "of named arrays; write a function that takes this dict and returns a number"
            )
        x = np.asarray(model, dtype=np.float64)
        if x.ndim not in (1, 2) or len(x) != self.features.shape[1]:
            raise InvalidParameter(
                f"{self.__name__} was made for {self.features.shape[1]} features, got a model of "
                f"shape {x.shape}; the held-out features need the columns of the problem's, a "
                "column of ones included"
            )
        return float(self.judge(self.features @ x))

    def fingerprint(self) -> str:
        """Return 16 hexadecimal digits that identify the metric and its data."""
        digest = hashlib.sha256(self.__name__.encode())
        data = self.features.data if _is_sparse(self.features) else self.features
        for part in (data, self._key):
            digest.update(np.ascontiguousarray(part).data)
        return digest.hexdigest()[:16]

    def __repr__(self) -> str:
        return f"{self.__name__} on {self.features.shape[0]} held-out samples"


def is_rising(name: str, metric: Callable[..., float]) -> bool:
    """Return whether more is better: what the function's ``higher_is_better`` says; without it, the
    name's last word decides ("accuracy", "score", "r2", "auc", "f1", "precision", "recall" rise).

    Examples
    --------
    >>> is_rising("test_accuracy", len), is_rising("error", len)
    (True, False)
    """
    said = getattr(metric, "higher_is_better", None)
    if said is None:
        return name.lower().replace("-", "_").replace(" ", "_").rpartition("_")[2] in _RISING
    if not isinstance(said, (bool, np.bool_)):
        raise InvalidParameter(f"higher_is_better of metric {name!r} must be a bool, got {said!r}")
    return bool(said)


def accuracy(problem: Any, features: Any, targets: Any) -> HeldOutMetric:
    """Return the share of held-out samples whose class is predicted.

    Parameters
    ----------
    problem
        The problem that is learnt (`Logistic`, `Softmax`, `SquaredHinge`), or its classes in the
        order of the model's columns; the second of two classes is that of positive predictions.
    features, targets
        The held-out samples; targets are labels as the problem's, strings too. A label that the
        problem does not know is never predicted, so it counts as wrong.

    Examples
    --------
    >>> import levywalk as lw
    >>> problem = lw.Softmax([[1.0], [2.0], [-1.0]], ["b", "b", "a"], ridge=0.1)
    >>> test = lw.metrics.accuracy(problem, [[3.0], [-2.0]], ["b", "b"])
    >>> test(problem.matrix(problem.optimum)), test.higher_is_better
    (0.5, True)
    """
    rows, codes, count = _labelled(problem, features, targets)

    def judge(z: Floats) -> float:
        found = (z > 0).astype(np.int64) if z.ndim == 1 else z.argmax(axis=1)
        _require_outputs("accuracy", z, count)
        return float(np.mean(found == codes))

    return HeldOutMetric("accuracy", rows, judge, higher_is_better=True, key=codes)


def log_loss(problem: Any, features: Any, targets: Any) -> HeldOutMetric:
    """Return the mean of -log p(class) over held-out samples (the cross-entropy).

    The arguments are those of `accuracy`. A label that the problem does not know is refused here,
    because its probability is 0.

    Examples
    --------
    >>> import levywalk as lw
    >>> lw.metrics.log_loss([0, 1], [[1.0], [1.0]], [0, 1])([0.0])  # log 2
    0.6931471805599453
    """
    rows, codes, count = _labelled(problem, features, targets)
    if (codes < 0).any():
        raise InvalidData(
            f"targets of log_loss must be of the problem's classes, and {int((codes < 0).sum())} "
            "held-out samples have another label; drop them, or give the problem all classes"
        )

    def judge(z: Floats) -> float:
        _require_outputs("log_loss", z, count)
        with np.errstate(over="ignore", invalid="ignore"):
            if z.ndim == 1:
                return float(np.logaddexp(0.0, (1.0 - 2.0 * codes) * z).mean())
            top = z.max(axis=1, keepdims=True)
            log_sum = top[:, 0] + np.log(np.exp(z - top).sum(axis=1))
            return float((log_sum - z[np.arange(len(z)), codes]).mean())

    return HeldOutMetric("log_loss", rows, judge, higher_is_better=False, key=codes)


def mean_squared_error(features: Any, targets: Any) -> HeldOutMetric:
    """Return the mean of (y - prediction)² over held-out samples, and over outputs.

    Examples
    --------
    >>> import levywalk as lw
    >>> lw.metrics.mean_squared_error([[1.0], [1.0]], [0.0, 2.0])([1.0])
    1.0
    """
    rows, y = _regression(features, targets)

    def judge(z: Floats) -> float:
        with np.errstate(over="ignore"):
            return float(np.square(z - y).mean())

    return HeldOutMetric("mean_squared_error", rows, judge, higher_is_better=False, key=y)


def mean_absolute_error(features: Any, targets: Any) -> HeldOutMetric:
    """Return the mean of |y - prediction| over held-out samples, and over outputs.

    Examples
    --------
    >>> import levywalk as lw
    >>> lw.metrics.mean_absolute_error([[1.0], [1.0]], [0.0, 3.0])([1.0])
    1.5
    """
    rows, y = _regression(features, targets)

    def judge(z: Floats) -> float:
        return float(np.abs(z - y).mean())

    return HeldOutMetric("mean_absolute_error", rows, judge, higher_is_better=False, key=y)


def r2(features: Any, targets: Any) -> HeldOutMetric:
    """Return the coefficient of determination, 1 - Σ(y - prediction)² / Σ(y - mean)², on held-out
    samples; of several outputs the mean.

    Examples
    --------
    >>> import levywalk as lw
    >>> lw.metrics.r2([[1.0], [2.0], [3.0]], [1.0, 2.0, 3.0])([1.0])
    1.0
    """
    rows, y = _regression(features, targets)
    spread = np.square(y - y.mean(axis=0)).sum(axis=0)
    if not (spread > 0).all():
        raise InvalidData("targets of r2 must differ from each other; use mean_squared_error")

    def judge(z: Floats) -> float:
        with np.errstate(over="ignore"):
            return float(np.mean(1.0 - np.square(z - y).sum(axis=0) / spread))

    return HeldOutMetric("r2", rows, judge, higher_is_better=True, key=y)


def loss(problem: Any, features: Any, targets: Any) -> HeldOutMetric:
    """Return the mean of the problem's own loss over held-out samples, without the ridge.

    Give it another name than "loss" in ``metrics``, such as "held_out_loss": f itself has that one.

    Examples
    --------
    >>> import levywalk as lw
    >>> problem = lw.Huber([[1.0], [2.0]], [1.0, 2.0])
    >>> lw.metrics.loss(problem, [[1.0]], [3.0])([1.0])
    1.5
    """
    if not isinstance(problem, GeneralizedLinear):
        raise InvalidParameter(
            f"problem must be one with data and a loss, such as lw.Huber, got {problem!r:.80}"
        )
    if getattr(problem, "classes", None) is not None:
        rows, codes, _ = _labelled(problem, features, targets)
        y: AnyArray = codes.astype(np.float64)
    else:
        rows, y = _regression(features, targets)
        y = problem.sample_loss.clean_targets(y)

    def judge(z: Floats) -> float:
        with np.errstate(over="ignore", invalid="ignore"):
            return float(np.mean(problem.sample_loss.value(z, y)))

    return HeldOutMetric("held_out_loss", rows, judge, higher_is_better=False, key=y)


METRIC_NAMES = (
    "accuracy",
    "log_loss",
    "held_out_loss",
    "mean_squared_error",
    "mean_absolute_error",
    "r2",
)


def named_metrics(
    names: Sequence[str], problem: Any, features: Any, targets: Any
) -> dict[str, HeldOutMetric]:
    """Return metrics by their names, as experiment files and the command line give them.

    Examples
    --------
    >>> import levywalk as lw
    >>> named_metrics(["r2"], lw.homogeneous(3, dim=1), [[1.0], [2.0]], [1.0, 2.0])
    {'r2': r2 on 2 held-out samples}
    """
    made: dict[str, Callable[[], HeldOutMetric]] = {
        "accuracy": lambda: accuracy(problem, features, targets),
        "log_loss": lambda: log_loss(problem, features, targets),
        "held_out_loss": lambda: loss(problem, features, targets),
        "mean_squared_error": lambda: mean_squared_error(features, targets),
        "mean_absolute_error": lambda: mean_absolute_error(features, targets),
        "r2": lambda: r2(features, targets),
    }
    for name in names:
        if name not in made:
            raise InvalidParameter(f"metrics must be of {', '.join(made)}, got {name!r}")
    return {name: made[name]() for name in names}


def _is_sparse(features: Any) -> bool:
    return hasattr(features, "tocsr")


def _rows(features: Any) -> Any:
    """Return held-out features as a clean matrix; sparse ones stay sparse."""
    if not _is_sparse(features):
        return clean_features(features)
    rows = features.tocsr()
    if not np.isfinite(rows.data).all():
        raise InvalidData("features must be finite, got NaN or infinity; drop such samples")
    return rows


def _regression(features: Any, targets: Any) -> tuple[Any, Floats]:
    rows = _rows(features)
    return rows, clean_targets(targets, rows.shape[0], np.ndim(targets) == 2)


def _labelled(problem: Any, features: Any, targets: Any) -> tuple[Any, Ints, int]:
    """Return held-out features, the position of each label among the classes (-1: unknown), and the
    number of classes.
    """
    rows = _rows(features)
    classes = _classes_of(problem)
    wide = getattr(problem, "features", None)
    if wide is not None and wide.shape[1] != rows.shape[1]:
        raise InvalidData(
            f"held-out features must have the problem's {wide.shape[1]} columns (a column of ones "
            f"included), got {rows.shape[1]}"
        )
    labels = np.asarray(targets)
    if labels.shape != (rows.shape[0],):
        raise InvalidData(
            f"targets must be one label for each of the {rows.shape[0]} held-out samples, got an "
            f"array of shape {labels.shape}"
        )
    codes = _codes(classes, labels.tolist())
    if (codes < 0).all():
        shown = ", ".join(repr(label) for label in classes[:5])
        raise InvalidData(
            f"no held-out label is of the classes {shown}; got {labels[0]!r}, which must be "
            "spelt and typed as in the problem"
        )
    return rows, codes, len(classes)


def _codes(classes: list[Any], labels: list[Any]) -> Ints:
    """Return the position of each label's class; two classes of numbers may be {0, 1} or {-1, 1},
    as in `Logistic`.
    """
    if set(classes) in ({0, 1}, {-1, 1}) and set(labels) <= {-1, 0, 1}:
        return np.array([label > 0 for label in labels], dtype=np.int64)
    places = {label: place for place, label in enumerate(classes)}
    return np.array([places.get(label, -1) for label in labels], dtype=np.int64)


def _classes_of(problem: Any) -> list[Any]:
    classes = getattr(problem, "classes", None)
    if classes is None and not isinstance(problem, GeneralizedLinear) and _is_list(problem):
        classes = problem
    if classes is None:
        raise InvalidParameter(
            "problem must be one with classes (lw.Logistic, lw.Softmax, lw.SquaredHinge), or a "
            f"list of classes such as [0, 1], got {problem!r:.80}"
        )
    found: list[Any] = np.asarray(classes).tolist()
    if len(found) < 2 or len(set(found)) != len(found):
        raise InvalidParameter(f"classes must be at least 2 and differ, got {found!r:.80}")
    return found


def _is_list(value: Any) -> bool:
    return isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, str)


def _require_outputs(name: str, z: Floats, classes: int) -> None:
    outputs = 2 if z.ndim == 1 else z.shape[1]
    if outputs != classes:
        raise InvalidParameter(
            f"{name} was made for {classes} classes, and the model predicts {outputs}; give it the "
            "problem that is learnt, or all of its classes"
        )
