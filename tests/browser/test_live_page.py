"""The live page in a real browser: its numbers are the library's, and the slider frees the walk."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import levywalk as lw
from levywalk.live.export import export_experiment
from levywalk.live.session import LiveSession
from levywalk.live.walk_player import WalkPlayer
from tests.browser.chromium import Chromium, find_chromium
from tests.limits import PATIENCE, eventually

pytest.importorskip("uvicorn", reason="the extra live is not installed")
import uvicorn

from levywalk.live.server import application, bound_socket

pytestmark = pytest.mark.skipif(
    find_chromium() is None, reason="no chromium: install it or set $CHROMIUM"
)
NETWORK = lw.grid(6, 10)
PROBLEM = lw.heterogeneous(60, dim=10, important=1, seed=1, snr=33_000.0)
HOSTILE = "<img src=x onerror=\"document.title='taken'\">"
DESIGNS = {
    "WeightRW": lw.weight_rw(),
    "MHLJ": lw.mhlj(),
    HOSTILE: lw.unif_rw(),
    "server": lw.iid_weighted(),
}
SECTIONS: dict[str, Any] = {
    "network": {"family": "grid", "rows": 6, "cols": 10},
    "problem": {
        "data": "heterogeneous", "dim": 10, "important": 1, "seed": 1, "snr": 33_000.0,
    },
    "designs": {
        "WeightRW": {"kind": "weight_rw"},
        "MHLJ": {"kind": "mhlj"},
        HOSTILE: {"kind": "unif_rw"},
        "server": {"kind": "iid_weighted"},
    },
}  # fmt: skip


class Served:
    """A player and the server that shows it."""

    def __init__(self, player: Any) -> None:
        self.player = player
        listening = bound_socket("127.0.0.1", 0)
        port = listening.getsockname()[1]
        self.address = f"http://127.0.0.1:{port}/"
        config = uvicorn.Config(
            application(player, {f"127.0.0.1:{port}"}),
            log_level="critical",
            timeout_graceful_shutdown=1,
            ws="none",
        )
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, args=([listening],), daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.server.should_exit = True
        self.thread.join(PATIENCE)


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    session = LiveSession(NETWORK, PROBLEM, DESIGNS, seed=5)
    made = Served(WalkPlayer(session, "walks", lambda: export_experiment(session, SECTIONS)))
    yield made
    made.close()


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    program = find_chromium()
    assert program is not None
    with Chromium(program, tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture
def browser(chromium: Chromium, served: Served) -> Iterator[Chromium]:
    """The page freshly opened at step 0; at the end it must have been silent."""
    window(chromium, 1200, 900)
    chromium.call("Emulation.setEmulatedMedia", features=[])
    served.player.do({"do": "pause"})
    served.player.do({"do": "restart", "seed": 5})
    chromium.open("about:blank")
    chromium.open(served.address)
    eventually(lambda: chromium.run("View.state().runs.length") == len(DESIGNS))
    yield chromium
    assert chromium.complaints() == []
    hosts = {one.split("/")[2] for one in chromium.requests() if one.startswith("http")}
    assert hosts == {served.address.split("/")[2]}
    assert chromium.run("document.title") == "walks"


def window(browser: Chromium, width: int, height: int) -> None:
    browser.call(
        "Emulation.setDeviceMetricsOverride",
        width=width,
        height=height,
        deviceScaleFactor=1,
        mobile=False,
    )


def shown(browser: Chromium) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = browser.run(
        "View.state().runs.map(run => ({node: run.node, dwell: run.dwell, longest: run.longest, "
        "transfers: run.transfers, hops: run.hops, error: run.error, visits: [...run.visits], "
        "changes: run.changes, said: run.sentence.textContent}))"
    )
    return found


def at(browser: Chromium, step: int) -> None:
    eventually(lambda: browser.run("View.state().step") == step)
    browser.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def slide(browser: Chromium, slider: str, value: float) -> None:
    browser.run(
        f"(() => {{ const slider = document.getElementById('{slider}'); slider.value = {value}; "
        "slider.dispatchEvent(new Event('input')); })()"
    )


def library(design: lw.Walk, steps: int, seed: int = 5) -> lw.Trace:
    return lw.run(
        NETWORK, PROBLEM, design, steps=steps, step_size="theory", seed=seed, record_walk=True
    )


@pytest.mark.more
def test_the_numbers_are_those_of_the_library(browser: Chromium) -> None:
    browser.click("#step")
    at(browser, 1)
    browser.run("fetch('do', {method: 'POST', headers: {'content-type': 'application/json'}, "
                "body: JSON.stringify({do: 'step', steps: 150})}).then(() => 0)")  # fmt: skip
    at(browser, 151)
    browser.run("fetch('do', {method: 'POST', headers: {'content-type': 'application/json'}, "
                "body: JSON.stringify({do: 'step', steps: 4000})}).then(() => 0)")  # fmt: skip
    at(browser, 4151)
    for design, run in zip(DESIGNS.values(), shown(browser), strict=True):
        trace = library(design, 4151)
        assert trace.visits is not None
        assert run["node"] == trace.final_node[0]
        assert run["error"] == trace.distance2[0, -1]
        assert run["transfers"] == trace.transfers[0, -1]
        assert run["hops"] == trace.hops[0, -1]
        assert run["visits"] == trace.visits[0].tolist()
        assert run["longest"] == trace.longest_dwell()[0][0]


def test_every_picture_is_drawn_and_changes_as_the_model_walks(browser: Chromium) -> None:
    code = (
        "[...document.querySelectorAll('canvas')].map(canvas => { const copy = "
        "document.createElement('canvas'); [copy.width, copy.height] = [canvas.width, "
        "canvas.height]; const pen = copy.getContext('2d', {willReadFrequently: true}); "
        "pen.drawImage(canvas, 0, 0); const data = pen.getImageData(0, 0, copy.width, copy.height)"
        ".data; let ink = 0, sum = 0; "
        "for (let i = 3; i < data.length; i += 4) { ink += data[i] > 0; "
        "sum = (sum * 31 + data[i - 3] + data[i - 2] * 7 + data[i - 1] * 13) % 1000003; } "
        "return [ink, sum]; })"
    )
    first = browser.run(code)
    assert len(first) == len(DESIGNS) + 1
    assert min(ink for ink, _ in first[:-1]) > 3000
    browser.click("#step")
    at(browser, 1)
    slide(browser, "speed", 2.5)
    browser.click("#play")
    eventually(lambda: browser.run("View.state().step") > 200)
    browser.click("#play")
    eventually(lambda: browser.run("View.state().playing") is False)
    browser.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    for before, after in zip(first, browser.run(code), strict=True):
        assert before[1] != after[1]


def test_the_slider_frees_the_walk_and_the_export_gives_it_again(
    browser: Chromium, served: Served
) -> None:
    slide(browser, "speed", 4)
    browser.click("#play")
    eventually(lambda: shown(browser)[0]["longest"] > 60)
    slide(browser, "pJump", 0.3)
    slide(browser, "maxHops", 6)
    eventually(lambda: len(shown(browser)[0]["changes"]) >= 2)
    begun = shown(browser)[0]["changes"][-1][0]
    eventually(lambda: browser.run("View.state().step") > begun + 4000)
    browser.click("#play")
    eventually(lambda: browser.run("View.state().playing") is False)
    step, run = browser.run("View.state().step"), shown(browser)[0]
    begins, p_jump, p_distance, max_hops = map(list, zip(*run["changes"], strict=True))
    assert (p_jump[-1], max_hops[-1]) == (0.3, 6)
    freed = lw.walks.ChangingJumps("importance", begins, p_jump, p_distance, max_hops)
    trace = library(freed, step)
    assert trace.visits is not None
    assert trace.walk is not None
    assert run["visits"] == trace.visits[0].tolist()
    assert run["error"] == trace.distance2[0, -1]

    def longest(nodes: Any) -> int:
        ends = np.flatnonzero(np.append(np.diff(nodes) != 0, True))
        return int(np.diff(np.append(-1, ends)).max())

    assert longest(trace.walk[0, begun + 1 :]) < longest(trace.walk[0, : begun + 1])
    browser.click("#export")
    eventually(lambda: browser.run("document.getElementById('exported').open"))
    assert browser.run("document.getElementById('toml').textContent") == export_experiment(
        served.player.session, SECTIONS  # type: ignore[arg-type]
    )["toml"]  # fmt: skip
    browser.key("Escape")


def test_a_link_reproduces_the_view(browser: Chromium) -> None:
    slide(browser, "pJump", 0.2)
    eventually(lambda: shown(browser)[0]["changes"][-1][1] == 0.2)
    browser.run("fetch('do', {method: 'POST', headers: {'content-type': 'application/json'}, "
                "body: JSON.stringify({do: 'step', steps: 777})}).then(() => 0)")  # fmt: skip
    at(browser, 777)
    link, before = browser.run("View.link()"), shown(browser)
    browser.run("document.getElementById('seed').value = '8'")
    browser.click("#restart")
    at(browser, 0)
    assert browser.run("View.state().told.seed") == 8
    browser.open("about:blank")
    browser.open(link)
    at(browser, 777)
    for then, now in zip(before, shown(browser), strict=True):
        assert then["visits"] == now["visits"]
        assert then["error"] == now["error"]


def test_a_node_is_shown_by_mouse_and_by_key(browser: Chromium) -> None:
    browser.run("fetch('do', {method: 'POST', headers: {'content-type': 'application/json'}, "
                "body: JSON.stringify({do: 'step', steps: 900})}).then(() => 0)")  # fmt: skip
    at(browser, 900)
    x, y = browser.run(
        "(() => { const one = View.state().runs[0], p = one.picture, box = "
        "one.canvas.getBoundingClientRect(), k = box.width / one.canvas.width; "
        "return [box.x + p.x(p.place(23)) * k, box.y + p.y(p.place(23)) * k]; })()"
    )
    for kind in ("mousePressed", "mouseReleased"):
        browser.mouse(kind, x, y, button="left", clickCount=1)
    about = "document.getElementById('about').textContent"
    eventually(lambda: browser.run(about).startswith("Node 23: 4 neighbours"))
    visits = library(DESIGNS["WeightRW"], 900).visits
    assert visits is not None
    cells = browser.run(
        "[...document.querySelectorAll('#about tbody tr:first-child td')].map(c => c.textContent)"
    )
    assert cells[0] == f"{int(visits[0, 23]):,}"
    browser.run("document.querySelector('.panel canvas').focus()")
    browser.key("ArrowRight")
    eventually(lambda: browser.run(about).startswith("Node 24:"))


def test_keys_play_and_every_control_has_a_name(browser: Chromium) -> None:
    browser.run("document.activeElement.blur()")
    browser.key(" ")
    eventually(lambda: browser.run("View.state().playing") is True)
    assert browser.run("document.getElementById('play').getAttribute('aria-pressed')") == "true"
    browser.key(" ")
    eventually(lambda: browser.run("View.state().playing") is False)
    browser.call("Accessibility.enable")
    nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
    wanted = {"button", "slider", "spinbutton", "combobox", "img", "image", "Canvas"}
    named = [
        (node["role"]["value"], node.get("name", {}).get("value", ""))
        for node in nodes
        if not node.get("ignored") and node.get("role", {}).get("value") in wanted
    ]
    assert {"button", "slider", "spinbutton", "combobox"} <= {role for role, _ in named}
    assert all(name for _, name in named), named
    assert sum("step" in name and "node" in name for _, name in named) >= len(DESIGNS)
    reached = set()
    browser.run("document.activeElement.blur()")
    for _ in range(30):
        browser.key("Tab")
        reached.add(browser.run("document.activeElement.id || document.activeElement.tagName"))
    assert {"play", "step", "speed", "pJump", "CANVAS", "chart", "restart"} <= reached


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_both_colour_schemes_can_be_read(browser: Chromium, scheme: str) -> None:
    browser.call(
        "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}]
    )
    found = browser.run(
        "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]"
        ".map(text => text.match(/\\d+/g).slice(0, 3).map(Number))"
    )
    paper, ink = (sum(colour) / 3 for colour in found)
    assert (paper > 200) == (scheme == "light")
    assert abs(paper - ink) > 150
    browser.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert browser.run("Draw.colours().paper") == ("#ffffff" if scheme == "light" else "#14181d")


def test_a_narrow_window_shows_everything_without_scrolling_sideways(browser: Chromium) -> None:
    window(browser, 360, 740)
    browser.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert browser.run("document.documentElement.scrollWidth") <= 360
    widths = browser.run(
        "[...document.querySelectorAll('canvas')].map(c => c.getBoundingClientRect().width)"
    )
    assert all(200 < width <= 360 for width in widths)


def test_a_picture_can_be_saved(browser: Chromium) -> None:
    size = browser.run(
        "(() => { const canvas = View.png(); return [canvas.width, canvas.height, "
        "canvas.toDataURL().length]; })()"
    )
    assert size[0] > 1000
    assert size[2] > 10_000


@pytest.mark.more
def test_a_wrong_command_is_said_on_the_page(browser: Chromium) -> None:
    browser.run("document.getElementById('seed').value = '-3'")
    browser.click("#restart")
    eventually(lambda: "seed" in browser.run("document.getElementById('message').textContent"))
    # The browser itself notes that the answer was a refusal.
    assert all("400" in text for text in browser.complaints())
    browser.events.clear()
    browser.call("Page.reload")
    eventually(lambda: browser.run("typeof View === 'object' && View.state().runs.length") == 4)


@pytest.mark.more
def test_hostile_names_stay_text(browser: Chromium) -> None:
    assert browser.run("document.querySelectorAll('img').length") == 0
    names = browser.run("[...document.querySelectorAll('.panel h2')].map(n => n.textContent)")
    assert names == list(DESIGNS)
