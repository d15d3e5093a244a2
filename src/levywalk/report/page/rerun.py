"""The section of the page that says how to run it again: experiment file, command, seeds,
versions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from levywalk.report.experiment_toml import toml
from levywalk.report.page.markup import Markup, join, plain, section, tag
from levywalk.report.page.verdict import longest
from levywalk.trace import Comparison, Trace
from levywalk.trace.provenance import text_of


def claims_rerun_section(told: Mapping[str, Any]) -> Markup:
    """Return how claims were asked: the command, the instances, the effort, the version.

    Examples
    --------
    >>> "levywalk reproduce --all" in claims_rerun_section({"command": "levywalk reproduce --all"})
    True
    """
    facts = {name: plain(value) for name, value in told.items() if name != "command"}
    rows = [
        tag("tr", tag("th", name, scope="row"), tag("td", value, class_="text"))
        for name, value in facts.items()
    ]
    command = tag("pre", tag("code", told.get("command", ""), id="command"))
    return section("again", "Run it again", command, tag("table", tag("tbody", *rows)))


def rerun_section(results: Comparison, command: str) -> Markup:
    """Return everything that is needed to run a comparison again."""
    one = next(iter(results.traces.values()))
    told = one.provenance
    versions = ", ".join(
        f"{key} {told.get(key)}" for key in ("levywalk", "numpy", "python", "machine", "backend")
    )
    facts = {
        "network": _facts_of(one, "network"),
        "problem": _facts_of(one, "problem"),
        "seed": told.get("seed"),
        "walks": f"{one.replicas} of {longest(results):,} steps, start {told.get('start')}",
        "update": text_of(told.get("update")),
        "loss measured": f"on {one.sampled_loss}" if one.sampled_loss else "exactly",
        "versions": versions,
    }
    return section(
        "again",
        "To run it again",
        *_how(results, command),
        tag("dl", *[join(tag("dt", key), tag("dd", plain(value))) for key, value in facts.items()]),
        _designs(results),
    )


def _how(results: Comparison, command: str) -> list[object]:
    """Return the command, and the experiment file if there is one."""
    if not results.settings:
        return [tag("pre", tag("code", command, id="command"))] if command else []
    copy = tag(
        "button",
        "copy the experiment",
        type="button",
        class_="copy",
        data_text="experiment",
        data_said="said-again",
    )
    return [
        tag("p", *_typed(results.command, command), ". The same seed gives the same walks."),
        tag("pre", tag("code", toml(results.settings), id="experiment")),
        tag("div", copy, tag("span", id="said-again", role="status"), class_="tools"),
    ]


def _designs(results: Comparison) -> Markup:
    """Return the designs as they were run, to be opened."""
    described = [
        tag(
            "tr",
            tag("th", name, scope="row"),
            tag("td", plain(trace.provenance["design"]), class_="text"),
            tag("td", plain(_step_sizes(trace)), class_="text"),
        )
        for name, trace in results.traces.items()
    ]
    head = tag(
        "tr",
        tag("th", "design", scope="col"),
        tag("th", "parameters", scope="col", class_="text"),
        tag("th", "step size", scope="col", class_="text"),
    )
    table = tag("table", tag("thead", head), tag("tbody", *described))
    return tag(
        "details",
        tag("summary", "the designs as they were run"),
        tag("div", table, class_="wide"),
    )


def _typed(ran: str, command: str) -> list[object]:
    """Return what to type: the command that was typed if it is enough, or the one with the
    experiment file.
    """
    first = ["Type ", tag("code", ran, id="command"), ", or save"] if ran else ["Save"]
    second = tag("code", command, id=None if ran else "command")
    return [*first, " this as ", tag("code", "experiment.toml"), " and type ", second]


def _facts_of(trace: Trace, key: str) -> str:
    """Return what the provenance says about the network or the problem, as text."""
    facts = {name: value for name, value in told_of(trace, key).items() if name != "recipe"}
    if "loss" in facts:
        facts["loss"] = text_of(facts["loss"])
    return ", ".join(f"{name} {value}" for name, value in facts.items())


def _step_sizes(trace: Trace) -> Any:
    """Return the step size of each phase as text."""
    found = trace.provenance.get("step_size")
    return [text_of(each) for each in found] if isinstance(found, list) else found


def told_of(trace: Trace, key: str) -> Mapping[str, Any]:
    """Return a part of the trace's provenance, or an empty one."""
    found = trace.provenance.get(key)
    return found if isinstance(found, dict) else {}
