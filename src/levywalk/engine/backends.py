"""Choose the backend of a run.

The kernel is used if walk, update and problem all have a compiled form.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from levywalk.contracts import APART_UPDATE, APART_WALK, keeps
from levywalk.engine.run_state import RunPlan
from levywalk.errors import DataWarning, InvalidParameter
from levywalk.memory import Number, PerNode
from levywalk.problem import (
    GeneralizedLinear,
    follows_its_loss,
    has_l1,
    is_logistic,
    is_single,
    is_sparse,
    is_squared,
)
from levywalk.problem.differentiable import DifferentiableProblem
from levywalk.problem.losses import SoftmaxLoss, SquaredErrors, compiled_slope
from levywalk.problem.losses.loss import made_twin
from levywalk.updates import Sag, Saga, Sgd, Update
from levywalk.walks import Walk, is_plain_design, is_plain_in_pieces

BACKENDS = ("auto", "kernel", "batched", "reference")


def choose_backend(backend: str, plan: RunPlan) -> str:
    """Return "kernel", "batched" or "reference".

    If a kernel is requested that does not exist, the error names what has no compiled form. The
    same holds for ``backend="batched"``.
    """
    if backend == "reference":
        return "reference"
    if backend == "batched" or isinstance(plan.problem, DifferentiableProblem):
        return _batched(backend, plan)
    lacking = without_kernel(plan)
    if lacking is None:
        return "kernel"
    if backend == "kernel":
        raise InvalidParameter(f"backend must be 'reference' or 'auto' here: {lacking}")
    if is_sparse(getattr(plan.problem, "sorted_features", None)):
        warnings.warn(
            "updates on sparse features run in plain Python (backend 'reference'), and each costs "
            f"as much as there are features: {lacking}",
            DataWarning,
            stacklevel=5,
        )
    return "reference"


def _batched(backend: str, plan: RunPlan) -> str:
    """Return "batched", or "reference" with a warning that says why and what it costs."""
    from levywalk.engine.batched import without_batches

    lacking = without_batches(plan)
    if lacking is None and backend != "kernel":
        return "batched"
    if backend != "auto":
        other = "'batched', 'reference'" if lacking is None else "'reference'"
        raise InvalidParameter(
            f"backend must be {other} or 'auto' here: "
            + (lacking or "kernels exist for problems made of samples and a loss")
        )
    warnings.warn(
        f"one model at a time (backend 'reference', about a millisecond per update): {lacking}",
        DataWarning,
        stacklevel=6,
    )
    return "reference"


def without_kernel(plan: RunPlan) -> str | None:
    """Return why a plan cannot be compiled, or None if it can."""
    if plan.meeting != "pass":
        return "tokens that are averaged when they meet have no kernel"
    if plan.links is not None:
        return "links that differ (costs with per_link) have no kernel"
    problem, update = plan.problem, plan.update
    if not isinstance(problem, GeneralizedLinear) or not follows_its_loss(problem):
        return (
            "kernels exist for problems made of samples and a loss, such as LeastSquares and "
            "Logistic, with their own "
            f"local_loss and local_gradient, and {type(problem).__name__} is none"
        )
    several = has_several_outputs(problem)
    if problem.sample_loss.n_outputs != 1 and not several:
        return f"the loss {problem.sample_loss.name} has several outputs and no kernel"
    if (
        not several
        and not has_builtin_loss(problem)
        and compiled_slope(problem.sample_loss) is None
    ):
        return f"the loss {problem.sample_loss.name} has no compiled slope (Loss.compiled)"
    if plan.method.privacy is not None:
        return _without_private_kernel(plan, problem)
    if is_sparse(problem.sorted_features):
        return _without_sparse_kernel(plan)
    if (
        not is_plain_sgd(update)
        and samples_update(update, problem) is None
        and compiled_update(update) is None
    ):
        return (
            f"the update {update.name} has no compiled form (Update.compiled), "
            "or a subclass overrides it"
        )
    return _walk_without_kernel(plan)


def _walk_without_kernel(plan: RunPlan) -> str | None:
    """Return why a plan's walk cannot be compiled, or None if it can."""
    for phase in plan.method.phases:
        walk = phase.walk
        in_pieces = len(plan.method.phases) == 1 and is_plain_in_pieces(walk)
        if not is_plain_design(walk) and not in_pieces and compiled_walk(walk) is None:
            return (
                f"the walk {walk.name} has no compiled form (Walk.compiled), "
                "or a subclass overrides it"
            )
        if not is_plain_design(walk) and len(plan.method.phases) > 1:
            return (
                f"the walk {walk.name} is a phase of a switching walk, "
                "which has kernels for designs only"
            )
        for name in walk.asks_neighbours:
            if type(walk.node_memory[name]) not in (Number, PerNode):
                return f"the walk {walk.name} asks its neighbours for {name}, which is not a number"
    return None


def _without_private_kernel(plan: RunPlan, problem: GeneralizedLinear) -> str | None:
    """Return why a plan with privacy cannot be compiled, or None if it can."""
    update, lacking = plan.update, None
    if not is_plain_sgd(update):
        lacking = f"the update {update.name}, only for plain sgd"
    elif getattr(update, "minibatch", None) is not None:
        lacking = "minibatches"
    elif plan.tokens > 1:
        lacking = "several tokens"
    elif len(plan.method.phases) > 1 or plan.detector is not None:
        lacking = "switching walks"
    elif is_sparse(problem.sorted_features):
        lacking = "sparse features"
    elif is_single(problem):
        lacking = "models of float32"
    elif has_l1(problem):
        lacking = "l1"
    elif not has_builtin_loss(problem) and not has_several_outputs(problem):
        lacking = (
            f"the loss {problem.sample_loss.name}, only for least squares, logistic and softmax"
        )
    if lacking is not None:
        return f"privacy (clipped gradients with noise) has no kernel for {lacking}"
    return _walk_without_kernel(plan)


def _without_sparse_kernel(plan: RunPlan) -> str | None:
    """Return why a plan on sparse features cannot be compiled, or None if it can."""
    update = plan.update
    if is_single(plan.problem):
        return "models of float32 have no kernel for sparse features"
    n_outputs: int = plan.problem.sample_loss.n_outputs  # type: ignore[attr-defined]
    if n_outputs > 1 and has_l1(plan.problem):
        return "l1 has no kernel for losses with several outputs on sparse features"
    if sparse_rule(update) is None:
        return (
            f"the update {update.name} has no kernel for sparse features, which exist for sgd, sag "
            "and saga"
        )
    if len(plan.method.phases) > 1 or plan.detector is not None:
        return "switching walks have no kernel for sparse features"
    return _walk_without_kernel(plan)


def sparse_rule(update: Update) -> int | None:
    """Return which update of `levywalk.engine.kernels.sparse_rows` this is: 0 for plain SGD, 1 for
    SAG, 2 for SAGA, and None for any other.
    """
    if is_plain_sgd(update):
        return 0
    moves = ("apply", "direction", "refresh", "_refresh_several", "ridge")
    for rule, kind in ((1, Sag), (2, Saga)):
        if keeps(update, kind, *moves, "node_memory", "token_memory"):
            return rule
    return None


def has_builtin_loss(problem: GeneralizedLinear) -> bool:
    """Return whether the loss is built into the kernels."""
    return is_squared(problem) or is_logistic(problem)


def has_several_outputs(problem: GeneralizedLinear) -> bool:
    """Return whether the loss has several outputs and is built into the plain loop."""
    loss = problem.sample_loss
    return keeps(loss, SoftmaxLoss, "value", "slope") or keeps(
        loss, SquaredErrors, "value", "slope"
    )


def is_plain_sgd(update: Update) -> bool:
    """Return whether the update is plain SGD, which the kernels compute, and not a changed
    subclass.
    """
    return (
        keeps(update, Sgd, "gradient", "direction", "apply")
        and not update.token_memory
        and not update.node_memory
    )


def compiled_update(update: Update) -> Callable[..., Any] | None:
    """Return an update's compiled twin, or None if a subclass overrides what it stands for."""
    return made_twin(update, "compiled", *APART_UPDATE)


def linear_update(update: Update) -> Callable[..., Any] | None:
    """Return an update's twin that is given samples, or None, as `compiled_update` does."""
    return made_twin(update, "compiled_linear", *APART_UPDATE)


def samples_update(update: Update, problem: GeneralizedLinear) -> Callable[..., Any] | None:
    """Return an update's twin that is given samples, for the number of outputs of the loss."""
    if problem.sample_loss.n_outputs == 1:
        return linear_update(update)
    return made_twin(update, "compiled_several", *APART_UPDATE)


def compiled_walk(walk: Walk) -> Callable[..., Any] | None:
    """Return a walk's compiled twin, or None if a subclass overrides what it stands for."""
    return made_twin(walk, "compiled", *APART_WALK)
