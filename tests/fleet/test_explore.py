"""Everything that can happen to small walks, and that what must be caught is caught."""

from __future__ import annotations

import pytest

from levywalk.fleet.checking.explore import Explorer, main
from levywalk.fleet.checking.mutants import (
    AcknowledgesBeforeCommit,
    AnnouncesUnguarded,
    AnswersFromAnyBranch,
    GenesisWithoutGuardian,
    HidesSilences,
    ReadsTheNewestMemory,
    RedrawsAfterCrash,
    ReleasesWithoutRegister,
    TakesAnySize,
    TakesOldAnswers,
)
from levywalk.fleet.checking.small_fleet import SmallFleet
from levywalk.fleet.checking.small_fleets import (
    ASKING_FLEETS,
    GROWING_FLEETS,
    PATH,
    REMEMBERING_FLEETS,
    SMALL_FLEETS,
    TRIANGLE,
)
from levywalk.fleet.checking.verdicts import judge_facts
from levywalk.fleet.protocol.messages import (
    Certificate,
    Finished,
    Guard,
    Guarding,
    Prepare,
    Prepared,
    Sized,
)
from levywalk.fleet.protocol.node import Node
from levywalk.fleet.protocol.records import NOBODY, Guarded, Held, HeldStatus
from levywalk.fleet.protocol.token import FIRST, Epoch
from tests.limits import mostly_more

QUICK = ("path, leaving",)
# Ten seconds to a minute each.
SOAK = ("path, mistaken operator", "path, eager", "triangle", "path, suspicion", "square",
        "path, back", "path, first forgets")  # fmt: skip
ANY_DEATH = SmallFleet("any death", TRIANGLE, ("on", "on"), mortal=(0, 1, 2))


@pytest.mark.parametrize(
    "setting",
    mostly_more(
        SMALL_FLEETS, lambda setting: setting.name in QUICK, lambda setting: setting.name in SOAK
    ),
    ids=lambda setting: setting.name,
)
def test_nothing_that_can_happen_breaks_an_invariant_or_stops_the_walk(setting: SmallFleet) -> None:
    found = Explorer(setting).run()
    assert found.violation is None, str(found.violation)
    assert found.complete
    assert found.states > 1_000
    assert found.most_lost <= setting.renew_after


@pytest.mark.parametrize(
    "setting",
    mostly_more(
        REMEMBERING_FLEETS,
        lambda setting: setting.name == "path, memory and a death",
        lambda setting: setting.name == "path, memory that is lost",
    ),
    ids=lambda setting: setting.name,
)
def test_nothing_that_can_happen_bends_what_nodes_remember(setting: SmallFleet) -> None:
    found = Explorer(setting).run()
    assert found.violation is None, str(found.violation)
    assert found.complete
    assert found.states > 800


def test_a_node_that_reads_its_newest_memory_is_caught() -> None:
    found = Explorer(REMEMBERING_FLEETS[0], ReadsTheNewestMemory, live=False).run()
    assert found.violation is not None
    assert found.violation.invariant == "I8"
    assert "1: turn" in str(found.violation)


@pytest.mark.parametrize(
    "setting",
    mostly_more(
        ASKING_FLEETS,
        lambda setting: setting.name == "path, two questions",
        lambda setting: setting.name == "path, questions and a silence",
    ),
    ids=lambda setting: setting.name,
)
def test_nothing_that_can_happen_bends_what_neighbours_answer(setting: SmallFleet) -> None:
    found = Explorer(setting).run()
    assert found.violation is None, str(found.violation)
    assert found.complete
    assert found.states > 800


@pytest.mark.parametrize(
    ("kind", "name", "invariant", "because"),
    [
        (TakesOldAnswers, "path, questions", "I8", "1 gets Answer(e0.1 seq 0) of 2"),
        (AnswersFromAnyBranch, "path, questions and a silence", "I8", "0: silent (hears 1)"),
        (HidesSilences, "path, two questions", "I7", "1: turn, although neighbours are silent"),
        (RedrawsAfterCrash, "path, two questions", "I7", "1: start   [it had moving"),
    ],
)
def test_each_bug_with_questions_is_caught(
    kind: type[Node], name: str, invariant: str, because: str
) -> None:
    (setting,) = (one for one in ASKING_FLEETS if one.name == name)
    found = Explorer(setting, kind, live=False).run()
    assert found.violation is not None
    assert found.violation.invariant == invariant, str(found.violation)
    assert because in str(found.violation)


@pytest.mark.parametrize(
    "setting",
    mostly_more(GROWING_FLEETS, lambda setting: setting.name == "path, a new size"),
    ids=lambda setting: setting.name,
)
def test_nothing_that_can_happen_mixes_the_sizes_of_a_fleet(setting: SmallFleet) -> None:
    found = Explorer(setting).run()
    assert found.violation is None, str(found.violation)
    assert found.complete
    assert found.states > 300


class TakesOlderSizes(Node):
    """It takes the word of the operator that came last, also if it is an older one."""

    def _sized(self, sender: int, message: Sized, now: float) -> None:
        if message.size.version and message.size != self._size:
            self._put("size", message.size)
            self._use_size()
            for u in self.neighbours:
                self._send(u, message)


@pytest.mark.parametrize(
    ("kind", "setting", "because"),
    [
        (TakesAnySize, GROWING_FLEETS[0], "node 1 has e0.0 seq 1 step 1 of size 1, and knows 0"),
        (TakesOlderSizes, GROWING_FLEETS[1], "falls from size 2 to 1"),
    ],
)
def test_each_bug_with_sizes_is_caught(kind: type[Node], setting: SmallFleet, because: str) -> None:
    found = Explorer(setting, kind, live=False).run()
    assert found.violation is not None
    assert found.violation.invariant == "size", str(found.violation)
    assert because in str(found.violation)
    assert "resize 1" in str(found.violation)


@pytest.mark.parametrize(
    ("kind", "invariant", "most_lines", "because"),
    [
        (
            AcknowledgesBeforeCommit,
            "I2",
            9,
            "1 gets Prepare(e0.0 seq 1 step 1) of 0; crash after 1 effect",
        ),
        (
            ReleasesWithoutRegister,
            "lie",
            8,
            "1: silent (hears 0)   [it had prepared e0.0 seq 1 step 1]",
        ),
        (AnnouncesUnguarded, "I2", 5, "1: silent (hears 0)"),
        (RedrawsAfterCrash, "I7", 5, "0: start   [it had moving e0.0 seq 0 step 1]"),
        (GenesisWithoutGuardian, "I2", 2, "0: dies   [it had active e0.0 seq 0 step 0]"),
    ],
)
def test_each_injected_bug_is_caught_by_a_short_trace(
    kind: type[Node], invariant: str, most_lines: int, because: str
) -> None:
    found = Explorer(ANY_DEATH, kind, live=False).run()
    assert found.violation is not None
    assert found.violation.invariant == invariant, str(found.violation)
    assert len(found.violation.trace) <= most_lines, str(found.violation)
    assert because in found.violation.trace, str(found.violation)


# Bugs of the protocol itself that exploration found, each as a node that still has it.


class GuardsAfterTheNews(Node):
    """It spoke of an epoch in one commit and kept the copy in the next: a crash between them, and
    the seeker's death, and everybody had given way to an epoch of which there was no copy.
    """

    def _guard(self, sender: int, message: Guard, now: float) -> None:
        token = message.token
        if self._behind(sender, token.epoch) or self.disk.guarded is not None:
            super()._guard(sender, message, now)
            return
        self._overtake(message.link)
        self._announce_epoch(now)
        self._put("guarded", Guarded(token, sender, None, None))
        self._send(sender, Guarding(token.epoch, token.seq))


class KeepsTheCertificate(Node):
    """It released a token, the giver died before it could say so, and the next node never learnt
    that it was its.
    """

    def _pass_on(self, certificate: Certificate, now: float) -> None:
        pass


class PreparesAfterTheEnd(Node):
    """After the end a late `Prepare` and a late `Activate` made it do the last steps a
    second time.
    """

    def _prepare(self, sender: int, message: Prepare, now: float) -> None:
        token = message.token
        if (
            self.disk.final is None
            or self.disk.held is not None
            or token.epoch < self.disk.known.epoch
        ):
            super()._prepare(sender, message, now)
            return
        guarded = self.disk.guarded
        if guarded is None or guarded.copy.seq < token.seq:
            self._put(
                "held",
                Held(
                    HeldStatus.PREPARED, token, message.guardian, sender, NOBODY, token.step, FIRST
                ),
            )
            self._send(sender, Prepared(token.epoch, token.seq, self._digest(token)))


class EndsWhatItBringsBack(Node):
    """It dropped what it was bringing back when it heard of the end, though a guardian may have
    spoken of it already: that epoch overtook the end, the guardian died, and nobody had a copy.
    """

    def _finished(self, sender: int, message: Finished, now: float) -> None:
        held = self.disk.held
        if held is not None and held.token.epoch > message.token.epoch >= self.disk.known.epoch:
            self._put("held", None)
        super()._finished(sender, message, now)


class EndsWhatItBringsBackAgain(Node):
    """The same, of what it was bringing back a second time, for which it had no guardian yet: the
    one of the first time had spoken of the epoch before it died.
    """

    def _finished(self, sender: int, message: Finished, now: float) -> None:
        held, ended = self.disk.held, message.token.epoch
        if (
            held is not None
            and held.guardian == NOBODY
            and held.token.epoch > ended >= self.disk.known.epoch
        ):
            self._put("held", None)
        super()._finished(sender, message, now)


DEATHS = SmallFleet("as found", PATH, ("on", "stay", "on"), mortal=(0, 2))
# The guardian says that the walk is over, the operator says that it is gone, and both are heard.
END_AND_MISTAKE = SmallFleet(
    "end and mistake", PATH, ("stay",), start=1, silences=0, mistakes=1, mortal=(2,)
)


@pytest.mark.parametrize(
    ("kind", "setting", "invariants"),
    [
        (GuardsAfterTheNews, DEATHS, {"I2", "live"}),
        (KeepsTheCertificate, DEATHS, {"live"}),
        pytest.param(PreparesAfterTheEnd, DEATHS, {"again"}, marks=pytest.mark.more),
        pytest.param(EndsWhatItBringsBack, END_AND_MISTAKE, {"I2", "live"}, marks=pytest.mark.more),
        pytest.param(
            EndsWhatItBringsBackAgain, END_AND_MISTAKE, {"I2", "live"}, marks=pytest.mark.more
        ),
        pytest.param(Node, END_AND_MISTAKE, set(), marks=pytest.mark.more),
    ],
)
def test_bugs_that_were_found_here_stay_found(
    kind: type[Node], setting: SmallFleet, invariants: set[str]
) -> None:
    found = Explorer(setting, kind).run()
    if not invariants:
        assert found.violation is None, str(found.violation)
        return
    assert found.violation is not None
    assert found.violation.invariant in invariants, str(found.violation)


def test_a_trace_reads_as_a_story() -> None:
    violation = Explorer(ANY_DEATH, GenesisWithoutGuardian, live=False).run().violation
    assert str(violation).splitlines() == [
        "I2: nobody alive has a copy that can continue in Epoch(counter=0, seq=0, node=-1) or "
        "later",
        "  0: genesis (hears 1)",
        "  0: dies   [it had active e0.0 seq 0 step 0]",
    ]


def test_a_limit_on_states_is_not_taken_for_the_end() -> None:
    found = Explorer(SMALL_FLEETS[0], most=100).run()
    assert not found.complete
    assert "NOT exhausted" in str(found)


def test_facts_that_contradict_each_other() -> None:
    e = Epoch(0, 0, 0)
    assert (
        judge_facts([("activated", e, 1, 1), ("regenerated", e, 1, 0, 2), ("visited", e, 0, 1)])
        is None
    )
    bad = judge_facts([("visited", e, 0, 1), ("visited", e, 0, 2)])
    assert bad == ("I6", "step 0 of e0.0 was done at nodes 1 and 2")


def test_the_command_explores_what_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["path, leaving"]) == 0
    assert "exhausted" in capsys.readouterr().out
