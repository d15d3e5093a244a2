"""Designs, targets, jump laws and schedules: what they compute, and what they refuse."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import levywalk as lw
from levywalk.schedule import is_schedule, schedule_values
from levywalk.updates import as_step_size
from levywalk.walks import as_target, jump_distance, paper_designs
from levywalk.walks.jump import MOST_HOPS

DEGREE, L = np.array([1, 2, 3]), np.array([1.0, 2.0, 9.0])


def problem_with(smoothness):
    return lw.LeastSquares(
        np.sqrt(np.asarray(smoothness) / 2.0)[:, None], np.zeros(len(smoothness))
    )


@pytest.mark.parametrize(
    ("target", "law"),
    [
        ("uniform", [1 / 3, 1 / 3, 1 / 3]),
        ("importance", [1 / 12, 2 / 12, 9 / 12]),
        ("degree", [1 / 4, 2 / 4, 1 / 4]),
        (lw.Mixed(0.25), [0.25 / 3 + 0.75 / 12, 0.25 / 3 + 1.5 / 12, 0.25 / 3 + 6.75 / 12]),
        (lw.Mixed(0.0), [1 / 12, 2 / 12, 9 / 12]),
        (lw.Mixed(1.0), [1 / 3, 1 / 3, 1 / 3]),
        ([3, 1, 4], [3 / 8, 1 / 8, 4 / 8]),
    ],
)
def test_the_law_and_the_weights_of_a_target(target, law):
    bound = lw.Design(target=target).bind(lw.path(3), problem_with(L))
    law = np.array(law)
    assert bound.law == pytest.approx(law, rel=1e-12)
    assert bound.weights == pytest.approx(1.0 / (3 * law), rel=1e-12)
    assert bound.law @ bound.weights == pytest.approx(1.0)
    assert bound.largest == pytest.approx((L / (3 * law)).max(), rel=1e-12)
    plain = lw.Design(target=target, reweight=False).bind(lw.path(3), problem_with(L))
    assert (plain.weights == 1.0).all()
    assert plain.largest == pytest.approx(9.0)


def test_a_node_computes_its_score_from_its_own_numbers_and_the_published_mean():
    for target in (lw.Uniform(), lw.Importance(), lw.Degree(), lw.Mixed(0.3)):
        whole = target.scores(DEGREE, L, float(L.mean()))
        alone = [
            target.scores(DEGREE[v : v + 1], L[v : v + 1], float(L.mean()))[0] for v in range(3)
        ]
        assert whole.tolist() == alone


def test_scores_are_copied_and_frozen():
    values = np.array([1.0, 2.0])
    target = lw.Scores(values)
    values[0] = 99.0
    assert target.values.tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="read-only"):
        target.values[0] = 5.0


@pytest.mark.parametrize(
    ("law", "expected"),
    [
        (lw.TruncatedGeometric(0.5, 3), np.array([4, 2, 1]) / 7),
        (lw.TruncatedGeometric(1.0, 3), [1, 0, 0]),
        (lw.TruncatedGeometric(1e-12, 4), [0.25] * 4),
        (lw.FixedDistance(2), [0, 1]),
        (lw.PowerLaw(1.0, 3), np.array([6, 3, 2]) / 11),
        (lw.PowerLaw(0.0, 4), [0.25] * 4),
    ],
)
def test_distance_laws_have_their_probabilities_and_mean(law, expected):
    assert law.probabilities() == pytest.approx(np.array(expected), abs=1e-9)
    assert law.max_hops == len(expected)
    jump = lw.JumpLaw(0.1, law)
    assert jump.mean_distance() == pytest.approx(
        np.arange(1, len(expected) + 1) @ np.array(expected)
    )
    assert jump.cumulative()[-1] == 1.0
    assert (np.diff(jump.cumulative()) >= 0).all()


def test_the_papers_default_jump_is_three_tenths_of_a_hop_short_of_two():
    jump = lw.mhlj().jump
    assert (jump.p_jump, jump.distance) == (0.1, lw.TruncatedGeometric(0.5, 3))


@pytest.mark.parametrize(
    ("uniform", "p_jump", "expected"),
    [
        (0.0, 0.0, 0),
        (0.0, 1.0, 1),
        (1 - 2**-53, 1.0, 3),
        (0.3, 0.3, 0),
        (np.nextafter(0.3, 0), 0.3, 3),
        (0.0, 1e-300, 1),
    ],
)
def test_the_edges_of_the_jump_decision(uniform, p_jump, expected):
    assert jump_distance(uniform, p_jump, lw.JumpLaw(0.1).cumulative()) == expected


class Own:
    """A distance law of one's own."""

    def __init__(self, law):
        self.law, self.max_hops = law, len(law)

    def probabilities(self):
        return np.array(self.law)


@pytest.mark.parametrize(
    "law", [[0.5, 0.4], [1.5, -0.5], [np.nan, 1.0], [], [[1.0]], [np.inf, 0.0]]
)
def test_a_distance_law_that_is_no_law_is_refused(law):
    design = lw.Design(jump=lw.JumpLaw(0.5, Own(law)))
    with pytest.raises(lw.InvalidParameter, match="distance must give probabilities"):
        lw.run(lw.ring(5), lw.homogeneous(5, dim=2), design, steps=5, step_size=0.01)


def test_schedules_have_their_values_wherever_a_piece_begins():
    for schedule, at in [
        (lw.Constant(0.2), lambda t: 0.2),
        (lw.Decaying(0.4, timescale=5, power=2.0), lambda t: 0.4 / (1 + t / 5) ** 2),
        (lw.Dropping(0.4, at=7, then=0.1), lambda t: 0.4 if t < 7 else 0.1),
    ]:
        assert schedule.values(0, 20) == pytest.approx([at(t) for t in range(20)])
        assert schedule.values(5, 12).tolist() == schedule.values(0, 20)[5:12].tolist()
        assert schedule.values(3, 3).shape == (0,)


def test_a_schedule_of_p_jump_replaces_the_number():
    design = lw.mhlj(p_jump=0.9, schedule=lw.Dropping(0.2, at=3))
    assert design.jump.p_jump_at(1, 5).tolist() == [0.2, 0.2, 0.0, 0.0]


@pytest.mark.parametrize(
    ("give", "match"),
    [
        (lambda a, b: np.full(b - a, 1.5), r"p_jump must lie in \[0, 1\], got 1.5 at step 4"),
        (lambda a, b: np.array([0.1, np.nan]), r"got nan at step 5"),
        (lambda a, b: np.array([0.1]), "2 values for the steps 4 to 5"),
        (lambda a, b: "text", "must give numbers"),
    ],
)
def test_a_schedule_that_leaves_its_domain_is_named_with_the_step(give, match):
    with pytest.raises(lw.InvalidParameter, match=match):
        schedule_values("p_jump", SimpleNamespace(values=give), 4, 6, high=1.0)


def test_what_is_a_schedule():
    assert is_schedule(lw.Decaying(0.1, 2))
    assert not is_schedule({"a": 1})
    assert not is_schedule(0.1)
    assert not is_schedule(SimpleNamespace(values=np.ones(3)))


def test_step_sizes_are_read_from_numbers_names_and_schedules():
    decaying = lw.Decaying(0.1, 10)
    assert as_step_size(decaying, 2.0) is decaying
    assert as_step_size("theory", 2.0) == lw.Constant(2.0)
    assert as_step_size(np.float64(0.25), 2.0) == lw.Constant(0.25)
    assert as_step_size(3, 2.0) == lw.Constant(3.0)


def test_targets_are_read_from_names_objects_and_scores():
    assert as_target("degree") == lw.Degree()
    mixed = lw.Mixed(0.5)
    assert as_target(mixed) is mixed
    assert as_target((1, 2)).values.tolist() == [1.0, 2.0]


def test_named_designs_are_what_the_paper_compares():
    assert list(paper_designs()) == ["UnifRW", "WeightRW", "MHLJ", "i.i.d. weighted"]
    assert (lw.simple_rw().reweight, lw.simple_rw(reweight=True).reweight) == (False, True)
    assert lw.weight_rw().jump is None
    assert lw.mhlj().target == lw.weight_rw().target == lw.iid_weighted().target == lw.Importance()
    switching = lw.switching(
        lw.mhlj(), lw.unif_rw(), threshold=0.1, window=50, patience=7, step_size=0.2
    )
    assert (
        switching.detector.threshold,
        switching.detector.window,
        switching.detector.patience,
    ) == (0.1, 50, 7)
    assert switching.step_size == 0.2


def test_designs_are_values():
    assert lw.mhlj() == lw.mhlj()
    assert lw.mhlj() != lw.mhlj(p_jump=0.2)
    assert hash(lw.mhlj()) == hash(lw.mhlj())


REFUSED = [
    (lambda: lw.mhlj(p_jump=1.5), "p_jump", "1.5"),
    (lambda: lw.mhlj(p_jump=-0.1), "p_jump", "-0.1"),
    (lambda: lw.mhlj(p_jump=float("nan")), "p_jump", "nan"),
    (lambda: lw.mhlj(p_jump="often"), "p_jump", "'often'"),
    (lambda: lw.mhlj(p_jump=True), "p_jump", "True"),
    (lambda: lw.mhlj(p_distance=0.0), "p_distance", "0.0"),
    (lambda: lw.mhlj(p_distance=1.1), "p_distance", "1.1"),
    (lambda: lw.mhlj(max_hops=0), "max_hops", "0"),
    (lambda: lw.mhlj(max_hops=2.5), "max_hops", "2.5"),
    (lambda: lw.mhlj(max_hops=MOST_HOPS + 1), "max_hops", str(MOST_HOPS + 1)),
    (lambda: lw.mhlj(schedule=0.1), "schedule", "0.1"),
    (lambda: lw.mhlj(schedule={"a": 1}), "schedule", "'a'"),
    (lambda: lw.FixedDistance(0), "hops", "0"),
    (lambda: lw.PowerLaw(-1.0, 3), "exponent", "-1.0"),
    (lambda: lw.PowerLaw(1.0, 0), "max_hops", "0"),
    (lambda: lw.JumpLaw({"a": 1}), "p_jump", "'a'"),
    (lambda: lw.JumpLaw(0.1, 3), "distance", "3"),
    (lambda: lw.mixed_rw(1.2), "mix", "1.2"),
    (lambda: lw.mixed_rw(None), "mix", "None"),
    (lambda: lw.Mixed("half"), "mix", "'half'"),
    (lambda: lw.Scores([1.0, 0.0]), "target", "0.0 for node 1"),
    (lambda: lw.Scores([1.0, -2.0]), "target", "-2.0 for node 1"),
    (lambda: lw.Scores([np.inf, 1.0]), "target", "inf for node 0"),
    (lambda: lw.Scores([[1.0]]), "target", r"\(1, 1\)"),
    (lambda: lw.Design(target="best"), "target", "'best'"),
    (lambda: lw.Design(target=object()), "target", "object"),
    (lambda: lw.Design(jump=0.1), "jump", "0.1"),
    (lambda: lw.Design(moves="fly"), "moves", "'fly'"),
    (lambda: lw.Design(moves="iid", jump=lw.JumpLaw()), "jump", "iid"),
    (lambda: lw.switching("mhlj", lw.unif_rw()), "first", "'mhlj'"),
    (lambda: lw.switching(lw.mhlj(), None), "then", "None"),
    (lambda: lw.switching(lw.iid_uniform(), lw.unif_rw()), "first", "walk"),
    (lambda: lw.switching(lw.mhlj(), lw.unif_rw(), threshold=0.0), "threshold", "0.0"),
    (lambda: lw.switching(lw.mhlj(), lw.unif_rw(), threshold=1.0), "threshold", "1.0"),
    (lambda: lw.switching(lw.mhlj(), lw.unif_rw(), window=0.5), "window", "0.5"),
    (lambda: lw.switching(lw.mhlj(), lw.unif_rw(), threshold="low"), "threshold", "'low'"),
    (lambda: lw.switching(lw.mhlj(), lw.unif_rw(), window="long"), "window", "'long'"),
    (lambda: lw.switching(lw.mhlj(), lw.unif_rw(), patience="much"), "patience", "'much'"),
    (lambda: lw.switching(lw.mhlj(), lw.unif_rw(), patience=0), "patience", "0"),
    (lambda: lw.switching(lw.mhlj(), lw.unif_rw(), step_size=0), "step_size", "0"),
    (lambda: lw.switching(lw.mhlj(), lw.unif_rw(), step_size="tuned"), "step_size", "'tuned'"),
    (lambda: lw.Switching(lw.mhlj(), lw.unif_rw(), detector=3), "detector", "3"),
    (lambda: lw.Constant(-1), "value", "-1"),
    (lambda: lw.Decaying(0.1, 0), "timescale", "0"),
    (lambda: lw.Decaying(0.1, 5, power=0), "power", "0"),
    (lambda: lw.Decaying(-0.1, 5), "initial", "-0.1"),
    (lambda: lw.Dropping(0.1, at=-1), "at", "-1"),
    (lambda: lw.Dropping(0.1, at=1, then=-2), "then", "-2"),
    (lambda: lw.Sgd(minibatch=0), "minibatch", "0"),
    (lambda: lw.Sgd(minibatch=1.5), "minibatch", "1.5"),
]


@pytest.mark.parametrize(("make", "name", "value"), REFUSED)
def test_a_bad_argument_is_refused_by_name_and_value(make, name, value):
    with pytest.raises(lw.LevywalkError, match=name) as caught:
        make()
    assert caught.match(value)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    "scores", [np.ones(2), np.array([1.0, 0.0, 1.0]), np.array([1.0, np.nan, 1.0])]
)
def test_a_target_of_ones_own_that_scores_wrongly_is_refused(scores):
    target = SimpleNamespace(scores=lambda degree, smoothness, mean: scores)
    with pytest.raises(lw.InvalidParameter, match="one positive finite score per node"):
        lw.Design(target=target).bind(lw.path(3), problem_with(L))
