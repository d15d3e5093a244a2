"""The public names: complete, sorted, lazily loaded, and documented by examples."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from collections import Counter
from importlib import import_module
from pathlib import Path

import pytest

import levywalk as lw
from tests.unit import public_api

SOURCE = ast.parse(Path(lw.__file__).read_text(encoding="utf-8"))


def typed_imports():
    """The names imported for type checkers, with their modules."""
    block = next(
        node
        for node in SOURCE.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    return {alias.asname or alias.name: node.module for node in block.body for alias in node.names}


def test_all_is_sorted_unique_and_explicit():
    assert lw.__all__ == sorted(set(lw.__all__))


def test_all_names_the_lazy_map_and_the_imports_for_type_checkers_exactly():
    lazy = dict(lw._MODULE)
    assert set(lw.__all__) - {"__version__"} == set(lazy)
    assert set(typed_imports()) == set(lazy)
    for name, module in typed_imports().items():
        assert getattr(import_module(module), name) is getattr(import_module(lazy[name]), name), (
            name
        )
    assert sum(len(names) for names in lw._HOME.values()) == len(lazy)  # no name has two homes


@pytest.mark.parametrize("name", lw.__all__)
def test_every_public_name_can_be_loaded(name):
    assert getattr(lw, name) is not None
    assert name in dir(lw)


@pytest.mark.parametrize("name", [name for name in lw.__all__ if name != "__version__"])
def test_a_public_name_is_the_one_of_its_home(name):
    assert getattr(lw, name) is getattr(import_module(lw._MODULE[name]), name)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'levy'"):
        _ = lw.levy


def public_callables():
    for name in lw.__all__:
        value = getattr(lw, name)
        is_error = isinstance(value, type) and issubclass(value, (Exception, Warning))
        if callable(value) and not is_error:
            yield name


@pytest.mark.parametrize("name", list(public_callables()))
def test_every_public_callable_has_a_docstring_with_an_example(name):
    text = inspect.getdoc(getattr(lw, name)) or ""
    assert ">>>" in text, f"{name} has no example"


@pytest.mark.parametrize(
    "name", [n for n in lw.__all__ if n.startswith(("Invalid", "Not", "No", "Too", "Missing"))]
)
def test_every_error_is_a_levywalk_error_that_plain_python_catches_too(name):
    error = getattr(lw, name)
    assert issubclass(error, lw.LevywalkError)
    plain = {"MissingFile": FileNotFoundError, "MissingExtra": ImportError}
    assert issubclass(error, plain.get(name, ValueError))
    assert error.__doc__


@pytest.mark.parametrize(
    "statement",
    [
        "import levywalk",
        "import levywalk; levywalk.mhlj()",
        "import levywalk; levywalk.LevywalkError",
        "import levywalk; levywalk.torch_problem; levywalk.jax_problem",
    ],
)
def test_importing_levywalk_loads_neither_numba_nor_matplotlib(statement):
    large = {"numba", "matplotlib", "pandas", "xarray", "torch", "jax"}
    probe = f"import sys; {statement}; print(sorted({large!r} & set(sys.modules)))"
    found = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "[]"


def test_the_contract_of_run_is_kept():
    parameters = inspect.signature(lw.run).parameters
    assert list(parameters)[:3] == ["network", "problem", "design"]
    keyword = {name: p.default for name, p in parameters.items() if p.kind is p.KEYWORD_ONLY}
    expected = {
        "replicas": 1,
        "seed": 0,
        "record_every": None,
        "record_walk": False,
        "record_visits": True,
        "start": "uniform",
        "x0": None,
        "threads": None,
        "backend": "auto",
    }
    assert {name: keyword[name] for name in expected} == expected
    assert keyword["steps"] is keyword["step_size"] is inspect.Parameter.empty


def test_the_contracts_of_designs_and_compare_are_kept():
    mhlj = {name: p.default for name, p in inspect.signature(lw.mhlj).parameters.items()}
    assert mhlj == {
        "p_jump": 0.1,
        "p_distance": 0.5,
        "max_hops": 3,
        "schedule": None,
        "levy": "algorithm",
    }
    assert inspect.signature(lw.simple_rw).parameters["reweight"].default is False
    compare = inspect.signature(lw.compare).parameters
    assert (compare["accuracy"].default, compare["step_size"].default, compare["seed"].default) == (
        0.01,
        "tuned",
        0,
    )


def test_the_public_names_and_signatures_are_those_of_the_record():
    assert public_api.RECORD.read_text(encoding="utf-8").splitlines() == list(public_api.lines()), (
        f"the API has changed; if that is meant, type: {public_api.COMMAND}"
    )


def test_the_record_sees_a_new_argument_and_a_changed_default(monkeypatch):
    before = list(public_api.lines())
    monkeypatch.setattr(lw, "ring", lambda n, *, self_loops="counted": None)
    changed = set(public_api.lines()) - set(before)
    assert changed == {"ring(n, *, self_loops='counted')"}


def test_every_class_has_a_name_of_its_own() -> None:
    source = Path(lw.__file__).parent
    found = Counter(
        name
        for path in source.rglob("*.py")
        for name in re.findall(r"^class (\w+)", path.read_text(), re.MULTILINE)
    )
    assert len(found) > 300
    assert [name for name, count in found.items() if count > 1] == []
