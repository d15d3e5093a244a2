"""The five paths of docs/own-data.md: files to a verdict, by the command line and in Python."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import typer.main

import levywalk as lw
from levywalk.cli.main import app
from tests.forked import levywalk

DATA = Path(__file__).parents[1] / "data"
OWN = DATA / "own"
DESIGNS = {"UnifRW": lw.unif_rw(), "WeightRW": lw.weight_rw(), "MHLJ": lw.mhlj()}
SHORT = ["--steps", "400", "--replicas", "3", "--step-size", "theory", "--accuracy", "0.3"]


def by_command(folder, *arguments):
    done = levywalk("compare", *map(str, arguments), *SHORT, "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["designs"], done.stderr


def in_python(network, problem):
    found = lw.compare(
        network,
        problem,
        DESIGNS,
        steps=400,
        replicas=3,
        step_size="theory",
        accuracy=0.3,
        record_every=1,
        record_walk=True,
    )
    return json.loads(json.dumps(found.document()))["designs"]


def assert_same_numbers(command, python):
    assert set(command) == set(python) == set(DESIGNS)
    for name in DESIGNS:
        one, other = dict(command[name]), dict(python[name])
        del one["provenance"], other["provenance"]
        assert one == other


def quietly(make):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lw.DataWarning)
        return make()


@pytest.mark.more
def test_an_edge_list_and_a_csv_file(tmp_path):
    command, said = by_command(tmp_path, OWN / "grid.edges", "--data", OWN / "sensors.csv")
    assert said.count("60 samples; line 1 counts the columns and was taken as the header") == 1
    network = lw.read_network(OWN / "grid.edges")
    data = quietly(lambda: lw.read_data(OWN / "sensors.csv"))
    node = lw.partition(data.features, data.targets, network.n)
    assert_same_numbers(
        command, in_python(network, lw.LeastSquares(data.features, data.targets, node=node))
    )


@pytest.mark.more
def test_graphml_and_libsvm(tmp_path):
    options = ["--loss", "logistic", "--ridge", "0.1", "--partition", "label"]
    options += ["--index-base", "0", "--labels", "1,2", "--intercept"]
    arguments = (OWN / "hosts.graphml", "--data", OWN / "spam.svm", *options)
    command, said = by_command(tmp_path, *arguments)
    assert "6 of 18 arcs have no reverse: read as undirected" in said
    network = quietly(lambda: lw.read_network(OWN / "hosts.graphml"))
    data = lw.read_data(OWN / "spam.svm", index_base=0, labels=(1, 2), intercept=True)
    node = lw.partition(data.features, data.targets, network.n, how="label")
    problem = lw.Logistic(data.features, data.targets, node=node, ridge=0.1)
    assert_same_numbers(command, in_python(network, problem))
    refused = levywalk("compare", *map(str, arguments), "--directed", "error", cwd=tmp_path)
    assert refused.returncode == 2
    assert "--directed symmetrise" in refused.stderr


@pytest.mark.more
def test_a_data_frame_and_a_networkx_graph(tmp_path):
    graph = nx.path_graph(["a", "b", "c", "d"])
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "where": rng.choice(list("abcd"), 40),
            "x": rng.normal(size=40),
            "z": rng.normal(size=40),
        }
    )
    frame["y"] = 3 * frame["x"] - frame["z"] + rng.normal(size=40)
    network, data = lw.as_network(graph), lw.read_data(frame, node="where", standardise=True)
    problem = lw.LeastSquares(data.features, data.targets, node=data.nodes_of(network))
    nx.write_edgelist(graph, tmp_path / "net.edges", data=False)
    frame.to_csv(tmp_path / "data.csv", index=False)
    command, _ = by_command(
        tmp_path, "net.edges", "--data", "data.csv", "--node", "where", "--standardise"
    )
    assert_same_numbers(command, in_python(graph, problem))


@pytest.mark.more
def test_labelled_nodes_with_a_join(tmp_path):
    arguments = (OWN / "flights.csv", "--data", OWN / "towns.csv", "--node", "town")
    refused = levywalk("compare", *map(str, arguments), *SHORT, cwd=tmp_path)
    assert refused.returncode == 2
    assert "2 nodes of the network have no sample: 'Lima', 'Quito'" in refused.stderr
    options = ("--largest-component", "--standardise", "--intercept")
    command, said = by_command(tmp_path, *arguments, *options)
    assert "48 samples; line 1 is the header; target 'price'; node 'town'" in said
    assert "dropped 7 weights" in said
    network = quietly(lambda: lw.read_network(OWN / "flights.csv", largest_component=True))
    data = lw.read_data(OWN / "towns.csv", node="town", standardise=True, intercept=True)
    node = data.nodes_of(network)
    names = {network.names[v] for v in node}
    assert names == {"Bergen", "Oslo", "New York", "Rio de Janeiro", "Kyoto", "Zürich"}
    problem = lw.LeastSquares(data.features, data.targets, node=node)
    assert_same_numbers(command, in_python(network, problem))


@pytest.mark.more
def test_one_big_data_set_cut_over_the_nodes(tmp_path):
    options = ["--largest-component", "--loss", "logistic", "--ridge", "0.01"]
    edges, samples = DATA / "p2p-Gnutella08.edges.gz", DATA / "a9a.t.svm.gz"
    command, _ = by_command(
        tmp_path, edges, "--data", samples, *options, "--partition", "dirichlet"
    )
    network = lw.read_network(edges, largest_component=True)
    features, targets = lw.load_dataset(samples)
    node = lw.partition(features, targets, network.n, how="dirichlet")
    problem = lw.Logistic(features, targets, node=node, ridge=0.01)
    assert_same_numbers(command, in_python(network, problem))


@pytest.mark.more
def test_options_override_an_experiment_file_and_are_written(tmp_path):
    arguments = (OWN / "grid.edges", "--data", OWN / "sensors.csv", "--out", "first")
    by_command(tmp_path, *arguments)
    changed = levywalk(
        "run", "first/experiment.toml", "--ridge", "0.5", "--standardise", "--json",
        "--out", "second", cwd=tmp_path,
    )  # fmt: skip
    assert changed.returncode == 0, changed.stderr
    text = (tmp_path / "second" / "experiment.toml").read_text()
    assert "ridge = 0.5" in text
    assert "standardise = true" in text
    again = levywalk("run", "second/experiment.toml", "--json", "--out", "third", cwd=tmp_path)
    one, other = json.loads(changed.stdout)["designs"], json.loads(again.stdout)["designs"]
    assert_same_numbers(one, other)
    direct, _ = by_command(tmp_path, *arguments[:-2], "--ridge", "0.5", "--standardise")
    assert_same_numbers(one, direct)


@pytest.mark.parametrize(
    "command", ["run", "compare", "inspect", "sweep", "fleet init", "fleet simulate"]
)
def test_every_command_has_the_same_options(command):
    found = typer.main.get_command(app)
    for name in command.split():
        found = found.commands[name]
    known = {word for entry in found.params for word in (*entry.opts, *entry.secondary_opts)}
    assert known >= {
        "--largest-component", "--network-format", "--node-base", "--directed", "--target",
        "--node", "--idle", "--features", "--header", "--no-header", "--data-format",
        "--index-base", "--labels", "--intercept", "--standardise", "--partition", "--ridge",
        "--loss",
    }  # fmt: skip
