"""The experiment file that gives the numbers of the page, and the command that runs it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from levywalk.experiments.spec import check_experiment
from levywalk.live.session import LiveSession
from levywalk.registry import to_dict
from levywalk.report.experiment_toml import toml
from levywalk.walks import ChangingJumps

FILE = "live.toml"
COMMAND = f"levywalk run {FILE}"
_WALKS_UP_TO = 25_000_000


def export_experiment(session: LiveSession, sections: Mapping[str, Any]) -> dict[str, str]:
    """Return the file and the command; ``sections`` are [network], [problem] and [designs].

    Jumps that were changed on the page are pieces of a design ``changing_jumps``.
    """
    designs = {}
    for run in session.live:
        given = sections["designs"][run.name]
        whole = run.whole()
        if isinstance(whole, ChangingJumps):
            own = {"update": given["update"]} if "update" in given else {}
            given = {**to_dict("design", whole), **own}
        designs[run.name] = given
    steps = max(session.step, 1)
    settings = {
        "network": dict(sections["network"]),
        "problem": dict(sections["problem"]),
        "run": {
            "steps": steps,
            "replicas": 1,
            "seed": session.seed,
            "step_size": session.step_size,
            "record_walk": steps <= _WALKS_UP_TO,
        },
        "designs": designs,
        "output": {"folder": "levywalk-live"},
    }
    check_experiment(settings, "the page")
    head = (
        f"# The walks of the live page until step {steps:,}. Save this file as {FILE} in the "
        f"folder\n# in which levywalk live was typed, and type: {COMMAND}\n\n"
    )
    return {"command": COMMAND, "file": FILE, "toml": head + toml(settings) + "\n"}
