"""`levywalk live` as it is typed, right and wrong; the server itself is replaced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import levywalk as lw
from levywalk.cli.main import app
from levywalk.live.session import LiveSession

pytest.importorskip("uvicorn", reason="the extra live is not installed")


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The players that would have been served."""
    found: list[Any] = []

    def serve(player: Any, host: str, port: int, ready: Any) -> None:
        found.append((player, host, port))
        ready(f"http://{host}:{port}/")

    monkeypatch.setattr("levywalk.live.server.serve", serve)
    return found


def typed(*words: str) -> Any:
    return CliRunner().invoke(app, ["live", *words], catch_exceptions=True)


def test_without_words_a_trapped_walk_stands_beside_one_that_jumps(shown: list[Any]) -> None:
    done = typed()
    assert done.exit_code == 0, done.output
    assert "Open http://127.0.0.1:8642/" in done.output
    session = shown[0][0].session
    assert session.network.name == "grid(10, 10)"
    assert [run.name for run in session.runs] == ["WeightRW", "MHLJ"]
    session.advance(174)
    trapped, free = (run.stays.now for run in session.runs)
    assert trapped > 100  # the first thing that a visitor sees
    assert free < 10
    assert shown[0][0].export()["command"] == "levywalk run live.toml"


def test_what_the_walks_need_is_compiled_before_the_page_is_there(
    shown: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    advance = LiveSession.advance
    monkeypatch.setattr(
        LiveSession, "advance", lambda self, steps: (made.append(steps), advance(self, steps))[1]
    )
    done = typed("--no-open")
    assert done.exit_code == 0, done.output
    assert made == [1]
    fresh = LiveSession(
        lw.grid(10, 10),
        shown[0][0].session.problem,
        {"WeightRW": lw.weight_rw(), "MHLJ": lw.mhlj()},
    )
    assert shown[0][0].session.hello() == fresh.hello()  # as if no step had been made


def test_designs_network_data_and_step_size_are_those_of_the_words(shown: list[Any]) -> None:
    words = ["ring:30", "--designs", "unif_rw,mhlj:p_jump=0.3", "--important", "2", "--seed", "4"]
    done = typed(*words, "--step-size", "0.01", "--port", "0", "--snr", "10")
    assert done.exit_code == 0, done.output
    session = shown[0][0].session
    assert (session.network.n, session.seed, session.step_size) == (30, 4, 0.01)
    assert session.live[1].changes[0].p_jump == 0.3
    made = shown[0][0].export()["toml"]
    assert "snr = 10.0" in made
    assert "step_size = 0.01" in made


def test_a_trace_is_played(shown: list[Any], tmp_path: Path) -> None:
    problem = lw.homogeneous(9, dim=3)
    given = {"steps": 50, "step_size": 0.01}
    trace = lw.run(lw.ring(9), problem, lw.mhlj(), record_walk=True, **given)
    file = trace.save(tmp_path / "walk.nc")
    assert typed("--trace", str(file)).exit_code == 0
    assert shown[0][0].session.end == 50
    bare = lw.run(lw.ring(9), problem, lw.mhlj(), **given).save(tmp_path / "bare.nc")
    assert "record_walk" in str(typed("--trace", str(bare)).exception)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["rng:10"], "did you mean 'ring"),
        (["ring:10", "--designs", "mhlk"], "did you mean 'mhlj'"),
        (["ring:10", "--designs", "unif_rw,weight_rw,mhlj,iid_weighted,simple_rw"], "1 to 4"),
        (["ring:10", "--step-size", "tuned"], "theory"),
        (["--trace", "no-such-file.nc"], "no-such-file.nc"),
        (["--fleet", "no-such-folder"], "manifest"),
        (["--trace", "a.nc", "--fleet", "b"], "exclude each other"),
        (["ring:10", "--fleet", "b"], "leave NETWORK"),
        (["--trace", "a.nc", "--designs", "mhlj"], "leave --designs out"),
    ],
)
def test_what_is_wrong_is_said_with_a_remedy(shown: list[Any], words: list[str], said: str) -> None:
    done = typed(*words)
    assert isinstance(done.exception, lw.LevywalkError), done.output
    assert said in str(done.exception)
    assert not shown
