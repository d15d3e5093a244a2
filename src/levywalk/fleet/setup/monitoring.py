"""The files with which Prometheus and Grafana watch a fleet."""

from __future__ import annotations

from pathlib import Path

from levywalk.errors import InvalidParameter
from levywalk.fleet.setup.alerts import rules_file
from levywalk.fleet.setup.dashboard import dashboard
from levywalk.fleet.setup.manifest import Manifest
from levywalk.fleet.setup.node_file import NodeFile
from levywalk.whole_files import write_whole

_CONFIG = """\
# Metrics are not encrypted, so nodes serve them on the loopback interface only: run one Prometheus
# on each machine, with the nodes of that machine as targets.
global:
  scrape_interval: 10s
rule_files: [alerts.yml]
scrape_configs:
  - job_name: levywalk
    static_configs:
      - targets: [{targets}]
"""


def monitoring_files(manifest: Manifest, nodes: list[NodeFile]) -> dict[str, str]:
    """Return the files by their names: Prometheus' configuration, alert rules, a dashboard."""
    targets = [node.metrics for node in nodes if node.metrics is not None]
    if not targets:
        raise InvalidParameter(
            "no node of this fleet serves metrics: write a line such as metrics = "
            '"127.0.0.1:22000" into each node.toml, and start the nodes again'
        )
    listed = ", ".join(f'"{target}"' for target in targets)
    return {
        "prometheus.yml": _CONFIG.format(targets=listed),
        "alerts.yml": rules_file(manifest.terms.dead_after),
        "grafana-dashboard.json": dashboard(manifest.name),
    }


def write_monitoring(folder: Path, manifest: Manifest, nodes: list[NodeFile]) -> list[Path]:
    """Write the files into a folder, which is made if necessary, and return their paths."""
    content = monitoring_files(manifest, nodes)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in content.items():
        write_whole(folder / name, text.encode())
    return [folder / name for name in content]
