"""Metrics on held-out data, against scikit-learn, and where a run evaluates them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn import metrics as judge

import levywalk as lw
from levywalk.engine.metric_plan import columns_of
from levywalk.metrics import METRIC_NAMES, is_rising, named_metrics

RNG = np.random.default_rng(0)
X, TEST = RNG.normal(size=(60, 3)), RNG.normal(size=(25, 3))
NETWORK, PROBLEM = lw.ring(12), lw.homogeneous(12, dim=3)
NAMES = np.array(["cat", "dog", "eel"])


def square(model):
    return float(np.square(model).sum())


def mse():
    return lw.metrics.mean_squared_error(TEST, TEST.sum(axis=1))


# --- each metric ----------------------------------------------------------------------------------


def test_classes_of_strings_are_judged_as_scikit_learn_judges_them() -> None:
    labels, wanted = NAMES[RNG.integers(3, size=60)], NAMES[RNG.integers(3, size=25)]
    problem = lw.Softmax(X, labels, ridge=0.1)
    model = RNG.normal(size=(3, 3))
    z = TEST @ model
    share = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    right = judge.accuracy_score(wanted, NAMES[z.argmax(axis=1)])
    assert lw.metrics.accuracy(problem, TEST, wanted)(model) == pytest.approx(right)
    cross = judge.log_loss(wanted, share, labels=NAMES)
    assert lw.metrics.log_loss(problem, TEST, wanted)(model) == pytest.approx(cross)
    assert lw.metrics.loss(problem, TEST, wanted)(model) == pytest.approx(cross)
    assert lw.metrics.accuracy(NAMES, sparse.csr_array(TEST), wanted)(model) == pytest.approx(right)


@pytest.mark.parametrize("kind", [lw.Logistic, lw.SquaredHinge])
@pytest.mark.parametrize("labels", [[0, 1], [-1, 1], ["no", "yes"]])
def test_two_classes_are_judged_by_the_sign(kind, labels) -> None:
    given, wanted = RNG.integers(2, size=60), RNG.integers(2, size=25)
    problem = kind(X, np.array(labels)[given], ridge=0.1)
    assert problem.classes.tolist() == labels
    assert problem.targets.tolist() == given.tolist()
    x = np.array([1.0, -2.0, 0.5])
    found = lw.metrics.accuracy(problem, TEST, np.array(labels)[wanted])(x)
    assert found == pytest.approx(judge.accuracy_score(wanted, TEST @ x > 0))
    if kind is lw.Logistic:
        p = 1.0 / (1.0 + np.exp(-(TEST @ x)))
        cross = lw.metrics.log_loss(problem, TEST, np.array(labels)[wanted])(x)
        assert cross == pytest.approx(judge.log_loss(wanted, p))


@pytest.mark.parametrize("outputs", [1, 2])
def test_errors_of_regression_are_those_of_scikit_learn(outputs) -> None:
    y = RNG.normal(size=(25, outputs)).squeeze()
    model = RNG.normal(size=(3, outputs)).squeeze()
    z = TEST @ model
    assert lw.metrics.mean_squared_error(TEST, y)(model) == pytest.approx(
        judge.mean_squared_error(y, z)
    )
    assert lw.metrics.mean_absolute_error(TEST, y)(model) == pytest.approx(
        judge.mean_absolute_error(y, z)
    )
    assert lw.metrics.r2(TEST, y)(model) == pytest.approx(judge.r2_score(y, z))


def test_a_label_that_the_problem_does_not_know_counts_as_wrong() -> None:
    found = lw.metrics.accuracy(["a", "b"], [[1.0], [-1.0], [1.0]], ["b", "a", "c"])
    assert found([1.0]) == pytest.approx(2 / 3)
    with pytest.raises(lw.InvalidData, match="1 held-out samples have another label"):
        lw.metrics.log_loss(["a", "b"], [[1.0], [1.0]], ["b", "c"])
    with pytest.raises(lw.InvalidData, match="no held-out label is of the classes 'a', 'b'; got"):
        lw.metrics.accuracy(["a", "b"], [[1.0]], [3])


def test_mistakes_are_refused_when_a_metric_is_made() -> None:
    problem = lw.Logistic(X, RNG.integers(2, size=60), ridge=0.1)
    with pytest.raises(lw.InvalidData, match="must have the problem's 3 columns"):
        lw.metrics.accuracy(problem, TEST[:, :2], np.ones(25))
    with pytest.raises(lw.InvalidData, match="one label for each of the 25"):
        lw.metrics.accuracy(problem, TEST, np.ones(24))
    with pytest.raises(lw.InvalidParameter, match="one with classes"):
        lw.metrics.accuracy(PROBLEM, TEST, np.ones(25))
    with pytest.raises(lw.InvalidParameter, match="2 classes, and the model predicts 3"):
        lw.metrics.accuracy([0, 1], TEST, np.ones(25))(np.ones((3, 3)))
    with pytest.raises(lw.InvalidParameter, match="made for 3 features, got a model of shape"):
        mse()(np.ones(4))
    with pytest.raises(lw.InvalidParameter, match="a dict of named arrays"):
        mse()({"a": np.ones(3)})
    with pytest.raises(
        lw.InvalidParameter, match=f"metrics must be of {', '.join(METRIC_NAMES)}, got"
    ):
        named_metrics(["accurcy"], problem, TEST, np.ones(25))


def test_the_direction_is_said_or_follows_from_the_name() -> None:
    def mine(model):
        return 0.0

    assert is_rising("my_score", mine)
    assert not is_rising("scores_lost", mine)
    mine.higher_is_better = False
    assert not is_rising("my_score", mine)
    mine.higher_is_better = "yes"
    with pytest.raises(lw.InvalidParameter, match="must be a bool"):
        is_rising("my_score", mine)


# --- in a run -------------------------------------------------------------------------------------


def walked(steps=60, **more):
    options = {"step_size": 0.02, "replicas": 3, "record_every": 10, "metrics": {"mse": mse()}}
    return lw.run(NETWORK, PROBLEM, lw.mhlj(), steps=steps, **(options | more))


def test_a_metric_at_a_checkpoint_is_that_of_the_model_there() -> None:
    trace = walked()
    assert trace.metric_step.tolist() == trace.step.tolist() == list(range(0, 61, 10))
    for column, steps in enumerate(trace.step.tolist()):
        models = walked(steps).model if steps else np.zeros((3, 3))
        wanted = [np.mean((TEST @ x - TEST.sum(axis=1)) ** 2) for x in models]
        assert trace.metrics["mse"][:, column] == pytest.approx(wanted)
    assert trace.summary()["mse"] == pytest.approx(trace.metrics["mse"][:, -1].mean())
    assert trace.to_dataframe()["mse"].to_numpy() == pytest.approx(trace.metrics["mse"].ravel())
    assert trace.to_xarray()["mse"].dims == ("replica", "checkpoint")


def test_replicas_threads_and_backends_do_not_change_a_metric() -> None:
    trace = walked(threads=2)
    assert np.array_equal(walked(replicas=2).metrics["mse"], trace.metrics["mse"][:2])
    slow = walked(backend="reference")
    assert slow.metrics["mse"] == pytest.approx(trace.metrics["mse"], rel=1e-9)


def test_metrics_are_evaluated_at_some_checkpoints_and_unknown_elsewhere() -> None:
    calls = []
    trace = walked(
        steps=1000, metrics={"n": lambda x: float(len(calls.append(1) or x))}, measure_metrics=5
    )
    assert trace.metric_step.tolist() == [0, 10, 40, 500, 1000]
    known = np.isin(trace.step, trace.metric_step)
    assert (trace.metrics["n"][:, known] == 3.0).all()
    assert np.isnan(trace.metrics["n"][:, ~known]).all()
    assert len(calls) == 3 * 5 + 1  # and once before the walk
    assert walked(steps=1000, measure_metrics=1).metric_step.tolist() == [1000]
    assert len(walked(steps=100, record_every=1, measure_metrics="all").metric_step) == 101
    assert 30 <= len(walked(steps=1000, record_every=1).metric_step) <= 41


def test_columns_have_the_first_and_the_last_checkpoint() -> None:
    for count in range(2, 60):
        found = columns_of(np.array([0, 3, 4, 50, 51, 1000]), count)
        assert found[0] == 0
        assert found[-1] == 5
        assert len(found) <= count + 1
        assert (np.diff(found) > 0).all()


def test_models_have_the_form_of_the_problem() -> None:
    seen = []

    def look(model):
        seen.append(model)
        return 0.0

    class Bowl:
        n, smoothness, model_arrays = 5, np.ones(5), {"a": (2, 2), "b": ()}
        optimum = {"a": np.zeros((2, 2)), "b": 0.0}

        def local_loss(self, v, x):
            return 0.5 * float((x["a"] ** 2).sum() + x["b"] ** 2)

        def local_gradient(self, v, x):
            return x

    two = lw.LeastSquares(X[:12], X[:12, :2])
    for problem, network in ((Bowl(), lw.ring(5)), (two, NETWORK)):
        lw.run(
            network, problem, lw.unif_rw(), steps=2, step_size=0.1, metrics={"m": look},
            backend="reference",
        )  # fmt: skip
    assert seen[0]["a"].shape == (2, 2)
    assert seen[-1].shape == (3, 2)
    seen[-1][:] = 99.0  # a copy: a metric cannot change the walk


def test_a_diverged_model_has_no_metric() -> None:
    with pytest.warns(lw.DivergedWarning):
        trace = walked(steps=4000, step_size=10.0, record_every=400)
    assert np.isnan(trace.metrics["mse"][:, -1]).all()
    assert (trace.diverged_at >= 0).all()


def test_metrics_are_saved_loaded_and_checked(tmp_path) -> None:
    trace = walked(steps=1000, measure_metrics=5)
    again = lw.load_trace(trace.save(tmp_path / "a.nc"))
    assert np.array_equal(again.metrics["mse"], trace.metrics["mse"], equal_nan=True)
    assert again.metric_step.tolist() == trace.metric_step.tolist()
    trace.provenance["metrics"]["mse"]["higher_is_better"] = "maybe"
    with pytest.raises(lw.InvalidTrace, match="the metrics cannot be read"):
        lw.load_trace(trace.save(tmp_path / "b.nc"))


def test_a_resumed_run_has_the_same_metrics_and_refuses_others(tmp_path) -> None:
    def stops(now):
        if now["step"] == 30:
            raise RuntimeError("enough")

    file = tmp_path / "state.npz"
    with pytest.raises(lw.CallbackError):
        walked(resume=file, callbacks=[stops])
    trace = walked(resume=file)
    assert trace.provenance["resumed_at"] == [30]
    assert np.array_equal(trace.metrics["mse"], walked().metrics["mse"])
    other = {"mse": lw.metrics.mean_squared_error(TEST, np.zeros(25))}
    with pytest.raises(lw.ResumeError, match="different metrics"):
        walked(resume=file, metrics=other)


@pytest.mark.parametrize(
    ("metrics", "match"),
    [
        ([square], "metrics must be a dict of names"),
        ({"loss": square}, "must not be called 'loss'"),
        ({"a/b": square}, "must have names of letters"),
        ({3: square}, "must have names of letters"),
        ({"a": 3.0}, "metric 'a' must be a function"),
        ({"a": lambda x: "b"}, "raised ValueError at x0"),
        ({"a": lambda x: x["w"]}, r"an array of shape \(3,\)"),
    ],
)
def test_wrong_metrics_are_refused_before_the_walk(metrics, match) -> None:
    with pytest.raises(lw.InvalidParameter, match=match):
        walked(metrics=metrics)


def test_a_wrong_number_of_checkpoints_is_refused() -> None:
    for wrong in (0, "some", 1.5):
        with pytest.raises(lw.InvalidParameter, match="measure_metrics"):
            walked(measure_metrics=wrong)


def test_a_metric_that_fails_on_the_way_ends_the_run_with_what_was_done() -> None:
    def fragile(model):
        if np.abs(model).max() > 0.0:
            raise ZeroDivisionError("no")
        return 1.0

    with pytest.raises(
        lw.CallbackError, match="metric 'a' raised ZeroDivisionError at step 10"
    ) as e:
        walked(metrics={"a": fragile})
    assert e.value.partial.step.tolist() == [0, 10]
    assert isinstance(e.value.__cause__, ZeroDivisionError)


# --- in a comparison ------------------------------------------------------------------------------

DESIGNS = {"UnifRW": lw.unif_rw(), "MHLJ": lw.mhlj()}


def closeness(model):
    return -float(np.square(model - PROBLEM.optimum).sum())


closeness.higher_is_better = True


def compared(**more):
    options = {
        "steps": 300, "replicas": 4, "metrics": {"closeness": closeness, "mse": mse()},
        "rank_by": "closeness", "accuracy": -0.5, "step_size": 0.02, "measure_metrics": "all",
    }  # fmt: skip
    return lw.compare(NETWORK, PROBLEM, DESIGNS, **(options | more))


def test_steps_to_a_metric_that_rises_are_those_of_plain_numpy(tmp_path) -> None:
    result = compared()
    for name, trace in result.traces.items():
        mean = trace.metrics["closeness"].mean(axis=0)
        below = np.flatnonzero(mean < -0.5)
        at = int(below[-1]) + 1
        assert result.steps_to[name] == trace.step[at]
        row = result.rows[name]
        assert row["steps_to_-0.5_low"] <= trace.step[at] <= row["steps_to_-0.5_high"]
        assert row["final_closeness"] == pytest.approx(mean[-1])
        assert row["final_closeness_low"] <= mean[-1] <= row["final_closeness_high"]
        assert row["transfers_to_-0.5"] == trace.transfers[:, at].mean()
        assert row["bytes_to_-0.5"] == trace.bytes[:, at].mean()
        assert row["final_mse"] == pytest.approx(trace.metrics["mse"][:, -1].mean())
    # The mirror image, which falls, gives the same steps.
    fallen = compared(metrics={"gap": lambda x: -closeness(x)}, rank_by="gap", accuracy=0.5)
    assert fallen.steps_to == result.steps_to
    assert fallen.ranked() == result.ranked()
    result.save(tmp_path)
    again = lw.Comparison.load(tmp_path)
    assert again.steps_to == result.steps_to
    assert again.table().equals(result.table())


def test_a_sparse_metric_reaches_an_accuracy_where_it_was_evaluated() -> None:
    result, whole = compared(measure_metrics=12), compared()
    for name, steps in result.steps_to.items():
        trace = result.traces[name]
        mean = whole.traces[name].metrics["closeness"].mean(axis=0)
        known = mean[np.searchsorted(trace.step, trace.metric_step)]
        assert steps == trace.metric_step[np.flatnonzero(known < -0.5)[-1] + 1]


@pytest.mark.more
def test_tuning_by_a_metric_is_tuning_by_the_same_number() -> None:
    """‖x - x*‖² over its first value as a metric must choose the step sizes of "distance2"."""
    start = float(np.square(PROBLEM.optimum).sum())

    def error(model):
        return float(np.square(model - PROBLEM.optimum).sum()) / start

    shared = {"step_size": "tuned", "steps": 400, "accuracy": 0.3}
    mine = compared(metrics={"my_gap": error}, rank_by="my_gap", **shared)
    usual = compared(metrics=None, rank_by="distance2", **shared)
    assert mine.step_size == usual.step_size
    assert mine.steps_to == usual.steps_to
    up = compared(
        metrics={"my_score": lambda x: -error(x)}, rank_by="my_score", **shared | {"accuracy": -0.3}
    )
    assert up.step_size == usual.step_size
    assert [t.final_error for t in up.sweep["MHLJ"]] == pytest.approx(
        [-t.final_error for t in usual.sweep["MHLJ"]]
    )


def test_the_highest_value_at_the_end_wins_without_an_accuracy() -> None:
    result = compared(accuracy=None)
    assert result.steps_to == {}
    finals = {
        name: trace.metrics["closeness"][:, -1].mean() for name, trace in result.traces.items()
    }
    assert result.ranked()[0] == max(finals, key=finals.__getitem__)
    from levywalk.report.page.verdict import verdict

    assert "has the highest closeness" in verdict(result)[0]


def test_tables_figures_and_the_page_show_the_metric() -> None:
    from levywalk.report.page.build import html_page
    from levywalk.trace.tables import comparison_text, title_text

    result = compared()
    headers, _ = comparison_text(result)
    assert "closeness at the end" in headers
    assert "mse at the end" in headers
    assert "steps to -0.5" in headers
    assert "higher closeness is better" in title_text(result)
    axes = lw.plot(result, x="transfers")
    assert axes.get_ylabel() == "closeness"
    assert axes.get_yscale() == "linear"
    drawn = axes.get_lines()[0].get_ydata()
    assert drawn == pytest.approx(result.traces["UnifRW"].metrics["closeness"].mean(axis=0))
    sparse_run = walked(steps=1000, measure_metrics=5)
    line = lw.plot(sparse_run, x="steps", y="mse").get_lines()[0]
    assert line.get_xdata().tolist() == sparse_run.metric_step.tolist()
    with pytest.raises(lw.InvalidParameter, match="'loss', 'mse'"):
        lw.plot(sparse_run, y="accuracy")
    page = html_page(result, command="")
    assert "Closeness as the model walks" in page
    assert "stays at or above this value" in page


@pytest.mark.parametrize(
    ("more", "match"),
    [
        ({"metrics": None}, "rank_by must be one of .* got 'closeness'; give metrics="),
        ({"rank_by": "closenes"}, "'closeness', 'mse', got 'closenes'"),
        ({"accuracy": "high"}, "accuracy must be a number"),
        ({"metrics": {"closeness": 3}}, "must be a function"),
        ({"rank_by": closeness, "accuracy": None}, "closeness is better when it is higher"),
    ],
)
def test_what_cannot_be_ranked_fails_before_the_work(more, match) -> None:
    with pytest.raises(lw.InvalidParameter, match=match):
        compared(**more)
