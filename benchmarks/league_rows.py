"""Rows of the league that are beyond 1.5 times the prototype's, measured again in its own way.

python -m benchmarks.league_rows

The prototype tuned each step size on the runs that it reports: three instances of four walks. The
league tunes on other instances. Here each row gets the step size that is best on the reported
instances; and for one row twelve instances show how far three of them can be apart.
It takes about two minutes of one core.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from levywalk.arrays import Floats
from levywalk.league.cell import Competition, first_transfers
from levywalk.league.league import description_of
from levywalk.league.pairs import PAIRS
from levywalk.league.scenes import FULL

# pair, network, accuracy, the prototype's transfers, exponents of 3 times the default step size
ROWS = [
    ("unif_rw + sag", "ring", 1e-3, 950e3, (-3.5, -3.0, -2.5, -2.0, -1.5)),
    ("mhlj + saga", "ring", 1e-3, 1.6e6, (-4.0, -3.75, -3.5, -3.25, -3.0)),
    ("mhlj + saga", "ws", 1e-6, 42e3, (0.0, 0.25, 0.5, 0.75)),
    ("mhda + saga", "ring", 1e-6, 10.5e3, (0.5, 0.75, 1.0, 1.25, 1.5)),
]
TWELVE = ("mhlj + saga", "ws", 1e-6, (0.0, 0.25, 0.5, 0.75))
LONGER = 400_000  # steps, four times the league's


def first_hits(
    name: str,
    network: str,
    accuracy: float,
    exponents: Sequence[float],
    seeds: Sequence[int],
    steps: int | None = None,
) -> Floats:
    """Return the median over four walks of the transfers after which a walk first had the accuracy:
    (instances, step sizes).
    """
    pair = next(pair for pair in PAIRS if pair.name == name)
    runs = Competition(description_of(network, FULL.networks[network], "snr10", pair, FULL, 1000))
    place = runs.accuracies.index(accuracy)
    found = [
        [
            np.asarray(
                first_transfers(runs.reported(seed, 3.0**e, steps or runs.budget), runs.accuracies)
            )[:, place]
            for e in exponents
        ]
        for seed in seeds
    ]
    return np.asarray(found)


def main() -> None:
    warnings.simplefilter("ignore")  # some step sizes diverge
    for name, network, accuracy, known, exponents in ROWS:
        found = first_hits(name, network, accuracy, exponents, range(3))
        medians = np.median(np.moveaxis(found, 1, 0).reshape(len(exponents), -1), axis=1)
        best = int(np.argmin(medians))
        print(
            f"{name} on {network} to {accuracy:g}: {medians[best]:,.0f} at 3^{exponents[best]:g} "
            f"times the default, {medians[best] / known:.2f} times the prototype's {known:,.0f}",
            flush=True,
        )
    name, network, accuracy, exponents = TWELVE
    each = np.median(first_hits(name, network, accuracy, exponents, range(12), LONGER), axis=2)
    rng = np.random.default_rng(0)
    triples = [rng.choice(12, 3, replace=False) for _ in range(2000)]
    best_of = [np.median(each[triple], axis=0).min() for triple in triples]
    low, middle, high = np.quantile(best_of, [0.05, 0.5, 0.95])
    print(
        f"{name} on {network} to {accuracy:g}: single instances {each.min(axis=1).min():,.0f} to "
        f"{each.min(axis=1).max():,.0f}; three of twelve, tuned on themselves: "
        f"{middle:,.0f} [{low:,.0f}, {high:,.0f}]"
    )


if __name__ == "__main__":
    main()
