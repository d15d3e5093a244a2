"""The page of a fleet in a real browser: who is alive, and where the model is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from levywalk.cli.main import app
from tests.browser.chromium import Chromium, find_chromium
from tests.browser.test_live_page import HOSTILE, Served, window
from tests.limits import eventually

pytest.importorskip("grpc", reason="the extra fleet is not installed")
from levywalk.live.fleet_player import FleetPlayer

pytestmark = pytest.mark.skipif(
    find_chromium() is None, reason="no chromium: install it or set $CHROMIUM"
)


class Replayed(FleetPlayer):
    """A fleet whose status is given, as if its nodes ran."""

    changed: dict[str, Any] = {}

    def _look(self) -> dict[str, Any]:
        found = super()._look()
        up, fenced = self.changed.get("up", ()), self.changed.get("fenced", {})
        nodes = [
            row
            | {"up": row["id"] in up, "answers": row["id"] in up, "fenced": fenced.get(row["id"])}
            for row in found["nodes"]
        ]
        rest = {k: v for k, v in self.changed.items() if k not in ("up", "fenced")}
        return found | {"nodes": nodes} | rest


def test_a_kill_and_the_return_are_seen(tmp_path: Path) -> None:
    folder = tmp_path / "fleet"
    made = CliRunner().invoke(app, ["fleet", "init", str(folder), "--network", "grid:2,3"])
    assert made.exit_code == 0, made.output
    player = Replayed(folder)
    player.changed = {"up": range(6), "holder": 2, "guardian": 5, "waits": [], "nodes_down": 0}
    player.changed |= {"metrics": {"accuracy": 0.975, HOSTILE: None}}
    program = find_chromium()
    assert program is not None
    served = Served(player)
    try:
        with Chromium(program, tmp_path / "profile") as browser:
            window(browser, 1200, 900)
            browser.open(served.address)
            said = "document.getElementById('sentence').textContent"
            eventually(lambda: "All 6 nodes run" in browser.run(said))
            assert "The model is at node 2; node 5 guards a copy." in browser.run(said)
            numbers = browser.run("document.getElementById('numbers').textContent")
            assert "accuracy0.975" in numbers
            assert f"{HOSTILE}not finite" in numbers  # as text
            picture = "document.getElementById('picture').toDataURL()"
            before = browser.run(picture)
            player.changed = {**player.changed, "up": [0, 1, 2, 3, 5], "nodes_down": 1}
            eventually(lambda: "Node 4 does not run." in browser.run(said))
            browser.run(
                "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
            )
            assert browser.run(picture) != before
            label = "document.getElementById('picture').getAttribute('aria-label')"
            assert "Node 4 does not run." in browser.run(label)
            player.changed = {**player.changed, "up": range(6), "nodes_down": 0}
            eventually(lambda: "All 6 nodes run" in browser.run(said))
            healthy = player.changed
            player.changed = {**healthy, "holder": None, "stopped": "no step for 9 s; do: …"}
            eventually(lambda: "The walk has stopped. The model is lost" in browser.run(said))
            alarm = "document.getElementById('state').classList.contains('trapped')"
            assert browser.run(alarm)
            player.changed = {**healthy, "diverged_at": 41, "loss": None, "loss_is_infinite": True}
            eventually(lambda: "The model has diverged." in browser.run(said))
            assert browser.run(alarm)
            assert "lossinfinite" in browser.run("document.getElementById('numbers').textContent")
            player.changed = {**healthy, "fenced": {3: "the disk is an old copy"}}
            eventually(lambda: "Node 3 is fenced." in browser.run(said))
            assert browser.run(alarm)
            player.changed = healthy
            eventually(lambda: not browser.run(alarm))
            window(browser, 360, 740)
            assert browser.run("document.documentElement.scrollWidth") <= 360
            assert browser.complaints() == []
            hosts = {one.split("/")[2] for one in browser.requests() if one.startswith("http")}
            assert hosts == {served.address.split("/")[2]}
    finally:
        served.close()
