"""The Grafana dashboard of a fleet: is the walk alive, where is the model, how are the nodes."""

from __future__ import annotations

import json
from typing import Any

_SOURCE = {"type": "prometheus", "uid": "${source}"}
_YES_NO = {"0": ("no", "transparent"), "1": ("yes", "green")}
_BAD = {"0": ("no", "green"), "1": ("yes", "red")}
_WALK = {"0": ("walks", "green"), "1": ("stopped", "red"), "2": ("finished", "blue")}
_TROUBLE = "levywalk_fenced + levywalk_out_of_order > bool 0"
# By token where a fleet has several; elsewhere there is no such label, and one value.
_STATE = "clamp_max(min by (token) (levywalk_stalled) + 2 * max by (token) (levywalk_finished), 2)"


def dashboard_panels() -> list[dict[str, Any]]:
    """Return the panels, from the most important one at the top left.

    Examples
    --------
    >>> [panel["title"] for panel in dashboard_panels()[:4]]
    ['The walk', 'Updates', 'Hand-offs per second', 'Nodes that answer']
    """
    rows = [
        [
            _stat("The walk", _STATE, mappings=_WALK),
            _stat("Updates", "max(levywalk_step)"),
            _stat(
                "Hand-offs per second", "sum(avg by (token) (levywalk_hops_per_second))", decimals=1
            ),
            _stat("Nodes that answer", 'sum(up{job="levywalk"})'),
            _stat("Times the model was restored", "max(levywalk_epoch)"),
            _stat(
                "Seconds since the last step",
                "max(min by (token) (levywalk_silence_seconds))",
                unit="s",
            ),
        ],
        [
            _lines(
                "Updates of the model", [("max by (token) (levywalk_step)", "updates {{token}}")]
            ),
            _lines(
                "Loss of the model, at the nodes",
                [
                    ("avg(levywalk_local_loss < +Inf)", "mean"),
                    ("max(levywalk_local_loss < +Inf)", "largest"),
                ],
            ),
            _lines(
                "Metrics of the model, means over nodes",
                [("avg by (metric) (levywalk_metric)", "{{metric}}")],
            ),
        ],
        [
            _timeline("Who holds the model", "levywalk_holds_token", _YES_NO),
            _timeline("Nodes that are out of order or fenced", _TROUBLE, _BAD),
            _lines(
                "Privacy: ε spent, and at the cap",
                [
                    ("levywalk_privacy_epsilon_spent", "node {{node}}"),
                    ("max(levywalk_privacy_epsilon_cap)", "cap"),
                ],
            ),
        ],
        [
            _lines(
                "Neighbours that are missing",
                [("levywalk_neighbours - levywalk_neighbours_connected > 0", "node {{node}}")],
            ),
            _lines(
                "Messages per second",
                [
                    ("sum(rate(levywalk_messages_sent_total[5m]))", "sent"),
                    ("sum(rate(levywalk_messages_dropped_total[5m]))", "dropped"),
                    ("sum(rate(levywalk_refused_total[5m]))", "refused"),
                ],
            ),
            _lines(
                "Days until certificates expire",
                [("(levywalk_certificate_expires_seconds - time()) / 86400", "node {{node}}")],
            ),
        ],
    ]
    heights = [4, 8, 8, 8]
    placed: list[dict[str, Any]] = []
    y = 0
    for row, height in zip(rows, heights, strict=True):
        width = 24 // len(row)
        for i, panel in enumerate(row):
            place = {"x": i * width, "y": y, "w": width, "h": height}
            placed.append({"id": len(placed) + 1, "gridPos": place, **panel})
        y += height
    return placed


def dashboard(name: str) -> str:
    """Return the dashboard of a fleet as a JSON file that Grafana imports.

    Examples
    --------
    >>> json.loads(dashboard("hospitals"))["title"]
    'levywalk: hospitals'
    """
    source = {
        "name": "source",
        "label": "Prometheus",
        "type": "datasource",
        "query": "prometheus",
        "current": {},
    }
    content = {
        "title": f"levywalk: {name}",
        "uid": None,
        "tags": ["levywalk"],
        "schemaVersion": 39,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [source]},
        "panels": dashboard_panels(),
    }
    return json.dumps(content, indent=2) + "\n"


def _targets(queries: list[tuple[str, str]]) -> list[dict[str, Any]]:
    return [
        {"refId": chr(ord("A") + i), "datasource": _SOURCE, "expr": expr, "legendFormat": legend}
        for i, (expr, legend) in enumerate(queries)
    ]


def _named(mappings: dict[str, tuple[str, str]]) -> list[dict[str, Any]]:
    options = {
        value: {"text": text, "color": color, "index": i}
        for i, (value, (text, color)) in enumerate(mappings.items())
    }
    return [{"type": "value", "options": options}]


def _stat(
    title: str,
    expr: str,
    mappings: dict[str, tuple[str, str]] | None = None,
    unit: str = "short",
    decimals: int | None = None,
) -> dict[str, Any]:
    defaults: dict[str, Any] = {"unit": unit}
    if mappings:
        defaults["mappings"] = _named(mappings)
    if decimals is not None:
        defaults["decimals"] = decimals
    return {
        "type": "stat",
        "title": title,
        "datasource": _SOURCE,
        "targets": _targets([(expr, "")]),
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "value"},
    }


def _lines(title: str, queries: list[tuple[str, str]]) -> dict[str, Any]:
    return {
        "type": "timeseries",
        "title": title,
        "datasource": _SOURCE,
        "targets": _targets(queries),
        "fieldConfig": {"defaults": {"custom": {"lineWidth": 2}}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}},
    }


def _timeline(title: str, expr: str, mappings: dict[str, tuple[str, str]]) -> dict[str, Any]:
    return {
        "type": "state-timeline",
        "title": title,
        "datasource": _SOURCE,
        "targets": _targets([(expr, "node {{node}}")]),
        "fieldConfig": {"defaults": {"mappings": _named(mappings)}, "overrides": []},
        "options": {"mergeValues": True, "showValue": "never", "rowHeight": 0.8},
    }
