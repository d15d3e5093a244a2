"""`run`: let the model walk."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from levywalk import checks
from levywalk.arrays import Floats
from levywalk.draws import Domain, keys
from levywalk.engine.drive import drive
from levywalk.engine.prepare import Job, check_sizes, prepare
from levywalk.engine.resume import StateFile
from levywalk.errors import DivergedWarning
from levywalk.network import Network
from levywalk.problem import Problem
from levywalk.problem.named import flat_model, flat_problem
from levywalk.schedule import Schedule
from levywalk.trace import Trace
from levywalk.trace.provenance import told
from levywalk.updates import Update
from levywalk.walks import Walk


def run(
    network: Network,
    problem: Problem,
    design: Walk,
    *,
    steps: int,
    step_size: float | str | Schedule,
    replicas: int = 1,
    seed: int = 0,
    record_every: int | npt.ArrayLike | None = None,
    record_walk: bool = False,
    record_visits: bool = True,
    start: str | int | npt.ArrayLike = "uniform",
    x0: npt.ArrayLike | None = None,
    threads: int | None = None,
    backend: str = "auto",
    update: Update | str | None = None,
    measure_loss: str | int = "auto",
    record_memory: bool = False,
    resume: str | Path | None = None,
    progress: bool | None = None,
) -> Trace:
    """Let the model walk.

    Step t = 0, 1, …: one update x ← x - γ w(v) ∇f_v(x) at the node v that holds the model, then one
    move.

    Parameters
    ----------
    network, problem, design
        The network on which the model walks, the problem that it learns and the walk. The network
        must be connected and have as many nodes as the problem.
    steps
        The number of updates.
    step_size
        γ: a number, "theory" (1/max w(v)L_v) or a schedule such as ``Decaying(0.01,
        timescale=1000)``.
    replicas, seed
        The number of independent walks and the seed. Replica i depends only on (seed, i), not on
        the number of replicas or threads.
    record_every
        Steps between checkpoints, or a list of the checkpoints; None makes about 200. Step 0 and
        the last step are always included.
    record_walk, record_visits
        Whether to record the node of every update, and the number of updates at every node.
    start
        "uniform", "target" (π), "stationary" (the chain's own law, jumps included), a node, or one
        node per replica.
    x0
        The first model: zeros by default, one vector, or one per replica.
    threads
        The number of threads, by default one per core. The result does not depend on it.
    backend
        "kernel" (compiled), "reference" (plain Python, supports everything), or "auto": the kernel
        if walk, update and problem all have a compiled form.
    update
        What a visited node does: any `Update` or a registered name. The default is `sgd` with all
        local samples; ``lw.sgd(minibatch=8)`` draws eight of them.
    measure_loss
        How f is measured: "exact", a number of nodes to measure it on, or "auto". "auto" is exact
        if that is cheap (always for least squares, and for up to 64 nodes); otherwise it uses a
        uniform sample of the nodes, such that all checkpoints together cost about a tenth of the
        walk. ``provenance["loss"]`` says which of these was used. An excess loss from a sample is
        the sampled f(x) - f(x*), and so can be a little below 0. ``distance2`` is always exact.
    record_memory
        Whether the trace contains the memory of tokens and nodes at the end (``trace.memory``).
    resume
        A file for the state of the run (.npz), written about once a minute, at Ctrl-C and at the
        end. If the file exists, the run is resumed from it and ends with the same bits as a run
        that was never interrupted; a finished run is returned at once. The file of another run or a
        damaged file is refused and not changed.
    progress
        Whether to show a progress bar; by default it appears in longer runs if stderr is a
        terminal.

    Returns
    -------
    Trace
        The results of the run. After Ctrl-C it contains the steps done so far, and
        ``provenance["interrupted"]`` is true.

    Raises
    ------
    ResumeError
        ``resume`` holds another run, is damaged or in use; the message names what differs.

    Examples
    --------
    >>> import levywalk as lw
    >>> network, problem = lw.ring(100), lw.homogeneous(100)
    >>> trace = lw.run(network, problem, lw.mhlj(), steps=1000, step_size=0.01, replicas=4)
    >>> trace.distance2.shape, int(trace.visits.sum())
    ((4, 201), 4000)

    A run that can be stopped at any time, by Ctrl-C or by force, and called again:

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "walk.npz"
    ...     first = lw.run(
    ...         network, problem, lw.mhlj(), steps=1000, step_size=0.01, replicas=4, resume=file
    ...     )
    ...     again = lw.run(
    ...         network, problem, lw.mhlj(), steps=1000, step_size=0.01, replicas=4, resume=file
    ...     )
    >>> bool((again.model == trace.model).all())  # read from the file, without a step
    True
    """
    problem = flat_problem(problem)
    x0 = flat_model(problem, x0)
    steps, replicas = check_sizes(steps, replicas, record_every)
    seed = checks.seed(seed)
    job = prepare(
        network,
        problem,
        design,
        steps=steps,
        step_size=step_size,
        keys=keys(seed, Domain.WALK, range(replicas)),
        start_keys=keys(seed, Domain.START, range(replicas)),
        start=start,
        x0=x0,
        record_every=record_every,
        record_walk=record_walk,
        record_visits=record_visits,
        threads=threads,
        backend=backend,
        update=update,
        measure_loss=measure_loss,
        record_memory=record_memory,
        seed=seed,
    )
    provenance = _provenance(network, problem, design, seed, step_size, start, job)
    return drive(
        job, provenance, progress, None if resume is None else StateFile(resume, job, seed)
    )


def check_run(
    network: Network,
    problem: Problem,
    design: Walk,
    *,
    steps: int,
    replicas: int,
    seed: int,
    record_every: Any,
    record_walk: bool,
    start: Any,
    x0: Any,
    threads: int | None,
    update: Update | str | None,
    measure_loss: str | int,
) -> None:
    """Raise the error that `run` would raise for these arguments, without making a step."""
    if isinstance(start, str):  # a check does not compute a start distribution
        start = "uniform" if start in ("uniform", "target", "stationary") else start
    none = keys(seed, Domain.WALK, range(replicas))
    prepare(
        network,
        problem,
        design,
        steps=steps,
        step_size=1.0,
        keys=none,
        start_keys=none,
        start=start,
        x0=x0,
        record_every=record_every,
        record_walk=record_walk,
        record_visits=True,
        threads=threads,
        backend="auto",
        update=update,
        measure_loss=measure_loss,
        seed=seed,
    )


def run_step_sizes(
    network: Network,
    problem: Problem,
    design: Walk,
    step_sizes: Floats,
    *,
    steps: int,
    replicas: int,
    seed: int,
    record_every: Any,
    start: Any,
    x0: Any,
    threads: int | None,
    update: Update | str | None,
    progress: bool | None,
    resume: Path | None = None,
    measure_loss: str | int | None = None,
) -> Trace:
    """Return one trace of a whole grid of step sizes, for tuning.

    It contains all replicas of the first step size, then those of the second, and so on.

    All step sizes use the same walks, with keys that `run` never uses. They run as one batch, which
    can be resumed like a run. With ``measure_loss=None`` only ``distance2`` is measured; other
    values have the same meaning as in `run`.
    """
    count = len(step_sizes)
    if np.ndim(start) == 1:  # one node per replica, repeated for each step size
        start = np.tile(start, count)
    if x0 is not None and np.ndim(x0) == 2:
        x0 = np.tile(x0, (count, 1))
    walk_keys = np.tile(keys(seed, Domain.TUNING, range(replicas)), (count, 1))
    start_keys = np.tile(keys(seed, Domain.TUNING_START, range(replicas)), (count, 1))
    job = prepare(
        network,
        problem,
        design,
        steps=steps,
        step_size=1.0,
        keys=walk_keys,
        start_keys=start_keys,
        start=start,
        x0=x0,
        record_every=record_every,
        record_walk=False,
        record_visits=False,
        threads=threads,
        backend="auto",
        update=update,
        measure_loss="exact" if measure_loss is None else measure_loss,
        seed=seed,
        scale=np.repeat(step_sizes, replicas),
        only_distance=measure_loss is None,
    )
    provenance = {"design": {"name": f"{design.name}: tuning"}}
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DivergedWarning
        )  # divergence is expected here: tuning searches for the limit of stability
        trace = drive(
            job, provenance, progress, None if resume is None else StateFile(resume, job, seed)
        )
    if trace.provenance["interrupted"]:
        raise KeyboardInterrupt
    return trace


def _provenance(
    network: Network,
    problem: Problem,
    design: Walk,
    seed: int,
    step_size: Any,
    start: Any,
    job: Job,
) -> dict[str, Any]:
    plan = job.plan
    return told(
        network,
        problem,
        design,
        plan.update,
        (phase.step_size for phase in plan.phases),
        plan.phases[0].bound.largest,
        backend=job.backend,
        seed=int(seed),
        steps=plan.steps,
        replicas=plan.replicas,
    ) | {
        "start": start if isinstance(start, (str, int)) else np.asarray(start).tolist(),
        **_width(job.backend),
    }


def _width(backend: str) -> dict[str, int]:
    """Return the width of the vector registers that the kernels were compiled for."""
    if backend != "kernel":
        return {}
    from levywalk.engine.kernels.machine import vector_bits

    return {"vector_bits": vector_bits()}
