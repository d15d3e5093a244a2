"""`levywalk reproduce`: one cheap claim end to end, and wrong ways to ask."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from levywalk.cli.main import app
from levywalk.errors import InvalidParameter
from levywalk.reproduction import paper, reproduce
from levywalk.sweeps.pools import ClusterError
from levywalk.sweeps.store import ResultStore, ResultStoreError
from tests.limits import PATIENCE, eventually, mostly_soak

RUNNER = CliRunner()


def invoke(*arguments, workers=0):
    return RUNNER.invoke(
        app,
        ["reproduce", *arguments, *(["--workers", str(workers)] if workers is not None else [])],
    )


@pytest.fixture
def small(monkeypatch):
    """Two instances: as much as is needed where numbers do not matter."""
    monkeypatch.setattr(paper, "QUICK", replace(paper.QUICK, instances=2))


def times(folder):
    return {path: path.stat().st_mtime_ns for path in (folder / "store").iterdir()}


@pytest.mark.more
def test_a_claim_is_asked_stored_and_read_again(tmp_path):
    asked = ("bounds", "--quick", "--json", "--check", "--out", str(tmp_path))
    first = invoke(*asked)
    assert first.exit_code == 0, first.output
    found = json.loads(first.stdout)
    (claim,) = found["claims"]
    assert claim["id"] == 12
    assert claim["verdict"] == "holds in part"
    assert set(claim) >= {"id", "label", "verdict", "effect", "interval", "where"}
    printed = next(point for point in claim["points"] if "printed" in point["where"])
    assert printed["answer"] == "no"  # the counterexample refutes the printed bound
    stored = times(tmp_path)
    again = json.loads(invoke(*asked, workers=2).stdout)
    assert again["claims"] == found["claims"]
    assert times(tmp_path) == stored
    assert "holds in part" in (tmp_path / "claims.md").read_text(encoding="utf-8")
    assert "holds in part" in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.more
def test_processes_give_the_same_bits_as_this_one(tmp_path, small, monkeypatch):
    monkeypatch.delenv("LEVYWALK_LOAD", raising=False)  # files that other tests have loaded
    for workers in (0, 2):
        asked = ("limit", "--quick", "--no-figures", "--out", str(tmp_path / str(workers)))
        found = invoke(*asked, workers=workers)
        assert found.exit_code == 0, found.output
    here, there = (
        {p.name: p.read_bytes() for p in (tmp_path / n / "store").iterdir()} for n in ("0", "2")
    )
    assert here == there


@pytest.mark.more
def test_figures_are_drawn_linked_and_inside_the_page(tmp_path):
    result = invoke("RINGMC", "--quick", "--out", str(tmp_path))
    assert result.exit_code == 0, result.output
    assert "the figures in" in result.output
    text = (tmp_path / "claims.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert links == ["figures/ringmc.png", "figures/ringmc.pdf"]
    assert all((tmp_path / link).stat().st_size > 1000 for link in links)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.count('src="data:image/png;base64,') == 1
    assert not re.search(r'(src|href)="(?!data:)', page)
    assert len(page) < 200_000


def test_the_page_to_read_has_figures_with_their_claims_and_secondary_points_to_be_opened():
    point = {
        "where": "a",
        "effect": 1.5,
        "interval": [1.2, 2.0],
        "undefined": 0,
        "instances": 6,
        "beside": {},
    }
    yes, no = (
        point | {"answer": "yes", "primary": True},
        point | {"where": "b", "answer": "no", "primary": False},
    )
    claim = {
        "label": "grid",
        "text": "Entrapment",
        "verdict": "holds",
        "effect": 1.5,
        "interval": [1.2, 2.0],
    }
    claims = [
        claim | {"id": 4, "points": [yes, no]},
        claim | {"id": 5, "label": "wsju", "points": [yes]},
    ]
    figures = [
        {"name": name, "title": name, "files": [f"{name}.svg"]} for name in ("grid", "accuracy")
    ]
    empty = reproduce.Reproduction("levywalk reproduce", paper.QUICK, (), {}, 1.0, {}).document(
        Path()
    )
    text = reproduce.markdown(empty | {"claims": claims, "figures": figures})
    summary, grid, wsju, more = re.split(r"\n## ", text)
    assert "**holds** | 1 of 1 | 1.5 [1.2, 2]" in summary
    assert "grid.svg" in grid
    primary, secondary = grid.split("<summary>1 shown point</summary>")
    assert "| a | 1.5 [1.2, 2] | yes |" in primary
    assert "| b | 1.5 [1.2, 2] | no |" in secondary
    assert "details" not in wsju
    assert "accuracy.svg" in more
    assert text.count(".svg") == 2


@pytest.mark.more
def test_without_figures_none_are_drawn(tmp_path, small):
    assert invoke("limit", "--quick", "--no-figures", "--out", str(tmp_path)).exit_code == 0
    assert not (tmp_path / "figures").exists()
    refused = invoke("ringMC", "--quick", "--no-figures", "--out", str(tmp_path))
    assert "only figures" in str(refused.exception)


@pytest.mark.more
def test_an_unexpected_verdict_fails_the_check(tmp_path, monkeypatch, small):
    file = tmp_path / "expected.json"
    file.write_text(json.dumps({"quick": {"12": "holds"}, "full": {"12": "holds"}}))
    monkeypatch.setattr(reproduce, "EXPECTED", file)
    result = invoke("bounds", "--quick", "--check", "--out", str(tmp_path / "out"))
    assert result.exit_code == 1
    assert "claim 12 [bounds]: holds in part, expected: holds" in result.output


def test_an_effort_without_known_verdicts_cannot_be_checked(tmp_path, monkeypatch):
    file = tmp_path / "expected.json"
    file.write_text(json.dumps({"quick": {}}))
    monkeypatch.setattr(reproduce, "EXPECTED", file)
    result = invoke("--all", "--check", "--out", str(tmp_path / "out"))
    assert "known: quick; give --quick" in str(result.exception)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "give --all or some labels"),
        (("homo", "--all"), "give --all or some labels"),
        (("nonsense",), "label must be one of homo, hete"),
        (("homo", "--seeds", "third"), "--seeds must be one of"),
        (("homo", "--quick", "--seeds", "second"), "leave --seeds second out"),
        (
            ("homo", "--workers", "2", "--scheduler", "tcp://127.0.0.1:1"),
            "give --workers or --scheduler",
        ),
    ],
)
def test_wrong_questions_are_refused_before_anything_runs(arguments, words, tmp_path):
    result = invoke(*arguments, "--out", str(tmp_path / "out"), workers=None)
    assert isinstance(result.exception, InvalidParameter)
    assert words in str(result.exception)
    assert not (tmp_path / "out").exists()


def test_the_second_range_of_seeds_has_instances_of_its_own():
    found = reproduce.Reproduction("…", paper.SECOND, (), {}, 1.0, {}).document(Path())
    assert found["instances"][0] == 63_000
    assert found["tuning_instances"][0] == 64_000
    assert found["snr"] == [10.0, 115.0, 33_000.0]


def test_a_folder_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "file").touch()
    assert "out must be a folder" in str(invoke("limit", "--out", str(tmp_path / "file")).exception)


def test_a_scheduler_that_does_not_answer_is_a_wrong_argument(tmp_path, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr("levywalk.sweeps.pools._CONNECT", 0.5)
    result = invoke(
        "limit", "--quick", "--scheduler", "tcp://127.0.0.1:1", "--out", str(tmp_path), workers=None
    )
    assert isinstance(
        result.exception, ClusterError
    )  # which `main` turns into words and exit code 2


def test_a_full_disk_is_said_in_words(tmp_path, monkeypatch):
    def full(self, key, content):
        raise ResultStoreError("no room")

    monkeypatch.setattr(ResultStore, "put", full)
    result = invoke("limit", "--quick", "--out", str(tmp_path))
    assert result.exit_code == 1
    assert "error: no room" in result.output


CHILD = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a detached parent leaves it ignored
from levywalk.cli.main import main
if __name__ == "__main__":
    main()
"""


@pytest.mark.more
@pytest.mark.parametrize("workers", mostly_soak(["0", "1"], lambda workers: workers == "1"))
def test_ctrl_c_says_that_the_same_command_goes_on_and_it_does(tmp_path, workers):
    asked = ["bounds", "--quick", "--out", str(tmp_path)]
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, "reproduce", *asked, "--workers", workers],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )

    def stored_two() -> bool:
        assert child.poll() is None, child.communicate()[1]
        return len(list((tmp_path / "store").glob("*.npz"))) >= 2

    eventually(stored_two)
    os.killpg(child.pid, signal.SIGINT)  # as a terminal does: to all processes
    out, err = child.communicate(timeout=PATIENCE)
    assert child.returncode == 130, err
    assert out == ""
    assert (
        err == "Interrupted. Finished results are stored. Run the same command again to resume.\n"
    )
    stored = times(tmp_path)
    assert invoke(*asked).exit_code == 0
    assert stored.items() <= times(tmp_path).items()
