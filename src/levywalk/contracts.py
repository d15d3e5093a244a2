"""Check whether a shortcut (a kernel or a closed form) is valid for an object.

A kernel or a closed form replaces certain methods of a class. A subclass that overrides one of
them, or an object with its own version of such a method, computes something else, and the shortcut
must not be used.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from functools import cached_property
from typing import Any

# What compiled twins and chains do not stand for: a class that replaces only these keeps them.
APART_WALK = ("bind", "called", "chain", "compiled", "describe", "local", "phases")
APART_UPDATE = (
    "check",
    "compiled",
    "compiled_linear",
    "compiled_several",
    "default_step_size",
    "fitted",
    "local",
    "threshold_steps",
    "tunable",
)
APART_LOSS = ("clean_targets", "compiled", "compiled_curvature", "curvature_product", "value")

# Declarations that a twin relies on: its arguments follow from them.
_DECLARED = ("asks_neighbours", "node_memory", "token_memory")


def keeps(value: object, base: type, *names: str) -> bool:
    """Return whether ``value`` is a ``base`` and overrides none of the methods in ``names``.

    Examples
    --------
    >>> import levywalk as lw
    >>> class Frozen(lw.Sgd):
    ...     def gradient(self, problem, v, x, word):
    ...         return 0.0 * x
    >>> keeps(lw.Sgd(), lw.Sgd, "gradient"), keeps(Frozen(), lw.Sgd, "gradient")
    (True, False)
    """
    if not isinstance(value, base):
        return False
    return all(_is_own(value, base, name) for name in names)


def _is_own(value: object, base: type, name: str) -> bool:
    known = getattr(base, name)
    if getattr(type(value), name, None) is not known:
        return False
    # A cached property stores its value in the object; that is not an override.
    return isinstance(known, cached_property) or name not in getattr(value, "__dict__", {})


def shortcut(value: object, name: str, *apart: str) -> Callable[..., Any] | None:
    """Return the method ``name`` of ``value``, such as ``compiled``, if it still holds; else None.

    Such a method stands for what the other methods of the class that defines it compute. If a
    subclass, a mixin or the object itself replaces any of them, helpers included, it does not hold
    any more. Methods in ``apart`` have nothing to do with it.

    Examples
    --------
    >>> import levywalk as lw
    >>> class Signed(type(lw.heavy_ball())):
    ...     def gradient(self, problem, v, x, word):
    ...         return abs(super().gradient(problem, v, x, word))
    >>> shortcut(lw.heavy_ball(), "compiled") is None, shortcut(Signed(), "compiled") is None
    (False, True)
    """
    kinds = type(value).__mro__
    base = next((kind for kind in kinds if name in vars(kind)), None)
    if base is None or name in getattr(value, "__dict__", {}):
        return None
    for known in dir(base):
        if known == name or known in apart or known.startswith("__"):
            continue
        first = inspect.getattr_static(base, known)
        if (known in _DECLARED or _is_code(first)) and not _is_same(value, known, first):
            return None
    method: Callable[..., Any] = getattr(value, name)
    return method


def _is_code(found: object) -> bool:
    kinds = (property, cached_property, classmethod, staticmethod)
    return callable(found) or isinstance(found, kinds)


def _is_same(value: object, name: str, first: object) -> bool:
    if inspect.getattr_static(type(value), name, None) is not first:
        return False
    # A cached property stores its value in the object; that is not a replacement.
    return isinstance(first, cached_property) or name not in getattr(value, "__dict__", {})


def is_known_class(kind: type) -> bool:
    """Return whether a class is the package's, or one of Python's own, such as ``object``.

    Examples
    --------
    >>> import levywalk as lw
    >>> import numpy as np
    >>> is_known_class(lw.Sgd), is_known_class(object), is_known_class(np.ndarray)
    (True, True, False)
    """
    package = kind.__module__.partition(".")[0]
    named = getattr(sys.modules.get(kind.__module__), kind.__name__, None)
    return package == "levywalk" or (package in sys.stdlib_module_names and named is kind)


def depth(value: object, name: str) -> int:
    """Return how far up its classes an object's ``name`` is defined: -1 is the object itself, 0 its
    own class.

    Examples
    --------
    >>> import levywalk as lw
    >>> problem = lw.LeastSquares([[1.0], [2.0]], [1.0, 2.0])
    >>> depth(problem, "hessian"), depth(problem, "local_gradient")
    (0, 1)
    """
    classes = type(value).__mro__
    # A cached property keeps its value in the object.
    kept = isinstance(inspect.getattr_static(type(value), name, None), cached_property)
    if name in getattr(value, "__dict__", {}) and not kept:
        return -1
    return next((place for place, kind in enumerate(classes) if name in vars(kind)), len(classes))
