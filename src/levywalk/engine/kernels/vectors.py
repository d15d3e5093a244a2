"""Vectors of several numbers as one value, which numba lacks, to advance eight walkers at once.

A value of type ``Lanes`` contains `count` numbers of one type. It is stored in one vector register
if the machine has registers of that width. It supports ``+ - * / & | ^ >> <<`` and comparisons,
lane by lane; a plain number on either side is used for all lanes. Therefore the same source of
`levywalk.engine.kernels.words.mix64` scrambles one word or eight. LLVM splits the vectors for
machines with shorter or no vector registers, and the results are the same to the bit: every
operation is rounded separately, in the order in which it is written. The exception is
`multiply_add`, which is one instruction if the machine has it.

====================================  ==============================================================
``load(array, i, COUNT)``             ``array[i : i + COUNT]``
``load_tail(array, i, COUNT, FROM)``  the same, with zeros before lane FROM
``store(array, i, lanes)``            the reverse of `load`
``pick(array, at, i, COUNT, m, k)``   ``array[at[j] * m + k]`` for j = i, …, i + COUNT - 1, by loads
                                      of single numbers, since gather instructions are slow on many
                                      machines
``choose(mask, a, b)``                a where the mask is true, b elsewhere
``which(mask)``                       the mask as an integer, bit j for lane j
``row_sums(array, i, ROWS)``          the sums of ROWS rows of eight, each in the same order
``multiply_add(a, b, c)``             a b + c
``real(lanes)``                       integers as floats
``bits``, ``from_bits``               the bits of floats as integers, and back
``multiply_high(a, b)``               the upper 64 bits of a product of two numbers (not lanes)
``prefetch(array, i)``                load the cache line of ``array[i]`` in advance
====================================  ==============================================================

COUNT, ROWS and FROM are constants of the compiled code. Indices are not checked.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import extending, types
from numba.core import cgutils
from numba.core.datamodel import models
from numba.core.typing.templates import AbstractTemplate, infer_global, signature

# numba's own tools have no types worth checking against
intrinsic: Any = extending.intrinsic
lower_builtin: Any = extending.lower_builtin
register_model: Any = extending.register_model

LINE = 8  # numbers in a cache line, and in the rows that `row_sums` adds up

_I1, _I8, _I32, _I64, _I128 = (ir.IntType(bits) for bits in (1, 8, 32, 64, 128))
_LLVM = {types.uint64: _I64, types.float64: ir.DoubleType(), types.boolean: _I1}


class Lanes(types.Type):
    """Numba's type of several numbers."""

    def __init__(self, dtype: Any, count: int) -> None:
        self.dtype, self.count = dtype, count
        super().__init__(name=f"Lanes({dtype}, {count})")


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Lanes) -> None:
        super().__init__(manager, kind, _vector(kind.dtype, kind.count))


def _vector(dtype: Any, count: int) -> ir.VectorType:
    return ir.VectorType(_LLVM[dtype], count)


def _order(order: list[int]) -> ir.Constant:
    return ir.Constant(ir.VectorType(_I32, len(order)), order)


def _spread(builder: Any, number: Any, count: int) -> Any:
    """Return a number in all lanes."""
    nothing = ir.Constant(ir.VectorType(number.type, count), ir.Undefined)
    one = builder.insert_element(nothing, number, ir.Constant(_I32, 0))
    return builder.shuffle_vector(one, nothing, _order([0] * count))


# ---- operators -----------------------------------------------------------------------------------

_ARITHMETIC: dict[Any, dict[Any, str]] = {
    types.uint64: {
        operator.add: "add",
        operator.sub: "sub",
        operator.mul: "mul",
        operator.and_: "and_",
        operator.or_: "or_",
        operator.xor: "xor",
        operator.rshift: "lshr",
        operator.lshift: "shl",
    },
    types.float64: {
        operator.add: "fadd",
        operator.sub: "fsub",
        operator.mul: "fmul",
        operator.truediv: "fdiv",
    },
    types.boolean: {operator.and_: "and_", operator.or_: "or_"},
}
_COMPARISON = {
    operator.lt: "<",
    operator.le: "<=",
    operator.gt: ">",
    operator.ge: ">=",
    operator.ne: "!=",
}


def _register(function: Any, of: dict[Any, Callable[[Any, Any, Any], Any]], mask: bool) -> None:
    """Define an operator for lanes in numba; ``of`` maps each supported type to its code."""

    def typed(self: Any, args: Any, kws: Any) -> Any:
        lanes = next((arg for arg in args if isinstance(arg, Lanes)), None)
        if lanes is None or len(args) != 2 or lanes.dtype not in of:
            return None
        result = Lanes(types.boolean, lanes.count) if mask else lanes
        return signature(result, *(arg if isinstance(arg, Lanes) else lanes.dtype for arg in args))

    infer_global(function)(
        type(f"Lanes_{function.__name__}", (AbstractTemplate,), {"generic": typed})
    )

    def lowered(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        lanes = next(arg for arg in sig.args if isinstance(arg, Lanes))
        both = [
            value if isinstance(kind, Lanes) else _spread(builder, value, lanes.count)
            for kind, value in zip(sig.args, args, strict=True)
        ]
        return of[lanes.dtype](builder, *both)

    for kinds in ((Lanes, Lanes), (Lanes, types.Number), (types.Number, Lanes)):
        lower_builtin(function, *kinds)(lowered)


def _named(name: str) -> Callable[[Any, Any, Any], Any]:
    return lambda builder, a, b: getattr(builder, name)(a, b)


def _compared(sign: str) -> dict[Any, Callable[[Any, Any, Any], Any]]:
    return {
        types.uint64: lambda builder, a, b: builder.icmp_unsigned(sign, a, b),
        types.float64: lambda builder, a, b: builder.fcmp_ordered(sign, a, b),
    }


for _function in {function for names in _ARITHMETIC.values() for function in names}:
    _register(
        _function,
        {
            dtype: _named(names[_function])
            for dtype, names in _ARITHMETIC.items()
            if _function in names
        },
        mask=False,
    )
for _function, _sign in _COMPARISON.items():
    _register(_function, _compared(_sign), mask=True)


# ---- memory --------------------------------------------------------------------------------------


def _address(
    context: Any, builder: Any, kind: Any, array: Any, index: Any, target: Any = None
) -> Any:
    data = builder.gep(context.make_array(kind)(context, builder, array).data, [index])
    return data if target is None else builder.bitcast(data, target.as_pointer())


@intrinsic(prefer_literal=True)
def load(typing: Any, array: Any, index: Any, count: Any) -> Any:
    """Return ``array[index : index + COUNT]``."""
    lanes = Lanes(array.dtype, count.literal_value)

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        vector = _vector(lanes.dtype, lanes.count)
        return builder.load(
            _address(context, builder, sig.args[0], args[0], args[1], vector), align=8
        )

    return lanes(array, types.uint64, count), build


@intrinsic(prefer_literal=True)
def load_tail(typing: Any, array: Any, index: Any, count: Any, start: Any) -> Any:
    """Return ``array[index : index + COUNT]`` with zeros before lane START."""
    lanes, first = Lanes(array.dtype, count.literal_value), start.literal_value

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        vector = _vector(lanes.dtype, lanes.count)
        mask = ir.VectorType(_I1, lanes.count)
        kind = ir.FunctionType(vector, [vector.as_pointer(), _I32, mask, vector])
        function = cgutils.get_or_insert_function(
            builder.module, kind, f"llvm.masked.load.v{lanes.count}f64.p0"
        )
        place = _address(context, builder, sig.args[0], args[0], args[1], vector)
        keep = ir.Constant(mask, [int(lane >= first) for lane in range(lanes.count)])
        return builder.call(
            function, [place, ir.Constant(_I32, 8), keep, ir.Constant(vector, None)]
        )

    return lanes(array, types.uint64, count, start), build


@intrinsic
def store(typing: Any, array: Any, index: Any, lanes: Any) -> Any:
    """Write lanes to ``array[index : index + COUNT]``."""

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        place = _address(context, builder, sig.args[0], args[0], args[1], args[2].type)
        builder.store(args[2], place, align=8)
        return context.get_dummy_value()

    return types.void(array, types.uint64, lanes), build


@intrinsic(prefer_literal=True)
def pick(typing: Any, array: Any, at: Any, index: Any, count: Any, times: Any, plus: Any) -> Any:
    """Return ``array[at[j] * times + plus]`` for j = index, …, index + COUNT - 1."""
    lanes = Lanes(array.dtype, count.literal_value)

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        vector = ir.Constant(_vector(lanes.dtype, lanes.count), ir.Undefined)
        first = _address(context, builder, sig.args[1], args[1], args[2])
        for lane in range(lanes.count):
            node = builder.load(builder.gep(first, [ir.Constant(_I32, lane)]))
            place = builder.add(builder.mul(node, args[4]), args[5])
            number = builder.load(_address(context, builder, sig.args[0], args[0], place))
            vector = builder.insert_element(vector, number, ir.Constant(_I32, lane))
        return vector

    return lanes(array, at, types.uint64, count, types.uint64, types.uint64), build


@intrinsic
def prefetch(typing: Any, array: Any, index: Any) -> Any:
    """Prefetch the cache line of ``array[index]``."""

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        byte = _I8.as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte, _I32, _I32, _I32])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        place = _address(context, builder, sig.args[0], args[0], args[1], _I8)
        builder.call(
            function, [place, *(ir.Constant(_I32, value) for value in (0, 3, 1))]
        )  # to read, keep, data
        return context.get_dummy_value()

    return types.void(array, types.uint64), build


# ---- arithmetic ----------------------------------------------------------------------------------


@intrinsic
def choose(typing: Any, mask: Any, yes: Any, no: Any) -> Any:
    """Return ``yes`` where the mask is true, ``no`` elsewhere."""
    lanes = next(kind for kind in (yes, no) if isinstance(kind, Lanes))

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        both = [
            value if isinstance(kind, Lanes) else _spread(builder, value, lanes.count)
            for kind, value in zip(sig.args[1:], args[1:], strict=True)
        ]
        return builder.select(args[0], *both)

    return lanes(
        mask, *(kind if isinstance(kind, Lanes) else lanes.dtype for kind in (yes, no))
    ), build


@intrinsic
def which(typing: Any, mask: Any) -> Any:
    """Return the mask as an integer: bit j is lane j."""

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.zext(builder.bitcast(args[0], ir.IntType(mask.count)), _I64)

    return types.uint64(mask), build


@intrinsic
def lowest(typing: Any, number: Any) -> Any:
    """Return the position of the lowest bit that is set."""

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(_I1, 1))

    return types.uint64(types.uint64), build


@intrinsic
def multiply_add(typing: Any, a: Any, b: Any, c: Any) -> Any:
    """Return a b + c, fused if the machine supports it; a plain number is used for all lanes."""
    lanes = next(kind for kind in (a, b, c) if isinstance(kind, Lanes))

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        x, y, z = (
            value if isinstance(kind, Lanes) else _spread(builder, value, lanes.count)
            for kind, value in zip(sig.args, args, strict=True)
        )
        return builder.fadd(builder.fmul(x, y, flags=("contract",)), z, flags=("contract",))

    return lanes(*(kind if isinstance(kind, Lanes) else lanes.dtype for kind in (a, b, c))), build


@intrinsic(prefer_literal=True)
def row_sums(typing: Any, array: Any, index: Any, rows: Any) -> Any:
    """Return the sums of ROWS rows of eight numbers from ``array[index]`` on, one per lane.

    Each sum is ((a0 + a1) + (a2 + a3)) + ((a4 + a5) + (a6 + a7)), for any number of rows. Eight
    rows take 14 shuffles and 7 additions: adjacent numbers of two rows are added into one row,
    three times in succession.
    """
    count = rows.literal_value
    lanes = Lanes(types.float64, count)

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        line = _vector(types.float64, LINE)
        first = _address(context, builder, sig.args[0], args[0], args[1], line)
        values = [
            builder.load(builder.gep(first, [ir.Constant(_I32, row)]), align=8)
            for row in range(count)
        ]
        for _ in range(3):  # 8 partial sums of each row, then 4, 2, and 1
            values = [_add_neighbours(builder, values[i : i + 2]) for i in range(0, len(values), 2)]
        (sums,) = values
        nothing = ir.Constant(sums.type, ir.Undefined)
        return builder.shuffle_vector(sums, nothing, _order(list(range(count))))

    return lanes(array, types.uint64, rows), build


def _add_neighbours(builder: Any, pair: list[Any]) -> Any:
    """Add lanes 0 and 1, 2 and 3, … of one or two vectors into one."""
    one, other = pair[0], pair[-1]
    even, odd = [list(range(start, LINE, 2)) for start in (0, 1)]
    low = builder.shuffle_vector(one, other, _order(even + [LINE + lane for lane in even]))
    high = builder.shuffle_vector(one, other, _order(odd + [LINE + lane for lane in odd]))
    return builder.fadd(low, high)


def _bitwise(name: str, target: Any, build_one: Callable[[Any, Any, Any], Any]) -> Any:
    def typed(typing: Any, lanes: Any) -> Any:
        result = Lanes(target, lanes.count)

        def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            return build_one(builder, args[0], _vector(target, lanes.count))

        return result(lanes), build

    typed.__name__ = typed.__qualname__ = name
    return intrinsic(typed)


real = _bitwise("real", types.float64, lambda builder, value, to: builder.uitofp(value, to))
bits = _bitwise("bits", types.uint64, lambda builder, value, to: builder.bitcast(value, to))
from_bits = _bitwise(
    "from_bits", types.float64, lambda builder, value, to: builder.bitcast(value, to)
)


@intrinsic
def multiply_high(typing: Any, a: Any, b: Any) -> Any:
    """Return the upper 64 bits of the product of two words."""

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        product = builder.mul(*(builder.zext(value, _I128) for value in args))
        return builder.trunc(builder.lshr(product, ir.Constant(_I128, 64)), _I64)

    return types.uint64(types.uint64, types.uint64), build
