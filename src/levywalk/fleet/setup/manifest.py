"""The manifest: what all nodes of a fleet agree on, as one JSON file, the same on every node.

It publishes constants of the walk and of the hand-off, and nothing of anybody's data but the mean
L̄ of the smoothness constants. Its hash is the run's name in every certificate
(`HandOffTerms.run`), so nodes with different manifests do not accept each other's certificates. A
manifest is read strictly: what is unknown, missing, of another type or out of range is refused.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from levywalk import checks
from levywalk.arrays import Floats
from levywalk.draws import VERSION as DRAWS_VERSION
from levywalk.errors import InvalidParameter, InvalidSpec
from levywalk.fleet.protocol.node_step import PublishedWalk
from levywalk.fleet.protocol.schema import TensorSchema
from levywalk.fleet.protocol.terms import HandOffTerms
from levywalk.fleet.protocol.token import Token
from levywalk.fleet.protocol.update_check import model_hash
from levywalk.fleet.setup.fields import Fields, read_bytes
from levywalk.fleet.setup.first_model import read_first_model
from levywalk.fleet.setup.manifest_content import FORMAT, content_of
from levywalk.fleet.setup.manifest_model import (
    fitted_update,
    read_named_model,
    read_problem,
    read_vector,
)
from levywalk.fleet.setup.manifest_parts import (
    MOST_NODES,
    parse_json,
    read_idle,
    read_methods,
    read_operator,
    read_phases,
    read_recipe,
    read_terms,
    read_walk,
)
from levywalk.fleet.setup.model_code import ModelCode
from levywalk.fleet.setup.privacy_terms import PrivacyTerms
from levywalk.fleet.setup.several_tokens import (
    run_of_token,
)
from levywalk.fleet.setup.size_file import read_size, sized
from levywalk.fleet.setup.update_check_terms import TABLE, read_check
from levywalk.fleet.storage.limits import Limits
from levywalk.problem.losses import Loss
from levywalk.problem.named import ModelArrays
from levywalk.walks import Walk, as_target
from levywalk.whole_files import write_whole

if TYPE_CHECKING:
    from levywalk.fleet.setup.build import Fleet

LARGEST = 1 << 20  # bytes of a manifest
SELF_LOOPS = ("none", "counted")
_MOST_SEED = 2**128


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
        The number of nodes, and L̄ of those with data. If nodes have joined, both are those of the
        last size.
    start
        The node where the walk starts.
    idle
        The nodes without data, in ascending order.
    loss, ridge, x0
        The loss of a sample, the ridge and the first model; loss and x0 are None if ``code`` is
        given.
    operator
        The public key for the signed order with which the operator revives a walk; None if there is
        none, and then nobody can.
    starts, token_number
        The nodes where several tokens start; empty for one token. Which token this is: see
        `of_token`.
    code, first
        The file from which each node builds a problem of a user's own, and the hash of the first
        model; None for a loss of the package.

    Examples
    --------
    >>> import levywalk as lw
    >>> from levywalk.fleet.setup.build import Fleet
    >>> fleet = Fleet.of(lw.ring(5), lw.homogeneous(5), lw.mhlj(), steps=100, step_size="theory")
    >>> manifest = Manifest.of(fleet, name="five")
    >>> (
    ...     manifest.published == fleet.published,
    ...     manifest.design == fleet.design,
    ...     manifest.nodes,
    ...     manifest.start,
    ... )
    (True, True, 5, 0)
    >>> manifest.terms.run == manifest.digest, manifest == Manifest.parse(manifest.text)
    (True, True)
    """

    text: bytes = field(repr=False)
    run: str
    name: str
    network: str
    nodes: int
    self_loops: str
    loss: Loss | None = field(compare=False)  # its recipe is part of the text
    ridge: float
    mean_smoothness: float
    design: Walk
    published: PublishedWalk
    start: int
    x0: Floats | None = field(repr=False, compare=False)
    seed: int
    shared: bool
    terms: HandOffTerms
    idle: tuple[int, ...] = ()
    code: ModelCode | None = None
    first: str | None = None
    operator: bytes | None = None
    arrays: ModelArrays | None = field(default=None, compare=False)  # part of the text
    starts: tuple[int, ...] = ()
    token_number: int = 0

    @classmethod
    def of(
        cls,
        fleet: Fleet,
        *,
        name: str = "fleet",
        run: str | None = None,
        operator: bytes | None = None,
    ) -> Manifest:
        """Return the manifest of a fleet; ``run`` is drawn at random unless it is given."""
        content = content_of(fleet, name, secrets.token_hex(16) if run is None else run, operator)
        text = (json.dumps(content, sort_keys=True, indent=2, allow_nan=False) + "\n").encode()
        if len(text) > LARGEST:
            raise InvalidParameter(
                f"a manifest must not be larger than {LARGEST} bytes, got {len(text)}: "
                f"x0 has {len(fleet.x0)} numbers; start from zeros"
            )
        return cls.parse(text)

    @classmethod
    def read(cls, path: str | Path) -> Manifest:
        """Read a manifest file; if nodes have joined, with the size in the file beside it."""
        found = cls.parse(read_bytes(Path(path), LARGEST, "a manifest"), str(path))
        return sized(found, read_size(Path(path).parent, found))

    @classmethod
    def parse(cls, text: bytes, source: str = "the manifest") -> Manifest:
        """Read a manifest from its bytes; ``source`` is its name in error messages."""
        return _parsed(cls, text, source)

    def write(self, path: str | Path) -> None:
        """Write the file, completely or not at all."""
        write_whole(Path(path), self.text)

    @property
    def digest(self) -> bytes:
        """SHA-256 of the file's bytes; for a later one of several tokens, the name of its run."""
        return self.terms.run

    @property
    def tokens(self) -> int:
        """The number of tokens."""
        return len(self.starts) or 1

    def of_token(self, number: int) -> Manifest:
        """Return what the nodes know of one of several tokens: its start, and its name of the run.

        All else is the same. The first token has the names of a fleet with one token.
        """
        checks.integer("token", number, low=0, high=self.tokens - 1)
        if self.token_number or not number:
            assert self.token_number == number  # it is the manifest of this token already
            return self
        start = self.starts[number]
        terms = replace(self.terms, run=run_of_token(self.digest, number), start=start)
        return replace(self, terms=terms, start=start, token_number=number)

    @property
    def n_features(self) -> int:
        """The number of features of a sample, for a loss of the package."""
        assert self.loss is not None
        return self.published.dim // self.loss.n_outputs

    @cached_property
    def schema(self) -> TensorSchema | None:
        """How the arrays of a model are written; None if it is one vector of float64."""
        itemsize = self.published.method.itemsize
        return None if self.arrays is None else TensorSchema(self.arrays, f"float{8 * itemsize}")

    @cached_property
    def limits(self) -> Limits:
        """The sizes that a message may have."""
        published = self.published
        return Limits(published.dim, len(published.phases), published.memory_bytes, self.schema)

    def first_model(self, folder: Path) -> Floats:
        """Return the first model; that of a user's own problem is in a file in the folder."""
        if self.x0 is not None:
            return self.x0
        assert self.first is not None
        return read_first_model(folder, self.first, self.published.dim, self.schema)

    @property
    def first_token(self) -> Token:
        """The token before step 0, if the manifest itself has the first model."""
        assert self.x0 is not None
        return self.published.first_token(self.x0)

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
        >>> fleet = Fleet.of(
        ...     lw.ring(5), lw.homogeneous(5), lw.mhlj(), steps=100, step_size="theory"
        ... )
        >>> Manifest.of(fleet).scores(3.5, degree=2)
        (3.5,)
        """
        degrees, constants = np.array([degree]), np.array([smoothness])
        return tuple(
            float(as_target(part.target).scores(degrees, constants, self.mean_smoothness)[0])
            for part in self.design.phases
        )


# Reading


def _parsed(cls: type[Manifest], text: bytes, source: str) -> Manifest:
    if len(text) > LARGEST:
        raise InvalidSpec(
            f"{source}: larger than {LARGEST} bytes, which a manifest never is; is it the right "
            "file?"
        )
    top = Fields(
        parse_json(text, source),
        source,
        needed=(
            *("format", "run", "name", "network", "model", "problem", "design", "update", "memory"),
            *("phases", "walk", "draws", "handoff", "operator"),
        ),
        optional=("privacy", TABLE),
    )
    if top.values["format"] != FORMAT or type(top.values["format"]) is not int:
        raise top.bad("format", f"{FORMAT}; use the version of levywalk that created the fleet")
    run = top.text("run", most=64)
    if len(run) < 16 or set(run) - set("0123456789abcdef"):
        raise top.bad("run", "16 to 64 hexadecimal digits")
    network = top.table("network", needed=("name", "nodes", "self_loops"), optional=("idle",))
    nodes = network.integer("nodes", low=2, high=MOST_NODES)
    idle = read_idle(network, nodes)
    problem, code = read_problem(top)
    dim, itemsize, x0, arrays, first = read_vector(top) if code is None else read_named_model(top)
    design, update = read_methods(top)
    privacy = PrivacyTerms(top, design)
    loss = None if code is not None else read_recipe(problem, "loss", "loss")
    if privacy.privacy is not None:
        update = privacy.fitted(update, dim, nodes - len(idle))
    elif loss is not None:
        update = fitted_update(top, update, loss, dim)
    phases = read_phases(top, design)
    published, starts = read_walk(
        top, design, update, (dim, itemsize, code is None), phases, nodes, idle, privacy
    )
    draws = top.table("draws", needed=("version", "seed", "shared_key"))
    if draws.integer("version", low=0, high=_MOST_SEED) != DRAWS_VERSION:
        raise draws.bad(
            "version", f"{DRAWS_VERSION}; use the version of levywalk that created the fleet"
        )
    ridge = 0.0 if code is not None else problem.number("ridge", low=0.0)
    begins = first if first is not None or x0 is None else model_hash(x0)
    published = read_check(top, published, ridge, begins or "")
    mean = problem.number("mean_smoothness", low=0.0, low_open=True)
    shared = draws.flag("shared_key")
    privacy.check(shared_key=shared, stop=published.stop, mean_smoothness=mean)
    return cls(
        text,
        run,
        top.text("name", most=32),
        network.text("name"),
        nodes,
        network.choice("self_loops", SELF_LOOPS),
        loss,
        ridge,
        mean,
        design,
        published,
        starts[0],
        x0,
        draws.integer("seed", low=0, high=_MOST_SEED),
        shared,
        read_terms(top, hashlib.sha256(text).digest(), starts[0], remembers=published.remembers),
        idle,
        code,
        first,
        read_operator(top),
        arrays,
        starts if len(starts) > 1 else (),
    )
