"""The report of a failed test of a fleet says what its nodes have said."""

from __future__ import annotations

from pathlib import Path

from tests.fleet.conftest import fleets_in
from tests.fleet.nodes import make


def test_a_failed_test_shows_logs_and_disks(tmp_path: Path) -> None:
    fleet = make(tmp_path / "fleet", 3)
    (fleet / "node-1" / "node.log").write_text('{"event": "started"}\n{"event": "fault"}\n')
    found = dict(fleets_in(tmp_path))
    assert found["log of fleet/node-1"].endswith('{"event": "fault"}')
    assert [title for title in found if title.startswith("disk of")] == [
        f"disk of fleet/node-{v}" for v in range(3)
    ]
    assert '"runs": false' in found["disk of fleet/node-2"]


def test_a_fleet_that_cannot_be_read_does_not_hide_the_failure(tmp_path: Path) -> None:
    (tmp_path / "fleet" / "node-0").mkdir(parents=True)
    (tmp_path / "fleet" / "node-0" / "node.log").write_text("killed\n")
    found = fleets_in(tmp_path)
    assert [title for title, _ in found] == ["log of fleet/node-0", "disks of fleet"]
