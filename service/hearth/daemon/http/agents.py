"""`/api/v1/agents…`: the commands about agents as HTTP. Loaded with the first request to it.

The commands and their arguments are those of `agent_control`; what comes in a path is an argument, too.
"""

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from hearth.daemon.agent_control import PACK, VERBS, NotFound
from hearth.daemon.control import BadArgument, parse
from hearth.daemon.http import admission, callers, http_messages
from hearth.daemon.http.exchange import KEEP_ALIVE_SECONDS
from hearth.errors import HearthError, PersonRequired
from hearth.wire import json

if TYPE_CHECKING:
    from hearth.daemon.http.app import Request
    from hearth.hub.sessions import Session

_READS = ("GET", "HEAD")
# Commands about no agent in particular.
_GENERAL = ("prune", "permissions")
_YES, _NO = ("1", "true"), (None, "", "0", "false")


async def serve(request: "Request", path: str) -> None:
    """Serve one request to `agents` or below it."""
    words = [unquote(word) for word in path.split("/")[1:]]
    try:
        asker = await request.app.services.attributed(await callers.pid_of(request))
        match words:
            case []:
                await _serve_all(request, asker)
            case ["permissions"]:
                await _read(request, "permissions", {}, asker)
            case ["prune"]:
                await _act(request, "prune", {}, asker)
            case [id]:
                await _read(request, "show", {"agentId": id}, asker)
            case [id, "log"]:
                await _serve_log(request, id, asker)
            case [id, verb] if verb in VERBS and verb not in (*_GENERAL, "create", "show"):
                await _act(request, verb, {"agentId": id}, asker)
            case _:
                await request.refuse(404, f"there is no such command about {PACK}; docs/http.md lists them")
    except admission.Rejected as exc:
        await request.refuse(exc.status, str(exc))
    except HearthError as exc:
        await request.refuse(_status_of(exc), str(exc))


async def _serve_all(request: "Request", asker: "Session | None") -> None:
    if request.method == "POST":
        await _act(request, "create", {}, asker)
    elif request.method in _READS:
        found = await request.app.services.control.cmd_agents(_flag(request, "all"), asker)
        await request.answer(200, json.dumps({"agents": found}))
    else:
        await request.refuse_method(*_READS, "POST")


async def _read(request: "Request", verb: str, arguments: Mapping[str, Any], asker: "Session | None") -> None:
    if request.method not in _READS:
        await request.refuse_method(*_READS)
        return
    await request.answer(200, json.dumps(await request.app.services.control.cmd_agent(verb, arguments, asker)))


async def _act(request: "Request", verb: str, named: Mapping[str, Any], asker: "Session | None") -> None:
    if request.method != "POST":
        await request.refuse_method("POST")
        return
    admission.check_body(request)
    body = await admission.read_body(request)
    if body is None:
        return
    arguments = parse(body, "body")
    for key in arguments:
        if key in named:
            raise BadArgument(f"{key} is in the address already")
    work = request.app.services.control.cmd_agent(verb, {**arguments, **named}, asker)
    if (result := await _unless_lost(request, work)) is not None:
        await request.answer(200, json.dumps(result))


# --- the log


async def _serve_log(request: "Request", id: str, asker: "Session | None") -> None:
    if request.method != "GET":
        await request.refuse_method("GET")
        return
    follows, count = _flag(request, "follow"), request.first("count")
    if count is not None and not (count.isascii() and count.isdigit() and len(count) < 10):
        raise BadArgument("?count= must be a whole number")
    if follows and not http_messages.accepts(request.headers.get("accept"), http_messages.EVENTS):
        await request.refuse(406, "Accept must name text/event-stream")
        return
    arguments = {"agentId": id, "count": None if count is None else int(count), "follow": follows}
    async with aclosing(request.app.services.control.cmd_agent_log(arguments, asker)) as log:
        first = await anext(log)
        if follows:
            await _stream(request, first, log)
        else:
            await request.answer(200, json.dumps({"entries": first}))


class LogStream:
    """Stream of one agent's log to one client. `close` ends it: the daemon shuts down, or the client has gone."""

    def __init__(self, log: AsyncGenerator[list[dict[str, Any]], None]) -> None:
        self._log = log
        self._next: asyncio.Task[list[dict[str, Any]]] | None = None
        self._is_closed = False

    async def next(self) -> list[dict[str, Any]] | None:
        """Return the next entries; none after KEEP_ALIVE_SECONDS without one, None at the end."""
        if self._is_closed:
            return None
        self._next = self._next or asyncio.ensure_future(anext(self._log))
        await asyncio.wait({self._next}, timeout=KEEP_ALIVE_SECONDS)
        if not self._next.done():
            return []
        task, self._next = self._next, None
        try:
            return task.result()
        except (StopAsyncIteration, asyncio.CancelledError):
            return None

    def close(self) -> None:
        """End the stream."""
        self._is_closed = True
        if self._next:
            self._next.cancel()

    async def finish(self) -> None:
        """End the stream; return when the log is not read any more: only then it can be closed."""
        self.close()
        if self._next:
            await asyncio.wait({self._next})


async def _stream(
    request: "Request", first: list[dict[str, Any]], log: AsyncGenerator[list[dict[str, Any]], None]
) -> None:
    stream = LogStream(log)
    request.app.followers.add(stream)
    request.connection.on_lost.append(stream.close)
    try:
        await request.begin(200, http_messages.EVENT_STREAM, _events(first), more=True)
        while (found := await stream.next()) is not None:
            await request.send_body(_events(found) or http_messages.KEEP_ALIVE, more=True)
        await request.send_body(b"", more=False)
    finally:
        await stream.finish()
        request.app.followers.discard(stream)
        if stream.close in request.connection.on_lost:
            request.connection.on_lost.remove(stream.close)


def _events(entries: list[dict[str, Any]]) -> bytes:
    return b"".join(b"event: %b\ndata: %b\n\n" % (str(each["kind"]).encode(), json.dumps(each)) for each in entries)


# --- parsing and refusing requests


async def _unless_lost(request: "Request", work: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any] | None:
    """Return the result of a command; None if the client has gone, which ends its wait."""
    task = asyncio.ensure_future(work)
    request.connection.on_lost.append(task.cancel)
    try:
        return await task
    except asyncio.CancelledError:
        own = asyncio.current_task()
        if own is not None and own.cancelling():
            raise
        return None
    finally:
        if task.cancel in request.connection.on_lost:
            request.connection.on_lost.remove(task.cancel)


def _flag(request: "Request", name: str) -> bool:
    text = request.first(name)
    if text not in (*_YES, *_NO):
        raise BadArgument(f"?{name}= must be 1 or 0")
    return text in _YES


def _status_of(problem: HearthError) -> int:
    """Return the HTTP status for an error of a command."""
    if isinstance(problem, BadArgument):
        return 400
    if isinstance(problem, PersonRequired):
        return 403
    return 404 if isinstance(problem, NotFound) else 422
