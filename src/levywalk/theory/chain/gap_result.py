"""A spectral gap and how far it can be relied on."""

from __future__ import annotations

from dataclasses import dataclass

from levywalk.notebook import table_html
from levywalk.theory.chain.answer import EXACT, ITERATIVE, answer_text

_EXACT_METHODS = ("dense", "period")


@dataclass(frozen=True, repr=False)
class SpectralGap:
    """A spectral gap and how far it can be relied on.

    Attributes
    ----------
    value
        The gap. If it cannot be trusted, an upper bound of the gap.
    kind
        "right", "absolute" or "singular".
    method
        "dense", "shift-invert", "davidson" (Davidson's method with the diagonal as preconditioner)
        or "period" (the chain is periodic, so the absolute gap is 0).
    residual
        An error bound for the eigenvalue μ of A, where A is I - S, I + S or I - SᵀS. It is ‖Ax -
        μx‖ for a unit vector x. For a chain that is not reversible it is multiplied by the
        condition 1/|y*x| of the eigenvalue, and is then a bound to first order.
    trusted
        Whether the residual is below a thousandth of the gap and no smaller eigenvalue is known to
        have been missed. For a symmetric A with sparse factors the number of negative pivots proves
        that none was missed.
    is_bound
        Whether ``value`` is only an upper bound. It is then the Rayleigh quotient of a vector
        orthogonal to √π or, for a chain that is not reversible, a bound from the trace of P.
    estimate
        The last value of the iteration; equal to ``value`` if trusted.

    Examples
    --------
    >>> import levywalk as lw
    >>> P = lw.transition(lw.complete(4), lw.homogeneous(4, dim=1), lw.unif_rw())
    >>> lw.spectral_gap(P)  # the eigenvalues are 1 and -1/3
    SpectralGap(right gap = 1.33333, trusted, dense)
    """

    value: float
    kind: str
    method: str
    residual: float
    trusted: bool
    is_bound: bool
    estimate: float

    def __str__(self) -> str:
        note = "" if self.trusted else ", not trusted"
        return (
            f"{self.kind} spectral gap {self._sign} {self.value:.6g} "
            f"({self.method}, residual {self.residual:.1e}{note})"
        )

    def __repr__(self) -> str:
        trust = "trusted" if self.trusted else "not trusted"
        return f"SpectralGap({self.kind} gap {self._sign} {self.value:.6g}, {trust}, {self.method})"

    def _repr_html_(self) -> str:
        rows: list[tuple[str, object]] = [
            ("upper bound" if self.is_bound else "gap", self.value),
            ("trusted", self.trusted),
            ("method", f"{self.method} ({self.answer})"),
            ("residual", self.residual),
        ]
        return table_html(rows, f"{self.kind} spectral gap".capitalize())

    def __float__(self) -> float:
        return self.value

    @property
    def relative_error(self) -> float:
        """The error bound of the gap divided by the gap; 0 for dense methods and the period."""
        if self.method in _EXACT_METHODS:
            return 0.0
        return self.residual / self.value if self.value > 0.0 else float("inf")

    @property
    def answer(self) -> str:
        """The kind of method in words: "exact", or "iterative" with the error estimate."""
        if self.is_bound:
            return "an upper bound only"
        kind = EXACT if self.method in _EXACT_METHODS else ITERATIVE
        return answer_text(kind, self.relative_error)

    @property
    def _sign(self) -> str:
        return "≤" if self.is_bound else "="
