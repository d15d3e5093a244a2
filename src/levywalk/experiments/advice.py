"""What to do on a network, in a few sentences: the first lines of `levywalk inspect`."""

from __future__ import annotations

import math

from levywalk.experiments.inspect import Inspection
from levywalk.theory.judge.predict import Prediction
from levywalk.theory.judge.regions import steps_text

_TRAPPED = 10.0  # times the stay of i.i.d. sampling: trapped
_SOMEWHAT = 2.0
_ALIKE = 1.25  # costs that differ by less are called about equal


def advice(found: Inspection, command: str = "") -> list[str]:
    """Return at most five sentences: whether weighted sampling is trapped, what to use, how to
    measure it.

    Parameters
    ----------
    found
        The inspection.
    command
        A command that measures what is advised; it is shown in the last sentence.

    Examples
    --------
    >>> import levywalk as lw
    >>> from levywalk.experiments.inspect import inspect
    >>> network, problem = lw.ring(24), lw.heterogeneous(24, dim=3, important=1)
    >>> advice(inspect(network, problem), "levywalk compare ring:24")[0]
    'WeightRW gets trapped here: it stays ... steps per visit at node ..., ... times as long as ...'
    """
    lines = [_trap(found)] if "WeightRW" in found.judgements else []
    lines += _choice(found)
    if command:
        lines.append(f"Measure it before you rely on it: {command}")
    return lines


def _trap(found: Inspection) -> str:
    worst = found.judgements["WeightRW"].entrapment.worst
    ratio = worst.dwell / worst.iid_dwell
    if ratio >= _TRAPPED:
        begin = "WeightRW gets trapped here: it stays"
    elif ratio >= _SOMEWHAT:
        begin = "WeightRW is slowed down somewhat here: it stays"
    else:
        return (
            "WeightRW does not get trapped here: no visit is much longer than under i.i.d. sampling"
            f" ({steps_text(worst.dwell)} against {worst.iid_dwell:.3g})."
        )
    return (
        f"{begin} {steps_text(worst.dwell)} per visit at {worst.place}, {ratio:,.0f} times as long "
        "as i.i.d. sampling from the same law."
    )


def _choice(found: Inspection) -> list[str]:
    """Return which design to use, by the predicted cost, and how far the prediction goes."""
    guesses = {
        name: judgement.prediction
        for name, judgement in found.judgements.items()
        if judgement.prediction is not None
    }
    finite = {name: guess for name, guess in guesses.items() if math.isfinite(guess.steps)}
    goal = f"{100 * found.accuracy:g} % of the initial error"
    if not guesses:
        return ["The steps of the designs could not be predicted here: compare them by a run."]
    if not finite:
        return [f"None of the designs is predicted to reach {goal}: give a larger --accuracy."]
    best = min(finite, key=lambda name: finite[name].steps)
    others = [f"{name} {_cost(guess)}" for name, guess in guesses.items() if name != best]
    alike = [
        name
        for name, guess in finite.items()
        if name != best and guess.steps < _ALIKE * finite[best].steps
    ]
    line = f"Use {best}: {_cost(finite[best])} predicted to {goal} ({'; '.join(others)})."
    if alike:
        line += f" {' and '.join(alike)} {'is' if len(alike) == 1 else 'are'} about as good."
    lines = [line]
    thrifty = min(finite, key=lambda name: finite[name].transfers)
    if finite[thrifty].transfers * _ALIKE < finite[best].transfers:
        lines.append(
            f"If only transfers between nodes count, use {thrifty}: "
            f"{finite[thrifty].transfers:,.0f} instead of {finite[best].transfers:,.0f}."
        )
    doubted = [name for name, guess in guesses.items() if not getattr(guess, "trusted", True)]
    if doubted:
        lines.append(f"The prediction is not trusted for {', '.join(doubted)}.")
    return lines


def _cost(guess: Prediction) -> str:
    if not math.isfinite(guess.steps):
        return "never"
    return f"{guess.steps:,.0f} steps"
