"""The first steps of a run by a user's compiled twins and by the methods that they stand for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from levywalk.arrays import Ints
from levywalk.engine.own_code import own_code
from levywalk.engine.reference import ReferenceBackend
from levywalk.engine.run_state import RunPlan, RunState
from levywalk.engine.standings import Standings
from levywalk.errors import InvalidParameter
from levywalk.problem import is_single

_STEPS = 20
_REMEDY = "correct one of them, or leave the compiled form out; backend='reference' runs without it"


def check_twins(plan: RunPlan, backend: Any, start: Ints, x0: Any) -> None:
    """Refuse a run whose compiled twins, if they are a user's, disagree with the plain methods.

    The first replica makes its first steps in both ways. Twins of the package are compared in its
    tests.
    """
    if plan.method.privacy is not None or not _has_own(plan):
        return
    tokens, steps = slice(0, plan.tokens), min(plan.steps, _STEPS)
    # What is recorded stays as in the plan, because compiled loops check no bounds.
    one = replace(plan, keys=plan.keys[tokens], scale=plan.scale[tokens])
    models = np.broadcast_to(x0, (plan.walkers, plan.problem.dim))[tokens]
    compiled, plain = (RunState.new(one, start[tokens], models) for _ in range(2))
    marks = np.arange(1, steps + 1)
    expected = Standings.by_steps(plain, 0, marks, ReferenceBackend(one, plain).advance)
    found = backend.block(compiled, range(plan.tokens)).through(0, marks)
    _compare(plan, found, expected)


def _has_own(plan: RunPlan) -> bool:
    loss = getattr(plan.problem, "sample_loss", None)
    return (
        type(loss).__module__.partition(".")[0] != "levywalk"
        or own_code(plan.update, *[phase.bound.walk for phase in plan.phases]) is not None
    )


def _compare(plan: RunPlan, found: Standings, expected: Standings) -> None:
    walk = plan.phases[0].bound.walk.name
    for name in ("node", "hops", "transfers", "small_messages"):
        here, there = getattr(found, name), getattr(expected, name)
        if not np.array_equal(here, there):
            token, step = np.argwhere(here != there)[np.argmin(np.argwhere(here != there)[:, 1])]
            what = "the model is at node" if name == "node" else f"the count of {name} is"
            raise InvalidParameter(
                f"Walk.compiled of {walk} disagrees with decide: after step {step} {what} "
                f"{here[token, step]} by the first and {there[token, step]} by the second; "
                + _REMEDY
            )
    scale = np.abs(expected.model).max(initial=0.0)
    near = 1e-3 if is_single(plan.problem) else 1e-6
    same = np.isclose(found.model, expected.model, rtol=near, atol=near * scale)
    if np.array_equal(found.active, expected.active) and same.all():
        return
    loss = plan.problem.sample_loss.name  # type: ignore[attr-defined]
    step = int(np.argmax(~same.all(axis=(0, 2)))) if not same.all() else 0
    raise InvalidParameter(
        f"the compiled forms of update {plan.update.name} and loss {loss} disagree with their "
        f"plain methods: after step {step} the model is {found.model[0, step]!s:.60} by the first "
        f"and {expected.model[0, step]!s:.60} by the second; " + _REMEDY
    )
