"""JSON and events as HTTP carries them: messages for uvicorn's `send`, and the status of a modern answer."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from hearth.daemon.http.streams import StreamMessage
from hearth.errors import MessageError
from hearth.mcp import versions
from hearth.wire import json, values

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

EVENT_STREAM: Headers = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    # Reverse proxies would buffer events otherwise.
    (b"x-accel-buffering", b"no"),
]
# Sent with every answer: whether a page may read it depends on its origin, so a cache must not serve it to another.
VARY: Headers = [(b"vary", b"Origin")]
# Sent with a 503: every reason for one passes soon.
RETRY_SOON: Headers = [(b"retry-after", b"1")]
# A comment, so that no proxy takes a quiet stream for a dead one.
KEEP_ALIVE = b":\n\n"


# The HTTP status of modern answers with these error codes; any other error is sent with 200.
_STATUSES = {
    versions.METHOD_NOT_FOUND: 404,
    versions.HEADER_MISMATCH: 400,
    versions.MISSING_CAPABILITY: 400,
    versions.UNSUPPORTED_VERSION: 400,
}


def status_of(payload: bytes) -> int:
    """Return the HTTP status of a modern answer."""
    if b'"error"' not in payload[:300]:
        return 200
    try:
        error = values.members(json.parse(payload).fields.get("error"))
    except MessageError:
        return 200
    return _STATUSES.get(values.integer(error.get("code")) or 0, 200)


def reason(text: str) -> bytes:
    """Return the body of a refusal that is not an MCP message."""
    return json.dumps({"error": text})


# The `code` of an error of `/api/v1`, by its status.
_API_CODES = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    406: "not_acceptable",
    409: "config_refused",
    413: "too_large",
    415: "unsupported_media_type",
    429: "too_many_requests",
    500: "internal_error",
    503: "unavailable",
}


def api_error(status: int, text: str) -> bytes:
    """Return the body of a refusal of `/api/v1`."""
    return json.dumps({"error": {"code": _API_CODES.get(status, "refused"), "message": text}})


def event(message: StreamMessage, name: bytes | None) -> bytes:
    """Return a message as an event, with an id if its stream has a name and so can be resumed."""
    payload = message.payload
    if b"\n" in payload or b"\r" in payload:
        payload = json.one_line(payload)
    if name is None:
        return b"event: message\ndata: %b\n\n" % payload
    return b"event: message\nid: %b-%d\ndata: %b\n\n" % (name, message.number, payload)


def priming(name: bytes, number: int, retry_ms: int) -> bytes:
    """Return an event without data that tells the client where to resume, and after what time."""
    return b"id: %b-%d\nretry: %d\ndata:\n\n" % (name, number, retry_ms)


def with_headers(send: Send, headers: Headers) -> Send:
    """Return a `send` that adds headers to every response."""

    async def sending(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], *headers]
        await send(message)

    return sending
