"""Ctrl-C ends a run early and keeps what was done."""

from __future__ import annotations

import signal
import threading
from importlib import import_module

import numpy as np
import pytest

import levywalk as lw
from levywalk.engine.interrupt import Interruptible

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
    trace = go(1000, record_every=25, backend=backend, threads=1)
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

    class Ticking(ENGINE.Bar):
        def __enter__(self):  # the walk is about to begin: the signal meets it on its way
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            return super().__enter__()

    before = signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        with monkeypatch.context() as patch:
            patch.setattr(ENGINE, "Bar", Ticking)
            trace = lw.run(NETWORK, PROBLEM, lw.mhlj(), steps=10**9, threads=threads, **options)
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
    with pytest.raises(RuntimeError), Interruptible():
        raise RuntimeError
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_ctrl_c_interrupts_at_once(interrupt_after):
    interrupt_after(pieces=2, presses=2)
    with pytest.raises(KeyboardInterrupt):
        go(1000)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_handler_of_ones_own_is_left_alone():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Interruptible() as interrupt:
        signal.raise_signal(signal.SIGINT)
        assert not interrupt.requested
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_outside_the_main_thread_a_run_needs_no_handler():
    found = []
    thread = threading.Thread(target=lambda: found.append(go(50)))
    thread.start()
    thread.join()
    assert np.array_equal(found[0].walk, go(50).walk)


def test_an_interrupted_tuning_does_not_pretend_to_have_chosen(interrupt_after):
    interrupt_after(pieces=3)
    with pytest.raises(KeyboardInterrupt):
        lw.compare(NETWORK, PROBLEM, {"a": lw.unif_rw()}, steps=200, replicas=2)
