"""The result in sentences: which design was best, by what factor, and how certain that is."""

from __future__ import annotations

import math

import numpy as np

from levywalk.arrays import Floats, Ints
from levywalk.trace import Comparison, Trace
from levywalk.trace.statistics import resampled_means, settled_at
from levywalk.trace.tables import quantity_text, whole, with_interval


def verdict(results: Comparison) -> list[str]:
    """Return the verdict, one sentence an item; designs that only a server could run are judged
    separately.

    Examples
    --------
    >>> import levywalk as lw
    >>> designs = {"UnifRW": lw.unif_rw()}
    >>> network, problem = lw.ring(20), lw.homogeneous(20)
    >>> options = {"steps": 9, "replicas": 2, "step_size": 1e-9, "accuracy": 0.5}
    >>> verdict(lw.compare(network, problem, designs, **options))
    ['UnifRW did not reach 50 % of the initial error within 9 steps: 100 % was left.']
    """
    server = [name for name, trace in results.traces.items() if is_server(trace)]
    walks = [name for name in results.traces if name not in server] or server
    if results.accuracy is None:
        return [*_least_at_the_end(results, walks, server), *_caveats(results)]
    sentences = _race(results, walks)
    sentences += [_server(results, name) for name in server if name not in walks]
    return [*sentences, *_caveats(results)]


def is_server(trace: Trace) -> bool:
    """Whether nodes were drawn independently, as only a server could, and not walked to."""
    return trace.provenance["design"].get("local") is False


def _least_at_the_end(results: Comparison, names: list[str], server: list[str]) -> list[str]:
    """Rank designs by the value at the end, where there is no accuracy to reach."""
    what, order = results.ranking.quantity, sorted(names, key=results.rank)
    first = order[0]
    if not math.isfinite(results.final(first)):
        return [f"No walk has a finite {what} after {longest(results):,} steps."]
    sentences = [
        f"After {longest(results):,} steps {first} has the {results.ranking.best} {what}, "
        f"{_final(results, first)}."
    ]
    if len(order) > 1:
        if _alone(results):
            sentences.append(_ONE_WALK)
        else:
            one, other = (_final_interval(results, name) for name in order[:2])
            sentences.append(
                f"{order[1]} is the next, and the two 95 % intervals "
                + (
                    "do not overlap."
                    if one[1] < other[0] or other[1] < one[0]
                    else "overlap, so other walks could reverse the order."
                )
            )
        rest = ", ".join(f"{name} ({_final(results, name)})" for name in order[1:])
        sentences.append(f"The others in order: {rest}.")
    sentences += [
        f"For comparison, a server that samples nodes freely ({name}): {_final(results, name)}."
        for name in server
        if name not in names
    ]
    return sentences


_ONE_WALK = (
    "There is one walk of each design, so there is no interval, and the order may be due to chance."
)


def _final_interval(results: Comparison, name: str) -> tuple[float, float]:
    value = results.final(name)
    return results.final_interval(name) or (value, value)


def _final(results: Comparison, name: str) -> str:
    """Return the value at the end, with its interval if there are several walks."""
    value = quantity_text(results.ranking, results.final(name))
    if _alone(results):
        return value
    low, high = (quantity_text(results.ranking, end) for end in _final_interval(results, name))
    return f"{value} [{low}, {high}]"


def _race(results: Comparison, names: list[str]) -> list[str]:
    """Rank designs by the steps to the accuracy."""
    steps = {name: results.steps_to[name] for name in names}
    order = sorted(names, key=results.rank)
    first, goal = order[0], results.ranking.goal
    within = f"within {longest(results):,} steps"
    if not math.isfinite(steps[first]):
        left, rest = _left(results, first), _rest(results)
        if len(order) == 1:
            return [f"{first} did not reach {goal} {within}: {left}{_was(results)}."]
        return [f"No walk reached {goal} {within}; {first} came closest, with {left}{rest}."]
    took = f"after {_steps(results, first)} steps"
    if len(order) == 1:
        return [f"{first} reached {goal} {took}."]
    second = order[1]
    sentences: list[str] = []
    if not math.isfinite(steps[second]):
        sentences.append(
            f"{first} reached {goal} first, {took}; no other walk reached it {within}."
        )
    elif steps[second] == steps[first]:
        sentences.append(f"{first} and {second} reached {goal} at the same checkpoint, {took}.")
    else:
        sentences.append(
            f"{first} reached {goal} first, {took}: {_factor(results, first, second)} fewer than "
            f"{second}, the next, with {_steps(results, second)}."
        )
    if _alone(results):
        sentences.append(_ONE_WALK)
    elif steps[second] != steps[first]:
        sentences.append(_certainty(results, first, second))
    late = [name for name in order[2:] if math.isfinite(steps[name])]
    if late:
        listed = ", ".join(f"{name} ({_steps(results, name)})" for name in late)
        sentences.append(f"Then came {listed}.")
    never = [name for name in order[1:] if not math.isfinite(steps[name])]
    if never:
        ends = ", ".join(f"{name} ({_left(results, name)}{_rest(results)})" for name in never)
        sentences.append(f"Not reached {within}: {ends}.")
    reached = [name for name in order if math.isfinite(steps[name])]
    return [*sentences, *_in_transfers(results, reached)]


def _left(results: Comparison, name: str) -> str:
    return quantity_text(results.ranking, results.final(name))


def _rest(results: Comparison) -> str:
    """Return what follows the value at the end: an error is left, a metric is at the end."""
    return " at the end" if results.ranking.recorded else " left"


def _was(results: Comparison) -> str:
    return _rest(results) if results.ranking.recorded else " was left"


def _factor(results: Comparison, first: str, second: str) -> str:
    steps, other = results.steps_to[first], results.steps_to[second]
    if steps == 0.0:
        return "infinitely many times"
    if _alone(results):
        return f"{other / steps:.2g} times"
    low, high = _ratio_interval(results, second, first)
    end = f"{high:.2g}" if math.isfinite(high) else "∞"
    return f"{other / steps:.2g} times [{low:.2g}, {end}]"


def _certainty(results: Comparison, first: str, second: str) -> str:
    if results.steps_interval(first)[2] < results.steps_interval(second)[1]:
        return "The two 95 % intervals do not overlap."
    least, _ = _ratio_interval(results, second, first)
    if least > 1.0:
        return (
            "The two 95 % intervals overlap, but walk by walk the factor stays above 1 "
            f"(from {least:.3g})."
        )
    return "The two 95 % intervals overlap, so other walks could reverse the order."


def _ratio_interval(results: Comparison, above: str, below: str) -> tuple[float, float]:
    assert results.accuracy is not None
    one, other = ((results.traces[name].step, results.values(name)) for name in (above, below))
    return ratio_interval(one, other, results.ranking.oriented(results.accuracy))


def ratio_interval(
    above: tuple[Ints, Floats], below: tuple[Ints, Floats], accuracy: float
) -> tuple[float, float]:
    """Return the 95 % interval of steps over steps when walks are drawn again.

    Each of ``above`` and ``below`` is checkpoints and values (replicas, checkpoints). Undefined
    ratios count at both ends. Walk i of both designs reads the same random numbers, so walks are
    drawn in pairs if there are equally many.
    """
    paired = len(above[1]) == len(below[1])
    times = [
        settled_at(step, resampled_means(values, seed=seed), accuracy)
        for (step, values), seed in ((above, 0), (below, 0 if paired else 1))
    ]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = times[0] / times[1]
    unknown = np.isnan(ratio)
    low = np.quantile(np.where(unknown, 0.0, ratio), 0.025, method="inverted_cdf")
    high = np.quantile(np.where(unknown, np.inf, ratio), 0.975, method="inverted_cdf")
    return float(low), float(high)


def _in_transfers(results: Comparison, names: list[str]) -> list[str]:
    """Return which design is first when messages are counted, if several reached the accuracy."""
    if len(names) < 2:
        return []
    cost = {name: transfers_to(results, name) for name in names}
    order = sorted(names, key=lambda name: cost[name])
    listed = ", ".join(f"{name} {cost[name]:,.0f}" for name in order)
    which = "the same" if order[0] == names[0] else "another"
    return [f"Counted in transfers the first is {which}: {listed}."]


def transfers_to(results: Comparison, name: str) -> float:
    """Return the mean number of messages until a design reaches the accuracy, or infinity."""
    steps, trace = results.steps_to[name], results.traces[name]
    if not math.isfinite(steps):
        return math.inf
    return float(trace.transfers[:, int(np.searchsorted(trace.step, steps))].mean())


def _server(results: Comparison, name: str) -> str:
    if math.isfinite(results.steps_to[name]):
        return (
            f"For comparison, a server that samples nodes freely ({name}) needs "
            f"{_steps(results, name)} steps."
        )
    return (
        f"A server that samples nodes freely ({name}) did not reach it within "
        f"{longest(results):,} steps."
    )


def _caveats(results: Comparison) -> list[str]:
    out = []
    for name, trace in results.traces.items():
        diverged = int((trace.diverged_at >= 0).sum())
        if diverged:
            out.append(
                f"{diverged} of {trace.replicas} walks of {name} diverged and count as "
                "infinitely far."
            )
    if results.interrupted:
        out.append("The run was interrupted: these are the results until then.")
    return out


def _steps(results: Comparison, name: str) -> str:
    """Return the steps to the accuracy, with their interval if there are several walks."""
    steps = results.steps_interval(name)
    return whole(steps[0]) if _alone(results) else with_interval(*steps)


def _alone(results: Comparison) -> bool:
    return max(trace.replicas for trace in results.traces.values()) == 1


def longest(results: Comparison) -> int:
    """Return the steps of the longest run."""
    return max(int(trace.step[-1]) for trace in results.traces.values())
