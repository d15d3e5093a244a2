"""How an answer was found, in words that every report uses."""

from __future__ import annotations

EXACT = "exact"
ITERATIVE = "iterative"


def answer_text(method: str, error: float, what: str = "relative error") -> str:
    """Return how an answer was found and how far it can be off.

    Parameters
    ----------
    method
        "exact" or "iterative".
    error
        The error estimate of an iterative answer.
    what
        What the estimate measures.

    Examples
    --------
    >>> answer_text("exact", 0.0)
    'exact'
    >>> answer_text("iterative", 3e-11)
    'iterative, relative error below 3e-11'
    >>> answer_text("iterative", float("inf"))
    'iterative, not converged'
    """
    if method == EXACT:
        return EXACT
    if not error < 1.0:
        return f"{method}, not converged"
    return f"{method}, {what} below {_rounded_up(error):.0e}"


def _rounded_up(error: float) -> float:
    """Return a number that is not below the error when it is printed with one digit."""
    shown = float(f"{error:.0e}")
    if shown >= error:
        return shown
    head, exponent = f"{error:.0e}".split("e")
    return float(f"{int(head) + 1}e{exponent}")
