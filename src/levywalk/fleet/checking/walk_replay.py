"""The invariant I7: the updates of a walk, made again node by node, give the token's model.

Nothing of `levywalk.step` is used, so that a mistake there is found here.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from levywalk.arrays import Floats
from levywalk.draws import Words
from levywalk.engine.bind import bind_phases
from levywalk.fleet.checking.violation import Violation
from levywalk.fleet.protocol.token import Token
from levywalk.fleet.setup.build import Fleet
from levywalk.memory import Memory, Sizes, Slots
from levywalk.updates import LocalData, Sgd
from levywalk.walks import DetectorState


@np.errstate(over="ignore", invalid="ignore")  # an update that overflows is part of the rule
def check_replay(fleet: Fleet, walk: list[int], final: Token) -> None:
    """Check I7: the updates of that walk, made as the reference backend makes them, give the
    token's model.
    """
    published = fleet.published
    if published.method.node_memory or not isinstance(published.update, Sgd):
        check_memory_replay(fleet, walk, final)
        return
    step_size_1 = published.phases[0].step_size
    phases = bind_phases(fleet.network, fleet.problem, fleet.design, published.update, step_size_1)
    x, phase, switched, diverged = typed(fleet, fleet.x0), 0, -1, -1
    watch, detector = DetectorState.new(fleet.problem.dim), fleet.published.detector
    for t, v in enumerate(walk[:-1]):
        here = phases[phase]
        step_size = min(float(here.step_sizes(t, t + 1)[0]), here.published.most)
        i, word = fleet.index(v), partial(fleet.key(v).word, t)
        gradient = published.update.gradient(fleet.problem, i, x, word)
        scaled = here.bound.weights[i] * gradient
        moved = typed(fleet, x - step_size * scaled)
        if not np.isfinite(moved).all():
            diverged = t
            break
        x = moved
        if detector is not None and phase == 0 and detector.observe(watch, scaled, step_size):
            phase, switched = 1, t
    found: tuple[Floats, int, int] = final.model, final.switched_at, final.diverged_at
    if not np.array_equal(found[0], x) or found[1:] != (switched, diverged):
        raise Violation(
            "I7", f"the model is {found}, the replay of its walk gives {(x, switched, diverged)}"
        )


def typed(fleet: Fleet, model: Floats) -> Floats:
    """Return a model rounded to its own type, such as float32, in the type of its updates."""
    method = fleet.published.method
    with np.errstate(over="ignore"):
        found = model.astype(f"f{method.itemsize}", copy=False)
    return found.astype(np.float64) if method.in_doubles else found


@np.errstate(over="ignore", invalid="ignore")
def check_memory_replay(fleet: Fleet, walk: list[int], final: Token) -> None:
    """Check I7 for any update: its own methods along the walk give the token's model.

    Nothing of `levywalk.step` is used. It holds without faults: what a restored token may read of a
    node's memory is not promised yet.
    """
    method = fleet.published.method
    update, detector = method.update, method.detector
    carried = {
        name.removeprefix("update."): array
        for name, array in method.first_memory().items()
        if name.startswith("update.")
    }
    places = {v: LocalData(fleet.problem, fleet.index(v), method.n) for v in set(walk)}
    kept = {
        v: {
            name: np.full(
                kind.shape(Sizes(method.dim, int(fleet.network.degree[v]), local.n_samples)),
                kind.initial,
                kind.dtype,
            )
            for name, kind in update.node_memory.items()
        }
        for v, local in places.items()
    }
    x, at, averages = typed(fleet, fleet.x0), 0, DetectorState.new(method.dim)
    for t, v in enumerate(walk[:-1]):
        phase = method.phases[at]
        weight, size = phase.weight(fleet.scores_of(v)[at]), phase.step_size_at(t, 1.0)
        given = (Memory(Slots(carried), Slots(kept[v])), places[v], weight)
        words = Words(fleet.key(v), t)
        if method.moves_by_direction:
            direction = update.direction(x, *given, words)
            moved = x - size * direction
        else:
            moved = update.apply(x, *given, size, words)
            direction = (x - moved) / size
        moved = typed(fleet, moved)
        if not np.isfinite(moved).all():
            break
        x = moved
        if detector is not None and at == 0 and detector.observe(averages, direction, size):
            at = len(method.phases) - 1
            detector = None
    if not np.array_equal(final.model, x):
        raise Violation("I7", f"the model is {final.model}, the replay of its walk gives {x}")
