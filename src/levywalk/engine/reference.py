"""The reference backend: Algorithm [alg:jump] as a reader would write it. The oracle of every kernel, to be read.

Step t: the node that holds the model updates it with its own data, then decides where the model goes next. With
probability p_jump the model jumps: d hops to uniform neighbours, without updates. Otherwise the node proposes one
neighbour and accepts or keeps the model, by the Metropolis-Hastings rule.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from levywalk.draws import HOP, JUMP, Key, unit
from levywalk.engine.plan import Plan, State
from levywalk.walks import Bound, DetectorState, hop, jump_distance, metropolis_hastings


def advance(plan: Plan, state: State, replicas: range, start: int, stop: int) -> None:
    """Take the replicas from step ``start`` to step ``stop``."""
    tables = [
        (phase.step_sizes(start, stop), phase.jump_probabilities(start, stop), phase.distances())
        for phase in plan.phases
    ]
    for r in replicas:
        _advance_one(plan, state, r, start, stop, tables)


def _advance_one(
    plan: Plan, state: State, r: int, start: int, stop: int, tables: list[tuple[np.ndarray, np.ndarray, np.ndarray]]
) -> None:
    key = Key(int(plan.keys[r, 0]), int(plan.keys[r, 1]))
    v, x, phase = int(state.node[r]), state.model[r].copy(), int(state.phase[r])
    watch = DetectorState(state.mean[r].copy(), float(state.power[r]), float(state.mass[r]), int(state.streak[r]))

    for t in range(start, stop):
        if plan.record_visits:
            state.visits[r, v] += 1
        if plan.record_walk:
            state.walk[r, t] = v

        here, bound = plan.phases[phase], plan.phases[phase].bound
        step_sizes, p_jumps, distances = tables[phase]

        # Update: x ← x - γ w(v) ∇f_v(x)
        if state.active[r]:
            with np.errstate(over="ignore", invalid="ignore"):
                gradient = plan.update.gradient(plan.problem, v, x, partial(key.word, t))
                scaled = bound.weights[v] * gradient
                step_size = step_sizes[(t - start) % len(step_sizes)] * (plan.scale[r] if here.scaled else 1.0)
                step_size = min(step_size, here.most)
                moved = x - step_size * scaled
                if np.isfinite(moved).all():
                    x = moved
                    detector = plan.detector if phase == 0 else None
                    if detector is not None and detector.observe(watch, scaled, step_size):
                        phase = 1
                        state.switched_at[r] = t
                        bound = plan.phases[phase].bound
                        step_sizes, p_jumps, distances = tables[phase]
                else:
                    state.active[r] = False
                    state.diverged_at[r] = t

        # Move
        p_jump = p_jumps[(t - start) % len(p_jumps)] if len(p_jumps) else 0.0
        v, hops, transfers = move(bound, v, key, t, p_jump, distances)
        state.hops[r] += hops
        state.transfers[r] += transfers

    state.node[r], state.model[r], state.phase[r] = v, x, phase
    state.mean[r], state.power[r], state.mass[r], state.streak[r] = watch.mean, watch.power, watch.mass, watch.streak


def move(bound: Bound, v: int, key: Key, t: int, p_jump: float, distances: np.ndarray) -> tuple[int, int, int]:
    """Decide where the model goes after step t; return the node, the hops and the transfers.

    Examples
    --------
    >>> import levywalk as lw
    >>> from levywalk.draws import Domain, Key
    >>> bound = lw.unif_rw().bind(lw.ring(5), lw.homogeneous(5))
    >>> move(bound, 0, Key.of(0, Domain.WALK), 0, 0.0, np.empty(0)) in [(1, 1, 1), (4, 1, 1)]
    True
    """
    if bound.table is not None:
        u = bound.table.pick(key.word(t, HOP))
        return u, 1, int(u != v)

    distance = jump_distance(unit(key.word(t, JUMP)), p_jump, distances)
    if distance == 0:
        u = metropolis_hastings(bound.view(v), key.word(t, HOP))
        return u, 1, int(u != v)

    transfers = 0
    for i in range(distance):
        u = hop(bound.view(v), key.word(t, HOP + i))
        transfers += int(u != v)
        v = u
    return v, distance, transfers
