"""A fleet in service: new keys, a revoked node and a new one, while processes are killed."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest

import levywalk as lw
from levywalk.fleet.checking.logs import judge_folder
from levywalk.fleet.operate.folder import FleetFolder
from levywalk.fleet.operate.join import join
from levywalk.fleet.operate.revoke import revoke
from levywalk.fleet.operate.rotate import rotate
from levywalk.fleet.protocol.terms import HandOffTerms
from levywalk.fleet.runtime.node_status import running
from levywalk.fleet.setup.create import create
from levywalk.fleet.setup.read_fleet import fleet_of
from tests.limits import PATIENCE, eventually

NODES, RENEW = 20, 10
REVOKED = 7  # no neighbour of the newcomer


def founded(folder: Path) -> FleetFolder:
    terms = HandOffTerms(run=b"", heartbeat=1.0, dead_after=PATIENCE, renew_after=RENEW)
    network = lw.watts_strogatz(NODES, 4, 0.1, seed=5)
    problem = lw.heterogeneous(NODES, dim=4, seed=1, important=2)
    more = {"steps": 10_000_000, "step_size": "theory", "seed": 3, "start": 0, "metrics": False}
    create(folder, network, problem, lw.mhlj(), name="service", terms=terms, **more)
    return FleetFolder.open(folder)


def kill(fleet: FleetFolder, node: int) -> None:
    """Kill a node, and bring it back."""
    pid = running(fleet.files[node].state)
    if pid is not None:
        os.kill(pid, signal.SIGKILL)
    eventually(lambda: running(fleet.files[node].state) is None)
    fleet.up(PATIENCE)


def goes_on(fleet: FleetFolder) -> None:
    before = fleet.status(PATIENCE)["step"]
    eventually(lambda: fleet.status(PATIENCE)["step"] > before + 20)


@pytest.mark.more
def test_new_keys_a_revoked_node_and_a_new_one_among_kills(tmp_path: Path) -> None:
    """Nothing is lost by kills, new keys and the new node; a revoked node that holds or guards the
    model costs what a dead one does. The replay is exact.
    """
    fleet = founded(tmp_path / "fleet")
    rng = np.random.default_rng(3)
    data = tmp_path / "new.npz"
    np.savez(data, features=rng.normal(size=(1, 4)), targets=np.ones(1))
    fleet.up(PATIENCE)
    try:
        goes_on(fleet)
        kill(fleet, 3)
        assert all(one.used for one in rotate(fleet, [2, 11]))
        goes_on(fleet)
        kill(fleet, 11)  # it starts with its new keys
        assert join(fleet, [0, 12], data=data, timeout=PATIENCE).node == NODES
        fleet = FleetFolder.open(fleet.path)
        goes_on(fleet)
        kill(fleet, NODES)
        assert REVOKED in revoke(fleet, REVOKED).told
        fleet.stop(PATIENCE, force=True, nodes=[REVOKED])
        goes_on(fleet)
        kill(fleet, 12)
        assert rotate(fleet, [NODES])[0].used
        goes_on(fleet)
        eventually(lambda: fleet.views(PATIENCE)[NODES].last is not None)
    finally:
        FleetFolder.open(fleet.path).stop(PATIENCE, force=True)
    judged = judge_folder(fleet_of(fleet.path), fleet.path)
    assert judged.steps > 80
    assert judged.lost <= RENEW * (judged.epochs - 1)
    assert judged.epochs <= 3  # only the revocation may have begun one, or two
