"""Without an extra its functions say so, with the command that installs it; all others work."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from levywalk.extras import EXTRAS, pip_command

LARGE = ("torch", "jax")  # hundreds of megabytes: only for those who ask for them by name
PROJECT = Path(__file__).parents[2] / "pyproject.toml"
HIDE = """
import sys
for name in {modules!r}:
    sys.modules[name] = None  # an import of it fails, as if it were not installed
import levywalk as lw
network, problem = lw.ring(20), lw.homogeneous(20)
"""
GRAPHML = '<graphml><graph edgedefault="undirected"/></graphml>'
TRACE = 'trace = lw.run(network, problem, lw.mhlj(), steps=9, step_size=0.01, backend="reference")'
USES = {
    ("frames", "Trace.to_dataframe()"): f"{TRACE}\ntrace.to_dataframe()",
    ("frames", "Trace.to_xarray()"): f"{TRACE}\ntrace.to_xarray()",
    ("graphs", "Network.from_networkx"): "lw.Network.from_networkx(1)",
    ("graphs", "Network.to_networkx"): "network.to_networkx()",
    ("graphs", "a GraphML file"): "lw.read_network('a.graphml')",
    ("fleet", "a fleet of real nodes"): "import levywalk.fleet.runtime.process",
    ("torch", "lw.torch_problem"): "lw.torch_problem(None, None, [[1.0]], [1.0])",
    ("jax", "lw.jax_problem"): "lw.jax_problem(None, None, None, [[1.0]], [1.0])",
    ("cluster", "the Dask scheduler"): (
        "from levywalk.sweeps.pools import DaskCluster\nDaskCluster('tcp://127.0.0.1:1')"
    ),
}


def said_without(modules: list[str], codes: list[str], folder: Path) -> list[str]:
    """Run each code without some modules, in one fresh process; return what went wrong."""
    tries = f"""
import warnings
warnings.simplefilter("error")
for code in {codes!r}:
    try:
        exec(code)
        print("nothing")
    except Exception as error:
        print(type(error).__name__, error)
"""
    done = subprocess.run(
        [sys.executable, "-c", HIDE.format(modules=modules) + tries],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


@pytest.mark.more
def test_a_missing_extra_is_named_with_its_command_and_all_else_works(tmp_path: Path) -> None:
    (tmp_path / "a.graphml").write_text(GRAPHML)
    every = [module for extra in EXTRAS.values() for module in extra.modules]
    works = f"{TRACE}\nlw.load_trace(trace.save('t.nc'))\nlw.plot(trace, path='t.png')"
    *found, last = said_without(every, [*USES.values(), works], tmp_path)
    for (extra, what), said in zip(USES, found, strict=True):
        assert said.startswith("MissingExtra ")
        assert what in said
        assert said.endswith(f"not installed; type: {pip_command(extra)}")
    assert last == "nothing"
    assert (tmp_path / "t.png").exists()


def test_a_part_of_the_fleet_extra_is_not_enough(tmp_path: Path) -> None:
    (said,) = said_without(["grpc"], [USES["fleet", "a fleet of real nodes"]], tmp_path)
    assert "a fleet of real nodes needs grpc, which is not installed" in said


@pytest.mark.skipif(not PROJECT.exists(), reason="an installed package has no pyproject.toml")
def test_extras_are_those_of_the_package() -> None:
    """`EXTRAS` and pyproject.toml agree; `all` has everything that a user can need."""
    found = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert set(found) - {"test", "check", "bench", "docs"} == {*EXTRAS, "all"}
    small = [name for name in EXTRAS if name not in LARGE]
    assert found["all"] == [f"levywalk[{','.join(small)}]"]
