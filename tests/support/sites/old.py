"""A server of the HTTP+SSE transport of 2024-11-05, with the tools of the legacy site.

GET on its path opens the stream; `endpoint` is what its first event says, where "{}" becomes the session's id.
"""

import asyncio
import itertools
from typing import Any

from support.sites.legacy import LOG, TOOLS, content
from support.sites.web import Reply, Request, Site


class OldSite(Site):
    """The server. Answers to messages are `taken`; `posts_at_sse` is what POST on the stream's own path gets."""

    def __init__(
        self,
        *,
        endpoint: str = "/messages?session={}",
        taken: int = 202,
        posts_at_sse: int = 405,
        path: str = "/sse",
        **keys: Any,
    ) -> None:
        super().__init__(path=path, **keys)
        self.streams: dict[str, Reply] = {}
        self.told: list[Any] = []
        self.opened = 0
        self.taken = taken
        self._endpoint = endpoint
        self._posts_at_sse = posts_at_sse
        self._initialized: set[str] = set()
        self._answers: dict[str, asyncio.Future[Any]] = {}
        self._numbers = itertools.count(1)

    def say(self, message: object) -> None:
        """Say something on every stream."""

        async def say() -> None:
            for reply in self.streams.values():
                await reply.event(message, name="message")

        self.do(say())

    def break_streams(self) -> None:
        """Break every stream."""

        async def break_all() -> None:
            for reply in self.streams.values():
                reply.break_off()

        self.do(break_all())

    async def serve(self, request: Request, reply: Reply) -> None:
        path, _, query = request.target.partition("?")
        if request.method == "GET" and path == self.path:
            await self._open_stream(request, reply)
        elif request.method == "POST" and path == "/messages":
            await self._message(query.partition("=")[2], request, reply)
        else:
            await reply.send(self._posts_at_sse if path == self.path else 404)

    async def _open_stream(self, request: Request, reply: Reply) -> None:
        if request.headers.get("accept") != "text/event-stream":
            self.faults.append(f"Accept of GET: {request.headers.get('accept')}")
        id = f"s{next(self._numbers)}"
        self.opened += 1
        self.streams[id] = reply
        await reply.stream()
        await reply.event(self._endpoint.format(id), name="endpoint")
        await reply.gone.wait()
        self.streams.pop(id)

    async def _message(self, id: str, request: Request, reply: Reply) -> None:
        stream, message = self.streams.get(id), request.message
        if stream is None:
            await reply.send(404)
            return
        if request.headers.get("content-type") != "application/json":
            self.faults.append(f"Content-Type: {request.headers.get('content-type')}")
        await reply.send(self.taken, b"Accepted")
        if 200 <= self.taken < 300:
            asyncio.ensure_future(self._handle(id, message, stream))  # noqa: RUF006 - ends with its call

    async def _handle(self, id: str, message: Any, stream: Reply) -> None:
        method = message.get("method")
        if method is None:
            self._answers[message["id"]].set_result(message)
        elif "id" not in message:
            self.told.append(message)
            if method == "notifications/initialized":
                self._initialized.add(id)
        elif method == "server/discover":
            self.faults.append("asked for something unknown to 2024-11-05")
        else:
            if method != "initialize" and id not in self._initialized:
                self.faults.append(f"{method} before initialized")
            result = await self._result(method, message.get("params", {}), stream)
            if result is not None:
                await stream.event({"jsonrpc": "2.0", "id": message["id"], "result": result}, name="message")

    async def _result(self, method: str, params: Any, stream: Reply) -> object:
        if method == "initialize":
            info = {"name": "old", "version": "1"}
            return {"protocolVersion": "2024-11-05", "capabilities": {"tools": {}}, "serverInfo": info}
        if method == "tools/list":
            return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]}
        name = params["name"]
        if name == "hang":
            return None
        if name == "report":
            await stream.event(LOG)
        if name == "ask":
            self._answers["q"] = asyncio.get_running_loop().create_future()
            await stream.event({"jsonrpc": "2.0", "id": "q", "method": "sampling/createMessage", "params": {}})
            await self._answers["q"]
        if name == "spell":
            return content("x" * params["arguments"]["bytes"])
        return content(params["arguments"].get("text", name))
