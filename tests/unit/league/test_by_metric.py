"""The league by a metric: against a plain run with a metric in plain numpy, and what is refused."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import levywalk as lw
from levywalk.cli.main import app
from levywalk.league.by_metric import (
    left_by_metric,
    metric_league,
    metric_tasks,
    require_possible,
    scene,
)
from levywalk.league.cell import marks_of
from levywalk.league.league import left_of
from levywalk.league.pairs import QUICK_NAMES, pairs_named
from levywalk.league.scenes import QUICK
from tests.limits import mostly_soak

RING = {"ring": {"family": "ring", "n": 30}}
SHORT = dataclasses.replace(
    QUICK, networks=RING, pairs=pairs_named(("unif_rw + sgd",)), seeds=(0,), shorter=20.0
)


def own_r2(features: np.ndarray, targets: np.ndarray) -> Any:
    total = ((targets - targets.mean()) ** 2).sum()
    return lambda x: float(1 - ((features @ x - targets) ** 2).sum() / total)


@pytest.mark.more
def test_a_cell_is_what_a_plain_run_takes(tmp_path: Path) -> None:
    (task,) = tasks = metric_tasks(RING, SHORT, "r2", 0.5)
    assert left_by_metric(tasks, tmp_path)[:2] == (1, 0)
    document, files = metric_league(tasks, SHORT, tmp_path, workers=0, progress=False)
    assert left_by_metric(tasks, tmp_path)[:2] == (1, 1)
    assert left_of(RING, SHORT, tmp_path)[1] == 0  # the league by errors has keys of its own
    assert json.loads(files[2].read_text())["metric"] == "r2"
    assert all("transfers to r2 0.5" in path.read_text() for path in files[:2])
    (cell,) = document["cells"]
    problem, held = scene("snr10", 30, 0)
    default = lw.sgd().default_step_size(problem.smoothness.max(), problem)
    budget = task.description["budget"]
    trace = lw.run(
        lw.ring(30), problem, lw.unif_rw(), steps=budget, seed=0, replicas=2, threads=1,
        step_size=cell["step_sizes"]["0.5"] * default, record_every=marks_of(budget, 30),
        metrics={"r2": own_r2(*held)}, measure_metrics="all",
    )  # fmt: skip
    mean = trace.metrics["r2"].mean(axis=0)
    at = np.flatnonzero(mean < 0.5)[-1] + 1
    assert cell["steps"]["0.5"][0] == trace.step[at]
    assert cell["transfers"]["0.5"][0] == trace.transfers[:, at].mean()
    assert cell["bytes"]["0.5"][0] == trace.bytes[:, at].mean()
    assert cell["final"] == pytest.approx(mean[-1])


def test_held_out_samples_are_of_the_law_of_the_nodes_and_none_of_their_own() -> None:
    for name in ("labels", "snr1000"):
        problem, (features, targets) = scene(name, 400, 3)
        own = set(map(tuple, problem.features))  # type: ignore[attr-defined]
        assert not set(map(tuple, features)) & own
        truth = lw.heterogeneous(400, dim=10, important=2, seed=3).truth
        if name == "labels":
            assert np.array_equal(targets, features @ truth > 0)
        else:
            noise = np.linalg.norm(truth) / np.sqrt(1000.0)
            assert np.std(targets - features @ truth) == pytest.approx(noise, rel=0.1)
    large = np.square(features).mean(axis=1) > 20
    assert 0 < large.sum() < 30  # 2,000 * 2/400 are expected
    assert np.square(features[~large]).mean() == pytest.approx(1.0, rel=0.05)


def test_what_cannot_be_is_refused_before_the_work() -> None:
    for metric, reach, said in (
        ("accuracy", 1.0, r"cannot be reached on ring.*give --reach 0\.\d"),
        ("accuracy", 0.1, "cannot rank"),
        ("log_loss", 1e-9, "cannot be reached"),
        ("mean_squared_error", 1e9, "cannot rank"),
        ("accuracy", float("nan"), "--reach"),
        ("f1", 0.5, "--metric must be one of 'accuracy'"),
    ):
        with pytest.raises(lw.InvalidParameter, match=said):
            require_possible(RING, SHORT, metric, reach)
    require_possible(RING, SHORT, "accuracy", 0.7)


def command(*words: str) -> Result:
    return CliRunner().invoke(app, ["league", "ring:30", "--quick", *words])


def test_the_command_refuses_half_of_what_it_needs(tmp_path: Path) -> None:
    for words, said in (
        (["--metric", "accuracy"], "belong together"),
        (["--reach", "0.9"], "belong together"),
        (["--metric", "accuracy", "--reach", "0.7", "--check"], "--check"),
    ):
        done = command(*words, "--out", str(tmp_path / "out"))
        assert said in str(done.exception)
    done = command("--metric", "accuracy", "--reach", "0.7", "--dry-run")
    assert done.output.startswith("9 results, 0 of them stored")
    assert not (tmp_path / "out").exists()


ONE = ("unif_rw + sgd",)  # each update has loops of its own, which are compiled


@pytest.mark.more
@pytest.mark.parametrize("pairs", mostly_soak([ONE, QUICK_NAMES], lambda pairs: pairs == ONE))
def test_the_command_ranks_by_accuracy(
    pairs: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    effort = dataclasses.replace(QUICK, pairs=pairs_named(pairs))
    monkeypatch.setattr("levywalk.league.scenes.QUICK", effort)
    given = ("--metric", "accuracy", "--reach", "0.7", "--workers", "0", "--out", str(tmp_path))
    done = command(*given, "--json")
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    cells = {cell["pair"]: cell["transfers"]["0.7"][0] for cell in document["cells"]}
    assert set(cells) == set(pairs)
    if pairs == ONE:
        assert 0 < cells["unif_rw + sgd"] < float("inf")
    else:
        assert cells["mhda + point_saga"] < cells["mhlj + sgd"]
