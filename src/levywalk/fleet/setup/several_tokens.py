"""Several tokens in one fleet: what each of them has of its own, and what they cannot be used with.

The tokens of a fleet are independent of each other. For each of them, every node runs the protocol
that was checked, with a disk of its own; nodes, data, keys, processes and connections are shared.
A token has a number from 0 on. What is signed for one of them is not valid for another, because the
name of the run is part of every signature, and each token has its own.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from levywalk import checks
from levywalk.errors import InvalidParameter
from levywalk.fleet.setup.fields import Fields
from levywalk.remedy import python_or_command
from levywalk.walks import Walk

MOST_TOKENS = 64  # each has a database at every node, and heartbeats of its own


def check_fleet_tokens(tokens: Any, design: Walk, stop: Any) -> int:
    """Return the number of tokens; refuse what is not possible with several.

    Examples
    --------
    >>> import levywalk as lw
    >>> check_fleet_tokens(4, lw.mhlj(), "steps")
    4
    """
    count: int = checks.integer(
        python_or_command("tokens", "--tokens"), tokens, low=1, high=MOST_TOKENS
    )
    if count == 1:
        return count
    one = python_or_command("tokens=1", "--tokens 1")
    if design.detector is not None:
        raise InvalidParameter(
            f"{python_or_command('tokens', '--tokens')} must be 1 for a switching design, "
            f"got {count}: each token would switch at another step; "
            f"use one of its two designs, or {one}"
        )
    if stop == "detector":
        raise InvalidParameter(
            f"{python_or_command('tokens', '--tokens')} must be 1 with "
            f"{python_or_command('stop=', '--stop ')}detector, got {count}: each token would stop "
            "at another step; "
            f"use {python_or_command('stop=', '--stop ')}steps, or {one}"
        )
    return count


def run_of_token(run: bytes, number: int) -> bytes:
    """Return the name of the run of a token, which every signature contains; the first token has
    that of the fleet.

    Examples
    --------
    >>> run_of_token(b"run", 0), len(run_of_token(b"run", 1))
    (b'run', 32)
    """
    return run if not number else hashlib.sha256(run + b"|token %d" % number).digest()


def token_folder(state: Path, number: int) -> Path:
    """Return the folder of a token in the state folder of a node; the first token has that itself.

    Examples
    --------
    >>> str(token_folder(Path("state"), 0)), str(token_folder(Path("state"), 2))
    ('state', 'state/token-2')
    """
    return state if not number else state / f"token-{number}"


def read_starts(walk: Fields, nodes: int, idle: tuple[int, ...]) -> tuple[int, ...]:
    """Return the nodes where the tokens of a manifest start, which have data."""
    start = walk.integer("start", low=0, high=nodes - 1)
    if start in idle:
        raise walk.bad("start", "a node with data")
    if "starts" not in walk.values:
        return (start,)
    given = walk.values["starts"]
    fine = isinstance(given, list) and 2 <= len(given) <= MOST_TOKENS and given[0] == start
    if not fine or any(type(v) is not int or not 0 <= v < nodes or v in idle for v in given):
        raise walk.bad(
            "starts",
            f"a list of 2 to {MOST_TOKENS} nodes with data below {nodes}, one for each token, of "
            f"which the first is start, {start}",
        )
    return tuple(given)
