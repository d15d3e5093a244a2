"""`levywalk reproduce`: one cheap claim end to end, and wrong ways to ask."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from levywalk.cli.main import app
from levywalk.errors import InvalidParameter

RUNNER = CliRunner()


def invoke(*arguments):
    return RUNNER.invoke(app, ["reproduce", *arguments])


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
    stored = {path: path.stat().st_mtime_ns for path in (tmp_path / "store").iterdir()}
    again = json.loads(invoke(*asked).stdout)
    assert again["claims"] == found["claims"]
    assert stored == {path: path.stat().st_mtime_ns for path in (tmp_path / "store").iterdir()}
    assert "holds in part" in (tmp_path / "claims.md").read_text(encoding="utf-8")


def test_an_unexpected_verdict_fails_the_check(tmp_path, monkeypatch):
    from levywalk.experiments import reproduce

    file = tmp_path / "expected.json"
    file.write_text(json.dumps({"quick": {"12": "holds"}}))
    monkeypatch.setattr(reproduce, "EXPECTED", file)
    result = invoke("bounds", "--quick", "--check", "--out", str(tmp_path / "out"))
    assert result.exit_code == 1
    assert "claim 12 [thmhlj]: holds in part, expected: holds" in result.output


@pytest.mark.parametrize("arguments", [(), ("homo", "--all"), ("nonsense",), ("--all", "--check")])
def test_wrong_questions_are_refused_before_anything_runs(arguments, tmp_path):
    result = invoke(*arguments, "--out", str(tmp_path / "out"))
    assert isinstance(result.exception, InvalidParameter)
    assert not (tmp_path / "out").exists()
