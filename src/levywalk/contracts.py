"""Check whether a shortcut (a kernel or a closed form) is valid for an object.

A kernel or a closed form replaces certain methods of a class. A subclass that overrides one of
them, or an object with its own version of such a method, computes something else, and the shortcut
must not be used.
"""

from __future__ import annotations

from functools import cached_property


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
