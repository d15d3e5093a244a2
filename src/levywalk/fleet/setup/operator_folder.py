"""An operator's folder: what somebody elsewhere needs to ask the nodes of a fleet.

::

    operator.toml      the nodes, and where their operator ports are
    manifest.json      the fleet's
    ca.crt             the certificate of its authority
    tls.key, tls.crt   the operator's key and certificate for these connections

It contains no key that can sign anything for the fleet. `fleet revive` needs the operator's own
key, ``operator.key``, besides.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import NamedTuple

from levywalk.errors import InvalidParameter, InvalidSpec
from levywalk.fleet.identity.authority import NODE_DAYS, Authority
from levywalk.fleet.protocol.fleet_size import FleetSize
from levywalk.fleet.setup.fields import Fields, read_bytes
from levywalk.fleet.setup.manifest import Manifest
from levywalk.fleet.setup.node_file import LONGEST_NAME, _address, _quoted
from levywalk.fleet.setup.size_file import read_size, write_size
from levywalk.whole_files import write_whole

OPERATOR_FILE = "operator.toml"
_LARGEST = 1 << 24  # bytes


class OperatorAddress(NamedTuple):
    """A node, and where its operator port is."""

    id: int
    address: str
    name: str | None = None


def write_operator_folder(
    folder: Path, authority: Authority, manifest: Manifest, nodes: list[OperatorAddress], days: int
) -> None:
    """Write an operator's folder, which must have no key yet."""
    authority.issue_operator(folder, days)
    manifest.write(folder / "manifest.json")
    _write_nodes(folder, nodes)


def add_operator_address(folder: Path, node: OperatorAddress, size: FleetSize) -> None:
    """Add a node that has joined to an operator's folder; nothing happens if it is there."""
    before = read_operator_file(folder / OPERATOR_FILE, size.nodes)
    write_size(folder, size)
    _write_nodes(folder, [*(before | {node.id: node}).values()])


def _write_nodes(folder: Path, nodes: list[OperatorAddress]) -> None:
    lines = []
    for node in nodes:
        lines += ["[[nodes]]", f"id = {node.id}", f"address = {_quoted(node.address)}"]
        lines += [] if node.name is None else [f"name = {_quoted(node.name)}"]
        lines.append("")
    write_whole(folder / OPERATOR_FILE, "\n".join(lines).encode())


def read_operator_file(path: Path, count: int) -> dict[int, OperatorAddress]:
    """Read which nodes there are, of ``count``, and where their operator ports are."""
    try:
        table = tomllib.loads(read_bytes(path, _LARGEST, "an operator's folder").decode())
    except (ValueError, RecursionError) as error:
        raise InvalidSpec(f"{path}: not TOML ({error}); correct the line") from None
    found: dict[int, OperatorAddress] = {}
    for one in Fields(table, str(path), needed=("nodes",)).tables(
        "nodes", needed=("id", "address"), optional=("name",)
    ):
        node = one.integer("id", low=0, high=count - 1)
        if node in found:
            raise one.bad("id", "different from that of all other nodes")
        name = one.text("name", most=LONGEST_NAME) if "name" in one else None
        found[node] = OperatorAddress(node, _address(one, "address"), name)
    if not found:
        raise InvalidSpec(f"{path}: nodes must not be empty; make the folder again")
    return dict(sorted(found.items()))


def operator_folder(fleet: Path, out: Path, days: int = NODE_DAYS) -> list[OperatorAddress]:
    """Make a further operator's folder for a fleet whose nodes have operator ports; return the
    nodes in it.

    The addresses are those of an operator's folder that the fleet has, or of the node files.
    """
    from levywalk.fleet.setup.node_file import NodeFile, host_port

    out = Path(out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InvalidParameter(f"OUT must not exist, or be empty, got {str(out)!r}")
    manifest = Manifest.read(fleet / "manifest.json")
    authority = Authority.load(fleet / "authority")
    first = fleet / "operator" / OPERATOR_FILE
    if first.exists():
        nodes = list(read_operator_file(first, manifest.nodes).values())
    else:
        files = [NodeFile.read(path) for path in sorted(fleet.glob("node-*/node.toml"))]
        where = {peer.id: peer.address for file in files for peer in file.neighbours}
        nodes = []
        for file in sorted(files, key=lambda one: one.id):
            if file.operator is None:
                continue
            host, _ = host_port(where.get(file.id, file.listen)) or ("", 0)
            _, port = host_port(file.operator) or ("", 0)
            shown = f"[{host}]" if ":" in host else host
            nodes.append(OperatorAddress(file.id, f"{shown}:{port}", file.name))
    if not nodes:
        raise InvalidParameter(
            f'the nodes of {fleet} have no operator port: add operator = "0.0.0.0:23000" to the '
            "node files, each with a port of its own, and restart the nodes; or create the fleet "
            "with levywalk fleet init --operator-port 23000"
        )
    write_operator_folder(out, authority, manifest, nodes, days)
    size = read_size(fleet, Manifest.parse(manifest.text))
    if size is not None:
        write_size(out, size)
    return nodes
