"""From one era's words to the other's: only the levels that must change, the rest byte for byte."""

import pytest

from hearth import __version__
from hearth.errors import UpstreamError
from hearth.mcp import eras, translate
from hearth.mcp.translate import Caller
from hearth.wire import json

ENVELOPE = (
    b'"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"a":1}'
)


def sent(meta: bytes, era: str, caller: Caller | None = None, token: bytes | None = None) -> object:
    return json.loads(json.join(translate.request_meta(json.split(meta), era, caller or Caller(), token)))


def test_a_legacy_server_gets_no_envelope_and_every_other_key() -> None:
    meta = (
        b'{%b,"io.modelcontextprotocol/clientInfo":{},"io.modelcontextprotocol/logLevel":"info","v/k":[1]}' % ENVELOPE
    )
    assert sent(meta, eras.LEGACY) == {"v/k": [1]}


def test_a_modern_server_gets_the_client_s_own_envelope() -> None:
    assert sent(b"{%b}" % ENVELOPE, eras.MODERN) == {
        eras.PROTOCOL_VERSION_KEY: "2026-07-28",
        eras.CLIENT_CAPABILITIES_KEY: {"a": 1},
    }


def test_a_modern_server_is_told_what_a_legacy_client_said_in_its_handshake() -> None:
    assert sent(b"{}", eras.MODERN, Caller(b'{"c":1}', b'{"name":"x"}')) == {
        eras.PROTOCOL_VERSION_KEY: "2026-07-28",
        eras.CLIENT_CAPABILITIES_KEY: {"c": 1},
        eras.CLIENT_INFO_KEY: {"name": "x"},
    }


@pytest.mark.parametrize("era", [eras.LEGACY, eras.MODERN])
def test_the_client_s_progress_token_never_goes_upstream(era: str) -> None:
    meta = b'{"progressToken":"mine"}'
    assert sent(meta, era, token=b"17")["progressToken"] == 17  # type: ignore[index]
    assert "progressToken" not in sent(meta, era)  # type: ignore[operator]


@pytest.mark.parametrize("era", [eras.LEGACY, eras.MODERN])
def test_a_result_within_one_era_is_untouched(era: str) -> None:
    raw = rb'{ "odd" : "\ud800", "odd":1 }'
    assert translate.call_result(raw, era, era) is raw


def test_a_modern_client_gets_what_every_modern_result_has() -> None:
    found = translate.call_result(b'{"content":[],"x":12345678901234567890}', eras.MODERN, eras.LEGACY)
    assert json.loads(found) == {
        "content": [],
        "x": 12345678901234567890,
        "resultType": "complete",
        "_meta": {eras.SERVER_INFO_KEY: {"name": "hearth", "title": "Hearth", "version": __version__}},
    }


def test_a_server_s_own_meta_is_kept_for_a_modern_client() -> None:
    raw = b'{"content":[],"_meta":{"v/k":1,"io.modelcontextprotocol/serverInfo":{"name":"own"}}}'
    meta = json.loads(translate.call_result(raw, eras.MODERN, eras.LEGACY))["_meta"]
    assert meta == {"v/k": 1, eras.SERVER_INFO_KEY: {"name": "own"}}


def test_a_legacy_client_gets_nothing_modern() -> None:
    raw = (
        b'{"resultType":"complete","ttlMs":5,"cacheScope":"private","content":[],"structuredContent":{"a":1},'
        b'"_meta":{"io.modelcontextprotocol/serverInfo":{},"v/k":1}}'
    )
    found = json.loads(translate.call_result(raw, eras.LEGACY, eras.MODERN))
    assert found == {"content": [], "structuredContent": {"a": 1}, "_meta": {"v/k": 1}}


@pytest.mark.parametrize("content", [b"[1]", b"7", b'"text"', b"null"])
def test_structured_content_that_is_no_object_is_dropped_for_a_legacy_client(content: bytes) -> None:
    raw = b'{"resultType":"complete","content":[],"structuredContent":%b}' % content
    assert json.loads(translate.call_result(raw, eras.LEGACY, eras.MODERN)) == {"content": []}


def test_a_meta_that_held_only_modern_words_disappears() -> None:
    raw = b'{"content":[],"_meta":{"io.modelcontextprotocol/serverInfo":{}}}'
    assert json.loads(translate.call_result(raw, eras.LEGACY, eras.MODERN)) == {"content": []}


@pytest.mark.parametrize("kind", [b'"input_required"', b'"task"', b"7"])
def test_a_result_that_a_legacy_client_cannot_take_is_an_error(kind: bytes) -> None:
    with pytest.raises(UpstreamError, match="cannot take"):
        translate.call_result(b'{"resultType":%b}' % kind, eras.LEGACY, eras.MODERN)


@pytest.mark.parametrize(
    ("code", "client", "upstream", "relayed"),
    [
        (-32602, eras.LEGACY, eras.MODERN, True),
        (-32020, eras.MODERN, eras.MODERN, False),
        (-32022, eras.MODERN, eras.MODERN, False),
        (-32021, eras.MODERN, eras.MODERN, True),
        (-32021, eras.LEGACY, eras.MODERN, False),
        (-32022, eras.LEGACY, eras.LEGACY, True),
        (-32020, eras.LEGACY, eras.MODERN, False),
        (-32022, eras.MODERN, eras.LEGACY, False),
        (-32021, eras.MODERN, eras.LEGACY, False),
        (-32002, eras.LEGACY, eras.LEGACY, True),
        (-32042, eras.LEGACY, eras.LEGACY, True),
        (-32002, eras.MODERN, eras.LEGACY, False),
        (-32042, eras.MODERN, eras.LEGACY, False),
        (-32042, eras.MODERN, eras.MODERN, False),
        (-32601, eras.MODERN, eras.LEGACY, True),
        (-32000, eras.MODERN, eras.MODERN, True),
    ],
)
def test_codes_that_the_client_s_era_does_not_have_and_disputes_with_hearth_itself_are_not_relayed(
    code: int, client: str, upstream: str, relayed: bool
) -> None:
    found = json.loads(translate.error_object(b'{"code":%d,"message":"m","data":1}' % code, client, upstream))
    assert found == {"code": code if relayed else -32603, "message": "m", "data": 1}


@pytest.mark.parametrize("client", [eras.LEGACY, eras.MODERN])
@pytest.mark.parametrize("upstream", [eras.LEGACY, eras.MODERN])
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
    assert translate.error_object(raw, eras.LEGACY, eras.LEGACY) is raw
