"""The messages that Hearth writes itself: whole, on one line, and with the id as it came."""

import pytest

from hearth.errors import MessageError, Refused, UpstreamError
from hearth.mcp import messages, versions
from hearth.wire import json


def test_a_result_carries_id_and_body_byte_for_byte() -> None:
    assert messages.result(rb'"\u0061"', b'{ "a":1 }') == rb'{"jsonrpc":"2.0","id":"\u0061","result":{ "a":1 }}'


def test_an_error_without_an_id_has_no_id_member() -> None:
    assert json.loads(messages.error(None, -32700, "what?")) == {
        "jsonrpc": "2.0",
        "error": {"code": -32700, "message": "what?"},
    }


def test_an_error_may_carry_data_and_any_text() -> None:
    found = messages.error(b"1", -32602, 'a "quoted"\nline \ud800', {"reason": "role"})
    assert b"\n" not in found
    assert json.loads(found)["error"]["data"] == {"reason": "role"}


@pytest.mark.parametrize(
    ("problem", "code"),
    [
        (MessageError("m", -32601), -32601),
        (Refused("r"), -32602),
        (UpstreamError("u"), -32603),
        (versions.UnsupportedVersion("x"), -32022),
    ],
)
def test_each_kind_of_failure_has_its_code(problem: Refused, code: int) -> None:
    assert json.loads(messages.failure(b"1", problem))["error"]["code"] == code


def test_requests_and_notifications_are_messages() -> None:
    assert json.parse(messages.request(b'"q"', "elicitation/create", b"{}")).kind is json.Kind.REQUEST
    assert json.parse(messages.notification("notifications/x")).kind is json.Kind.NOTIFICATION
    assert json.loads(messages.notification("n", b'{"a":1}'))["params"] == {"a": 1}


def test_both_openings_name_the_daemon_and_carry_instructions_where_there_are_any() -> None:
    identity = messages.Identity("9.9", "d1")
    body = identity.initialized("2025-06-18", b'{"tools":{}}', "use it well")
    opened = json.loads(body)
    assert (opened["protocolVersion"], opened["instructions"]) == ("2025-06-18", "use it well")
    discovered = json.loads(identity.discovered(b'{"prompts":{}}', None))
    assert "instructions" not in discovered
    assert json.loads(body)["_meta"]["hearth/daemonId"] == discovered["_meta"]["hearth/daemonId"] == "d1"
    assert json.loads(identity.discovered(b"{}", "hi"))["instructions"] == "hi"
    assert "instructions" not in json.loads(identity.initialized("2025-06-18", b"{}", None))


def test_both_openings_declare_what_they_are_given() -> None:
    identity = messages.Identity("9.9", "d1")
    assert json.loads(identity.initialized("2025-11-25", b'{"tools":{}}', None))["capabilities"] == {"tools": {}}
    assert json.loads(identity.discovered(b'{"prompts":{}}', None))["capabilities"] == {"prompts": {}}
