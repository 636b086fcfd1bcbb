"""HTTP+SSE of revision 2024-11-05: `GET /sse` opens the one stream, whose first event says where to post."""

from typing import TYPE_CHECKING

from hearth.daemon.http import admission, mcp, responses
from hearth.daemon.http.admission import Rejected
from hearth.daemon.http.exchange import pump
from hearth.daemon.http.sessions import HttpSession
from hearth.errors import Refused
from hearth.wire import json

if TYPE_CHECKING:
    from hearth.daemon.http.app import Request


async def serve_stream(request: "Request") -> None:
    """Open a session and serve its stream; the session ends with the stream."""
    if request.method != "GET":
        await request.refuse(405, f"{request.method} means nothing here", [(b"allow", b"GET")])
        return
    try:
        mcp.check_mode(request)
        request.app.gates.check_opening(request.connection.needs_token)
        id, found = request.app.sessions.open_legacy(request.who, is_kept=False)
    except Rejected as exc:
        await mcp.reject(request, exc)
        return
    except Refused as exc:
        await request.refuse(503, str(exc))
        return
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
        await request.begin(200, responses.EVENT_STREAM, endpoint, more=True)
        await pump(request, stream, reader, None)
    finally:
        found.done()
        request.app.sessions.end(id, request.who)


async def serve_message(request: "Request") -> None:
    """Take a message of a session; the answer is sent on the session's stream."""
    if request.method != "POST":
        await request.refuse(405, f"{request.method} means nothing here", [(b"allow", b"POST")])
        return
    try:
        _session(request)
        admission.check_body(request)
        body = await admission.read_body(request)
        if body is None:
            return
        # The session may have ended meanwhile.
        found = _session(request)
        message = mcp.parse(body)
    except Rejected as exc:
        await request.refuse(exc.status, str(exc))
        return
    if isinstance(message, json.Batch):
        await request.refuse(400, "batches are not part of this revision")
        return
    try:
        request.app.gates.admitted(found, request.connection.needs_token, message)
    except Rejected as exc:
        await mcp.reject(request, exc)
        return
    request.app.hub.receive(found.session, found.sink.begin(), message, resent=False, replay=False)
    await request.answer(202)


def _session(request: "Request") -> HttpSession:
    """Return the session that a message names. Raises Rejected."""
    found = request.app.sessions.find(request.query.get("session", [""])[0], request.who)
    if found is None or not found.sink.is_single:
        raise Rejected(404, Refused("there is no such session: open /sse first"))
    return found
