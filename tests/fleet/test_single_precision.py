"""Losses of the package with models of float32 in a fleet: rounded as a simulation rounds them, and
4 bytes per number on disks and in messages.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import levywalk as lw
from levywalk.cli.main import app
from levywalk.errors import InvalidParameter, InvalidSpec
from levywalk.fleet.checking.walk_replay import check_replay
from levywalk.fleet.operate.merge import merge
from levywalk.fleet.protocol.tensors import Tensor
from levywalk.fleet.setup.build import Fleet
from levywalk.fleet.setup.create import PrivateProblem, create
from levywalk.fleet.setup.manifest import Manifest
from levywalk.fleet.setup.read_fleet import fleet_of
from levywalk.fleet.simulate.virtual import VirtualFleet
from tests.fleet.test_every_loss import UPDATES, how, relayed
from tests.fleet.test_replay import assert_same

FIRST = [0.1, 0.2, 0.3]  # float32 holds none of them


def single(loss: str, update: lw.Update, **more: Any) -> dict[str, Any]:
    given = how(loss, update)
    return given | {"problem": given["problem"].astype("float32")} | more


@pytest.mark.parametrize(
    ("loss", "update"), [("least_squares", "sgd"), ("logistic", "adam"), ("softmax", "heavy_ball")]
)
def test_virtual_and_real_nodes_make_the_walk_of_the_simulation_to_the_bit(
    tmp_path: Path, loss: str, update: str
) -> None:
    first = {"x0": FIRST} if loss == "least_squares" else {}
    given = single(loss, UPDATES[update], **first)
    expected = lw.run(**given, backend="reference", record_walk=True)
    doubles = lw.run(**how(loss, UPDATES[update]), **first, backend="reference")
    assert not np.array_equal(expected.model, doubles.model)
    virtual = VirtualFleet(fleet := Fleet.of(**given))
    assert virtual.run()
    trace = merge(virtual.logs, fleet)
    assert_same(trace, expected)
    walk = [*trace.walk[0], int(trace.final_node[0])]
    check_replay(fleet, walk, virtual.final)
    at = create(tmp_path / "fleet", **given, shared_key=True, metrics=False)
    assert np.array_equal(relayed(at).model, expected.model[0])
    again = fleet_of(at)
    assert again.published == fleet.published
    fingerprint = given["problem"].fingerprint()  # type: ignore[attr-defined]
    assert again.problem.fingerprint() == fingerprint


def test_a_model_takes_four_bytes_per_number(tmp_path: Path) -> None:
    at = create(tmp_path / "fleet", **single("logistic", lw.adam()), metrics=False)
    manifest = Manifest.read(at / "manifest.json")
    model = relayed(at).model
    tensor = Tensor("model", model, manifest.schema)
    assert tensor.nbytes == 4 * len(model)
    found = np.frombuffer(b"".join(tensor.chunks())[-tensor.nbytes :], "<f4")
    assert np.array_equal(found, model)
    # What travels with the model is float64, as in a simulation.
    assert {one["dtype"] for one in json.loads(manifest.text)["memory"]} <= {"float64", "int64"}


def test_a_manifest_with_another_type_or_a_first_model_that_does_not_fit_is_refused(
    tmp_path: Path,
) -> None:
    at = create(tmp_path / "fleet", **single("least_squares", lw.sgd(), x0=FIRST), metrics=False)
    content = json.loads((at / "manifest.json").read_text())
    assert content["model"]["dtype"] == "float32"
    assert content["model"]["x0"] == [float(np.float32(number)) for number in FIRST]
    for key, value, said in (
        ("dtype", "float16", "'float64', 'float32'"),
        ("x0", FIRST, "float32 can hold"),
        ("x0", [1e300, 0.0, 0.0], "float32 can hold"),
    ):
        changed = content | {"model": content["model"] | {key: value}}
        with pytest.raises(InvalidSpec, match=said):
            Manifest.parse(json.dumps(changed).encode())


def test_private_data_have_a_type_too(tmp_path: Path) -> None:
    problem = PrivateProblem(5, 3, 2.0, dtype="float32")
    at = create(
        tmp_path / "fleet", lw.ring(5), problem, lw.mhlj(), steps=9, step_size=0.1, metrics=False
    )
    assert Manifest.read(at / "manifest.json").published.method.itemsize == 4
    with pytest.raises(InvalidParameter, match="dtype"):
        PrivateProblem(5, 3, 2.0, dtype="half")


def test_the_command_takes_a_type(tmp_path: Path) -> None:
    def init(*more: str) -> Result:
        given = ("fleet", "init", "--network", "ring:3", "--steps", "9", *more)
        return CliRunner().invoke(app, [*given, str(tmp_path / "fleet")])

    done = init("--dtype", "half")
    assert "--dtype must be" in str(done.exception)
    done = init("--dtype", "float32", "--model", "a.py:build")
    assert "--dtype float32 cannot be used with --model" in str(done.exception)
    assert not (tmp_path / "fleet").exists()
    done = init("--dtype", "float32")
    assert done.exit_code == 0, done.output
    method = Manifest.read(tmp_path / "fleet" / "manifest.json").published.method
    assert (method.itemsize, method.in_doubles) == (4, True)
