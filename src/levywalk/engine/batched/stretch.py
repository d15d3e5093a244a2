"""A stretch of the walk, as a framework is given it: nodes, samples, weights and step sizes."""

from __future__ import annotations

from typing import NamedTuple

from levywalk.arrays import AnyArray, Ints


class Stretch(NamedTuple):
    """Some steps of all replicas; the arrays have room for more than ``count`` steps.

    Attributes
    ----------
    count
        The number of steps to make.
    rows
        (steps, replicas, batch): the samples of each update; -1 is no sample.
    weights, step_sizes
        (steps, replicas): w(v) and γ of each update.
    slots
        (steps, replicas): where the node's stored gradient is in the table of the stretch; zeros if
        the update stores none.
    """

    count: int
    rows: Ints
    weights: AnyArray
    step_sizes: AnyArray
    slots: Ints


class Models(NamedTuple):
    """The models of all replicas, and what their update remembers.

    Attributes
    ----------
    model
        (replicas, dim).
    token
        What travels, by the update's own names: (replicas, dim), or (replicas,) for a number.
    table
        (replicas, slots, dim): stored gradients of the nodes of a stretch; no slots if none are.
    """

    model: AnyArray
    token: dict[str, AnyArray]
    table: AnyArray
