"""Alert rules and dashboard: each alert fires when it should, checked by Prometheus' own tool."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

import levywalk as lw
from levywalk.cli.main import app
from levywalk.errors import InvalidParameter
from levywalk.fleet.protocol.terms import HandOffTerms
from levywalk.fleet.runtime import metrics
from levywalk.fleet.setup.alerts import alerts, rules_file
from levywalk.fleet.setup.create import create
from levywalk.fleet.setup.dashboard import dashboard_panels

PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(
    PROMTOOL is None, reason="promtool is not installed (Debian: apt-get install prometheus)"
)
OPERATORS = Path("docs/operators.md").read_text()
DEAD_AFTER = 20.0
DAY = 86400
# Each case: the series of a fleet of two nodes, at 0, 1, 2, … minutes, when the alert must fire,
# and series at which it must not.
FIRES = {
    "WalkHasStopped": {"stalled": ("1x20", "1x20"), "finished": ("0x20", "0x20")},
    "WalkPauses": {"silence_seconds": ("61x20", "70x20"), "finished": ("0x20", "0x20")},
    "ModelHasDiverged": {"diverged": ("0x20", "1x20")},
    "NodeFenced": {"fenced": ("0x20", "1x20")},
    "NodeWaitsForAnswers": {"answers_awaited": ("0x20", "2x20")},
    "NodeDown": {"up": ("1x20", "0x20")},
    "NeighbourMissing": {"neighbours": ("4x20", "4x20"), "neighbours_connected": ("4x20", "3x20")},
    "ModelRestored": {"regenerations_total": ("0x20", "0 0 0 0 0 1x15")},
    "NodeOutOfOrder": {"out_of_order": ("0x20", "1x20")},
    "CertificateExpires": {"certificate_expires_seconds": (f"{30 * DAY}x20", f"{13 * DAY}x20")},
    "CertificateExpired": {"certificate_expires_seconds": (f"{30 * DAY}x20", "300x20")},
    "BudgetSpent": {
        "privacy_updates_spent": ("23x20", "24x20"),
        "privacy_updates_cap": ("24x20", "24x20"),
    },
    "ModelRefused": {"models_refused_total": ("0x20", "0 0 0 0 0 1x15")},
    "NodeAvoided": {"nodes_avoided": ("0x20", "1x20")},
    "Refusals": {"refused_total": ("0x20", "0+20x20")},
}
SILENT = {
    "WalkHasStopped": [
        {"stalled": ("1x20", "0x20"), "finished": ("0x20", "0x20")},  # one node sees steps
        {"stalled": ("1x20", "1x20"), "finished": ("0x20", "1x20")},  # the walk is over
    ],
    "WalkPauses": [
        {"silence_seconds": ("59x20", "900x20"), "finished": ("0x20", "0x20")},
        {"silence_seconds": ("90x20", "90x20"), "finished": ("1x20", "0x20")},
    ],
    "ModelHasDiverged": [{"diverged": ("0x20", "0x20")}],
    "NodeFenced": [{"fenced": ("0x20", "0x20")}],
    "NodeWaitsForAnswers": [{"answers_awaited": ("0x20", "0x6 2 2 2 0x11")}],  # a short wait
    "NodeDown": [{"up": ("1x20", "1x8 0 1x11")}],  # a restart
    "NeighbourMissing": [
        {"neighbours": ("4x20", "4x20"), "neighbours_connected": ("4x20", "4x20")}
    ],
    "ModelRestored": [{"regenerations_total": ("0x20", "3x20")}],  # long ago
    "NodeOutOfOrder": [{"out_of_order": ("0x20", "0x20")}],
    "CertificateExpires": [{"certificate_expires_seconds": (f"{30 * DAY}x20", f"{15 * DAY}x20")}],
    "CertificateExpired": [{"certificate_expires_seconds": (f"{30 * DAY}x20", f"{DAY}x20")}],
    "BudgetSpent": [
        {"privacy_updates_spent": ("23x20", "0x20"), "privacy_updates_cap": ("24x20", "24x20")}
    ],
    "ModelRefused": [{"models_refused_total": ("0x20", "3x20")}],  # long ago
    "NodeAvoided": [{"nodes_avoided": ("0x20", "0x20")}],
    "Refusals": [{"refused_total": ("0x20", "0+5x20")}],
}


def monitoring(*words):
    return CliRunner().invoke(app, ["fleet", "monitoring", *map(str, words)])


def promtool(*args):
    return subprocess.run([PROMTOOL, *map(str, args)], capture_output=True, text=True, check=False)


def series(case):
    found = []
    for name, values in case.items():
        full = name if name == "up" else f"levywalk_{name}"
        for v, each in enumerate(values):
            labels = f'{{job="levywalk",instance="127.0.0.1:2200{v}",node="{v}"}}'
            found.append({"series": full + labels, "values": each})
    return found


def expected(alert, case):
    """The alerts that Prometheus must report: the rule's own text with the labels of node 1."""
    if alert.expr.startswith(("min by (token)", "max(")):  # of the fleet, without labels
        labels, value = {}, None
    else:
        labels = {"job": "levywalk", "instance": "127.0.0.1:22001", "node": "1"}
        value = {
            "NodeWaitsForAnswers": "2",
            "NeighbourMissing": "3",
            "NodeAvoided": "1",
            "Refusals": "200",
        }.get(alert.name)

    def filled(text):
        for key, label in labels.items():
            text = text.replace(f"{{{{ $labels.{key} }}}}", label)
        return text.replace("{{ $value }}", value or "")

    return [
        {
            "exp_labels": {"severity": alert.severity, **labels},
            "exp_annotations": {"summary": filled(alert.summary), "remedy": filled(alert.remedy)},
        }
    ]


def judged(tmp_path, tests):
    (tmp_path / "alerts.yml").write_text(rules_file(DEAD_AFTER))
    at = tmp_path / "tests.yml"  # JSON is YAML
    at.write_text(json.dumps({"rule_files": ["alerts.yml"], "tests": tests}))
    return promtool("test", "rules", at)


def at_fifteen(alert, case, fires):
    rule = {"eval_time": "15m", "alertname": alert.name}
    rule["exp_alerts"] = expected(alert, case) if fires else []
    return {"interval": "1m", "input_series": series(case), "alert_rule_test": [rule]}


def test_every_alert_has_its_cases():
    names = {alert.name for alert in alerts(DEAD_AFTER)}
    assert names == set(FIRES) == set(SILENT)


@needs_promtool
def test_every_alert_fires_and_says_what_helps(tmp_path):
    found = judged(
        tmp_path, [at_fifteen(alert, FIRES[alert.name], True) for alert in alerts(DEAD_AFTER)]
    )
    assert found.returncode == 0, found.stdout + found.stderr


@needs_promtool
def test_no_alert_fires_when_all_is_well(tmp_path):
    cases = [
        at_fifteen(alert, case, False)
        for alert in alerts(DEAD_AFTER)
        for case in SILENT[alert.name]
    ]
    found = judged(tmp_path, cases)
    assert found.returncode == 0, found.stdout + found.stderr


@needs_promtool
def test_a_token_that_has_stopped_is_named_although_another_is_over(tmp_path):
    alert = alerts(DEAD_AFTER)[0]
    given = {"stalled": ("0", "1"), "finished": ("1", "0")}  # by token, at both nodes
    found = [
        {"series": f'levywalk_{name}{{node="{v}",token="{k}"}}', "values": f"{value}x20"}
        for name, values in given.items()
        for k, value in enumerate(values)
        for v in range(2)
    ]
    rule = {"eval_time": "15m", "alertname": alert.name, "exp_alerts": expected(alert, {})}
    rule["exp_alerts"][0]["exp_labels"]["token"] = "1"
    case = {"interval": "1m", "input_series": found, "alert_rule_test": [rule]}
    done = judged(tmp_path, [case])
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
def test_an_alert_that_does_not_fire_would_be_noticed(tmp_path):
    alert = alerts(DEAD_AFTER)[0]
    found = judged(tmp_path, [at_fifteen(alert, SILENT[alert.name][0], True)])
    assert found.returncode != 0


@needs_promtool
def test_prometheus_accepts_the_files_of_a_fleet(tmp_path):
    folder = create(
        tmp_path / "two", lw.ring(3), lw.homogeneous(3), lw.mhlj(), steps=9, step_size=0.01
    )
    done = monitoring(folder)
    assert done.exit_code == 0, done.stderr
    found = promtool("check", "config", folder / "monitoring" / "prometheus.yml")
    assert found.returncode == 0, found.stdout + found.stderr
    assert f"{len(FIRES)} rules found" in found.stdout


@needs_promtool
def test_every_query_of_the_dashboard_is_one(tmp_path):
    queries = [target["expr"] for panel in dashboard_panels() for target in panel["targets"]]
    rules = [{"record": f"levywalk:q{i}", "expr": expr} for i, expr in enumerate(queries)]
    at = tmp_path / "queries.yml"
    at.write_text(json.dumps({"groups": [{"name": "all", "rules": rules}]}))
    found = promtool("check", "rules", at)
    assert found.returncode == 0, found.stdout + found.stderr


def test_the_files_name_the_nodes_and_know_dead_after(tmp_path):
    folder = create(
        tmp_path / "two",
        lw.ring(3),
        lw.homogeneous(3),
        lw.mhlj(),
        steps=9,
        step_size=0.01,
        name="wards",
        terms=HandOffTerms(b"", dead_after=45.0),
    )
    done = monitoring(folder, "--out", tmp_path / "to")
    assert done.exit_code == 0, done.stderr
    config = yaml.safe_load((tmp_path / "to" / "prometheus.yml").read_text())
    (job,) = config["scrape_configs"]
    lines = [(folder / f"node-{v}" / "node.toml").read_text() for v in range(3)]
    ports = [re.search(r'metrics = "(.*)"', text)[1] for text in lines]
    assert job["static_configs"][0]["targets"] == ports
    rules = yaml.safe_load((tmp_path / "to" / "alerts.yml").read_text())["groups"][0]["rules"]
    (pause,) = [rule for rule in rules if rule["alert"] == "WalkPauses"]
    assert "> 135 " in pause["expr"]
    board = json.loads((tmp_path / "to" / "grafana-dashboard.json").read_text())
    assert board["title"] == "levywalk: wards"


def test_a_fleet_without_metrics_is_refused(tmp_path):
    folder = create(
        tmp_path / "two",
        lw.ring(3),
        lw.homogeneous(3),
        lw.mhlj(),
        steps=9,
        step_size=0.01,
        metrics=False,
    )
    done = monitoring(folder)
    assert isinstance(done.exception, InvalidParameter)
    assert "serves metrics" in str(done.exception)
    assert not (folder / "monitoring").exists()


def test_every_metric_is_documented_and_no_other_is_used():
    served = {f"levywalk_{name}" for name in metrics._ABOUT}
    table = "\n".join(line for line in OPERATORS.splitlines() if line.startswith("| `levywalk_"))
    documented = set(re.findall(r"levywalk_\w+", table))
    assert documented == served
    queries = [target["expr"] for panel in dashboard_panels() for target in panel["targets"]]
    used = set(re.findall(r"levywalk_\w+", " ".join([rules_file(DEAD_AFTER), *queries])))
    assert used <= served


def test_panels_do_not_overlap():
    cells = [
        (x, y)
        for panel in dashboard_panels()
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
