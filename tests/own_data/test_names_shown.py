"""Names of nodes are shown wherever a result speaks of a node."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from typer.testing import CliRunner

import levywalk as lw
from levywalk.cli.main import app
from levywalk.experiments.inspect import inspect
from levywalk.fleet.setup.read_fleet import fleet_of
from levywalk.trace.tables import comparison_text

OWN = Path(__file__).parents[1] / "data" / "own"
TOWNS = ["Oslo", "Moss", "Skien", "Hamar", "Gjøvik", "<b>", "Halden", "Askim"]


@pytest.fixture(scope="module")
def parts() -> tuple[lw.Network, lw.LeastSquares]:
    network = lw.as_network(nx.cycle_graph(TOWNS))
    rng = np.random.default_rng(0)
    features = rng.normal(size=(8, 2))
    features[1] *= 10.0
    return network, lw.LeastSquares(features, rng.normal(size=8))


def test_traces_keep_names(parts: tuple[lw.Network, lw.LeastSquares], tmp_path: Path) -> None:
    trace = lw.run(
        *parts, lw.weight_rw(), steps=200, step_size="theory", replicas=2, backend="reference"
    )
    again = lw.load_trace(trace.save(tmp_path / "trace.nc"))
    assert again.node_names == trace.node_names == tuple(TOWNS)
    assert again.summary()["busiest_name"] == "Moss"
    assert "1 (&#x27;Moss&#x27;)" in again._repr_html_()
    assert again.to_xarray().node_name.to_numpy().tolist() == TOWNS
    plain = lw.run(
        lw.ring(8), parts[1], lw.weight_rw(), steps=9, step_size="theory", backend="reference"
    )
    assert plain.node_names is None
    assert plain.shown(3) == "3"
    walks = lw.walk(parts[0], lw.unif_rw(), steps=50)
    assert walks.summary()["busiest_name"] in TOWNS


def test_a_file_with_damaged_names_is_refused(
    parts: tuple[lw.Network, lw.LeastSquares], tmp_path: Path
) -> None:
    import h5py

    trace = lw.run(*parts, lw.unif_rw(), steps=9, step_size="theory", backend="reference")
    for i, wrong in enumerate((b'["a"]', b"{", b"[1,2,3,4,5,6,7,8]", b"\xff\xfe")):
        path = trace.save(tmp_path / f"{i}.nc")
        with h5py.File(path, "r+") as file:
            del file["node_names"]
            file["node_names"] = np.frombuffer(wrong, np.uint8)
        with pytest.raises(lw.InvalidTrace, match="names of the nodes"):
            lw.load_trace(path)


def test_theory_speaks_of_names(parts: tuple[lw.Network, lw.LeastSquares]) -> None:
    report = lw.entrapment(*parts, lw.weight_rw())
    assert "at node 1 ('Moss');" in report.sentence
    assert "node 1 (&#x27;Moss&#x27;)" in report._repr_html_()
    rows = {row["design"]: row for row in inspect(*parts, accuracy=0.3).rows()}
    assert rows["WeightRW"]["names"] == ["Moss"]
    (region,) = lw.entrapment(*parts, lw.weight_rw(), nodes=np.array([1, 2])).regions
    assert region.place == "the 2 nodes around 1 ('Moss')"


def test_comparisons_show_names(parts: tuple[lw.Network, lw.LeastSquares], tmp_path: Path) -> None:
    designs = {"WeightRW": lw.weight_rw(), "oldest": lw.oldest_neighbour()}
    given = {"steps": 100, "replicas": 2, "step_size": "theory"}
    result = lw.compare(*parts, designs, **given)
    headers, rows = comparison_text(result)
    assert rows[0][headers.index("busiest node: share (target)")].startswith("1 ('Moss'): ")
    asked = rows[1][headers.index("small messages per step")]
    assert float(asked) == pytest.approx(4.0, abs=0.1)  # two neighbours: question and answer
    result.save(tmp_path)
    table = list(csv.DictReader((tmp_path / "table.csv").open(encoding="utf-8")))
    assert table[0]["busiest_name"] == "Moss"
    again = lw.Comparison.load(tmp_path)
    assert again.rows == result.rows
    assert "1 (&#x27;Moss&#x27;)" in again._repr_html_()


@pytest.mark.more
def test_commands_show_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("flights.csv", "towns.csv"):
        shutil.copy(OWN / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    source = ["flights.csv", "--data", "towns.csv", "--node", "town", "--largest-component"]
    more = ["--standardise", "--intercept"]
    short = ["--steps", "50", "--replicas", "2", "--step-size", "theory", "--designs", "weight_rw"]
    with pytest.warns(lw.DataWarning):
        done = CliRunner().invoke(app, ["compare", *source, *more, *short])
    assert done.exit_code == 0, done.output
    folder = tmp_path / "levywalk-compare"
    row = json.loads((folder / "result.json").read_text())["designs"]["WeightRW"]
    shown = f"{row['busiest_node']} ('{row['busiest_name']}')"
    assert shown in done.stdout
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert f"node {shown}" in page.replace("&#x27;", "'")
    with pytest.warns(lw.DataWarning):
        judged = CliRunner().invoke(app, ["inspect", *source, *more, "--json"])
    found = json.loads(judged.stdout)["designs"]
    assert all(set(each["names"]) <= set(lw.Comparison.load(folder).traces["WeightRW"].node_names)
               for each in found)  # fmt: skip


@pytest.mark.more
def test_fleets_show_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "net.edges").write_text("Oslo Moss\nMoss [red]\n[red] Oslo\n")
    (tmp_path / "data.csv").write_text("who,a,y\nOslo,1,2\nMoss,3,4\n[red],2,1\n")
    monkeypatch.chdir(tmp_path)
    source = ["--data", "data.csv", "--node", "who", "--steps", "20"]
    done = CliRunner().invoke(app, ["fleet", "simulate", "net.edges", *source])
    assert done.exit_code == 0, done.output
    first = lw.load_trace(tmp_path / "levywalk-fleet" / "trace.nc")
    assert first.node_names == ("Moss", "Oslo", "[red]")
    events = json.loads((tmp_path / "levywalk-fleet" / "fleet.json").read_text())["events"]
    assert f"{events[0]['node']} ('{first.node_names[events[0]['node']]}')" in done.stdout
    made = CliRunner().invoke(app, ["fleet", "init", "--network", "net.edges", *source, "towns"])
    assert made.exit_code == 0, made.output
    assert 'name = "Oslo"' in (tmp_path / "towns" / "node-1" / "node.toml").read_text()
    assert fleet_of(tmp_path / "towns").network.names == first.node_names
    status = CliRunner().invoke(app, ["fleet", "status", "towns"])
    assert all(name in status.stdout for name in first.node_names), status.stdout
    rows = json.loads(CliRunner().invoke(app, ["fleet", "status", "towns", "--json"]).stdout)
    assert [row["name"] for row in rows["nodes"]] == list(first.node_names)
