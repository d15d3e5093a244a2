"""``levywalk report`` and the demo's report as a user types them; each call is a real process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.cli.test_command import SMALL, levywalk


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    (folder / "experiment.toml").write_text(levywalk("run", "--example", cwd=folder).stdout)
    done = levywalk("run", "experiment.toml", *SMALL, "--out", "out", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_report_writes_one_page_into_the_folder(place: Path) -> None:
    done = levywalk("report", "out", cwd=place)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"Written: {Path('out') / 'report.html'}\n"
    page = (place / "out" / "report.html").read_text()
    for text in ("Verdict", "copy as LaTeX", "right spectral gap", "levywalk run experiment.toml --out out"):
        assert text in page
    assert str(place) not in page


def test_report_elsewhere_with_figures(place: Path, tmp_path: Path) -> None:
    done = levywalk("report", "out", "--out", str(tmp_path / "page.html"), "--figures", cwd=place)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "page.html").exists()
    assert len(list(tmp_path.glob("*.pdf"))) == len(list(tmp_path.glob("*.png"))) == 4


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], ["nowhere", "levywalk run"]),
        (["."], ["result.json", "levywalk run"]),
        (["out", "--out", "no/where.html"], ["where.html", "folder that exists"]),
        ([], ["DIR"]),
    ],
)
def test_bad_input_names_the_value_and_the_remedy(place: Path, arguments: list[str], words: list[str]) -> None:
    done = levywalk("report", *arguments, cwd=place)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    for word in words:
        assert word in done.stderr


def test_a_damaged_result_is_named(place: Path, tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text(json.dumps({"accuracy": 0.1, "designs": {"MHLJ": {}}}))
    done = levywalk("report", str(tmp_path), cwd=place)
    assert done.returncode == 2
    assert "'MHLJ'" in done.stderr
    assert "damaged" in done.stderr


def test_the_demo_writes_its_report_and_says_so(tmp_path: Path) -> None:
    from levywalk.experiments.demo import demo, write_demo_report

    path = write_demo_report(demo(7, steps=2000, replicas=3), tmp_path, 7)
    page = path.read_text()
    assert path == tmp_path / "report.html"
    assert "levywalk demo --seed 7" in page
    assert "levywalk inspect ring:1000 --important 2 --seed 7" in page
