"""The registry: entry points of installed packages, and recipes of networks and data."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.metadata import EntryPoint
from typing import Any

import numpy as np
import pytest

import levywalk as lw
from levywalk import registry
from levywalk.experiments.spec import check_experiment
from levywalk.registry import find, from_dict, names, to_dict


class Resting(lw.Walk):
    name = "resting"

    def __init__(self, stay: float = 0.5) -> None:
        self.stay = stay

    def decide(self, view: Any, memory: Any, words: Any) -> lw.Decision:
        return lw.Decision(view.node)


class Other(Resting):
    name = "other"


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that installs packages with entry points for designs."""
    monkeypatch.setattr(registry, "_names", {k: dict(v) for k, v in registry._names.items()})
    monkeypatch.setattr(registry, "_entry_points", {})
    monkeypatch.setattr(registry, "_entry_points_read", set())

    def install(*offered: tuple[str, str]) -> None:
        found = [EntryPoint(name, value, "levywalk.design") for name, value in offered]
        monkeypatch.setattr(
            registry,
            "entry_points",
            lambda group: [entry for entry in found if entry.group == group],
        )

    return install


def test_a_clash_is_named_and_the_other_entry_points_can_be_used(installed: Any) -> None:
    here = __name__
    installed(
        ("mhlj", f"{here}:Resting"),
        ("broken", "no_such_package.walks:Walk"),
        ("resting", f"{here}:Resting"),
        ("resting", f"{here}:Other"),
        ("other", f"{here}:Other"),
    )
    with pytest.warns(lw.RegistryWarning) as told:
        known = names("design")
    assert known["resting"] is Resting
    assert known["other"] is Other
    assert known["mhlj"] is find("design", "mhlj") is not Resting
    said = [str(warning.message) for warning in told]
    assert len(said) == 3
    assert f"entry point mhlj = {here}:Resting" in said[0]
    assert "levywalk.walks.designs.mhlj" in said[0]
    assert "no_such_package" in said[1]
    assert f"entry point resting = {here}:Other" in said[2]
    assert f"{here}.Resting" in said[2]
    assert names("design") == known  # and nothing is said twice


@pytest.mark.filterwarnings("error")
def test_a_warning_that_is_an_error_loses_no_name(installed: Any) -> None:
    installed(("mhlj", f"{__name__}:Resting"), ("resting", f"{__name__}:Resting"))
    with pytest.raises(lw.RegistryWarning):
        find("design", "resting")
    assert find("design", "resting") is Resting


def test_a_name_that_a_package_offers_is_refused_at_once_and_nothing_is_imported(
    installed: Any,
) -> None:
    installed(("slow", "a_package_of_somebody:Slow"), ("resting", f"{__name__}:Resting"))
    with pytest.raises(lw.InvalidParameter, match="taken by the entry point slow = a_package_of"):
        lw.register("design", "slow", Resting)
    lw.register("design", "resting", Resting)  # the package's own name
    with pytest.warns(lw.RegistryWarning, match="a_package_of_somebody"):
        assert names("design")["resting"] is Resting


def test_a_package_may_register_and_ask_while_it_is_loaded(
    installed: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "package_of_ours.py").write_text(
        "import levywalk as lw\n"
        "from levywalk.registry import names\n"
        "class First(lw.Walk): name = 'first'\n"
        "lw.register('design', 'first_of_ours', First)\n"
        "assert 'mhlj' in names('design')\n"
        "class Second(lw.Walk): name = 'second'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    installed(
        ("first_of_ours", "package_of_ours:First"), ("second_of_ours", "package_of_ours:Second")
    )
    assert {"first_of_ours", "second_of_ours"} <= set(names("design"))
    monkeypatch.delitem(sys.modules, "package_of_ours")


def test_an_object_of_an_installed_package_has_a_recipe(installed: Any) -> None:
    installed(("resting", f"{__name__}:Resting"))
    assert to_dict("design", Resting(0.25)) == {"kind": "resting", "stay": 0.25}


def test_importing_levywalk_reads_no_entry_points() -> None:
    code = (
        "import importlib.metadata as m\n"
        "def refuse(**given): raise SystemExit('read')\n"
        "m.entry_points = refuse\n"
        "import levywalk as lw; lw.mhlj(); lw.ring(5); lw.sgd()\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# --- networks and data ----------------------------------------------------------------------------

NETWORKS = [
    lw.ring(5),
    lw.path(4, self_loops="counted"),
    lw.grid(2, 3),
    lw.torus(3, 4),
    lw.complete(4),
    lw.star(4),
    lw.barbell(3, 1),
    lw.erdos_renyi(np.int64(30), 0.2, seed=3),
    lw.watts_strogatz(30, 4, p=0.1, seed=2),
    lw.random_regular(10, 3),
    lw.barabasi_albert(20, 2, seed=1),
]


@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: network.name)
def test_a_network_of_a_family_comes_back_from_its_recipe(network: lw.Network) -> None:
    recipe = to_dict("network", network)
    assert json.loads(json.dumps(recipe)) == recipe
    again = from_dict("network", recipe)
    assert again.fingerprint() == network.fingerprint()
    assert (again.name, again.self_loops) == (network.name, network.self_loops)
    assert to_dict("network", again) == recipe


def test_a_network_from_elsewhere_says_that_it_has_no_recipe(tmp_path: Any) -> None:
    file = tmp_path / "net.txt"
    file.write_text("0 1\n1 2\n")
    apart = lw.erdos_renyi(30, 0.05, seed=1)
    assert apart.components() > 1
    for network in (
        lw.Network.from_edges([(0, 1), (1, 2)]),
        lw.read_network(file),
        lw.ring(5).with_self_loops("counted"),
        apart.largest_component(),
    ):
        with pytest.raises(lw.InvalidParameter, match=r"network has no recipe.*file"):
            to_dict("network", network)
        assert to_dict("network", network, strict=False) is None


def test_data_that_were_changed_have_no_recipe() -> None:
    assert to_dict("data", lw.homogeneous(5, dim=2))["dim"] == 2
    with pytest.raises(lw.InvalidParameter, match="data has no recipe"):
        to_dict("data", lw.homogeneous(5, dim=2).astype("float32"))


def test_a_file_takes_a_network_and_data_of_a_users_own(installed: Any) -> None:
    def my_ring(size: int) -> lw.Network:
        return lw.Network.from_edges([(v, (v + 1) % size) for v in range(size)])

    def my_data(count: int, dim: int = 2) -> Any:
        return lw.LeastSquares(np.ones((count, dim)), np.ones(count), ridge=0.1)

    installed()
    lw.register("network", "my_ring", my_ring)
    lw.register("data", "my_data", my_data)
    experiment = check_experiment(
        {
            "network": {"family": "my_ring", "size": 6},
            "problem": {"data": "my_data", "dim": 3},
            "run": {"steps": 5},
            "designs": {"MHLJ": {"kind": "mhlj"}},
        }
    )
    network, problem, _ = experiment.build(".")  # type: ignore[arg-type]
    assert (network.n, problem.n, problem.dim) == (6, 6, 3)
    assert to_dict("network", network) == {"kind": "my_ring", "size": 6}
    assert to_dict("data", problem) == {"kind": "my_data", "count": 6, "dim": 3}


def test_a_taken_name_says_which_loaded_file_has_it(tmp_path, monkeypatch):
    monkeypatch.setenv("LEVYWALK_LOAD", "")
    one, other = tmp_path / "one.py", tmp_path / "other.py"
    text = "import levywalk as lw\nclass Mine(lw.Sgd):\n    pass\n"
    for file in (one, other):
        file.write_text(text + "lw.register('update', 'twice_loaded', Mine)\n")
    registry.load_file(one)
    with pytest.raises(lw.InvalidParameter, match=f"is taken by Mine of {re.escape(str(one))}"):
        registry.load_file(other)
