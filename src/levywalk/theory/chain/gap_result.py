"""A spectral gap and how far it can be relied on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SpectralGap:
    """A spectral gap and how far it can be relied on.

    Attributes
    ----------
    value
        The gap. If it cannot be trusted, a number that the gap does not exceed.
    kind
        "right", "absolute" or "singular".
    method
        "dense", "shift-invert", "davidson" (diagonally preconditioned) or "period" (periodic: the absolute gap is 0).
    residual
        ‖Ax - μx‖ for a unit vector x, A = I - S (or I + S, I - SᵀS) and its eigenvalue μ, times the eigenvalue's
        condition 1/|y*x| if the chain is not reversible: the error of μ is at most this (then, to first order).
    trusted
        Whether the residual is below a thousandth of the gap and, with sparse factors of a symmetric A, the count of
        negative pivots confirms that no smaller eigenvalue was missed.
    is_bound
        Whether ``value`` is only an upper bound: the Rayleigh quotient of a vector orthogonal to √π, or, for the
        eigenvalues of a chain that is not reversible, what the trace of P allows.
    estimate
        What the iteration held when it stopped; equal to ``value`` if trusted.

    Examples
    --------
    >>> import levywalk as lw
    >>> P = lw.transition(lw.complete(4), lw.homogeneous(4, dim=1), lw.unif_rw())
    >>> round(lw.spectral_gap(P).value, 12)  # eigenvalues 1 and -1/3
    1.333333333333
    """

    value: float
    kind: str
    method: str
    residual: float
    trusted: bool
    is_bound: bool
    estimate: float

    def __str__(self) -> str:
        sign = "≤" if self.is_bound else "="
        note = "" if self.trusted else ", not trusted"
        return f"{self.kind} spectral gap {sign} {self.value:.6g} ({self.method}, residual {self.residual:.1e}{note})"

    def __float__(self) -> float:
        return self.value
