"""Dot products and updates of whole rows, in an order that is the same on every machine.

A row is a head of four numbers and then the features, in lines of eight; `HEAD` and `LINE` say so.
A dot product over the features is summed as follows, on every machine and in every loop:

1. feature j belongs to position (j + 4) mod 8 of line (j + 4) div 8;
2. each of the eight positions has a sum of its own over the lines, in order. Rows of more than
   `SHORT` lines have four such sums, for lines 0, 4, 8, …, for lines 1, 5, 9, … and so on, which
   are added as (first + second) + (third + fourth);
3. positions j and j + 4 are added, and the four results as (0 + 1) + (2 + 3).

Every product is fused with the addition that follows it (the first product of a sum is rounded by
itself), and nothing is reordered. So a model has the same bits with registers of 512, 256 or 128
bits, in groups and alone.

====================================  ==============================================================
``dots(...)``                         the dot products of a group of walkers, in lanes
``advance(...)``                      x ← x shrink + a coefficient, for a group of walkers
``held_dot``, ``held_advance``        the same for one walker whose model stays in registers
``row_dot(...)``, ``row_add(...)``    the same for one row
``row_totals(array, i, ROWS)``        the sums of rows that `row_dot` wrote
``total_of(four)``                    the sum of one row, from what `row_dot` returned
====================================  ==============================================================

The functions write instructions directly: numba compiles them in a fraction of the time that it
needs for loops over lanes. ``LINES`` is the number of lines if it is a constant of the compiled
code; else it is `LONG` for rows of more than `SHORT` lines, and `ANY_SHORT` for the others.
``CHUNK`` is how many numbers an instruction handles: 8, 4 or 2. All of them are in this file, so
that the one order of summation can be seen in one place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import extending, types
from numba.core import cgutils as numba_cgutils

from levywalk.engine.kernels.vectors import LINE, VectorType, address, fused, order, spread

intrinsic: Any = extending.intrinsic
cgutils: Any = numba_cgutils

HEAD = 4  # numbers before the features
SHORT = 8  # lines up to which a row has one sum for each position
LONG, ANY_SHORT = 0, -1
_SETS = 4

_DOUBLE, _I32, _I64 = ir.DoubleType(), ir.IntType(32), ir.IntType(64)


class Row:
    """Writes the instructions for the rows of one function."""

    def __init__(self, builder: Any, lines: Any, constant: int, chunk: int) -> None:
        self.builder, self.lines, self.constant, self.chunk = builder, lines, constant, chunk
        self.vector = ir.VectorType(_DOUBLE, chunk)
        self.parts = range(0, LINE, chunk)  # where the parts of a line begin

    def zeros(self) -> Any:
        """Return the number that changes nothing when it is added to: minus zero."""
        return ir.Constant(self.vector, [ir.Constant(_DOUBLE, -0.0)] * self.chunk)

    def load(self, start: Any, line: Any, part: int, masked: bool = False) -> Any:
        """Return a part of a line; ``masked`` gives zeros in place of the head.

        The row begins at the address ``start``, or is a vector itself.
        """
        if isinstance(start.type, ir.VectorType):
            first = line * LINE + part
            lanes = order(list(range(first, first + self.chunk)))
            nothing = ir.Constant(start.type, ir.Undefined)
            return self.builder.shuffle_vector(start, nothing, lanes)
        place = self.place(start, line, part)
        if not masked:
            return self.builder.load(place, align=8)
        mask = ir.VectorType(ir.IntType(1), self.chunk)
        kind = ir.FunctionType(self.vector, [self.vector.as_pointer(), _I32, mask, self.vector])
        function = cgutils.get_or_insert_function(
            self.builder.module, kind, f"llvm.masked.load.v{self.chunk}f64.p0"
        )
        keep = ir.Constant(mask, [int(part + lane >= HEAD) for lane in range(self.chunk)])
        return self.builder.call(
            function, [place, ir.Constant(_I32, 8), keep, ir.Constant(self.vector, None)]
        )

    def place(self, start: Any, line: Any, part: int) -> Any:
        """Return the address of a part of a line of the row that begins at ``start``."""
        if isinstance(line, int):
            offset: Any = ir.Constant(_I64, line * LINE + part)
        else:
            offset = self.builder.add(
                self.builder.mul(line, ir.Constant(_I64, LINE)), ir.Constant(_I64, part)
            )
        return self.builder.bitcast(self.builder.gep(start, [offset]), self.vector.as_pointer())

    def holds_features(self, line: Any, part: int) -> bool:
        """Return whether a part of a line holds any feature."""
        return not isinstance(line, int) or line > 0 or part + self.chunk > HEAD

    def each_line(self, body: Callable[[Any], None]) -> None:
        """Write the body for every line: one after the other, or as a loop after the first."""
        if self.constant > 0:
            for line in range(self.constant):
                body(line)
            return
        body(0)
        one = ir.Constant(_I64, 1)
        with cgutils.for_range_slice(self.builder, one, self.lines, one, intp=_I64) as (line, _):
            body(line)

    # ---- the dot product ----

    def dot(self, a: Any, x: Any) -> Any:
        """Return the sums of positions j and j + 4 of the products of two rows, j = 0, …, 3."""
        found = self.sums(a, x)
        return found[0] if len(found) == 1 else _joined(self.builder, *found)

    def sums(self, a: Any, x: Any) -> list[Any]:
        """Return what `dot` returns, in one vector or in two of two numbers each.

        They stay apart for registers of two numbers: a vector of four would be split again, and
        where the machine has registers of four, numbers would go from one to the other and back.
        """
        sets = _SETS if self.constant == LONG else 1
        sums = {
            (which, part): cgutils.alloca_once_value(self.builder, self.zeros())
            for which in range(sets)
            for part in self.parts
        }
        begun: set[int] = set()  # the sums that have a first product

        def add(line: Any, which: int) -> None:
            for part in self.parts:
                if self.holds_features(line, part):
                    total = sums[which, part]
                    self._add_product(total, a, x, line, part, id(total) in begun)
                    if isinstance(line, int):
                        begun.add(id(total))

        if self.constant == LONG:
            self._long(add)
        else:
            self.each_line(lambda line: add(line, 0))
        builder = self.builder
        totals = []
        for part in self.parts:
            found = [builder.load(sums[which, part]) for which in range(sets)]
            while len(found) > 1:
                found = [builder.fadd(found[k], found[k + 1]) for k in range(0, len(found), 2)]
            totals += found
        if len(totals) == 1:
            (all_eight,) = totals
            nothing = ir.Constant(all_eight.type, ir.Undefined)
            totals = [
                builder.shuffle_vector(all_eight, nothing, order(list(range(k, k + 4))))
                for k in (0, 4)
            ]
        half = len(totals) // 2
        return [builder.fadd(totals[k], totals[half + k]) for k in range(half)]

    def _add_product(self, total: Any, a: Any, x: Any, line: Any, part: int, begun: bool) -> None:
        builder = self.builder
        masked = isinstance(line, int) and line == 0 and part < HEAD
        theirs, own = self.load(a, line, part, masked), self.load(x, line, part)
        if begun or not isinstance(line, int):
            new = fused(builder, theirs, own, builder.load(total))
        else:
            new = builder.fmul(theirs, own)
        if masked:
            features = ir.Constant(
                ir.VectorType(ir.IntType(1), self.chunk),
                [int(part + lane >= HEAD) for lane in range(self.chunk)],
            )
            new = builder.select(features, new, self.zeros())
        builder.store(new, total)

    def _long(self, add: Callable[[Any, int], None]) -> None:
        """Write the additions of a row of more than `SHORT` lines: four at a time."""
        builder = self.builder
        for line in range(_SETS):
            add(line, line)
        four = ir.Constant(_I64, _SETS)
        whole = builder.and_(self.lines, ir.Constant(_I64, -_SETS))
        with cgutils.for_range_slice(builder, four, whole, four, intp=_I64) as (line, _):
            for which in range(_SETS):
                add(builder.add(line, ir.Constant(_I64, which)), which)
        rest = builder.and_(self.lines, ir.Constant(_I64, _SETS - 1))
        for which in range(_SETS - 1):
            with builder.if_then(
                builder.icmp_unsigned(">", rest, ir.Constant(_I64, which)), likely=False
            ):
                add(builder.add(whole, ir.Constant(_I64, which)), which)

    # ---- the update ----

    def add(self, x: Any, a: Any, coefficient: Any, shrink: Any) -> None:
        """Write x ← x shrink + coefficient a, for the features; shrink may be None."""
        changed = self._changed(x, a, coefficient, shrink)

        def body(line: Any) -> None:
            for part in self.parts:
                if self.holds_features(line, part):
                    new = changed(line, part)
                    self.builder.store(new, self.place(x, line, part), align=8)

        self.each_line(body)

    def added(self, x: Any, a: Any, coefficient: Any, shrink: Any) -> Any:
        """Return x shrink + coefficient a for a row that is a vector."""
        changed = self._changed(x, a, coefficient, shrink)
        found = [
            changed(line, part) if self.holds_features(line, part) else self.load(x, line, part)
            for line in range(self.constant)
            for part in self.parts
        ]
        while len(found) > 1:
            if len(found) % 2:  # three lines, say: the rest is undefined, and cut off below
                found.append(ir.Constant(found[0].type, ir.Undefined))
            found = [_joined(self.builder, *found[k : k + 2]) for k in range(0, len(found), 2)]
        nothing = ir.Constant(found[0].type, ir.Undefined)
        return self.builder.shuffle_vector(found[0], nothing, order(list(range(x.type.count))))

    def _changed(self, x: Any, a: Any, coefficient: Any, shrink: Any) -> Callable[[Any, int], Any]:
        builder = self.builder
        step = spread(builder, coefficient, self.chunk)
        less = None if shrink is None else spread(builder, shrink, self.chunk)

        def changed(line: Any, part: int) -> Any:
            masked = isinstance(line, int) and line == 0 and part < HEAD
            old = self.load(x, line, part)
            if less is not None:
                old = builder.fmul(old, less)
            return fused(builder, step, self.load(a, line, part, masked), old)

        return changed


def _joined(builder: Any, one: Any, other: Any) -> Any:
    """Return two vectors as one."""
    return builder.shuffle_vector(one, other, order(list(range(2 * one.type.count))))


def _group(
    context: Any, row: Row, kinds: Any, arrays: Any, index: Any, count: int
) -> list[tuple[Any, Any]]:
    """Return the addresses of each walker's row and model.

    ``arrays`` are nodes, at and model. For walker w = index + lane, the row begins at
    ``nodes[at[w] * stride]``, and the model at ``model[w * stride]``.
    """
    builder, (nodes, at, model) = row.builder, arrays
    stride: Any = ir.Constant(_I64, row.constant * LINE)
    if row.constant <= 0:
        stride = builder.mul(row.lines, ir.Constant(_I64, LINE))
    walker = address(context, builder, kinds[1], at, index)
    own = address(context, builder, kinds[2], model, builder.mul(index, stride))
    found = []
    for lane in range(count):
        node = builder.load(builder.gep(walker, [ir.Constant(_I32, lane)]))
        theirs = address(context, builder, kinds[0], nodes, builder.mul(node, stride))
        found.append((theirs, builder.gep(own, [builder.mul(stride, ir.Constant(_I64, lane))])))
    return found


@intrinsic(prefer_literal=True)
def dots(
    typing: Any,
    nodes: Any,
    at: Any,
    model: Any,
    index: Any,
    lines: Any,
    width: Any,
    constant: Any,
    chunk: Any,
) -> Any:
    """Return, in lanes, the dot products of the models of a group with the rows where they are.

    Walker ``index + lane`` has the model ``model[(index + lane) * 8 lines]``, and its row begins at
    ``nodes[at[index + lane] * 8 lines]``.
    """
    count, unrolled, numbers = width.literal_value, constant.literal_value, chunk.literal_value
    lanes = VectorType(types.float64, count)

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        row = Row(builder, args[4], unrolled, numbers)
        pairs = _group(context, row, sig.args, args[:3], args[3], count)
        return totals_of(builder, [row.sums(a, x) for a, x in pairs])

    given = (nodes, at, model, types.uint64, types.uint64, width, constant, chunk)
    return lanes(*given), build


@intrinsic(prefer_literal=True)
def advance(
    typing: Any,
    nodes: Any,
    at: Any,
    model: Any,
    index: Any,
    coefficients: Any,
    shrinks: Any,
    lines: Any,
    ridge: Any,
    constant: Any,
    chunk: Any,
) -> Any:
    """Write x ← x shrink + coefficient a for each walker of a group; without RIDGE, shrink is 1."""
    count, unrolled, numbers = coefficients.count, constant.literal_value, chunk.literal_value
    shrinking = bool(ridge.literal_value)

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        row = Row(builder, args[6], unrolled, numbers)
        pairs = _group(context, row, sig.args, args[:3], args[3], count)
        for lane, (a, x) in enumerate(pairs):
            which = ir.Constant(_I32, lane)
            shrink = builder.extract_element(args[5], which) if shrinking else None
            row.add(x, a, builder.extract_element(args[4], which), shrink)
        return context.get_dummy_value()

    given = (nodes, at, model, types.uint64, coefficients, shrinks, types.uint64)
    return types.void(*given, ridge, constant, chunk), build


@intrinsic(prefer_literal=True)
def held_dot(typing: Any, nodes: Any, at: Any, model: Any, chunk: Any) -> Any:
    """Return, in one lane, the dot product of a model in registers with the row of node ``at``."""
    lines = model.count // LINE

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        row = Row(builder, None, lines, chunk.literal_value)
        theirs = _row_of(context, builder, sig.args[0], args[0], args[1], lines)
        return totals_of(builder, [row.sums(theirs, args[2])])

    return VectorType(types.float64, 1)(nodes, at, model, chunk), build


@intrinsic(prefer_literal=True)
def held_advance(
    typing: Any,
    nodes: Any,
    at: Any,
    model: Any,
    coefficient: Any,
    shrink: Any,
    ridge: Any,
    chunk: Any,
) -> Any:
    """Return x shrink + coefficient a for a model in registers; without RIDGE, shrink is 1."""
    lines = model.count // LINE

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        row = Row(builder, None, lines, chunk.literal_value)
        theirs = _row_of(context, builder, sig.args[0], args[0], args[1], lines)
        step, less = (builder.extract_element(lanes, ir.Constant(_I32, 0)) for lanes in args[3:5])
        return row.added(args[2], theirs, step, less if ridge.literal_value else None)

    return model(nodes, at, model, coefficient, shrink, ridge, chunk), build


def _row_of(context: Any, builder: Any, kind: Any, nodes: Any, at: Any, lines: int) -> Any:
    node = builder.extract_element(at, ir.Constant(_I32, 0))
    start = builder.mul(node, ir.Constant(_I64, lines * LINE))
    return address(context, builder, kind, nodes, start)


@intrinsic(prefer_literal=True)
def row_dot(
    typing: Any, rows: Any, a: Any, model: Any, x: Any, lines: Any, constant: Any, chunk: Any
) -> Any:
    """Return the four sums of the row at ``rows[a]`` and the model at ``model[x]``."""

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        row = Row(builder, args[4], constant.literal_value, chunk.literal_value)
        theirs = address(context, builder, sig.args[0], args[0], args[1])
        return row.dot(theirs, address(context, builder, sig.args[2], args[2], args[3]))

    given = (rows, types.uint64, model, types.uint64, types.uint64, constant, chunk)
    return VectorType(types.float64, 4)(*given), build


@intrinsic(prefer_literal=True)
def row_add(
    typing: Any,
    model: Any,
    x: Any,
    rows: Any,
    a: Any,
    coefficient: Any,
    shrink: Any,
    lines: Any,
    ridge: Any,
    constant: Any,
    chunk: Any,
) -> Any:
    """Write x ← x shrink + coefficient a for one row; without RIDGE, shrink is 1."""

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        row = Row(builder, args[6], constant.literal_value, chunk.literal_value)
        own = address(context, builder, sig.args[0], args[0], args[1])
        theirs = address(context, builder, sig.args[2], args[2], args[3])
        row.add(own, theirs, args[4], args[5] if ridge.literal_value else None)
        return context.get_dummy_value()

    real = types.float64
    given = (model, types.uint64, rows, types.uint64, real, real, types.uint64)
    return types.void(*given, ridge, constant, chunk), build


@intrinsic(prefer_literal=True)
def row_totals(typing: Any, array: Any, index: Any, rows: Any) -> Any:
    """Return the totals of ROWS rows of four sums from ``array[index]`` on, one per lane."""
    count = rows.literal_value

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        four = ir.VectorType(_DOUBLE, 4)
        first = address(context, builder, sig.args[0], args[0], args[1], four)
        return lane_totals(
            builder,
            [
                builder.load(builder.gep(first, [ir.Constant(_I32, row)]), align=8)
                for row in range(count)
            ],
        )

    return VectorType(types.float64, count)(array, types.uint64, rows), build


@intrinsic
def total_of(typing: Any, four: Any) -> Any:
    """Return the total of four sums that `row_dot` returned."""

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.extract_element(lane_totals(builder, [args[0]]), ir.Constant(_I32, 0))

    return types.float64(four), build


def totals_of(builder: Any, rows: list[list[Any]]) -> Any:
    """Return (0 + 1) + (2 + 3) of what `Row.sums` returned for each row, one per lane."""
    if len(rows[0]) == 1:
        return lane_totals(builder, [four for (four,) in rows])
    found = []
    for k in range(0, len(rows), 2):
        one, other = rows[k], rows[min(k + 1, len(rows) - 1)]
        low, high = (
            builder.fadd(*(builder.shuffle_vector(*both, order([j, j + 2])) for j in (0, 1)))
            for both in zip(one, other, strict=True)
        )
        found.append(builder.fadd(low, high))
    while len(found) > 1:
        found = [_joined(builder, *found[k : k + 2]) for k in range(0, len(found), 2)]
    if found[0].type.count == len(rows):
        return found[0]
    return builder.shuffle_vector(found[0], found[0], order(list(range(len(rows)))))


def lane_totals(builder: Any, rows: list[Any]) -> Any:
    """Return (0 + 1) + (2 + 3) of each row of four, one per lane.

    Two rows are added in pairs, then two pairs of rows: six shuffles for four rows.
    """

    def add(one: Any, other: Any, first: list[int], second: list[int]) -> Any:
        return builder.fadd(
            builder.shuffle_vector(one, other, order(first)),
            builder.shuffle_vector(one, other, order(second)),
        )

    pairs = [
        add(one, other, [0, 4, 2, 6], [1, 5, 3, 7])
        for one, other in zip(rows[::2], rows[1::2] + rows[-1:] * (len(rows) % 2), strict=True)
    ]
    if len(pairs) == 1:
        return add(pairs[0], pairs[0], list(range(len(rows))), [2 + k for k in range(len(rows))])
    fours = [
        add(one, other, [0, 1, 4, 5], [2, 3, 6, 7])
        for one, other in zip(pairs[::2], pairs[1::2], strict=True)
    ]
    while len(fours) > 1:
        fours = [
            _joined(builder, one, other) for one, other in zip(fours[::2], fours[1::2], strict=True)
        ]
    return fours[0]
