"""`run`: let the model walk.

`run` is long because each option is a parameter with a description of its own; the body only checks
them and hands them on.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from levywalk import checks
from levywalk.arrays import Floats
from levywalk.draws import Domain, keys, token_keys
from levywalk.engine.drive import drive
from levywalk.engine.observer import check_callbacks
from levywalk.engine.prepare import Job, check_sizes, prepare
from levywalk.engine.privacy_record import needs_the_walk
from levywalk.engine.resume import StateFile
from levywalk.engine.tokens import check_tokens, per_token
from levywalk.errors import CallbackError, DivergedWarning, Interrupted
from levywalk.interruption import Listening
from levywalk.network import Network, as_network
from levywalk.privacy import Privacy, as_privacy, noise_keys
from levywalk.problem import Problem
from levywalk.problem.differentiable import DifferentiableProblem
from levywalk.problem.named import flat_model, flat_problem
from levywalk.schedule import Schedule
from levywalk.trace import Costs, Trace, as_costs
from levywalk.trace.provenance import provenance_of
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
    costs: Costs | str | None = None,
    tokens: int = 1,
    meeting: str = "pass",
    metrics: Mapping[str, Callable[[Any], float]] | None = None,
    measure_metrics: str | int = "auto",
    callbacks: Sequence[Callable[[dict[str, Any]], object]] | None = None,
    privacy: Privacy | str | None = None,
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
        must be connected and have as many nodes as the problem. A graph of networkx, igraph or
        scipy is read with `as_network`.
    steps
        The number of updates.
    step_size
        γ: a number, "theory" (1/max w(v)L_v) or a schedule such as ``Decaying(0.01,
        timescale=1000)``.
    replicas, seed
        The number of independent walks and the seed. Replica i depends only on (seed, i), not on
        the number of replicas or threads.
    record_every
        Steps between checkpoints, or a list of the checkpoints. None makes about 200, of which half
        are even and half logarithmic. Step 0 and the last step are always included.
    record_walk, record_visits
        Whether to record the node of every update, and the number of updates at every node.
    start
        "uniform", "target" (π), "stationary" (the chain's own law, jumps included), a node, or one
        node per replica.
    x0
        The first model: that of the problem if it has one, otherwise zeros; one vector, one per
        replica, or a dict of named arrays.
    threads
        The number of threads, by default one per core. The result does not depend on it.
    backend
        "kernel" (compiled), "batched" (torch or JAX updates all replicas at once, docs/models.md),
        "reference" (plain Python, supports everything), or "auto": the kernel if walk, update and
        problem all have a compiled form, batches for models of torch and JAX.
    update
        What a visited node does: any `Update` or a registered name. The default is `sgd` with all
        local samples; ``lw.sgd(minibatch=8)`` draws eight of them.
    measure_loss
        How f is measured: "exact", a number of nodes to measure it on, or "auto". "auto" is exact
        if that is cheap (for least squares of up to 200 dimensions, and for up to 64 nodes);
        otherwise it uses a uniform sample of at least 16 nodes, such that all checkpoints together
        cost at most about a tenth of the walk. ``provenance["loss"]`` says which of these was used.
        An excess loss from a sample is the sampled f(x) - f(x*), and so can be a little below 0.
        ``distance2`` is always exact.
    record_memory
        Whether the trace contains the memory of tokens and nodes at the end (``trace.memory``).
    costs
        What updates and messages take, as `Costs` or the name of a profile ("data-centre",
        "home-broadband", "mobile"): ``trace.time`` then has the seconds until each checkpoint. They
        change nothing else.
    tokens
        How many models each replica has. They walk at the same time: in a step, each token makes
        one update and one move. Each has its own draws (the first those of ``tokens=1``) and its
        own memory, in the token and at every node, for the update and for the walk. The trace shows
        the mean of the models; hops, transfers, bytes, small messages and visits are sums over the
        tokens, and ``final_node`` is the first one's. Computing the mean costs no messages: who
        wants it collects tokens - 1 models once, at the end. Not for switching designs, ``resume``
        and ``record_walk``.
    meeting
        What tokens of a replica do that are at the same node after a step: "pass" (nothing), or
        "average": each continues with the mean of their models. Memories stay with their tokens, so
        a sum of gradients remains that of its own table. "average" runs on the reference backend.
    metrics
        Functions from a model to a number, by name, such as ``{"accuracy":
        lw.metrics.accuracy(problem, X_test, y_test)}``. A model is a vector, a matrix with one
        column per class or output, or a dict of named arrays. ``trace.metrics`` has their values.
    measure_metrics
        At which checkpoints metrics are evaluated: "all", a number of checkpoints (1 is the end
        alone), or "auto": as many as cost about a tenth of the walk, at least 40, by a rule that
        does not depend on the machine (`levywalk.engine.metric_plan`). All replicas have the same
        ones, and ``trace.metric_step`` lists them.
    callbacks
        Functions that are called at every checkpoint with a dict: ``design``, ``step``, ``steps``,
        and one number per replica in ``distance2``, ``excess_loss``, ``loss``, ``hops``,
        ``transfers``, ``small_messages``, ``bytes``, ``time`` (with costs), and by name in
        ``metrics`` (where they were evaluated). They are called in the thread that called `run`. A
        resumed run calls them for new checkpoints only. See `levywalk.JsonLines` and
        `levywalk.TensorBoard`.
    privacy
        Clip and noise of what leaves a node, and its budget: `Privacy`, or a text such as
        "clip=1,noise=20,budget=2". A node whose budget is spent passes the model on without an
        update; ``provenance["privacy"]`` has ε at the cap and ε spent. Plain SGD on linear models
        and softmax runs compiled; other updates, minibatches, several tokens, switching walks,
        sparse features, float32 and l1 run on the reference backend, which
        ``provenance["privacy"]["backend"]`` explains. Against "neighbour" and "final" the walk is
        recorded.
    resume
        A file for the state of the run (.npz), written about once a minute, at Ctrl-C and at the
        end. If the file exists, the run is resumed from it and ends with the same bits as a run
        that was never interrupted; a finished run is returned at once. The file of another run or a
        damaged file is refused and not changed.
    progress
        Whether to show a progress bar; by default it appears in longer runs in a notebook, or
        if stderr is a terminal.

    Returns
    -------
    Trace
        The results of the run.

    Raises
    ------
    Interrupted
        After Ctrl-C. ``partial`` is the trace of the steps done so far, and its
        ``provenance["interrupted"]`` is true if steps are missing.
    CallbackError
        A metric or a callback raised an exception. ``partial`` is the trace until then.
    ResumeError
        ``resume`` holds another run, is damaged or in use; the message names what differs.

    Examples
    --------
    >>> import levywalk as lw
    >>> network, problem = lw.ring(100), lw.homogeneous(100)
    >>> trace = lw.run(network, problem, lw.mhlj(), steps=1000, step_size=0.01, replicas=4)
    >>> trace.distance2.shape, int(trace.visits.sum())
    ((4, 172), 4000)

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
    with Listening():
        network, problem = as_network(network), flat_problem(problem)
        x0 = flat_model(problem, x0)
        steps, replicas = check_sizes(steps, replicas, record_every)
        seed = checks.seed(seed)
        tokens = check_tokens(tokens, meeting, design, resume, record_walk)
        private = as_privacy(privacy)
        start, x0 = per_token(start, x0, replicas, tokens)
        job = prepare(
            network,
            problem,
            design,
            steps=steps,
            step_size=step_size,
            keys=token_keys(seed, Domain.WALK, range(replicas), tokens),
            start_keys=token_keys(seed, Domain.START, range(replicas), tokens),
            start=start,
            x0=x0,
            record_every=record_every,
            record_walk=record_walk or needs_the_walk(private, tokens),
            record_visits=record_visits,
            threads=threads,
            backend=backend,
            update=update,
            measure_loss=measure_loss,
            record_memory=record_memory,
            seed=seed,
            costs=as_costs(costs),
            tokens=tokens,
            meeting=meeting,
            metrics=metrics,
            measure_metrics=measure_metrics,
            callbacks=check_callbacks(callbacks),
            privacy=private,
            noise_keys=None
            if private is None
            else noise_keys(seed, Domain.WALK, range(replicas), tokens),
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
    metrics: Mapping[str, Callable[[Any], float]] | None = None,
    measure_metrics: str | int = "auto",
    privacy: Privacy | None = None,
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
        metrics=metrics,
        measure_metrics=measure_metrics,
        privacy=privacy,
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
    metrics: Mapping[str, Callable[[Any], float]] | None = None,
    measure_metrics: str | int = "auto",
    privacy: Privacy | None = None,
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
        metrics=metrics,
        measure_metrics=measure_metrics,
        privacy=privacy,
        noise_keys=None
        if privacy is None
        else np.tile(noise_keys(seed, Domain.TUNING, range(replicas)), (count, 1)),
    )
    provenance = {"design": {"name": f"{design.name}: tuning"}}
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DivergedWarning
        )  # divergence is expected here: tuning searches for the limit of stability
        try:
            return drive(
                job, provenance, progress, None if resume is None else StateFile(resume, job, seed)
            )
        except Interrupted:  # a part of a tuning is no result
            raise Interrupted from None
        except CallbackError as error:
            error.partial = None
            raise


def _provenance(
    network: Network,
    problem: Problem,
    design: Walk,
    seed: int,
    step_size: Any,
    start: Any,
    job: Job,
) -> dict[str, Any]:
    plan = job.run_plan
    return provenance_of(
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
        **_framework(problem),
        **({} if job.costs is None else {"costs": job.costs.record(network.n)}),
        **({} if plan.tokens == 1 else {"tokens": plan.tokens, "meeting": plan.meeting}),
    }


def _framework(problem: Problem) -> dict[str, str]:
    """Return the framework that computes the gradients, and its version."""
    return {"framework": problem.framework} if isinstance(problem, DifferentiableProblem) else {}


def _width(backend: str) -> dict[str, int]:
    """Return the width of the vector registers that the kernels were compiled for."""
    if backend != "kernel":
        return {}
    from levywalk.engine.kernels.machine import vector_bits

    return {"vector_bits": vector_bits()}
