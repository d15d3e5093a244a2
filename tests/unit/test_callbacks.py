"""Callbacks: what they are told, when, and what happens if one fails."""

from __future__ import annotations

import json
import threading

import numpy as np
import pytest

import levywalk as lw

NETWORK, PROBLEM = lw.ring(12), lw.homogeneous(12, dim=3)


def norm(model):
    return float(np.abs(model).sum())


def walked(**more):
    options = {"steps": 60, "step_size": 0.02, "replicas": 3, "record_every": 10}
    return lw.run(NETWORK, PROBLEM, lw.mhlj(), **(options | more))


def test_a_callback_is_told_what_the_trace_has_and_changes_nothing() -> None:
    seen = []
    trace = walked(
        callbacks=[seen.append], threads=2, costs="mobile", metrics={"norm": norm},
        measure_metrics=3,
    )  # fmt: skip
    assert [now["step"] for now in seen] == trace.step.tolist()
    for column, now in enumerate(seen):
        assert (now["design"], now["steps"]) == ("MHLJ", 60)
        names = ["distance2", "excess_loss", "loss", "hops", "transfers", "bytes", "small_messages"]
        for name in (*names, "time"):
            assert np.array_equal(now[name], getattr(trace, name)[:, column])
        if now["step"] in trace.metric_step:
            assert np.array_equal(now["metrics"]["norm"], trace.metrics["norm"][:, column])
        else:
            assert now["metrics"] == {}
        now["loss"][:] = -1.0  # copies
    assert len(trace.metric_step) < len(seen)
    assert np.array_equal(trace.model, walked().model)
    assert (trace.loss > 0).all()


def test_callbacks_are_called_by_the_thread_that_called_run() -> None:
    seen = set()
    walked(callbacks=[lambda now: seen.add(threading.current_thread())], threads=2)
    assert seen == {threading.current_thread()}


def test_an_exception_ends_the_run_with_what_was_done() -> None:
    def fails(now):
        if now["step"] >= 30:
            raise OSError("disk full")

    with pytest.raises(lw.CallbackError, match="fails raised OSError at step 30: disk full") as e:
        walked(callbacks=[fails])
    partial = e.value.partial
    assert partial.step.tolist() == [0, 10, 20, 30]
    assert np.array_equal(partial.distance2, walked().distance2[:, :4])
    assert partial.provenance["interrupted"]
    assert isinstance(e.value.__cause__, OSError)
    with pytest.raises(lw.CallbackError) as e:
        walked(callbacks=[lambda now: 1 / 0])
    assert e.value.partial.step.tolist() == [0]


def test_a_resumed_run_calls_callbacks_for_new_checkpoints_only(tmp_path) -> None:
    seen = []

    def fails_once(now):
        seen.append(now["step"])
        if now["step"] == 30 and len(seen) < 5:
            raise RuntimeError("enough")

    file = tmp_path / "state.npz"
    with pytest.raises(lw.CallbackError):
        walked(callbacks=[fails_once], resume=file)
    trace = walked(callbacks=[fails_once], resume=file)
    assert seen == [0, 10, 20, 30, 40, 50, 60]
    assert np.array_equal(trace.model, walked().model)


def test_compare_calls_them_in_the_reported_runs_and_keeps_what_was_done() -> None:
    seen = []

    def fails(now):
        seen.append((now["design"], now["step"]))
        if now["design"] == "b" and now["step"] == 20:
            raise RuntimeError("enough")

    designs = {"a": lw.unif_rw(), "b": lw.mhlj()}
    given = {"steps": 60, "replicas": 2, "record_every": 20, "step_size": 0.02}
    with pytest.raises(lw.CallbackError) as e:
        lw.compare(NETWORK, PROBLEM, designs, callbacks=[fails], **given)
    assert seen == [("a", 0), ("a", 20), ("a", 40), ("a", 60), ("b", 0), ("b", 20)]
    assert {n: int(t.step[-1]) for n, t in e.value.partial.traces.items()} == {"a": 60, "b": 20}


@pytest.mark.parametrize("wrong", [print, "print", 3, [3]])
def test_what_cannot_be_called_is_refused(wrong) -> None:
    with pytest.raises(lw.InvalidParameter, match="callbacks must be"):
        walked(callbacks=wrong)


def test_json_lines_have_means_and_replicas(tmp_path) -> None:
    file = tmp_path / "run.jsonl"
    trace = walked(callbacks=[lw.JsonLines(file, replicas=True)], metrics={"norm": norm})
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["step"] for line in lines] == trace.step.tolist()
    assert lines[2]["norm"] == pytest.approx(trace.metrics["norm"][:, 2].mean())
    assert lines[2]["replicas"]["loss"] == trace.loss[:, 2].tolist()
    with pytest.warns(lw.DivergedWarning):
        walked(callbacks=[lw.JsonLines(file)], step_size=10.0, steps=4000, record_every=4000)
    assert json.loads(file.read_text().splitlines()[-1])["loss"] is None
    with pytest.raises(lw.InvalidParameter, match="in a folder that exists"):
        lw.JsonLines(tmp_path / "no" / "run.jsonl")


def test_log_means_calls_a_function_like_that_of_wandb_or_mlflow() -> None:
    calls = []

    def log(numbers, step=None):
        calls.append((step, numbers))

    trace = walked(callbacks=[lw.LogMeans(log, by_design=True)])
    assert [step for step, _ in calls] == trace.step.tolist()
    assert calls[-1][1]["MHLJ/loss"] == pytest.approx(trace.loss[:, -1].mean())
    with pytest.raises(lw.InvalidParameter, match="log must be a function"):
        lw.LogMeans("wandb")


def test_tensorboard_files_hold_the_means(tmp_path) -> None:
    tensorboard = pytest.importorskip("tensorboardX", reason="the extra tensorboard is missing")
    board = lw.TensorBoard(tmp_path)
    trace = walked(callbacks=[board])
    board.close()
    (file,) = (tmp_path / "MHLJ").glob("events.*")
    found = {}
    raw, at = file.read_bytes(), 0
    while at < len(raw):  # a record: its length, a checksum, the event, a checksum
        size = int.from_bytes(raw[at : at + 8], "little")
        event = tensorboard.proto.event_pb2.Event.FromString(raw[at + 12 : at + 12 + size])
        for value in event.summary.value:
            found[value.tag, event.step] = value.simple_value
        at += size + 16
    assert found["loss", 60] == pytest.approx(trace.loss[:, -1].mean(), rel=1e-6)
    assert {step for _, step in found} == set(trace.step.tolist())
