"""Ctrl-C ends a run early and keeps what was done."""

from __future__ import annotations

import signal
import sys
import threading
import weakref
from contextlib import suppress
from importlib import import_module

import numpy as np
import pytest

import levywalk as lw
from levywalk.interruption import Listening

ENGINE = import_module("levywalk.engine.drive")
NETWORK, PROBLEM = lw.ring(12), lw.homogeneous(12, dim=3)


@pytest.fixture(autouse=True)
def _default_handler():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def interrupt_after(monkeypatch):
    """Press Ctrl-C after so many pieces: from within the progress bar, so at a known step."""

    def arrange(pieces, presses=1):
        monkeypatch.setattr(ENGINE, "_PIECE", 10)
        monkeypatch.setattr(ENGINE, "_PIECE_SECONDS", 1e6)  # pieces of a slow machine are as long
        count = 0

        class Pressing(ENGINE.Bar):
            def advance(self, amount):
                nonlocal count
                count += 1
                if count == pieces:
                    for _ in range(presses):
                        signal.raise_signal(signal.SIGINT)

        monkeypatch.setattr(ENGINE, "Bar", Pressing)

    return arrange


def go(steps, **options):
    return lw.run(
        NETWORK,
        PROBLEM,
        lw.mhlj(),
        steps=steps,
        step_size=lw.Decaying(0.02, 50),
        replicas=3,
        record_walk=True,
        **options,
    )


@pytest.mark.parametrize("backend", ["kernel", "reference"])
def test_an_interrupted_run_is_a_valid_prefix(interrupt_after, backend):
    interrupt_after(pieces=7)
    with pytest.raises(lw.Interrupted) as raised:
        go(1000, record_every=25, backend=backend, threads=1)
    trace = raised.value.partial
    done = int(trace.step[-1])
    assert trace.provenance["interrupted"] is True
    assert 0 < done <= 70  # seven pieces of at most 10
    assert trace.step.tolist() == [0, 25, 50, 70]
    whole = lw.run(
        NETWORK,
        PROBLEM,
        lw.mhlj(),
        steps=done,
        step_size=lw.Decaying(0.02, 50),
        replicas=3,
        record_walk=True,
        record_every=25,
        backend=backend,
    )
    assert whole.provenance["interrupted"] is False
    for name in ("step", "walk", "visits", "model", "final_node", "distance2", "hops", "transfers"):
        assert np.array_equal(getattr(trace, name), getattr(whole, name)), name
    assert trace.summary()["steps"] == done


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_signal_at_any_time_during_a_long_run_gives_a_valid_prefix(monkeypatch, threads):
    options = {"step_size": 0.01, "replicas": 5, "record_every": 10**6}
    lw.run(NETWORK, PROBLEM, lw.mhlj(), steps=10, threads=threads, **options)  # compiles

    class Ticking(ENGINE.Bar):
        def __enter__(self):  # the walk is about to begin: the signal meets it on its way
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            return super().__enter__()

    before = signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        with monkeypatch.context() as patch:
            patch.setattr(ENGINE, "Bar", Ticking)
            with pytest.raises(lw.Interrupted) as raised:
                lw.run(NETWORK, PROBLEM, lw.mhlj(), steps=10**9, threads=threads, **options)
            trace = raised.value.partial
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    done = int(trace.step[-1])
    assert trace.provenance["interrupted"] is True
    assert 0 < done < 10**9
    assert (trace.visits.sum(axis=1) == done).all()
    again = lw.run(NETWORK, PROBLEM, lw.mhlj(), steps=done, **options)
    for name in ("step", "visits", "model", "final_node", "distance2", "hops", "transfers"):
        assert np.array_equal(getattr(trace, name), getattr(again, name)), name


def test_the_handler_is_restored_after_a_run_and_after_an_error():
    go(50)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with pytest.raises(RuntimeError), Listening():
        raise RuntimeError
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_ctrl_c_interrupts_at_once(interrupt_after):
    interrupt_after(pieces=2, presses=2)
    with pytest.raises(lw.Interrupted) as raised:
        go(1000)
    assert raised.value.partial is None
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_callback_that_raises_keyboard_interrupt_ends_the_run_like_a_press(tmp_path):
    file = tmp_path / "walk.npz"

    def stop(at):
        if at["step"] >= 50:
            raise KeyboardInterrupt

    options = {"record_every": 10, "callbacks": [stop], "resume": file}
    with pytest.raises(lw.Interrupted) as caught:
        go(200, **options)
    partial = caught.value.partial
    assert partial.step[-1] == 50
    assert file.exists()
    whole = go(200, record_every=10)
    resumed = go(200, record_every=10, resume=file)
    assert np.array_equal(resumed.model, whole.model)


def test_a_handler_of_ones_own_is_left_alone():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Listening() as ctrl_c:
        signal.raise_signal(signal.SIGINT)
        assert not ctrl_c.requested
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_outside_the_main_thread_a_run_needs_no_handler():
    found = []
    thread = threading.Thread(target=lambda: found.append(go(50)))
    thread.start()
    thread.join()
    assert np.array_equal(found[0].walk, go(50).walk)


def test_an_interrupted_tuning_does_not_pretend_to_have_chosen(interrupt_after):
    interrupt_after(pieces=3)
    with pytest.raises(lw.Interrupted) as raised:
        lw.compare(NETWORK, PROBLEM, {"a": lw.unif_rw()}, steps=200, replicas=2)
    assert raised.value.partial is None


def test_a_press_after_the_last_step_ends_the_run_all_the_same(interrupt_after):
    interrupt_after(pieces=5)
    with pytest.raises(lw.Interrupted) as raised:
        go(50, threads=1, backend="reference")
    assert raised.value.partial.provenance["interrupted"] is False
    assert np.array_equal(raised.value.partial.walk, go(50).walk)


def test_an_interrupted_comparison_has_the_designs_that_were_run(interrupt_after):
    designs = {"a": lw.unif_rw(), "b": lw.mhlj(), "c": lw.weight_rw()}
    options = {"steps": 50, "replicas": 2, "step_size": 0.01, "threads": 1}
    interrupt_after(pieces=8)  # five of each run
    with pytest.raises(lw.Interrupted) as raised:
        lw.compare(NETWORK, PROBLEM, designs, **options)
    partial = raised.value.partial
    assert list(partial.traces) == ["a", "b"]
    assert partial.interrupted
    assert [int(trace.step[-1]) for trace in partial.traces.values()] == [50, 30]
    assert len(partial.table()) == 2


@pytest.mark.more
def test_an_interrupted_walk_is_raised_with_its_record(monkeypatch):
    module = import_module("levywalk.engine.walk_alone")
    monkeypatch.setattr(module, "_PIECE", 10)

    class Pressing(module.Bar):
        def advance(self, amount):
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(module, "Bar", Pressing)
    with pytest.raises(lw.Interrupted) as raised:
        lw.walk(NETWORK, lw.unif_rw(), steps=1000, threads=1)
    assert raised.value.partial.visits.sum() == 10
    assert raised.value.partial.provenance["interrupted"] is True


def test_a_press_that_something_swallows_is_raised_by_the_next_check():
    def work():
        with Listening() as ctrl_c:
            with suppress(BaseException):  # as a destructor would
                signal.raise_signal(signal.SIGINT)
            ctrl_c.check()
            pytest.fail("another stage began")

    with pytest.raises(lw.Interrupted):
        work()


def test_outside_a_held_section_a_press_ends_the_work_where_it_is():
    def work():
        with Listening() as ctrl_c:
            with ctrl_c.held():
                pass
            signal.raise_signal(signal.SIGINT)
            pytest.fail("it went on")

    with pytest.raises(lw.Interrupted):
        work()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_press_that_python_drops_is_raised_by_the_next_check_without_a_word(capfd, monkeypatch):
    monkeypatch.setattr(sys, "unraisablehook", sys.__unraisablehook__)  # pytest has its own

    class Thing:
        pass

    def pressing(_):
        signal.raise_signal(signal.SIGINT)

    def work():
        with Listening() as ctrl_c:
            thing = Thing()
            reference = weakref.ref(thing, pressing)
            del thing  # Python ignores what the callback raises, and prints a traceback
            assert reference() is None
            ctrl_c.check()
            pytest.fail("another stage began")

    with pytest.raises(lw.Interrupted):
        work()
    assert capfd.readouterr().err == ""


def test_other_exceptions_that_python_drops_are_still_printed(capfd, monkeypatch):
    monkeypatch.setattr(sys, "unraisablehook", sys.__unraisablehook__)

    class Thing:
        def __del__(self):
            raise ValueError("in a destructor")

    with Listening():
        thing = Thing()
        del thing
    assert "in a destructor" in capfd.readouterr().err
