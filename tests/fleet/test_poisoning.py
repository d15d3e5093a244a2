"""Guardians that compare models: the bound, a node that poisons, and what is not noticed."""

import dataclasses
import json
import math

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

import levywalk as lw
from levywalk.cli.main import app
from levywalk.errors import InvalidData, InvalidParameter, InvalidSpec
from levywalk.fleet.checking.faults import draw
from levywalk.fleet.checking.schedules import run_world, sweep
from levywalk.fleet.checking.violation import Violation
from levywalk.fleet.checking.world import World
from levywalk.fleet.operate.doctor import examine
from levywalk.fleet.operate.folder import FleetFolder
from levywalk.fleet.operate.forgive import forgive
from levywalk.fleet.operate.merge import merge
from levywalk.fleet.protocol.certificate import Certificate
from levywalk.fleet.protocol.comparing import Comparing
from levywalk.fleet.protocol.events import Forgive, Gone
from levywalk.fleet.protocol.fleet_size import FleetSize
from levywalk.fleet.protocol.given import NOTHING_GIVEN
from levywalk.fleet.protocol.links import NO_RIGHT, LinkKind, Right, operators_word, unsigned_link
from levywalk.fleet.protocol.messages import Prepare, Release
from levywalk.fleet.protocol.records import Began
from levywalk.fleet.protocol.tensors import sealed_model
from levywalk.fleet.protocol.terms import HandOffTerms
from levywalk.fleet.protocol.token import FIRST, Epoch
from levywalk.fleet.protocol.update_check import MOST_UPDATES, refuses_change, refuses_opening
from levywalk.fleet.runtime.node_status import waits_for
from levywalk.fleet.runtime.wire import encode_frame
from levywalk.fleet.setup.build import Fleet
from levywalk.fleet.setup.create import create
from levywalk.fleet.setup.manifest import Manifest
from levywalk.fleet.setup.update_check_terms import check_own_samples, norm_quantile
from levywalk.fleet.simulate.poisoned import poison
from levywalk.fleet.simulate.virtual import PlannedFault, VirtualFleet
from levywalk.schedule import Decaying
from tests.fleet.nodes import Running
from tests.limits import PATIENCE, eventually

NODES, DIM = 6, 3
CLIP_ALONE, NOISY = "clip=0.5,noise=0", "clip=0.5,noise=3"
TERMS = HandOffTerms(run=b"test", dead_after=1.0, heartbeat=0.1, retry=0.05, renew_after=5)


def fleet_of(
    privacy=CLIP_ALONE, *, network=None, problem=None, design=None, check_updates=True, **more
):
    network = lw.complete(NODES) if network is None else network
    problem = lw.homogeneous(network.n, dim=DIM, seed=1) if problem is None else problem
    given = {"steps": 150, "step_size": 0.05, "seed": 3, "terms": TERMS, **more}
    design = lw.unif_rw() if design is None else design
    return Fleet.of(network, problem, design, privacy=privacy, check_updates=check_updates, **given)


def refusals(virtual):
    return [told for told in virtual.reports if told.what == "model refused"]


# The bound


@pytest.mark.parametrize("dim", [1, 2, 10, 640, 100_000])
@pytest.mark.parametrize("probability", [0.05, 1e-6, 1e-11, 1e-14])
def test_the_quantile_is_that_of_the_chi_distribution(dim, probability):
    found = norm_quantile(dim, probability)
    assert found == pytest.approx(stats.chi.isf(probability, dim), rel=1e-9)
    assert stats.chi2.sf(found**2, dim) == pytest.approx(probability, rel=1e-6)


def several_samples(ridge=0.0):
    rng = np.random.default_rng(5)
    return lw.LeastSquares(
        rng.normal(size=(12, DIM)) * 10,
        rng.normal(size=12) * 9,
        node=np.repeat(range(4), 3),
        ridge=ridge,
    )


HONEST = {
    "plain": {},
    "a weighted design": {"design": lw.mhlj(), "privacy": "clip=0.5,noise=0"},
    "noise": {"privacy": NOISY},
    "noise that falls with the samples": {
        "network": lw.complete(4),
        "problem": several_samples(),
        "privacy": NOISY,
    },
    "minibatches": {
        "network": lw.complete(4),
        "problem": several_samples(),
        "privacy": NOISY,
        "update": lw.sgd(minibatch=2),
    },
    "a ridge": {
        "network": lw.complete(4),
        "problem": several_samples(ridge=0.7),
        "x0": np.full(DIM, 50.0),
    },
    "a large ridge": {
        "network": lw.complete(4),
        "problem": several_samples(ridge=50.0),
        "x0": np.full(DIM, 9.0),
        "steps": 40,
    },
    "a schedule": {"step_size": Decaying(0.3, timescale=5.0)},
    "single precision": {
        "problem": lw.homogeneous(NODES, dim=DIM, seed=1).astype("float32"),
        "x0": np.full(DIM, 1e3),
    },
    "a spent budget": {"privacy": "clip=0.5,noise=3,budget=4"},
}


@pytest.mark.parametrize("case", HONEST)
def test_honest_updates_are_within_the_bound_also_several_of_them(case):
    fleet = fleet_of(**HONEST[case])
    site, published = fleet.node(1).site, fleet.published
    site.key = fleet.key(1)
    copy = token = fleet.token
    largest = 0.0
    for step in range(published.steps):
        for made in (0, 1, 2, 5):
            copy = token if step % 5 <= made else copy
        after, _ = site.decide(token)
        token = after._replace(hop=0, distance=0)  # the jump has ended
        assert refuses_change(published, copy, token, 5) is None
        moved = np.linalg.norm(token.model - copy.model)
        limit = published.check.limit(published.phases[0], copy.model, copy.step, token.step, 0.0)
        largest = max(largest, moved / limit)
    assert largest > 0.02  # the bound is not infinite


def test_without_noise_the_bound_is_attained_and_one_percent_more_is_refused():
    fleet = fleet_of(problem=lw.homogeneous(NODES, dim=DIM, seed=1), x0=np.full(DIM, 100.0))
    published, before = fleet.published, fleet.token
    after, _ = fleet.node(1).site.decide(before)
    moved = after.model - before.model
    assert np.linalg.norm(moved) == pytest.approx(0.05 * 0.5)  # γ·clip: the gradient was clipped
    assert refuses_change(published, before, after, 5) is None
    further = after._replace(model=before.model + 1.01 * moved)
    assert "at most 0.025" in refuses_change(published, before, further, 5)
    # two updates may move it twice as far, three times as far is too much
    assert refuses_change(published, before, further._replace(step=2), 5) is None
    three = after._replace(model=before.model + 3 * moved, step=2)
    assert "2 updates changed" in refuses_change(published, before, three, 5)


def test_other_changes_than_those_of_updates_are_refused():
    fleet = fleet_of()
    published, copy = fleet.published, fleet.token._replace(step=7)
    tiny = copy.model + 1e-300
    assert "no update was made" in refuses_change(published, copy, copy._replace(model=tiny), 5)
    zero = copy._replace(model=-copy.model)  # -0.0 is another number
    assert np.array_equal(zero.model, copy.model)
    assert "no update was made" in refuses_change(published, copy, zero, 5)
    assert refuses_change(published, copy, copy._replace(hops=9), 5) is None
    assert "6 updates" in refuses_change(published, copy, copy._replace(step=13), 5)
    assert "-1 updates" in refuses_change(published, copy, copy._replace(step=6), 5)
    assert "overflowed" in refuses_change(published, copy, copy._replace(step=8, diverged_at=7), 5)
    assert "phase" in refuses_change(published, copy, copy._replace(phase=1), 5)


def test_the_bound_with_noise_is_the_clip_and_the_quantile_and_uses_the_least_number_of_samples():
    fleet = fleet_of(NOISY, network=lw.complete(4), problem=several_samples(), steps=1000)
    check = fleet.published.check
    assert (check.samples, check.clip) == (3, 0.5)
    assert check.deviation == pytest.approx(3 * 2 * 0.5 / 3)  # noise · 2·clip/m
    assert check.quantile == pytest.approx(stats.chi.isf(1e-6 / 1000, DIM))
    limit = check.limit(fleet.published.phases[0], fleet.x0, 0, 4, 0.0)
    expected = 4 * 0.05 * 0.5 + check.quantile * check.deviation * 0.05 * math.sqrt(4)
    assert limit == pytest.approx(expected, rel=2e-6)
    for other in ({"update": lw.sgd(minibatch=2)}, {"privacy": NOISY + ",adjacency=node"}):
        given = {"privacy": NOISY, "network": lw.complete(4), "problem": several_samples()} | other
        check = fleet_of(**given).published.check
        assert (check.samples, check.deviation) == (1, pytest.approx(3.0))


def test_the_quantile_of_the_noise_of_real_updates_is_exceeded_as_often_as_it_says():
    # 0.05 for each of 18 steps; the clip is nothing beside the noise
    fleet = fleet_of("clip=1e-9,noise=3", steps=18, check_updates={"alarm": 0.9})
    site, token, check = fleet.node(1).site, fleet.token, fleet.published.check
    above = 0
    for _ in range(4000):
        site.spent = 0  # its budget does not matter here
        after, _ = site.decide(token)
        step = np.linalg.norm(after.model - token.model)
        above += step > 0.05 * check.deviation * check.quantile
        token = after._replace(hop=0, distance=0)
    low, high = stats.binom.interval(1 - 1e-9, 4000, 0.05)
    assert low <= above <= high


# A fleet with a node that poisons


def poisoned_run(fleet, node=2, amount=1000.0, **more):
    virtual = VirtualFleet(fleet)
    poison(virtual.node(node).site, amount, **more)
    assert virtual.run()
    return virtual


def honest_distance(virtual):
    """How far the final model is from the first one."""
    return float(np.linalg.norm(virtual.final.model - virtual.fleet.x0))


@pytest.mark.parametrize("privacy", [CLIP_ALONE, NOISY])
def test_a_false_model_is_refused_its_sender_named_and_avoided_and_the_copy_goes_on(privacy):
    fleet = fleet_of(privacy, steps=400)
    virtual = poisoned_run(fleet)
    found = refusals(virtual)
    assert {told.about["node"] for told in found} == {2}
    assert all("changed the model by" in told.about["why"] for told in found)
    by = {told.node: told.about for told in found}  # the last of each guardian
    assert len(found) <= 3 * (NODES - 1)  # each guardian refuses it at most three times
    assert [about["avoided"] for about in by.values() if about["count"] == 3]
    for told in found:
        assert told.about["avoided"] == (told.about["count"] == 3)
    for u, about in by.items():
        kept = virtual.machines[u].disk["refusals"].senders
        assert [(one.node, one.times) for one in kept] == [(2, about["count"])]
        edges = virtual.machines[u].disk["edges"]
        if about["avoided"]:  # both ends agree that the edge is down
            assert not edges[2].up
            assert not virtual.machines[2].disk["edges"][u].up
    most = virtual.fleet.published.check.limit(
        fleet.published.phases[0], fleet.x0, 0, fleet.published.steps, 0.0
    )
    assert honest_distance(virtual) <= most < 1000


def test_without_the_option_the_false_model_goes_on():
    virtual = poisoned_run(fleet_of(check_updates=False, privacy=None))
    assert not refusals(virtual)
    assert honest_distance(virtual) > 1000


def test_a_node_that_is_avoided_gets_no_model_any_more():
    fleet = fleet_of(check_updates={"avoid_after": 1}, steps=400)
    virtual = VirtualFleet(fleet)
    poison(virtual.node(2).site)
    assert virtual.run()
    avoiding = {told.node: told.time for told in refusals(virtual)}
    assert all(told.about["avoided"] for told in refusals(virtual))
    assert len(avoiding) == len(refusals(virtual)) == NODES - 1  # each of its neighbours once
    last = max(avoiding.values())
    assert not [stay for stay in virtual.path if stay.node == 2 and stay.time > last]
    assert {stay.node for stay in virtual.path if stay.time > last} == set(range(NODES)) - {2}


def test_no_update_of_the_poisoner_is_part_of_the_chain_that_has_won():
    """What goes on is what the honest nodes have made of it."""
    fleet = fleet_of(steps=200, record_every=1)
    virtual = poisoned_run(fleet)
    found = merge(virtual.logs, fleet)
    walk = found.walk[0]
    assert 2 not in walk[:-1]  # none of its updates is part of the chain that has won
    assert np.array_equal(found.model[0], virtual.final.model)


def test_a_model_that_is_changed_in_a_jump_alone_is_refused():
    fleet = fleet_of(design=lw.mhlj(p_jump=0.5), steps=400)
    virtual = VirtualFleet(fleet)
    site = virtual.node(2).site
    honest = site.decide

    def decide(token):
        after, to = honest(token)
        if token.jumping:  # one bit, far below every bound
            after = after._replace(model=np.nextafter(after.model, 9.0))
        return after, to

    site.decide = decide
    assert virtual.run()
    found = refusals(virtual)
    assert found
    assert {told.about["node"] for told in found} == {2}
    assert {told.about["why"] for told in found} == {
        "it has changed the model, although no update was made"
    }


def test_small_steps_within_the_bound_are_not_noticed():
    """They are promised to nobody: a node can move the model by γ·clip for each of its updates."""
    fleet = fleet_of(steps=400)
    honest = VirtualFleet(fleet)
    assert honest.run()
    virtual = VirtualFleet(fleet)
    site = virtual.node(2).site
    decided = site.decide

    def decide(token):
        after, to = decided(token)
        if after.step > token.step:
            small = np.full(DIM, 0.05 * 0.5 / math.sqrt(DIM))  # a step of exactly γ·clip
            after = after._replace(model=token.model + small)
        return after, to

    site.decide = decide
    assert virtual.run()
    assert not refusals(virtual)
    assert not np.array_equal(virtual.final.model, honest.final.model)


def claims_that_its_guardian_is_gone(virtual, node=2):
    """Let a holder open an epoch with what it has made of the model; return that epoch."""
    while True:
        virtual.step()
        held = virtual.machines[node].disk["held"]
        if held is not None and held.status == "moving":
            break
    virtual._tell(node, Gone(held.guardian))  # or so it says
    return virtual.machines[node].disk["held"].token.epoch


def test_who_opens_an_epoch_with_a_false_model_is_refused_named_and_the_copy_goes_on():
    """The new guardian compares with the token that the opener was given, whose hash another node
    has signed; nobody guards what cannot have come of it, and the guardian that is said to be gone
    goes on with its copy.
    """
    virtual = VirtualFleet(fleet_of())
    poison(virtual.node(2).site)
    opened = claims_that_its_guardian_is_gone(virtual)
    assert opened.node == 2
    virtual.run()
    assert virtual.final is not None  # only the poisoner does not believe in the end
    found = refusals(virtual)
    assert {told.about["node"] for told in found} == {2}
    first = next(told for told in found if told.about["epoch"] == opened)
    assert "changed the model by" in first.about["why"]
    assert [told.about["epoch"] for told in found].count(opened) == 1  # asked again, counted once
    published = virtual.fleet.published
    most = published.check.limit(published.phases[0], virtual.fleet.x0, 0, published.steps, 0.0)
    assert honest_distance(virtual) <= most < 1000
    epochs = {
        line.epoch for log in virtual.logs.values() for line in log if isinstance(line, Began)
    }
    assert not {one for one in epochs if one.node == 2}


class Opened:
    """Epochs that are opened from a token which was given to node 2 by node 1, and whose hash node
    0 has signed; or from the first token.
    """

    def __init__(self):
        self.fleet = fleet_of(steps=400)
        self.site, self.published = self.fleet.node(2).site, self.fleet.published
        self.site.key = self.fleet.key(2)
        self.first = self.fleet.token._replace(epoch=Epoch(0, 0, 1))
        self.given = self.after(self.first, 3).handed_over(1, 2)
        signed = Certificate(0, self.given.epoch, 0, 2, 1, self.given.digest(), b"")
        self.release = Right(signed)

    def after(self, token, updates):
        """Return a token after some honest updates."""
        for _ in range(updates):
            token = self.site.decide(token)[0]._replace(hop=0, distance=0)
        return token

    def why(self, kind, token, right, given, node=2):
        """Return why a token is refused as the beginning of an epoch of a node."""
        fresh = self.published.reopened(token, Epoch(1, token.seq, node), token.epoch)
        link = unsigned_link(LinkKind(kind), fresh, token.epoch, right, guardian=4)
        return refuses_opening(self.published, link, given, fresh)


def false(token, amount=1.0):
    return token._replace(model=sealed_model(np.asarray(token.model + amount)))


def test_the_first_epoch_begins_with_the_model_of_the_manifest():
    made = Opened()
    first, why = made.first, made.why
    assert why("first", first, NO_RIGHT, None, 1) is None
    assert "first model" in why("first", false(first, 1e-9), NO_RIGHT, None, 1)
    assert "first model" in why("first", made.after(first, 1), NO_RIGHT, None, 1)
    replaced = "guardian replaced"  # before the first hand-off
    assert why(replaced, made.after(first, 9), NO_RIGHT, first, 1) is None
    assert "changed" in why(replaced, false(made.after(first, 9)), NO_RIGHT, first, 1)
    assert "does not show" in why(replaced, made.after(first, 9), NO_RIGHT, None, 1)
    assert "first model" in why(replaced, false(first), NO_RIGHT, false(first), 1)


def test_a_holder_whose_guardian_is_gone_shows_what_it_was_given():
    made = Opened()
    given, why, kind = made.given, made.why, "guardian replaced"
    for updates in (0, 1, 12):  # more than K: its guardian had newer copies
        token = made.after(given, updates)
        assert why(kind, token, made.release, given) is None
        assert "changed the model" in why(kind, false(token), made.release, given)
        assert "does not show" in why(kind, token, made.release, None)
    token = made.after(given, 2)
    assert "whose hash was signed" in why(kind, false(token), made.release, false(given))
    assert "updates since" in why(kind, token._replace(step=2), made.release, given)
    assert "its value of chain does not follow" in why(
        kind, token._replace(chain=b"x"), made.release, given
    )
    assert "its value of transfers does not follow" in why(
        kind, token._replace(transfers=9), made.release, given
    )


@pytest.mark.parametrize("step_size", [0.05, Decaying(0.3, timescale=500.0)])
def test_the_bound_of_many_updates_is_that_of_the_single_ones(step_size):
    """Somebody may claim a million, which must not take long."""
    fleet = fleet_of(NOISY, step_size=step_size, steps=2_000_000, x0=np.full(DIM, 9.0))
    check, phase = fleet.published.check, fleet.published.phases[0]
    check = dataclasses.replace(check, ridge=0.4)
    size = float(np.linalg.norm(fleet.x0))
    moved, power = check._sums(phase, size, 7, 5007)
    each = [phase.step_size_at(t, 1.0) for t in range(7, 5007)]
    assert moved == pytest.approx(math.fsum(each) * (check.clip + 0.4 * size), rel=1e-12)
    squares = math.fsum(one**2 for one in each)
    assert power == pytest.approx(squares * check.deviation**2, rel=1e-12)
    few = [check._sums(phase, size, 7, 7 + count) for count in (1024, 1025)]
    assert 0.0 < few[1][0] - few[0][0] < 2 * each[1024] * (check.clip + 0.4 * size)
    assert math.isfinite(check.limit(phase, fleet.x0, 0, MOST_UPDATES, 0.0))


def test_more_updates_than_one_node_makes_are_refused():
    made = Opened()
    made.published = dataclasses.replace(made.published, steps=10**9)
    token = made.given._replace(step=made.given.step + MOST_UPDATES + 1, hops=10**7)
    why = made.why("guardian replaced", token, made.release, made.given)
    assert f"{MOST_UPDATES + 1} updates since the token that it was given" in why


def test_a_next_node_whose_giver_is_gone_changes_nothing():
    made = Opened()
    given, why, kind = made.given, made.why, "giver gone"
    assert why(kind, given, made.release, given) is None
    assert "no update was made" in why(kind, false(given, 1e-9), made.release, given)
    assert "none is possible" in why(kind, made.after(given, 1), made.release, given)


def test_a_guardian_restores_what_it_handed_over_or_a_newer_copy():
    made = Opened()
    given, why, kind = made.given, made.why, "regenerated"
    for updates in (0, 5, 10):
        copy = made.after(given, updates)
        assert why(kind, copy, made.release, given, 1) is None
        assert "changed the model" in why(kind, false(copy), made.release, given, 1)
    blank = unsigned_link(LinkKind.REVIVED, given, FIRST, NO_RIGHT, guardian=1).opening
    named = Right(None, blank)  # the first guardian of its epoch: the link has the hash
    assert why(kind, made.after(given, 5), named, given, 1) is None
    assert "whose hash was signed" in why(kind, given, named, made.after(given, 1), 1)


@pytest.mark.parametrize("kind", ["guardian replaced", "giver gone"])
def test_a_walk_that_came_back_to_its_guardian_counts_the_updates_in_between(kind):
    """Node 1 gave the token to node 2, guarded it, and got it back: what it was given is older."""
    made = Opened()
    given, why = made.given, made.why
    back = made.after(given, 4).handed_over(2, 1)
    assert why(kind, back, made.release, given, 1) is None
    assert "changed the model" in why(kind, false(back), made.release, given, 1)
    aside = made.after(given, 4).handed_over(3, 1)
    assert "its value of chain does not follow" in why(kind, aside, made.release, given, 1)


def test_a_revived_copy_is_the_one_of_the_operators_word():
    made = Opened()
    given, why = made.given, made.why
    word = Right(operators_word(given, 2, 1))
    assert why("revived", given, word, given) is None
    assert "no update was made" in why("revived", false(given), word, given)
    assert "none is possible" in why("revived", made.after(given, 1), word, given)
    assert "whose hash was signed" in why("revived", false(given), word, false(given))


def test_a_node_keeps_what_its_rights_are_about_and_no_more():
    made = Opened()
    other, third = made.after(made.given, 1), made.after(made.given, 2)
    kept = NOTHING_GIVEN.kept(made.first, [NO_RIGHT]).kept(made.given, [NO_RIGHT, made.release])
    assert [kept.of(right) for right in (NO_RIGHT, made.release)] == [made.first, made.given]
    named = Right(None, unsigned_link(LinkKind.REVIVED, other, FIRST, NO_RIGHT).opening)
    assert kept.kept(other, [named, made.release]).tokens == (made.given, other)
    assert kept.kept(third, [made.release]).tokens == (made.given,)


def test_without_the_option_nothing_is_kept_or_shown():
    virtual = VirtualFleet(fleet_of(check_updates=None, privacy=NOISY))
    claims_that_its_guardian_is_gone(virtual)
    assert virtual.run()
    assert not any(machine.disk.get("given") for machine in virtual.machines)
    assert virtual.node(2)._given(NO_RIGHT) is None


def test_an_honest_holder_whose_guardian_is_gone_opens_an_epoch():
    virtual = VirtualFleet(fleet_of())
    opened = claims_that_its_guardian_is_gone(virtual)
    while virtual.machines[2].disk["known"].epoch < opened:
        virtual.step()
    assert virtual.run()
    assert not refusals(virtual)


def test_a_fleet_that_grows_is_compared_as_before():
    """n and the mean of L_v do not enter the bound."""
    fleet = fleet_of(design=lw.mhlj(), steps=400)
    before = float(fleet.mean_smoothness)
    virtual = VirtualFleet(fleet, absent=[5], grows=FleetSize(1, NODES, 1.5 * before, b""))
    virtual.at(0.3, PlannedFault("join", 5))
    assert virtual.run()
    assert not refusals(virtual)
    assert virtual.final.size == 1
    assert [stay for stay in virtual.path if stay.node == 5]


def judged_copies(monkeypatch):
    """Return a list that fills with the newer copies that guardians judge: is it the last one, and
    is it accepted?
    """
    found, judge = [], Comparing._may_renew

    def may_renew(node, sender, guarded, token, now):
        fine = judge(node, sender, guarded, token, now)
        found.append((node.published.ends(token), fine))
        return fine

    monkeypatch.setattr(Comparing, "_may_renew", may_renew)
    return found


def test_a_false_model_that_stays_is_refused_when_the_guardian_gets_its_newer_copy(monkeypatch):
    """On a star the model stays at a leaf for many updates, so that copies are renewed."""
    found = judged_copies(monkeypatch)
    star = lw.star(NODES)
    virtual = poisoned_run(fleet_of(network=star, steps=400), node=2)
    assert (False, False) in found
    assert (False, True) in found  # honest nodes renew as well
    assert {told.about["node"] for told in refusals(virtual)} == {2}
    assert honest_distance(virtual) < 1000


def test_a_false_last_model_is_refused_and_the_copy_comes_to_the_end(monkeypatch):
    found = judged_copies(monkeypatch)
    fleet = fleet_of(steps=40)
    virtual, false = VirtualFleet(fleet), []

    def poisoned_once(site):
        honest = site.decide

        def decide(token):
            after, to = honest(token)
            if after.step == 40 and not false:
                false.append(site.node)
                after = after._replace(model=after.model + 1000.0)
            return after, to

        site.decide = decide

    for v in range(NODES):
        poisoned_once(virtual.node(v).site)
    assert virtual.run()
    assert [told.about["node"] for told in refusals(virtual)] == false
    assert virtual.final.step == 40
    assert honest_distance(virtual) < 1000
    assert found[-1] == (True, True)


def test_a_release_must_show_the_model_whose_hash_it_names():
    fleet = fleet_of(steps=30)
    lying = VirtualFleet(fleet)
    node = lying.node(2)
    asked = node._release_of

    def shown_another(held):
        release = asked(held)
        return release._replace(token=release.token._replace(hops=release.token.hops + 1))

    node._release_of = shown_another
    assert lying.run()
    found = refusals(lying)
    assert found
    assert {told.about["why"] for told in found} == {
        "its hash is not the one that the guardian is asked to release"
    }


def test_forgiven_the_sender_takes_part_again():
    fleet = fleet_of(check_updates={"avoid_after": 1}, steps=600)
    virtual = VirtualFleet(fleet)
    site = virtual.node(2).site
    honest = site.decide
    poison(site)
    virtual.run(until=1.0)
    assert len(refusals(virtual)) == NODES - 1
    site.decide = honest
    for v in range(NODES):
        virtual._tell(v, Forgive(2))
    at = virtual.now
    assert virtual.run()
    assert len(refusals(virtual)) == NODES - 1
    assert [stay for stay in virtual.path if stay.node == 2 and stay.time > at]
    assert [told for told in virtual.reports if told.what == "forgiven"]


def test_without_another_neighbour_the_walk_waits_and_says_why():
    fleet = fleet_of(
        network=lw.ring(3),
        problem=lw.homogeneous(3, dim=DIM, seed=1),
        start=0,
        check_updates={"avoid_after": 1},
    )
    virtual = VirtualFleet(fleet)
    for bad in (1, 2):
        poison(virtual.node(bad).site)
    assert not virtual.run()
    disk = virtual.machines[0].disk
    assert disk["held"].guardian == -1
    said = waits_for(virtual.node(0).disk, {1, 2}, 5)
    assert said == (
        "waits for a neighbour that can guard the model: it avoids 1, 2, whose models were refused"
    )


def test_refusals_survive_a_restart():
    fleet = fleet_of(check_updates={"avoid_after": 2}, steps=300)
    virtual = VirtualFleet(fleet)
    poison(virtual.node(2).site)
    for v in (0, 1, 3, 4, 5):
        virtual.at(0.5 + 0.01 * v, PlannedFault("kill", v))
        virtual.at(0.52 + 0.01 * v, PlannedFault("restart", v))
    assert virtual.run()
    each = [told.node for told in refusals(virtual)]
    assert max(each.count(v) for v in each) <= 2


# Honest nodes


@pytest.mark.parametrize("seed", range(3))
def test_honest_fleets_with_noise_raise_no_alarm_and_walk_as_without_the_option(seed):
    given = {"steps": 300, "seed": seed, "design": lw.mhlj(), "privacy": NOISY + ",scores=public"}
    fleet, plain = fleet_of(**given), fleet_of(**given, check_updates=False)
    virtual, other = VirtualFleet(fleet), VirtualFleet(plain)
    assert virtual.run()
    assert other.run()
    assert not refusals(virtual)
    assert np.array_equal(virtual.final.model, other.final.model)
    assert virtual.messages == other.messages


@pytest.mark.parametrize("seeds", [range(6), pytest.param(range(6, 150), marks=pytest.mark.more)])
def test_under_random_faults_no_honest_node_is_refused_and_no_invariant_breaks(seeds):
    found = sweep(seeds, checked=True)
    assert found.failures == []
    assert found.finished > len(seeds) // 2


class _PoisonedWorld(World):
    poisoned = frozenset({1})

    @property
    def finished(self):
        """A poisoner may sit on an epoch that nobody guards, and not believe in the end."""
        honest = [site for v, site in enumerate(self.sites) if v != 1 and not site.dead]
        ends = {site.disk.final and site.disk.final.epoch for site in honest}
        return len(ends) == 1 and None not in ends


def _one_poisons(fleet, v, disk):
    node = fleet.node(v, disk)
    if v == 1:
        poison(node.site)
    return node


_QUIET = {"crash": 10, "torn": 3, "full": 2, "cut": 5, "deaf": 2, "mute": 2, "slow": 2, "storm": 1}


def _poisoned_schedule(seed, policy="wait", **kinds):
    return draw(
        seed,
        kinds=_QUIET | {"silent": 3} | kinds,
        design="unif_rw",
        problem="least squares",
        privacy=CLIP_ALONE,
        checked=True,
        policy=policy,
        network="ring",
    )


@pytest.mark.parametrize("seeds", [range(4), pytest.param(range(4, 60), marks=pytest.mark.more)])
def test_one_poisons_among_crashes_and_cuts_and_the_replay_is_exact(seeds):
    """I7 replays honest updates: a false model in the chain that has won would break it."""
    refused = 0
    for seed in seeds:
        world = _PoisonedWorld(_poisoned_schedule(seed), _one_poisons)
        assert run_world(world) is not None
        kept = [site.disk.refusals for site in world.sites if site.disk.refusals is not None]
        refused += sum(one.times for each in kept for one in each.senders)
    assert refused > len(seeds)


def _one_opens_epochs(fleet, v, disk):
    """Node 1 poisons, and says of its guardian that it is gone whenever it is to hand over."""
    node = _one_poisons(fleet, v, disk)
    if v == 1:
        receive = node.receive

        def restless(event, now):
            effects, held = receive(event, now), node.disk.held
            if held is not None and held.status == "moving" and not node.awaited:
                effects = effects + receive(Gone(held.guardian), now)
            return effects

        node.receive = restless
    return node


@pytest.mark.parametrize("policy", ["wait", "eager"])
@pytest.mark.parametrize("seeds", [range(4), pytest.param(range(4, 80), marks=pytest.mark.more)])
def test_a_poisoner_that_opens_epochs_is_refused_and_the_replay_is_exact(
    seeds, policy, monkeypatch
):
    opened, count = [], Comparing._count_refusal

    def counted(node, sender, token, why, now):
        opened.append(token.epoch.node == sender == 1)
        count(node, sender, token, why, now)

    monkeypatch.setattr(Comparing, "_count_refusal", counted)
    for seed in seeds:
        world = _PoisonedWorld(_poisoned_schedule(seed, policy, rumour=4), _one_opens_epochs)
        assert run_world(world) is not None
    assert sum(opened) > len(seeds)  # models of epochs that the poisoner has opened


def test_the_same_poison_without_comparison_breaks_the_replay():
    schedule = dataclasses.replace(_poisoned_schedule(0), checked=False, privacy=None)
    with pytest.raises(Violation, match="I7"):
        run_world(_PoisonedWorld(schedule, _one_poisons))


def test_a_refusal_of_an_honest_node_would_be_noticed():
    world = World(_poisoned_schedule(0), _one_poisons)
    with pytest.raises(Violation, match="which is honest"):
        run_world(world)


# Off by default, and what is refused


def test_off_by_default_and_then_not_a_byte_is_sent():
    fleet = fleet_of(check_updates=None, privacy=NOISY)
    assert fleet.published.check is None
    sent = []
    virtual = VirtualFleet(fleet)
    push = virtual._push

    def seen(time, v, event):
        if isinstance(getattr(event, "message", None), Release):
            sent.append(event.message)
        push(time, v, event)

    virtual._push = seen
    assert virtual.run()
    assert sent
    assert all(message.token is None for message in sent)
    before = encode_frame(1, sent[0])[0]
    assert len(before) < 60  # epoch, seq, to and a hash
    manifest = json.loads(Manifest.of(dataclasses.replace(fleet, shared_key=False)).text)
    assert "check_updates" not in manifest


def test_the_guardian_is_shown_the_token_unless_it_is_the_next_node_which_is_not_asked():
    fleet = fleet_of(network=lw.ring(4), problem=lw.homogeneous(4, dim=DIM, seed=1))
    virtual, seen, backwards = VirtualFleet(fleet), [], []
    push = virtual._push

    def look(time, v, event):
        message = getattr(event, "message", None)
        if isinstance(message, Release):
            seen.append((message.to == v, message.token))
        if isinstance(message, Prepare):
            backwards.append(message.guardian == v)
        push(time, v, event)

    virtual._push = look
    assert virtual.run()
    assert {True, False} == set(backwards)
    assert seen
    assert all(token is not None and not back for back, token in seen)
    assert not refusals(virtual)


REFUSED = {
    "no clip": ({"privacy": None}, "needs a clip"),
    "saga": ({"update": lw.saga(), "privacy": NOISY}, "needs plain SGD.*update saga"),
    "momentum": ({"update": "heavy_ball", "privacy": NOISY}, "needs plain SGD.*heavy_ball"),
    "averages": ({"update": lw.averaged(lw.sgd()), "privacy": NOISY}, "needs plain SGD"),
    "a detector": ({"stop": "detector", "privacy": CLIP_ALONE}, "cannot be used with a detector"),
    "a switch": (
        {"design": lw.switching(lw.mhlj(), lw.unif_rw()), "privacy": CLIP_ALONE},
        "cannot be used with a detector",
    ),
    "a ridge and weights": (
        {
            "network": lw.complete(4),
            "problem": several_samples(ridge=0.1),
            "design": lw.mhlj(),
            "privacy": CLIP_ALONE,
        },
        "a ridge and a weighted design",
    ),
    "an alarm of 1": ({"check_updates": {"alarm": 1.0}}, "alarm must be"),
    "no refusal": ({"check_updates": {"avoid_after": 0}}, "avoid_after must be"),
    "another key": ({"check_updates": {"alarms": 1}}, "check_updates must be True"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_methods_without_a_bound_are_refused_by_name(case):
    given, why = REFUSED[case]
    with pytest.raises(InvalidParameter, match=why):
        fleet_of(**given)


def test_an_l1_penalty_is_refused():
    problem = lw.homogeneous(NODES, dim=DIM, seed=1)
    penalised = lw.LeastSquares(problem.features, problem.targets, l1=0.1)
    with pytest.raises(InvalidParameter, match="without an l1 penalty"):
        fleet_of(problem=penalised)


def test_noise_of_zero_is_for_this_option_alone_and_nothing_is_private_then():
    with pytest.raises(InvalidParameter, match=r"noise = 0 makes nothing private.*check_updates"):
        fleet_of(check_updates=False)
    run = {"steps": 9, "step_size": 0.1, "privacy": CLIP_ALONE}
    with pytest.raises(InvalidParameter, match="noise = 0 makes nothing private"):
        lw.run(lw.ring(5), lw.homogeneous(5), lw.unif_rw(), **run)
    with pytest.raises(InvalidParameter, match="budget = 2 cannot be kept with noise = 0"):
        lw.Privacy(clip=1.0, noise=0.0, budget=2.0)
    privacy = lw.Privacy(clip=1.0, noise=0.0)
    assert (privacy.epsilon(0), privacy.epsilon(1), privacy.rho) == (0.0, math.inf, math.inf)
    assert privacy.scores == "public"
    fleet = fleet_of(design=lw.mhlj())  # so weighted designs are allowed
    assert fleet.published.privacy is None  # status, doctor and budgets know of no privacy
    assert fleet.published.node_memory == {}


# The manifest, and real nodes


def new_fleet(folder, **more):
    given = {
        "steps": 100_000,
        "step_size": 0.002,
        "name": "test",
        "terms": HandOffTerms(run=b"", dead_after=PATIENCE),
        "privacy": "clip=5,noise=0",
        "check_updates": True,
        "start": 0,
        **more,
    }
    problem = given.pop("problem", lw.homogeneous(4, dim=DIM, seed=1))
    return create(folder, lw.complete(4), problem, lw.unif_rw(), **given)


@pytest.mark.parametrize("privacy", ["clip=5,noise=0", "clip=5,noise=20,budget=2"])
def test_the_manifest_says_it_and_a_node_computes_the_same(tmp_path, privacy):
    settings = {"alarm": 1e-4, "avoid_after": 2}
    folder = new_fleet(tmp_path / "a", privacy=privacy, check_updates=settings)
    manifest = Manifest.read(folder / "manifest.json")
    assert json.loads(manifest.text)["check_updates"] == settings | {"samples": 1}
    check = manifest.published.check
    assert (check.alarm, check.avoid_after, check.clip) == (1e-4, 2, 5.0)
    assert (check.quantile > 0) == ("noise=20" in privacy)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"check_updates": {"alarm": 0.0, "avoid_after": 3, "samples": 1}}, "alarm must be"),
        ({"check_updates": {"alarm": 1e-6, "avoid_after": 3, "samples": None}}, "samples must be"),
        ({"check_updates": {"alarm": 1e-6, "avoid_after": 3}}, "check_updates.samples is missing"),
        ({"check_updates": None}, "noise = 0 makes nothing private"),
        ({"privacy": None}, "needs a clip"),
    ],
)
def test_a_wrong_manifest_is_refused(tmp_path, change, why):
    text = (new_fleet(tmp_path / "a") / "manifest.json").read_text()
    content = {
        key: value for key, value in (json.loads(text) | change).items() if value is not None
    }
    with pytest.raises(InvalidSpec, match=why):
        Manifest.parse(json.dumps(content).encode())


def test_a_node_with_fewer_samples_than_the_manifest_says_does_not_start():
    fleet = fleet_of(NOISY, network=lw.complete(4), problem=several_samples())
    check_own_samples(fleet.published, several_samples())
    few = lw.LeastSquares([[1.0, 2.0, 3.0]] * 2, [1.0, 2.0])
    with pytest.raises(InvalidData, match="1 samples, fewer than the 3"):
        check_own_samples(fleet.published, few)


def test_the_commands_say_what_is_compared(tmp_path):
    runner, folder = CliRunner(), tmp_path / "a"
    words = "fleet init --network complete:4 --design unif_rw --step-size 0.002 --check-updates"
    done = runner.invoke(app, [*words.split(), str(folder)])
    assert done.exit_code == 1
    assert "--check-updates needs a clip" in str(done.exception)
    given = [*words.split(), "--privacy", "clip=5,noise=0", "--avoid-after", "2", str(folder)]
    done = runner.invoke(app, given)
    assert done.exit_code == 0, done.stderr
    assert "its sender is avoided after 2" in done.stdout
    assert "nothing is private" in done.stdout
    done = runner.invoke(app, ["node", str(folder / "node-0/node.toml"), "--check"])
    assert "guardians compare models: gradients are clipped to 5" in done.stdout
    done = runner.invoke(app, ["fleet", "simulate", "ring:5", "--avoid-after", "2"])
    assert "need --check-updates" in str(done.exception)


def test_a_simulated_poisoner_is_shown(tmp_path):
    words = (
        "fleet simulate complete:12 --design unif_rw --step-size 0.002 --steps 200 --poison 3@0.1 "
        "--privacy clip=5,noise=0 --check-updates --avoid-after 1 --json --out"
    )
    done = CliRunner().invoke(app, [*words.split(), str(tmp_path)])
    assert done.exit_code == 0, done.stderr
    assert "refuses the model of node 3" in json.dumps(json.loads(done.stdout))


POISONER = """
import os, sys
from levywalk.fleet.protocol.node_step import NodeSite
from levywalk.fleet.runtime.process import main
honest = NodeSite.decide
def decide(site, token):
    after, to = honest(site, token)
    return after._replace(model=after.model + 1000.0), to
NodeSite.decide = decide
code = main()
sys.stdout.flush()
os._exit(code)
"""


@pytest.mark.more
def test_real_nodes_refuse_a_poisoner_name_it_and_forgive_it(tmp_path):
    folder = new_fleet(tmp_path / "a", metrics=False, check_updates={"avoid_after": 2})
    places = [folder / f"node-{v}" for v in range(4)]
    bad = Running(places[3], POISONER)
    good = [Running(place) for place in places[:3]]
    try:
        for one in (*good, bad):
            one.__enter__()
        good[0].ask("begin")

        def avoided():
            return [
                v
                for v, one in enumerate(good)
                if one.status()["refused"].get("3", {}).get("avoided")
            ]

        eventually(lambda: len(avoided()) == 3)
        opened = FleetFolder.open(folder)
        status = opened.status()
        assert {one["node"] for one in status["refused_models"]} == {3}
        assert {one["by"] for one in status["refused_models"]} == {0, 1, 2}
        assert all(one["count"] == 2 for one in status["refused_models"])
        assert any("fleet revoke" in one for one in status["warnings"])
        said = [f"{one.what}; {one.remedy}" for one in examine(folder)]
        assert any("has refused 2 models of node 3" in one for one in said)
        assert not any("edge from node 0 to node 3 is down" in one for one in said)
        step = opened.status()["step"]
        eventually(lambda: opened.status()["step"] > step + 50)  # the walk goes on without it
        assert [line for one in good for line in one.log() if line["event"] == "model refused"]
        bad.kill()
        with Running(places[3]):  # honest again
            assert forgive(opened, 3).told == [0, 1, 2]
            eventually(lambda: good[0].status()["edges"]["3"]["up"])
            assert good[0].status()["refused"] == {}
            with pytest.raises(InvalidParameter, match="no node that runs here has refused"):
                forgive(opened, 2)
    finally:
        for one in (*good, bad):
            one.kill()
