"""Epoch links: each kind is accepted, and each changed or forged field is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from levywalk.fleet.identity.signing import new_signers
from levywalk.fleet.protocol.certificate import OPERATOR
from levywalk.fleet.protocol.links import (
    AHEAD,
    KINDS,
    NO_RIGHT,
    EpochLink,
    LinkKind,
    Right,
    contradicts,
    overrides,
    refuses_link,
    repeats,
)
from levywalk.fleet.protocol.records import Known
from levywalk.fleet.protocol.token import FIRST, Epoch, Token
from levywalk.fleet.storage.codec import encode
from tests.fleet.linked import Hands

RUN, START = b"run", 0
KEYS = new_signers([OPERATOR, *range(6)])
HANDS = Hands(RUN, dict(KEYS))
BORN = Epoch(0, 0, START)
A, B, C, D, STRANGER = 1, 2, 3, 4, 5  # A guards what B holds; B gives it to C


def token(epoch: Epoch, seq: int, step: int) -> Token:
    first = Token.first(np.zeros(2))
    return first._replace(epoch=epoch, seq=seq, step=step, base=step, transfers=seq)


TO_B = HANDS.released(D, BORN, 6, B, A, bytes(32))  # makes B the holder of 7, and A its guardian
TO_C = HANDS.released(A, BORN, 7, C, B, bytes(32))
FIRST_LINK = HANDS.link(LinkKind.FIRST, token(BORN, 0, 0), A)
OWN = Epoch(1, 7, B)
WORD = HANDS.word(token(BORN, 7, 9), D, 5)

HONEST: dict[str, EpochLink] = {
    "first": FIRST_LINK,
    "first, guardian gone": HANDS.link(
        LinkKind.GUARDIAN_REPLACED, token(Epoch(1, 0, START), 0, 0), D
    ),
    "first, guardian gone later": HANDS.link(
        LinkKind.GUARDIAN_REPLACED, token(Epoch(1, 0, START), 0, 3), D, BORN
    ),
    "regenerated": HANDS.link(
        LinkKind.REGENERATED, token(Epoch(1, 7, A), 7, 9), D, BORN, Right(TO_B)
    ),
    "regenerated, by the first guardian": HANDS.link(
        LinkKind.REGENERATED, token(Epoch(1, 0, A), 0, 3), D, BORN, Right(None, FIRST_LINK.opening)
    ),
    "regenerated, another attempt": HANDS.link(
        LinkKind.REGENERATED, token(Epoch(4, 7, A), 7, 9), D, BORN, Right(TO_B)
    ),
    "guardian replaced": HANDS.link(
        LinkKind.GUARDIAN_REPLACED, token(OWN, 7, 9), D, BORN, Right(TO_B)
    ),
    "guardian replaced, once more": HANDS.link(
        LinkKind.GUARDIAN_REPLACED, token(Epoch(2, 7, B), 7, 11), C, OWN, Right(TO_B)
    ),
    "guardian replaced, after it was regenerated": HANDS.link(
        LinkKind.GUARDIAN_REPLACED, token(Epoch(2, 7, A), 7, 11), D, Epoch(1, 7, A), Right(TO_B)
    ),
    "guardian replaced, back again": HANDS.link(
        LinkKind.GUARDIAN_REPLACED, token(Epoch(1, 8, A), 8, 9), D, BORN, Right(TO_B)
    ),
    "giver gone": HANDS.link(
        LinkKind.GIVER_GONE, token(Epoch(1, 8, C), 8, 9), D, BORN, Right(TO_C)
    ),
    "revived": HANDS.link(LinkKind.REVIVED, token(Epoch(5, 7, D), 7, 9), A, BORN, Right(WORD)),
    "revived, guardian gone": HANDS.link(
        LinkKind.GUARDIAN_REPLACED,
        token(Epoch(6, 7, D), 7, 12),
        C,
        Epoch(5, 7, D),
        Right(WORD),
    ),
}


def refused(link: EpochLink) -> str | None:
    return refuses_link(link, RUN, START, KEYS[STRANGER])


@pytest.mark.parametrize("name", HONEST)
def test_a_stranger_accepts_what_an_honest_node_signs(name: str) -> None:
    assert refused(HONEST[name]) is None


def test_every_kind_is_tried() -> None:
    assert {link.opening.kind for link in HONEST.values()} == set(KINDS)


@pytest.mark.parametrize("name", HONEST)
def test_a_field_that_is_changed_afterwards_is_refused(name: str) -> None:
    link = HONEST[name]
    one = link.opening
    changes: list[dict[str, Any]] = [
        {"kind": kind} for kind in (*KINDS, "none") if kind != one.kind
    ]
    changes += [{"epoch": one.epoch._replace(counter=one.epoch.counter + 999_999)}]
    changes += [{"epoch": one.epoch._replace(node=STRANGER)}, {"epoch": one.epoch._replace(seq=99)}]
    changes += [{"parent": one.epoch}, {"parent": Epoch(0, 0, 5)}, {"seq": one.seq + 1}]
    changes += [{"step": one.step + 1}, {"digest": b"x" * 32}, {"guardian": STRANGER}]
    changes += [{"right_epoch": Epoch(0, 0, 5)}, {"right_seq": 99}]
    changes += [
        {"as_guardian": not one.as_guardian},
        {"guardian": one.epoch.node},
        {"signature": bytes(64)},
        {"signature": b""},
    ]
    for change in changes:
        if change == {"parent": one.parent}:
            continue
        assert refused(link._replace(opening=one._replace(**change))) is not None, change


@pytest.mark.parametrize("name", [name for name in HONEST if HONEST[name].right != NO_RIGHT])
def test_a_right_that_is_changed_or_left_out_is_refused(name: str) -> None:
    link = HONEST[name]
    right = link.right
    assert refused(link._replace(right=NO_RIGHT)) is not None
    if right.release is not None:
        release = right.release
        for change in (
            {"guardian": STRANGER}, {"epoch": release.epoch._replace(counter=9)}, {"seq": 5},
            {"to": STRANGER}, {"giver": STRANGER}, {"digest": b"x"}, {"signature": b""},
        ):  # fmt: skip
            assert refused(link._replace(right=Right(release._replace(**change)))) is not None
    if right.link is not None:
        for change in ({"guardian": D}, {"seq": 3}, {"step": 1}, {"signature": b""}):
            changed = Right(None, right.link._replace(**change))
            assert refused(link._replace(right=changed)) is not None


def forged(kind: LinkKind, who: int, seq: int, right: Right, counter: int = 1) -> EpochLink:
    """Return a link that somebody signs with its own key, whatever it says."""
    made = token(Epoch(counter, seq, who), seq, 0)
    return HANDS.link(kind, made, D if who != D else A, BORN, right)


@pytest.mark.parametrize("name", HONEST)
@pytest.mark.parametrize(
    "change", [{"right_epoch": Epoch(0, 0, 5)}, {"right_seq": 99}, {"as_guardian": None}]
)
def test_a_link_says_the_truth_about_its_right(name: str, change: dict[str, Any]) -> None:
    """Otherwise it could be compared with another place than that of its right."""
    link = HONEST[name]
    if "as_guardian" in change:
        change = {"as_guardian": not link.opening.as_guardian}
    false = HANDS.signed(link._replace(opening=link.opening._replace(**change)))
    assert "something else about the right" in (refused(false) or "")


def test_an_epoch_of_its_own_begins_at_the_same_hand_off() -> None:
    made = token(Epoch(4, 7, B), 7, 9)
    for seq in (6, 8):
        link = HANDS.link(LinkKind.GUARDIAN_REPLACED, made, D, Epoch(3, seq, B), Right(TO_B))
        assert refused(link) is not None


@pytest.mark.parametrize("kind", KINDS)
def test_nobody_opens_an_epoch_alone(kind: LinkKind) -> None:
    """A stranger signs everything itself; A, a guardian, has its own signature for a right."""
    for who in (A, B, C, STRANGER):
        mine = HANDS.released(who, BORN, 6, who, who, bytes(32))
        by_word = mine._replace(guardian=OPERATOR)
        own = forged(LinkKind.FIRST, who, 7, NO_RIGHT).opening
        for right in (NO_RIGHT, Right(mine), Right(by_word), Right(None, own), Right(mine, own)):
            for seq in (0, 6, 7, 8):
                assert refused(forged(kind, who, seq, right)) is not None


@pytest.mark.parametrize(
    ("who", "kind", "seq"),
    [
        (STRANGER, LinkKind.REGENERATED, 7),
        (B, LinkKind.REGENERATED, 7),  # it holds the token, and does not guard it
        (A, LinkKind.REGENERATED, 6),
        (A, LinkKind.REGENERATED, 8),
        (A, LinkKind.GIVER_GONE, 7),
        (B, LinkKind.GUARDIAN_REPLACED, 8),
        (B, LinkKind.GUARDIAN_REPLACED, 6),
        (A, LinkKind.GUARDIAN_REPLACED, 7),  # that would be "regenerated"
        (D, LinkKind.REGENERATED, 7),  # it signed the release, so it is not the guardian now
        (B, LinkKind.REVIVED, 7),
        (B, LinkKind.FIRST, 7),
    ],
)
def test_a_right_of_others_or_of_another_place_is_worth_nothing(
    who: int, kind: LinkKind, seq: int
) -> None:
    assert refused(forged(kind, who, seq, Right(TO_B))) is not None


def test_the_number_of_an_epoch_is_not_far_from_what_the_right_proves() -> None:
    assert refused(forged(LinkKind.REGENERATED, A, 7, Right(TO_B), AHEAD)) is None
    for counter in (AHEAD + 1, 999_999):
        why = refused(forged(LinkKind.REGENERATED, A, 7, Right(TO_B), counter))
        assert "too far" in (why or "")


def test_only_the_start_node_begins_and_only_once() -> None:
    assert refused(HANDS.link(LinkKind.FIRST, token(Epoch(0, 0, A), 0, 0), D)) is not None
    again = HANDS.link(LinkKind.FIRST, token(Epoch(1, 0, START), 0, 0), D)
    assert refused(again) is not None
    later = HANDS.link(LinkKind.FIRST, token(Epoch(0, 1, START), 1, 0), D)
    assert refused(later) is not None


def test_the_signature_is_for_this_run() -> None:
    for link in HONEST.values():
        assert refuses_link(link, b"other", START, KEYS[STRANGER]) is not None


def test_the_size_of_a_link_is_constant() -> None:
    """Whatever came before it; and links of every kind with a right are of nearly the same size."""
    sizes: dict[str, int] = {}
    link = HONEST["guardian replaced"]
    for counter in (1, 100, 10_000, 10**12):
        parent = Epoch(counter, 7 * counter, A)
        release = HANDS.released(A, parent, 7 * counter, B, C, bytes(32))
        made = token(Epoch(counter + 1, 7 * counter + 1, B), 7 * counter + 1, 9 * counter)
        link = HANDS.link(LinkKind.GUARDIAN_REPLACED, made, D, parent, Right(release))
        assert refused(link) is None
        sizes[str(counter)] = len(encode(Known(link.epoch, 0, link)))
    assert len(set(sizes.values())) == 1
    assert all(len(encode(Known(one.epoch, 0, one))) < 500 for one in HONEST.values())


# Contradictions


def test_a_release_denies_that_its_register_was_regenerated() -> None:
    one = HONEST["regenerated"].opening
    assert contradicts(one, TO_C)
    assert contradicts(one, HANDS.released(B, BORN, 8, D, C))  # the walk went on from there
    assert not contradicts(one, TO_B)  # which made A the guardian
    assert not contradicts(one, TO_C._replace(epoch=Epoch(1, 7, A)))


def test_a_holder_may_miss_one_release() -> None:
    """The guardian may have released the token, and the holder may never have heard of it."""
    one = HONEST["guardian replaced"].opening
    assert not contradicts(one, TO_C)
    assert contradicts(one, HANDS.released(B, BORN, 8, D, C))


def test_the_start_node_does_not_begin_again_after_its_token_has_left_it() -> None:
    one = HONEST["first, guardian gone"]
    assert contradicts(one.opening, HANDS.released(A, BORN, 0, C, START))
    assert overrides(HONEST["regenerated"].opening, one)
    assert not overrides(FIRST_LINK.opening, one)
    # nobody knows of a hand-off if its first guardian, which it believed to be silent, goes on
    assert not overrides(HONEST["regenerated, by the first guardian"].opening, one)


def test_a_later_branch_overrides_an_earlier_one_and_the_operator_overrides_all() -> None:
    later = forged(LinkKind.REGENERATED, C, 12, NO_RIGHT).opening
    for name in ("regenerated", "guardian replaced", "giver gone"):
        assert overrides(later, HONEST[name])
        assert not overrides(HONEST[name].opening, HONEST[name])
    assert not overrides(later, HONEST["revived"])
    assert not contradicts(HONEST["revived"].opening, TO_C)


def test_the_first_epoch_has_no_link() -> None:
    assert Known(FIRST, 0).link is None


def test_an_epoch_of_its_own_denies_the_same_as_the_first_one_with_this_right() -> None:
    holder = HONEST["guardian replaced, once more"].opening  # of OWN, with the right of hand-off 7
    assert contradicts(holder, HANDS.released(B, BORN, 8, D, C))
    assert not contradicts(holder, TO_C)  # of which it may not know
    assert contradicts(holder, HANDS.released(C, OWN, 8, D, A))
    assert not contradicts(holder, HANDS.released(D, OWN, 7, A, B))
    guardian = HONEST["guardian replaced, after it was regenerated"].opening
    assert contradicts(guardian, TO_C)  # it had restored what it released
    assert not contradicts(guardian, HANDS.released(D, Epoch(1, 7, A), 7, C, A))


def test_whoever_says_that_the_token_came_to_it_denies_that_it_went_to_another() -> None:
    for name, to in (("giver gone", C), ("guardian replaced, back again", A)):
        one = HONEST[name].opening
        assert contradicts(one, TO_C._replace(to=B))
        assert not contradicts(one, TO_C._replace(to=to))


def test_a_right_is_used_once() -> None:
    """It is no proof of a lie, since a node may have lost its disk in between."""
    for name, later in (("regenerated", 7), ("giver gone", 8), ("guardian replaced", 8)):
        one = HONEST[name].opening  # of counter 1
        again = one._replace(epoch=one.epoch._replace(counter=9))
        assert repeats(again, one.epoch, later)
        assert not repeats(again, one.epoch, later - 1)  # which was the same attempt
        assert not repeats(one, again.epoch, later)  # of a later epoch
        assert not repeats(again, Epoch(1, one.seq, STRANGER), later)
        assert not contradicts(again, HANDS.released(D, one.epoch, later, A, one.epoch.node))


def test_a_right_is_not_used_after_a_later_one() -> None:
    one = HONEST["guardian replaced"].opening._replace(epoch=Epoch(9, 7, B))
    assert repeats(one, Epoch(4, 12, B), 13)
    assert not repeats(one, Epoch(4, 12, B), 12)
    assert not repeats(one, Epoch(4, 12, C), 13)


def test_an_order_of_the_operator_is_used_up() -> None:
    revived = HONEST["revived"].opening  # in the epoch of the order itself
    again = revived._replace(epoch=Epoch(9, 7, D))
    assert repeats(again, revived.epoch, 7)
    assert not repeats(revived, revived.epoch, 7)
    assert not repeats(again, BORN, 20)  # of an earlier epoch
    assert not contradicts(again, HANDS.released(A, revived.epoch, 7, C, D))
