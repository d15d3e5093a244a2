"""What methods remember keeps the type with which it was declared."""

import numpy as np
import pytest

import levywalk as lw
from levywalk.memory import Slots


def slots() -> Slots:
    return Slots(
        {
            "count": np.zeros((), np.int64),
            "small": np.zeros((), np.int8),
            "pair": np.zeros(2, np.int64),
            "seen": np.zeros((), np.bool_),
            "mean": np.zeros(2),
        }
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("count", 0.5),
        ("count", np.float64(1.5)),
        ("count", float("nan")),
        ("small", 200),
        ("small", np.int64(200)),
        ("pair", np.array([1.0, 2.5])),
        ("seen", 2),
        ("count", 1 + 1j),
    ],
)
def test_what_an_entry_cannot_hold_is_refused_and_not_cut_off(name: str, value: object) -> None:
    memory = slots()
    with pytest.raises(lw.InvalidParameter, match=rf"'{name}' is declared as .*declare it with"):
        memory[name] = value
    assert not np.any(memory[name])


def test_whole_numbers_fit_whatever_their_type() -> None:
    memory = slots()
    memory["count"], memory["small"], memory["seen"] = 3.0, np.int64(100), 1
    memory["pair"], memory["mean"] = [1, 2.0], [1, 2]
    memory["count"] += True
    assert (memory["count"], memory["small"], memory["seen"]) == (4, 100, True)
    assert memory["pair"].tolist() == [1, 2]
    assert memory["mean"].tolist() == [1.0, 2.0]
