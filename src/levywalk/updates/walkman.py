"""Walkman: ADMM along a walk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from levywalk import checks
from levywalk.arrays import Floats
from levywalk.draws import Words
from levywalk.errors import InvalidParameter
from levywalk.memory import Like, Memory
from levywalk.problem import Problem
from levywalk.registry import registered
from levywalk.remedy import python_or_command
from levywalk.updates.linear import is_linear, proximal
from levywalk.updates.update import LocalData, Update

FORMS = ("gradient", "prox")


@registered("update", "walkman")
@dataclass(frozen=True)
class Walkman(Update):
    """ADMM along a walk; see `walkman`.

    Examples
    --------
    >>> Walkman("prox")
    Walkman(form='prox')
    """

    form: str = "gradient"
    name = "walkman"
    token_memory = {"sum": Like("model")}  # noqa: RUF012
    node_memory = {"copy": Like("model"), "dual": Like("model")}  # noqa: RUF012

    def __post_init__(self) -> None:
        checks.choice("form", self.form, FORMS)

    def check(self, problem: Problem) -> None:
        """Refuse the proximal form where the proximal step is not known."""
        if self.form == "prox" and not is_linear(problem):
            raise InvalidParameter(
                "walkman with form = 'prox' needs a problem made of samples and a loss with one "
                f"output, got a {type(problem).__name__}; use "
                + python_or_command("form='gradient'", "walkman:form=gradient")
            )

    def apply(
        self,
        model: Floats,
        memory: Memory,
        local: LocalData,
        weight: float,
        step_size: float,
        words: Words,
    ) -> Floats:
        """Renew the node's copy y and its dual z, and return the mean of y - γz over all nodes."""
        node, total = memory.node, memory.token["sum"]
        y, z = node["copy"], node["dual"]
        point = model + step_size * z
        if self.form == "prox":
            fresh = proximal(point, local, step_size)[0]
        else:
            fresh = point - step_size * local.gradient(y)
        dual = z + (model - fresh) / step_size
        total += (fresh - step_size * dual) - (y - step_size * z)
        node["copy"], node["dual"] = fresh, dual
        changed: Floats = total / local.n
        return changed

    def default_step_size(self, largest: float, problem: Problem) -> float:
        """Return γ = 1/β = 1/(2L) with the largest L_v, a rule of thumb: the theorems of Mao et al.
        ask for a larger β.
        """
        return 1.0 / (2.0 * float(np.max(problem.smoothness)))

    def compiled_linear(self) -> Any:
        """Return the compiled twin of `apply`."""
        from numba import njit

        from levywalk.compiled import proximal_rows, proximal_slopes, slope_of

        prox = self.form == "prox"

        @njit
        def apply(  # type: ignore[no-untyped-def]
            model, features, targets, smoothness, loss, ridge, drawn, token, kept, weight,
            step_size, n,
        ):  # fmt: skip
            (total,), (copy, dual) = token, kept
            count, dim = features.shape
            fresh = np.empty(dim)
            if prox:
                shrink = step_size / (1.0 + step_size * ridge)
                for j in range(dim):
                    fresh[j] = (model[j] + step_size * dual[j]) / (1.0 + step_size * ridge)
                if count == 1:
                    a, z = 0.0, 0.0
                    for j in range(dim):
                        a += features[0, j] * features[0, j]
                        z += features[0, j] * fresh[j]
                    slope = proximal_slopes(loss, z, shrink * a, targets[0])
                    for j in range(dim):
                        fresh[j] -= shrink * slope * features[0, j]
                else:
                    unused, ignored = np.zeros(count), np.zeros(dim)
                    proximal_rows(fresh, features, targets, loss, shrink, unused, ignored)
            else:
                for j in range(dim):
                    fresh[j] = model[j] + step_size * (dual[j] - ridge * copy[j])
                for i in range(count):
                    z = 0.0
                    for j in range(dim):
                        z += features[i, j] * copy[j]
                    slope = step_size * slope_of(loss, z, targets[i]) / count
                    for j in range(dim):
                        fresh[j] -= slope * features[i, j]
            for j in range(dim):
                z = dual[j] + (model[j] - fresh[j]) / step_size
                total[j] += (fresh[j] - step_size * z) - (copy[j] - step_size * dual[j])
                copy[j], dual[j] = fresh[j], z
                model[j] = total[j] / n

        return apply


def walkman(form: str = "gradient") -> Walkman:
    """Walkman (Mao, Yuan, Hu, Gu, Sayed, Yin 2020): ADMM in which one node is active at a time.

    A visited node renews its own copy y of the model and its dual z, and the model becomes the mean
    of y - z/β over all nodes, whose sum the token carries. The step size is γ = 1/β. All copies
    begin at zero, so the first update forgets x0. Updates are not weighted.

    Parameters
    ----------
    form
        "gradient": y = x + z/β - ∇f_v(y)/β; "prox": y = prox of f_v/β at x + z/β.

    Examples
    --------
    >>> import levywalk as lw
    >>> network, problem = lw.complete(10), lw.homogeneous(10, dim=2, seed=1)
    >>> update = lw.walkman("prox")
    >>> trace = lw.run(
    ...     network, problem, lw.mhda(), steps=20_000, step_size="theory", update=update
    ... )
    >>> bool(trace.distance2[0, -1] < 1e-12)
    True
    """
    return Walkman(form)
