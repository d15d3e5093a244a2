"""The advice follows the predicted costs and the entrapment; the inspection says them first."""

from __future__ import annotations

import math
import shlex
from dataclasses import replace

import pytest
from typer.testing import CliRunner

import levywalk as lw
from levywalk.cli.main import app
from levywalk.experiments.advice import advice
from levywalk.experiments.inspect import Inspection, inspect


@pytest.fixture(scope="module")
def found() -> Inspection:
    return inspect(lw.ring(30), lw.heterogeneous(30, dim=4, important=1))


def with_steps(found: Inspection, **steps: float | None) -> Inspection:
    """The same inspection with other predicted steps."""
    judged = {}
    for name, judgement in found.judgements.items():
        guess, cost = judgement.prediction, steps[name]
        if guess is not None and cost is not None:
            guess = replace(guess, steps=cost)
        judged[name] = replace(judgement, prediction=None if cost is None else guess)
    return replace(found, judgements=judged)


@pytest.mark.more
def test_the_least_predicted_cost_is_advised(found: Inspection) -> None:
    lines = advice(with_steps(found, UnifRW=500.0, WeightRW=90.0, MHLJ=100.0))
    assert lines[0].startswith("WeightRW gets trapped here: it stays ")
    assert lines[1].startswith("Use WeightRW: 90 steps predicted to 1 % of the initial error")
    assert "(UnifRW 500 steps; MHLJ 100 steps). MHLJ is about as good." in lines[1]


@pytest.mark.more
def test_what_never_gets_there_is_not_advised(found: Inspection) -> None:
    lines = advice(with_steps(found, UnifRW=500.0, WeightRW=math.inf, MHLJ=math.inf))
    assert "Use UnifRW: 500 steps" in lines[1]
    assert "WeightRW never; MHLJ never" in lines[1]
    nothing = advice(with_steps(found, UnifRW=math.inf, WeightRW=math.inf, MHLJ=math.inf))
    assert nothing[1].startswith("None of the designs is predicted to reach 1 %")
    unknown = advice(with_steps(found, UnifRW=None, WeightRW=None, MHLJ=None))
    assert "could not be predicted" in unknown[1]


def test_a_walk_that_is_not_trapped_is_not_called_so() -> None:
    free = inspect(lw.complete(30), lw.homogeneous(30))
    assert advice(free)[0].startswith("WeightRW does not get trapped here")


@pytest.mark.more
def test_inspect_says_first_what_to_do_and_its_command_works(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    asked = ["inspect", "ring:30", "--important", "1", "--accuracy", "0.5", "--p-jump", "0.2"]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 0, done.output
    head = done.stdout.splitlines()[:5]
    assert head[0].startswith("WeightRW ")
    assert head[1].startswith("Use ")
    (last,) = (line for line in head if line.startswith("Measure it before you rely on it: "))
    command = shlex.split(last.partition(": ")[2])
    assert command[:3] == ["levywalk", "compare", "ring:30"]
    assert "unif_rw,weight_rw,mhlj:p_jump=0.2" in command
    short = ["--steps", "60", "--replicas", "2", "--step-size", "0.001"]
    done = CliRunner().invoke(app, [*command[1:], *short])
    assert done.exit_code == 0, done.output
