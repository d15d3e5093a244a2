"""Estimators for scikit-learn: linear models that are trained by a model which walks over nodes.

They need the extra ``sklearn``; importing levywalk loads neither this module nor scikit-learn.
"""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from scipy.sparse import csr_array

from levywalk import checks
from levywalk.arrays import AnyArray, Floats
from levywalk.engine import run
from levywalk.errors import DataWarning, InvalidData, InvalidParameter
from levywalk.experiments.shorthand import read_design_text, read_network_text
from levywalk.experiments.spec import update_of
from levywalk.extras import needs
from levywalk.network import Network, as_network, complete, random_regular
from levywalk.problem import GeneralizedLinear, LeastSquares, Logistic, Softmax, partition
from levywalk.problem.scaling import divided, spreads
from levywalk.problem.sparse_features import is_sparse, sparse_row_squares, with_ones
from levywalk.updates import Update
from levywalk.walks import Walk

with needs("sklearn", "levywalk.sklearn"):
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.utils import check_random_state
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data

__all__ = ["WalkClassifier", "WalkRegressor"]

NODES = 64  # if neither a network nor nodes are given: so many, or as many as there are samples
_DEGREE = 4


class _WalkEstimator(BaseEstimator):  # type: ignore[misc]
    """What both estimators share: the nodes, the walk, and features of one scale."""

    classes_: AnyArray
    coef_: Floats
    intercept_: Any

    def __init__(
        self,
        network: Any = None,
        design: Any = "mhlj",
        update: Any = "saga",
        *,
        nodes: int | None = None,
        partition: str = "iid",
        steps: int = 20_000,
        step_size: Any = "theory",
        alpha: float = 1e-3,
        minibatch: int | None = None,
        fit_intercept: bool = True,
        standardise: bool = True,
        warm_start: bool = False,
        random_state: Any = None,
    ) -> None:
        self.network = network
        self.design = design
        self.update = update
        self.nodes = nodes
        self.partition = partition
        self.steps = steps
        self.step_size = step_size
        self.alpha = alpha
        self.minibatch = minibatch
        self.fit_intercept = fit_intercept
        self.standardise = standardise
        self.warm_start = warm_start
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _problem(self, features: Any, targets: AnyArray, node: Any) -> GeneralizedLinear:
        raise NotImplementedError

    def _walk(self, X: Any, targets: AnyArray, labels: AnyArray, node: Any) -> Floats:
        """Let the model walk; return it as a matrix (features and intercept, outputs) for features
        in their own units.
        """
        random = check_random_state(self.random_state)
        seed = int(random.randint(2**31 - 1))
        mean, scale = self._scales(X)
        features = divided(X if is_sparse(X) else X - mean, scale)
        if self.fit_intercept:
            features = with_ones(features)
        graph, node = self._nodes(features, labels, node, seed)
        problem = self._problem(features, targets, node)
        outputs = problem.sample_loss.n_outputs
        design, update = _design_of(self.design), _update_of(self.update, self.minibatch)
        x0 = None
        if self.warm_start and hasattr(self, "coef_"):
            x0 = self._scaled(mean, scale, problem.dim, outputs)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "problem has no optimum", DataWarning)
            self.trace_ = run(
                graph,
                _without_optimum(problem),
                design,
                steps=self.steps,
                step_size=_step_size(self.step_size, graph, problem, design, update),
                update=update,
                seed=seed,
                x0=x0,
                progress=False,
            )
        self.network_ = graph
        self.n_iter_ = int(self.trace_.step[-1])
        model = self.trace_.model[0].reshape(-1, outputs)
        weights = model[: len(scale)] / scale[:, None]
        shift = -(mean @ weights)
        return np.vstack([weights, (model[-1] if self.fit_intercept else 0.0) + shift])

    def _scales(self, X: Any) -> tuple[Floats, Floats]:
        """Return what features are centred by and divided by; 0 and 1 where nothing is changed.

        Sparse features are not centred, because they would not be sparse any more.
        """
        width = X.shape[1]
        if not self.standardise:
            return np.zeros(width), np.ones(width)
        centred = self.fit_intercept and not is_sparse(X)
        return X.mean(axis=0) if centred else np.zeros(width), spreads(X)

    def _scaled(self, mean: Floats, scale: Floats, dim: int, outputs: int) -> Floats | None:
        """Return the fitted model for features of other units; None if it does not fit."""
        weights, intercept = self._linear()
        model = weights * scale[:, None]
        if self.fit_intercept:
            model = np.vstack([model, intercept + mean @ weights])
        return model.ravel() if model.shape[1] == outputs and model.size == dim else None

    def _linear(self) -> tuple[Floats, Floats]:
        """Return the fitted weights (features, outputs) and intercepts."""
        return np.atleast_2d(self.coef_).T, np.atleast_1d(self.intercept_)

    def _nodes(self, features: Any, labels: AnyArray, node: Any, seed: int) -> tuple[Network, Any]:
        """Return the network, and the node of each sample."""
        count, samples = self.nodes, features.shape[0]
        if node is not None:
            node = np.asarray(node)
            if node.shape != (samples,) or node.dtype.kind not in "iu" or node.min() < 0:
                raise InvalidData(
                    f"node must be one node number for each of the {samples} samples, got "
                    f"{node!r:.80}"
                )
            count = int(node.max()) + 1
            if self.nodes is not None and self.nodes != count:
                raise InvalidParameter(
                    f"nodes must be {count}, the number of nodes that node names, or None, got "
                    f"{self.nodes!r}"
                )
        if self.network is None:
            count = min(NODES, samples) if count is None else count
            graph = _default_network(checks.integer("nodes", count, low=2), seed)
        else:
            graph = _network_of(self.network, seed)
            if count is not None and count != graph.n:
                raise InvalidParameter(
                    f"nodes must be {graph.n}, the number of nodes of the network, or None, got "
                    f"{count}"
                )
        if node is None:
            node = partition(features, labels, graph.n, how=self.partition, seed=seed)
        return graph, node

    def _predictions(self, X: Any) -> Floats:
        """Return features @ weights + intercept, (samples, outputs)."""
        check_is_fitted(self)
        rows = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        weights, intercept = self._linear()
        return np.asarray(rows @ weights) + intercept


class WalkClassifier(ClassifierMixin, _WalkEstimator):  # type: ignore[misc]
    """Logistic or softmax regression, trained by a model that walks over a network.

    Parameters
    ----------
    network
        The network: a `Network`, a graph of networkx, igraph or scipy, or a text such as
        "ring:100". None: a random 4-regular network of ``nodes`` nodes (a complete one of up to 5
        nodes).
    design
        How the model walks: a design, or its name, such as "mhlj:p_jump=0.2".
    update
        What a visited node does: an update, or its name. "saga" converges to the minimiser for any
        partition of the data.
    nodes
        The number of nodes. None: that of the network, or 64, or the number of samples if there are
        fewer.
    partition
        How samples are spread over nodes if ``fit`` is not given them: as in `levywalk.partition`,
        such as "iid" or "dirichlet:alpha=0.5".
    steps, step_size
        The number of updates, and γ: a number, or "theory", which with minibatches is smaller by
        the largest curvature of a sample over that of a node.
    alpha
        The strength of the regularisation: (alpha/2)‖w‖² is added to the mean loss, for weights of
        the standardised features.
    minibatch
        Samples per update; None: all samples of the visited node.
    fit_intercept, standardise
        Whether there is an intercept, and whether features are centred and divided by their
        standard deviations before the walk (``coef_`` is in the units of the given features).
        Nodes must agree on these numbers beforehand, which two sums per feature suffice for.
        Sparse features stay sparse: they are divided, and not centred.
    warm_start
        Whether ``fit`` begins with the model of the last fit.
    random_state
        The seed of the network, the partition and the walk.

    Attributes
    ----------
    classes_, coef_, intercept_
        The classes, one row of weights for each (one row in all for two classes), and intercepts.
    n_features_in_, n_iter_
        The number of features, and of updates.
    network_, trace_
        The network that was walked on, and the `Trace` of the walk.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from levywalk.sklearn import WalkClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = WalkClassifier(random_state=0).fit(X[:, 2:], y == 2)
    >>> bool(model.score(X[:, 2:], y == 2) > 0.9)
    True
    """

    def fit(self, X: Any, y: Any, *, node: Any = None) -> Self:
        """Train on samples; ``node`` is the node that has each of them, else they are spread."""
        X, y = validate_data(
            self, X, y, accept_sparse="csr", dtype=np.float64, ensure_min_samples=2
        )
        check_classification_targets(y)
        classes, codes = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            raise InvalidData(
                f"y must have at least two classes, got one class: {classes[0]!r}; give samples of "
                "another class"
            )
        if hasattr(self, "classes_") and not np.array_equal(self.classes_, classes):
            for name in ("coef_", "intercept_"):  # no warm start from another set of classes
                if hasattr(self, name):
                    delattr(self, name)
        self.classes_ = classes
        model = self._walk(_features(X), codes, codes, node)
        self.coef_, self.intercept_ = model[:-1].T.copy(), model[-1].copy()
        return self

    def _problem(self, features: Any, targets: AnyArray, node: Any) -> GeneralizedLinear:
        if len(self.classes_) == 2:
            return Logistic(features, targets, node, ridge=self.alpha)
        return Softmax(features, targets, node, self.alpha, classes=range(len(self.classes_)))

    def decision_function(self, X: Any) -> Floats:
        """Return the log-odds of the second class, or the scores of all classes."""
        z = self._predictions(X)
        return z[:, 0] if len(self.classes_) == 2 else z

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class, in the order of ``classes_``."""
        z = self._predictions(X)
        if len(self.classes_) == 2:
            z = np.column_stack([np.zeros(len(z)), z])
        raised = np.exp(z - z.max(axis=1, keepdims=True))
        return np.asarray(raised / raised.sum(axis=1, keepdims=True))

    def predict(self, X: Any) -> AnyArray:
        """Return the most likely class of each sample."""
        z = self._predictions(X)
        best = (z[:, 0] > 0).astype(np.int64) if len(self.classes_) == 2 else z.argmax(axis=1)
        return np.asarray(self.classes_[best])


class WalkRegressor(RegressorMixin, _WalkEstimator):  # type: ignore[misc]
    """Ridge regression, of one or several outputs, trained by a model that walks.

    The loss is the mean over nodes of their mean squared errors, with targets that are centred and
    divided by their standard deviations.

    Parameters
    ----------
    network, design, update, nodes, partition, steps, step_size, alpha, minibatch, fit_intercept,
    standardise, warm_start, random_state
        As in `WalkClassifier`.

    Attributes
    ----------
    coef_, intercept_
        The weights, (features,) or (outputs, features), and the intercept or intercepts.
    n_features_in_, n_iter_, network_, trace_
        As in `WalkClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from levywalk.sklearn import WalkRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = WalkRegressor(random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.5)
    True
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Any, y: Any, *, node: Any = None) -> Self:
        """Train on samples; ``node`` is the node that has each of them, else they are spread."""
        X, y = validate_data(
            self,
            X,
            y,
            accept_sparse="csr",
            dtype=np.float64,
            multi_output=True,
            y_numeric=True,
            ensure_min_samples=2,
        )
        y = np.asarray(y, dtype=np.float64)
        columns = y.reshape(len(y), -1)
        self._middle = columns.mean(axis=0) * float(self.fit_intercept)
        self._spread = np.where(columns.std(axis=0) > 0.0, columns.std(axis=0), 1.0)
        targets = (columns - self._middle) / self._spread
        # A partition by target looks at the first one.
        model = self._walk(
            _features(X), targets[:, 0] if targets.shape[1] == 1 else targets, columns[:, 0], node
        )
        coef = (model[:-1] * self._spread).T
        intercept = model[-1] * self._spread + self._middle
        alone = y.ndim == 1
        self.coef_, self.intercept_ = (coef[0], float(intercept[0])) if alone else (coef, intercept)
        return self

    def _problem(self, features: Any, targets: AnyArray, node: Any) -> GeneralizedLinear:
        return LeastSquares(features, targets, node, ridge=self.alpha)

    def _scaled(self, mean: Floats, scale: Floats, dim: int, outputs: int) -> Floats | None:
        weights, intercept = self._linear()
        if len(weights) != len(scale):
            return None
        model = weights / self._spread * scale[:, None]
        if self.fit_intercept:
            start = (intercept - self._middle + mean @ weights) / self._spread
            model = np.vstack([model, start])
        return model.ravel() if model.shape[1] == outputs and model.size == dim else None

    def predict(self, X: Any) -> Floats:
        """Return the prediction of each sample, one column per output if there are several."""
        z = self._predictions(X)
        return z[:, 0] if np.ndim(self.coef_) == 1 else z


def _features(X: Any) -> Any:
    """Return checked features as a dense array, or as a CSR array that stays sparse."""
    if not is_sparse(X):
        return np.asarray(X)
    found = csr_array(X, copy=not X.has_canonical_format)  # the caller's arrays stay as they are
    found.sum_duplicates()
    return found


def _without_optimum(problem: GeneralizedLinear) -> GeneralizedLinear:
    """Return the problem as one that does not know its minimiser: finding it would cost more than
    the walk, and a trace that is fitted needs no distance to it.
    """
    problem.__dict__["optimum"] = None
    return problem


def _default_network(n: int, seed: int) -> Network:
    """Return a connected network of n nodes, random and 4-regular if it has more than 5."""
    if n <= _DEGREE + 1:
        return complete(n)
    for i in range(100):
        found = random_regular(n, _DEGREE, seed=seed + i)
        if found.largest_component().n == n:
            return found
    raise InvalidParameter(f"no connected network of nodes = {n} was found; give network=…")


def _network_of(network: Any, seed: int) -> Network:
    return (
        read_network_text(network, seed=seed) if isinstance(network, str) else as_network(network)
    )


def _design_of(design: Any) -> Walk:
    if isinstance(design, str):
        return read_design_text(design)
    if not isinstance(design, Walk):
        raise InvalidParameter(
            f"design must be a design or its name, such as 'mhlj', got {design!r}"
        )
    return design


def _update_of(update: Any, minibatch: int | None) -> Update:
    if isinstance(update, Update):
        if minibatch is not None:
            raise InvalidParameter(
                f"minibatch = {minibatch!r} must be part of the update {update!r}; leave it out, "
                "or give the update by its name"
            )
        return update
    if not isinstance(update, str):
        raise InvalidParameter(
            f"update must be an update or its name, such as 'saga', got {update!r}"
        )
    return update_of(update, minibatch)


def _step_size(
    step_size: Any, graph: Network, problem: GeneralizedLinear, design: Walk, update: Update
) -> Any:
    """Return γ; with minibatches "theory" is that of the most curved sample, because a node's own
    mean is flatter, and its step size can diverge.
    """
    if not (isinstance(step_size, str) and step_size == "theory"):
        return step_size
    if getattr(update, "minibatch", None) is None:
        return step_size
    largest = design.phases[0].bind(graph, problem).largest
    rows = problem.features
    lengths = sparse_row_squares(rows) if is_sparse(rows) else np.square(rows).sum(axis=1)
    sample = problem.sample_loss.curvature_max * float(lengths.max()) + problem.ridge
    steeper = max(1.0, sample / float(problem.smoothness.max()))
    return update.default_step_size(largest * steeper, problem)
