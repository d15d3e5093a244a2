"""Several tokens in one fleet: each is the walk of a simulation with its own key, they share nodes
and streams, and what belongs to one is of no use for another.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file
from typer.testing import CliRunner, Result

import levywalk as lw
from levywalk.cli.main import app
from levywalk.draws import token_keys
from levywalk.errors import InvalidParameter, InvalidSpec
from levywalk.fleet.checking.faults import drawing
from levywalk.fleet.checking.machines import made_of
from levywalk.fleet.checking.mutants import RedrawsAfterCrash
from levywalk.fleet.checking.token_worlds import play_tokens
from levywalk.fleet.checking.violation import Violation
from levywalk.fleet.identity.signing import new_signers
from levywalk.fleet.operate.folder import FleetFolder
from levywalk.fleet.operate.merge import merge
from levywalk.fleet.operate.whole_status import whole_status
from levywalk.fleet.protocol.events import Event, Got
from levywalk.fleet.protocol.messages import (
    Activate,
    Alive,
    Certified,
    Fenced,
    Finished,
    Guard,
    Released,
)
from levywalk.fleet.protocol.tensors import Malformed
from levywalk.fleet.protocol.terms import HandOffTerms
from levywalk.fleet.protocol.token import FIRST, Epoch
from levywalk.fleet.runtime import metrics
from levywalk.fleet.runtime.messages_pb2 import Frame
from levywalk.fleet.runtime.process import Process
from levywalk.fleet.runtime.token_runner import TokenRunner
from levywalk.fleet.runtime.wire import FORMAT, Hello, Reader, encode_frame, hello_frame
from levywalk.fleet.setup import build
from levywalk.fleet.setup.build import Fleet
from levywalk.fleet.setup.create import create
from levywalk.fleet.setup.manifest import Manifest
from levywalk.fleet.setup.read_fleet import fleet_of
from levywalk.fleet.simulate.virtual import PlannedFault, VirtualFleet
from levywalk.fleet.simulate.virtual_tokens import VirtualTokens
from levywalk.fleet.storage.limits import Limits
from levywalk.live.fleet_player import FleetPlayer
from levywalk.trace import Trace
from tests.fleet.nodes import stored, up
from tests.limits import PATIENCE, eventually, mostly_more

pytestmark = pytest.mark.filterwarnings("ignore:the minimiser is not unique")
ALIVE = Alive(Epoch(0, 0, 3), 7)
HELLO = Hello(FORMAT, bytes(32), bytes(16), "levywalk", b"")
N, STEPS, SEED = 6, 120, 5
NETWORK = lw.ring(N)
PROBLEM = lw.heterogeneous(N, dim=3, important=1, seed=1)
GIVEN: dict[str, Any] = {"steps": STEPS, "step_size": "theory", "seed": SEED}
RECORDED: dict[str, Any] = {"backend": "reference", "record_every": 10}
METHODS = {
    "mhlj": (lw.mhlj(), lw.sgd()),
    "saga": (lw.unif_rw(), lw.saga()),
    "least_used_edge": (lw.least_used_edge(), lw.saga()),
    "heavy_ball": (lw.mhlj(), lw.heavy_ball()),
}


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["fleet", *map(str, arguments)])


def alone(number: int, tokens: int, design: Any, update: Any, **given: Any) -> Trace:
    """The walk of one of several tokens, as a simulation with one token and that token's keys."""

    def own_key(seed: int, domain: Any, replicas: range, count: int) -> Any:
        assert (len(replicas), count) == (1, 1)
        return token_keys(seed, domain, replicas, tokens)[number : number + 1]

    with pytest.MonkeyPatch.context() as patched:
        engine = importlib.import_module("levywalk.engine.run")  # levywalk.engine.run is a function
        patched.setattr(engine, "token_keys", own_key)
        more = {"update": update, "record_walk": True}
        return lw.run(NETWORK, PROBLEM, design, **(GIVEN | RECORDED | more | given))


def same(trace: Trace, replica: int, other: Trace) -> None:
    """A replica of a trace is a walk, to the bit."""
    assert np.array_equal(trace.step, other.step)
    for name in ("walk", "model", "transfers", "hops", "distance2", "small_messages"):
        assert np.array_equal(getattr(trace, name)[replica], getattr(other, name)[0]), name


# The walks


@pytest.mark.parametrize(
    ("method", "tokens"),
    [
        ("mhlj", 3),
        ("saga", 2),
        *(pytest.param(name, 4, marks=pytest.mark.more) for name in METHODS),
    ],
)
def test_each_token_is_a_simulation_and_their_mean_is_that_of_several(
    method: str, tokens: int
) -> None:
    design, update = METHODS[method]
    fleet = Fleet.of(
        NETWORK, PROBLEM, design, update=update, tokens=tokens, record_every=10, **GIVEN
    )
    virtual = VirtualTokens(fleet, signed=method == "mhlj")
    assert virtual.run()
    for number, one in enumerate(virtual.each):
        same(merge(one.logs, one.fleet), 0, alone(number, tokens, design, update))
    models = np.array([one.final.model for one in virtual.each])
    assert len(np.unique(models, axis=0)) == tokens  # they are different walks
    trace = lw.run(
        NETWORK, PROBLEM, design, update=update, tokens=tokens, **GIVEN, backend="reference",
        record_visits=True,
    )  # fmt: skip
    assert np.array_equal((models / tokens).sum(axis=0), trace.model[0])
    assert sum(one.final.transfers for one in virtual.each) == trace.transfers[0, -1]


def test_tokens_start_where_those_of_a_simulation_do() -> None:
    fleet = Fleet.of(NETWORK, PROBLEM, lw.mhlj(), tokens=3, **GIVEN)
    walks = [alone(k, 3, lw.mhlj(), lw.sgd()).walk for k in range(3)]
    assert fleet.starts == tuple(int(walk[0, 0]) for walk in walks if walk is not None)
    one = Fleet.of(NETWORK, PROBLEM, lw.mhlj(), **GIVEN)
    assert (one.start, one.starts) == (fleet.start, ())
    given = Fleet.of(NETWORK, PROBLEM, lw.mhlj(), tokens=2, start=[[4, 1]], **GIVEN)
    assert given.starts == (4, 1)
    assert given.of_token(1).start == given.of_token(1).terms.start == 1


def test_nodes_draw_other_words_for_each_token() -> None:
    fleet = Fleet.of(NETWORK, PROBLEM, lw.mhlj(), tokens=3, shared_key=False, **GIVEN)
    assert len({fleet.of_token(k).key(v) for k in range(3) for v in range(N)}) == 3 * N


@pytest.mark.parametrize("method", mostly_more(METHODS, lambda name: name == "saga"))
def test_a_death_loses_updates_of_the_tokens_that_were_there_and_no_other(method: str) -> None:
    """The first token's holder dies, and each walk comes to its end in an epoch of its own."""
    design, update = METHODS[method]
    terms = HandOffTerms(b"faults", renew_after=7, heartbeat=0.1, dead_after=1.0, retry=0.05)
    fleet = Fleet.of(
        NETWORK, PROBLEM, design, update=update, tokens=2, terms=terms, record_every=1, **GIVEN
    )
    virtual = VirtualTokens(fleet)
    virtual.at(0.1, PlannedFault("kill", "holder"))  # the fastest walks take 0.17 s
    virtual.at(0.15, PlannedFault("gone", "holder"))
    assert virtual.run()
    killed = [{told.node for told in one.reports if told.what == "kill"} for one in virtual.each]
    assert killed[0] == killed[1] != set()
    traces = [merge(one.logs, one.fleet) for one in virtual.each]
    assert traces[0].provenance["fleet"]["epochs"][-1]["epoch"][0] > 0
    assert [int(trace.step[-1]) for trace in traces] == [STEPS, STEPS]


@pytest.mark.parametrize("seeds", mostly_more([range(2), range(2, 40)], lambda one: 0 in one))
@pytest.mark.parametrize("memory", [False, True])
def test_random_faults_keep_the_invariants_of_each_token(seeds: range, memory: bool) -> None:
    found = [outcome for seed in seeds for outcome in play_tokens(drawing(memory=memory)(seed))]
    assert sum(one.finished for one in found) > 0.7 * len(found)
    assert all(one.faults.total() > 0 for one in found)


def test_a_fault_in_the_protocol_is_found_with_several_tokens() -> None:
    def broken() -> int:
        for seed in range(40):
            try:
                play_tokens(drawing()(seed), make=made_of(RedrawsAfterCrash))
            except Violation:
                return seed
        return -1

    assert broken() >= 0


class Overheard(VirtualFleet):
    """A virtual fleet whose signed messages are written down."""

    def __init__(self, fleet: Fleet) -> None:
        self.heard: list[tuple[int, Got]] = []
        super().__init__(fleet, signed=True)

    def _push(self, time: float, v: int, event: Event | PlannedFault) -> None:
        super()._push(time, v, event)
        signed = Activate | Certified | Fenced | Finished | Guard | Released
        if isinstance(event, Got) and isinstance(event.message, signed):
            self.heard.append((v, event))


def told_of_the_other(monkeypatch: pytest.MonkeyPatch) -> VirtualFleet:
    """Two tokens that start at one node, so that their epochs have the same names. In the middle of
    the second walk all that nodes have signed for the first is sent again, as if it were about the
    second.
    """
    signers = new_signers([-1, *range(N)])
    monkeypatch.setattr("levywalk.fleet.simulate.virtual.new_signers", lambda _: signers)
    given = GIVEN | {"steps": 40}
    fleet = Fleet.of(NETWORK, PROBLEM, lw.mhlj(), tokens=2, start=[[2, 2]], **given)
    first, second = Overheard(fleet.of_token(0)), Overheard(fleet.of_token(1))
    assert first.run()
    while len(second.heard) < 20:
        second.step()
    for v, event in first.heard:
        second._push(second.now, v, event)
    second.run()
    return second


def test_what_is_signed_for_one_token_is_of_no_use_for_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected = alone(1, 2, lw.mhlj(), lw.sgd(), start=2, steps=40)
    final = told_of_the_other(monkeypatch).final
    assert np.array_equal(final.model, expected.model[0])
    assert final.epoch.counter == 0
    # If the tokens had one name of the run, the end of the first would be believed of the second,
    # and the holder's new epoch would not.
    monkeypatch.setattr(build, "run_of_token", lambda run, number: run)
    other = told_of_the_other(monkeypatch)
    assert not other.over
    assert not np.array_equal(other.final.model, expected.model[0])


# Settings


@pytest.mark.parametrize("tokens", [0, -1, 65, 1.5, "two"])
def test_a_wrong_number_of_tokens_is_refused(tmp_path: Path, tokens: Any) -> None:
    with pytest.raises(InvalidParameter, match="tokens must be"):
        create(tmp_path / "fleet", NETWORK, PROBLEM, lw.mhlj(), tokens=tokens, **GIVEN)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--tokens", "0"], "--tokens must be"),
        (["--tokens", "2", "--then", "weight_rw"], "--tokens must be 1 for a switching design"),
        (["--tokens", "2", "--stop", "detector"], "--tokens must be 1 with --stop detector"),
    ],
)  # fmt: skip
def test_what_several_tokens_cannot_do_is_refused_by_its_name(
    tmp_path: Path, options: list[str], says: str
) -> None:
    from levywalk.remedy import command_line

    with command_line():
        done = run("init", "--network", "ring:8", *options, tmp_path / "fleet")
    assert done.exit_code != 0
    assert says in str(done.exception)
    assert not (tmp_path / "fleet").exists()


def test_the_manifest_of_one_token_says_nothing_of_tokens() -> None:
    one = Manifest.of(Fleet.of(NETWORK, PROBLEM, lw.mhlj(), **GIVEN), run="0" * 16)
    assert b"starts" not in one.text
    assert one.of_token(0) is one
    two = Manifest.of(Fleet.of(NETWORK, PROBLEM, lw.mhlj(), tokens=2, **GIVEN), run="0" * 16)
    assert two.of_token(0) is two
    later = two.of_token(1)
    assert (later.start, later.text, later.published) == (two.starts[1], two.text, two.published)
    assert later.digest == later.terms.run != two.digest
    assert later.of_token(1) is later
    with pytest.raises(InvalidParameter, match="token must be"):
        two.of_token(2)


@pytest.mark.parametrize("starts", [[], [0], [1, 0], [0, 6], [0, -1], [0, 1.0], "01", [0] * 65])
def test_wrong_starts_are_refused(starts: Any) -> None:
    fleet = Fleet.of(NETWORK, PROBLEM, lw.mhlj(), tokens=2, start=0, **GIVEN)
    content = json.loads(Manifest.of(fleet).text)
    assert content["walk"]["starts"] == [0, 0]
    content["walk"]["starts"] = starts
    with pytest.raises(InvalidSpec, match="starts must be a list of 2 to 64 nodes"):
        Manifest.parse(json.dumps(content).encode())


def test_a_switching_design_in_the_manifest_of_several_tokens_is_refused() -> None:
    design = lw.switching(lw.mhlj(), lw.weight_rw())
    content = json.loads(Manifest.of(Fleet.of(NETWORK, PROBLEM, design, **GIVEN)).text)
    content["walk"]["starts"] = [content["walk"]["start"]] * 2
    with pytest.raises(InvalidSpec, match="must be 1 for a switching design"):
        Manifest.parse(json.dumps(content).encode())


# The disks of a node


def two_tokens(folder: Path, **more: Any) -> FleetFolder:
    given = GIVEN | {"tokens": 2, "shared_key": True, "record_every": 10} | more
    create(folder, NETWORK, PROBLEM, lw.mhlj(), **given)
    return FleetFolder.open(folder)


def closed(process: Process) -> None:
    for one in process.runners:
        one.store.close()


def test_each_token_has_a_disk_and_all_or_none_are_there(tmp_path: Path) -> None:
    state = two_tokens(tmp_path / "fleet").files[3].state
    file = tmp_path / "fleet" / "node-3" / "node.toml"
    process = Process(file)
    runs = [one.store.load() is not None and one.manifest.digest for one in process.runners]
    assert len(set(runs)) == 2
    closed(process)
    closed(Process(file))  # nothing is missing
    shutil.move(state / "token-1", tmp_path / "aside")
    with pytest.raises(InvalidParameter, match="no disk of token 1, but the node has run before"):
        Process(file)
    shutil.rmtree(state / "token-1")
    shutil.move(tmp_path / "aside", state / "token-1")
    closed(Process(file))


def killed_at_first_start(file: Path, number: int) -> None:
    """Start a node for the first time, and let it be killed before the disk of a token is written.
    Those of later tokens are written by then.
    """
    write_blank = TokenRunner.write_blank

    def killed(runner: TokenRunner) -> Any:
        if runner.number == number:
            closed(runner.process)
            raise RuntimeError("killed")
        return write_blank(runner)

    with pytest.MonkeyPatch.context() as during:
        during.setattr(TokenRunner, "write_blank", killed)
        with pytest.raises(RuntimeError, match="killed"):
            Process(file)


def test_a_first_start_that_was_interrupted_is_made_up_for(tmp_path: Path) -> None:
    two_tokens(tmp_path / "fleet")
    file = tmp_path / "fleet" / "node-3" / "node.toml"
    killed_at_first_start(file, 0)
    process = Process(file)
    assert [one.node.disk.known.epoch for one in process.runners] == [FIRST, FIRST]
    closed(process)


def test_metrics_name_the_token(tmp_path: Path) -> None:
    two_tokens(tmp_path / "two")
    process = Process(tmp_path / "two" / "node-3" / "node.toml")
    lines = metrics.text(process).splitlines()
    assert 'levywalk_step{node="3",token="0"} 0' in lines
    assert 'levywalk_step{node="3",token="1"} 0' in lines
    assert 'levywalk_neighbours{node="3"} 2' in lines
    assert sum(line.startswith("# TYPE levywalk_step ") for line in lines) == 1
    closed(process)
    create(tmp_path / "one", NETWORK, PROBLEM, lw.mhlj(), **GIVEN)
    process = Process(tmp_path / "one" / "node-3" / "node.toml")
    assert "token=" not in metrics.text(process)
    closed(process)


# The commands, for disks of a virtual fleet


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> FleetFolder:
    """A fleet of two tokens whose walks are over; its nodes do not run."""
    folder = tmp_path_factory.mktemp("tokens") / "fleet"
    two_tokens(folder)
    virtual = VirtualTokens(fleet_of(folder))
    assert virtual.run()
    for one in virtual.each:
        stored(folder, one)
    return FleetFolder.open(folder)


def test_the_status_has_one_line_for_each_token(stopped: FleetFolder) -> None:
    found = json.loads(run("status", stopped.path, "--json").stdout)
    assert [(one["token"], one["step"], one["epoch"]) for one in found["tokens"]] == [
        (0, STEPS, 0),
        (1, STEPS, 0),
    ]
    assert found["finished"]
    assert (found["lost_updates"], found["stopped"], found["nodes_down"]) == (0, None, N)
    assert found["waits"] == ["no node runs"]  # once, since it is the same for both
    said = run("status", stopped.path).stdout
    for number in (0, 1):
        ended = found["tokens"][number]["holder"]
        assert f"token {number}" in said
        assert f"it ended at node {ended}" in said
    of_one = json.loads(run("status", stopped.path, "--token", 1, "--json").stdout)
    assert of_one["holder"] == found["tokens"][1]["holder"]
    assert "tokens" not in of_one


def test_the_trace_has_a_replica_for_each_token(stopped: FleetFolder, tmp_path: Path) -> None:
    done = run("trace", stopped.path, "--out", tmp_path / "walk.nc")
    assert f"{STEPS} updates of each of 2 tokens" in done.stdout
    trace = lw.load_trace(tmp_path / "walk.nc")
    assert trace.replicas == 2
    for number in (0, 1):
        expected = alone(number, 2, lw.mhlj(), lw.sgd())
        same(trace, number, expected)
        run("trace", stopped.path, "--token", number, "--out", tmp_path / "one.nc")
        same(lw.load_trace(tmp_path / "one.nc"), 0, expected)
    assert [one["token"] for one in trace.provenance["fleet"]["tokens"]] == [0, 1]


def test_the_model_is_the_mean_of_the_tokens_or_that_of_one(
    stopped: FleetFolder, tmp_path: Path
) -> None:
    out = tmp_path / "model"
    done = run("model", stopped.path, "--out", out)
    assert "the mean of the models of 2 tokens, after 120, 120 updates" in done.stdout
    trace = lw.run(NETWORK, PROBLEM, lw.mhlj(), tokens=2, **GIVEN, **RECORDED)
    assert np.array_equal(load_file(out)["model"], trace.model[0])
    run("model", stopped.path, "--token", 1, "--out", out)
    expected = alone(1, 2, lw.mhlj(), lw.sgd())
    assert np.array_equal(load_file(out)["model"], expected.model[0])


@pytest.mark.parametrize("command", ["status", "trace", "model", "revive", "logs"])
@pytest.mark.parametrize("number", [5, -1])
def test_a_token_that_is_not_there_is_refused(
    stopped: FleetFolder, command: str, number: int
) -> None:
    done = run(command, stopped.path, "--token", number)
    assert done.exit_code != 0
    assert f"--token must be from 0 to 1, because the fleet has 2 tokens, got {number}" in str(
        done.exception
    )


def test_revive_needs_the_token(stopped: FleetFolder) -> None:
    assert "--token must be given" in str(run("revive", stopped.path).exception)
    assert run("revive", stopped.path, "--token", 1).exit_code == 1  # its walk is over


def test_the_doctor_looks_at_each_token(stopped: FleetFolder, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(stopped.path, copy)
    fleet = FleetFolder.open(copy)
    (fleet.token(1).files[2].state / "state.db").write_bytes(b"no database" * 1000)
    found = json.loads(run("doctor", copy, "--scrub", "--json").stdout)["findings"]
    about = [one["what"] for one in found if one["level"] == "problem"]
    assert about
    assert all(what.startswith("token 1: node 2") for what in about)
    assert run("prune", copy, "--node", 0, "--keep-mib", 0).exit_code == 0


@pytest.mark.more
def test_simulate_takes_several_tokens(tmp_path: Path) -> None:
    done = run(
        "simulate", "ring:6", "--steps", 60, "--tokens", 2, "--kill", "3@0.05", "--restart",
        "3@0.1", "--out", tmp_path / "out", "--json",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert [one["summary"]["finished"] for one in found["tokens"]] == [True, True]
    assert (tmp_path / "out" / "token-1" / "trace.nc").is_file()
    said = run("simulate", "ring:6", "--steps", 60, "--tokens", 2, "--out", tmp_path / "out")
    assert "Token 1, which starts at node" in said.stdout


# Real processes


QUICK = HandOffTerms(b"", renew_after=20, heartbeat=0.25, dead_after=PATIENCE, retry=0.2)


@pytest.mark.more
def test_real_nodes_carry_two_tokens_through_kills(tmp_path: Path) -> None:
    """The commands are typed while they walk, and both walks are those of the simulation."""
    steps = 600
    fleet = two_tokens(tmp_path / "fleet", steps=steps, terms=QUICK)
    with up(fleet):
        for share in (0.2, 0.5):
            eventually(lambda at=share: whole_status(fleet)["tokens"][0]["step"] > at * steps)
            now = whole_status(fleet)
            number = 0 if share < 0.5 else 1
            holder = now["tokens"][number]["holder"]
            os.kill(now["nodes"][holder]["pid"], signal.SIGKILL)
            fleet.up(PATIENCE)
        said = run("status", fleet.path).stdout
        assert "token 0" in said
        assert "token 1" in said
        assert run("model", fleet.path, "--now", "--out", tmp_path / "now").exit_code == 0
        assert run("trace", fleet.path, "--out", tmp_path / "now.nc").exit_code == 0
        eventually(lambda: whole_status(fleet)["finished"])
        for number in (0, 1):
            assert f"token {number}: the walk is over" in run("logs", fleet.path).stdout
        found = whole_status(fleet)
        assert [one["lost_updates_at_most"] for one in found["tokens"]] == [0, 0]
        run("trace", fleet.path, "--out", tmp_path / "walk.nc")
        trace = lw.load_trace(tmp_path / "walk.nc")
        for number in (0, 1):
            same(trace, number, alone(number, 2, lw.mhlj(), lw.sgd(), steps=steps))
        run("model", fleet.path, "--out", tmp_path / "model")
        given = GIVEN | RECORDED | {"steps": steps}
        expected = lw.run(NETWORK, PROBLEM, lw.mhlj(), tokens=2, **given)
        assert np.array_equal(load_file(tmp_path / "model")["model"], expected.model[0])


@pytest.mark.more
def test_an_operator_elsewhere_and_the_live_page_see_each_token(tmp_path: Path) -> None:
    fleet = two_tokens(tmp_path / "fleet", terms=QUICK, operator_port=0)
    with up(fleet):
        eventually(lambda: whole_status(fleet)["finished"])
        away = fleet.path / "operator"
        found = json.loads(run("status", away, "--json").stdout)
        assert [one["step"] for one in found["tokens"]] == [STEPS, STEPS]
        run("trace", away, "--out", tmp_path / "walk.nc")
        trace = lw.load_trace(tmp_path / "walk.nc")
        for number in (0, 1):
            expected = alone(number, 2, lw.mhlj(), lw.sgd())
            same(trace, number, expected)
            out = tmp_path / f"model-{number}"
            done = run("model", away, "--token", number, "--out", out)
            assert done.exit_code == 0, done.output
            assert np.array_equal(load_file(out)["model"], expected.model[0])
        assert run("doctor", away).exit_code == 0
        for place in (fleet.path, away):
            player = FleetPlayer(place, 1)
            assert player.title.endswith("token 1 of 2")
            assert player.hello()["frame"]["holder"] == found["tokens"][1]["holder"]


@pytest.mark.more
def test_a_token_is_revived_while_the_other_goes_on(tmp_path: Path) -> None:
    """The holder and the guardian of the second token lose their disks."""
    terms = replace(QUICK, heartbeat=0.3, dead_after=2.0)
    fleet = two_tokens(tmp_path / "fleet", steps=10**6, terms=terms)

    def steps() -> list[int]:
        return [one["step"] for one in whole_status(fleet)["tokens"]]

    with up(fleet):
        eventually(lambda: min(steps()) > 20)
        fleet.stop(PATIENCE)
        lost = whole_status(fleet)["tokens"][1]
        for v in {lost["holder"], lost["guardian"]}:
            shutil.rmtree(fleet.files[v].state)
        fleet.up(PATIENCE)
        eventually(lambda: fleet.token(1).status()["stopped"])
        said = whole_status(fleet)["stopped"]
        assert f"levywalk fleet revive {fleet.path} --token 1" in said
        done = run("revive", fleet.path, "--token", 1)
        assert done.exit_code == 0, done.output
        assert "The walk continues from step" in done.output
        if "--token 0" in said:  # those nodes may have been what the first token needs, too
            assert run("revive", fleet.path, "--token", 0).exit_code == 0
        before = steps()
        eventually(lambda: all(now > then for now, then in zip(steps(), before, strict=True)))
        assert whole_status(fleet)["tokens"][1]["epoch"] > 0


# The wire


def test_the_first_token_takes_no_byte_and_others_take_two() -> None:
    plain, first, later = (
        encode_frame(3, ALIVE)[0],
        *(encode_frame(3, ALIVE, token=number)[0] for number in (0, 63)),
    )
    assert first == plain
    assert len(later) == len(plain) + 2


def test_a_reader_says_which_token_a_message_is_about() -> None:
    reader = Reader(Limits(dim=2, phases=1, memory=0), 3, tokens=3)
    reader.take(hello_frame(3, HELLO))
    for number in (2, 0, 1):
        assert reader.take(encode_frame(3, ALIVE, token=number)[0]) == (ALIVE, b"")
        assert reader.token == number


@pytest.mark.parametrize(("tokens", "number"), [(1, 1), (2, 2), (64, 2**32 - 1)])
def test_a_token_that_the_fleet_does_not_have_is_refused(tokens: int, number: int) -> None:
    reader = Reader(Limits(dim=2, phases=1, memory=0), 3, tokens)
    reader.take(hello_frame(3, HELLO))
    with pytest.raises(Malformed, match=f"about token {number}, but there are tokens 0 to"):
        reader.take(encode_frame(3, ALIVE, token=number)[0])


def test_a_hello_is_about_all_tokens() -> None:
    frame = Frame.FromString(hello_frame(3, HELLO))
    frame.token = 1
    with pytest.raises(Malformed, match="about token 1"):
        Reader(Limits(dim=2, phases=1, memory=0), 3, tokens=2).take(frame.SerializeToString())
