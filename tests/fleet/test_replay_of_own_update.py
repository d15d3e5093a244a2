"""A subclass of plain SGD with a direction of its own is replayed by that direction."""

import numpy as np
import pytest

import levywalk as lw
from levywalk.fleet.checking.violation import Violation
from levywalk.fleet.checking.walk_replay import check_replay
from levywalk.fleet.operate.merge import merge
from levywalk.fleet.setup.build import Fleet
from levywalk.fleet.simulate.virtual import VirtualFleet


class Halved(lw.Sgd):
    name = "halved"

    def direction(self, model, memory, local, weight, words):
        return 0.5 * super().direction(model, memory, local, weight, words)


def test_the_replay_uses_the_direction_that_a_subclass_overrides():
    network, problem = lw.ring(8), lw.homogeneous(8, dim=2, seed=1)
    given = {"update": Halved(), "steps": 40, "step_size": 0.01}
    virtual = VirtualFleet(Fleet.of(network, problem, lw.unif_rw(), **given))
    virtual.run()
    trace = merge({v: machine.log for v, machine in enumerate(virtual.machines)}, virtual.fleet)
    walk = [*trace.walk[0].tolist(), int(trace.final_node[0])]
    check_replay(virtual.fleet, walk, virtual.final)
    alone = lw.run(network, problem, lw.unif_rw(), backend="reference", **given)
    np.testing.assert_array_equal(trace.model, alone.model)
    other = Fleet.of(network, problem, lw.unif_rw(), steps=40, step_size=0.01)
    with pytest.raises(Violation, match="I7"):
        check_replay(other, walk, virtual.final)
