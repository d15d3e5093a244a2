"""Copies of the model in a node's log, which can revive a walk if need be."""

from __future__ import annotations

from levywalk.fleet.protocol.node_step import PublishedWalk, Visit
from levywalk.fleet.protocol.records import FALSE_END, Archived, Line
from levywalk.fleet.protocol.token import Epoch, Token


def token_of(line: Line, published: PublishedWalk) -> Token | None:
    """Return the token that a line of a log contains, or None.

    An archived token is whole; one that was wrongly said to be the final one is none. A recorded
    model lacks what else travels with the model; the hash over the hand-offs begins again. If nodes
    keep memory, the copy begins a new memory generation: it carries what the first token carries,
    and what nodes remember counts as empty. If only the token has memory, a recorded model cannot
    be used.

    Examples
    --------
    >>> import levywalk as lw
    >>> published = PublishedWalk.of(
    ...     lw.ring(5), lw.homogeneous(5), lw.mhlj(), steps=10, step_size="theory"
    ... )
    >>> first = published.first_token(published.method.dim * [0.0])
    >>> line = Visit(Epoch(0, 0, 1), 7, 9, 4, 0, -1, -1, first.model)
    >>> token_of(line, published)[:5], token_of(line._replace(model=None), published)
    ((Epoch(counter=0, seq=0, node=1), 0, 4, 0, 7), None)
    """
    if isinstance(line, Archived):
        return None if line.what == FALSE_END else line.token
    if not isinstance(line, Visit) or line.model is None:
        return None
    if published.memory_bytes and not published.remembers:
        return None
    epoch = Epoch(*line.token_epoch)
    first = published.first_token(line.model)
    if published.remembers and line.hops:
        first = published.risen(first._replace(hops=line.hops))
    return first._replace(
        epoch=epoch,
        seq=line.transfers,
        step=line.step,
        phase=min(1, len(published.phases) - 1) if line.switched_at >= 0 else 0,
        switched_at=line.switched_at,
        diverged_at=line.diverged_at,
        hops=line.hops,
        transfers=line.transfers,
        small_messages=line.small_messages,
    )
