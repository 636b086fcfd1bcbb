"""From one era's words to the other's: only the levels that must change, the rest byte for byte."""

import pytest

from hearth import __version__
from hearth.errors import UpstreamError
from hearth.mcp import translate, versions
from hearth.mcp.translate import Caller
from hearth.wire import json

ENVELOPE = (
    b'"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"a":1}'
)


def call_result(raw: bytes, client_era: str, upstream_era: str) -> json.Raw | bytes:
    """The result of a tool for a client of the newest revision of its era."""
    version = versions.NEWEST_MODERN if client_era == versions.MODERN else versions.NEWEST_LEGACY
    return translate.result("tools/call", raw, client_era, upstream_era, version)


def to_modern(method: str, raw: bytes) -> bytes:
    return bytes(translate.result(method, raw, versions.MODERN, versions.LEGACY, versions.NEWEST_MODERN))


def to_legacy(method: str, raw: bytes) -> bytes:
    return bytes(translate.result(method, raw, versions.LEGACY, versions.MODERN, versions.NEWEST_LEGACY))


def sent(meta: bytes, era: str, caller: Caller | None = None, token: bytes | None = None) -> object:
    return json.loads(json.join(translate.request_meta(json.split(meta), era, caller or Caller(), token)))


def test_a_legacy_server_gets_no_envelope_and_every_other_key() -> None:
    meta = (
        b'{%b,"io.modelcontextprotocol/clientInfo":{},"io.modelcontextprotocol/logLevel":"info","v/k":[1]}' % ENVELOPE
    )
    assert sent(meta, versions.LEGACY) == {"v/k": [1]}


def test_a_modern_server_gets_the_client_s_own_envelope() -> None:
    assert sent(b"{%b}" % ENVELOPE, versions.MODERN) == {
        versions.PROTOCOL_VERSION_KEY: "2026-07-28",
        versions.CLIENT_CAPABILITIES_KEY: {"a": 1},
    }


def test_a_modern_server_is_told_what_a_legacy_client_said_in_its_handshake() -> None:
    assert sent(b"{}", versions.MODERN, Caller(b'{"c":1}', b'{"name":"x"}')) == {
        versions.PROTOCOL_VERSION_KEY: "2026-07-28",
        versions.CLIENT_CAPABILITIES_KEY: {"c": 1},
        versions.CLIENT_INFO_KEY: {"name": "x"},
    }


@pytest.mark.parametrize("era", [versions.LEGACY, versions.MODERN])
def test_the_client_s_progress_token_never_goes_upstream(era: str) -> None:
    meta = b'{"progressToken":"mine"}'
    assert sent(meta, era, token=b"17")["progressToken"] == 17  # type: ignore[index]
    assert "progressToken" not in sent(meta, era)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("meta", "era", "level"),
    [
        (b"{}", versions.MODERN, "info"),
        (b'{"io.modelcontextprotocol/logLevel":"debug"}', versions.MODERN, "debug"),
        (b"{}", versions.LEGACY, None),
    ],
)
def test_a_modern_server_is_told_the_level_that_a_legacy_session_has_set(meta: bytes, era: str, level: str) -> None:
    found = translate.request_meta(json.split(meta), era, Caller(), None, b'"info"')
    assert json.loads(json.join(found)).get(versions.LOG_LEVEL_KEY) == level


@pytest.mark.parametrize("era", [versions.LEGACY, versions.MODERN])
def test_traces_and_vendors_keys_go_along(era: str) -> None:
    meta = b'{"traceparent":"00-a-b-01","tracestate":"s","baggage":"k=v","v/k":1}'
    assert json.loads(meta).items() <= sent(meta, era).items()  # type: ignore[attr-defined]


@pytest.mark.parametrize("era", [versions.LEGACY, versions.MODERN])
def test_a_result_within_one_era_is_untouched(era: str) -> None:
    raw = rb'{ "odd" : "\ud800", "odd":1 }'
    assert call_result(raw, era, era) is raw


def test_a_modern_client_gets_what_every_modern_result_has() -> None:
    found = call_result(b'{"content":[],"x":12345678901234567890}', versions.MODERN, versions.LEGACY)
    assert json.loads(found) == {
        "content": [],
        "x": 12345678901234567890,
        "resultType": "complete",
        "_meta": {versions.SERVER_INFO_KEY: {"name": "hearth", "title": "Hearth", "version": __version__}},
    }


def test_a_server_s_own_meta_is_kept_for_a_modern_client() -> None:
    raw = b'{"content":[],"_meta":{"v/k":1,"io.modelcontextprotocol/serverInfo":{"name":"own"}}}'
    meta = json.loads(call_result(raw, versions.MODERN, versions.LEGACY))["_meta"]
    assert meta == {"v/k": 1, versions.SERVER_INFO_KEY: {"name": "own"}}


def test_a_legacy_client_gets_nothing_modern() -> None:
    raw = (
        b'{"resultType":"complete","ttlMs":5,"cacheScope":"private","content":[],"structuredContent":{"a":1},'
        b'"_meta":{"io.modelcontextprotocol/serverInfo":{},"v/k":1}}'
    )
    found = json.loads(call_result(raw, versions.LEGACY, versions.MODERN))
    assert found == {"content": [], "structuredContent": {"a": 1}, "_meta": {"v/k": 1}}


def test_structured_content_that_is_no_object_is_dropped_for_a_legacy_client() -> None:
    raw = b'{"resultType":"complete","content":[{"type":"text","text":"one"}],"structuredContent":[1]}'
    assert json.loads(to_legacy("tools/call", raw)) == {"content": [{"type": "text", "text": "one"}]}


def test_a_revision_s_own_limits_count_in_either_era() -> None:
    link = b'{"content":[{"type":"resource_link","name":"n","uri":"u:1"}],"_meta":{"v/k":1}}'
    lowered = {"content": [{"type": "text", "text": "n: u:1"}], "_meta": {"v/k": 1}}
    for upstream in (versions.LEGACY, versions.MODERN):
        for version in ("2024-11-05", "2025-03-26"):
            assert json.loads(translate.result("tools/call", link, versions.LEGACY, upstream, version)) == lowered
    assert translate.result("tools/call", link, versions.LEGACY, versions.LEGACY, "2025-06-18") is link
    plain = b'{"content":[{"type":"text","text":"n"}]}'
    assert translate.result("tools/call", plain, versions.LEGACY, versions.LEGACY, "2024-11-05") is plain


@pytest.mark.parametrize(
    "method", ["tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read"]
)
def test_a_modern_client_is_told_that_a_legacy_server_s_answer_is_not_to_be_cached(method: str) -> None:
    found = json.loads(to_modern(method, b'{"contents":[],"ttlMs":5,"cacheScope":"public"}'))
    assert (found["resultType"], found["ttlMs"], found["cacheScope"]) == ("complete", 0, "private")


@pytest.mark.parametrize("method", ["prompts/get", "completion/complete", "vendor/method"])
def test_other_results_have_nothing_to_say_about_caches(method: str) -> None:
    assert json.loads(to_modern(method, b"{}")).keys() == {"resultType", "_meta"}


def test_every_modern_result_of_a_call_has_content() -> None:
    assert json.loads(to_modern("tools/call", b"{}"))["content"] == []


@pytest.mark.parametrize("method", ["resources/read", "prompts/get", "completion/complete", "vendor/method"])
def test_a_legacy_client_gets_nothing_modern_from_any_method(method: str) -> None:
    raw = (
        b'{"resultType":"complete","ttlMs":5,"cacheScope":"public","x":1.0,'
        b'"_meta":{"io.modelcontextprotocol/serverInfo":{}}}'
    )
    assert to_legacy(method, raw) == b'{"x":1.0}'


@pytest.mark.parametrize("raw", [b"[]", b"null", b"7", b'"x"'])
def test_a_result_that_is_no_object_is_the_server_s_fault(raw: bytes) -> None:
    for translated in (to_legacy, to_modern):
        with pytest.raises(UpstreamError, match="no object"):
            translated("tools/call", raw)


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        (b'{"content":[]}', "complete"),
        (b'{"resultType":"complete"}', "complete"),
        (b'{"content":[{"resultType":"task"}]}', "complete"),
        (b'{"content":["resultType"],"resultType":"input_required"}', "input_required"),
        (rb'{"\u0072esultType":"task"}', "task"),
        (rb'{"x":"\ud800","resultType":"task"}', "task"),
        (rb'{"x":"\ud800 resultType"}', "complete"),
        (b'{"resultType":"a","resultType":"b"}', "b"),
        (b'{"resultType":7}', ""),
        (b'{"resultType":null}', ""),
    ],
)
def test_the_type_of_a_result_is_what_its_own_level_says(raw: bytes, kind: str) -> None:
    assert translate.result_type(raw) == kind
    assert translate.result_type(json.Raw(raw)) == kind


def test_a_meta_that_held_only_modern_words_disappears() -> None:
    raw = b'{"content":[],"_meta":{"io.modelcontextprotocol/serverInfo":{}}}'
    assert json.loads(call_result(raw, versions.LEGACY, versions.MODERN)) == {"content": []}


@pytest.mark.parametrize("kind", [b'"input_required"', b'"task"', b"7"])
def test_a_result_that_a_legacy_client_cannot_take_is_an_error(kind: bytes) -> None:
    with pytest.raises(UpstreamError, match="cannot take"):
        call_result(b'{"resultType":%b}' % kind, versions.LEGACY, versions.MODERN)


@pytest.mark.parametrize(
    ("code", "client", "upstream", "relayed"),
    [
        (-32602, versions.LEGACY, versions.MODERN, True),
        (-32020, versions.MODERN, versions.MODERN, False),
        (-32022, versions.MODERN, versions.MODERN, False),
        (-32021, versions.MODERN, versions.MODERN, True),
        (-32021, versions.LEGACY, versions.MODERN, False),
        (-32022, versions.LEGACY, versions.LEGACY, True),
        (-32020, versions.LEGACY, versions.MODERN, False),
        (-32022, versions.MODERN, versions.LEGACY, False),
        (-32021, versions.MODERN, versions.LEGACY, False),
        (-32002, versions.LEGACY, versions.LEGACY, True),
        (-32042, versions.LEGACY, versions.LEGACY, True),
        (-32002, versions.MODERN, versions.LEGACY, False),
        (-32042, versions.MODERN, versions.LEGACY, False),
        (-32042, versions.MODERN, versions.MODERN, False),
        (-32601, versions.MODERN, versions.LEGACY, True),
        (-32000, versions.MODERN, versions.MODERN, True),
    ],
)
def test_codes_that_the_client_s_era_does_not_have_and_disputes_with_hearth_itself_are_not_relayed(
    code: int, client: str, upstream: str, relayed: bool
) -> None:
    found = json.loads(translate.error_object(b'{"code":%d,"message":"m","data":1}' % code, client, upstream))
    assert found == {"code": code if relayed else -32603, "message": "m", "data": 1}


@pytest.mark.parametrize("client", [versions.LEGACY, versions.MODERN])
@pytest.mark.parametrize("upstream", [versions.LEGACY, versions.MODERN])
@pytest.mark.parametrize(
    "error",
    [
        b'"boom"',
        b"null",
        b"[]",
        b"{}",
        b"7",
        b'{"code":-32000}',
        b'{"message":"m"}',
        b'{"code":"-32000","message":"m"}',
        b'{"code":1.5,"message":"m"}',
        b'{"code":-32000,"message":null}',
    ],
)
def test_an_error_that_is_none_becomes_one(error: bytes, upstream: str, client: str) -> None:
    found = json.loads(translate.error_object(error, client, upstream))
    assert found["code"] == -32603
    assert isinstance(found["message"], str)


def test_a_good_error_is_relayed_byte_for_byte() -> None:
    raw = b'{ "code":-32000, "message":"m", "data":{"a":1}, "a":1, "a":2 }'
    assert translate.error_object(raw, versions.LEGACY, versions.LEGACY) is raw


@pytest.mark.parametrize("version", versions.LEGACY_VERSIONS)
def test_a_demand_for_urls_is_relayed_to_revisions_that_know_it(version: str) -> None:
    raw = b'{"code":-32042,"message":"m","data":{"elicitations":[]}}'
    found = json.loads(translate.error_object(raw, versions.LEGACY, versions.LEGACY, version=version))
    assert found == {**json.loads(raw), "code": -32042 if version == "2025-11-25" else -32603}


def read_error(raw: bytes, client: str, upstream: str, uri: bytes | None = b'"u:asked"') -> object:
    return json.loads(translate.error_object(raw, client, upstream, uri, "resources/read"))


@pytest.mark.parametrize("data", [b"", b',"data":{"uri":"u:own"}', b',"data":"text"'])
@pytest.mark.parametrize("upstream", [versions.LEGACY, versions.MODERN])
def test_a_modern_client_learns_which_resource_does_not_exist(upstream: str, data: bytes) -> None:
    found = read_error(b'{"code":-32002,"message":"m"%b}' % data, versions.MODERN, upstream)
    assert found == {"code": -32602, "message": "m", "data": {"uri": "u:asked"}}


def test_the_uri_in_the_error_is_enough_when_the_question_s_is_not_known() -> None:
    raw = b'{"code":-32002,"message":"m","data":{"uri":"u:own","more":1}}'
    found = json.loads(translate.error_object(raw, versions.MODERN, versions.LEGACY))
    assert found == {"code": -32602, "message": "m", "data": {"uri": "u:own", "more": 1}}


def test_a_legacy_client_gets_the_code_that_its_revisions_have_for_a_missing_resource() -> None:
    raw = b'{"code":-32602,"message":"m","data":{"uri":"u:own"}}'
    assert read_error(raw, versions.LEGACY, versions.MODERN) == {
        "code": -32002,
        "message": "m",
        "data": {"uri": "u:asked"},
    }
    assert translate.error_object(raw, versions.LEGACY, versions.MODERN, None, "tools/call") is raw
    assert translate.error_object(raw, versions.LEGACY, versions.LEGACY, b'"u:asked"', "resources/read") is raw


def test_bad_params_of_a_read_stay_bad_params() -> None:
    raw = b'{"code":-32602,"message":"m","data":{"cursor":1}}'
    assert translate.error_object(raw, versions.LEGACY, versions.MODERN, b'"u:asked"', "resources/read") is raw


def test_a_missing_resource_within_an_era_is_told_byte_for_byte_under_the_client_s_name() -> None:
    legacy = b'{ "code":-32002,"message":"m","data":{"uri":"u:asked"}}'
    assert translate.error_object(legacy, versions.LEGACY, versions.LEGACY, b'"u:asked"', "resources/read") is legacy
    bare = b'{ "code":-32002,"message":"m","data":"text"}'
    assert translate.error_object(bare, versions.LEGACY, versions.LEGACY, b'"u:asked"', "resources/read") is bare
    other = b'{"code":-32602,"message":"m","data":{"uri":"u:own"}}'
    assert read_error(other, versions.MODERN, versions.MODERN) == json.loads(other.replace(b"own", b"asked"))


def test_the_number_means_something_else_elsewhere() -> None:
    raw = b'{"code":-32002,"message":"m","data":{"uri":"u:own"}}'
    found = json.loads(translate.error_object(raw, versions.MODERN, versions.LEGACY, method="tools/call"))
    assert found["code"] == -32603


@pytest.mark.parametrize(
    ("upstream", "known", "code"),
    [(versions.LEGACY, False, -32601), (versions.LEGACY, True, -32602), (versions.MODERN, False, -32602)],
)
@pytest.mark.parametrize("client", [versions.LEGACY, versions.MODERN])
def test_bad_params_mean_an_unknown_method_where_an_old_server_says_so_of_one_that_is_only_forwarded(
    client: str, upstream: str, known: bool, code: int
) -> None:
    raw = b'{"code":-32602,"message":"m"}'
    found = json.loads(translate.error_object(raw, client, upstream, method="vendor/method", known=known))
    assert found == {"code": code, "message": "m"}


def notified(params: bytes, **names: bytes) -> object:
    found = translate.notification_params(json.split(params), **names)
    return None if found is None else json.loads(found)


def test_a_server_s_subscription_never_reaches_a_client() -> None:
    own = b'{"uri":"u:1","_meta":{"io.modelcontextprotocol/subscriptionId":7}}'
    assert notified(own) == {"uri": "u:1"}
    assert notified(own, subscription=b'"mine"') == {"uri": "u:1", "_meta": {versions.SUBSCRIPTION_ID_KEY: "mine"}}


def test_what_else_a_notification_carries_is_kept() -> None:
    raw = b'{"level":"info","data":[1],"_meta":{"v/k":1}}'
    assert notified(raw) == json.loads(raw)
    assert notified(raw, subscription=b"1")["_meta"] == {"v/k": 1, versions.SUBSCRIPTION_ID_KEY: 1}  # type: ignore[index]


def test_a_notification_names_things_as_the_client_does() -> None:
    progress = b'{"progressToken":17,"progress":1.50,"message":"m"}'
    assert notified(progress, progress_token=b'"t"') == {"progressToken": "t", "progress": 1.5, "message": "m"}
    assert notified(b'{"uri":"u:1"}', uri=b'"hearth+s:u:1"') == {"uri": "hearth+s:u:1"}


def test_a_notification_that_only_said_whose_it_was_has_no_params() -> None:
    assert notified(b'{"_meta":{"io.modelcontextprotocol/subscriptionId":7}}') is None
    assert notified(b"{}") is None


def test_the_envelope_of_a_legacy_client_is_kept_until_something_of_it_changes() -> None:
    caller = Caller(b'{"roots":{}}', b'{"name":"c"}')
    for level in ("info", "debug"):
        expected = translate.request_meta({}, versions.MODERN, caller, None, json.dumps(level))
        assert bytes(caller.envelope(level)) == json.join(expected)
        assert caller.envelope(level) is caller.envelope(level)
    caller.capabilities = b"{}"
    assert b'"roots"' not in bytes(caller.envelope("debug"))
