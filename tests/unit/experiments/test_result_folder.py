"""Two experiments never share a default folder; an experiment finds its own again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import levywalk as lw
from levywalk.experiments.result_folder import mark, result_folder, unmark
from levywalk.experiments.spec import Experiment, check_experiment


def experiment(steps: int = 5, **run: Any) -> Experiment:
    return check_experiment(
        {
            "network": {"family": "ring", "n": 9},
            "problem": {"data": "homogeneous"},
            "run": {"steps": steps} | run,
            "designs": {"a": {"kind": "mhlj"}},
        },
        "it",
    )


def finished(folder: Path, which: Experiment) -> None:
    folder.mkdir()
    content = {"settings": which.model_dump(mode="json")}
    (folder / "result.json").write_text(json.dumps(content))


def test_a_finished_result_is_replaced_by_itself_alone(tmp_path: Path) -> None:
    wanted = tmp_path / "out"
    assert result_folder(wanted, experiment()) == wanted
    finished(wanted, experiment())
    assert result_folder(wanted, experiment()) == wanted
    assert result_folder(wanted, experiment(threads=1)) == wanted  # threads change no number
    assert result_folder(wanted, experiment(6)) == tmp_path / "out-2"
    assert result_folder(wanted, experiment(seed=1)) == tmp_path / "out-2"


def test_an_interrupted_experiment_finds_its_folder_behind_others(tmp_path: Path) -> None:
    wanted = tmp_path / "out"
    finished(wanted, experiment(6))
    finished(tmp_path / "out-2", experiment(7))
    own = result_folder(wanted, experiment())
    assert own == tmp_path / "out-3"
    mark(own, experiment())
    assert result_folder(wanted, experiment()) == own
    assert result_folder(wanted, experiment(8)) == tmp_path / "out-4"
    unmark(own)
    assert list(own.iterdir()) == []


@pytest.mark.parametrize("content", ["{", "[]", '{"axes": {}}', '{"settings": 3}'])
def test_a_result_of_another_kind_is_left_alone(tmp_path: Path, content: str) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "result.json").write_text(content)
    assert result_folder(tmp_path / "out", experiment()) == tmp_path / "out-2"


def test_other_files_do_not_matter_unless_an_experiment_file_would_be_lost(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "experiment.toml").write_text("# mine\n")
    assert result_folder(tmp_path / "out", experiment()) == tmp_path / "out"
    assert result_folder(tmp_path / "out", experiment(), writes_file=True) == tmp_path / "out-2"


def test_a_folder_without_a_name_is_refused_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finished(tmp_path / "out", experiment(6))
    monkeypatch.chdir(tmp_path / "out")
    with pytest.raises(lw.InvalidParameter, match="another experiment; give --out DIR"):
        result_folder(".", experiment())
