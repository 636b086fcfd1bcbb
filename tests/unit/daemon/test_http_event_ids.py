"""What an event's id says, to the daemon that gave it and to any other."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth.daemon.http import http_messages
from hearth.daemon.http.http_messages import EventId, event
from hearth.daemon.http.streams import StreamMessage


def written(epoch: str, stream: int, number: int, request: bytes | None) -> str:
    name = http_messages.stream_name(epoch, stream, request)
    id = event(StreamMessage(number, b"{}"), name).split(b"\n")[1]
    return id.decode().removeprefix("id: ")


@given(
    st.integers(0, 10**12),
    st.integers(0, 10**12),
    st.none() | (st.integers(-(2**63), 2**63) | st.text(max_size=15)).map(lambda value: json.dumps(value).encode()),
)
def test_what_was_written_is_read(stream: int, number: int, request: bytes | None) -> None:
    epoch = http_messages.new_epoch("s")
    kept = request if request is None or len(request) <= 64 else None
    assert http_messages.parse_event_id(written(epoch, stream, number, request)) == EventId(epoch, stream, number, kept)


def test_an_event_is_one_line_of_data_behind_its_id() -> None:
    name = http_messages.stream_name("00c0ffee00c0ffee", 3, b'"a"')
    expected = b'event: message\nid: 00c0ffee00c0ffee-3-226122-7\ndata: {"a":  1}\n\n'
    assert event(StreamMessage(7, b'{"a":\r\n1}'), name) == expected


def test_no_two_lives_of_a_session_have_the_same_epoch() -> None:
    assert len({http_messages.new_epoch("s") for _ in range(100)}) == 100


def test_an_epoch_is_one_sessions_in_whatever_daemon_and_no_others() -> None:
    found = http_messages.parse_event_id(written(http_messages.new_epoch("mine"), 1, 1, b"1"))
    assert found and http_messages.is_event_of(found, "mine") and not http_messages.is_event_of(found, "yours")


def of_request(raw: bytes) -> str:
    return f"00c0ffee00c0ffee-1-{raw.hex()}-1"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-",
        "1-1",
        "00c0ffee00c0ffee-1",
        "00c0ffee00c0ffee-1-",
        "00C0FFEE00C0FFEE-1-1",
        "00c0ff-1-1",
        "00c0ffee00c0ffee-\N{SUPERSCRIPT TWO}-1",
        "00c0ffee00c0ffee-1-" + "9" * 30,
        "00c0ffee00c0ffee--1-1",
        "00c0ffee00c0ffee-1--1",
        "00c0ffee00c0ffee-1-3-1",
        "00c0ffee00c0ffee-1-31-1-1",
        of_request(b"true"),
        of_request(b"null"),
        of_request(b"1.5"),
        of_request(b"NaN"),
        of_request(b'{"a":1}'),
        of_request(b'1,"result":{}'),
        of_request(b'"\xff"'),
        of_request(b'"open'),
        of_request(b'"%b"' % (b"x" * 80)),
    ],
)
def test_what_is_no_event_id_is_known_as_such(text: str) -> None:
    assert http_messages.parse_event_id(text) is None


@given(st.text(max_size=60) | st.binary(max_size=70).map(of_request))
def test_whatever_comes_as_an_id_can_be_part_of_an_answer(text: str) -> None:
    found = http_messages.parse_event_id(text)
    if found and found.request is not None:
        assert isinstance(json.loads(found.request), str | int)
        assert b"\n" not in found.request
