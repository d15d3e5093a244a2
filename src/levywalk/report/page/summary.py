"""The summary table of the page, and the same table as CSV and LaTeX."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from levywalk.report.page.markup import Markup, section, tag
from levywalk.report.page.verdict import is_server, transfers_to
from levywalk.trace import Comparison
from levywalk.trace.tables import other_metrics, percent, quantity_text, whole, with_interval

_LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"} | {
    c: f"\\{c}" for c in "&%$#_{}"
}


@dataclass(frozen=True)
class _Cell:
    text: str
    value: float
    small: str = ""


def _cells(results: Comparison, name: str) -> dict[str, _Cell]:
    """Return a design's cells by column."""
    row, trace, ranking = results.rows[name], results.traces[name], results.ranking
    cells = {}
    for accuracy in results.accuracies:
        steps, low, high = results.steps_interval(name, accuracy)
        shown, _, interval = with_interval(steps, low, high).partition(" [")
        small = f"[{interval}" if interval and trace.replicas > 1 else ""
        cells[f"steps to {quantity_text(ranking, accuracy)}"] = _Cell(shown, steps, small)
    if results.accuracy is not None:
        transfers = transfers_to(results, name)
        title = f"transfers to {quantity_text(ranking, results.accuracy)}"
        cells[title] = _Cell(whole(transfers), transfers)
        seconds = row.get(f"time_to_{results.accuracy:g}")
        if seconds is not None:
            title = f"seconds to {quantity_text(ranking, results.accuracy)}"
            cells[title] = _Cell(f"{seconds:,.4g}", seconds)
    cells[f"{ranking.quantity} at the end"] = _final_cell(results, name)
    for metric in other_metrics(results):
        value = float(row[f"final_{metric}"])
        cells[f"{metric} at the end"] = _Cell(f"{value:.5g}", value)
    if row.get("busiest_share") is not None:
        share, aimed = float(row["busiest_share"]), float(row["busiest_target"])
        node = f"node {trace.shown(int(row['busiest_node']))}"
        cells["busiest node’s share"] = _Cell(
            percent(share), share, f"{node}; target {percent(aimed)}"
        )
    if row.get("longest_dwell") is not None:
        dwell = float(row["longest_dwell"])
        cells["longest dwell"] = _Cell(whole(dwell), dwell, "updates")
    per_step = float(row["transfers_per_step"])
    cells["transfers per step"] = _Cell(f"{per_step:.2f}", per_step)
    if any(other["small_messages_per_step"] > 0 for other in results.rows.values()):
        asked = float(row["small_messages_per_step"])
        cells["small messages per step"] = _Cell(f"{asked:.2f}", asked)
    size, relative = float(row["step_size"]), float(row["relative_step_size"])
    cells["step size γ (γL*)"] = _Cell(f"{size:.2e}", size, f"({relative:.2g})")
    return cells


def _final_cell(results: Comparison, name: str) -> _Cell:
    ranking, final = results.ranking, results.final(name)
    small = ""
    if not ranking.relative and results.traces[name].replicas > 1:
        row, column = results.rows[name], results.final_column
        ends = [quantity_text(ranking, row[f"{column}_{end}"]) for end in ("low", "high")]
        small = f"[{', '.join(ends)}]"
    return _Cell(quantity_text(ranking, final), final, small)


def _table(results: Comparison) -> tuple[list[str], dict[str, dict[str, _Cell]]]:
    """Return the columns that any design has, and the cells by design and column."""
    table = {name: _cells(results, name) for name in results.traces}
    fullest = max(table.values(), key=len)
    return list(fullest), table


def table_section(results: Comparison) -> Markup:
    """Return the table with its buttons."""
    columns, table = _table(results)
    goal = columns[0]  # steps to the accuracy, or the value at the end if there is no accuracy
    walks = [name for name in table if not is_server(results.traces[name])] or list(table)
    # Steps are better if they are fewer; the value at the end may be one that should rise.
    sign = -1.0 if results.accuracy is None and results.ranking.higher_is_better else 1.0
    best = sign * min(sign * table[name][goal].value for name in walks)
    titles = ["design", *(column.replace(" %", "\u00a0%") for column in columns)]
    head = tag("tr", *[tag("th", title, scope="col") for title in titles])
    body = []
    for i, (name, cells) in enumerate(table.items()):
        server = tag("small", " a server, not a walk") if is_server(results.traces[name]) else ""
        row = [tag("th", name, server, scope="row", data_swatch=i, data_value=name)]
        for column in columns:
            cell = cells.get(column, _Cell("–", math.inf))
            small = tag("small", cell.small) if cell.small else ""
            worth = f"{cell.value!r}" if math.isfinite(cell.value) else "inf"
            kind = "goal" if column == goal else None
            row.append(tag("td", cell.text, small, data_value=worth, class_=kind))
        winner = name in walks and math.isfinite(best) and cells[goal].value == best
        body.append(tag("tr", *row, data_index=i, class_="best" if winner else None))
    return section(
        "table",
        "Summary",
        copy_tools("summary"),
        tag(
            "div",
            tag("table", tag("thead", head), tag("tbody", *body), id="summary", class_="sortable"),
            class_="wide",
            tabindex="0",
            role="group",
            aria_label="Summary table",
        ),
        tag("p", _note(results), class_="note"),
        *(tag("p", f"{caution}.", class_="note") for caution in results.cautions),
    )


def _note(results: Comparison) -> str:
    every = int(np.diff(next(iter(results.traces.values())).step).max(initial=0))
    covers = ""
    if not results.step_sizes_tuned:
        sizes = "given, not tuned"
    elif results.accuracy is None:
        sizes = f"tuned for the {results.ranking.best} {results.ranking.quantity} at the end"
    else:
        sizes = f"tuned to {quantity_text(results.ranking, results.accuracy)}"
        sizes += ", and used for the other accuracies too" if results.ranking.relative else ""
        covers = f", at {quantity_text(results.ranking, results.accuracy)} over tuning walks too"
    return (
        f"Below a number is its 95 % interval over walks{covers}. "
        "Steps are counted to the checkpoint; checkpoints "
        f"are at most {every:,} steps apart. Step sizes were {sizes}. Press a heading to sort."
    )


def copy_tools(table: str, prefix: str = "") -> Markup:
    """Return the buttons that copy the table of this id, sorted as it is; the texts are
    `copies[prefix + kind]`.
    """
    said = f"said-{table}"
    buttons = [
        tag(
            "button",
            f"copy as {title}",
            type="button",
            class_="copy",
            data_copy=f"{prefix}{kind}",
            data_table=table,
            data_said=said,
        )
        for kind, title in (("latex", "LaTeX"), ("csv", "CSV"))
    ]
    return tag("div", *buttons, tag("span", id=said, role="status"), class_="tools")


def csv_lines(results: Comparison) -> dict[str, Any]:
    """Return the numbers as table.csv has them, with the rows apart, so that the page can sort
    them.
    """
    fullest = max(results.rows.values(), key=len)
    keys = list(fullest)

    def cell(row: Mapping[str, Any], key: str) -> object:
        value = row.get(key, "")
        return "" if isinstance(value, float) and math.isnan(value) else value

    rows = [
        csv_line([name, *(cell(row, key) for key in keys)]) for name, row in results.rows.items()
    ]
    return {"head": csv_line(["design", *keys]), "rows": rows, "foot": ""}


def csv_line(values: Sequence[object]) -> str:
    r"""Return a line of a CSV file.

    Examples
    --------
    >>> csv_line(["a, b", 1.5, None])
    '"a, b",1.5,\n'
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(values)
    return text.getvalue()


def latex_lines(results: Comparison) -> dict[str, Any]:
    r"""Return the table for booktabs."""
    columns, table = _table(results)
    head = " & ".join(["design", *(latex(column) for column in columns)])
    rows = []
    for name, cells in table.items():
        found = [cells.get(column, _Cell("–", math.inf)) for column in columns]
        texts = [f"{cell.text} {cell.small}".strip() for cell in found]
        rows.append(" & ".join([latex(name), *(latex(text) for text in texts)]) + " \\\\\n")
    return latex_table("l" + "r" * len(columns), head, rows)


def latex_table(layout: str, head: str, rows: Sequence[str]) -> dict[str, Any]:
    """Return a table for booktabs, its rows apart."""
    return {
        "head": f"\\begin{{tabular}}{{{layout}}}\n\\toprule\n{head} \\\\\n\\midrule\n",
        "rows": rows,
        "foot": "\\bottomrule\n\\end{tabular}\n",
    }


def latex(text: str) -> str:
    r"""Return text that LaTeX prints as it is.

    Examples
    --------
    >>> latex("50 % of γL* [1, ∞]"), latex("a_b & \\c")
    ('50 \\% of $\\gamma L^*$ [1, $\\infty$]', 'a\\_b \\& \\textbackslash{}c')
    """
    clean = "".join(_LATEX.get(c, c if c.isprintable() else " ") for c in text)
    clean = clean.replace("γL*", r"$\gamma L^*$").replace("γ", r"$\gamma$")
    return clean.replace("∞", r"$\infty$").replace("–", "--").replace("’", "'")
