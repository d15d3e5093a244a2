"""The paper's experiments as data: networks, data sets, methods, and what is run for each figure
and claim.

Everything here was decided before any reported run, and is the same for all methods:

- an instance is a network, a data set and walks, all of one seed; step sizes are tuned on instances
  that are not reported; both are seeds that nobody had run before these rules were written, and
  there is a second, independent range of them;
- claims about speed are judged at three ratios of signal to noise (`SNRS`, rulings 16), at three
  accuracies, and for two readings of p_J (rulings 17): 0.1, "as printed", and 0.9, "as the
  published code jumps", both with p_d = 0.5 and r = 3;
- a method has one step size for a network family, a data set and an accuracy: the relative γL* with
  which the fewest steps suffice on four of five tuning instances, on one log grid that is extended
  while the winner is at its edge and refined around it to sixteen a decade
  (`levywalk.experiments.tuning`); all walks start at a uniform node;
- steps to an accuracy are the first checkpoint after which the mean over walks stays at or below
  it; not reached and diverged are infinite;
- the data are as drawn, but seeds whose data have no important node (13.5 %) are passed over: such
  data are not heterogeneous, and no step size relative to L_max suits both kinds, so UnifRW, whose
  L* is L_max, would be tuned for data that the claims are not about.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from levywalk.experiments.tuning import relative_sizes
from levywalk.problem import heterogeneous

Section = Mapping[str, Any]

ACCURACIES = (0.1, 0.03, 0.01)
SNRS = (10.0, 115.0, 33_000.0)  # ours on average; the published curves; the published ring
PUBLISHED_SNR = {"ring": 33_000.0, "ring-mild": 33_000.0}  # 115 elsewhere
COMMON = 0.1  # the common step size, as γL̄ with L̄ the mean of L_v

# What `levywalk reproduce` calls the claims: the paper's labels where there is a figure. The last
# one is our own question.
LABELS = (
    "homo",
    "hete",
    "simentrap",
    "grid",
    "wsju",
    "switch",
    "Decay",
    "fig:mixeddist",
    "hops",
    "limit",
    "gap",
    "bounds",
    "Erimp",
    "jumps",
)

UNIF, WEIGHT, IID = "UnifRW", "WeightRW", "i.i.d. weighted"
MHLJ, MHLJ_CODE, JUMPS = "MHLJ(0.1)", "MHLJ(0.9)", "jumps alone"
READINGS = {MHLJ: 0.1, MHLJ_CODE: 0.9}  # as printed, and as the published code jumps
METHODS: Mapping[str, Section] = {
    UNIF: {"kind": "unif_rw"},
    WEIGHT: {"kind": "weight_rw"},
    MHLJ: {"kind": "mhlj"},
    MHLJ_CODE: {"kind": "mhlj", "p_jump": 0.9},
    JUMPS: {"kind": "mhlj", "p_jump": 1.0},
    IID: {"kind": "iid_weighted"},
}
MIXES = (0.01, 0.03, 0.1, 0.3, 0.6, 0.8, 0.9, 0.97)
P_JUMPS = (0.01, 0.03, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
GRAPHS = ("er", "ring", "grid", "ws")


def switching(method: str) -> Section:
    """Return a reading of MHLJ that switches to uniform sampling."""
    return {
        "kind": "switching",
        "first": dict(METHODS[method]),
        "then": {"kind": "unif_rw"},
    }


def decays(method: str) -> tuple[Section, ...]:
    """Return a reading of MHLJ with jumps that become rarer, by several schedules."""
    return tuple(
        {
            "kind": "mhlj",
            "schedule": {
                "kind": "decaying",
                "initial": READINGS[method],
                "timescale": timescale,
                "power": power,
            },
        }
        for timescale in (100.0, 1000.0, 10_000.0)
        for power in (0.5, 1.0)
    )


# Where jumps may leave an error of their own: step sizes γL* far below the tuned ones, at which the
# noise is as small as the bias of jumps, and walks long enough for them.
DECAY_SIZES = (0.003, 0.0003)
DECAY_WALKS, DECAY_STEPS = 16, 300_000
SMALL_RING: Section = {"family": "ring", "n": 30}  # where limits and bounds are exact
SMALL_TREE: Section = {
    "family": "barabasi_albert",
    "n": 30,
    "m": 1,
}  # … and where degrees differ a lot
SMALL_DATA: Section = {"data": "heterogeneous", "dim": 3, "important": 1}


@dataclass(frozen=True)
class Scene:
    """A network family with a data set: what step sizes are tuned for."""

    name: str
    title: str
    network: Section
    problem: Section
    steps: int
    labels: tuple[str, ...]  # the paper's figures that show it
    seeded: bool  # whether the network is random

    def at(self, snr: float) -> Scene:
        """Return the scene at a ratio of signal to noise; quiet data need fewer steps.

        Examples
        --------
        >>> quiet = SCENES["ring"].at(33_000.0)
        >>> quiet.name, quiet.steps, quiet.problem["snr"]
        ('ring@33000', 50000, 33000.0)
        """
        return replace(
            self,
            name=f"{self.name}@{snr:g}",
            title=f"{self.title}, SNR {snr:,.0f}",
            problem=dict(self.problem) | {"snr": snr},
            steps=self.steps // _SHORTER.get(snr, 1),
        )


_SHORTER = {115.0: 2, 33_000.0: 4}  # steps at these ratios, as a divisor
_HETEROGENEOUS = {"data": "heterogeneous", "sigma2_low": 1.0, "sigma2_high": 100.0}
_ER = {"family": "erdos_renyi", "n": 1000, "p": 0.1}

SCENES = {
    scene.name: scene
    for scene in (
        Scene(
            "er-homogeneous",
            "ER(1000, 0.1), homogeneous",
            _ER,
            {"data": "homogeneous"},
            24_000,
            ("homo",),
            True,
        ),
        Scene(
            "er",
            "ER(1000, 0.1), heterogeneous",
            _ER,
            _HETEROGENEOUS,
            32_000,
            ("Erimp", "hete"),
            True,
        ),
        Scene(
            "ring",
            "Ring(1000)",
            {"family": "ring", "n": 1000},
            _HETEROGENEOUS,
            200_000,
            ("simentrap", "fig:mixeddist"),
            False,
        ),
        Scene(
            "grid",
            "grid 25 x 40",
            {"family": "grid", "rows": 25, "cols": 40},
            _HETEROGENEOUS,
            64_000,
            ("grid",),
            False,
        ),
        Scene(
            "ws",
            "WS(1000, 4, 0.1)",
            {"family": "watts_strogatz", "n": 1000, "k": 4, "p": 0.1},
            _HETEROGENEOUS,
            64_000,
            ("wsju",),
            True,
        ),
    )
}

# Other data on the ring: does the best λ of MixedRW move?
MILD_RING = replace(
    SCENES["ring"],
    name="ring-mild",
    title="Ring(1000), σ²_H = 10",
    problem=dict(_HETEROGENEOUS) | {"sigma2_high": 10.0},
    labels=("fig:mixeddist",),
)


def published_scene(name: str) -> Scene:
    """Return a scene at the ratio of signal to noise that the published curves fit.

    Examples
    --------
    >>> published_scene("grid").name, published_scene("ring").name
    ('grid@115', 'ring@33000')
    """
    scene = MILD_RING if name == MILD_RING.name else SCENES[name]
    return scene.at(PUBLISHED_SNR.get(name, SNRS[1]))


def scene_of(name: str) -> Scene:
    """Return a scene by its name, such as "ring" or "ring@115"."""
    base, _, snr = name.partition("@")
    return SCENES[base].at(float(snr)) if snr else SCENES[base]


@cache
def seeds_from(first: int, count: int) -> tuple[int, ...]:
    """Return the first seeds from some number on whose data have an important node.

    Examples
    --------
    >>> seeds_from(3010, 3)
    (3010, 3013, 3014)
    """
    fitting = (
        seed
        for seed in itertools.count(first)
        if len(heterogeneous(1000, seed=seed).important_nodes)
    )
    return tuple(itertools.islice(fitting, count))


@dataclass(frozen=True)
class Effort:
    """How much is run."""

    name: str
    first: int  # seed of the reported instances
    instances: int
    tuning_first: int
    tuning_instances: int
    walks: int
    tuning_walks: int
    shorter: int  # steps are divided by this
    accuracies: tuple[float, ...] = field(default=ACCURACIES)
    mixes: tuple[float, ...] = field(default=MIXES)
    snrs: tuple[float, ...] = field(default=SNRS)
    corrected: bool = True  # whether intervals are corrected for the number of cells

    @property
    def seeds(self) -> tuple[int, ...]:
        """The reported instances."""
        return seeds_from(self.first, self.instances)

    @property
    def tuning_seeds(self) -> tuple[int, ...]:
        """The instances that step sizes are tuned on: never reported."""
        return seeds_from(self.tuning_first, self.tuning_instances)

    def steps(self, scene: Scene) -> int:
        """Return how long the walks are."""
        return scene.steps // self.shorter


# The seeds of both full ranges had not been run by anybody before. Forty instances, because the
# interval of a claim with 55 cells allows no more than two exceptions among twenty.
FULL = Effort("full", 53_000, 40, 54_000, 10, 64, 32, 1)
SECOND = replace(FULL, name="second", first=63_000, tuning_first=64_000)
QUICK = Effort(
    *("quick", 0, 6, 1000, 5, 12, 12, 8, (0.1,), (0.1, 0.6, 0.9), (10.0, 33_000.0)),
    corrected=False,
)
EFFORTS = {"first": FULL, "second": SECOND}


def instance(scene: Scene, seed: int) -> dict[str, Any]:
    """Return the network and the problem of one instance, as sections of an experiment file.

    Examples
    --------
    >>> instance(SCENES["ring"], 3)["problem"]["seed"]
    3
    """
    return {
        "network": dict(scene.network) | ({"seed": seed} if scene.seeded else {}),
        "problem": dict(scene.problem) | {"seed": seed},
    }


def tuning(
    scene: Scene, design: Section, effort: Effort, exponents: tuple[int, ...]
) -> Iterator[dict[str, Any]]:
    """Yield the descriptions of the walks that a design's step size is tuned on, one per tuning
    instance.
    """
    for seed in effort.tuning_seeds:
        yield instance(scene, seed) | {
            "design": dict(design),
            "relative": relative_sizes(exponents),
            "steps": effort.steps(scene),
            "walks": effort.tuning_walks,
            "start": "uniform",
            "seed": seed,
            "tuning": True,
        }


def reported(
    scene: Scene,
    design: Section,
    effort: Effort,
    relative: list[float],
    start: str,
) -> Iterator[dict[str, Any]]:
    """Yield the descriptions of the reported walks, one per instance."""
    for seed in effort.seeds:
        yield instance(scene, seed) | {
            "design": dict(design),
            "relative": relative,
            "steps": effort.steps(scene),
            "walks": effort.walks,
            "start": start,
            "seed": seed,
        }
