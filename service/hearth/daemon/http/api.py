"""`/api/v1/…`: the commands of `ControlApi` as HTTP. Loaded with the first request to it.

The guard of `app` has checked the token or peer uid, Host and Origin of the request. In addition, a command that
changes something is a POST of `application/json`: no page can send it without a preflight, which is refused to it.
"""

import asyncio
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from hearth.daemon.control import BadArgument, parse
from hearth.daemon.http import admission, callers, http_messages
from hearth.daemon.http.exchange import KEEP_ALIVE_SECONDS
from hearth.errors import ConfigError, HearthError, PersonRequired, Refused
from hearth.host import process_table
from hearth.hub import events
from hearth.hub.authorization.pending import SCOPES
from hearth.hub.events import HubEvent
from hearth.wire import json

if TYPE_CHECKING:
    from hearth.daemon.http.app import Request

# A command has two flags at most; parsing megabytes would hold up the loop.
BODY_LIMIT_BYTES = 64 * 1024
# Paths of actions with a name in the middle: the beginning, the end, and the action.
_NAMED = (
    ("servers/", "/restart", "restart"),
    ("approvals/", "/approve", "approve"),
    ("approvals/", "/deny", "deny"),
)
_READS = ("GET", "HEAD")
_QUERIES = ("status", "sessions", "servers", "tools", "approvals")
_ACTIONS = ("reload", "shutdown")
# Members of an action's body, with their types.
_MEMBERS: dict[str, dict[str, type]] = {
    "shutdown": {"restart": bool, "whenQuiet": bool},
    "approve": {"scope": str, "reason": str},
    "deny": {"reason": str},
}
_TYPES = {bool: "true or false", str: "a text"}


async def serve(request: "Request") -> None:
    """Serve one request, whatever its method and path."""
    path, name = _parsed(request.raw_path.decode("latin-1").partition("/api/v1/")[2])
    if path != "reload":
        request.app.services.look_at_config()
    if path == "agents" or path.startswith("agents/"):
        from hearth.daemon.http import agents

        await agents.serve(request, path)
    elif path in _QUERIES:
        await _ask(request, path)
    elif path == "events":
        await _follow(request)
    elif path in _ACTIONS or name is not None:
        await _act(request, path, name)
    else:
        await request.refuse(404, "there is no such command; docs/http.md lists them")


def _parsed(path: str) -> tuple[str, str | None]:
    """Return the command that a path names, and the name in its middle; a name may contain slashes, also as %2F."""
    for start, end, action in _NAMED:
        if path.startswith(start) and path.endswith(end) and len(path) > len(start + end):
            return action, unquote(path.removeprefix(start).removesuffix(end))
    return path, None


# --- questions


async def _ask(request: "Request", path: str) -> None:
    if request.method not in _READS:
        await request.refuse_method(*_READS)
        return
    try:
        body = await _find(request, path)
    except HearthError as exc:
        await request.refuse(_status_of(exc), str(exc))
    else:
        await request.answer(200, body)


async def _find(request: "Request", path: str) -> bytes:
    control = request.app.services.control
    if path == "tools":
        query, server, limit = request.first("query") or "", request.first("server"), _number(request, "limit")
        return bytes(await control.cmd_tools(query, server, limit))
    if path == "sessions":
        return json.dumps({"sessions": control.cmd_sessions()})
    if path == "approvals":
        return json.dumps(control.cmd_approvals())
    # Not in the loop: the kernel takes milliseconds to measure a large process.
    status = await asyncio.to_thread(process_table.with_memory, control.cmd_status())
    return json.dumps({"servers": status["upstreams"]} if path == "servers" else status)


# --- actions


async def _act(request: "Request", path: str, name: str | None) -> None:
    if request.method != "POST":
        await request.refuse_method("POST")
        return
    try:
        admission.check_body(request)
        body = await admission.read_body(request)
        if body is None:
            return
        if len(body) > BODY_LIMIT_BYTES:
            await request.refuse(413, f"the body is over the limit of {BODY_LIMIT_BYTES} bytes for a command")
            return
        message = await _run(request, path, parse(body, "body"), name or "")
    except admission.Rejected as exc:
        await request.refuse(exc.status, str(exc))
    except HearthError as exc:
        await request.refuse(_status_of(exc), str(exc))
    else:
        await request.answer(200, json.dumps({"message": message}))


async def _run(request: "Request", path: str, body: dict[str, Any], name: str) -> str:
    services, control = request.app.services, request.app.services.control
    _check_members(body, _MEMBERS.get(path, {}))
    restart, when_quiet = body.get("restart", False), body.get("whenQuiet", False)
    if when_quiet and not restart:
        raise BadArgument("whenQuiet is for a restart: send restart, too")
    # On the socket the kernel tells the process; with a policy, a command from below an agent is no person's.
    asker = await services.attributed(await callers.pid_of(request))
    if path in ("approve", "deny"):
        scope, reason = body.get("scope", SCOPES[0]), body.get("reason", "")
        if scope not in SCOPES:
            raise BadArgument(f"scope must be one of {', '.join(SCOPES)}")
        return await control.cmd_decide(name, path, scope, reason, "http", asker)
    control.check_typed(asker)
    if path == "shutdown":
        return await control.cmd_shutdown(restart, when_quiet, asker)
    return await (control.cmd_restart(name, asker) if path == "restart" else control.cmd_reload(asker))


# --- events


async def _follow(request: "Request") -> None:
    """Send events as they come, after the newest `count` kept ones (none without it)."""
    if request.method != "GET":
        await request.refuse_method("GET")
        return
    if not http_messages.accepts(request.headers.get("accept"), http_messages.EVENTS):
        await request.refuse(406, "Accept must name text/event-stream")
        return
    try:
        count = _number(request, "count") or 0
    except BadArgument as exc:
        await request.refuse(400, str(exc))
        return
    feed = request.app.services.control.cmd_events(follow=True, count=count)
    assert feed.subscription is not None
    with feed.subscription as subscription:
        request.app.followers.add(subscription)
        request.connection.on_lost.append(subscription.close)
        try:
            await request.begin(200, http_messages.EVENT_STREAM, _stream(feed.kept), more=True)
            while not subscription.is_closed:
                # uvicorn's `send` waits for a slow reader; the subscription's queue drops events meanwhile.
                found = _stream(await subscription.wait(KEEP_ALIVE_SECONDS))
                await request.send_body(found or http_messages.KEEP_ALIVE, more=True)
            # Events may have come while `send` waited for the reader.
            await request.send_body(_stream(subscription.take()), more=False)
        finally:
            request.app.followers.discard(subscription)
            if subscription.close in request.connection.on_lost:
                request.connection.on_lost.remove(subscription.close)


def _stream(found: list[HubEvent]) -> bytes:
    kinds = [(str(each.__struct_config__.tag).encode(), events.encode(each)) for each in found]
    return b"".join([b"event: %b\ndata: %b\n\n" % each for each in kinds])


# --- parsing and refusing requests


def _number(request: "Request", name: str) -> int | None:
    text = request.first(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise BadArgument(f"?{name}= must be a whole number")
    return int(text)


def _check_members(body: dict[str, Any], known: dict[str, type]) -> None:
    """Raise BadArgument for a member that is not known, or is of another type: a command must not be guessed."""
    for key, value in body.items():
        if key not in known:
            raise BadArgument(f"unknown member {key[:80]!r}; known: {', '.join(known) or 'none'}")
        if not isinstance(value, known[key]):
            raise BadArgument(f"{key} must be {_TYPES[known[key]]}")


def _status_of(problem: HearthError) -> int:
    """Return the HTTP status for an error of a command."""
    if isinstance(problem, ConfigError):
        return 409
    if isinstance(problem, BadArgument):
        return 400
    if isinstance(problem, PersonRequired):
        return 403
    return 404 if isinstance(problem, Refused) else 500
