"""A network of ten towns and data of seven: by the command line and in Python, the same numbers."""

from __future__ import annotations

import json

import pytest

import levywalk as lw
from tests.forked import levywalk
from tests.own_data.test_paths import OWN, SHORT, assert_same_numbers, by_command, in_python

FILES = (OWN / "towns-net.csv", "--data", OWN / "seven-towns.csv", "--node", "town")
IDLE = (*FILES, "--idle", "pass")


def the_problem():
    network = lw.read_network(OWN / "towns-net.csv")
    data = lw.read_data(OWN / "seven-towns.csv", node="town")
    node = data.nodes_of(network, idle="pass")
    return network, lw.LeastSquares(data.features, data.targets, node=node, idle="pass")


@pytest.mark.more
def test_data_of_seven_nodes_of_ten(tmp_path):
    refused = levywalk("compare", *map(str, FILES), *SHORT, cwd=tmp_path)
    assert refused.returncode == 2
    assert "3 nodes of the network have no sample: 'cox', 'fox', 'ivy'" in refused.stderr
    assert "let them pass the model on with --idle pass" in refused.stderr
    command, said = by_command(tmp_path, *IDLE)
    assert "3 of 10 nodes have no sample and pass the model on: 'cox', 'fox', 'ivy'" in said
    network, problem = the_problem()
    assert problem.n == 7
    held = ["ada", "bay", "dee", "elm", "gap", "hay", "jet"]
    assert [network.names[v] for v in problem.holders] == held
    assert_same_numbers(command, in_python(network, problem))


def test_in_python_the_remedy_works_too():
    network = lw.read_network(OWN / "towns-net.csv")
    data = lw.read_data(OWN / "seven-towns.csv", node="town")
    with pytest.raises(lw.InvalidData, match=r"idle='pass', given to nodes_of and to the problem"):
        data.nodes_of(network)
    node = data.nodes_of(network, idle="pass")
    with pytest.raises(lw.InvalidData, match=r"node 2 has no sample.*idle='pass'"):
        lw.LeastSquares(data.features, data.targets, node=node)
    with pytest.raises(lw.InvalidParameter, match="idle must be one of 'error', 'pass'"):
        data.nodes_of(network, idle="go on")


@pytest.mark.more
def test_the_written_experiment_and_inspect_keep_the_option(tmp_path):
    first = levywalk("compare", *map(str, IDLE), *SHORT, "--json", "--out", "one", cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    assert 'idle = "pass"' in (tmp_path / "one" / "experiment.toml").read_text()
    again = levywalk("run", "one/experiment.toml", "--json", "--out", "two", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert_same_numbers(json.loads(first.stdout)["designs"], json.loads(again.stdout)["designs"])
    seen = levywalk("inspect", *map(str, IDLE), "--json", cwd=tmp_path)
    assert seen.returncode == 0, seen.stderr
    assert "--idle pass" in json.loads(seen.stdout)["advice"][-1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--idle", "maybe"), "'maybe' is not one of 'error', 'pass'"),
        (("--partition", "iid", "--idle", "pass"), "--idle pass needs --node COLUMN"),
        (("--data", "homogeneous", "--idle", "pass"), "--idle belong to a data file"),
    ],
)
def test_wrong_uses_are_refused(tmp_path, arguments, said):
    refused = levywalk("compare", *map(str, FILES[:3]), *arguments, *SHORT, cwd=tmp_path)
    assert refused.returncode == 2
    assert said in refused.stderr
