"""Sweeps: a checked grid, the numbers of `levywalk run` at every point, and nothing run twice."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

import levywalk as lw
from levywalk.experiments.spec import check_experiment
from levywalk.report.figures.sweep import plot_sweep
from levywalk.sweeps import sweep as module
from levywalk.sweeps.store import ResultStore
from levywalk.sweeps.sweep import EXAMPLE, Sweep, read_sweep, run_sweep, write_sweep

BASE = """
[network]
family = "ring"
n = 20
[problem]
data = "heterogeneous"
important = 2
[run]
steps = 400
replicas = 4
accuracy = 0.5
step_size = "theory"
[designs.UnifRW]
kind = "unif_rw"
[designs."my walk"]
kind = "mhlj"
"""


def sweep_of(folder: Path, table: str, base: str = BASE) -> Sweep:
    path = folder / "sweep.toml"
    path.write_text(f"{base}\n[sweep]\n{table}\n")
    return read_sweep(path)


# --- the grid -------------------------------------------------------------------------------------


def test_the_grid_is_the_product_in_the_order_of_the_file(tmp_path: Path) -> None:
    sweep = sweep_of(tmp_path, '"network.n" = [20, 30]\n"run.seed" = [0, 1, 2]')
    assert [axis.key for axis in sweep.axes] == ["network.n", "run.seed"]
    assert [tuple(point.values.values()) for point in sweep.points] == [
        (n, s) for n in (20, 30) for s in (0, 1, 2)
    ]
    assert [(point.experiment.network.n, point.experiment.run.seed) for point in sweep.points] == [
        (n, s) for n in (20, 30) for s in (0, 1, 2)
    ]
    assert len(sweep.runs) == 12


@pytest.mark.parametrize(
    "spelling",
    [
        "'designs.\"my walk\".p_jump' = [0.1, 0.2]",
        'designs."my walk".p_jump = [0.1, 0.2]',
        "\"designs\".'my walk'.p_jump = [0.1, 0.2]",
    ],
)
def test_a_key_may_be_quoted_or_not(tmp_path: Path, spelling: str) -> None:
    sweep = sweep_of(tmp_path, spelling)
    assert [axis.key for axis in sweep.axes] == ['designs."my walk".p_jump']
    assert [point.experiment.designs["my walk"].p_jump for point in sweep.points] == [0.1, 0.2]


def test_a_key_that_the_file_leaves_out_and_whole_tables_can_be_swept(tmp_path: Path) -> None:
    networks = '[{ family = "ring", n = 9 }, { family = "grid", rows = 3, cols = 3 }]'
    sweep = sweep_of(tmp_path, f'"network" = {networks}\n"run.start" = ["uniform", "target"]')
    assert [
        (point.experiment.network.family, point.experiment.run.start) for point in sweep.points
    ] == [
        ("ring", "uniform"),
        ("ring", "target"),
        ("grid", "uniform"),
        ("grid", "target"),
    ]


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("", ["no table [sweep]", "--example"]),
        ('"network.m" = [1, 2]', ["network.m", "unknown key", "known here", "self_loops"]),
        (
            '"netwrk.n" = [1, 2]',
            ["line 19", "netwrk does not exist", "network, problem, run, designs"],
        ),
        ('"designs.MHLJ.p_jump" = [0.1]', ["designs.MHLJ does not exist", 'UnifRW, "my walk"']),
        ('"network.n.m" = [1]', ["network.n is not a table", "network has: family, n"]),
        ('"network.n" = [20, 0]', ["line 19", "network.n = 0", "[network]", "got 0"]),
        ('"network.n" = [20, "many"]', ["line 19", "network.n = many", "integer", "'many'"]),
        ("'designs.\"my walk\".p_jump' = [0.1, 1.5]", ["line 19", "p_jump = 1.5", "[0, 1]"]),
        ('"run.steps" = [10, -5]', ["run.steps = -5", "at least 1"]),
        ('"run.seed" = [0, -1]', ["run.seed = -1", "at least 0"]),
        ('"run.accuracy" = [0.5, 0.0]', ["run.accuracy = 0.0", "above 0"]),
        ('"run.step_size" = [{ UnifRW = 0.1 }]', ["step_size", "my walk"]),
        ('"run.seed" = 5', ["line 19", "list", "5"]),
        ('"run.seed" = []', ["list of at least one value"]),
        ('"run.seed" = [1, 2, 1]', ["1 twice"]),
        ('"run.seed" = [1979-05-27]', ["date(1979, 5, 27)"]),
        ('"run.threads" = [1, 2]', ["run.threads", "changes no result"]),
        ('"output.figure" = ["png", "pdf"]', ["output.figure", "changes no result"]),
        (
            '"network" = [{ family = "ring", n = 9 }]\n"network.n" = [5]',
            ["network.n and network set the same thing"],
        ),
        ('"a b" = [1]', ["not a dotted key", "a b"]),
        (
            f'"run.seed" = {list(range(400))}\n"network.n" = {list(range(3, 400))}',
            ["158,800 points", "100,000"],
        ),
    ],
)
def test_every_mistake_is_named_before_anything_runs(
    tmp_path: Path, table: str, words: list[str]
) -> None:
    with pytest.raises(lw.InvalidSpec) as caught:
        sweep_of(tmp_path, table)
    for word in words:
        assert word in str(caught.value), str(caught.value)


@pytest.mark.parametrize(
    ("content", "words"), [(b"\xff", "UTF-8"), (b"[network", "not valid TOML")]
)
def test_a_file_that_is_no_toml_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "bad.toml").write_bytes(content)
    with pytest.raises(lw.InvalidSpec, match=words):
        read_sweep(tmp_path / "bad.toml")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(lw.MissingFile, match="nowhere"):
        read_sweep(tmp_path / "nowhere.toml")


def test_the_example_is_a_sweep() -> None:
    assert len(read_sweep(EXAMPLE).points) == 12


# --- what is run ----------------------------------------------------------------------------------


def test_every_row_is_that_of_a_comparison_of_all_designs(tmp_path: Path) -> None:
    sweep = sweep_of(tmp_path, '"run.seed" = [0, 1]\n"run.step_size" = ["theory", "tuned"]')
    swept = run_sweep(sweep, ResultStore(tmp_path / "store"), workers=0)
    assert repr(swept).startswith("SweepResult(")
    assert swept._repr_html_().count("<tr>") == len(swept.rows)
    assert len(swept.rows) == 8
    for point in sweep.points:
        network, problem, designs = point.experiment.build(tmp_path)
        expected = lw.compare(network, problem, designs, **point.experiment.run.options()).table()
        for design in designs:
            (row,) = [
                r for r in swept.rows if r["design"] == design and r.items() >= point.values.items()
            ]
            assert {
                str(key): value for key, value in expected.loc[design].items()
            }.items() <= row.items()
            assert row["steps_to"] == row["steps_to_0.5"]


def test_a_design_that_a_key_does_not_touch_is_run_once(tmp_path: Path) -> None:
    sweep = sweep_of(tmp_path, "'designs.\"my walk\".p_jump' = [0.1, 0.2, 0.3]")
    assert (len(sweep.runs), len(set(sweep.keys()))) == (6, 4)


def test_a_step_size_of_another_design_is_no_part_of_a_run(tmp_path: Path) -> None:
    sizes = '[{ UnifRW = 0.001, "my walk" = 0.001 }, { UnifRW = 0.001, "my walk" = 0.002 }]'
    assert len(set(sweep_of(tmp_path, f'"run.step_size" = {sizes}').keys())) == 3


def test_an_extended_sweep_runs_only_what_is_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = []
    before = module.execute

    def counted(*arguments: Any, **options: Any) -> Any:
        count.append(1)
        return before(*arguments, **options)

    monkeypatch.setattr(module, "execute", counted)
    store = ResultStore(tmp_path / "store")
    first = run_sweep(sweep_of(tmp_path, '"run.seed" = [0, 1]'), store, workers=0)
    assert len(count) == 4
    again = run_sweep(sweep_of(tmp_path, '"run.seed" = [0, 1]'), store, workers=0)
    assert len(count) == 4
    assert again.rows == first.rows
    run_sweep(sweep_of(tmp_path, '"run.seed" = [1, 2, 0]'), store, workers=0)
    assert len(count) == 6
    run_sweep(
        sweep_of(tmp_path, '"run.seed" = [0]', BASE + '[output]\nfigure = "pdf"'), store, workers=0
    )
    assert len(count) == 6  # how it is drawn changes no run


def test_one_failing_point_leaves_the_others(tmp_path: Path) -> None:
    # the second is in pieces
    graphs = '[{ family = "ring", n = 20 }, { family = "erdos_renyi", n = 40, p = 0.01 }]'
    swept = run_sweep(
        sweep_of(tmp_path, f'"network" = {graphs}'), ResultStore(tmp_path / "store"), workers=0
    )
    assert [row["design"] for row in swept.rows] == ["UnifRW", "my walk"]
    assert len(swept.failures) == 2
    assert "erdos_renyi" in swept.failures[0].name
    assert "components" in swept.failures[0].why
    assert json.loads(json.dumps(swept.document()))["failures"][0]["why"] == swept.failures[0].why


def own_files(folder: Path, nodes: int = 12) -> Sweep:
    (folder / "graph.edges").write_text("\n".join(f"{i} {(i + 1) % nodes}" for i in range(nodes)))
    # One sample a node and ten features: the loop for them is compiled for other tests as well.
    rows = [[(i * k) % 7 + 0.5 for k in range(1, 11)] + [i % 2] for i in range(12)]
    (folder / "data.csv").write_text("\n".join(",".join(map(str, row)) for row in rows))
    base = BASE.replace('family = "ring"\nn = 20', 'family = "file"\nfile = "graph.edges"')
    base = base.replace('data = "heterogeneous"\nimportant = 2', 'data = "file"\nfile = "data.csv"')
    return sweep_of(folder, '"run.seed" = [0]', base)


def test_another_content_of_a_file_is_another_run(tmp_path: Path) -> None:
    store = ResultStore(tmp_path / "store")
    first = own_files(tmp_path)
    assert len(run_sweep(first, store, workers=0).rows) == 2
    assert own_files(tmp_path).keys() == first.keys()
    second = own_files(tmp_path, nodes=11)
    assert not set(second.keys()) & set(first.keys())
    swept = run_sweep(first, store, workers=0)  # stored; the file is not looked at again
    assert not swept.failures
    for key in first.keys():  # noqa: SIM118 (a list of keys)
        store.remove(key)
    swept = run_sweep(first, store, workers=0)
    assert "not the one that the sweep was started with" in swept.failures[0].why


@pytest.mark.more
def test_results_are_the_same_bytes_in_this_process_and_in_others(tmp_path: Path) -> None:
    sweep = sweep_of(tmp_path, '"run.seed" = [0, 1]')
    stores = [ResultStore(tmp_path / name) for name in ("here", "there")]
    for store, workers in zip(stores, (0, 1), strict=True):
        run_sweep(sweep, store, workers=workers)
    for key in sweep.keys():  # noqa: SIM118 (a list of keys)
        assert stores[0].path(key).read_bytes() == stores[1].path(key).read_bytes()


def test_an_interrupted_run_is_never_taken_for_a_finished_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = module.execute

    def interrupted(*arguments: Any, **options: Any) -> Any:
        raise lw.Interrupted(before(*arguments, **options))

    monkeypatch.setattr(module, "execute", interrupted)
    with pytest.raises(lw.Interrupted):
        run_sweep(
            sweep_of(tmp_path, '"run.seed" = [0]'), ResultStore(tmp_path / "store"), workers=0
        )
    assert not (tmp_path / "store").exists()


# --- what is written ------------------------------------------------------------------------------


def test_table_figure_and_json_are_written_and_agree(tmp_path: Path) -> None:
    import pandas as pd

    sweep = sweep_of(
        tmp_path, '\'designs."my walk".p_jump\' = [0.1, 0.5]\n"run.accuracy" = [0.5, 1e-9]'
    )
    swept = run_sweep(sweep, ResultStore(tmp_path / "store"), workers=0)
    files = write_sweep(swept, tmp_path)
    assert [path.name for path in files] == ["table.csv", "figure.png", "result.json"]
    table = pd.read_csv(tmp_path / "table.csv")
    assert len(table) == 8
    assert list(table.columns[:8]) == [
        'designs."my walk".p_jump',
        "run.accuracy",
        "design",
        "steps",
        "accuracy",
        "steps_to",
        "steps_to_low",
        "steps_to_high",
    ]
    document = json.loads((tmp_path / "result.json").read_text())
    assert document["axes"] == {'designs."my walk".p_jump': [0.1, 0.5], "run.accuracy": [0.5, 1e-9]}
    for row, (_, line) in zip(document["rows"], table.iterrows(), strict=True):
        assert row["steps_to"] == (None if math.isinf(line["steps_to"]) else line["steps_to"])
        assert row["design"] == line["design"]
        assert (row["steps_to"] is None) == (row["run.accuracy"] == 1e-9)
    check_experiment(document["settings"])


@pytest.mark.parametrize(
    ("values", "scale"),
    [([10, 2000], "log"), ([10, 20], "linear"), (["a", "b"], "linear"), ([True, False], "linear")],
)
def test_the_figure_has_a_panel_per_value_of_the_second_key(values: list[Any], scale: str) -> None:
    drawn = [
        {
            "x": x,
            "y": y,
            "design": design,
            "accuracy": 0.1,
            "steps_to": 50.0,
            "steps_to_low": 40.0,
            "steps_to_high": high,
        }
        for x in values
        for y in (1, 2, 3)
        for design, high in (("one", 60.0), ("two", math.inf))
    ]
    figure = plot_sweep(drawn, ["x", "y"])
    assert [axes.get_title() for axes in figure.axes] == ["y = 1", "y = 2", "y = 3"]
    assert {axes.get_xscale() for axes in figure.axes} == {scale}
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["one", "two"]


def test_the_line_goes_through_the_median_and_is_broken_where_it_was_not_reached() -> None:
    common = {"design": "one", "accuracy": 0.1, "steps_to_low": 1.0, "steps_to_high": math.inf}
    steps = {1: [100.0, 400.0], 2: [100.0, math.inf], 3: [10.0, 20.0]}
    drawn = [
        common | {"x": x, "y": 0, "seed": seed, "steps_to": value}
        for x, found in steps.items()
        for seed, value in enumerate(found)
    ]
    figure = plot_sweep(drawn, ["x", "y", "seed"])
    line = next(line for line in figure.axes[0].lines if line.get_label() == "one")
    first, second, _ = line.get_ydata()
    assert first == pytest.approx(200.0)
    assert math.isnan(second)


def test_a_figure_of_nothing_reached_can_be_drawn(tmp_path: Path) -> None:
    common = {"design": "one", "accuracy": 0.1, "steps_to_low": math.inf, "steps_to_high": math.inf}
    plot_sweep([common | {"x": 1, "steps_to": math.inf}], ["x"], path=tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 1000
