"""Options about the network and the data, which replace values of [network] and [problem].

Every command that takes a network and data uses these functions, and so does a TOML file whose
values are overridden by options. An option that does not fit the section is refused by its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from levywalk.errors import InvalidParameter
from levywalk.experiments.spec import Experiment, check_experiment
from levywalk.network import Network
from levywalk.problem import Problem

# The option of each key, as it is typed.
NETWORK_OPTIONS = {
    "self_loops": "--self-loops",
    "largest_component": "--largest-component",
    "format": "--network-format",
    "node_base": "--node-base",
    "directed": "--directed",
}
DATA_OPTIONS = {
    "loss": "--loss",
    "ridge": "--ridge",
    "l1": "--l1",
    "partition": "--partition",
    "held_out": "--held-out",
    "target": "--target",
    "node": "--node",
    "idle": "--idle",
    "features": "--features",
    "header": "--header",
    "format": "--data-format",
    "index_base": "--index-base",
    "labels": "--labels",
    "intercept": "--intercept",
    "standardise": "--standardise",
    "missing": "--missing",
    "dense": "--dense",
    "snr": "--snr",
}
_DRAWN = ("snr",)  # options of data that are drawn
_ANY_FAMILY = ("self_loops", "largest_component")


def with_network_options(section: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the section [network] with the options that were given.

    Examples
    --------
    >>> with_network_options({"family": "ring", "n": 5}, {"largest_component": True})
    {'family': 'ring', 'n': 5, 'largest_component': True}
    """
    if section.get("family") != "file":
        wrong = [NETWORK_OPTIONS[key] for key in given if key not in _ANY_FAMILY]
        if wrong:
            raise InvalidParameter(
                f"options such as {', '.join(wrong)} belong to a network file, got the family "
                f"{section.get('family')!r}; leave them out"
            )
    return {**section, **given}


def with_data_options(section: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the section [problem] with the options that were given.

    Examples
    --------
    >>> with_data_options({"data": "file", "file": "a.csv"}, {"node": "who"})
    {'data': 'file', 'file': 'a.csv', 'node': 'who'}
    """
    if section.get("data") == "file":
        wrong = [DATA_OPTIONS[key] for key in given if key in _DRAWN]
        if wrong:
            raise InvalidParameter(
                f"{', '.join(wrong)} belongs to data that are drawn, such as heterogeneous, and "
                "not to a data file; leave it out"
            )
    else:
        wrong = [DATA_OPTIONS[key] for key in given if key not in _DRAWN]
        if wrong:
            raise InvalidParameter(
                f"options such as {', '.join(wrong)} belong to a data file, got "
                f"{section.get('data')!r}; leave them out"
            )
    merged = {**section, **given}
    if "snr" in given:
        merged.pop("noise", None)
    if "node" in given and "partition" not in given:
        merged.pop("partition", None)
    if "partition" in given and "node" not in given:
        merged.pop("node", None)
    return merged


def with_options(
    content: Mapping[str, Any], network: Mapping[str, Any], data: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the content of an experiment file with the options that were given."""
    changed = dict(content)
    if network and isinstance(content.get("network"), Mapping):
        changed["network"] = with_network_options(content["network"], network)
    if data and isinstance(content.get("problem"), Mapping):
        changed["problem"] = with_data_options(content["problem"], data)
    return changed


def experiment_of(network: Mapping[str, Any], problem: Mapping[str, Any]) -> Experiment:
    """Return an experiment with these two sections, checked, and nothing to run."""
    content = {
        "network": network,
        "problem": problem,
        "designs": {"any": {"kind": "unif_rw"}},
        "run": {"steps": 1},
    }
    return check_experiment(content, "the command")


def build_network(section: Mapping[str, Any]) -> Network:
    """Make the network of a section; files are relative to the working folder.

    Examples
    --------
    >>> build_network({"family": "grid", "rows": 3, "cols": 4}).n
    12
    """
    found: Network = experiment_of(section, {"data": "homogeneous"}).network.build(Path())
    return found


def build_problem(section: Mapping[str, Any], network: Network) -> Problem:
    """Make the problem of a section for a network; files are relative to the working folder.

    Examples
    --------
    >>> import levywalk as lw
    >>> build_problem({"data": "heterogeneous", "important": 1}, lw.ring(50)).n
    50
    """
    spec = experiment_of({"family": "ring", "n": 3}, section)
    found: Problem = spec.problem.build(network, Path())
    return found
