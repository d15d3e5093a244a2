"""The four examples of docs/extending.md: each touches nothing in src and works everywhere."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import levywalk as lw
from levywalk.experiments.execute import execute
from levywalk.experiments.folder_report import theory_beside
from levywalk.experiments.spec import check_experiment
from levywalk.fleet.operate.merge import merge
from levywalk.fleet.setup.build import Fleet
from levywalk.fleet.setup.manifest import Manifest
from levywalk.fleet.simulate.virtual import VirtualFleet
from levywalk.registry import from_dict, to_dict

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "extending"
N = 24


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"extending_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules.get(spec.name) or importlib.util.module_from_spec(spec)
    if spec.name not in sys.modules:
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    return module


NETWORK = lw.watts_strogatz(N, 4, 0.2, seed=2)
SQUARES = lw.heterogeneous(N, dim=4, important=1, seed=2)
WALK = load("non_backtracking").NonBacktracking()
BALL = load("heavy_ball").HeavyBall(beta=0.5)
SAG = load("sag").Sag()
HUBER = lw.GeneralizedLinear(
    SQUARES.features, SQUARES.targets, load("pseudo_huber").PseudoHuber(), ridge=0.05
)
CASES: dict[str, tuple[Any, Any, Any]] = {
    "walk": (SQUARES, WALK, None),
    "token memory": (SQUARES, lw.mhlj(), BALL),
    "node memory": (SQUARES, lw.unif_rw(), SAG),
    "loss": (HUBER, lw.mhlj(), None),
    "all at once": (HUBER, WALK, SAG),
}
GIVEN: dict[str, Any] = {"steps": 300, "step_size": 1e-4, "replicas": 3, "record_walk": True}


@pytest.mark.more  # each compiles a loop of its own
@pytest.mark.parametrize("case", CASES)
def test_the_compiled_twin_is_the_plain_method(case: str) -> None:
    problem, walk, update = CASES[case]
    kernel, reference = (
        lw.run(NETWORK, problem, walk, update=update, backend=backend, record_memory=True, **GIVEN)
        for backend in ("kernel", "reference")
    )
    assert np.array_equal(kernel.walk, reference.walk)
    assert np.array_equal(kernel.bytes, reference.bytes)
    assert np.allclose(kernel.model, reference.model, rtol=1e-9, atol=1e-12)
    assert kernel.memory is not None
    assert reference.memory is not None
    assert sorted(kernel.memory) == sorted(reference.memory)
    for name, array in kernel.memory.items():
        assert np.allclose(array, reference.memory[name], rtol=1e-9, atol=1e-12), name


def test_the_examples_are_what_they_say() -> None:
    """Each against a plain loop that knows nothing of the package's contracts."""
    walk = lw.run(NETWORK, SQUARES, WALK, backend="reference", **GIVEN).walk[0]
    assert all(a != c for a, b, c in zip(walk, walk[1:], walk[2:], strict=False) if a != b)
    trace = lw.run(NETWORK, SQUARES, lw.unif_rw(), update=SAG, backend="reference", **GIVEN)
    x, stored = np.zeros(4), np.zeros((N, 4))
    for v in trace.walk[0]:
        stored[v] = SQUARES.local_gradient(int(v), x)
        x = x - 1e-4 * stored.sum(axis=0) / N
    assert trace.model[0] == pytest.approx(x, rel=1e-9)
    trace = lw.run(NETWORK, SQUARES, lw.unif_rw(), update=BALL, backend="reference", **GIVEN)
    x, velocity = np.zeros(4), np.zeros(4)
    for v in trace.walk[0]:
        velocity = 0.5 * velocity + SQUARES.local_gradient(int(v), x)
        x = x - 1e-4 * velocity
    assert trace.model[0] == pytest.approx(x, rel=1e-9)
    gradients = [HUBER.local_gradient(v, HUBER.optimum) for v in range(N)]
    assert np.mean(gradients, axis=0) == pytest.approx(np.zeros(4), abs=1e-10)


@pytest.mark.parametrize("case", CASES)
def test_a_virtual_fleet_makes_the_same_walk_to_the_bit(case: str) -> None:
    problem, walk, update = CASES[case]
    given = {"steps": 120, "step_size": 1e-4, "seed": 5}
    virtual = VirtualFleet(Fleet.of(NETWORK, problem, walk, update=update, **given))
    virtual.run()
    found = merge({v: machine.log for v, machine in enumerate(virtual.machines)}, virtual.fleet)
    expected = lw.run(
        NETWORK, problem, walk, update=update, backend="reference", record_walk=True, **given
    )
    assert np.array_equal(found.walk, expected.walk)
    assert np.array_equal(found.model, expected.model)
    assert found.bytes[0, -1] == expected.bytes[0, -1]


@pytest.mark.usefixtures("reference_only")
@pytest.mark.parametrize("case", CASES)
def test_a_comparison_makes_the_same_runs(case: str) -> None:
    problem, walk, update = CASES[case]
    given: dict[str, Any] = {"steps": 80, "step_size": 1e-4, "replicas": 2, "seed": 3}
    method = walk if update is None else (walk, update)
    methods = {"ours": method, "mhlj": lw.mhlj()}
    found = lw.compare(NETWORK, problem, methods, record_walk=True, progress=False, **given)
    alone = lw.run(NETWORK, problem, walk, update=update, record_walk=True, **given)
    assert np.array_equal(found.traces["ours"].walk, alone.walk)
    assert np.array_equal(found.traces["ours"].model, alone.model)
    assert found.rows["ours"]["step_size"] == 1e-4
    assert "ours" in found._repr_html_()


def test_real_nodes_take_methods_of_ones_own() -> None:
    given: dict[str, Any] = {"steps": 100, "step_size": 1e-4}
    remembers = Manifest.of(Fleet.of(NETWORK, SQUARES, lw.unif_rw(), update=SAG, **given))
    assert Manifest.parse(remembers.text).published.remembers
    manifest = Manifest.of(Fleet.of(NETWORK, HUBER, WALK, update=BALL, **given))
    again = Manifest.parse(manifest.text)
    assert (again.design.name, again.published.update.name) == (WALK.name, BALL.name)
    assert (again.loss.name, again.published.update.beta) == ("pseudo_huber_example", 0.5)
    unknown = manifest.text.replace(b"heavy_ball_example", b"heavy_bull_example")
    with pytest.raises(lw.InvalidSpec, match="unknown update 'heavy_bull_example'"):
        Manifest.parse(unknown)


def test_recipes_come_back_and_names_are_taken_once() -> None:
    for kind, value in (("design", WALK), ("update", BALL), ("loss", HUBER.sample_loss)):
        recipe = to_dict(kind, value)
        assert json.loads(json.dumps(recipe)) == recipe
        assert to_dict(kind, from_dict(kind, recipe)) == recipe
    with pytest.raises(lw.InvalidParameter, match="the update name 'sag_example' is taken"):
        lw.register("update", "sag_example", load("heavy_ball").HeavyBall)
    with pytest.raises(lw.InvalidParameter, match="the design name 'mhlj' is taken"):
        lw.register("design", "mhlj", type(WALK))


def test_theory_answers_or_says_why_not() -> None:
    with pytest.raises(lw.InvalidParameter, match="has a chain of 96 states, not one per node"):
        lw.transition(NETWORK, SQUARES, WALK)
    edges = WALK.chain(NETWORK, SQUARES)
    law = np.zeros(N)
    np.add.at(law, NETWORK.indices, lw.stationary(edges))
    assert law == pytest.approx(NETWORK.degree / NETWORK.degree.sum(), rel=1e-9)
    assert lw.predict(NETWORK, HUBER, lw.unif_rw(), accuracy=0.5).curvature == "finite differences"
    for update in (BALL, SAG):
        for ask in (lw.predict, lw.error_floor, lw.entrapment, lw.transition):
            with pytest.raises(lw.InvalidParameter, match="no answer for another update"):
                ask(NETWORK, SQUARES, (lw.unif_rw(), update))


@pytest.mark.usefixtures("reference_only")
def test_the_report_answers_for_the_walk_and_says_that_the_update_has_no_theory(
    tmp_path: Path,
) -> None:
    """Floor, steps and bound of plain SGD are not shown for momentum or for SAG."""
    settings: dict[str, Any] = {
        "network": {"family": "ring", "n": 12},
        "problem": {"data": "homogeneous", "dim": 2},
        "run": {"steps": 20, "replicas": 2, "step_size": 0.01},
        "designs": {
            "plain": {"kind": "unif_rw"},
            "ball": {"kind": "unif_rw", "update": {"kind": "heavy_ball_example"}},
            "sag": {"kind": "unif_rw", "update": {"kind": "sag_example"}},
            "walk": {"kind": "non_backtracking_example"},
        },
    }
    experiment = check_experiment(settings)
    found = replace(execute(experiment, tmp_path, progress=False), settings=settings)
    said = theory_beside(found, tmp_path, progress=False)
    assert set(said.rows) == {"plain", "ball", "sag"}
    assert said.rows["plain"]["floor"] > 0
    for name, update in (("ball", "HeavyBall()"), ("sag", "Sag()")):
        row = said.rows[name]
        assert row["dwell"] == said.rows["plain"]["dwell"]
        assert not any(row.get(key) for key in ("floor", "steps", "bias2", "bound"))
        assert any(note.startswith(f"{name}: ") and update in note for note in said.notes)
    assert any("walk is left out" in note and "not one per node" in note for note in said.notes)


@pytest.mark.more
def test_a_twin_is_compiled_again_when_an_argument_changes() -> None:
    ball = load("heavy_ball").HeavyBall(beta=0.5)
    first = lw.run(NETWORK, HUBER, WALK, update=ball, **GIVEN)
    ball.beta = 0.1
    second, reference = (
        lw.run(NETWORK, HUBER, WALK, update=ball, backend=backend, **GIVEN)
        for backend in ("kernel", "reference")
    )
    assert not np.allclose(first.model, second.model)
    assert np.allclose(second.model, reference.model, rtol=1e-9)


def test_a_subclass_loses_the_twin_of_what_it_overrides() -> None:
    class Still(load("heavy_ball").HeavyBall):  # type: ignore[misc, name-defined]
        def direction(self, model: Any, memory: Any, local: Any, weight: Any, words: Any) -> Any:
            return np.zeros_like(model)

    trace = lw.run(NETWORK, SQUARES, lw.mhlj(), update=Still(), **GIVEN)
    assert trace.provenance["backend"] == "reference"
    assert not trace.model.any()
    with pytest.raises(lw.InvalidParameter, match="heavy_ball_example has no compiled form"):
        lw.run(NETWORK, SQUARES, lw.mhlj(), update=Still(), backend="kernel", **GIVEN)


@pytest.mark.more
def test_resumed_runs_with_memory_end_with_the_same_bits(tmp_path: Path, monkeypatch: Any) -> None:
    from levywalk.engine import drive

    whole = lw.run(NETWORK, HUBER, WALK, update=SAG, **GIVEN)
    file = tmp_path / "state.npz"
    monkeypatch.setattr(drive, "_PIECE_SECONDS", 1e-9)

    class Pressing(drive.Bar):
        def advance(self, amount: float) -> None:
            signal.raise_signal(signal.SIGINT)

    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    with monkeypatch.context() as patched:
        patched.setattr(drive, "Bar", Pressing)
        with pytest.raises(lw.Interrupted) as raised:
            lw.run(NETWORK, HUBER, WALK, update=SAG, resume=file, threads=1, **GIVEN)
    signal.signal(signal.SIGINT, handler)
    assert raised.value.partial.provenance["interrupted"]
    again = lw.run(NETWORK, HUBER, WALK, update=SAG, resume=file, **GIVEN)
    assert np.array_equal(again.model, whole.model)


def test_the_code_of_the_page_runs() -> None:
    text = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    scope: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", text, re.S):
        exec(block, scope)
    assert scope["trace"].step[-1] == 100


# --- as commands, in processes of their own, from an empty folder -------------------------------


def typed(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "levywalk.cli.main", *words]
    environment = {key: value for key, value in os.environ.items() if key != "LEVYWALK_LOAD"}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def file(name: str) -> str:
    return str(FOLDER / f"{name}.py")


@dataclass(frozen=True)
class Words:
    """How an example is named in an experiment file and on the command line."""

    table: str  # the keys of [designs.ours]
    design: str = "unif_rw"
    update: str = ""
    loss: str = ""

    @property
    def problem(self) -> str:
        if not self.loss:
            return 'data = "homogeneous"\ndim = 3'
        return f'data = "file"\nfile = "data.csv"\nloss = "{self.loss}"\nridge = 0.1'

    @property
    def options(self) -> list[str]:
        """What `compare` and `fleet simulate` are given for the data."""
        given = ["--steps", "60", "--step-size", "0.001", "--json"]
        if not self.loss:
            return given
        return [*given, "--data", "data.csv", "--loss", self.loss, "--ridge", "0.1"]


WORDS = {
    "non_backtracking": Words('kind = "non_backtracking_example"', "non_backtracking_example"),
    "heavy_ball": Words(
        'kind = "unif_rw"\nupdate = { kind = "heavy_ball_example", beta = 0.5 }',
        update="heavy_ball_example:beta=0.5",
    ),
    "sag": Words(
        'kind = "unif_rw"\nupdate = { kind = "sag_example" }',
        update="sag_example",
    ),
    "pseudo_huber": Words('kind = "unif_rw"', loss="pseudo_huber_example"),
}
EXPERIMENT = """
[network]
family = "ring"
n = 12
[problem]
{problem}
[run]
steps = 60
replicas = 2
step_size = 0.001
[designs.ours]
{table}
[output]
figure = "none"
"""


@pytest.fixture(params=WORDS)
def example(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Words]:
    """Return an example of the page; the folder has its experiment and its data."""
    words = WORDS[request.param]
    text = EXPERIMENT.format(problem=words.problem, table=words.table)
    (tmp_path / "experiment.toml").write_text(text)
    rows = np.random.default_rng(4).normal(size=(24, 3))
    np.savetxt(tmp_path / "data.csv", rows, delimiter=",", header="a,b,y", comments="")
    return file(request.param), words


def table_of(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.more
def test_an_experiment_file_as_a_command(example: tuple[str, Words], tmp_path: Path) -> None:
    loads, words = example
    refused = typed(tmp_path, "run", "experiment.toml")
    assert refused.returncode == 2
    assert "_example" in refused.stderr
    done = typed(tmp_path, "run", "experiment.toml", "--json", "--load", loads)
    assert set(table_of(done)["designs"]) == {"ours"}
    told = lw.Comparison.load(tmp_path / "out").traces["ours"].provenance
    assert words.design in told["design"]["recipe"]["kind"]
    assert (words.update or "sgd").partition(":")[0] == told["update"]["recipe"]["kind"]
    assert (words.loss or "least_squares") == told["problem"]["loss"]["recipe"]["kind"]


@pytest.mark.more
def test_compare_as_a_command(example: tuple[str, Words], tmp_path: Path) -> None:
    loads, words = example
    ours = f"{words.design}+{words.update}" if words.update else words.design
    given = ["compare", "ring:12", "--replicas", "2", *words.options, "--designs", f"mhlj,{ours}"]
    refused = typed(tmp_path, *given)
    assert refused.returncode == 2
    assert "_example" in refused.stderr
    found = table_of(typed(tmp_path, "--load", loads, *given))["designs"]
    assert len(found) == 2
    assert any(words.update.partition(":")[0] in name for name in found)


@pytest.mark.more
def test_a_simulated_fleet_as_a_command(example: tuple[str, Words], tmp_path: Path) -> None:
    loads, words = example
    given = ["fleet", "simulate", "ring:10", "--design", words.design, *words.options]
    given += ["--update", words.update] if words.update else []
    refused = typed(tmp_path, *given)
    assert refused.returncode == 2
    assert "_example" in refused.stderr
    assert table_of(typed(tmp_path, "--load", loads, *given))


@pytest.mark.more
def test_worker_processes_of_a_sweep_know_a_loaded_file(
    example: tuple[str, Words], tmp_path: Path
) -> None:
    text = (tmp_path / "experiment.toml").read_text()
    (tmp_path / "sweep.toml").write_text(text + '\n[sweep]\n"run.seed" = [0, 1]\n')
    done = typed(
        tmp_path, "--load", example[0], "sweep", "sweep.toml", "--workers", "2", "--out", "swept"
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.more
def test_all_examples_at_once_and_a_file_that_is_missing(tmp_path: Path) -> None:
    words = Words(
        'kind = "non_backtracking_example"\nupdate = { kind = "sag_example" }\n[designs.ball]\n'
        'kind = "mhlj"\nupdate = { kind = "heavy_ball_example", beta = 0.5 }',
        loss="pseudo_huber_example",
    )
    rows = np.random.default_rng(4).normal(size=(24, 3))
    np.savetxt(tmp_path / "data.csv", rows, delimiter=",", header="a,b,y", comments="")
    text = EXPERIMENT.format(problem=words.problem, table=words.table)
    (tmp_path / "experiment.toml").write_text(text)
    loads = [word for name in WORDS for word in ("--load", file(name))]
    done = typed(tmp_path, "run", "experiment.toml", "--json", *loads)
    assert set(table_of(done)["designs"]) == {"ours", "ball"}
    missing = typed(tmp_path, "--load", "no_such.py", "run", "experiment.toml")
    assert missing.returncode == 2
    assert "no_such.py" in missing.stderr
