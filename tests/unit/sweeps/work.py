"""Work for the tests of `run_all`, in a module of its own: it is loaded in every worker."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np

import levywalk as lw

Output = tuple[dict[str, Any], dict[str, Any]]


def logged(description: dict[str, Any], log: str) -> Output:
    """Say in a file that this was executed, and do as told."""
    with Path(log).open("a") as file:
        file.write(f"{description['i']}\n")
    time.sleep(description.get("seconds", 0.0))
    if "says" in description:
        raise ValueError(description["says"])
    if "leaves" in description:
        raise SystemExit(description["leaves"])
    times = Path(log).read_text().split().count(str(description["i"]))
    if times <= description.get("stuck", 0):
        time.sleep(3600)  # longer than anybody waits
    if times <= description.get("dies", 0):
        os.kill(os.getpid(), signal.SIGKILL)
    return {"squares": np.arange(description["i"]) ** 2}, {"i": description["i"]}


def walks(description: dict[str, Any]) -> Output:
    """Compute with the engine and with linear algebra: all that could depend on where it runs."""
    problem = lw.heterogeneous(60, important=2, seed=description["seed"])
    trace = lw.run(
        lw.ring(60), problem, lw.mhlj(), steps=500, step_size="theory", replicas=8, threads=1
    )
    matrix = np.random.default_rng(description["seed"]).random((300, 20_000))
    return {
        "model": trace.model,
        "optimum": problem.optimum,
        "product": matrix @ matrix.T,
    }, trace.summary()


def whose(description: dict[str, Any]) -> Output:
    """Say which process did it."""
    return {}, {"pid": os.getpid()}


def pickles(description: dict[str, Any]) -> Output:
    return {"objects": np.array([object()])}, {}


def other(description: dict[str, Any]) -> Output:
    return {}, {}
