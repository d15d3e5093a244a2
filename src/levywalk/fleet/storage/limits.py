"""The sizes that a run allows for what is read: from its disk, and from its neighbours."""

from __future__ import annotations

from typing import NamedTuple

from levywalk.fleet.protocol.schema import TensorSchema


class Limits(NamedTuple):
    """The sizes that the run's manifest allows. None: any size that fits the bytes is accepted."""

    dim: int | None = None
    phases: int | None = None
    memory: int | None = None  # bytes that travel with a model
    schema: TensorSchema | None = None  # of a model that is several named arrays


ANY = Limits()
