"""What can be wrong with a node's folder."""

from __future__ import annotations

from levywalk.errors import LevywalkError


class NodeStoreError(LevywalkError, OSError):
    """A node's folder cannot be read or written."""


class StoreInUse(NodeStoreError):
    """Another process runs the node of that folder."""


class StoreForeign(NodeStoreError):
    """The folder is of another run, or of a newer levywalk."""


class StoreDamaged(NodeStoreError):
    """Something in the folder is not as it was written. Nothing was changed."""


class DiskFull(NodeStoreError):
    """There was no room. The store holds what it held before, and can be used: make room and persist the same again."""
