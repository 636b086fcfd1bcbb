"""JSON and events as HTTP carries them: what is handed to the server's `send`, and the status of a modern answer."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any

from hearth.daemon.http.streams import Message
from hearth.errors import MessageError
from hearth.mcp import versions
from hearth.wire import json, values

if TYPE_CHECKING:
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

EVENT_STREAM: Headers = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    # Reverse proxies would collect events otherwise.
    (b"x-accel-buffering", b"no"),
]
# On every answer: whether a page may read it depends on its origin, so a cache must not serve it to another.
VARY: Headers = [(b"vary", b"Origin")]
# With a 503: whatever is the reason, it passes soon.
RETRY_SOON: Headers = [(b"retry-after", b"1")]
# A comment, so that nothing on the way takes a quiet stream for a dead one.
KEEP_ALIVE = b":\n\n"


# What a modern answer that is an error looks like to HTTP; any other error is an answer like any other.
_STATUSES = {
    versions.METHOD_NOT_FOUND: 404,
    versions.HEADER_MISMATCH: 400,
    versions.MISSING_CAPABILITY: 400,
    versions.UNSUPPORTED_VERSION: 400,
}


def status_of(payload: bytes) -> int:
    """The HTTP status of a modern answer."""
    if b'"error"' not in payload[:300]:
        return 200
    try:
        error = values.members(json.parse(payload).fields.get("error"))
    except MessageError:
        return 200
    return _STATUSES.get(values.integer(error.get("code")) or 0, 200)


def reason(text: str) -> bytes:
    """The body of a refusal that has nothing to do with MCP."""
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


def event(message: Message, name: bytes | None) -> bytes:
    """A message as an event; with an id where its stream can be resumed, and so has a name."""
    payload = message.payload
    if b"\n" in payload or b"\r" in payload:
        payload = json.one_line(payload)
    if name is None:
        return b"event: message\ndata: %b\n\n" % payload
    return b"event: message\nid: %b-%d\ndata: %b\n\n" % (name, message.number, payload)


def priming(name: bytes, number: int, retry_ms: int) -> bytes:
    """An event without data: the client knows then where it would have to resume, and when."""
    return b"id: %b-%d\nretry: %d\ndata:\n\n" % (name, number, retry_ms)


def with_headers(send: Send, headers: Headers) -> Send:
    """The same, with more headers on every response."""

    async def sending(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], *headers]
        await send(message)

    return sending


def ended_by_close(send: Send, cycle: "RequestResponseCycle") -> Send:
    """The same without the chunks that uvicorn sends, for who knows none (RFC 9112, 6.1)."""
    is_counted = True

    async def sending(message: MutableMapping[str, Any]) -> None:
        nonlocal is_counted
        if message["type"] == "http.response.start":
            is_counted = any(name == b"content-length" for name, _ in message["headers"])
            if not is_counted:
                cycle.chunked_encoding = cycle.keep_alive = False
        elif not is_counted:
            # uvicorn compares both.
            cycle.expected_content_length = len(message["body"])
        await send(message)

    return sending
