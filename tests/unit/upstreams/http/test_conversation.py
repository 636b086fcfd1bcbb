"""What a session of the legacy era has been told, and what goes with each of its requests."""

import json

import pytest

from hearth.upstreams.http.conversation import UpstreamSession, is_usable


def result(**capabilities: object) -> bytes:
    return json.dumps({"protocolVersion": "2025-06-18", "capabilities": capabilities}).encode()


def test_before_it_begins_nothing_is_sent_along() -> None:
    assert UpstreamSession().headers() == {}


def test_its_id_and_its_version_go_with_every_request() -> None:
    session = UpstreamSession()
    session.begin("abc", result())
    assert session.headers() == {"Mcp-Session-Id": "abc", "MCP-Protocol-Version": "2025-06-18"}
    assert session.generation == 1


def test_a_server_may_give_no_id_and_no_version() -> None:
    session = UpstreamSession()
    session.begin(None, b"{}")
    assert session.headers() == {}
    assert session.generation == 1


@pytest.mark.parametrize("id", ["", "a b", "a\n", "é", "\x7f", "x" * 5000])
def test_an_id_that_is_none_is_not_used(id: str) -> None:
    session = UpstreamSession()
    session.begin(id, result())
    assert session.id is None
    assert is_usable(id) == (id == "")


def test_what_it_was_told_is_what_counts_in_the_end() -> None:
    session = UpstreamSession()
    for method, params in [
        ("logging/setLevel", b'{"level":"debug"}'),
        ("resources/subscribe", b'{"uri":"a:1"}'),
        ("resources/subscribe", b'{"uri":"a:2"}'),
        ("tools/call", b'{"name":"x"}'),
        ("logging/setLevel", b'{"level":"error"}'),
        ("resources/unsubscribe", b'{"uri":"a:1"}'),
        ("resources/unsubscribe", b'{"uri":"a:3"}'),
        ("resources/subscribe", b'{"uri":"a:2","x":1}'),
    ]:
        session.note(method, params)
    assert list(session.told()) == [
        ("logging/setLevel", b'{"level":"error"}'),
        ("resources/subscribe", b'{"uri":"a:2","x":1}'),
    ]


def test_a_new_one_may_have_other_lists_of_what_it_offers() -> None:
    session = UpstreamSession()
    session.begin("abc", result(tools={}, prompts={}, logging={}))
    assert [notice.method for notice in session.notices()] == [
        "notifications/tools/list_changed",
        "notifications/prompts/list_changed",
    ]
