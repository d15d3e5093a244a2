from __future__ import annotations

from pathlib import Path

import pytest

import levywalk as lw
from levywalk.experiments import overrides, spec

MINIMAL = {
    "network": {"family": "ring", "n": 8},
    "problem": {"data": "homogeneous"},
    "designs": {"walk": {"kind": "unif_rw"}},
    "run": {"steps": 10},
}


def with_design(**section: object) -> dict[str, object]:
    return {**MINIMAL, "designs": {"walk": section}}


def test_example_ships_with_the_package_and_is_valid() -> None:
    path = Path(spec.__file__).with_name("example.toml")
    network, problem, designs = spec.read_experiment(path).build(path.parent)
    assert network.n == problem.n == 500
    assert list(designs) == ["UnifRW", "WeightRW", "MHLJ", "server, weighted"]


def test_defaults_of_the_file_are_those_of_python() -> None:
    _, _, designs = spec.check_experiment(with_design(kind="mhlj")).build(Path())
    assert designs["walk"] == lw.mhlj()
    _, problem, _ = spec.check_experiment({**MINIMAL, "problem": {"data": "heterogeneous"}}).build(
        Path()
    )
    assert problem.fingerprint() == lw.heterogeneous(8).fingerprint()


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        ({"kind": "simple_rw", "reweight": True}, lw.simple_rw(reweight=True)),
        ({"kind": "mixed_rw", "mix": 0.25}, lw.mixed_rw(0.25)),
        ({"kind": "iid_uniform"}, lw.iid_uniform()),
        (
            {"kind": "mhlj", "schedule": {"kind": "decaying", "initial": 0.2, "timescale": 50}},
            lw.mhlj(schedule=lw.Decaying(0.2, 50.0)),
        ),
        (
            {
                "kind": "custom",
                "target": "degree",
                "p_jump": 0.3,
                "distance": "fixed",
                "max_hops": 2,
            },
            lw.Design("degree", lw.JumpLaw(0.3, lw.FixedDistance(2))),
        ),
        (
            {
                "kind": "switching",
                "first": {"kind": "mhlj"},
                "then": {"kind": "unif_rw"},
                "window": 50.0,
                "patience": 9,
            },
            lw.switching(lw.mhlj(), lw.unif_rw(), window=50, patience=9),
        ),
    ],
)
def test_every_kind_of_design_can_be_written(section: dict[str, object], expected: object) -> None:
    _, _, designs = spec.check_experiment(with_design(**section)).build(Path())
    assert designs["walk"] == expected


@pytest.mark.parametrize(
    "family",
    [
        {"family": "grid", "rows": 2, "cols": 4},
        {"family": "watts_strogatz", "n": 8, "k": 4, "p": 0.2, "seed": 3},
        {"family": "barbell", "m": 3, "bridge": 2},
        {"family": "star", "n": 8, "self_loops": "counted"},
    ],
)
def test_every_family_takes_the_arguments_of_its_function(family: dict[str, object]) -> None:
    made, _, _ = spec.check_experiment({**MINIMAL, "network": family}).build(Path())
    arguments = {key: value for key, value in family.items() if key != "family"}
    assert made == getattr(lw, str(family["family"]))(**arguments)


def test_all_mistakes_are_told_at_once() -> None:
    wrong = {**MINIMAL, "run": {"steps": "ten", "replica": 3}, "colour": "blue"}
    with pytest.raises(lw.InvalidSpec) as caught:
        spec.check_experiment(wrong)
    message = str(caught.value)
    assert "run.steps: must be a valid integer, got 'ten'" in message
    assert "run.replica: unknown key (value 3); did you mean 'replicas'?" in message
    assert "colour: unknown key (value 'blue')" in message


def test_mistakes_inside_unions_name_the_key_as_written() -> None:
    wrong = with_design(
        kind="switching", first={"kind": "mhlj", "p_jmup": 1}, then={"kind": "unif_rw"}
    )
    with pytest.raises(
        lw.InvalidSpec,
        match=r"designs\.walk\.first\.p_jmup: unknown key \(value 1\); did you mean 'p_jump'",
    ):
        spec.check_experiment(wrong)


def test_missing_tag_and_missing_section_are_named() -> None:
    with pytest.raises(lw.InvalidSpec, match="network: 'family' is missing"):
        spec.check_experiment({**MINIMAL, "network": {"n": 5}})
    with pytest.raises(lw.InvalidSpec, match="run: missing"):
        spec.check_experiment({key: value for key, value in MINIMAL.items() if key != "run"})
    with pytest.raises(lw.InvalidSpec, match="designs"):
        spec.check_experiment({**MINIMAL, "designs": {}})


def test_broken_toml_says_where(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text("[network]\nfamily = \n")
    with pytest.raises(lw.InvalidSpec, match="line 2"):
        spec.read_experiment(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(lw.InvalidSpec, match="UTF-8"):
        spec.read_experiment(path)


def test_overrides_reach_names_with_spaces_and_dots() -> None:
    assert overrides.parse_override('designs."i.i.d. weighted".kind=iid_weighted') == {
        "designs": {"i.i.d. weighted": {"kind": "iid_weighted"}}
    }
    assert overrides.merge_overrides(["run.steps=5", "run.seed=2", "run.steps=6"]) == {
        "run": {"steps": 6, "seed": 2}
    }


@pytest.mark.parametrize("text", ["run.steps", "=5", "a b=5", "run..steps=5"])
def test_malformed_overrides_are_refused(text: str) -> None:
    with pytest.raises(lw.InvalidSpec, match="--set"):
        overrides.parse_override(text)


def test_an_unknown_kind_says_how_a_name_of_ones_own_becomes_known() -> None:
    with pytest.raises(lw.InvalidSpec, match=r"did you mean 'mhlj'\? a name .*lw\.register"):
        spec.check_experiment(with_design(kind="mhlk"))
