"""Each invariant is broken by hand, and noticed: a check that cannot fail checks nothing."""

from __future__ import annotations

import numpy as np
import pytest

from levywalk.fleet.checking.faults import draw
from levywalk.fleet.checking.invariants import Invariants
from levywalk.fleet.checking.violation import Violation
from levywalk.fleet.checking.walk_replay import check_replay
from levywalk.fleet.protocol.messages import Certificate
from levywalk.fleet.protocol.node_step import visit_of
from levywalk.fleet.protocol.records import (
    NOBODY,
    Began,
    Guarded,
    Held,
    HeldStatus,
    Known,
    RegisterValue,
)
from levywalk.fleet.protocol.token import FIRST, Epoch, Token

EPOCH = Epoch(0, 0, 0)
FLEET = draw(0, network="ring", nodes=5, design="unif_rw", problem="least squares").fleet
TOKEN = Token.first(np.zeros(3))._replace(epoch=EPOCH)


class Disks(Invariants):
    """Five disks to write on."""

    def __init__(self) -> None:
        super().__init__(FLEET, [FLEET.disk(v) for v in range(5)])

    def write(self, v: int, *lines, **slots) -> None:
        for name, value in slots.items():
            setattr(self.disks[v], name, value)
        self.persisted(v, slots, lines)


def held(status: str, token: Token = TOKEN, guardian: int = 1, to: int = NOBODY) -> Held:
    return Held(status, token, guardian, NOBODY, to, token.step, FIRST)


def certificate(token: Token, to: int) -> Certificate:
    sent = token.handed_over(0, to)
    return Certificate(1, token.epoch, token.seq, to, 0, sent.digest(), b"")


@pytest.fixture
def disks() -> Disks:
    """Node 0 holds the first token and node 1 guards it."""
    disks = Disks()
    disks.write(0, held=held(HeldStatus.SEEKING))
    disks.write(1, guarded=Guarded(TOKEN, 0, None, None), known=Known(EPOCH, 0))
    disks.write(0, held=held(HeldStatus.ACTIVE), known=Known(EPOCH, 0))
    return disks


def test_holder_and_guardian_make_the_fleet_whole(disks):
    assert disks.whole


def test_i1_two_live_tokens(disks):
    with pytest.raises(Violation, match="I1"):
        disks.write(2, held=held(HeldStatus.ACTIVE, TOKEN._replace(seq=1)))


def test_i1_a_released_token_is_not_live(disks):
    disks.write(0, held=held(HeldStatus.MOVING, to=2))
    disks.write(1, guarded=Guarded(TOKEN, 0, certificate(TOKEN, 2), None))
    disks.write(2, held=held(HeldStatus.ACTIVE, TOKEN._replace(seq=1)))


@pytest.mark.parametrize("made", [{"step": 1}, {"hops": 1}])
def test_i1_a_token_is_live_if_another_choice_was_released(disks, made):
    disks.write(0, held=held(HeldStatus.MOVING, TOKEN._replace(**made), to=2))
    disks.write(1, guarded=Guarded(TOKEN, 0, certificate(TOKEN, 2), None))
    with pytest.raises(Violation, match="I1"):
        disks.write(2, held=held(HeldStatus.ACTIVE, TOKEN._replace(seq=1)))


def test_i2_holder_and_guardian_die(disks):
    disks.died(0)
    with pytest.raises(Violation, match="I2"):
        disks.died(1)


def test_i2_an_epoch_is_known_but_nobody_has_its_copy(disks):
    with pytest.raises(Violation, match="I2"):
        disks.write(3, known=Known(Epoch(1, 0, 1), 0))


def test_i2_a_prepared_token_counts_with_its_certificate_alone(disks):
    after = TOKEN._replace(seq=1)
    disks.write(0, held=held(HeldStatus.MOVING, to=2))
    disks.write(2, held=held(HeldStatus.PREPARED, after)._replace(giver=0))
    disks.write(1, guarded=Guarded(TOKEN, 0, certificate(TOKEN, 2), None))
    disks.died(0)
    with pytest.raises(Violation, match="I2"):
        disks.died(1)


def test_i3_a_register_is_written_once(disks):
    disks.write(1, guarded=Guarded(TOKEN, 0, certificate(TOKEN, 2), None))
    with pytest.raises(Violation, match=r"I3.*twice"):
        disks.write(1, guarded=Guarded(TOKEN, 0, certificate(TOKEN, 3), None))


def test_i3_a_register_is_not_wiped(disks):
    disks.write(1, guarded=Guarded(TOKEN, 0, certificate(TOKEN, 2), None))
    with pytest.raises(Violation, match=r"I3.*wiped"):
        disks.write(1, guarded=Guarded(TOKEN, 0, None, None))


def test_i3_one_guardian(disks):
    with pytest.raises(Violation, match=r"I3.*two guardians"):
        disks.write(3, guarded=Guarded(TOKEN, 0, None, None))


def test_i3_nothing_lives_after_regeneration(disks):
    disks.write(
        1,
        guarded=Guarded(TOKEN, 0, RegisterValue.REGENERATED, None),
        held=held(HeldStatus.SEEKING, TOKEN._replace(epoch=Epoch(1, 0, 1))),
    )
    disks.write(0, held=None)
    with pytest.raises(Violation, match="I3"):
        disks.write(2, held=held(HeldStatus.ACTIVE, TOKEN._replace(seq=1)))


def test_i4_comes_to_life_once(disks):
    disks.write(0, held=None)
    with pytest.raises(Violation, match="I4"):
        disks.write(2, held=held(HeldStatus.ACTIVE))


def test_i5_an_epoch_never_falls(disks):
    with pytest.raises(Violation, match="I5"):
        disks.write(0, known=Known(FIRST, 0))


def test_i5_is_of_one_disk(disks):
    disks.write(2, known=Known(EPOCH, 0))
    disks.wiped(2, FLEET.disk(2))
    disks.write(2, known=Known(FIRST, 0))


def test_i6_a_step_is_logged_once(disks):
    disks.write(0, visit_of(TOKEN, False), held=held(HeldStatus.ACTIVE))
    with pytest.raises(Violation, match="I6"):
        disks.write(0, visit_of(TOKEN, False), held=held(HeldStatus.ACTIVE))


def test_i6_a_choice_is_not_made_again(disks):
    disks.write(0, held=held(HeldStatus.MOVING, to=1))
    with pytest.raises(Violation, match="choice"):
        disks.write(0, held=held(HeldStatus.MOVING, to=4))


def test_an_epoch_begins_once(disks):
    disks.write(0, Began(EPOCH, FIRST, 0), held=held(HeldStatus.ACTIVE))
    with pytest.raises(Violation, match="log"):
        disks.write(0, Began(EPOCH, FIRST, 3), held=held(HeldStatus.ACTIVE))


def test_i7_another_model():
    check_replay(FLEET, [0], TOKEN)
    with pytest.raises(Violation, match="I7"):
        check_replay(FLEET, [0, 1], TOKEN._replace(step=1))


def test_a_lost_disk_forgets_all_its_registers_not_the_last_alone(disks):
    earlier, later = (
        Guarded(TOKEN, 0, certificate(TOKEN, 2), None),
        TOKEN._replace(epoch=Epoch(1, 0, 1)),
    )
    disks.write(1, guarded=earlier)
    with pytest.raises(Violation, match="I3"):
        disks.write(1, guarded=earlier._replace(register=None))
    disks.write(1, guarded=Guarded(later, 3, None, None))
    disks.wiped(1, FLEET.disk(1))
    disks.write(1, guarded=earlier._replace(register=None))
