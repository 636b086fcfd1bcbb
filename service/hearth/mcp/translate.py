"""From a client's words to a server's, and back, where the two are of different eras.

Payloads stay raw bytes; only the levels that must change are taken apart. A modern client's envelope never reaches a
legacy server, a modern result's never a legacy client.
"""

from hearth import __version__
from hearth.errors import UpstreamError
from hearth.mcp import eras
from hearth.wire import json, values
from hearth.wire.values import Members, RawBytes

# What a modern client is told about who answers; the servers behind Hearth have told only Hearth.
SERVER_INFO = json.dumps({"name": "hearth", "title": "Hearth", "version": __version__})
# By the client's era and the server's. Disputes about version and headers are Hearth's own; a missing capability is one
# that this very client did not declare; the last two are legacy codes that a modern client must not see.
_LEGACY_ONLY_ERRORS = frozenset({eras.RESOURCE_NOT_FOUND, eras.URL_ELICITATION_REQUIRED})
_NOT_RELAYED = {
    (eras.LEGACY, eras.LEGACY): frozenset(),
    (eras.LEGACY, eras.MODERN): eras.MODERN_ONLY_ERRORS,
    (eras.MODERN, eras.LEGACY): eras.MODERN_ONLY_ERRORS | _LEGACY_ONLY_ERRORS,
    (eras.MODERN, eras.MODERN): (eras.MODERN_ONLY_ERRORS - {eras.MISSING_CAPABILITY}) | _LEGACY_ONLY_ERRORS,
}
_MALFORMED_ERROR = json.dumps({"code": eras.INTERNAL_ERROR, "message": "the server gave an error that is none"})
_MODERN_RESULT_KEYS = ("resultType", "ttlMs", "cacheScope")


class Caller:
    """What a modern server must be told about the client on every request. `capabilities` and `info` are raw JSON."""

    __slots__ = ("capabilities", "info")

    def __init__(self, capabilities: bytes = b"{}", info: bytes | None = None) -> None:
        self.capabilities = capabilities
        self.info = info


def request_meta(meta: json.Fields, upstream_era: str, caller: Caller, token: bytes | None) -> Members:
    """The `_meta` to send upstream. `token` replaces the client's progress token, whose place only Hearth knows."""
    sent: Members = {key: value for key, value in meta.items() if key not in eras.REQUEST_ENVELOPE_KEYS}
    sent.pop("progressToken", None)
    if token is not None:
        sent["progressToken"] = token
    if upstream_era == eras.MODERN:
        sent[eras.PROTOCOL_VERSION_KEY] = b'"%b"' % eras.NEWEST_MODERN.encode()
        sent[eras.CLIENT_CAPABILITIES_KEY] = meta.get(eras.CLIENT_CAPABILITIES_KEY) or caller.capabilities
        info = meta.get(eras.CLIENT_INFO_KEY) or caller.info
        if info is not None:
            sent[eras.CLIENT_INFO_KEY] = info
        if eras.LOG_LEVEL_KEY in meta:
            sent[eras.LOG_LEVEL_KEY] = meta[eras.LOG_LEVEL_KEY]
    return sent


def call_result(result: RawBytes, client_era: str, upstream_era: str) -> RawBytes:
    """The result of `tools/call` in the client's era. Raises UpstreamError for one that the client cannot take."""
    if client_era == upstream_era:
        return result
    fields: Members = {**json.split(result)}
    if client_era == eras.MODERN:
        fields["resultType"] = b'"complete"'
        meta: Members = {**values.members(fields.get("_meta"))}
        meta.setdefault(eras.SERVER_INFO_KEY, SERVER_INFO)
        fields["_meta"] = json.join(meta)
        return json.join(fields)
    return json.join(_legacy_result(fields))


def _legacy_result(fields: Members) -> Members:
    kind = values.text(fields.get("resultType", b'"complete"'))
    if kind != "complete":
        raise UpstreamError(f"the server answered {kind!r}, which a client of a legacy revision cannot take")
    for key in _MODERN_RESULT_KEYS:
        fields.pop(key, None)
    structured = fields.get("structuredContent")
    if structured is not None and not bytes(structured).lstrip().startswith(b"{"):
        # Legacy schemas allow objects only; the text content says the same.
        del fields["structuredContent"]
    if "_meta" in fields:
        meta = values.members(fields["_meta"])
        meta.pop(eras.SERVER_INFO_KEY, None)
        fields["_meta"] = json.join(meta)
        if not meta:
            del fields["_meta"]
    return fields


def error_object(error: RawBytes, client_era: str, upstream_era: str) -> RawBytes:
    """An upstream's error as the client may see it. What is no error object, or of the other era, becomes -32603."""
    fields = values.members(error)
    code = values.integer(fields.get("code"))
    if code is None or values.text(fields.get("message")) is None:
        return _MALFORMED_ERROR
    if code in _NOT_RELAYED[client_era, upstream_era]:
        return json.join({**fields, "code": b"%d" % eras.INTERNAL_ERROR})
    return error
