"""A fleet's test that fails shows what the nodes have said, and what is on their disks.

What fails once in a thousand runs cannot be looked at again: the report has to tell enough.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from levywalk.fleet.operate.folder import FleetFolder

_LINES = 40  # of each log, from its end


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[pytest.TestReport]:
    """Add the logs and disks of all fleets in the test's folder to the report of a failure."""
    report: pytest.TestReport = yield
    folder = getattr(item, "funcargs", {}).get("tmp_path")
    if report.when == "call" and report.failed and folder is not None:
        report.sections += fleets_in(folder)
    return report


def fleets_in(folder: Path) -> list[tuple[str, str]]:
    """Return the ends of the logs, and the disks, of all fleets in a folder, each with a title.

    What cannot be read is said: a report must not fail.
    """
    found = []
    for log in sorted(folder.rglob("node-*/node.log")):
        try:
            text = "\n".join(log.read_text(errors="replace").splitlines()[-_LINES:])
        except OSError as error:
            text = str(error)
        found.append((f"log of {log.parent.relative_to(folder)}", text))
    for at in sorted({one.parent.parent for one in folder.rglob("node-*/node.log")}):
        try:
            views = FleetFolder.open(at).node_views()
        except Exception as error:
            views = []
            found.append((f"disks of {at.relative_to(folder)}", repr(error)))
        for view in views:
            about = {"runs": view.pid is not None, "last": view.last, "error": view.error}
            text = json.dumps(about | view.about, default=str)
            found.append((f"disk of {at.relative_to(folder)}/node-{view.id}", text))
    return found
