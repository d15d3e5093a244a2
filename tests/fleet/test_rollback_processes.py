"""Old copies of state folders with real processes: noticed, fenced, settled by `fleet rejoin`."""

from __future__ import annotations

import contextlib
import shutil
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from levywalk.cli.main import app
from levywalk.fleet.checking.logs import judge_folder
from levywalk.fleet.checking.running_fleet import RunningFleet
from levywalk.fleet.identity.node_identity import Identity
from levywalk.fleet.operate.doctor import examine
from levywalk.fleet.operate.folder import FleetFolder
from levywalk.fleet.protocol.events import Persist
from levywalk.fleet.protocol.evidence import Lie
from levywalk.fleet.protocol.links import LinkKind
from levywalk.fleet.protocol.terms import HandOffTerms
from levywalk.fleet.protocol.token import Epoch
from levywalk.fleet.storage.store import NodeStore
from tests.fleet.linked import Hands
from tests.fleet.nodes import Running, free_ports, make
from tests.limits import PATIENCE, eventually, mostly_soak

TERMS = HandOffTerms(run=b"", renew_after=5, heartbeat=0.3, dead_after=4.0, retry=0.2)


def typed(*words: object) -> Any:
    return CliRunner().invoke(app, ["fleet", *map(str, words)])


@pytest.fixture
def live(tmp_path: Path) -> Iterator[RunningFleet]:
    """Five nodes on a ring, at work for as long as the test takes."""
    with RunningFleet(make(tmp_path / "fleet", 5, steps=1_000_000, terms=TERMS)) as fleet:
        fleet.begin(PATIENCE)
        eventually(lambda: all(confirmed(fleet, v) for v in range(5)))  # all have started
        (fleet.folder / "begun").touch()
        yield fleet
        FleetFolder.open(fleet.folder).stop(force=True)  # also those that a command has started


def status(live: RunningFleet) -> dict[str, Any]:
    return FleetFolder.open(live.folder).status(PATIENCE)


def confirmed(live: RunningFleet, v: int) -> bool:
    return live.is_fenced(v) is False


@pytest.mark.more
@pytest.mark.parametrize(
    "role", mostly_soak(["holder", "guardian", "bystander"], lambda role: role == "guardian")
)
def test_a_restored_backup_is_fenced_and_rejoins(live: RunningFleet, role: str) -> None:
    if role == "bystander":
        busy = {live.roles().get("holder"), live.roles().get("guardian")}
        v = next(u for u in range(5) if u not in busy)
    else:
        v = live.catch(role, PATIENCE)
    live.kill(v)
    live.back_up(v)
    live.start(v)
    eventually(lambda: confirmed(live, v))
    pulse = live.pulse()
    live.wait(pulse._replace(step=pulse.step + 40), PATIENCE)  # so that all have seen more of it
    live.kill(v)
    live.roll_back(v)
    live.start(v)
    eventually(lambda: live.is_fenced(v) is not None)
    found = status(live)
    why = found["nodes"][v]["fenced"]
    assert "has seen" in why
    remedy = f"levywalk fleet rejoin {live.folder} {v}"
    assert f"node {v} is fenced: {why}; do: {remedy}" in found["waits"]
    problems = {one.remedy for one in examine(live.folder) if one.level == "problem"}
    assert remedy in problems
    other = (v + 2) % 5
    refused = typed("rejoin", live.folder, other)
    assert refused.exit_code != 0
    said = typed("rejoin", live.folder, v, "--timeout", PATIENCE)
    assert said.exit_code == 0, said.output
    assert (live.folder / f"node-{v}" / "fenced-1" / "state.db").exists()
    live.wait(live.pulse(), PATIENCE)
    eventually(lambda: takes_part(live, v))
    assert typed("stop", live.folder).exit_code == 0
    judge_folder(live.fleet, live.folder)  # I1 to I7: no step was made twice


def takes_part(live: RunningFleet, v: int) -> bool:
    one = status(live)["nodes"][v]
    return one["answers"] and one["fenced"] is None and one["edges_up"] == 2


@pytest.mark.more
def test_a_restart_of_the_whole_fleet_does_not_block(live: RunningFleet) -> None:
    for v in range(5):
        live.kill(v)
    since = max(one["step"] or 0 for one in status(live)["nodes"])
    for v in range(5):
        live.start(v)
    eventually(lambda: all(confirmed(live, v) for v in range(5)))
    eventually(lambda: live.pulse().step > since)
    assert live.pulse().epoch[0] == 0


@pytest.mark.more
def test_a_flood_of_tls_handshakes_does_not_keep_a_fleet_from_starting_again(
    live: RunningFleet,
) -> None:
    """Strangers without a certificate begin handshakes with all nodes while these start again, and
    leave half of them as they are. At most some thousands; they end with the test.
    """
    stranger = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    stranger.check_hostname, stranger.verify_mode = False, ssl.CERT_NONE
    files = FleetFolder.open(live.folder).files
    ports = [(one.listen.split(":")[0], int(one.listen.split(":")[1])) for one in files.values()]
    over, tries = threading.Event(), []

    def knocks(first: int) -> None:
        kept: list[socket.socket] = []
        for i in range(first, first + 2000):
            if over.is_set():
                break
            try:
                line = socket.create_connection(ports[i % len(ports)], 2.0)
            except OSError:
                over.wait(0.01)  # it does not listen yet
                continue
            kept.append(line)
            tries.append(i)
            if i % 2:
                with contextlib.suppress(OSError):
                    half = stranger.wrap_socket(line, do_handshake_on_connect=False)
                    kept.append(half)
                    half.setblocking(False)
                    half.do_handshake()  # sends its first message, and reads no answer
            for one in kept[:-100]:
                one.close()
            del kept[:-100]
        for one in kept:
            one.close()

    for v in range(5):
        live.kill(v)
    since = max(one["step"] or 0 for one in status(live)["nodes"])
    floods = [threading.Thread(target=knocks, args=(10_000 * k,)) for k in range(2)]
    for one in floods:
        one.start()
    try:
        for v in range(5):
            live.start(v)
        eventually(lambda: all(confirmed(live, v) for v in range(5)))
        eventually(lambda: live.pulse().step > since + 20)
    finally:
        over.set()
        for one in floods:
            one.join()
    assert len(tries) > 50


@pytest.mark.more
def test_a_guardian_that_restarts_beside_a_dead_node_waits_and_says_so(live: RunningFleet) -> None:
    guardian = live.catch("guardian", PATIENCE)
    _, guarded = live._disk(guardian)
    assert guarded is not None
    holder = guarded.holder
    live.kill(holder)
    live.kill(guardian)
    live.start(guardian)
    eventually(lambda: live.statuses().get(guardian, {}).get("awaits") == [holder])
    pulse = live.pulse()
    found = status(live)
    (said,) = [wait for wait in found["waits"] if wait.startswith(f"node {guardian} waits")]
    assert f"levywalk fleet gone {live.folder} {holder}" in said
    eventually(lambda: status(live)["stopped"] is not None)  # longer than dead_after
    assert live.pulse() == pulse
    problems = [one.what for one in examine(live.folder) if one.level == "problem"]
    assert any(what.startswith(f"node {guardian} waits until") for what in problems)
    assert typed("gone", live.folder, holder).exit_code == 0
    live.wait(pulse, PATIENCE)


@pytest.mark.more
def test_a_node_that_has_lied_is_let_in_again(live: RunningFleet) -> None:
    fleet, liar = FleetFolder.open(live.folder), 2
    keys = {v: Identity.open(live.folder / f"node-{v}").signer() for v in range(5)}
    hands, born = Hands(fleet.manifest.digest, keys), Epoch(0, 0, 0)
    made = fleet.manifest.first_token._replace(epoch=Epoch(1, 7, liar), seq=7)
    false = hands.link(LinkKind.REGENERATED, made, 1, born).opening
    lie = Lie(false, hands.released(liar, born, 7, 1, 3, bytes(32)))
    live.kill(1)
    limits = fleet.manifest.limits
    with NodeStore(live.state(1), fleet.manifest.digest, limits=limits) as store:
        store.persist(Persist({"liars": (lie,)}, ()))  # as if it had found out
    live.start(1)
    eventually(lambda: all(shut_out(live, v) == ["2"] for v in (0, 1, 3, 4)))
    remedies = [one.remedy for one in examine(live.folder) if one.level == "problem"]
    assert any(f"levywalk fleet rejoin {live.folder} 2 lets it in" in one for one in remedies)
    key = live.folder / "authority" / "operator.key"
    key.rename(key.with_name("elsewhere"))
    refused = typed("rejoin", live.folder, liar)
    assert refused.exit_code != 0
    assert "operator.key does not exist" in " ".join(refused.output.split())
    key.with_name("elsewhere").rename(key)
    said = typed("rejoin", live.folder, liar, "--timeout", PATIENCE)
    assert said.exit_code == 0, said.output
    eventually(lambda: all(shut_out(live, v) == [] for v in (0, 1, 3, 4)))
    eventually(lambda: takes_part(live, liar))
    live.wait(live.pulse(), PATIENCE)


def shut_out(live: RunningFleet, v: int) -> list[str]:
    return sorted(live.statuses().get(v, {}).get("liars", {"unknown": None}))


@pytest.mark.more
def test_two_clones_of_one_machine(live: RunningFleet) -> None:
    """Node 0 opens the connections to both of its neighbours, so both copies reach them."""
    live.kill(0)
    clone = live.folder.parent / "clone" / "node-0"
    shutil.copytree(live.folder / "node-0", clone, ignore=shutil.ignore_patterns("control", "lock"))
    text = (clone / "node.toml").read_text()
    listen = live.folder / "node-0"
    address = FleetFolder.open(live.folder).files[0].listen
    port = address.rpartition(":")[2]
    (clone / "node.toml").write_text(
        text.replace(f":{port}", f":{free_ports(1)[0]}", 1).replace(str(listen), str(clone))
    )
    live.start(0)
    eventually(lambda: confirmed(live, 0))
    pulse = live.pulse()
    live.wait(pulse._replace(step=pulse.step + 40), PATIENCE)
    with Running(clone) as second:
        eventually(lambda: bool(second.status()["fenced"]))
        assert second.status()["held"] is None or not second.status()["awaits"]
        live.wait(live.pulse(), PATIENCE)  # the first copy goes on
        eventually(lambda: confirmed(live, 0))
    assert typed("stop", live.folder).exit_code == 0
    judge_folder(live.fleet, live.folder)
