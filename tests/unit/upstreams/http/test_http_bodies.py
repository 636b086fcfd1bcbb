"""The messages in a body: one, or an array of them."""

import pytest

from hearth.errors import MessageError
from hearth.upstreams.http import conversation
from hearth.wire.json import Message
from hearth.wire.lines import Item

ONE = b'{"jsonrpc":"2.0","id":1,"result":{}}'
NOTICE = b'{"jsonrpc":"2.0","method":"x"}'


def shown(items: list[Item]) -> list[object]:
    return [(item.id, item.method) if isinstance(item, Message) else type(item) for item in items]


def test_a_body_is_one_message_or_an_array() -> None:
    assert shown(conversation.items(ONE)) == [(b"1", None)]
    assert shown(conversation.items(b" \r\n[" + NOTICE + b",\n" + ONE + b"]")) == [(None, "x"), (b"1", None)]


@pytest.mark.parametrize("data", [b"", b"{]", b"[", b"[]", b"1", b"\xff"])
def test_what_is_no_message_is_an_error(data: bytes) -> None:
    assert shown(conversation.items(data)) == [MessageError]


def test_what_is_no_message_in_an_array_costs_only_itself() -> None:
    assert shown(conversation.items(b"[1," + ONE + b"]")) == [MessageError, (b"1", None)]


def test_an_error_is_found_whatever_its_id() -> None:
    error = b'{"code":-32000,"message":"no"}'
    for id in (b"", b'"id":null,', b'"id":"server-error",', b'"id":7,'):
        found = conversation.error_in(b'{"jsonrpc":"2.0",%b"error":%b}' % (id, error))
        assert found is not None
        assert bytes(found) == error
    assert conversation.error_in(ONE) is None


def test_an_error_becomes_the_answer_to_the_request_it_belongs_to() -> None:
    found = conversation.error_in(b'{"id":null,"error":{"code":-1,\n"message":"no"}}')
    assert found is not None
    answer = conversation.relabelled(7, found)
    assert (answer.id, answer.error) == (b"7", b'{"code":-1, "message":"no"}')


def test_an_answer_is_to_just_one_request() -> None:
    assert conversation.answers_to(1, ONE)
    assert not conversation.answers_to(11, ONE)
    assert not conversation.answers_to(1, b'{"id":"1"}')
    assert not conversation.answers_to(1, b"<html>")
