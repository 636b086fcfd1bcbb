"""What a session of the legacy era has been told, and what goes with each of its requests."""

import json

import pytest

from hearth.upstreams.http.conversation import UpstreamSession, Wording, is_usable, refused, retry_after


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


@pytest.mark.parametrize(
    ("status", "headers", "seconds"),
    [
        (429, {"retry-after": "7"}, 7),
        (503, {"retry-after": "0"}, 0),
        (500, {"retry-after": "7"}, None),
        (503, {}, None),
        (503, {"retry-after": "-1"}, None),
        (503, {"retry-after": "soon"}, None),
        (503, {"retry-after": "1" * 20}, None),
        (503, {"retry-after": "Sun, 06 Nov 1994 08:49:47 GMT", "date": "Sun, 06 Nov 1994 08:49:37 GMT"}, 10),
        (503, {"retry-after": "Sun, 06 Nov 1994 08:49:47 GMT"}, 10),
        (503, {"retry-after": "Sun, 06 Nov 1994 08:49:27 GMT"}, 0),
        (503, {"retry-after": "Sun, 99 Nov 1994 GMT"}, None),
    ],
)
def test_a_server_may_ask_for_a_pause(status: int, headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(status, headers, 784111777) == seconds


def test_what_to_do_names_what_the_reader_can_change() -> None:
    words = Wording(identity="I", headers="H", address="A", pace="P")
    for status, word in ((401, "I"), (403, "H"), (404, "A"), (429, "P")):
        assert word in str(refused("x", status, words)) and "entry" not in str(refused("x", status, words))
        assert "entry" in str(refused("x", status))
