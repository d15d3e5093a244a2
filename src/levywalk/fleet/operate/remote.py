"""A fleet whose nodes are elsewhere, as an operator's folder names them.

It is read as a fleet's folder is (`folder.FleetFolder`): the same code judges what nodes answer at
their operator ports. Nodes that do not answer are named, and the answer is given without them.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from levywalk.errors import InvalidParameter
from levywalk.fleet.identity.operator_certificate import operator_tls
from levywalk.fleet.operate.fleet_status import NOTHING_KNOWN, NodeView, fleet_status, has_begun
from levywalk.fleet.operate.folder import PATIENCE
from levywalk.fleet.operate.log_text import short
from levywalk.fleet.operate.model_copies import ModelCopy
from levywalk.fleet.operate.node_processes import FleetProblem
from levywalk.fleet.operate.operator_client import OperatorAnswer, OperatorClient
from levywalk.fleet.operate.remote_log import RemoteLog, RemoteReports, as_answer
from levywalk.fleet.operate.remote_view import RemoteNodeFile, checked_copies, checked_view
from levywalk.fleet.protocol.tensors import Malformed
from levywalk.fleet.protocol.token import Epoch, Token
from levywalk.fleet.runtime.control import NoAnswer
from levywalk.fleet.runtime.own_disk import SurvivingCopy, without_model
from levywalk.fleet.setup.manifest import Manifest
from levywalk.fleet.setup.operator_folder import OPERATOR_FILE, OperatorAddress, read_operator_file
from levywalk.fleet.storage.codec import decode

_AT_ONCE = 32  # nodes that are asked at the same time
_CALM = 5.0  # seconds to wait for a node's answer, if nothing else was said
_MODEL_SECONDS = 300.0  # to wait for a model
_PLACES = ("held", "guarded", "final")


@dataclass(frozen=True)
class RemoteFleet:
    """The nodes of a fleet, elsewhere."""

    path: Path
    manifest: Manifest
    nodes: dict[int, OperatorAddress]
    node_files: dict[int, RemoteNodeFile] = field(default_factory=dict)  # of nodes that answered

    @classmethod
    def open(cls, path: str | Path) -> RemoteFleet:
        """Read an operator's folder."""
        path = Path(path).absolute()
        manifest = Manifest.read(path / "manifest.json")
        found = cls(path, manifest, read_operator_file(path / OPERATOR_FILE, manifest.nodes))
        _ = found._clients  # its keys are read now
        return found

    @cached_property
    def _clients(self) -> dict[int, OperatorClient]:
        tls = operator_tls(self.path)
        token = self.manifest.token_number
        return {v: OperatorClient(v, one.address, tls, token) for v, one in self.nodes.items()}

    def token(self, number: int) -> RemoteFleet:
        """Return the fleet of one of its tokens: all questions are about that token."""
        manifest = self.manifest.of_token(number)
        return self if manifest is self.manifest else replace(self, manifest=manifest)

    @property
    def ids(self) -> list[int]:
        """The nodes that are named in the folder."""
        return list(self.nodes)

    def check(self, node: int) -> int:
        """Return a node, which must be named in the folder."""
        if node not in self.nodes:
            raise InvalidParameter(
                f"node must be one of {self.path}'s, {short(self.nodes)}, got {node}"
            )
        return node

    def ask_all(
        self,
        nodes: Iterable[int],
        question: Callable[[int], dict[str, Any]],
        timeout: float = _CALM,
    ) -> dict[int, OperatorAnswer | Exception]:
        """Ask nodes at the same time; return the answers, or why there is none, by node."""

        def one(v: int) -> OperatorAnswer | Exception:
            return as_answer(lambda: self._clients[v].ask(question(v), timeout=timeout))

        asked = list(nodes)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return dict(zip(asked, pool.map(one, asked), strict=True))

    # Status

    def node_views(self, patience: float = _CALM) -> list[NodeView]:
        """Look at every node, for at most this many seconds."""
        answers = self.ask_all(self.nodes, lambda _: {"do": "status"}, max(patience, _CALM))
        return [self._view(v, answers[v]) for v in sorted(answers)]

    def _view(self, v: int, answer: OperatorAnswer | Exception) -> NodeView:
        if isinstance(answer, OperatorAnswer):
            try:
                found, self.node_files[v] = checked_view(v, answer, self.manifest)
                return found
            except Malformed as error:
                answer = self._clients[v].invalid_answer(error)
        name = self.nodes[v].name
        return NodeView(v, None, False, NOTHING_KNOWN, (), None, None, name, unreached=str(answer))

    def status(self, patience: float = _CALM) -> dict[str, Any]:
        """Return the status of the fleet, ready for JSON: see `fleet_status`."""
        views = self.node_views(patience)
        at = shlex.quote(str(self.path))
        return fleet_status(views, self.manifest, begun=has_begun(views), at=at)

    @property
    def begun(self) -> bool:
        """Whether the walk has started, as far as the nodes that answer know."""
        return has_begun(self.node_views())

    def neighbours(self) -> dict[int, list[int]]:
        """Return the neighbours of each node that has answered, as it says."""
        if not self.node_files:
            self.node_views()
        return {v: [one.id for one in file.neighbours] for v, file in self.node_files.items()}

    # Logs

    def reports(self, nodes: Iterable[int] | None = None) -> RemoteReports:
        """Return what nodes have reported."""
        chosen = self.ids if nodes is None else [self.check(v) for v in nodes]
        return RemoteReports(chosen, self.ask_all)

    def log_readers(self, *, partial: bool = False) -> dict[int, RemoteLog]:
        """Return the logs of the visits of the nodes that answer.

        Raises
        ------
        FleetProblem
            If a node does not answer and ``partial`` is false: a part of the walk would be missing.
        """
        silent = [one for one in self.node_views() if one.unreached is not None]
        if silent and not partial:
            why = "; ".join(str(one.unreached) for one in silent[:3])
            raise FleetProblem(
                f"a trace needs the logs of all nodes: {why}. --missing mark continues without them"
            )
        missing = {one.id for one in silent}
        return {
            v: RemoteLog(self._clients[v], self.manifest) for v in self.nodes if v not in missing
        }

    # Models

    def copies(self, node: int) -> list[ModelCopy]:
        """Return where a node has models, without their numbers."""
        answer = self._clients[node].ask({"do": "status"}, timeout=_CALM)
        view = self._view(node, answer)
        if view.unreached is not None:
            raise NoAnswer(view.unreached)
        return [
            ModelCopy(node, _place(about), final=place == "final", place=place)
            for place in _PLACES
            if (about := view.about[place]) is not None
        ]

    def fetched(self, copy: ModelCopy) -> ModelCopy:
        """Return a copy with its numbers; it may have gone on meanwhile."""
        client, limits = self._clients[copy.node], self.manifest.limits
        try:
            answer = self._model(client, copy.place)
        except InvalidParameter:
            if copy.place != "held":
                raise
            answer = self._model(client, "guarded")  # whoever has handed the model over guards it
        try:
            if len(answer.records) != 1:
                raise Malformed("one model was asked for")
            token = decode(answer.records[0], (Token,), limits._replace(memory=0))
        except Malformed as error:
            raise client.invalid_answer(error) from None
        why = None if token.epoch >= copy.token.epoch else "an older model than before"
        if why is not None:
            raise client.invalid_answer(why)
        return copy._replace(token=token)

    def _model(self, client: OperatorClient, place: str) -> OperatorAnswer:
        most = 2 * self.manifest.published.method.token_bytes + (1 << 16)
        question = {"do": "model", "place": place}
        return client.ask(question, timeout=_MODEL_SECONDS, most_record=most)

    def survivors(self, node: int) -> Iterator[SurvivingCopy]:
        """Yield copies of the model from which the walk could be revived."""
        answer = self._clients[node].ask({"do": "copies"}, timeout=_MODEL_SECONDS)
        try:
            yield from checked_copies(node, answer)
        except Malformed as error:
            raise self._clients[node].invalid_answer(error) from None

    def ask(self, node: int, do: str, /, **about: Any) -> dict[str, Any]:
        """Give an order to a node."""
        return self._clients[node].ask({"do": do} | about, timeout=PATIENCE).about

    def close(self) -> None:
        """Close all connections."""
        for client in self._clients.values():
            client.close()


def _place(about: dict[str, Any]) -> Token:
    """Return a token without numbers from what a status says about it."""
    import numpy as np

    diverged = -1 if about["diverged_at"] is None else about["diverged_at"]
    first = without_model(Token.first(np.zeros(0)))
    return first._replace(
        epoch=Epoch(*about["epoch"]),
        base=about["base"],
        seq=about["seq"],
        step=about["step"],
        transfers=about["transfers"],
        diverged_at=diverged,
    )
