"""A report of somebody else's folder reads nothing outside of it and takes little memory."""

from __future__ import annotations

import json

import pytest

import levywalk as lw
from levywalk.experiments.folder_report import write_report

SECRET = "top secret first line"


@pytest.fixture
def folder(tmp_path):
    """A folder of results whose settings are honest: ring(12), drawn data."""
    settings = {
        "network": {"family": "ring", "n": 12},
        "problem": {"data": "homogeneous", "dim": 2},
        "run": {"steps": 20, "replicas": 2, "step_size": 0.01},
        "designs": {"MHLJ": {"kind": "mhlj"}},
    }
    result = lw.compare(
        lw.ring(12),
        lw.homogeneous(12, dim=2),
        {"MHLJ": lw.mhlj()},
        steps=20,
        replicas=2,
        step_size=0.01,
        progress=False,
    )
    (tmp_path / "secret.txt").write_text(SECRET)
    out = tmp_path / "out"
    result.save(out)
    document = json.loads((out / "result.json").read_text())
    (out / "result.json").write_text(json.dumps(document | {"settings": settings}))
    return out


def _with_settings(folder, section, values):
    document = json.loads((folder / "result.json").read_text())
    document["settings"][section] = values
    (folder / "result.json").write_text(json.dumps(document))


def _page(folder, **options):
    (path,) = write_report(folder, progress=False, **options)
    return path.read_text()


def test_honest_settings_have_theory(folder):
    assert "Left out" not in _page(folder)


@pytest.mark.parametrize("where", ["../secret.txt", "absolute", "link.txt"])
@pytest.mark.parametrize("section", ["network", "problem"])
def test_a_file_outside_of_the_folder_is_neither_opened_nor_quoted(folder, where, section):
    secret = folder.parent / "secret.txt"
    (folder / "link.txt").symlink_to(secret)
    name = str(secret) if where == "absolute" else where
    kind = {"family": "file"} if section == "network" else {"data": "file"}
    _with_settings(folder, section, kind | {"file": name})
    page = _page(folder)
    assert "outside of the folder" in page
    assert "secret first" not in page


def test_the_users_own_files_are_read_where_they_are(folder):
    edges = "".join(f"{v} {(v + 1) % 12}\n" for v in range(12))
    (folder.parent / "net.txt").write_text(edges)
    _with_settings(folder, "network", {"family": "file", "file": "../net.txt"})
    assert "outside of the folder" in _page(folder)
    assert "Left out" not in _page(folder, own_files=True)
    (folder / "net.txt").write_text(edges)
    _with_settings(folder, "network", {"family": "file", "file": "net.txt"})
    assert "Left out" not in _page(folder)


@pytest.mark.parametrize(
    ("section", "values"),
    [
        ("network", {"family": "ring", "n": 100_000_000}),
        ("network", {"family": "complete", "n": 40_000}),
        ("network", {"family": "erdos_renyi", "n": 40_000, "p": 0.9}),
        ("problem", {"data": "homogeneous", "dim": 10**9}),
    ],
)
def test_settings_that_declare_huge_sizes_are_not_built(folder, section, values):
    _with_settings(folder, section, values)
    assert "more than the limit of 0.5 GiB" in _page(folder)


@pytest.mark.parametrize("name", ["result.json", "report.html", "more.nc"])
def test_links_that_leave_the_folder_are_refused(folder, name):
    secret = folder.parent / "secret.txt"
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(secret)
    with pytest.raises(lw.InvalidParameter, match="outside of the folder"):
        write_report(folder, progress=False)
    assert secret.read_text() == SECRET


def test_a_result_of_unusual_length_is_refused(folder, monkeypatch):
    monkeypatch.setattr("levywalk.trace.comparison_files._LONGEST", 100)
    with pytest.raises(lw.InvalidTrace, match="longer than the limit"):
        write_report(folder, progress=False)
