"""HTTP messages, pure: checks of a request before its body is parsed, the parts of responses, and event ids.

A page of any site may have a browser send requests to this machine. Such a request is recognized by its `Origin`; by
`Sec-Fetch-Site` where it has none (images, scripts, links); and by `Host` if a name was pointed at this machine
afterwards (DNS rebinding). A numeric address is not a name, and cannot be rebound.
"""

import hashlib
import ipaddress
import os
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, MutableMapping
from functools import lru_cache
from typing import Any, NamedTuple

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

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
JSON = "application/json"
EVENTS = "text/event-stream"
# How long a browser may remember the answer to a preflight: a day. Chromium takes two hours at most.
PREFLIGHT_SECONDS = 86_400
# Values of Sec-Fetch-Site for requests that a page of another origin causes.
_FOREIGN_SITES = ("cross-site", "same-site")
_HOST = re.compile(
    r"(?:\[(?P<address>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*)))(?::(?P<port>[0-9]{0,5}))?"
)
_LAST_PORT = 65535
# Clients send the same values with every request; the limit of a request's headers bounds the size of each entry.
_remembered = lru_cache(maxsize=32)


def headers_of(raw: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return headers by name, which uvicorn has put in lower case; repeated ones are joined as in RFC 9110."""
    found: dict[str, str] = {}
    for name, value in raw:
        key, text = name.decode("latin-1"), value.decode("latin-1")
        found[key] = f"{found[key]}, {text}" if key in found else text
    return found


def target_host(target: bytes) -> str | None:
    """Return the host of a target in absolute form, which overrides Host (RFC 9112, 3.2.2); None for other targets."""
    if target.startswith(b"/"):
        return None
    text = target.decode("latin-1")
    _, mark, rest = text.partition("://")
    # Never empty: an empty host would be allowed, as for HTTP/1.0 requests without Host.
    return (rest.partition("/")[0].partition("?")[0] or text) if mark else None


def faulty_host(headers: Mapping[str, str], version: str) -> str | None:
    """Return why the Host of a request is invalid (RFC 9112, 3.2), or None."""
    host = headers.get("host")
    if host is None:
        return "header Host is missing" if version != "1.0" else None
    if "," in host:
        return "header Host is there more than once"
    return "header Host is not HOST or HOST:PORT" if host and _name(host) is None else None


def refused_address(
    headers: Mapping[str, str], hosts: Collection[str] = (), origins: Collection[str] = (), own: str | None = None
) -> str | None:
    """Return why a request is refused, or None.

    `hosts` and `origins` are allowed besides this machine's; so is the host `own`, the address that it arrived at.
    """
    host = headers.get("host", "")
    name = _name(host) if host else None
    if host and name not in LOOPBACK and name not in hosts and not _is_address(name, own):
        return f"the Host {host!r} is not this machine's (http_hosts)"
    origin = headers.get("origin")
    if origin is not None and origin not in origins and not is_local(origin):
        return f"the Origin {origin!r} may not use this server (http_origins)"
    if origin is None and headers.get("sec-fetch-site") in _FOREIGN_SITES:
        return "a page of another origin may only ask with its Origin (http_origins)"
    return None


def is_local(origin: str) -> bool:
    """Tell whether a page of that origin came from this machine."""
    scheme, mark, host = origin.partition("://")
    return bool(mark) and scheme in ("http", "https") and _name(host) in LOOPBACK


def shared_with(origin: str) -> list[tuple[bytes, bytes]]:
    """Return the CORS headers that let a page of that allowed origin read the answer."""
    return [
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"access-control-expose-headers", b"Mcp-Session-Id, Retry-After, WWW-Authenticate"),
    ]


def preflight(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """Return the headers of the answer to a preflight.

    Browsers send one before a request with a token, or with a type that no form could have.
    """
    found = [
        (b"access-control-allow-methods", b"GET, POST, DELETE, OPTIONS"),
        (b"access-control-max-age", b"%d" % PREFLIGHT_SECONDS),
        (b"allow", b"GET, POST, DELETE, OPTIONS"),
    ]
    wanted = headers.get("access-control-request-headers")
    if wanted:
        found.append((b"access-control-allow-headers", wanted.encode("latin-1")))
    return found


@_remembered
def _name(host: str) -> str | None:
    """Return the name or address in `HOST` or `HOST:PORT`, in lower case; None for anything else.

    RFC 9110, 7.2 and RFC 3986, 3.2.2, without the forms that no client sends: percent-encoding and future IP versions.
    Not with urllib, which drops control characters and overlooks an empty query.
    """
    found = _HOST.fullmatch(host)
    if found is None or int(found["port"] or 0) > _LAST_PORT:
        return None
    if found["address"] is None:
        return found["name"].lower()
    try:
        return str(ipaddress.IPv6Address(found["address"]))
    except ValueError:
        return None


@_remembered
def _is_address(name: str | None, own: str | None) -> bool:
    return name is not None and own is not None and _address(name) == _address(own) is not None


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        # The zone of a link-local address (`%eth0`) is local; the client's differs.
        found = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    # A dual-stack socket reports IPv4 addresses in this form.
    return found.ipv4_mapped or found if isinstance(found, ipaddress.IPv6Address) else found


@_remembered
def refused_type(content_type: str) -> str | None:
    """Return why a Content-Type is not that of JSON in UTF-8, or None."""
    kind, *parameters = content_type.split(";")
    if kind.strip().lower() != JSON:
        return f"the body must be {JSON} (Content-Type)"
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        charset = value.strip().strip('"')
        # JSON defines no parameters (RFC 8259, 11); others are ignored.
        if name.strip().lower() == "charset" and charset.lower() not in ("utf-8", "utf8"):
            return f"the body must be in UTF-8: the charset {charset!r} of its Content-Type is not read"
    return None


@_remembered
def accepts(accept: str | None, *kinds: str) -> bool:
    """Tell whether a client accepts all of these types. A client without an Accept header accepts anything."""
    if accept is None:
        return True
    given = [_range(each) for each in accept.split(",")]
    return all(any(_covers(kind, range_) for range_ in given) for kind in kinds)


def _range(text: str) -> str:
    kind, *parameters = (part.strip().lower() for part in text.split(";"))
    is_refused = any(part.replace(" ", "") in ("q=0", "q=0.0", "q=0.00", "q=0.000") for part in parameters)
    return "" if is_refused else kind


def _covers(kind: str, range_: str) -> bool:
    return range_ in (kind, "*/*", f"{kind.partition('/')[0]}/*")


# --- responses

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


# --- event ids

# An event id names the stream and the message of an event, and the request to answer if these are lost:
#
#     EPOCH-STREAM-NUMBER            the general stream, or one that answers many requests
#     EPOCH-STREAM-REQUEST-NUMBER    the stream of one request
#
# An epoch identifies the time of a session in one daemon: random bytes, and a few bytes of a hash over them and the
# session's id, by which any daemon recognizes the session's own ids. The numbers of streams and messages start again in
# each epoch: an id of a former epoch must not be taken for a current one. REQUEST is the request's own id, in
# hexadecimal digits: a client that resumes for an answer that was lost with its daemon gets an error, and no daemon has
# to remember the request.

_EPOCH_BYTES = 4
_MARK_BYTES = 4
# Far more digits than a counter reaches.
_DIGITS_LIMIT = 20
# Clients use counters or UUIDs; a longer request id is left out of the event id.
_REQUEST_LIMIT_BYTES = 64


class EventId(NamedTuple):
    """Content of an event id: a message of a stream, and the raw id of the request that the stream answers."""

    epoch: str
    stream: int
    number: int
    request: bytes | None = None


def new_epoch(session: str) -> str:
    """Return a new epoch, different from all that the client of that session has seen."""
    return _epoch(os.urandom(_EPOCH_BYTES), session)


def is_event_of(place: EventId, session: str) -> bool:
    """Tell whether an event id belongs to that session, in any epoch."""
    return place.epoch == _epoch(bytes.fromhex(place.epoch)[:_EPOCH_BYTES], session)


def _epoch(random: bytes, session: str) -> str:
    return (random + hashlib.sha256(random + session.encode()).digest()[:_MARK_BYTES]).hex()


def stream_name(epoch: str, stream: int, request: bytes | None) -> bytes:
    """Return the prefix of all event ids of one stream."""
    if request is None or len(request) > _REQUEST_LIMIT_BYTES:
        return b"%b-%d" % (epoch.encode(), stream)
    return b"%b-%d-%b" % (epoch.encode(), stream, request.hex().encode())


def parse_event_id(text: str) -> EventId | None:
    """Return the content of an event id, or None for other text."""
    epoch, *rest = text.split("-")
    if len(rest) not in (2, 3) or not _is_hexadecimal(epoch, 2 * (_EPOCH_BYTES + _MARK_BYTES)):
        return None
    stream, number = _counted(rest[0]), _counted(rest[-1])
    if stream is None or number is None:
        return None
    if len(rest) == 2:
        return EventId(epoch, stream, number)
    request = _request(rest[1])
    return None if request is None else EventId(epoch, stream, number, request)


def _counted(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS_LIMIT else None


def _is_hexadecimal(text: str, size: int) -> bool:
    return len(text) == size and set(text) <= set("0123456789abcdef")


def _request(text: str) -> bytes | None:
    """Return the raw id of a request if it is valid: it is a client's input and becomes part of an answer."""
    if len(text) > 2 * _REQUEST_LIMIT_BYTES or not _is_hexadecimal(text, len(text)) or len(text) % 2:
        return None
    raw = bytes.fromhex(text)
    try:
        value = json.loads(raw)
    except MessageError:
        return None
    is_id = isinstance(value, str | int) and not isinstance(value, bool)
    return json.one_line(raw).strip() if is_id else None
