"""The invariants I7 and I8: the updates of a walk, made again node by node, give the token's model
and what nodes remember.

Nothing of `levywalk.step` is used, so that a mistake there is found here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial

import numpy as np

from levywalk.arrays import AnyArray, Floats
from levywalk.contracts import keeps
from levywalk.draws import Words
from levywalk.engine.bind import bind_phases
from levywalk.fleet.checking.growing import SizeAt
from levywalk.fleet.checking.memory_watch import NOTHING_REMEMBERED, Remembered
from levywalk.fleet.checking.violation import Violation
from levywalk.fleet.protocol.token import Token
from levywalk.fleet.setup.build import Fleet
from levywalk.memory import Memory, Sizes, Slots, memory_arrays, packed
from levywalk.privacy.noise import no_noise
from levywalk.privacy.private_data import PrivateData
from levywalk.updates import LocalData, Sgd
from levywalk.walks import DetectorState, Uniform, as_target


@np.errstate(over="ignore", invalid="ignore")  # an update that overflows is part of the rule
def check_replay(
    fleet: Fleet,
    walk: list[int],
    final: Token,
    remembered: Remembered = NOTHING_REMEMBERED,
    models: Mapping[int, Floats] | None = None,
    passed: Collection[int] = (),
    sizes: Mapping[int, SizeAt] | None = None,
) -> None:
    """Check I7: the updates of that walk, made as the reference backend makes them, give the
    token's model; and I8, for updates with memory.

    Parameters
    ----------
    remembered
        Which disks nodes had, where memory started again, and what nodes remembered.
    models
        Models before some steps of that walk, which are compared as well for updates with memory.
    passed
        Steps without an update, because the node's privacy budget was spent.
    sizes
        The size of the fleet from some steps on, if nodes have joined it; step 0 must be there.
    """
    sizes = sizes or {}
    published = fleet.published
    update = published.update
    if needs_whole_walk(fleet):
        check_memory_replay(fleet, walk, final, remembered, models or {}, passed, sizes)
        return
    assert isinstance(update, Sgd)
    step_size_1 = published.phases[0].step_size
    phases = bind_phases(fleet.network, fleet.problem, fleet.design, published.update, step_size_1)
    x, phase, switched, diverged = in_model_type(fleet, fleet.x0), 0, -1, -1
    watch, detector = DetectorState.new(fleet.problem.dim), fleet.published.detector
    for t, v in enumerate(walk[:-1]):
        here = phases[phase]
        step_size = min(float(here.step_sizes(t, t + 1)[0]), here.published.most)
        i, word = fleet.index(v), partial(fleet.key(v).word, t)
        gradient = update.gradient(fleet.problem, i, x, word)
        own = _weight(fleet, v, phase, sizes, t) if sizes else here.bound.weights[i]
        scaled = own * gradient
        moved = in_model_type(fleet, x - step_size * scaled)
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


def needs_whole_walk(fleet: Fleet) -> bool:
    """Return whether an update depends on more than the model, its node and its draws: on what
    nodes or the token remember, on noise, or on a rule of a user's own.
    """
    method = fleet.published.method
    remembers = method.node_memory or method.update.token_memory
    plain = keeps(method.update, Sgd, "direction", "apply")
    return bool(remembers or method.privacy is not None or not plain)


def in_model_type(fleet: Fleet, model: Floats) -> Floats:
    """Return a model rounded to its own type, such as float32, in the type of its updates."""
    method = fleet.published.method
    with np.errstate(over="ignore"):
        found = model.astype(f"f{method.itemsize}", copy=False)
    return found.astype(np.float64) if method.in_doubles else found


@np.errstate(over="ignore", invalid="ignore")
def check_memory_replay(
    fleet: Fleet,
    walk: list[int],
    final: Token,
    remembered: Remembered,
    models: Mapping[int, Floats],
    passed: Collection[int],
    sizes: Mapping[int, SizeAt],
) -> None:
    """Check I7 and I8 for any update: its own methods along the walk give the token's model, and
    what each node has on its disk after a visit. Where memory starts again is part of the walk, and
    so is that a node with a new disk remembers nothing.

    Nothing of `levywalk.step` is used. The noise of a virtual fleet is a function of its seed; that
    of real nodes is not, and their models are not replayed (`spent_watch`).
    """
    method = fleet.published.method
    update, detector = method.update, method.detector
    n = method.n
    carried = _first_carried(fleet)
    kept: dict[tuple[int, int], dict[str, AnyArray]] = {}
    x, at, averages = in_model_type(fleet, fleet.x0), 0, DetectorState.new(method.dim)
    for t, v in enumerate(walk[:-1]):
        if t in remembered.starts:
            carried, kept = _first_carried(fleet), {}
        if t in sizes:
            n = sizes[t].nodes - fleet.published.idle
        place = LocalData(fleet.problem, fleet.index(v), n)
        if t in models and not np.array_equal(models[t], x):
            raise Violation("I8", f"the model before step {t} at node {v} is not the replay's")
        if t in passed:
            continue
        shape = Sizes(method.dim, int(fleet.network.degree[v]), place.n_samples)
        first = memory_arrays(update.node_memory, shape)
        own = kept.setdefault((v, remembered.disks.get(t, 0)), first)
        phase = method.phases[at]
        weight, size = phase.weight(fleet.scores_of(v)[at]), phase.step_size_at(t, 1.0)
        if sizes:
            weight = _weight(fleet, v, at, sizes, t)
        local: LocalData = place
        if method.privacy is not None:
            privacy = method.privacy.privacy
            noise = fleet.noise(t) if privacy.hides else no_noise
            local = PrivateData(local, privacy, weight, noise, left=1)
        given = (Memory(Slots(carried), Slots(own)), local, weight)
        words = Words(fleet.key(v), t)
        if method.moves_by_direction:
            direction = update.direction(x, *given, words)
            moved = x - size * direction
        else:
            moved = update.apply(x, *given, size, words)
            direction = (x - moved) / size
        moved = in_model_type(fleet, moved)
        if not np.isfinite(moved).all():
            break
        x = moved
        if t in remembered.after and update.node_memory:
            expected = packed(own, update.node_memory)
            if not np.array_equal(remembered.after[t][: len(expected)], expected):
                raise Violation("I8", f"node {v} remembers after step {t} what no replay does")
        if detector is not None and at == 0 and detector.observe(averages, direction, size):
            at = len(method.phases) - 1
            detector = None
    if not np.array_equal(final.model, x):
        raise Violation("I7", f"the model is {final.model}, the replay of its walk gives {x}")


def _weight(fleet: Fleet, v: int, phase: int, sizes: Mapping[int, SizeAt], t: int) -> float:
    return weight_at(fleet, v, phase, sizes[max(step for step in sizes if step <= t)])


def weight_at(fleet: Fleet, v: int, phase: int, size: SizeAt) -> float:
    """Return w(v) = t̄/t_v in a fleet of some size."""
    part, mean = fleet.design.phases[phase], size.mean_smoothness
    if not part.reweight or isinstance(as_target(part.target), Uniform):
        return 1.0
    own = np.array([fleet.problem.smoothness[fleet.index(v)]])
    degree = np.array([fleet.network.degree[v]])
    rounded = size.mean_scores[phase] if size.mean_scores else mean
    assert rounded is not None
    return rounded / float(as_target(part.target).scores(degree, own, mean)[0])


def _first_carried(fleet: Fleet) -> dict[str, AnyArray]:
    """Return what the first token carries for its update, by the update's own names."""
    return {
        name.removeprefix("update."): array
        for name, array in fleet.published.method.first_memory().items()
        if name.startswith("update.")
    }
