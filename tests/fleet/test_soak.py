"""The soak: the walk lives under faults that overlap, or says why it does not."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import levywalk as lw
from levywalk.fleet.checking import soak
from levywalk.fleet.checking.logs import WalkVerdict, judge_folder
from levywalk.fleet.checking.processes import settle
from levywalk.fleet.checking.running_fleet import RunningFleet
from tests.limits import PATIENCE
from tests.limits import eventually as until

GOOD = WalkVerdict(1200, 700, 5, 7, 4, 400, 0, (4, 67))


def test_the_summary_says_what_was_lost_and_what_was_shown():
    found = soak.Soak(pauses=[9.0, 12.0], said=["the walk has stopped: …"])
    text = soak.summary(found, {"kill": 3, "halves": 1}, GOOD, 180.0, 20)
    rows = dict(line.rsplit("  ", 1) for line in text.splitlines() if "  " in line.strip())
    values = {name.strip(): value.strip() for name, value in rows.items()}
    assert values["faults"] == "4"
    assert values["updates lost, by the replay of all disks"] == "7"
    assert values["updates lost, as fleet status shows them"] == "4 to 67"
    assert "median 10, most 12" in text or "median 11, most 12" in text
    assert "it said: the walk has stopped" in text
    open_end = soak.summary(found, {}, GOOD._replace(shown=(4, None)), 180.0, 20)
    assert "4 to any number" in open_end
    exact = soak.summary(found, {}, GOOD._replace(shown=(7, 7)), 180.0, 20)
    assert " to " not in exact.split("fleet status shows them")[1].splitlines()[0]


@pytest.mark.parametrize("wrong", [["--nodes", "3"], ["--minutes", "0"], ["--every", "-1"]])
def test_wrong_options_are_refused(wrong, capsys):
    assert soak.main(wrong) == 2
    assert "Error: --nodes must be at least 6" in capsys.readouterr().out


@pytest.mark.more
@pytest.mark.parametrize("memory", [False, True], ids=["SGD", "memory"])
def test_a_short_soak(tmp_path, capsys, memory):
    given = "--minutes 0.4 --nodes 6 --every 3 --dead-after 3 --network proxy --seed 3"
    given += " --memory" * memory
    assert soak.main([*given.split(), "--keep", str(tmp_path)]) == 0, capsys.readouterr().out
    said = capsys.readouterr().out
    assert "I1 to I8 hold" in said
    entries = next(line for line in said.splitlines() if line.startswith("memories of nodes"))
    assert (int(entries.split()[-1]) > 6) == memory  # I8 was judged, and not in vain
    assert (tmp_path / "fleet" / "timeline.txt").read_text()


@pytest.mark.more
def test_a_walk_whose_copies_are_lost_says_so_and_is_revived(tmp_path: Path):
    with RunningFleet(settle(tmp_path / "fleet", lw.ring(6), seed=1)) as live:
        live.begin(PATIENCE)
        until(lambda: live.pulse().transfers > 20)
        holder = live.catch("holder", PATIENCE)
        held = live._disk(holder)[0]
        assert held is not None
        for v in (holder, held.guardian):
            live.kill(v)
            live.lose_disk(v)
        for v in (holder, held.guardian):
            live.start(v)
        run = soak.SoakRun(live, random.Random(1), every=10.0)
        run.goes_on()
        for v in live.running():
            until(lambda v=v: live.is_fenced(v) is not None)
            assert live.end(v) == 0
        verdict = judge_folder(live.fleet, live.folder)
    assert run.found.revived == 1
    assert verdict.revived == 1
    assert "fleet revive" in run.found.said[0]
    assert verdict.shown[0] <= verdict.lost
    assert verdict.shown[1] is None  # nobody can know what the lost disks held
