"""The manifest: what all nodes of a fleet agree on, as one JSON file, the same on every node.

It publishes constants of the walk and of the hand-off, and nothing of anybody's data but the mean
L̄ of the smoothness constants. Its hash is the run's name in every certificate
(`HandOffTerms.run`), so nodes with different manifests do not accept each other's certificates. A
manifest is read strictly: what is unknown, missing, of another type or out of range is refused.
"""

from __future__ import annotations

import hashlib
import json
import math
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from levywalk.arrays import Floats
from levywalk.durable import write_whole
from levywalk.errors import InvalidParameter, InvalidSpec
from levywalk.fleet.protocol.node_step import STOPS, PublishedPhase, PublishedWalk
from levywalk.fleet.protocol.terms import GuardianPolicy, HandOffTerms
from levywalk.fleet.protocol.token import Token
from levywalk.fleet.setup.fields import Fields, read_bytes
from levywalk.fleet.storage.codec import Limits
from levywalk.schedule import Constant, Decaying, Dropping, is_schedule
from levywalk.updates.sgd import Sgd
from levywalk.walks.designs import AnyDesign, Design, Switching
from levywalk.walks.detector import BoundDetector, Detector
from levywalk.walks.jump import FixedDistance, JumpLaw, PowerLaw, TruncatedGeometric
from levywalk.walks.target import Degree, Importance, Mixed, Uniform

if TYPE_CHECKING:
    from levywalk.fleet.setup.build import Fleet

FORMAT = 1
LARGEST = 1 << 20  # largest manifest, in bytes
LOSSES = ("least_squares", "logistic")
SELF_LOOPS = ("none", "counted")
_MOST_NODES = 2**31 - 1
_MOST_DIM = 1 << 27  # a model of 1 GiB
_MOST_STEPS = 2**53
_MOST_SECONDS = 1e9
_MOST_SEED = 2**128

_SCHEDULES = {"constant": Constant, "decaying": Decaying, "dropping": Dropping}
_DISTANCES = {"geometric": TruncatedGeometric, "fixed": FixedDistance, "power": PowerLaw}
_TARGETS = {"uniform": Uniform, "importance": Importance, "mixed": Mixed, "degree": Degree}


@dataclass(frozen=True)
class Manifest:
    """What all nodes of one run know.

    Attributes
    ----------
    text
        The file's bytes, which are hashed.
    run
        A random name of this run, so that two fleets with the same settings differ.
    nodes, mean_smoothness
        n and L̄.
    start
        The node where the walk starts.

    Examples
    --------
    >>> import levywalk as lw
    >>> from levywalk.fleet.setup.build import Fleet
    >>> fleet = Fleet.of(lw.ring(5), lw.homogeneous(5), lw.mhlj(), steps=100, step_size="theory")
    >>> manifest = Manifest.of(fleet, name="five")
    >>> manifest.published == fleet.published, manifest.design == fleet.design, manifest.nodes, manifest.start
    (True, True, 5, 4)
    >>> manifest.terms.run == manifest.digest, manifest == Manifest.parse(manifest.text)
    (True, True)
    """

    text: bytes = field(repr=False)
    run: str
    name: str
    network: str
    nodes: int
    self_loops: str
    loss: str
    ridge: float
    mean_smoothness: float
    design: AnyDesign
    published: PublishedWalk
    start: int
    x0: Floats = field(repr=False, compare=False)
    seed: int
    shared: bool
    terms: HandOffTerms

    @classmethod
    def of(cls, fleet: Fleet, *, name: str = "fleet", run: str | None = None) -> Manifest:
        """Return the manifest of a fleet; ``run`` is drawn at random unless it is given."""
        content = _content(fleet, name, secrets.token_hex(16) if run is None else run)
        text = (json.dumps(content, sort_keys=True, indent=2, allow_nan=False) + "\n").encode()
        if len(text) > LARGEST:
            raise InvalidParameter(
                f"a manifest must not be larger than {LARGEST} bytes, got {len(text)}: "
                f"x0 has {len(fleet.x0)} numbers; start from zeros"
            )
        return cls.parse(text)

    @classmethod
    def read(cls, path: str | Path) -> Manifest:
        """Read a manifest file."""
        return cls.parse(read_bytes(Path(path), LARGEST, "a manifest"), str(path))

    @classmethod
    def parse(cls, text: bytes, source: str = "the manifest") -> Manifest:
        """Read a manifest from its bytes; ``source`` is its name in error messages."""
        return _parsed(cls, text, source)

    def write(self, path: str | Path) -> None:
        """Write the file, completely or not at all."""
        write_whole(Path(path), self.text)

    @property
    def digest(self) -> bytes:
        """SHA-256 of the file's bytes."""
        return self.terms.run

    @property
    def limits(self) -> Limits:
        """The sizes that a message may have."""
        return Limits(self.published.dim, len(self.published.phases))

    @property
    def first_token(self) -> Token:
        """The token before step 0."""
        return Token.first(self.x0, watched=self.published.detector is not None)

    @property
    def shared_key(self) -> int | None:
        """The seed that all nodes draw from, as `levywalk.run` does; None if each node draws from
        its own entropy.
        """
        return self.seed if self.shared else None

    def scores(self, smoothness: float, degree: int) -> tuple[float, ...]:
        """Return a node's scores t_v, by phase, from its own L_v and degree.

        Examples
        --------
        >>> import levywalk as lw
        >>> from levywalk.fleet.setup.build import Fleet
        >>> fleet = Fleet.of(lw.ring(5), lw.homogeneous(5), lw.mhlj(), steps=100, step_size="theory")
        >>> Manifest.of(fleet).scores(3.5, degree=2)
        (3.5,)
        """
        degrees, constants = np.array([degree]), np.array([smoothness])
        return tuple(
            float(part.target.scores(degrees, constants, self.mean_smoothness)[0]) for part in _parts(self.design)
        )


def _parts(design: AnyDesign) -> tuple[Design, ...]:
    return (design.first, design.then) if isinstance(design, Switching) else (design,)


# Writing


def _content(fleet: Fleet, name: str, run: str) -> dict[str, Any]:
    published, design, problem, terms = fleet.published, fleet.design, fleet.problem, fleet.terms
    loss = getattr(problem, "kind", None)
    if loss not in LOSSES:
        raise InvalidParameter(
            f"problem must be LeastSquares or Logistic, got {type(problem).__name__}: a node computes its own loss"
        )
    return {
        "format": FORMAT,
        "run": run,
        "name": name,
        "network": {"name": fleet.network.name, "nodes": fleet.network.n, "self_loops": fleet.network.self_loops},
        "model": {"dtype": "float64", "shape": [published.dim], "x0": _first(fleet.x0, published.dim)},
        "problem": {
            "loss": loss,
            "ridge": float(problem.ridge),  # type: ignore[attr-defined]
            "mean_smoothness": float(np.mean(problem.smoothness)),
        },
        "design": {"name": design.name, "switching": _switching(design)},
        "phases": [_phase(part, phase) for part, phase in zip(_parts(design), published.phases, strict=True)],
        "walk": {
            "steps": published.steps,
            "stop": published.stop,
            "detector": None if published.detector is None else _written(published.detector),
            "minibatch": published.update.minibatch,
            "record_every": published.record_every,
            "start": fleet.start,
        },
        "draws": {"seed": int(fleet.seed), "shared_key": fleet.shared_key},
        "handoff": {key: value for key, value in _written(terms).items() if key != "run"},
    }


def _first(x0: Floats, dim: int) -> list[float] | None:
    """Return the first model, or None for zeros."""
    if x0.shape != (dim,) or not np.isfinite(x0).all():
        raise InvalidParameter(f"x0 must be {dim} finite numbers, got {x0!r:.80}")
    return None if x0.tobytes() == np.zeros(len(x0)).tobytes() else [float(number) for number in x0]


def _switching(design: AnyDesign) -> dict[str, Any] | None:
    if not isinstance(design, Switching):
        return None
    return {"detector": _written(design.detector), "step_size": design.step_size}


def _phase(part: Design, phase: PublishedPhase) -> dict[str, Any]:
    return {
        "name": part.name,
        "target": _kind("target", part.target, _TARGETS),
        "mean_score": phase.mean_score,
        "step_size": _kind("step_size", phase.step_size, _SCHEDULES),
        "most": None if phase.most == math.inf else phase.most,
        "jump": None if phase.jump is None else _jump(phase.jump),
    }


def _jump(jump: JumpLaw) -> dict[str, Any]:
    p_jump = _kind("p_jump", jump.p_jump, _SCHEDULES) if is_schedule(jump.p_jump) else jump.p_jump
    return {"p_jump": p_jump, "distance": _kind("distance", jump.distance, _DISTANCES)}


def _kind(name: str, value: Any, kinds: Mapping[str, type]) -> dict[str, Any]:
    """Return an object of a known class as a table: its kind and its fields."""
    for kind, known in kinds.items():
        if type(value) is known:
            return {"kind": kind, **_written(value)}
    choice = ", ".join(known.__name__ for known in kinds.values())
    raise InvalidParameter(
        f"{name} must be one of {choice}, got {value!r}: other classes cannot be written to a manifest"
    )


def _written(value: Any) -> dict[str, Any]:
    return {entry.name: getattr(value, entry.name) for entry in fields(value)}


# Reading


def _parsed(cls: type[Manifest], text: bytes, source: str) -> Manifest:
    if len(text) > LARGEST:
        raise InvalidSpec(f"{source}: larger than {LARGEST} bytes, which a manifest never is; is it the right file?")
    top = Fields(
        _loaded(text, source),
        source,
        needed=(
            *("format", "run", "name", "network", "model", "problem", "design", "phases", "walk", "draws", "handoff"),
        ),
    )
    if top.values["format"] != FORMAT or type(top.values["format"]) is not int:
        raise top.bad("format", f"{FORMAT}; use the version of levywalk that created the fleet")
    run = top.text("run", most=64)
    if len(run) < 16 or set(run) - set("0123456789abcdef"):
        raise top.bad("run", "16 to 64 hexadecimal digits")
    network = top.table("network", needed=("name", "nodes", "self_loops"))
    nodes = network.integer("nodes", low=2, high=_MOST_NODES)
    problem = top.table("problem", needed=("loss", "ridge", "mean_smoothness"))
    dim, x0 = _model(top)
    designs, phases = _phases(top)
    design = _design(top, designs)
    published, start = _walk(top, dim, phases, nodes)
    draws = top.table("draws", needed=("seed", "shared_key"))
    return cls(
        text,
        run,
        top.text("name", most=32),
        network.text("name"),
        nodes,
        network.choice("self_loops", SELF_LOOPS),
        problem.choice("loss", LOSSES),
        problem.number("ridge", low=0.0),
        problem.number("mean_smoothness", low=0.0, low_open=True),
        design,
        published,
        start,
        x0,
        draws.integer("seed", low=0, high=_MOST_SEED),
        draws.flag("shared_key"),
        _terms(top, hashlib.sha256(text).digest()),
    )


def _loaded(text: bytes, source: str) -> Any:
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


def _model(top: Fields) -> tuple[int, Floats]:
    model = top.table("model", needed=("dtype", "shape", "x0"))
    model.choice("dtype", ("float64",))
    shape = model.values["shape"]
    if not isinstance(shape, list) or len(shape) != 1 or type(shape[0]) is not int or not 1 <= shape[0] <= _MOST_DIM:
        raise model.bad("shape", f"a list of one number from 1 to {_MOST_DIM}")
    dim: int = shape[0]
    if "x0" not in model:
        return dim, np.zeros(dim)
    numbers = model.values["x0"]
    if not isinstance(numbers, list) or len(numbers) != dim or not all(type(number) is float for number in numbers):
        raise model.bad("x0", f"null or a list of {dim} numbers, each with a decimal point")
    x0 = np.array(numbers)
    if not np.isfinite(x0).all():
        raise model.bad("x0", "finite numbers")
    return dim, x0


def _phases(top: Fields) -> tuple[list[Design], tuple[PublishedPhase, ...]]:
    """Return each phase as a design and as its published constants."""
    tables = top.tables("phases", needed=("name", "target", "mean_score", "step_size", "most", "jump"))
    if not 1 <= len(tables) <= 2:
        raise top.bad("phases", "a list of 1 or 2 tables")
    designs, phases = [], []
    for table in tables:
        target = _read_kind(table, "target", _TARGETS)
        jump = None
        if "jump" in table:
            law = table.table("jump", needed=("p_jump", "distance"))
            p_jump = law.values["p_jump"]
            if isinstance(p_jump, dict):
                p_jump = _read_kind(law, "p_jump", _SCHEDULES)
            jump = law.make(JumpLaw, p_jump, _read_kind(law, "distance", _DISTANCES))
        mean = table.number("mean_score", low=0.0, low_open=True) if "mean_score" in table else None
        most = table.number("most", low=0.0, low_open=True) if "most" in table else math.inf
        designs.append(Design(target, jump, "walk", mean is not None, table.text("name")))
        phases.append(PublishedPhase(mean, _read_kind(table, "step_size", _SCHEDULES), most, jump))
    return designs, tuple(phases)


def _read_kind(table: Fields, key: str, kinds: Mapping[str, type]) -> Any:
    """Return the object that was written by `_kind`; its class checks its fields."""
    value = table.values[key]
    kind = value.get("kind") if isinstance(value, dict) else None
    if not isinstance(kind, str) or kind not in kinds:
        raise table.bad(key, f"a table whose kind is one of {', '.join(kinds)}")
    made = kinds[kind]
    names = [entry.name for entry in fields(made)]
    inner = table.table(key, needed=("kind", *names))
    return inner.make(made, *(inner.values[name] for name in names))


def _design(top: Fields, designs: list[Design]) -> AnyDesign:
    table = top.table("design", needed=("name", "switching"))
    name = table.text("name")
    if ("switching" in table) != (len(designs) == 2):
        raise table.bad("switching", "a table if there are two phases, and null if there is one")
    if len(designs) == 1:
        (design,) = designs
        return Design(design.target, design.jump, "walk", design.reweight, name)
    then = table.table("switching", needed=("detector", "step_size"))
    about = then.table("detector", needed=("threshold", "window", "patience"))
    detector = about.make(Detector, *(about.values[key] for key in ("threshold", "window", "patience")))
    return then.make(Switching, *designs, detector, then.values["step_size"], name)


def _walk(top: Fields, dim: int, phases: tuple[PublishedPhase, ...], nodes: int) -> tuple[PublishedWalk, int]:
    walk = top.table("walk", needed=("steps", "stop", "detector", "minibatch", "record_every", "start"))
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
    watched = len(phases) == 2 or stop == "detector"
    if watched != (detector is not None):
        raise walk.bad("detector", "a table if the design switches or stop is detector, and null if not")
    if len(phases) == 2 and stop == "detector":
        raise walk.bad("stop", "steps for a switching design: its detector tells when to switch")
    minibatch = walk.integer("minibatch", low=1, high=2**31 - 1) if "minibatch" in walk else None
    every = walk.integer("record_every", low=1, high=_MOST_STEPS)
    published = PublishedWalk(phases, steps, dim, Sgd(minibatch), detector, stop, every)
    return published, walk.integer("start", low=0, high=nodes - 1)


def _terms(top: Fields, digest: bytes) -> HandOffTerms:
    table = top.table("handoff", needed=("renew_after", "policy", "heartbeat", "dead_after", "retry"))
    return HandOffTerms(
        digest,
        table.integer("renew_after", low=1, high=_MOST_STEPS),
        table.choice("policy", tuple(GuardianPolicy)),
        *(
            table.number(key, low=0.0, high=_MOST_SECONDS, low_open=True)
            for key in ("heartbeat", "dead_after", "retry")
        ),
    )
