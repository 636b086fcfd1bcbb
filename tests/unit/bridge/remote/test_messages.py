"""What a line, a body or an event says."""

import pytest

from hearth.bridge.remote import messages
from hearth.bridge.remote.messages import Unreadable, key_of, read
from hearth.bridge.replies import Literal


def one(text: str) -> messages.Message:
    [message], is_array = read(text.encode())
    assert not is_array
    return message


def test_requests_notifications_and_responses_are_told_apart() -> None:
    request = one('{"jsonrpc":"2.0","id":1,"method":"x"}')
    assert (request.is_request, request.is_response, request.method) == (True, False, "x")
    notification = one('{"jsonrpc":"2.0","method":"x"}')
    assert (notification.is_request, notification.is_response, notification.key) == (False, False, None)
    for response in ('{"id":1,"result":{}}', '{"id":1,"error":{}}', '{"id":null,"error":{}}'):
        assert (one(response).is_request, one(response).is_response) == (False, True)
    assert not one('{"id":1}').is_response
    assert one('{"id":1,"method":2}').method is None


def test_what_passes_is_what_came_on_one_line() -> None:
    message = one('\ufeff {\r\n "id" : 1.50,\n "method": "x\\n" }\r\n'.replace("\ufeff ", "\ufeff"))
    assert b"\n" not in message.raw and b"\r" not in message.raw
    assert message.raw.split() == b'{ "id" : 1.50, "method": "x\\n" }'.split()
    assert message.id == "1.50"


def test_ids_are_equal_as_numbers_and_never_as_a_number_and_a_text() -> None:
    assert key_of(Literal("1")) == key_of(Literal("1.0")) == key_of(Literal("1e0"))
    assert key_of(Literal("1")) != key_of("1")
    assert key_of(Literal("1.5")) != key_of(Literal("1"))
    assert key_of(Literal("123456789012345678901234567890")) != key_of(Literal("123456789012345678901234567891"))
    assert key_of(Literal("1e999"))


def test_the_era_is_in_the_envelope() -> None:
    modern = '{"id":1,"method":"x","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}'
    assert one(modern).version == "2026-07-28"
    for legacy in ('{"id":1,"method":"x"}', '{"id":1,"method":"x","params":[]}', modern.replace('"2026-07-28"', "7")):
        assert one(legacy).version is None


def test_members_of_an_array_keep_their_bytes() -> None:
    found, is_array = read(b'[ {"id": 1, "x": [1,{"]":"}"}]} ,\n{"method":"y"}]')
    assert is_array
    assert [message.raw for message in found] == [b'{"id": 1, "x": [1,{"]":"}"}]}', b'{"method":"y"}']


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", -32700),
        (b"{", -32700),
        (b'{"id":1} x', -32700),
        (b"\xff", -32700),
        (b'{"a":"\n"', -32700),
        (b"7", -32600),
        (b"[]", -32600),
        (b"[1]", -32600),
        (b'"x"', -32600),
    ],
)
def test_what_is_no_message_is_said_to_be_none(data: bytes, code: int) -> None:
    with pytest.raises(Unreadable) as caught:
        read(data)
    assert caught.value.rpc_code == code


def test_a_message_that_is_too_deep_still_has_its_id() -> None:
    with pytest.raises(Unreadable) as caught:
        read(b'{"id":"a","method":"x","params":' + b"[" * 300_000 + b"]" * 300_000 + b"}")
    assert (caught.value.written_id, caught.value.rpc_code) == ("a", -32600)


def test_errors_in_refusals_are_found_with_the_id_beside_them() -> None:
    assert messages.error_in(b'{"id":null,"error":{"code":-1,"message":"x"}}') == ('{"code":-1,"message":"x"}', None)
    assert messages.error_in(b'{"id":"server-error","error":{"code":1}}') == ('{"code":1}', "server-error")
    for body in (b"", b"<html>", b"[]", b'{"error":"x"}', b'{"error":{"code":"1"}}', b'{"result":{}}'):
        assert messages.error_in(body) is None


@pytest.mark.parametrize("text", ["{}", "[]", '{"a":[1.50,-0,true,false,null,"\\u00e4\\""],"b":{"c":1e400}}'])
def test_what_was_read_is_written_as_it_was(text: str) -> None:
    assert messages.written(one(f'{{"x":{text}}}').fields["x"]) == text
