"""Users' own compiled functions in the plain loop: a slope, an update or a decision, called by its
address.

The loop is compiled once and gets addresses, so it is not compiled again for a user's function.
Each function is wrapped into a C function that builds arrays from addresses, so that the user's
function gets plain numpy arrays. docs/extending.md describes the arguments of a twin.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import carray, cfunc, njit, types  # type: ignore[attr-defined]
from numba.core.errors import NumbaError
from numba.extending import intrinsic

from levywalk.arrays import AnyArray, Bools, Ints
from levywalk.engine.run_state import RunPlan, RunState
from levywalk.errors import InvalidParameter
from levywalk.memory import Kind, PerEdge, PerSample

_I64, _F64 = types.int64, types.float64
_ADDRESS = types.CPointer(_I64)
SLOPE = _F64(_F64, _F64)
UPDATE = types.void(_I64, _I64, _I64, _I64, _I64, _I64, _I64, _F64, _F64, _I64)
DECIDE = _I64(
    _I64, _I64, _I64, _I64, _F64, _I64, _I64, _I64, _I64, _I64, _I64, _I64, _I64, types.uint64
)
_KEPT = "_levywalk_twin"  # where an object keeps its compiled function
FIXED, BY_EDGE, BY_SAMPLE = 0, 1, 2  # where a node's part of an entry begins


class Twins(NamedTuple):
    """Addresses of compiled functions (0: built into the loop) and of the memory that they use."""

    slope: int
    update: int
    decide: int
    degrees: AnyArray  # per entry of the network's indices: the neighbour's degree …
    scores: AnyArray  # … and score, for a decision of the user's own
    own_scores: AnyArray
    came_from: Ints
    diverged_at: Ints
    token: Entries
    node: Entries
    bad: Bools  # set if a decision returns a node that does not exist


class Entries(NamedTuple):
    """The layout of the entries of a memory.

    For each entry it contains its address, the bytes of a row and of a number, and the length of a
    node's part.
    """

    base: Ints
    row: Ints
    item: Ints
    length: Ints  # 0: by edge or by sample
    kind: Ints
    own: Ints  # [0]: the number of the update's entries; the walk's entries follow


@intrinsic
def call_slope(typingctx, address, z, y):  # type: ignore[no-untyped-def]
    """Call the slope at an address."""
    return _call(SLOPE)


@intrinsic
def call_update(typingctx, address, a, b, c, d, e, f, g, h, i, j):  # type: ignore[no-untyped-def]
    """Call the update at an address; the arguments are those of `UPDATE`."""
    return _call(UPDATE)


@intrinsic
def call_decide(typingctx, address, a, b, c, d, e, f, g, h, i, j, k, m, n, o):  # type: ignore[no-untyped-def]
    """Call the decision at an address; the arguments are those of `DECIDE`."""
    return _call(DECIDE)


def _call(signature):  # type: ignore[no-untyped-def]
    """Return the typing and the code of a call through an address."""
    wanted = signature.return_type(_I64, *signature.args)

    def codegen(context, builder, called, values):  # type: ignore[no-untyped-def]
        result = context.get_value_type(signature.return_type)
        kinds = [context.get_value_type(entry) for entry in signature.args]
        if signature.return_type is types.void:
            result = ir.VoidType()
        pointer = builder.inttoptr(values[0], ir.PointerType(ir.FunctionType(result, kinds)))
        found = builder.call(pointer, values[1:])
        return context.get_dummy_value() if signature.return_type is types.void else found

    return wanted, codegen


@intrinsic
def pointer_to(typingctx, address, dtype):  # type: ignore[no-untyped-def]
    """Return an address as a pointer to numbers of a type."""
    signature = types.CPointer(dtype.dtype)(address, dtype)

    def codegen(context, builder, called, values):  # type: ignore[no-untyped-def]
        return builder.inttoptr(values[0], context.get_value_type(called.return_type))

    return signature, codegen


def once(owner: Any, make: Callable[[], Any]) -> Any:
    """Return the C function of a loss, an update or a walk.

    It is compiled once for each object, and again if an attribute of the object has changed.
    """
    attributes = getattr(owner, "__dict__", None)
    if attributes is None:
        return make()
    now = repr([(key, attributes[key]) for key in sorted(attributes) if key != _KEPT])
    kept = attributes.get(_KEPT)
    if kept is None or kept[0] != now:
        kept = (now, make())
        object.__setattr__(owner, _KEPT, kept)
    return kept[1]


def compile_slope(slope: Callable[..., Any], name: str) -> Any:
    """Return a loss's slope as a C function."""
    function = slope if hasattr(slope, "py_func") else njit(slope)

    def wrapper(z, y):  # type: ignore[no-untyped-def]
        return function(z, y)

    return _compiled(SLOPE, wrapper, f"Loss.compiled of {name}")


def compile_update(update: Callable[..., Any], plan: RunPlan) -> Any:
    """Return an update's twin as a C function."""
    source = f"""
def wrapper(model, gradient, dim, token_at, token_length, node_at, node_length, \
weight, step_size, n):
    ta = carray(pointer_to(token_at, int64), ({_room(plan.update.token_memory)},))
    tl = carray(pointer_to(token_length, int64), ({_room(plan.update.token_memory)},))
    na = carray(pointer_to(node_at, int64), ({_room(plan.update.node_memory)},))
    nl = carray(pointer_to(node_length, int64), ({_room(plan.update.node_memory)},))
    function(
        carray(pointer_to(model, float64), (dim,)),
        carray(pointer_to(gradient, float64), (dim,)),
        {_arrays("ta", "tl", plan.update.token_memory)},
        {_arrays("na", "nl", plan.update.node_memory)},
        weight, step_size, n,
    )
"""
    return _compiled(UPDATE, _made(source, update), f"Update.compiled of {plan.update.name}")


def compile_decision(decide: Callable[..., Any], plan: RunPlan) -> Any:
    """Return a walk's twin as a C function.

    Its result contains the node in the lower 32 bits and the hops left in the upper 32 bits.
    """
    walk = plan.method.phases[0].walk
    source = f"""
def wrapper(node, came_from, hop, hops_left, score, degree, neighbours, degrees, scores,
            token_at, token_length, node_at, node_length, words):
    ta = carray(pointer_to(token_at, int64), ({_room(walk.token_memory)},))
    tl = carray(pointer_to(token_length, int64), ({_room(walk.token_memory)},))
    na = carray(pointer_to(node_at, int64), ({_room(walk.node_memory)},))
    nl = carray(pointer_to(node_length, int64), ({_room(walk.node_memory)},))
    to, left = function(
        node, came_from, hop, hops_left, score,
        carray(pointer_to(neighbours, uint32), (degree,)),
        carray(pointer_to(degrees, int64), (degree,)),
        carray(pointer_to(scores, float64), (degree,)),
        {_arrays("ta", "tl", walk.token_memory)},
        {_arrays("na", "nl", walk.node_memory)},
        words,
    )
    return int64(to) + (int64(left) << 32)
"""
    return _compiled(DECIDE, _made(source, decide), f"Walk.compiled of {walk.name}")


def _room(declared: Any) -> int:
    return max(1, len(declared))


def _arrays(at: str, length: str, declared: Any) -> str:
    """Return the source of a tuple of arrays, one per entry."""
    entries = [
        f"carray(pointer_to({at}[{i}], {np.dtype(kind.dtype).name}), ({length}[{i}],))"
        for i, kind in enumerate(declared.values())
    ]
    return "(" + "".join(f"{entry}, " for entry in entries) + ")"


def _made(source: str, function: Callable[..., Any]) -> Callable[..., Any]:
    names = {
        name: getattr(types, name)
        for name in ("int64", "float64", "uint32", "int32", "uint64", "float32")
    }
    names |= {
        "uint8": types.uint8,
        "int8": types.int8,
        "int16": types.int16,
        "uint16": types.uint16,
    }
    names |= {"bool": types.boolean}
    scope: dict[str, Any] = names | {"carray": carray, "pointer_to": pointer_to}
    scope["function"] = function if hasattr(function, "py_func") else njit(function)
    exec(source, scope)  # the source above, filled in from the declarations
    wrapper: Callable[..., Any] = scope["wrapper"]
    return wrapper


def _compiled(signature: Any, wrapper: Callable[..., Any], whose: str) -> Any:
    try:
        return cfunc(signature)(wrapper)
    except NumbaError as error:
        reason = str(error).strip().splitlines()
        raise InvalidParameter(
            f"{whose} could not be compiled: {reason[0] if reason else error}; backend='reference' "
            "runs without it"
        ) from error


def entries_of(
    plan: RunPlan, prefix: str, declared: dict[str, Kind], arrays: dict[str, AnyArray]
) -> list[list[int]]:
    """Return base, row, item, length and kind of every entry whose name begins with a prefix."""
    sizes = []
    dim = plan.problem.dim
    for name, kind in declared.items():
        if not name.startswith(prefix):
            continue
        array = arrays[name]
        if isinstance(kind, PerEdge):
            length, where = 0, BY_EDGE
        elif isinstance(kind, PerSample):
            length, where = 0, BY_SAMPLE
        else:
            from levywalk.memory import Sizes

            length, where = int(np.prod(kind.shape(Sizes(dim, 0, 0)), dtype=np.int64)), FIXED
        row = array.strides[0] if len(array) else 0
        sizes.append([array.ctypes.data, row, array.itemsize, length, where])
    return sizes


def entries(plan: RunPlan, declared: dict[str, Kind], arrays: dict[str, AnyArray]) -> Entries:
    """Return the entries of the update and then of the walk as the loop reads them."""
    update = entries_of(plan, "update.", declared, arrays)
    walk = entries_of(plan, "walk.", declared, arrays)
    table = np.array(update + walk, dtype=np.int64).reshape(-1, 5)
    columns = [np.ascontiguousarray(table[:, i]) for i in range(5)]
    base, row, item, length, kind = columns
    return Entries(base, row, item, length, kind, np.array([len(update)], dtype=np.int64))


def no_twins(state: RunState) -> Twins:
    """Return the twins of a plan that has no functions of the user's own."""
    nothing = np.empty(0, np.int64)
    empty = Entries(nothing, nothing, nothing, nothing, nothing, np.zeros(1, np.int64))
    none = np.empty(0)
    return Twins(
        *(0, 0, 0),
        np.empty(0, np.int64),
        none,
        none,
        state.came_from,
        state.diverged_at,
        empty,
        empty,
        np.zeros(1, np.bool_),
    )
