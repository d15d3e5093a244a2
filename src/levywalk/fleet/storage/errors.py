"""Errors of a node's folder."""

from __future__ import annotations

from levywalk.errors import LevywalkError


class NodeStoreError(LevywalkError, OSError):
    """A node's folder cannot be read or written."""


class StoreInUse(NodeStoreError):
    """Another process runs the node of that folder."""


class StoreForeign(NodeStoreError):
    """The folder belongs to another run, or to another version of levywalk."""


class StoreDamaged(NodeStoreError):
    """Something in the folder was changed or lost. Nothing was written."""


class StoreRemoved(NodeStoreError):
    """The folder was removed or replaced while its node ran."""


class DiskFull(NodeStoreError):
    """There is no room on the disk.

    The store is unchanged and usable: make room and persist the same change again.
    """


class NoDescriptors(DiskFull):
    """The process has no file descriptor left for a model's file.

    As with a full disk, the store is unchanged and usable.
    """
