"""What a node computes while the certificate of a token is on its way: the same that it would
compute later, and nothing if that may take long.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from levywalk.fleet.protocol import node_step
from levywalk.fleet.protocol.events import Start
from levywalk.fleet.protocol.messages import Activate, Fenced, Prepare
from levywalk.fleet.protocol.tensors import sealed_model
from levywalk.fleet.runtime import token_runner, transport
from levywalk.fleet.runtime.process import Process
from levywalk.fleet.storage import store
from tests.fleet.test_hostile import (
    BORN,
    NEIGHBOUR,
    OTHER,
    STRANGER,
    VICTIM,
    hands,
    heartbeat,
    make,
)


class Visits:
    """A node that gets tokens as its neighbours would give them, and what it does when."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.done, self.sent = folder, [], []
        self.process = Process(folder / f"node-{VICTIM}" / "node.toml")
        self.runner = self.process.runners[0]
        self.hands = hands(folder)
        self._watch(monkeypatch, node_step, "step", lambda *_: "decided")
        self._watch(monkeypatch, transport, "encode_frame", lambda _, message, *rest: message)
        self._watch(monkeypatch, store, "encode", lambda value, *_, **__: value)
        for link in self.process.transport.links.values():
            link.open = True
            monkeypatch.setattr(link, "put", self.sent.append)
        self.runner.event(Start())
        for v in (NEIGHBOUR, OTHER, STRANGER):
            self.process.identity.learn((folder / f"node-{v}" / "node.crt").read_bytes())
        self.token = self.process.manifest.first_token._replace(epoch=BORN, seq=0)
        self.process.got(NEIGHBOUR, Fenced(self.hands.first(self.token, STRANGER)))
        for v in (NEIGHBOUR, OTHER):
            self.process.got(v, heartbeat(epoch=BORN))

    def _watch(self, monkeypatch: pytest.MonkeyPatch, where: Any, name: str, told: Any) -> None:
        """Note each call of a function."""
        plain = getattr(where, name)

        def watched(*args: Any, **more: Any) -> Any:
            self.done.append(told(*args, **more))
            return plain(*args, **more)

        monkeypatch.setattr(where, name, watched)

    async def prepared(self, seq: int) -> list[object]:
        """Let a token be prepared; return what is done after that was answered."""
        model = sealed_model(self.token.model + 1.0)
        self.token = self.token._replace(
            seq=seq, step=self.token.step + 1, came_from=NEIGHBOUR, model=model
        )
        self.process.got(NEIGHBOUR, Prepare(self.token, OTHER))
        self.done.clear()
        await asyncio.sleep(0)
        return self.done.copy()

    def activated(self) -> list[object]:
        """Let it come into use; return what is done then."""
        self.done.clear()
        token = self.token
        certificate = self.hands.released(
            OTHER, token.epoch, token.seq - 1, VICTIM, NEIGHBOUR, token.digest()
        )
        self.process.got(NEIGHBOUR, Activate(certificate))
        return self.done.copy()


def test_a_visit_is_prepared_while_its_certificate_is_on_its_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make(tmp_path / "fleet", steps=10_000)

    async def live() -> None:
        node = Visits(folder, monkeypatch)
        assert await node.prepared(1) == []  # it is not known yet how long a decision takes
        assert "decided" in node.activated()
        ahead: list[object] = []
        seq = 1
        while not any(isinstance(one, Prepare) for one in ahead):  # until the decision is a move
            seq += 2
            node.runner.node.disk.held = None  # it was handed over
            ahead = await node.prepared(seq)
            assert "decided" in ahead
            when = node.activated()
        assert "decided" not in when
        assert not any(isinstance(one, Prepare) for one in when)
        (message,) = (one for one in ahead if isinstance(one, Prepare))
        held = node.runner.node.disk.held
        assert held is not None
        assert any(one is held.token for one in ahead)
        assert held == node.runner.store.load().held._replace(token=held.token)
        frame, tensors = node.process.transport._encoded(message, 0)
        assert node.sent[-1][:2] == (frame, tensors)
        node.runner.store.close()

    asyncio.run(live())


@pytest.mark.parametrize("why", ["slow", "large", "fails"])
def test_what_takes_long_or_fails_is_not_prepared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    folder = make(tmp_path / "fleet", steps=10_000, dim=10_000 if why == "large" else 3)

    def fails(*_: object) -> None:
        raise RuntimeError("it cannot be decided")

    async def live() -> None:
        node = Visits(folder, monkeypatch)
        await node.prepared(1)
        node.activated()
        assert node.runner._decision < np.inf
        if why == "slow":
            monkeypatch.setattr(token_runner, "_THOUGHT", 0.0)
        node.runner.node.disk.held = None
        with monkeypatch.context() as during:
            if why == "fails":
                during.setattr(node_step, "step", fails)
            assert await node.prepared(3) == []
            assert not node.runner.out_of_order
        assert "decided" in node.activated()
        node.runner.store.close()

    asyncio.run(live())


def test_time_spent_ahead_counts_when_a_node_plans_how_long_it_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it would take its decisions for free, and heartbeats would be late."""
    folder = make(tmp_path / "fleet", steps=10_000)

    async def live() -> None:
        node = Visits(folder, monkeypatch)
        await node.prepared(1)
        node.activated()
        node.runner.node.disk.held = None
        await node.prepared(3)
        node.runner._thought += 1e6
        node.activated()
        assert node.runner.node.burst == 1
        node.runner.node.disk.held = None
        await node.prepared(5)
        node.activated()
        assert node.runner.node.burst > 1
        node.runner.store.close()

    asyncio.run(live())
