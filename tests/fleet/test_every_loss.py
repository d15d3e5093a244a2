"""Every loss and every update of the package, also those with memory at the nodes, in a fleet by
its registered name: the walk is that of the reference backend, to the bit.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import levywalk as lw
from levywalk.draws import Domain, Key
from levywalk.errors import InvalidData
from levywalk.fleet.operate.merge import merge
from levywalk.fleet.protocol.node_step import Neighbour, NodeSite
from levywalk.fleet.protocol.token import Token
from levywalk.fleet.runtime.own_data import own_problem, scores
from levywalk.fleet.setup.build import Fleet
from levywalk.fleet.setup.create import PrivateProblem, create
from levywalk.fleet.setup.manifest import Manifest
from levywalk.fleet.setup.node_file import NodeFile, node_files
from levywalk.fleet.setup.read_fleet import fleet_of
from levywalk.fleet.simulate.virtual import VirtualFleet
from levywalk.registry import names
from tests.fleet.test_lean import HEAVY
from tests.fleet.test_replay import assert_same
from tests.limits import mostly_more

N, ROWS = 5, 30
RNG = np.random.default_rng(0)
FEATURES = RNG.standard_normal((ROWS, 3))
NUMBERS, LABELS = RNG.standard_normal(ROWS), RNG.integers(0, 2, ROWS)
COUNTS = RNG.poisson(2.0, ROWS)
WORDS = np.array(["ant", "bee", "cat"])[RNG.integers(0, 3, ROWS)]
NODE = np.tile(np.arange(N), ROWS // N)

LOSSES: dict[str, Callable[[], lw.Problem]] = {
    "least_squares": lambda: lw.LeastSquares(FEATURES, NUMBERS, node=NODE),
    "least_squares_of_several": lambda: lw.LeastSquares(
        FEATURES, np.stack([NUMBERS, -2.0 * NUMBERS], axis=1), node=NODE, ridge=0.1
    ),
    "logistic": lambda: lw.Logistic(FEATURES, LABELS, node=NODE, ridge=0.1),
    "softmax": lambda: lw.Softmax(FEATURES, WORDS, node=NODE, ridge=0.1),
    "huber": lambda: lw.Huber(FEATURES, NUMBERS, node=NODE, delta=0.5),
    "poisson": lambda: lw.Poisson(FEATURES, COUNTS, node=NODE, ridge=0.1),
    "squared_hinge": lambda: lw.SquaredHinge(FEATURES, LABELS, node=NODE, ridge=0.1),
    "quantile": lambda: lw.Quantile(FEATURES, NUMBERS, node=NODE, level=0.8),
}
UPDATES: dict[str, lw.Update] = {
    "sgd": lw.sgd(minibatch=2),
    "heavy_ball": lw.heavy_ball(0.5, minibatch=2),
    "adam": lw.adam(minibatch=2),
    "averaged": lw.averaged(lw.adam()),
}
WITH_NODE_MEMORY: dict[str, lw.Update] = {
    "sag": lw.sag(),
    "saga": lw.saga(minibatch=2),
    "point_saga": lw.point_saga(),
    "finito": lw.finito(),
    "newton_token": lw.newton_token(),
    "walkman": lw.walkman(),
}
PAIRS = mostly_more(
    [(loss, update) for loss in LOSSES for update in UPDATES],
    lambda pair: pair[1] == "adam",
)
PAIRS += mostly_more(
    [("least_squares", update) for update in WITH_NODE_MEMORY],
    lambda pair: pair[1] in ("saga", "newton_token"),
)
PAIRS += [("softmax", "saga"), ("poisson", "saga")]
UPDATES |= WITH_NODE_MEMORY


def how(loss: str, update: lw.Update) -> dict[str, Any]:
    given: dict[str, Any] = {"network": lw.ring(N), "problem": LOSSES[loss](), "design": lw.mhlj()}
    more = {"steps": 60, "step_size": 0.01, "seed": 4, "record_every": 6}
    return given | more | {"update": update}


def relayed(folder: Path) -> Token:
    """Return the last token of a fleet's walk: what its processes compute, without them.

    Each node is made of its own folder alone.
    """
    manifest = Manifest.read(folder / "manifest.json")
    files = node_files(folder, manifest.nodes)
    sites, records = [], {}
    for file in files:
        problem = own_problem(Manifest.read(file.manifest), file)
        own = scores(manifest, problem, len(file.neighbours))
        key = Key.of(manifest.seed, Domain.WALK)
        sites.append(NodeSite(manifest.published, file.id, problem, 0, own, key))
        records[file.id] = Neighbour(file.id, len(file.neighbours), own, True)
    for site, file in zip(sites, files, strict=True):
        near = sorted(peer.id for peer in file.neighbours)
        site.know([records[u] for u in near], len(near))
    token, at = manifest.published.first_token(manifest.first_model(folder)), manifest.start
    while not manifest.published.ends(token):
        token, to = sites[at].decide(token)
        token, at = (token if to == at else token.handed_over(at, to)), to
    return token


def test_all_names_are_tried() -> None:
    def ours(name: str) -> bool:  # other tests of this process may have registered their own
        return not name.startswith("test_") and not name.endswith("_example")

    assert set(LOSSES) == {name for name in names("loss") if ours(name)}
    assert set(UPDATES) == {name for name in names("update") if ours(name)}


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_the_walk_is_that_of_the_reference_backend(tmp_path: Path, pair: tuple[str, str]) -> None:
    given = how(pair[0], UPDATES[pair[1]])
    expected = lw.run(**given, backend="reference", record_walk=True)
    virtual = VirtualFleet(fleet := Fleet.of(**given))
    assert virtual.run()
    assert_same(merge(virtual.logs, fleet), expected)
    at = create(tmp_path / "fleet", **given, shared_key=True, metrics=False)
    last = relayed(at)
    assert np.array_equal(last.model, expected.model[0])
    assert last.transfers == expected.transfers[0, -1]
    again = fleet_of(at).problem
    assert again.fingerprint() == given["problem"].fingerprint()  # type: ignore[attr-defined]


def test_nodes_read_several_targets_from_the_last_columns_of_a_csv_file(tmp_path: Path) -> None:
    at = create(tmp_path / "fleet", **how("least_squares_of_several", lw.sgd()), metrics=False)
    manifest, path = Manifest.read(at / "manifest.json"), at / "node-2" / "node.toml"
    before = own_problem(manifest, NodeFile.read(path))
    assert before is not None
    table = np.column_stack([before.features, before.targets])
    np.savetxt(at / "node-2" / "data.csv", table, delimiter=",", fmt="%.17g")
    path.write_text(path.read_text().replace("data.npz", "data.csv"))
    after = own_problem(manifest, NodeFile.read(path))
    assert after is not None
    assert after.fingerprint() == before.fingerprint()
    np.savetxt(at / "node-2" / "data.csv", table[:, 1:], delimiter=",")
    with pytest.raises(InvalidData, match=r"data\.csv"):
        own_problem(manifest, NodeFile.read(path))


def test_private_data_of_several_outputs_have_a_column_of_the_model_for_each() -> None:
    assert PrivateProblem(5, 4, 1.0, loss={"kind": "softmax", "classes": 3}).dim == 12


def test_a_node_with_another_loss_stays_lean(tmp_path: Path) -> None:
    """Only what a loss needs is loaded; of the package's losses only the logistic needs scipy."""
    code = ["import sys", "from pathlib import Path"]
    code += ["from levywalk.fleet.runtime.own_data import own_problem"]
    code += ["from levywalk.fleet.setup.manifest import Manifest"]
    code += ["from levywalk.fleet.setup.node_file import NodeFile", "import numpy as np"]
    for loss in set(LOSSES) - {"logistic"}:
        at = create(tmp_path / loss, **how(loss, lw.adam(minibatch=2)), metrics=False)
        code.append(f"manifest = Manifest.read({str(at / 'manifest.json')!r})")
        code.append(f"file = NodeFile.read({str(at / 'node-1' / 'node.toml')!r})")
        code.append("problem = own_problem(manifest, file)")
        code.append("problem.local_gradient(0, np.zeros(problem.dim)), problem.smoothness")
    heavy = (*HEAVY, "torch", "jax", "sklearn")
    code.append(f"print(*(name for name in {heavy} if name in sys.modules))")
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(code)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr
