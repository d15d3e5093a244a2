"""The logs of nodes elsewhere: that of their visits, page by page, and what they report."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from levywalk.errors import InvalidParameter
from levywalk.fleet.operate.log_entries import parsed
from levywalk.fleet.operate.operator_client import OperatorAnswer, OperatorClient
from levywalk.fleet.operate.remote_view import checked_damage, checked_number, checked_spans
from levywalk.fleet.protocol.records import Line
from levywalk.fleet.protocol.tensors import Malformed
from levywalk.fleet.runtime.control import NoAnswer
from levywalk.fleet.runtime.operator_port_format import read_line_record
from levywalk.fleet.setup.manifest import Manifest
from levywalk.fleet.storage.errors import NodeStoreError
from levywalk.fleet.storage.rows import LogDamage, note_damage

_PAGE_SECONDS = 60.0  # to wait for a page
_PAGES = 1_000_000  # at most; a node that always has more is not believed


class RemoteLog:
    """The log of a node's visits, elsewhere; it is read as that of a folder is (`StoreReader`)."""

    def __init__(self, client: OperatorClient, manifest: Manifest) -> None:
        self._client, self._manifest = client, manifest

    def close(self) -> None:
        """Do nothing: the connection is the fleet's."""

    def lines(self, after: int = 0, damage: list[LogDamage] | None = None) -> Iterator[Line]:
        """Yield the lines in order, without the first ``after``."""
        return (line for _, line in self.numbered(after, damage))

    def numbered(
        self, after: int = 0, damage: list[LogDamage] | None = None
    ) -> Iterator[tuple[int, Line]]:
        """Yield the lines with their numbers.

        Parameters
        ----------
        damage
            Where lines that cannot be read are noted, and left out. None: they are an error.
        """
        limits = self._manifest.limits
        most = 2 * self._manifest.published.method.token_bytes + (1 << 16)
        for _ in range(_PAGES):
            question = {"do": "trace", "after": after}
            answer = self._client.ask(question, timeout=_PAGE_SECONDS, most_record=most)
            try:
                bad, end = checked_damage(answer), checked_number(answer, "next")
                numbers = checked_spans(answer)
                found = [read_line_record(record, limits) for record in answer.records]
                if any(number <= after or number > end for number in numbers):
                    raise Malformed("it has sent other lines than those that were asked for")
            except Malformed as error:
                raise self._client.invalid_answer(error) from None
            for first, last, why in bad:
                if damage is None:
                    raise NodeStoreError(
                        f"node {self._client.node}: line {first} of its log: {why}"
                    )
                note_damage(damage, first, last, why)
            yield from zip(numbers, found, strict=True)
            if not answer.about.get("more") or end <= after:
                return
            after = end


class RemoteReports:
    """What nodes elsewhere have reported since they started, as far as they keep it."""

    def __init__(
        self, nodes: list[int], ask: Callable[[list[int], Callable[[int], dict[str, Any]]], Any]
    ) -> None:
        self._nodes, self._ask = nodes, ask
        self._after = dict.fromkeys(nodes, 0)
        self._started: dict[int, float] = {}
        self._last: dict[int, str] = {}
        self.silent: dict[int, str] = {}  # nodes that have not answered the last time, and why

    def all(self) -> Iterator[dict[str, Any]]:
        """Yield all lines that nodes keep, in order of time."""
        return iter(self.new())

    def new(self) -> list[dict[str, Any]]:
        """Return the lines since the last call, in order of time."""
        found: list[dict[str, Any]] = []
        self.silent = {}
        answers = self._ask(self._nodes, lambda v: {"do": "logs", "after": self._after[v]})
        for node, answer in answers.items():
            if isinstance(answer, OperatorAnswer):
                try:
                    found += self._taken(node, answer)
                except Malformed as error:
                    self.silent[node] = f"it has sent an invalid answer: {error}"
            else:
                self.silent[node] = str(answer)
        return sorted(found, key=lambda entry: str(entry["time"]))

    def _taken(self, node: int, answer: OperatorAnswer) -> list[dict[str, Any]]:
        last, started = checked_number(answer, "last"), answer.about.get("started")
        if not isinstance(started, int | float):
            raise Malformed("it does not say when it has started")
        if self._started.setdefault(node, started) != started:
            # It has started again: its lines are numbered anew, and the next answer has them all.
            self._started[node], again = started, self._after[node] > 0
            self._after[node] = 0
            if again:
                return []
        self._after[node] = last
        entries = []
        for record in answer.records:
            entry = parsed(node, record, self._last.get(node, ""))
            self._last[node] = str(entry["time"])
            entries.append(entry | {"time": self._last[node]})
        return entries


def as_answer(ask: Callable[[], OperatorAnswer]) -> OperatorAnswer | Exception:
    """Return an answer, or why there is none."""
    try:
        return ask()
    except (NoAnswer, InvalidParameter) as error:
        return error
