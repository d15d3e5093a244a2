"""Traces as netCDF files; the content of a file is checked before it becomes a Trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from levywalk import checks
from levywalk.arrays import AnyArray
from levywalk.errors import InvalidParameter, InvalidTrace
from levywalk.trace.trace import Trace

_FORMAT = "levywalk-trace-1"
_DIMS: dict[str, tuple[str, ...]] = {
    "distance2": ("replica", "checkpoint"),
    "excess_loss": ("replica", "checkpoint"),
    "loss": ("replica", "checkpoint"),
    "hops": ("replica", "checkpoint"),
    "transfers": ("replica", "checkpoint"),
    "bytes": ("replica", "checkpoint"),
    "small_messages": ("replica", "checkpoint"),
    "visits": ("replica", "node"),
    "walk": ("replica", "update"),
    "final_node": ("replica",),
    "model": ("replica", "coordinate"),
    "diverged_at": ("replica",),
    "switched_at": ("replica",),
    "target": ("node",),
    "optimum": ("coordinate",),
}
_MEMORY = "memory."  # begins the name of what tokens and nodes remember
_OPTIONAL = {"visits", "walk", "optimum"}
_WHOLE = {
    "step",
    "hops",
    "transfers",
    "bytes",
    "small_messages",
    "visits",
    "walk",
    "final_node",
    "diverged_at",
    "switched_at",
}


def to_xarray(trace: Trace) -> xr.Dataset:
    """Return the trace as a labelled dataset."""
    present = {name: dims for name, dims in _DIMS.items() if getattr(trace, name) is not None}
    memory = {
        f"{_MEMORY}{name}": (("replica", *(f"{name}_{i}" for i in range(1, array.ndim))), array)
        for name, array in (trace.memory or {}).items()
    }
    return xr.Dataset(
        {name: (dims, getattr(trace, name)) for name, dims in present.items()} | memory,
        coords={"step": (("checkpoint",), trace.step)},
        attrs={"format": _FORMAT, "provenance": json.dumps(trace.provenance)},
    )


def save_trace(trace: Trace, path: str | Path) -> Path:
    """Write a netCDF file; after an error there is no incomplete file."""
    path = Path(path)
    if not path.parent.is_dir():
        raise InvalidParameter(
            f"path must lie in a folder that exists, got {str(path)!r}; create "
            f"{str(path.parent)!r} first"
        )
    if path.is_dir():
        raise InvalidParameter(f"path must name a file, got the folder {str(path)!r}")
    partial = path.with_name(path.name + ".partial")
    dataset = to_xarray(trace)
    packing = {
        name: {"zlib": True, "complevel": 1}
        for name in ("visits", "walk")
        if name in dataset and dataset[name].size
    }
    try:
        dataset.to_netcdf(partial, engine="h5netcdf", encoding=packing)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return path


def load_trace(path: str | Path) -> Trace:
    """Read a trace that `Trace.save` wrote.

    Examples
    --------
    >>> import tempfile, pathlib, levywalk as lw
    >>> trace = lw.run(lw.ring(20), lw.homogeneous(20), lw.mhlj(), steps=100, step_size=0.01)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     again = lw.load_trace(trace.save(pathlib.Path(folder) / "trace.nc"))
    >>> bool((again.model == trace.model).all())
    True
    """
    path = checks.existing_file(path)
    try:
        with xr.open_dataset(path, engine="h5netcdf") as dataset:
            dataset.load()
    except Exception as error:  # a damaged file makes h5py and xarray raise anything
        raise InvalidTrace(
            f"{path} is not a trace: {error}; traces are written by Trace.save"
        ) from None
    if str(dataset.attrs.get("format")) != _FORMAT:
        raise InvalidTrace(
            f"{path} is a netCDF file but not a trace of format {_FORMAT!r}; traces are written by "
            f"Trace.save"
        )
    try:
        provenance = json.loads(dataset.attrs["provenance"])
        str(provenance["design"]["name"])
        how = provenance.get(
            "loss", {"kind": "exact", "nodes": 0, "of": 0}
        )  # earlier files have exact losses only
        str(how["kind"]), int(how["nodes"]), int(how["of"])
    except (KeyError, TypeError, ValueError):
        raise InvalidTrace(f"{path} has no readable provenance; the file is damaged") from None
    remembered = {
        str(name).removeprefix(_MEMORY): dataset[name].values
        for name in dataset
        if str(name).startswith(_MEMORY)
    }
    trace = Trace(
        **{name: _array(dataset, name, path) for name in ("step", *_DIMS)},
        provenance=provenance,
        memory=remembered or None,
    )
    _check_contents(trace, path)
    return trace


def _check_contents(trace: Trace, path: Path) -> None:
    """Refuse numbers that no run could have written."""
    n, step = len(trace.target), trace.step
    nodes: list[AnyArray] = (
        [trace.final_node] if trace.walk is None else [trace.final_node, trace.walk]
    )
    wrong = (
        not len(step)
        or step[0] != 0
        or (np.diff(step) <= 0).any()
        or any(((array < 0) | (array >= n)).any() for array in nodes)
        or (trace.walk is not None and trace.walk.shape[1] != step[-1])
        or (trace.visits is not None and (trace.visits.sum(axis=1) != step[-1]).any())
        or not np.isfinite(trace.model).all()
    )
    if wrong:
        raise InvalidTrace(
            f"{path} contradicts itself (steps, nodes, visits or models); the file is damaged"
        )


def _array(dataset: xr.Dataset, name: str, path: Path) -> Any:
    if name not in dataset:
        if name in _OPTIONAL:
            return None
        raise InvalidTrace(f"{path} lacks {name!r}; the file is damaged")
    values = dataset[name].values
    wanted = ("checkpoint",) if name == "step" else _DIMS[name]
    kinds = "iu" if name in _WHOLE else "f"
    if dataset[name].dims != wanted or values.dtype.kind not in kinds:
        raise InvalidTrace(
            f"{path}: {name!r} has dimensions {dataset[name].dims} and type {values.dtype}; the "
            f"file is damaged"
        )
    return np.asarray(
        values, dtype=np.int32 if name == "walk" else np.int64 if name in _WHOLE else np.float64
    )
