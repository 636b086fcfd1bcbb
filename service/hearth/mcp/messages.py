"""JSON-RPC messages that Hearth itself writes, as bytes ready for any wire."""

from hearth.errors import HearthError
from hearth.masking import everywhere
from hearth.mcp import versions
from hearth.wire import json
from hearth.wire.values import RawBytes

# Bytes of a response of this module that stand before its result or error, without its id.
AROUND_ID_BYTES = len(b'{"jsonrpc":"2.0","id":,')


def result(id: bytes, body: RawBytes) -> bytes:
    """Return a success response."""
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (id, body)


def raw_error(id: bytes, body: RawBytes) -> bytes:
    """Return an error response whose error object is already JSON."""
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (id, body)


def error(id: bytes | None, code: int, message: str, data: object = None) -> bytes:
    """Return an error response. If no id could be found, the member is left out: null is not valid in MCP."""
    body: dict[str, object] = {"code": code, "message": message}
    if data is not None:
        body["data"] = data
    if id is None:
        return b'{"jsonrpc":"2.0","error":%b}' % json.dumps(body)
    return raw_error(id, json.dumps(body))


def failure(id: bytes | None, problem: HearthError) -> bytes:
    """Return the response for an error of Hearth, without the secrets of servers. No other code converts errors.

    An error of one of Hearth's own tools becomes a result.
    """
    if problem.result is not None and id is not None:
        return result(id, problem.result)
    return error(id, problem.rpc_code, everywhere(str(problem)), problem.data)


def request(id: bytes, method: str, params: RawBytes) -> bytes:
    """Return a request with params."""
    return b'{"jsonrpc":"2.0","id":%b,"method":%b,"params":%b}' % (id, json.dumps(method), params)


def notification(method: str, params: RawBytes | None = None) -> bytes:
    """Return a notification."""
    if params is None:
        return b'{"jsonrpc":"2.0","method":%b}' % json.dumps(method)
    return b'{"jsonrpc":"2.0","method":%b,"params":%b}' % (json.dumps(method), params)


def server_info(version: str) -> dict[str, str]:
    """Return Hearth's identity, as clients of both eras are told."""
    return {"name": "hearth", "title": "Hearth", "version": version}


class Identity:
    """Identity of Hearth in both eras' openings."""

    def __init__(self, version: str, daemon_id: str) -> None:
        self._info = server_info(version)
        self.info = json.dumps(self._info)
        self._daemon_id = daemon_id

    def initialized(self, version: str, capabilities: RawBytes, instructions: str | None) -> bytes:
        """Return the result of `initialize` in the negotiated version. `capabilities` is raw."""
        body: dict[str, object] = {
            "protocolVersion": version,
            "capabilities": json.Raw(capabilities),
            "serverInfo": self._info,
            "_meta": {"hearth/daemonId": self._daemon_id},
        }
        if instructions:
            body["instructions"] = instructions
        return json.dumps(body)

    def discovered(self, capabilities: RawBytes, instructions: str | None) -> bytes:
        """Return the result of `server/discover`."""
        body: dict[str, object] = {
            "resultType": "complete",
            "supportedVersions": list(versions.MODERN_VERSIONS),
            "capabilities": json.Raw(capabilities),
            # The lists change with the config and the servers; clients are notified by list_changed.
            "ttlMs": 0,
            "cacheScope": "private",
            "_meta": {versions.SERVER_INFO_KEY: self._info, "hearth/daemonId": self._daemon_id},
        }
        if instructions:
            body["instructions"] = instructions
        return json.dumps(body)
