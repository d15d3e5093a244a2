"""The alert rules of a fleet, for Prometheus: what an operator must know, and what helps.

`alerts` is long because it is one list, of all rules with their texts.
"""

from __future__ import annotations

from typing import NamedTuple


class Alert(NamedTuple):
    """One alert rule: when it fires, for how long that must hold, and what to say."""

    name: str
    expr: str
    wait: str
    severity: str  # "critical": the walk does not go on; "warning": it may stop later
    summary: str
    remedy: str


def alerts(dead_after: float) -> list[Alert]:
    """Return the alert rules of a fleet with this ``dead_after`` (seconds).

    Examples
    --------
    >>> [alert.name for alert in alerts(60.0) if alert.severity == "critical"]
    ['WalkHasStopped', 'ModelHasDiverged', 'NodeFenced', 'CertificateExpired']
    """
    pause = f"{3 * dead_after:.17g}"
    node = "Node {{ $labels.node }}"
    # by the label token, which only a fleet with several tokens has
    not_over = "unless on (token) max by (token) (levywalk_finished) == 1"
    return [
        Alert(
            "WalkHasStopped",
            f"min by (token) (levywalk_stalled) == 1 {not_over}",
            "1m",
            "critical",
            "The walk has stopped: no node that answers has seen a step for a long time.",
            "levywalk fleet status DIR says why, and which command continues the walk.",
        ),
        Alert(
            "WalkPauses",
            f"min by (token) (levywalk_silence_seconds) > {pause} {not_over}",
            "0s",
            "warning",
            f"No node that answers has seen a step for {pause} seconds, three times dead_after.",
            "levywalk fleet status DIR names the node that the walk waits for.",
        ),
        Alert(
            "ModelHasDiverged",
            "max(levywalk_diverged) == 1",
            "0s",
            "critical",
            "The model has overflowed and is not updated any more.",
            "Create the fleet again with a smaller step size: levywalk fleet init --step-size.",
        ),
        Alert(
            "NodeFenced",
            "levywalk_fenced == 1",
            "0s",
            "critical",
            f"{node} has an old copy of its disk and takes no part.",
            "levywalk fleet rejoin DIR {{ $labels.node }} starts it without that disk.",
        ),
        Alert(
            "NodeWaitsForAnswers",
            "levywalk_answers_awaited > 0",
            "5m",
            "warning",
            f"{node} has started again and waits for {{{{ $value }}}} neighbours.",
            "Start them, or say of a dead one: levywalk fleet gone DIR NODE.",
        ),
        Alert(
            "NodeDown",
            'up{job="levywalk"} == 0',
            "2m",
            "warning",
            "The node with the metrics at {{ $labels.instance }} does not answer.",
            "levywalk fleet up DIR starts every node that does not run.",
        ),
        Alert(
            "NeighbourMissing",
            "levywalk_neighbours_connected < levywalk_neighbours",
            "5m",
            "warning",
            f"{node} is connected to {{{{ $value }}}} neighbours only.",
            "levywalk fleet doctor DIR checks the edges.",
        ),
        Alert(
            "ModelRestored",
            "increase(levywalk_regenerations_total[1h]) > 0",
            "0s",
            "warning",
            f"{node} has restored the model from its copy; updates may be lost.",
            "levywalk fleet status DIR counts them.",
        ),
        Alert(
            "NodeOutOfOrder",
            "levywalk_out_of_order == 1",
            "1m",
            "warning",
            f"{node} waits after an error, such as a full disk.",
            "levywalk fleet logs DIR --node {{ $labels.node }} shows the error.",
        ),
        Alert(
            "CertificateExpires",
            "levywalk_certificate_expires_seconds - time() < 14 * 86400",
            "0s",
            "warning",
            "The certificate of node {{ $labels.node }} expires within two weeks.",
            "levywalk fleet renew DIR gives the nodes new certificates.",
        ),
        Alert(
            "CertificateExpired",
            "levywalk_certificate_expires_seconds - time() < 0",
            "0s",
            "critical",
            "The certificate of node {{ $labels.node }} has expired: no node accepts it.",
            "levywalk fleet renew DIR gives the nodes new certificates.",
        ),
        Alert(
            "BudgetSpent",
            "levywalk_privacy_updates_spent >= levywalk_privacy_updates_cap",
            "0s",
            "warning",
            f"{node} has spent its privacy budget, or its share for one of several tokens, and "
            "passes that model on without updates.",
            "levywalk fleet status DIR says how many nodes still make updates.",
        ),
        Alert(
            "ModelRefused",
            "increase(levywalk_models_refused_total[1h]) > 0",
            "0s",
            "warning",
            f"{node} has refused a model that honest updates cannot have made.",
            "levywalk fleet status DIR names the sender, and the commands against it.",
        ),
        Alert(
            "NodeAvoided",
            "levywalk_nodes_avoided > 0",
            "0s",
            "warning",
            f"{node} avoids {{{{ $value }}}} neighbours, whose models it has refused.",
            "levywalk fleet revoke DIR NODE shuts one out, levywalk fleet forgive DIR NODE lets it "
            "take part again.",
        ),
        Alert(
            "Refusals",
            "increase(levywalk_refused_total[10m]) > 100",
            "0s",
            "warning",
            f"{node} has refused {{{{ $value }}}} messages within ten minutes.",
            "levywalk fleet logs DIR --node {{ $labels.node }} says whose, and why.",
        ),
    ]


def rules_file(dead_after: float) -> str:
    """Return the rules as a file for Prometheus (``rule_files``).

    Examples
    --------
    >>> rules_file(60.0).splitlines()[3]
    '      - alert: WalkHasStopped'
    """
    lines = ["groups:", "  - name: levywalk", "    rules:"]
    for alert in alerts(dead_after):
        lines += [
            f"      - alert: {alert.name}",
            f"        expr: {alert.expr}",
            f"        for: {alert.wait}",
            "        labels:",
            f"          severity: {alert.severity}",
            "        annotations:",
            f'          summary: "{alert.summary}"',
            f'          remedy: "{alert.remedy}"',
        ]
    return "\n".join(lines) + "\n"
