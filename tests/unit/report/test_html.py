from __future__ import annotations

import json
import math
import re
import tomllib
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import levywalk as lw
from levywalk import Comparison
from levywalk.errors import InvalidTrace, MissingFile
from levywalk.experiments.execute import write_results
from levywalk.experiments.folder_report import write_report
from levywalk.experiments.spec import check_experiment
from levywalk.report.curves import MOST_POINTS, curve
from levywalk.report.experiment_toml import toml
from levywalk.report.page.build import claims_page, html_page
from levywalk.report.page.summary import csv_lines, latex, latex_lines
from levywalk.report.page.verdict import ratio_interval, transfers_to, verdict

HOSTILE = '</script><img src=x onerror="alert(1)"> {{script}} & \\end{tabular} \ud800'
DESIGNS = {"UnifRW": lw.unif_rw(), "MHLJ": lw.mhlj(), "server": lw.iid_weighted()}
SETTINGS = {
    "network": {"family": "ring", "n": 40},
    "problem": {"data": "heterogeneous", "important": 1, "dim": 3},
    "designs": {
        "UnifRW": {"kind": "unif_rw"},
        "MHLJ": {"kind": "mhlj"},
        "server": {"kind": "iid_weighted"},
    },
    "run": {"steps": 2000, "replicas": 6, "accuracy": 0.3, "step_size": "theory"},
}


def compared(**changes: Any) -> Comparison:
    options: dict[str, Any] = {
        "steps": 2000,
        "replicas": 6,
        "accuracy": 0.3,
        "step_size": "theory",
    } | changes
    designs = options.pop("designs", DESIGNS)
    return lw.compare(lw.ring(40), lw.heterogeneous(40, important=1, dim=3), designs, **options)


@pytest.fixture(scope="module")
def found() -> Comparison:
    return compared()


@pytest.fixture
def folder(found: Comparison, tmp_path: Path) -> Path:
    settings = check_experiment(SETTINGS).model_dump(mode="json")
    write_results(replace(found, settings=settings), tmp_path, figure="none")
    return tmp_path


class Elements(HTMLParser):
    """Collects the elements of a page and checks that they close."""

    VOID = frozenset({"meta", "link", "input", "img", "br"})

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def data_of(page: str) -> dict[str, Any]:
    (text,) = re.findall(
        r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL
    )
    content: dict[str, Any] = json.loads(text)
    return content


def test_a_page_is_one_file_that_asks_for_nothing(folder: Path) -> None:
    (path,) = write_report(folder)
    page = path.read_text()
    assert path == folder / "report.html"
    assert path.stat().st_size < 300_000
    elements = Elements(page)
    assert [
        attrs
        for tag, attrs in elements.tags
        if "src" in attrs or tag in ("iframe", "img", "object", "base")
    ] == []
    assert [attrs["href"] for _, attrs in elements.tags if "href" in attrs] == ["data:,"]
    assert "@import" not in page
    assert "url(" not in page.replace("url(#inside)", "")
    (rule,) = [
        attrs["content"]
        for _, attrs in elements.tags
        if attrs.get("http-equiv") == "Content-Security-Policy"
    ]
    assert rule is not None
    assert rule.startswith("default-src 'none'")
    assert "unsafe" not in rule


def test_ids_are_unique_and_labels_point_at_something(folder: Path) -> None:
    elements = Elements(write_report(folder)[0].read_text())
    ids = [attrs["id"] for _, attrs in elements.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    for _, attrs in elements.tags:
        assert attrs.get("aria-labelledby", ids[0]) in ids


def test_curves_in_the_page_are_the_traces(found: Comparison, folder: Path) -> None:
    data = data_of(write_report(folder)[0].read_text())
    assert [line["name"] for line in data["curves"]] == list(found.traces)
    for line in data["curves"]:
        trace = found.traces[line["name"]]
        at = np.searchsorted(trace.step, line["steps"])
        np.testing.assert_array_equal(trace.step[at], line["steps"])
        np.testing.assert_allclose(line["mean"], trace.error.mean(axis=0)[at], rtol=1e-6)
        np.testing.assert_allclose(line["median"], np.median(trace.error, axis=0)[at], rtol=1e-6)
        np.testing.assert_allclose(line["transfers"], trace.transfers.mean(axis=0)[at], rtol=1e-6)
        np.testing.assert_allclose(line["hops"], trace.hops.mean(axis=0)[at], rtol=1e-6)
        assert (np.array(line["low"]) <= np.array(line["mean"]) * (1 + 1e-6)).all()
        assert (np.array(line["high"]) >= np.array(line["mean"]) * (1 - 1e-6)).all()
        reached = trace.steps_to(0.3)
        assert (line["reached"] is None) == math.isinf(reached)
        if line["reached"] is not None:
            assert line["steps"][line["reached"]] == reached


def test_long_curves_are_thinned_and_keep_their_ends_and_the_crossing() -> None:
    trace = compared(record_every=1, designs={"server": lw.iid_weighted()}, step_size=1e-3).traces[
        "server"
    ]
    points = curve("server", trace, trace.error, 0.3)
    assert len(points.mean) <= MOST_POINTS
    assert points.x["steps"][0] == 0
    assert points.x["steps"][-1] == 2000
    assert points.reached is not None
    assert points.x["steps"][points.reached] == trace.steps_to(0.3)


@pytest.mark.filterwarnings("ignore::levywalk.errors.DivergedWarning")
def test_a_diverged_design_is_infinite_and_said_to_be() -> None:
    mine = compared(step_size={"UnifRW": 1e-3, "MHLJ": 1e3, "server": 1e-3}, accuracy=0.9)
    page = html_page(mine, command="x")
    line = next(line for line in data_of(page)["curves"] if line["name"] == "MHLJ")
    assert line["mean"][-1] is None
    assert any("6 of 6 walks of MHLJ diverged" in sentence for sentence in verdict(mine))


# --- the verdict ----------------------------------------------------------------------------------


def with_steps(mine: Comparison, **steps: tuple[float, float, float]) -> Comparison:
    """The same comparison, had it taken these steps."""
    rows = {
        name: row
        | dict(
            zip(("steps_to_0.3", "steps_to_0.3_low", "steps_to_0.3_high"), steps[name], strict=True)
        )
        for name, row in mine.rows.items()
    }
    mine = replace(mine)
    mine.__dict__["rows"] = rows
    return mine


def test_verdict_names_the_first_walk_and_the_server_apart() -> None:
    mine = with_steps(
        compared(),
        UnifRW=(400.0, 350.0, 450.0),
        MHLJ=(200.0, 150.0, 250.0),
        server=(50.0, 50.0, 60.0),
    )
    first, second, *rest = verdict(mine)
    assert first.startswith(
        "MHLJ reached 30 % of the initial error first, after 200 [150, 250] steps: 2 times ["
    )
    assert first.endswith("fewer than UnifRW, the next, with 400 [350, 450].")
    assert second == "The two 95 % intervals do not overlap."
    assert "a server that samples nodes freely (server) needs 50 [50, 60] steps" in " ".join(rest)


def test_verdict_says_when_the_intervals_overlap() -> None:
    mine = with_steps(
        compared(),
        UnifRW=(210.0, 150.0, 450.0),
        MHLJ=(200.0, 150.0, 250.0),
        server=(50.0, 50.0, 60.0),
    )
    assert "intervals overlap" in verdict(mine)[1]


def test_verdict_is_honest_about_what_was_not_reached() -> None:
    never = (math.inf, math.inf, math.inf)
    mine = with_steps(compared(), UnifRW=never, MHLJ=(200.0, 150.0, math.inf), server=never)
    text = " ".join(verdict(mine))
    assert (
        "MHLJ reached 30 % of the initial error first, after 200 [150, ∞] steps; no other walk "
        "reached it" in text
    )
    assert "Not reached within 2,000 steps: UnifRW (" in text
    assert "(server) did not reach it within 2,000 steps" in text
    nobody = verdict(with_steps(compared(), UnifRW=never, MHLJ=never, server=never))
    assert nobody[0].startswith("No walk reached 30 % of the initial error within 2,000 steps; ")


def test_verdict_of_one_walk_claims_no_interval() -> None:
    mine = with_steps(
        compared(replicas=1),
        UnifRW=(400.0, 400.0, 400.0),
        MHLJ=(200.0, 200.0, 200.0),
        server=(5.0, 5.0, 5.0),
    )
    first, second, *_ = verdict(mine)
    assert "2 times fewer" in first
    assert "[" not in first
    assert "one walk of each design" in second


def test_the_factor_of_a_design_over_itself_is_one(found: Comparison) -> None:
    trace = found.traces["server"]
    assert math.isfinite(trace.steps_to(0.3))
    curve = trace.step, trace.error
    assert ratio_interval(curve, curve, 0.3) == (1.0, 1.0)


def test_a_factor_that_no_walk_defines_is_unbounded(found: Comparison) -> None:
    trace = found.traces["server"]
    curve = trace.step, trace.error
    assert ratio_interval(curve, curve, 1e-30) == (0.0, math.inf)


def test_transfers_to_an_accuracy_are_those_at_its_checkpoint(found: Comparison) -> None:
    trace = found.traces["server"]
    at = list(trace.step).index(trace.steps_to(0.3))
    assert transfers_to(found, "server") == trace.transfers[:, at].mean()
    assert transfers_to(replace(found, accuracy=1e-30), "server") == math.inf


# --- hostile and damaged input --------------------------------------------------------------------


def test_hostile_names_stay_text_everywhere() -> None:
    mine = compared(designs={HOSTILE: lw.mhlj(), "plain": lw.unif_rw()})
    keys = ("id", "label", "verdict", "effect", "interval", "where")
    claims: list[dict[str, Any]] = [dict.fromkeys(keys, HOSTILE)]
    settings = {"designs": {HOSTILE: {"kind": HOSTILE}}, HOSTILE: {HOSTILE: HOSTILE}}
    page = html_page(replace(mine, settings=settings), command=HOSTILE, claims=claims)
    elements = Elements(page)
    assert "img" not in {tag for tag, _ in elements.tags}
    assert [tag for tag, _ in elements.tags].count("script") == 2
    assert all(
        not key.startswith("on") and key != "style" for _, attrs in elements.tags for key in attrs
    )
    assert page.count("{{script}}") > 5  # not filled in
    assert data_of(page)["curves"][0]["name"] == HOSTILE


def test_latex_and_csv_of_a_hostile_name_keep_their_shape() -> None:
    mine = compared(designs={'a,b\n"c" & 50 %_$#{}~^\\': lw.mhlj(), "plain": lw.unif_rw()})
    table = latex_lines(mine)
    columns = table["head"].split("{")[2].split("}")[0].count("r") + 1
    for row in table["rows"]:
        assert len(re.findall(r"(?<!\\)&", row)) == columns - 1
        assert row.endswith(" \\\\\n")
    import csv

    lines = csv_lines(mine)
    parsed = list(csv.reader((lines["head"] + "".join(lines["rows"])).splitlines(keepends=True)))
    assert parsed[1][0] == 'a,b\n"c" & 50 %_$#{}~^\\'
    assert {len(row) for row in parsed} == {len(parsed[0])}


def test_latex_escapes_every_special_sign() -> None:
    assert latex("&%$#_{}") == r"\&\%\$\#\_\{\}"


def test_csv_equals_table_csv(found: Comparison) -> None:
    lines = csv_lines(found)
    assert lines["head"] + "".join(lines["rows"]) == found.table().to_csv()


def test_the_experiment_in_the_page_reads_back_as_the_same(folder: Path) -> None:
    settings = json.loads((folder / "result.json").read_text())["settings"]
    settings["designs"]['odd "name" ü.1'] = {
        "kind": "mhlj",
        "schedule": {"kind": "decaying", "initial": 1e-5, "timescale": 3.0},
    }
    wanted = check_experiment(settings)
    assert check_experiment(tomllib.loads(toml(wanted.model_dump(mode="json")))) == wanted


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda folder: (folder / "result.json").unlink(), ["result.json", "levywalk run"]),
        (lambda folder: (folder / "result.json").write_text("{"), ["result.json", "JSON"]),
        (lambda folder: (folder / "result.json").write_text("[]"), ["result.json", "object"]),
        (lambda folder: (folder / "result.json").write_text("{}"), ["accuracy"]),
        (lambda folder: (folder / "result.json").write_bytes(b"\xff\xfe\x00"), ["result.json"]),
        (lambda folder: (folder / "MHLJ.nc").unlink(), ["MHLJ", "traces = true"]),
        (lambda folder: (folder / "MHLJ.nc").write_bytes(b"no"), ["MHLJ.nc", "not a trace"]),
        (
            lambda folder: (folder / "claims.json").write_text('{"claims": 3}'),
            ["claims.json", "reproduce"],
        ),
    ],
)
def test_a_damaged_folder_is_refused_with_what_is_wrong(
    folder: Path, damage: Any, words: list[str]
) -> None:
    damage(folder)
    with pytest.raises((InvalidTrace, MissingFile)) as caught:
        write_report(folder)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value"), [("step_size", "big"), ("steps_to_0.3", [1]), ("steps_to_x", 1.0)]
)
def test_a_result_that_holds_no_numbers_is_refused(folder: Path, key: str, value: Any) -> None:
    document = json.loads((folder / "result.json").read_text())
    document["designs"]["MHLJ"][key] = value
    (folder / "result.json").write_text(json.dumps(document))
    with pytest.raises(InvalidTrace, match=re.escape(key)):
        Comparison.load(folder)


def test_a_trace_of_another_run_is_refused_and_others_are_ignored(folder: Path) -> None:
    other = compared(seed=5)
    other.traces["UnifRW"].save(folder / "older.nc")
    assert isinstance(Comparison.load(folder), Comparison)
    other.traces["MHLJ"].save(folder / "MHLJ.nc")
    with pytest.raises(InvalidTrace, match="another run"):
        Comparison.load(folder)


# --- theory, claims, figures ----------------------------------------------------------------------


def test_theory_stands_beside_the_numbers_where_the_settings_are_there(folder: Path) -> None:
    page = write_report(folder)[0].read_text()
    assert "right spectral gap" in page
    gap = lw.spectral_gap(
        lw.transition(lw.ring(40), lw.heterogeneous(40, important=1, dim=3), lw.mhlj())
    ).value
    assert f"<td>{gap:.3g}</td>" in page


def test_theory_is_left_out_with_a_reason(folder: Path) -> None:
    document = json.loads((folder / "result.json").read_text())
    document["settings"]["network"]["n"] = 50
    (folder / "result.json").write_text(json.dumps(document))
    assert (
        "Left out: the network that the settings give now is not the one that was run"
        in write_report(folder)[0].read_text()
    )
    document["settings"] = {}
    (folder / "result.json").write_text(json.dumps(document))
    page = write_report(folder)[0].read_text()
    assert "does not hold the experiment" in page
    assert "right spectral gap" not in page


def test_claims_become_a_table_beside_results_and_alone(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    claims = [
        {
            "id": 3,
            "label": "simentrap",
            "verdict": "holds",
            "effect": 0.41234,
            "interval": [0.3, None],
            "where": "ring",
        },
        {
            "id": 8,
            "label": "mixeddist",
            "verdict": "holds in part",
            "effect": "mixed",
            "interval": None,
            "where": None,
        },
    ]
    (folder / "claims.json").write_text(json.dumps({"claims": claims, "more": 1}))
    alone = tmp_path_factory.mktemp("claims")
    (alone / "claims.json").write_text(json.dumps({"claims": claims}))
    for place in (folder, alone):
        page = write_report(place)[0].read_text()
        Elements(page)
        for text in ("simentrap", "holds in part", "0.412", "[0.3, ∞]", "1 holds, 1 holds in part"):
            assert text in page
    assert claims_page([]) != ""


def test_where_a_claim_holds_is_told_in_words_or_counted_and_opened() -> None:
    point = {
        "where": "a point with a long name, such as WeightRW/UnifRW on ring to 0.03",
        "primary": True,
    }
    points = [point | {"answer": answer} for answer in ("yes", "no", "yes")] + [
        point | {"answer": "no", "primary": False}
    ]
    claim = {
        "id": 1,
        "label": "homo",
        "verdict": "holds in part",
        "where": "; ".join([point["where"]] * 3),
    }
    page = claims_page([claim | {"points": points}])
    assert "<summary>yes at 2 of 3; 1 no</summary>" in page
    assert "<li><b>no</b>: a point with a long name" in page
    assert "yes at" not in claims_page([claim | {"where": "everywhere", "points": points}])


@pytest.mark.more
def test_figures_are_a_column_wide_with_fonts_embedded(folder: Path) -> None:
    from PIL import Image

    files = write_report(folder, figures=True)
    names = {path.name for path in files}
    wanted = {
        f"{stem}.{kind}"
        for stem in ("error-steps", "error-hops", "error-transfers", "visits")
        for kind in ("pdf", "png")
    }
    assert names == wanted | {"report.html"}
    with Image.open(folder / "error-steps.png") as image:
        assert image.width == round(3.4 * 400)
    pdf = (folder / "error-steps.pdf").read_bytes()
    assert b"/FontFile2" in pdf
    assert b"/Type3" not in pdf
    assert b"/CreationDate" not in pdf


def test_the_page_may_go_elsewhere_but_not_nowhere(folder: Path, tmp_path: Path) -> None:
    assert write_report(folder, tmp_path / "mine.html") == [tmp_path / "mine.html"]
    for place in (tmp_path / "no" / "mine.html", tmp_path):
        with pytest.raises(lw.LevywalkError, match="out must name a file"):
            write_report(folder, place)
