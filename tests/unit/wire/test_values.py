"""Single raw values, read leniently."""

import pytest

from hearth.errors import MessageError
from hearth.wire import values
from hearth.wire.json import Raw, parse


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
