"""A fleet's folder on one machine: start its nodes, watch them, give them orders and stop them.

::

    DIR/manifest.json, authority/     see `setup.create`
    DIR/node-3/node.log               the output of its process
    DIR/node-3/state/                 its disk, its lock, its control socket
    DIR/begun                         a mark that the walk has started

No supervisor is needed: nodes run on when the process that started them has ended.
It is one class of short methods, because every command begins with the folder; what takes more than
a few lines is in a file of its own beside this one.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from levywalk.errors import InvalidParameter, LevywalkError
from levywalk.fleet.operate.fleet_status import NodeView, fleet_status, has_begun, view_nodes
from levywalk.fleet.operate.log_entries import FolderReports
from levywalk.fleet.operate.log_text import short
from levywalk.fleet.operate.model_copies import ModelCopy, copies_of
from levywalk.fleet.operate.node_processes import (
    FleetProblem,
    Say,
    Starting,
    looks,
    nothing_said,
    reap,
    start_process,
    stop_processes,
    tail,
)
from levywalk.fleet.protocol.token import FIRST
from levywalk.fleet.runtime import control
from levywalk.fleet.runtime.node_status import running
from levywalk.fleet.runtime.own_disk import SurvivingCopy, surviving_copies
from levywalk.fleet.setup.manifest import Manifest
from levywalk.fleet.setup.node_file import NodeFile
from levywalk.fleet.setup.operator_folder import OPERATOR_FILE
from levywalk.fleet.setup.size_file import newest_size, sized
from levywalk.fleet.storage.reader import StoreReader
from levywalk.fleet.storage.store import NodeStore
from levywalk.whole_files import write_whole

MANIFEST, BEGUN, LOG = "manifest.json", "begun", "node.log"
PATIENCE = 120.0  # seconds for a fleet to start


@dataclass(frozen=True)
class FleetFolder:
    """The nodes of one fleet that are on this machine.

    Examples
    --------
    >>> FleetFolder.open("/no/such/folder")
    Traceback (most recent call last):
    levywalk.errors.InvalidParameter: /no/such/folder is not a fleet's folder:
        it has no manifest.json; ...
    """

    path: Path
    manifest: Manifest
    files: dict[int, NodeFile]
    lone: bool = False  # whether this is the folder of a single node

    @classmethod
    def open(cls, path: str | Path) -> FleetFolder:
        """Read the manifest and the node files of a folder, or a single node from its node file."""
        path = Path(path).absolute()
        if path.is_file():
            file = NodeFile.read(path)
            return cls(path.parent, Manifest.read(file.manifest), {file.id: file}, lone=True)
        check_folder(path)
        files = {}
        for place in node_folders(path):
            file = NodeFile.read(place / "node.toml")
            if place.name != f"node-{file.id}":
                raise InvalidParameter(
                    f"{place}: its node.toml is of node {file.id}; put each file into its folder"
                )
            files[file.id] = file
        if not files:
            raise InvalidParameter(f"{path} has no nodes: there is no node-*/node.toml in it")
        founded = Manifest.parse(Manifest.read(path / MANIFEST).text)
        places = [path, *(file.manifest.parent for file in files.values())]
        manifest = sized(founded, newest_size(places, founded))
        return cls(path, manifest, dict(sorted(files.items())))

    # Tokens

    def token(self, number: int) -> FleetFolder:
        """Return the fleet of one of its tokens: the same nodes, with the disks of that token.

        All that is read, judged and asked here is about this token; about the first one, if none
        was chosen. Only starting, stopping and orders about a node are about all of them.
        """
        manifest = self.manifest.of_token(number)
        files = {v: file.of_token(number) for v, file in self.files.items()}
        return self if manifest is self.manifest else replace(self, manifest=manifest, files=files)

    @property
    def each(self) -> list[FleetFolder]:
        """The fleet of each of its tokens."""
        return [self.token(number) for number in range(self.manifest.tokens)]

    # Status

    def node_views(self, patience: float = 1.0) -> list[NodeView]:
        """Look at every node, for at most this many seconds."""
        reap()
        return view_nodes(self.files, self.manifest, patience=patience)

    def status(self, patience: float = 1.0) -> dict[str, Any]:
        """Return the status of the fleet, ready for JSON: see `fleet_status`."""
        at = shlex.quote(str(self.path))
        return fleet_status(self.node_views(patience), self.manifest, begun=self.begun, at=at)

    @property
    def begun(self) -> bool:
        """Whether the walk has started."""
        return (self.path / BEGUN).exists()

    @property
    def whole(self) -> bool:
        """Whether all nodes of the fleet are in this folder.

        If not, the operator starts the walk.
        """
        return len(self.files) == self.manifest.nodes

    # What can be read (`any_fleet.AnyFleet`)

    @property
    def ids(self) -> list[int]:
        """The nodes in this folder."""
        return list(self.files)

    def neighbours(self) -> dict[int, list[int]]:
        """Return the neighbours of each node, as its node file names them."""
        return {v: [peer.id for peer in file.neighbours] for v, file in self.files.items()}

    def reports(self, nodes: Iterable[int] | None = None) -> FolderReports:
        """Return what nodes have reported."""
        return FolderReports({v: self.log(v) for v in (self.files if nodes is None else nodes)})

    def log_readers(self, *, partial: bool = False) -> dict[int, StoreReader]:
        """Return the logs of the visits of the nodes that have a disk."""
        return {
            v: StoreReader(file.state, self.manifest.digest, limits=self.manifest.limits)
            for v, file in self.files.items()
            if (file.state / "state.db").exists()
        }

    def copies(self, node: int) -> list[ModelCopy]:
        """Return the models on a node's disk."""
        file = self.files[node]
        if not (file.state / "state.db").exists():
            return []
        with StoreReader(file.state, self.manifest.digest, limits=self.manifest.limits) as reading:
            return copies_of(node, reading.load())

    def fetched(self, copy: ModelCopy) -> ModelCopy:
        """Return a copy with its numbers, which it has."""
        return copy

    def survivors(self, node: int) -> Iterator[SurvivingCopy]:
        """Yield copies of the model from which the walk could be revived."""
        return surviving_copies(self.files[node], self.manifest)

    def ask(self, node: int, do: str, /, **about: Any) -> dict[str, Any]:
        """Give an order to a node that runs here."""
        return control.ask(self.files[node].state, do, **about)

    # Places

    def log(self, node: int) -> Path:
        """Return the path of a node's log."""
        return self.place(node) / LOG

    def place(self, node: int) -> Path:
        """Return a node's folder."""
        self.check(node)
        return self.path if self.lone else self.path / f"node-{node}"

    def check(self, node: int) -> NodeFile:
        """Return the node file of a node, which must be in this folder."""
        if node not in self.files:
            raise InvalidParameter(
                f"node must be one of {self.path}'s, {short(self.files)}, got {node}"
            )
        return self.files[node]

    # Starting

    def up(self, timeout: float = PATIENCE, say: Say = nothing_said) -> list[int]:
        """Start every node that does not run, wait until all answer, and start the walk if it has
        not started. A node that is killed while this waits is started again.

        Returns
        -------
        list of int
            The nodes that were started.

        Raises
        ------
        FleetProblem
            If a node ended or did not answer in time, or the walk could not start. The other nodes
            keep running.
        """
        until = time.monotonic() + timeout
        reap()
        nodes = Starting(
            lambda v: start_process(self.place(v), self.log(v)),
            lambda v: running(self.files[v].state) is not None,
        )
        self._await_answers(nodes, until, say)
        if not self.begun and self.whole:
            self._await_begin(until, say, nodes)
            self._await_answers(nodes, until, say)
        return nodes.started

    def _await_answers(self, nodes: Starting, until: float, say: Say) -> None:
        """Wait until all nodes answer. Those that are killed meanwhile are started again."""
        waited = set(self.files)
        for _ in looks(until):
            waited |= set(nodes.see_to(self.files))
            waited = {v for v in waited if v not in nodes.ended and not self.answers(v)}
            say(
                f"{len(self.files) - len(waited) - len(nodes.ended)} of {len(self.files)} nodes "
                "answer"
            )
            if not waited:
                break
        problems = [
            f"node {v} ended with exit code {code}; the end of {self.log(v)}:\n{tail(self.log(v))}"
            for v, code in sorted(nodes.ended.items())
        ]
        for v in sorted(waited):
            pid = running(self.files[v].state)
            problems.append(
                f"node {v} does not run yet; see {self.log(v)}"
                if pid is None
                else (
                    f"node {v} (process {pid}) does not answer: it is busy, "
                    f"or was stopped (kill -CONT {pid})"
                )
            )
        if problems:
            raise FleetProblem("\n".join(problems))

    def answers(self, node: int) -> bool:
        """Whether a node runs and answers."""
        try:
            control.ask(self.files[node].state, "status", timeout=0.2)
        except LevywalkError:
            return False
        return True

    # Starting the walk

    def begin(self, timeout: float = PATIENCE, say: Say = nothing_said) -> bool:
        """Start the walk once all edges are up; return False if it had started before."""
        if self.begun:
            return False
        return self._await_begin(time.monotonic() + timeout, say)

    def _await_begin(self, until: float, say: Say, nodes: Starting | None = None) -> bool:
        """Start the walks of all tokens; return False if all had started before."""
        fresh = [one._await_token(until, say, nodes) for one in self.each]
        self._mark()
        return any(fresh)

    def _await_token(self, until: float, say: Say, nodes: Starting | None) -> bool:
        start = self.manifest.start
        for _ in looks(until):
            if nodes is not None:
                nodes.see_to(self.files)
            views = self.node_views()
            if has_begun(views):
                return False
            if nodes is None and not any(one.answers or one.pid is not None for one in views):
                raise FleetProblem(
                    f"no node runs; start them: levywalk fleet up {shlex.quote(str(self.path))}"
                )
            silent = [one.id for one in views if not one.answers]
            down = [] if silent else [edge for one in views for edge in _edges_down(one)]
            if start not in self.files:
                raise FleetProblem(
                    f"the walk starts at node {start}, which is not in this folder: run levywalk "
                    "fleet begin there"
                )
            if not silent and not down and not any(one.about.get("awaits") for one in views):
                control.ask(self.files[start].state, "begin")
                return True
            say(f"{len(down)} edges are not up yet")
        if silent:
            raise FleetProblem(f"the walk cannot start: nodes {short(silent)} do not answer")
        shown = "; ".join(f"from node {v} to node {u}: {why}" for v, u, why in down[:3])
        raise FleetProblem(
            f"the walk cannot start: {len(down)} edges are not up ({shown}); see levywalk fleet "
            f"doctor {self.path}"
        )

    def _mark(self) -> None:
        write_whole(
            self.path / BEGUN, b"The walk has started: the first token must not be created again.\n"
        )

    # Stopping

    def stop(
        self,
        timeout: float = 30.0,
        *,
        force: bool = False,
        say: Say = nothing_said,
        nodes: Iterable[int] | None = None,
    ) -> list[int]:
        """Stop every node that runs, or those of the given ones, and wait until its process has
        ended; return the stopped nodes.

        Parameters
        ----------
        force
            Whether to kill processes that do not end in time. Nothing is lost by that: a node may
            be killed at any time.

        Raises
        ------
        FleetProblem
            If some still run.
        """
        wanted = self.files if nodes is None else nodes
        return stop_processes(
            {v: self.files[v].state for v in wanted}, timeout, force=force, say=say
        )

    # Orders

    def gone(self, node: int) -> tuple[list[int], list[int]]:
        """Tell a node's neighbours that it will never come back; return the neighbours that were
        told and those that do not run. If that node held the model, its guardian restores it. If it
        guarded the model, the holder takes another guardian.

        Raises
        ------
        FleetProblem
            If no neighbour runs, or one of them is still connected to it.
        """
        pid = running(self.files[node].state) if node in self.files else None
        if pid is not None:
            raise InvalidParameter(
                f"node {node} is not gone: process {pid} runs; stop it first, or remove it with "
                "levywalk fleet leave"
            )
        around = [
            v for v, file in self.files.items() if node in {peer.id for peer in file.neighbours}
        ]
        if not around:
            raise InvalidParameter(f"node {node} is not a neighbour of any node in {self.path}")
        told, down, objections = [], [], []
        for v in around:
            try:
                for one in self.each:
                    control.ask(one.files[v].state, "gone", node=node)
                told.append(v)
            except control.NoAnswer:
                down.append(v)
            except InvalidParameter as error:
                objections.append(str(error))
        if objections:
            raise FleetProblem("; ".join(objections))
        if not told:
            raise FleetProblem(
                f"no neighbour of node {node} was told: nodes {short(down)} do not run"
            )
        return told, down

    def prune(
        self,
        *,
        node: int | None = None,
        keep_bytes: int | None = None,
        older_than: float | None = None,
    ) -> dict[int, int]:
        """Remove the oldest visits from the nodes' logs; return how many, by node.

        Parameters
        ----------
        keep_bytes
            About how much of each log stays.
        older_than
            Seconds: visits that were made earlier go.
        """
        nodes = list(self.files) if node is None else [self.check(node).id]
        limits = {"keep_bytes": keep_bytes, "older_than": older_than}
        return {v: sum(one._prune(v, limits) for one in self.each) for v in nodes}

    def _prune(self, node: int, limits: dict[str, Any]) -> int:
        state, total = self.files[node].state, 0
        if running(state) is not None:
            while done := control.ask(state, "prune", timeout=60.0, **limits)["removed"]:
                total += done
        elif (state / "state.db").exists():
            with NodeStore(state, self.manifest.digest, limits=self.manifest.limits) as store:
                while done := store.prune(**limits):
                    total += done
        return total

    def leave(self, node: int) -> None:
        """Ask a node to leave: it accepts no model any more, hands over what it has and closes its
        edges.
        """
        self.check(node)
        for one in self.each:
            control.ask(one.files[node].state, "leave")

    def renew(self, nodes: Iterable[int] | None = None, days: int | None = None) -> list[Path]:
        """Give nodes new certificates for their present keys; return the files.

        A running node uses its new certificate as soon as it is told to (`rotate.use_new_keys`).
        """
        from levywalk.fleet.identity.authority import NODE_DAYS, Authority

        chosen = list(self.files) if nodes is None else [self.check(v).id for v in nodes]
        authority = Authority.load(self.path / "authority")
        return [
            authority.renew(
                v, days=NODE_DAYS if days is None else days, folder=self.files[v].certificate.parent
            )
            for v in chosen
        ]


def begin_at(path: str | Path, timeout: float = PATIENCE, say: Say = nothing_said) -> bool:
    """Start the walks that begin at the node of a node file, once its own edges are up; return
    False if they had started before.
    """
    file, until = NodeFile.read(path), time.monotonic() + timeout
    manifest = Manifest.read(file.manifest)
    starts = manifest.starts or (manifest.start,)
    own = [number for number, start in enumerate(starts) if start == file.id]
    if not own:
        raise InvalidParameter(
            f"{path} must be the file of node {short(sorted(set(starts)))}, where the walk starts, "
            f"got the file of node {file.id}"
        )
    fresh = [_begin_at(file.of_token(number), until, say) for number in own]
    return any(fresh)


def _begin_at(file: NodeFile, until: float, say: Say) -> bool:
    for _ in looks(until):
        about = control.ask(file.state, "status")
        if about["held"] or about["final"] or about["epoch"] != list(FIRST):
            return False
        down = [u for u, edge in about["edges"].items() if not edge["up"]]
        if not down:
            control.ask(file.state, "begin")
            return True
        say(f"{len(down)} edges are not up yet")
    why = about["edges"][down[0]].get("why") or "its two nodes have not agreed on it yet"
    raise FleetProblem(
        f"the walk cannot start: the edge from node {file.id} to node {down[0]} is not up: {why}"
    )


def check_folder(path: Path) -> None:
    """Raise an error if this is not a fleet's folder."""
    if (path / OPERATOR_FILE).exists():
        raise InvalidParameter(
            f"{path} is an operator's folder, of a fleet that is elsewhere: from here only status, "
            "doctor, logs, trace, model and revive are possible; run this command on the machine "
            "of the node, with its node.toml or the fleet's folder"
        )
    if (path / "node.toml").exists():
        raise InvalidParameter(
            f"{path} is one node's folder: give {path / 'node.toml'}, or the fleet's folder"
        )
    if not (path / MANIFEST).is_file():
        raise InvalidParameter(
            f"{path} is not a fleet's folder: it has no {MANIFEST}; levywalk fleet init creates one"
        )


def node_folders(path: Path) -> list[Path]:
    """Return the folders of the nodes in this folder."""
    return [file.parent for file in sorted(path.glob("node-*/node.toml"))]


def _edges_down(one: NodeView) -> Iterator[tuple[int, int, str]]:
    for u, edge in one.about["edges"].items():
        if not edge["up"]:
            yield one.id, int(u), edge.get("why") or "not agreed yet"
