from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

import levywalk.fleet.runtime
from levywalk.fleet.protocol.messages import Message
from levywalk.fleet.runtime import messages_pb2
from levywalk.fleet.runtime.wire import Hello

RUNTIME = Path(levywalk.fleet.runtime.__file__).parent
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make proto` would write."""
    folder = tmp_path_factory.mktemp("proto")
    (command,) = re.findall(
        r"^\t\$\(BIN\)/python (-m grpc_tools\.protoc .*)$", (ROOT / "Makefile").read_text(), re.M
    )
    arguments = [re.sub("_out=src$", f"_out={folder}", argument) for argument in command.split()]
    subprocess.run([sys.executable, *arguments], cwd=ROOT, check=True)
    return folder / "levywalk/fleet/runtime"


@pytest.mark.parametrize("name", ["messages_pb2.py", "messages_pb2.pyi"])
def test_what_is_committed_is_what_the_proto_file_says(generated: Path, name: str) -> None:
    assert sorted(path.name for path in generated.iterdir()) == [
        "messages_pb2.py",
        "messages_pb2.pyi",
    ]
    assert (RUNTIME / name).read_text() == (generated / name).read_text(), (
        "messages.proto was changed: run make proto"
    )


def test_the_frame_has_a_place_for_every_message_and_no_other() -> None:
    bodies = {field.name for field in messages_pb2.Frame.DESCRIPTOR.oneofs_by_name["body"].fields}
    assert bodies == {kind.__name__.lower() for kind in (Hello, *get_args(Message))} | {"chunk"}


def test_what_every_hop_needs_has_a_tag_of_one_byte() -> None:
    fields = messages_pb2.Frame.DESCRIPTOR.fields_by_name
    for name in (
        "sender",
        "guardian_certificate",
        "prepare",
        "prepared",
        "release",
        "released",
        "activate",
        "chunk",
    ):
        assert fields[name].number < 16, name
    for message in messages_pb2.DESCRIPTOR.message_types_by_name.values():
        large = {field.name for field in message.fields if field.number >= 16}
        if (
            message.name == "Token"
        ):  # these need one byte more; size is 0, and not sent, before a node joins
            assert large == {"came_from", "small_messages", "size"}
        elif message.name != "Frame":
            assert not large, message.name


def test_the_extras_ask_for_no_older_protobuf_than_the_generated_code() -> None:
    (made_for,) = re.findall(
        r"^# Protobuf Python Version: (\S+)$", (RUNTIME / "messages_pb2.py").read_text(), re.M
    )
    asked = re.findall(r'"protobuf>=([0-9.]+)"', (ROOT / "pyproject.toml").read_text())
    assert asked == [made_for]  # the extra fleet, which test contains
