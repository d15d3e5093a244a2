"""Whether a graph from outside has directions, and what becomes of them.

A network is undirected. A graph with directions is therefore either made symmetric, with a count
of what had no reverse, or refused. The rule by which a graph counts as directed depends on where it
comes from:

- ``"pairs"`` (pairs of node numbers, a networkx Graph): never.
- ``"arcs"`` (a networkx DiGraph, GraphML with ``edgedefault="directed"``, an edge list whose
  comments say so): if an arc has no reverse.
- ``"list"`` (any other edge list): if some edges are listed in both directions and some in one
  only. A list with each edge once, or with every edge in both directions, is undirected.
- ``"matrix"`` (scipy, npz, Matrix Market): if an entry has no mirror image, unless all entries lie
  on one side of the diagonal: that is one half of a symmetric matrix.
"""

from __future__ import annotations

import re

import numpy as np

from levywalk.arrays import Ints
from levywalk.errors import InvalidNetwork
from levywalk.network.csr import distinct_sorted, pair_keys
from levywalk.remedy import python_or_command

DIRECTED = ("symmetrise", "error")
_DIRECTED = re.compile(r"(?<!un)(?<!non)(?<!not )(?<!-)\bdirected\b(?!\s*[:=]\s*(false|no|0))")
_KONECT = re.compile(r"%\s*asym\b")


def declared_directed(text: str) -> bool:
    r"""Whether the comments at the head of an edge list say that it is directed.

    SNAP writes ``# Directed graph …``, KONECT ``% asym …``.

    Examples
    --------
    >>> declared_directed("# Directed graph: a.txt\n0 1\n")
    True
    >>> declared_directed("# Undirected graph: a.txt\n0 1\n")
    False
    """
    for line in text[:100_000].split("\n"):
        content = line.strip().lower()
        if content and content[0] not in "#%":
            return False
        if _DIRECTED.search(content) or _KONECT.match(content):
            return True
    return False


def one_way_and_distinct(u: Ints, v: Ints) -> tuple[int, int]:
    """Return how many distinct arcs have no reverse, and how many distinct arcs there are.

    Examples
    --------
    >>> one_way_and_distinct(np.array([0, 1, 1, 1]), np.array([1, 0, 2, 2]))
    (1, 3)
    """
    keys, reverse = pair_keys(u, v), pair_keys(v, u)
    keys.sort()
    keys = distinct_sorted(keys)
    reverse.sort()
    missing = np.setdiff1d(keys, distinct_sorted(reverse), assume_unique=True)
    return int(missing.size), int(keys.size)


def judge_direction(meaning: str, u: Ints, v: Ints) -> tuple[str, int | None]:
    """Return a sentence about directions that are lost, and how many arcs are distinct.

    The sentence is empty for an undirected graph. The number is None where an arc and its reverse
    are the same edge twice.

    Examples
    --------
    >>> judge_direction("arcs", np.array([0, 1, 1]), np.array([1, 0, 2]))
    ('1 of 3 arcs has no reverse', 3)
    >>> judge_direction("list", np.array([0, 1]), np.array([1, 2]))
    ('', None)
    """
    if meaning == "pairs" or not u.size:
        return "", None
    if meaning == "matrix" and ((u < v).all() or (u > v).all()):
        return "", None
    one_way, distinct = one_way_and_distinct(u, v)
    if meaning == "list" and one_way == distinct:
        return "", None
    have = "has" if one_way == 1 else "have"
    if meaning == "list" and one_way:
        both = (distinct - one_way) // 2
        words = (
            f"{both} edge{' is' if both == 1 else 's are'} listed in both directions and {one_way} "
            "in one only"
        )
        return words, None
    return f"{one_way} of {distinct} arcs {have} no reverse" if one_way else "", distinct


def refuse_directed(name: str, sentence: str) -> None:
    """Raise the error of ``directed="error"``."""
    remedy = python_or_command("directed='symmetrise'", "--directed symmetrise")
    raise InvalidNetwork(
        f"{name}: the graph is directed: {sentence}; a network is undirected: {remedy} reads every "
        "arc as an edge in both directions"
    )
