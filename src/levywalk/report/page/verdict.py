"""The result in words: who reached the accuracy first, by what factor, and how sure that is."""

from __future__ import annotations

import math

import numpy as np

from levywalk.report.results import Results
from levywalk.report.tables import whole, with_interval
from levywalk.trace import Trace
from levywalk.trace.statistics import resampled_means, settled_at


def verdict(results: Results) -> list[str]:
    """Return the verdict, one sentence an item; designs that only a server could run are judged apart.

    Examples
    --------
    >>> import levywalk as lw
    >>> from levywalk.experiments.execute import as_json
    >>> from levywalk.report.results import results_of
    >>> designs = {"UnifRW": lw.unif_rw()}
    >>> found = lw.compare(lw.ring(20), lw.homogeneous(20), designs, steps=9, replicas=2, step_size=1e-9, accuracy=0.5)
    >>> verdict(results_of(as_json(found), found.traces))
    ['UnifRW did not reach 50 % of the initial error within 9 steps: 100 % was left.']
    """
    server = [name for name, trace in results.traces.items() if is_server(trace)]
    walks = [name for name in results.traces if name not in server] or server
    sentences = _race(results, walks)
    sentences += [_server(results, name) for name in server if name not in walks]
    sentences += _caveats(results)
    return sentences


def is_server(trace: Trace) -> bool:
    """Whether nodes were drawn independently, as only a server could, and not walked to."""
    return bool(trace.provenance["design"].get("moves") == "iid")


def _race(results: Results, names: list[str]) -> list[str]:
    steps = {name: results.steps_to(name)[0] for name in names}
    order = sorted(names, key=lambda name: (steps[name], results.rows[name]["final_error"] or math.inf))
    first, goal = order[0], f"{percent(results.accuracy)} of the initial error"
    within = f"within {longest(results):,} steps"
    if not math.isfinite(steps[first]):
        left = percent(results.rows[first]["final_error"])
        if len(order) == 1:
            return [f"{first} did not reach {goal} {within}: {left} was left."]
        return [f"No walk reached {goal} {within}; {first} came closest, with {left} left."]
    took = f"after {_steps(results, first)} steps"
    if len(order) == 1:
        return [f"{first} reached {goal} {took}."]
    second = order[1]
    sentences: list[str] = []
    if not math.isfinite(steps[second]):
        sentences.append(f"{first} reached {goal} first, {took}; no other walk reached it {within}.")
    elif steps[second] == steps[first]:
        sentences.append(f"{first} and {second} reached {goal} at the same checkpoint, {took}.")
    else:
        sentences.append(
            f"{first} reached {goal} first, {took}: {_factor(results, first, second)} fewer than {second}, the next, "
            f"with {_steps(results, second)}."
        )
    if _alone(results):
        sentences.append("There is one walk of each design, so there is no interval and the order may be chance.")
    elif steps[second] != steps[first]:
        sentences.append(_certainty(results, first, second))
    late = [name for name in order[2:] if math.isfinite(steps[name])]
    if late:
        sentences.append("Then came " + ", ".join(f"{name} ({_steps(results, name)})" for name in late) + ".")
    never = [name for name in order[1:] if not math.isfinite(steps[name])]
    if never:
        ends = ", ".join(f"{name} ({percent(results.rows[name]['final_error'])} left)" for name in never)
        sentences.append(f"Not reached {within}: {ends}.")
    return [
        *sentences,
        *_in_transfers(results, [name for name in order if math.isfinite(steps[name])]),
    ]


def _factor(results: Results, first: str, second: str) -> str:
    steps, other = results.steps_to(first)[0], results.steps_to(second)[0]
    if steps == 0.0:
        return "infinitely many times"
    if _alone(results):
        return f"{other / steps:.2g} times"
    low, high = ratio_interval(results.traces[second], results.traces[first], results.accuracy)
    return f"{other / steps:.2g} times [{low:.2g}, {f'{high:.2g}' if math.isfinite(high) else '∞'}]"


def _certainty(results: Results, first: str, second: str) -> str:
    if results.steps_to(first)[2] < results.steps_to(second)[1]:
        return "The two 95 % intervals do not overlap."
    least, _ = ratio_interval(results.traces[second], results.traces[first], results.accuracy)
    if least > 1.0:
        return f"The two 95 % intervals overlap, but walk by walk the factor stays above 1 (from {least:.3g})."
    return "The two 95 % intervals overlap, so other walks could reverse the order."


def ratio_interval(above: Trace, below: Trace, accuracy: float) -> tuple[float, float]:
    """Return the 95 % interval of steps over steps when walks are drawn again, undefined ratios counted at both ends.

    Walk i of both designs reads the same draws, so walks are drawn in pairs where there are equally many.
    """
    paired = above.replicas == below.replicas
    times = [
        settled_at(trace.step, resampled_means(trace.error, seed=seed), accuracy)
        for trace, seed in ((above, 0), (below, 0 if paired else 1))
    ]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = times[0] / times[1]
    unknown = np.isnan(ratio)
    low = np.quantile(np.where(unknown, 0.0, ratio), 0.025, method="inverted_cdf")
    high = np.quantile(np.where(unknown, np.inf, ratio), 0.975, method="inverted_cdf")
    return float(low), float(high)


def _in_transfers(results: Results, names: list[str]) -> list[str]:
    """Say who is first when messages are counted, if anyone but one reached the accuracy."""
    if len(names) < 2:
        return []
    cost = {name: transfers_to(results.traces[name], results.accuracy) for name in names}
    order = sorted(names, key=lambda name: cost[name])
    listed = ", ".join(f"{name} {cost[name]:,.0f}" for name in order)
    same = (
        "Counted in transfers the first is the same"
        if order[0] == names[0]
        else "Counted in transfers the first is another"
    )
    return [f"{same}: {listed}."]


def transfers_to(trace: Trace, accuracy: float) -> float:
    """Return the mean number of messages until the accuracy is reached, or infinity."""
    steps = trace.steps_to(accuracy)
    if not math.isfinite(steps):
        return math.inf
    return float(trace.transfers[:, int(np.searchsorted(trace.step, steps))].mean())


def _server(results: Results, name: str) -> str:
    steps = results.steps_to(name)
    if math.isfinite(steps[0]):
        return f"For comparison, a server that samples nodes freely ({name}) needs {_steps(results, name)} steps."
    return f"A server that samples nodes freely ({name}) did not reach it within {longest(results):,} steps."


def _caveats(results: Results) -> list[str]:
    out = []
    for name, trace in results.traces.items():
        diverged = int((trace.diverged_at >= 0).sum())
        if diverged:
            out.append(f"{diverged} of {trace.replicas} walks of {name} diverged and count as infinitely far.")
    if any(trace.provenance.get("interrupted") for trace in results.traces.values()):
        out.append("The run was interrupted: these are the results until then.")
    return out


def _steps(results: Results, name: str) -> str:
    """Return steps to the accuracy, with their interval where several walks give one."""
    steps = results.steps_to(name)
    return whole(steps[0]) if _alone(results) else with_interval(*steps)


def _alone(results: Results) -> bool:
    return max(trace.replicas for trace in results.traces.values()) == 1


def longest(results: Results) -> int:
    """Return the steps of the longest run."""
    return max(int(trace.step[-1]) for trace in results.traces.values())


def percent(share: float | None) -> str:
    """Return a share as per cent.

    Examples
    --------
    >>> percent(0.01), percent(0.000123), percent(None)
    ('1 %', '0.0123 %', '∞')
    """
    if share is None or not math.isfinite(share):
        return "∞"
    return (
        f"{100 * share:.3g} %"
        if 100 * share < 1000
        else f"{100 * share:,.0f} %"
        if share < 1e6
        else f"{100 * share:.2e} %"
    )
