"""Problems whose model is a torch module; torch is imported when one is made."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from levywalk.arrays import AnyArray, Ints
from levywalk.errors import DataWarning, InvalidParameter
from levywalk.extras import needs
from levywalk.problem.differentiable import DifferentiableProblem

if TYPE_CHECKING:
    import torch

_CLOSE = 1e-3  # of the largest entry: gradients of several models at once against one at a time


class TorchProblem(DifferentiableProblem):
    """A torch module and a loss on the nodes' own samples; see `torch_problem`."""

    def __init__(
        self,
        module: Any,
        loss: Callable[..., Any],
        features: Any,
        targets: Any,
        node: Any,
        dtype: str,
        idle: str,
        smoothness: str | npt.ArrayLike | None,
    ) -> None:
        with needs("torch", "lw.torch_problem", "torch"):
            import torch
        if not isinstance(module, torch.nn.Module):
            raise InvalidParameter(
                f"module must be a torch.nn.Module, got {type(module).__name__}; for a function of "
                "parameters and features use lw.jax_problem"
            )
        if not callable(loss):
            raise InvalidParameter(
                "loss must be a function of outputs and targets, such as "
                f"torch.nn.functional.cross_entropy, got {loss!r}"
            )
        self._torch, self._loss = torch, loss
        self._module = copy.deepcopy(module).cpu().eval()
        if dtype in ("float32", "float64"):
            self._module = self._module.to(getattr(torch, dtype))
        self.framework = f"torch {torch.__version__}"
        _warn_of_modes(torch, self._module)
        found = {
            name: parameter.detach().numpy()
            for name, parameter in self._module.named_parameters()
            if parameter.requires_grad
        }
        if not found:
            raise InvalidParameter("module must have parameters that can be trained, got none")
        super().__init__(found, features, targets, node, dtype, idle, smoothness)
        self._why: str | bool | None = False  # False: not tried yet
        self.features = torch.from_numpy(np.array(self.sorted_features))
        self.targets = torch.from_numpy(np.array(self.sorted_targets))

    def module(self, model: Any) -> torch.nn.Module:
        """Return a module of the same class that has this model's parameters.

        The model is a vector such as ``trace.model[0]``, or named arrays.
        """
        made = copy.deepcopy(self._module)
        arrays = self.arrays.unpack(self.vector(model))
        with self._torch.no_grad():
            for name, parameter in made.named_parameters():
                if name in arrays:
                    parameter.copy_(self._torch.from_numpy(np.array(arrays[name])))
        return made

    # ---- functions of tensors: parameters by name, features, targets -----------------------------

    def outputs(self, parameters: dict[str, Any], features: Any) -> Any:
        """Return the module's outputs with these parameters."""
        return self._torch.func.functional_call(self._module, parameters, (features,))

    def batch_loss(self, parameters: dict[str, Any], features: Any, targets: Any) -> Any:
        """Return the loss of a batch."""
        return self._loss(self.outputs(parameters, features), targets)

    def sample_losses(self, parameters: dict[str, Any], features: Any, targets: Any) -> Any:
        """Return the loss of each sample."""
        each = self._torch.func.vmap(lambda output, target: self._loss(output[None], target[None]))
        return each(self.outputs(parameters, features), targets)

    def weighted_loss(
        self, parameters: dict[str, Any], features: Any, targets: Any, weights: Any
    ) -> Any:
        """Return the weighted sum of the samples' losses."""
        return (weights * self.sample_losses(parameters, features, targets)).sum()

    def tree(self, vectors: Any) -> dict[str, Any]:
        """Return vectors, the last axis of a tensor, as named tensors."""
        return self.arrays.unpack(vectors)

    def flat(self, tree: dict[str, Any], leading: int) -> Any:
        """Return named tensors as vectors; ``leading`` axes stay."""
        pieces = [
            tree[name].reshape((*tree[name].shape[:leading], -1)) for name in self.arrays.shapes
        ]
        return self._torch.cat(pieces, dim=leading)

    # ---- the same for numpy ----------------------------------------------------------------------

    def value_of(self, model: AnyArray, features: AnyArray, targets: AnyArray) -> float:
        """Return the loss of one model on some samples."""
        with self._torch.no_grad():
            found = self.batch_loss(self.tree(self._tensor(model)), *self._pair(features, targets))
        return float(found)

    def gradient_of(self, model: AnyArray, features: AnyArray, targets: AnyArray) -> AnyArray:
        """Return the gradient of `value_of` in the model."""
        whole = self._tensor(model).requires_grad_()
        loss = self.batch_loss(self.tree(whole), *self._pair(features, targets))
        if getattr(loss, "shape", None) != ():
            raise InvalidParameter(
                "loss must return one number, the mean over a batch, got shape "
                f"{tuple(getattr(loss, 'shape', ()))}; use reduction='mean'"
            )
        (found,) = self._torch.autograd.grad(loss, whole)
        return np.asarray(found.numpy())

    def outputs_of(self, model: AnyArray, features: AnyArray) -> AnyArray:
        """Return a model's outputs on some samples."""
        with self._torch.no_grad():
            given = self._torch.from_numpy(np.array(features))
            return np.asarray(self.outputs(self.tree(self._tensor(model)), given).numpy())

    def many_values(self, models: AnyArray, rows: Ints) -> AnyArray:
        """Return the loss of each model on each of the samples."""
        every = self._torch.func.vmap(self.sample_losses, in_dims=(0, None, None))
        with self._torch.no_grad():
            tree = self.tree(self._tensor(models))
            return np.asarray(every(tree, self.features[rows], self.targets[rows]).numpy())

    def many_gradients(self, models: AnyArray, rows: Ints) -> AnyArray:
        """Return each model's gradient on its own row of samples; -1 is no sample."""
        func = self._torch.func
        batch, weighted = self._batch(rows)
        gradient = func.vmap(func.grad(self.weighted_loss if weighted else self.batch_loss))
        return np.asarray(self.flat(gradient(self.tree(self._tensor(models)), *batch), 1).numpy())

    def many_products(self, vectors: AnyArray, rows: Ints) -> AnyArray:
        """Return the products of each vector with the Hessian at x0 on its own row of samples."""
        func = self._torch.func
        batch, weighted = self._batch(rows)
        gradient = func.grad(self.weighted_loss if weighted else self.batch_loss)
        first = self.tree(self._tensor(self.x0.astype(self.dtype)))

        # The gradient of ∇fᵀu: forward derivatives would load torch's script compiler.
        def product(vector: dict[str, Any], *samples: Any) -> Any:
            def along(x: dict[str, Any]) -> Any:
                found = gradient(x, *samples)
                return sum((found[name] * vector[name]).sum() for name in found)

            return func.grad(along)(first)

        found = func.vmap(product)(self.tree(self._tensor(vectors)), *batch)
        return np.asarray(self.flat(found, 1).detach().numpy())

    def why_one_at_a_time(self) -> str | None:
        """Return why `torch.func.vmap` cannot compute several models at once, or None."""
        if self._why is False:
            self._why = self._tried()
        assert not isinstance(self._why, bool)
        return self._why

    def _tried(self) -> str | None:
        rows = np.arange(*self.offsets[:2])
        model = self.vector(self.x0)
        alone = self.gradient_of(model, *self.node_samples(0))
        try:
            several = self.many_gradients(np.stack([model, model]), np.stack([rows, rows]))
        except Exception as error:  # a module may do anything, and vmap raises many types
            lines = str(error).strip().splitlines() or [type(error).__name__]
            return f"torch.func.vmap cannot batch the module ({lines[0][:160]})"
        if np.abs(several - alone).max() > _CLOSE * max(float(np.abs(alone).max()), 1e-6):
            return "the module gives other gradients for several models at once than for one"
        return None

    def _batch(self, rows: Ints) -> tuple[tuple[Any, ...], bool]:
        """Return features, targets and, if rows have different lengths, weights of samples."""
        torch = self._torch
        some = torch.from_numpy(np.maximum(rows, 0))
        if (rows >= 0).all():
            return (self.features[some], self.targets[some]), False
        present = rows >= 0
        weights = (present / present.sum(axis=1, keepdims=True)).astype(self.dtype)
        return (self.features[some], self.targets[some], torch.from_numpy(weights)), True

    def _tensor(self, array: AnyArray) -> Any:
        return self._torch.from_numpy(np.array(array, dtype=self.dtype))

    def _pair(self, features: AnyArray, targets: AnyArray) -> tuple[Any, Any]:
        torch = self._torch
        return torch.from_numpy(np.array(features)), torch.from_numpy(np.array(targets))


def _warn_of_modes(torch: Any, module: Any) -> None:
    """Say that layers behave as in evaluation: a walk has no randomness but its own."""
    names = sorted(
        {
            type(part).__name__
            for part in module.modules()
            if (isinstance(part, torch.nn.modules.dropout._DropoutNd) and part.p > 0)
            or isinstance(part, torch.nn.modules.batchnorm._BatchNorm)
        }
    )
    if names:
        warnings.warn(
            f"module has {', '.join(names)}, which is used as in evaluation (module.eval()): "
            "nothing is dropped out, and running statistics stay as they are",
            DataWarning,
            stacklevel=4,
        )


def torch_problem(
    module: torch.nn.Module,
    loss: Callable[..., Any],
    features: Any,
    targets: Any,
    node: Any = None,
    *,
    dtype: str = "float32",
    idle: str = "error",
    smoothness: str | npt.ArrayLike | None = None,
) -> TorchProblem:
    """Make a problem of a torch module: f_v is its loss on all samples of node v.

    The model of a walk is the module's parameters, and it begins with those that the module has.
    The module itself is copied and not changed. Replicas are computed together by
    ``torch.func.vmap``; a module that it cannot batch runs one model at a time, and a `DataWarning`
    says so. See docs/models.md.

    Parameters
    ----------
    module
        Any `torch.nn.Module` that maps features to outputs. It is used as in evaluation.
    loss
        A function of outputs and targets that returns their mean over the batch, such as
        `torch.nn.functional.cross_entropy`.
    features, targets
        One entry per sample, of any shape. Integers stay integers, for classes or embeddings.
    node
        The node of each sample; None means one sample per node. Zeros make a problem of one node,
        as a real node has it.
    dtype
        "float32" or "float64": the type in which the model is computed, kept and sent.
    idle
        As in `levywalk.LeastSquares`.
    smoothness
        Scores for walks that ask for L_v, such as `weight_rw` and `mhlj`: one number per node;
        "hessian", each node's own estimate of its largest curvature at the first model, by twelve
        products of its Hessian with a vector; or "gradient", the norm of its gradient there. None
        for walks that need no scores, such as `unif_rw`.

    Returns
    -------
    TorchProblem
        ``problem.module(trace.model[0])`` is a module again, and
        ``problem.predict(trace.model[0], features)`` gives its outputs as an array of numpy.

    Examples
    --------
    >>> import levywalk as lw
    >>> try:
    ...     import torch
    ... except ImportError:
    ...     pass  # pip install 'levywalk[torch]'; docs/models.md says how to get a small build
    ... else:
    ...     _ = torch.manual_seed(0)
    ...     features = torch.linspace(-1, 1, 40).reshape(20, 2)
    ...     module, loss = torch.nn.Linear(2, 1), torch.nn.functional.mse_loss
    ...     problem = lw.torch_problem(module, loss, features, features.sum(1)[:, None])
    ...     trace = lw.run(lw.ring(20), problem, lw.unif_rw(), steps=500, step_size=0.1)
    ...     assert trace.loss[0, -1] < 1e-2 * trace.loss[0, 0]
    """
    return TorchProblem(module, loss, features, targets, node, dtype, idle, smoothness)
