"""The page that opens from disk: its walks are the library's, step for step, and it is silent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import levywalk as lw
from levywalk.draws import HOP, JUMP, Domain, Key
from levywalk.experiments.sources import build_network, build_problem
from levywalk.live.explain import _DATA, DESIGNS, SCENES, write_explain
from levywalk.registry import from_dict
from tests.browser.chromium import Chromium, find_chromium
from tests.limits import eventually

STEPS = 200_000

pytestmark = pytest.mark.skipif(
    find_chromium() is None, reason="no chromium: install it or set $CHROMIUM"
)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_explain(tmp_path_factory.mktemp("explain") / "explain.html")


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    program = find_chromium()
    assert program is not None
    with Chromium(program, tmp_path_factory.mktemp("profile")) as browser:
        browser.call("Network.emulateNetworkConditions", offline=True, latency=0,
                     downloadThroughput=-1, uploadThroughput=-1)  # fmt: skip
        yield browser


@pytest.fixture
def browser(chromium: Chromium, page: Path) -> Iterator[Chromium]:
    """The page freshly opened without a network; at the end it must have been silent."""
    chromium.call(
        "Emulation.setDeviceMetricsOverride",
        width=1100,
        height=900,
        deviceScaleFactor=1,
        mobile=False,
    )
    chromium.open("about:blank")
    chromium.open(page.as_uri())
    yield chromium
    assert chromium.complaints() == []
    asked = [one for one in chromium.requests() if not one.startswith(("data:,", "blob:"))]
    assert asked == [page.as_uri()]


def test_words_and_keys_are_those_of_the_draws(browser: Chromium) -> None:
    for seed in (0, 1, 12345, 2**32 - 1, 2**40 + 7, 2**53 - 1):
        key = Key.of(seed, Domain.WALK, 0)
        for step, slot in ((0, JUMP), (0, HOP), (10, HOP + 3), (2**32 + 5, JUMP), (2**50, HOP)):
            high, low = browser.run(f"Twin.word(Twin.keyOf({seed}, 0, 0), {step}, {slot})")
            assert (high << 32) | low == key.word(step, slot)


@pytest.mark.more
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene["key"])
def test_the_twin_walks_as_the_library_does(browser: Chromium, scene: dict[str, Any]) -> None:
    """200,000 steps of every design: the same nodes, counts and, to 1e-9, models."""
    network = build_network(scene["recipe"])
    problem = build_problem(_DATA, network)
    which = [one["key"] for one in SCENES].index(scene["key"])
    for design in (*DESIGNS, {**DESIGNS[2], "pJump": 0.4, "pDistance": 0.3, "maxHops": 9}):
        walk = from_dict("design", {"kind": design["kind"]})
        if design["maxHops"] == 9:
            walk = lw.mhlj(0.4, 0.3, 9)
        trace = lw.run(
            network, problem, walk, steps=STEPS, step_size="theory", seed=11, record_walk=True
        )
        assert trace.walk is not None
        found = browser.run(
            f"""(() => {{
            const one = JSON.parse(document.getElementById("data").textContent).networks[{which}];
            const floats = (text) =>
                new Float64Array(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);
            const indptr = [0];
            for (const near of one.neighbours) indptr.push(indptr[indptr.length - 1] + near.length);
            const problem = {{ dim: one.dim, features: floats(one.features),
                targets: floats(one.targets), smoothness: floats(one.smoothness),
                optimum: floats(one.optimum) }};
            const walker = new Twin.Walker({{ indptr, indices: one.neighbours.flat() }}, problem,
                {json.dumps(design)}, 11);
            const path = new Uint8Array({STEPS});
            for (let t = 0; t < {STEPS}; t++) {{ path[t] = walker.node; walker.advance(); }}
            let text = "";
            for (let t = 0; t < {STEPS}; t += 8192)
                text += String.fromCharCode(...path.subarray(t, t + 8192));
            return {{ path: text, model: [...walker.model], hops: walker.hops,
                transfers: walker.transfers, node: walker.node, error: walker.distance2() }};
            }})()"""
        )
        path = np.frombuffer(found["path"].encode("latin-1"), np.uint8)
        assert (path == trace.walk[0]).all()
        assert found["node"] == trace.final_node[0]
        assert (found["hops"], found["transfers"]) == (trace.hops[0, -1], trace.transfers[0, -1])
        assert np.abs(np.array(found["model"]) - trace.model[0]).max() < 1e-9
        assert abs(found["error"] - trace.distance2[0, -1]) < 1e-9


def shown(browser: Chromium) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = browser.run(
        "View.state().runs.map(run => ({name: run.name, node: run.node, dwell: run.dwell, "
        "longest: run.longest, transfers: run.transfers, error: run.error, "
        "visits: [...run.visits], changes: run.changes}))"
    )
    return found


def test_the_page_shows_what_the_library_computes(browser: Chromium) -> None:
    for _ in range(3):
        browser.click("#step")
    network = build_network(SCENES[0]["recipe"])
    problem = build_problem(_DATA, network)
    for design, run in zip(DESIGNS, shown(browser), strict=True):
        walk = from_dict("design", {"kind": design["kind"]})
        trace = lw.run(network, problem, walk, steps=3, step_size="theory", seed=0)
        assert trace.visits is not None
        assert run["visits"] == trace.visits[0].tolist()
        assert run["node"] == trace.final_node[0]
        assert abs(run["error"] - trace.distance2[0, -1]) < 1e-9


def test_a_visitor_plays_and_frees_the_walk(browser: Chromium) -> None:
    browser.run(
        "(() => { const speed = document.getElementById('speed'); speed.value = 3.5; "
        "speed.dispatchEvent(new Event('input')); })()"
    )
    browser.click("#play")
    eventually(lambda: shown(browser)[1]["longest"] > 100)
    browser.run(
        "(() => { const slider = document.getElementById('pJump'); slider.value = 0.3; "
        "slider.dispatchEvent(new Event('input')); })()"
    )
    eventually(lambda: len(shown(browser)[1]["changes"]) == 2)
    browser.click("#play")
    assert browser.run("View.state().playing") is False
    before, step = shown(browser)[1], browser.run("View.state().step")
    network = build_network(SCENES[0]["recipe"])
    problem = build_problem(_DATA, network)
    begins, p_jump, p_distance, max_hops = map(list, zip(*before["changes"], strict=True))
    design = lw.walks.ChangingJumps("importance", begins, p_jump, p_distance, max_hops)
    trace = lw.run(network, problem, design, steps=step, step_size="theory", seed=0)
    assert trace.visits is not None
    assert before["visits"] == trace.visits[0].tolist()
    link = browser.run("View.link()")
    browser.open("about:blank")
    browser.open(link)  # the link shows the same step again
    assert browser.run("View.state().step") == step
    assert shown(browser)[1]["visits"] == before["visits"]
    browser.open("about:blank")
    browser.open(link.partition("#")[0])


@pytest.mark.more
def test_all_three_networks_are_drawn(browser: Chromium) -> None:
    for scene in SCENES:
        browser.run(
            "(() => { const box = document.getElementById('network'); "
            f"box.value = '{scene['key']}'; box.dispatchEvent(new Event('change')); }})()"
        )
        browser.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        assert browser.run("View.state().told.network.key") == scene["key"]
        painted = browser.run(
            "[...document.querySelectorAll('.panel canvas')].map(canvas => { const copy = "
            "document.createElement('canvas'); [copy.width, copy.height] = [canvas.width, "
            "canvas.height]; const pen = copy.getContext('2d', {willReadFrequently: true}); "
            "pen.drawImage(canvas, 0, 0); return pen.getImageData(0, 0, copy.width, copy.height)"
            ".data.filter((x, i) => i % 4 === 3 && x > 0).length; })"
        )
        assert len(painted) == 3
        assert min(painted) > 3000
