from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from levywalk.cli import reproduce as command
from levywalk.sweeps.store import ResultStore
from levywalk.sweeps.stored_folders import (
    MARK,
    stored_folder,
    stores_beside,
    take_over,
    take_over_all,
)


def save(store: ResultStore, n: int) -> str:
    key = store.key({"n": n})
    store.save(key, {"n": n}, {"squares": np.arange(n) ** 2}, {"total": n})
    return key


def test_a_folder_that_holds_something_unknown_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "claims.json").write_text("{}")
    (tmp_path / "out-2").mkdir()
    (tmp_path / "out-2" / MARK).write_text("{damaged")
    assert stored_folder(tmp_path / "out", {"a": 1}) == tmp_path / "out-3"


def test_results_of_folders_beside_are_taken_over(tmp_path: Path) -> None:
    wanted = tmp_path / "out"
    stores = [ResultStore(tmp_path / name / "store") for name in ("out", "out-2", "out-3")]
    keys = [save(stores[0], 3), save(stores[1], 4), save(stores[1], 5)]
    beside = stores_beside(wanted, tmp_path / "out-3")
    assert [store.folder for store in beside] == [store.folder for store in stores[:2]]
    take_over(stores[2], beside, [keys[0], keys[2], "no such key"])
    assert [stores[2].has(key) for key in keys] == [True, False, True]
    take_over_all(stores[2], beside)
    assert all(stores[2].path(key).read_bytes() for key in keys)
    assert stores[2].has(keys[1])


def test_claims_go_to_a_folder_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from typer.testing import CliRunner

    from levywalk.cli.main import app
    from levywalk.reproduction import paper, reproduce

    made: list[Path] = []

    def remember(labels: list[str], effort: object, folder: Path, **_: object) -> object:
        made.append(folder)
        return reproduce.Reproduction("levywalk reproduce", paper.QUICK, (), {}, 0.0, {})

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(reproduce, "reproduce", remember)
    for asked in (["limit", "--quick"], ["bounds", "--quick"], ["limit", "--quick"]):
        done = CliRunner().invoke(app, ["reproduce", *asked])
        assert done.exit_code == 0, done.output
    name = command.FOLDER.name
    assert [folder.name for folder in made] == [name, f"{name}-2", name]
