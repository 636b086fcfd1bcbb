"""`/mcp` and `/mcp/SERVER`: Streamable HTTP of every revision that has it.

A request of the modern era is self-contained: its headers must repeat values of its body, and closing its stream
cancels it. A legacy request belongs to a session, and its stream may be resumed.

`/sse` and `/messages`: HTTP+SSE of revision 2024-11-05. `GET /sse` opens the one stream, whose first event says where
to post.
"""

import re
from typing import TYPE_CHECKING

from hearth.daemon.http import admission, callers, http_messages
from hearth.daemon.http.admission import Rejected
from hearth.daemon.http.exchange import Exchange, pump
from hearth.daemon.http.sessions import HttpSession
from hearth.errors import MessageError, OverLimit, Refused, UpstreamError
from hearth.hub import batches
from hearth.hub.sessions import AUTO, FULL, SEARCH
from hearth.mcp import http_headers, messages, versions
from hearth.wire import json, values

if TYPE_CHECKING:
    from hearth.daemon.http.app import Request

SESSION = "mcp-session-id"
VERSION = "mcp-protocol-version"
_MODES = (FULL, SEARCH, AUTO)
_REVISION = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
# Messages that open a session do not count as a use of it.
_OPENING = frozenset({"initialize", "notifications/initialized"})

Posted = json.Message | json.Batch


async def serve(request: "Request") -> None:
    """Serve one request, whatever its method."""
    try:
        if request.server is not None and request.server not in request.app.hub.servers:
            raise Rejected(404, Refused(f"there is no server {request.server!r}"))
        check_mode(request)
        if request.method == "POST":
            await _post(request)
        elif _names_modern(request.headers.get(VERSION)):
            await request.refuse(405, f"{request.method} means nothing in this revision", [(b"allow", b"POST")])
        elif request.method not in ("GET", "DELETE"):
            await request.refuse_method("GET", "POST", "DELETE", "OPTIONS")
        elif request.method == "GET":
            await _get(request)
        else:
            await _delete(request)
    except Rejected as exc:
        await reject(request, exc)


async def reject(request: "Request", rejected: Rejected) -> None:
    """Answer a request that was rejected."""
    problem = rejected.problem
    if isinstance(problem, versions.UnsupportedVersion):
        request.app.hub.unknowns.version(request.who, problem.requested)
    if not isinstance(problem, OverLimit):
        await request.answer(rejected.status, messages.failure(rejected.id, problem))
    elif rejected.id is None:
        await request.refuse(rejected.status, str(problem), admission.retry_after(problem))
    else:
        await request.answer(rejected.status, messages.failure(rejected.id, problem), admission.retry_after(problem))


def check_mode(request: "Request") -> None:
    """Raise Rejected for an unknown `?mode=`."""
    for mode in request.query.get("mode", ()):
        if mode not in _MODES:
            raise Rejected(400, MessageError(f"?mode= is full, search or auto, not {mode!r}"))


# --- POST


async def _post(request: "Request") -> None:
    admission.check_body(request)
    if not http_messages.accepts(request.headers.get("accept"), http_messages.JSON, http_messages.EVENTS):
        raise Rejected(406, MessageError("Accept must name application/json and text/event-stream"))
    body = await admission.read_body(request)
    if body is None:
        return
    message = parse(body)
    if isinstance(message, json.Batch):
        await _post_batch(request, message)
    elif _is_modern(message, request.headers):
        await _post_modern(request, message)
    elif message.method == "initialize" and message.id is not None:
        await _initialize(request, message)
    else:
        await _exchange(request, _session(request, None if message.method is None else message.id), message)


def parse(body: bytes) -> Posted:
    """Parse the body of a POST. Raises Rejected."""
    # JSON may have newlines between tokens, but servers get it as one line.
    line = json.one_line(body) if b"\n" in body or b"\r" in body else body
    try:
        return json.parse_batch(line) if line.lstrip()[:1] == b"[" else json.parse(line)
    except MessageError as exc:
        raise Rejected(400, exc, exc.id) from exc


async def _exchange(
    request: "Request",
    found: HttpSession,
    message: Posted,
    sent: http_messages.Headers = [],  # noqa: B006
) -> None:
    admitted = request.app.gates.admitted(found, request.connection.needs_token, message)
    exchange = Exchange(request, found, sent)
    await exchange.run(lambda tag: _receive(request, found, tag, admitted))


def _receive(request: "Request", found: HttpSession, tag: int, message: Posted) -> None:
    hub = request.app.hub
    if found.session.left:
        # The session has ended while the process of the request was looked up.
        raise _no_session()
    if isinstance(message, json.Batch) or message.method not in _OPENING:
        found.use()
    if isinstance(message, json.Batch):
        found.sink.carry_batch(tag, message)
        hub.receive_batch(found.session, tag, message, resent=False, replay=False)
    else:
        found.sink.carry(tag, message)
        hub.receive(found.session, tag, message, resent=False, replay=False)


# --- the modern era


def _names_modern(version: str | None) -> bool:
    """Tell whether a header names a revision without sessions, known or not; other text does not count."""
    return version is not None and version > versions.NEWEST_LEGACY and _REVISION.fullmatch(version) is not None


def _is_modern(message: json.Message, given: dict[str, str]) -> bool:
    return _names_modern(given.get(VERSION)) or versions.PROTOCOL_VERSION_KEY in _meta(message)


def _meta(message: json.Message) -> json.Fields:
    return values.members(values.members(message.fields.get("params")).get("_meta"))


async def _post_modern(request: "Request", message: json.Message) -> None:
    try:
        if message.method is None:
            raise MessageError("a response may not be posted in this revision")
        if message.id is None:
            versions.check_version(request.headers.get(VERSION, ""))
            request.app.hub.unknowns.notification(request.who, message.method)
            # No notification has a meaning here: a request is cancelled by closing its stream.
            await request.answer(202)
            return
        _check_modern(message, request.headers)
        if message.method == "initialize":
            # On other wires `initialize` begins a legacy conversation, whatever its content.
            raise Rejected(
                404, MessageError("initialize is not part of this revision", versions.METHOD_NOT_FOUND), message.id
            )
        found = _modern_session(request, message.id)
        _check_params(request, found, message)
    except MessageError as exc:
        raise Rejected(400, exc, message.id) from exc
    await _exchange(request, found, message)


def _check_modern(message: json.Message, given: dict[str, str]) -> None:
    """Raise MessageError for a faulty request; the checks have the order of the specification."""
    assert message.method is not None
    meta, named = _meta(message), given.get(VERSION)
    if named is not None and versions.PROTOCOL_VERSION_KEY not in meta:
        # The requirements on the body of an unknown revision are unknown as well.
        versions.check_version(named.strip())
    version = versions.named_version(meta)
    if named is None:
        raise MessageError("header MCP-Protocol-Version is missing", versions.HEADER_MISMATCH)
    if named.strip() != version:
        raise MessageError("header MCP-Protocol-Version is not the version in the body", versions.HEADER_MISMATCH)
    http_headers.check_standard(message.method, message.fields.get("params"), given)
    versions.check_version(version)


def _check_params(request: "Request", found: HttpSession, message: json.Message) -> None:
    """Raise MessageError unless the headers repeat the arguments for which the tool's schema asks that."""
    if message.method == "tools/call":
        params = values.members(message.fields.get("params"))
        schema = request.app.hub.input_schema(found.session, values.text(params.get("name")) or "")
        if schema is not None:
            try:
                index = http_headers.index(schema)
            except http_headers.InvalidAnnotation:
                # HTTP clients do not get such a tool with headers to send.
                return
            http_headers.check(index, params.get("arguments"), request.headers)


def _modern_session(request: "Request", id: bytes) -> HttpSession:
    who = request.who
    if not request.app.sessions.knows(who):
        request.app.gates.check_opening(request.connection.needs_token, id)
    try:
        return request.app.sessions.modern(who)
    except Refused as exc:
        raise Rejected(503, exc, id) from exc


# --- legacy sessions


async def _initialize(request: "Request", message: json.Message) -> None:
    request.app.gates.check_opening(request.connection.needs_token, message.id)
    try:
        id, found = request.app.sessions.open_legacy(request.who)
    except Refused as exc:
        raise Rejected(503, exc, message.id) from exc
    await _exchange(request, found, message, [(SESSION.encode(), id.encode())])
    if found.session.era is None:
        # The hub has refused the `initialize`.
        request.app.sessions.end(id, request.who)


async def _post_batch(request: "Request", batch: json.Batch) -> None:
    if _names_modern(request.headers.get(VERSION)):
        raise Rejected(400, batches.refusal())
    found = _session(request)
    if found.session.version != batches.REVISION:
        raise Rejected(400, batches.refusal())
    await _exchange(request, found, batch)


def _session(request: "Request", id: bytes | None = None) -> HttpSession:
    """Return the session that a request with that raw id names; a former daemon may have begun it. Raises Rejected."""
    try:
        found = request.app.sessions.resume(_session_id(request), request.who)
    except Refused as exc:
        raise Rejected(503, exc, id) from exc
    # Requests in a session of the oldest revision are answered on its one stream, and not here.
    if found is None or found.sink.is_single:
        raise _no_session()
    return found


def _session_id(request: "Request") -> str:
    id, version = request.headers.get(SESSION), request.headers.get(VERSION)
    if id is None:
        raise Rejected(400, MessageError("header Mcp-Session-Id is missing: begin with `initialize`"))
    if version is not None and version not in versions.LEGACY_VERSIONS:
        request.app.hub.unknowns.version(request.who, version)
        raise Rejected(400, MessageError(f"header MCP-Protocol-Version names no known revision: {version!r}"))
    return id


def _no_session() -> Rejected:
    return Rejected(404, MessageError("there is no such session, or no longer: begin with `initialize`"))


async def _get(request: "Request") -> None:
    if not http_messages.accepts(request.headers.get("accept"), http_messages.EVENTS):
        raise Rejected(406, MessageError("Accept must name text/event-stream"))
    found = _session(request)
    request.app.gates.check_stream(found, request.connection.needs_token)
    last = request.headers.get("last-event-id")
    found.use()
    exchange = Exchange(request, found, [])
    if last is None:
        await exchange.listen(found.sink.general)
        return
    place = http_messages.parse_event_id(last)
    if place is not None and not found.sink.knows(place):
        # The event id is of another session, whose answers are not for this client.
        raise _not_kept()
    if place is not None and not found.sink.is_own(place):
        await _get_former(exchange, found, place)
        return
    stream = found.sink.stream(place.stream) if place else None
    # Refuse to resume a stream that has ended with nothing left to send: clients of a stream without an answer would
    # reconnect again and again.
    if place is None or stream is None or not stream.has(place.number) or stream.is_through(place.number):
        raise _not_kept()
    await exchange.listen(stream, place.number, is_primed=False)


async def _get_former(exchange: Exchange, found: HttpSession, place: http_messages.EventId) -> None:
    """Resume a stream that the session had in a former daemon. Raises Rejected."""
    sink = found.sink
    if not place.stream:
        # The client has seen none of this daemon's messages.
        await exchange.listen(sink.general, sink.general.oldest)
    elif place.request is None:
        raise _not_kept()
    else:
        # If the stream were refused, some clients would wait for the answer until their timeout.
        lost = UpstreamError("the daemon was lost while it was answering this request; it may or may not have run")
        await exchange.listen(sink.answered(place.request, messages.failure(place.request, lost)))


def _not_kept() -> Rejected:
    return Rejected(400, MessageError("what came after this Last-Event-ID is not kept, or never was"))


async def _delete(request: "Request") -> None:
    if not request.app.sessions.end(_session_id(request), request.who):
        raise _no_session()
    await request.answer(204)


# --- HTTP+SSE


async def serve_stream(request: "Request") -> None:
    """Open a session and serve its stream; the session ends with the stream."""
    try:
        check_mode(request)
        request.app.gates.check_opening(request.connection.needs_token)
        id, found = request.app.sessions.open_legacy(request.who, is_kept=False)
    except Rejected as exc:
        await reject(request, exc)
        return
    except Refused as exc:
        await request.refuse(503, str(exc))
        return
    if request.app.hub.policy.guard is not None:
        await callers.note(request, found.session, may_wait=False)
    found.sink.is_single = True
    stream = found.sink.general
    reader = object()
    stream.attach(reader)
    found.begin()
    stream.on_overflow = lambda: request.connection.abort("does not read (outbound_limit)")
    # This stream cannot be resumed: a lost connection ends the session.
    request.connection.on_lost.append(lambda: request.app.sessions.end(id, request.who))
    try:
        endpoint = b"event: endpoint\ndata: /messages?session=%b\n\n" % id.encode()
        await request.begin(200, http_messages.EVENT_STREAM, endpoint, more=True)
        await pump(request, stream, reader, None)
    finally:
        found.done()
        request.app.sessions.end(id, request.who)


async def serve_message(request: "Request") -> None:
    """Take a message of a session; the answer is sent on the session's stream."""
    try:
        _sse_session(request)
        admission.check_body(request)
        body = await admission.read_body(request)
        if body is None:
            return
        # The session may have ended meanwhile.
        found = _sse_session(request)
        message = parse(body)
    except Rejected as exc:
        await request.refuse(exc.status, str(exc))
        return
    if isinstance(message, json.Batch):
        await request.refuse(400, "batches are not part of this revision")
        return
    try:
        request.app.gates.admitted(found, request.connection.needs_token, message)
    except Rejected as exc:
        await reject(request, exc)
        return
    request.app.hub.receive(found.session, found.sink.begin(), message, resent=False, replay=False)
    await request.answer(202)


def _sse_session(request: "Request") -> HttpSession:
    """Return the session that a message names. Raises Rejected."""
    found = request.app.sessions.find(request.query.get("session", [""])[0], request.who)
    if found is None or not found.sink.is_single:
        raise Rejected(404, Refused("there is no such session: open /sse first"))
    return found
