"""Nodes' reports as sentences, of a simulated and of a real fleet."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from levywalk.fleet.protocol.token import Epoch


def sentence(what: str, about: dict[str, Any]) -> str:
    """Return a report as a sentence whose subject, the node, is left out.

    Examples
    --------
    >>> sentence("gives up", {"to": 3, "why": "the node is dead"})
    'asks to keep the model, which cannot go to node 3: the node is dead'
    """
    make = _SENTENCES.get(what)
    return what if make is None else make(about)


def _other(about: dict[str, Any]) -> int:
    """Return the node that a report is about: log files have it under another name, because their
    lines name the node that writes them.
    """
    return int(about["neighbour"] if "neighbour" in about else about["node"])


def _budget(about: dict[str, Any]) -> str:
    """Return whose privacy budget a report is about; several tokens share that of a node."""
    return f"its {'share of its ' if 'token' in about else ''}privacy budget"


def _began(about: dict[str, Any]) -> str:
    if about["epoch"][0] == 0:
        return f"creates the first model; node {about['guardian']} guards it"
    return (
        f"begins {epoch_name(about['epoch'])} from step {about['step']}; "
        f"node {about['guardian']} guards it"
    )


def _archived(about: dict[str, Any]) -> str:
    lost = count(about["lost"], "update")
    return (
        f"archives the model of {epoch_name(about['epoch'])}, replaced by "
        f"{epoch_name(about['by'])}: {lost} lost"
    )


def epoch_name(epoch: Epoch | list[int]) -> str:
    """Return the name of an epoch."""
    counter, _, node = epoch
    return f"epoch {counter} of node {node}" if counter else "epoch 0"


def _last_line(text: str) -> str:
    """Return the last line of a traceback, which says what the error is."""
    lines = text.strip().splitlines()
    return lines[-1].strip() if lines else "no message"


def count(number: int, what: str) -> str:
    """Return a number with its noun.

    Examples
    --------
    >>> count(0, "update"), count(1, "update"), count(2000, "update")
    ('no updates', '1 update', '2,000 updates')
    """
    return f"{number:,} {what}{'' if number == 1 else 's'}" if number else f"no {what}s"


def short(nodes: Iterable[int]) -> str:
    """Return a list of nodes in short form.

    Examples
    --------
    >>> short([0, 1, 2, 5, 7, 8])
    '0-2, 5, 7-8'
    """
    ends: list[list[int]] = []
    for v in nodes:
        if ends and v == ends[-1][1] + 1:
            ends[-1][1] = v
        else:
            ends.append([v, v])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in ends)


_STATE = {"restart": "runs", "join": "takes part already"}
_SENTENCES: dict[str, Callable[[dict[str, Any]], str]] = {
    "began": _began,
    "archived": _archived,
    "regenerated": lambda a: (
        f"restores the model from its copy of step {a['step']}: node {a['holder']} is silent"
    ),
    "model refused": lambda a: (
        f"✗ refuses the model of node {_other(a)} and continues from its copy of step {a['step']}: "
        f"{a['why']}" + ("; avoids that node from now on" if a["avoided"] else "")
    ),
    "forgiven": lambda a: (
        f"node {_other(a)}, whose models were refused, may take part again, by the operator's order"
    ),
    "revived": lambda a: (
        f"continues from its copy of step {a['step']} of {epoch_name(a['epoch'])}, by the "
        "operator's signed order"
    ),
    "guardian gone": lambda a: (
        f"continues without its guardian, node {a['guardian']}, which is gone"
    ),
    "memory starts again": lambda a: (
        f"the memory of the method starts again before update {a['step'] + 1:,}: {a['why']}"
        + ("" if a["lost"] < 0 else f" (node {a['lost']})")
    ),
    "budget begins": lambda a: (
        f"begins with an empty disk: {a['spent']:,} of the {a['cap']:,} updates of {_budget(a)} "
        "count as spent"
    ),
    "budget spent": lambda a: (
        f"has spent {_budget(a)}, {count(a['updates'], 'update')}, and passes the model on"
    ),
    "budget counts as spent": lambda a: (
        f"! has had a disk before, which node {_other(a)} knows: {_budget(a)} counts as spent"
    ),
    "no answer": lambda a: (
        f"node {_other(a)} does not answer before update {a['step']:,}: the walk decides without it"
    ),
    "gives up": lambda a: f"asks to keep the model, which cannot go to node {a['to']}: {a['why']}",
    "stayed": lambda a: f"keeps the model instead of sending it to node {a['to']}",
    "refused": lambda a: f"refuses what node {a['sender']} sends: {a['why']}",
    "lied": lambda a: (
        f"node {_other(a)} has signed both that the model was released and that it was not, at "
        f"hand-off {a['seq']} of {epoch_name(a['epoch'])}: nothing from it is accepted any more"
    ),
    "false link": lambda a: (
        f"✗ node {a['node']} has signed that the walk branched at hand-off {a['seq']}, but the "
        f"model is still here: continues in a higher epoch than {epoch_name(a['epoch'])}"
    ),
    "false end": lambda a: (
        f"✗ node {a['guardian']} has signed that the walk was over at hand-off {a['seq']} of "
        f"{epoch_name(a['epoch'])}, but the model is still here: continues in a higher epoch"
    ),
    "no end": lambda a: (
        f"a guardian had signed that the walk was over after {a['step']:,} updates, at hand-off "
        f"{a['seq']} of {epoch_name(a['epoch'])}, which was false: takes part again, and archives "
        "that model"
    ),
    "let in again": lambda a: (
        f"node {_other(a)}, which had lied, may take part again, by the operator's order"
    ),
    "size": lambda a: f"the fleet has {a.get('nodes')} nodes now (version {a.get('version')})",
    "revoked": lambda a: (
        f"node {_other(a)} was revoked by the operator: nothing from it is accepted any more"
    ),
    "finished": lambda a: f"the walk is over after {a['step']:,} updates",
    "leaving": lambda a: "is leaving and accepts no model any more",
    "left": lambda a: "has left: its edges are closed",
    "kill": lambda a: "✗ is killed",
    "lose disk": lambda a: "✗ is killed, and its disk is lost",
    "back up": lambda a: "its disk is copied",
    "roll back": lambda a: "✗ is killed, and starts again with an old copy of its disk",
    "rejoin": lambda a: "→ starts again without its disk",
    "restart": lambda a: "↑ starts again",
    "leave": lambda a: "← is asked to leave",
    "join": lambda a: "→ joins",
    "poison": lambda a: "✗ sends false models from now on",
    "gone": lambda a: "is reported as gone for good",
    "cut": lambda a: f"╳ disconnected from the others: {short(a['nodes'])}",
    "heal": lambda a: "the connection is restored",
    "no use": lambda a: (
        f"{a['fault']} changes nothing: the node {_STATE.get(a['fault'], 'does not run')}"
    ),
    "nobody": lambda a: f"there is no {a['meant']} at this time: {a['fault']} is skipped",
    "started": lambda a: f"starts, levywalk {a['version']}, listens on {a['listen']}",
    "stopped": lambda a: "stops",
    "edge up": lambda a: f"the edge to node {a['neighbour']} is up",
    "edge down": lambda a: f"the edge to node {a['neighbour']} is down",
    "link closed": lambda a: (
        f"a connection of a stranger was refused: {a['why']}"
        if a["neighbour"] < 0
        else f"the link to node {a['neighbour']} is closed: {a['why']}"
    ),
    "lost its disk": lambda a: (
        f"node {a['neighbour']} has started again without its disk: it counts as a new node"
    ),
    "confirmed": lambda a: "all neighbours have answered: continues with what is on its disk",
    "fenced": lambda a: f"is fenced: {a['why']}; see levywalk fleet rejoin",
    "process is dead": lambda a: (
        f"node {a['neighbour']}'s process does not exist any more: it counts as gone"
    ),
    "slept": lambda a: (
        f"was stopped for {a['seconds']} s (or the machine slept): does not count that time as "
        "silence"
    ),
    "new keys": lambda a: (
        f"uses its new certificate, of rotation {a['rotation']}, valid until {a['expires']}"
    ),
    "expires soon": lambda a: a["message"],
    "disk full": lambda a: a["message"],
    "no file descriptors": lambda a: a["message"],
    "fault": lambda a: (
        f"an error in levywalk or in the model's own code: {_last_line(a['message'])}; the node "
        "continues from its disk in a few seconds"
    ),
    "not kept": lambda a: (
        f"could not write {a['path']}: {a['message']}; the walk does not need this file"
    ),
    "no longer a neighbour": lambda a: (
        f"node {a['neighbour']} is no longer in the node file: it is treated as gone"
    ),
    "metrics wait": lambda a: f"cannot serve metrics: {a['why']}",
    "operator asks": lambda a: f"answers an operator at {a['host']}: {a['question']}",
    "operator refused": lambda a: f"refuses a question at its operator port: {a['why']}",
    "orders wait": lambda a: f"cannot accept the operator's orders: {a['why']}",
    "no step seen": lambda a: (
        f"has seen no step of the walk for {a['seconds']:g} s: has it stopped? See levywalk fleet "
        "status"
    ),
    "trouble": lambda a: f"an error occurred; the node continues: {a['message']}",
    "cannot run": lambda a: f"cannot run: {a['message']}",
}
