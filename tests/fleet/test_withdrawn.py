"""A choice that cannot be carried out: the holder keeps the model only if its guardian has
withdrawn the choice, since nothing on the holder's disk says whether the release was asked for.
"""

from __future__ import annotations

import pytest

from levywalk.fleet.checking.explore import Explorer
from levywalk.fleet.checking.mutants import (
    AsksALostDiskAgain,
    ForgetsEarlierWithdrawals,
    ReleasesBeforeItPrepares,
    ReleasesWhateverItPrepares,
    StaysWithoutAsking,
    WithdrawsInWordsOnly,
)
from levywalk.fleet.checking.small_fleets import SMALL_FLEETS
from levywalk.fleet.protocol.events import (
    Effect,
    Gone,
    Got,
    Notice,
    Persist,
    Start,
    Timer,
    TurnRequest,
)
from levywalk.fleet.protocol.messages import (
    Activate,
    Certified,
    Message,
    Prepare,
    Prepared,
    Refused,
    Release,
    Released,
    Renew,
    Withdraw,
    Withdrawn,
)
from levywalk.fleet.protocol.node import Node
from levywalk.fleet.protocol.records import NOBODY, Guarded
from levywalk.fleet.protocol.token import Token
from levywalk.fleet.simulate.virtual import VirtualFleet
from tests.fleet.test_protocol import fleet_of, sent


class Three:
    """A walk at the moment at which the holder has chosen the next node: another one than the
    guardian, or the guardian itself if it goes back. Holder, next node and guardian hear what they
    are told, and nothing else.
    """

    def __init__(self, *, back: bool = False) -> None:
        self.back = back
        self.virtual = VirtualFleet(fleet_of())
        while (at := self._chosen()) is None:
            self.virtual.step()
        self.v, self.to, self.guardian = at

    def _chosen(self) -> tuple[int, int, int] | None:
        for v, machine in enumerate(self.virtual.machines):
            held = machine.disk["held"]
            if held is None or held.status != "moving":
                continue
            if (held.to == held.guardian) == self.back and not self._heard(v, held.to):
                return v, held.to, held.guardian
        return None

    def _heard(self, v: int, to: int) -> bool:
        """Return whether the next node has the token already."""
        there = self.virtual.node(to).disk.held
        return there is not None and there.giver == v

    @property
    def holder(self) -> Node:
        return self.virtual.node(self.v)

    @property
    def token(self) -> Token:
        held = self.holder.disk.held
        assert held is not None
        return held.token

    @property
    def copy(self) -> Guarded:
        guarded = self.virtual.node(self.guardian).disk.guarded
        assert guarded is not None
        return guarded

    def tell(self, v: int, sender: int, message: Message) -> list[Effect]:
        return self.virtual.node(v).receive(Got(sender, message), self.virtual.now)

    def ask(self, message: Message) -> list[Effect]:
        """Let the guardian hear the holder."""
        return self.tell(self.guardian, self.v, message)

    def answer(self, message: Message) -> list[Effect]:
        """Let the holder hear its guardian."""
        return self.tell(self.v, self.guardian, message)

    def prepare(self) -> tuple[list[Effect], Release]:
        """Let the next node prepare the token; return what the holder does and asks then."""
        assert self.holder.disk.held is not None
        token = self.holder._outgoing(self.holder.disk.held)[0]
        (prepared,) = sent(self.tell(self.to, self.v, Prepare(token, self.guardian)), Prepared)
        effects = self.tell(self.v, self.to, prepared)
        (release,) = sent(effects, Release)
        assert isinstance(release, Release)
        return effects, release

    def refuse(self) -> Withdraw:
        """Let the holder start again, so that it does not know what it has asked, and the next node
        refuse the token; return what the holder asks then.
        """
        self.restart()
        assert self.holder.disk.held is not None
        token, digest = self.holder._outgoing(self.holder.disk.held)
        said = Refused(token.epoch, token.seq, digest, "the node is leaving")
        effects = self.tell(self.v, self.to, said)
        assert Notice("gives up", {"to": self.to, "why": said.why}) in effects
        (withdraw,) = sent(effects, Withdraw)
        assert isinstance(withdraw, Withdraw)
        return withdraw

    def restart(self) -> list[Effect]:
        """Give the holder's disk to a new state machine."""
        fleet, before = self.virtual.fleet, self.holder
        after = Node(fleet.site(self.v), fleet.terms, before.disk, before.signer)
        self.virtual.machines[self.v].node = after
        return after.receive(Start(), self.virtual.now)


@pytest.fixture
def three() -> Three:
    return Three()


def written(effects: list[Effect]) -> list[Effect]:
    return [one for one in effects if isinstance(one, Persist)]


def test_between_prepared_and_release_nothing_is_written(three: Three) -> None:
    effects, release = three.prepare()
    assert not written(effects)
    (released,) = sent(three.ask(release), Released)
    assert sent(three.answer(released), Activate)
    assert three.holder.disk.held is None


def test_the_model_stays_once_the_guardian_has_withdrawn_the_choice(three: Three) -> None:
    _, release = three.prepare()
    withdraw = three.refuse()
    assert three.holder.disk.held.status == "withdrawing"
    effects = three.ask(withdraw)
    assert written(effects)
    (withdrawn,) = sent(effects, Withdrawn)
    effects = three.answer(withdrawn)
    assert Notice("stayed", {"to": three.to}) in effects
    assert TurnRequest() in effects
    assert (three.holder.disk.held.status, three.holder.disk.held.to) == ("active", NOBODY)
    late = three.ask(release)  # which was on its way all the time
    assert sent(late, Released) == []
    assert three.copy.register is None


def test_what_was_released_is_not_withdrawn(three: Three) -> None:
    _, release = three.prepare()
    three.ask(release)
    certificate = three.copy.register
    effects = three.ask(three.refuse())
    assert not written(effects)
    assert sent(effects, Withdrawn) == []
    (released,) = sent(effects, Released)
    assert sent(three.answer(released), Activate) == [Activate(certificate)]


def test_every_earlier_choice_stays_withdrawn_and_a_later_one_is_released(three: Three) -> None:
    _, release = three.prepare()
    (withdrawn,) = sent(three.ask(three.refuse()), Withdrawn)
    three.answer(withdrawn)
    newer = three.token._replace(version=three.token.version + 3, hops=three.token.hops + 3)
    three.ask(Renew(newer))
    assert (three.copy.copy, three.copy.withdrawn) == (newer, release.hops)
    three.ask(Withdraw(release.epoch, release.seq, release.hops + 4))
    three.ask(Withdraw(release.epoch, release.seq, release.hops + 2))  # an old one
    assert three.copy.withdrawn == release.hops + 4
    for hops in range(release.hops, release.hops + 5):
        assert sent(three.ask(release._replace(hops=hops)), Released) == []
    assert sent(three.ask(release._replace(hops=release.hops + 5)), Released)


def test_an_old_answer_does_not_take_back_a_later_choice(three: Three) -> None:
    epoch, seq, hops = three.token.epoch, three.token.seq, three.token.hops
    assert not written(three.answer(Withdrawn(epoch, seq, hops)))  # it has not asked
    three.refuse()
    for old in (
        Withdrawn(epoch, seq, hops - 1),
        Withdrawn(epoch, seq, hops + 1),
        Withdrawn(epoch, seq - 1, hops),
        Withdrawn(epoch._replace(counter=epoch.counter + 1), seq, hops),
    ):
        assert not written(three.answer(old))
    assert not written(three.tell(three.v, three.to, Withdrawn(epoch, seq, hops)))
    assert three.holder.disk.held.status == "withdrawing"
    assert written(three.answer(Withdrawn(epoch, seq, hops)))


def test_a_holder_that_has_forgotten_its_question_asks_again(three: Three) -> None:
    """The guardian has released the token, others have brought the certificate to the next node,
    which works with it; then the holder starts again, and has nothing but its choice.
    """
    _, release = three.prepare()
    three.ask(release)
    three.tell(three.to, three.v, Certified(three.copy.register))
    assert three.virtual.node(three.to).disk.held.status == "active"
    (prepare,) = sent(three.restart(), Prepare)
    (prepared,) = sent(three.tell(three.to, three.v, prepare), Prepared)
    assert sent(three.tell(three.v, three.to, prepared), Release) == [release]
    three.answer(Released(three.copy.register))
    assert three.holder.disk.guarded.holder == three.to


def test_the_model_is_not_sent_again_while_the_guardian_is_slow(three: Three) -> None:
    _, release = three.prepare()
    effects = three.holder.receive(Timer(), three.holder.retry_at)
    assert sent(effects, Prepare) == []
    assert sent(effects, Release) == [release]


def test_a_choice_that_was_given_up_is_not_prepared_again(three: Three) -> None:
    """The next node may have lost its disk, and with it what it did with the token."""
    three.holder.receive(Gone(three.to), three.virtual.now)
    assert three.holder.disk.held.status == "withdrawing"
    effects = three.restart()
    assert sent(effects, Prepare) == []
    asked = Withdraw(three.token.epoch, three.token.seq, three.token.hops)
    assert sent(effects, Withdraw) == [asked]


def test_a_next_node_that_has_lost_its_disk_is_not_asked_again() -> None:
    (setting,) = (one for one in SMALL_FLEETS if one.name == "path, last forgets")
    found = Explorer(setting, AsksALostDiskAgain, live=False).run()
    assert found.violation is not None
    assert "was activated at node 2 a second time" in str(found.violation)


@pytest.mark.parametrize(
    "kind", [StaysWithoutAsking, WithdrawsInWordsOnly, ForgetsEarlierWithdrawals]
)
def test_a_bug_with_withdrawals_is_found(kind: type[Node]) -> None:
    (setting,) = (one for one in SMALL_FLEETS if one.name == "path, two refusals")
    found = Explorer(setting, kind, live=False).run()
    assert found.violation is not None
    assert found.violation.invariant == "I1", str(found.violation)
    assert "Certified" in str(found.violation)


@pytest.mark.parametrize(
    ("kind", "invariant"), [(ReleasesWhateverItPrepares, "I1"), (ReleasesBeforeItPrepares, "I2")]
)
def test_a_bug_of_a_guardian_that_is_the_next_node_is_found(
    kind: type[Node], invariant: str
) -> None:
    (setting,) = (one for one in SMALL_FLEETS if one.name == "path, suspicion")
    found = Explorer(setting, kind, live=False).run()
    assert found.violation is not None
    assert found.violation.invariant == invariant, str(found.violation)


# The next node is the guardian


@pytest.fixture
def back() -> Three:
    return Three(back=True)


def test_a_guardian_releases_what_it_has_prepared_in_the_same_transaction(back: Three) -> None:
    assert back.holder.disk.held is not None
    token, digest = back.holder._outgoing(back.holder.disk.held)
    effects = back.tell(back.to, back.v, Prepare(token, back.guardian))
    (persist,) = written(effects)
    assert set(persist.slots) >= {"held", "guarded"}
    assert sent(effects, Prepared) == []
    (released,) = sent(effects, Released)
    assert released.certificate == back.copy.register
    assert (released.certificate.to, released.certificate.digest) == (back.to, digest)
    assert back.virtual.node(back.to).disk.held.status == "prepared"
    (activate,) = sent(back.answer(released), Activate)
    assert back.holder.disk.guarded.holder == back.to
    back.tell(back.to, back.v, activate)
    assert back.virtual.node(back.to).disk.held.status == "active"


def test_a_holder_that_asks_again_gets_the_same_certificate(back: Three) -> None:
    assert back.holder.disk.held is not None
    prepare = Prepare(back.holder._outgoing(back.holder.disk.held)[0], back.guardian)
    (released,) = sent(back.tell(back.to, back.v, prepare), Released)
    effects = back.tell(back.to, back.v, prepare)
    assert not written(effects)
    assert sent(effects, Released) == [released]
    (again,) = sent(back.restart(), Prepare)
    assert again == prepare
    back.tell(back.to, back.v, Certified(released.certificate))  # it works with the token already
    assert back.virtual.node(back.to).disk.held.status == "active"
    assert sent(back.tell(back.to, back.v, prepare), Released) == [released]


def test_a_late_token_whose_choice_was_withdrawn_is_not_released(back: Three) -> None:
    assert back.holder.disk.held is not None
    late = Prepare(back.holder._outgoing(back.holder.disk.held)[0], back.guardian)
    (withdrawn,) = sent(back.ask(back.refuse()), Withdrawn)
    back.answer(withdrawn)
    assert back.holder.disk.held.status == "active"
    effects = back.tell(back.to, back.v, late)
    assert sent(effects, Released) == []
    assert back.copy.register is None


def test_a_node_that_is_no_guardian_releases_nothing(three: Three) -> None:
    assert three.holder.disk.held is not None
    token = three.holder._outgoing(three.holder.disk.held)[0]
    effects = three.tell(three.to, three.v, Prepare(token, three.guardian))
    assert sent(effects, Released) == []
    assert len(sent(effects, Prepared)) == 1


def test_only_the_certificate_in_its_own_register_needs_no_check(back: Three) -> None:
    """Any other certificate in its own name has to have its signature."""

    class Nobodys:
        def sign(self, statement: bytes) -> bytes:
            return b"signed"

        def verify(self, node: int, statement: bytes, signature: bytes) -> bool:
            return False

    assert back.holder.disk.held is not None
    node = back.virtual.node(back.to)
    node.signer = Nobodys()
    prepare = Prepare(back.holder._outgoing(back.holder.disk.held)[0], back.guardian)
    (released,) = sent(back.tell(back.to, back.v, prepare), Released)
    false = released.certificate._replace(signature=b"forged")
    effects = back.tell(back.to, back.v, Activate(false))
    assert "refused" in {one.what for one in effects if isinstance(one, Notice)}
    assert node.disk.held.status == "prepared"
    back.tell(back.to, back.v, Activate(released.certificate))
    assert node.disk.held.status == "active"
