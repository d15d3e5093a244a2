"""Look for problems of a fleet elsewhere: every node checks its own machine, and says what it
finds; the rest is judged as in a folder.
"""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Iterator
from pathlib import Path

from levywalk.errors import InvalidParameter
from levywalk.fleet.identity.errors import ExpiryWarning
from levywalk.fleet.operate.doctor import (
    by_token,
    disagreements,
    findings_or_ok,
    running_nodes,
    whole_walks,
)
from levywalk.fleet.operate.fleet_status import fleet_status, has_begun
from levywalk.fleet.operate.log_text import short
from levywalk.fleet.operate.operator_client import OperatorAnswer
from levywalk.fleet.operate.remote import RemoteFleet
from levywalk.fleet.operate.remote_view import checked_findings
from levywalk.fleet.protocol.tensors import Malformed
from levywalk.fleet.runtime.findings import Finding, FindingLevel

_PATIENCE = 15.0  # seconds to wait for what a node finds about its machine


def examine_elsewhere(path: Path, *, scrub: bool = False) -> Iterator[Finding]:
    """Check everything that can be checked from elsewhere, and yield the findings."""
    if scrub:
        raise InvalidParameter(
            "--scrub reads the nodes' disks: run it on their machines, with the fleet's folder"
        )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ExpiryWarning)
        fleet = RemoteFleet.open(path)
    for warning in caught:
        if issubclass(warning.category, ExpiryWarning):
            yield Finding(FindingLevel.WARNING, str(warning.message))
    views = {one.id: one for one in fleet.node_views()}
    reached = [v for v, one in views.items() if one.unreached is None]
    silent = [v for v in views if v not in reached]
    yield Finding(
        FindingLevel.OK if reached else FindingLevel.PROBLEM,
        f"nodes {short(reached) or 'none'} of {fleet.manifest.nodes} have answered",
        "" if reached else "look at the network, and whether the nodes run with this manifest",
    )
    for v in silent:
        yield Finding(
            FindingLevel.PROBLEM,
            str(views[v].unreached),
            f"look at the machine of node {v}: does it run, with operator in its node file, and "
            "may this machine connect to that port?",
        )
    yield from findings_or_ok(
        "keys, certificates, disks and clocks are right", _own_findings(fleet, reached)
    )
    prints = {v: file.keys for v, file in fleet.node_files.items()}
    yield from findings_or_ok(
        "node files agree with each other", disagreements(fleet.node_files, prints)
    )
    walks = [(fleet.manifest, list(views.values()))]
    for number in range(1, fleet.manifest.tokens):
        one = fleet.token(number)
        walks.append((one.manifest, one.node_views()))
    if reached:
        yield from by_token(
            running_nodes(
                path, {one.id: one for one in its if one.unreached is None}, elsewhere=True
            )
            for _, its in walks
        )
    at = shlex.quote(str(path))
    found = [fleet_status(its, one, begun=has_begun(its), at=at) for one, its in walks]
    yield from whole_walks(found, fleet.manifest, at)


def _own_findings(fleet: RemoteFleet, nodes: list[int]) -> Iterator[Finding]:
    """Yield what nodes have found about themselves, without what is right."""
    answers = fleet.ask_all(nodes, lambda _: {"do": "doctor"}, _PATIENCE)
    for v, answer in sorted(answers.items()):
        try:
            if not isinstance(answer, OperatorAnswer):
                raise Malformed(str(answer))
            for level, what, remedy in checked_findings(answer):
                if level != FindingLevel.OK:
                    said = what if what.startswith(f"node {v}") else f"node {v}: {what}"
                    yield Finding(level, said, remedy)
        except Malformed as error:
            yield Finding(FindingLevel.PROBLEM, f"node {v} has not examined itself: {error}")
