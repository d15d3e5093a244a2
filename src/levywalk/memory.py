"""The memory of a method: named entries in the token (they travel) or at a node (they stay).

A walk or an update declares its memory in two dicts, ``token_memory`` and ``node_memory``, which
map a name to one of the kinds below. Everything else follows from the declaration: how much memory
a simulation needs, what a state file contains, and what a fleet writes into its manifest, its
messages and its files. The kinds and the arrays that follow from them are in one file, because they
have to agree.

===============  ======================  =====================================================
kind             where                   what
===============  ======================  =====================================================
`Number`         token and node          one number
`Like`           token and node          as many numbers as the model has
`Array`          token and node          an array of a fixed shape
`PerEdge`        node                    one number per neighbour, in the order of the view
`PerSample`      node                    one number per sample of the node, or ``size`` numbers
===============  ======================  =====================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from levywalk.arrays import AnyArray
from levywalk.errors import InvalidParameter

_KINDS = "iufb"  # integers, unsigned, floats, booleans: no objects and no strings


@dataclass(frozen=True)
class Number:
    """One number.

    Examples
    --------
    >>> Number(np.int64, initial=-1)
    Number(dtype=int64, initial=-1)
    """

    dtype: npt.DTypeLike = np.float64
    initial: float = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", _clean_dtype(self.dtype))

    def shape(self, sizes: Sizes) -> tuple[int, ...]:
        """Return () for a number."""
        return ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(dtype={np.dtype(self.dtype)}, initial={self.initial!r})"


@dataclass(frozen=True, repr=False)
class PerEdge(Number):
    """One number per neighbour of the node, in the order of `LocalView.neighbours`.

    Examples
    --------
    >>> PerEdge(np.int64).shape(Sizes(dim=3, degree=2, n_samples=1))
    (2,)
    """

    def shape(self, sizes: Sizes) -> tuple[int, ...]:
        """Return (degree,)."""
        return (sizes.degree,)


@dataclass(frozen=True, repr=False)
class PerSample(Number):
    """One number per sample of the node, or ``size`` numbers for each.

    Examples
    --------
    >>> PerSample().shape(Sizes(dim=3, degree=2, n_samples=5))
    (5,)
    >>> PerSample(size=3).shape(Sizes(dim=3, degree=2, n_samples=5))
    (5, 3)
    """

    size: int = 1

    def shape(self, sizes: Sizes) -> tuple[int, ...]:
        """Return (samples,), or (samples, size)."""
        return (sizes.n_samples,) if self.size == 1 else (sizes.n_samples, self.size)


class PerNode(Number):
    """One number at the node; another name for `Number` that can make a declaration clearer.

    Examples
    --------
    >>> PerNode(np.int64)
    PerNode(dtype=int64, initial=0)
    """


@dataclass(frozen=True)
class Like:
    """As many numbers as the model has.

    Examples
    --------
    >>> Like("model").shape(Sizes(dim=3, degree=2, n_samples=1))
    (3,)
    """

    what: str = "model"
    dtype: npt.DTypeLike = np.float64
    initial: float = 0

    def __post_init__(self) -> None:
        if self.what != "model":
            raise InvalidParameter(
                f"Like takes 'model', got {self.what!r}; use Array(shape) for another shape"
            )
        object.__setattr__(self, "dtype", _clean_dtype(self.dtype))

    def shape(self, sizes: Sizes) -> tuple[int, ...]:
        """Return (dim,)."""
        return (sizes.dim,)


@dataclass(frozen=True)
class Array:
    """An array of a fixed shape.

    Examples
    --------
    >>> Array((2, 3)).shape(Sizes(dim=5, degree=2, n_samples=1))
    (2, 3)
    """

    size: tuple[int, ...] | int
    dtype: npt.DTypeLike = np.float64
    initial: float = 0

    def __post_init__(self) -> None:
        size = (self.size,) if isinstance(self.size, int) else tuple(self.size)
        if not all(isinstance(length, int) and length >= 1 for length in size):
            raise InvalidParameter(
                f"Array takes a shape of integers of at least 1, got {self.size!r}"
            )
        object.__setattr__(self, "size", size)
        object.__setattr__(self, "dtype", _clean_dtype(self.dtype))

    def shape(self, sizes: Sizes) -> tuple[int, ...]:
        """Return the fixed shape."""
        assert isinstance(self.size, tuple)
        return self.size


Kind = Number | Like | Array


@dataclass(frozen=True, slots=True)
class Sizes:
    """The numbers that determine the size of an entry: those of the model and those of one node."""

    dim: int
    degree: int
    n_samples: int


def _clean_dtype(dtype: npt.DTypeLike) -> np.dtype[Any]:
    try:
        clean: np.dtype[Any] = np.dtype(dtype)
    except TypeError:
        raise InvalidParameter(
            f"dtype of a memory must be a numpy type such as np.float64, got {dtype!r}"
        ) from None
    if clean.kind not in _KINDS:
        raise InvalidParameter(f"dtype of a memory must be a number or a boolean, got {clean}")
    return clean.newbyteorder("=")


def check_declaration(owner: str, where: str, declared: Any) -> dict[str, Kind]:
    """Return a declaration as a dict of names to kinds; raise an error if it is not valid.

    Examples
    --------
    >>> check_declaration("Sag", "token_memory", {"sum": Like("model")})
    {'sum': Like(what='model', dtype=dtype('float64'), initial=0)}
    >>> check_declaration("Sag", "token_memory", {"uses": PerEdge()})
    Traceback (most recent call last):
    levywalk.errors.InvalidParameter: token_memory['uses'] of Sag must be Number, Like or Array, ...
    """
    if not isinstance(declared, Mapping):
        raise InvalidParameter(
            f"{where} of {owner} must be a dict of name to kind, got {declared!r}"
        )
    for name, kind in declared.items():
        if not isinstance(name, str) or not name.isidentifier():
            raise InvalidParameter(
                f"{where} of {owner} must have names such as 'sum' as keys, got {name!r}"
            )
        if not isinstance(kind, (Number, Like, Array)):
            raise InvalidParameter(
                f"{where}[{name!r}] of {owner} must be Number, Like, Array, PerEdge or PerSample, "
                f"got {kind!r}"
            )
        if where == "token_memory" and isinstance(kind, (PerEdge, PerSample)):
            raise InvalidParameter(
                f"{where}[{name!r}] of {owner} must be Number, Like or Array, got {kind!r}: "
                "nodes have different numbers of neighbours and samples, and the token visits all "
                "of them"
            )
    return dict(declared)


class Slots(MutableMapping[str, Any]):
    """Named entries with a fixed shape and type.

    Reading a number returns a Python number; reading an array returns the array itself, not a copy.

    Assigning copies the value into the entry, so its shape and type do not change.

    Examples
    --------
    >>> slots = Slots({"count": np.zeros((), np.int64), "sum": np.zeros(2)})
    >>> slots["count"] += 1
    >>> slots["sum"] += [0.5, 1.5]
    >>> slots["count"], slots["sum"]
    (1, array([0.5, 1.5]))
    """

    __slots__ = ("arrays",)

    def __init__(self, arrays: dict[str, AnyArray]) -> None:
        self.arrays = arrays

    def __getitem__(self, name: str) -> Any:
        array = self.arrays[name]
        return array if array.ndim else array.item()

    def __setitem__(self, name: str, value: Any) -> None:
        array = self.arrays.get(name)
        if array is None:
            known = ", ".join(self.arrays) or "nothing"
            raise InvalidParameter(
                f"memory has no entry {name!r}: declare it first; declared: {known}"
            )
        if value is array:  # in-place arithmetic has already changed the entry
            return
        if np.shape(value) != array.shape:
            raise InvalidParameter(
                f"memory {name!r} has the shape {array.shape}, got {np.shape(value)}"
            )
        if array.dtype.kind == "f":
            array[...] = value
        else:
            _assign_whole(array, name, value)

    def __delitem__(self, name: str) -> None:
        raise InvalidParameter(f"memory {name!r} cannot be deleted: it is declared")

    def __iter__(self) -> Iterator[str]:
        return iter(self.arrays)

    def __len__(self) -> int:
        return len(self.arrays)


def _assign_whole(array: AnyArray, name: str, value: Any) -> None:
    """Assign to an entry of integers or booleans; refuse what it would cut off, such as 0.5."""
    given = np.asarray(value)
    if given.dtype == array.dtype:
        array[...] = given
        return
    try:
        with np.errstate(invalid="ignore"):
            stored = given.real.astype(array.dtype)
    except (TypeError, ValueError, OverflowError):
        stored = None
    if stored is None or not np.array_equal(stored, given):
        raise InvalidParameter(
            f"memory {name!r} is declared as {array.dtype}, which cannot hold {value!r:.80}; "
            "declare it with dtype=np.float64, or with a larger integer type"
        )
    array[...] = stored


@dataclass(slots=True)
class Memory:
    """The memory of a method at one visit: ``token`` travels with the model, ``node`` stays here.

    Examples
    --------
    >>> memory = Memory(token=Slots({"steps": np.zeros((), np.int64)}), node=Slots({}))
    >>> memory.token["steps"] += 1
    >>> memory.token["steps"]
    1
    """

    token: Slots
    node: Slots


NO_MEMORY = Memory(Slots({}), Slots({}))


def token_arrays(declared: Mapping[str, Kind], dim: int) -> dict[str, AnyArray]:
    """Return the entries of a token's memory before the first step."""
    return memory_arrays(declared, Sizes(dim, 0, 0))


def memory_arrays(declared: Mapping[str, Kind], sizes: Sizes) -> dict[str, AnyArray]:
    """Return the entries of a memory of these sizes before the first step.

    Examples
    --------
    >>> memory_arrays({"uses": PerEdge(np.int64)}, Sizes(dim=3, degree=2, n_samples=1))
    {'uses': array([0, 0])}
    """
    return {
        name: np.full(kind.shape(sizes), kind.initial, kind.dtype)
        for name, kind in declared.items()
    }


def token_bytes(declared: Mapping[str, Kind], dim: int) -> int:
    """Return how many bytes a token's memory adds to every transfer.

    Examples
    --------
    >>> token_bytes({"sum": Like("model"), "previous": Number(np.int64)}, dim=10)
    88
    """
    sizes = Sizes(dim, 0, 0)
    return sum(
        np.dtype(kind.dtype).itemsize * math.prod(kind.shape(sizes)) for kind in declared.values()
    )


def parts(arrays: Mapping[str, AnyArray], prefix: str) -> dict[str, AnyArray]:
    """Return the entries whose names begin with a prefix; the prefix is removed from the names."""
    return {name[len(prefix) :]: array for name, array in arrays.items() if name.startswith(prefix)}


class NodeMemory:
    """The memory of all nodes in a simulation.

    Each entry is one array with one row per replica; a row contains the values of all nodes, one
    node after the other.

    Parameters
    ----------
    declared
        The declared entries of the walks and the update together: name to kind.
    replicas, dim
        The number of replicas and the number of the model's entries.
    degree, n_samples
        The degree and the number of samples of each node.

    Examples
    --------
    >>> memory = NodeMemory(
    ...     {"uses": PerEdge(np.int64)}, 2, 10, np.array([1, 2, 1]), np.array([1, 1, 1])
    ... )
    >>> memory.at(0, 1)["uses"] += 1
    >>> memory.arrays["uses"]
    array([[0, 1, 1, 0],
           [0, 0, 0, 0]])
    """

    def __init__(
        self,
        declared: Mapping[str, Kind],
        replicas: int,
        dim: int,
        degree: npt.NDArray[Any],
        n_samples: npt.NDArray[Any],
    ) -> None:
        self.declared = dict(declared)
        self.offsets: dict[str, npt.NDArray[np.int64] | int] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.arrays: dict[str, AnyArray] = {}
        for name, width, offsets, shape in _layout(self.declared, dim, degree, n_samples):
            self.offsets[name], self.shapes[name] = offsets, shape
            kind = self.declared[name]
            self.arrays[name] = np.full((replicas, width), kind.initial, kind.dtype)

    def at(self, replica: int, v: int) -> dict[str, AnyArray]:
        """Return one node's entries for one replica as views, so that changes are stored."""
        found = {}
        for name, array in self.arrays.items():
            offsets, shape = self.offsets[name], self.shapes[name]
            row = array[replica]
            if isinstance(offsets, int):
                entry = row[v * offsets : (v + 1) * offsets].reshape(shape)
            else:
                entry = row[offsets[v] : offsets[v + 1]].reshape(shape or -1)
            found[name] = entry
        return found


def node_memory_bytes(
    declared: Mapping[str, Kind], dim: int, degree: npt.NDArray[Any], n_samples: npt.NDArray[Any]
) -> int:
    """Return how many bytes the memory of all nodes takes per replica, before anything is
    allocated.

    Examples
    --------
    >>> node_memory_bytes({"gradient": Like("model")}, 10, np.array([2, 2, 2]), np.array([1, 1, 1]))
    240
    """
    itemsizes = {name: np.dtype(kind.dtype).itemsize for name, kind in declared.items()}
    return sum(
        width * itemsizes[name] for name, width, _, _ in _layout(declared, dim, degree, n_samples)
    )


def _layout(
    declared: Mapping[str, Kind], dim: int, degree: npt.NDArray[Any], n_samples: npt.NDArray[Any]
) -> Iterator[tuple[str, int, npt.NDArray[np.int64] | int, tuple[int, ...]]]:
    """Yield the layout of each entry.

    This is its name, the length of its row, where each node's part begins (or how long it is), and
    its shape.
    """
    n = len(degree)
    counts: dict[type, Callable[[], npt.NDArray[Any]]] = {
        PerEdge: lambda: degree,
        PerSample: lambda: n_samples,
    }
    for name, kind in declared.items():
        count = counts.get(type(kind))
        if count is not None:
            size = getattr(kind, "size", 1)
            offsets = np.concatenate([[0], np.cumsum(count()) * size]).astype(np.int64)
            yield name, int(offsets[-1]), offsets, () if size == 1 else (-1, size)
        else:
            shape = kind.shape(Sizes(dim, 0, 0))
            each = math.prod(shape)
            yield name, n * each, each, shape


def packed(arrays: Mapping[str, AnyArray], declared: Mapping[str, Kind]) -> AnyArray:
    """Return the entries of a token's memory as bytes, in the order of the declaration,
    little-endian.

    Examples
    --------
    >>> packed({"steps": np.array(3, np.int64)}, {"steps": Number(np.int64)}).tolist()
    [3, 0, 0, 0, 0, 0, 0, 0]
    """
    pieces = [
        np.ascontiguousarray(arrays[name], dtype=np.dtype(kind.dtype).newbyteorder("<")).tobytes()
        for name, kind in declared.items()
    ]
    return np.frombuffer(b"".join(pieces), np.uint8)


def unpacked(
    content: AnyArray, declared: Mapping[str, Kind], dim: int, sizes: Sizes | None = None
) -> dict[str, AnyArray]:
    """Return the entries of a token's memory from its bytes, as arrays that can be changed.

    With ``sizes`` they are those of one node's memory.

    Examples
    --------
    >>> declared = {"sum": Like("model"), "steps": Number(np.int64)}
    >>> unpacked(packed({"sum": np.ones(2), "steps": np.array(3)}, declared), declared, dim=2)
    {'sum': array([1., 1.]), 'steps': array(3)}
    """
    found, at, sizes = {}, 0, sizes or Sizes(dim, 0, 0)
    for name, kind in declared.items():
        shape, dtype = kind.shape(sizes), np.dtype(kind.dtype)
        size = dtype.itemsize * math.prod(shape)
        piece = content[at : at + size].tobytes()
        found[name] = np.frombuffer(piece, dtype.newbyteorder("<")).astype(dtype).reshape(shape)
        at += size
    return found
