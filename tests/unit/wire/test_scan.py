"""The scanner agrees with the standard library on what is JSON, and needs no stack for it.

Halves of surrogate pairs pass through msgspec hidden, and come back as they were.
"""

import json
import re

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hearth.wire import scan
from hearth.wire.scan import JsonError, Scanner, TooDeepError

from .documents import damaged, documents, objects, values


def _refuse(constant: str) -> None:
    raise ValueError(constant)


# Digits are kept as text: the standard library refuses long integers, which are JSON all the same.
_reference = json.JSONDecoder(parse_constant=_refuse, parse_int=str, parse_float=str)


def is_json(data: bytes) -> bool:
    try:
        _reference.decode(data.decode("utf-8", "surrogateescape"))
    except ValueError:
        return False
    return True


def is_scanned(data: bytes) -> bool:
    try:
        scan.check(data)
    except JsonError:
        return False
    return True


@pytest.mark.parametrize(
    "text",
    [
        "0", "-0", "10", "1.5", "1e5", "1E-05", "true", "false", "null", '""', '"\\u0041"', '"\\/"', "[]", "{}", "[ ]",
        "[[]]", "[{}]", '{"a":{}}', '{"a":[]}', "[1,2]",
        "[[],[]]", "[[[]],1]", '{"a":1,"b":2}', '{"a":[],"b":{}}', '"\x7f"',
        " [ 1 , 2 ] ", '{"":{"":{"":[{}]}}}',
    ],
)  # fmt: skip
def test_json_is_taken(text: str) -> None:
    assert is_json(text.encode())
    assert is_scanned(text.encode())


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "01", "-", "+1", ".5", "1.", "1e", "1e+", "0x1", "NaN", "Infinity", "-Infinity", "tru", "nulll",
        "True",
        '"', '"a', '"\\x"', '"\\u12"', '"\\u12g4"', '"\t"', '"\n"', "'a'", "[", "]", "[1,]", "[,1]", "[1 2]", "[1}",
        "{]",
        "{", "}", '{"a"}', '{"a":}', '{"a":1,}', '{,"a":1}', "{1:1}", '{"a" 1}', '{"a":1 "b":2}', '{"a":1]', "[1]]",
        "1 1", "[1]x", "[[],]", "[[]", '{"a":[}', "/**/1", "[1,,2]", '{"a"::1}', "\ufeff1", "\u00a01", "1\x00", "\x0c1",
    ],
)  # fmt: skip
def test_what_is_not_json_is_refused(text: str) -> None:
    assert not is_json(text.encode())
    assert not is_scanned(text.encode())


@given(documents())
def test_any_json_is_taken(document: bytes) -> None:
    assert is_scanned(document)


@given(st.one_of(damaged(), damaged(objects), st.binary(max_size=20)))
@example(b'{"a":"\xff"}')
@example(b"\xff")
def test_the_standard_library_agrees_on_any_damaged_json(data: bytes) -> None:
    assert is_scanned(data) == is_json(data)


@given(objects)
def test_members_have_the_values_that_the_standard_library_finds(document: bytes) -> None:
    found = scan.members(document)
    assert {key: json.loads(value) for key, value in found.items()} == json.loads(document)
    assert all(value == value.strip() and value in document for value in found.values())


@given(documents(st.lists(values, max_size=5)))
def test_elements_are_the_values_that_the_standard_library_finds(document: bytes) -> None:
    assert [json.loads(item) for item in scan.elements(document)] == json.loads(document)


@given(damaged(documents(st.lists(values, max_size=5))))
def test_elements_are_found_exactly_in_json_arrays(data: bytes) -> None:
    try:
        list(scan.elements(data))
    except JsonError:
        assert not is_json(data) or not data.lstrip(b" \t\r\n").startswith(b"[")
    else:
        assert is_json(data)


@given(damaged(objects))
def test_members_are_found_exactly_in_json_objects(data: bytes) -> None:
    try:
        scan.members(data)
    except JsonError:
        assert not is_json(data) or not data.lstrip(b" \t\r\n").startswith(b"{")
    else:
        assert is_json(data)


@given(documents())
def test_a_value_may_come_in_pieces_that_end_between_tokens(document: bytes) -> None:
    scanner = Scanner()
    for line in document.split(b"\n"):
        assert scanner.receive_data(line) == len(line)
    assert scanner.complete


def test_a_scanner_stops_behind_the_value() -> None:
    scanner = Scanner()
    assert scanner.receive_data(b"[1] [2]") == 4
    assert scanner.complete


def test_a_scanner_goes_on_with_each_line() -> None:
    scanner = Scanner()
    for line in [b"{", b'"a"', b":", b"[", b"1", b",", b"{", b"}", b"]"]:
        assert scanner.receive_data(line) == len(line)
        assert not scanner.complete
    scanner.receive_data(b"}")
    assert scanner.complete


@pytest.mark.parametrize("lines", [[b"[1,", b"]"], [b"{", b"1"], [b'{"a"', b"1"], [b"[", b"}"], [b"[1", b"2"]])
def test_a_scanner_refuses_the_line_that_does_not_fit(lines: list[bytes]) -> None:
    scanner = Scanner()
    for line in lines[:-1]:
        scanner.receive_data(line)
    with pytest.raises(JsonError):
        scanner.receive_data(lines[-1])


def test_a_hundred_thousand_levels_are_scanned_and_five_hundred_thousand_are_not() -> None:
    scan.check(b"[" * 100_000 + b"]" * 100_000)
    scan.check(b'{"a":' * 100_000 + b"1" + b"}" * 100_000)
    with pytest.raises(TooDeepError):
        scan.check(b"[" * 500_001)


def test_many_values_in_one_object_share_one_limit() -> None:
    value = b"[" * 1_000 + b"]" * 1_000
    members = b",".join(b'"%d":%b' % (number, value) for number in range(scan.STEP_LIMIT // 1_000))
    with pytest.raises(TooDeepError) as caught:
        scan.members(b'{"id":1,' + members + b"}")
    assert caught.value.members["id"] == b"1"


def test_long_strings_and_long_runs_are_one_step_each() -> None:
    scan.check(b'"' + rb"\n\u0041" * 1_000_000 + b'"')
    scan.check(b"[" + b"1, " * 1_000_000 + b"1]")
    scan.check(b"{" + b'"a":"b", ' * 1_000_000 + b'"a":1}')


def test_text_keeps_lone_surrogates_and_invalid_bytes_apart_from_the_rest() -> None:
    assert scan.text(rb'"\ud83dA\ud83d\ude00"') == "\ud83dA😀"
    assert scan.text(b'"\xff"') == "\udcff"
    assert scan.quote("\ud83d") == rb'"\ud83d"'


_pieces = st.sampled_from(["\ud83d", "\ude00", "😀", "a", "\\", "\n", "é", "u", "d83d"])
_texts = st.lists(_pieces, max_size=10).map("".join)


@pytest.mark.parametrize(
    "text",
    [b'"a"', rb'"\ud83d\ude00"', rb'"\uD83D\uDE00"', rb'"\\ud83d"', rb'"\n\u00e9\ud7ff\ue000"', b"", b"\\", b"\\u"],
)
def test_what_has_no_lone_surrogate_is_left_alone(text: bytes) -> None:
    assert scan.hide(text) is None


@pytest.mark.parametrize(
    "text",
    [rb'"\ud83d"', rb'"\uDE00"', rb'"\ude00\ud83d"', rb'"\ud83d\ud83d\ude00"', rb'"\\\ud83d"', rb'"\ud83dd83d\ud83dx"'],
)
def test_a_lone_surrogate_is_hidden_from_msgspec_and_shown_again(text: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        msgspec.json.decode(text)
    hidden = scan.hide(text)
    assert hidden is not None
    msgspec.json.decode(hidden)
    assert scan.show(hidden) == text


@given(_texts)
def test_any_string_can_be_read_once_hidden(text: str) -> None:
    written = json.dumps(text).encode()
    hidden = scan.hide(written)
    assert (hidden is None) == (re.search("[\ud800-\udfff]", json.loads(written)) is None)
    if hidden is not None:
        assert scan.show(hidden) == written
        assert scan.is_hidden(msgspec.json.decode(hidden))


@given(objects)
def test_any_object_is_the_same_after_hiding_and_showing(document: bytes) -> None:
    hidden = scan.hide(document)
    assert hidden is None or scan.show(hidden) == document


@pytest.mark.parametrize(
    "text", [rb'"\ud8"', rb'"\ud83"', rb'"\ud8zz"', rb'"\udeudeb2"', rb'"\ud83d\ud83"', rb'"\ud83d\x"']
)
def test_a_broken_escape_does_not_become_json_by_being_hidden(text: bytes) -> None:
    hidden = scan.hide(text)
    with pytest.raises(msgspec.DecodeError):
        msgspec.json.decode(text if hidden is None else hidden)


def test_a_text_that_holds_the_mark_or_too_many_halves_is_left_to_others() -> None:
    assert scan.hide(b'"' + scan._MARK + rb'\ud83d"') is None
    assert scan.hide(b'"' + rb"\ud83d" * (scan._COUNT_LIMIT + 1) + b'"') is None
