"""The reference backend: it calls `levywalk.step` in a loop, one replica after the other.

Every kernel is tested against it.

Step t: the node that holds the model updates it with its own data, then decides where the model
goes next; see `levywalk.step.step` for what a node does, and `Design.decide` for Algorithm
[alg:jump].
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from levywalk.draws import Key, Words
from levywalk.engine.run_state import RunPlan, RunState
from levywalk.engine.tokens import average_where_they_meet
from levywalk.memory import NodeMemory
from levywalk.privacy import SeededNoise
from levywalk.step import Travelling, step


class ReferenceBackend:
    """Advances a plan's replicas in plain Python, for any network, problem, walk and update."""

    def __init__(self, plan: RunPlan, state: RunState) -> None:
        self.plan, self.state = plan, state
        self.sites = plan.sites()
        self.memory: NodeMemory | None = None
        if plan.method.node_memory:
            self.memory = plan.node_memory(0)  # only for its layout; the arrays are the state's
            self.memory.arrays = state.node_memory

    def advance(self, start: int, stop: int) -> None:
        """Advance all replicas from step ``start`` to step ``stop``."""
        self.plan.method.prepare(start, stop)
        if self.plan.meeting == "average":
            self._advance_together(start, stop)
            return
        for r in range(self.plan.walkers):
            self._advance_one(r, start, stop)

    def _advance_together(self, start: int, stop: int) -> None:
        """Advance the tokens of each replica step by step, and average those that meet."""
        tokens = self.plan.tokens
        for first in range(0, self.plan.walkers, tokens):
            for t in range(start, stop):
                for r in range(first, first + tokens):
                    self._advance_one(r, t, t + 1)
                average_where_they_meet(self.state, slice(first, first + tokens))

    def _advance_one(self, r: int, start: int, stop: int) -> None:
        plan, state, sites, memory = self.plan, self.state, self.sites, self.memory
        key = Key(int(plan.keys[r, 0]), int(plan.keys[r, 1]))
        scale = float(plan.scale[r])
        v, transfers = int(state.node[r]), int(state.transfers[r])
        token = _token_of(state, r, start)
        asks = any(phase.walk.asks_neighbours for phase in plan.method.phases)
        idle = plan.phases[0].bound.idle
        links, asked = plan.links, _Asked()
        noise_key = None
        if plan.noise_keys is not None:
            noise_key = Key(int(plan.noise_keys[r, 0]), int(plan.noise_keys[r, 1]))

        for t in range(start, stop):
            if plan.record_visits:
                state.visits[r, v] += 1
            if plan.record_walk:
                state.walk[r, t] = v
            words = Words(key, t)
            while True:  # one hop, or several if the walk decides so or the next node has no data
                site = sites(v)
                site.scale = scale
                site.noise = None if noise_key is None else SeededNoise(noise_key, t)
                if memory is not None:
                    site.memory = memory.at(r, v)
                    site.ask = partial(ask_nodes, memory, r) if asks else None
                    if asks and links is not None:
                        site.ask = asked.by(site.ask)
                token, to = step(site, token, words)
                transfers += to != v
                if links is not None:
                    state.on_links[r] += links.asked(v, asked.taken())
                    if to != v:
                        state.on_links[r] += links.sent(v, to)
                v = to
                if not token.distance and (idle is None or not idle[v]):
                    break

        state.node[r], state.transfers[r] = v, transfers
        _keep(state, r, token)


class _Asked:
    """Notes which nodes a step asks."""

    nodes: Sequence[int] = ()

    def by(self, ask: Any) -> Any:
        """Return a function that asks nodes and notes them."""

        def noted(name: str, nodes: Sequence[int]) -> Any:
            self.nodes = nodes  # the same for every entry that the step asks for
            return ask(name, nodes)

        return noted

    def taken(self) -> Sequence[int]:
        """Return the nodes of this step, and forget them."""
        found, self.nodes = self.nodes, ()
        return found


def _token_of(state: RunState, r: int, start: int) -> Travelling:
    """Return a replica's token from the state."""
    return Travelling(
        state.model[r].copy(),
        {name: np.array(array[r]) for name, array in state.token_memory.items()},
        start,
        came_from=int(state.came_from[r]),
        phase=int(state.phase[r]),
        switched_at=int(state.switched_at[r]),
        diverged_at=int(state.diverged_at[r]),
        hops=int(state.hops[r]),
        small_messages=int(state.small_messages[r]),
    )


def _keep(state: RunState, r: int, token: Travelling) -> None:
    state.model[r] = token.model
    for name, array in token.memory.items():
        state.token_memory[name][r] = array
    for name in ("came_from", "phase", "switched_at", "diverged_at", "hops", "small_messages"):
        getattr(state, name)[r] = getattr(token, name)
    state.active[r] = token.diverged_at < 0


def ask_nodes(memory: NodeMemory, r: int, name: str, nodes: Sequence[int]) -> list[Any]:
    """Return an entry of several nodes' memory."""
    answers = [memory.at(r, u)[name] for u in nodes]
    return [answer if answer.ndim else answer.item() for answer in answers]
