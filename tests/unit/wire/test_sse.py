"""Server-sent events: any cut of the stream gives the same events, and nothing grows beyond the limit."""

from hypothesis import given
from hypothesis import strategies as st

from hearth.errors import TooLarge
from hearth.wire.sse import ID_LIMIT_BYTES, Event, SseDecoder

from .documents import chunks

LIMIT = 1000


def shown(items: list[Event | TooLarge]) -> list[object]:
    return [(item.name, item.data) if isinstance(item, Event) else TooLarge for item in items]


def read(*pieces: bytes, limit: int = LIMIT) -> list[object]:
    decoder = SseDecoder(limit)
    return shown([item for piece in pieces for item in decoder.receive_data(piece)])


def test_a_blank_line_ends_an_event() -> None:
    decoder = SseDecoder(LIMIT)
    assert decoder.receive_data(b"data: {}\n") == []
    assert shown(decoder.receive_data(b"\ndata: 1\n\nda")) == [("message", b"{}"), ("message", b"1")]
    assert shown(decoder.receive_data(b"ta:2\n\n")) == [("message", b"2")]


def test_lines_end_with_returns_feeds_or_both() -> None:
    expected = [("message", b"1"), ("message", b"2")]
    for end in (b"\n", b"\r\n", b"\r"):
        assert read(b"data: 1\n\ndata: 2\n\n".replace(b"\n", end)) == expected


def test_a_feed_after_a_return_is_the_same_line_end_in_two_chunks_too() -> None:
    assert read(b"data: 1\r", b"\ndata: 2\r\n\r", b"\n") == [("message", b"1\n2")]
    assert read(b"data: 1\r", b"", b"\n\r", b"\n") == [("message", b"1")]


def test_the_lines_of_one_event_are_joined() -> None:
    assert read(b"data: {\ndata:  1\ndata\ndata: }\n\n") == [("message", b"{\n 1\n\n}")]


def test_an_event_has_the_name_it_is_given_and_the_next_one_has_not() -> None:
    assert read(b"event: endpoint\ndata: /a\n\ndata: 1\n\n") == [("endpoint", b"/a"), ("message", b"1")]
    assert read(b"event:\xff\ndata: 1\n\n") == [("\ufffd", b"1")]
    assert read(b"event: " + b"x" * 300 + b"\ndata: 1\n\n") == [("?", b"1")]


def test_comments_and_unknown_fields_mean_nothing() -> None:
    assert read(b": keep-alive\n\n:\n\nsomething: else\ndata: 1\nmore\n\n") == [("message", b"1")]


def test_a_byte_order_mark_at_the_beginning_means_nothing() -> None:
    assert read(b"\xef\xbb", b"\xbfdata: 1\n\n\xef\xbb\xbfdata: 2\n\n") == [("message", b"1")]


def test_an_event_without_data_only_tells_its_id() -> None:
    decoder = SseDecoder(LIMIT)
    assert decoder.receive_data(b"id: a-1\ndata:\n\n") == []
    assert decoder.last_id == b"a-1"
    assert decoder.receive_data(b"event: x\nid: a-2\n\n") == []
    assert decoder.last_id == b"a-2"
    assert shown(decoder.receive_data(b"data: 1\n\n")) == [("message", b"1")]
    assert decoder.last_id == b"a-2"


def test_an_id_counts_once_its_event_is_whole() -> None:
    decoder = SseDecoder(LIMIT, b"before")
    decoder.receive_data(b"id: 7\ndata: 1\n")
    assert decoder.last_id == b"before"
    decoder.receive_data(b"\n")
    assert decoder.last_id == b"7"


def test_an_id_that_no_header_could_carry_is_ignored() -> None:
    decoder = SseDecoder(LIMIT, b"0")
    for bad in (b"a\0b", b"a\x1bb", b"x" * (ID_LIMIT_BYTES + 1)):
        decoder = SseDecoder(10_000, b"0")
        decoder.receive_data(b"id: " + bad + b"\ndata: 1\n\n")
        assert decoder.last_id == b"0"
    decoder.receive_data(b"id\n\n")
    assert decoder.last_id == b""


def test_the_pause_before_the_next_connection_is_in_digits_or_ignored() -> None:
    decoder = SseDecoder(LIMIT)
    decoder.receive_data(b"retry: soon\nretry: -1\nretry:\n")
    assert decoder.retry is None
    decoder.receive_data(b"retry: 250\n")
    assert decoder.retry == 250
    decoder.receive_data(b"retry: " + b"9" * 900 + b"\n")
    assert decoder.retry == 1_000_000_000


def test_what_the_end_of_the_stream_cuts_off_is_no_event() -> None:
    assert read(b"data: 1\n\ndata: 2\n") == [("message", b"1")]


def test_an_event_over_the_limit_is_one_error_and_the_next_is_read() -> None:
    big = b"data: " + b"x" * (LIMIT + 1) + b"\n"
    assert read(big + b"\ndata: 1\n\n") == [TooLarge, ("message", b"1")]
    assert read(b"data: 0\n" + big + big + b"data: 0\n\ndata: 1\n\n") == [TooLarge, ("message", b"1")]
    assert read((b"data: " + b"x" * 99 + b"\n") * 11 + b"\ndata: 1\n\n") == [TooLarge, ("message", b"1")]


def test_an_event_of_just_the_limit_is_taken() -> None:
    assert read(b"data: " + b"x" * LIMIT + b"\n\n") == [("message", b"x" * LIMIT)]
    halves = b"data: " + b"x" * 499 + b"\ndata: " + b"x" * 500 + b"\n\n"
    assert read(halves) == [("message", b"x" * 499 + b"\n" + b"x" * 500)]


def test_a_comment_over_the_limit_costs_no_event() -> None:
    assert read(b"data: 1\n:" + b"x" * 5000 + b"\n\n") == [("message", b"1")]


def test_a_line_that_never_ends_is_not_kept() -> None:
    decoder = SseDecoder(LIMIT)
    decoder.receive_data(b"data: ")
    assert decoder.receive_data(b"x" * LIMIT) == []
    assert shown(decoder.receive_data(b"x")) == [TooLarge]
    for _ in range(100):
        assert decoder.receive_data(b"x" * LIMIT) == []
        assert len(decoder._buffer) <= LIMIT + len(b"data: ")
    assert shown(decoder.receive_data(b"\n\ndata: 1\n\n")) == [("message", b"1")]


LINES = st.sampled_from(
    [b"data: 1", b"data:2", b"data", b"", b"", b": c", b"id: 3", b"event: e", b"retry: 5", b"data: " + b"x" * 30]
)
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])


@given(st.lists(st.tuples(LINES, ENDS), max_size=20).map(lambda pairs: b"".join(a + b for a, b in pairs)), st.data())
def test_any_cut_of_the_stream_gives_the_same(stream: bytes, data: st.DataObject) -> None:
    whole, cut = SseDecoder(25), SseDecoder(25)
    expected = shown(whole.receive_data(stream))
    assert shown([item for piece in data.draw(chunks(stream)) for item in cut.receive_data(piece)]) == expected
    assert (cut.last_id, cut.retry) == (whole.last_id, whole.retry)


@given(st.binary(max_size=200), st.data())
def test_any_bytes_are_read_without_an_exception(stream: bytes, data: st.DataObject) -> None:
    decoder = SseDecoder(25)
    for piece in data.draw(chunks(stream)):
        decoder.receive_data(piece)
