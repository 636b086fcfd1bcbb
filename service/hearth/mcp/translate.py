"""Translation between a client and a server of different eras.

Payloads stay raw bytes; only the levels that must change are parsed. A modern client's envelope never reaches a legacy
server, a modern result's never a legacy client. Rewriting for an older revision of the same era is done by `downgrade`,
which is called from here.
"""

import msgspec
from msgspec import Raw

from hearth import __version__
from hearth.errors import MessageError, UpstreamError
from hearth.mcp import downgrade, messages, versions
from hearth.mcp.capabilities import NEWER_QUESTIONS_SINCE
from hearth.wire import json, values
from hearth.wire.values import Members, RawBytes

# Identity of the answering server for a modern client; the servers behind Hearth identify themselves only to Hearth.
SERVER_INFO = json.dumps(messages.server_info(__version__))
COMPLETE = "complete"
INPUT_REQUIRED = "input_required"
# By the client's era and the server's. Errors about version and headers concern Hearth only; a missing capability is
# one that this very client did not declare; the last two are legacy codes that a modern client must not see.
_LEGACY_ONLY_ERRORS = frozenset({versions.RESOURCE_NOT_FOUND, versions.URL_ELICITATION_REQUIRED})
_NOT_RELAYED = {
    (versions.LEGACY, versions.LEGACY): frozenset(),
    (versions.LEGACY, versions.MODERN): versions.MODERN_ONLY_ERRORS,
    (versions.MODERN, versions.LEGACY): versions.MODERN_ONLY_ERRORS | _LEGACY_ONLY_ERRORS,
    (versions.MODERN, versions.MODERN): (versions.MODERN_ONLY_ERRORS - {versions.MISSING_CAPABILITY})
    | _LEGACY_ONLY_ERRORS,
}
_MALFORMED_ERROR = json.dumps({"code": versions.INTERNAL_ERROR, "message": "the server gave an error that is none"})
_MODERN_RESULT_KEYS = ("resultType", "ttlMs", "cacheScope")
# `CacheableResult` of the schema. Nothing of a legacy server is known to stay fresh for any time.
_CACHEABLE = frozenset({"tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read"})
_NOT_CACHED: Members = {"ttlMs": b"0", "cacheScope": b'"private"'}
_READ = "resources/read"


class Caller:
    """Client as described to a modern server with every request. `capabilities` and `info` are raw JSON."""

    __slots__ = ("_envelope", "_envelope_of", "capabilities", "info")

    def __init__(self, capabilities: bytes = b"{}", info: bytes | None = None) -> None:
        self.capabilities = capabilities
        self.info = info
        self._envelope = Raw(b"{}")
        self._envelope_of: tuple[bytes, bytes | None, str] | None = None

    def envelope(self, log_level: str) -> Raw:
        """Return the `_meta` of a legacy client's request that has none; cached, because most requests share it."""
        of = (self.capabilities, self.info, log_level)
        if of != self._envelope_of:
            sent = request_meta({}, versions.MODERN, self, None, json.dumps(log_level))
            self._envelope, self._envelope_of = Raw(json.join(sent)), of
        return self._envelope


def request_meta(
    meta: json.Fields, upstream_era: str, caller: Caller, token: bytes | None, log_level: bytes | None = None
) -> Members:
    """Return the `_meta` to send upstream. `token` replaces the client's progress token, which only Hearth maps back.

    `log_level` is raw JSON: the level that a legacy session has set, for a modern server, which is told with every
    request.
    """
    sent: Members = {key: value for key, value in meta.items() if key not in versions.REQUEST_ENVELOPE_KEYS}
    sent.pop("progressToken", None)
    if token is not None:
        sent["progressToken"] = token
    if upstream_era == versions.MODERN:
        sent[versions.PROTOCOL_VERSION_KEY] = b'"%b"' % versions.NEWEST_MODERN.encode()
        sent[versions.CLIENT_CAPABILITIES_KEY] = meta.get(versions.CLIENT_CAPABILITIES_KEY) or caller.capabilities
        info = meta.get(versions.CLIENT_INFO_KEY) or caller.info
        if info is not None:
            sent[versions.CLIENT_INFO_KEY] = info
        level = meta.get(versions.LOG_LEVEL_KEY) or log_level
        if level is not None:
            sent[versions.LOG_LEVEL_KEY] = level
    return sent


# --- results


class _Kind(msgspec.Struct, gc=False):
    resultType: Raw = Raw(b'"complete"')  # noqa: N815


_decode_kind = msgspec.json.Decoder(_Kind).decode


def result_type(result: RawBytes) -> str:
    """Return the `resultType` of a modern server's result: `complete` if there is none, empty if it is no string."""
    data = bytes(result)
    if b"resultType" not in data and b"\\u00" not in data:
        return COMPLETE
    try:
        raw: RawBytes = _decode_kind(data).resultType
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raw = values.members(data).get("resultType", b'"complete"')
    return values.text(raw) or ""


def result(method: str, result: RawBytes, client_era: str, upstream_era: str, client_version: str) -> RawBytes:
    """Return a result as the client's era and revision have it; the same object if these are the server's.

    Raises UpstreamError for one that the client cannot take. The caller checks for `input_required`.
    """
    if client_era == upstream_era:
        if client_version >= downgrade.RESULTS_ALIKE_SINCE or not downgrade.concerns(method, result, client_version):
            return result
        return json.join(downgrade.result(method, _split(result), client_version))
    if client_era == versions.MODERN:
        return json.join(_modern_result(method, _split(result)))
    return json.join(downgrade.result(method, _legacy_result(_split(result)), client_version))


def _split(result: RawBytes) -> Members:
    try:
        return {**json.split(result)}
    except MessageError as exc:
        raise UpstreamError("the server gave a result that is no object") from exc


def _modern_result(method: str, fields: Members) -> Members:
    fields["resultType"] = b'"complete"'
    if method in _CACHEABLE:
        fields |= _NOT_CACHED
    if method == "tools/call":
        fields.setdefault("content", b"[]")
    meta: Members = {**values.members(fields.get("_meta"))}
    meta.setdefault(versions.SERVER_INFO_KEY, SERVER_INFO)
    fields["_meta"] = json.join(meta)
    return fields


def _legacy_result(fields: Members) -> Members:
    kind = values.text(fields.get("resultType", b'"complete"'))
    if kind != COMPLETE:
        raise UpstreamError(f"the server answered {kind!r}, which a client of a legacy revision cannot take")
    for key in _MODERN_RESULT_KEYS:
        fields.pop(key, None)
    return _without_meta(fields, versions.SERVER_INFO_KEY)


def _without_meta(fields: Members, key: str) -> Members:
    """Return the fields without one key of `_meta`, and without an empty `_meta`."""
    if "_meta" in fields:
        meta = values.members(fields["_meta"])
        meta.pop(key, None)
        fields["_meta"] = json.join(meta)
        if not meta:
            del fields["_meta"]
    return fields


# --- errors


def error_object(
    error: RawBytes,
    client_era: str,
    upstream_era: str,
    uri: RawBytes | None = None,
    method: str | None = None,
    known: bool = True,
    version: str | None = None,
) -> RawBytes:
    """Return an upstream's error for the client. Anything else than an error object of its era becomes -32603.

    `uri` is the resource as the client named it, raw JSON; `known` is False for a method that Hearth only forwards.
    `version` is the client's revision: of several of an era, the older know less.
    """
    fields: Members = {**values.members(error)}
    code = values.integer(fields.get("code"))
    if code is None or values.text(fields.get("message")) is None:
        return _MALFORMED_ERROR
    data: Members = {**values.members(fields.get("data"))}
    if _says_not_found(code, data, upstream_era, uri, method):
        return _not_found(error, fields, data, client_era, uri)
    if code in _NOT_RELAYED[client_era, upstream_era] or (
        code == versions.URL_ELICITATION_REQUIRED and version is not None and version < NEWER_QUESTIONS_SINCE
    ):
        return json.join({**fields, "code": b"%d" % versions.INTERNAL_ERROR})
    if code == versions.INVALID_PARAMS and upstream_era == versions.LEGACY and not known:
        # The code that old SDKs send when they have no such method.
        return json.join({**fields, "code": b"%d" % versions.METHOD_NOT_FOUND})
    return error


def _says_not_found(code: int, data: Members, upstream_era: str, uri: RawBytes | None, method: str | None) -> bool:
    if code == versions.RESOURCE_NOT_FOUND:
        # In other places the number may mean anything.
        return (uri is not None or "uri" in data) and method in (None, _READ)
    return code == versions.INVALID_PARAMS and upstream_era == versions.MODERN and method == _READ and "uri" in data


def _not_found(error: RawBytes, fields: Members, data: Members, client_era: str, uri: RawBytes | None) -> RawBytes:
    code = b"%d" % (versions.RESOURCE_NOT_FOUND if client_era == versions.LEGACY else versions.INVALID_PARAMS)
    named = uri if uri is not None else data["uri"]
    # Only modern clients are promised the URI.
    told = data.get("uri", named if client_era == versions.LEGACY else None)
    if bytes(fields["code"]) == code and values.text(told) == values.text(named):
        return error
    return json.join({**fields, "code": code, "data": json.join({**data, "uri": named})})


# --- notifications


def notification_params(
    params: json.Fields,
    subscription: RawBytes | None = None,
    progress_token: RawBytes | None = None,
    uri: RawBytes | None = None,
) -> bytes | None:
    """Return the params of a server's notification for a client; None if none are left. All values are raw JSON.

    `subscription` is the id of a modern client's listen stream that the notification goes to; without one, the server's
    own id is removed, for every other client. `progress_token` and `uri` are the client's names for what the server
    named.
    """
    fields = _without_meta({**params}, versions.SUBSCRIPTION_ID_KEY)
    if subscription is not None:
        fields["_meta"] = json.join({**values.members(fields.get("_meta")), versions.SUBSCRIPTION_ID_KEY: subscription})
    if progress_token is not None:
        fields["progressToken"] = progress_token
    if uri is not None:
        fields["uri"] = uri
    return json.join(fields) if fields else None
