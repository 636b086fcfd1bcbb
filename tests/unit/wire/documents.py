"""What the property tests feed: JSON as people and programs write it, damaged JSON, and streams cut anywhere."""

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import strategies as st

from hearth.errors import MessageError
from hearth.wire.json import parse

REQUEST = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"a":[1,2,{}]}}}'
NOTIFICATION = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
RESPONSE = b'{"jsonrpc":"2.0","id":"a","result":{"content":[]}}'

_spaces = st.sampled_from([b"", b"", b" ", b"\t", b"\r\n", b"\n  "])
_scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(), max_size=8),  # lone surrogates among them
    st.text(st.sampled_from('a"\\/\n\t{}[],:é😀\ud83d\ude00'), max_size=8),
)
values = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


@st.composite
def documents(draw: st.DrawFn, of: st.SearchStrategy[Any] = values) -> bytes:
    """JSON text with spaces and line ends between its tokens, escaped or not."""
    return _written(draw, draw(of))


def _written(draw: st.DrawFn, value: Any) -> bytes:
    before, after = draw(_spaces), draw(_spaces)
    if isinstance(value, list):
        inner = b",".join(_written(draw, item) for item in value) or draw(_spaces)
        return before + b"[" + inner + b"]" + after
    if isinstance(value, dict):
        pairs = (_written(draw, key) + b":" + _written(draw, item) for key, item in value.items())
        return before + b"{" + (b",".join(pairs) or draw(_spaces)) + b"}" + after
    return before + _scalar(draw, value) + after


def _scalar(draw: st.DrawFn, value: Any) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=draw(st.booleans())).encode()
    except UnicodeEncodeError:
        return json.dumps(value).encode()


objects = documents(st.dictionaries(st.text(st.characters(), max_size=4), values, max_size=5))


@st.composite
def damaged(draw: st.DrawFn, of: st.SearchStrategy[bytes] | None = None) -> bytes:
    """JSON with a few bytes removed, doubled, replaced or added."""
    data = bytearray(draw(documents() if of is None else of))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data)))
        until = draw(st.integers(at, min(len(data), at + 4)))
        data[at:until] = draw(
            st.sampled_from([b"", bytes(data[at:until]) * 2, b'"', b"\\", b"]", b"}", b",", b":", b"0", b"-", b"e"])
            | st.binary(max_size=2)
        )
    return bytes(data)


@st.composite
def chunks(draw: st.DrawFn, data: bytes) -> list[bytes]:
    """The bytes, cut anywhere."""
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=8)))
    return [data[start:stop] for start, stop in pairwise([0, *cuts, len(data)])]


def refusal(line: bytes, read: Callable[[bytes], object] = parse) -> MessageError:
    """Return the error for what is no message, or nothing else that is read."""
    with pytest.raises(MessageError) as caught:
        read(line)
    return caught.value


def request_with(params: bytes, request_id: bytes = b"7") -> bytes:
    """Return a request."""
    return b'{"jsonrpc":"2.0","id":%b,"method":"tools/call","params":%b}' % (request_id, params)


def nested(depth: int) -> bytes:
    """Return an object with an array that is nested so deep."""
    return b'{"a":%b%b}' % (b"[" * depth, b"]" * depth)
