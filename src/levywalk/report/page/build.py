"""The report: one HTML file that opens in any browser, offline, and requests nothing from any
server.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from levywalk.errors import InvalidParameter
from levywalk.report.curves import Curve, axes_of, axis_range, curves_of, drawn_quantity
from levywalk.report.page.claims import claims_copies, claims_section
from levywalk.report.page.images import FigureImage, images_section
from levywalk.report.page.markup import Markup, beside, embedded, filled, join, policy, section, tag
from levywalk.report.page.rerun import claims_rerun_section, rerun_section, told_of
from levywalk.report.page.summary import csv_lines, latex_lines, table_section
from levywalk.report.page.theory import Theory, theory_section
from levywalk.report.page.verdict import longest, verdict
from levywalk.trace import Comparison, Trace
from levywalk.trace.ranking import Criterion
from levywalk.trace.tables import percent, quantity_text, whole
from levywalk.version import __version__

_BUSIEST = 2  # nodes of each design, by updates and by target
_MOST_NODES = 8
_WORDS = {
    "step": "one update of the model at the node that holds it",
    "hop": "one decision or pass: a stay is one hop, a jump of distance d is d hops",
    "transfer": "one message between two distinct nodes that carries the model",
    "interval": "the mean lies here in 95 % of cases if the walks are drawn again (bootstrap)",
    "target": "the share of updates that a node should get by the design",
    "dwell": "the number of consecutive updates at one node",
    "γL*": (
        "the step size in units of the design’s own limit, 1 over the largest weighted smoothness"
    ),
}
_QUANTITIES = {
    Criterion.DISTANCE2.value: "‖x − x*‖² over its initial value, so every curve begins at 100 %",
    Criterion.EXCESS_LOSS.value: (
        "f(x) − f(x*) over its initial value, so every curve begins at 100 %"
    ),
    Criterion.LOSS.value: "f(x), the mean of all nodes’ losses",
}
_METRIC = "the metric that designs were ranked by, evaluated on the final models; smaller is better"
_RECORDED = "the metric that designs were ranked by, evaluated at checkpoints"
_GOAL = "the first checkpoint after which the mean over walks stays at or {side} this value"


def write_page(page: str, path: str | Path) -> Path:
    """Write the page as UTF-8; characters that UTF-8 cannot encode (lone surrogates) become
    question marks.
    """
    path = Path(path)
    try:
        path.write_bytes(page.encode("utf-8", "replace"))
    except OSError as error:
        raise InvalidParameter(
            f"out must name a file that can be written, got {str(path)!r}: {error.strerror}"
        ) from None
    return path


def html_page(
    results: Comparison,
    *,
    command: str,
    theory: Theory | None = None,
    curves: Sequence[Curve] | None = None,
    claims: Sequence[Mapping[str, Any]] = (),
) -> str:
    """Return the report of a comparison; ``command`` repeats it, if it is not empty.

    Examples
    --------
    >>> import levywalk as lw
    >>> designs = {"UnifRW": lw.unif_rw(), "MHLJ": lw.mhlj()}
    >>> network, problem = lw.ring(20), lw.homogeneous(20)
    >>> found = lw.compare(network, problem, designs, steps=50, replicas=2, step_size=0.01)
    >>> page = html_page(found, command="python mine.py")
    >>> "No walk reached 1 % of the initial error" in page
    True
    """
    lines = curves or curves_of(results)
    one = next(iter(results.traces.values()))
    network = told_of(one, "network")
    kinds = f"{len(results.traces)} design{'s' if len(results.traces) > 1 else ''}"
    subtitle = (
        f"{_problem_words(one)} on {network.get('n', '?')} nodes; {kinds}, {one.replicas} "
        f"walk{'s' if one.replicas > 1 else ''} each, {longest(results):,} steps"
    )
    sections = [
        _verdict_section(results),
        _curve_section(results, lines),
        table_section(results),
        _visits_section(results),
        theory_section(results, theory),
        claims_section(claims) if claims else Markup(),
        rerun_section(results, command),
        _glossary_section(results),
    ]
    data = {
        "accuracy": results.accuracy,
        "relative": results.ranking.relative,
        "walks": max(trace.replicas for trace in results.traces.values()),
        "curves": [line.plain() for line in lines],
        "until": {axis: axis_range(lines, axis).right for axis in axes_of(lines)},
        "copies": {"csv": csv_lines(results), "latex": latex_lines(results)}
        | (claims_copies(claims) if claims else {}),
    }
    return page_of(f"Walks on {network.get('name', 'a network')}", subtitle, sections, data)


def claims_page(
    claims: list[dict[str, Any]],
    pictures: Sequence[FigureImage] = (),
    told: Mapping[str, Any] | None = None,
) -> str:
    """Return the report of a folder with claims alone: the claims, the figures, and how to repeat
    it.

    Examples
    --------
    >>> "holds in part" in claims_page([{"id": 1, "label": "homo", "verdict": "holds in part"}])
    True
    """
    data = {
        "accuracy": 1.0,
        "relative": True,
        "walks": 0,
        "curves": [],
        "until": {},
        "copies": claims_copies(claims),
    }
    sections = [
        claims_section(claims),
        images_section(pictures) if pictures else Markup(),
        claims_rerun_section(told) if told else Markup(),
    ]
    return page_of("Claims of the paper", f"{len(claims)} claims checked", sections, data)


def page_of(title: str, subtitle: str, sections: Sequence[Markup], data: dict[str, Any]) -> str:
    """Return a whole page of these sections; it needs no other file."""
    style, script = beside("page.css"), beside("page.js")
    return filled(
        beside("page.html"),
        {
            "policy": join(policy(style, script)),
            "title": join(title),
            "subtitle": join(subtitle),
            "style": Markup(style),
            "sections": Markup("\n".join(part for part in sections if part)),
            "made": join(
                f"Made by levywalk {__version__}. This file is complete: it needs no server and "
                f"can be sent."
            ),
            "data": embedded(data),
            "script": Markup(script),
        },
    )


def _verdict_section(results: Comparison) -> Markup:
    sentences = verdict(results)
    rest = " ".join(sentences[2:])
    return section(
        "verdict", "Verdict", tag("p", " ".join(sentences[:2])), tag("p", rest) if rest else ""
    )


# --- curves ---------------------------------------------------------------------------------------


def _curve_section(results: Comparison, lines: Sequence[Curve]) -> Markup:
    quantity = drawn_quantity(results)
    shown = axis_range(lines, "steps")

    def choice(kind: str, key: str, label: str, on: bool, **more: object) -> Markup:
        box = tag("input", type=kind, id=key, checked=on, autocomplete="off", **more).removesuffix(
            "</input>"
        )
        return tag("label", Markup(box), label)

    tools = tag(
        "div",
        tag(
            "fieldset",
            tag("legend", f"{quantity} against"),
            *[
                choice("radio", f"axis-{key}", key, key == "steps", name="axis", value=key)
                for key in axes_of(lines)
            ],
        ),
        tag(
            "fieldset",
            choice("checkbox", "logY", f"log {quantity}", not results.ranking.recorded),
            choice("checkbox", "logX", "log horizontal", shown.log),
            choice("checkbox", "whole", f"all {longest(results):,} steps", False)
            if shown.is_cut
            else "",
            choice("checkbox", "median", "median (thin)", False),
        ),
        class_="tools",
    )
    many = max(trace.replicas for trace in results.traces.values()) > 1
    caption = "Line: mean over walks; band: its 95 % interval" if many else "One walk"
    caption += "." if results.accuracy is None else "; ring: from here on at the accuracy."
    caption += (
        " The axis ends where all curves have become level; “all steps” shows the rest."
        if shown.is_cut
        else ""
    )
    how = tag(
        "span",
        " Press a name to hide or show its line; point at the curves to read them.",
        class_="help",
    )
    plot = tag(
        "div",
        tag("div", id="tip", hidden=True),
        tag(
            "noscript",
            tag(
                "p",
                "The curves need JavaScript, which is part of this file; the numbers below work "
                "without.",
            ),
        ),
        id="plot",
        tabindex="0",
        role="group",
        aria_label=(
            f"Curves of the {quantity}. Arrow keys read the values; "
            "the same numbers are in the table below."
        ),
    )
    return section(
        "curves",
        f"{quantity.capitalize()} as the model walks",
        tools,
        tag("div", id="legend", role="group", aria_label="Lines to show"),
        plot,
        tag("div", id="live", class_="unseen", aria_live="polite"),
        tag("p", caption, how, class_="note"),
        tag(
            "details",
            tag("summary", "the same in numbers"),
            _numbers(results, lines),
            class_="help",
        ),
    )


def _numbers(results: Comparison, lines: Sequence[Curve]) -> Markup:
    """Return the means at a dozen checkpoints of each curve."""
    head = tag(
        "tr", *[tag("th", text, scope="col") for text in ("steps", *(line.name for line in lines))]
    )
    first = lines[0].x["steps"]
    rows = []
    for wanted in np.linspace(first[0], first[-1], 11):
        at = float(first[int(np.abs(first - wanted).argmin())])
        means = [line.mean[int(np.abs(line.x["steps"] - at).argmin())] for line in lines]
        rows.append(
            tag(
                "tr",
                tag("th", whole(at), scope="row"),
                *[tag("td", quantity_text(results.ranking, float(mean))) for mean in means],
            )
        )
    return tag("div", tag("table", tag("thead", head), tag("tbody", *rows)), class_="wide")


# --- visits ---------------------------------------------------------------------------------------


def _shares(trace: Trace) -> np.ndarray[Any, np.dtype[np.float64]]:
    assert trace.visits is not None
    return np.asarray(trace.visits.sum(axis=0) / max(int(trace.visits.sum()), 1))


def busiest_nodes(traces: Mapping[str, Trace]) -> list[int]:
    """Return the nodes that matter most to any design, by updates or by target."""
    weight: dict[int, float] = {}
    for trace in traces.values():
        for law in (_shares(trace), trace.target):
            if law.max() <= 1.001 * law.min():  # all nodes are alike
                continue
            for v in np.argsort(-law, kind="stable")[:_BUSIEST]:
                if law[v] > 0:
                    weight[int(v)] = max(weight.get(int(v), 0.0), float(law[v]))
    return sorted(weight, key=lambda v: -weight[v])[:_MOST_NODES] or [0]


def _visits_section(results: Comparison) -> Markup:
    counted = {name: trace for name, trace in results.traces.items() if trace.visits is not None}
    if not counted:
        return Markup()
    nodes = busiest_nodes(counted)
    top = max(
        max(float(_shares(t)[nodes].max()), float(t.target[nodes].max())) for t in counted.values()
    )
    names = list(results.traces)
    cards = [_card(name, trace, names.index(name), nodes, top) for name, trace in counted.items()]
    return section(
        "visits",
        "Where the updates were made",
        tag(
            "p",
            "The nodes that matter most to any design. Bar: the share of all updates that the node "
            "got; tick: "
            "the share that it should get by the design’s target. If a bar ends at its tick, the "
            "walk does "
            "what it is designed for.",
        ),
        tag("div", *cards, class_="cards"),
    )


def _card(name: str, trace: Trace, i: int, nodes: list[int], top: float) -> Markup:
    share = _shares(trace)
    rows = []
    for v in nodes:
        got, aim = float(share[v]), float(trace.target[v])
        bar = tag(
            "svg",
            tag("rect", class_="base", width="100", height="10", y="2"),
            tag("rect", class_=f"f{i % 8}", width=f"{100 * got / top:.3f}", height="10", y="2"),
            tag(
                "line",
                class_="aim",
                x1=f"{100 * aim / top:.3f}",
                x2=f"{100 * aim / top:.3f}",
                y1="0",
                y2="14",
            ),
            class_="bar",
            viewBox="-0.5 0 101 14",
            preserveAspectRatio="none",
            aria_hidden="true",
        )
        rows.append(
            tag(
                "tr",
                tag("th", f"node {trace.shown(v)}", scope="row"),
                tag("td", bar),
                tag("td", percent(got)),
                tag("td", percent(aim)),
            )
        )
    others = len(share) - len(nodes)
    if others > 0:
        sums = [
            percent(max(0.0, float(law.sum() - law[nodes].sum()))) for law in (share, trace.target)
        ]
        rows.append(
            tag(
                "tr",
                tag("th", "others", scope="row"),
                tag("td", f"{others:,} node{'s' if others > 1 else ''}", class_="text"),
                *[tag("td", text) for text in sums],
            )
        )
    head = tag("tr", *[tag("th", text, scope="col") for text in ("", "", "got", "target")])
    return tag(
        "div", tag("h3", name, data_swatch=i), tag("table", tag("thead", head), tag("tbody", *rows))
    )


def _problem_words(trace: Trace) -> str:
    problem = told_of(trace, "problem")
    kind = (
        re.sub(r"(?<=[a-z])(?=[A-Z])", " ", str(problem.get("kind", "a problem")))
        .lower()
        .capitalize()
    )
    return f"{kind} in {problem.get('dim', '?')} dimensions"


def _glossary_section(results: Comparison) -> Markup:
    ranking = results.ranking
    error = (
        {}
        if results.accuracy is None
        else {
            f"steps to {quantity_text(ranking, results.accuracy)}": _GOAL.format(
                side="above" if ranking.higher_is_better else "below"
            )
        }
    )
    better = "more" if ranking.higher_is_better else "less"
    metric = f"{_RECORDED}; {better} is better" if ranking.recorded else _METRIC
    words = _WORDS | {ranking.quantity: _QUANTITIES.get(results.rank_by, metric)} | error
    return section(
        "words",
        "What the words mean",
        tag("dl", *[join(tag("dt", word), tag("dd", text)) for word, text in words.items()]),
    )
