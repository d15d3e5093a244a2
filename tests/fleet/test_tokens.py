"""Several tokens in one fleet: each is the walk of a simulation with its own key, they share nodes
and streams, and what belongs to one is of no use for another.
"""

from __future__ import annotations

import pytest

from levywalk.fleet.protocol.messages import Alive
from levywalk.fleet.protocol.tensors import Malformed
from levywalk.fleet.protocol.token import Epoch
from levywalk.fleet.runtime.messages_pb2 import Frame
from levywalk.fleet.runtime.wire import FORMAT, Hello, Reader, encode_frame, hello_frame
from levywalk.fleet.storage.limits import Limits

ALIVE = Alive(Epoch(0, 0, 3), 7)
HELLO = Hello(FORMAT, bytes(32), bytes(16), "levywalk", b"")


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
