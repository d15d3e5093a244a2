"""`fleet join`: a new node in a running fleet, beyond the number that it was created for.

The operator's machine makes the folder of the node, with keys and certificate, and signs the new
size of the fleet: one node more, and the mean L̄ that includes its L_v (`protocol/fleet_size.py`).
The nodes that run here keep it and tell all others. The neighbours get the node into their node
files, and start again when it runs, one after the other; nothing is lost by that. Of several
tokens, each is told the same size, signed for its own name of the run.

Nodes may be killed meanwhile, and so may the command. The folder appears in one step
(`newcomer.py`), and everything after that may be done twice: the same command, run again, resumes
where it stopped.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from levywalk import checks
from levywalk.errors import InvalidParameter, LevywalkError
from levywalk.fleet.identity.authority import NODE_DAYS
from levywalk.fleet.identity.certificates import key_fingerprint
from levywalk.fleet.identity.operator_key import OperatorKey
from levywalk.fleet.operate.changing import changing
from levywalk.fleet.operate.folder import PATIENCE, FleetFolder
from levywalk.fleet.operate.log_text import short
from levywalk.fleet.operate.newcomer import (
    JOINING,
    JoinRequest,
    check_new,
    check_same,
    check_wish,
    interrupted_join,
    make_newcomer,
)
from levywalk.fleet.operate.node_processes import (
    FleetProblem,
    Say,
    Starting,
    looks,
    nothing_said,
    start_process,
    tail,
)
from levywalk.fleet.operate.operators_key import operators_key
from levywalk.fleet.protocol.fleet_size import FleetSize
from levywalk.fleet.runtime import control
from levywalk.fleet.runtime.node_status import running
from levywalk.fleet.setup.manifest import Manifest
from levywalk.fleet.setup.node_file import NodeFile, Peer
from levywalk.fleet.setup.operator_folder import (
    OPERATOR_FILE,
    OperatorAddress,
    add_operator_address,
)
from levywalk.fleet.setup.size_file import sizes_of_tokens, write_size
from levywalk.walks import Importance, Mixed, Uniform, as_target
from levywalk.whole_files import sync_folder


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
    down: list[int]  # … and those here that do not run; they know it from their next start on


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

    If an earlier call with the same arguments was interrupted, this one finishes it.

    Parameters
    ----------
    neighbours
        Its neighbours.
    data
        A file with its samples, as a node's data file; None if only its owner has it.
    smoothness
        Its L_v, if ``data`` is None; see ``levywalk node --check``. With private scores there is
        none: every node publishes 1.
    address
        Where its neighbours reach it, host:port; None if all nodes are on this machine. Metrics and
        operator ports are then those of another node.

    Raises
    ------
    InvalidParameter
        If an argument is wrong, or a node cannot join a fleet of this kind.
    FleetProblem
        If keys are missing, no node runs here, a neighbour does not start again, or another node
        has not finished joining.
    """
    _check_kind(fleet.manifest)
    key = _operator_here(fleet)
    near = tuple(sorted(_checked_neighbours(neighbours)))
    given = None if data is None else Path(data).absolute()
    known = None if smoothness is None else checks.positive("smoothness", smoothness)
    wish = JoinRequest(near, given, known, address)
    with changing(fleet.path):
        fleet = FleetFolder.open(fleet.path)
        left = interrupted_join(fleet.path)
        if left is None:
            _check_known(fleet, wish)
            _check_place(fleet, address)
            check_wish(fleet, wish)
            check_new(fleet, wish)
            number = make_newcomer(fleet, wish, key, days)
        else:
            number, before = left
            check_same(fleet.path, number, before, wish)
            say(f"node {number} has not finished joining: resuming")
        try:
            return _finish(FleetFolder.open(fleet.path), number, wish, timeout, say)
        except FleetProblem as error:
            raise FleetProblem(
                f"{error}\nNode {number} has not finished joining. Run the same command again "
                f"to resume: {wish.command(fleet.path)}"
            ) from None


def _finish(
    fleet: FleetFolder, number: int, wish: JoinRequest, timeout: float, say: Say
) -> JoinedNode:
    """Tell the fleet of the new node, whose folder is complete. All of this may be done twice."""
    at, own = fleet.path / f"node-{number}", fleet.files[number]
    found = sizes_of_tokens(at, Manifest.parse(fleet.manifest.text))
    sizes = [one for one in found if one is not None]
    assert len(sizes) == len(found)  # the folder appears with all of them
    size = sizes[0]
    others = [v for v in fleet.ids if v != number]
    told = _tell(fleet, others, sizes)
    for token, one in enumerate(sizes):
        write_size(fleet.path, one, token)
    where = own.listen if wish.address is None else wish.address
    _add_edges(fleet, own, wish.neighbours, where)
    _add_operator_address(fleet, own, where, size)
    near = [u for u in wish.neighbours if u in fleet.files]
    restarted, down = [], []
    if wish.starts:  # first, because its neighbours wait for its answer when they have started
        say(f"node {number} starts")
        _Knowing(fleet, number, timeout).await_node(number)
        rest = []
        for u in near:
            if u in told or running(fleet.files[u].state) is not None:
                say(f"node {u} starts again")
                _Knowing(fleet, number, timeout).await_node(u)
                restarted.append(u)
            else:
                rest.append(u)
        for u in rest:  # it may have been starting just when its node file was changed
            if running(fleet.files[u].state) is None:
                down.append(u)
                continue
            _Knowing(fleet, number, timeout).await_node(u)
            restarted.append(u)
    (at / JOINING).unlink(missing_ok=True)
    sync_folder(at)
    elsewhere = [u for u in wish.neighbours if u not in fleet.files]
    return JoinedNode(
        number, at, size, told, restarted, wish.starts, [*wish.neighbours], elsewhere, down
    )


class _Knowing:
    """Waits until a node runs that knows of the new one. A node that is killed meanwhile is started
    again, and one that runs with its earlier node file is stopped and started.
    """

    def __init__(self, fleet: FleetFolder, number: int, timeout: float) -> None:
        self.fleet, self.number, self.timeout = fleet, number, timeout

    def _knows(self, node: int) -> bool | None:
        """Return whether a node knows of the new one; None if it does not answer."""
        try:
            about = control.ask(self.fleet.files[node].state, "status", timeout=0.5)
        except LevywalkError:
            return None
        return node == self.number or str(self.number) in about["edges"]

    def await_node(self, node: int) -> None:
        """Wait for a node."""
        fleet, until = self.fleet, time.monotonic() + self.timeout
        nodes = Starting(
            lambda v: start_process(fleet.place(v), fleet.log(v)),
            lambda v: running(fleet.files[v].state) is not None,
        )
        for _ in looks(until):
            knows = self._knows(node)
            if knows:
                return
            if knows is False:
                fleet.stop(self.timeout, force=True, nodes=[node])
            nodes.see_to([node])
            if node in nodes.ended:
                raise FleetProblem(
                    f"node {node} ended with exit code {nodes.ended[node]}; the end of "
                    f"{fleet.log(node)}:\n{tail(fleet.log(node))}"
                )
        raise FleetProblem(f"node {node} does not answer: see {fleet.log(node)}")


def _check_kind(manifest: Manifest) -> None:
    """Refuse fleets whose published constants depend on more than n and L̄."""
    for part in manifest.design.phases:
        if not isinstance(as_target(part.target), Uniform | Importance | Mixed):
            raise InvalidParameter(
                f"a node cannot join this fleet: design {part.name} has the target "
                f"{part.target!r}, whose mean depends on all edges; create a new fleet"
            )
    if manifest.idle:
        raise InvalidParameter(
            f"a node cannot join this fleet: nodes {short(manifest.idle)} have no data; create a "
            "new fleet"
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


def _check_place(fleet: FleetFolder, address: str | None) -> None:
    """Refuse a newcomer whom nobody could tell of, or reach, or whose folder is there."""
    if address is None and not any(fleet.answers(v) for v in fleet.ids):
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
            "remove that folder, and try again"
        )


def _checked_neighbours(neighbours: Sequence[int]) -> list[int]:
    if not neighbours:
        raise InvalidParameter("neighbours must be at least one node, such as --neighbours 0,2")
    found = [checks.integer("each neighbour", u, low=0) for u in neighbours]
    if len(set(found)) < len(found):
        raise InvalidParameter(f"neighbours must be different nodes, got {list(neighbours)}")
    return found


def _check_known(fleet: FleetFolder, wish: JoinRequest) -> None:
    """Refuse neighbours that the fleet does not have."""
    last = fleet.manifest.nodes - 1
    for u in wish.neighbours:
        if u > last:
            raise InvalidParameter(f"each neighbour must be one of 0 to {last}, got {u}")


def _is_local(fleet: FleetFolder) -> bool:
    """Return whether all nodes of the fleet are on this machine."""
    files = fleet.files.values()
    return fleet.whole and all(peer.state is not None for one in files for peer in one.neighbours)


# The fleet


def _tell(fleet: FleetFolder, nodes: list[int], sizes: list[FleetSize]) -> list[int]:
    """Tell every token of the nodes that run here its own record; return the nodes that have them
    all. Others learn it from the newcomer or from their neighbours.
    """
    told = []
    orders = [size._asdict() | {"signature": size.signature.hex()} for size in sizes]
    for v in nodes:
        try:
            for one, order in zip(fleet.each, orders, strict=True):
                one.ask(v, "size", **order)
            told.append(v)
        except (control.NoAnswer, InvalidParameter):
            continue  # it does not run any more, or is fenced
    return told


def _add_edges(fleet: FleetFolder, own: NodeFile, near: Sequence[int], address: str) -> None:
    """Add the new node to the files of its neighbours, as far as they are here."""
    local = all(peer.state is not None for peer in own.neighbours)
    print_ = key_fingerprint(own.certificate.read_bytes())
    peer = Peer(own.id, address, print_, own.state if local else None)
    for u in near:
        if u in fleet.files:
            file = fleet.files[u]
            if own.id not in {one.id for one in file.neighbours}:
                path = fleet.place(u) / "node.toml"
                replace(file, neighbours=(*file.neighbours, peer)).write(path)


def _add_operator_address(fleet: FleetFolder, own: NodeFile, where: str, size: FleetSize) -> None:
    """Add the new node to the fleet's own operator's folder, if there is one."""
    folder = fleet.path / "operator"
    if own.operator is not None and (folder / OPERATOR_FILE).exists():
        port = own.operator.rpartition(":")[2]
        reached = OperatorAddress(own.id, f"{where.rpartition(':')[0]}:{port}")
        add_operator_address(folder, reached, size)
