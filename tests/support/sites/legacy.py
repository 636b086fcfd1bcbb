"""A server of Streamable HTTP, 2025-03-26 to 2025-11-25, strict about everything that a client has to do.

echo TEXT        the text
report           a log message, progress, "reported"
ask              "hello NAME", with what the client answers to an elicitation
hang             never answers; `withdrawn` has the reason once it is told of a cancellation
drop             breaks the connection after a log message; the rest is to be had by its event's id
poll             ends the connection properly at once, to be asked again after a pause; then as `drop`
lose             breaks the connection, and nothing can be had again
linger           answers and leaves the stream open
batch            answers in an array, behind a log message
garbage          something that is no message, then the answer
spell BYTES      a text of so many bytes
answer STATUS    HTTP with that status and nothing of JSON-RPC
refuse STATUS    HTTP with that status and a JSON-RPC error that answers the call
page             HTML
silent           a stream that ends without an answer
"""

import asyncio
import itertools
from typing import Any

from support.sites.web import Reply, Request, Site

TOOLS = ("echo", "report", "ask", "hang", "drop", "poll", "lose", "linger", "batch", "garbage", "spell")
LOG = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "at it"}}


class Session:
    """What the server knows of one session. `streams` has what is left to say on those that can be taken up again."""

    def __init__(self, id: str, version: str) -> None:
        self.id = id
        self.version = version
        self.initialized = False
        self.told: list[Any] = []
        self.streams: dict[str, list[Any]] = {}
        self.listeners: set[Reply] = set()
        self.answers: dict[str, asyncio.Future[Any]] = {}


class LegacySite(Site):
    """The server. `gives_sessions=False` makes it one without session ids, `streams=False` one that answers in JSON."""

    def __init__(
        self,
        *,
        version: str = "2025-11-25",
        gives_sessions: bool = True,
        streams: bool = True,
        listens: bool = True,
        to_strangers: int = 400,
        **keys: Any,
    ) -> None:
        super().__init__(**keys)
        self.version = version
        self.names = list(TOOLS)
        # What a session that is not known is answered with, and whether no new one is to be had.
        self.unknown_status = 404
        self.refuses_sessions = False
        self.sessions: dict[str, Session] = {}
        self.deleted: list[str] = []
        self.sessions_given: list[str] = []
        self.withdrawn: list[Any] = []
        self._gives_sessions = gives_sessions
        self._streams = streams
        self._listens = listens
        self._to_strangers = to_strangers
        self._numbers = itertools.count(1)
        self._only = Session("", version)

    # --- what a test may do

    def expire(self) -> None:
        """Forget every session, as a restart does."""
        self.sessions.clear()

    def say(self, message: object, id: str | None = None) -> int:
        """Say something on every stream for it. Returns how many there were."""
        return self.do(self._say(message, id))

    def break_listeners(self) -> None:
        """Break every stream for the server's own messages."""
        self.do(self._break_listeners())

    async def _say(self, message: object, id: str | None) -> int:
        listeners = [reply for session in self._all() for reply in session.listeners]
        for reply in listeners:
            await reply.event(message, id)
        return len(listeners)

    async def _break_listeners(self) -> None:
        for session in self._all():
            for reply in list(session.listeners):
                reply.break_off()

    def _all(self) -> list[Session]:
        return list(self.sessions.values()) if self._gives_sessions else [self._only]

    @property
    def listening(self) -> int:
        """How many streams for the server's own messages are open."""
        return sum(len(session.listeners) for session in self._all())

    # --- serving

    async def serve(self, request: Request, reply: Reply) -> None:
        if request.target != self.path:
            await reply.send(404)
        elif request.method == "POST":
            await self._post(request, reply)
        elif request.method == "GET":
            await self._get(request, reply)
        else:
            await self._delete(request, reply)

    async def _post(self, request: Request, reply: Reply) -> None:
        accepted = request.headers.get("accept", "")
        if "application/json" not in accepted or "text/event-stream" not in accepted:
            self.faults.append(f"Accept: {accepted}")
        if request.headers.get("content-type") != "application/json":
            self.faults.append(f"Content-Type: {request.headers.get('content-type')}")
        message = request.message
        if message.get("method") == "initialize":
            await self._initialize(request, reply)
            return
        session = await self._session(request, reply)
        if session is None:
            return
        if "id" in message and "method" in message:
            if not session.initialized and message["method"] != "server/discover":
                self.faults.append(f"{message['method']} before initialized")
            await self._call(session, message, reply)
        else:
            self._take(session, message)
            await reply.send(202)

    async def _session(self, request: Request, reply: Reply) -> Session | None:
        if not self._gives_sessions:
            return self._only
        id = request.headers.get("mcp-session-id")
        session = self.sessions.get(id or "")
        if session is None:
            status = self._to_strangers if id is None else self.unknown_status
            error = {"code": -32000, "message": "no such session"}
            await reply.json({"jsonrpc": "2.0", "id": None, "error": error}, status)
            return None
        if request.headers.get("mcp-protocol-version") != session.version:
            self.faults.append(f"version {request.headers.get('mcp-protocol-version')} on {request.method}")
        return session

    async def _initialize(self, request: Request, reply: Reply) -> None:
        if "mcp-session-id" in request.headers:
            self.faults.append("initialize with a session id")
        if self.refuses_sessions:
            await reply.send(503)
            return
        self._only = Session("", self.version)
        headers = {}
        if self._gives_sessions:
            session = Session(f"session-{next(self._numbers)}", self.version)
            self.sessions[session.id] = session
            self.sessions_given.append(session.id)
            headers = {"Mcp_Session_Id": session.id}
        result = {
            "protocolVersion": self.version,
            "capabilities": {"tools": {"listChanged": True}, "resources": {}, "logging": {}},
            "serverInfo": {"name": "legacy", "version": "1"},
        }
        answer = {"jsonrpc": "2.0", "id": request.message["id"], "result": result}
        if self._streams:
            await reply.stream(**headers)
            await reply.event(answer)
            await reply.end()
        else:
            await reply.json(answer, **headers)

    def _take(self, session: Session, message: Any) -> None:
        session.told.append(message)
        method = message.get("method")
        if method == "notifications/initialized":
            session.initialized = True
        elif method == "notifications/cancelled":
            self.withdrawn.append(message["params"])
        elif method is None and not session.answers[message["id"]].done():
            session.answers[message["id"]].set_result(message)

    async def _get(self, request: Request, reply: Reply) -> None:
        if request.headers.get("accept") != "text/event-stream":
            self.faults.append(f"Accept of GET: {request.headers.get('accept')}")
        session = await self._session(request, reply)
        if session is None:
            return
        last = request.headers.get("last-event-id")
        if last in session.streams:
            await reply.stream()
            for message in session.streams.pop(last):
                await reply.event(message)
            await reply.end()
        elif not self._listens:
            await reply.send(405)
        else:
            await reply.stream()
            session.listeners.add(reply)
            await reply.gone.wait()
            session.listeners.discard(reply)

    async def _delete(self, request: Request, reply: Reply) -> None:
        session = await self._session(request, reply)
        if session:
            self.deleted.append(session.id)
            self.sessions.pop(session.id, None)
            await reply.send(200)

    # --- tools

    async def _call(self, session: Session, message: Any, reply: Reply) -> None:
        method = message["method"]
        if method == "tools/list":
            tools = [{"name": name, "inputSchema": {"type": "object"}} for name in self.names]
            await self._result(reply, message, {"tools": tools})
        elif method == "tools/call":
            arguments = message["params"].get("arguments", {})
            await getattr(self, f"_tool_{message['params']['name']}")(session, message, reply, **arguments)
        elif method in ("logging/setLevel", "resources/subscribe", "resources/unsubscribe"):
            await self._result(reply, message, {})
        else:
            error = {"code": -32601, "message": f"no method {method}"}
            await reply.json({"jsonrpc": "2.0", "id": message["id"], "error": error})

    async def _result(self, reply: Reply, message: Any, result: object) -> None:
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        if not self._streams and not reply.begun:
            await reply.json(answer)
            return
        if not reply.begun:
            await reply.stream()
        await reply.event(answer)
        await reply.end()

    async def _tool_echo(self, session: Session, message: Any, reply: Reply, text: str = "") -> None:
        await self._result(reply, message, content(text))

    async def _tool_report(self, session: Session, message: Any, reply: Reply) -> None:
        await reply.stream()
        await reply.raw(b": keep-alive\n\n")
        await reply.event(LOG)
        token = message["params"].get("_meta", {}).get("progressToken")
        await reply.event(
            {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": token, "progress": 1}}
        )
        await self._result(reply, message, content("reported"))

    async def _tool_ask(self, session: Session, message: Any, reply: Reply) -> None:
        id = f"question-{next(self._numbers)}"
        session.answers[id] = asyncio.get_running_loop().create_future()
        await reply.stream()
        params = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}}
        await reply.event({"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": params})
        given = await session.answers[id]
        await self._result(reply, message, content(f"hello {given['result']['content']['name']}"))

    async def _tool_hang(self, session: Session, message: Any, reply: Reply) -> None:
        await reply.stream()
        await reply.event(LOG)
        await reply.gone.wait()

    async def _tool_drop(self, session: Session, message: Any, reply: Reply) -> None:
        await reply.event(LOG, id=await self._leave(session, message, reply, "resumed"))
        reply.break_off()

    async def _tool_poll(self, session: Session, message: Any, reply: Reply) -> None:
        event = await self._leave(session, message, reply, "polled")
        await reply.raw(f"id: {event}\nretry: 30\ndata:\n\n".encode())
        await reply.end()

    async def _leave(self, session: Session, message: Any, reply: Reply, text: str) -> str:
        """Begin a stream, and keep its rest for whoever resumes it after the event whose id this returns."""
        await reply.stream()
        event = f"event-{message['id']}"
        session.streams[event] = [LOG, {"jsonrpc": "2.0", "id": message["id"], "result": content(text)}]
        return event

    async def _tool_lose(self, session: Session, message: Any, reply: Reply) -> None:
        await reply.stream()
        await reply.event(LOG)
        reply.break_off()

    async def _tool_linger(self, session: Session, message: Any, reply: Reply) -> None:
        await reply.stream()
        await reply.event({"jsonrpc": "2.0", "id": message["id"], "result": content("answered")})
        await reply.event(LOG)
        await reply.gone.wait()

    async def _tool_batch(self, session: Session, message: Any, reply: Reply) -> None:
        answer = [LOG, {"jsonrpc": "2.0", "id": message["id"], "result": content("batched")}]
        if self._streams:
            await reply.stream()
            await reply.event(answer)
            await reply.end()
        else:
            await reply.json(answer)

    async def _tool_garbage(self, session: Session, message: Any, reply: Reply) -> None:
        await reply.stream()
        await reply.event("{]")
        await reply.event("something else", name="ping")
        await self._result(reply, message, content("after all"))

    async def _tool_spell(self, session: Session, message: Any, reply: Reply, bytes: int) -> None:
        await self._result(reply, message, content("x" * bytes))

    async def _tool_answer(self, session: Session, message: Any, reply: Reply, status: int) -> None:
        await reply.send(status, b"secret words")

    async def _tool_refuse(self, session: Session, message: Any, reply: Reply, status: int) -> None:
        error = {"code": -32602, "message": "not like this"}
        await reply.json({"jsonrpc": "2.0", "id": message["id"], "error": error}, status)

    async def _tool_page(self, session: Session, message: Any, reply: Reply) -> None:
        await reply.send(200, b"<html>", "text/html; charset=utf-8")

    async def _tool_silent(self, session: Session, message: Any, reply: Reply) -> None:
        await reply.stream()
        await reply.event(LOG)
        await reply.end()


def content(text: str) -> dict[str, Any]:
    """A tool's result."""
    return {"content": [{"type": "text", "text": text}]}


def told(site: LegacySite, method: str) -> list[Any]:
    """The notifications that came in any session there is."""
    return [
        message for session in site.sessions.values() for message in session.told if message.get("method") == method
    ]
