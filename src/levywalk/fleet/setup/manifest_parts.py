"""The parts of a manifest, read strictly: what is unknown, missing, of another type or out of range
is refused. `manifest` puts them together.
"""

from __future__ import annotations

import json
import math
from itertools import pairwise
from typing import Any

from levywalk.errors import InvalidSpec, LevywalkError
from levywalk.fleet.protocol.node_step import STOPS, PublishedWalk
from levywalk.fleet.protocol.terms import DEPTH, MOST_DEPTH, GuardianPolicy, HandOffTerms
from levywalk.fleet.setup.fields import Fields
from levywalk.fleet.setup.manifest_content import check_real, memory_schema
from levywalk.fleet.setup.privacy_terms import PrivacyTerms
from levywalk.fleet.setup.several_tokens import check_fleet_tokens, read_starts
from levywalk.registry import from_dict, to_dict
from levywalk.schedule import is_schedule
from levywalk.step import Method, PublishedPhase
from levywalk.updates import Update
from levywalk.walks import BoundDetector, Walk

MOST_NODES = 2**31 - 1
_MOST_STEPS = 2**53
_MOST_SECONDS = 1e9
_MOST_DEPTH = 8  # tables within tables in a recipe
_SHOWN = 300  # characters of a recipe in an error


def read_operator(top: Fields) -> bytes | None:
    """Return the operator's public key."""
    if top.values["operator"] is None:
        return None
    text = top.text("operator", most=64)
    if len(text) != 64 or set(text) - set("0123456789abcdef"):
        raise top.bad("operator", "the 64 hexadecimal digits of an Ed25519 key, or null")
    return bytes.fromhex(text)


def read_idle(network: Fields, nodes: int) -> tuple[int, ...]:
    """Return the nodes without data; at least two nodes have data."""
    if "idle" not in network.values:
        return ()
    given = network.values["idle"]
    fine = isinstance(given, list) and 0 < len(given) <= nodes - 2
    fine = fine and all(type(v) is int and 0 <= v < nodes for v in given)
    if not fine or any(u >= v for u, v in pairwise(given)):
        raise network.bad(
            "idle", f"a list of 1 to {nodes - 2} nodes below {nodes} in ascending order"
        )
    return tuple(given)


def parse_json(text: bytes, source: str) -> Any:
    """Return the values of a JSON text; refuse what JSON does not have, and keys given twice."""

    def refuse(constant: str) -> Any:
        raise ValueError(f"{constant} is not a number")

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise ValueError("a key occurs twice in one table")
        return found

    try:
        return json.loads(text.decode(), parse_constant=refuse, object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        raise InvalidSpec(
            f"{source}: not a manifest in JSON ({error}); copy it again from the fleet's folder"
        ) from None


def read_methods(top: Fields) -> tuple[Walk, Update]:
    """Return the walk and the update that the manifest names; an unknown name is refused before
    anything starts.
    """
    table = top.table("design", needed=("name", "recipe"))
    design = read_recipe(table, "recipe", "design")
    name = table.text("name")
    if design.name != name:
        object.__setattr__(design, "name", name)
    update = read_recipe(top, "update", "update")
    top.make(check_real, design, update)
    return design, update


def read_recipe(table: Fields, key: str, kind: str) -> Any:
    """Return the object that a recipe stands for; its factory checks its arguments.

    A recipe must be written out in full, as `to_dict` writes it, so that no default of another
    version is taken.
    """
    recipe = table.values[key]
    if not _is_plain(recipe, _MOST_DEPTH):
        raise table.bad(key, "a recipe: a table with a text under the key kind, and plain values")
    try:
        made = from_dict(kind, recipe)
        whole = to_dict(kind, made)
    except (
        LevywalkError,
        TypeError,
        ValueError,
        ArithmeticError,
    ) as error:  # a user's factory may raise the latter
        shown = json.dumps(recipe)[:_SHOWN]
        raise InvalidSpec(f"{table.source}: in {table.name(key)} = {shown}: {error}") from None
    if json.dumps(whole, sort_keys=True) != json.dumps(recipe, sort_keys=True):
        raise table.bad(key, f"written out in full, {whole}")
    return made


def _is_plain(value: Any, depth: int) -> bool:
    if isinstance(value, dict):
        if depth == 0 or not isinstance(value.get("kind", ""), str):
            return False
        return all(
            isinstance(key, str) and _is_plain(entry, depth - 1) for key, entry in value.items()
        )
    if isinstance(value, list):
        return depth > 0 and all(_is_plain(entry, depth - 1) for entry in value)
    return value is None or isinstance(value, (bool, int, float, str))


def read_phases(top: Fields, design: Walk) -> tuple[PublishedPhase, ...]:
    """Return what is published of each phase."""
    tables = top.tables("phases", needed=("mean_score", "step_size", "most", "scaled"))
    if len(tables) != len(design.phases):
        raise top.bad(
            "phases", f"a list of {len(design.phases)} tables, one per phase of the design"
        )
    phases = []
    for table, walk in zip(tables, design.phases, strict=True):
        mean = table.number("mean_score", low=0.0, low_open=True) if "mean_score" in table else None
        if (mean is None) == walk.reweight:
            raise table.bad(
                "mean_score", "a number if the design weights its updates, and null if not"
            )
        most = table.number("most", low=0.0, low_open=True) if "most" in table else math.inf
        step_size = read_recipe(table, "step_size", "schedule")
        if not is_schedule(step_size):
            raise table.bad("step_size", "the recipe of a schedule")
        phases.append(PublishedPhase(walk, mean, step_size, most, table.flag("scaled")))
    return tuple(phases)


def read_walk(
    top: Fields,
    design: Walk,
    update: Update,
    model: tuple[int, int, bool],
    phases: tuple[PublishedPhase, ...],
    nodes: int,
    idle: tuple[int, ...],
    privacy: PrivacyTerms,
) -> tuple[PublishedWalk, tuple[int, ...]]:
    """Return how the model walks, and where each token starts."""
    needed = ("steps", "stop", "detector", "record_every", "start")
    walk = top.table("walk", needed=needed, optional=("starts",))
    steps = walk.integer("steps", low=1, high=_MOST_STEPS)
    stop = walk.choice("stop", STOPS)
    detector = None
    if "detector" in walk:
        about = walk.table("detector", needed=("threshold", "steady", "rate", "patience"))
        detector = BoundDetector(
            about.number("threshold", low=0.0, high=1.0, low_open=True),
            about.number("steady", low=0.0, high=1.0),
            about.number("rate", low=0.0),
            about.integer("patience", low=0, high=_MOST_STEPS),
        )
    watched = design.detector is not None or stop == "detector"
    if watched != (detector is not None):
        raise walk.bad(
            "detector", "a table if the design switches or stop is detector, and null if not"
        )
    if design.detector is not None and stop == "detector":
        raise walk.bad("stop", "steps for a switching design: its detector tells when to switch")
    every = walk.integer("record_every", low=1, high=_MOST_STEPS)
    starts = read_starts(walk, nodes, idle)
    top.make(check_fleet_tokens, len(starts), design, stop)
    dim, itemsize, named = model  # a loss of the package computes and remembers in float64
    doubles = named and itemsize == 4
    method = Method(
        *(phases, update, detector, dim, nodes - len(idle), itemsize, doubles),
        privacy.bound(steps, len(starts)),
    )
    published = PublishedWalk(method, steps, stop, every, len(idle))
    top.tables("memory", needed=("name", "dtype", "shape"))
    if top.values["memory"] != memory_schema(published):
        raise top.bad(
            "memory",
            f"{memory_schema(published)}, which is what the design and the update declare here",
        )
    return published, starts


def read_terms(top: Fields, digest: bytes, start: int, *, remembers: bool) -> HandOffTerms:
    """Return the rules of the hand-off."""
    needed = ("renew_after", "policy", "heartbeat", "dead_after", "retry")
    table = top.table("handoff", needed=(*needed, *(("memory_depth",) if remembers else ())))
    depth = table.integer("memory_depth", low=1, high=MOST_DEPTH) if remembers else DEPTH
    heartbeat, dead_after, retry = (
        table.number(key, low=0.0, high=_MOST_SECONDS, low_open=True)
        for key in ("heartbeat", "dead_after", "retry")
    )
    renew_after = table.integer("renew_after", low=1, high=_MOST_STEPS)
    policy = table.choice("policy", tuple(GuardianPolicy))
    return HandOffTerms(digest, renew_after, policy, heartbeat, dead_after, retry, start, depth)
