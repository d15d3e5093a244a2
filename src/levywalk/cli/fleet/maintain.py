"""``levywalk fleet doctor``, ``gone``, ``revive``, ``rejoin``, ``leave`` and ``renew``: look after
a fleet.
"""

from __future__ import annotations

import json
from typing import Annotated

import typer

from levywalk.cli.finish import Json
from levywalk.cli.fleet.common import (
    Dir,
    NodeNumber,
    ReadDir,
    carried_out,
    check_token,
    node_list,
    open_any_fleet,
    open_fleet,
    shell_quoted,
    were_told,
)
from levywalk.printable import printable


def doctor(
    folder: ReadDir,
    as_json: Json = False,
    scrub: Annotated[
        bool,
        typer.Option("--scrub", help="Also read the nodes' disks to their ends, line by line."),
    ] = False,
) -> None:
    """Look for problems of files, certificates, ports, disk, clock, nodes and edges, with remedies.

    The exit code is 1 if there is a problem.
    """
    from levywalk.fleet.operate.doctor import examine
    from levywalk.fleet.runtime.findings import FindingLevel

    findings = list(examine(folder, scrub=scrub))
    bad = sum(finding.level == FindingLevel.PROBLEM for finding in findings)
    if as_json:
        print(
            json.dumps(
                {"problems": bad, "findings": [finding._asdict() for finding in findings]}, indent=2
            )
        )
    else:
        for level, *said in findings:
            what, remedy = (printable(text, lines=True) for text in said)
            print(f"{level:8} {what}" + (f"\n{'':9}→ {remedy}" if remedy else ""))
    if bad:
        raise typer.Exit(1)


def gone(folder: Dir, node: NodeNumber) -> None:
    """Tell a node's neighbours that it will never come back: the walk continues without it.

    If it held the model, its guardian restores the model. If the node comes back after all, it
    learns that, and keeps what it held in its archive.
    """
    fleet = open_fleet(folder)
    told, down = carried_out(lambda _: fleet.gone(node))
    print(f"{were_told(told)} that node {node} is gone for good.")
    if down:
        print(
            f"Not running, and therefore not told: {node_list(down)}. Repeat the command when "
            "they run."
        )


def forgive(folder: Dir, node: NodeNumber) -> None:
    """Let a node whose models were refused take part again.

    With --check-updates a guardian counts the false models of a sender, and avoids it after some of
    them. This resets the counts of the nodes that run here, for instance after the cause was found.
    """
    from levywalk.fleet.operate.forgive import forgive as forgiven

    fleet = open_fleet(folder)
    found = carried_out(lambda _: forgiven(fleet, node))
    print(f"{were_told(found.told)} to forget the refused models of node {node}.")
    if found.down:
        print(
            f"Not running, and therefore not told: {node_list(found.down)}. Repeat the command "
            "when they run."
        )


def revoke(folder: Dir, node: NodeNumber) -> None:
    """Revoke a node: no node accepts anything from it any more; the walk continues without it.

    This needs the operator's key (authority/operator.key), and one node that runs here; all others
    learn it from their neighbours, at once or later. If the node held the model, its guardian
    restores it. A revoked node never takes part again.
    """
    from levywalk.fleet.operate.revoke import revoke as revoked

    fleet = open_fleet(folder)
    found = carried_out(lambda _: revoked(fleet, node))
    print(f"Node {node} is revoked. {were_told(found.told)}; they tell all others.")
    if found.down:
        print(f"Not running here: {node_list(found.down)}. They learn of it when they run again.")


def revive(
    folder: ReadDir,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Do it although the walk seems to run or to be over, or a better copy is on a "
            "node that does not run.",
        ),
    ] = False,
    timeout: Annotated[
        float, typer.Option("--timeout", min=0.0, help="Seconds to wait for a guardian.")
    ] = 120.0,
    token: Annotated[
        int | None,
        typer.Option(
            "--token", metavar="K", help="Number of the token, from 0 on, if there are several."
        ),
    ] = None,
) -> None:
    """Continue a walk that has stopped for good from the best copy of the model that is left.

    It is for a walk whose holder and guardian have both lost their disks: levywalk fleet status
    says so. The copy becomes a new epoch. If the walk still runs, on another machine, its model is
    archived. With --force it also undoes an end of the walk that a guardian has signed and that is
    not true. With several tokens, --token says which of them.
    """
    from levywalk.errors import InvalidParameter
    from levywalk.fleet.operate.log_text import count
    from levywalk.fleet.operate.revive import revive as revived

    fleet = open_any_fleet(folder)
    check_token(fleet, token)
    if token is None and fleet.manifest.tokens > 1:
        raise InvalidParameter(
            f"--token must be given, because the fleet has {fleet.manifest.tokens} tokens: "
            f"levywalk fleet status {shell_quoted(folder)} names those that have stopped"
        )
    fleet = fleet.token(token or 0)
    found = carried_out(lambda say: revived(fleet, force=force, timeout=timeout, say=say))
    print(
        f"The walk continues from step {found.copy.step:,} ({found.copy.where}) in epoch "
        f"{found.epoch}."
    )
    print(
        f"Lost: {count(found.lost, 'update')} that the disks here have seen, and those that nodes "
        "made whose disks are lost: their number is not known."
    )
    if found.copy.line is not None:
        print("The hash over all hand-offs may start again: the copy was in a log.")


def rejoin(
    folder: Dir,
    node: NodeNumber,
    force: Annotated[
        bool,
        typer.Option("--force", help="Do it although the node is neither fenced nor shut out."),
    ] = False,
    timeout: Annotated[
        float, typer.Option("--timeout", min=0.0, help="Seconds to wait for the node's answer.")
    ] = 120.0,
) -> None:
    """Let a fenced or shut-out node take part again: its disk counts as lost, and it starts as a
    new node.

    A node is fenced if its neighbours have seen more of it than its disk holds, because the disk
    was restored from a backup, or because a copy of it runs elsewhere. levywalk fleet status says
    so. If a copy runs, stop it first, or let only one of the two rejoin and remove the other.

    A node is shut out if it has lied about its register: levywalk fleet doctor says so. Letting it
    in again needs the operator's key (authority/operator.key), and a node that has shut it out and
    runs here.
    """
    from levywalk.fleet.operate.rejoin import rejoin as rejoined

    fleet = open_fleet(folder)
    found = carried_out(lambda say: rejoined(fleet, node, force=force, timeout=timeout, say=say))
    print(f"The old disk of node {node} is in {found.kept}.")
    if found.pardoned:
        print(
            f"The nodes that run here know that node {node} may take part again, and tell others."
        )
    if found.started:
        print(f"Node {node} has started as a new node. Its neighbours treat the old one as lost.")
    else:
        print(f"Node {node} does not run: levywalk fleet up {shell_quoted(folder)} starts it.")


def prune(
    folder: Dir,
    older_than: Annotated[
        float | None,
        typer.Option(
            "--older-than",
            min=0.0,
            help="Remove visits older than this number of days, to the hour.",
        ),
    ] = None,
    keep_mib: Annotated[
        float | None,
        typer.Option("--keep-mib", min=0.0, help="Keep about this many MiB of each node's log."),
    ] = None,
    node: Annotated[int | None, typer.Option("--node", help="Only this node.")] = None,
) -> None:
    """Remove the oldest visits from the nodes' logs, to make room. The nodes may run meanwhile.

    The walk does not need them, but levywalk fleet trace does: write the trace first. Archived
    models and the beginnings of epochs stay. Later visits use the room; the files do not shrink.
    """
    from levywalk.errors import InvalidParameter
    from levywalk.fleet.operate.log_text import count

    if older_than is None and keep_mib is None:
        raise InvalidParameter("prune needs --older-than DAYS or --keep-mib SIZE")
    fleet = open_fleet(folder)
    found = carried_out(
        lambda _: fleet.prune(
            node=node,
            older_than=None if older_than is None else 86_400.0 * older_than,
            keep_bytes=None if keep_mib is None else int(keep_mib * (1 << 20)),
        )
    )
    total = sum(found.values())
    print(f"Removed {count(total, 'visit')} from the logs of {count(len(found), 'node')}.")


def leave(folder: Dir, node: NodeNumber) -> None:
    """Remove a node: it hands the model over, accepts no new one, closes its edges and can then be
    stopped.
    """
    fleet = open_fleet(folder)
    carried_out(lambda _: fleet.leave(node))
    at = shell_quoted(folder)
    print(
        f"Node {node} is leaving. When levywalk fleet status {at} shows none of its edges up, stop "
        "its process."
    )


def renew(
    folder: Dir,
    node: Annotated[
        int | None, typer.Option("--node", help="Renew only the certificate of this node.")
    ] = None,
    days: Annotated[
        int, typer.Option("--days", min=1, help="Days for which they are valid.")
    ] = 365,
) -> None:
    """Give the nodes new certificates for their present keys. This needs the fleet's authority."""
    fleet = open_fleet(folder)
    files = carried_out(lambda _: fleet.renew(None if node is None else [node], days))
    print(
        f"Renewed {len(files)} certificate{'s' if len(files) > 1 else ''}, valid for {days} days."
    )
    from levywalk.fleet.operate.rotate import use_new_keys

    chosen = list(fleet.files) if node is None else [node]
    used = carried_out(lambda _: [v for v in chosen if use_new_keys(fleet, v)])
    if used:
        many = len(used) > 1
        already = (
            "already use their new certificates" if many else "already uses its new certificate"
        )
        print(f"{node_list(used).capitalize()} {already}.")
    rest = [v for v in chosen if v not in used]
    if rest:
        will = "they use their new certificates" if len(rest) > 1 else "it uses its new certificate"
        print(f"Not running here: {node_list(rest)}; {will} from the next start on.")


def rotate(
    folder: Dir,
    node: Annotated[
        int | None, typer.Option("--node", help="Replace only the keys of this node.")
    ] = None,
    days: Annotated[
        int, typer.Option("--days", min=1, help="Days for which the new certificates are valid.")
    ] = 365,
) -> None:
    """Give the nodes new keys and certificates, without a stop. This needs the fleet's authority.

    The old key of a node signs its new keys, so that neighbours accept them. Signatures that were
    made with old keys stay valid. On another machine: copy the new folder keys-N and node.toml
    there, and run levywalk fleet rotate node.toml, which only tells the node to use them.
    """
    from levywalk.fleet.operate.rotate import rotate as rotated

    fleet = open_fleet(folder)
    found = carried_out(lambda _: rotated(fleet, None if node is None else [node], days))
    used = [one.node for one in found if one.used]
    if used:
        already = "already use their" if len(used) > 1 else "already uses its"
        print(f"{node_list(used).capitalize()} {already} new keys.")
    for one in found:
        if not one.used:
            print(
                f"Node {one.node} does not answer here, and uses {one.folder} from its next start "
                "on. "
                f"On another machine: copy {one.folder} and node.toml there, and run: levywalk "
                f"fleet rotate node-{one.node}/node.toml"
            )
