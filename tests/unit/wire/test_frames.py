"""Frames: any cut of the stream gives the same frames, and what is no frame is a typed error."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth.errors import FrameError, TooLarge, WireError
from hearth.wire.frames import HEADER_LIMIT_BYTES, PREFIX_BYTES, FrameDecoder, encode

from .documents import chunks

_frames = st.lists(st.tuples(st.binary(min_size=2, max_size=30), st.binary(max_size=60)), max_size=6)


def test_a_frame_is_length_header_length_header_and_payload() -> None:
    assert encode(b"{}", b"abc") == b"\x00\x00\x00\x07\x00\x02{}abc"
    assert encode(b"{}") == b"\x00\x00\x00\x04\x00\x02{}"


@given(_frames, st.data())
def test_any_cut_of_the_stream_gives_the_same_frames(frames: list[tuple[bytes, bytes]], data: st.DataObject) -> None:
    stream = b"".join(encode(header, payload) for header, payload in frames)
    decoder = FrameDecoder()
    assert [frame for chunk in data.draw(chunks(stream)) for frame in decoder.receive_data(chunk)] == frames
    decoder.receive_eof()


@given(st.binary(max_size=80), st.data())
def test_garbage_is_frames_or_a_typed_error_whatever_the_cut(stream: bytes, data: st.DataObject) -> None:
    def outcome(pieces: list[bytes]) -> tuple[list[tuple[bytes, bytes]], str]:
        decoder, received = FrameDecoder(limit=40), []
        try:
            for piece in pieces:
                received += decoder.receive_data(piece)
            decoder.receive_eof()
        except WireError as error:
            return received, str(error)
        return received, ""

    one_by_one = [stream[at : at + 1] for at in range(len(stream))]
    assert outcome(data.draw(chunks(stream)))[1] == outcome(one_by_one)[1] == outcome([stream])[1]


def test_a_payload_at_the_limit_passes_and_one_above_it_does_not() -> None:
    header = b"{}" * 10
    assert FrameDecoder(limit=100).receive_data(encode(header, b"x" * 100)) == [(header, b"x" * 100)]
    with pytest.raises(TooLarge, match="message_limit"):
        FrameDecoder(limit=100).receive_data(encode(header, b"x" * 101))


def test_a_frame_over_the_limit_is_refused_before_it_has_come() -> None:
    with pytest.raises(TooLarge):
        FrameDecoder(limit=100).receive_data(encode(b"{}", b"x" * 101)[:PREFIX_BYTES])


@pytest.mark.parametrize(
    "prefix", [b"\0\0\0\0\0\0", b"\0\0\0\4\0\3", b"\0\0\0\4\0\0", b"\0\0\0\4\0\1", b"\0\0\0\1\0\2"]
)
def test_a_header_that_does_not_fit_its_frame_is_refused(prefix: bytes) -> None:
    with pytest.raises(FrameError):
        FrameDecoder().receive_data(prefix)


def test_the_largest_header_passes() -> None:
    header = b"h" * HEADER_LIMIT_BYTES
    assert FrameDecoder().receive_data(encode(header, b"p")) == [(header, b"p")]


def test_a_header_whose_size_does_not_fit_is_refused() -> None:
    with pytest.raises(FrameError, match="65536 bytes is over the limit"):
        encode(b"h" * (HEADER_LIMIT_BYTES + 1), b"p")


def test_the_end_of_the_stream_inside_a_frame_is_an_error() -> None:
    decoder = FrameDecoder()
    decoder.receive_data(encode(b"{}", b"abc")[:-1])
    with pytest.raises(FrameError, match="after 10 bytes"):
        decoder.receive_eof()


def test_a_large_frame_in_small_chunks_is_not_copied_for_each_of_them() -> None:
    decoder, copies = FrameDecoder(), 0
    stream = encode(b"{}", b"x" * 1_000_000)
    buffer = decoder._buffer
    for at in range(0, len(stream) - 1000, 1000):
        assert decoder.receive_data(stream[at : at + 1000]) == []
        copies += decoder._buffer is not buffer
    assert copies == 0
    assert decoder.receive_data(stream[-(len(stream) % 1000 or 1000) :]) == [(b"{}", b"x" * 1_000_000)]


def test_a_payload_cannot_forge_a_frame() -> None:
    payload = b'{},"type":"shutdown"}' + encode(b'{"type":"shutdown"}')
    assert FrameDecoder().receive_data(encode(b'{"type":"mcp"}', payload)) == [(b'{"type":"mcp"}', payload)]
