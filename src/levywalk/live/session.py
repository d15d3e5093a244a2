"""Several designs on one network, side by side: what a page is told, and what it may ask for.

Everything that a page gets is plain data, ready for JSON.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from levywalk import checks
from levywalk.arrays import Floats, Ints
from levywalk.errors import InvalidParameter
from levywalk.live.layout import DENSITY, Density, edges, places
from levywalk.live.live_run import Jumps, LiveRun, RunChanges, StayCounts
from levywalk.network import Network
from levywalk.problem import Problem
from levywalk.updates import Update
from levywalk.walks import Walk

MOST_DESIGNS = 4
MOST_STEPS_AT_ONCE = 100_000_000  # of a link that reproduces a view
MOST_SEED = 2**53 - 1  # what a browser can write as a number
_COUNTED = 256  # steps in a frame up to which the page counts visits itself


class ShownRun(Protocol):
    """A run as a page sees it: one that walks now (`LiveRun`) or one that was recorded."""

    end: int
    done: int
    stays: StayCounts
    changes: list[Jumps]
    curve: list[tuple[int, int, float]]

    @property
    def name(self) -> str:
        """The name of the design."""

    @property
    def node(self) -> int:
        """The node that holds the model."""

    @property
    def transfers(self) -> int:
        """The messages that carried the model."""

    @property
    def hops(self) -> int:
        """The decisions so far."""

    @property
    def error(self) -> float:
        """‖x - x*‖² now."""

    @property
    def visits(self) -> Ints:
        """The updates of each node."""

    @property
    def target(self) -> Floats:
        """The share of updates that each node should get."""

    def advance(self, steps: int) -> None:
        """Make some steps."""

    def new_changes(self) -> RunChanges:
        """Return what happened since the last call."""


class NetworkPicture:
    """What does not change while the model walks: the network and where it is drawn."""

    def __init__(self, network: Network, smoothness: Floats | None) -> None:
        self.network, self.smoothness = network, smoothness
        self.places = places(network)
        self.density = Density(self.places) if network.n > DENSITY else None

    def plain(self) -> dict[str, Any]:
        """Return the network as plain data."""
        network = self.network
        told: dict[str, Any] = {"name": network.name, "n": network.n, "edges": network.n_edges}
        if self.density is not None:
            return told | {"side": Density.SIDE, "nodes": self.density.count.tolist()}
        told |= {
            "places": np.round(self.places, 5).tolist(),
            "lines": edges(network).tolist(),
            "degree": network.degree.tolist(),
        }
        if network.given_names is not None:
            told["names"] = [network.shown(v) for v in range(network.n)]
        return told | {"smoothness": None if self.smoothness is None else self.smoothness.tolist()}


class Session:
    """Some runs that go on together."""

    kind = "live"

    def __init__(self, picture: NetworkPicture, seed: int) -> None:
        self.picture, self.seed = picture, seed
        self.runs: Sequence[ShownRun] = ()

    @property
    def step(self) -> int:
        """The updates that each run has made."""
        return self.runs[0].done

    @property
    def end(self) -> int:
        """The step at which the runs end."""
        return min(run.end for run in self.runs)

    def advance(self, steps: int) -> None:
        """Make some steps with every design, but none beyond the end."""
        steps = min(steps, self.end - self.step)
        for run in self.runs:
            run.advance(steps)

    def restart(self, seed: Any, changes: Any = (), step: Any = 0) -> None:
        """Begin again, with another seed where that is possible, and go to a step."""
        raise NotImplementedError

    # --- what a page is told ----------------------------------------------------------------------

    def hello(self) -> dict[str, Any]:
        """Return everything that a page needs to begin at the present step."""
        return {
            "kind": self.kind,
            "seed": self.seed,
            "network": self.picture.plain(),
            "designs": [self._design(run) for run in self.runs],
            "frame": self._frame([RunChanges(path=[run.node]) for run in self.runs], counted=False),
            "end": self.end if self.kind == "trace" else None,
        }

    def _design(self, run: ShownRun) -> dict[str, Any]:
        target = run.target
        return {
            "name": run.name,
            "target": self._summed(target),
            "largest": _largest(target),
            "changes": [list(piece) for piece in run.changes],
            "curve": [[step, sent, finite(error)] for step, sent, error in run.curve],
        }

    def frame(self) -> dict[str, Any]:
        """Return what happened since the last frame."""
        told = [run.new_changes() for run in self.runs]
        return self._frame(told, counted=told[0].steps <= _COUNTED)

    def _frame(self, told: Sequence[RunChanges], counted: bool) -> dict[str, Any]:
        found = []
        for run, since in zip(self.runs, told, strict=True):
            one: dict[str, Any] = {
                "node": run.node,
                "transfers": run.transfers,
                "hops": run.hops,
                "dwell": run.stays.now,
                "longest": run.stays.longest,
                "error": finite(run.error),
                "aim": float(run.target[run.node]),
                "path": since.path,
                "far": since.hops,
                "curve": [[step, sent, finite(error)] for step, sent, error in since.curve],
            }
            if self.picture.density is not None:
                one["path"] = np.round(self.picture.places[since.path], 4).tolist()
                one["place"] = np.round(self.picture.places[run.node], 4).tolist()
            if not counted or self.picture.density is not None:
                one["visits"] = self._summed(run.visits)
            found.append(one)
        return {"step": self.step, "steps": told[0].steps, "runs": found}

    def _summed(self, values: Any) -> str | list[float]:
        """Return numbers of nodes as base64 of float32; of a large network, sums of squares."""
        values = np.asarray(values, dtype=np.float64)
        if self.picture.density is not None:
            values = self.picture.density.sums(values)
        return base64.b64encode(values.astype("<f4").tobytes()).decode()

    def node(self, v: Any) -> dict[str, Any]:
        """Return the data of one node, and what each design has made of it."""
        network = self.picture.network
        v = checks.integer("node", v, low=0, high=network.n - 1)
        smoothness = self.picture.smoothness
        return {
            "node": v,
            "name": network.shown(v),
            "degree": int(network.degree[v]),
            "smoothness": None if smoothness is None else finite(float(smoothness[v])),
            "runs": [
                {
                    "design": run.name,
                    "visits": int(run.visits[v]),
                    "share": int(run.visits[v]) / max(run.done, 1),
                    "target": float(run.target[v]),
                    "dwell": int(run.visits[v]) / max(int(run.stays.arrivals[v]), 1),
                    "independent": independent_dwell(float(run.target[v])),
                }
                for run in self.runs
            ],
        }


class LiveSession(Session):
    """Designs that walk now, by the library's own engine."""

    def __init__(
        self,
        network: Network,
        problem: Problem,
        designs: Mapping[str, Walk | tuple[Walk, Update]],
        *,
        step_size: float | str = "theory",
        seed: int = 0,
    ) -> None:
        if not 1 <= len(designs) <= MOST_DESIGNS:
            raise InvalidParameter(
                f"designs must be 1 to {MOST_DESIGNS}, which are shown side by side, got "
                f"{len(designs)}"
            )
        smoothness = np.full(network.n, np.nan)
        holders = getattr(problem, "holders", None)
        smoothness[slice(None) if holders is None else holders] = problem.smoothness
        super().__init__(NetworkPicture(network, smoothness), seed)
        self.network, self.problem, self.step_size = network, problem, step_size
        self.designs = {
            name: value if isinstance(value, tuple) else (value, None)
            for name, value in designs.items()
        }
        self.restart(seed)

    def restart(self, seed: Any, changes: Any = (), step: Any = 0) -> None:
        """Begin again with another seed, and go to a step with these changes of jumps.

        ``changes`` are [design, step, p_jump, p_distance, max_hops], in the order of their steps.
        """
        seed = checks.integer("seed", seed, low=0, high=MOST_SEED)
        step = checks.integer("step", step, low=0, high=MOST_STEPS_AT_ONCE)
        planned = [_change(row, len(self.designs), step) for row in _rows(changes)]
        runs = [
            LiveRun(
                self.network,
                self.problem,
                walk.called(name),
                update,
                step_size=self.step_size,
                seed=seed,
            )
            for name, (walk, update) in self.designs.items()
        ]
        for which, run in enumerate(runs):
            for design, begin, p_jump, p_distance, max_hops in planned:
                if design == which:
                    run.advance(max(0, begin - run.done))
                    run.jump_by(p_jump, p_distance, max_hops)
            run.advance(step - run.done)
            run.new_changes()
        self.live, self.runs, self.seed = runs, runs, seed

    def change(self, design: Any, p_jump: Any, p_distance: Any, max_hops: Any) -> None:
        """Change the jumps of a design from the present step on."""
        row = _change([design, 0, p_jump, p_distance, max_hops], len(self.live), 0)
        self.live[row[0]].jump_by(row[2], row[3], row[4])


def independent_dwell(share: float) -> float | None:
    """Return how many updates independent sampling would stay at a node on average, 1/(1-π).

    Examples
    --------
    >>> independent_dwell(0.5)
    2.0
    """
    return None if share >= 1.0 else 1.0 / (1.0 - share)


def finite(value: float) -> float | None:
    """Return a number, or None in place of one that JSON does not have."""
    return value if math.isfinite(value) else None


def _largest(values: Floats, count: int = 5) -> list[int]:
    """Return the nodes with the largest numbers, if they differ at all."""
    if values.max() <= 1.001 * values[values > 0].min():
        return []
    return [int(v) for v in np.argsort(-values, kind="stable")[:count]]


def _rows(changes: Any) -> list[Any]:
    if not isinstance(changes, (list, tuple)) or len(changes) > 4_000:
        raise InvalidParameter(f"changes must be a list of changes, got {changes!r:.80}")
    return sorted(changes, key=lambda row: row[1] if _is_row(row) else 0)


def _is_row(row: Any) -> bool:
    return (
        isinstance(row, (list, tuple))
        and len(row) == 5
        and not isinstance(row[1], (str, type(None)))
    )


def _change(row: Any, designs: int, step: int) -> tuple[int, int, float, float, int]:
    if not _is_row(row):
        raise InvalidParameter(
            f"a change must be [design, step, p_jump, p_distance, max_hops], got {row!r:.80}"
        )
    return (
        checks.integer("design", row[0], low=0, high=designs - 1),
        checks.integer("step of a change", row[1], low=0, high=step),
        checks.probability("p_jump", row[2]),
        checks.real("p_distance", row[3], "in (0, 1]", low=0.0, high=1.0, low_open=True),
        checks.integer("max_hops", row[4], low=1, high=1_000),
    )
