"""The first bytes tell the language, and more bytes never change the answer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth.wire import sniff as sniffing
from hearth.wire.frames import encode
from hearth.wire.sniff import SNIFF_LIMIT_BYTES, Language, sniff

from .documents import NOTIFICATION, REQUEST, RESPONSE, damaged, objects


@pytest.mark.parametrize(
    ("first", "language"),
    [
        (encode(b'{"type":"hello"}'), Language.FRAMES),
        (b"\x00", Language.FRAMES),
        (b"\r\nGET /healthz HTTP/1.1\r\n", Language.HTTP),
        (b"\n" + REQUEST, Language.LINES),
        (b"\r\n\r\n" + REQUEST, Language.LINES),
        (b"\n" + encode(b'{"type":"hello"}'), Language.UNKNOWN),
        (b"\r\n" * 9, Language.UNKNOWN),
        (b"\x01", Language.UNKNOWN),
        (b"\x09", Language.UNKNOWN),
        (b"\x0f", Language.UNKNOWN),
        (b"POST /mcp HTTP/1.1\r\n", Language.HTTP),
        (b"G", Language.HTTP),
        (REQUEST, Language.LINES),
        (NOTIFICATION, Language.LINES),
        (RESPONSE, Language.LINES),
        (b'{"id":1,"params":{"type":"a","x":["type"]},"jsonrpc":', Language.LINES),
        (b'{\n  "id": "jsonrpc",\r\n\t"jsonrpc" :', Language.LINES),
        (b'{"a":"\\"type\\":","jsonrpc":"2.0"}', Language.LINES),
        (b'{"type":"prompt"}', Language.SESSION),
        (b'{"a":{"jsonrpc":1},"type":1}', Language.SESSION),
        (b"{}", Language.UNKNOWN),
        (b'{"a":1}\n{"jsonrpc":"2.0"}', Language.UNKNOWN),
        (b'["jsonrpc"]', Language.UNKNOWN),
        (b"{oops", Language.UNKNOWN),
        (b'{"a\n', Language.UNKNOWN),
        (b"\x10", Language.UNKNOWN),
        (b"hello", Language.UNKNOWN),
        (b" ", Language.UNKNOWN),
        (b"\xff", Language.UNKNOWN),
        (b"\x16\x03\x01", Language.UNKNOWN),
    ],
)
def test_the_language_is_told_by_the_first_bytes(first: bytes, language: Language) -> None:
    assert sniff(first) is language


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
    assert sniff((2**24 - 1).to_bytes(4, "big")) is Language.FRAMES
    assert sniff((2**24).to_bytes(4, "big")) is Language.UNKNOWN


def test_what_names_itself_too_late_is_read_as_lines() -> None:
    late = b'{"params":"' + b"x" * SNIFF_LIMIT_BYTES + b'","type":"prompt"}'
    assert sniff(late[: SNIFF_LIMIT_BYTES - 1]) is None
    assert sniff(late[:SNIFF_LIMIT_BYTES]) is sniff(late) is Language.LINES


@given(st.one_of(objects, damaged(objects), damaged(st.sampled_from([REQUEST, RESPONSE])), st.binary(max_size=30)))
def test_an_answer_does_not_change_when_more_bytes_follow(data: bytes) -> None:
    answers = [sniff(data[:size]) for size in range(len(data) + 1)]
    known = [answer for answer in answers if answer is not None]
    assert known == [] or (len(set(known)) == 1 and None not in answers[answers.index(known[0]) :])


def test_no_key_names_two_languages() -> None:
    assert len(set(sniffing._KEYS.values())) == len(sniffing._KEYS)
