"""Models as safetensors bytes: written without a copy, and checked and hashed while they are read.

A tensor is a header of `HEADER` bytes and its numbers. Name, type and shape determine the header
completely. So a header is compared and never parsed, and a hostile header can do no harm. A model
that is several named arrays has the header of its `TensorSchema` and the numbers of all of them.
"""

from __future__ import annotations

import hashlib
import json
import struct
import weakref
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from levywalk.arrays import AnyArray
from levywalk.errors import LevywalkError
from levywalk.fleet.protocol.schema import TensorSchema

HEADER = 128  # bytes before the numbers
INLINE = 1 << 16  # bytes; a larger tensor is stored and sent separately
CHUNK = 1 << 20  # bytes in one piece
_SHOWN = 300  # bytes of a wrong header in a message


class Malformed(LevywalkError, ValueError):
    """Bytes that no correct node of this run writes, or a value that cannot be written."""


def sealed_model(model: AnyArray) -> AnyArray:
    """Return the array made read-only: tokens share models, and their hashes are remembered."""
    model.flags.writeable = False
    return model


def check_writable(name: str, value: object, itemsize: int) -> None:
    """Refuse an array that tokens do not hold: they hold finite float64 (8 bytes an entry), or
    bytes (1).
    """
    dtype, kind = (
        (np.uint8, "bytes") if itemsize == 1 else (np.float64, "finite numbers of type float64")
    )
    if not (isinstance(value, np.ndarray) and value.dtype == dtype and value.ndim == 1):
        raise Malformed(f"a {name} of {kind} was expected, got {value!r}")
    if itemsize == 8 and not is_finite(value):
        raise Malformed(f"a {name} of {kind} was expected, got {value!r}")


_finite: dict[int, weakref.ref[AnyArray]] = {}  # arrays that cannot change and are finite, by `id`


def is_finite(value: AnyArray) -> bool:
    """Return whether all numbers are finite. That is remembered of an array that cannot change: a
    model is read, checked, written several times, and sent.
    """
    key = id(value)
    known = _finite.get(key)
    if known is not None and known() is value:
        return True
    if not np.isfinite(value).all():
        return False
    if not value.flags.writeable:
        _finite[key] = weakref.ref(value, lambda _: _finite.pop(key, None))
    return True


class Tensor(NamedTuple):
    """A named array that is to be written.

    Examples
    --------
    >>> tensor = Tensor("model", np.zeros(3))
    >>> tensor.size, b"".join(tensor.chunks())[8:57]
    (152, b'{"model":{"dtype":"F64","shape":[3],"data_offsets')
    """

    name: str
    array: AnyArray  # float64, or bytes
    schema: TensorSchema | None = None  # of a model that is several named arrays

    @property
    def nbytes(self) -> int:
        """The number of bytes after the header."""
        return self.array.nbytes if self.schema is None else self.schema.nbytes

    @property
    def header(self) -> bytes:
        """The bytes before the numbers."""
        if self.schema is not None:
            return self.schema.header
        return _header(self.name, len(self.array), self.array.itemsize)

    @property
    def size(self) -> int:
        """The number of bytes, with the header."""
        return len(self.header) + self.nbytes

    def content(self) -> memoryview:
        """Return the bytes after the header; for float64 without a copy."""
        if self.schema is None:
            return memoryview(self.array.data).cast("B")
        found = self.schema.encoded(self.array)
        if found is None:
            raise Malformed(f"a {self.name} that its type in the manifest cannot hold")
        return found.data

    def chunks(self) -> Iterator[bytes | memoryview]:
        """Yield its bytes in pieces."""
        yield self.header
        content = self.content()
        for at in range(0, len(content), CHUNK):
            yield content[at : at + CHUNK]

    def address(self) -> bytes:
        """Return the SHA-256 of its bytes. For a large read-only array it is computed once."""
        known = _addresses.get(self._key)
        if known is not None and known[0]() is self.array:
            return known[1]
        found = hashlib.sha256(self.header)
        found.update(self.content())
        return _remembered(self, found.digest())

    @property
    def _key(self) -> tuple[int, str, bool]:
        return id(self.array), self.name, self.schema is None


_WORTH_KEEPING = 1 << 12  # bytes; hashing a smaller array again is faster than remembering its hash
_addresses: dict[tuple[int, str, bool], tuple[weakref.ref[AnyArray], bytes]] = {}


def _remembered(tensor: Tensor, address: bytes) -> bytes:
    if tensor.array.nbytes > _WORTH_KEEPING and not tensor.array.flags.writeable:
        key = tensor._key
        _addresses[key] = (weakref.ref(tensor.array, lambda _: _addresses.pop(key, None)), address)
    return address


@lru_cache(maxsize=64)
def _header(name: str, dim: int, itemsize: int = 8) -> bytes:
    """Return the header of a tensor of this many floats, or bytes."""
    dtype = "F64" if itemsize == 8 else "U8"
    about = {name: {"dtype": dtype, "shape": [dim], "data_offsets": [0, itemsize * dim]}}
    text = json.dumps(about, separators=(",", ":")).encode()
    return struct.pack("<Q", HEADER - 8) + text.ljust(HEADER - 8)


class Incoming:
    """An array that arrives in pieces: the size is checked first, then every piece.

    Parameters
    ----------
    name, size
        The expected name, and the number of bytes in all.
    dim
        The expected number of floats; None to accept what the size says.
    hashed
        Whether to compute the hash for `done`.
    itemsize
        8 for numbers of type float64, 1 for bytes.
    schema
        The arrays of a model that is several of them.

    Examples
    --------
    >>> tensor = Tensor("model", np.array([1.0, 2.0]))
    >>> incoming = Incoming("model", tensor.size, dim=2)
    >>> for chunk in tensor.chunks():
    ...     incoming.take(chunk)
    >>> incoming.done(tensor.address())
    array([1., 2.])
    """

    def __init__(
        self,
        name: str,
        size: int,
        dim: int | None,
        *,
        hashed: bool = True,
        itemsize: int = 8,
        schema: TensorSchema | None = None,
    ) -> None:
        self._kind = "numbers of type float64" if itemsize == 8 else "bytes"
        self._schema = schema
        if schema is not None:
            if size != len(schema.header) + schema.nbytes:
                raise Malformed(
                    f"a {name} of {len(schema.header) + schema.nbytes} bytes, as the manifest says,"
                    f" was expected, got {size} bytes"
                )
            self._kind = "numbers of the manifest's type"
        elif (
            size < HEADER
            or (size - HEADER) % itemsize
            or (dim is not None and size != HEADER + itemsize * dim)
        ):
            expected = (
                "whole numbers"
                if dim is None
                else f"{HEADER + itemsize * dim} bytes, with {dim} {self._kind}"
            )
            raise Malformed(f"a {name} of {expected} was expected, got {size} bytes")
        self.name, self.size, self.at = name, size, 0
        self.array: AnyArray = np.empty(
            (size - HEADER) // itemsize if schema is None else schema.dim,
            np.float64 if itemsize == 8 else np.uint8,
        )
        self._expected = Tensor(name, self.array, schema).header
        self._head = bytearray(len(self._expected))
        raw = self.array if schema is None else np.empty(schema.nbytes, np.uint8)
        self._raw: AnyArray = raw.view(np.uint8)
        self._hash = hashlib.sha256() if hashed else None

    def take(self, chunk: bytes | memoryview) -> None:
        """Read the next piece."""
        if self.at + len(chunk) > self.size:
            raise Malformed(f"a {self.name} of {self.size} bytes is longer than announced")
        if self._hash is not None:
            self._hash.update(chunk)
        chunk, before = memoryview(chunk), len(self._head)
        if self.at < before:
            first = chunk[: before - self.at]
            self._head[self.at : self.at + len(first)] = first
            self.at += len(first)
            chunk = chunk[len(first) :]
            if self.at == before and self._head != self._expected:
                raise Malformed(
                    f"a {self.name} of {len(self.array)} {self._kind} was expected, got the header "
                    f"{bytes(self._head[8:]).strip()[:_SHOWN]!r}"
                )
        start = self.at - before
        self._raw.data[start : start + len(chunk)] = chunk
        self.at += len(chunk)

    def done(self, address: bytes | None = None) -> AnyArray:
        """Return the array.

        It must be complete and finite and, if an address is given, have that hash.
        """
        if self.at != self.size:
            raise Malformed(f"a {self.name} ends early: {self.at} of {self.size} bytes")
        found = None if self._hash is None else self._hash.digest()
        if address is not None and found != address:
            raise Malformed(f"a {self.name} does not have the announced hash")
        if self._schema is not None:
            self.array[:] = self._schema.decoded(self._raw)
        array = sealed_model(self.array)
        if array.itemsize == 8 and not is_finite(array):
            raise Malformed(f"a {self.name} contains NaN or infinity")
        if found is not None:
            _remembered(Tensor(self.name, array, self._schema), found)
        return array


def whole_array(
    name: str, data: bytes, dim: int | None, itemsize: int, schema: TensorSchema | None
) -> AnyArray:
    """Return an array that has arrived in one piece; see `Incoming`.

    Examples
    --------
    >>> whole_array("model", b"".join(Tensor("model", np.array([1.0, 2.0])).chunks()), 2, 8, None)
    array([1., 2.])
    """
    whole = schema is None and dim is not None and len(data) == HEADER + itemsize * dim
    if whole and dim is not None and data.startswith(_header(name, dim, itemsize)):
        # its bytes are used where they are
        array = np.frombuffer(data, np.float64 if itemsize == 8 else np.uint8, dim, HEADER)
        if itemsize == 1 or is_finite(array):
            return array
    incoming = Incoming(name, len(data), dim, hashed=False, itemsize=itemsize, schema=schema)
    incoming.take(data)
    return incoming.done()
