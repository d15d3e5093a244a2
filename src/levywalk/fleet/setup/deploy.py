"""Files that run a fleet elsewhere: a systemd unit, a compose file, Kubernetes objects, and
instructions.

In containers a node's addresses are the names that compose and Kubernetes give it, so the fleet
must be created for them: ``create(..., deploy="compose")``.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from levywalk import checks
from levywalk.errors import InvalidParameter
from levywalk.fleet.setup import compose, kubernetes, systemd
from levywalk.fleet.setup.container import DOCKERFILE, DOCKERIGNORE, METRICS, PORT, STATE
from levywalk.fleet.setup.manifest import Manifest
from levywalk.fleet.setup.node_file import NodeFile, node_files

KINDS = ("systemd", "compose", "kubernetes")
OWN_ADDRESSES = ("compose", "kubernetes")


class Place(NamedTuple):
    """Where a node runs: how others reach it, where it listens, and where its state is if not in
    its folder.
    """

    address: str
    listen: str
    metrics: str | None
    state: Path | None = None
    local: bool = False  # whether all nodes are on this machine


def place(kind: str, name: str, v: int, metrics: bool = True) -> Place:
    """Return where a node runs in compose or Kubernetes.

    Examples
    --------
    >>> place("compose", "five", 3).address, place("kubernetes", "five", 3).address
    ('node-3:7400', 'levywalk-five-3-0.levywalk-five:7400')
    """
    host = f"node-{v}" if kind == "compose" else f"levywalk-{name}-{v}-0.levywalk-{name}"
    return Place(
        f"{host}:{PORT}",
        f"0.0.0.0:{PORT}",
        f"127.0.0.1:{METRICS}" if metrics else None,
        Path(STATE),
    )


def files(folder: str | Path, kind: str) -> dict[str, str]:
    """Return the files that run a fleet, by their path in its folder.

    Parameters
    ----------
    kind
        "systemd", "compose" or "kubernetes".

    Examples
    --------
    >>> import tempfile
    >>> import levywalk as lw
    >>> from levywalk.fleet.setup.create import create
    >>> with tempfile.TemporaryDirectory() as name:
    ...     at = create(
    ...         Path(name) / "five",
    ...         lw.ring(5),
    ...         lw.homogeneous(5),
    ...         lw.mhlj(),
    ...         steps=100,
    ...         step_size="theory",
    ...     )
    ...     list(files(at, "systemd"))
    ['levywalk-node@.service', 'INSTALL.md']
    """
    checks.choice("kind", kind, KINDS)
    manifest = Manifest.read(Path(folder) / "manifest.json")
    nodes = node_files(folder, manifest.nodes)
    if kind == "systemd":
        return {
            "levywalk-node@.service": systemd.UNIT,
            "INSTALL.md": systemd.INSTRUCTIONS.format(start=manifest.start, name=manifest.name)
            + _other_starts(manifest),
        }
    _check_places(kind, manifest, nodes)
    image = {"Dockerfile": DOCKERFILE, ".dockerignore": DOCKERIGNORE}
    if kind == "compose":
        return {
            "compose.yaml": compose.compose_file(manifest),
            **image,
            "INSTALL.md": compose.INSTRUCTIONS.format(start=manifest.start)
            + _other_starts(manifest),
        }
    name = f"levywalk-{manifest.name}"
    return {
        "kubernetes.yaml": kubernetes.objects(name, nodes),
        "kustomization.yaml": kubernetes.kustomization(name, Path(folder), nodes),
        **image,
        "INSTALL.md": kubernetes.INSTRUCTIONS.format(start=manifest.start, name=name)
        + _other_starts(manifest),
    }


def _other_starts(manifest: Manifest) -> str:
    """Return where else the walk must be started, if there are several tokens."""
    others = sorted(set(manifest.starts) - {manifest.start})
    if not others:
        return ""
    nodes = ", ".join(map(str, others))
    return (
        f"\nThe fleet has {manifest.tokens} tokens, which start at different nodes: start the walk "
        f"in the same\nway, once, at each of the nodes {nodes}.\n"
    )


def _check_places(kind: str, manifest: Manifest, nodes: list[NodeFile]) -> None:
    """Refuse a fleet whose addresses are not those that its containers will have."""
    for node in nodes:
        own = place(kind, manifest.name, node.id)
        found = [(node.listen, own.listen), (str(node.state), str(own.state))]
        found += [
            (peer.address, place(kind, manifest.name, peer.id).address) for peer in node.neighbours
        ]
        for is_, must in found:
            if is_ != must:
                raise InvalidParameter(
                    f"node {node.id} of this fleet has {is_} where {kind} needs {must}: "
                    f"create the fleet for it, with levywalk fleet init --for {kind}"
                )
