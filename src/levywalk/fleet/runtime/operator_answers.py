"""What a node answers at its operator port: the records that the commands read from a folder.

Nothing else can be asked. If there are several tokens, a question names the one that it is about.
No answer contains samples, keys, or what nodes remember of their samples. Models are in the answers
to ``model`` and, as far as the log records them, ``trace``; the local loss and the metrics of the
node are in that to ``status``. The one order is ``revive``, and it needs the operator's signature
besides.

Disks are read in threads, two at a time, so that the walk continues meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from levywalk.errors import InvalidParameter
from levywalk.fleet.identity.certificates import key_fingerprints
from levywalk.fleet.protocol.records import Line
from levywalk.fleet.runtime.operator_port_format import header, line_record, pieces
from levywalk.fleet.runtime.own_disk import read_disk, surviving_copies
from levywalk.fleet.runtime.self_check import own_keys, own_machine
from levywalk.fleet.storage.codec import encode
from levywalk.fleet.storage.reader import StoreReader
from levywalk.fleet.storage.rows import LogDamage

if TYPE_CHECKING:
    from levywalk.fleet.runtime.process import Process
    from levywalk.fleet.runtime.token_runner import TokenRunner

LINES = 20_000  # lines of the log in one answer
PAGE = 1 << 23  # bytes of records after which an answer ends, and the next one goes on
_AT_ONCE = 2  # disks are read by so many threads
_MOST_NUMBER = 1 << 62

Frames = Iterator[bytes]


class OperatorAnswers:
    """Answers the questions of operators elsewhere."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self._reading = asyncio.Semaphore(_AT_ONCE)
        self._answers: dict[str, Callable[[dict[str, Any]], Callable[[], Frames]]] = {
            "status": self._status,
            "doctor": self._doctor,
            "logs": self._logs,
            "trace": self._trace,
            "model": self._model,
            "copies": self._copies,
            "revive": self._revive,
        }

    async def answer(self, asked: dict[str, Any]) -> list[bytes]:
        """Return the frames of an answer.

        What is in memory is looked at here, and the disk in a thread.
        """
        answer = self._answers.get(str(asked.get("do")))
        if answer is None:
            raise InvalidParameter(
                f"do must be one of {', '.join(self._answers)}, got {str(asked.get('do'))[:40]!r}: "
                "nothing else can be asked from elsewhere"
            )
        rest = answer(asked)
        async with self._reading:
            return await asyncio.to_thread(lambda: list(rest()))

    def _runner(self, asked: dict[str, Any]) -> TokenRunner:
        """Return the token that a question is about: the first one, if it names none."""
        number, runners = _number(asked, "token"), self.process.runners
        if number >= len(runners):
            raise InvalidParameter(f"token must be from 0 to {len(runners) - 1}, got {number}")
        return runners[number]

    def _status(self, asked: dict[str, Any]) -> Callable[[], Frames]:
        """The status of the node, and its log without visits and without models."""
        process, runner = self.process, self._runner(asked)
        status, file, manifest = runner.orders.status(), runner.file, runner.manifest
        about = {
            "name": file.name,
            "listen": file.listen,
            "keys": key_fingerprints(process.identity.certificate),
            "neighbours": [[one.id, one.address, one.fingerprint] for one in file.neighbours],
        }

        def frames() -> Frames:
            found = read_disk(file, manifest)
            told: list[Line] = [*found.lines]
            if found.last is not None:
                told.append(found.last)
            yield header(
                {
                    "status": status,
                    "node": about,
                    "continued": [list(epoch) for epoch in sorted(found.continued)],
                    "measured": found.measured,
                    "error": found.error,
                }
            )
            limits = manifest.limits
            yield from pieces(line_record(line, limits, models=False) for line in told)

        return frames

    def _doctor(self, asked: dict[str, Any]) -> Callable[[], Frames]:
        """What the node finds about its keys, its disk and its clock."""
        file = self.process.file
        folder = file.state.parent
        files = [path for path in (file.certificate, file.key, file.manifest) if path.exists()]

        def frames() -> Frames:
            found = [*own_keys(file), *own_machine(folder, files or [Path(folder)])]
            yield header({"findings": [list(one) for one in found]})

        return frames

    def _logs(self, asked: dict[str, Any]) -> Callable[[], Frames]:
        """Lines of the log since the node started, as far as they are kept."""
        after = _number(asked, "after")
        lines = [(number, line) for number, line in self.process.log_writer.kept if number > after]
        last = lines[-1][0] if lines else after

        def frames() -> Frames:
            yield header({"last": last, "started": self.process.began})
            yield from pieces(line.encode() for _, line in lines)

        return frames

    def _trace(self, asked: dict[str, Any]) -> Callable[[], Frames]:
        """Lines of the log of visits, with the models that were recorded."""
        after, runner = _number(asked, "after"), self._runner(asked)
        file, manifest = runner.file, runner.manifest

        def frames() -> Frames:
            damage: list[LogDamage] = []
            records: list[bytes] = []
            numbers: list[int] = []
            size, end = 0, after
            with StoreReader(file.state, manifest.digest, limits=manifest.limits) as reading:
                lines = reading.numbered(after, damage)
                for number, line in islice(lines, LINES):
                    records.append(line_record(line, manifest.limits, models=True))
                    numbers.append(number)
                    end, size = number, size + len(records[-1])
                    if size > PAGE:
                        break
                else:
                    end = max([end, *(one.last for one in damage)])
                more = end < len(reading)
            bad = [[one.first, one.last, one.why[:200]] for one in damage[:1000]]
            yield header({"next": end, "more": more, "damage": bad, "spans": _spans(numbers)})
            yield from pieces(records)

        return frames

    def _model(self, asked: dict[str, Any]) -> Callable[[], Frames]:
        """The model in one of the node's three places, without what travels with it."""
        disk, place = self._runner(asked).node.disk, asked.get("place")
        tokens = {
            "held": None if disk.held is None else disk.held.token,
            "guarded": None if disk.guarded is None else disk.guarded.copy,
            "final": disk.final,
        }
        if place not in tokens:
            raise InvalidParameter(f"place must be held, guarded or final, got {str(place)[:40]!r}")
        token = tokens[place]
        if token is None:
            raise InvalidParameter(f"node {self.process.file.id} has no {place} model now")
        schema = self.process.manifest.limits.schema

        def frames() -> Frames:
            yield header({"place": place})
            yield from pieces([encode(token._replace(memory=token.memory[:0]), schema=schema)])

        return frames

    def _copies(self, asked: dict[str, Any]) -> Callable[[], Frames]:
        """Where this node has copies of the model from which a stopped walk could be revived."""
        runner = self._runner(asked)
        file, manifest = runner.file, runner.manifest

        def frames() -> Frames:
            found = [
                [list(one.epoch), one.step, one.seq, one.line, one.digest.hex()]
                for one in surviving_copies(file, manifest)
            ]
            yield header({"copies": found})

        return frames

    def _revive(self, asked: dict[str, Any]) -> Callable[[], Frames]:
        """Carry out an order that the operator's key has signed."""
        done = header(self._runner(asked).orders.answer(asked | {"do": "revive"}))
        return lambda: iter([done])


def _number(asked: dict[str, Any], key: str) -> int:
    value = asked.get(key, 0)
    if type(value) is not int or not 0 <= value < _MOST_NUMBER:
        raise InvalidParameter(f"{key} must be a number of at least 0, got {str(value)[:40]!r}")
    return value


def _spans(numbers: list[int]) -> list[list[int]]:
    """Return numbers that rise as spans of numbers that follow each other.

    Examples
    --------
    >>> _spans([1, 2, 3, 7, 8])
    [[1, 3], [7, 8]]
    """
    found: list[list[int]] = []
    for number in numbers:
        if found and found[-1][1] + 1 == number:
            found[-1][1] = number
        else:
            found.append([number, number])
    return found
