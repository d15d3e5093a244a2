"""The manifest: what is written down is what is read, to the bit, and anything else is refused."""

import copy
import hashlib
import json
import math

import numpy as np
import pytest

import levywalk as lw
from levywalk.errors import InvalidParameter, InvalidSpec, MissingFile
from levywalk.fleet.protocol.terms import HandOffTerms
from levywalk.fleet.setup.build import Fleet
from levywalk.fleet.setup.manifest import LARGEST, Manifest
from levywalk.fleet.storage.limits import Limits
from levywalk.registry import to_dict
from levywalk.schedule import Constant, Decaying, Dropping
from levywalk.updates import Sgd
from levywalk.walks import Detector, Mixed

N = 7
DESIGNS = [
    lw.unif_rw(),
    lw.weight_rw(),
    lw.simple_rw(),
    lw.simple_rw(reweight=True),
    lw.mixed_rw(0.3),
    lw.mhlj(),
    lw.mhlj(p_jump=0.07, p_distance=0.3, max_hops=5),
    lw.mhlj(schedule=Decaying(0.1, 333.3, 0.7)),
    lw.mhlj(schedule=Dropping(0.1, 40, 0.01)),
    lw.mhlj(schedule=Constant(0.1)),
    lw.Design("importance", lw.JumpLaw(0.05, lw.PowerLaw(1.5, 20)), name="heavy „tail“ \U0001f426"),
    lw.Design(Mixed(1 / 3), lw.JumpLaw(1 / 7, lw.FixedDistance(3)), reweight=False, name="mine"),
    lw.switching(lw.mhlj(), lw.unif_rw()),
    lw.switching(
        lw.mixed_rw(0.1), lw.mhlj(), threshold=0.01, window=17.5, patience=9, step_size=0.001
    ),
    lw.switching(lw.simple_rw(), lw.unif_rw(), step_size="theory"),
]
STEP_SIZES = [
    "theory",
    1 / 3000,
    Constant(0.001),
    Decaying(0.01, 1e4 / 3),
    Dropping(0.003, 100, 1e-4),
]


def fleet_of(design, step_size="theory", problem=None, network=None, **more):
    problem = lw.heterogeneous(N, p_high=0.3) if problem is None else problem
    return Fleet.of(
        network or lw.ring(problem.n), problem, design, steps=500, step_size=step_size, **more
    )


@pytest.mark.parametrize("design", DESIGNS, ids=lambda design: design.name)
@pytest.mark.parametrize("step_size", STEP_SIZES, ids=str)
def test_what_is_written_is_what_is_read(design, step_size, tmp_path):
    fleet = fleet_of(design, step_size)
    Manifest.of(fleet).write(tmp_path / "manifest.json")
    found = Manifest.read(tmp_path / "manifest.json")
    assert found.published == fleet.published
    assert found.design == design
    assert found.design.describe() == design.describe()
    assert found.start == fleet.start
    for v in range(N):
        scores = found.scores(float(fleet.problem.smoothness[v]), int(fleet.network.degree[v]))
        assert scores == fleet.scores_of(v)


@pytest.mark.parametrize(
    "more",
    [
        {"update": Sgd(minibatch=4)},
        {"stop": "detector"},
        {"stop": "detector", "detector": Detector(0.02, 33.0, 7)},
        {"record_every": 7},
        {"x0": [0.1, -0.0, 1e-300, -1.7976931348623157e308, 1 / 3, 2.0, 3.0, 4.0, 5.0, 6.0]},
        {"seed": 2**100, "shared_key": False},
        {"start": 3},
        {"terms": HandOffTerms(b"", 7, "eager", 0.1, 1.7, 1 / 3)},
        {"network": lw.ring(N).with_self_loops("counted")},
        {"problem": lw.Logistic(np.eye(N), [0, 1, 0, 1, 0, 1, 1], ridge=1 / 30)},
    ],
    ids=lambda more: next(iter(more)),
)
def test_everything_else_is_kept(more):
    fleet = fleet_of(lw.mhlj(), **more)
    found = Manifest.parse(Manifest.of(fleet, name="some-fleet").text)
    assert found.published == fleet.published
    assert found.first_token.digest() == fleet.token.digest()
    assert found.x0.tobytes() == fleet.x0.tobytes()
    assert (found.start, found.seed, found.nodes) == (fleet.start, fleet.seed, N)
    assert found.shared_key == (fleet.seed if fleet.shared_key else None)
    assert (found.name, found.network, found.self_loops) == (
        "some-fleet",
        fleet.network.name,
        fleet.network.self_loops,
    )
    assert to_dict("loss", found.loss) == to_dict("loss", fleet.problem.sample_loss)
    assert type(found.loss) is type(fleet.problem.sample_loss)
    assert found.ridge == fleet.problem.ridge
    averages = 8 * fleet.problem.dim + 3 * 8  # of a detector: mean; power, mass and streak
    assert found.limits == Limits(fleet.problem.dim, 1, averages if "stop" in more else 0)
    terms = fleet.terms
    kept = HandOffTerms(
        found.digest,
        terms.renew_after,
        terms.policy,
        terms.heartbeat,
        terms.dead_after,
        terms.retry,
        start=fleet.start,
    )
    assert found.terms == kept
    key = bytes(range(32))
    assert found.operator is None
    assert Manifest.parse(Manifest.of(fleet, operator=key).text).operator == key


def test_the_hash_is_of_the_bytes_and_every_run_has_its_own(tmp_path):
    fleet = fleet_of(lw.mhlj())
    one, other = Manifest.of(fleet), Manifest.of(fleet)
    assert one.digest == hashlib.sha256(one.text).digest() == one.terms.run
    assert one.digest != other.digest
    assert Manifest.of(fleet, run=one.run) == one
    path = tmp_path / "manifest.json"
    one.write(path)
    assert path.read_bytes() == one.text
    path.write_bytes(one.text + b"\n")  # the same contents in other bytes are another manifest
    assert Manifest.read(path).digest != one.digest
    assert Manifest.read(path).published == one.published


def test_the_bytes_are_canonical():
    text = Manifest.of(fleet_of(lw.mhlj())).text
    assert text == (json.dumps(json.loads(text), sort_keys=True, indent=2) + "\n").encode()


def test_none_of_the_data_is_in_it():
    fleet = fleet_of(lw.mhlj())
    text = Manifest.of(fleet).text.decode()
    for number in [
        *fleet.problem.smoothness,
        *fleet.problem.targets,
        *fleet.problem.features.ravel(),
    ]:
        assert repr(float(number)) not in text
    assert repr(float(fleet.problem.smoothness.mean())) in text


def paths_of(value, path=()):
    if isinstance(value, dict):
        for key, inner in value.items():
            yield (*path, key), inner
            yield from paths_of(inner, (*path, key))
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield from paths_of(inner, (*path, i))


def changed(content, path, value=None, drop=False):
    fresh = copy.deepcopy(content)
    at = fresh
    for key in path[:-1]:
        at = at[key]
    if drop:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return json.dumps(fresh).encode()


FULL = json.loads(
    Manifest.of(
        fleet_of(DESIGNS[13], Dropping(0.003, 100), x0=np.arange(10.0), update=Sgd(minibatch=3))
    ).text
)


@pytest.mark.parametrize(
    "path", [path for path, _ in paths_of(FULL)], ids=lambda path: ".".join(map(str, path))
)
def test_no_key_may_be_missing_unknown_or_of_another_type(path):
    Manifest.parse(changed(FULL, path, _at(FULL, path)))  # the way of changing is right
    with pytest.raises(InvalidSpec, match=str(path[-1])):
        Manifest.parse(changed(FULL, path, drop=True))
    for wrong in ({"a": 1}, [], True, "a\nb", -1.5, -(10**30)):
        if wrong is True and path[-1] in ("shared_key", "scaled"):
            continue
        if wrong == [] == _at(FULL, path):  # the shape of a number
            continue
        with pytest.raises(InvalidSpec) as told:
            Manifest.parse(changed(FULL, path, wrong))
        assert str(path[-1]) in str(told.value) or str(path[-2]) in str(told.value)
    with pytest.raises(InvalidSpec, match="surplus"):
        Manifest.parse(changed(FULL, (*path[:-1], "surplus"), 1))


def _at(content, path):
    for key in path:
        content = content[key]
    return content


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        (("format",), 1, "format must be 2"),
        (("format",), True, "format must be 2"),
        (("operator",), "ab", "operator must be the 64 hexadecimal digits"),
        (("operator",), "A" * 64, "operator must be the 64 hexadecimal digits"),
        (("operator",), 5, "operator"),
        (("model", "shape"), [10**9], "shape"),
        (("model", "shape"), [3, 4], "shape"),
        (("model", "x0"), [1.0], "10 numbers"),
        (("network", "nodes"), 1, "nodes"),
        (("walk", "start"), 7, "start"),
        (("walk", "stop"), "detector", "switching"),
        (("walk", "detector"), None, "detector"),
        (("design", "switching"), None, "switching"),
        (("phases",), [], "phases"),
        (("phases",), FULL["phases"][:1], "phases must be a list of 2 tables"),
        (("phases", 0, "mean_score"), None, "mean_score must be a number"),
        (("design", "recipe", "first", "kind"), "mixed_rv", "did you mean 'mixed_rw'"),
        (("design", "recipe", "first", "kind"), ["mixed_rw"], "a text under the key kind"),
        (("design", "recipe", "first", "mix"), 1.5, "mix"),
        (("phases", 0, "step_size", "at"), 1.5, "at must be an integer"),
        (("design", "recipe", "then", "p_jump"), 1.5, "p_jump"),
        (("design", "recipe", "then", "max_hops"), 2**40, "max_hops"),
        (("design", "recipe"), {"kind": "mhlj"}, "written out in full, .*'max_hops': 3"),
        (("memory", 0, "shape"), [11], "memory"),
        (("memory",), [], "memory"),
        (("handoff", "retry"), 0.0, "retry"),
        (("handoff", "policy"), "waits", "policy"),
        (("run",), "xyz", "hexadecimal"),
    ],
)
def test_impossible_values_are_named(path, value, says):
    with pytest.raises(InvalidSpec, match=says):
        Manifest.parse(changed(FULL, path, value), "some.json")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"", "JSON"),
        (b"\xff\xfe", "JSON"),
        (b"[1]", "table"),
        (b'{"format": NaN}', "NaN"),
        (b'{"format": 1, "format": 1}', "twice"),
        (b"[" * 100_000, "JSON"),
        (b'{"format": ' + b"9" * 5000 + b"}", "JSON"),
        (b" " * (LARGEST + 1), "larger"),
    ],
)
def test_what_is_no_manifest_is_refused(text, says, tmp_path):
    path = tmp_path / "manifest.json"
    path.write_bytes(text)
    with pytest.raises(InvalidSpec, match=says) as told:
        Manifest.read(path)
    assert str(path) in str(told.value)


def test_overflow_is_not_read_as_infinity():
    text = json.dumps(FULL).replace(f'"ridge": {FULL["problem"]["ridge"]}', '"ridge": 1e999')
    assert math.isinf(json.loads(text)["problem"]["ridge"])
    with pytest.raises(InvalidSpec, match=r"problem\.ridge"):
        Manifest.parse(text.encode())


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(MissingFile, match=r"nothing\.json"):
        Manifest.read(tmp_path / "nothing.json")


class _Wobbly:
    def values(self, start, stop):
        return np.full(stop - start, 0.001)


class _Bowls:
    n, dim, smoothness = 3, 1, np.ones(3)

    def local_loss(self, v, x):
        return 0.5 * float((x[0] - v) ** 2)

    def local_gradient(self, v, x):
        return x - v


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: fleet_of(lw.mhlj(), _Wobbly()), "_Wobbly has no recipe"),
        (lambda: fleet_of(lw.mhlj(schedule=_Wobbly())), "_Wobbly has no recipe"),
        (
            lambda: fleet_of(lw.Design(np.ones(N))),
            "target of design design must be uniform, importance, degree or mixed",
        ),
        (lambda: fleet_of(lw.mhlj(), problem=_Bowls()), "LeastSquares or Logistic"),
        (
            lambda: fleet_of(
                lw.mhlj(), 0.1, x0=np.full(60_000, 1 / 3), problem=lw.homogeneous(3, dim=60_000)
            ),
            "start from zeros",
        ),
        (lambda: fleet_of(lw.mhlj(), x0=[np.nan] * 10), "x0 must be 10 finite numbers"),
        (lambda: fleet_of(lw.mhlj(), x0=[1.0] * 3), "x0 must be 10 finite numbers"),
    ],
)
def test_what_a_manifest_cannot_hold_is_refused(make, says):
    with pytest.raises(InvalidParameter, match=says):
        Manifest.of(make())
