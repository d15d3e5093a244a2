"""A stretch of the walk, as a framework is given it: nodes, samples, weights and step sizes."""

from __future__ import annotations

from typing import NamedTuple

from levywalk.arrays import AnyArray


class Stretch(NamedTuple):
    """Some steps of all replicas; the arrays have room for more than ``steps`` steps.

    Attributes
    ----------
    steps
        The number of steps to make.
    rows
        (steps, replicas, batch): the samples of each update; -1 is no sample.
    weights, step_sizes
        (steps, replicas): w(v) and γ of each update.
    """

    steps: int
    rows: AnyArray
    weights: AnyArray
    step_sizes: AnyArray


class Models(NamedTuple):
    """The models of all replicas, and what their update remembers.

    Attributes
    ----------
    model
        (replicas, dim).
    token
        What travels, by the update's own names: (replicas, dim), or (replicas,) for a number.
    kept
        (replicas, dim): the gradients that the nodes of the replicas store, (replicas, 0) if none.
        An update that stores gradients makes stretches of one step, since the next one is at
        another node.
    """

    model: AnyArray
    token: dict[str, AnyArray]
    kept: AnyArray
