"""Create a fleet: a folder with a manifest, an authority, and for each node its file, its keys and
its own data.

::

    DIR/manifest.json     the same on every node
    DIR/authority/        ca.key and operator.key, which stay with the operator, and ca.crt
    DIR/node-3/           everything that node 3 needs, and nothing of other nodes: node.toml,
                          manifest.json, node.key, node.crt, ca.crt, data.npz; it creates state/
    DIR/operator/         with an operator port: what an operator elsewhere needs
    DIR/x0.safetensors    the first model of a user's own problem, also where the walk begins

`read_fleet.fleet_of` reads such a folder. `create` is long because each option is a parameter with
a description of its own.
"""

from __future__ import annotations

import io
import secrets
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from levywalk import checks
from levywalk.arrays import Floats
from levywalk.errors import InvalidParameter
from levywalk.fleet.identity.authority import NODE_DAYS, Authority
from levywalk.fleet.identity.certificates import key_fingerprint
from levywalk.fleet.identity.key_files import CA_CERTIFICATE, NODE_CERTIFICATE, NODE_KEY
from levywalk.fleet.identity.operator_key import OperatorKey
from levywalk.fleet.protocol.terms import HandOffTerms
from levywalk.fleet.setup import deploy as deployment
from levywalk.fleet.setup.budget_file import write_budget
from levywalk.fleet.setup.build import Fleet
from levywalk.fleet.setup.built import BuiltProblem, require_scores
from levywalk.fleet.setup.deploy import Place
from levywalk.fleet.setup.first_model import write_first_model
from levywalk.fleet.setup.manifest import Manifest
from levywalk.fleet.setup.node_file import LONGEST_NAME, NodeFile, Peer
from levywalk.fleet.setup.operator_folder import OperatorAddress, write_operator_folder
from levywalk.fleet.setup.places import operator_places, places_of
from levywalk.fleet.setup.privacy_terms import check_real_privacy
from levywalk.fleet.setup.sparse_shard import sparse_arrays
from levywalk.network import Network
from levywalk.privacy import as_privacy
from levywalk.problem import (
    GeneralizedLinear,
    Problem,
    follows_its_loss,
    has_l1,
    is_sparse,
)
from levywalk.problem.losses import Loss
from levywalk.problem.problem import MODEL_TYPES
from levywalk.progress import Progress
from levywalk.registry import from_dict
from levywalk.remedy import python_or_command
from levywalk.schedule import Schedule
from levywalk.walks import Walk
from levywalk.whole_files import sync_folder, write_whole


class PrivateProblem:
    """A problem whose data only the nodes' owners have.

    The operator knows the number of features and an agreed L̄. The model has a column for each
    output of the loss, and the type ``dtype``, "float64" or "float32".

    Examples
    --------
    >>> PrivateProblem(30, dim=5, mean_smoothness=2.0).smoothness.mean()
    np.float64(2.0)
    >>> PrivateProblem(30, 5, 2.0, loss={"kind": "softmax", "classes": 3}).dim
    15
    """

    def __init__(
        self,
        n: int,
        dim: int,
        mean_smoothness: float,
        *,
        loss: str | dict[str, Any] = "least_squares",
        ridge: float = 0.0,
        dtype: str = "float64",
    ) -> None:
        self.n, features = checks.integer("n", n, low=2), checks.integer("dim", dim, low=1)
        self.smoothness: Floats = np.full(
            self.n, checks.positive("mean_smoothness", mean_smoothness)
        )
        self.sample_loss: Loss = from_dict(
            "loss", {"kind": loss} if isinstance(loss, str) else loss
        )
        self.dim = features * self.sample_loss.n_outputs
        self.ridge = checks.real("ridge", ridge, "at least 0", low=0.0)
        self.dtype = np.dtype(checks.choice("dtype", dtype, MODEL_TYPES))
        self.in_doubles = True  # nodes compute in float64, whatever the type of the model

    def local_loss(self, v: int, x: Floats) -> float:
        """Return 0: the loss is not known here."""
        return 0.0

    def local_gradient(self, v: int, x: Floats) -> Floats:
        """Return zeros: the gradient is not known here."""
        return np.zeros(self.dim)


def create(
    folder: str | Path,
    network: Network,
    problem: Problem,
    design: Walk,
    *,
    steps: int,
    step_size: float | str | Schedule,
    name: str = "fleet",
    seed: int = 0,
    shared_key: bool = False,
    terms: HandOffTerms | None = None,
    host: str = "127.0.0.1",
    port: int | None = None,
    addresses: Sequence[str] | None = None,
    metrics: bool = True,
    days: int = NODE_DAYS,
    deploy: str | None = None,
    operator_port: int | None = None,
    privacy: Any = None,
    check_updates: Any = None,
    progress: Progress | None = None,
    **more: Any,
) -> Path:
    """Create the folder of a new fleet; return it.

    Parameters
    ----------
    folder
        A folder that does not exist, or is empty. It appears in one step, when it is complete.
    problem
        Any problem made of samples and a loss: each node gets its own samples. Or
        `PrivateProblem`: each
        owner puts a ``data.csv`` (features, and the target last) beside the node's file. Or
        `BuiltProblem`, of a user's own file: each node gets its own shard, and builds its part of
        the problem from that file, which is not copied to other machines.
    shared_key
        Whether all nodes draw from the seed, so that a walk without faults is that of
        `levywalk.run`. Anybody who knows the seed can then predict the walk. Otherwise each node
        draws from its own entropy.
    terms
        Times and rules of the hand-off; its ``run`` becomes the manifest's hash.
    host, port
        For nodes on this machine: the host they listen on, and the port of node 0; node i listens
        on port + i. Without a port, free ports are chosen.
    addresses
        For nodes on machines of their own: the host:port at which neighbours reach each node.
    metrics
        Whether each node serves its metrics on the loopback interface.
    days
        How many days the nodes' certificates are valid.
    deploy
        "systemd", "compose" or "kubernetes": add the files for it. The last two set the addresses.
    operator_port
        The port at which operators elsewhere may ask the nodes; several nodes on one host have the
        ports after it. 0: free ports of this machine. None: there is none.
    privacy
        Clip, noise and budget of each node, as for `levywalk.run`; the noise is the operating
        system's.
    check_updates
        Whether guardians compare models and refuse what clipped updates cannot have made: True, or
        a dict with ``alarm``, ``avoid_after`` and ``samples``. It needs ``privacy``, for its clip.
    more
        Further arguments of `Fleet.of` and `PublishedWalk.of`: tokens, start, x0, stop, detector,
        update, record_every.

    Examples
    --------
    >>> import tempfile
    >>> import levywalk as lw
    >>> with tempfile.TemporaryDirectory() as name:
    ...     at = create(
    ...         Path(name) / "five",
    ...         lw.ring(5),
    ...         lw.homogeneous(5),
    ...         lw.mhlj(),
    ...         steps=100,
    ...         step_size="theory",
    ...     )
    ...     (
    ...         sorted(path.name for path in at.iterdir()),
    ...         sorted(path.name for path in (at / "node-3").iterdir()),
    ...     )
    (['authority', 'manifest.json', 'node-0', 'node-1', 'node-2', 'node-3', 'node-4'],
     ['ca.crt', 'data.npz', 'manifest.json', 'node.crt', 'node.key', 'node.toml'])
    """
    folder = _fresh(Path(folder))
    _check_problem(problem, design, step_size)
    private = as_privacy(privacy)
    check_real_privacy(
        private,
        shared_key=bool(shared_key),
        containers=deploy in deployment.OWN_ADDRESSES,
        data_here=not isinstance(problem, PrivateProblem),
    )
    fleet = Fleet.of(
        network,
        problem,
        design,
        steps=steps,
        step_size=step_size,
        seed=checks.seed(seed),
        shared_key=bool(shared_key),
        terms=terms,
        privacy=private,
        real=True,
        check_updates=check_updates,
        **more,
    )
    operator = OperatorKey.new()
    manifest = Manifest.of(fleet, name=name, operator=operator.public)
    places = places_of(network.n, name, host, port, addresses, metrics, deploy)
    operators = _operator_addresses(places, operator_port, deploy)

    def fill(beside: Path) -> None:
        authority = _fill(beside, fleet, manifest, places, days, progress, operators)
        operator.write(beside / "authority")
        if operators:
            named = [one._replace(name=_name(network, one.id)) for one in operators]
            write_operator_folder(beside / "operator", authority, manifest, named, days)

    _write_fleet(folder, fill, deploy)
    return folder


# Writing


def _fresh(folder: Path) -> Path:
    folder = folder.absolute()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidParameter(
            f"folder must not exist, or be empty, got {str(folder)!r}: choose another; a fleet is "
            "never overwritten"
        )
    return folder.resolve()


def _check_problem(problem: Problem, design: Walk, step_size: float | str | Schedule) -> None:
    """Refuse problems that a node cannot compute alone, and step sizes that need the
    private data.
    """
    if isinstance(problem, BuiltProblem):
        for size in (step_size, getattr(design, "step_size", 0.0)):
            require_scores(problem, design, size)
    elif isinstance(problem, PrivateProblem):
        sizes = (
            [step_size]
            if design.detector is None
            else [step_size, getattr(design, "step_size", 0.0)]
        )
        for size in sizes:
            if isinstance(size, str):
                raise InvalidParameter(
                    f"step_size must be a number or a schedule in every phase, got {size!r}: "
                    "the largest smoothness constant is not known here"
                )
    elif not follows_its_loss(problem):
        raise InvalidParameter(
            f"problem must be made of samples and a loss, such as LeastSquares or Logistic, got "
            f"{type(problem).__name__}: a node computes its own loss; one of your own comes from a "
            "file that is installed at every node, see levywalk fleet init --model"
        )
    elif has_l1(problem):
        l1: float = problem.l1  # type: ignore[attr-defined]
        raise InvalidParameter(
            f"problem must have no l1 penalty on real nodes, got l1 = {l1:g}; "
            f"use {python_or_command('a ridge', '--ridge')}, or levywalk fleet simulate, which "
            "takes it"
        )


def _operator_addresses(
    places: list[Place], port: int | None, deploy: str | None
) -> list[OperatorAddress]:
    """Return where operators elsewhere ask the nodes; nothing if there is no such port."""
    if port is None:
        return []
    if deploy in deployment.OWN_ADDRESSES:
        raise InvalidParameter(
            f"operator_port cannot be given with deploy={deploy!r}, whose containers are reached "
            "through what you publish: add operator to the node files, publish those ports, and "
            "use levywalk fleet operator"
        )
    return operator_places(places, checks.integer("operator_port", port, low=0, high=65535))


def _write_fleet(folder: Path, fill: Callable[[Path], None], deploy: str | None) -> None:
    """Write a fleet's folder under another name, and rename it when it is complete."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}")
    try:
        beside.mkdir(mode=0o700)
        fill(beside)
        if deploy is not None:
            for path, text in deployment.files(beside, deploy).items():
                write_whole(beside / path, text.encode())
        sync_folder(beside)
        beside.rename(folder)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise
    sync_folder(folder.parent)


def _fill(
    folder: Path,
    fleet: Fleet,
    manifest: Manifest,
    places: list[Place],
    days: int,
    progress: Progress | None,
    operators: list[OperatorAddress],
) -> Authority:
    """Write all files of the fleet; return its authority."""
    manifest.write(folder / "manifest.json")
    problem = fleet.problem
    if isinstance(problem, BuiltProblem):
        write_first_model(folder, fleet.x0, manifest.schema)
    authority = Authority.create(folder / "authority", manifest.name)
    prints = []
    for v, place in enumerate(places):
        at = authority.issue(v, [place.address], days, folder=folder / f"node-{v}")
        prints.append(key_fingerprint((at / NODE_CERTIFICATE).read_bytes()))
    for v, place in enumerate(places):
        at = folder / f"node-{v}"
        manifest.write(at / "manifest.json")
        own: dict[str, Any] = {}
        if isinstance(problem, BuiltProblem):
            own = _own_model(at, problem, v, place)
            if v in (fleet.starts or (fleet.start,)):
                write_first_model(at, fleet.x0, manifest.schema)
        own |= _own_privacy(at, fleet, manifest, v)
        near = [int(u) for u in fleet.network.neighbours(v) if u != v]
        NodeFile(
            v,
            place.listen,
            place.metrics,
            at / "manifest.json",
            at / _write_data(at, fleet.problem, fleet.index(v)),
            at / "state" if place.state is None else place.state,
            at / NODE_KEY,
            at / NODE_CERTIFICATE,
            at / CA_CERTIFICATE,
            tuple(
                Peer(
                    u,
                    places[u].address,
                    prints[u],
                    folder / f"node-{u}" / "state" if place.local else None,
                )
                for u in near
            ),
            _name(fleet.network, v),
            operator=_behind(place, operators[v]) if operators else None,
            **own,
        ).write(at / "node.toml")
        if progress is not None:
            progress.advance(1)
    return authority


def _own_privacy(folder: Path, fleet: Fleet, manifest: Manifest, v: int) -> dict[str, Any]:
    """Write that a new node has spent nothing; return its L_v with noise, if it is released."""
    if fleet.published.privacy is None:
        return {}
    write_budget(folder, manifest)
    if fleet.known is None:  # L_v is public
        return {}
    released = fleet.published.privacy.privacy.scores == "released" and fleet.index(v) >= 0
    return {"score": float(fleet.known.smoothness[fleet.index(v)]) if released else None}


def _behind(place: Place, operator: OperatorAddress) -> str:
    """Return the address on which a node listens for operators: its own host, or all of them."""
    host = place.listen.rpartition(":")[0]
    return f"{host}:{operator.address.rpartition(':')[2]}"


def _own_model(folder: Path, problem: BuiltProblem, v: int, place: Place) -> dict[str, Any]:
    """Return what a node file says about a model of a user's own: where its file is, and L_v if it
    was given. On another machine the file is beside the node file.
    """
    path = problem.path.absolute() if place.local else folder / problem.path.name
    return {"model": path, "score": float(problem.smoothness[v]) if problem.given else None}


def _name(network: Network, v: int) -> str | None:
    """Return the name of a node, if it has one that fits on a line."""
    name = "" if network.given_names is None else network.names[v]
    return name if 0 < len(name) <= LONGEST_NAME and name.isprintable() else None


def _write_data(folder: Path, problem: Problem, index: int) -> str:
    """Write a node's own samples, readable by the owner alone; return the name of the file.

    A node without data has the index -1 and gets a file without samples.
    """
    if isinstance(problem, BuiltProblem):
        parts = problem.shards[index]._asdict()
        archive = io.BytesIO()
        np.savez(archive, **{key: part for key, part in parts.items() if part is not None})
        write_whole(folder / "data.npz", archive.getvalue(), 0o600)
        return "data.npz"
    if not isinstance(problem, GeneralizedLinear):
        return "data.csv"
    rows = slice(0, 0)
    if index >= 0:
        rows = slice(int(problem.offsets[index]), int(problem.offsets[index + 1]))
    own, archive = problem.sorted_features[rows], io.BytesIO()
    samples = sparse_arrays(own) if is_sparse(own) else {"features": own}
    np.savez(archive, **samples, targets=problem.sorted_targets[rows])
    write_whole(folder / "data.npz", archive.getvalue(), 0o600)
    return "data.npz"
