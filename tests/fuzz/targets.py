"""What is fuzzed: for each kind of input its valid seeds, and how a user would have it read."""

from __future__ import annotations

import functools
import gzip
import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import networkx as nx
import numpy as np
import typer
from scipy import sparse

import levywalk as lw
from levywalk.cli.main import app
from levywalk.cli.source_options import Data, SourceOptions, with_source_options
from levywalk.contents import content_limit, size_of_text
from levywalk.experiments import shorthand
from levywalk.experiments.folder_report import theory_beside
from levywalk.experiments.overrides import merge_overrides
from levywalk.experiments.spec import read_experiment
from levywalk.fleet.setup.node_data import linear_samples
from levywalk.fleet.setup.sparse_shard import sparse_arrays
from levywalk.room import at_most
from levywalk.sweeps.store import ResultStore
from tests.fuzz.mutations import Rng, mutated

T = TypeVar("T")
EXAMPLE = Path(lw.__file__).parent / "experiments" / "example.toml"
NETWORKS = ["ring:12", "ws:30,4,0.1", "er:20,0.3", "star:2000000000", "grid:3,4", "ba:30,2"]
DESIGNS = ["mhlj:p_jump=0.2,max_hops=5", "mixed_rw:mix=0.3", "simple_rw", "unif_rw"]
# Values that fit, of each option about network and data; an option that is not here gets any.
FITTING = {
    "--self-loops": ["none", "counted"],
    "--network-format": ["edges", "mtx", "graphml", "npz"],
    "--node-base": ["0", "1"],
    "--directed": ["symmetrise", "error"],
    "--loss": ["least_squares", "logistic"],
    "--ridge": ["0", "0.1", "1e-3"],
    "--partition": ["iid", "label", "dirichlet", "size"],
    "--target": ["y", "a", "3", "0", "-1"],
    "--node": ["who", "0", "a"],
    "--features": ["a", "a,b", "0-2", "2-0", "0,1", "b-c", "who,y"],
    "--data-format": ["csv", "libsvm", "npz"],
    "--index-base": ["0", "1"],
    "--labels": ["1,2", "0,1", "-1,1", "3", "no,yes"],
    "--missing": ["refuse", "drop"],
    "--idle": ["error", "pass"],
}
ANY_VALUE = [value for values in FITTING.values() for value in values]


def seeds(folder: Path) -> dict[str, bytes]:
    """Write one valid file of each kind and return their contents, by kind and file name."""
    found: dict[str, bytes] = {}
    ring = lw.ring(12)
    edges = "".join(f"{u} {v}\n" for u, v in ring.to_networkx().edges).encode()
    matrix = sparse.csr_array(nx.to_scipy_sparse_array(ring.to_networkx()))
    found["network/a.txt"] = b"# a ring\n" + edges
    found["network/a.csv"] = b"source,target\n" + edges.replace(b" ", b",")
    found["network/a.txt.gz"] = gzip.compress(edges)
    entries = b"".join(b"%d %d\n" % (u + 1, v + 1) for u, v in ring.to_networkx().edges)
    banner = b"%%MatrixMarket matrix coordinate pattern symmetric\n12 12 12\n"
    found["network/a.mtx"] = banner + entries
    found["network/a.graphml"] = "\n".join(nx.generate_graphml(ring.to_networkx())).encode()
    for kind in ("csr", "csc", "coo", "bsr", "dia"):
        file = io.BytesIO()
        sparse.save_npz(file, matrix.asformat(kind))
        found[f"network/{kind}.npz"] = file.getvalue()
    features, targets = np.round(np.random.default_rng(0).standard_normal((12, 3)), 3), range(12)
    rows = [
        ",".join(map(str, [*row, y])) for row, y in zip(features.tolist(), targets, strict=True)
    ]
    found["data/a.csv"] = ("a,b,c,y\n" + "\n".join(rows) + "\n").encode()
    found["data/a.csv.gz"] = gzip.compress(found["data/a.csv"])
    found["data/a.svm"] = b"+1 1:0.5 3:2\n-1 2:1\n" * 6
    file = io.BytesIO()
    np.savez_compressed(file, features=features, targets=np.arange(12.0))
    found["data/a.npz"] = file.getvalue()
    file = io.BytesIO()
    np.savez_compressed(file, **sparse_arrays(sparse.csr_array(features)), targets=np.arange(12.0))
    found["shard/a.npz"] = file.getvalue()
    named = [f"n{node},{row}" for node, row in enumerate(rows)]
    found["data/named.csv"] = ("who,a,b,c,y\n" + "\n".join(named) + "\n").encode()
    found["network/named.txt"] = b"".join(b"n%d n%d\n" % (u, (u + 1) % 12) for u in range(12))
    found["toml/a.toml"] = EXAMPLE.read_bytes()
    _runs(folder, found)
    return found


def _runs(folder: Path, found: dict[str, bytes]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    result = lw.compare(
        lw.ring(12), lw.homogeneous(12, dim=2), {"MHLJ": lw.mhlj()}, steps=20, replicas=2,
        step_size=0.01, progress=False,
    )  # fmt: skip
    result.save(folder / "result")
    settings = {
        "network": {"family": "ring", "n": 12}, "problem": {"data": "homogeneous", "dim": 2},
        "run": {"steps": 20, "replicas": 2, "step_size": 0.01},
        "designs": {"MHLJ": {"kind": "mhlj"}},
    }  # fmt: skip
    text = (folder / "result" / "result.json").read_text()
    found["result/result.json"] = text.replace(
        '"settings": {}', f'"settings": {json.dumps(settings)}'
    ).encode()
    found["trace/a.nc"] = (folder / "result" / "MHLJ.nc").read_bytes()
    _resumed(folder / "state.npz")
    found["resume/a.npz"] = (folder / "state.npz").read_bytes()
    store = ResultStore(folder / "store")
    key = store.key({"nodes": 5})
    store.save(key, {"nodes": 5}, {"error": np.ones(3)}, {"steps": 12})
    found[f"store/{key}.npz"] = store.path(key).read_bytes()


def _resumed(path: Path) -> None:
    lw.run(
        lw.ring(12), lw.homogeneous(12, dim=2), lw.mhlj(), steps=20, step_size=0.01,
        backend="reference", resume=path, progress=False,
    )  # fmt: skip


def _result(path: Path) -> None:
    shutil.copy(path.parents[1] / "seeds" / "result" / "MHLJ.nc", path.with_name("MHLJ.nc"))
    found = lw.Comparison.load(path.parent)
    theory_beside(found, path.parent, False, own_files=False)


def _store(path: Path) -> None:
    ResultStore(path.parent).load(path.stem)


def _toml(path: Path) -> None:
    experiment = read_experiment(path)
    with at_most(64 << 20):
        experiment.build(path.parent)


def _shard(path: Path) -> None:
    features, targets = linear_samples(path, lw.losses.least_squares(), 3)
    lw.LeastSquares(features, targets, ridge=1.0).local_gradient(0, np.zeros(3))


READ: dict[str, Callable[[Path], object]] = {
    "network": lw.read_network,
    "data": lw.load_dataset,
    "trace": lw.load_trace,
    "resume": _resumed,
    "result": _result,
    "store": _store,
    "toml": _toml,
    "shard": _shard,
}


def words(rng: Rng) -> None:
    """Read one word of the command line, mutated, as every argument that takes words reads it."""
    readers: list[tuple[Callable[[str], object], list[str]]] = [
        (shorthand.read_network_text, NETWORKS),
        (shorthand.design_settings, [*DESIGNS, ",".join(DESIGNS), "unif_rw+sgd:minibatch=8"]),
        (shorthand.read_design_text, DESIGNS),
        (shorthand.read_update_text, ["sgd", "sgd:minibatch=8", "adam"]),
        (shorthand.step_size_setting, ["theory", "tuned", "1e-3"]),
        (
            lambda text: shorthand.read_problem_text(text, lw.ring(12)),
            ["heterogeneous", "homogeneous"],
        ),
        (lambda text: merge_overrides([text]), ["run.steps=500", 'designs."a b".p_jump=0.2']),
        (size_of_text, ["500M", "8G", "1000"]),
        (_typed, ["levywalk-demo", "a.toml"]),
    ]
    reader, fitting = _one(readers, rng)
    word = _one(fitting, rng)
    with at_most(64 << 20):
        reader(_mutated_word(word, rng) if rng.random() < 0.7 else word)


def _one(choices: list[T], rng: Rng) -> T:
    return choices[int(rng.integers(len(choices)))]


def _mutated_word(word: str, rng: Rng) -> str:
    return mutated(word.encode(), "a.txt", rng).decode("utf-8", "replace")


def _typed(word: str) -> None:
    """Type a word as an option's value; a wrong one ends before anything runs."""
    _call(app, ["report", word])


def _call(command: Callable[..., object], arguments: list[str]) -> None:
    """Call a command; its exit code 2 is a refusal."""
    try:
        command(arguments, standalone_mode=True)
    except SystemExit as end:
        if end.code == 2:
            raise lw.InvalidParameter(f"exit code 2 of {arguments}") from None
        if end.code not in (None, 0):
            raise


def _read_sources(sources: SourceOptions, network: str, data: Data) -> None:
    graph = shorthand.read_network_text(network, options=sources.network)
    shorthand.read_problem_text(data, graph, options=sources.data)


@functools.cache
def _sources_command() -> Any:
    """A command with all options about network and data that reads both and runs nothing."""
    probe = typer.Typer(add_completion=False)
    probe.command()(with_source_options(_read_sources))
    return typer.main.get_command(probe)


def options(rng: Rng, known: dict[str, bytes], folder: Path) -> None:
    """Read a network and a data file with options about them, as the commands take them."""
    command = _sources_command()
    place = _emptied(folder / "options")
    paths = {}
    joined = rng.random() < 0.3  # by the names of nodes
    for kind, named in (("network", "named.txt"), ("data", "named.csv")):
        every = [name for name in known if name.startswith(f"{kind}/")]
        name = f"{kind}/{named}" if joined else _one(every, rng)
        content = known[name] if rng.random() < 0.8 else mutated(known[name], name, rng)
        paths[kind] = place / name.replace("/", "-")
        paths[kind].write_bytes(content)
    arguments = [str(paths["network"]), "--data", str(paths["data"])]
    arguments += ["--node", "who"] if joined else []
    choices = [one for one in command.params if one.name not in ("network", "data", "help")]
    for at in rng.permutation(len(choices))[: int(rng.integers(1, 5))]:
        names, opposite = choices[at].opts, choices[at].secondary_opts
        if opposite:  # a switch
            arguments.append(_one([names[0], opposite[0]], rng))
            continue
        value = _one(FITTING.get(names[0], ANY_VALUE) if rng.random() < 0.9 else ANY_VALUE, rng)
        arguments += [names[0], value if rng.random() < 0.9 else _mutated_word(value, rng)]
    with content_limit(64 << 20), at_most(64 << 20):
        _call(command, arguments)


def _emptied(place: Path) -> Path:
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    return place


def attempt(kind: str, name: str, content: bytes, folder: Path) -> None:
    """Read one mutated file."""
    path = _emptied(folder / kind) / name
    path.write_bytes(content)
    with content_limit(64 << 20):
        READ[kind](path)
