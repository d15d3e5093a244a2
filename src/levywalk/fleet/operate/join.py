"""`fleet join`: a new node in a running fleet, beyond the number that it was created for.

The operator's machine makes the folder of the node, with keys and certificate, and signs the new
size of the fleet: one node more, and the mean L̄ that includes its L_v (`protocol/fleet_size.py`).
The nodes that run here keep it and tell all others. The neighbours get the node into their node
files, and start again when it runs, one after the other; nothing is lost by that.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from levywalk import checks
from levywalk.errors import InvalidParameter, InvalidSpec, LevywalkError
from levywalk.fleet.identity.authority import NODE_DAYS, Authority
from levywalk.fleet.identity.certificates import key_fingerprint
from levywalk.fleet.identity.key_files import CA_CERTIFICATE, NODE_CERTIFICATE, NODE_KEY
from levywalk.fleet.identity.operator_key import OperatorKey
from levywalk.fleet.operate.folder import PATIENCE, FleetFolder
from levywalk.fleet.operate.log_text import short
from levywalk.fleet.operate.node_processes import (
    FleetProblem,
    Say,
    looks,
    nothing_said,
    start_process,
)
from levywalk.fleet.operate.operators_key import operators_key
from levywalk.fleet.protocol.fleet_size import FleetSize
from levywalk.fleet.runtime import control
from levywalk.fleet.runtime.own_data import own_part
from levywalk.fleet.setup.manifest import Manifest
from levywalk.fleet.setup.node_file import NodeFile, Peer, host_port
from levywalk.fleet.setup.operator_folder import (
    OPERATOR_FILE,
    OperatorAddress,
    add_operator_address,
)
from levywalk.fleet.setup.places import free_ports
from levywalk.fleet.setup.size_file import read_size, write_size
from levywalk.walks import Importance, Mixed, Uniform, as_target
from levywalk.whole_files import sync_folder

_DATA = (".csv", ".npz")


class JoinedNode(NamedTuple):
    """A node that has joined: its number and folder, the new size, and what was done."""

    node: int
    folder: Path
    size: FleetSize
    told: list[int]  # nodes that run here, and tell all others; the node itself does, too
    restarted: list[int]  # neighbours that run here, if the node runs here, too
    started: bool  # whether the node itself runs, here
    near: list[int]  # all its neighbours …
    elsewhere: list[int]  # … and those whose node files are on other machines


def join(
    fleet: FleetFolder,
    neighbours: Sequence[int],
    *,
    data: str | Path | None = None,
    smoothness: float | None = None,
    address: str | None = None,
    days: int = NODE_DAYS,
    timeout: float = PATIENCE,
    say: Say = nothing_said,
) -> JoinedNode:
    """Add a node to a fleet; it gets the next number.

    Parameters
    ----------
    neighbours
        Its neighbours.
    data
        A file with its samples, as a node's data file; None if only its owner has it.
    smoothness
        Its L_v, if ``data`` is None; see ``levywalk node --check``.
    address
        Where its neighbours reach it, host:port; None if all nodes are on this machine. Metrics and
        operator ports are then those of another node.

    Raises
    ------
    InvalidParameter
        If an argument is wrong, or a node cannot join a fleet of this kind.
    FleetProblem
        If keys are missing, no node runs here, or a neighbour does not start again.
    """
    _check_kind(fleet.manifest)
    near, number = _checked_neighbours(fleet, neighbours), fleet.manifest.nodes
    key = _operator_here(fleet)
    running = [v for v in fleet.ids if fleet.answers(v)]
    _check_place(fleet, running, address)
    at = fleet.path / f"node-{number}"
    own = _made(fleet, number, near, data=data, address=address, days=days)
    try:
        found = _smoothness(fleet.manifest, own, data, smoothness)
        size = key.signed(_grown(fleet, found), fleet.manifest.digest)
        write_size(at, size)
        sync_folder(at)
    except BaseException:
        shutil.rmtree(at, ignore_errors=True)
        raise
    told = _tell(fleet, running, size)
    write_size(fleet.path, size)
    where = own.listen if address is None else address
    _add_edges(fleet, own, near, where)
    _add_door(fleet, own, where, size)
    starts = address is None and data is not None
    restarted = [u for u in near if u in running] if starts else []
    if starts:  # first, because its neighbours wait for its answer when they have started again
        say(f"node {number} starts")
        start_process(at, at / "node.log")
        _await(FleetFolder.open(fleet.path), number, timeout)
    for u in restarted:
        say(f"node {u} starts again")
        _restart(fleet, u, timeout)
    elsewhere = [u for u in near if u not in fleet.files]
    return JoinedNode(number, at, size, told, restarted, starts, near, elsewhere)


def _check_kind(manifest: Manifest) -> None:
    """Refuse fleets whose published constants depend on more than n and L̄."""
    for part in manifest.design.phases:
        if not isinstance(as_target(part.target), Uniform | Importance | Mixed):
            raise InvalidParameter(
                f"a node cannot join this fleet: design {part.name} has the target "
                f"{part.target!r}, whose mean depends on all edges; create a new fleet"
            )
    if manifest.tokens > 1:
        raise InvalidParameter(
            f"a node cannot join this fleet: it has {manifest.tokens} tokens, and the size of a "
            "fleet is told to one; create a new fleet"
        )
    if manifest.idle:
        raise InvalidParameter(
            f"a node cannot join this fleet: nodes {short(manifest.idle)} have no data; create a "
            "new fleet"
        )
    if manifest.published.privacy is not None:
        raise InvalidParameter(
            "a node cannot join this fleet: it has privacy, and L̄ would reveal the new node's L_v; "
            "create a new fleet"
        )
    if manifest.operator is None:
        raise InvalidParameter(
            "a node cannot join this fleet: its manifest names no operator's key; create a new "
            "fleet"
        )


def _operator_here(fleet: FleetFolder) -> OperatorKey:
    if fleet.lone or not (fleet.path / "authority" / "ca.key").exists():
        raise FleetProblem(
            f"{fleet.path / 'authority'} is needed: only it can make the keys of a new node; run "
            "the command in the folder that levywalk fleet init has made"
        )
    return operators_key(fleet, "let a node join")


def _check_place(fleet: FleetFolder, running: list[int], address: str | None) -> None:
    """Refuse a newcomer whom nobody could tell of, or reach, or whose folder is there."""
    if not running and address is None:
        raise FleetProblem(
            f"no node of {fleet.path} runs, so nobody can be told: levywalk fleet up {fleet.path}"
        )
    if address is None and not _is_local(fleet):
        raise InvalidParameter(
            "address must be given for a fleet on several machines, such as "
            "--address host9.example.org:7400"
        )
    if (fleet.path / f"node-{fleet.manifest.nodes}").exists():
        raise FleetProblem(
            f"{fleet.path / f'node-{fleet.manifest.nodes}'} exists, but that node has not joined: "
            "an earlier try was interrupted; remove that folder, and try again"
        )


def _checked_neighbours(fleet: FleetFolder, neighbours: Sequence[int]) -> list[int]:
    n = fleet.manifest.nodes
    if not neighbours:
        raise InvalidParameter("neighbours must be at least one node, such as --neighbours 0,2")
    found = [checks.integer("neighbours", u, low=0, high=n - 1) for u in neighbours]
    if len(set(found)) < len(found):
        raise InvalidParameter(f"neighbours must be different nodes, got {list(neighbours)}")
    return sorted(found)


def _is_local(fleet: FleetFolder) -> bool:
    """Return whether all nodes of the fleet are on this machine."""
    files = fleet.files.values()
    return fleet.whole and all(peer.state is not None for one in files for peer in one.neighbours)


# The folder of the new node


def _made(
    fleet: FleetFolder,
    number: int,
    near: list[int],
    *,
    data: str | Path | None,
    address: str | None,
    days: int,
) -> NodeFile:
    """Make the folder of the new node, with its keys and its data; return its node file."""
    at, local = fleet.path / f"node-{number}", address is None
    if data is not None:
        data = Path(data)
        if not data.is_file() or data.suffix not in _DATA:
            raise InvalidParameter(
                f"data must be a file .csv or .npz, as a node's data file, got {str(data)!r}"
            )
    first = next(iter(fleet.files.values()))
    host = (host_port(first.listen) or ("127.0.0.1", 0))[0]
    if address is not None and host_port(address) is None:
        raise InvalidParameter(f"address must be host:port, got {address!r}")
    ports = iter(free_ports(host, 3) if local else [])
    where = f"{host}:{next(ports)}" if address is None else address
    listen = where if local else f"0.0.0.0:{where.rpartition(':')[2]}"
    operator = None
    if first.operator is not None:
        door = next(ports) if local else int(first.operator.rpartition(":")[2])
        operator = f"{listen.rpartition(':')[0]}:{door}"
    peers = tuple(_peer(fleet, u, local=local) for u in near)
    authority = Authority.load(fleet.path / "authority")
    try:
        authority.issue(number, [where], days, folder=at)
        (at / "manifest.json").write_bytes(fleet.manifest.text)
        name = "data.csv" if data is None else f"data{data.suffix}"
        if data is not None:
            (at / name).touch(0o600)
            (at / name).write_bytes(data.read_bytes())
        file = NodeFile(
            number,
            listen,
            f"127.0.0.1:{next(ports)}" if local and first.metrics is not None else first.metrics,
            at / "manifest.json",
            at / name,
            at / "state",
            at / NODE_KEY,
            at / NODE_CERTIFICATE,
            at / CA_CERTIFICATE,
            peers,
            model=first.model,
            operator=operator,
        )
        file.write(at / "node.toml")
    except BaseException:
        shutil.rmtree(at, ignore_errors=True)
        raise
    return file


def _peer(fleet: FleetFolder, u: int, *, local: bool) -> Peer:
    """Return a node as its neighbours' files name it."""
    for file in fleet.files.values():
        for peer in file.neighbours:
            if peer.id == u:
                return replace(peer, state=fleet.files[u].state if local else None)
    raise InvalidParameter(
        f"neighbours must be nodes whose addresses are known here, got {u}: no node file of "
        f"{fleet.path} names it"
    )


def _smoothness(
    manifest: Manifest, own: NodeFile, data: str | Path | None, given: float | None
) -> float:
    if data is None:
        if given is None:
            raise InvalidParameter(
                "smoothness must be given if the data is not here: give --data FILE, or "
                "--smoothness L with the node's own L_v (levywalk node --check shows it)"
            )
        return checks.positive("smoothness", given)
    if given is not None:
        raise InvalidParameter(
            f"smoothness must not be given together with data, which tells it, got {given!r}"
        )
    try:
        problem, _ = own_part(manifest, own)
    except LevywalkError as error:
        raise InvalidSpec(f"the data of the new node cannot be used: {error}") from None
    assert problem is not None
    return float(problem.smoothness[0])


# The fleet


def _grown(fleet: FleetFolder, smoothness: float) -> FleetSize:
    """Return the size of the fleet with one node more, not signed."""
    manifest, n = fleet.manifest, fleet.manifest.nodes
    known = [one.about.get("size") for one in fleet.views()]
    here = read_size(fleet.path, Manifest.parse(manifest.text))
    known.append(None if here is None else here[:2])
    version = max((size[0] for size in known if size), default=0)
    most = max((size[1] for size in known if size), default=n)
    if most > n:
        raise FleetProblem(
            f"nodes here say that the fleet has {most} nodes, but {fleet.path} knows {n}: run the "
            "command where the last node joined, or copy its size.json"
        )
    mean = (n * manifest.mean_smoothness + smoothness) / (n + 1)
    return FleetSize(version + 1, n + 1, mean, b"")


def _tell(fleet: FleetFolder, running: list[int], size: FleetSize) -> list[int]:
    """Tell the nodes that run here; return those that have it. Others learn it from the newcomer or
    from their neighbours.
    """
    told = []
    content = size._asdict() | {"signature": size.signature.hex()}
    for v in running:
        try:
            control.ask(fleet.files[v].state, "size", **content)
            told.append(v)
        except (control.NoAnswer, InvalidParameter):
            continue  # it does not run any more, or is fenced
    return told


def _add_edges(fleet: FleetFolder, own: NodeFile, near: list[int], address: str) -> None:
    """Add the new node to the files of its neighbours, as far as they are here."""
    local = all(peer.state is not None for peer in own.neighbours)
    print_ = key_fingerprint(own.certificate.read_bytes())
    peer = Peer(own.id, address, print_, own.state if local else None)
    for u in near:
        if u in fleet.files:
            file = fleet.files[u]
            path = fleet.place(u) / "node.toml"
            replace(file, neighbours=(*file.neighbours, peer)).write(path)


def _add_door(fleet: FleetFolder, own: NodeFile, where: str, size: FleetSize) -> None:
    """Add the new node to the fleet's own operator's folder, if there is one."""
    door = fleet.path / "operator"
    if own.operator is not None and (door / OPERATOR_FILE).exists():
        port = own.operator.rpartition(":")[2]
        reached = OperatorAddress(own.id, f"{where.rpartition(':')[0]}:{port}")
        add_operator_address(door, reached, size)


def _restart(fleet: FleetFolder, node: int, timeout: float) -> None:
    fleet.stop(timeout, force=True, nodes=[node])
    start_process(fleet.place(node), fleet.log(node))
    _await(fleet, node, timeout)


def _await(fleet: FleetFolder, node: int, timeout: float) -> None:
    for _ in looks(time.monotonic() + timeout):
        if fleet.answers(node):
            return
    raise FleetProblem(f"node {node} does not answer: see {fleet.log(node)}")
