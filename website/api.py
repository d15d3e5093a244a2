"""One page for each public name, made from ``levywalk.__all__``: a new name appears by itself."""

from __future__ import annotations

import importlib
import inspect
import re
from functools import cache
from types import ModuleType
from typing import Any

import levywalk as lw
from website.docstrings import escape_bars
from website.gallery import is_there

PARTS = {  # heading: what it is about, and the modules whose names stand there
    "Networks": (
        "Which nodes are neighbours.",
        ("levywalk.network",),
    ),
    "Problems": (
        "What the nodes' data are, and what better means.",
        ("levywalk.problem",),
    ),
    "Walks": (
        "How the model moves. A walk is called a *design* where it is an argument.",
        ("levywalk.walks",),
    ),
    "Updates": (
        "What a visited node does with the model.",
        ("levywalk.updates",),
    ),
    "Runs": (
        "Walk and learn, compare, and ask which pair of a walk and an update to take.",
        ("levywalk.engine", "levywalk.experiments", "levywalk.league", "levywalk.schedule"),
    ),
    "Results": (
        "What a run has recorded, what it cost, and pictures of it.",
        ("levywalk.trace", "levywalk.report", "levywalk.experiments.folder_report"),
    ),
    "Theory": (
        "Judge a walk before it runs.",
        ("levywalk.theory",),
    ),
    "Methods of your own": (
        "What a walk, an update or a loss of your own is made of.",
        ("levywalk.memory", "levywalk.draws", "levywalk.registry", "levywalk.problem.losses"),
    ),
    "Errors and warnings": (
        "Every message names the argument, the value and the remedy.",
        ("levywalk.errors",),
    ),
}
REST = "More"
SUBMODULES = ("losses", "metrics", "sklearn", "compiled")  # those that exist; by their __all__
IN_MOST_EXAMPLES = {"ring", "homogeneous", "heterogeneous", "run", "mhlj", "unif_rw", "weight_rw"}
SEE_ALSO = {
    "mhlj": ("weight_rw", "unif_rw", "entrapment", "error_floor", "tune", "mhda"),
    "weight_rw": ("mhlj", "unif_rw", "mixed_rw", "iid_weighted", "entrapment"),
    "unif_rw": ("weight_rw", "mhlj", "simple_rw", "mhda", "iid_uniform"),
    "run": ("compare", "walk", "Trace", "recommended", "gossip"),
    "compare": ("Comparison", "run", "recommended", "plot", "write_report"),
    "walk": ("WalkRecord", "run", "entrapment"),
    "Trace": ("run", "load_trace", "plot", "Comparison"),
    "Comparison": ("compare", "write_report", "plot", "Trace"),
    "plot": ("compare", "run", "write_report"),
    "Network": ("read_network", "as_network", "ring", "watts_strogatz"),
    "read_network": ("Network", "as_network", "read_data"),
    "read_data": ("Dataset", "partition", "read_network", "LeastSquares", "Logistic"),
    "LeastSquares": ("Logistic", "GeneralizedLinear", "heterogeneous", "read_data", "partition"),
    "Logistic": ("Softmax", "LeastSquares", "GeneralizedLinear", "SquaredHinge"),
    "heterogeneous": ("homogeneous", "LeastSquares"),
    "homogeneous": ("heterogeneous", "LeastSquares"),
    "entrapment": ("EntrapmentReport", "weight_rw", "mhlj", "spectral_gap"),
    "Walk": ("LocalView", "Decision", "Memory", "Words", "register"),
    "Update": ("LocalData", "Memory", "sgd", "register"),
    "Loss": ("GeneralizedLinear", "register"),
    "sgd": ("saga", "point_saga", "heavy_ball", "adam"),
    "recommended": ("Recommendation", "compare", "predict", "tune"),
    "gossip": ("run", "Costs"),
}


def part_of(name: str) -> str:
    """Return the heading under which a public name stands: that of its closest home.

    Examples
    --------
    >>> part_of("mhlj"), part_of("Loss"), part_of("write_report")
    ('Walks', 'Methods of your own', 'Results')
    """
    home = lw._MODULE.get(name, "")
    fitting = {
        module: part
        for part, (_, modules) in PARTS.items()
        for module in modules
        if home == module or home.startswith(module + ".")
    }
    return fitting[max(fitting, key=len)] if fitting else REST


def public_names() -> dict[str, list[str]]:
    """Return the public names of levywalk under their headings, in their order."""
    parts: dict[str, list[str]] = {part: [] for part in [*PARTS, REST]}
    for name in lw.__all__:
        if not isinstance(getattr(lw, name), (str, ModuleType)):
            parts[part_of(name)].append(name)
    return {part: names for part, names in parts.items() if names}


def submodules() -> dict[str, ModuleType]:
    """Return the public modules inside levywalk that exist, by the names that users type."""
    found = {}
    for name in SUBMODULES:
        if name in lw.__all__:
            found[name] = getattr(lw, name)
        elif is_there(f"levywalk.{name}"):
            try:
                found[name] = importlib.import_module(f"levywalk.{name}")
            except ImportError:  # its extra is not installed
                continue
    return {name: module for name, module in found.items() if hasattr(module, "__all__")}


@cache
def _documentation(name: str) -> str:
    return inspect.getdoc(getattr(lw, name)) or ""


@cache
def _mentions(name: str) -> frozenset[str]:
    """Return the other public names that a name's documentation or signature mentions."""
    value = getattr(lw, name)
    text = _documentation(name)
    words = set(re.findall(r"lw\.(\w+)|``?(\w+)(?:\(\))?`", text))
    said = {word for pair in words for word in pair if word}
    if inspect.isfunction(value):
        said |= set(re.findall(r"\w+", str(inspect.signature(value).return_annotation)))
    return frozenset((said & set(lw.__all__)) - {name, "__version__"})


def related(name: str, at_most: int = 7) -> list[str]:
    """Return the names to see also: those chosen by hand, then those of the same part that it
    mentions or that mention it, then its neighbours there.

    Examples
    --------
    >>> related("mhlj")[:3]
    ['weight_rw', 'unif_rw', 'entrapment']
    """
    part = public_names()[part_of(name)]
    chosen = [other for other in SEE_ALSO.get(name, ()) if other in lw.__all__]
    near = [other for other in part if other in _mentions(name) or name in _mentions(other)]
    said = sorted(_mentions(name) - set(part) - IN_MOST_EXAMPLES)
    position = part.index(name)
    neighbours = [*part[max(0, position - 2) : position], *part[position + 1 : position + 3]]
    ranked = dict.fromkeys([*chosen, *near, *said, *neighbours])
    return [other for other in ranked if other not in (name, "losses")][:at_most]


def _first_sentence(value: Any) -> str:
    text = (inspect.getdoc(value) or "").split("\n\n")[0].replace("\n", " ")
    sentence = re.split(r"(?<!Eq\.)(?<=[.:;])\s", text)[0].strip().rstrip(":;")
    return escape_bars([re.sub(r"(?<!`)`([^`]+)`(?!`)", r"``\1``", sentence)])[0]


def _directive(value: Any, name: str) -> list[str]:
    if isinstance(value, type) and issubclass(value, (Exception, Warning, KeyboardInterrupt)):
        return [f".. autoexception:: {name}", "   :show-inheritance:"]
    if isinstance(value, type):
        lines = [
            f".. autoclass:: {name}",
            "   :members:",
            "   :inherited-members: object, Exception",
        ]
        others = _of_scikit_learn(value)
        return [*lines, f"   :exclude-members: {', '.join(others)}"] if others else lines
    if callable(value):
        return [f".. autofunction:: {name}"]
    return [f".. autodata:: {name}"]


def _of_scikit_learn(value: type) -> list[str]:
    """Return the methods that scikit-learn gives every estimator; its own pages describe them."""
    return [
        name
        for name, member in inspect.getmembers(value, callable)
        if not name.startswith("_")
        and (getattr(member, "__module__", None) or "").startswith("sklearn.")
    ]


def _heading(text: str, line: str = "=") -> list[str]:
    return [text, line * len(text), ""]


def page_of(name: str) -> str:
    """Return the page of a public name of levywalk, in reStructuredText."""
    lines = [*_heading(name), ".. currentmodule:: levywalk", ""]
    lines += [*_directive(getattr(lw, name), name), ""]
    lines += [".. rubric:: See also", ""]
    for other in related(name):
        lines.append(f":doc:`{other} <{page_name(other)}>`")
        lines.append(f"   {_first_sentence(getattr(lw, other))}")
    lines += ["", f".. minigallery:: levywalk.{name}", "   :add-heading: In the gallery", ""]
    return "\n".join(lines)


def page_name(name: str) -> str:
    """Return the file name of a page, without its suffix; capitals are told apart everywhere.

    Examples
    --------
    >>> page_name("Mixed"), page_name("mixed_rw")  # some file systems ignore the case of letters
    ('class-Mixed', 'mixed_rw')
    """
    return f"class-{name}" if name[0].isupper() else name


def submodule_page(name: str, module: ModuleType) -> str:
    """Return the page of a public submodule: all its names, one after the other."""
    lines = [*_heading(f"levywalk.{name}"), f".. automodule:: {module.__name__}", "   :no-members:"]
    lines += ["", f".. currentmodule:: {module.__name__}", ""]
    for each in module.__all__:
        value = getattr(module, each)
        if inspect.getdoc(value) and not isinstance(value, (int, float)):
            lines += [*_directive(value, each), "   :no-index:" * (name == "losses"), ""]
    return "\n".join(lines)


def index_page() -> str:
    """Return the page that lists all names under their headings, with one sentence each."""
    lines = [*_heading("API")]
    lines += [
        "All names are used as ``lw.name`` after ``import levywalk as lw``.",
        "Each page has the signature, the parameters and an example that runs.",
        "",
    ]
    for part, names in public_names().items():
        lines += [*_heading(part, "-"), PARTS.get(part, ("", ()))[0], ""]
        lines += [".. list-table::", "   :widths: 30 70", "   :class: names", ""]
        for name in names:
            lines.append(f"   * - :doc:`{name} <{page_name(name)}>`")
            lines.append(f"     - {_first_sentence(getattr(lw, name))}")
        lines += ["", ".. toctree::", "   :hidden:", f"   :caption: {part}", ""]
        lines += [f"   {name} <{page_name(name)}>" for name in names] + [""]
    modules = submodules()
    lines += [*_heading("Modules", "-"), ".. toctree::", "   :caption: Modules", ""]
    lines += [f"   levywalk.{name} <module-{name}>" for name in modules] + [""]
    return "\n".join(lines)


def api_pages() -> dict[str, str]:
    """Return the file name and the text of every page of the API."""
    pages = {"index.rst": index_page()}
    for names in public_names().values():
        pages |= {f"{page_name(name)}.rst": page_of(name) for name in names}
    for name, module in submodules().items():
        pages[f"module-{name}.rst"] = submodule_page(name, module)
    return pages
