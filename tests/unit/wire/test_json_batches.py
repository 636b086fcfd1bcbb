"""Batches of JSON-RPC messages: each element is a message or an error by itself."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth.errors import MessageError
from hearth.wire import scan
from hearth.wire.json import BATCH_LIMIT, Message, join, one_line, parse_batch

from .documents import NOTIFICATION, REQUEST, RESPONSE, damaged, documents, nested, refusal, request_with, values


def shown(items: list[Message | MessageError]) -> list[object]:
    return [join(item.fields) if isinstance(item, Message) else (item.rpc_code, item.id) for item in items]


def test_a_batch_has_its_messages_in_order() -> None:
    line = b" [" + REQUEST + b" ,\t" + NOTIFICATION + b"," + RESPONSE + b"]\r"
    assert shown(parse_batch(line).items) == [REQUEST, NOTIFICATION, RESPONSE]


def test_a_batch_is_no_message() -> None:
    error = refusal(b"[" + REQUEST + b"]")
    assert (error.rpc_code, error.id, str(error)) == (-32600, None, "a message must be a JSON object")


@pytest.mark.parametrize(
    ("element", "code", "own_id"),
    [
        (b"1", -32600, None),
        (b"null", -32600, None),
        (b'"text"', -32600, None),
        (b"{}", -32600, None),
        (b"[]", -32600, None),
        (b"[" + REQUEST + b"]", -32600, None),
        (b'{"jsonrpc":"1.0","id":5,"method":"x"}', -32600, b"5"),
        (b'{"jsonrpc":"2.0","id":"a","method":"\xff"}', -32600, b'"a"'),
        (b'{"jsonrpc":"2.0","id":"\xff","method":"x"}', -32700, None),
    ],
)
def test_an_element_that_is_no_message_spoils_only_itself(element: bytes, code: int, own_id: bytes | None) -> None:
    items = parse_batch(b"[" + REQUEST + b"," + element + b"," + NOTIFICATION + b"]").items
    assert shown(items) == [REQUEST, (code, own_id), NOTIFICATION]


@pytest.mark.parametrize(
    "element",
    [
        pytest.param(request_with(rb'"\ud83d"'), id="a lone surrogate"),
        pytest.param(
            request_with(rb'"\ud83d\x7fhearth lone surrogate:"'.replace(rb"\x7f", b"\x7f")), id="and its mark"
        ),
        pytest.param(request_with(nested(5000)), id="deep nesting"),
        pytest.param(request_with('"é😀"'.encode()), id="UTF-8"),
    ],
)
def test_what_a_message_may_hold_it_may_hold_in_a_batch(element: bytes) -> None:
    assert shown(parse_batch(b"[" + element + b"," + NOTIFICATION + b"]").items) == [element, NOTIFICATION]


def test_line_ends_between_the_tokens_of_a_batch_become_spaces() -> None:
    (message,) = parse_batch(b"[\n" + request_with(b"[1,\r\n2]") + b"\n]").items
    assert isinstance(message, Message) and message.params == b"[1,  2]"


@pytest.mark.parametrize("line", [b"[", b"[1", b"[1,]", b"[,1]", b"[1]]", b"[1}", b"[INFO] started", b"[NaN]", b"\xff"])
def test_what_is_no_array_is_no_batch(line: bytes) -> None:
    assert refusal(line, parse_batch).rpc_code == -32700


def test_an_empty_batch_is_refused() -> None:
    error = refusal(b" [ ] ", parse_batch)
    assert (error.rpc_code, error.id) == (-32600, None)
    assert "at least one" in str(error)


@pytest.mark.parametrize("rest", [b"", b',"\\ud83d"'], ids=["usual", "read slowly"])
def test_a_batch_has_as_many_elements_as_the_limit_says_and_not_one_more(rest: bytes) -> None:
    def batch(count: int) -> bytes:
        return b"[" + b",".join([NOTIFICATION] * count) + rest + b"]"

    last = 1 if rest else 0
    assert len(parse_batch(batch(BATCH_LIMIT - last)).items) == BATCH_LIMIT
    error = refusal(batch(BATCH_LIMIT - last + 1), parse_batch)
    assert error.rpc_code == -32600
    assert f"at most {BATCH_LIMIT} messages" in str(error)


def test_a_batch_of_far_too_many_elements_is_json_to_its_end_or_not_json() -> None:
    many = b"[" + b"1," * 100_000
    assert "at most" in str(refusal(many + b"1]", parse_batch))
    assert refusal(many + b"]", parse_batch).rpc_code == -32700


@given(documents(st.lists(values, max_size=5)))
def test_a_batch_is_taken_apart_at_its_own_commas(document: bytes) -> None:
    elements = list(scan.elements(document))
    if elements:
        assert len(parse_batch(document).items) == len(elements)
    else:
        assert refusal(document, parse_batch).rpc_code == -32600


@given(st.lists(documents(), max_size=3), damaged())
def test_elements_are_forwarded_byte_for_byte_or_the_whole_is_not_json(params: list[bytes], other: bytes) -> None:
    lines = [request_with(document.strip()) for document in params]
    try:
        items = parse_batch(b"[" + b",".join([*lines, other]) + b"]").items
    except MessageError as error:
        assert error.rpc_code in (-32700, -32600)
        return
    assert [join(item.fields) for item in items[: len(lines)] if isinstance(item, Message)] == list(
        map(one_line, lines)
    )
