"""A torch module and a JAX function on real node processes: the model of the simulation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import levywalk as lw
from levywalk.fleet.checking.running_fleet import RunningFleet
from levywalk.fleet.operate import export
from levywalk.fleet.operate.folder import FleetFolder
from levywalk.fleet.protocol.terms import HandOffTerms
from levywalk.fleet.setup.built import built_problem
from levywalk.fleet.setup.create import create
from levywalk.fleet.setup.node_data import Shard
from levywalk.fleet.setup.shards import with_held_out
from tests.frameworks.models import FRAMEWORKS
from tests.limits import PATIENCE, eventually

NODES, STEPS = 3, 24
CODE = {
    "torch": """
import numpy as np
import torch
import levywalk as lw

torch.set_num_threads(1)  # sums in one order

def build(features, targets, node=None):
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3))
    return lw.torch_problem(
        module, torch.nn.functional.cross_entropy, np.asarray(features, np.float32),
        np.asarray(targets, np.int64), node=node,
    )
""",
    "jax": """
import jax
import jax.numpy as jnp
import numpy as np
import levywalk as lw

def apply(params, x):
    return jnp.tanh(x @ params["first"]) @ params["last"] + params["shift"]

def loss(outputs, labels):
    return -jnp.take_along_axis(jax.nn.log_softmax(outputs), labels[:, None], axis=1).mean()

def build(features, targets, node=None):
    draw = np.random.default_rng(0)
    params = {
        "first": draw.normal(size=(4, 5)), "last": draw.normal(size=(5, 3)), "shift": np.zeros(3)
    }
    return lw.jax_problem(
        apply, params, loss, np.asarray(features, np.float32), np.asarray(targets, np.int64),
        node=node,
    )
""",
}
METRICS = """
def metrics(features, targets):
    problem = build(features, targets, node=np.zeros(len(targets), np.int64))
    def accuracy(model):
        return float((problem.predict(model, features).argmax(axis=1) == targets).mean())
    return {"accuracy": accuracy}
"""


def shards() -> list[Shard]:
    rng = np.random.default_rng(5)
    rows = [rng.normal(size=(size, 4)) for size in (12, 15, 10)]
    return with_held_out([Shard(x, x[:, :3].argmax(axis=1)) for x in rows], 0.2, seed=0)


def all_edges_up(live: RunningFleet) -> bool:
    edges = [edge for one in live.statuses().values() for edge in one["edges"].values()]
    return len(edges) == 2 * NODES and all(edge["up"] for edge in edges)


@pytest.mark.filterwarnings("ignore:problem has no optimum")
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_real_fleet_makes_the_model_of_the_simulation_to_the_bit(
    tmp_path: Path, framework: str
) -> None:
    pytest.importorskip(framework, reason=f"needs levywalk[{framework}]; `make frameworks` has it")
    path = tmp_path / "my_model.py"
    path.write_text(CODE[framework] + METRICS)
    problem = built_problem(path, "build", shards())
    given: dict[str, Any] = {"steps": STEPS, "step_size": 0.05, "seed": 3, "record_every": 4}
    given["update"] = lw.adam(minibatch=4)
    terms = HandOffTerms(b"", renew_after=20, heartbeat=0.5, dead_after=PATIENCE, retry=0.2)
    network, walk = lw.ring(NODES), lw.unif_rw()
    at = create(tmp_path / "fleet", network, problem, walk, **given, shared_key=True, terms=terms)
    with RunningFleet(at) as live:
        for v in range(NODES):
            live.start(v)
        eventually(lambda: all_edges_up(live))
        eventually(live._order_begin)
        eventually(lambda: all(one["final"] for one in live.statuses().values()))
        for v in range(NODES):
            assert live.end(v) == 0
    trace = export.trace(FleetFolder.open(at))
    features, targets = (np.concatenate([shard[i] for shard in problem.shards]) for i in range(2))
    node = np.repeat(np.arange(NODES), [len(shard.targets) for shard in problem.shards])
    alike = problem._loaded.build(features, targets, node=node)
    simulated = lw.run(network, alike, walk, **given, backend="reference", record_walk=True)
    assert np.array_equal(trace.walk, simulated.walk)
    assert np.array_equal(trace.model, simulated.model)
    assert np.isfinite(trace.metrics["accuracy"]).any()
    batched = lw.run(network, alike, walk, **given)
    assert batched.provenance["backend"] == "batched"
    assert batched.model == pytest.approx(simulated.model, abs=1e-4)
    export.model(FleetFolder.open(at), tmp_path / "model.safetensors")
    data = (tmp_path / "model.safetensors").read_bytes()
    about = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    assert {one["dtype"] for one in about.values()} == {"F32"}
