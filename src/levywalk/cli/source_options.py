"""The options about the network and the data, which several commands share.

`run`, `compare`, `inspect`, `sweep`, `fleet init` and `fleet simulate` take the same ones:
`with_source_options` adds them to a command, which receives those that were given as one
`SourceOptions`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import typer

Data = Annotated[
    str,
    typer.Option("--data", help="Data of the nodes: heterogeneous, homogeneous, or a data file."),
]
Important = Annotated[
    int | None,
    typer.Option(
        "--important",
        min=0,
        help="Number of important nodes (only with heterogeneous data); default: random.",
    ),
]
_NETWORK = "The network"
_DATA = "The data (only with a data file)"


def _known_partition(text: str | None) -> str | None:
    """Refuse a partition that is not known, while the command line is read."""
    from levywalk.errors import InvalidParameter
    from levywalk.problem.partition import split_partition

    if text is not None:
        try:
            split_partition(text)
        except InvalidParameter as error:
            raise typer.BadParameter(str(error).removeprefix("--partition ")) from None
    return text


# The parameter's name is the key of the section [network] or [problem] of an experiment file.
# Where a word is one of a few, the type says so: a wrong one is refused with the list, and
# completion offers them. All are None if they are not given, so that they leave a file's values.
_NETWORK_OPTIONS: dict[str, tuple[Any, Any]] = {
    "self_loops": (
        Literal["none", "counted"] | None,
        typer.Option(
            "--self-loops",
            metavar="none|counted",
            help="Whether every node is one of its own neighbours. Default: none.",
            rich_help_panel=_NETWORK,
        ),
    ),
    "largest_component": (
        bool | None,
        typer.Option(
            "--largest-component/--all-components",
            help="Keep only the largest connected part of the network.",
            show_default=False,
            rich_help_panel=_NETWORK,
        ),
    ),
    "format": (
        Literal["edges", "mtx", "graphml", "npz"] | None,
        typer.Option(
            "--network-format",
            metavar="edges|mtx|graphml|npz",
            help="Format of the network file. Default: by its suffix.",
            rich_help_panel=_NETWORK,
        ),
    ),
    "node_base": (
        int | None,
        typer.Option(
            "--node-base",
            min=0,
            max=1,
            help="Id of the first node in the file; missing ids are then nodes without edges.",
            rich_help_panel=_NETWORK,
        ),
    ),
    "directed": (
        Literal["symmetrise", "error"] | None,
        typer.Option(
            "--directed",
            metavar="symmetrise|error",
            help="What to do with a directed graph. Default: symmetrise, with a warning.",
            rich_help_panel=_NETWORK,
        ),
    ),
}
_DATA_OPTIONS: dict[str, tuple[Any, Any]] = {
    "loss": (
        str | None,
        typer.Option(
            "--loss",
            metavar="LOSS",
            help=(
                "least_squares (default), logistic, softmax, huber, poisson, squared_hinge, "
                "quantile, such as quantile:level=0.9, or a loss of your own (--load FILE)."
            ),
            rich_help_panel=_DATA,
        ),
    ),
    "ridge": (
        float | None,
        typer.Option(
            "--ridge", min=0.0, help="Ridge (l2) penalty. Default: 0.", rich_help_panel=_DATA
        ),
    ),
    "l1": (
        float | None,
        typer.Option(
            "--l1",
            min=0.0,
            help="l1 penalty, which sets entries of the model to 0. Default: 0.",
            rich_help_panel=_DATA,
        ),
    ),
    "partition": (
        str | None,
        typer.Option(
            "--partition",
            metavar="HOW",
            callback=_known_partition,
            help=(
                "How samples are distributed to nodes: iid (default), label, dirichlet:alpha=0.5, "
                "size:alpha=0.5, pathological:classes=2; all take min_size=…"
            ),
            rich_help_panel=_DATA,
        ),
    ),
    "held_out": (
        float | None,
        typer.Option(
            "--held-out",
            metavar="SHARE",
            help="Share of the samples that no node gets, such as 0.2; --metrics uses them.",
            rich_help_panel=_DATA,
        ),
    ),
    "target": (
        str | None,
        typer.Option(
            "--target",
            metavar="COLUMN",
            help="Column of the targets, by name or position. Default: the last one.",
            rich_help_panel=_DATA,
        ),
    ),
    "node": (
        str | None,
        typer.Option(
            "--node",
            metavar="COLUMN",
            help="Column with each sample's node, by the id in the network file.",
            rich_help_panel=_DATA,
        ),
    ),
    "idle": (
        Literal["error", "pass"] | None,
        typer.Option(
            "--idle",
            metavar="error|pass",
            help="Nodes without data: refuse them (default), or let them pass the model on.",
            rich_help_panel=_DATA,
        ),
    ),
    "features": (
        str | None,
        typer.Option(
            "--features",
            metavar="COLUMNS",
            help="Columns of the features, such as age,income or 0-4. Default: all others.",
            rich_help_panel=_DATA,
        ),
    ),
    "header": (
        bool | None,
        typer.Option(
            "--header/--no-header",
            help="Whether the first line of a CSV file is a header. Default: by its content.",
            show_default=False,
            rich_help_panel=_DATA,
        ),
    ),
    "format": (
        Literal["csv", "libsvm", "npz"] | None,
        typer.Option(
            "--data-format",
            metavar="csv|libsvm|npz",
            help="Format of the data file. Default: by its suffix.",
            rich_help_panel=_DATA,
        ),
    ),
    "index_base": (
        int | None,
        typer.Option(
            "--index-base",
            min=0,
            max=1,
            help="Index of the first feature in a LIBSVM file. Default: 1.",
            rich_help_panel=_DATA,
        ),
    ),
    "labels": (
        str | None,
        typer.Option(
            "--labels",
            metavar="NO,YES",
            help=(
                "Labels that become 0 and 1, such as 1,2; with one label, all others become 0; "
                "more than two become 0, 1, 2, …"
            ),
            rich_help_panel=_DATA,
        ),
    ),
    "dense": (
        bool | None,
        typer.Option(
            "--dense/--sparse",
            help=(
                "Whether a LIBSVM file becomes a dense matrix. Default: no, if it has 1000 "
                "features or more and fewer than 5 % of all entries are not 0."
            ),
            show_default=False,
            rich_help_panel=_DATA,
        ),
    ),
    "intercept": (
        bool | None,
        typer.Option(
            "--intercept/--no-intercept",
            help="Add a feature that is 1 for every sample.",
            show_default=False,
            rich_help_panel=_DATA,
        ),
    ),
    "standardise": (
        bool | None,
        typer.Option(
            "--standardise/--no-standardise",
            help="Scale each feature to mean 0 and standard deviation 1.",
            show_default=False,
            rich_help_panel=_DATA,
        ),
    ),
    "missing": (
        Literal["refuse", "drop"] | None,
        typer.Option(
            "--missing",
            metavar="refuse|drop",
            help="What to do with lines that have missing values. Default: refuse.",
            rich_help_panel=_DATA,
        ),
    ),
    "snr": (
        float | None,
        typer.Option(
            "--snr",
            help=(
                "Signal-to-noise ratio of drawn data, such as 115, or inf for no noise. "
                "Default: noise of standard deviation 1."
            ),
        ),
    ),
}


@dataclass(frozen=True)
class SourceOptions:
    """The options about the network and the data that were given, by the key of their section."""

    network: dict[str, Any] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)


def with_source_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options about the network and the data, in place of ``sources``."""
    signature = inspect.signature(command, eval_str=True)
    own = [entry for name, entry in signature.parameters.items() if name != "sources"]
    added = [
        inspect.Parameter(
            f"{section}_{key}",
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[kind, option],
        )
        for section, options in (("network", _NETWORK_OPTIONS), ("data", _DATA_OPTIONS))
        for key, (kind, option) in options.items()
    ]

    @functools.wraps(command)
    def wrapped(**values: Any) -> None:
        given: dict[str, dict[str, Any]] = {"network": {}, "data": {}}
        for entry in added:
            section, _, key = entry.name.partition("_")
            value = values.pop(entry.name)
            if value is not None:
                given[section][key] = value
        command(sources=SourceOptions(**given), **values)

    every = [entry.replace(kind=inspect.Parameter.KEYWORD_ONLY) for entry in own] + added
    wrapped.__signature__ = signature.replace(parameters=every)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {entry.name: entry.annotation for entry in every}
    return wrapped
