"""Ids are equal by value, not by spelling."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth.wire.ids import id_key


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
