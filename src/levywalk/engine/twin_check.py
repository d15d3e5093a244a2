"""The first steps of a run by a user's compiled twins and by the methods that they stand for."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np

from levywalk.arrays import AnyArray, Ints
from levywalk.draws import JUMP, Words
from levywalk.engine.backends import compiled_walk
from levywalk.engine.own_code import own_code
from levywalk.engine.reference import ReferenceBackend
from levywalk.engine.run_state import RunPlan, RunState
from levywalk.engine.standings import Standings
from levywalk.errors import InvalidParameter
from levywalk.memory import Memory
from levywalk.problem import is_single
from levywalk.step import Method
from levywalk.walks import Decision, LocalView, Walk, is_plain_design

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
    reference = ReferenceBackend(one, plain)
    reference.sites.method = _with_checked_moves(plan.method)
    expected = Standings.by_steps(plain, 0, marks, reference.advance)
    found = backend.block(compiled, range(plan.tokens)).through(0, marks)
    _compare(plan, found, expected)


def _has_own(plan: RunPlan) -> bool:
    loss = getattr(plan.problem, "sample_loss", None)
    return (
        type(loss).__module__.partition(".")[0] != "levywalk"
        or own_code(plan.update, *[phase.bound.walk for phase in plan.phases]) is not None
    )


def _with_checked_moves(method: Method) -> Method:
    """Return the method with a walk that calls its compiled twin at each decision as well.

    A compiled loop makes as many hops as its twin wants, and nothing could interrupt one that never
    ends a move. So the twin's answers are seen here before the loop runs.
    """
    (phase,), walk = method.phases[:1], method.phases[0].walk
    if len(method.phases) > 1 or is_plain_design(walk) or walk.asks_neighbours:
        return method
    twin = compiled_walk(walk)
    if twin is None or not hasattr(twin, "py_func") or own_code(walk) is None:
        return method
    checked = copy.copy(phase)
    checked.walk = cast(Walk, _CheckedWalk(walk, twin))
    return replace(method, phases=(checked,))


class _CheckedWalk:
    """A walk whose decisions are compared with those of its compiled twin."""

    def __init__(self, walk: Walk, twin: Callable[..., Any]) -> None:
        self._walk, self._twin = walk, twin

    def __getattr__(self, name: str) -> Any:
        return getattr(self._walk, name)

    def decide(self, view: LocalView, memory: Memory, words: Words) -> Decision:
        walk, hop = self._walk, view.hop + 1
        token = _flat(memory.token, walk.token_memory)
        kept = _flat(memory.node, walk.node_memory)
        given = (
            *(view.node, view.came_from, view.hop, view.hops_left, float(view.score)),
            np.array(view.neighbours, np.uint32),
            np.array(view.neighbour_degrees, np.int64),
            np.array(view.neighbour_scores, np.float64),
        )
        decision = walk.decide(view, memory, words)
        to, left = self._twin(*given, token, kept, np.uint64(words(JUMP)))
        if not 0 <= left < walk.max_hops - view.hop:
            raise InvalidParameter(
                f"Walk.compiled of {walk.name} must make at most max_hops = {walk.max_hops} hops "
                f"in a move, got {left} left after {hop}; " + _REMEDY
            )
        readable = isinstance(decision, tuple) and len(decision) == 2  # else `step` refuses it
        if readable and (to, left) != tuple(decision):
            raise InvalidParameter(
                f"Walk.compiled of {walk.name} disagrees with decide: after step {view.step + 1} "
                f"it goes from node {view.node} to {to}, with {left} hops left, and decide returns "
                f"{decision!r}; " + _REMEDY
            )
        return decision


def _flat(memory: Any, declared: Mapping[str, Any]) -> tuple[AnyArray, ...]:
    """Return copies of the entries as a twin is given them."""
    return tuple(
        np.array(memory.arrays[name], kind.dtype).ravel() for name, kind in declared.items()
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
