"""Traces as netCDF files; the content of a file is checked before it becomes a Trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5netcdf
import numpy as np

from levywalk import checks
from levywalk.arrays import AnyArray
from levywalk.errors import InvalidParameter, InvalidTrace
from levywalk.extras import needs
from levywalk.trace.hdf5 import read_hdf5, traces_come_from
from levywalk.trace.trace import Trace

if TYPE_CHECKING:
    import xarray as xr

Labelled = dict[str, tuple[tuple[str, ...], AnyArray]]  # arrays with their dimensions, by name

_FORMAT = "levywalk-trace-1"
_DIMS: dict[str, tuple[str, ...]] = {
    "distance2": ("replica", "checkpoint"),
    "excess_loss": ("replica", "checkpoint"),
    "loss": ("replica", "checkpoint"),
    "hops": ("replica", "checkpoint"),
    "transfers": ("replica", "checkpoint"),
    "bytes": ("replica", "checkpoint"),
    "small_messages": ("replica", "checkpoint"),
    "time": ("replica", "checkpoint"),
    "visits": ("replica", "node"),
    "walk": ("replica", "update"),
    "final_node": ("replica",),
    "model": ("replica", "coordinate"),
    "diverged_at": ("replica",),
    "switched_at": ("replica",),
    "target": ("node",),
    "optimum": ("coordinate",),
}
_STEP = ("checkpoint",)
_NAMES = "node_names"
_METRIC = "metric."  # begins the name of a metric
_METRIC_STEP = "metric_step"
_MEMORY = "memory."  # begins the name of what tokens and nodes remember
# Attributes with which other programs say that the stored numbers are not the values.
_PACKED = ("visits", "walk")
_OPTIONAL = {"visits", "walk", "optimum", "time"}
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
    """Return the trace as a labelled dataset; names of nodes are the coordinate ``node_name``."""
    with needs("frames", "Trace.to_xarray()", "xarray"):
        import xarray as xr

    arrays = {name.removeprefix(_METRIC): array for name, array in _labelled(trace).items()}
    step = arrays.pop("step")
    names = {} if trace.node_names is None else {"node_name": ("node", list(trace.node_names))}
    return xr.Dataset(arrays, coords={"step": step, **names}, attrs=_attributes(trace))


def _labelled(trace: Trace) -> Labelled:
    """Return what a trace holds, with the names of the dimensions."""
    present = {name: dims for name, dims in _DIMS.items() if getattr(trace, name) is not None}
    memory = {
        f"{_MEMORY}{name}": (("replica", *(f"{name}_{i}" for i in range(1, array.ndim))), array)
        for name, array in (trace.memory or {}).items()
    }
    metrics = {
        f"{_METRIC}{name}": (("replica", "checkpoint"), array)
        for name, array in trace.metrics.items()
    }
    return {
        "step": (_STEP, trace.step),
        **{name: (dims, getattr(trace, name)) for name, dims in present.items()},
        **metrics,
        **({_METRIC_STEP: (("evaluated",), trace.metric_step)} if metrics else {}),
        **memory,
    }


def _attributes(trace: Trace) -> dict[str, str]:
    return {"format": _FORMAT, "provenance": json.dumps(trace.provenance)}


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
    try:
        _write(partial, _labelled(trace) | _packed_names(trace), _attributes(trace))
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return path


def _packed_names(trace: Trace) -> Labelled:
    """Return the names of nodes as the bytes of a JSON list: files hold plain numbers alone."""
    if trace.node_names is None:
        return {}
    text = json.dumps(trace.node_names, ensure_ascii=False, separators=(",", ":"))
    return {_NAMES: ((f"{_NAMES}_byte",), np.frombuffer(text.encode("utf-8", "replace"), np.uint8))}


def _names(arrays: dict[str, AnyArray], nodes: int, path: Path) -> tuple[str, ...] | None:
    if _NAMES not in arrays:
        return None
    packed = arrays[_NAMES]
    try:
        if packed.dtype != np.uint8 or packed.ndim != 1:
            raise ValueError
        found = json.loads(packed.tobytes().decode("utf-8"))
        if len(found) != nodes or not all(isinstance(name, str) for name in found):
            raise ValueError
    except (TypeError, ValueError, RecursionError):
        raise InvalidTrace(
            f"{path}: the names of the nodes cannot be read; the file is damaged"
        ) from None
    return tuple(found)


def _write(path: Path, arrays: Labelled, attributes: dict[str, str]) -> None:
    sizes = {
        dim: size
        for dims, array in arrays.values()
        for dim, size in zip(dims, array.shape, strict=True)
    }
    with h5netcdf.File(path, "w") as file:
        file.dimensions = sizes
        file.attrs.update(attributes)
        for name, (dims, array) in arrays.items():
            packed = name in _PACKED and array.size
            packing = {"compression": "gzip", "compression_opts": 1} if packed else {}
            variable = file.create_variable(name, dims, array.dtype, **packing)
            if array.size:
                variable[...] = array
            if name != "step" and dims[-1:] == _STEP:
                variable.attrs["coordinates"] = "step"  # xarray shows the steps beside the values


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
    content = read_hdf5(path, ("format", "provenance"))
    if content.text["format"] != _FORMAT:
        raise InvalidTrace(
            f"{path} is a netCDF file but not a trace of format {_FORMAT!r}; {traces_come_from()}"
        )
    try:
        provenance = json.loads(content.text["provenance"] or "")
        str(provenance["design"]["name"])
        how = provenance.get(
            "loss", {"kind": "exact", "nodes": 0, "of": 0}
        )  # earlier files have exact losses only
        str(how["kind"]), int(how["nodes"]), int(how["of"])
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        raise InvalidTrace(f"{path} has no readable provenance; the file is damaged") from None
    arrays = content.arrays
    _check_shapes(arrays, path)
    remembered = {
        name.removeprefix(_MEMORY): array
        for name, array in arrays.items()
        if name.startswith(_MEMORY)
    }
    trace = Trace(
        **{name: _array(arrays, name, path) for name in ("step", *_DIMS)},
        provenance=provenance,
        memory=remembered or None,
        node_names=_names(arrays, len(arrays["target"]), path),
        **_metrics(arrays, provenance, path),
    )
    _check_contents(trace, path)
    return trace


def _metrics(arrays: dict[str, AnyArray], provenance: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return metrics and their steps; refuse those that no run writes."""
    found = {
        name.removeprefix(_METRIC): array
        for name, array in arrays.items()
        if name.startswith(_METRIC)
    }
    if not found:
        return {}
    told, where, step = provenance.get("metrics"), arrays.get(_METRIC_STEP), arrays["step"]
    possible = (
        isinstance(told, dict)
        and set(told) == set(found)
        and all(isinstance(one, dict) for one in told.values())
        and all(isinstance(one.get("higher_is_better"), bool) for one in told.values())
        and all(
            array.dtype.kind == "f" and array.shape == arrays["distance2"].shape
            for array in found.values()
        )
        and where is not None
        and where.ndim == 1
        and where.dtype.kind in "iu"
        and bool((np.diff(where.astype(np.int64)) > 0).all())
        and bool(np.isin(where, step).all())
    )
    if not possible or where is None:
        raise InvalidTrace(f"{path}: the metrics cannot be read; the file is damaged")
    values = {name: array.astype(np.float64, copy=False) for name, array in found.items()}
    return {"metrics": values, "metric_step": where.astype(np.int64)}


def _check_contents(trace: Trace, path: Path) -> None:
    """Refuse numbers that no run could have written."""
    n, step = len(trace.target), trace.step
    gaps = _gaps(trace)
    nodes: list[AnyArray] = [trace.final_node]
    if trace.walk is not None:
        nodes.append(trace.walk[~gaps])
    nowhere = trace.visits is None and trace.walk is None  # a model at every node: gossip
    least = -1 if nowhere else 0
    tokens = trace.provenance.get("tokens", 1)
    wrong = (
        not len(step)
        or step[0] < 0
        or (step[0] > 0 and not gaps.any())
        or (np.diff(step) <= 0).any()
        or any(((array < least) | (array >= n)).any() for array in nodes)
        or (trace.walk is not None and trace.walk.shape[1] != step[-1])
        or not isinstance(tokens, int)
        or (trace.visits is not None and _false_visits(trace, gaps, tokens))
        or not np.isfinite(trace.model).all()
        or not _possible_time(trace)
    )
    if wrong:
        raise InvalidTrace(
            f"{path} contradicts itself (steps, nodes, visits, time or models); the file is damaged"
        )


def _gaps(trace: Trace) -> AnyArray:
    """Return where a recorded walk has gaps: a fleet that has lost disks does not know all of its
    visits, and says at which steps (`levywalk fleet trace --missing mark`).
    """
    walk = np.zeros((len(trace.final_node), 0)) if trace.walk is None else trace.walk
    found: AnyArray = np.zeros(walk.shape, dtype=bool)
    about = trace.provenance.get("fleet")
    missing = about.get("missing") if isinstance(about, dict) else None
    if isinstance(missing, list) and all(type(one) is int for one in missing):
        found[:, [one for one in missing if 0 <= one < walk.shape[1]]] = True
        found &= walk == -1
    return found


def _false_visits(trace: Trace, gaps: AnyArray, tokens: int) -> bool:
    """Return whether the visits are not as many as the updates that are known."""
    assert trace.visits is not None
    known = tokens * trace.step[-1] - gaps.sum(axis=1)
    return bool((trace.visits.sum(axis=1) != known).any())


def _possible_time(trace: Trace) -> bool:
    """Return whether time is finite, begins at 0 and never runs backwards."""
    time = trace.time
    return time is None or bool(
        np.isfinite(time).all() and (time[:, :1] == 0).all() and (np.diff(time) >= 0).all()
    )


def _check_shapes(arrays: dict[str, AnyArray], path: Path) -> None:
    """Refuse arrays that are missing, or whose lengths along a dimension differ."""
    length: dict[str, int] = {}
    for name in ("step", *_DIMS):
        if name not in arrays:
            if name in _OPTIONAL:
                continue
            raise InvalidTrace(f"{path} lacks {name!r}; the file is damaged")
        array, dims = arrays[name], _DIMS.get(name, ("checkpoint",))
        alike = array.ndim == len(dims) and all(
            length.setdefault(dim, size) == size
            for dim, size in zip(dims, array.shape, strict=True)
        )
        kinds = "iu" if name in _WHOLE else "f"
        if not alike or array.dtype.kind not in kinds:
            raise InvalidTrace(
                f"{path}: {name!r} has shape {array.shape} and type {array.dtype}; the file is "
                "damaged"
            )
    for name, array in arrays.items():
        if name.startswith(_MEMORY) and array.shape[:1] != (length["replica"],):
            raise InvalidTrace(f"{path}: {name!r} has shape {array.shape}; the file is damaged")


def _array(arrays: dict[str, AnyArray], name: str, path: Path) -> Any:
    if name not in arrays:
        return None
    kind = np.int32 if name == "walk" else np.int64 if name in _WHOLE else np.float64
    array = arrays[name].astype(kind, copy=False)
    if name in _WHOLE and not np.array_equal(array, arrays[name]):
        raise InvalidTrace(f"{path}: {name!r} has numbers that no run writes; it is damaged")
    return array
