"""Nodes join a fleet with several tokens: every token learns the size by a record of its own, and
uses it exactly as the token of a fleet with one does.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import levywalk as lw
from levywalk.cli.main import app
from levywalk.errors import InvalidSpec
from levywalk.fleet.checking.faults import drawing
from levywalk.fleet.checking.growing import SizeAt, founded_by, size_of
from levywalk.fleet.checking.log_pieces import pieces
from levywalk.fleet.checking.logs import judge_folder
from levywalk.fleet.checking.token_worlds import play_tokens
from levywalk.fleet.checking.violation import Violation
from levywalk.fleet.checking.walk_replay import check_replay
from levywalk.fleet.operate import join as joining
from levywalk.fleet.operate.folder import FleetFolder
from levywalk.fleet.operate.join import join
from levywalk.fleet.operate.merge import merge
from levywalk.fleet.operate.whole_status import whole_status
from levywalk.fleet.protocol.events import Got, Notice
from levywalk.fleet.protocol.fleet_size import FleetSize
from levywalk.fleet.protocol.messages import Sized
from levywalk.fleet.protocol.node import Node
from levywalk.fleet.protocol.records import NewSize, Spending
from levywalk.fleet.protocol.terms import HandOffTerms
from levywalk.fleet.protocol.token import Token
from levywalk.fleet.runtime.process import Process
from levywalk.fleet.setup.budget_file import BUDGET
from levywalk.fleet.setup.build import Fleet
from levywalk.fleet.setup.create import create
from levywalk.fleet.setup.manifest import Manifest
from levywalk.fleet.setup.read_fleet import fleet_of
from levywalk.fleet.setup.size_file import read_size, size_file, sizes_of_tokens, write_size
from levywalk.fleet.simulate.virtual import PlannedFault, VirtualFleet
from levywalk.fleet.simulate.virtual_tokens import VirtualTokens
from tests.fleet.nodes import up
from tests.limits import PATIENCE, eventually, mostly_more

pytestmark = pytest.mark.filterwarnings("ignore:the minimiser is not unique")
N = 7  # nodes at the end; the last one joins
TERMS = HandOffTerms(run=b"join", heartbeat=0.5, dead_after=5.0, retry=0.2)
METHODS = {
    "importance": (lw.mhlj(), lw.sgd()),
    "mixed": (lw.mixed_rw(0.5), lw.sgd()),
    "saga": (lw.unif_rw(), lw.saga()),
}
WHERE = "10.0.0.4:7400"


def grown(method: str, **more: Any) -> Fleet:
    """Return a fleet of seven nodes and two tokens that was created for six nodes."""
    design, update = METHODS[method]
    problem = lw.heterogeneous(N, dim=3, seed=1, important=2)
    given = {"steps": 1000, "step_size": 0.01, "seed": 4, "tokens": 2, "start": [[0, 3]]} | more
    network = lw.watts_strogatz(N, 4, 0.3, seed=2)
    return founded_by(
        Fleet.of(network, problem, design, update=update, terms=TERMS, **given), N - 1
    )


def joined(fleet: Fleet, **settings: Any) -> VirtualTokens:
    virtual = VirtualTokens(fleet, absent={N - 1}, grows=size_of(fleet, N), **settings)
    virtual.at(0.5, PlannedFault("join", N - 1))
    assert virtual.run()
    return virtual


def sizes_used(one: VirtualFleet) -> dict[int, SizeAt]:
    """Return from which steps on which size was used, as the logs of a token say."""
    first = size_of(one.fleet, N - 1)
    lines = [line for log in one.logs.values() for line in log if isinstance(line, NewSize)]
    found = {0: SizeAt(first.nodes, first.mean_smoothness)}
    return found | {line.step: SizeAt(line.nodes, line.mean_smoothness) for line in lines}


# The walks


@pytest.mark.parametrize("method", mostly_more(METHODS, lambda name: name == "importance"))
def test_every_update_of_each_token_is_that_of_its_size(method: str) -> None:
    fleet = grown(method)
    virtual = joined(fleet, signed=method == "importance")
    for one in virtual.each:
        assert one.final.size == 1
        assert {machine.disk["size"][:3] for machine in one.machines} == {size_of(fleet, N)[:3]}
        trace, sizes = merge(one.logs, one.fleet), sizes_used(one)
        assert trace.walk is not None
        walk = [*trace.walk[0].tolist(), int(trace.final_node[0])]
        assert len(sizes) == 2
        at = max(sizes)
        assert N - 1 in walk[at:]
        assert N - 1 not in walk[:at]
        check_replay(one.fleet, walk, one.final, sizes=sizes)
        for wrong in ({0: sizes[0]}, {0: sizes[at]}, {0: sizes[0], at + 1: sizes[at]}):
            with pytest.raises(Violation):
                check_replay(one.fleet, walk, one.final, sizes=wrong)


def test_the_law_of_each_token_after_the_join_is_the_target_of_all_nodes() -> None:
    """By exact linear algebra, from what the nodes know at the end; t̄ is the mean score."""
    fleet = grown("importance")
    virtual = joined(fleet)
    target = fleet.problem.smoothness
    for one in virtual.each:
        one.run(until=one.now + 20 * TERMS.heartbeat)
        P = np.zeros((N, N))
        for v in range(N):
            site = one.node(v).site
            view = site.views[0]
            t, d = view.score, view.degree
            for u, other_d, other_t in zip(
                view.neighbours, view.neighbour_degrees, view.neighbour_scores, strict=True
            ):
                P[v, u] = min(t / d, other_t / other_d) / t
            P[v, v] = 1.0 - P[v].sum()
            assert site.published.method.n == N
            mean = site.published.phases[0].mean_score
            assert mean == pytest.approx(target.mean(), rel=1e-14)
            assert site.published.phases[0].weight(t) == pytest.approx(target.mean() / target[v])
        values, vectors = np.linalg.eig(P.T)
        law = np.real(vectors[:, np.argmax(np.real(values))])
        np.testing.assert_allclose(law / law.sum(), target / target.sum(), atol=1e-12)


@pytest.mark.parametrize("seeds", mostly_more([range(4), range(4, 60)], lambda one: 0 in one))
def test_fleets_that_grow_among_faults_keep_the_invariants_of_each_token(seeds: range) -> None:
    found = [outcome for seed in seeds for outcome in play_tokens(drawing(grows=True)(seed))]
    assert sum(one.finished for one in found) > 0.7 * len(found)
    assert sum(one.faults["grows"] for one in found) > 2 * len(found)


def test_a_token_that_does_not_say_which_size_it_used_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def silent(self: Node, token: Token) -> Token:
        size = self.disk.size
        return token if size is None else token._replace(size=size.version)

    def played() -> None:
        for seed in range(8):
            play_tokens(drawing(grows=True)(seed))

    monkeypatch.setattr(Node, "_with_size", silent)
    with pytest.raises(Violation):
        played()


def test_the_word_for_one_token_is_of_no_use_for_another() -> None:
    fleet = grown("importance")
    first = VirtualFleet(fleet.of_token(0), signed=True)
    second = VirtualFleet(fleet.of_token(1), signed=True)
    second.signers = first.signers
    word = first._signed_size(size_of(fleet, N))
    near = int(fleet.network.neighbours(2)[0])
    for one, takes in ((first, True), (second, False)):
        machine = one.fleet.node(2, None, first.signers[2])
        effects = machine.receive(Got(near, Sized(word)), one.now)
        assert (machine.disk.size == word) is takes
        refused = [e for e in effects if isinstance(e, Notice) and e.what == "refused"]
        assert bool(refused) is not takes


# The folder


def scattered(folder: Path, tokens: int = 2, **more: Any) -> FleetFolder:
    """Make a fleet whose nodes are on other machines, so that none has to run."""
    given: dict[str, Any] = {"design": lw.mhlj(), "step_size": "theory", "steps": 50} | more
    design = given.pop("design")
    create(
        folder, lw.ring(3), lw.heterogeneous(3, dim=4, seed=1), design, name="test",
        addresses=[f"10.0.0.{v}:7400" for v in range(1, 4)], operator_port=7500, tokens=tokens,
        **given,
    )  # fmt: skip
    return FleetFolder.open(folder)


def founded(fleet: FleetFolder) -> Manifest:
    return Manifest.parse(fleet.manifest.text)


def test_the_size_is_signed_for_each_token(tmp_path: Path) -> None:
    fleet = scattered(tmp_path / "fleet", 3)
    found = join(fleet, [0, 2], smoothness=3.0, address=WHERE)
    mean = (3 * fleet.manifest.mean_smoothness + 3.0) / 4
    for folder in (fleet.path, fleet.path / "node-3"):
        sizes = sizes_of_tokens(folder, founded(fleet))
        assert [one[:3] for one in sizes if one is not None] == [(1, 4, mean)] * 3
        assert len({one.signature for one in sizes if one is not None}) == 3
    assert found.size == read_size(fleet.path, founded(fleet))
    after = FleetFolder.open(fleet.path)
    assert [one.manifest.nodes for one in after.each] == [4, 4, 4]
    assert Manifest.read(fleet.path / "operator" / "manifest.json").nodes == 4
    again = join(after, [3], smoothness=1.0, address="10.0.0.5:7400")
    assert (again.node, again.size[:2]) == (4, (2, 5))
    versions = [one and one.version for one in sizes_of_tokens(fleet.path, founded(fleet))]
    assert versions == [2, 2, 2]


def test_the_file_of_one_token_is_of_no_use_for_another(tmp_path: Path) -> None:
    fleet = scattered(tmp_path / "fleet")
    join(fleet, [0, 2], smoothness=3.0, address=WHERE)
    size = read_size(fleet.path, founded(fleet))
    assert isinstance(size, FleetSize)
    write_size(fleet.path, size, 1)
    with pytest.raises(InvalidSpec, match=r"size-token-1\.json: the operator has not signed"):
        sizes_of_tokens(fleet.path, founded(fleet))


def closed(process: Process) -> list[FleetSize | None]:
    for one in process.runners:
        one.store.close()
    return [one.node.disk.size for one in process.runners]


def test_a_node_that_starts_learns_the_size_of_every_token(tmp_path: Path) -> None:
    fleet = scattered(tmp_path / "fleet")
    assert closed(Process(fleet.place(1) / "node.toml")) == [None, None]
    data = tmp_path / "new.npz"
    np.savez(data, features=np.ones((1, 4)), targets=np.ones(1))
    join(fleet, [0, 2], data=data, address=WHERE)
    sizes = sizes_of_tokens(fleet.path, founded(fleet))
    process = Process(fleet.path / "node-3" / "node.toml")
    assert [one.manifest.nodes for one in process.runners] == [4, 4]
    assert [one.node.published.method.n for one in process.runners] == [4, 4]
    assert closed(process) == sizes
    for number, size in enumerate(sizes):  # as the operator's order about the others is carried
        assert size is not None
        write_size(fleet.place(1), size, number)
    assert closed(Process(fleet.place(1) / "node.toml")) == sizes
    for number in range(2):
        (fleet.place(1) / size_file(number)).unlink()
    assert closed(Process(fleet.place(1) / "node.toml")) == sizes  # they are on its disks


def known_of(folder: Path) -> list[object]:
    """Return all that a fleet's folder knows of its nodes, keys and signatures aside."""
    fleet = FleetFolder.open(folder)
    sizes = [one and one[:3] for one in sizes_of_tokens(folder, founded(fleet))]
    return [sizes, fleet.manifest.nodes, fleet.neighbours(), fleet.files[0].neighbours[-1].address]


@pytest.mark.parametrize(
    ("stage", "calls"),
    [("_tell", 0), ("_tell", 1), ("write_size", 0), ("write_size", 1), ("_add_edges", 0)],
)
def test_a_join_that_is_interrupted_is_finished_by_typing_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str, calls: int
) -> None:
    """Before or after a stage, and between the files of two tokens."""
    whole, fleet = scattered(tmp_path / "whole"), scattered(tmp_path / "fleet")
    more: dict[str, Any] = {"smoothness": 3.0, "address": WHERE}
    join(whole, [0, 2], **more)
    done, made = getattr(joining, stage), []

    def interrupted(*given: object) -> None:
        if len(made) < calls:
            made.append(given)
            done(*given)
            if stage != "_tell":
                return
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(joining, stage, interrupted)
        with pytest.raises(KeyboardInterrupt):
            join(fleet, [0, 2], **more)
    before = (fleet.path / "node-3" / size_file(1)).read_bytes()
    join(FleetFolder.open(fleet.path), [0, 2], **more)
    assert known_of(fleet.path) == known_of(whole.path)
    assert (fleet.path / size_file(1)).read_bytes() == before  # no second record was signed
    assert not [*fleet.path.glob("node-*/joining.json")]


def test_every_token_of_every_node_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node counts as told when it has the records of all tokens."""
    fleet = scattered(tmp_path / "fleet")
    asked: list[tuple[int, int, str]] = []

    def ask(self: FleetFolder, node: int, do: str, /, **about: Any) -> dict[str, Any]:
        asked.append((node, self.manifest.token_number, about["signature"]))
        if (node, self.manifest.token_number) == (1, 1):
            raise joining.control.NoAnswer("killed")
        return {"done": True}

    monkeypatch.setattr(FleetFolder, "ask", ask)
    found = join(fleet, [0, 2], smoothness=3.0, address=WHERE)
    assert found.told == [0, 2]
    signed = [one and one.signature.hex() for one in sizes_of_tokens(fleet.path, founded(fleet))]
    assert asked == [(v, k, signed[k]) for v in range(3) for k in range(2)]


def test_a_newcomer_has_one_budget_for_all_tokens(tmp_path: Path) -> None:
    """With released scores, which are published once, whatever the number of tokens."""
    privacy = lw.Privacy(
        5.0, 20.0, 4.0, scores="released", score_low=0.1, score_high=100.0, score_noise=4.0
    )
    fleet = scattered(tmp_path / "fleet", privacy=privacy, step_size=0.002, steps=500)
    bound = fleet.manifest.published.privacy
    assert bound is not None
    assert 1 < bound.cap < 500
    data = tmp_path / "new.npz"
    np.savez(data, features=np.ones((1, 4)), targets=np.ones(1))
    join(fleet, [0, 2], data=data, address=WHERE)
    at = fleet.path / "node-3"
    assert json.loads((at / BUDGET).read_text())["spent"] == 0
    process = Process(at / "node.toml")
    spent = [one.node.disk.spent for one in process.runners]
    assert spent == [Spending(0, first=True)] * 2
    assert len({one.manifest.mean_smoothness for one in process.runners}) == 1
    closed(process)
    assert not (at / BUDGET).exists()


# Real processes


@pytest.mark.more
def test_real_nodes_of_two_tokens_are_joined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command is killed when the first token knows the size and the second does not, and typed
    again. The walks of both are made again to the bit, with the n and the L̄ that each used.
    """
    terms = HandOffTerms(run=b"", heartbeat=0.5, dead_after=PATIENCE)
    problem = lw.heterogeneous(3, dim=4, seed=1, important=1)
    create(
        tmp_path / "fleet", lw.ring(3), problem, lw.mhlj(), steps=1_000_000, step_size="theory",
        name="test", terms=terms, tokens=2, metrics=False, operator_port=0, record_every=1,
    )  # fmt: skip
    fleet, data = FleetFolder.open(tmp_path / "fleet"), tmp_path / "new.npz"
    rng = np.random.default_rng(3)
    np.savez(data, features=1.5 * rng.normal(size=(1, 4)), targets=np.ones(1))
    words = ["fleet", "join", str(fleet.path), "--neighbours", "0,2", "--data", str(data)]
    with up(fleet):
        try:
            told = FleetFolder.ask

            def killed(one: FleetFolder, node: int, do: str, /, **about: Any) -> dict[str, Any]:
                if do == "size" and one.manifest.token_number:
                    raise KeyboardInterrupt
                return told(one, node, do, **about)

            with monkeypatch.context() as patch:
                patch.setattr(FleetFolder, "ask", killed)
                with pytest.raises(KeyboardInterrupt):
                    join(fleet, [0, 2], data=data, timeout=PATIENCE)
            sizes = [one.node_views(PATIENCE)[0].about["size"] for one in fleet.each]
            assert sizes == [[1, 4], None]
            shown = CliRunner().invoke(app, words)
            assert shown.exit_code == 0, shown.output
            assert "Node 3 joins: the fleet has 4 nodes now" in shown.output
            after = FleetFolder.open(fleet.path)

            def visited() -> bool:
                views = [one.node_views(PATIENCE) for one in after.each]
                sizes = [one.about["size"] for each in views for one in each]
                return sizes == [[1, 4]] * 8 and all(each[3].last is not None for each in views)

            eventually(visited)
            away = fleet.path / "operator"
            found = json.loads(
                CliRunner().invoke(app, ["fleet", "status", str(away), "--json"]).stdout
            )
            assert [row["id"] for row in found["nodes"]] == [0, 1, 2, 3]
            steps = [one["step"] for one in whole_status(after)["tokens"]]
            eventually(
                lambda: all(
                    one["step"] > step + 50
                    for one, step in zip(whole_status(after)["tokens"], steps, strict=True)
                )
            )
        finally:
            FleetFolder.open(fleet.path).stop(PATIENCE, force=True)
    whole = fleet_of(fleet.path)
    for number in range(2):
        verdict = judge_folder(whole.of_token(number), fleet.path)
        assert verdict[2:4] == (1, 0)  # one epoch, and nothing lost
        assert verdict.models > 50  # compared with the replay, to the bit
        lines = [line for piece in pieces(fleet.path, number) for line in piece.lines]
        used = [line[3:] for line in lines if isinstance(line, NewSize)]
        assert used == [(1, 4, after.manifest.mean_smoothness)]
