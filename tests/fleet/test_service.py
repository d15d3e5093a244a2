"""A fleet in service: new keys, revoked nodes and new ones, while processes are killed."""

from __future__ import annotations

import random
import sys
from collections import Counter
from pathlib import Path

import pytest

import levywalk as lw
from levywalk.fleet.checking import service
from levywalk.fleet.checking.logs import WalkVerdict
from levywalk.fleet.checking.processes import settle
from levywalk.fleet.checking.service import Kill, Service
from levywalk.fleet.checking.violation import Violation
from levywalk.fleet.protocol.terms import HandOffTerms
from tests.limits import PATIENCE

NODES, RENEW = 20, 10
DURING = 6  # kills while a command ran


@pytest.mark.more
def test_new_keys_revoked_nodes_and_new_ones_while_nodes_are_killed(tmp_path: Path) -> None:
    """A thread of its own kills processes while the commands run. No update is lost but those of a
    revoked node itself, and the replay is exact: `served` checks both.
    """
    terms = HandOffTerms(b"", heartbeat=1.0, dead_after=PATIENCE, renew_after=RENEW)
    network = lw.watts_strogatz(NODES, 4, 0.1, seed=5)
    folder = settle(tmp_path / "fleet", network, seed=1, terms=terms)

    def enough(rounds: int, kills: list[Kill]) -> bool:
        return rounds > 0 and sum(bool(one.during) for one in kills) >= DURING

    found, kills, verdict = service.run_service(folder, random.Random(3), 3.0, enough, 1.5)
    assert sum(bool(one.during) for one in kills) >= DURING
    assert len(found.joined) >= 2
    assert found.revoked
    assert found.rotated >= NODES
    assert verdict.steps > 30
    assert verdict.models > 10
    assert verdict.lost <= RENEW * len(found.revoked)


# What the check itself would notice


class Typing(service.Operator):
    """An operator without a fleet, whose commands do what a test says."""

    def __init__(self, interrupts: float = 0.0) -> None:
        killer = service.Killer(Path("/no/such/fleet"), random.Random(1), 1.0, 1.0)
        super().__init__(Path("/no/such/fleet"), random.Random(1), killer, interrupts)


def test_a_command_that_fails_is_typed_again_and_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [(1, "error: node 3 does not answer"), (None, ""), (0, "done")]
    monkeypatch.setattr(service, "_run", lambda words, patience: answers.pop(0))
    typing = Typing()
    assert typing.type_in(["fleet", "join", "DIR"], [3]) == "done"
    found = typing.found
    assert (found.typed["join"], found.repeated["join"], found.killed["join"]) == (3, 1, 1)
    assert found.said == ["fleet join: error: node 3 does not answer"]
    assert typing.killer.command == ""


def test_a_command_that_never_succeeds_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "_run", lambda words, patience: (1, "error: no"))
    with pytest.raises(Violation, match="fails again and again: error: no"):
        Typing().type_in(["fleet", "rotate", "DIR"], [])


def test_a_command_is_killed_if_that_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    patience = []

    def run(words: list[str], seconds: float) -> tuple[int, str]:
        patience.append(seconds)
        return 0, "done"

    monkeypatch.setattr(service, "_run", run)
    Typing(interrupts=1.0).type_in(["fleet", "join", "DIR"], [])
    Typing(interrupts=1.0).type_in(["fleet", "revoke", "DIR"], [])
    assert patience[0] < 10.0 < patience[1]


def test_a_process_that_takes_too_long_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert service._run(["no-such-command"], PATIENCE)[0] == 2
    monkeypatch.setattr(sys, "executable", "/bin/sleep")
    code, _ = service._run([], PATIENCE)
    assert code == 1  # sleep does not know -m


def test_lost_updates_of_others_than_revoked_nodes_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fleet is a real one that never runs; what its disks say is invented."""
    folder = settle(tmp_path / "fleet", lw.ring(6), seed=1)
    verdict = WalkVerdict(100, 50, 2, 3, 0, 30)
    monkeypatch.setattr(service.FleetFolder, "up", lambda *_: [])
    monkeypatch.setattr(service.Operator, "goes_on", lambda *_: None)
    monkeypatch.setattr(service.Killer, "run", lambda self: None)
    monkeypatch.setattr(service, "judge_folder", lambda *_: verdict)
    by = Counter({4: 3})
    monkeypatch.setattr(service, "who_lost", lambda *_: by)

    def enough(rounds: int, kills: list[Kill]) -> bool:
        return True

    with pytest.raises(Violation, match="updates of nodes that were not revoked are lost"):
        service.run_service(folder, random.Random(1), 1.0, enough, 1.0)
    by = Counter({4: 2})
    with pytest.raises(Violation, match="not revoked"):
        service.run_service(folder, random.Random(1), 1.0, enough, 1.0)
    verdict, by = verdict._replace(lost=0), Counter()
    assert service.run_service(folder, random.Random(1), 1.0, enough, 1.0)[2].lost == 0


def test_wrong_options_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert service.main(["--nodes", "3"]) == 2
    assert "Error: --nodes must be at least 6" in capsys.readouterr().out


def test_the_summary_tells_kills_and_losses() -> None:
    found = Service(joined=[20], revoked=[7], rotated=3, said=["fleet join: error"])
    kills = [Kill(3, "join", True), Kill(4, "rotate", False), Kill(5, "", False)]
    text = service.summary(found, kills, WalkVerdict(1200, 700, 1, 0, 0, 400), 20, 120.0)
    values = [line.rsplit("  ", 1) for line in text.splitlines()]
    told = {one[0].strip(): one[1].strip() for one in values if len(one) == 2}
    assert told["kills while a command ran, of nodes that it was about"] == "2, 1"
    assert told["new keys, joined nodes, revoked nodes"] == "3, 1, 1"
    assert told["updates lost"] == "0"
    assert "typed again: fleet join: error" in text
