"""``levywalk fleet monitoring``: write what Prometheus and Grafana need to watch a fleet."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from levywalk.cli.fleet.common import Dir, carried_out, open_fleet, shell_quoted

MONITORING_EXAMPLES = """Examples:

levywalk fleet monitoring my-fleet

prometheus --config.file my-fleet/monitoring/prometheus.yml"""


def monitoring(
    folder: Dir,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FOLDER", help="Folder to write. Default: DIR/monitoring."),
    ] = None,
) -> None:
    """Write a configuration and alert rules for Prometheus, and a dashboard for Grafana.

    The targets are the nodes of this folder. Alerts that depend on time use the fleet's dead_after.
    """
    from levywalk.fleet.setup.monitoring import write_monitoring

    fleet = open_fleet(folder)
    at = fleet.path / "monitoring" if out is None else out
    made = carried_out(lambda _: write_monitoring(at, fleet.manifest, list(fleet.files.values())))
    for path, what in zip(made, ("targets and rules", "alert rules", "dashboard"), strict=True):
        print(f"{path}: {what}")
    print(f"Start it: prometheus --config.file {shell_quoted(made[0])}")
    print(f"In Grafana choose Dashboards, New, Import, and take {made[2].name}.")
