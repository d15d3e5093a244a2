"""The registry: names of designs, updates, losses, schedules, networks and data sources.

It is also the one place that converts such objects to plain data and back. Both are in one file,
because they use the same table of names.

A *recipe* is plain data: ``{"kind": "mhlj", "p_jump": 0.2}``. The same recipe is used in a TOML
file, in a trace's provenance and in a fleet's manifest, and ``mhlj:p_jump=0.2`` on the command line
is a short form of it. Each name belongs to a factory, which is a class or a function; the arguments
of the factory are the keys of the recipe.

Users add their own names with `register`, by an entry point of their package (group
``levywalk.design``, ``levywalk.update`` and so on), or with ``--load my_walk.py`` on the command
line. A file that is read, such as a TOML file or a manifest, can only use names that are
registered: reading a file never runs code.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import hashlib
import importlib
import importlib.util
import inspect
import os
import sys
import warnings
from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, TypeVar

from levywalk.errors import InvalidParameter, InvalidSpec, MissingFile, RegistryWarning
from levywalk.remedy import python_or_command

KINDS = ("design", "update", "loss", "schedule", "network", "data")
PARTS = ("target", "distance", "jump", "detector")  # parts of designs, which recipes contain
# the environment's list of files to load, so that worker processes know the same names
LOAD = "LEVYWALK_LOAD"
LOADED_MODULES = "levywalk_loaded_"  # the modules of such files begin with it

# The modules that register the names of the package. They are imported when a name of the kind is
# first needed.
_HOMES = {
    "design": "levywalk.walks",
    "update": "levywalk.updates",
    "loss": "levywalk.problem.losses",
    "schedule": "levywalk.schedule",
    "network": "levywalk.network",
    "data": "levywalk.problem",
    "target": "levywalk.walks",
    "distance": "levywalk.walks",
    "jump": "levywalk.walks",
    "detector": "levywalk.walks",
}
# The kind of a nested recipe, by the key under which it is written.
_NESTED = {
    "first": "design",
    "then": "design",
    "update": "update",
    "loss": "loss",
    "schedule": "schedule",
    "p_jump": "schedule",
    "step_size": "schedule",
    "target": "target",
    "distance": "distance",
    "jump": "jump",
    "detector": "detector",
}

# The kinds whose objects are made by functions, which keep the recipe with the object.
_MADE_BY_FUNCTIONS = ("network", "data")

_names: dict[str, dict[str, Callable[..., Any]]] = {kind: {} for kind in (*KINDS, *PARTS)}
_loaded: dict[str, str] = {}  # path of a loaded file to the hash of its content
# the entry points of a kind, and the kinds whose entry points were loaded, or are being loaded now
_entry_points: dict[str, tuple[EntryPoint, ...]] = {}
_entry_points_read: set[str] = set()
_entry_points_loading: set[str] = set()

Factory = TypeVar("Factory", bound=Callable[..., Any])


def register(kind: str, name: str, factory: Callable[..., Any]) -> None:
    """Register a factory under a name, so that files and the command line can refer to it.

    Parameters
    ----------
    kind
        "design", "update", "loss", "schedule", "network" or "data".
    name
        Letters, digits and underscores. A name that is already registered is refused, and so is
        one that an installed package offers by an entry point.
    factory
        A class or function. Its arguments become the keys of the recipe, and the object that it
        makes should keep each argument as an attribute of the same name, so that the recipe can be
        written from the object.

    Examples
    --------
    >>> import levywalk as lw
    >>> class Lazy(lw.Walk):
    ...     name = "lazy_example"
    ...     def __init__(self, stay=0.5):
    ...         self.stay = stay
    ...     def decide(self, view, memory, words):
    ...         to = view.neighbours[words.index(view.degree)]
    ...         return lw.Decision(view.node if words.uniform(lw.draws.OWN) < self.stay else to)
    >>> lw.register("design", "lazy_example", Lazy)
    >>> from levywalk.registry import from_dict, to_dict
    >>> to_dict("design", Lazy(stay=0.25))
    {'kind': 'lazy_example', 'stay': 0.25}
    >>> from_dict("design", {"kind": "lazy_example", "stay": 0.25}).stay
    0.25
    """
    table = _table(kind)
    if not isinstance(name, str) or not name.isidentifier():
        raise InvalidParameter(
            f"name must consist of letters, digits and underscores, got {name!r}"
        )
    if not callable(factory):
        raise InvalidParameter(
            f"factory of {name!r} must be a class or a function, got {factory!r}"
        )
    _fill(kind)
    if name in table and table[name] is not factory:
        raise InvalidParameter(
            f"the {kind} name {name!r} is taken by {_place(table[name])}; choose another name"
        )
    if name not in table and kind not in _entry_points_read:
        for entry in _offered(kind):
            if entry.name == name and not _same_package(entry, factory):
                raise InvalidParameter(
                    f"the {kind} name {name!r} is taken by {_shown(entry)}; choose another name"
                )
    table[name] = factory


def registered(kind: str, name: str | None = None) -> Callable[[Factory], Factory]:
    """Register a factory of the package; an object that a function makes stores its recipe."""

    def wrap(factory: Factory) -> Factory:
        found = name or factory.__name__
        if inspect.isclass(factory):
            _names[kind][found] = factory
            return factory
        signature = inspect.signature(factory)

        @functools.wraps(factory)
        def make(*args: Any, **kwargs: Any) -> Any:
            made = factory(*args, **kwargs)
            given = signature.bind(*args, **kwargs)
            given.apply_defaults()
            object.__setattr__(made, "recipe", (kind, found, dict(given.arguments)))
            return made

        _names[kind][found] = make
        return make  # type: ignore[return-value]

    return wrap


def names(kind: str) -> dict[str, Callable[..., Any]]:
    """Return all registered names of a kind and their factories, including those of users.

    Examples
    --------
    >>> "mhlj" in names("design"), "sgd" in names("update")
    (True, True)
    """
    table = _table(kind)
    _fill(kind)
    _read_entry_points(kind)
    return dict(table)


def find(kind: str, name: object) -> Callable[..., Any]:
    """Return the factory of a name; the error for an unknown name lists the known ones.

    Examples
    --------
    >>> find("design", "mhlk")
    Traceback (most recent call last):
    levywalk.errors.InvalidParameter: unknown design 'mhlk'; did you mean 'mhlj'? ...
    """
    table = _table(kind)
    _fill(kind)
    if isinstance(name, str) and name not in table:
        _read_entry_points(kind)
    if not isinstance(name, str) or name not in table:
        near = difflib.get_close_matches(str(name), table, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise InvalidParameter(
            f"unknown {kind} {name!r}; {hint}known: {', '.join(sorted(table))}; "
            f"add your own with {python_or_command('lw.register', '--load FILE')}"
        )
    return table[name]


def to_dict(kind: str, value: Any, *, strict: bool = True) -> Any:
    """Return the recipe of an object: plain data from which `from_dict` makes an equal object.

    With ``strict=False`` the result is None for an object whose class is not registered.

    Examples
    --------
    >>> import levywalk as lw
    >>> to_dict("design", lw.mhlj(0.2))
    {'kind': 'mhlj', 'p_jump': 0.2, 'p_distance': 0.5, 'max_hops': 3, 'schedule': None, ...}
    """
    _fill(kind)
    recipe = _recipe(kind, value)
    if recipe is None and any(_same_package(entry, type(value)) for entry in _offered(kind)):
        _read_entry_points(kind)
        recipe = _recipe(kind, value)
    if recipe is None:
        if not strict:
            return None
        raise InvalidParameter(_without_recipe(kind, value))
    name, arguments = recipe
    try:
        return {"kind": name} | {key: _plain(key, entry) for key, entry in arguments.items()}
    except InvalidParameter:
        if not strict:
            return None
        raise


def from_dict(kind: str, recipe: Any) -> Any:
    """Make the object that a recipe describes; unknown names and arguments are refused.

    Examples
    --------
    >>> from_dict("design", {"kind": "mhlj", "p_jump": 0.2}).jump.p_jump
    0.2
    """
    if not isinstance(recipe, Mapping) or "kind" not in recipe:
        raise InvalidSpec(f"a {kind} must be a table with a key 'kind', got {recipe!r}")
    factory = find(kind, recipe["kind"])
    given = {key: value for key, value in recipe.items() if key != "kind"}
    check_arguments(kind, recipe["kind"], factory, given)
    made = factory(**{key: _made(key, value) for key, value in given.items()})
    if kind in _MADE_BY_FUNCTIONS and getattr(made, "recipe", None) is None:
        with contextlib.suppress(AttributeError, TypeError):  # an object without room for it
            object.__setattr__(made, "recipe", (kind, recipe["kind"], given))
    return made


def check_arguments(
    kind: str, name: str, factory: Callable[..., Any], given: Mapping[str, Any]
) -> None:
    """Refuse arguments that a factory does not have, and recipes without a required argument."""
    parameters = arguments_of(factory)
    for key in given:
        if key not in parameters:
            near = difflib.get_close_matches(str(key), parameters, n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise InvalidSpec(
                f"{kind} {name!r} has no argument {key!r}; {hint}known: "
                f"{', '.join(parameters) or 'none'}"
            )
    missing = [
        key
        for key, entry in parameters.items()
        if entry.default is entry.empty and key not in given
    ]
    if missing:
        raise InvalidSpec(f"{kind} {name!r} needs {', '.join(missing)}")


def arguments_of(factory: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return the arguments that a recipe can give to a factory."""
    plain = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    try:
        signature = inspect.signature(factory)
    except (TypeError, ValueError):
        return {}
    return {key: entry for key, entry in signature.parameters.items() if entry.kind in plain}


def load_file(path: str | Path) -> None:
    """Run a Python file that registers names, as ``--load FILE`` does.

    Worker processes load the file too.
    """
    file = Path(path).resolve()
    if not file.is_file():
        raise MissingFile(f"--load must name a Python file, but {str(path)!r} does not exist")
    _run_file(file)
    listed = [entry for entry in os.environ.get(LOAD, "").split(os.pathsep) if entry]
    if str(file) not in listed:
        os.environ[LOAD] = os.pathsep.join([*listed, str(file)])


def loaded_files() -> dict[str, str]:
    """Return the files that were loaded, with the hash of their content."""
    _load_environment()
    return dict(_loaded)


def _run_file(file: Path) -> None:
    if str(file) in _loaded:
        return
    content = file.read_bytes()
    _loaded[str(file)] = hashlib.sha256(content).hexdigest()
    name = f"{LOADED_MODULES}{hashlib.sha256(str(file).encode()).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        del _loaded[str(file)]
        raise InvalidParameter(f"--load must name a Python file (.py), got {str(file)!r}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del _loaded[str(file)], sys.modules[name]
        raise


def _load_environment() -> None:
    for entry in os.environ.get(LOAD, "").split(os.pathsep):
        if entry and entry not in _loaded and Path(entry).is_file():
            _run_file(Path(entry))


def _table(kind: str) -> dict[str, Callable[..., Any]]:
    if kind not in _names:
        raise InvalidParameter(f"kind must be one of {', '.join(KINDS)}, got {kind!r}")
    return _names[kind]


def _fill(kind: str) -> None:
    """Import the modules that register the package's names, and the files given by --load."""
    importlib.import_module(_HOMES[kind])
    _load_environment()


def _offered(kind: str) -> tuple[EntryPoint, ...]:
    """Return the entry points of a kind without importing what they name."""
    if kind not in _entry_points:
        _entry_points[kind] = tuple(entry_points(group=f"levywalk.{kind}"))
    return _entry_points[kind]


def _read_entry_points(kind: str) -> None:
    """Load the entry points of a kind.

    One that cannot be used is left out with a warning, so that the others can be used. A module
    that is loaded here may itself ask for names, which then finds those that are known so far.
    """
    if kind in _entry_points_read or kind in _entry_points_loading:
        return
    problems: list[str] = []
    _entry_points_loading.add(kind)
    try:
        for entry in _offered(kind):
            try:
                factory = entry.load()
            except Exception as error:  # a package of somebody else may raise anything
                problems.append(
                    f"{_shown(entry)} cannot be loaded and is left out: "
                    f"{type(error).__name__}: {error}"
                )
                continue
            taken = _names[kind].get(entry.name)
            if not entry.name.isidentifier() or not callable(factory):
                problems.append(
                    f"{_shown(entry)} is left out: its name must consist of letters, digits and "
                    "underscores, and it must be a class or a function"
                )
            elif taken is not None and taken is not factory:
                problems.append(
                    f"{_shown(entry)} is left out: the {kind} name {entry.name!r} is taken by "
                    f"{_place(taken)}; ask its authors for another name, or register it yourself "
                    f"with lw.register({kind!r}, another name, factory)"
                )
            else:
                _names[kind][entry.name] = factory
    finally:
        _entry_points_loading.discard(kind)
    _entry_points_read.add(kind)
    for text in problems:  # after the mark: as errors, they must not keep the names from being read
        warnings.warn(text, RegistryWarning, stacklevel=3)


def _shown(entry: EntryPoint) -> str:
    """Return how messages call an entry point: its name, its place and its package."""
    package = f" of the package {entry.dist.name}" if entry.dist is not None else ""
    return f"the entry point {entry.name} = {entry.value}{package}"


def _place(factory: Callable[..., Any]) -> str:
    """Return where a factory is defined."""
    name = getattr(factory, "__qualname__", type(factory).__qualname__)
    module = getattr(factory, "__module__", None) or "?"
    loaded = getattr(sys.modules.get(module), "__file__", None)
    if module.startswith(LOADED_MODULES) and loaded is not None:  # a name that nobody has typed
        return f"{name} of {loaded}"
    return f"{module}.{name}"


def _same_package(entry: EntryPoint, factory: Callable[..., Any]) -> bool:
    """Return whether an entry point is of the package that has the factory.

    Such a package registers a name of its own, and may be in the middle of its import.
    """
    top = (getattr(factory, "__module__", None) or "").partition(".")[0]
    return entry.module.partition(".")[0] == top


def _recipe(kind: str, value: Any) -> tuple[str, dict[str, Any]] | None:
    made = getattr(value, "recipe", None)
    if made is not None and made[0] == kind:
        return made[1], made[2]
    for name, factory in _names[kind].items():
        if inspect.isclass(factory) and type(value) is factory:
            keys = arguments_of(factory)
            if all(hasattr(value, key) for key in keys):
                return name, {key: getattr(value, key) for key in keys}
    return None


def _without_recipe(kind: str, value: Any) -> str:
    """Return why an object has no recipe, and what to do."""
    owner = type(value).__name__
    if kind not in _MADE_BY_FUNCTIONS:
        return (
            f"{owner} has no recipe: give its class a name with "
            f"lw.register({kind!r}, name, factory)"
        )
    known = ", ".join(sorted(_names[kind]))
    return (
        f"{kind} has no recipe: this {owner} was not made by a registered factory ({known}) but "
        f"from a file, from arrays or by a change of another one; save it as a file, and give the "
        f"file's name in an experiment"
    )


def _plain(key: str, value: Any) -> Any:
    """Return an argument as plain data."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return value.item()
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(key, entry) for entry in value]
    kind = _NESTED.get(key)
    if kind is not None:
        return to_dict(kind, value)
    raise InvalidParameter(f"{key} = {value!r} cannot be written as plain data")


def _made(key: str, value: Any) -> Any:
    """Return an argument as the object that its recipe describes."""
    if isinstance(value, Mapping) and key in _NESTED:
        return from_dict(_NESTED[key], value)
    return value
