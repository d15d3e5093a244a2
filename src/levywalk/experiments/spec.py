"""Experiment files: TOML in, a checked `Experiment` out. Unknown keys, wrong types and impossible values are errors."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from levywalk import checks, network, problem, walks
from levywalk.errors import InvalidSpec, LevywalkError
from levywalk.experiments.explain import explain
from levywalk.network import FAMILIES, Network
from levywalk.problem import Problem
from levywalk.schedule import Constant, Decaying, Dropping, Schedule
from levywalk.updates import Sgd
from levywalk.walks import AnyDesign, Design, DistanceLaw, JumpLaw


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


# --- [network] -------------------------------------------------------------------------------------------------------


class _NetworkFile(_Section):
    """A network from a file."""

    family: Literal["file"]
    file: str
    format: str | None = None
    self_loops: str = "none"
    largest_component: bool = False

    def build(self, folder: Path) -> Network:
        """Read the file, relative to the experiment's folder."""
        return network.read_network(
            folder / self.file, format=self.format, self_loops=self.self_loops, largest_component=self.largest_component
        )


class _Family(_Section):
    family: str

    def build(self, folder: Path) -> Network:
        """Make the network."""
        values = self.model_dump(exclude={"family"})
        return FAMILIES[self.family](**values)


def _family_section(name: str, make: Callable[..., Network]) -> type[_Family]:
    """Derive a section from the signature of a family: one spelling for Python and TOML."""
    hints = get_type_hints(make)
    fields: dict[str, Any] = {"family": (Literal[name], ...)}
    for key, parameter in inspect.signature(make).parameters.items():
        fields[key] = (hints[key], ... if parameter.default is inspect.Parameter.empty else parameter.default)
    return create_model(f"_{name}", __base__=_Family, **fields)


_NetworkSection: Any = Annotated[
    Union[(_NetworkFile, *(_family_section(name, make) for name, make in FAMILIES.items()))],
    Field(discriminator="family"),
]


# --- [problem] -------------------------------------------------------------------------------------------------------


class _Homogeneous(_Section):
    data: Literal["homogeneous"]
    dim: int = 10
    sigma2: float = 1.0
    noise: float = 1.0
    seed: int = 0

    def build(self, n: int, folder: Path) -> Problem:
        """Draw the data."""
        return problem.homogeneous(n, **self.model_dump(exclude={"data"}))


class _Heterogeneous(_Section):
    data: Literal["heterogeneous"]
    dim: int = 10
    sigma2_low: float = 1.0
    sigma2_high: float = 100.0
    p_high: float = 0.002
    noise: float = 1.0
    important: int | None = None
    seed: int = 0

    def build(self, n: int, folder: Path) -> Problem:
        """Draw the data."""
        return problem.heterogeneous(n, **self.model_dump(exclude={"data"}))


class _DataFile(_Section):
    data: Literal["file"]
    file: str
    loss: Literal["least_squares", "logistic"] = "least_squares"
    format: str | None = None
    target: str | int | None = None
    partition: Literal["iid", "label", "dirichlet", "size"] = "iid"
    alpha: float = 0.5
    ridge: float = 0.0
    seed: int = 0

    def build(self, n: int, folder: Path) -> Problem:
        """Read the data and spread it over the nodes."""
        features, targets = problem.load_dataset(folder / self.file, format=self.format, target=self.target)
        node = problem.partition(features, targets, n, how=self.partition, seed=self.seed, alpha=self.alpha)
        make = problem.LeastSquares if self.loss == "least_squares" else problem.Logistic
        return make(features, targets, node=node, ridge=self.ridge)


_ProblemSection = Annotated[_Homogeneous | _Heterogeneous | _DataFile, Field(discriminator="data")]


# --- [designs.NAME] --------------------------------------------------------------------------------------------------


class _ConstantSection(_Section):
    kind: Literal["constant"]
    value: float

    def build(self) -> Schedule:
        """Make the schedule."""
        return Constant(self.value)


class _DecayingSection(_Section):
    kind: Literal["decaying"]
    initial: float
    timescale: float = 10_000.0
    power: float = 1.0

    def build(self) -> Schedule:
        """Make the schedule."""
        return Decaying(self.initial, self.timescale, self.power)


class _DroppingSection(_Section):
    kind: Literal["dropping"]
    initial: float
    at: int
    then: float = 0.0

    def build(self) -> Schedule:
        """Make the schedule."""
        return Dropping(self.initial, self.at, self.then)


_ScheduleSection = Annotated[_ConstantSection | _DecayingSection | _DroppingSection, Field(discriminator="kind")]


class _Plain(_Section):
    kind: Literal["unif_rw", "weight_rw", "iid_uniform", "iid_weighted"]

    def build(self) -> AnyDesign:
        """Make the design."""
        make: Callable[[], Design] = getattr(walks, self.kind)
        return make()


class _Simple(_Section):
    kind: Literal["simple_rw"]
    reweight: bool = False

    def build(self) -> AnyDesign:
        """Make the design."""
        return walks.simple_rw(self.reweight)


class _MixedSection(_Section):
    kind: Literal["mixed_rw"]
    mix: float

    def build(self) -> AnyDesign:
        """Make the design."""
        return walks.mixed_rw(self.mix)


class _Mhlj(_Section):
    kind: Literal["mhlj"]
    p_jump: float = 0.1
    p_distance: float = 0.5
    max_hops: int = 3
    schedule: _ScheduleSection | None = None

    def build(self) -> AnyDesign:
        """Make the design."""
        schedule = self.schedule.build() if self.schedule else None
        return walks.mhlj(self.p_jump, self.p_distance, self.max_hops, schedule)


class _Custom(_Section):
    kind: Literal["custom"]
    target: Literal["uniform", "importance", "degree", "mixed"]
    mix: float | None = None
    p_jump: float = 0.0
    distance: Literal["geometric", "fixed", "power"] = "geometric"
    p_distance: float = 0.5
    exponent: float = 2.0
    max_hops: int = 3
    schedule: _ScheduleSection | None = None
    reweight: bool = True

    def build(self) -> AnyDesign:
        """Make the design."""
        if (self.target == "mixed") != (self.mix is not None):
            raise InvalidSpec(
                f'mix belongs to target = "mixed" alone, got target = {self.target!r}, mix = {self.mix!r}'
            )
        laws: dict[str, Callable[[], DistanceLaw]] = {
            "geometric": lambda: walks.TruncatedGeometric(self.p_distance, self.max_hops),
            "fixed": lambda: walks.FixedDistance(self.max_hops),
            "power": lambda: walks.PowerLaw(self.exponent, self.max_hops),
        }
        target = walks.Mixed(self.mix) if self.mix is not None else self.target
        p_jump = self.schedule.build() if self.schedule else checks.probability("p_jump", self.p_jump)
        return Design(target, JumpLaw(p_jump, laws[self.distance]()) if p_jump != 0.0 else None, reweight=self.reweight)


_Walk = Annotated[_Plain | _Simple | _MixedSection | _Mhlj | _Custom, Field(discriminator="kind")]


class _SwitchingSection(_Section):
    kind: Literal["switching"]
    first: _Walk
    then: _Walk
    threshold: float | Literal["auto"] = "auto"
    window: float | Literal["auto"] = "auto"
    patience: int | Literal["auto"] = "auto"
    step_size: float | Literal["auto", "theory"] = "auto"

    def build(self) -> AnyDesign:
        """Make the design."""
        first, then = self.first.build(), self.then.build()
        assert isinstance(first, Design)
        assert isinstance(then, Design)
        return walks.switching(
            first, then, threshold=self.threshold, window=self.window, patience=self.patience, step_size=self.step_size
        )


_DesignSection = Annotated[
    _Plain | _Simple | _MixedSection | _Mhlj | _Custom | _SwitchingSection, Field(discriminator="kind")
]


# --- [run] and [output] ----------------------------------------------------------------------------------------------


class _Run(_Section):
    steps: int
    replicas: int = 16
    seed: int = 0
    step_size: float | Literal["tuned", "theory"] | dict[str, float] = "tuned"
    accuracy: float = 0.01
    record_every: int | None = None
    record_walk: bool = False
    start: Literal["uniform", "target", "stationary"] | int = "uniform"
    minibatch: int | None = None
    loss: Literal["auto", "exact"] | int = "auto"
    threads: int | None = None

    def options(self) -> dict[str, Any]:
        """Return the keyword arguments of `levywalk.compare`."""
        values = {name: getattr(self, name) for name in type(self).model_fields if name != "minibatch"}
        return values | {"measure_loss": values.pop("loss"), "update": Sgd(self.minibatch)}


class _Output(_Section):
    folder: str = "out"
    traces: bool = True
    table: bool = True
    figure: Literal["png", "pdf", "svg", "none"] = "png"


class Experiment(_Section):
    """A whole experiment: what `levywalk run` carries out."""

    network: _NetworkSection
    problem: _ProblemSection
    designs: dict[str, _DesignSection] = Field(min_length=1)
    run: _Run
    output: _Output = _Output()

    def build(self, folder: Path) -> tuple[Network, Problem, dict[str, AnyDesign]]:
        """Make the parts; files are relative to ``folder``. An impossible value names its section."""
        where = "network"
        try:
            graph = self.network.build(folder)
            where = "problem"
            task = self.problem.build(graph.n, folder)
            made: dict[str, AnyDesign] = {}
            for name, section in self.designs.items():
                where = f"designs.{name}"
                made[name] = section.build()
        except LevywalkError as error:
            raise InvalidSpec(f"[{where}] {error}") from None
        return graph, task, made


def read_experiment(path: str | Path, overrides: Mapping[str, Any] | None = None) -> Experiment:
    """Read and check an experiment file; ``overrides`` are laid over it.

    Examples
    --------
    >>> example = Path(__file__).with_name("example.toml")
    >>> read_experiment(example, {"run": {"seed": 7}}).run.seed
    7
    """
    path = checks.existing_file(path)
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise InvalidSpec(f"{path} is not text in UTF-8, so it cannot be TOML") from None
    except tomllib.TOMLDecodeError as error:
        raise InvalidSpec(f"{path} is not valid TOML: {error}") from None
    return check_experiment(_merged(content, overrides or {}), str(path))


def check_experiment(content: Mapping[str, Any], source: str = "experiment") -> Experiment:
    """Check an experiment given as nested dicts."""
    try:
        return Experiment.model_validate(content)
    except ValidationError as error:
        lines = "\n".join(f"  {explain(Experiment, item)}" for item in error.errors())
        count = error.error_count()
        raise InvalidSpec(
            f"{source} has {count} mistake{'s' if count > 1 else ''}:\n{lines}\n"
            "`levywalk run --example` prints a commented example"
        ) from None


def parse_override(text: str) -> dict[str, Any]:
    """Read one ``--set KEY=VALUE``: the key dotted as in TOML, the value TOML or else plain text.

    Examples
    --------
    >>> parse_override("run.steps=500"), parse_override("run.start=target")
    ({'run': {'steps': 500}}, {'run': {'start': 'target'}})
    """
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise InvalidSpec(f"--set takes KEY=VALUE, such as run.steps=5000, got {text!r}")
    for candidate in (value, '"' + value.strip().replace("\\", "\\\\").replace('"', '\\"') + '"'):
        try:
            return tomllib.loads(f"{key}={candidate}")
        except tomllib.TOMLDecodeError:
            continue
    raise InvalidSpec(
        f"--set takes a dotted key, such as run.steps=5000 or 'designs.\"my name\".p_jump=0.2', got {text!r}"
    )


def merge_overrides(texts: list[str]) -> dict[str, Any]:
    """Read several ``--set``, later ones over earlier ones."""
    merged: dict[str, Any] = {}
    for text in texts:
        merged = _merged(merged, parse_override(text))
    return merged


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    out = dict(base)
    for key, value in over.items():
        both = isinstance(value, Mapping) and isinstance(out.get(key), Mapping)
        out[key] = _merged(out[key], value) if both else value
    return out
