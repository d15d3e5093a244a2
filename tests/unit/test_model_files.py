"""Model files: what is written is read by others, and what is hostile is refused."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import levywalk as lw

MODEL = {"weight": np.arange(6, dtype=np.float32).reshape(2, 3), "bias": np.array(0.5)}


def test_a_model_comes_back_and_the_official_reader_agrees(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.numpy", reason="needs the extra test")
    file = lw.save_model(tmp_path / "a.safetensors", MODEL)
    theirs = safetensors.load_file(file)
    for found in (lw.load_model(file), theirs):
        assert set(found) == set(MODEL)
        for name, array in MODEL.items():
            assert found[name].dtype == array.dtype
            assert np.array_equal(found[name], array)
    safetensors.save_file(MODEL, tmp_path / "b.safetensors", metadata={"a": "b"})
    assert np.array_equal(lw.load_model(tmp_path / "b.safetensors")["weight"], MODEL["weight"])


def entry(dtype: Any = "F32", shape: Any = (2,), offsets: Any = (0, 8)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


@pytest.mark.parametrize(
    ("header", "data"),
    [
        ({"a": entry()}, b"1234567"),
        ({"a": entry()}, b"123456789"),
        ({"a": entry("F16")}, b"12345678"),
        ({"a": entry(["F32"])}, b"12345678"),
        ({"a": entry(shape=[-2])}, b"12345678"),
        ({"a": entry(shape=[2.0])}, b"12345678"),
        ({"a": entry(shape=[True, 2])}, b"12345678"),
        ({"a": entry(shape=[2**40, 2**40])}, b"12345678"),
        ({"a": entry(offsets=(4, 8))}, b"12345678"),
        ({"a": entry(offsets=(8, 0))}, b"12345678"),
        ({"a": entry(offsets=(0, 8, 9))}, b"12345678"),
        ({"a": entry(), "b": entry()}, b"12345678"),
        ({"a": {"dtype": "F32"}}, b"12345678"),
        ({"a": 1}, b"12345678"),
        ([1], b""),
        ({}, b""),
    ],
)
def test_files_that_contradict_themselves_are_refused(
    tmp_path: Path, header: Any, data: bytes
) -> None:
    text = json.dumps(header).encode()
    file = tmp_path / "bad.safetensors"
    file.write_bytes(struct.pack("<Q", len(text)) + text + data)
    with pytest.raises(lw.InvalidData, match=r"bad\.safetensors"):
        lw.load_model(file)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff" * 8,
        struct.pack("<Q", 3) + b"{}",
        struct.pack("<Q", 2) + b"{]",
        struct.pack("<Q", 60000) + b"[" * 60000,
        struct.pack("<Q", 15) + b'{"a":1,"a":{} }',
    ],
)
def test_bytes_that_are_no_file_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "bad.safetensors").write_bytes(content)
    with pytest.raises(lw.InvalidData, match=r"bad\.safetensors"):
        lw.load_model(tmp_path / "bad.safetensors")


@pytest.mark.parametrize("model", [{}, [1], {"a": np.array(["b"])}, {"__metadata__": np.ones(1)}])
def test_models_that_cannot_be_written_are_named(tmp_path: Path, model: Any) -> None:
    with pytest.raises(lw.InvalidParameter, match="model must"):
        lw.save_model(tmp_path / "a.safetensors", model)
