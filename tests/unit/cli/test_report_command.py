"""``levywalk report`` and the demo's report as a user types them; each call is a real process."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.forked import levywalk
from tests.unit.cli.test_command import SMALL


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    (folder / "experiment.toml").write_text(levywalk("run", "--example", cwd=folder).stdout)
    done = levywalk("run", "experiment.toml", *SMALL, "--out", "out", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def page(place: Path) -> str:
    done = levywalk("report", "out", cwd=place)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"Written: {Path('out') / 'report.html'}\n"
    return (place / "out" / "report.html").read_text()


def test_report_writes_one_page_into_the_folder(place: Path, page: str) -> None:
    for text in (
        "Verdict",
        "copy as LaTeX",
        "right spectral gap",
        "levywalk run experiment.toml --out out",
    ):
        assert text in page
    assert str(place) not in page


@pytest.mark.more
def test_report_elsewhere_with_figures(place: Path, tmp_path: Path) -> None:
    done = levywalk("report", "out", "--out", str(tmp_path / "page.html"), "--figures", cwd=place)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "page.html").exists()
    assert len(list(tmp_path.glob("*.pdf"))) == len(list(tmp_path.glob("*.png"))) == 4


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], ["nowhere", "levywalk run"]),
        (["."], ["result.json", "levywalk run", "levywalk compare", "levywalk demo"]),
        (["out", "--out", "no/where.html"], ["where.html", "folder that exists"]),
        ([], ["DIR"]),
    ],
)
def test_bad_input_names_the_value_and_the_remedy(
    place: Path, arguments: list[str], words: list[str]
) -> None:
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


@pytest.mark.more
@pytest.mark.filterwarnings("ignore:.*no step size reached:levywalk.errors.DataWarning")
def test_the_demos_folder_is_reported_as_the_demo_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from typer.testing import CliRunner

    from levywalk.cli.main import app
    from levywalk.experiments import demo

    whole = demo.demo_experiment
    monkeypatch.setattr(
        demo, "demo_experiment", lambda seed, **_: whole(seed, steps=2000, replicas=3)
    )
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["demo", "--seed", "7"])
    assert done.exit_code == 0, done.output
    path = tmp_path / "levywalk-demo" / "report.html"
    page = path.read_text()
    assert '<code id="command">levywalk demo --seed 7</code>' in page
    assert "levywalk report levywalk-demo" in page
    done = CliRunner().invoke(app, ["report", "levywalk-demo"])
    assert done.exit_code == 0, done.output
    again = path.read_text()
    assert "right spectral gap" in again  # what the demo leaves out
    theory = re.compile(r'<section id="theory".*?</section>', re.DOTALL)
    assert theory.sub("", again) == theory.sub("", page)


def test_the_page_of_a_run_names_no_other_command(page: str) -> None:
    assert (
        '<p>Save this as <code>experiment.toml</code> and type <code id="command">levywalk run'
        in page
    )
