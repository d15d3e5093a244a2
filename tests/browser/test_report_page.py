"""The report in a real browser: it works, it is silent, and its numbers are the trace's."""

from __future__ import annotations

import csv
import io
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import levywalk as lw
from levywalk import Comparison
from levywalk.experiments.execute import write_results
from levywalk.experiments.folder_report import write_report
from levywalk.report.page.build import html_page, write_page
from levywalk.report.page.summary import latex
from levywalk.trace.tables import percent
from tests.browser.chromium import Chromium, find_chromium

HOSTILE = "</script><img src=x onerror=\"document.title='taken'\">"
DESIGNS = {
    "UnifRW": lw.unif_rw(),
    "MHLJ": lw.mhlj(),
    HOSTILE: lw.weight_rw(),
    "server": lw.iid_weighted(),
}

pytestmark = pytest.mark.skipif(
    find_chromium() is None, reason="no chromium: install it or set $CHROMIUM"
)


@pytest.fixture(scope="module")
def found() -> Comparison:
    problem = lw.heterogeneous(60, important=2)
    with warnings.catch_warnings():
        # a method that is trapped does not reach the accuracy, and the page says so too
        warnings.simplefilter("ignore", lw.DataWarning)
        return lw.compare(
            lw.ring(60), problem, DESIGNS, steps=3000, replicas=8, accuracy=0.1, record_walk=True
        )


@pytest.fixture(scope="module")
def page(found: Comparison, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    write_results(found, folder, figure="none")
    claims = [
        {"id": k, "label": "ring", "verdict": "holds", "effect": k / 3, "interval": [0.1, 2.0]}
        for k in (10, 9)
    ]
    (folder / "claims.json").write_text(json.dumps({"claims": claims}))
    (path,) = write_report(folder)
    return path


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    program = find_chromium()
    assert program is not None
    with Chromium(program, tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture
def browser(chromium: Chromium, page: Path) -> Iterator[Chromium]:
    """The page freshly opened; at the end of every test it must have been silent."""
    chromium.call(
        "Emulation.setDeviceMetricsOverride",
        width=1100,
        height=900,
        deviceScaleFactor=1,
        mobile=False,
    )
    chromium.open(page.as_uri())
    yield chromium
    assert chromium.complaints() == []
    assert [address for address in chromium.requests() if not address.startswith("data:,")] == [
        page.as_uri()
    ]


def column(browser: Chromium, number: int, table: str = "summary") -> list[str]:
    cells: list[str] = browser.run(
        f"[...document.getElementById('{table}').tBodies[0].rows].map(row => "
        f"row.cells[{number}].dataset.value "
        f"?? row.cells[{number}].textContent)"
    )
    return cells


def clipboard(browser: Chromium) -> Any:
    return browser.run("navigator.clipboard.readText()")


def test_the_page_opens_in_silence_with_every_line_drawn(
    browser: Chromium, found: Comparison
) -> None:
    assert browser.run("document.title") == "Walks on ring(60)"
    assert browser.run("document.querySelectorAll('#plot g.curve').length") == len(found.traces)
    assert browser.run("document.querySelectorAll('img').length") == 0
    assert browser.run(
        "[...document.querySelectorAll('#legend button')].map(b => b.textContent)"
    ) == list(found.traces)


def test_an_injected_script_or_request_would_be_stopped(chromium: Chromium, page: Path) -> None:
    chromium.open(page.as_uri())
    chromium.run(
        "(() => { const made = document.createElement('script'); made.textContent = 'window.taken "
        "= 1'; "
        "document.body.append(made); const image = new Image(); image.src = "
        "'https://example.invalid/x.png'; "
        "document.body.append(image); })()"
    )
    assert chromium.run("window.taken === undefined")
    assert (
        chromium.run("fetch('https://example.invalid/').then(() => 'sent', () => 'stopped')")
        == "stopped"
    )
    assert len(chromium.complaints()) >= 3  # the policy says what it stopped


def test_numbers_in_the_table_are_the_traces(browser: Chromium, found: Comparison) -> None:
    steps = {
        name: float(text) for name, text in zip(column(browser, 0), column(browser, 1), strict=True)
    }
    assert steps == found.steps_to
    heads = browser.run(
        "[...document.querySelectorAll('#summary thead th')].map(head => head.textContent)"
    )
    dwell = [float(text) for text in column(browser, heads.index("longest dwell"))]
    assert dwell == [int(trace.longest_dwell()[0].max()) for trace in found.traces.values()]


def test_the_table_sorts_by_mouse_and_by_key_with_what_is_not_reached_last(
    browser: Chromium,
) -> None:
    head = "#summary thead th:nth-child(2) button"
    before = column(browser, 1)
    browser.click(head)
    up = column(browser, 1)
    assert [float(text) for text in up] == sorted(float(text) for text in before)
    assert (
        browser.run(
            "document.querySelector('#summary thead th:nth-child(2)').getAttribute('aria-sort')"
        )
        == "ascending"
    )
    browser.run(f"document.querySelector('{head}').focus()")
    browser.key("Enter")
    assert [float(text) for text in column(browser, 1)] == sorted(
        (float(text) for text in up), reverse=True
    )
    browser.click("#claims-table thead th:nth-child(1) button")
    assert column(browser, 0, "claims-table") == ["9", "10"]


def test_the_legend_hides_and_shows_a_line(browser: Chromium) -> None:
    lines = "[...document.querySelectorAll('#plot g.curve')].map(line => line.dataset.curve)"
    browser.click("#legend button:nth-child(2)")
    assert browser.run(lines) == ["0", "2", "3"]
    assert (
        browser.run(
            "document.querySelector('#legend button:nth-child(2)').getAttribute('aria-pressed')"
        )
        == "false"
    )
    browser.run("document.querySelector('#legend button:nth-child(2)').focus()")
    browser.key(" ")
    assert browser.run(lines) == ["0", "1", "2", "3"]


def test_the_axis_changes_to_hops_and_transfers(browser: Chromium, found: Comparison) -> None:
    path = "document.querySelector('#plot g.curve[data-curve=\"1\"] path').getAttribute('d')"
    seen = [browser.run(path)]
    for axis in ("hops", "transfers"):
        browser.click(f"#axis-{axis}")
        assert browser.run("document.getElementById('axis-name').textContent").startswith(axis)
        seen.append(browser.run(path))
    for box in ("#logX", "#logY"):
        browser.click(box)
        seen.append(browser.run(path))
    assert len(set(seen)) == 5
    browser.click("#median")
    assert browser.run("document.querySelectorAll('#plot path.median').length") == len(found.traces)


def test_pointing_and_arrow_keys_read_the_values_of_the_trace(
    browser: Chromium, found: Comparison
) -> None:
    browser.run("document.getElementById('plot').focus()")
    browser.key("End")
    said = browser.run("document.getElementById('live').textContent")
    assert said.startswith("3,000 steps: ")
    for name, trace in found.traces.items():
        assert f"{name} {percent(float(trace.error.mean(axis=0)[-1]))}" in said
    browser.key("Escape")
    assert browser.run("document.getElementById('tip').hidden")
    x, y, width = browser.run(
        "(() => { const plot = document.getElementById('plot'); plot.scrollIntoView({block: "
        "'center'}); "
        "const box = plot.getBoundingClientRect(); return [box.x, box.y + 100, box.width]; })()"
    )
    browser.mouse("mouseMoved", x + width / 2, y)
    at = float(
        browser.run("document.querySelector('#tip div').textContent").split()[0].replace(",", "")
    )
    shown = browser.run(
        "[...document.querySelectorAll('#tip tr')].map(row => row.cells[1].textContent)"
    )
    for text, trace in zip(shown, found.traces.values(), strict=True):
        close = np.argsort(np.abs(trace.step - at))[
            :2
        ]  # the point may lie midway between two checkpoints
        assert text in {percent(float(trace.error[:, k].mean())) for k in close}


def test_copied_text_is_the_table_in_the_order_shown(browser: Chromium, found: Comparison) -> None:
    browser.call(
        "Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"]
    )
    browser.click("#summary thead th:nth-child(2) button")
    order = column(browser, 0)
    browser.run(  # what is said goes away after a while, which may be before it is read here
        "window.said = []; const place = document.getElementById('said-summary'); "
        "new MutationObserver(() => window.said.push(place.textContent))"
        ".observe(place, {childList: true, characterData: true, subtree: true}); 0"
    )
    browser.click("button[data-copy=csv]")
    browser.run("new Promise(done => setTimeout(done))")
    rows = list(csv.DictReader(io.StringIO(clipboard(browser))))
    assert [row["design"] for row in rows] == order
    table = found.table()
    for row in rows:
        assert float(row["step_size"]) == table.loc[row["design"], "step_size"]
        assert float(row["steps_to_0.1"]) == table.loc[row["design"], "steps_to_0.1"]
    assert "copied" in browser.run("window.said")
    browser.click("button[data-copy=latex]")
    browser.run("new Promise(done => setTimeout(done))")
    text = clipboard(browser)
    assert text.startswith("\\begin{tabular}{l")
    assert text.endswith("\\end{tabular}\n")
    lines = text.split("\\midrule\n")[1].split("\\bottomrule")[0].splitlines()
    assert [line.split(" & ")[0] for line in lines] == [latex(name) for name in order]


def test_copied_claims_are_the_table_in_the_order_shown(browser: Chromium) -> None:
    browser.call(
        "Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"]
    )
    for _ in range(2):
        browser.click("#claims-table thead th:nth-child(1) button")
        order = column(browser, 0, "claims-table")
        browser.click("button[data-copy=claims-csv]")
        browser.run("new Promise(done => setTimeout(done))")
        rows = list(csv.DictReader(io.StringIO(clipboard(browser))))
        assert [row["id"] for row in rows] == order
        assert [float(row["effect"]) for row in rows] == [int(k) / 3 for k in order]
        assert {(row["low"], row["high"]) for row in rows} == {("0.1", "2.0")}
        browser.click("button[data-copy=claims-latex]")
        browser.run("new Promise(done => setTimeout(done))")
        lines = clipboard(browser).split("\\midrule\n")[1].split("\\bottomrule")[0].splitlines()
        assert [line.split(" & ")[0] for line in lines] == order
    assert order == ["10", "9"]


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (390, "dark"), (1100, "dark")])
def test_nothing_is_wider_than_the_screen(browser: Chromium, width: int, scheme: str) -> None:
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.call(
        "Emulation.setDeviceMetricsOverride",
        width=width,
        height=800,
        deviceScaleFactor=1,
        mobile=width < 500,
    )
    browser.call("Emulation.setEmulatedMedia", features=features)
    browser.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert browser.run("document.documentElement.scrollWidth") <= width
    paper = browser.run("getComputedStyle(document.body).backgroundColor")
    assert (paper == "rgb(255, 255, 255)") == (scheme == "light")
    browser.call("Emulation.setEmulatedMedia", features=[])


@pytest.mark.more
def test_a_page_shows_what_happens_and_the_rest_on_demand(
    chromium: Chromium, tmp_path: Path
) -> None:
    """Curves that fall in the first steps of many are no L; a switch, or the key End, shows all."""
    parts = lw.complete(20), lw.homogeneous(20, dim=2, noise=0.1), {"UnifRW": lw.unif_rw()}
    found = lw.compare(*parts, steps=20_000, replicas=16, step_size=0.02, accuracy=0.5)
    path = write_page(html_page(found, command=""), tmp_path / "report.html")
    chromium.open(path.as_uri())
    ticks = "[...document.querySelectorAll('#plot svg > text')].map(each => each.textContent)"
    assert "20k" not in chromium.run(ticks)
    chromium.click("#whole")
    assert "20k" in chromium.run(ticks)
    chromium.click("#whole")
    chromium.run("document.getElementById('plot').focus()")
    chromium.key("End")
    assert "20k" in chromium.run(ticks)
    said = chromium.run("document.getElementById('live').textContent")
    assert said.startswith("20,000 steps: ")
    assert chromium.complaints() == []
