"""Options laid over the sections of an experiment file."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
import typer

from levywalk.cli.source_options import with_source_options
from levywalk.errors import InvalidParameter
from levywalk.experiments.experiment_file import changed_experiment
from levywalk.experiments.sources import DATA_OPTIONS, NETWORK_OPTIONS, with_options
from levywalk.experiments.spec import check_experiment
from levywalk.report.experiment_toml import toml

CONTENT = {
    "network": {"family": "file", "file": "net.txt"},
    "problem": {"data": "file", "file": "data.csv", "ridge": 0.1, "partition": "label"},
    "designs": {"any": {"kind": "unif_rw"}},
    "run": {"steps": 1},
}


def test_options_override_the_file_and_survive_writing(tmp_path, monkeypatch):
    (tmp_path / "net.txt").write_text("a b\nb c\nx y\n")
    (tmp_path / "data.csv").write_text("n,u,y\na,1,2\nb,3,4\nc,5,6\n")
    content = with_options(
        CONTENT, {"largest_component": True}, {"node": "n", "ridge": 0.5, "intercept": True}
    )
    assert "partition" not in content["problem"]  # a node column takes its place
    _, problem, _ = check_experiment(content).build(tmp_path)
    assert (problem.n, problem.dim, problem.ridge) == (3, 2, 0.5)
    monkeypatch.chdir(tmp_path)
    written = tomllib.loads(toml(changed_experiment(content, Path(), Path("out", "new"))))
    assert written["network"]["file"] == "../../net.txt"
    assert written["output"]["folder"] == str(Path("out", "new"))
    (tmp_path / "out" / "new").mkdir(parents=True)
    _, again, _ = check_experiment(written).build(tmp_path / "out" / "new")
    assert again.fingerprint() == problem.fingerprint()


def test_a_family_can_be_cut_to_its_largest_component():
    content = {
        **CONTENT,
        "network": {"family": "erdos_renyi", "n": 60, "p": 0.02},
        "problem": {"data": "homogeneous"},
    }
    network, problem, _ = check_experiment(
        with_options(content, {"largest_component": True}, {})
    ).build(Path())
    network.require_connected()
    assert problem.n == network.n < 60


def test_options_that_do_not_fit_are_named():
    drawn = {
        **CONTENT,
        "network": {"family": "ring", "n": 5},
        "problem": {"data": "homogeneous"},
    }
    with pytest.raises(InvalidParameter, match="--node-base belong to a network file"):
        with_options(drawn, {"node_base": 1}, {})
    with pytest.raises(InvalidParameter, match="--target belong to a data file"):
        with_options(drawn, {}, {"target": "y"})


def test_every_option_of_the_commands_is_known_by_the_name_that_is_typed():
    """An error names the option of a key; the two tables of names must not drift apart."""
    probe = typer.Typer()
    probe.command()(with_source_options(lambda sources: None))
    typed = {one.name: one.opts[0] for one in typer.main.get_command(probe).params}
    known = {f"network_{key}": name for key, name in NETWORK_OPTIONS.items()}
    known |= {f"data_{key}": name for key, name in DATA_OPTIONS.items()}
    assert {name: option for name, option in typed.items() if "completion" not in name} == known
