"""A bit that flips in a node's log is found, named, and left out of the trace."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import levywalk as lw
from levywalk.cli.fleet.export import _said_lost
from levywalk.cli.main import app
from levywalk.fleet.operate import export
from levywalk.fleet.operate.folder import FleetFolder
from levywalk.fleet.protocol.records import Began, Line
from levywalk.fleet.protocol.token import Epoch
from levywalk.fleet.setup.create import create
from levywalk.fleet.setup.read_fleet import fleet_of
from levywalk.fleet.simulate.virtual import VirtualFleet
from levywalk.fleet.storage.reader import StoreReader
from levywalk.fleet.storage.rows import LogDamage
from levywalk.fleet.storage.store import NodeStore, Persist
from tests.fleet.nodes import stored


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scrub") / "fleet"
    problem = lw.heterogeneous(5, dim=3, important=1, seed=1)
    create(
        folder,
        lw.ring(5),
        problem,
        lw.mhlj(),
        steps=800,
        step_size="theory",
        record_every=1,
        seed=2,
    )
    virtual = VirtualFleet(fleet_of(folder))
    assert virtual.run()
    stored(folder, virtual)
    return folder


@pytest.fixture
def folder(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "fleet"))


def lines_of(folder: Path, node: int) -> list[tuple[int, bytes]]:
    db = sqlite3.connect(folder / f"node-{node}/state/state.db")
    found = db.execute("SELECT number, value FROM lines ORDER BY number").fetchall()
    db.close()
    return found


def flip(folder: Path, node: int, value: bytes) -> None:
    """Flip one bit of a line where it lies in the file."""
    path = folder / f"node-{node}/state/state.db"
    content = bytearray(path.read_bytes())
    at = content.index(value) + len(value) // 2
    content[at] ^= 4
    path.write_bytes(content)


def said(*arguments: str | Path) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["fleet", *map(str, arguments)])
    return done.exit_code, done.output


def test_one_flipped_bit_is_found_by_the_scrub_and_left_out_of_the_trace(
    folder: Path, tmp_path: Path
) -> None:
    whole = export.trace(FleetFolder.open(folder))
    number, value = lines_of(folder, 2)[30]
    flip(folder, 2, value)
    code, words = said("doctor", folder, "--scrub")
    assert code == 1
    assert f"node 2: line {number} of its log cannot be read" in words
    assert "move" not in words  # the node need not lose its disk for that
    code, words = said("trace", folder, "--out", tmp_path / "walk.nc")
    assert code == 0
    assert f"line {number} of node 2's log" in words
    found = export.trace(FleetFolder.open(folder))
    about = found.provenance["fleet"]
    assert about["damaged"] == [[2, number, number]]
    (step,) = about["missing"]
    assert whole.walk[0, step] == 2
    assert found.walk[0, step] == -1
    rest = np.delete(np.arange(800), step)
    assert np.array_equal(found.walk[0, rest], whole.walk[0, rest])
    assert np.array_equal(found.model, whole.model)


def test_without_damage_the_scrub_says_how_much_it_has_read(folder: Path) -> None:
    _, words = said("doctor", folder, "--scrub")
    total = sum(len(lines_of(folder, v)) for v in range(5))
    assert f"{total} lines of the logs are whole" in words


def test_a_page_that_cannot_be_read_costs_its_own_lines_alone(folder: Path) -> None:
    node = max(range(5), key=lambda v: len(lines_of(folder, v)))
    path = folder / f"node-{node}/state/state.db"
    content = bytearray(path.read_bytes())
    numbers = lines_of(folder, node)
    at = content.index(numbers[len(numbers) // 2][1]) // 4096 * 4096
    content[at : at + 4096] = b"\xff" * 4096
    path.write_bytes(content)
    damage: list[LogDamage] = []
    with StoreReader(path.parent) as reading:
        read = sum(1 for _ in reading.lines(damage=damage))
    lost = sum(one.lines for one in damage)
    assert read + lost == len(numbers)
    assert 0 < lost < len(numbers) / 2
    code, words = said("doctor", folder, "--scrub")
    assert code == 1
    assert f"node {node}" in words


def test_status_goes_on_with_a_damaged_line_and_says_so(folder: Path) -> None:
    fleet = FleetFolder.open(folder)
    before = fleet.status()
    start = fleet.manifest.start
    number, value = next(one for one in lines_of(folder, start) if one[1][1] == 18)
    flip(folder, start, value)
    after = fleet.status()
    assert f"line {number} of its log is damaged" in after["nodes"][start]["error"]
    assert (after["step"], after["finished"]) == (before["step"], True)


def test_an_impossible_line_of_an_earlier_version_is_left_out(folder: Path) -> None:
    fleet = FleetFolder.open(folder)
    epoch = Epoch(7, 0, 0)
    with NodeStore(fleet.files[1].state, fleet.manifest.digest) as store:
        store.persist(Persist({}, (Began(epoch, epoch, 10),)))
    assert export.trace(fleet).provenance["fleet"]["damaged"][0][0] == 1
    assert fleet.status()["epoch"] == 0


def test_prune_makes_room_and_the_trace_says_what_is_missing(folder: Path, tmp_path: Path) -> None:
    code, words = said("prune", folder, "--keep-mib", "0.005")
    assert (code, words.startswith("Removed ")) == (0, True)
    assert said("prune", folder, "--keep-mib", "0.005")[1].startswith("Removed no visits")
    code, words = said("trace", folder, "--out", tmp_path / "walk.nc")
    assert code == 1
    assert "--missing mark" in words
    found = export.trace(FleetFolder.open(folder), missing="mark")
    assert found.provenance["fleet"]["damaged"] == []
    gaps = len(found.provenance["fleet"]["missing"])
    assert 0 < gaps < 800
    code, words = said("trace", folder, "--missing", "mark", "--out", tmp_path / "walk.nc")
    assert code == 0
    assert (
        f"{gaps} steps took place: no log that was read has them, so their nodes are -1." in words
    )
    assert "no updates lost" in words  # there is one epoch
    assert said("doctor", folder, "--scrub")[1].count("cannot be read") == 0
    done = CliRunner().invoke(app, ["fleet", "prune", str(folder)])
    assert "prune needs --older-than DAYS or --keep-mib SIZE" in str(done.exception)


def test_the_trace_does_not_say_that_nothing_is_lost_where_a_lost_disk_may_have_known() -> None:
    assert _said_lost(2, 2) == "2 updates"
    assert _said_lost(0, 21) == "0 to 21 updates"
    assert _said_lost(1, None) == "at least 1 update"
    assert _said_lost(0, 0) == "no updates"
    assert _said_lost(None, 21) == "unknown how many"


@pytest.mark.parametrize("at_most", [21, None])
def test_the_trace_keeps_how_many_updates_are_lost_at_most(
    folder: Path, monkeypatch: pytest.MonkeyPatch, at_most: int | None
) -> None:
    about = export.trace(FleetFolder.open(folder)).provenance["fleet"]
    assert (about["lost_updates"], about["lost_updates_at_most"]) == (0, 0)
    monkeypatch.setattr(FleetFolder, "status", lambda _: {"lost_updates_at_most": at_most})
    about = export.trace(FleetFolder.open(folder)).provenance["fleet"]
    assert (about["lost_updates"], about["lost_updates_at_most"]) == (0, at_most)


def test_a_trace_of_logs_without_models_fails_and_is_no_wrong_use(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = export.read_logs

    def without_models(*given: object, **named: object) -> dict[int, list[Line]]:
        found = read(*given, **named)  # type: ignore[arg-type]
        return {
            v: [line for line in lines if getattr(line, "model", None) is None]
            for v, lines in found.items()
        }

    monkeypatch.setattr(export, "read_logs", without_models)
    code, words = said("trace", folder, "--missing", "mark", "--out", tmp_path / "walk.nc")
    assert code == 1
    assert "no line has one" in words
