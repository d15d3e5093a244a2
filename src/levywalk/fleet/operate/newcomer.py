"""The folder of a node that joins a fleet: its keys, data, node file and, with privacy, its budget
and its released score.

The folder appears in one step, when it is complete, together with `JOINING`: a file that says that
the fleet does not know the node yet, and what the operator has typed. It is removed when the join
is finished.
"""

from __future__ import annotations

import json
import secrets
import shlex
import shutil
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from levywalk.errors import InvalidParameter, InvalidSpec, LevywalkError
from levywalk.fleet.identity.authority import Authority
from levywalk.fleet.identity.key_files import CA_CERTIFICATE, NODE_CERTIFICATE, NODE_KEY
from levywalk.fleet.identity.operator_key import OperatorKey
from levywalk.fleet.operate.folder import FleetFolder
from levywalk.fleet.operate.node_processes import FleetProblem
from levywalk.fleet.protocol.fleet_size import FleetSize
from levywalk.fleet.runtime.own_data import own_part
from levywalk.fleet.setup.budget_file import write_budget
from levywalk.fleet.setup.fields import Fields, read_bytes
from levywalk.fleet.setup.manifest import Manifest
from levywalk.fleet.setup.node_file import NodeFile, Peer, host_port
from levywalk.fleet.setup.places import free_ports
from levywalk.fleet.setup.size_file import sizes_of_tokens, write_size
from levywalk.fleet.setup.update_check_terms import check_own_samples
from levywalk.problem import Problem
from levywalk.whole_files import sync_folder, write_whole

JOINING = "joining.json"
_LARGEST = 1 << 20  # bytes
_MOST_ID = 2**31 - 1
_DATA = (".csv", ".npz")


class JoinRequest(NamedTuple):
    """What the operator has typed: the node that is to join."""

    neighbours: tuple[int, ...]
    data: Path | None = None  # the file with its samples; None if only its owner has them
    smoothness: float | None = None
    address: str | None = None  # None: all nodes are on this machine

    @property
    def starts(self) -> bool:
        """Whether the node can be started here."""
        return self.address is None and self.data is not None

    def command(self, folder: Path) -> str:
        """Return the command that says the same.

        Examples
        --------
        >>> JoinRequest((0, 2), Path("new.csv")).command(Path("my-fleet"))
        'levywalk fleet join my-fleet --neighbours 0,2 --data new.csv'
        """
        words = ["levywalk", "fleet", "join", str(folder)]
        words += ["--neighbours", ",".join(map(str, self.neighbours))]
        words += [] if self.data is None else ["--data", str(self.data)]
        words += [] if self.smoothness is None else ["--smoothness", repr(self.smoothness)]
        words += [] if self.address is None else ["--address", self.address]
        return shlex.join(words)


def interrupted_join(folder: Path) -> tuple[int, JoinRequest] | None:
    """Return the node of a fleet's folder that has not finished joining, and what was typed."""
    for path in sorted(folder.glob(f"node-*/{JOINING}")):
        try:
            content = json.loads(read_bytes(path, _LARGEST, "what was typed").decode())
        except (ValueError, RecursionError) as error:
            raise InvalidSpec(f"{path}: not JSON ({error}); remove {path.parent}") from None
        given = Fields(
            content, str(path), needed=("id", "neighbours", "data", "smoothness", "address")
        )
        number = given.integer("id", low=1, high=_MOST_ID)
        near, rest = given.values["neighbours"], [given.values[key] for key in _REST]
        if not isinstance(near, list) or not all(type(u) is int for u in near):
            raise given.bad("neighbours", "a list of nodes")
        if not all(
            value is None or type(value) is kind for value, kind in zip(rest, _KINDS, strict=True)
        ):
            raise given.bad("data", "what levywalk fleet join has written")
        data, smoothness, address = rest
        return number, JoinRequest(
            tuple(near), None if data is None else Path(data), smoothness, address
        )
    return None


_REST, _KINDS = ("data", "smoothness", "address"), (str, float, str)


def check_same(folder: Path, number: int, before: JoinRequest, wish: JoinRequest) -> None:
    """Refuse another node while one has not finished joining."""
    same = before[2:] == wish[2:] and before.neighbours == wish.neighbours
    if same and (before.data is None) == (wish.data is None):
        if wish.data is None:
            return
        copied = folder / f"node-{number}" / f"data{wish.data.suffix}"
        if wish.data.is_file() and copied.is_file():
            same = copied.read_bytes() == wish.data.read_bytes()
            if same:
                return
    raise FleetProblem(
        f"node {number} has not finished joining: an earlier command was interrupted. Run the "
        f"same command again to resume: {before.command(folder)}"
    )


def check_new(fleet: FleetFolder, wish: JoinRequest) -> None:
    """Refuse the node that has joined last: a command that was killed at its very end, and typed
    again, must not add a second one.
    """
    number = fleet.manifest.nodes - 1
    founded = Manifest.parse(fleet.manifest.text).nodes
    file = fleet.files.get(number)
    if number < founded or file is None or wish.data is None:
        return
    near = tuple(sorted(peer.id for peer in file.neighbours))
    same = near == wish.neighbours and file.data.suffix == wish.data.suffix
    if same and file.data.is_file() and file.data.read_bytes() == wish.data.read_bytes():
        raise FleetProblem(
            f"node {number} has joined already, with these neighbours and this data: see levywalk "
            f"fleet status {fleet.path}; a further node needs other ones"
        )


def make_newcomer(fleet: FleetFolder, wish: JoinRequest, key: OperatorKey, days: int) -> int:
    """Make the folder of a new node, with the size of the fleet that includes it, signed for each
    token; return its number.
    """
    number = fleet.manifest.nodes
    for left in fleet.path.glob(".node-*"):  # of a command that was killed; nobody knows its keys
        shutil.rmtree(left, ignore_errors=True)
    beside = fleet.path / f".node-{number}.{secrets.token_hex(4)}"
    try:
        own = _filled(beside, fleet, number, wish, days)
        score = _score(fleet.manifest, own, wish)
        if score.in_node_file is not None:
            own = replace(own, score=score.in_node_file)
        own.write(beside / "node.toml")
        if fleet.manifest.published.privacy is not None:
            write_budget(beside, fleet.manifest)
        grown = _grown(fleet, score.published)
        for one in fleet.each:
            signed = key.signed(grown, one.manifest.digest)
            write_size(beside, signed, one.manifest.token_number)
        typed = wish._asdict() | {"data": None if wish.data is None else str(wish.data)}
        write_whole(beside / JOINING, (json.dumps({"id": number} | typed) + "\n").encode(), 0o600)
        sync_folder(beside)
        beside.rename(fleet.path / f"node-{number}")
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise
    sync_folder(fleet.path)
    return number


def _filled(at: Path, fleet: FleetFolder, number: int, wish: JoinRequest, days: int) -> NodeFile:
    """Make the folder with keys and data; return its node file, which is not written yet."""
    local = wish.address is None
    first = next(iter(fleet.files.values()))
    host = (host_port(first.listen) or ("127.0.0.1", 0))[0]
    ports = iter(free_ports(host, 3) if local else [])
    where = f"{host}:{next(ports)}" if wish.address is None else wish.address
    listen = where if local else f"0.0.0.0:{where.rpartition(':')[2]}"
    operator = None
    if first.operator is not None:
        port = next(ports) if local else int(first.operator.rpartition(":")[2])
        operator = f"{listen.rpartition(':')[0]}:{port}"
    peers = tuple(_peer(fleet, u, local=local) for u in wish.neighbours)
    Authority.load(fleet.path / "authority").issue(number, [where], days, folder=at)
    (at / "manifest.json").write_bytes(fleet.manifest.text)
    name = "data.csv" if wish.data is None else f"data{wish.data.suffix}"
    if wish.data is not None:
        (at / name).touch(0o600)
        (at / name).write_bytes(wish.data.read_bytes())
    return NodeFile(
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


# What the node's data say


def check_wish(fleet: FleetFolder, wish: JoinRequest) -> None:
    """Refuse what cannot be used, before anything is made."""
    if wish.data is not None and (not wish.data.is_file() or wish.data.suffix not in _DATA):
        raise InvalidParameter(
            f"data must be a file .csv or .npz, as a node's data file, got {str(wish.data)!r}"
        )
    if wish.address is not None and host_port(wish.address) is None:
        raise InvalidParameter(f"address must be host:port, got {wish.address!r}")
    scores = _scores(fleet.manifest)
    if scores == "private":
        if wish.smoothness is not None:
            raise InvalidParameter(
                "smoothness must not be given: with private scores every node publishes 1 instead "
                f"of its L_v, got {wish.smoothness!r}; leave it out"
            )
    elif scores == "released" and wish.data is None:
        raise InvalidParameter(
            "data must be given, because the scores of this fleet are released: the noise of L_v "
            "is drawn here, from the node's own samples; give --data FILE, or create a fleet with "
            "scores=public or with --design unif_rw"
        )
    elif wish.data is None and wish.smoothness is None:
        raise InvalidParameter(
            "smoothness must be given if the data is not here: give --data FILE, or "
            "--smoothness L with the node's own L_v (levywalk node --check shows it)"
        )
    if wish.smoothness is not None and wish.data is not None:
        raise InvalidParameter(
            "smoothness must not be given together with data, which determines it, got "
            f"{wish.smoothness!r}"
        )


class _Score(NamedTuple):
    """The L_v of a new node that enters L̄, and the one that its node file must have, if any."""

    published: float
    in_node_file: float | None = None


def _scores(manifest: Manifest) -> str:
    """Return what nodes tell of their L_v: public, private or released."""
    privacy = manifest.published.privacy
    return "public" if privacy is None else privacy.privacy.scores


def _score(manifest: Manifest, own: NodeFile, wish: JoinRequest) -> _Score:
    """Return what the new node publishes of its L_v: 1 with private scores, L_v with noise of the
    operating system's generator where it is released, and otherwise L_v itself.
    """
    scores = _scores(manifest)
    problem = None if wish.data is None else _own_problem(manifest, own)
    if scores == "private":
        return _Score(1.0)
    if problem is None:
        assert wish.smoothness is not None
        return _Score(wish.smoothness)
    if scores == "public":
        return _Score(float(problem.smoothness[0]))
    from levywalk.privacy import SystemNoise, scored_problem

    bound = manifest.published.privacy
    assert bound is not None
    known = scored_problem(bound.privacy, problem, 0, SystemNoise())
    released = float(known.smoothness[0])
    return _Score(released, released)


def _own_problem(manifest: Manifest, own: NodeFile) -> Problem:
    try:
        problem, _ = own_part(manifest, own)
        check_own_samples(manifest.published, problem)
    except LevywalkError as error:
        raise InvalidSpec(f"the data of the new node cannot be used: {error}") from None
    assert problem is not None
    return problem


def _grown(fleet: FleetFolder, smoothness: float) -> FleetSize:
    """Return the size of the fleet with one node more, not signed."""
    manifest, n = fleet.manifest, fleet.manifest.nodes
    known = [one.about.get("size") for each in fleet.each for one in each.node_views()]
    here = sizes_of_tokens(fleet.path, Manifest.parse(manifest.text))
    known += [None if size is None else size[:2] for size in here]
    version = max((size[0] for size in known if size), default=0)
    most = max((size[1] for size in known if size), default=n)
    if most > n:
        raise FleetProblem(
            f"nodes here say that the fleet has {most} nodes, but {fleet.path} knows {n}: run the "
            "command where the last node joined, or copy its size.json"
        )
    mean = (n * manifest.mean_smoothness + smoothness) / (n + 1)
    return FleetSize(version + 1, n + 1, mean, b"")
