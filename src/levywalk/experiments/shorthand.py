"""Networks and problems in a word, as typed on a command line: ``ring:1000``, ``ws:1000,4,0.1``, ``heterogeneous``."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np

from levywalk.errors import InvalidParameter
from levywalk.network import FAMILIES, Network, read_network
from levywalk.problem import LeastSquares, Logistic, Problem, heterogeneous, homogeneous, load_dataset, partition

_SHORT = {
    "er": "erdos_renyi",
    "ws": "watts_strogatz",
    "regular": "random_regular",
    "ba": "barabasi_albert",
}
_FAMILIES = FAMILIES | {short: FAMILIES[name] for short, name in _SHORT.items()}


def read_network_text(text: str, *, seed: int = 0, self_loops: str = "none") -> Network:
    """Read a network: a family with its numbers, or a path.

    Examples
    --------
    >>> read_network_text("grid:3,4").n
    12
    """
    name, colon, numbers = text.partition(":")
    if colon and name in _FAMILIES:
        make = _FAMILIES[name]
        wanted = [
            key
            for key, parameter in inspect.signature(make).parameters.items()
            if parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
        ]
        try:
            values = [_number(part) for part in numbers.split(",")]
        except ValueError:
            values = []
        if len(values) != len(wanted):
            raise InvalidParameter(
                f"network {name!r} takes {len(wanted)} numbers, {name}:{','.join(wanted)}, got {text!r}"
            )
        random = {"seed": seed} if "seed" in inspect.signature(make).parameters else {}
        return make(*values, **random, self_loops=self_loops)
    if not Path(text).exists() and "/" not in text and "." not in text:
        raise InvalidParameter(
            f"network must be a file or one of {', '.join(f'{key}:…' for key in _FAMILIES)}, got {text!r}"
        )
    return read_network(text, self_loops=self_loops)


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def read_problem_text(
    text: str,
    n: int,
    *,
    important: int | None = None,
    loss: str = "least_squares",
    how: str = "iid",
    ridge: float = 0.0,
    seed: int = 0,
) -> Problem:
    """Read a problem for n nodes: ``heterogeneous``, ``homogeneous``, or a path to a data set.

    Examples
    --------
    >>> read_problem_text("heterogeneous", 50, important=1).n
    50
    """
    if text == "heterogeneous":
        return heterogeneous(n, important=important, seed=seed)
    if text == "homogeneous":
        return homogeneous(n, seed=seed)
    if not Path(text).exists() and "." not in text and "/" not in text:
        raise InvalidParameter(f"data must be 'heterogeneous', 'homogeneous' or a file, got {text!r}")
    features, targets = load_dataset(text)
    node = partition(features, targets, n, how=how, seed=seed)
    return (Logistic if loss == "logistic" else LeastSquares)(features, targets, node=node, ridge=ridge)


def problem_from_smoothness(path: str, n: int) -> Problem:
    """Read one L per node from a file and return the quadratics ½L_v x² that have them: enough to judge a walk."""
    source = Path(path)
    if not source.exists():
        raise InvalidParameter(f"smoothness must name a file with one number per line, got {path!r}")
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
