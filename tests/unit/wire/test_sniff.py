"""The first bytes tell the protocol, and more bytes never change the answer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth.wire import sniff as sniffing
from hearth.wire.frames import encode
from hearth.wire.sniff import SNIFF_LIMIT_BYTES, DetectedProtocol, sniff

from .documents import NOTIFICATION, REQUEST, RESPONSE, damaged, objects


@pytest.mark.parametrize(
    ("first", "protocol"),
    [
        (encode(b'{"type":"hello"}'), DetectedProtocol.FRAMES),
        (b"\x00", DetectedProtocol.FRAMES),
        (b"\r\nGET /healthz HTTP/1.1\r\n", DetectedProtocol.HTTP),
        (b"\n" + REQUEST, DetectedProtocol.LINES),
        (b"\r\n\r\n" + REQUEST, DetectedProtocol.LINES),
        (b"\n" + encode(b'{"type":"hello"}'), DetectedProtocol.UNKNOWN),
        (b"\r\n" * 9, DetectedProtocol.UNKNOWN),
        (b"\x01", DetectedProtocol.UNKNOWN),
        (b"\x09", DetectedProtocol.UNKNOWN),
        (b"\x0f", DetectedProtocol.UNKNOWN),
        (b"POST /mcp HTTP/1.1\r\n", DetectedProtocol.HTTP),
        (b"G", DetectedProtocol.HTTP),
        (REQUEST, DetectedProtocol.LINES),
        (NOTIFICATION, DetectedProtocol.LINES),
        (RESPONSE, DetectedProtocol.LINES),
        (b'{"id":1,"params":{"type":"a","x":["type"]},"jsonrpc":', DetectedProtocol.LINES),
        (b'{\n  "id": "jsonrpc",\r\n\t"jsonrpc" :', DetectedProtocol.LINES),
        (b'{"a":"\\"type\\":","jsonrpc":"2.0"}', DetectedProtocol.LINES),
        (b'{"type":"prompt"}', DetectedProtocol.SESSION),
        (b'{"a":{"jsonrpc":1},"type":1}', DetectedProtocol.SESSION),
        (b"{}", DetectedProtocol.UNKNOWN),
        (b'{"a":1}\n{"jsonrpc":"2.0"}', DetectedProtocol.UNKNOWN),
        (b'["jsonrpc"]', DetectedProtocol.UNKNOWN),
        (b"{oops", DetectedProtocol.UNKNOWN),
        (b'{"a\n', DetectedProtocol.UNKNOWN),
        (b"\x10", DetectedProtocol.UNKNOWN),
        (b"hello", DetectedProtocol.UNKNOWN),
        (b" ", DetectedProtocol.UNKNOWN),
        (b"\xff", DetectedProtocol.UNKNOWN),
        (b"\x16\x03\x01", DetectedProtocol.UNKNOWN),
    ],
)
def test_the_protocol_is_told_by_the_first_bytes(first: bytes, protocol: DetectedProtocol) -> None:
    assert sniff(first) is protocol


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"\r",
        b"\r\n",
        b"\r\n{",
        b"{",
        b'{"',
        b'{"jsonrpc',
        b'{"jsonrpc"',
        b'{"jsonrpc" ',
        b'{"a":"type"',
        b'{"a":"\\',
    ],
)
def test_more_bytes_are_asked_for_while_it_is_open(first: bytes) -> None:
    assert sniff(first) is None


def test_the_largest_first_frame_begins_like_a_frame_and_what_nobody_would_wait_for_does_not() -> None:
    assert sniff((2**24 - 1).to_bytes(4, "big")) is DetectedProtocol.FRAMES
    assert sniff((2**24).to_bytes(4, "big")) is DetectedProtocol.UNKNOWN


def test_what_names_itself_too_late_is_read_as_lines() -> None:
    late = b'{"params":"' + b"x" * SNIFF_LIMIT_BYTES + b'","type":"prompt"}'
    assert sniff(late[: SNIFF_LIMIT_BYTES - 1]) is None
    assert sniff(late[:SNIFF_LIMIT_BYTES]) is sniff(late) is DetectedProtocol.LINES


@given(st.one_of(objects, damaged(objects), damaged(st.sampled_from([REQUEST, RESPONSE])), st.binary(max_size=30)))
def test_an_answer_does_not_change_when_more_bytes_follow(data: bytes) -> None:
    answers = [sniff(data[:size]) for size in range(len(data) + 1)]
    known = [answer for answer in answers if answer is not None]
    assert known == [] or (len(set(known)) == 1 and None not in answers[answers.index(known[0]) :])


def test_no_key_names_two_protocols() -> None:
    assert len(set(sniffing._KEYS.values())) == len(sniffing._KEYS)
