"""The grid of a sweep: an experiment file with a table ``[sweep]`` of keys and lists of values."""

from __future__ import annotations

import copy
import itertools
import json
import math
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from levywalk import checks
from levywalk.engine import check_sizes
from levywalk.errors import InvalidSpec, LevywalkError
from levywalk.experiments.sources import with_options
from levywalk.experiments.spec import Experiment, check_experiment, read_toml
from levywalk.sweeps.store import canonical

_MOST_POINTS = 100_000
_CHANGES_NOTHING = ("output", "run.threads")


@dataclass(frozen=True)
class Axis:
    """One swept key, as a path into the file, and its values."""

    path: tuple[str, ...]
    values: tuple[Any, ...]

    @property
    def key(self) -> str:
        """The path as TOML writes it."""
        return dotted(self.path)


@dataclass(frozen=True)
class GridPoint:
    """One combination of values, by key, and the experiment with these values."""

    values: dict[str, Any]
    experiment: Experiment


def read_grid(
    path: Path, network: Mapping[str, Any] | None = None, data: Mapping[str, Any] | None = None
) -> tuple[tuple[Axis, ...], tuple[GridPoint, ...]]:
    """Read the axes and all points of an experiment file with a table ``[sweep]``; check every key
    and value.

    ``network`` and ``data`` are options that are laid over [network] and [problem].
    """
    content, text = read_toml(path)
    content = with_options(content, network or {}, data or {})
    table = content.pop("sweep", None)
    if not isinstance(table, dict) or not table:
        raise InvalidSpec(
            f"{path} has no table [sweep] of keys and lists of values, "
            'such as "network.n" = [100, 1000]; '
            "`levywalk sweep --example` prints a commented example"
        )
    source = _Source(str(path), text)
    axes = tuple(_axes(table, content, source))
    return axes, _points(axes, content, source, path.parent)


@dataclass(frozen=True)
class _Source:
    """An experiment file, to find the line of a key for error messages."""

    name: str
    text: str

    def at(self, axis: str) -> str:
        """Return the file, the line of a swept key if it can be found, and the key."""
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
            twice = next(
                value for value, text in zip(values, texts, strict=True) if texts.count(text) > 1
            )
            raise InvalidSpec(f"{where} has {twice!r} twice; give each value once")
        if dotted(path) in _CHANGES_NOTHING or path[0] in _CHANGES_NOTHING:
            raise InvalidSpec(
                f"{where} changes no result, so there is nothing to sweep; set it outside [sweep]"
            )
        for other in seen:
            if path[: len(other)] == other or other[: len(path)] == path:
                raise InvalidSpec(
                    f"{where} and {dotted(other)} set the same thing; keep one of them"
                )
        _check_place(path, content, where)
        seen.append(path)
        yield Axis(path, tuple(values))


def _flat(
    table: Mapping[str, Any], before: tuple[str, ...], source: _Source
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield paths and values; a key of [sweep] is a dotted path in quotes, or TOML's own dotted
    key.
    """
    for key, value in table.items():
        path = before + (_parsed(key, source) if not before else (key,))
        if isinstance(value, dict):
            yield from _flat(value, path, source)
        else:
            yield path, value


def _parsed(key: str, source: _Source) -> tuple[str, ...]:
    try:
        inner: Any = tomllib.loads(f"{key} = 0")
    except (ValueError, RecursionError):
        raise InvalidSpec(
            f"{source.at(key)} is not a dotted key, "
            'such as "network.n" or \'designs."my name".p_jump\''
        ) from None
    path: list[str] = []
    while isinstance(inner, dict):
        part, inner = next(iter(inner.items()))
        path.append(part)
    return tuple(path)


def _plain_toml(value: Any, where: str) -> Any:
    """Refuse dates and times, the only kind of TOML value that no key takes."""
    try:
        return json.loads(json.dumps(value))
    except TypeError:
        raise InvalidSpec(
            f"{where} must be numbers, texts, lists or tables, got {value!r}"
        ) from None


def _check_place(path: tuple[str, ...], content: Mapping[str, Any], where: str) -> None:
    """Check that every table of the path is in the file; the last key is checked with its
    values.
    """
    table: Mapping[str, Any] = content
    for i, part in enumerate(path[:-1]):
        inner = table.get(part)
        if not isinstance(inner, Mapping):
            what = "is not a table" if part in table else "does not exist"
            there = ", ".join(dotted((name,)) for name in table)
            raise InvalidSpec(
                f"{where}: {dotted(path[: i + 1])} {what}; {dotted(path[:i]) or 'the file'} has: "
                f"{there or 'nothing'}"
            )
        table = inner


def dotted(path: tuple[str, ...]) -> str:
    """Return a path as TOML writes it.

    Examples
    --------
    >>> dotted(("designs", "my walk", "p_jump"))
    'designs."my walk".p_jump'
    """
    return ".".join(
        part if re.fullmatch(r"[A-Za-z0-9_-]+", part) else json.dumps(part) for part in path
    )


def cell(value: Any) -> Any:
    """Return a value for one cell of a table: a table or list as JSON text."""
    return canonical(value) if isinstance(value, (dict, list)) else value


def shown(value: Any) -> str:
    """Return a value as text.

    Examples
    --------
    >>> shown(0.1), shown("ring"), shown({"family": "ring", "n": 5})
    ('0.1', 'ring', '{"family":"ring","n":5}')
    """
    return str(cell(value))


def _points(
    axes: tuple[Axis, ...], content: dict[str, Any], source: _Source, folder: Path
) -> tuple[GridPoint, ...]:
    count = math.prod(len(axis.values) for axis in axes)
    if count > _MOST_POINTS:
        raise InvalidSpec(
            f"{source.name}: [sweep] makes {count:,} points, more than {_MOST_POINTS:,}; give "
            f"fewer values"
        )
    first = [axis.values[0] for axis in axes]
    # First each value alone, with the first values of the other keys: a mistake is reported once,
    # with its key.
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
        points.append(
            GridPoint(named, _experiment(axes, values, content, f"{source.name} with {where}"))
        )
    return tuple(points)


def _experiment(
    axes: tuple[Axis, ...], values: tuple[Any, ...], content: dict[str, Any], where: str
) -> Experiment:
    changed = copy.deepcopy(content)
    for axis, value in zip(axes, values, strict=True):
        table = changed
        for part in axis.path[:-1]:
            table = table[part]
        table[axis.path[-1]] = copy.deepcopy(value)
    return check_experiment(changed, where)


def _try(experiment: Experiment, folder: Path, where: str, whole: bool) -> None:
    """Build the experiment, to find impossible values before anything runs.

    If ``whole`` is false, network and problem are the same as before, and small ones are built
    instead.
    """
    try:
        run = experiment.run
        check_sizes(run.steps, run.replicas, run.record_every)
        checks.seed(run.seed)
        if run.options()["accuracy"] is None:
            raise InvalidSpec(
                f"[run] rank_by = {run.rank_by!r} needs an accuracy in a sweep, whose table has "
                "the steps to it"
            )
        checks.positive("accuracy", run.accuracy)
        if isinstance(run.step_size, dict):
            missing = [name for name in experiment.designs if name not in run.step_size]
            if missing:
                raise InvalidSpec(
                    f"[run] step_size must give a number for each design, got none for "
                    f"{missing[0]!r}"
                )
        (experiment if whole else experiment.model_copy(update=_stand_in())).build(folder)
    except LevywalkError as error:
        raise InvalidSpec(f"{where}: {error}") from None


def _stand_in() -> dict[str, Any]:
    """Return a tiny network and a tiny problem."""
    small = check_experiment(
        {
            "network": {"family": "ring", "n": 3},
            "problem": {"data": "homogeneous"},
            "run": {"steps": 1},
            "designs": {"any": {"kind": "unif_rw"}},
        }
    )
    return {"network": small.network, "problem": small.problem}
