"""kill -9 at every failpoint and at any time: a fleet that begins again from its disks loses
nothing, doubles nothing.

Each walk runs in a process of its own: several nodes, each with a store, and a queue between them
for a network. All die together, and what was on the way is lost; then another process goes on. The
end must be that of the simulator.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import levywalk as lw
from levywalk.errors import InvalidParameter
from levywalk.fleet.protocol.events import (
    Event,
    Genesis,
    Got,
    Persist,
    Send,
    SetTimer,
    Start,
    Timer,
    Turn,
    TurnRequest,
)
from levywalk.fleet.protocol.node_step import Visit
from levywalk.fleet.protocol.terms import HandOffTerms
from levywalk.fleet.runtime.wire import FORMAT, Hello, Reader, encode_frame, hello_frame
from levywalk.fleet.setup.build import Fleet
from levywalk.fleet.storage import failpoints
from levywalk.fleet.storage.failpoints import FAILPOINTS, failpoint
from levywalk.fleet.storage.limits import Limits
from levywalk.fleet.storage.reader import StoreReader
from levywalk.fleet.storage.store import NodeStore, whole
from levywalk.trace import Trace
from tests.forked import FORKED
from tests.limits import mostly_more

NODES, STEPS, RUN = 5, 20, b"kill"
FILES = 16  # bytes: models of four numbers lie in files
QUICK = ("commit:after",)
PLACES = {"files": FILES, "database": 1 << 16}
PASSED_OFTEN = {
    "files": ("write", "fsync", "rename", "folder", "commit", "remove", "send"),
    "database": ("commit", "send"),
}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory, if there is one: a kill takes no file's content, synced or not, and disks
    take time.
    """
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)


def make_fleet() -> Fleet:
    design = lw.switching(lw.mhlj(), lw.unif_rw(), window=5, patience=2, threshold=0.5)
    return Fleet.of(
        lw.ring(NODES),
        lw.heterogeneous(NODES, dim=4, seed=1, important=1),
        design,
        steps=STEPS,
        step_size="theory",
        seed=3,
        terms=HandOffTerms(run=RUN, renew_after=3),
        record_every=4,
    )


@cache
def reference() -> Trace:
    fleet = make_fleet()
    return lw.run(
        fleet.network, fleet.problem, fleet.design, steps=STEPS, step_size="theory", seed=3,
        backend="reference", record_walk=True,
    )  # fmt: skip


def walk(folder: Path, inline: int, kill: str | None = None) -> None:
    """Go on from the disks to the end, unless killed on the way."""
    failpoints.arm(kill)
    fleet = make_fleet()
    limits = Limits(fleet.published.dim, len(fleet.published.phases), fleet.published.memory_bytes)
    with ExitStack() as stack:
        stores = [
            stack.enter_context(NodeStore(folder / str(v), RUN, limits=limits, inline=inline))
            for v in range(NODES)
        ]
        nodes = []
        for v, store in enumerate(stores):
            disk = store.load()
            if disk is None:
                disk = fleet.disk(v)
                store.persist(whole(disk))
            nodes.append(fleet.node(v, disk))
        wire = [Reader(limits, peer=v) for v in range(NODES)]
        for v, reader in enumerate(wire):
            reader.take(hello_frame(v, Hello(FORMAT, bytes(32), bytes(16), "", b"")))
        queue: deque[tuple[int, Event]] = deque((v, Start()) for v in range(NODES))
        queue.append((fleet.start, Genesis(fleet.token)))
        timers: dict[int, float] = {}
        now = 0.0
        while any(node.disk.final is None for node in nodes):
            assert now < 30, "the walk stands still"
            if not queue:
                v = min(timers, key=timers.__getitem__)
                now = max(now, timers.pop(v))
                queue.append((v, Timer()))
            v, event = queue.popleft()
            for effect in nodes[v].receive(event, now):
                if isinstance(effect, Persist):
                    stores[v].persist(effect)
                elif isinstance(effect, Send):
                    data, _ = encode_frame(v, effect.message)
                    failpoint("send:before")
                    message, _ = wire[v].take(data)
                    queue.append((effect.to, Got(v, message)))
                    failpoint("send:after")
                elif isinstance(effect, TurnRequest):
                    queue.append((v, Turn()))
                elif isinstance(effect, SetTimer):
                    timers[v] = effect.at


def lives(folder: Path, inline: int, kill: str | None = None, seconds: float | None = None) -> bool:
    """Run the walk in a process of its own, killed after some seconds if so asked; return whether
    it ended well.
    """
    process = FORKED.Process(target=walk, args=(folder, inline, kill))
    process.start()
    try:
        process.join(seconds)
        if process.exitcode is None:
            process.kill()
            process.join()
        assert process.exitcode in (0, -signal.SIGKILL), "see the traceback above"
        return process.exitcode == 0
    finally:
        process.close()


def assert_nothing_lost(folder: Path) -> None:
    """The merged logs and every node's last model are those of the simulator, to the bit."""
    expected, visits, lines = reference(), {}, Counter()
    for v in range(NODES):
        with StoreReader(folder / str(v), RUN) as store:
            disk = store.load()
            for line in store.lines():
                if isinstance(line, Visit):
                    visits[line.step] = v
                    lines[line.step] += 1
        assert disk is not None
        assert disk.final is not None
        assert disk.final.model.tobytes() == expected.model[0].tobytes()
        assert disk.final.switched_at == expected.switched_at[0]
        assert (disk.final.hops, disk.final.transfers) == (
            expected.hops[0, -1],
            expected.transfers[0, -1],
        )
    assert lines == Counter(range(STEPS + 1))  # nothing lost, nothing twice
    assert np.array_equal([visits[t] for t in range(STEPS)], expected.walk[0])
    assert visits[STEPS] == expected.final_node[0]


def assert_no_litter(folder: Path) -> None:
    """After it was opened once more, a folder holds the files that are referred to,
    and no others.
    """
    for v in range(NODES):
        with NodeStore(folder / str(v), RUN) as store:
            there = {path.name for path in store.models.iterdir()}
            assert there == {f"{address.hex()}.safetensors" for address in store._referred()}


@pytest.mark.parametrize("kept", PLACES)
def test_a_walk_with_stores_is_that_of_the_simulator(place: Path, kept: str) -> None:
    assert lives(place, PLACES[kept])
    assert_nothing_lost(place)
    assert_no_litter(place)
    assert bool(list(place.glob("*/models/*"))) == (kept == "files")


@pytest.mark.parametrize("name", mostly_more(FAILPOINTS, lambda name: name in QUICK))
def test_killed_at_a_failpoint_the_walk_goes_on(place: Path, name: str) -> None:
    draw = random.Random(name)
    for i, count in enumerate((1, draw.randint(2, 4), draw.randint(20, 60))):
        folder = place / str(i)
        killed = not lives(folder, FILES, f"{name}:{count}")
        assert killed or count > NODES  # some places are passed only once a node
        assert lives(folder, FILES)
        assert_nothing_lost(folder)
        assert_no_litter(folder)


@pytest.mark.more
def test_killed_after_every_single_commit_the_walk_goes_on(place: Path) -> None:
    kills = 0
    while not lives(place, FILES, "commit:after:1"):
        kills += 1
    assert kills > 50
    assert_nothing_lost(place)
    assert_no_litter(place)


@pytest.mark.more
@pytest.mark.parametrize("kept", PLACES)
def test_killed_at_any_failpoint_time_and_again_the_walk_goes_on(place: Path, kept: str) -> None:
    draw = random.Random(kept)
    passed_often = [name for name in FAILPOINTS if name.startswith(PASSED_OFTEN[kept])]
    kills = 0
    while not lives(place, PLACES[kept], f"{draw.choice(passed_often)}:{draw.randint(3, 20)}"):
        kills += 1
    assert kills > 5
    assert_nothing_lost(place)
    assert_no_litter(place)


@pytest.mark.more
def test_killed_from_outside_at_any_moment_the_walk_goes_on(place: Path) -> None:
    draw = random.Random()
    for i in range(3):
        folder = place / str(i)
        seconds = 0.05
        while not lives(folder, FILES, seconds=draw.uniform(0.0, seconds)):
            seconds *= 1.2  # on a slow machine too, it comes to an end
        assert_nothing_lost(folder)
        assert_no_litter(folder)


def test_the_environment_names_the_failpoint() -> None:
    environment = os.environ | {failpoints.VARIABLE: "commit:before:9"}
    code = (
        "from levywalk.fleet.storage.failpoints import *; "
        "[failpoint('commit:before') for _ in range(9)]"
    )
    command = [sys.executable, "-c", code]
    assert subprocess.run(command, env=environment, check=False).returncode == -signal.SIGKILL
    environment[failpoints.VARIABLE] = "commit:before:10"
    assert subprocess.run(command, env=environment, check=False).returncode == 0


@pytest.mark.parametrize("text", ["nowhere", "commit", "commit:before:0", "commit:before:-1", ":3"])
def test_a_failpoint_that_does_not_exist_is_refused(text: str) -> None:
    with pytest.raises(InvalidParameter, match=r"commit:after.*got "):
        failpoints.armed(text)


def test_every_failpoint_is_documented_and_in_the_source() -> None:
    listed = Path(failpoints.__file__)
    source = "".join(
        path.read_text() for path in [*listed.parent.glob("*.py"), Path(__file__)] if path != listed
    )
    for name, about in FAILPOINTS.items():
        assert about
        inside = (f'"{name}"', f'Transaction(self, db, "{name.partition(":")[0]}")')
        assert any(text in source for text in inside), name
