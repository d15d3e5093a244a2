"""Vectors of several numbers as one value, which numba lacks, to advance several walkers at once.

A value of type ``VectorType`` contains `count` numbers of one type. It is stored in one vector
register if the machine has registers of that width. It supports ``+ - * / & | ^ >> <<`` and
comparisons, lane by lane; a plain number on either side is used for all lanes. Therefore the same
source of `levywalk.engine.kernels.words.mix64` scrambles one word or eight. LLVM splits the vectors
for machines with shorter or no vector registers, and the results are the same to the bit: every
operation is rounded in the same way, in the order in which it is written.

====================================  ==============================================================
``load(array, i, COUNT)``             ``array[i : i + COUNT]``
``store(array, i, lanes)``            the reverse of `load`
``pick(array, at, i, lanes, m, k)``   ``array[lanes * m + k]``, where ``at[i]``, ``at[i + 1]``, … is
                                      a copy of the lanes in memory
``pick_two(array, at, i, lanes, m)``  ``array[lanes * m]`` and ``array[lanes * m + 1]``
``put(array, at, i, lanes)``          write lanes to ``array[at[i]]``, ``array[at[i + 1]]``, …
``choose(mask, a, b)``                a where the mask is true, b elsewhere
``which(mask)``                       the mask as an integer, bit j for lane j
``below(a, b)``                       a < b for integers below 2^63, which is cheaper than ``<``
``multiply_add(a, b, c)``             a b + c, rounded once; also of plain numbers
``real(lanes)``                       integers as floats
``bits``, ``from_bits``               the bits of floats as integers, and back
``only(lanes)``, ``single(number)``   the number of one lane, and one lane of a number
``settled(lane)``                     the same lane, computed here and not later
``forget()``                          read again what was read before; it writes no instruction
``prefetch(array, i)``                load the cache line of ``array[i]`` in advance
====================================  ==============================================================

COUNT is a constant of the compiled code. Indices are not checked.

All operations are in one file, because they share the type and its registration with numba.
"""

from __future__ import annotations

import operator
import platform
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

LINE = 8  # numbers in a cache line

_I1, _I8, _I32, _I64 = (ir.IntType(bits) for bits in (1, 8, 32, 64))
_LLVM = {types.uint64: _I64, types.float64: ir.DoubleType(), types.boolean: _I1}


class VectorType(types.Type):
    """Numba's type of several numbers."""

    def __init__(self, dtype: Any, count: int) -> None:
        self.dtype, self.count = dtype, count
        super().__init__(name=f"VectorType({dtype}, {count})")


@register_model(VectorType)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: VectorType) -> None:
        super().__init__(manager, kind, _vector(kind.dtype, kind.count))


def _vector(dtype: Any, count: int) -> ir.VectorType:
    return ir.VectorType(_LLVM[dtype], count)


def order(lanes: list[int]) -> ir.Constant:
    """Return the lanes that a shuffle takes, as a constant."""
    return ir.Constant(ir.VectorType(_I32, len(lanes)), lanes)


def spread(builder: Any, number: Any, count: int) -> Any:
    """Return a number in all lanes."""
    nothing = ir.Constant(ir.VectorType(number.type, count), ir.Undefined)
    one = builder.insert_element(nothing, number, ir.Constant(_I32, 0))
    return builder.shuffle_vector(one, nothing, order([0] * count))


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
    operator.eq: "==",
}


def _register(function: Any, of: dict[Any, Callable[[Any, Any, Any], Any]], mask: bool) -> None:
    """Define an operator for lanes in numba; ``of`` maps each supported type to its code."""

    def typed(self: Any, args: Any, kws: Any) -> Any:
        lanes = next((arg for arg in args if isinstance(arg, VectorType)), None)
        if lanes is None or len(args) != 2 or lanes.dtype not in of:
            return None
        result = VectorType(types.boolean, lanes.count) if mask else lanes
        return signature(
            result, *(arg if isinstance(arg, VectorType) else lanes.dtype for arg in args)
        )

    infer_global(function)(
        type(f"Lanes_{function.__name__}", (AbstractTemplate,), {"generic": typed})
    )

    def lowered(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        lanes = next(arg for arg in sig.args if isinstance(arg, VectorType))
        both = [
            value if isinstance(kind, VectorType) else spread(builder, value, lanes.count)
            for kind, value in zip(sig.args, args, strict=True)
        ]
        return of[lanes.dtype](builder, *both)

    for kinds in ((VectorType, VectorType), (VectorType, types.Number), (types.Number, VectorType)):
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


def address(
    context: Any, builder: Any, kind: Any, array: Any, index: Any, target: Any = None
) -> Any:
    """Return the address of ``array[index]``, as that of a ``target`` if one is given."""
    data = builder.gep(context.make_array(kind)(context, builder, array).data, [index])
    return data if target is None else builder.bitcast(data, target.as_pointer())


@intrinsic(prefer_literal=True)
def load(typing: Any, array: Any, index: Any, count: Any) -> Any:
    """Return ``array[index : index + COUNT]``."""
    lanes = VectorType(array.dtype, count.literal_value)

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        vector = _vector(lanes.dtype, lanes.count)
        return builder.load(
            address(context, builder, sig.args[0], args[0], args[1], vector), align=8
        )

    return lanes(array, types.uint64, count), build


@intrinsic
def store(typing: Any, array: Any, index: Any, lanes: Any) -> Any:
    """Write lanes to ``array[index : index + COUNT]``."""

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        place = address(context, builder, sig.args[0], args[0], args[1], args[2].type)
        builder.store(args[2], place, align=8)
        return context.get_dummy_value()

    return types.void(array, types.uint64, lanes), build


@intrinsic(prefer_literal=True)
def pick(typing: Any, array: Any, at: Any, index: Any, lanes: Any, times: Any, plus: Any) -> Any:
    """Return ``array[lanes * times + plus]``, where ``at[index]``, … is a copy of the lanes.

    Several lanes are read from the copy in memory, by loads of single numbers, since gather
    instructions are slow on many machines, and taking the lanes out of a register is slower still.
    Numbers of 32 bits become words.
    """
    found = VectorType(types.uint64 if array.dtype == types.uint32 else array.dtype, lanes.count)

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        vector = ir.Constant(_vector(found.dtype, found.count), ir.Undefined)
        first = address(context, builder, sig.args[1], args[1], args[2])
        for lane in range(found.count):
            which_lane = ir.Constant(_I32, lane)
            if found.count == 1:
                node = builder.extract_element(args[3], which_lane)
            else:  # atomic, so that LLVM does read from memory; it costs the same
                node = builder.load_atomic(builder.gep(first, [which_lane]), "monotonic", align=8)
            place = builder.add(builder.mul(node, args[4]), args[5])
            number = builder.load(address(context, builder, sig.args[0], args[0], place))
            if array.dtype == types.uint32:
                number = builder.zext(number, _I64)
            vector = builder.insert_element(vector, number, which_lane)
        return vector

    return found(array, at, types.uint64, lanes, types.uint64, types.uint64), build


@intrinsic(prefer_literal=True)
def pick_two(typing: Any, array: Any, at: Any, index: Any, lanes: Any, times: Any) -> Any:
    """Return ``array[lanes * times]`` and the numbers that follow them, as `pick` does.

    A load brings both numbers of a lane, so that half as many are needed. The copy of the lanes is
    read by ordinary loads, which `levywalk.engine.kernels.rows` makes as well: LLVM shares them.
    """
    found = VectorType(array.dtype, lanes.count)
    count = found.count

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        two = _vector(found.dtype, 2)
        first = address(context, builder, sig.args[1], args[1], args[2])
        pairs = []
        for lane in range(count):
            which_lane = ir.Constant(_I32, lane)
            if count == 1:
                node = builder.extract_element(args[3], which_lane)
            else:
                node = builder.load(builder.gep(first, [which_lane]))
            place = builder.mul(node, args[4])
            pairs.append(
                builder.load(address(context, builder, sig.args[0], args[0], place, two), align=8)
            )
        return context.make_tuple(
            builder, sig.return_type, [_every_second(builder, pairs, k) for k in (0, 1)]
        )

    return types.UniTuple(found, 2)(array, at, types.uint64, lanes, types.uint64), build


def _every_second(builder: Any, pairs: list[Any], k: int) -> Any:
    """Return number k of each pair, one per lane.

    Pairs 0 and 2, and 1 and 3, are joined first: then one shuffle within halves of a register takes
    the numbers of all four.
    """

    def taken(one: Any, other: Any, lanes: list[int]) -> Any:
        return builder.shuffle_vector(one, other, order(lanes))

    if len(pairs) == 1:
        return taken(pairs[0], pairs[0], [k])
    if len(pairs) == 2:
        return taken(pairs[0], pairs[1], [k, k + 2])
    fours = []
    for j in range(0, len(pairs), 4):
        even, odd = (taken(pairs[j + i], pairs[j + i + 2], [0, 1, 2, 3]) for i in (0, 1))
        fours.append(taken(even, odd, [k, k + 4, k + 2, k + 6]))
    return fours[0] if len(fours) == 1 else taken(fours[0], fours[1], list(range(8)))


@intrinsic
def put(typing: Any, array: Any, at: Any, index: Any, lanes: Any) -> Any:
    """Write each lane to ``array[at[index + lane]]``, straight from the register."""

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        first = address(context, builder, sig.args[1], args[1], args[2])
        for lane in range(lanes.count):
            which_lane = ir.Constant(_I32, lane)
            place = builder.load(builder.gep(first, [which_lane]))
            number = builder.extract_element(args[3], which_lane)
            builder.store(number, address(context, builder, sig.args[0], args[0], place))
        return context.get_dummy_value()

    return types.void(array, at, types.uint64, lanes), build


@intrinsic
def only(typing: Any, lanes: Any) -> Any:
    """Return the number of a single lane."""

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.extract_element(args[0], ir.Constant(_I32, 0))

    return lanes.dtype(lanes), build


@intrinsic
def single(typing: Any, number: Any) -> Any:
    """Return a number as a single lane."""

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return spread(builder, args[0], 1)

    return VectorType(number, 1)(number), build


@intrinsic
def settled(typing: Any, lane: Any) -> Any:
    """Return a single lane; the compiler must compute it before what is written after it.

    On other processors than x86-64 it may come later, which changes the speed alone.
    """

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        if platform.machine() not in ("x86_64", "AMD64"):
            return args[0]
        number = builder.extract_element(args[0], ir.Constant(_I32, 0))
        kind = ir.FunctionType(number.type, [number.type])
        nothing = ir.InlineAsm(kind, "", "=x,0", side_effect=True)
        return spread(builder, builder.call(nothing, [number]), 1)

    return lane(lane), build


@intrinsic
def forget(typing: Any) -> Any:
    """Let what was read from memory be read again, where the compiler would keep it.

    A group of walkers reads more numbers than there are registers. To keep them, the compiler
    writes them to memory and reads them from there, which is more work than to read them again.
    """

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [])
        builder.call(ir.InlineAsm(kind, "", "~{memory}", side_effect=True), [])
        return context.get_dummy_value()

    return types.void(), build


@intrinsic
def prefetch(typing: Any, array: Any, index: Any) -> Any:
    """Prefetch the cache line of ``array[index]``."""

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        byte = _I8.as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte, _I32, _I32, _I32])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        place = address(context, builder, sig.args[0], args[0], args[1], _I8)
        builder.call(
            function, [place, *(ir.Constant(_I32, value) for value in (0, 3, 1))]
        )  # to read, keep, data
        return context.get_dummy_value()

    return types.void(array, types.uint64), build


# ---- arithmetic ----------------------------------------------------------------------------------


@intrinsic
def choose(typing: Any, mask: Any, yes: Any, no: Any) -> Any:
    """Return ``yes`` where the mask is true, ``no`` elsewhere."""
    lanes = next(kind for kind in (yes, no) if isinstance(kind, VectorType))

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        both = [
            value if isinstance(kind, VectorType) else spread(builder, value, lanes.count)
            for kind, value in zip(sig.args[1:], args[1:], strict=True)
        ]
        return builder.select(args[0], *both)

    return lanes(
        mask, *(kind if isinstance(kind, VectorType) else lanes.dtype for kind in (yes, no))
    ), build


@intrinsic
def below(typing: Any, a: Any, b: Any) -> Any:
    """Return a < b for integers below 2^63; many machines compare only signed numbers in lanes."""
    lanes = next(kind for kind in (a, b) if isinstance(kind, VectorType))

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        both = [
            value if isinstance(kind, VectorType) else spread(builder, value, lanes.count)
            for kind, value in zip(sig.args, args, strict=True)
        ]
        return builder.icmp_signed("<", *both)

    given = [kind if isinstance(kind, VectorType) else lanes.dtype for kind in (a, b)]
    return VectorType(types.boolean, lanes.count)(*given), build


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


def fused(builder: Any, a: Any, b: Any, c: Any) -> Any:
    """Return a b + c, rounded once on every machine.

    Processors with AVX2, AVX-512 or NEON have an instruction for it. On others LLVM calls a
    function of the C library, which is slow and gives the same bits.
    """
    kind = a.type
    name = f"llvm.fma.v{kind.count}f64" if isinstance(kind, ir.VectorType) else "llvm.fma.f64"
    function = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(kind, [kind] * 3), name
    )
    return builder.call(function, [a, b, c])


@intrinsic
def multiply_add(typing: Any, a: Any, b: Any, c: Any) -> Any:
    """Return a b + c, rounded once; beside lanes, a plain number is used for all of them."""
    lanes = next((kind for kind in (a, b, c) if isinstance(kind, VectorType)), None)
    if lanes is None:

        def build_one(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            return fused(builder, *args)

        return types.float64(types.float64, types.float64, types.float64), build_one

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return fused(
            builder,
            *(
                value if isinstance(kind, VectorType) else spread(builder, value, lanes.count)
                for kind, value in zip(sig.args, args, strict=True)
            ),
        )

    return lanes(
        *(kind if isinstance(kind, VectorType) else lanes.dtype for kind in (a, b, c))
    ), build


def _bitwise(name: str, target: Any, build_one: Callable[[Any, Any, Any], Any]) -> Any:
    def typed(typing: Any, lanes: Any) -> Any:
        result = VectorType(target, lanes.count)

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
