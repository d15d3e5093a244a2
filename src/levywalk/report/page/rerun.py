"""How to run it again: the experiment file, the command, seeds and versions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from levywalk.report.experiment_toml import toml
from levywalk.report.page.markup import Markup, join, plain, section, tag
from levywalk.report.page.verdict import longest
from levywalk.report.results import Results
from levywalk.trace import Trace


def claims_again_section(told: Mapping[str, Any]) -> Markup:
    """Return how claims were asked: the command, the instances, the effort, the version.

    Examples
    --------
    >>> "levywalk reproduce --all" in claims_again_section({"command": "levywalk reproduce --all", "walks": 64})
    True
    """
    facts = {name: plain(value) for name, value in told.items() if name != "command"}
    rows = [tag("tr", tag("th", name, scope="row"), tag("td", value, class_="text")) for name, value in facts.items()]
    command = tag("pre", tag("code", told.get("command", ""), id="command"))
    return section("again", "Run it again", command, tag("table", tag("tbody", *rows)))


def again_section(results: Results, command: str) -> Markup:
    """Return what somebody needs to run it again."""
    one = next(iter(results.traces.values()))
    told = one.provenance
    versions = ", ".join(f"{key} {told.get(key)}" for key in ("levywalk", "numpy", "python", "machine", "backend"))
    facts = {
        "network": ", ".join(f"{key} {value}" for key, value in told_of(one, "network").items()),
        "problem": ", ".join(f"{key} {value}" for key, value in told_of(one, "problem").items()),
        "seed": told.get("seed"),
        "walks": f"{one.replicas} of {longest(results):,} steps, start {told.get('start')}",
        "update": told.get("update"),
        "loss measured": f"on {one.sampled_loss}" if one.sampled_loss else "exactly",
        "versions": versions,
    }
    parts: list[object] = [tag("pre", tag("code", command, id="command"))]
    if results.settings:
        parts = [
            tag("p", *_typed(results.command, command), ". The same seed gives the same walks."),
            tag("pre", tag("code", toml(results.settings), id="experiment")),
            tag(
                "div",
                tag(
                    "button",
                    "copy the experiment",
                    type="button",
                    class_="copy",
                    data_text="experiment",
                    data_said="said-again",
                ),
                tag("span", id="said-again", role="status"),
                class_="tools",
            ),
        ]
    described = [
        tag(
            "tr",
            tag("th", name, scope="row"),
            tag("td", plain(trace.provenance["design"]), class_="text"),
            tag("td", plain(trace.provenance.get("step_size")), class_="text"),
        )
        for name, trace in results.traces.items()
    ]
    head = tag(
        "tr",
        tag("th", "design", scope="col"),
        tag("th", "as it ran", scope="col", class_="text"),
        tag("th", "step size", scope="col", class_="text"),
    )
    return section(
        "again",
        "To run it again",
        *parts,
        tag("dl", *[join(tag("dt", key), tag("dd", plain(value))) for key, value in facts.items()]),
        tag(
            "details",
            tag("summary", "the designs as they ran"),
            tag("div", tag("table", tag("thead", head), tag("tbody", *described)), class_="wide"),
        ),
    )


def _typed(ran: str, command: str) -> list[object]:
    """Say what to type: what was typed, where that is enough, or the command with the experiment saved."""
    first = ["Type ", tag("code", ran, id="command"), ", or save"] if ran else ["Save"]
    second = tag("code", command, id=None if ran else "command")
    return [*first, " this as ", tag("code", "experiment.toml"), " and type ", second]


def told_of(trace: Trace, key: str) -> Mapping[str, Any]:
    """Return a part of what the trace says about itself, or an empty one."""
    found = trace.provenance.get(key)
    return found if isinstance(found, dict) else {}
