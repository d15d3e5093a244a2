"""A trace's numbers by hand-made curves and naive loops; its files, whole, damaged and hostile."""

from __future__ import annotations

import dataclasses
import itertools
import json

import h5netcdf
import h5py
import numpy as np
import pytest
import xarray as xr

import levywalk as lw

NETWORK, PROBLEM = lw.ring(12), lw.homogeneous(12, dim=3)
ARRAYS = [
    field.name
    for field in dataclasses.fields(lw.Trace)
    if field.name not in ("provenance", "memory", "metrics")
]


@pytest.fixture(scope="module")
def trace():
    return lw.run(
        NETWORK,
        PROBLEM,
        lw.mhlj(),
        steps=120,
        step_size="theory",
        replicas=3,
        record_every=30,
        record_walk=True,
    )


def made(distance2, step=None, **changes):
    """A trace with the given distances, the rest plausible."""
    distance2 = np.asarray(distance2, dtype=float)
    count, points = distance2.shape
    step = np.arange(points) * 10 if step is None else np.asarray(step)
    whole = np.tile(step, (count, 1))
    values = {
        "step": step,
        "distance2": distance2,
        "excess_loss": distance2 / 2,
        "loss": distance2 / 2 + 1,
        "hops": whole,
        "transfers": whole,
        "bytes": whole * 24,
        "small_messages": whole * 0,
        "visits": None,
        "walk": None,
        "final_node": np.zeros(count, np.int64),
        "model": np.zeros((count, 3)),
        "diverged_at": np.full(count, -1),
        "switched_at": np.full(count, -1),
        "target": np.full(4, 0.25),
        "optimum": np.zeros(3),
        "provenance": {"design": {"name": "made"}},
    }
    return lw.Trace(**(values | changes))


@pytest.mark.parametrize(
    ("curves", "accuracy", "expected"),
    [
        ([[8.0, 4.0, 2.0, 1.0]], 0.5, 10.0),  # at the accuracy counts as reached
        ([[8.0, 4.0, 2.0, 1.0]], 0.49, 20.0),
        ([[8.0, 0.8, 8.0, 0.8]], 0.2, 30.0),  # left again, so the first time does not count
        ([[8.0, 0.8, 0.8, 8.0]], 0.2, np.inf),
        ([[8.0, 4.0, 2.0, 1.0]], 0.1, np.inf),
        ([[8.0, 4.0]], 1.0, 0.0),
        (
            [[8.0, 0.0, 0.0], [2.0, 2.0, 0.0]],
            0.5,
            10.0,
        ),  # each walk over its own start: errors 0 and 1, mean 0.5
        ([[1.0, 0.1, 0.1], [1.0, 0.1, np.inf]], 0.5, np.inf),  # one diverged walk is not dropped
        ([[1.0, np.inf, 0.1], [1.0, 0.1, 0.1]], 0.5, 20.0),
    ],
)
def test_steps_to_is_the_first_checkpoint_after_which_the_mean_stays(curves, accuracy, expected):
    assert made(curves).steps_to(accuracy) == expected


def test_the_error_is_relative_to_each_walks_own_start():
    assert made([[8.0, 4.0], [2.0, 0.5]]).error.tolist() == [[1.0, 0.5], [1.0, 0.25]]


@pytest.mark.parametrize("first", [0.0, np.nan, np.inf])
def test_a_relative_error_without_a_start_is_refused(first):
    with pytest.raises(lw.InvalidParameter, match="relative error is undefined"):
        _ = made([[first, 1.0]]).error


def test_a_huge_relative_error_is_infinite_without_a_warning():
    assert made([[1e-300, 1e300]]).error.tolist() == [[1.0, np.inf]]


@pytest.mark.parametrize("accuracy", [0, -1, float("nan"), "small", None])
def test_a_bad_accuracy_is_named(accuracy):
    with pytest.raises(lw.InvalidParameter, match="accuracy"):
        made([[1.0, 0.5]]).steps_to(accuracy)
    with pytest.raises(lw.InvalidParameter, match="accuracy"):
        made([[1.0, 0.5]]).steps_to_interval(accuracy)


def naive_dwell(walk):
    best, where = 0, 0
    for node, group in itertools.groupby(walk):
        length = len(list(group))
        if length > best:
            best, where = length, node
    return best, where


@pytest.mark.parametrize("seed", range(5))
def test_the_longest_dwell_is_that_of_a_naive_loop(seed):
    walk = np.random.default_rng(seed).integers(0, 3, size=(4, 60)).astype(np.int32)
    length, node = made(np.ones((4, 2)), walk=walk).longest_dwell()
    assert list(zip(length.tolist(), node.tolist(), strict=True)) == [
        naive_dwell(row) for row in walk.tolist()
    ]


def test_dwells_at_the_ends_and_of_short_walks_count():
    cases = {(1, 1, 0): (2, 1), (0, 2, 2, 2): (3, 2), (5,): (1, 5), (4, 4): (2, 4)}
    for walk, expected in cases.items():
        length, node = made([[1.0, 1.0]], walk=np.array([walk], np.int32)).longest_dwell()
        assert (length[0], node[0]) == expected


def test_an_empty_walk_has_no_dwell():
    empty = made([[1.0]], walk=np.zeros((1, 0), np.int32), visits=np.zeros((1, 4), np.int64))
    assert empty.longest_dwell()[0].tolist() == [0]
    assert empty.summary()["longest_dwell"] == 0


def test_what_was_not_recorded_is_refused_with_the_remedy():
    with pytest.raises(lw.InvalidParameter, match="record_walk=True"):
        made([[1.0]]).longest_dwell()
    with pytest.raises(lw.InvalidParameter, match="record_visits=True"):
        made([[1.0]]).busiest()


def test_the_busiest_node_and_its_shares():
    visits = np.array([[1, 5, 0, 4], [2, 2, 3, 3]])
    assert made(
        np.ones((2, 2)), visits=visits, target=np.array([0.1, 0.2, 0.3, 0.4])
    ).busiest() == (1, 0.35, 0.2)


def test_the_summary_is_plain_numbers_that_match_the_arrays(trace):
    summary = trace.summary()
    json.dumps(summary)
    assert summary["steps"] == 120
    assert summary["replicas"] == 3
    assert summary["distance2"] == pytest.approx(trace.distance2[:, -1].mean())
    assert summary["distance2_median"] == np.median(trace.distance2[:, -1])
    low, high = summary["distance2_interval"]
    assert low <= summary["distance2"] <= high
    assert summary["hops_per_step"] == pytest.approx(trace.hops[:, -1].mean() / 120)
    assert summary["bytes_per_step"] == pytest.approx(24 * summary["transfers_per_step"])
    assert summary["longest_dwell"] == max(naive_dwell(walk)[0] for walk in trace.walk.tolist())
    assert summary["busiest_share"] == trace.visits.sum(axis=0).max() / 360
    assert made([[1.0, 0.5]]).summary()["distance2_interval"] is None


def test_a_dataframe_has_one_row_per_replica_and_checkpoint(trace):
    frame = trace.to_dataframe()
    assert len(frame) == 15
    row = frame[(frame.replica == 2) & (frame.step == 60)].iloc[0]
    assert row.distance2 == trace.distance2[2, 2]
    assert row.hops == trace.hops[2, 2]
    assert row.bytes == trace.bytes[2, 2]


def test_a_dataset_is_labelled(trace):
    dataset = trace.to_xarray()
    assert dict(dataset.sizes) == {
        "replica": 3,
        "checkpoint": 5,
        "node": 12,
        "update": 120,
        "coordinate": 3,
    }
    assert dataset.distance2.dims == ("replica", "checkpoint")
    assert dataset.step.values.tolist() == [0, 30, 60, 90, 120]
    assert json.loads(dataset.attrs["provenance"])["seed"] == 0


def assert_equal(a, b):
    for name in ARRAYS:
        left, right = getattr(a, name), getattr(b, name)
        if left is None:
            assert right is None, name
        else:
            assert left.dtype == right.dtype, name
            assert np.array_equal(left, right, equal_nan=left.dtype.kind == "f"), name
    assert a.provenance == b.provenance


def test_a_saved_trace_comes_back_whole(trace, tmp_path):
    path = trace.save(tmp_path / "trace.nc")
    assert_equal(trace, lw.load_trace(path))
    assert [p.name for p in tmp_path.iterdir()] == ["trace.nc"]
    assert_equal(trace, lw.load_trace(str(trace.save(str(path)))))  # again, over the first


def test_xarray_reads_a_saved_trace_and_levywalk_reads_what_xarray_writes(trace, tmp_path):
    with xr.open_dataset(trace.save(tmp_path / "t.nc")) as found:
        assert found.load().identical(trace.to_xarray())
    trace.to_xarray().to_netcdf(tmp_path / "x.nc", engine="h5netcdf")
    assert_equal(trace, lw.load_trace(tmp_path / "x.nc"))


def test_an_interrupted_trace_without_an_update_comes_back(tmp_path):
    empty = made([[1.0]], walk=np.zeros((1, 0), np.int32), visits=np.zeros((1, 4), np.int64))
    assert_equal(empty, lw.load_trace(empty.save(tmp_path / "t.nc")))


def test_a_trace_without_walk_visits_and_optimum_and_with_infinities_comes_back(tmp_path):
    lean = made([[1.0, np.inf], [np.nan, 2.0]], optimum=None)
    assert_equal(lean, lw.load_trace(lean.save(tmp_path / "lean.nc")))


def test_a_diverged_switching_trace_comes_back(tmp_path):
    design = lw.switching(lw.mhlj(), lw.unif_rw(), window=5, patience=2)
    with pytest.warns(lw.DivergedWarning):
        trace = lw.run(
            NETWORK, PROBLEM, design, steps=4000, step_size=5.0, replicas=2, start=[0, 1]
        )
    assert_equal(trace, lw.load_trace(trace.save(tmp_path / "t.nc")))


def test_a_trace_is_not_saved_where_it_cannot_be(trace, tmp_path):
    with pytest.raises(lw.InvalidParameter, match="folder that exists"):
        trace.save(tmp_path / "nowhere" / "t.nc")
    with pytest.raises(lw.InvalidParameter, match="folder"):
        trace.save(tmp_path)


def test_a_failed_save_leaves_the_old_file_and_no_rubbish(trace, tmp_path, monkeypatch):
    path = trace.save(tmp_path / "t.nc")
    before = path.read_bytes()
    monkeypatch.setattr(
        h5netcdf.File,
        "create_variable",
        lambda *a, **k: (_ for _ in ()).throw(OSError("disk full")),
    )
    with pytest.raises(OSError, match="disk full"):
        trace.save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["t.nc"]


def test_a_missing_file_is_missing(tmp_path):
    with pytest.raises(lw.MissingFile, match=r"nothing\.nc") as caught:
        lw.load_trace(tmp_path / "nothing.nc")
    assert isinstance(caught.value, FileNotFoundError)
    with pytest.raises(lw.InvalidParameter, match="folder"):
        lw.load_trace(tmp_path)


def replace(name, values, dims):
    def damage(file):
        del file[name]
        file.create_dataset(name, data=values)
        for axis, dim in enumerate(dims):
            file[name].dims[axis].attach_scale(file[dim])

    return damage


def drop(name):
    return lambda file: file.__delitem__(name)


def attribute(name, value):
    return lambda file: file.attrs.__setitem__(name, value)


DAMAGE = {
    "no model": drop("model"),
    "no step": drop("step"),
    "no target": drop("target"),
    "text for numbers": replace("final_node", np.array([b"a", b"b", b"c"]), ["replica"]),
    "floats for nodes": replace("final_node", np.array([0.5, 1.0, 2.0]), ["replica"]),
    "whole numbers for distances": replace(
        "distance2", np.zeros((3, 5), int), ["replica", "checkpoint"]
    ),
    "wrong dimensions": replace("model", np.zeros((3, 5)), ["replica", "checkpoint"]),
    "one dimension too few": replace("visits", np.zeros(12, int), ["node"]),
    "no format": lambda file: file.attrs.__delitem__("format"),
    "another format": attribute("format", "levywalk-trace-999"),
    "a format of numbers": attribute("format", np.array([1, 2])),
    "no provenance": lambda file: file.attrs.__delitem__("provenance"),
    "broken provenance": attribute("provenance", "{not json"),
    "provenance of another kind": attribute("provenance", "[1, 2]"),
    "provenance without a design": attribute("provenance", "{}"),
    "a fill value that turns nodes into floats": lambda file: file["final_node"].attrs.__setitem__(
        "_FillValue", np.int64(0)
    ),
    "scaled numbers": lambda file: file["model"].attrs.__setitem__("scale_factor", 0.5),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_trace_is_refused(trace, tmp_path, name):
    path = trace.save(tmp_path / "t.nc")
    with h5py.File(path, "r+") as file:
        DAMAGE[name](file)
    with pytest.raises(lw.InvalidTrace, match=r"t\.nc"):
        lw.load_trace(path)


@pytest.mark.parametrize(
    "content", [b"", b"hello", b"\x89HDF\r\n\x1a\n" + b"\0" * 100, b"CDF\x01" + b"\xff" * 64]
)
def test_a_file_that_is_no_netcdf_is_refused(tmp_path, content):
    path = tmp_path / "t.nc"
    path.write_bytes(content)
    with pytest.raises(lw.InvalidTrace, match="not a trace"):
        lw.load_trace(path)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.99])
def test_a_truncated_trace_is_refused(trace, tmp_path, share):
    path = trace.save(tmp_path / "t.nc")
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(lw.InvalidTrace):
        lw.load_trace(path)


def test_another_datasets_file_is_refused(tmp_path):
    path = tmp_path / "t.nc"
    xr.Dataset({"a": ("x", [1.0, 2.0])}).to_netcdf(path, engine="h5netcdf")
    with pytest.raises(lw.InvalidTrace, match="format"):
        lw.load_trace(path)


def test_a_trace_is_shown_in_a_notebook(trace):
    text = trace._repr_html_()
    assert "Trace of MHLJ" in text
    assert "replicas" in text
    renamed = dataclasses.replace(trace, provenance=trace.provenance | {"design": {"name": "<b>"}})
    assert "<b>" not in renamed._repr_html_()


def test_traces_of_gossip_and_of_several_models_are_saved_and_loaded(tmp_path):
    network, problem = lw.ring(10), lw.homogeneous(10, dim=2)
    gossip = lw.gossip(network, problem, method="extra", iterations=5, step_size=0.01)
    several = lw.run(
        network, problem, lw.unif_rw(), steps=5, step_size=0.01, tokens=3, backend="reference"
    )
    for name, trace in (("gossip", gossip), ("several", several)):
        found = lw.load_trace(trace.save(tmp_path / f"{name}.nc"))
        np.testing.assert_array_equal(found.distance2, trace.distance2)
        np.testing.assert_array_equal(found.final_node, trace.final_node)
