"""Problems whose model is the parameters of a JAX function; JAX is imported when one is made."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import numpy.typing as npt

from levywalk.arrays import AnyArray, Ints
from levywalk.errors import InvalidParameter
from levywalk.extras import needs
from levywalk.problem.differentiable import DifferentiableProblem


class JaxProblem(DifferentiableProblem):
    """A JAX function and a loss on the nodes' own samples; see `jax_problem`."""

    def __init__(
        self,
        apply: Callable[..., Any],
        params: Any,
        loss: Callable[..., Any],
        features: Any,
        targets: Any,
        node: Any,
        dtype: str,
        idle: str,
        smoothness: str | npt.ArrayLike | None,
    ) -> None:
        with needs("jax", "lw.jax_problem", "jax"):
            import jax
        for name, function in (("apply", apply), ("loss", loss)):
            if not callable(function):
                raise InvalidParameter(f"{name} must be a function, got {function!r:.80}")
        self._jax, self._apply, self._loss = jax, apply, loss
        self.framework = f"jax {jax.__version__}"
        leaves, self._structure = jax.tree_util.tree_flatten_with_path(params)
        found = {_name(jax, path): np.asarray(leaf) for path, leaf in leaves}
        if not found or len(found) < len(leaves):
            raise InvalidParameter(
                f"params must be a tree of arrays with different names, got {params!r:.80}"
            )
        for name, array in found.items():
            if array.dtype.kind != "f":
                raise InvalidParameter(f"params[{name!r}] must be floats, got {array.dtype}")
        super().__init__(found, features, targets, node, dtype, idle, smoothness)
        self._why: str | bool | None = False  # False: not tried yet
        with self.types():
            self.features = jax.numpy.asarray(self.sorted_features)
            self.targets = jax.numpy.asarray(self.sorted_targets)
        self._one = {
            "value": jax.jit(self._value),
            "gradient": jax.jit(jax.grad(self._value)),
            "outputs": jax.jit(self._outputs),
        }
        self._plain = {
            "value": self._value,
            "gradient": jax.grad(self._value),
            "outputs": self._outputs,
        }
        self._many = jax.jit(jax.vmap(self._sample_values, in_axes=(0, None, None)))
        self._slopes = {
            weighted: jax.jit(jax.vmap(jax.grad(self._weighted if weighted else self._value)))
            for weighted in (False, True)
        }
        self._bends = {
            weighted: jax.jit(jax.vmap(self._product(weighted), in_axes=(None, 0, *(0,) * count)))
            for weighted, count in ((False, 2), (True, 3))
        }

    def params(self, model: Any) -> Any:
        """Return a model, such as ``trace.model[0]``, as the tree of arrays that ``apply``
        takes.
        """
        with self.types():
            return self.tree(self._jax.numpy.asarray(self.vector(model)))

    def types(self) -> AbstractContextManager[Any]:
        """Return a context in which JAX has the problem's types: it has no float64 by default."""
        return self._jax.enable_x64(True) if self.dtype == np.float64 else nullcontext()

    # ---- functions of arrays of JAX: a tree of parameters, features, targets ---------------------

    def outputs(self, params: Any, features: Any) -> Any:
        """Return the outputs with these parameters."""
        return self._apply(params, features)

    def batch_loss(self, params: Any, features: Any, targets: Any) -> Any:
        """Return the loss of a batch."""
        return self._loss(self._apply(params, features), targets)

    def sample_losses(self, params: Any, features: Any, targets: Any) -> Any:
        """Return the loss of each sample."""
        each = self._jax.vmap(lambda output, target: self._loss(output[None], target[None]))
        return each(self._apply(params, features), targets)

    def weighted_loss(self, params: Any, features: Any, targets: Any, weights: Any) -> Any:
        """Return the weighted sum of the samples' losses."""
        return (weights * self.sample_losses(params, features, targets)).sum()

    def tree(self, vectors: Any) -> Any:
        """Return vectors, the last axis of an array, as a tree of parameters."""
        return self._jax.tree_util.tree_unflatten(
            self._structure, list(self.arrays.unpack(vectors).values())
        )

    def flat(self, tree: Any, leading: int) -> Any:
        """Return a tree of parameters as vectors; ``leading`` axes stay."""
        leaves = self._jax.tree_util.tree_leaves(tree)
        pieces = [leaf.reshape((*leaf.shape[:leading], -1)) for leaf in leaves]
        return self._jax.numpy.concatenate(pieces, axis=leading)

    def _value(self, model: Any, features: Any, targets: Any) -> Any:
        return self.batch_loss(self.tree(model), features, targets)

    def _outputs(self, model: Any, features: Any) -> Any:
        return self._apply(self.tree(model), features)

    def _sample_values(self, model: Any, features: Any, targets: Any) -> Any:
        return self.sample_losses(self.tree(model), features, targets)

    def _weighted(self, model: Any, features: Any, targets: Any, weights: Any) -> Any:
        return self.weighted_loss(self.tree(model), features, targets, weights)

    def _product(self, weighted: bool) -> Callable[..., Any]:
        gradient = self._jax.grad(self._weighted if weighted else self._value)

        def product(first: Any, vector: Any, *samples: Any) -> Any:
            return self._jax.jvp(lambda x: gradient(x, *samples), (first,), (vector,))[1]

        return product

    # ---- the same for numpy ----------------------------------------------------------------------

    def value_of(self, model: AnyArray, features: AnyArray, targets: AnyArray) -> float:
        """Return the loss of one model on some samples."""
        found = self._called("value", model, features, targets)
        if found.shape != ():
            raise InvalidParameter(
                f"loss must return one number, the mean over a batch, got shape {found.shape}"
            )
        return float(found)

    def gradient_of(self, model: AnyArray, features: AnyArray, targets: AnyArray) -> AnyArray:
        """Return the gradient of `value_of` in the model."""
        return self._called("gradient", model, features, targets)

    def outputs_of(self, model: AnyArray, features: AnyArray) -> AnyArray:
        """Return a model's outputs on some samples."""
        return self._called("outputs", model, features)

    def many_values(self, models: AnyArray, rows: Ints) -> AnyArray:
        """Return the loss of each model on each of the samples."""
        with self.types():
            return np.asarray(self._many(models, self.features[rows], self.targets[rows]))

    def many_gradients(self, models: AnyArray, rows: Ints) -> AnyArray:
        """Return each model's gradient on its own row of samples; -1 is no sample."""
        with self.types():
            batch, weighted = self._batch(rows)
            return np.asarray(self._slopes[weighted](models, *batch))

    def many_products(self, vectors: AnyArray, rows: Ints) -> AnyArray:
        """Return the products of each vector with the Hessian at x0 on its own row of samples."""
        with self.types():
            batch, weighted = self._batch(rows)
            return np.asarray(self._bends[weighted](self.vector(self.x0), vectors, *batch))

    def why_one_at_a_time(self) -> str | None:
        """Return why JAX cannot compile the function for several models at once, or None."""
        if self._why is False:
            rows = np.arange(*self.offsets[:2])
            try:
                self.many_gradients(np.tile(self.vector(self.x0), (2, 1)), np.stack([rows, rows]))
                self._why = None
            except Exception as error:  # a user's function may do anything
                lines = str(error).strip().splitlines() or [type(error).__name__]
                self._why = f"JAX cannot compile the function ({lines[0][:160]})"
        assert not isinstance(self._why, bool)
        return self._why

    def _called(self, name: str, *arguments: AnyArray) -> AnyArray:
        """Return a compiled function's answer, or that of the plain one if it does not compile."""
        with self.types():
            given = [self._jax.numpy.asarray(argument) for argument in arguments]
            try:
                found = self._one[name](*given)
            except self._jax.errors.JAXTypeError:  # Python that looks at values
                found = self._plain[name](*given)
            return np.asarray(found)

    def _batch(self, rows: Ints) -> tuple[tuple[Any, ...], bool]:
        """Return features, targets and, if rows have different lengths, weights of samples."""
        some = np.maximum(rows, 0)
        if (rows >= 0).all():
            return (self.features[some], self.targets[some]), False
        present = rows >= 0
        weights = (present / present.sum(axis=1, keepdims=True)).astype(self.dtype)
        return (self.features[some], self.targets[some], weights), True


def _name(jax: Any, path: Any) -> str:
    """Return the name of a leaf: its keys with dots, or "model" for a tree of one array."""
    return str(jax.tree_util.keystr(path, simple=True, separator=".")) or "model"


def jax_problem(
    apply: Callable[..., Any],
    params: Any,
    loss: Callable[..., Any],
    features: Any,
    targets: Any,
    node: Any = None,
    *,
    dtype: str = "float32",
    idle: str = "error",
    smoothness: str | npt.ArrayLike | None = None,
) -> JaxProblem:
    """Make a problem of a JAX function: f_v is its loss on all samples of node v.

    The model of a walk is the parameters, and it begins with those given. All replicas are
    computed together in one compiled loop. See docs/models.md.

    Parameters
    ----------
    apply
        ``apply(params, features)`` returns the outputs of a batch. The ``apply`` of a flax module
        is such a function.
    params
        A tree of arrays: dicts, lists or tuples of them. Names are the keys, with dots between.
    loss
        A function of outputs and targets that returns their mean over the batch.
    features, targets, node, dtype, idle, smoothness
        As in `torch_problem`.

    Returns
    -------
    JaxProblem
        ``problem.params(trace.model[0])`` is the tree of arrays again, and
        ``problem.predict(trace.model[0], features)`` gives outputs as an array of numpy.

    Examples
    --------
    >>> import levywalk as lw
    >>> try:
    ...     import jax.numpy as jnp
    ... except ImportError:
    ...     pass  # pip install 'levywalk[jax]'
    ... else:
    ...     features = jnp.linspace(-1, 1, 40).reshape(20, 2)
    ...     problem = lw.jax_problem(
    ...         lambda params, x: x @ params["weight"] + params["bias"],
    ...         {"weight": jnp.zeros(2), "bias": jnp.zeros(())},
    ...         lambda outputs, targets: ((outputs - targets) ** 2).mean(),
    ...         features,
    ...         features.sum(axis=1),
    ...     )
    ...     trace = lw.run(lw.ring(20), problem, lw.unif_rw(), steps=500, step_size=0.1)
    ...     assert trace.loss[0, -1] < 1e-2 * trace.loss[0, 0]
    """
    return JaxProblem(apply, params, loss, features, targets, node, dtype, idle, smoothness)
