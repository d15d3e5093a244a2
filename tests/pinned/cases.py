"""The cases whose results are pinned: what levywalk computes today, number for number.

What pins are for
    A redesign must not change a result. Each case below runs something small (a run on all three
    backends, a walk without a model, a comparison, a theory result, a virtual fleet), and
    ``test_pinned.py`` compares what comes out with ``pins.json``. Integers (walks, visits, hops,
    transfers, final nodes, …) are compared by digest; numbers (models, curves, theory) to 1e-9
    relative, since the last bits may depend on the CPU.

When pins may change
    Only on purpose: when a change is meant to alter a number. Then rewrite the file, look at the
    diff, and say in CHANGELOG.md what changed and why. A case may be added at any time.

How to rewrite them, from the root of the repository
    ``python -m tests.pinned.rewrite``; ``--help`` tells how to compare two commits to the bit.

Cases use public names only. The few places that need internal ones are the helper functions under
"What is not public": when internals move, only those lines change.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np

import levywalk as lw

Results = dict[str, Any]
CASES: dict[str, Callable[[], Results]] = {}

INTEGERS = ("visits", "walk", "hops", "transfers", "bytes", "final_node")
STEPS = ("switched_at", "diverged_at")
NUMBERS = ("model", "distance2", "excess_loss")


def case(function: Callable[[], Results]) -> Callable[[], Results]:
    """Add a function to the cases, under its own name."""
    assert function.__name__ not in CASES, function.__name__
    CASES[function.__name__] = function
    return function


# ---- What is not public ------------------------------------------------------------------------


def minibatch(samples: int) -> Any:
    """Return SGD that draws so many of a node's samples for one update."""
    return lw.Sgd(minibatch=samples)


@contextmanager
def plain_loop() -> Iterator[None]:
    """Let ``backend="kernel"`` use the plain compiled loop instead of the vectorised one."""
    from levywalk.engine import kernels

    made = []

    def make(plan: Any) -> Any:
        made.append(backend(plan, plain=True))
        return made[-1]

    backend = kernels.KernelBackend
    with patch.object(kernels, "KernelBackend", make):
        yield
    assert made, "the plain loop was not used"
    assert not any(one.side_by_side for one in made)


def virtual_fleet(
    network: Any,
    problem: Any,
    design: Any,
    *,
    faults: tuple[tuple[float, str, int | str], ...] = (),
    policy: str = "wait",
    absent: tuple[int, ...] = (),
    **arguments: Any,
) -> tuple[Any, Any, bool]:
    """Run a virtual fleet with faults (time, what, node); return it, its trace and whether it
    ended.
    """
    from levywalk.fleet.operate.merge import merge
    from levywalk.fleet.protocol.terms import HandOffTerms
    from levywalk.fleet.setup.build import Fleet
    from levywalk.fleet.simulate.virtual import PlannedFault, VirtualFleet

    terms = HandOffTerms(
        b"pinned", renew_after=20, policy=policy, heartbeat=0.1, dead_after=1.0, retry=0.05
    )
    virtual = VirtualFleet(
        Fleet.of(network, problem, design, terms=terms, **arguments), absent=absent
    )
    for time, what, node in faults:
        virtual.at(time, PlannedFault(what, node))
    ended = virtual.run()
    return virtual, merge(virtual.logs, virtual.fleet), ended


# ---- Problems ----------------------------------------------------------------------------------


def least_squares(n: int, samples: int = 1, ridge: float = 0.0, dim: int = 3, seed: int = 0) -> Any:
    """Draw least squares with about so many samples per node; every seventh node is important."""
    features, node, rng = _features(n, samples, dim, seed)
    targets = features @ np.linspace(1.0, -0.5, dim) + 0.3 * rng.normal(size=len(node))
    return lw.LeastSquares(features, targets, node, ridge=ridge)


def logistic(n: int, samples: int = 1, ridge: float = 0.1, dim: int = 3, seed: int = 0) -> Any:
    """Draw logistic regression, likewise."""
    features, node, rng = _features(n, samples, dim, seed)
    labels = features @ np.linspace(1.0, -0.5, dim) + rng.logistic(size=len(node)) > 0.0
    return lw.Logistic(features, labels.astype(int), node, ridge=ridge)


def _features(n: int, samples: int, dim: int, seed: int) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    counts = np.ones(n, int) if samples == 1 else rng.integers(1, 2 * samples, size=n)
    node = rng.permutation(np.repeat(np.arange(n), counts))
    scale = np.where(np.arange(n) % 7 == 3, 4.0, 1.0)[node, None]
    return rng.normal(size=(len(node), dim)) * scale, node, rng


class PseudoHuber:
    """A problem of a user's own: √(1 + z²) - 1 of the residual z, without a known optimum."""

    def __init__(self, n: int, dim: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.n, self.dim = n, dim
        self.features, self.targets = rng.normal(size=(n, dim)), rng.normal(size=n)
        self.smoothness = (self.features**2).sum(axis=1)

    def local_loss(self, v: int, x: Any) -> float:
        return float(np.sqrt(1.0 + self._residual(v, x) ** 2) - 1.0)

    def local_gradient(self, v: int, x: Any) -> Any:
        z = self._residual(v, x)
        return z / np.sqrt(1.0 + z**2) * self.features[v]

    def _residual(self, v: int, x: Any) -> float:
        return float(self.features[v] @ x - self.targets[v])


# ---- Runs: every case on the vectorised kernel, on the plain loop and on the reference ---------

WS = partial(lw.watts_strogatz, 40, 4, 0.2, seed=1)
BA = partial(lw.barabasi_albert, 40, 2, seed=2)
# A detector that switches after some thirty updates. In the runs below it is never nearer to its
# threshold than 1e-3 relative, so that rounding does not decide when.
EARLY = {"threshold": 0.02, "window": 20, "patience": 10}


def of_trace(trace: Any) -> Results:
    """Return what is pinned of a trace."""
    found = {name: getattr(trace, name) for name in (*INTEGERS, *STEPS, *NUMBERS)}
    if trace.optimum is None:
        del found["distance2"], found["excess_loss"]
        found["loss"] = trace.loss
    return {name: value for name, value in found.items() if value is not None}


def on_all_backends(network: Any, problem: Any, design: Any, **arguments: Any) -> Results:
    """Run on the kernel, on the plain loop and on the reference."""
    asked = {
        "steps": 200,
        "step_size": "theory",
        "replicas": 8,
        "record_every": 20,
        "record_walk": True,
    }
    asked |= arguments
    found: Results = {}
    for name in ("kernel", "plain", "reference"):
        with plain_loop() if name == "plain" else nullcontext():
            backend = "reference" if name == "reference" else "kernel"
            trace = lw.run(network, problem, design, backend=backend, **asked)
        found |= {f"{name}.{key}": value for key, value in of_trace(trace).items()}
    return found


@case
def run_simple_rw() -> Results:
    return on_all_backends(WS(), least_squares(40), lw.simple_rw(), step_size=0.01)


@case
def run_simple_rw_reweighted() -> Results:
    return on_all_backends(BA(), least_squares(40), lw.simple_rw(reweight=True), seed=1)


@case
def run_unif_rw() -> Results:
    return on_all_backends(lw.grid(5, 6), least_squares(30), lw.unif_rw(), seed=2)


@case
def run_unif_rw_counted_self_loops() -> Results:
    network = lw.barabasi_albert(40, 2, seed=2, self_loops="counted")
    return on_all_backends(network, least_squares(40), lw.unif_rw(), seed=3, start="target")


@case
def run_weight_rw() -> Results:
    return on_all_backends(WS(), least_squares(40), lw.weight_rw(), seed=4, start="target")


@case
def run_weight_rw_without_visits_and_walk() -> Results:
    arguments = {"record_walk": False, "record_visits": False, "record_every": [1, 10, 100, 150]}
    return on_all_backends(
        lw.ring(30), lw.heterogeneous(30, dim=3, important=1), lw.weight_rw(), **arguments
    )


@case
def run_mixed_rw() -> Results:
    return on_all_backends(BA(), least_squares(40), lw.mixed_rw(0.3), seed=5, replicas=9)


@case
def run_mhlj() -> Results:
    # Nine replicas: eight side by side and one alone.
    return on_all_backends(
        WS(), least_squares(40), lw.mhlj(), seed=6, replicas=9, start="stationary"
    )


@case
def run_mhlj_many_long_jumps() -> Results:
    return on_all_backends(lw.star(30), least_squares(30), lw.mhlj(0.5, 0.2, 9), seed=7)


@case
def run_mhlj_always_jumps() -> Results:
    network = lw.grid(5, 6, self_loops="counted")
    return on_all_backends(network, least_squares(30), lw.mhlj(1.0, 1.0, 1), seed=8)


@case
def run_mhlj_decaying_jumps_and_steps() -> Results:
    design = lw.mhlj(schedule=lw.Decaying(0.8, timescale=30))
    return on_all_backends(
        BA(), least_squares(40), design, step_size=lw.Decaying(0.01, timescale=50), seed=9
    )


@case
def run_mhlj_dropping_jumps_and_steps() -> Results:
    design = lw.mhlj(schedule=lw.Dropping(0.9, at=70, then=0.1))
    size = lw.Dropping(0.01, at=110, then=0.002)
    return on_all_backends(WS(), least_squares(40), design, step_size=size, seed=10)


@case
def run_power_law_jumps() -> Results:
    jump = lw.JumpLaw(0.3, lw.PowerLaw(1.5, max_hops=20))
    return on_all_backends(
        WS(), least_squares(40), lw.Design(target="importance", jump=jump), seed=11
    )


@case
def run_fixed_distance_jumps_to_the_degree_law() -> Results:
    jump = lw.JumpLaw(lw.Decaying(0.5, 100, power=0.5), lw.FixedDistance(4))
    return on_all_backends(BA(), least_squares(40), lw.Design(target="degree", jump=jump), seed=12)


@case
def run_scores_of_a_users_own() -> Results:
    design = lw.Design(target=lw.Scores(np.linspace(0.2, 3.0, 40)), jump=lw.JumpLaw(0.2))
    return on_all_backends(BA(), least_squares(40), design, seed=13)


@case
def run_without_weights() -> Results:
    design = lw.Design(target=lw.Mixed(0.5), reweight=False)
    return on_all_backends(WS(), least_squares(40), design, step_size=0.005, seed=14)


@case
def run_iid_uniform() -> Results:
    return on_all_backends(WS(), least_squares(40), lw.iid_uniform(), seed=15)


@case
def run_iid_weighted() -> Results:
    return on_all_backends(lw.star(40), least_squares(40), lw.iid_weighted(), seed=16, start=3)


@case
def run_from_given_nodes_and_models() -> Results:
    start, x0 = [0, 5, 5, 39, 1, 2, 3, 4], np.linspace(-2.0, 2.0, 24).reshape(8, 3)
    return on_all_backends(BA(), least_squares(40), lw.mhlj(), seed=17, start=start, x0=x0)


@case
def run_many_samples() -> Results:
    return on_all_backends(WS(), least_squares(40, samples=4), lw.mhlj(), seed=18)


@case
def run_many_samples_minibatch_ridge() -> Results:
    problem = least_squares(40, samples=4, ridge=0.5)
    return on_all_backends(WS(), problem, lw.weight_rw(), seed=19, update=minibatch(2))


@case
def run_logistic() -> Results:
    # More than 64 nodes: the loss is measured on a sample of them.
    network = lw.erdos_renyi(100, 0.08, seed=0).largest_component()
    return on_all_backends(network, logistic(network.n), lw.mhlj(), seed=20)


@case
def run_logistic_many_samples_minibatch() -> Results:
    problem = logistic(40, samples=4, ridge=0.3)
    return on_all_backends(
        BA(), problem, lw.unif_rw(), seed=21, update=minibatch(3), x0=[1.0, -1.0, 0.5]
    )


@case
def run_many_features() -> Results:
    problem = least_squares(30, ridge=0.1, dim=61)
    return on_all_backends(lw.grid(5, 6), problem, lw.mhlj(), seed=22)


@case
def run_switching() -> Results:
    design = lw.switching(lw.mhlj(0.3), lw.unif_rw(), **EARLY)
    return _switches(
        on_all_backends(WS(), least_squares(40), design, seed=23, steps=600, record_every=60)
    )


@case
def run_switching_to_a_given_step_size() -> Results:
    design = lw.switching(lw.mhlj(0.5), lw.weight_rw(), step_size=0.002, **EARLY)
    arguments = {"steps": 600, "record_every": 60, "step_size": lw.Decaying(0.01, 200), "seed": 24}
    return _switches(on_all_backends(BA(), least_squares(40), design, **arguments))


@case
def run_switching_logistic_theory_step_size() -> Results:
    design = lw.switching(lw.weight_rw(), lw.simple_rw(True), step_size="theory", **EARLY)
    problem = logistic(40, samples=2, ridge=0.3)
    return _switches(on_all_backends(WS(), problem, design, seed=25, steps=600, record_every=60))


def _switches(found: Results) -> Results:
    """Check that all replicas have switched, at the same steps on all backends."""
    at = found["reference.switched_at"]
    assert (at >= 0).all(), at
    assert len(set(at.tolist())) > 2, at
    for name in ("kernel", "plain"):
        assert np.array_equal(found[f"{name}.switched_at"], at), (
            name,
            found[f"{name}.switched_at"],
            at,
        )
    return found


@case
def run_that_diverges() -> Results:
    arguments = {"steps": 3000, "record_every": 500, "step_size": 0.5, "replicas": 3, "seed": 26}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lw.DivergedWarning)
        found = on_all_backends(lw.ring(20), least_squares(20), lw.unif_rw(), **arguments)
    for name in ("kernel", "plain", "reference"):
        assert (found[f"{name}.diverged_at"] >= 0).all()
        del found[f"{name}.excess_loss"]
        found[f"{name}.log_distance2"] = np.log(
            found.pop(f"{name}.distance2")
        )  # it spans 300 decades
    return found


@case
def run_problem_of_a_users_own() -> Results:
    arguments = {
        "steps": 300,
        "step_size": "theory",
        "replicas": 2,
        "record_walk": True,
        "seed": 27,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lw.DataWarning)  # that it has no optimum is meant
        return of_trace(lw.run(WS(), PseudoHuber(40, 3, seed=1), lw.mhlj(), **arguments))


# ---- Walks without a model ---------------------------------------------------------------------


def of_walks(walks: Any) -> Results:
    """Return what is pinned of walks."""
    names = ("visits", "walk", "hops", "transfers", "stays", "longest_dwell", "longest_dwell_node")
    names += ("first_visit", "final_node", "batches", "batch_sums", "observable_variance")
    found = {name: getattr(walks, name) for name in names}
    return {name: value for name, value in found.items() if value is not None}


@case
def walk_of_named_designs() -> Results:
    designs = {
        "simple_rw": lw.simple_rw(),
        "unif_rw": lw.unif_rw(),
        "iid_uniform": lw.iid_uniform(),
    }
    how = {"steps": 2000, "record_first": True, "record_walk": True, "seed": 1}
    found: Results = {}
    for name, design in designs.items():
        replicas = 8 if name == "iid_uniform" else 9  # eight side by side, and one alone
        found[name] = of_walks(lw.walk(BA(), design, replicas=replicas, **how))
    return flat(found)


@case
def walk_by_smoothness_with_an_observable() -> Results:
    problem = least_squares(40)
    how = {"problem": problem, "steps": 5000, "replicas": 8, "seed": 2, "start": "stationary"}
    how["observable"] = np.cos(np.arange(40.0))
    found: Results = {}
    for name, design in {"weight_rw": lw.weight_rw(), "mhlj": lw.mhlj(0.2, 0.3, 5)}.items():
        walks = lw.walk(WS(self_loops="counted"), design, **how)
        found[name] = of_walks(walks)
        found[name]["correlation_time"] = walks.correlation().time
        found[name]["mean_dwell"] = walks.mean_dwell
    return flat(found)


def flat(found: dict[str, Results]) -> Results:
    """Join the names of nested results by dots."""
    return {
        f"{outer}.{inner}": value for outer, part in found.items() for inner, value in part.items()
    }


# ---- Networks and data -------------------------------------------------------------------------


@case
def networks() -> Results:
    made = {
        "ring": lw.ring(9),
        "path": lw.path(9, self_loops="counted"),
        "grid": lw.grid(3, 5),
        "torus": lw.torus(3, 5),
        "complete": lw.complete(6),
        "star": lw.star(7, self_loops="counted"),
        "barbell": lw.barbell(5, 3),
        "erdos_renyi": lw.erdos_renyi(200, 0.03, seed=1).largest_component(),
        "watts_strogatz": lw.watts_strogatz(200, 6, 0.3, seed=2),
        "random_regular": lw.random_regular(200, 3, seed=3),
        "barabasi_albert": lw.barabasi_albert(200, 3, seed=4),
        "from_edges": lw.Network.from_edges([(0, 1), (1, 2), (2, 0), (2, 3)], self_loops="counted"),
    }
    return flat(
        {name: {"indptr": made[name].indptr, "indices": made[name].indices} for name in made}
    )


@case
def problems() -> Results:
    made = {
        "homogeneous": lw.homogeneous(30, dim=4, seed=1),
        "heterogeneous": lw.heterogeneous(300, dim=4, p_high=0.05, noise=0.5, seed=2),
        "important": lw.heterogeneous(30, important=2, seed=3),
        "many_samples": least_squares(30, samples=3, ridge=0.2),
        "logistic": logistic(30, samples=3, ridge=0.2),
    }
    found: Results = {}
    for name, problem in made.items():
        x = np.linspace(-1.0, 1.0, problem.dim)
        found[name] = {
            "features": problem.features,
            "targets": problem.targets,
            "smoothness": problem.smoothness,
            "optimum": problem.optimum,
            "strong_convexity": problem.strong_convexity,
            "sigma_star2": problem.sigma_star2,
            "sigma_max2": problem.sigma_max2,
            "loss": problem.loss(x),
            "local_loss": problem.local_loss(3, x),
            "local_gradient": problem.local_gradient(3, x),
        }
    return flat(found)


@case
def partitions() -> Results:
    rng = np.random.default_rng(5)
    features, labels = rng.normal(size=(300, 2)), rng.integers(0, 4, size=300)
    return {
        how: lw.partition(features, labels, 12, how, seed=6)
        for how in ("iid", "label", "dirichlet", "size")
    }


# ---- Comparisons -------------------------------------------------------------------------------


def of_comparison(result: Any) -> Results:
    """Return what is pinned of a comparison."""
    found: Results = {}
    for name, trace in result.traces.items():
        low, high = trace.steps_to_interval(result.accuracy)
        trials = result.sweep[name]
        found[name] = of_trace(trace) | {
            "step_size": result.step_size[name],
            "steps_to": result.steps_to[name],
            "steps_to_interval": np.array([low, high]),
            "sweep.step_size": np.array([trial.step_size for trial in trials]),
            "sweep.steps_to": np.array([trial.steps_to for trial in trials]),
            "sweep.final_error": np.array([trial.final_error for trial in trials]),
            "busiest_share": trace.summary()["busiest_share"],
        }
    return flat(found)


@case
def compare_tuned() -> Results:
    problem = lw.heterogeneous(40, dim=3, important=2, seed=1)
    designs = {
        "UnifRW": lw.unif_rw(),
        "WeightRW": lw.weight_rw(),
        "MHLJ": lw.mhlj(),
        "iid": lw.iid_weighted(),
    }
    how = {"steps": 2000, "replicas": 8, "accuracy": 0.1, "record_walk": True, "record_every": 20}
    return of_comparison(lw.compare(WS(), problem, designs, **how))


@case
def compare_tuned_switching() -> Results:
    designs = {"switching": lw.switching(lw.mhlj(), lw.unif_rw(), **EARLY)}
    how = {"steps": 1000, "replicas": 4, "accuracy": 0.1, "seed": 3, "record_every": 20}
    found = of_comparison(lw.compare(BA(), least_squares(40), designs, **how))
    assert (found["switching.switched_at"] >= 0).all()
    return found


@case
def compare_logistic_minibatch_theory_step_size() -> Results:
    designs = {"SimpleRW": lw.simple_rw(), "MixedRW": lw.mixed_rw(0.5)}
    how = {
        "steps": 500,
        "replicas": 8,
        "accuracy": 0.3,
        "step_size": "theory",
        "update": minibatch(2),
        "seed": 4,
    }
    problem = logistic(40, samples=4, ridge=0.3)
    return of_comparison(lw.compare(BA(), problem, designs, record_every=50, start="target", **how))


# ---- Theory ------------------------------------------------------------------------------------

DESIGNS = {
    "simple_rw": lw.simple_rw(),
    "unif_rw": lw.unif_rw(),
    "weight_rw": lw.weight_rw(),
    "mixed_rw": lw.mixed_rw(0.3),
    "mhlj": lw.mhlj(),
    "mhlj_long": lw.mhlj(0.4, 0.3, 6),
    "power_law": lw.Design(target="degree", jump=lw.JumpLaw(0.3, lw.PowerLaw(1.5, max_hops=8))),
    "scheduled": lw.mhlj(schedule=lw.Decaying(0.5, timescale=10)),
    "iid_weighted": lw.iid_weighted(),
}
CONSTANT = {name: design for name, design in DESIGNS.items() if name != "scheduled"}


@case
def theory_transition() -> Results:
    problem, found = least_squares(12), {}
    for policy in ("none", "counted"):
        network = lw.grid(3, 4, self_loops=policy)
        for name, design in DESIGNS.items():
            for levy in ("algorithm", "printed"):
                P = lw.transition(network, problem, design, levy=levy, step=5).toarray()
                present = P > 1e-12  # rounding may leave less than this where a zero belongs
                found[f"{policy}.{name}.{levy}"] = {"present": present, "entries": P[present]}
    return flat(found)


@case
def theory_operator() -> Results:
    x = np.linspace(0.0, 1.0, 40)
    operators = {
        name: lw.transition(BA(), least_squares(40), DESIGNS[name], "operator") for name in DESIGNS
    }
    return flat({name: {"right": P @ x, "left": P.rmatvec(x)} for name, P in operators.items()})


@case
def theory_stationary_and_gaps() -> Results:
    found: Results = {}
    for name, design in CONSTANT.items():
        P = lw.transition(WS(), least_squares(40), design)
        law = lw.stationary(P)
        found[name] = {"law": law, "total_variation": lw.total_variation(law, np.full(40, 1 / 40))}
        found[name]["period"] = lw.period(P)
        found[name]["reversible"] = lw.is_reversible(P)
        if not lw.is_reversible(P):
            found[name]["violation"] = lw.detailed_balance_violation(P)
        for kind in ("right", "absolute", "singular"):
            found[name][f"gap_{kind}"] = lw.spectral_gap(P, kind).value
    return flat(found)


@case
def theory_times() -> Results:
    found: Results = {}
    for name in ("unif_rw", "weight_rw", "mhlj", "power_law"):
        P = lw.transition(BA(self_loops="counted"), least_squares(40), DESIGNS[name])
        mixing = lw.mixing_time(P, 0.1)
        found[name] = {"kemeny": lw.kemeny_constant(P), "hitting": lw.hitting_times(P, 7)}
        found[name] |= {"mixing_lower": mixing.lower, "mixing_upper": mixing.upper}
    return flat(found)


@case
def theory_entrapment() -> Results:
    network, problem = lw.ring(60), lw.heterogeneous(60, dim=3, important=2, seed=2)
    found: Results = {}
    for name in ("weight_rw", "mhlj"):
        how = {"steps": 4000, "step_size": "theory", "replicas": 4, "record_walk": True}
        trace = lw.run(network, problem, DESIGNS[name], **how)
        report = lw.entrapment(network, problem, DESIGNS[name], trace=trace)
        part = {
            "score": report.score,
            "gap": report.spectral_gap.value,
            "uniform_gap": report.uniform_spectral_gap.value,
        }
        for i, region in enumerate(report.regions):
            numbers = (
                "target",
                "mass",
                "dwell",
                "iid_dwell",
                "escape",
                "iid_escape",
                "conductance",
            )
            part |= {f"{i}.{key}": getattr(region, key) for key in numbers}
            part[f"{i}.nodes"] = np.array(region.nodes)
            seen = region.observed
            named = {"stays": seen.n_stays, "longest": seen.longest, "updates": seen.n_updates}
            part |= {f"{i}.observed.{key}": value for key, value in named.items()}
            part |= {
                f"{i}.observed.{key}": getattr(seen, key)
                for key in ("dwell", "share", "effective_size")
            }
        part["correlation"] = lw.update_correlation(trace, problem, lags=20)
        found[name] = part
    return flat(found)


@case
def theory_bounds() -> Results:
    network, problem = WS(self_loops="counted"), least_squares(40, samples=8, ridge=1.0)
    found: Results = {}
    for name in ("unif_rw", "weight_rw", "mhlj"):
        result = lw.bounds(network, problem, DESIGNS[name], steps=500, accuracy=0.1, form="both")
        c = result.constants
        part = {
            "hops_per_update": result.hops_per_update,
            "exact": result.exact,
            "step_size": result.step_size,
        }
        names = (
            "L_mean",
            "L_min",
            "L_max",
            "L_star",
            "w_max",
            "mu",
            "mu_weighted",
            "mu_global",
            "sigma_star2",
        )
        part |= {
            key: getattr(c, key)
            for key in (*names, "sigma_max2", "variance", "spectral_gap", "initial2")
        }
        if DESIGNS[name].jump is not None:  # without jumps these are zero up to rounding
            part |= {
                "drift2": c.drift2,
                "total_variation": c.total_variation,
                "hops_bound": result.hops_bound,
            }
        for form, terms in result.forms.items():
            jumps = ("bias",) if DESIGNS[name].jump is not None else ()
            part |= {
                f"{form}.{key}": getattr(terms, key)
                for key in ("transient", "variance", *jumps, "remainder")
            }
        for form, needed in result.complexity.items():
            part |= {
                f"needed.{form}.{key}": getattr(needed, key)
                for key in ("step_size", "steps", "error")
            }
        found[name] = part
    return flat(found)


@case
def theory_assumptions() -> Results:
    hold = {True: 1, False: 0, None: -1}
    settings = {
        "ring": (lw.ring(12), lw.homogeneous(12, dim=2), lw.unif_rw()),
        "counted": (
            lw.grid(3, 4, self_loops="counted"),
            least_squares(12, samples=9, ridge=1.0),
            lw.mhlj(),
        ),
        "logistic": (lw.star(12), logistic(12, ridge=0.5), lw.weight_rw()),
        "own": (lw.complete(12), PseudoHuber(12, 2, seed=3), lw.simple_rw()),
    }
    found: Results = {}
    for name, setting in settings.items():
        for i, assumption in enumerate(lw.assumptions(*setting)):
            found[f"{name}.{i}.holds"] = hold[assumption.holds]
            found[f"{name}.{i}.numbers"] = np.array(list(assumption.numbers.values()), dtype=float)
    return found


@case
def theory_error_floor() -> Results:
    settings = {
        "mhlj": (WS(), least_squares(40), lw.mhlj()),
        "samples": (BA(), least_squares(40, samples=3, ridge=0.2), lw.mhlj(0.4, 0.3, 6)),
        "biased": (BA(), least_squares(40), lw.simple_rw()),
        "unif_rw": (WS(), least_squares(40), lw.unif_rw()),
        "logistic": (WS(), logistic(40, samples=3, ridge=0.2), lw.mhlj()),
    }
    found: Results = {}
    for name, (network, problem, design) in settings.items():
        floor = lw.error_floor(network, problem, design)
        found[name] = {
            "step_size": floor.step_size,
            "fixed_point": floor.fixed_point,
            "initial2": floor.initial2,
        }
        if name != "unif_rw":  # which has no bias but rounding
            found[name]["bias2"] = floor.bias2
        if name != "logistic":
            found[name] |= {
                "limit_mean": floor.limit_mean,
                "limit_covariance": floor.limit_covariance,
            }
            found[name] |= {"mean_bias2": floor.mean_bias2, "floor": floor.floor}
    return flat(found)


@case
def theory_predict() -> Results:
    problems = {"least_squares": least_squares(40), "logistic": logistic(40, samples=3, ridge=0.2)}
    found: Results = {}
    for kind, problem in problems.items():
        for name, design in CONSTANT.items():
            result = lw.predict(WS(), problem, design, accuracy=0.02)
            # The steps are found to a per cent, so they have tests of their own.
            names = ("noise", "transfers_per_step", "hops_per_step")
            part = {key: getattr(result, key) for key in names}
            if name.startswith("mhlj"):  # the others have no bias but rounding
                part["bias2"] = result.bias2
            found[f"{kind}.{name}"] = part
    return flat(found)


@case
def theory_tune() -> Results:
    problem = lw.heterogeneous(40, dim=3, important=2, seed=1)
    jumps = {"p_jumps": [0.05, 0.2], "p_distances": [0.3, 0.6], "max_hops": [2, 5]}
    results = {
        "mhlj": lw.tune(lw.ring(40), problem, cost="steps", accuracy=0.05, **jumps),
        "transfers": lw.tune(lw.ring(40), problem, cost="transfers", accuracy=0.05, **jumps),
        "mixed": lw.tune(
            lw.ring(40), problem, family="mixed", mixes=[0.1, 0.4, 0.8], accuracy=0.05
        ),
    }
    found: Results = {}
    for name, result in results.items():
        noise = np.array([candidate.prediction.noise for candidate in result.candidates])
        parameters = np.array(
            [result.parameters[key] for key in sorted(result.parameters)], dtype=float
        )
        found[name] = {"noise": noise, "best": parameters}
    return flat(found)


# ---- Virtual fleets ----------------------------------------------------------------------------


def of_fleet(
    network: Any, problem: Any, design: Any, *, same_as_reference: bool = False, **arguments: Any
) -> Results:
    """Run a virtual fleet and return what is pinned of it."""
    asked = {"steps": 300, "step_size": "theory", "record_every": 10} | arguments
    virtual, trace, ended = virtual_fleet(network, problem, design, **asked)
    found = of_trace(trace) | {
        "ended": ended,
        "messages": virtual.messages,
        "seconds": virtual.now,
        "lost_updates": trace.provenance["fleet"]["lost_updates"],
        "epochs": len(trace.provenance["fleet"]["epochs"]),
    }
    if same_as_reference:
        reference = lw.run(network, problem, design, backend="reference", record_walk=True, **asked)
        for name, value in of_trace(reference).items():
            assert np.array_equal(found[name], value), name
    return found


@case
def fleet_without_faults() -> Results:
    return of_fleet(WS(), least_squares(40), lw.mhlj(0.3), seed=1, same_as_reference=True)


@case
def fleet_counted_self_loops_and_schedules() -> Results:
    design = lw.mhlj(schedule=lw.Decaying(0.5, timescale=50))
    how = {"step_size": lw.Dropping(0.01, at=150, then=0.002), "start": 3, "x0": [1.0, -1.0, 0.5]}
    network = lw.grid(3, 4, self_loops="counted")
    return of_fleet(network, least_squares(12), design, seed=2, same_as_reference=True, **how)


@case
def fleet_switching() -> Results:
    design = lw.switching(lw.mhlj(0.3), lw.unif_rw(), **EARLY)
    found = of_fleet(BA(), least_squares(40), design, seed=3, steps=600, same_as_reference=True)
    assert found["switched_at"][0] >= 0
    return found


@case
def fleet_minibatch_logistic() -> Results:
    problem = logistic(12, samples=4, ridge=0.3)
    how = {"update": minibatch(2), "seed": 4, "same_as_reference": True}
    return of_fleet(lw.star(12), problem, lw.weight_rw(), **how)


@case
def fleet_own_keys() -> Results:
    return of_fleet(lw.ring(12), least_squares(12), lw.mhlj(), seed=5, shared_key=False)


@case
def fleet_with_kills() -> Results:
    faults = ((0.3, "kill", 4), (1.9, "restart", 4), (2.5, "kill", "holder"))
    found = of_fleet(lw.ring(12), least_squares(12), lw.mhlj(), seed=8, faults=faults, steps=1000)
    assert found["ended"]
    assert found["epochs"] == 2
    assert found["lost_updates"] > 0
    return found


@case
def fleet_eager_with_own_keys_joining_and_leaving() -> Results:
    faults = ((0.3, "join", 6), (0.5, "kill", "guardian"), (0.9, "leave", 8))
    how = {
        "faults": faults,
        "policy": "eager",
        "absent": (6,),
        "shared_key": False,
        "seed": 7,
        "steps": 1000,
    }
    found = of_fleet(WS(), least_squares(40), lw.mhlj(0.2), **how)
    assert found["ended"]
    return found
