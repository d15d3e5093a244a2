"""Several models at once: the tokens of a replica walk at the same time, one row of the state each.

Each token has its own draws, its own model, its own memory and its own memory at every node, that
of the walk too: a table of gradients needs the visits of its own token, so counters that other
tokens have raised would lead it past nodes that it has not seen. What the trace shows of a replica
is the mean of its models; hops, messages, bytes and visits are sums over its tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from levywalk import checks
from levywalk.arrays import AnyArray
from levywalk.engine.run_state import RunState
from levywalk.engine.standings import Standings
from levywalk.errors import InvalidParameter
from levywalk.walks import Walk

MEETINGS = ("pass", "average")


def check_tokens(
    tokens: Any, meeting: Any, design: Walk, resume: str | Path | None, record_walk: bool
) -> int:
    """Return the number of tokens; refuse what is not possible with several.

    Examples
    --------
    >>> import levywalk as lw
    >>> check_tokens(4, "average", lw.mhlj(), None, False)
    4
    """
    count: int = checks.integer("tokens", tokens, low=1, high=2**20)
    checks.choice("meeting", meeting, MEETINGS)
    if count == 1:
        if meeting != "pass":
            raise InvalidParameter(
                f"meeting={meeting!r} needs several models; give tokens=2 or more"
            )
        return count
    if isinstance(design, Walk) and design.detector is not None:
        raise InvalidParameter(
            f"tokens must be 1 for a switching design, got {count}: each token would switch at "
            "another step; use one of its two designs"
        )
    if resume is not None:
        raise InvalidParameter(f"resume must be None with tokens = {count}; use tokens=1")
    if record_walk:
        raise InvalidParameter(
            f"record_walk must be False with tokens = {count}, whose walks are several; use "
            "record_visits=True, which counts the updates of all tokens"
        )
    return count


def per_token(start: Any, x0: Any, replicas: int, tokens: int) -> tuple[Any, Any]:
    """Return the starts and first models of all tokens, one row each.

    A start may be given per replica or per (replica, token), a first model per replica.

    Examples
    --------
    >>> per_token([3, 5], None, replicas=2, tokens=2)[0].tolist()
    [3, 3, 5, 5]
    """
    if tokens == 1:
        return start, x0
    if not isinstance(start, str) and np.ndim(start):
        given = np.asarray(start)
        if given.shape == (replicas, tokens):
            start = given.reshape(-1)
        elif given.shape == (replicas,):
            start = np.repeat(given, tokens)
        else:
            raise InvalidParameter(
                f"start must be a node, one node per replica ({replicas}) or one per replica and "
                f"token ({replicas}, {tokens}), got an array of shape {given.shape}"
            )
    if x0 is not None and np.ndim(x0) == 2 and len(x0) == replicas:
        x0 = np.repeat(x0, tokens, axis=0)
    return start, x0


def joint_standings(seen: Standings, tokens: int) -> Standings:
    """Return the standings of replicas: the mean of the tokens' models, and sums of what they did.

    A replica counts as diverged once one of its models has overflowed.
    """
    if tokens == 1:
        return seen
    made: dict[str, Any] = {}
    for name, array in zip(seen._fields, seen, strict=True):
        by_token = array.reshape(-1, tokens, *array.shape[1:])
        made[name] = _TOGETHER.get(name, _sum)(by_token)
    return seen._replace(**made)


def mean_model(models: AnyArray) -> AnyArray:
    """Return the mean over the second axis; dividing first, the sum of large models is finite."""
    found: AnyArray = np.ascontiguousarray((models / models.shape[1]).sum(axis=1))
    return found


def _sum(counts: AnyArray) -> AnyArray:
    found: AnyArray = counts.sum(axis=1)
    return found


_TOGETHER: dict[str, Callable[[Any], Any]] = {
    "node": lambda nodes: nodes[:, 0],
    "model": mean_model,
    "active": lambda flags: flags.all(axis=1),
}


def average_where_they_meet(state: RunState, rows: slice) -> None:
    """Give the tokens of one replica that are at the same node the mean of their models.

    What tokens and nodes remember stays as it is, so a token's sum remains that of its own table.
    Models that have overflowed take no part.
    """
    node, model, active = state.node[rows], state.model[rows], state.active[rows]
    for v in np.unique(node[active]):
        met = active & (node == v)
        if met.sum() > 1:
            model[met] = mean_model(model[met][None])[0]
