"""The decision rules of one node, which use local knowledge only.

A node knows its own degree and score, its neighbours' degrees and scores, and the run's published
constants. It gets random words (`levywalk.draws`) and returns a neighbour or itself. The reference
backend and the fleet call these functions; the kernels are their compiled twins; theory never calls
them, because it is used to check them independently.
"""

from __future__ import annotations

from levywalk.draws import split
from levywalk.walks.view import LocalView


def metropolis_hastings(view: LocalView, word: int) -> int:
    r"""Propose a uniform neighbour, and accept it or stay: Eq. [impmh] for any target.

    .. math:: P(v,u) = \frac{1}{d_v} \min\Bigl\{1, \frac{t_u / d_u}{t_v / d_v}\Bigr\}, \quad u \ne v

    The model stays if the proposed neighbour is dead, or if the node has no active edge yet.

    Examples
    --------
    >>> from levywalk.draws import stratified_words
    >>> important = LocalView(0, 2, 100.0, (1, 4), (2, 2), (1.0, 1.0))
    >>> moves = [metropolis_hastings(important, word) for word in stratified_words(20_000)]
    >>> moves.count(1) / 20_000  # the toy ring [ringMC] by [impmh]: 1/200
    0.005
    """
    if not view.degree:
        return view.node
    index, uniform = split(word, view.degree)
    if view.alive is not None and not view.alive[index]:
        return view.node
    own = view.score / view.degree
    other = view.neighbour_scores[index] / view.neighbour_degrees[index]
    return view.neighbours[index] if uniform * own < other else view.node


def hop(view: LocalView, word: int) -> int:
    """Pass the model to a uniform live neighbour: one hop of a jump.

    A node without live neighbours keeps the model.

    Examples
    --------
    >>> hop(LocalView(0, 2, 1.0, (1, 4), (2, 2), (1.0, 1.0)), word=0)
    1
    """
    live = view.live
    if not live:
        return view.node
    index, _ = split(word, len(live))
    return live[index]
