"""The node file and the node's own data: strict, clear, and to the bit what a simulation of the
whole fleet has.
"""

import gzip
import os
import subprocess
import sys

import numpy as np
import pytest

import levywalk as lw
from levywalk.errors import InvalidData, InvalidParameter, InvalidSpec, LevywalkError, MissingFile
from levywalk.fleet.runtime.own_data import own_problem, scores
from levywalk.fleet.setup.build import Fleet
from levywalk.fleet.setup.manifest import Manifest
from levywalk.fleet.setup.node_file import NodeFile, Peer, host_port

GOOD = """
id = 3
listen = "127.0.0.1:21003"
metrics = "127.0.0.1:22003"
manifest = "manifest.json"
data = "data.npz"
state = "state"
key = "node.key"
certificate = "node.crt"
authority = "ca.crt"

[[neighbours]]
id = 2
address = "127.0.0.1:21002"
fingerprint = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
state = "../node-2/state"

[[neighbours]]
id = 4
address = "node-4.example.org:7400"
fingerprint = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
"""


def read(tmp_path, text):
    path = tmp_path / "node-3" / "node.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return NodeFile.read(path)


def test_a_node_file_is_read(tmp_path, monkeypatch):
    file = read(tmp_path, GOOD)
    at = tmp_path / "node-3"
    assert (file.id, file.listen, file.metrics) == (3, "127.0.0.1:21003", "127.0.0.1:22003")
    assert (file.manifest, file.data, file.state) == (
        at / "manifest.json",
        at / "data.npz",
        at / "state",
    )
    assert (file.key, file.certificate, file.authority) == (
        at / "node.key",
        at / "node.crt",
        at / "ca.crt",
    )
    assert file.neighbours == (
        Peer(2, "127.0.0.1:21002", "a" * 64, tmp_path / "node-2" / "state"),
        Peer(4, "node-4.example.org:7400", "b" * 64, None),
    )
    monkeypatch.chdir(at)
    assert NodeFile.read("node.toml") == file  # paths start at the file, wherever one reads it from


def test_a_node_file_is_written(tmp_path):
    file = read(
        tmp_path,
        GOOD.replace('"data.npz"', '"/somewhere/else/data.csv"').replace(
            '"state"', "'st\"at\\e é'"
        ),
    )
    path = tmp_path / "node-3" / "again.toml"
    file.write(path)
    assert NodeFile.read(path) == file
    text = path.read_text()
    assert 'manifest = "manifest.json"' in text  # so that the folder can be moved
    assert 'state = "../node-2/state"' in text
    assert 'data = "/somewhere/else/data.csv"' in text
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["again.toml", "node.toml"]


def test_a_node_without_neighbours_or_metrics_is_written_too(tmp_path):
    head = GOOD.partition("[[")[0].replace('metrics = "127.0.0.1:22003"\n', "")
    file = read(tmp_path, head + "neighbours = []\n")
    assert (file.neighbours, file.metrics) == ((), None)
    file.write(tmp_path / "node.toml")
    assert NodeFile.read(tmp_path / "node.toml").neighbours == ()


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("listen", "lisen", r"unknown key lisen = '127.0.0.1:21003'; did you mean listen\?"),
        ("id = 3", 'id = 3\nzebra = "x"', r"unknown key zebra = 'x'; known keys are id, listen"),
        ("id = 3", 'id = "3"', "id must be an integer"),
        ("id = 3", "id = true", "id must be an integer"),
        ("id = 3", "id = -1", "id must be an integer"),
        ("id = 3", "", "id is missing"),
        ('data = "data.npz"', "", "data is missing"),
        ('data = "data.npz"', "data = 5", "data must be a text"),
        ('data = "data.npz"', 'data = ""', "data must be a text"),
        ('data = "data.npz"', 'data = "a\\u0000b"', "data must be a text"),
        ('data = "data.npz"', "data = 1979-05-27", "data must be a text"),
        ("127.0.0.1:21003", "127.0.0.1", "listen must be host:port"),
        ("127.0.0.1:21003", "127.0.0.1:0", "listen must be host:port"),
        ("127.0.0.1:21003", "127.0.0.1:70000", "listen must be host:port"),
        ("127.0.0.1:21003", "127.0.0.1:+5", "listen must be host:port"),
        ("127.0.0.1:21003", "127.0.0.256:5", "listen must be host:port"),
        ("127.0.0.1:21003", "::1:5000", "listen must be host:port"),
        ("127.0.0.1:21003", "unix:/tmp/x", "listen must be host:port"),
        ("127.0.0.1:22003", "0.0.0.0:22003", "metrics must be on this machine's loopback"),
        ("127.0.0.1:22003", "10.0.0.7:22003", "metrics must be on this machine's loopback"),
        ("127.0.0.1:22003", "example.org:22003", "metrics must be on this machine's loopback"),
        ("127.0.0.1:22003", "127.0.0.1:21003", "metrics must be another address than listen"),
        (
            "id = 4",
            "id = 2",
            (
                r"neighbours\[1\].id must be different from all other neighbours' values; "
                r"node 2 has it too, got 2"
            ),
        ),
        ("id = 4", "id = 3", r"neighbours\[1\].id must be another node's id: .* remove it, got 3"),
        (
            "node-4.example.org:7400",
            "127.0.0.1:21002",
            "address must be different from all other neighbours' values",
        ),
        ("node-4.example.org:7400", "127.0.0.1:21003", "address must be where node 4 is reached"),
        ("node-4.example.org:7400", "0.0.0.0:7400", "address must be where node 4 is reached"),
        ("node-4.example.org:7400", "node 4:7400", "address must be host:port"),
        ("b" * 64, "A" * 64, "fingerprint must be different from all other neighbours' values"),
        ("b" * 64, "b" * 63, "fingerprint must be 64 hexadecimal digits"),
        ("b" * 64, "g" * 64, "fingerprint must be 64 hexadecimal digits"),
        ('address = "node-4.example.org:7400"', "", r"neighbours\[1\].address is missing"),
        ('address = "node-4', 'adress = "node-4', "did you mean address"),
        ("[[neighbours]]\nid = 4", "[neighbour]\nid = 4", "did you mean neighbours"),
        ('listen = "', "listen = '", "not TOML"),
        ("id = 3", "id = 3\nid = 3", "not TOML"),
    ],
)
def test_a_wrong_node_file_is_refused_with_the_remedy(tmp_path, old, new, says):
    assert old in GOOD
    with pytest.raises(InvalidSpec, match=says) as told:
        read(tmp_path, GOOD.replace(old, new, 1))
    assert str(tmp_path / "node-3" / "node.toml") in str(told.value)


def test_neighbours_must_be_tables(tmp_path):
    head = GOOD.partition("[[")[0]
    for wrong in ("neighbours = 5", 'neighbours = ["a"]', "[neighbours]\nid = 3"):
        with pytest.raises(InvalidSpec, match="neighbours"):
            read(tmp_path, f"{head}\n{wrong}\n")


def test_what_is_no_file_is_named(tmp_path):
    with pytest.raises(MissingFile, match=r"absent\.toml"):
        NodeFile.read(tmp_path / "absent.toml")
    with pytest.raises(InvalidSpec, match="cannot be read"):
        NodeFile.read(tmp_path)
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidSpec, match="not TOML"):
        NodeFile.read(tmp_path / "binary.toml")


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("[::1]:80", ("::1", 80)),
        ("localhost:65535", ("localhost", 65535)),
        ("fleet-0.fleet:7400", ("fleet-0.fleet", 7400)),
        ("[::1:80", None),
        ("a b:80", None),
        (":80", None),
        ("host:", None),
        ("1.2.3:80", None),
        ("[zz]:80", None),
    ],
)
def test_addresses(address, found):
    assert host_port(address) == found


# The node's own data


def several(loss, dim=10, ridge=0.0, seed=0):
    """Return a problem with 1 to 40 samples per node, in no order."""
    rng = np.random.default_rng(seed)
    node = rng.permutation(np.repeat(np.arange(9), [1, 1, 2, 3, 10, 11, 25, 40, 40]))
    features = rng.normal(size=(len(node), dim)) * rng.exponential(size=(len(node), 1))
    targets = rng.integers(0, 2, len(node)) if loss is lw.Logistic else rng.normal(size=len(node))
    return loss(features, targets, node, ridge)


PROBLEMS = {
    "one sample": lambda: lw.heterogeneous(9, p_high=0.5),
    "one feature": lambda: lw.heterogeneous(9, dim=1, p_high=0.5),
    "8192 features": lambda: lw.heterogeneous(9, dim=8192, p_high=0.5),
    "several": lambda: several(lw.LeastSquares, ridge=0.1),
    "several, 33 features": lambda: several(lw.LeastSquares, dim=33),
    "logistic": lambda: several(lw.Logistic, ridge=1 / 3),
    "logistic, one sample": lambda: lw.Logistic(
        np.random.default_rng(1).normal(size=(9, 5)), [0, 1, 1] * 3, ridge=0.1
    ),
}


def node_file(folder, v, data):
    files = {key: folder / key for key in ("manifest", "state", "key", "certificate", "authority")}
    return NodeFile(id=v, listen="127.0.0.1:1", metrics=None, data=data, neighbours=(), **files)


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize(
    "design",
    [lw.mhlj(), lw.switching(lw.mixed_rw(0.3), lw.simple_rw()), lw.unif_rw()],
    ids=lambda design: design.name,
)
def test_a_node_alone_has_the_scores_and_gradients_of_the_whole_to_the_bit(name, design, tmp_path):
    problem = PROBLEMS[name]()
    fleet = Fleet.of(
        lw.ring(9).with_self_loops("counted"), problem, design, steps=10, step_size=1e-4
    )
    manifest = Manifest.of(fleet)
    x = np.random.default_rng(5).normal(size=problem.dim)
    for v in range(9):
        rows = slice(*problem.offsets[v : v + 2])
        path = tmp_path / f"{v}.npz"
        np.savez(path, features=problem.sorted_features[rows], targets=problem.sorted_targets[rows])
        own = own_problem(manifest, node_file(tmp_path, v, path))
        assert own.n == 1
        assert own.smoothness[0] == problem.smoothness[v]
        assert scores(manifest, own, 3) == fleet.scores_of(v)
        assert own.sample_count(0) == problem.sample_count(v)
        assert own.local_loss(0, x) == problem.local_loss(v, x)
        np.testing.assert_array_equal(own.local_gradient(0, x), problem.local_gradient(v, x))
        few = np.arange(problem.sample_count(v))[::-2]
        np.testing.assert_array_equal(
            own.local_gradient(0, x, few), problem.local_gradient(v, x, few)
        )


def manifest_of(dim=2, loss=lw.LeastSquares):
    problem = loss(np.ones((3, dim)), [0, 1, 1])
    return Manifest.of(Fleet.of(lw.ring(3), problem, lw.mhlj(), steps=10, step_size=0.1))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("data.csv", "a,b,y\n1,2,0\n3,4,1\n"),
        ("data.tsv", "1\t2\t0\n3\t4\t1\n"),
        ("data.svm", "0 1:1 2:2\n1 1:3 2:4\n"),
        ("data.libsvm", "0 1:1 2:2\n1 1:3 2:4\n"),
        ("data.txt", "0 1:1 2:2\n1 1:3 2:4\n"),
        ("data.csv.gz", "1,2,0\n3,4,1\n"),
    ],
)
@pytest.mark.parametrize("loss", [lw.LeastSquares, lw.Logistic])
def test_data_files_of_every_kind(name, text, loss, tmp_path):
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
    own = own_problem(manifest_of(loss=loss), node_file(tmp_path, 5, path))
    assert own.kind == {lw.LeastSquares: "least_squares", lw.Logistic: "logistic"}[loss]
    np.testing.assert_array_equal(own.features, [[1, 2], [3, 4]])
    np.testing.assert_array_equal(own.targets, [0, 1])


@pytest.mark.parametrize(
    ("name", "content", "loss", "error", "says"),
    [
        ("absent.csv", None, lw.LeastSquares, MissingFile, "absent.csv"),
        ("data.xyz", b"1", lw.LeastSquares, InvalidParameter, "data.xyz"),
        (
            "data.csv",
            b"1,2,3,4\n",
            lw.LeastSquares,
            InvalidData,
            "data.csv: expected dim = 2 features, found 3",
        ),
        ("data.csv", b"1,nan,3\n", lw.LeastSquares, InvalidData, "data.csv, line 1"),
        ("data.csv", b"", lw.LeastSquares, InvalidData, "data.csv: no sample"),
        ("data.csv", b"\xff\xfe\xff", lw.LeastSquares, InvalidData, "data.csv"),
        ("data.svm", b"1 3:5\n", lw.LeastSquares, InvalidData, "index 3 is above dim = 2"),
        ("data.npz", b"PK\x03\x04 torn", lw.LeastSquares, InvalidData, "data.npz"),
        (
            "data.csv",
            b"0,0,1\n",
            lw.LeastSquares,
            InvalidData,
            "data.csv: node 5 has only zero features",
        ),
        ("data.csv", b"1,2,7\n", lw.Logistic, InvalidData, "data.csv: targets must be labels"),
    ],
)
def test_wrong_data_is_refused_by_name(name, content, loss, error, says, tmp_path):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(error, match=says):
        own_problem(manifest_of(loss=loss), node_file(tmp_path, 5, path))


def test_data_that_may_not_be_read_or_is_a_folder(tmp_path):
    (tmp_path / "data.csv").mkdir()
    with pytest.raises(LevywalkError, match=r"data\.csv"):
        own_problem(manifest_of(), node_file(tmp_path, 5, tmp_path / "data.csv"))
    secret = tmp_path / "secret.csv"
    secret.write_text("1,2,3\n")
    secret.chmod(0)
    if os.access(secret, os.R_OK):
        pytest.skip("this user may read everything")
    with pytest.raises(InvalidData, match=r"secret\.csv: cannot be read"):
        own_problem(manifest_of(), node_file(tmp_path, 5, secret))


def test_pickles_are_never_loaded(tmp_path):
    path = tmp_path / "data.npz"
    np.savez(path, features=np.array([[object(), 1]]), targets=np.ones(1))
    with pytest.raises(InvalidData, match=r"data\.npz"):
        own_problem(manifest_of(), node_file(tmp_path, 5, path))


def test_scores_are_of_one_node(tmp_path):
    with pytest.raises(InvalidParameter, match="own_problem"):
        scores(manifest_of(), lw.homogeneous(5), 2)


def test_a_node_reads_its_files_without_heavy_libraries(tmp_path):
    manifest = manifest_of()
    manifest.write(tmp_path / "manifest")
    (tmp_path / "data.csv").write_text("1,2,3\n")
    node_file(tmp_path, 5, tmp_path / "data.csv").write(tmp_path / "node.toml")
    script = f"""
import sys
from levywalk.fleet.setup.manifest import Manifest
from levywalk.fleet.setup.node_file import NodeFile
from levywalk.fleet.runtime.own_data import own_problem, scores
file = NodeFile.read({str(tmp_path / "node.toml")!r})
manifest = Manifest.read(file.manifest)
assert scores(manifest, own_problem(manifest, file), 2) == (10.0,)
heavy = {{"scipy", "networkx", "numba", "pydantic", "matplotlib", "typer", "pandas", "xarray"}}
print(sorted(heavy & {{name.partition(".")[0] for name in sys.modules}}))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout.strip() == "[]"
