"""The paper's experiments as data: networks, data sets, methods, and what is run for each figure
and claim.

Everything here was decided before any reported run, and is the same for all methods:

- an instance is a network, a data set and walks, all of one seed; step sizes are tuned on instances
  that are not reported;
- a method has one step size for a network family, a data set and an accuracy: the relative γL* on
  one log grid with which the fewest steps suffice on four of five tuning instances; the grid is
  extended while the winner is at its edge; tuning walks start uniformly on data as drawn, and what
  they choose serves stationary starts and two important nodes;
- steps to an accuracy are the first checkpoint after which the mean over walks stays at or below
  it; not reached and diverged are infinite;
- the primary data are as drawn (13.5 % of instances have no important node); with exactly two, they
  are secondary.

The grid has four step sizes per decade, so near a noise floor a method may have to take one that is
up to 1.8 times too small: a ratio between 0.6 and 1.8 can change with the grid (docs/paper.md says
where it was found to).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from levywalk.errors import InvalidParameter
from levywalk.experiments.tuning import PER_DECADE, relative_sizes

Section = Mapping[str, Any]

ACCURACIES = (0.1, 0.03, 0.01)
STARTS = ("uniform", "stationary")
COMMON = 0.1  # the common step size, as γL̄ with L̄ the mean of L_v

# What `levywalk reproduce` calls the thirteen claims: the paper's labels where there is a figure.
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
)

UNIF, WEIGHT, MHLJ, IID = "UnifRW", "WeightRW", "MHLJ", "i.i.d. weighted"
METHODS: Mapping[str, Section] = {
    UNIF: {"kind": "unif_rw"},
    WEIGHT: {"kind": "weight_rw"},
    MHLJ: {"kind": "mhlj"},
    IID: {"kind": "iid_weighted"},
}
MIXES = (0.01, 0.03, 0.1, 0.3, 0.6, 0.8, 0.9, 0.97)
P_JUMPS = (0.01, 0.03, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)


SWITCHING: Section = {"kind": "switching", "first": {"kind": "mhlj"}, "then": {"kind": "unif_rw"}}
DECAYS: tuple[Section, ...] = tuple(
    {
        "kind": "mhlj",
        "schedule": {"kind": "decaying", "initial": 0.1, "timescale": timescale, "power": power},
    }
    for timescale in (100.0, 1000.0, 10_000.0)
    for power in (0.5, 1.0)
)
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
            50_000,
            ("homo",),
            True,
        ),
        Scene(
            "er",
            "ER(1000, 0.1), heterogeneous",
            _ER,
            _HETEROGENEOUS,
            50_000,
            ("Erimp", "hete"),
            True,
        ),
        Scene(
            "ring",
            "Ring(1000)",
            {"family": "ring", "n": 1000},
            _HETEROGENEOUS,
            400_000,
            ("simentrap", "fig:mixeddist"),
            False,
        ),
        Scene(
            "grid",
            "grid 25 x 40",
            {"family": "grid", "rows": 25, "cols": 40},
            _HETEROGENEOUS,
            100_000,
            ("grid",),
            False,
        ),
        Scene(
            "ws",
            "WS(1000, 4, 0.1)",
            {"family": "watts_strogatz", "n": 1000, "k": 4, "p": 0.1},
            _HETEROGENEOUS,
            100_000,
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


@dataclass(frozen=True)
class Effort:
    """How much is run."""

    name: str
    first: int  # seed of the reported instances
    instances: int
    tuning_instances: int
    walks: int
    tuning_walks: int
    shorter: int  # steps are divided by this
    accuracies: tuple[float, ...] = field(default=ACCURACIES)

    @property
    def seeds(self) -> range:
        """The reported instances."""
        return range(self.first, self.first + self.instances)

    @property
    def tuning_seeds(self) -> range:
        """The instances that step sizes are tuned on: never reported."""
        return range(1000, 1000 + self.tuning_instances)

    def steps(self, scene: Scene) -> int:
        """Return how long the walks are."""
        return scene.steps // self.shorter


FULL = Effort("full", 100, 20, 10, 64, 32, 1)
QUICK = Effort("quick", 0, 6, 5, 16, 16, 4, (0.1,))


def instance(scene: Scene, seed: int, important: int | None = None) -> dict[str, Any]:
    """Return the network and the problem of one instance, as sections of an experiment file.

    Examples
    --------
    >>> instance(SCENES["ring"], 3)["problem"]["seed"]
    3
    """
    problem = dict(scene.problem) | {"seed": seed}
    if important is not None and scene.problem["data"] == "heterogeneous":
        problem["important"] = important
    return {
        "network": dict(scene.network) | ({"seed": seed} if scene.seeded else {}),
        "problem": problem,
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
    important: int | None,
) -> Iterator[dict[str, Any]]:
    """Yield the descriptions of the reported walks, one per instance."""
    for seed in effort.seeds:
        yield instance(scene, seed, important) | {
            "design": dict(design),
            "relative": relative,
            "steps": effort.steps(scene),
            "walks": effort.walks,
            "start": start,
            "seed": seed,
        }


# ---- figures -------------------------------------------------------------------------------------

DRAWN = 10  # instances of walks that only a figure asks for; the others have all of the effort's
SWEPT_WALKS = 32  # walks of sweeps over accuracies, p_jump and step sizes
GAP_INSTANCES = 3  # a gap takes a second
EPSILONS = tuple(10.0 ** (-k / PER_DECADE) for k in range(1, 3 * PER_DECADE + 1))
STABILITY_STEPS = 20_000
STABILITY = tuple(10.0 ** (k / PER_DECADE) for k in range(-3 * PER_DECADE, PER_DECADE))  # γL̄


@dataclass(frozen=True)
class Recipe:
    """What a figure shows; ``kind`` names how `panels` gathers it."""

    name: str  # of the file
    labels: tuple[str, ...]  # by which it is asked for, besides its name
    kind: str
    title: str
    scenes: tuple[str, ...]
    designs: Mapping[str, Section] = field(default_factory=dict)
    start: str = "uniform"


def _some(*methods: str) -> dict[str, Section]:
    return {method: METHODS[method] for method in methods}


_THREE = _some(UNIF, WEIGHT, MHLJ)
_FADING = {
    f"p_jump falls, timescale {design['schedule']['timescale']:g}": design
    for design in DECAYS
    if design["schedule"]["power"] == 1.0
}

FIGURES = {
    recipe.name: recipe
    for recipe in (
        Recipe(
            "homo", ("homo",), "walks", "[homo] the methods are alike", ("er-homogeneous",), _THREE
        ),
        Recipe(
            "hete",
            ("hete",),
            "walks",
            "[hete] weights and jumps on a dense network",
            ("er",),
            _THREE,
        ),
        Recipe(
            "simentrap",
            ("simentrap",),
            "walks",
            "[simentrap] entrapment, and jumps",
            ("ring",),
            _THREE,
        ),
        Recipe(
            "simentrap-stationary",
            ("simentrap",),
            "walks",
            "[simentrap] entrapment, and jumps, from the walk's own law",
            ("ring",),
            _THREE,
            "stationary",
        ),
        Recipe("grid", ("grid",), "walks", "[grid] entrapment, and jumps", ("grid",), _THREE),
        Recipe("wsju", ("wsju",), "walks", "[wsju] entrapment, and jumps", ("ws",), _THREE),
        Recipe(
            "switch",
            ("switch",),
            "floors",
            "[switch] MHLJ, and uniform sampling once it has settled",
            ("ring",),
            _some(MHLJ)
            | {"MHLJ, then UnifRW": SWITCHING, "MHLJ, same drop of the step size": METHODS[MHLJ]},
        ),
        Recipe(
            "decay",
            ("Decay",),
            "floors",
            "[Decay] jumps that become rarer",
            ("ring",),
            {"no jumps (WeightRW)": METHODS[WEIGHT], "p_jump = 0.1 (MHLJ)": METHODS[MHLJ]}
            | _FADING,
        ),
        Recipe(
            "mixeddist",
            ("fig:mixeddist",),
            "walks",
            "[fig:mixeddist] mixed targets against jumps",
            ("ring",),
            _THREE
            | {
                f"MixedRW, λ = {mix:g}": {"kind": "mixed_rw", "mix": mix} for mix in (0.1, 0.6, 0.9)
            },
        ),
        Recipe(
            "erimp",
            ("Erimp",),
            "walks",
            "[Erimp] importance weights without entrapment",
            ("er",),
            _some(UNIF, WEIGHT, IID),
        ),
        Recipe(
            "ringmc",
            ("fivring", "ringMC"),
            "toy",
            "[fivring], [ringMC] five nodes, one important",
            (),
        ),
        Recipe(
            "accuracy",
            (),
            "accuracy",
            "Steps and transfers that an accuracy costs",
            tuple(SCENES),
            _some(UNIF, WEIGHT, MHLJ, IID),
        ),
        Recipe(
            "p_jump",
            ("gap",),
            "p_jump",
            "Jumps: what error they leave, and the spectral gap",
            ("ring", "grid", "ws", "er"),
            _some(MHLJ),
        ),
        Recipe(
            "stability", (), "stability", "How large a step size may be", ("er", "ring"), _THREE
        ),
    )
}


def figures_of(labels: Sequence[str]) -> list[str]:
    """Return the names of the figures that some labels ask for, all of them if there are none.

    A label is one of `LABELS` (some of which have no figure), a figure's name, or the paper's own
    where it has two.

    Examples
    --------
    >>> figures_of(["grid", "fig:mixeddist", "bounds", "gap"])
    ['grid', 'mixeddist', 'p_jump']
    """
    known = {label for recipe in FIGURES.values() for label in (recipe.name, *recipe.labels)} | set(
        LABELS
    )
    for label in labels:
        if label not in known:
            raise InvalidParameter(f"label must be of {', '.join(sorted(known))}, got {label!r}")
    asked = set(labels)
    return [name for name, recipe in FIGURES.items() if not asked or asked & {name, *recipe.labels}]
