"""Single raw values, read leniently; ids are equal by value, not by spelling."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth.errors import MessageError
from hearth.wire import values
from hearth.wire.json import Raw, parse
from hearth.wire.values import id_key


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b'"a"', "a"),
        (Raw('"é\\u00e9"'.encode()), "éé"),
        (rb'"\ud83d"', "\ud83d"),
        (b"1", None),
        (b"null", None),
        (b"[]", None),
        (None, None),
    ],
)
def test_a_text_is_a_string_or_nothing(raw: values.RawBytes | None, text: str | None) -> None:
    assert values.text(raw) == text


@pytest.mark.parametrize(
    ("raw", "number"),
    [(b"0", 0), (Raw(b"-12"), -12), (b"1.0", None), (b'"1"', None), (b"-", None), (b"9" * 21, None), (None, None)],
)
def test_an_integer_is_one_of_64_bits_or_nothing(raw: values.RawBytes | None, number: int | None) -> None:
    assert values.integer(raw) == number


def test_only_true_is_true() -> None:
    assert values.is_true(b"true")
    assert not any(map(values.is_true, [None, b"false", b"1", b'"true"', b"null"]))


def test_members_of_what_is_no_object_are_none() -> None:
    assert {key: bytes(raw) for key, raw in values.members(b'{"a":1}').items()} == {"a": b"1"}
    assert values.members(b"[]") == values.members(None) == values.members(b"{") == {}


@pytest.mark.parametrize(
    ("raw", "items"),
    [
        (b"[]", []),
        (None, []),
        (b' [1, {"a" : 2} ,"x"] ', [b"1", b'{"a" : 2}', b'"x"']),
        (rb'["\ud83d", 1 ]', [rb'"\ud83d"', b"1"]),
        (b"[" * 5000 + b"]" * 5000, [b"[" * 4999 + b"]" * 4999]),
        (b'["\x7fhearth lone surrogate:",\n"\\ud83d"]', [b'"\x7fhearth lone surrogate:"', rb'"\ud83d"']),
    ],
)
def test_elements_are_the_bytes_that_stand_in_the_array(raw: bytes | None, items: list[bytes]) -> None:
    assert [bytes(item) for item in values.elements(raw)] == items
    assert [bytes(item) for found in values.element_slices(raw) for item in found] == items


@pytest.mark.parametrize("raw", [b"{}", b"1", b"[1,]", b"[1 2]", b"[", b"", b"[1]]", rb'["\ud83d"}', rb'["\ud83d",]'])
def test_elements_of_what_is_no_array_are_an_error(raw: bytes) -> None:
    with pytest.raises(MessageError):
        values.elements(raw)
    with pytest.raises(MessageError):
        list(values.element_slices(raw))


@pytest.mark.parametrize("separator", [b",", b" ,\t"])
@pytest.mark.parametrize("last", [b"1", rb'"\ud83d"', b"[" * 5000 + b"]" * 5000])
def test_a_long_array_is_given_in_slices(separator: bytes, last: bytes) -> None:
    items = [b'{"a" : [%d, "b"]}' % number for number in range(3500)] + [last]
    slices = list(values.element_slices(b" [ " + separator.join(items) + b" ] "))
    assert [bytes(item) for found in slices for item in found] == items
    assert max(map(len, slices)) < 1100


def test_an_error_response_has_a_code_and_a_sentence_in_any_case() -> None:
    assert values.error(parse(b'{"jsonrpc":"2.0","id":1,"error":{"code":-5,"message":"no"}}')) == (-5, "no")
    assert values.error(parse(b'{"jsonrpc":"2.0","id":1,"error":"what"}'))[0] == 0


@pytest.mark.parametrize(
    "spellings",
    [
        [b"1", b"1.0", b"1e0", b"10e-1", b"0.1E+1", b"1.000"],
        [b"0", b"-0", b"0.0", b"0e5", b"-0.0e-9"],
        [b"-12", b"-12.0", b"-1.2e1", b"-0.12e2"],
        [b"1.5", b"15e-1", b"1.50"],
        [b"0.5", b"5e-1", b"0.050e1", b"0.50"],
        [b"1" + b"0" * 30, b"1e30", b"10e29"],
        [b'"a"', rb'"\u0061"'],
        ['"é😀"'.encode(), rb'"\u00e9\ud83d\ude00"'],
    ],
)
def test_one_id_in_many_spellings_has_one_key(spellings: list[bytes]) -> None:
    assert len({id_key(raw) for raw in spellings}) == 1


def test_different_ids_have_different_keys() -> None:
    ids = [
        b"1", b"-1", b'"1"', b"1.5", b'"1.5"', b"10", b"0", b'""', b'"a"', b'"A"', rb'"\ud83d"', rb'"\ufffd"',
        b"9007199254740992", b"9007199254740993", b"9007199254740993.0000000001", b"1" * 40, b"1" * 39 + b"2",
        b"1e400", b"1e401", b"-1e400", b"1e-400", b"1e99999999999999999999", b"1e99999999999999999998",
    ]  # fmt: skip
    assert len({id_key(raw) for raw in ids}) == len(ids)


def test_an_id_of_absurd_length_is_still_a_key() -> None:
    assert id_key(b"1" * 100_000) != id_key(b"1" * 99_999)
    assert id_key(b"1e" + b"9" * 100_000) == id_key(b"1e" + b"9" * 100_000)


def test_what_cannot_be_an_id_is_a_key_of_its_own() -> None:
    assert len({id_key(raw) for raw in [b"null", b"true", b"{}", b"[1]", b"1", b'"null"']}) == 6


_numbers = st.from_regex(r"-?(0|[1-9][0-9]{0,25})(\.[0-9]{1,6})?([eE][+-]?[0-9]{1,2})?", fullmatch=True).filter(
    str.isascii
)


@given(_numbers, _numbers)
def test_numbers_have_one_key_exactly_when_they_are_equal(one: str, other: str) -> None:
    assert (id_key(one.encode()) == id_key(other.encode())) == (Fraction(one) == Fraction(other))
