"""Rows of `levywalk.engine.kernels.rows` for models that carry a sum of gradients.

A walker's slot holds two rows: its model x, and the sum S that travels with it. Sums are added in
the order of `rows`, so a model has the same bits with registers of any width.

====================================  ==============================================================
``sum_dots(...)``                     aᵀ(x + p S) of a group of walkers, in lanes; or aᵀx
``sum_advance(...)``                  x ← x shrink + p S + c a, then S ← S + e a, for a group
``sum_add(...)``                      the same for one walker and a row anywhere
====================================  ==============================================================
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import extending, types

from levywalk.engine.kernels.rows import HEAD, Row, lane_totals
from levywalk.engine.kernels.vectors import LINE, VectorType, address, fused, spread

intrinsic: Any = extending.intrinsic
_I32, _I64 = ir.IntType(32), ir.IntType(64)


class SumRow(Row):
    """Writes the instructions for rows of which one may be x + p S, given as (x, S, p)."""

    def load(self, start: Any, line: Any, part: int, masked: bool = False) -> Any:
        """Return a part of a line of a row, or of x + p S."""
        if not isinstance(start, tuple):
            return super().load(start, line, part, masked)
        model, total, pull = start
        return fused(
            self.builder,
            spread(self.builder, pull, self.chunk),
            super().load(total, line, part),
            super().load(model, line, part),
        )

    def move(
        self, x: Any, total: Any, a: Any, coefficient: Any, pull: Any, change: Any, shrink: Any
    ) -> None:
        """Write x ← x shrink + p S + c a, then S ← S + e a, for the features."""
        builder = self.builder
        step, pulls, more = (
            spread(builder, number, self.chunk) for number in (coefficient, pull, change)
        )
        less = None if shrink is None else spread(builder, shrink, self.chunk)

        def body(line: Any) -> None:
            for part in self.parts:
                if not self.holds_features(line, part):
                    continue
                masked = isinstance(line, int) and line == 0 and part < HEAD
                theirs = self.load(a, line, part, masked)
                own, old = self.load(total, line, part), self.load(x, line, part)
                if less is not None:
                    old = builder.fmul(old, less)
                new = fused(builder, step, theirs, fused(builder, pulls, own, old))
                builder.store(new, self.place(x, line, part), align=8)
                renewed = fused(builder, more, theirs, own)
                builder.store(renewed, self.place(total, line, part), align=8)

        self.each_line(body)


def _group(
    context: Any, row: SumRow, kinds: Any, arrays: Any, index: Any, count: int
) -> list[tuple[Any, Any, Any]]:
    """Return the addresses of each walker's row, model and sum.

    ``arrays`` are nodes, at and slots. For walker w = index + lane, the row begins at
    ``nodes[at[w] * stride]``, the model at ``slots[w * 2 stride]``, and its sum after it.
    """
    builder, (nodes, at, slots) = row.builder, arrays
    stride: Any = ir.Constant(_I64, row.constant * LINE)
    if row.constant <= 0:
        stride = builder.mul(row.lines, ir.Constant(_I64, LINE))
    both = builder.mul(stride, ir.Constant(_I64, 2))
    walker = address(context, builder, kinds[1], at, index)
    slot = address(context, builder, kinds[2], slots, builder.mul(index, both))
    found = []
    for lane in range(count):
        node = builder.load(builder.gep(walker, [ir.Constant(_I32, lane)]))
        theirs = address(context, builder, kinds[0], nodes, builder.mul(node, stride))
        own = builder.gep(slot, [builder.mul(both, ir.Constant(_I64, lane))])
        found.append((theirs, own, builder.gep(own, [stride])))
    return found


@intrinsic(prefer_literal=True)
def sum_dots(
    typing: Any,
    nodes: Any,
    at: Any,
    slots: Any,
    index: Any,
    pulls: Any,
    lines: Any,
    pulled: Any,
    constant: Any,
    chunk: Any,
) -> Any:
    """Return, in lanes, aᵀ(x + p S) of a group of walkers; if PULLED is 0, aᵀx."""
    count, unrolled, numbers = pulls.count, constant.literal_value, chunk.literal_value
    lanes = VectorType(types.float64, count)

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        row = SumRow(builder, args[5], unrolled, numbers)
        found = []
        group = _group(context, row, sig.args, args[:3], args[3], count)
        for lane, (a, x, total) in enumerate(group):
            other: Any = x
            if pulled.literal_value:
                other = (x, total, builder.extract_element(args[4], ir.Constant(_I32, lane)))
            found.append(row.dot(a, other))
        return lane_totals(builder, found)

    given = (nodes, at, slots, types.uint64, pulls, types.uint64, pulled, constant, chunk)
    return lanes(*given), build


@intrinsic(prefer_literal=True)
def sum_advance(
    typing: Any,
    nodes: Any,
    at: Any,
    slots: Any,
    index: Any,
    coefficients: Any,
    pulls: Any,
    changes: Any,
    shrinks: Any,
    lines: Any,
    ridge: Any,
    constant: Any,
    chunk: Any,
) -> Any:
    """Write x ← x shrink + p S + c a, then S ← S + e a, for each walker of a group.

    Without RIDGE, shrink is 1.
    """
    count, unrolled, numbers = coefficients.count, constant.literal_value, chunk.literal_value
    shrinking = bool(ridge.literal_value)

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        row = SumRow(builder, args[8], unrolled, numbers)
        for lane, (a, x, total) in enumerate(
            _group(context, row, sig.args, args[:3], args[3], count)
        ):
            step, pull, change, less = (
                builder.extract_element(lanes, ir.Constant(_I32, lane)) for lanes in args[4:8]
            )
            row.move(x, total, a, step, pull, change, less if shrinking else None)
        return context.get_dummy_value()

    numbers_given = (coefficients, pulls, changes, shrinks)
    given = (nodes, at, slots, types.uint64, *numbers_given, types.uint64)
    return types.void(*given, ridge, constant, chunk), build


@intrinsic(prefer_literal=True)
def sum_add(
    typing: Any,
    slots: Any,
    x: Any,
    rows: Any,
    a: Any,
    coefficient: Any,
    pull: Any,
    change: Any,
    shrink: Any,
    lines: Any,
    ridge: Any,
    constant: Any,
    chunk: Any,
) -> Any:
    """Write x ← x shrink + p S + c a, then S ← S + e a, for the walker at ``slots[x]``."""

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        row = SumRow(builder, args[8], constant.literal_value, chunk.literal_value)
        own = address(context, builder, sig.args[0], args[0], args[1])
        theirs = address(context, builder, sig.args[2], args[2], args[3])
        total = builder.gep(own, [builder.mul(args[8], ir.Constant(_I64, LINE))])
        step, pull, change, less = args[4:8]
        row.move(own, total, theirs, step, pull, change, less if ridge.literal_value else None)
        return context.get_dummy_value()

    real = types.float64
    given = (slots, types.uint64, rows, types.uint64, real, real, real, real, types.uint64)
    return types.void(*given, ridge, constant, chunk), build
