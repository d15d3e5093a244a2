"""Networks, problems and designs in a word, as typed on a command line: ``ring:1000``,
``mhlj:p_jump=0.2``.
"""

from __future__ import annotations

import difflib
import inspect
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from levywalk import checks
from levywalk.errors import InvalidParameter
from levywalk.experiments.recipe_sections import hints_of
from levywalk.experiments.sources import (
    build_network,
    build_problem,
    with_data_options,
    with_network_options,
)
from levywalk.network import FAMILIES, Network
from levywalk.problem import LeastSquares, Problem
from levywalk.problem.partition import split_partition
from levywalk.problem.problem import IDLE
from levywalk.registry import arguments_of, check_arguments, find, from_dict, names
from levywalk.remedy import python_or_command
from levywalk.updates import Update
from levywalk.walks import Walk

_SHORT = {
    "er": "erdos_renyi",
    "ws": "watts_strogatz",
    "regular": "random_regular",
    "ba": "barabasi_albert",
}
_FAMILIES = {name: name for name in FAMILIES} | _SHORT


def network_settings(
    text: str, *, seed: int = 0, options: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the section [network] of an experiment file: a family with its numbers, or a path.

    Examples
    --------
    >>> network_settings("ws:100,4,0.1", seed=3, options={"self_loops": "none"})
    {'family': 'watts_strogatz', 'n': 100, 'k': 4, 'p': 0.1, 'seed': 3, 'self_loops': 'none'}
    """
    return with_network_options(_network_section(text, seed), options or {})


def _network_section(text: str, seed: int) -> dict[str, Any]:
    name, colon, numbers = text.partition(":")
    if colon and name in _FAMILIES:
        family = _FAMILIES[name]
        random = {"seed": seed} if "seed" in inspect.signature(FAMILIES[family]).parameters else {}
        return {"family": family, **_numbers(name, numbers), **random}
    if not checks.exists(text) and "/" not in text and "." not in text:
        hint = _did_you_mean(
            name, _FAMILIES, lambda family: f"{family}:{','.join(_wanted(family))}"
        )
        raise InvalidParameter(
            f"network must be a file or one of {', '.join(f'{key}:…' for key in _FAMILIES)}, got "
            f"{text!r}{hint}"
        )
    return {"family": "file", "file": str(checks.existing_file(text))}


def read_network_text(
    text: str, *, seed: int = 0, options: Mapping[str, Any] | None = None
) -> Network:
    """Read a network: a family with its numbers, or a path; options as in [network].

    Examples
    --------
    >>> read_network_text("grid:3,4").n
    12
    """
    return build_network(network_settings(text, seed=seed, options=options))


def _numbers(name: str, text: str) -> dict[str, Any]:
    """Return a family's numbers by name, each of the type that the family takes."""
    wanted = _wanted(name)
    try:
        return {key: wanted[key](part) for key, part in zip(wanted, text.split(","), strict=True)}
    except ValueError:
        count = f"{len(wanted)} number{'s' if len(wanted) > 1 else ''}"
        whole = ", ".join(key for key, kind in wanted.items() if kind is int)
        raise InvalidParameter(
            f"network {name!r} takes {count}, {name}:{','.join(wanted)} ({whole} whole), got "
            f"{f'{name}:{text}'!r}"
        ) from None


def _wanted(name: str) -> dict[str, Any]:
    """Return the names and types of a family's numbers."""
    make = FAMILIES[_FAMILIES[name]]
    hints = get_type_hints(make)
    parameters = inspect.signature(make).parameters.values()
    return {
        p.name: hints[p.name]
        for p in parameters
        if p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    }


def problem_settings(
    text: str,
    *,
    important: int | None = None,
    seed: int = 0,
    options: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the section [problem] of an experiment file: ``heterogeneous``, ``homogeneous``, or a
    path to a data set; options as in [problem].

    Examples
    --------
    >>> problem_settings("heterogeneous", important=2)
    {'data': 'heterogeneous', 'important': 2, 'seed': 0}
    """
    given = dict(options or {})
    if "loss" in given:
        loss_recipe(given["loss"])
    if "partition" in given:
        split_partition(given["partition"])
    if "idle" in given:
        checks.choice("idle", given["idle"], IDLE)
    if important is not None and text != "heterogeneous":
        raise InvalidParameter(
            f"important = {important} belongs to data 'heterogeneous', got {text!r}; leave it out"
        )
    return with_data_options(_data_section(text, important, seed), given)


def _data_section(text: str, important: int | None, seed: int) -> dict[str, Any]:
    if text in ("heterogeneous", "homogeneous"):
        count = {} if important is None else {"important": important}
        return {"data": text, **count, "seed": seed}
    if not checks.exists(text) and "." not in text and "/" not in text:
        hint = _did_you_mean(text, ("heterogeneous", "homogeneous"))
        raise InvalidParameter(
            f"data must be 'heterogeneous', 'homogeneous' or a file, got {text!r}{hint}"
        )
    return {"data": "file", "file": str(checks.existing_file(text)), "seed": seed}


def read_problem_text(text: str, network: Network, **options: Any) -> Problem:
    """Read a problem for a network: ``heterogeneous``, ``homogeneous``, or a path to a data set;
    options as above.

    Examples
    --------
    >>> import levywalk as lw
    >>> read_problem_text("heterogeneous", lw.ring(50), important=1).n
    50
    """
    return build_problem(problem_settings(text, **options), network)


def design_settings(text: str) -> dict[str, dict[str, Any]]:
    """Return the sections [designs.NAME] of an experiment file, from designs with commas between
    them.

    A pair of a design and an update has a plus between the two.

    Examples
    --------
    >>> design_settings("unif_rw,mhlj:p_jump=0.2,max_hops=5")
    {'UnifRW': {'kind': 'unif_rw'},
     'MHLJ(p_jump=0.2, max_hops=5)': {'kind': 'mhlj', 'p_jump': 0.2, 'max_hops': 5}}
    >>> list(design_settings("mhda:target=importance,mixed_rw:mix=0.3"))
    ['MHDA(target=importance)', 'MixedRW(0.3)']
    >>> design_settings("unif_rw+sgd:minibatch=8")
    {'UnifRW + sgd(minibatch=8)': {'kind': 'unif_rw', 'update': {'kind': 'sgd', 'minibatch': 8}}}
    """
    sections: dict[str, dict[str, Any]] = {}
    for piece in _split_designs(text):
        design, *updates = _PLUS.split(piece)
        if len(updates) > 1:
            raise InvalidParameter(
                f"a design takes one update after a plus, such as mhlj+sgd, got {piece!r}"
            )
        name, section = _recipe("design", design)
        if updates:
            update_name, update = _recipe("update", updates[0])
            name, section = f"{name} + {update_name}", section | {"update": update}
        if name in sections:
            raise InvalidParameter(f"designs must differ, got {name!r} twice in {text!r}")
        sections[name] = section
    return sections


def read_design_text(text: str) -> Walk:
    """Read one design: its name and its parameters.

    Examples
    --------
    >>> read_design_text("mhlj:p_jump=0.2").jump
    JumpLaw(p_jump=0.2, distance=TruncatedGeometric(p_distance=0.5, max_hops=3))
    """
    sections = list(design_settings(text).values())
    if len(sections) != 1 or "update" in sections[0]:
        raise InvalidParameter(f"design must be one, such as mhlj:p_jump=0.2, got {text!r}")
    made: Walk = from_dict("design", sections[0])
    return made


def read_update_text(text: str) -> Update:
    """Read one update: its name and its parameters.

    Examples
    --------
    >>> read_update_text("sgd:minibatch=8")
    Sgd(minibatch=8)
    """
    made: Update = from_dict("update", _recipe("update", text)[1])
    return made


def metric_names(text: str | None) -> list[str] | None:
    """Return the names of metrics that have commas between them.

    Examples
    --------
    >>> metric_names("accuracy, log_loss")
    ['accuracy', 'log_loss']
    """
    return None if text is None else [name.strip() for name in text.split(",")]


def loss_recipe(text: str) -> dict[str, Any]:
    """Return the recipe of a loss: its name, and its parameters after a colon.

    Examples
    --------
    >>> loss_recipe("quantile:level=0.9,width=0.05")
    {'kind': 'quantile', 'level': 0.9, 'width': 0.05}
    """
    find("loss", text.partition(":")[0].strip())
    return _recipe("loss", text)[1]


_PLUS = re.compile(r"\+(?=[A-Za-z_])")  # not the plus of a number such as 1e+5
_GIVEN = re.compile(r"\s*[A-Za-z_]\w*\s*=")


def _split_designs(text: str) -> list[str]:
    """Return each design's text; after a comma, a ``key=value`` belongs to the design before."""
    found: list[str] = []
    for piece in text.split(","):
        if found and _GIVEN.match(piece):
            found[-1] += f",{piece}"
        else:
            found.append(piece.strip())
    return found


def _recipe(kind: str, text: str) -> tuple[str, dict[str, Any]]:
    """Return what to call a design or an update, and its recipe,
    from ``name:key=value,key=value``.
    """
    name, colon, values = text.strip().partition(":")
    known = names(kind)
    if name not in known:
        can = [one for one, make in sorted(known.items()) if not _untold(make)]
        near = _did_you_mean(name, can) or ";"
        raise InvalidParameter(
            f"unknown {kind} {name!r}{near} known: {', '.join(can)}; add your own with "
            f"{python_or_command('lw.register', '--load FILE')}"
        )
    make = known[name]
    takes = _plain_arguments(make)
    given = dict(_given_value(kind, name, takes, one) for one in values.split(",")) if colon else {}
    if kind == "design" and name == "mixed_rw" and not given:
        raise InvalidParameter(
            "design 'mixed_rw' needs the uniform law's share, such as mixed_rw:mix=0.3"
        )
    if untold := _untold(make):
        raise InvalidParameter(
            f"{kind} {name!r} needs {', '.join(untold)}, which an experiment file can say; see "
            "`levywalk run --example`"
        )
    check_arguments(kind, name, make, given)
    called = str(getattr(make(**given), "name", name))
    if given and not _tells(called, make, given):
        called = f"{called}({', '.join(f'{key}={value}' for key, value in given.items())})"
    return called, {"kind": name, **given}


def _untold(make: Callable[..., Any]) -> list[str]:
    """Return the required arguments that cannot be typed on a command line."""
    takes = _plain_arguments(make)
    return [
        key
        for key, entry in arguments_of(make).items()
        if entry.default is entry.empty and key not in takes
    ]


def _tells(called: str, make: Callable[..., Any], given: dict[str, Any]) -> bool:
    """Return whether the name of an object says what it was made with."""
    if any(entry.default is entry.empty for entry in arguments_of(make).values()):
        return any(str(value) in called for value in given.values())
    return called != str(getattr(make(), "name", called))


def _plain_arguments(make: Callable[..., Any]) -> dict[str, Any]:
    """Return the arguments that can be typed, with their types: numbers, switches and words."""
    hints = hints_of(make)
    found: dict[str, Any] = {}
    for key, parameter in arguments_of(make).items():
        hint = hints.get(
            key, type(parameter.default) if parameter.default is not parameter.empty else str
        )
        parts = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
        kinds = [one for one in parts if one in (bool, int, float, str)]
        if kinds and key != "name":
            found[key] = next(one for one in (bool, int, float, str) if one in kinds)
    return found


def _given_value(kind: str, name: str, known: dict[str, Any], text: str) -> tuple[str, Any]:
    key, equals, value = (part.strip() for part in text.partition("="))
    if not equals and key in known:
        raise InvalidParameter(f"{key} of {kind} {name!r} needs a value: {key}=…, got {text!r}")
    if not equals or key not in known:
        takes = ", ".join(f"{one}=…" for one in known) or "no parameters"
        raise InvalidParameter(
            f"{kind} {name!r} takes {takes}, got {text!r}{_did_you_mean(key, known)}"
        )
    try:
        return key, {"true": True, "false": False}[value] if known[key] is bool else known[key](
            value
        )
    except (KeyError, ValueError):
        what = {bool: "true or false", int: "a whole number", float: "a number"}[known[key]]
        raise InvalidParameter(f"{key} of {kind} {name!r} must be {what}, got {value!r}") from None


def _did_you_mean(text: str, known: Iterable[str], shown: Callable[[str], str] = str) -> str:
    """Return a hint where a known word is spelt much like this one, whatever its capitals and
    dashes.
    """
    plain = {"".join(filter(str.isalnum, word)).lower(): word for word in known}
    near = difflib.get_close_matches("".join(filter(str.isalnum, text)).lower(), plain, n=1)
    return f"; did you mean {shown(plain[near[0]])!r}?" if near else ""


def step_size_setting(text: str, words: tuple[str, ...] = ("tuned", "theory")) -> str | float:
    """Return one of the words, or a number.

    Examples
    --------
    >>> step_size_setting("theory"), step_size_setting("1e-3")
    ('theory', 0.001)
    """
    if text in words:
        return text
    try:
        return checks.positive("step_size", float(text))
    except ValueError:
        raise InvalidParameter(
            f"--step-size must be {', '.join(words)} or a number above 0, got {text!r}"
        ) from None


def files_seen_from(folder: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the section with its file, named from here, as named from the folder; one named from
    the root stays.
    """
    if "file" not in settings or Path(settings["file"]).is_absolute():
        return settings
    return settings | {
        "file": Path(os.path.relpath(Path(settings["file"]).resolve(), folder.resolve())).as_posix()
    }


def problem_from_smoothness(path: str, n: int) -> Problem:
    """Read one L per node from a file and return the quadratics ½L_v x² that have them: enough to
    judge a walk.
    """
    source = Path(path)
    if not checks.exists(source):
        raise InvalidParameter(
            f"smoothness must name a file with one number per line, got {path!r}"
        )
    try:
        values = np.loadtxt(source, dtype=np.float64, ndmin=1)
    except ValueError as error:
        raise InvalidParameter(f"{path} must hold one number per line: {error}") from None
    if values.shape != (n,) or not np.isfinite(values).all() or (values <= 0).any():
        raise InvalidParameter(
            f"{path} must hold {n} positive numbers, one per node, got {values.shape[0]} "
            f"with least {values.min() if values.size else 'none'}"
        )
    return LeastSquares(np.sqrt(values / 2.0)[:, None], np.zeros(n))
