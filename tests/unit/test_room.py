"""What would not fit into memory is refused before anything is allocated."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import levywalk as lw
from levywalk.errors import TooLarge
from levywalk.network import FAMILIES
from levywalk.room import at_most, available_bytes, budget, require_bytes

HUGE = {
    "ring": (2_000_000_000,),
    "path": (2_000_000_000,),
    "star": (2_000_000_000,),
    "complete": (100_000,),
    "grid": (40_000, 40_000),
    "torus": (40_000, 40_000),
    "barbell": (30_000, 5),
    "erdos_renyi": (2_000_000, 0.001),
    "watts_strogatz": (500_000_000, 2, 0.1),
    "random_regular": (500_000_000, 4),
    "barabasi_albert": (500_000_000, 2),
}


def test_every_family_has_a_huge_example():
    assert set(HUGE) == set(FAMILIES)


@pytest.mark.parametrize("family", HUGE)
def test_a_family_checks_its_size_before_it_allocates(family):
    with at_most(1 << 30), pytest.raises(TooLarge, match=r"network|random number"):
        FAMILIES[family](*HUGE[family])


@pytest.mark.parametrize("make", [lw.homogeneous, lw.heterogeneous])
def test_drawn_data_check_their_size_before_they_allocate(make):
    for sizes in ((10**12,), (10, 10**12), (10**6, 10**6)):
        with pytest.raises(TooLarge, match="draw fewer nodes or features"):
            make(*sizes)


@pytest.mark.more
def test_families_within_the_limit_of_a_process_do_not_run_out_of_memory():
    """Each family is asked for sizes that grow: networks come, then an error, never MemoryError."""
    code = (
        "import levywalk as lw\nfrom levywalk.network import FAMILIES\n"
        "made = refused = 0\n"
        "for power in range(10, 32, 3):\n"
        "    for name in ('ring', 'star', 'path'):\n"
        "        try:\n            FAMILIES[name](2**power - 1); made += 1\n"
        "        except lw.TooLarge:\n            refused += 1\n"
        "print(made > 5, refused > 5)\n"
    )
    most = 1 << 30
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (most, most)),
    )
    assert done.stdout == "True True\n", done.stderr


def test_the_budget_is_half_of_what_is_available_or_less():
    assert 0 < budget() <= available_bytes()
    with at_most(100):
        assert budget() == 100
        require_bytes("it", 100, "x")
        with pytest.raises(TooLarge, match=r"it would take 0\.0 GiB"):
            require_bytes("it", 101, "x")
    require_bytes("it", 101, "x")


def test_one_long_name_among_many_short_ones_is_refused(tmp_path: Path) -> None:
    """An array of text gives each entry the room of the longest."""
    long = "x" * 1000
    edges, table = tmp_path / "a.txt", tmp_path / "a.csv"
    edges.write_text("a b\n" * 1000 + f"a {long}\n")
    with at_most(1 << 20), pytest.raises(TooLarge, match="the longest has 1000 characters"):
        lw.read_network(edges)
    table.write_text("who,x,y\n" + "a,1,2\n" * 1000 + f"{long},1,2\n")
    with at_most(1 << 20), pytest.raises(TooLarge, match=r"column of nodes \(1001 entries"):
        lw.read_data(table, node="who")
    table.write_text("x,y\n" + "1,no\n" * 1000 + f"1,{long}\n")
    with at_most(1 << 20), pytest.raises(TooLarge, match=r"column of targets \(1001 entries"):
        lw.read_data(table, labels="no")
    graph = pytest.importorskip("networkx").star_graph(["a", long, *map(str, range(1000))])
    with at_most(1 << 20), pytest.raises(TooLarge, match=r"names of the nodes \(1002 entries"):
        lw.Network.from_networkx(graph)


def test_names_and_packed_entries_are_counted_before_they_are_read(tmp_path: Path) -> None:
    edges, packed = tmp_path / "a.txt", tmp_path / "a.npz"
    edges.write_text("a b\n" * 4000)
    with at_most(1 << 20), pytest.raises(TooLarge, match="reading 4000 lines with names"):
        lw.read_network(edges)
    sparse.save_npz(packed, sparse.csr_array(np.ones((150, 150), dtype=np.int8)))
    assert packed.stat().st_size < 5_000
    with at_most(1 << 20), pytest.raises(TooLarge, match="a matrix of 22500 entries would take"):
        lw.read_network(packed)
