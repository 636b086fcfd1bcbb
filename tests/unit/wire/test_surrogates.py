"""Halves of surrogate pairs pass through msgspec hidden, and come back as they were."""

import json
import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth.wire import surrogates

from .documents import objects

_pieces = st.sampled_from(["\ud83d", "\ude00", "😀", "a", "\\", "\n", "é", "u", "d83d"])
_texts = st.lists(_pieces, max_size=10).map("".join)


@pytest.mark.parametrize(
    "text",
    [b'"a"', rb'"\ud83d\ude00"', rb'"\uD83D\uDE00"', rb'"\\ud83d"', rb'"\n\u00e9\ud7ff\ue000"', b"", b"\\", b"\\u"],
)
def test_what_has_no_lone_surrogate_is_left_alone(text: bytes) -> None:
    assert surrogates.hide(text) is None


@pytest.mark.parametrize(
    "text",
    [rb'"\ud83d"', rb'"\uDE00"', rb'"\ude00\ud83d"', rb'"\ud83d\ud83d\ude00"', rb'"\\\ud83d"', rb'"\ud83dd83d\ud83dx"'],
)
def test_a_lone_surrogate_is_hidden_from_msgspec_and_shown_again(text: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        msgspec.json.decode(text)
    hidden = surrogates.hide(text)
    assert hidden is not None
    msgspec.json.decode(hidden)
    assert surrogates.show(hidden) == text


@given(_texts)
def test_any_string_can_be_read_once_hidden(text: str) -> None:
    written = json.dumps(text).encode()
    hidden = surrogates.hide(written)
    assert (hidden is None) == (re.search("[\ud800-\udfff]", json.loads(written)) is None)
    if hidden is not None:
        assert surrogates.show(hidden) == written
        assert surrogates.is_hidden(msgspec.json.decode(hidden))


@given(objects)
def test_any_object_is_the_same_after_hiding_and_showing(document: bytes) -> None:
    hidden = surrogates.hide(document)
    assert hidden is None or surrogates.show(hidden) == document


@pytest.mark.parametrize(
    "text", [rb'"\ud8"', rb'"\ud83"', rb'"\ud8zz"', rb'"\udeudeb2"', rb'"\ud83d\ud83"', rb'"\ud83d\x"']
)
def test_a_broken_escape_does_not_become_json_by_being_hidden(text: bytes) -> None:
    hidden = surrogates.hide(text)
    with pytest.raises(msgspec.DecodeError):
        msgspec.json.decode(text if hidden is None else hidden)


def test_a_text_that_holds_the_mark_or_too_many_halves_is_left_to_others() -> None:
    assert surrogates.hide(b'"' + surrogates._MARK + rb'\ud83d"') is None
    assert surrogates.hide(b'"' + rb"\ud83d" * (surrogates._COUNT_LIMIT + 1) + b'"') is None
