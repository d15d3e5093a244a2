"""The printed theorem against the truth: Ring(20), one node with 10,000 times the others'
curvature, no noise.

python examples/counterexample.py [path of the figure]
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import levywalk as lw
from levywalk.theory.judge.moments import exact_moments

N, STEPS, REPLICAS = 20, 20_000, 400


def bowls(curvature: np.ndarray) -> lw.LeastSquares:
    """f_v(x) = ½ xᵀ diag(L_v, 1) x, from two samples per node; every f_v is 1-strongly convex and
    x* = 0.
    """
    features = np.zeros((2 * len(curvature), 2))
    features[::2, 0], features[1::2, 1] = np.sqrt(curvature), 1.0
    return lw.LeastSquares(
        features, np.zeros(len(features)), node=np.repeat(np.arange(len(curvature)), 2)
    )


def main(path: Path) -> None:
    network, problem, design = lw.ring(N), bowls(np.r_[1e4, np.ones(N - 1)]), lw.weight_rw()
    gamma, x0 = 0.999 / problem.smoothness.mean(), [0.0, 1.0]
    steps = np.unique(np.linspace(0, STEPS, 201).astype(int))
    truth = exact_moments(
        network, problem, design, steps=steps.tolist(), step_size=gamma, x0=x0
    ).error2
    terms = [
        lw.bounds(network, problem, design, steps=max(int(t), 1), step_size=gamma, x0=x0).forms
        for t in steps
    ]
    trace = lw.run(
        network,
        problem,
        design,
        steps=STEPS,
        step_size=gamma,
        x0=x0,
        start="stationary",
        replicas=REPLICAS,
        record_every=200,
    )
    figure = Figure(figsize=(6.8, 4.4), layout="constrained", dpi=150)
    axes = figure.subplots()
    axes.semilogy(
        steps,
        [t["corrected"].total for t in terms],
        color="#009E73",
        lw=2,
        ls="--",
        label="corrected bound",
    )
    axes.semilogy(steps, truth, color="#000000", lw=2, label="exact E‖x − x*‖²")
    axes.semilogy(
        trace.step,
        trace.distance2.mean(axis=0),
        "o",
        ms=3,
        mfc="none",
        color="#0072B2",
        label=f"mean of {REPLICAS} walks",
    )
    printed = np.array([t["printed"].total for t in terms])
    axes.semilogy(steps, printed, color="#D55E00", lw=2, ls=":", label="printed bound [thmnojump]")
    axes.fill_between(
        steps, printed, truth, where=printed < truth, color="#D55E00", alpha=0.08, lw=0
    )
    axes.text(0.97 * STEPS, 1e-5, "an upper bound cannot pass here", ha="right", color="#D55E00")
    axes.set(xlabel="steps T", ylabel="E‖x − x*‖²", ylim=(1e-12, 10), xlim=(0, STEPS))
    axes.set_title(
        "WeightRW on Ring(20), L = (10⁴, 1, …, 1), γ = 0.999/L̄: the printed theorem is false",
        fontsize=10,
    )
    axes.grid(alpha=0.25)
    axes.legend(loc="lower left", frameon=False)
    figure.savefig(path)
    at = int(np.flatnonzero(steps == 10_000)[0])
    print(
        f"T = 10,000: exact {truth[at]:.4f}, corrected {terms[at]['corrected'].total:.4f}, printed "
        f"{printed[at]:.2e}"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("counterexample.png"))
