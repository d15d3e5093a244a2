"""The page of a fleet: what it reads, and that it only reads."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path

import pytest
from typer.testing import CliRunner

import levywalk as lw
from levywalk.cli.main import app
from tests.limits import eventually

pytest.importorskip("grpc", reason="the extra fleet is not installed")
from levywalk.fleet.operate.fleet_status import fleet_status
from levywalk.fleet.operate.folder import FleetFolder
from levywalk.live import fleet_player
from levywalk.live.fleet_player import FleetPlayer, LogTails


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "fleet"
    options = ["--network", "ring:4", "--steps", "1000000", "--heartbeat", "0.2"]
    done = CliRunner().invoke(app, ["fleet", "init", str(place), *options, "--dead-after", "1"])
    assert done.exit_code == 0, done.output
    return place


def test_a_fleet_that_does_not_run_is_shown_as_such(folder: Path) -> None:
    player = FleetPlayer(folder)
    hello = json.loads(json.dumps(player.hello(), allow_nan=False))
    assert hello["network"]["n"] == 4
    assert len(hello["network"]["lines"]) == 4
    assert hello["frame"]["nodes_down"] == 4
    assert "no node runs" in hello["frame"]["waits"]
    with pytest.raises(lw.InvalidParameter, match="only watches"):
        player.do({"do": "play"})


def test_the_page_says_what_status_says_of_a_walk_that_has_stopped_or_diverged(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = f"the walk has stopped: …; do: levywalk fleet revive {folder}"
    changed: dict[str, object] = {}

    def dead(views: object, manifest: object, *, begun: bool, at: str) -> dict[str, object]:
        assert at == str(folder)  # commands can be typed as the page shows them
        return fleet_status(views, manifest, begun=begun, at=at) | changed  # type: ignore[arg-type]

    monkeypatch.setattr(fleet_player, "fleet_status", dead)
    changed |= {
        "stopped": stopped,
        "waits": [stopped],
        "diverged_at": 41,
        "warnings": ["certificate"],
    }
    frame = json.loads(json.dumps(FleetPlayer(folder).hello(), allow_nan=False))["frame"]
    assert frame["stopped"] == stopped
    assert frame["lost_updates"] == "an unknown number of updates"
    assert "update 41 would have overflowed" in frame["waits"][0]
    assert frame["waits"][1:] == [stopped, "certificate"]
    changed |= {"stopped": None, "lost_updates_at_most": 101}
    assert FleetPlayer(folder).hello()["frame"]["lost_updates"] == "0 to 101 updates"


def test_a_folder_without_a_fleet_is_refused(tmp_path: Path) -> None:
    with pytest.raises(lw.InvalidParameter, match=r"manifest\.json"):
        FleetPlayer(tmp_path)


def test_logs_are_read_as_they_grow_and_strange_lines_do_no_harm(tmp_path: Path) -> None:
    log = tmp_path / "node.log"
    logs = LogTails({3: log, 4: tmp_path / "not there yet"})
    assert logs.new() == []
    line = {"time": "2026-01-01T12:00:00.000+00:00", "event": "stopped"}
    log.write_text(json.dumps(line) + "\n" + json.dumps(line)[:20])
    assert [entry["text"] for entry in logs.new()] == ["stops"]
    assert logs.new() == []  # the rest of the line is not written yet
    with log.open("a") as file:
        file.write(json.dumps(line)[20:] + "\n")
        file.write(json.dumps({**line, "event": "began"}) + "\n")  # without its numbers
        file.write("Segmentation fault \x1b[31m\n")
        refused = {"event": "refused", "sender": 2, "why": "\u202eenog si 3 edon"}
        file.write(json.dumps(line | refused) + "\n")  # would turn the text around
    assert sorted(entry["text"] for entry in logs.new()) == [
        "Segmentation fault \\x1b[31m",
        "began",
        "refuses what node 2 sends: \\u202eenog si 3 edon",
        "stops",
    ]
    log.write_text(json.dumps(line) + "\n")  # written anew, and shorter
    assert [entry["text"] for entry in logs.new()] == ["stops"]


@pytest.mark.more
def test_a_kill_is_seen_and_so_is_the_return(folder: Path) -> None:
    fleet = FleetFolder.open(folder)
    fleet.up()
    try:
        player = FleetPlayer(folder)

        def looked(**wanted: object) -> bool:
            frame = player.tick(1.0)
            assert frame is not None
            json.dumps(frame, allow_nan=False)
            return all(frame[key] == value for key, value in wanted.items())

        eventually(lambda: looked(nodes_up=4) and player.hello()["frame"]["step"] > 20)
        victim = next(row for row in fleet.status()["nodes"] if row["role"] == "")
        os.kill(victim["pid"], signal.SIGKILL)
        eventually(lambda: looked(nodes_down=1))
        row = player.hello()["frame"]["nodes"][victim["id"]]
        assert (row["up"], row["answers"]) == (False, False)
        named = f"node {victim['id']}"
        eventually(
            lambda: (
                looked()
                and any(
                    named in line["text"] and line["node"] != victim["id"]
                    for line in player.hello()["frame"]["log"]
                )
            )
        )
        fleet.up()
        eventually(lambda: looked(nodes_down=0))
        assert len(player.hello()["frame"]["recent"]) == 4
    finally:
        fleet.stop()


@pytest.mark.more
def test_a_fleet_elsewhere_is_watched_through_its_operator_ports(tmp_path: Path) -> None:
    place = tmp_path / "fleet"
    options = ["--network", "ring:3", "--steps", "1000000", "--operator-port", "0"]
    done = CliRunner().invoke(app, ["fleet", "init", str(place), *options])
    assert done.exit_code == 0, done.output
    away = Path(shutil.copytree(place / "operator", tmp_path / "away"))
    fleet = FleetFolder.open(place)
    with pytest.raises(lw.InvalidParameter, match="no edges that are known"):
        FleetPlayer(away)  # no node answers yet, so nothing is known
    fleet.up()
    try:
        player = FleetPlayer(away)
        hello = json.loads(json.dumps(player.hello(), allow_nan=False))
        assert len(hello["network"]["lines"]) == 3
        assert any(line["text"].startswith("starts") for line in hello["frame"]["log"])

        def moves() -> bool:
            frame = player.tick(1.0)
            assert frame is not None
            return bool(frame["step"] > 20 and frame["holder"] is not None)

        eventually(moves)
        fleet.stop(nodes=[1])
        frame = player.tick(1.0)
        assert frame is not None
        assert frame["nodes_unreached"] == [1]
        assert frame["nodes"][1]["unreached"] is not None
        with pytest.raises(lw.InvalidParameter, match="only watches"):
            player.do({"do": "play"})
    finally:
        fleet.stop(force=True)
