"""Check what a node elsewhere says about itself, before the code that judges nodes reads it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from levywalk.fleet.operate.fleet_status import NOTHING_KNOWN, NodeView
from levywalk.fleet.operate.operator_client import OperatorAnswer
from levywalk.fleet.protocol.node_step import Visit
from levywalk.fleet.protocol.tensors import Malformed
from levywalk.fleet.protocol.token import Epoch
from levywalk.fleet.runtime.findings import Finding, FindingLevel
from levywalk.fleet.runtime.operator_port_format import read_line_record
from levywalk.fleet.runtime.own_disk import SurvivingCopy
from levywalk.fleet.setup.manifest import Manifest
from levywalk.fleet.setup.node_file import Peer
from levywalk.fleet.storage.reader import OtherLine

_MOST = 1 << 62
_TEXT = 2000  # characters of a text that a node says
_NEIGHBOURS = 100_000

Check = Callable[[Any], bool]


class RemoteNodeFile(NamedTuple):
    """What a node elsewhere says about its node file."""

    id: int
    name: str | None
    listen: str
    keys: tuple[str, ...]  # the fingerprints of its keys, the present ones first
    neighbours: tuple[Peer, ...]


def _count(value: Any) -> bool:
    return type(value) is int and 0 <= value < _MOST


def _node(value: Any) -> bool:
    return type(value) is int and -1 <= value < 1 << 31


def _number(value: Any) -> bool:
    return type(value) is float or (type(value) is int and abs(value) < _MOST)


def _text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= _TEXT


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _epoch(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 3
        and _count(value[0])
        and _count(value[1])
        and _node(value[2])
    )


def _or_none(check: Check) -> Check:
    return lambda value: value is None or check(value)


def _list(check: Check) -> Check:
    return lambda value: (
        isinstance(value, list) and len(value) <= _NEIGHBOURS and all(map(check, value))
    )


def _by_node(check: Check) -> Check:
    return lambda value: (
        isinstance(value, dict)
        and len(value) <= _NEIGHBOURS
        and all(key.isdecimal() and len(key) < 11 and check(one) for key, one in value.items())
    )


def _table(**fields: Check) -> Check:
    return lambda value: (
        isinstance(value, dict)
        and all(name in value and check(value[name]) for name, check in fields.items())
    )


def _metrics(manifest: Manifest) -> Check:
    """Return whether something is numbers, each with the name of a metric of the manifest."""
    names = () if manifest.code is None else manifest.code.metrics
    return lambda value: (
        isinstance(value, dict)
        and all(name in names and _number(one) for name, one in value.items())
    )


_TOKEN = {
    "epoch": _epoch,
    "base": _count,
    "seq": _count,
    "step": _count,
    "transfers": _count,
    "jumping": _flag,
    "diverged_at": _or_none(_count),
}
_STATUS: dict[str, Check] = {
    "epoch": _epoch,
    "base": _count,
    "held": _or_none(
        _table(
            **_TOKEN,
            status=_text,
            guardian=_or_none(_node),
            to=_or_none(_node),
            live=_flag,
        )
    ),
    "guarded": _or_none(
        _table(
            **_TOKEN,
            holder=_or_none(_node),
            register=_or_none(_text),
            before=_or_none(_node),
        )
    ),
    "final": _or_none(_table(**_TOKEN)),
    "degree": _count,
    "leaving": _flag,
    "liars": _by_node(_epoch),
    "revoked": _list(_count),
    "opened": _or_none(_table(parent=_epoch, revived=_flag)),
    "size": _or_none(_list(_count)),
    "fenced": _or_none(_text),
    "state_folders": _or_none(_table(own=_text, seen=_by_node(_list(_text)))),
    "spent": _or_none(_count),
    "refused": _by_node(_table(count=_count, step=_count, avoided=_flag)),
    "edges": _by_node(_table(up=_flag, degree=_count)),
    "id": _count,
    "pid": _count,
    "run": _text,
    "version": _text,
    "began": _number,
    "expires": _text,
    "expires_soon": _or_none(_text),
    "rotation": _count,
    "hops_per_second": _or_none(_number),
    "loss": _or_none(_table(step=_count, value=_number)),
    "silence": _number,
    "patience": _number,
    "waits": _or_none(_text),
    "awaits": _list(_count),
}


def _require(value: Any, check: Check, what: str) -> Any:
    if not check(value):
        raise Malformed(f"its {what} is not what a node says: {str(value)[:60]!r}")
    return value


def checked_status(found: Any, node: int, manifest: Manifest) -> dict[str, Any]:
    """Return a node's status; what is not expected in it is left out.

    Raises
    ------
    Malformed
        If something is missing, is of another type, or belongs to another node or run.
    """
    _require(found, lambda value: isinstance(value, dict), "status")
    checks = _STATUS | {"metrics": _metrics(manifest)}
    told = {name: _require(found.get(name), check, name) for name, check in checks.items()}
    for edge in told["edges"].values():
        edge["why"] = str(edge.get("why") or "")[:_TEXT]
    if told["id"] != node:
        raise Malformed(f"it says that it is node {told['id']}")
    if told["run"] != manifest.digest.hex():
        raise Malformed("it belongs to another run: its manifest is another one")
    if set(NOTHING_KNOWN) - set(told):
        raise AssertionError(set(NOTHING_KNOWN) - set(told))  # a new field must be checked here
    return told


def checked_view(
    node: int, answer: OperatorAnswer, manifest: Manifest
) -> tuple[NodeView, RemoteNodeFile]:
    """Return what a node elsewhere has answered to "status" as the view of a node here, and what it
    says about its node file.
    """
    about = checked_status(answer.about.get("status"), node, manifest)
    limits = manifest.limits
    lines = [read_line_record(record, limits) for record in answer.records]
    last = lines.pop() if lines and isinstance(lines[-1], Visit) else None
    others = tuple(line for line in lines if isinstance(line, OtherLine))
    if len(others) != len(lines):
        raise Malformed("its log has other lines than those that were asked for")
    continued = _require(answer.about.get("continued"), _list(_epoch), "list of epochs")
    measured = _require(answer.about.get("measured"), _metrics(manifest), "metrics")
    error = _require(answer.about.get("error"), _or_none(_text), "error")
    file = _node_file(node, answer.about.get("node"))
    view = NodeView(
        node,
        about["pid"],
        True,
        about,
        others,
        last if isinstance(last, Visit) else None,
        error,
        file.name,
        frozenset(Epoch(*one) for one in continued),
        measured,
    )
    return view, file


def _node_file(node: int, found: Any) -> RemoteNodeFile:
    def neighbour(value: Any) -> bool:
        return (
            isinstance(value, list)
            and len(value) == 3
            and _count(value[0])
            and all(map(_text, value[1:]))
        )

    check = _table(
        name=_or_none(_text), listen=_text, keys=_list(_text), neighbours=_list(neighbour)
    )
    told = _require(found, check, "node file")
    near = tuple(Peer(*one) for one in told["neighbours"])
    return RemoteNodeFile(node, told["name"], told["listen"], tuple(told["keys"]), near)


def checked_copies(node: int, answer: OperatorAnswer) -> list[SurvivingCopy]:
    """Return where a node elsewhere says that it has copies of the model."""

    def copy(value: Any) -> bool:
        return (
            isinstance(value, list)
            and len(value) == 5
            and _epoch(value[0])
            and _count(value[1])
            and _count(value[2])
            and (value[3] is None or _count(value[3]))
            and isinstance(value[4], str)
            and len(value[4]) == 64
            and all(letter in "0123456789abcdef" for letter in value[4])
        )

    found = _require(answer.about.get("copies"), _list(copy), "list of copies")
    return [
        SurvivingCopy(Epoch(*epoch), step, seq, node, line, bytes.fromhex(digest))
        for epoch, step, seq, line, digest in found
    ]


def checked_findings(answer: OperatorAnswer) -> list[Finding]:
    """Return what a node elsewhere has found about itself."""

    def finding(value: Any) -> bool:
        return (
            isinstance(value, list)
            and len(value) == 3
            and value[0] in tuple(FindingLevel)
            and all(map(_text, value))
        )

    found = _require(answer.about.get("findings"), _list(finding), "list of findings")
    return [Finding(FindingLevel(level), what, remedy) for level, what, remedy in found]


def checked_number(answer: OperatorAnswer, name: str) -> int:
    """Return a number that a node elsewhere says."""
    return int(_require(answer.about.get(name), _count, name))


def checked_spans(answer: OperatorAnswer) -> list[int]:
    """Return the numbers of the lines in an answer, one for each record."""

    def span(value: Any) -> bool:
        return (
            isinstance(value, list)
            and len(value) == 2
            and all(map(_count, value))
            and value[0] <= value[1] < value[0] + len(answer.records)
        )

    spans = _require(answer.about.get("spans"), _list(span), "numbers of lines")
    numbers = [number for first, last in spans for number in range(first, last + 1)]
    if len(numbers) != len(answer.records) or numbers != sorted(set(numbers)):
        raise Malformed("the numbers of its lines are not those of its lines")
    return numbers


def checked_damage(answer: OperatorAnswer) -> list[tuple[int, int, str]]:
    """Return which lines of its log a node elsewhere could not read: first, last, why."""

    def damage(value: Any) -> bool:
        return (
            isinstance(value, list)
            and len(value) == 3
            and all(map(_count, value[:2]))
            and _text(value[2])
        )

    found = _require(answer.about.get("damage"), _list(damage), "list of damaged lines")
    return [(first, last, why) for first, last, why in found]
