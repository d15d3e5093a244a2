"""Sweeps: an experiment file with a table ``[sweep]`` of keys and lists of values; every combination is run, once.

What is run and stored is one design at one point of the grid, as a comparison of one: `compare` treats every design by
itself, so the result is that of ``levywalk run`` for the point, and a design that a key does not touch is run once.
"""

from __future__ import annotations

import copy
import hashlib
import itertools
import json
import math
import re
import tomllib
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from levywalk import checks
from levywalk.engine import check_sizes
from levywalk.errors import DataWarning, DivergedWarning, InvalidData, InvalidSpec, LevywalkError
from levywalk.experiments.execute import execute, finite
from levywalk.experiments.spec import Experiment, check_experiment
from levywalk.sweeps.jobs import Failure, JobsFailed, keys_of, run_all
from levywalk.sweeps.store import Store, canonical

if TYPE_CHECKING:
    import pandas as pd

STORE = "store"
EXAMPLE = Path(__file__).with_name("example_sweep.toml")
_MOST_POINTS = 100_000
_WORK = "levywalk.sweeps.sweep:compare_one"
_LAYOUT = 1  # of what `compare_one` returns: stored results of another are not read
_CHANGES_NOTHING = ("output", "run.threads")
_PER_RUN = ("seconds", "interrupted", "resumed_at")  # of a trace's provenance: what differs between two equal runs


@dataclass(frozen=True)
class Axis:
    """One swept key, as a dotted path into the file, and its values."""

    path: tuple[str, ...]
    values: tuple[Any, ...]

    @property
    def key(self) -> str:
        """The path as TOML writes it."""
        return dotted(self.path)


@dataclass(frozen=True)
class Point:
    """One combination of values, by key, and the experiment that it makes."""

    values: dict[str, Any]
    experiment: Experiment


@dataclass(frozen=True)
class Run:
    """One design at one point: what is computed and stored."""

    point: Point
    design: str
    description: dict[str, Any]

    @property
    def name(self) -> str:
        """What errors call it."""
        return ", ".join([*(f"{key} = {shown(value)}" for key, value in self.point.values.items()), self.design])


@dataclass(frozen=True)
class Sweep:
    """A checked sweep: its axes and all points; files named in it are relative to ``folder``.

    Examples
    --------
    >>> sweep = read_sweep(EXAMPLE)
    >>> [axis.key for axis in sweep.axes], len(sweep.points)
    (['designs.MHLJ.p_jump', 'network.n', 'run.seed'], 12)
    """

    axes: tuple[Axis, ...]
    points: tuple[Point, ...]
    folder: Path
    runs: tuple[Run, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "runs", tuple(_runs(self.points, self.folder)))

    def keys(self) -> list[str]:
        """Return the key of every run's result."""
        return keys_of([run.description for run in self.runs], _WORK)


@dataclass(frozen=True, eq=False)
class Swept:
    """What a sweep found: one row per point and design, and what failed.

    Attributes
    ----------
    rows
        The swept values by key, the design, the accuracy tuned for, the steps to it with a 95 % interval over walks,
        and the other columns of ``Comparison.table()``.
    """

    sweep: Sweep
    rows: list[dict[str, Any]]
    failures: tuple[Failure, ...] = ()

    def table(self) -> pd.DataFrame:
        """Return the rows as a table; a swept table or list is JSON text there."""
        import pandas as pd

        keys = [axis.key for axis in self.sweep.axes]
        return pd.DataFrame([row | {key: cell(row[key]) for key in keys} for row in self.rows])

    def document(self) -> dict[str, Any]:
        """Return all numbers as plain JSON; infinity is null."""
        clean: dict[str, Any] = finite(
            {
                "axes": {axis.key: list(axis.values) for axis in self.sweep.axes},
                "rows": self.rows,
                "failures": [{"run": failure.name, "why": failure.why} for failure in self.failures],
                "settings": self.sweep.points[0].experiment.model_dump(mode="json"),
            }
        )
        return clean


# --- reading ---------------------------------------------------------------------------------------------------------


def read_sweep(path: str | Path) -> Sweep:
    """Read and check an experiment file with a table ``[sweep]``: every key, every value, before anything runs."""
    path = checks.existing_file(path)
    try:
        text = path.read_text(encoding="utf-8")
        content = tomllib.loads(text)
    except UnicodeDecodeError:
        raise InvalidSpec(f"{path} is not text in UTF-8, so it cannot be TOML") from None
    except tomllib.TOMLDecodeError as error:
        raise InvalidSpec(f"{path} is not valid TOML: {error}") from None
    table = content.pop("sweep", None)
    if not isinstance(table, dict) or not table:
        raise InvalidSpec(
            f'{path} has no table [sweep] of keys and lists of values, such as "network.n" = [100, 1000]; '
            "`levywalk sweep --example` prints a commented example"
        )
    axes = tuple(_axes(table, content, _Source(str(path), text)))
    return Sweep(axes, _points(axes, content, _Source(str(path), text), path.parent), path.parent)


@dataclass(frozen=True)
class _Source:
    """A file, to say where in it something is."""

    name: str
    text: str

    def at(self, axis: str) -> str:
        """Return the file, the line of a swept key if it can be told, and the key."""
        lines = self.text.splitlines()
        begins = next((i for i, line in enumerate(lines) if line.strip().startswith("[sweep]")), 0)
        bare = re.sub(r"[\"'\s]", "", axis)
        for i in range(begins, len(lines)):
            if re.sub(r"[\"'\s\\]", "", lines[i].partition("=")[0]) == bare:
                return f"{self.name}, line {i + 1}: [sweep] {axis}"
        return f"{self.name}: [sweep] {axis}"


def _axes(table: Mapping[str, Any], content: Mapping[str, Any], source: _Source) -> Iterator[Axis]:
    seen: list[tuple[str, ...]] = []
    for path, values in _flat(table, (), source):
        where = source.at(dotted(path))
        if not isinstance(values, list) or not values:
            raise InvalidSpec(f"{where} must be a list of at least one value, got {values!r}")
        texts = [canonical(_plain_toml(value, where)) for value in values]
        if len(set(texts)) < len(texts):
            twice = next(value for value, text in zip(values, texts, strict=True) if texts.count(text) > 1)
            raise InvalidSpec(f"{where} has {twice!r} twice; a value once is enough")
        if dotted(path) in _CHANGES_NOTHING or path[0] in _CHANGES_NOTHING:
            raise InvalidSpec(f"{where} changes no result, so there is nothing to sweep; set it outside [sweep]")
        for other in seen:
            if path[: len(other)] == other or other[: len(path)] == path:
                raise InvalidSpec(f"{where} and {dotted(other)} set the same thing; keep one of them")
        _check_place(path, content, where)
        seen.append(path)
        yield Axis(path, tuple(values))


def _flat(table: Mapping[str, Any], before: tuple[str, ...], source: _Source) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Return paths and values: a key of [sweep] is a dotted path in quotes, or without them as TOML's own."""
    for key, value in table.items():
        path = before + (_parsed(key, source) if not before else (key,))
        if isinstance(value, dict):
            yield from _flat(value, path, source)
        else:
            yield path, value


def _parsed(key: str, source: _Source) -> tuple[str, ...]:
    try:
        inner: Any = tomllib.loads(f"{key} = 0")
    except tomllib.TOMLDecodeError:
        raise InvalidSpec(
            f'{source.at(key)} is not a dotted key, such as "network.n" or \'designs."my name".p_jump\''
        ) from None
    path: list[str] = []
    while isinstance(inner, dict):
        part, inner = next(iter(inner.items()))
        path.append(part)
    return tuple(path)


def _plain_toml(value: Any, where: str) -> Any:
    """Refuse the one kind of TOML value that no key takes: a date or time."""
    try:
        return json.loads(json.dumps(value))
    except TypeError:
        raise InvalidSpec(f"{where} must be numbers, texts, lists or tables, got {value!r}") from None


def _check_place(path: tuple[str, ...], content: Mapping[str, Any], where: str) -> None:
    """Check that every table on the way is in the file; the last key is checked with its values."""
    table: Mapping[str, Any] = content
    for i, part in enumerate(path[:-1]):
        inner = table.get(part)
        if not isinstance(inner, Mapping):
            what = "is no table" if part in table else "is not there"
            there = ", ".join(dotted((name,)) for name in table)
            raise InvalidSpec(
                f"{where}: {dotted(path[: i + 1])} {what}; {dotted(path[:i]) or 'the file'} has: {there or 'nothing'}"
            )
        table = inner


def dotted(path: tuple[str, ...]) -> str:
    """Return a path as TOML writes it.

    Examples
    --------
    >>> dotted(("designs", "my walk", "p_jump"))
    'designs."my walk".p_jump'
    """
    return ".".join(part if re.fullmatch(r"[A-Za-z0-9_-]+", part) else json.dumps(part) for part in path)


def cell(value: Any) -> Any:
    """Return a value for one cell of a table: a table or list as JSON text."""
    return canonical(value) if isinstance(value, (dict, list)) else value


def shown(value: Any) -> str:
    """Return a value as people read it.

    Examples
    --------
    >>> shown(0.1), shown("ring"), shown({"family": "ring", "n": 5})
    ('0.1', 'ring', '{"family":"ring","n":5}')
    """
    return str(cell(value))


# --- the grid --------------------------------------------------------------------------------------------------------


def _points(axes: tuple[Axis, ...], content: dict[str, Any], source: _Source, folder: Path) -> tuple[Point, ...]:
    count = math.prod(len(axis.values) for axis in axes)
    if count > _MOST_POINTS:
        raise InvalidSpec(
            f"{source.name}: [sweep] makes {count:,} points, more than {_MOST_POINTS:,}; give fewer values"
        )
    first = [axis.values[0] for axis in axes]
    # Each value alone first, the others at their first: a mistake is named once, and by its key.
    _try(_experiment(axes, tuple(first), content, source.name), folder, source.name, whole=True)
    for i, axis in enumerate(axes):
        for value in axis.values[1:]:
            where = f"{source.at(axis.key)} = {shown(value)}"
            experiment = _experiment(axes, (*first[:i], value, *first[i + 1 :]), content, where)
            _try(experiment, folder, where, whole=axis.path[0] in ("network", "problem"))
    points = []
    for values in itertools.product(*(axis.values for axis in axes)):
        named = {axis.key: value for axis, value in zip(axes, values, strict=True)}
        where = ", ".join(f"{key} = {shown(value)}" for key, value in named.items())
        points.append(Point(named, _experiment(axes, values, content, f"{source.name} with {where}")))
    return tuple(points)


def _experiment(axes: tuple[Axis, ...], values: tuple[Any, ...], content: dict[str, Any], where: str) -> Experiment:
    changed = copy.deepcopy(content)
    for axis, value in zip(axes, values, strict=True):
        table = changed
        for part in axis.path[:-1]:
            table = table[part]
        table[axis.path[-1]] = copy.deepcopy(value)
    return check_experiment(changed, where)


def _try(experiment: Experiment, folder: Path, where: str, whole: bool) -> None:
    """Build the parts, so that an impossible value is met before anything runs; large ones where they can differ."""
    try:
        run = experiment.run
        check_sizes(run.steps, run.replicas, run.record_every)
        checks.seed(run.seed)
        checks.positive("accuracy", run.accuracy)
        if isinstance(run.step_size, dict):
            missing = [name for name in experiment.designs if name not in run.step_size]
            if missing:
                raise InvalidSpec(f"[run] step_size must give a number for each design, got none for {missing[0]!r}")
        (experiment if whole else experiment.model_copy(update=_stand_in())).build(folder)
    except LevywalkError as error:
        raise InvalidSpec(f"{where}: {error}") from None


def _stand_in() -> dict[str, Any]:
    """Return a network and a problem that cost nothing."""
    small = check_experiment(
        {
            "network": {"family": "ring", "n": 3},
            "problem": {"data": "homogeneous"},
            "run": {"steps": 1},
            "designs": {"any": {"kind": "unif_rw"}},
        }
    )
    return {"network": small.network, "problem": small.problem}


# --- what is run -----------------------------------------------------------------------------------------------------


def _runs(points: tuple[Point, ...], folder: Path) -> Iterator[Run]:
    digests: dict[Path, str] = {}
    for point in points:
        experiment = point.experiment
        whole = experiment.model_dump(exclude={"output": True, "run": {"threads"}})
        files = _files(experiment, folder, digests)
        for design, section in whole["designs"].items():
            run = whole["run"]
            if isinstance(run["step_size"], dict):
                run = run | {"step_size": {design: run["step_size"][design]}}
            alone = whole | {"designs": {design: section}, "run": run}
            yield Run(point, design, {"experiment": alone, "files": files, "layout": _LAYOUT})


def _files(experiment: Experiment, folder: Path, known: dict[Path, str]) -> dict[str, str]:
    """Return a digest of each file that the experiment reads: another content is another experiment."""
    named = {"network": getattr(experiment.network, "file", None), "problem": getattr(experiment.problem, "file", None)}
    found = {}
    for section, name in named.items():
        if name is not None:
            path = checks.existing_file(folder / name)
            if path not in known:
                known[path] = hashlib.sha256(path.read_bytes()).hexdigest()
            found[section] = known[path]
    return found


def compare_one(description: dict[str, Any], folder: str = ".") -> tuple[dict[str, Any], dict[str, Any]]:
    """Carry out one run of a sweep: one design at one point, on one thread."""
    content = description["experiment"]
    experiment = check_experiment(content | {"run": content["run"] | {"threads": 1}})
    if _files(experiment, Path(folder), {}) != description["files"]:
        raise InvalidData(
            f"a file in {folder!r} is not the one that the sweep was begun with; restore it, or begin again"
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DivergedWarning)  # the table counts them
        warnings.simplefilter("ignore", DataWarning)  # said when the file was checked
        result = execute(experiment, Path(folder), progress=False)
    (name,) = experiment.designs
    trace = result.traces[name]
    if trace.provenance["interrupted"]:
        raise KeyboardInterrupt
    arrays = {"step": trace.step, "error": trace.error, "excess_loss": trace.excess_loss, "transfers": trace.transfers}
    row = result.table().to_dict(orient="index")[name]
    numbers = {
        "columns": [str(column) for column in row],  # in their order, which JSON's sorted keys would lose
        "row": row,
        "trials": [asdict(trial) for trial in result.sweep[name]],
        "provenance": {key: value for key, value in trace.provenance.items() if key not in _PER_RUN},
    }
    return arrays, numbers


def run_sweep(
    sweep: Sweep,
    store: Store,
    *,
    workers: int | None = None,
    scheduler: str | None = None,
    progress: bool | None = None,
) -> Swept:
    """Run what the store lacks of a sweep, and return all of it; runs that fail are among the result.

    Parameters
    ----------
    workers, scheduler, progress
        As in `levywalk.sweeps.jobs.run_all`.
    """
    failures: tuple[Failure, ...] = ()
    try:
        run_all(
            [run.description for run in sweep.runs],
            _WORK,
            store,
            workers=workers,
            scheduler=scheduler,
            progress=progress,
            names=[run.name for run in sweep.runs],
            given={"folder": str(sweep.folder.resolve())},
        )
    except JobsFailed as error:
        failures = error.failures
    failed = {failure.key for failure in failures}
    rows = []
    for run, key in zip(sweep.runs, sweep.keys(), strict=True):
        if key not in failed:
            found = store.load(key)
            assert found is not None
            rows.append(_row(run, {name: found.numbers["row"][name] for name in found.numbers["columns"]}))
    return Swept(sweep, rows, failures)


def _row(run: Run, found: Mapping[str, Any]) -> dict[str, Any]:
    accuracy = run.point.experiment.run.accuracy
    steps = {f"steps_to{end}": found[f"steps_to_{accuracy:g}{end}"] for end in ("", "_low", "_high")}
    head = {"design": run.design, "steps": run.point.experiment.run.steps, "accuracy": accuracy}
    return run.point.values | head | steps | dict(found)


def write_sweep(swept: Swept, folder: Path) -> list[Path]:
    """Write table, figure and JSON; return the files."""
    output = swept.sweep.points[0].experiment.output
    written: list[Path] = []
    if output.table and swept.rows:
        swept.table().to_csv(folder / "table.csv", index=False)
        written.append(folder / "table.csv")
    if output.figure != "none" and swept.rows:
        from levywalk.report.figures.sweep import plot_sweep

        path = folder / f"figure.{output.figure}"
        plot_sweep(swept.rows, [axis.key for axis in swept.sweep.axes], path=path)
        written.append(path)
    (folder / "result.json").write_text(json.dumps(swept.document(), indent=2) + "\n", encoding="utf-8")
    return [*written, folder / "result.json"]
