"""The node file, in TOML: a node's id, where it listens, its neighbours, and where its files are.

::

    id = 3
    listen = "127.0.0.1:21003"
    metrics = "127.0.0.1:22003"       # optional; a loopback address
    operator = "0.0.0.0:23003"        # optional: where operators may ask from elsewhere
    manifest = "manifest.json"        # paths start at the folder of this file
    data = "data.npz"
    state = "state"
    key = "node.key"
    certificate = "node.crt"
    authority = "ca.crt"
    model = "my_model.py"             # optional: the file that builds a model of a user's own
    score = 3.5                       # optional: the node's L_v, if the model does not state it

    [[neighbours]]
    id = 2
    address = "127.0.0.1:21002"
    fingerprint = "…"                 # 64 hexadecimal digits of the neighbour's key
    state = "../node-2/state"         # optional: of a neighbour on the same machine
"""

from __future__ import annotations

import ipaddress
import os
import re
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path

from levywalk.errors import InvalidParameter, InvalidSpec
from levywalk.fleet.setup.fields import Fields, read_bytes
from levywalk.fleet.setup.several_tokens import token_folder
from levywalk.whole_files import write_whole

_LARGEST = 1 << 24  # bytes; enough for about fifty thousand neighbours
_HIGHEST = 2**31 - 1  # largest id of a node
LONGEST_NAME = 200  # characters
_ADDRESS = re.compile(
    r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?):([0-9]{1,5})"
)
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")
_PATHS = ("manifest", "data", "state", "key", "certificate", "authority")


@dataclass(frozen=True)
class Peer:
    """A neighbour: its address, and the fingerprint of its keys."""

    id: int
    address: str
    fingerprint: str
    state: Path | None = None  # its state folder, if it is on the same machine


@dataclass(frozen=True)
class NodeFile:
    """The settings of one node. All paths are absolute.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as name:
    ...     at = Path(name).resolve()
    ...     files = {
    ...         what: at / what
    ...         for what in ("manifest", "data", "state", "key", "certificate", "authority")
    ...     }
    ...     near = (Peer(2, "127.0.0.1:21002", "0" * 64),)
    ...     file = NodeFile(id=3, listen="127.0.0.1:21003", metrics=None, neighbours=near, **files)
    ...     file.write(at / "node.toml")
    ...     print((at / "node.toml").read_text()[:33])
    ...     NodeFile.read(at / "node.toml") == file
    id = 3
    listen = "127.0.0.1:21003"
    True
    """

    id: int
    listen: str
    metrics: str | None
    manifest: Path
    data: Path
    state: Path
    key: Path
    certificate: Path
    authority: Path
    neighbours: tuple[Peer, ...]
    name: str | None = None  # in the network file; only the operator's views show it
    model: Path | None = None  # the file that builds a model of a user's own
    score: float | None = None  # L_v, where it was given and is not computed from the data
    operator: str | None = None  # where operators may ask from elsewhere; None: nowhere

    @classmethod
    def read(cls, path: str | Path) -> NodeFile:
        """Read a node file. The files that it names are not opened."""
        path = Path(path)
        text = read_bytes(path, _LARGEST, "a node file")
        try:
            table = tomllib.loads(text.decode())
        except (ValueError, RecursionError) as error:  # not TOML, or not UTF-8
            raise InvalidSpec(
                f"{path}: not TOML ({error}); correct the line, or make the file again"
            ) from None
        top = Fields(
            table,
            str(path),
            needed=("id", "listen", *_PATHS, "neighbours"),
            optional=("metrics", "operator", "name", "model", "score"),
        )
        folder = path.absolute().parent
        node, listen = top.integer("id", low=0, high=_HIGHEST), _address(top, "listen")
        return cls(
            node,
            listen,
            _loopback(top, "metrics", listen) if "metrics" in top else None,
            neighbours=_neighbours(top, node, listen, folder),
            name=top.text("name", most=LONGEST_NAME) if "name" in top else None,
            model=_path(top, "model", folder) if "model" in top else None,
            score=top.number("score", low=0.0, low_open=True) if "score" in top else None,
            operator=_operator_address(top, "operator", listen) if "operator" in top else None,
            **{key: _path(top, key, folder) for key in _PATHS},
        )

    def of_token(self, number: int) -> NodeFile:
        """Return the file with the state folder of one of several tokens.

        Each token after the first has a folder of its own in that of the node.
        """
        return self if not number else replace(self, state=token_folder(self.state, number))

    def write(self, path: str | Path) -> None:
        """Write the file, completely or not at all.

        Paths in the folder or beside it are written relative to it.
        """
        path = Path(path)
        folder = path.absolute().parent
        lines = [f"id = {self.id}"]
        if self.name is not None:
            lines.append(f"name = {_quoted(self.name)}")
        lines.append(f"listen = {_quoted(self.listen)}")
        if self.metrics is not None:
            lines.append(f"metrics = {_quoted(self.metrics)}")
        if self.operator is not None:
            lines.append(f"operator = {_quoted(self.operator)}")
        lines += [f"{key} = {_quoted(_relative(getattr(self, key), folder))}" for key in _PATHS]
        if self.model is not None:
            lines.append(f"model = {_quoted(_relative(self.model, folder))}")
        if self.score is not None:
            lines.append(f"score = {self.score!r}")
        if not self.neighbours:
            lines.append("neighbours = []")
        for peer in self.neighbours:
            lines += ["", "[[neighbours]]", f"id = {peer.id}", f"address = {_quoted(peer.address)}"]
            lines.append(f"fingerprint = {_quoted(peer.fingerprint)}")
            if peer.state is not None:
                lines.append(f"state = {_quoted(_relative(peer.state, folder))}")
        write_whole(path, ("\n".join(lines) + "\n").encode())


def node_files(folder: str | Path, n: int) -> list[NodeFile]:
    """Read the node files of a fleet's folder, ``node-0/node.toml`` and so on, by node."""
    nodes = []
    for v in range(n):
        path = Path(folder) / f"node-{v}" / "node.toml"
        node = NodeFile.read(path)
        if node.id != v:
            raise InvalidSpec(
                f"{path}: id must be {v}, as its folder says, got {node.id}: put each file into "
                "its own folder"
            )
        nodes.append(node)
    return nodes


def host_port(address: str) -> tuple[str, int] | None:
    """Return the host, without brackets, and the port of an address; None if it is not an address.

    Examples
    --------
    >>> host_port("[::1]:7400"), host_port("node-3:7400"), host_port("node-3")
    (('::1', 7400), ('node-3', 7400), None)
    """
    found = _ADDRESS.fullmatch(address)
    if found is None or not 0 < int(found[2]) < 65536:
        return None
    host = found[1].strip("[]")
    numeric = ":" in host or host.rpartition(".")[2].isdecimal()
    return None if numeric and _ip(host) is None else (host, int(found[2]))


def _ip(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _address(table: Fields, key: str) -> str:
    text = table.text(key, most=262)
    if host_port(text) is None:
        raise table.bad(key, "host:port, such as 127.0.0.1:21003 or [::1]:21003")
    return text


def _loopback(table: Fields, key: str, listen: str) -> str:
    """Return an address that only this machine can reach, because metrics are not encrypted."""
    text = _address(table, key)
    host, _ = host_port(text) or ("", 0)
    ip = _ip(host)
    if host != "localhost" and (ip is None or not ip.is_loopback):
        raise table.bad(
            key, "on this machine's loopback, such as 127.0.0.1:22003: metrics are not encrypted"
        )
    if text == listen:
        raise table.bad(key, "another address than listen")
    return text


def _operator_address(table: Fields, key: str, listen: str) -> str:
    """Return the address at which operators may ask, which is another one than the neighbours'."""
    text = _address(table, key)
    if (host_port(text) or ("", 0))[1] == (host_port(listen) or ("", 0))[1]:
        raise table.bad(key, "on another port than listen")
    return text


def _path(table: Fields, key: str, folder: Path) -> Path:
    return Path(os.path.normpath(folder / table.text(key, most=4096)))


def _neighbours(top: Fields, node: int, listen: str, folder: Path) -> tuple[Peer, ...]:
    peers: list[Peer] = []
    seen: dict[object, int] = {}
    for table in top.tables(
        "neighbours", needed=("id", "address", "fingerprint"), optional=("state",)
    ):
        who, address = table.integer("id", low=0, high=_HIGHEST), _address(table, "address")
        if who == node:
            raise table.bad(
                "id",
                "another node's id: the manifest decides about edges of a node to itself; remove "
                "it",
            )
        ip = _ip((host_port(address) or ("", 0))[0])
        if address == listen or (ip is not None and ip.is_unspecified):
            raise table.bad("address", f"where node {who} is reached from here")
        keys = table.text("fingerprint", most=200).lower()
        if not _FINGERPRINT.fullmatch(keys):
            raise table.bad(
                "fingerprint", "64 hexadecimal digits, as levywalk fleet init writes them"
            )
        for key, value in (("id", who), ("address", address), ("fingerprint", keys)):
            if (key, value) in seen:
                raise table.bad(
                    key,
                    f"different from all other neighbours' values; node {seen[key, value]} has it "
                    "too",
                )
            seen[key, value] = who
        state = _path(table, "state", folder) if "state" in table else None
        peers.append(Peer(who, address, keys, state))
    return tuple(peers)


def _relative(path: Path, folder: Path) -> str:
    """Return a path relative to the folder, if it is in the folder or beside it."""
    path = path.absolute()
    return os.path.relpath(path, folder) if path.is_relative_to(folder.parent) else str(path)


def _quoted(text: str) -> str:
    r"""Return a TOML string.

    Examples
    --------
    >>> print(_quoted('a"b'))
    "a\"b"
    """
    if not text.isprintable():
        raise InvalidParameter(f"a path or address must not hold control characters, got {text!r}")
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
