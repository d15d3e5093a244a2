"""A session that is played: pause and speed, and the commands of the page."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from levywalk import checks
from levywalk.errors import InvalidParameter
from levywalk.live.session import LiveSession, Session

SLOWEST, FASTEST = 1.0, 1e6  # steps a second
_TICK = 1.0 / 15.0  # seconds between two frames
_WORK = 0.04  # seconds of work in a tick at most, so that commands are answered
_MOST_STEPS = 100_000  # of one press of "step"


class WalkPlayer:
    """Plays a session; ``export`` returns the experiment file, if there is one."""

    scripts: tuple[str, ...] = ("draw.js", "chart.js", "view.js", "remote.js")
    body = "walk.html"

    def __init__(
        self, session: Session, title: str, export: Callable[[], dict[str, str]] | None = None
    ) -> None:
        self.session, self.title, self.export = session, title, export
        self.playing, self.speed = False, 20.0
        self._due, self._rate = 0.0, 1e5  # steps that are due; steps a second that are possible

    def hello(self) -> dict[str, Any]:
        """Return everything that a page needs to begin."""
        return self.session.hello() | {
            "title": self.title,
            "playing": self.playing,
            "speed": self.speed,
            "exports": self.export is not None,
        }

    def pause(self) -> float | None:
        """Return the seconds until something happens."""
        if not self.playing:
            return None
        return max(_TICK, (1.0 - self._due) / self.speed)

    def tick(self, seconds: float) -> dict[str, Any] | None:
        """Make the steps that are due, but no more than fit into a tick."""
        if not self.playing:
            return None
        self._due += self.speed * min(seconds, 2.0)
        steps = int(min(self._due, max(1.0, self._rate * _WORK)))
        # Where the machine cannot go as fast as it is asked to, it does not catch up later.
        self._due = min(self._due - steps, max(1.0, 0.2 * self.speed))
        if steps == 0:
            return None
        return self._forward(steps)

    def _forward(self, steps: int) -> dict[str, Any]:
        began = time.perf_counter()
        self.session.advance(steps)
        took = max(time.perf_counter() - began, 1e-6)
        if steps >= 64:
            self._rate = 0.7 * self._rate + 0.3 * steps / took
        if self.session.step >= self.session.end:
            self.playing = False
        return self._frame()

    def _frame(self) -> dict[str, Any]:
        return self.session.frame() | {"playing": self.playing, "speed": self.speed}

    def do(self, command: dict[str, Any]) -> dict[str, Any]:
        """Carry out a command of the page."""
        known: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "play": self._play,
            "pause": self._pause,
            "step": self._step,
            "speed": self._speed,
            "node": lambda given: self.session.node(given.get("node")),
            "restart": self._restart,
            "change": self._change,
            "export": self._export,
        }
        name = checks.choice("do", command["do"], known)
        return known[name](command)

    def _play(self, given: dict[str, Any]) -> dict[str, Any]:
        self.playing, self._due = self.session.step < self.session.end, 1.0
        return {"frame": self._frame()}

    def _pause(self, given: dict[str, Any]) -> dict[str, Any]:
        self.playing = False
        return {"frame": self._frame()}

    def _step(self, given: dict[str, Any]) -> dict[str, Any]:
        self.playing = False
        steps = checks.integer("steps", given.get("steps", 1), low=1, high=_MOST_STEPS)
        return {"frame": self._forward(steps)}

    def _speed(self, given: dict[str, Any]) -> dict[str, Any]:
        self.speed = checks.real(
            "speed", given.get("speed"), f"in [{SLOWEST:g}, {FASTEST:g}]", low=SLOWEST, high=FASTEST
        )
        self._due = min(self._due, 1.0)
        return {"frame": self._frame()}

    def _restart(self, given: dict[str, Any]) -> dict[str, Any]:
        self.session.restart(given.get("seed"), given.get("changes", ()), given.get("step", 0))
        self._due = 0.0
        return {"hello": True}

    def _change(self, given: dict[str, Any]) -> dict[str, Any]:
        session = self._live("change")
        names = ("design", "p_jump", "p_distance", "max_hops")
        session.change(*(given.get(name) for name in names))
        changes = [[list(piece) for piece in run.changes] for run in session.live]
        return {"frame": self._frame() | {"changes": changes}}

    def _export(self, given: dict[str, Any]) -> dict[str, Any]:
        if self.export is None:
            raise InvalidParameter("there is nothing to export: the page plays a recorded trace")
        return dict(self.export())

    def _live(self, what: str) -> LiveSession:
        if not isinstance(self.session, LiveSession):
            raise InvalidParameter(f"{what} is not possible: the page plays a recorded trace")
        return self.session
