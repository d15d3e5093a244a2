"""Users' own compiled functions in the plain loop: a slope, an update or a decision, called by its
address.

The loop is compiled once and gets addresses, so it is not compiled again for a user's function.
Each function is wrapped into a C function that builds arrays from addresses, so that the user's
function gets plain numpy arrays. docs/extending.md describes the arguments of a twin.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import carray, njit, types  # type: ignore[attr-defined]
from numba.core.ccallback import CFunc
from numba.core.errors import NumbaError
from numba.core.sigutils import normalize_signature
from numba.extending import intrinsic

from levywalk.arrays import AnyArray, Bools, Ints
from levywalk.engine.kernels.compiling import shared_by_processes
from levywalk.engine.kernels.source import source_tag
from levywalk.engine.run_state import RunPlan, RunState
from levywalk.errors import InvalidParameter
from levywalk.memory import Kind, PerEdge, PerSample
from levywalk.remedy import python_or_command

_I64, _F64 = types.int64, types.float64
_ADDRESS = types.CPointer(_I64)
SLOPE = _F64(_F64, _F64)
UPDATE = types.void(_I64, _I64, _I64, _I64, _I64, _I64, _I64, _F64, _F64, _I64)
LINEAR = types.void(*[_I64] * 5, _F64, _I64, _F64, *[_I64] * 6, _F64, _F64, _I64)
DECIDE = _I64(*[_I64] * 4, _F64, *[_I64] * 12, types.uint64)
FIXED, BY_EDGE, BY_SAMPLE = 0, 1, 2  # where a node's part of an entry begins


class Twins(NamedTuple):
    """Addresses of compiled functions (0: built into the loop) and of the memory that they use."""

    slope: int
    update: int
    decide: int
    loss: Ints  # for updates that are given samples: the addresses of slope and curvature
    degrees: AnyArray  # per entry of the network's indices: the neighbour's degree …
    scores: AnyArray  # … and score, for a decision of the user's own
    own_scores: AnyArray
    came_from: Ints
    diverged_at: Ints
    small_messages: Ints
    token: Entries
    node: Entries
    asked: Ints  # which of the node's entries neighbours are asked for
    bad: Bools  # set if a decision returns a node that does not exist


class Entries(NamedTuple):
    """The layout of the entries of a memory.

    For each entry it contains its address, the bytes of a row and of a number, and the length of a
    node's part.
    """

    base: Ints
    row: Ints
    item: Ints
    length: Ints  # 0: by edge; by sample, the numbers of one
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
def call_linear(  # type: ignore[no-untyped-def]
    typingctx, address, a, b, c, d, e, f, g, h, i, j, k, m, n, o, p, q, r
):
    """Call the update that is given samples at an address; the arguments are those of `LINEAR`."""
    return _call(LINEAR)


@intrinsic
def call_decide(  # type: ignore[no-untyped-def]
    typingctx, address, a, b, c, d, e, f, g, h, i, j, k, m, n, o, p, q, r, s
):
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


def once(owner: Any, make: Callable[[], Any], method: str = "compiled") -> Any:
    """Return the C function of a method of a loss, an update or a walk.

    It is compiled once for all objects of a class with the same attributes, and again if an
    attribute has changed.
    """
    attributes = getattr(owner, "__dict__", {})
    key = (type(owner), method, _digest([attributes[name] for name in sorted(attributes)]))
    if key not in _made_before:
        _made_before[key] = make()
    return _made_before[key]


_made_before: dict[tuple[type, str, str], Any] = {}


def _digest(values: Sequence[Any]) -> str:
    """Return a hash of values; arrays count with all their numbers."""
    found = hashlib.sha256()
    for value in values:
        whole = value.tobytes() if isinstance(value, np.ndarray) else repr(value).encode()
        found.update(whole + b"\0")
    return found.hexdigest()


def compile_slope(slope: Callable[..., Any], whose: str) -> Any:
    """Return a loss's slope, or its curvature, as a C function."""
    source = """
def wrapper(z, y):
    return function(z, y)
"""
    return _compiled(SLOPE, *_made(source, slope), whose)


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
    return _compiled(UPDATE, *_made(source, update), f"Update.compiled of {plan.update.name}")


def compile_linear(update: Callable[..., Any], plan: RunPlan) -> Any:
    """Return an update's twin that is given samples as a C function."""
    source = f"""
def wrapper(model, dim, features, targets, count, smoothness, loss, ridge, drawn, n_drawn,
            token_at, token_length, node_at, node_length, weight, step_size, n):
    ta = carray(pointer_to(token_at, int64), ({_room(plan.update.token_memory)},))
    tl = carray(pointer_to(token_length, int64), ({_room(plan.update.token_memory)},))
    na = carray(pointer_to(node_at, int64), ({_room(plan.update.node_memory)},))
    nl = carray(pointer_to(node_length, int64), ({_room(plan.update.node_memory)},))
    function(
        carray(pointer_to(model, float64), (dim,)),
        carray(pointer_to(features, float64), (count, dim)),
        carray(pointer_to(targets, float64), (count,)),
        smoothness, loss, ridge,
        carray(pointer_to(drawn, int64), (n_drawn,)),
        {_arrays("ta", "tl", plan.update.token_memory)},
        {_arrays("na", "nl", plan.update.node_memory)},
        weight, step_size, n,
    )
"""
    whose = f"Update.compiled_linear of {plan.update.name}"
    return _compiled(LINEAR, *_made(source, update), whose)


def compile_several(update: Callable[..., Any], plan: RunPlan, outputs: int, columns: int) -> Any:
    """Return an update's twin for losses with several outputs as a C function.

    Targets have ``columns`` numbers per sample.
    """
    source = f"""
def wrapper(model, dim, features, targets, count, smoothness, loss, ridge, drawn, n_drawn,
            token_at, token_length, node_at, node_length, weight, step_size, n):
    ta = carray(pointer_to(token_at, int64), ({_room(plan.update.token_memory)},))
    tl = carray(pointer_to(token_length, int64), ({_room(plan.update.token_memory)},))
    na = carray(pointer_to(node_at, int64), ({_room(plan.update.node_memory)},))
    nl = carray(pointer_to(node_length, int64), ({_room(plan.update.node_memory)},))
    function(
        carray(pointer_to(model, float64), (dim,)),
        carray(pointer_to(features, float64), (count, dim // {outputs})),
        carray(pointer_to(targets, float64), (count * {columns},)),
        {outputs}, loss, ridge,
        carray(pointer_to(drawn, int64), (n_drawn,)),
        {_arrays("ta", "tl", plan.update.token_memory)},
        {_arrays("na", "nl", plan.update.node_memory)},
        weight, step_size, n,
    )
"""
    whose = f"Update.compiled_several of {plan.update.name}"
    return _compiled(LINEAR, *_made(source, update), whose)


def compile_decision(decide: Callable[..., Any], plan: RunPlan) -> Any:
    """Return a walk's twin as a C function.

    Its result contains the node in the lower 32 bits and the hops left in the upper 32 bits.
    """
    walk = plan.method.phases[0].walk
    asked = {name: walk.node_memory[name] for name in walk.asks_neighbours}
    everywhere = "".join(
        f"carray(pointer_to(aa[{i}], {np.dtype(kind.dtype).name}), (n,)), "
        for i, kind in enumerate(asked.values())
    )
    results = "to, left, questions" if asked else "to, left"
    source = f"""
def wrapper(node, came_from, hop, hops_left, score, degree, neighbours, degrees, scores,
            token_at, token_length, node_at, node_length, asked_at, n, step, messages, words):
    ta = carray(pointer_to(token_at, int64), ({_room(walk.token_memory)},))
    tl = carray(pointer_to(token_length, int64), ({_room(walk.token_memory)},))
    na = carray(pointer_to(node_at, int64), ({_room(walk.node_memory)},))
    nl = carray(pointer_to(node_length, int64), ({_room(walk.node_memory)},))
    aa = carray(pointer_to(asked_at, int64), ({_room(asked)},))
    {results} = function(
        node, came_from, hop, hops_left, score,
        carray(pointer_to(neighbours, uint32), (degree,)),
        carray(pointer_to(degrees, int64), (degree,)),
        carray(pointer_to(scores, float64), (degree,)),
        {_arrays("ta", "tl", walk.token_memory)},
        {_arrays("na", "nl", walk.node_memory)},
        {f"({everywhere}), step," if asked else ""}
        words,
    )
    {"carray(pointer_to(messages, int64), (1,))[0] += 2 * questions" if asked else ""}
    return int64(to) + (int64(left) << 32)
"""
    return _compiled(DECIDE, *_made(source, decide), f"Walk.compiled of {walk.name}")


def _room(declared: Any) -> int:
    return max(1, len(declared))


def _arrays(at: str, length: str, declared: Any) -> str:
    """Return the source of a tuple of arrays, one per entry."""
    entries = [
        f"carray(pointer_to({at}[{i}], {np.dtype(kind.dtype).name}), ({length}[{i}],))"
        for i, kind in enumerate(declared.values())
    ]
    return "(" + "".join(f"{entry}, " for entry in entries) + ")"


_TYPES = {
    name: getattr(types, name)
    for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
} | {"float32": types.float32, "float64": types.float64, "bool": types.boolean}


def _made(source: str, function: Callable[..., Any]) -> tuple[Callable[..., Any], bool]:
    """Return the wrapper of a twin, and whether its compiled code can be stored in a file.

    It is stored with the code of the file that contains the twin, under a hash of everything that
    the twin closes over.
    """
    twin = function if hasattr(function, "py_func") else njit(function)
    plain = twin.py_func
    cells = [cell.cell_contents for cell in plain.__closure__ or ()]
    known = all(isinstance(cell, _STORED) or _is_ours(cell) for cell in cells)
    code = plain.__code__
    tag = _digest(
        [
            source,
            code.co_code,
            code.co_consts,
            code.co_names,
            source_tag(),
            *("ours" if _is_ours(cell) else cell for cell in cells),
        ]
    )
    name = f"twin_{plain.__qualname__.replace('.<locals>', '').replace('.', '_')}"
    inner = source.replace("def wrapper(", f"def {name}(").replace("\n", "\n    ")
    inner = inner.replace("):\n", "):\n        TAG\n", 1)
    whole = f"def make(TAG):{inner}\n    return {name}\n"
    scope: dict[str, Any] = _TYPES | {"carray": carray, "pointer_to": pointer_to, "function": twin}
    scope["__name__"] = plain.__module__
    exec(compile(whole, code.co_filename, "exec"), scope)  # filled in from the declarations
    wrapper: Callable[..., Any] = scope["make"](tag)
    # Stored code names the module of the twin; a file that was loaded by its path is not found.
    ours = plain.__module__.startswith("levywalk.")
    return wrapper, ours and known and Path(code.co_filename).is_file()


_STORED = (bool, int, float, str, tuple, np.ndarray, np.generic)


def _is_ours(value: Any) -> bool:
    """Return whether a value is a compiled function of the package."""
    return str(getattr(getattr(value, "py_func", value), "__module__", "")).startswith("levywalk.")


def _compiled(signature: Any, wrapper: Callable[..., Any], stored: bool, whose: str) -> Any:
    try:
        found: Any = CFunc(wrapper, normalize_signature(signature), locals={}, options={})
        if stored:
            try:
                found.enable_caching()
                shared_by_processes(found)
            except RuntimeError as error:  # neither of numba's folders can be written to
                if "no locator" not in str(error):
                    raise
        found.compile()
        return found
    except NumbaError as error:
        reason = str(error).strip().splitlines()
        raise InvalidParameter(
            f"{whose} could not be compiled: {reason[0] if reason else error}; "
            + python_or_command(
                "backend='reference' runs without it", "without compiled() it runs in Python"
            )
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
            length, where = kind.size, BY_SAMPLE
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
        np.zeros(2, np.int64),
        np.empty(0, np.int64),
        none,
        none,
        state.came_from,
        state.diverged_at,
        state.small_messages,
        empty,
        empty,
        nothing,
        np.zeros(1, np.bool_),
    )
