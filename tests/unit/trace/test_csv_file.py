"""The CSV files are those that pandas would write."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd

import levywalk as lw
from levywalk.trace.csv_file import write_csv

ROWS = [
    {"design": "a, b", "steps": 12, "share": 0.1, "far": math.inf, "none": None, "flag": True},
    {"design": 'say "x"', "steps": 7, "share": 1 / 3, "far": 1e-300, "none": math.nan},
    {"design": "ä\nö", "steps": 3, "share": np.float64(2 / 3), "far": -math.inf, "none": None},
]


def test_a_file_is_byte_for_byte_that_of_pandas(tmp_path: Path) -> None:
    written = write_csv(tmp_path / "ours.csv", ROWS).read_bytes()
    pd.DataFrame(ROWS).to_csv(tmp_path / "theirs.csv", index=False)
    assert written == (tmp_path / "theirs.csv").read_bytes()


def test_the_table_of_a_comparison_is_that_of_its_data_frame(tmp_path: Path) -> None:
    designs = {"one": lw.unif_rw(), "two, three": lw.mhlj()}
    result = lw.compare(
        lw.ring(20), lw.homogeneous(20), designs, steps=90, replicas=2, step_size=0.01
    )
    result.save(tmp_path, traces=False)
    result.table().to_csv(tmp_path / "theirs.csv")
    assert (tmp_path / "table.csv").read_bytes() == (tmp_path / "theirs.csv").read_bytes()
