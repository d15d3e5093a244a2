"""The command as a user types it, right and wrong; each call is a real process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.forked import levywalk
from tests.limits import PATIENCE

SMALL = [
    "--set",
    "network.n=60",
    "--set",
    "run.steps=600",
    "--set",
    "run.replicas=4",
    "--set",
    "run.accuracy=0.3",
]


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> str:
    printed = levywalk("run", "--example", cwd=tmp_path_factory.mktemp("example"))
    assert printed.returncode == 0
    return printed.stdout


@pytest.fixture
def experiment(tmp_path: Path, example: str) -> Path:
    path = tmp_path / "experiment.toml"
    path.write_text(example)
    return path


def test_version_is_printed(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "levywalk", "--version"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0
    assert done.stdout.startswith("levywalk 0.")


def test_help_loads_no_heavy_library() -> None:
    code = (
        "import sys; sys.argv = ['levywalk', '--help']\n"
        "from levywalk.cli.main import main\n"
        "try:\n    main()\nfinally:\n"
        "    heavy = ('numpy', 'scipy', 'numba', 'matplotlib', 'pandas')\n"
        "    print([name for name in heavy if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0
    assert "demo" in done.stdout
    assert done.stderr.strip() == "[]"


def test_example_runs_and_writes_what_it_promises(experiment: Path) -> None:
    done = levywalk("run", "experiment.toml", *SMALL, "--out", "results", cwd=experiment.parent)
    assert done.returncode == 0, done.stderr
    for name in ("UnifRW", "WeightRW", "MHLJ", "server, weighted"):
        assert name in done.stdout
    files = {path.name for path in (experiment.parent / "results").iterdir()}
    assert {"UnifRW.nc", "server-weighted.nc", "table.csv", "figure.png", "result.json"} <= files


@pytest.mark.more
def test_json_is_alone_on_stdout_and_numbers_equal_the_saved_trace(experiment: Path) -> None:
    import levywalk as lw

    done = levywalk(
        *("run", "experiment.toml", *SMALL, "--seed", "3", "--json"),
        *("--set", "output.figure=none"),
        cwd=experiment.parent,
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["seed"] == 3
    trace = lw.load_trace(experiment.parent / "out" / "MHLJ.nc")
    assert trace.provenance["seed"] == 3
    row = document["designs"]["MHLJ"]
    reached = trace.steps_to(0.3)
    assert row["steps_to_0.3"] == (None if reached == float("inf") else reached)
    assert row["transfers_per_step"] == trace.summary()["transfers_per_step"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run"], ["experiment file", "--example"]),
        (["run", "nowhere.toml"], ["nowhere.toml"]),
        (
            ["run", "experiment.toml", "--set", "run.stepps=5"],
            ["run.stepps", "5", "did you mean 'steps'"],
        ),
        (["run", "experiment.toml", "--set", "run.steps=many"], ["run.steps", "integer", "'many'"]),
        (["run", "experiment.toml", "--set", "run.steps=-5"], ["steps", "at least 1", "-5"]),
        (
            ["run", "experiment.toml", "--set", "designs.MHLJ.p_jump=1.5"],
            ["designs.MHLJ", "p_jump", "1.5", "[0, 1]"],
        ),
        (
            ["run", "experiment.toml", "--set", "network.family=rng"],
            ["network.family", "'ring'", "rng"],
        ),
        (["run", "experiment.toml", "--set", "network.p=2.0"], ["network", "p", "2.0"]),
        (
            ["run", "experiment.toml", "--set", "designs.MHLJ.kind=mh"],
            ["designs.MHLJ.kind", "'mhlj'"],
        ),
        (
            ["run", "experiment.toml", "--set", "designs.MHLJ.schedule.kind=falling"],
            ["schedule", "decaying", "falling"],
        ),
        (
            ["run", "experiment.toml", "--set", "problem.importnat=2"],
            ["problem.importnat", "important"],
        ),
        (["run", "experiment.toml", "--set", "nonsense"], ["KEY=VALUE", "nonsense"]),
        (["run", "experiment.toml", "--out", "experiment.toml"], ["folder", "experiment.toml"]),
        (["demo", "--seed", "-1"], ["seed"]),
        (["walk"], ["walk"]),
    ],
)
def test_bad_input_names_key_value_and_remedy_without_a_traceback(
    experiment: Path, arguments: list[str], words: list[str]
) -> None:
    done = levywalk(*arguments, cwd=experiment.parent)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    for word in words:
        assert word in done.stderr


# Many samples, a ridge, another loss: loops that only this test needs.
OF_ITS_OWN = 'loss = "logistic"\nridge = 0.1\npartition = "dirichlet"\n'


@pytest.mark.parametrize(
    ("rows", "problem", "run"),
    [
        (12, "", ""),
        pytest.param(48, OF_ITS_OWN, "minibatch = 2\n", marks=pytest.mark.more),
    ],
    ids=["plain", "of its own"],
)
def test_files_of_the_experiment_are_found_beside_it(
    tmp_path: Path, rows: int, problem: str, run: str
) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "graph.edges").write_text("\n".join(f"{i} {(i + 1) % 12}" for i in range(12)))
    (folder / "data.csv").write_text(
        "\n".join(f"{i % 5}.5,{(i * 7) % 11},{i % 2}" for i in range(rows))
    )
    (folder / "own.toml").write_text(
        '[network]\nfamily = "file"\nfile = "graph.edges"\n'
        f'[problem]\ndata = "file"\nfile = "data.csv"\n{problem}'
        f'[run]\nsteps = 200\nreplicas = 2\nstep_size = "theory"\n{run}'
        '[designs.walk]\nkind = "mhlj"\n[designs.custom]\nkind = "custom"\n'
        'target = "mixed"\nmix = 0.4\np_jump = 0.2\n'
        'distance = "power"\nmax_hops = 5\n[designs.switch]\nkind = "switching"\n'
        'first = { kind = "mhlj" }\n'
        'then = { kind = "unif_rw" }\nwindow = 20.0\npatience = 5\n'
    )
    done = levywalk("run", "elsewhere/own.toml", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout)["designs"]) == {"walk", "custom", "switch"}


@pytest.mark.more
def test_ctrl_c_keeps_what_was_done_and_exits_130(experiment: Path) -> None:
    arguments = [
        "run",
        "experiment.toml",
        "--set",
        "run.steps=4000000000",
        "--set",
        "run.step_size=0.0001",
        "--set",
        "run.record_walk=false",
        "--set",
        "run.replicas=1",
        "--json",
    ]
    # The first measurement says when the walk is under way, so that the signal meets it there.
    code = (
        "import signal, sys\n"
        # a detached parent leaves it ignored
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from levywalk.cli.main import main\n"
        "from levywalk.engine.measure import Measure\n"
        "before = Measure.__call__\n"
        "def measured(self, seen, errors, column):\n"
        "    print('walking', file=sys.stderr, flush=True)\n"
        "    return before(self, seen, errors, column)\n"
        "Measure.__call__ = measured\n"
        "main()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        cwd=experiment.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert process.stderr.readline().strip() == "walking"
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, err
    assert out == ""
    assert err.endswith("Interrupted. Run the same command again to resume.\n")
