"""Look for problems in a fleet's folder, present and future ones. Every finding has a remedy."""

from __future__ import annotations

import shlex
import socket
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from levywalk.errors import LevywalkError
from levywalk.fleet.operate.any_fleet import is_elsewhere
from levywalk.fleet.operate.fleet_status import NodeView, fleet_status, said_refusal
from levywalk.fleet.operate.folder import BEGUN, MANIFEST, FleetFolder, check_folder, node_folders
from levywalk.fleet.operate.log_text import count, short
from levywalk.fleet.operate.newcomer import interrupted_join
from levywalk.fleet.operate.scrub import scrub_disks
from levywalk.fleet.operate.whole_status import joint_status, told_by_token
from levywalk.fleet.runtime.findings import Finding, FindingLevel
from levywalk.fleet.runtime.self_check import own_keys, own_machine
from levywalk.fleet.setup.manifest import Manifest
from levywalk.fleet.setup.node_file import NodeFile, Peer, host_port
from levywalk.version import __version__

_PATIENCE = 5.0  # seconds to wait for a node's answer


def examine(path: str | Path, *, scrub: bool = False) -> Iterator[Finding]:
    """Check everything in a fleet's folder, and yield the findings.

    Parameters
    ----------
    scrub
        Whether to read the nodes' disks to their ends as well: see `scrub_disks`.

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
    ...     print(*next(examine(at)))
    ok the folder holds nodes 0-4 of 5
    """
    path = Path(path).absolute()
    if is_elsewhere(path):
        from levywalk.fleet.operate.remote_doctor import examine_elsewhere

        yield from examine_elsewhere(path, scrub=scrub)
        return
    check_folder(path)
    manifest = Manifest.read(path / MANIFEST)
    files = yield from _node_files(path)
    if not files:
        yield Finding(
            FindingLevel.PROBLEM,
            f"{path} has no node that can be read",
            "copy the nodes' folders here",
        )
        return
    yield Finding(
        FindingLevel.OK, f"the folder holds nodes {short(sorted(files))} of {manifest.nodes}"
    )
    yield from findings_or_ok(
        "files, keys and certificates are right",
        (one for v in sorted(files) for one in _files(files[v], manifest)),
    )
    yield from findings_or_ok(
        "node files agree with each other", disagreements(files, _prints(files))
    )
    yield from _joining(path)
    walks = [
        (one, {found.id: found for found in one.node_views(_PATIENCE)})
        for one in FleetFolder(path, manifest, files).each
    ]
    views = walks[0][1]
    yield from findings_or_ok(
        "ports are free, or used by the nodes",
        (one for v in files for one in _ports(files[v], views[v])),
    )
    yield from own_machine(path, (*path.glob("node-*/*"), path / MANIFEST))
    yield from by_token([running_nodes(path, its) for _, its in walks])
    if scrub:
        yield from by_token([scrub_disks(one.files.values(), one.manifest) for one, _ in walks])
    begun, at = (path / BEGUN).exists(), shlex.quote(str(path))
    found = [
        fleet_status(list(its.values()), one.manifest, begun=begun, at=at) for one, its in walks
    ]
    yield from whole_walks(found, manifest, at)


def _node_files(path: Path) -> Generator[Finding, None, dict[int, NodeFile]]:
    """Return the node files of a folder by node; yield what is wrong with the others."""
    files: dict[int, NodeFile] = {}
    for place in node_folders(path):
        try:
            file = NodeFile.read(place / "node.toml")
        except LevywalkError as error:
            yield Finding(FindingLevel.PROBLEM, str(error), "correct the file")
            continue
        if place.name != f"node-{file.id}":
            yield Finding(
                FindingLevel.PROBLEM,
                f"{place}/node.toml is of node {file.id}",
                "put each file into its own folder",
            )
            continue
        files[file.id] = file
    return files


def by_token(parts: Iterable[Iterator[Finding]]) -> Iterator[Finding]:
    """Yield what was found about each token: once, if it is the same for all of them; otherwise it
    names its token.
    """
    for said, finding in told_by_token([list(part) for part in parts]):
        yield finding._replace(what=f"{said}{finding.what}")


def findings_or_ok(fine: str, findings: Iterator[Finding]) -> Iterator[Finding]:
    """Yield the findings or, if there are none, one that says that nothing is wrong."""
    found = list(findings)
    yield from found
    if all(finding.level == FindingLevel.OK for finding in found):
        yield Finding(FindingLevel.OK, fine)


def _joining(path: Path) -> Iterator[Finding]:
    """Tell of a `fleet join` that was interrupted."""
    left = interrupted_join(path)
    if left is not None:
        number, wish = left
        yield Finding(
            FindingLevel.PROBLEM,
            f"node {number} has not finished joining: levywalk fleet join was interrupted",
            f"run the same command again to resume: {wish.command(path)}",
        )


def _files(file: NodeFile, manifest: Manifest) -> Iterator[Finding]:
    from levywalk.fleet.runtime.own_data import own_problem

    try:
        if Manifest.read(file.manifest).digest != manifest.digest:
            yield Finding(
                FindingLevel.PROBLEM,
                f"node {file.id} has another manifest than the fleet",
                f"copy the fleet's to {file.manifest}",
            )
    except LevywalkError as error:
        yield Finding(
            FindingLevel.PROBLEM, str(error), f"copy the fleet's manifest to {file.manifest}"
        )
    try:
        own_problem(manifest, file)
    except LevywalkError as error:
        remedy = "put its data there"
        if manifest.code is not None:
            remedy = f"install {manifest.code.file} and the node's data as the message says"
        yield Finding(FindingLevel.PROBLEM, f"node {file.id}: {error}", remedy)
    yield from own_keys(file)


def _prints(files: Mapping[int, NodeFile]) -> dict[int, tuple[str, ...]]:
    """Return the fingerprints of the nodes' keys, the present ones first, as far as their
    certificates can be read.
    """
    from levywalk.fleet.identity.certificates import key_fingerprints
    from levywalk.fleet.identity.errors import IdentityError

    prints: dict[int, tuple[str, ...]] = {}
    for v, file in files.items():
        try:
            prints[v] = key_fingerprints(file.certificate.read_bytes())
        except (OSError, IdentityError):
            continue  # reported already
    return prints


class ListedNode(Protocol):
    """What a node file says about a node and its neighbours."""

    @property
    def listen(self) -> str:
        """Where it listens."""

    @property
    def neighbours(self) -> tuple[Peer, ...]:
        """Its neighbours."""


def disagreements(
    files: Mapping[int, ListedNode], prints: Mapping[int, tuple[str, ...]]
) -> Iterator[Finding]:
    """Compare what the node files say about each other.

    Parameters
    ----------
    prints
        The fingerprints of the nodes' keys, the present ones first, as far as they are known.
    """
    for v, file in sorted(files.items()):
        for peer in file.neighbours:
            other = files.get(peer.id)
            if other is None:
                continue  # on another machine
            if v not in {back.id for back in other.neighbours}:
                yield Finding(
                    FindingLevel.PROBLEM,
                    f"node {v} lists node {peer.id} as a neighbour, but not the other way round",
                    f"add node {v} to the node file of node {peer.id}, or remove it here",
                )
            if peer.fingerprint not in prints.get(peer.id, (peer.fingerprint,)):
                yield Finding(
                    FindingLevel.PROBLEM,
                    f"node {v} has a wrong fingerprint of node {peer.id}",
                    f"in node {v}'s file, set the fingerprint of node {peer.id} to "
                    f"{prints[peer.id][0]}",
                )
            mine, its = host_port(peer.address), host_port(other.listen)
            if mine is not None and its is not None and mine[1] != its[1]:
                yield Finding(
                    FindingLevel.PROBLEM,
                    f"node {v} expects node {peer.id} on port {mine[1]}, but it listens on port "
                    f"{its[1]}",
                    f"change the address in the file of node {v}, or listen in that of node "
                    f"{peer.id}",
                )


def _ports(file: NodeFile, one: NodeView) -> Iterator[Finding]:
    if one.pid is not None:
        return  # it would have stopped if it could not listen
    for name, address in (
        ("listen", file.listen),
        ("metrics", file.metrics),
        ("operator", file.operator),
    ):
        parts = None if address is None else host_port(address)
        if parts is not None and not _is_free(*parts):
            yield Finding(
                FindingLevel.PROBLEM,
                f"node {file.id} does not run, but another process has its port {parts[1]} "
                f"({name})",
                "stop that process, or change the node file and the neighbours' address of this "
                "node",
            )


def _is_free(host: str, port: int) -> bool:
    try:
        family, kind, number, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[
            0
        ]
        with socket.socket(family, kind, number) as line:
            line.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            line.bind(address)
    except OSError:
        return False
    return True


def running_nodes(
    path: Path, views: Mapping[int, NodeView], *, elsewhere: bool = False
) -> Iterator[Finding]:
    """Check the nodes that run, and what they wait for; those elsewhere have answered."""
    up = [v for v, one in sorted(views.items()) if one.pid is not None]
    going = {v for v, one in views.items() if one.about.get("leaving")}
    down = [v for v in sorted(views) if v not in up and v not in going]
    at = shlex.quote(str(path))
    if not up:
        yield Finding(FindingLevel.WARNING, "no node runs", f"levywalk fleet up {at}")
    elif down:
        yield Finding(
            FindingLevel.WARNING,
            f"{len(up)} of {count(len(views), 'node')} run; down: {short(down)}",
            f"levywalk fleet up {at}; if one will never come back, levywalk fleet gone {at} "
            f"{down[0]}",
        )
    else:
        which = "nodes that have answered" if elsewhere else "nodes"
        many = len(set(views) - going) if set(up).isdisjoint(going) else len(up)
        yield Finding(FindingLevel.OK, f"all {many} {which} run")
    for v in sorted(going):
        yield from _leaving(at, views[v])
    revoked = {u for one in views.values() for u in one.about.get("revoked", ())}
    for v in up:
        if v not in going:
            yield from _one(at, views[v], {*down, *going, *revoked})
    for v, one in sorted(views.items()):
        waits = one.waits_to_act(at)
        if waits is not None:
            what, _, remedy = waits.partition("; do: ")
            yield Finding(FindingLevel.PROBLEM, what, remedy)
        if one.error is not None:
            yield Finding(FindingLevel.PROBLEM, f"node {v}'s disk cannot be read: {one.error}")


def whole_walks(
    found: Sequence[dict[str, Any]], manifest: Manifest, at: str = "DIR"
) -> Iterator[Finding]:
    """Check the walks of all tokens as a whole, and what they have spent together, from the status
    of each; ``at`` is the fleet's folder as it must be typed.
    """
    yield from by_token(_whole_walk(one, at, manifest.nodes) for one in found)
    told = joint_status(found, manifest)["privacy"]
    if told is not None:
        yield from _privacy(told)


def _stands_still(status: dict[str, Any], nodes: int) -> bool:
    """Return whether a walk has begun and is not over, and all its nodes are here and down."""
    here = status["nodes_down"] >= nodes
    return here and status["holder"] is not None and not status["finished"]


def _whole_walk(status: dict[str, Any], at: str, nodes: int) -> Iterator[Finding]:
    if status["stopped"] is not None:
        what, _, remedy = status["stopped"].partition("; do: ")
        yield Finding(FindingLevel.PROBLEM, what, remedy)
    elif _stands_still(status, nodes):
        yield Finding(
            FindingLevel.PROBLEM,
            f"the walk stands still after {count(status['step'], 'update')}: no node runs",
            f"levywalk fleet up {at}",
        )
    for v in status["revoked"]:
        row = next((one for one in status["nodes"] if one["id"] == v), None)
        if row is not None and row["up"]:
            yield Finding(
                FindingLevel.WARNING,
                f"node {v} was revoked, and its process still runs",
                "stop it: it does not take part any more",
            )
    for said in status["false_ends"]:
        what, _, remedy = said.partition("; do: ")
        yield Finding(FindingLevel.PROBLEM, what, remedy)
    for one in status["refused_models"]:
        what, _, remedy = said_refusal(one, at).partition("; do: ")
        yield Finding(FindingLevel.PROBLEM, what, remedy)
    if status["diverged_at"] is not None:
        yield Finding(
            FindingLevel.PROBLEM,
            f"the model has diverged: update {status['diverged_at']:,} would have overflowed",
            "create a new fleet with a smaller step size: levywalk fleet init --step-size theory",
        )


def _privacy(told: dict[str, Any]) -> Iterator[Finding]:
    """Say what the nodes' privacy budgets have spent, and for whom."""
    each = f", {told['updates_at_cap_of_token']:,} for each token" if "tokens" in told else ""
    yield Finding(
        FindingLevel.OK,
        f"privacy: ε = {told['epsilon_spent']:.4g} spent, {told['epsilon_at_cap']:.4g} at the cap "
        f"of {count(told['updates_at_cap'], 'update')} of each node{each}; {told['definition']}",
    )
    what = [(told["nodes_out_of_budget"], "their budget and pass the model on")]
    what += [
        (nodes, f"their share of the budget for token {k} and pass its model on")
        for k, nodes in enumerate(told.get("nodes_out_of_share", ()))
    ]
    for spent, share in what:
        if spent:
            yield Finding(
                FindingLevel.WARNING,
                f"nodes {short(spent)} have spent {share} without updates",
                "nothing, if that was planned: a budget cannot be refilled; a node that has lost "
                "its disk counts as spent, see levywalk fleet budget",
            )


def _leaving(at: str, one: NodeView) -> Iterator[Finding]:
    """Say what a node that is asked to leave has still to do; its closed edges are intended."""
    edges = [int(u) for u, edge in one.about["edges"].items() if edge["up"]]
    held = one.about["held"]
    if edges or (held is not None and held["live"]):
        what = (
            f"its edges to nodes {short(edges)} are not closed yet" if edges else "it has the model"
        )
        remedy = "" if one.pid is not None else f"levywalk fleet up {at}"
        yield Finding(
            FindingLevel.WARNING,
            f"node {one.id} is leaving, and {what}",
            remedy or f"levywalk fleet status {at} shows when it has left",
        )
    elif one.pid is not None:
        yield Finding(
            FindingLevel.OK,
            f"node {one.id} has left; its process may be stopped: kill {one.pid}",
        )
    else:
        yield Finding(FindingLevel.OK, f"node {one.id} has left")


def _one(at: str, one: NodeView, down: set[int]) -> Iterator[Finding]:
    """Say what is wrong with a node that runs; edges to nodes that are down, that leave or that
    were revoked are down for that reason.
    """
    if not one.answers:
        remedy = f"was it stopped? kill -CONT {one.pid}"
        yield Finding(
            FindingLevel.PROBLEM, f"node {one.id} (process {one.pid}) does not answer", remedy
        )
        return
    about: dict[str, Any] = one.about
    if about["version"] != __version__:
        yield Finding(
            FindingLevel.WARNING,
            f"node {one.id} runs levywalk {about['version']}, this is {__version__}",
            "restart it",
        )
    for u, edge in about["edges"].items():
        avoided = about.get("refused", {}).get(u, {}).get("avoided", False)
        if not edge["up"] and int(u) not in down and not avoided:
            why = edge.get("why") or "its two nodes have not agreed on it yet"
            yield Finding(
                FindingLevel.WARNING,
                f"the edge from node {one.id} to node {u} is down: {why}",
                f"levywalk fleet logs {at} --node {u}",
            )
    for liar in about.get("liars", ()):
        yield Finding(
            FindingLevel.PROBLEM,
            f"node {one.id} has proof that node {liar} has lied about its register, and takes "
            "nothing from it any more",
            f"find out who has its keys; levywalk fleet rejoin {at} {liar} lets it in again, "
            "without its disk",
        )
    waits = one.waits_for_others(at)
    if waits is not None:
        what, _, remedy = waits.partition("; do: ")
        usual = (
            f"levywalk fleet up {at}; if that node will never come back, "
            f"levywalk fleet gone {at} NODE"
        )
        yield Finding(FindingLevel.PROBLEM, what, remedy or usual)
