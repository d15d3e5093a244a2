"""Experiment files: TOML in, a checked `Experiment` out. Unknown keys, wrong types and impossible
values are errors.

The sections [network], [problem] and [designs.NAME] are recipes of the registry: what a factory
takes as arguments are the keys of its section, for the package's own names and for users' alike.
"""

from __future__ import annotations

import logging
import os
import tomllib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from pydantic import (
    Field,
    ValidationError,
    create_model,
    field_validator,
)

from levywalk import checks, network, problem
from levywalk.errors import InvalidSpec, LevywalkError
from levywalk.experiments.explain import explain
from levywalk.experiments.overrides import merged
from levywalk.experiments.recipe_sections import FileSection, RecipeSection, sections_of
from levywalk.metrics import METRIC_NAMES, named_metrics
from levywalk.network import Network
from levywalk.privacy import as_privacy
from levywalk.problem import Problem
from levywalk.problem.losses import Loss
from levywalk.problem.partition import held_out_rows, split_partition
from levywalk.registry import arguments_of, find, from_dict, names
from levywalk.remedy import python_or_command
from levywalk.trace import as_costs
from levywalk.trace.ranking import Criterion
from levywalk.updates import Sgd, Update
from levywalk.walks import Walk

log = logging.getLogger("levywalk.data")  # the command line shows what is said here
WalkOrPair = Walk | tuple[Walk, Update]


# --- sections from the registry -------------------------------------------------------------------


def seen_from_here(path: Path) -> Path:
    """Return a relative path without the detour through the folder of results, as the user would
    type it.

    Examples
    --------
    >>> seen_from_here(Path("docs/../net.edges")).as_posix()
    'net.edges'
    """
    if path.is_absolute() or ".." not in path.parts:
        return path
    return Path(os.path.relpath(path.resolve()))


class _NetworkFile(FileSection):
    """A network from a file."""

    family: Literal["file"]
    file: str
    format: str | None = None
    self_loops: str = "none"
    largest_component: bool = False
    directed: Literal["symmetrise", "error"] = "symmetrise"
    node_base: Literal[0, 1] | None = None

    def build(self, folder: Path) -> Network:
        """Read the file, relative to the experiment's folder."""
        return network.read_network(
            seen_from_here(folder / self.file),
            format=self.format,
            self_loops=self.self_loops,
            largest_component=self.largest_component,
            directed=self.directed,
            node_base=self.node_base,
        )


class _Family(FileSection):
    family: str
    largest_component: bool = False

    def build(self, folder: Path) -> Network:
        """Make the network."""
        settings = self.model_dump(exclude={"family", "largest_component"})
        made: Network = from_dict("network", {"kind": self.family} | settings)
        return made.largest_component() if self.largest_component else made


class _DataSource(FileSection):
    data: str

    def build(self, graph: Network, folder: Path) -> Problem:
        """Draw the data for the nodes of a network."""
        count = next(iter(arguments_of(find("data", self.data))), "n")  # its first argument
        settings = {count: graph.n} | self.model_dump(exclude={"data"})
        made: Problem = from_dict("data", {"kind": self.data} | settings)
        return made


class _DataFile(FileSection):
    data: Literal["file"]
    file: str
    loss: str | dict[str, Any] = "least_squares"
    format: str | None = None
    target: str | int | None = None
    node: str | int | None = None
    features: str | list[str | int] | None = None
    header: bool | None = None
    index_base: Literal[0, 1] | None = None
    labels: str | list[str | int | float] | None = None
    intercept: bool = False
    standardise: bool = False
    missing: Literal["refuse", "drop"] = "refuse"
    dense: bool | None = None
    idle: Literal["error", "pass"] = "error"
    partition: str | None = None
    alpha: float = 0.5
    ridge: float = 0.0
    l1: float = 0.0
    seed: int = 0
    held_out: float = 0.0

    @field_validator("partition")
    @classmethod
    def _known_partition(cls, text: str | None) -> str | None:
        if text is not None:
            split_partition(text)
        return text

    def build(self, graph: Network, folder: Path) -> Problem:
        """Read the data, and join it with the nodes or spread it over them."""
        return self.build_with_held_out(graph, folder)[0]

    def build_with_held_out(
        self, graph: Network, folder: Path
    ) -> tuple[Problem, tuple[Any, Any] | None]:
        """Return the problem, and the features and targets that are held out, if there are any."""
        loss = loss_of(self.loss)
        if self.node is not None and self.partition is not None:
            names = python_or_command("partition and node", "--partition and --node")
            raise InvalidSpec(f"{names} exclude each other: a node column says where each row is")
        if self.idle == "pass" and self.node is None:
            given = python_or_command("idle = 'pass' needs node", "--idle pass needs --node COLUMN")
            raise InvalidSpec(
                f"{given}: without a node column every node gets samples, and none is idle"
            )
        data = problem.read_data(
            seen_from_here(folder / self.file),
            format=self.format,
            target=self.target,
            node=self.node,
            features=self.features,
            header=self.header,
            index_base=self.index_base,
            labels=self.labels,
            intercept=self.intercept,
            standardise=self.standardise,
            missing=self.missing,
            dense=self.dense,
        )
        log.info(data.description)
        node = None if self.node is None else data.nodes_of(graph, idle=self.idle)
        features, targets, held = data.features, data.targets, None
        if self.held_out:
            out = held_out_rows(len(targets), self.held_out, self.seed, node)
            held = features[out], targets[out]
            features, targets = features[~out], targets[~out]
            node = None if node is None else node[~out]
        if node is None:
            node = problem.partition(
                features,
                targets,
                graph.n,
                how=self.partition or "iid",
                seed=self.seed,
                alpha=self.alpha,
            )
        made = problem.problem_of(features, targets, loss, node, self.ridge, self.idle, l1=self.l1)
        return made, held


class _DesignBase(RecipeSection):
    update: str | dict[str, Any] | None = None  # of this design; the one in [run] if there is none

    def build(self) -> WalkOrPair:
        """Make the walk, or the pair of a walk and an update."""
        walk: Walk = from_dict("design", self.recipe())
        return walk if self.update is None else (walk, update_of(self.update))


def loss_of(recipe: str | Mapping[str, Any]) -> Loss:
    """Return the loss of a recipe, of a name alone, or of its short form.

    Examples
    --------
    >>> loss_of("huber"), loss_of("huber:delta=2"), loss_of({"kind": "huber", "delta": 2.0})
    (HuberLoss(delta=1.0), HuberLoss(delta=2.0), HuberLoss(delta=2.0))
    """
    if isinstance(recipe, str):
        from levywalk.experiments.shorthand import loss_recipe

        recipe = loss_recipe(recipe)
    made: Loss = from_dict("loss", recipe)
    return made


def update_of(recipe: str | Mapping[str, Any], minibatch: int | None = None) -> Update:
    """Return the update of a recipe, or of a name alone; ``minibatch`` is one more argument of it.

    Examples
    --------
    >>> update_of("sgd", minibatch=8)
    Sgd(minibatch=8)
    """
    whole = {"kind": recipe} if isinstance(recipe, str) else dict(recipe)
    more = {} if minibatch is None else {"minibatch": minibatch}
    made: Update = from_dict("update", whole | more)
    return made


# --- [run] and [output] ---------------------------------------------------------------------------


class _Run(FileSection):
    steps: int
    replicas: int = 16
    seed: int = 0
    step_size: float | Literal["tuned", "theory"] | dict[str, float] = "tuned"
    accuracy: float = 0.01
    record_every: int | None = None
    record_walk: bool = False
    start: Literal["uniform", "target", "stationary"] | int = "uniform"
    update: str | dict[str, Any] | None = None
    minibatch: int | None = None
    measure_loss: Literal["auto", "exact"] | int = "auto"
    costs: str | None = None
    privacy: str | dict[str, Any] | None = None
    threads: int | None = None
    metrics: list[str] = Field(default_factory=list)
    rank_by: str | None = None

    @property
    def ranks_by_share(self) -> bool:
        """Whether the accuracy is a share of an initial value, which has a default."""
        return self.rank_by in (None, Criterion.DISTANCE2, Criterion.EXCESS_LOSS)

    def options(self) -> dict[str, Any]:
        """Return the keyword arguments of `levywalk.compare`, without the metrics themselves."""
        apart = ("minibatch", "metrics")
        values = {
            name: getattr(self, name) for name in type(self).model_fields if name not in apart
        }
        if not self.ranks_by_share and "accuracy" not in self.model_fields_set:
            values["accuracy"] = None
        if not (self.ranks_by_share or self.rank_by in (Criterion.LOSS, *self.metrics)):
            if self.rank_by in METRIC_NAMES:
                given = python_or_command(
                    f"metrics = [{self.rank_by!r}]", f"--metrics {self.rank_by}"
                )
                remedy = f"; give {given}"
            else:
                remedy = f", which are {', '.join(METRIC_NAMES)}"
            raise InvalidSpec(
                f"[run] rank_by = {self.rank_by!r} must be distance2, excess_loss, loss or one of "
                f"the metrics{remedy}"
            )
        try:
            values["costs"] = as_costs(self.costs)
            values["privacy"] = as_privacy(self.privacy)
        except LevywalkError as error:
            raise InvalidSpec(f"[run] {error}") from None
        if self.update is None:
            return values | {"update": Sgd(self.minibatch)}
        try:
            return values | {"update": update_of(self.update, self.minibatch)}
        except LevywalkError as error:
            raise InvalidSpec(f"[run] update: {error}") from None


class _Output(FileSection):
    folder: str = "out"
    traces: bool = True
    table: bool = True
    figure: Literal["png", "pdf", "svg", "none"] = "png"


class Experiment(FileSection):
    """A whole experiment: what `levywalk run` carries out."""

    network: Any
    problem: Any
    designs: dict[str, Any] = Field(min_length=1)
    run: _Run
    output: _Output = _Output()

    def build(self, folder: Path) -> tuple[Network, Problem, dict[str, WalkOrPair]]:
        """Make the parts; files are relative to ``folder``.

        An impossible value names its section.
        """
        graph, task, made, _ = self.build_with_metrics(folder, without=True)
        return graph, task, made

    def build_with_metrics(
        self, folder: Path, without: bool = False
    ) -> tuple[Network, Problem, dict[str, WalkOrPair], dict[str, Any]]:
        """Make the parts, and the metrics on held-out data, unless they are not wanted."""
        where = "network"
        metrics: dict[str, Any] = {}
        try:
            graph = self.network.build(folder)
            where = "problem"
            if isinstance(self.problem, _DataFile):
                task, held = self.problem.build_with_held_out(graph, folder)
            else:
                task, held = self.problem.build(graph, folder), None
            where = "run"
            if self.run.metrics and not without:
                if held is None:
                    if isinstance(self.problem, _DataFile):
                        add = python_or_command("[problem] held_out = 0.2", "--held-out 0.2")
                    else:
                        add = python_or_command(
                            '[problem] file = "FILE" and held_out = 0.2',
                            "--data FILE --held-out 0.2",
                        )
                    raise InvalidSpec(f"metrics need held-out samples of a data file: add {add}")
                metrics = named_metrics(self.run.metrics, task, *held)
            made: dict[str, WalkOrPair] = {}
            for name, section in self.designs.items():
                where = f"designs.{name}"
                made[name] = section.build()
        except LevywalkError as error:
            raise InvalidSpec(f"[{where}] {error}") from None
        return graph, task, made, metrics


def experiment_type() -> type[Experiment]:
    """Return the experiment with the sections of all names that are registered now."""
    known = tuple(
        (kind, name) for kind in ("network", "data", "design", "schedule") for name in names(kind)
    )
    return _experiment_type(known)


@lru_cache(maxsize=8)
def _experiment_type(known: tuple[tuple[str, str], ...]) -> type[Experiment]:
    designs: Any = dict[str, sections_of("design", "kind", _DesignBase)]  # type: ignore[misc]
    made: type[Experiment] = create_model(
        "Experiment",
        __base__=Experiment,
        network=(sections_of("network", "family", _Family, first=_NetworkFile), ...),
        problem=(sections_of("data", "data", _DataSource, skip=1, first=_DataFile), ...),
        designs=(designs, Field(min_length=1)),
    )
    return made


def read_experiment(path: str | Path, overrides: Mapping[str, Any] | None = None) -> Experiment:
    """Read and check an experiment file; ``overrides`` replace its values.

    Examples
    --------
    >>> example = Path(__file__).with_name("example.toml")
    >>> read_experiment(example, {"run": {"seed": 7}}).run.seed
    7
    """
    return check_experiment(merged(read_toml(path)[0], overrides or {}), str(path))


def read_toml(path: str | Path) -> tuple[dict[str, Any], str]:
    """Return the content of a TOML file and its text."""
    path = checks.existing_file(path)
    try:
        text = path.read_text(encoding="utf-8")
        return tomllib.loads(text), text
    except UnicodeDecodeError:
        raise InvalidSpec(f"{path} is not text in UTF-8, so it cannot be TOML") from None
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, deep nesting
        raise InvalidSpec(f"{path} is not valid TOML: {error}") from None


def check_experiment(content: Mapping[str, Any], source: str = "experiment") -> Experiment:
    """Check an experiment given as nested dicts."""
    expected = experiment_type()
    try:
        return expected.model_validate(content)
    except ValidationError as error:
        lines = "\n".join(f"  {explain(expected, item)}" for item in error.errors())
        count = error.error_count()
        raise InvalidSpec(
            f"{source} has {count} mistake{'s' if count > 1 else ''}:\n{lines}\n"
            "`levywalk run --example` prints a commented example"
        ) from None
