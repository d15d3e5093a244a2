"""The contract of a loss, which is a function of one sample.

A generalised linear problem is data and a loss.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from levywalk.arrays import Floats
from levywalk.contracts import APART_LOSS, shortcut
from levywalk.errors import DataWarning, InvalidParameter

CURVATURE_STEP = 1e-5  # of differences of slopes, relative to 1 + |z|
_OFFSETS = np.array([-1.31, -0.43, 0.27, 0.89])  # of predictions from targets, in `check_own_loss`
_ROUGH = 1e-3  # how far differences may be from what a loss says


class Loss(ABC):
    """The loss φ(z, y) of one sample with prediction z = aᵀx and target y.

    A subclass has a ``name``, implements `value` and `slope` for arrays of samples, and states
    ``curvature_max``, from which the smoothness constants L_v follow.

    Attributes
    ----------
    name
        The name of the loss in tables and files.
    curvature_max, curvature_min
        Bounds of the second derivative φ'' in z, over all z and y. For several outputs they bound
        the eigenvalues of the Hessian in z.
    n_outputs
        The number of predictions per sample: 1, or the number of columns of z and of the model.

    Examples
    --------
    >>> import levywalk as lw, numpy as np
    >>> class PseudoHuber(lw.Loss):
    ...     name = "pseudo_huber_example"
    ...     curvature_max = 1.0
    ...     def value(self, z, y):
    ...         return np.sqrt(1.0 + (z - y) ** 2) - 1.0
    ...     def slope(self, z, y):
    ...         return (z - y) / np.sqrt(1.0 + (z - y) ** 2)
    >>> lw.GeneralizedLinear([[1.0], [1.0]], [0.0, 2.0], PseudoHuber()).optimum.round(9)
    array([1.])
    """

    name: str = "loss"
    curvature_max: float
    curvature_min: float = 0.0
    n_outputs: int = 1

    @abstractmethod
    def value(self, z: Floats, y: Floats) -> Floats:
        """Return φ(z, y), one number per sample."""

    @abstractmethod
    def slope(self, z: Floats, y: Floats) -> Floats:
        """Return the derivative of φ in z, with the same shape as z."""

    def curvature(self, z: Floats, y: Floats) -> Floats:
        """Return the second derivative of φ in z; by default a difference of slopes."""
        step = CURVATURE_STEP * (1.0 + np.abs(z))
        return (self.slope(z + step, y) - self.slope(z - step, y)) / (2.0 * step)

    def curvature_product(self, z: Floats, y: Floats, along: Floats) -> Floats:
        """Return the second derivative of φ in z times a vector, for each sample.

        By default it is `curvature` times the number for one output, and a difference of slopes for
        several.
        """
        if self.n_outputs == 1:
            return self.curvature(z, y) * along
        step = CURVATURE_STEP * (1.0 + float(np.abs(z).max())) / (float(np.abs(along).max()) or 1.0)
        return (self.slope(z + step * along, y) - self.slope(z - step * along, y)) / (2.0 * step)

    def clean_targets(self, targets: Floats) -> Floats:
        """Return the targets in the form that the loss uses, or refuse them."""
        return targets

    def compiled(self) -> Callable[..., Any] | None:
        """Return a numba-compiled `slope` of two numbers, or None.

        A loss with a compiled slope runs in the compiled loop.
        """
        return None

    def compiled_curvature(self) -> Callable[..., Any] | None:
        """Return a numba-compiled `curvature` of two numbers, or None.

        Without it, compiled updates take differences of slopes.
        """
        return None

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


def check_loss(loss: Any) -> Loss:
    """Refuse an object that is not a loss, and name what is missing."""
    if not isinstance(loss, Loss):
        raise InvalidParameter(f"loss must be a Loss such as lw.losses.logistic(), got {loss!r}")
    bound = getattr(loss, "curvature_max", None)
    if not isinstance(bound, (int, float)) or not 0.0 < bound < float("inf"):
        raise InvalidParameter(
            f"curvature_max of {type(loss).__name__} must be a finite number above 0, got "
            f"{bound!r}: "
            "it bounds the second derivative of the loss, and the smoothness constants follow from "
            "it"
        )
    return loss


def check_own_loss(loss: Loss, targets: Floats) -> None:
    """Check a user's own loss with one output on some targets: shapes, slope and curvature_max.

    A slope that is not the derivative of the value, or a curvature above the stated bound, may be
    meant, and is a warning.
    """
    if type(loss).__module__.partition(".")[0] == "levywalk" or loss.n_outputs != 1:
        return
    name = type(loss).__name__
    y = np.repeat(targets[: len(_OFFSETS)], len(_OFFSETS))
    z = np.clip(y, -3.0, 3.0) + np.tile(_OFFSETS, len(y) // len(_OFFSETS))
    step = CURVATURE_STEP
    with np.errstate(all="ignore"):
        for method, found in (("value", loss.value(z, y)), ("slope", loss.slope(z, y))):
            if np.shape(found) != z.shape:
                raise InvalidParameter(
                    f"{method} of {name} must return one number per sample, of shape {z.shape}, "
                    f"got {np.shape(found) or repr(found):.80}"
                )
        slope = loss.slope(z, y)
        rise = (loss.value(z + step, y) - loss.value(z - step, y)) / (2.0 * step)
        bend = (loss.slope(z + step, y) - loss.slope(z - step, y)) / (2.0 * step)
        wrong = np.abs(rise - slope) > _ROUGH * (1.0 + np.abs(rise) + np.abs(slope))
    if wrong.any():
        i = int(np.argmax(wrong))
        warnings.warn(
            f"slope of {name} is not the derivative of its value: at z = {z[i]:.3g}, y = "
            f"{y[i]:.3g} it is {slope[i]:.6g}, and differences of values give {rise[i]:.6g}; "
            "correct one of them, or losses and the optimum do not belong together",
            DataWarning,
            stacklevel=4,
        )
    if (bend > loss.curvature_max * (1.0 + _ROUGH) + _ROUGH).any():
        i = int(np.nanargmax(bend))
        warnings.warn(
            f"curvature_max of {name} is {loss.curvature_max:.6g}, but the second derivative at "
            f"z = {z[i]:.3g}, y = {y[i]:.3g} is {bend[i]:.6g}; raise it, or step sizes and bounds "
            "are too large",
            DataWarning,
            stacklevel=4,
        )


def made_twin(value: Any, name: str, *apart: str) -> Callable[..., Any] | None:
    """Return the compiled twin that a method makes, or None if it does not hold for the object."""
    made_by = shortcut(value, name, *apart)
    twin = None if made_by is None else made_by()
    if twin is not None and (not callable(twin) or getattr(twin, "__name__", "") == "<lambda>"):
        raise InvalidParameter(
            f"{name} of {type(value).__name__} must return a function that is written with "
            f"def and has the decorator numba.njit, or None, got {twin!r:.80}"
        )
    return twin


def compiled_slope(loss: Loss) -> Callable[..., Any] | None:
    """Return the loss's compiled slope, or None.

    It is None if a subclass or the object has another `slope` without its own compiled twin.
    """
    return made_twin(loss, "compiled", "curvature", *APART_LOSS)


def compiled_curvature(loss: Loss) -> Callable[..., Any] | None:
    """Return the loss's compiled curvature, or None.

    It is None if a subclass or the object has another `slope` or `curvature` without its own
    compiled twin.
    """
    return made_twin(loss, "compiled_curvature", *APART_LOSS)


def states_curvature(loss: Loss) -> bool:
    """Return whether a loss has its own `curvature`, for the slope that it really has.

    Examples
    --------
    >>> import levywalk as lw
    >>> states_curvature(lw.losses.huber())
    True
    """
    own = getattr(loss, "__dict__", {})
    if "curvature" in own or "slope" in own:
        return "curvature" in own
    for base in type(loss).__mro__:
        if "curvature" in vars(base):
            return base is not Loss
        if "slope" in vars(base):
            return False
    return False
