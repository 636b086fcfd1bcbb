"""The judge of messages finds what it is there for: each of these is fine in one revision and not in another."""

import pytest

from support.conformance import table
from support.conformance.features import FEATURES
from support.conformance.revisions import (
    CAPABILITIES_KEY,
    LOG_LEVEL_KEY,
    MODERN,
    REVISIONS,
    SERVER_INFO_KEY,
    SUBSCRIPTION_KEY,
    VERSION_KEY,
    is_modern,
)
from support.conformance.vocabulary import ACKNOWLEDGED, Message, to_client, to_server

ENVELOPE = {VERSION_KEY: MODERN, CAPABILITIES_KEY: {}}


def request(method: str, **params: object) -> Message:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def notice(method: str, **params: object) -> Message:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def error(code: int) -> Message:
    return {"jsonrpc": "2.0", "id": 1, "error": {"code": code, "message": "no"}}


def result(revision: str, **fields: object) -> Message:
    """A good result of that revision's era, so that nothing but the fields is judged."""
    modern = {"resultType": "complete", "_meta": {SERVER_INFO_KEY: {"name": "s", "version": "1"}}}
    return {"jsonrpc": "2.0", "id": 1, "result": {**(modern if is_modern(revision) else {}), **fields}}


# What a client may get from its revision on.
CONTENT_SINCE: dict[str, Message] = {
    "2025-03-26": {"content": [{"type": "audio", "data": "", "mimeType": "audio/wav"}]},
    "2025-06-18": {"content": [{"type": "resource_link", "uri": "a:b", "name": "n"}]},
    "2026-07-28": {"content": [], "structuredContent": [1]},
}


@pytest.mark.parametrize("since", CONTENT_SINCE)
@pytest.mark.parametrize("revision", REVISIONS)
def test_content_is_fine_from_its_revision_on(revision: str, since: str) -> None:
    assert (to_client(revision, result(revision, **CONTENT_SINCE[since]), "tools/call") == []) is (revision >= since)


@pytest.mark.parametrize("revision", REVISIONS)
def test_structure_is_fine_from_its_revision_on(revision: str) -> None:
    structured = result(revision, content=[], structuredContent={})
    assert (to_client(revision, structured, "tools/call") == []) is (revision >= "2025-06-18")
    cached = {"ttlMs": 0, "cacheScope": "private"} if is_modern(revision) else {}
    for kind, since in {"object": "2025-06-18", "array": MODERN}.items():
        listed = result(revision, tools=[{"name": "t", "outputSchema": {"type": kind}}], **cached)
        assert (to_client(revision, listed, "tools/list") == []) is (revision >= since)


@pytest.mark.parametrize("revision", REVISIONS)
def test_questions_are_fine_between_their_first_revision_and_the_last_legacy_one(revision: str) -> None:
    sinces = {
        "roots/list": ("", {}),
        "elicitation/create": ("2025-06-18", {"message": "m"}),
        "sampling/createMessage": ("", {}),
    }
    for method, (since, params) in sinces.items():
        assert (to_client(revision, request(method, **params)) == []) is (since <= revision < MODERN)
    by_url = request("elicitation/create", mode="url", url="https://test.example")
    assert (to_client(revision, by_url) == []) is ("2025-11-25" <= revision < MODERN)
    assert to_client(revision, request("tools/call"))


@pytest.mark.parametrize("revision", REVISIONS)
def test_each_era_has_error_codes_of_its_own(revision: str) -> None:
    for code in (-32020, -32021, -32022):
        assert (to_client(revision, error(code)) == []) is is_modern(revision)
    assert (to_client(revision, error(-32002)) == []) is not is_modern(revision)
    assert (to_client(revision, error(-32042)) == []) is (revision == "2025-11-25")
    assert to_client(revision, error(-32602)) == []


@pytest.mark.parametrize("revision", REVISIONS)
def test_each_era_has_notifications_of_its_own(revision: str) -> None:
    acknowledged = notice(ACKNOWLEDGED, notifications={}, _meta={SUBSCRIPTION_KEY: 1})
    assert (to_client(revision, acknowledged) == []) is is_modern(revision)
    assert (to_client(revision, notice("notifications/resources/updated", uri="a:b")) == []) is not is_modern(revision)
    completed = notice("notifications/elicitation/complete", elicitationId="e")
    assert (to_client(revision, completed) == []) is (revision == "2025-11-25")
    assert to_client(revision, notice("notifications/progress", progressToken=1, progress=1)) == []


@pytest.mark.parametrize("key", ["resultType", "ttlMs", "cacheScope", "requestState", "inputRequests"])
@pytest.mark.parametrize("revision", REVISIONS[:-1])
def test_a_legacy_client_knows_no_modern_result(revision: str, key: str) -> None:
    assert to_client(revision, result(revision, content=[], **{key: "x"}), "tools/call")
    assert to_client(revision, result(revision, content=[], _meta={SERVER_INFO_KEY: {}}), "tools/call")
    assert to_client(revision, result(revision, content=[]), "tools/call") == []


@pytest.mark.parametrize(
    ("method", "fields"),
    [
        ("tools/call", {"resultType": "other"}),
        ("tools/call", {"ttlMs": 0, "cacheScope": "private"}),
        ("tools/list", {"ttlMs": 0}),
        ("tools/call", {"_meta": {}}),
        ("tools/call", {"resultType": "input_required"}),
        ("tools/list", {"resultType": "input_required", "requestState": "s"}),
    ],
)
def test_a_modern_client_minds_an_incomplete_result(method: str, fields: Message) -> None:
    assert to_client(MODERN, result(MODERN, **fields), method)


def test_a_legacy_server_knows_nothing_modern() -> None:
    good = request("tools/call", name="t", _meta={"test.example/key": 1, "progressToken": 1})
    assert to_server("2025-11-25", good) == []
    assert to_server("2025-11-25", request("tools/call", _meta={LOG_LEVEL_KEY: "debug"}))
    assert to_server("2025-11-25", request("tools/call", inputResponses={}))
    assert to_server("2025-11-25", request("subscriptions/listen"))
    assert to_server("2025-11-25", notice("notifications/resources/updated"))


def test_a_modern_server_knows_nothing_legacy() -> None:
    assert to_server(MODERN, request("tools/call", name="t", _meta=ENVELOPE)) == []
    assert to_server(MODERN, notice("notifications/cancelled", requestId=1)) == []
    assert to_server(MODERN, request("ping", _meta=ENVELOPE))
    assert to_server(MODERN, request("tools/list"))
    assert to_server(MODERN, request("tools/list", _meta={**ENVELOPE, LOG_LEVEL_KEY: "loud"}))
    assert to_server(MODERN, notice("notifications/initialized"))
    assert to_server(MODERN, {"jsonrpc": "2.0", "id": 1, "result": {}})


def test_the_page_is_read_as_it_was_written() -> None:
    outcomes = list(table.SIGNS)
    cells = [(client, upstream, feature) for client in REVISIONS for upstream in REVISIONS for feature in FEATURES]
    found = {cell: outcomes[number % len(outcomes)] for number, cell in enumerate(cells)}
    assert table.read(table.rendered(found)) == found
