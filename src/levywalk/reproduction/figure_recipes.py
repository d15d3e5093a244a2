"""Which figures `levywalk reproduce` draws: what each shows, by name and by the paper's labels.

Each is drawn at the ratio of signal to noise that its published curve fits: 33,000 on the ring, 115
elsewhere; figures of the error that is left at the end are drawn at 10, where the noise is largest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from levywalk.errors import InvalidParameter
from levywalk.reproduction.paper import (
    IID,
    LABELS,
    METHODS,
    MHLJ,
    MHLJ_CODE,
    UNIF,
    WEIGHT,
    Section,
    decays,
    switching,
)

DRAWN = 10  # instances of walks that only a figure asks for; the others have all of the effort's
SWEPT_WALKS = 32  # walks of sweeps over accuracies, p_jump and step sizes
GAP_INSTANCES = 3  # a gap takes a second
PER_DECADE = 4
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


_FOUR = _some(UNIF, WEIGHT, MHLJ, MHLJ_CODE)
_FADING = {
    f"p_jump falls, timescale {design['schedule']['timescale']:g}": design
    for design in decays(MHLJ)
    if design["schedule"]["power"] == 1.0
}

FIGURES = {
    recipe.name: recipe
    for recipe in (
        Recipe(
            "homo",
            ("homo",),
            "walks",
            "[homo] the methods are alike",
            ("er-homogeneous@115",),
            _FOUR,
        ),
        Recipe(
            "hete",
            ("hete",),
            "walks",
            "[hete] weights and jumps on a dense network",
            ("er@115",),
            _FOUR,
        ),
        Recipe(
            "simentrap",
            ("simentrap",),
            "walks",
            "[simentrap] entrapment, and jumps",
            ("ring@33000",),
            _FOUR,
        ),
        Recipe(
            "simentrap-stationary",
            ("simentrap",),
            "walks",
            "[simentrap] entrapment, and jumps, from the walk's own law",
            ("ring@33000",),
            _FOUR,
            "stationary",
        ),
        Recipe("grid", ("grid",), "walks", "[grid] entrapment, and jumps", ("grid@115",), _FOUR),
        Recipe("wsju", ("wsju",), "walks", "[wsju] entrapment, and jumps", ("ws@115",), _FOUR),
        Recipe(
            "switch",
            ("switch",),
            "floors",
            "[switch] MHLJ, and uniform sampling once it has settled",
            ("ring@10",),
            _some(MHLJ)
            | {
                "MHLJ, then UnifRW": switching(MHLJ),
                "MHLJ, same drop of the step size": METHODS[MHLJ],
            },
        ),
        Recipe(
            "decay",
            ("Decay",),
            "floors",
            "[Decay] jumps that become rarer",
            ("ring@10",),
            {"no jumps (WeightRW)": METHODS[WEIGHT], "p_jump = 0.1 (MHLJ)": METHODS[MHLJ]}
            | _FADING,
        ),
        Recipe(
            "mixeddist",
            ("fig:mixeddist",),
            "walks",
            "[fig:mixeddist] mixed targets against jumps",
            ("ring@33000",),
            _FOUR
            | {
                f"MixedRW, λ = {mix:g}": {"kind": "mixed_rw", "mix": mix} for mix in (0.1, 0.6, 0.9)
            },
        ),
        Recipe(
            "erimp",
            ("Erimp",),
            "walks",
            "[Erimp] importance weights without entrapment",
            ("er@115",),
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
            ("er-homogeneous@115", "er@115", "ring@33000", "grid@115", "ws@115"),
            _some(UNIF, WEIGHT, MHLJ, MHLJ_CODE, IID),
        ),
        Recipe(
            "p_jump",
            ("gap",),
            "p_jump",
            "Jumps: what error they leave, and the spectral gap",
            ("ring@10", "grid@10", "ws@10", "er@10"),
            _some(MHLJ),
        ),
        Recipe(
            "stability",
            (),
            "stability",
            "How large a step size may be",
            ("er@10", "ring@10"),
            _FOUR,
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
