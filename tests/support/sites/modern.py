"""A server of Streamable HTTP, 2026-07-28, strict about everything that a client has to do.

    echo TEXT        the text
    report           a log message, progress, "reported"
    hang             never answers; `closed` counts those whose stream the client has closed
    locate REGION    the region, which has to be in a header, too, if it is given; `header` is that header's name
    lose             breaks the connection after a log message
    answer STATUS    HTTP with that status and nothing of JSON-RPC
    forbid STATUS    HTTP with that status and a JSON-RPC error that answers nothing

`dual=True` makes it one that speaks the legacy era, too: it gives a session to whoever initializes.
"""

import base64
from typing import Any

from support.sites.legacy import LOG, LegacySite, content
from support.sites.web import Reply, Request

VERSION = "2026-07-28"
_KEY = "io.modelcontextprotocol/"
_NAMES = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


class ModernSite(LegacySite):
    """The server. `supported` are the versions that it knows."""

    def __init__(self, *, dual: bool = False, supported: tuple[str, ...] = (VERSION,), **keys: Any) -> None:
        super().__init__(**keys)
        self.names = ["echo", "report", "hang"]
        self.closed = 0
        self.header = "Region"
        self.listens: list[Reply] = []
        # What a subscription is said to be told of.
        self.honoured: dict[str, object] = {}
        self._dual = dual
        self._supported = supported

    def tell(self, method: str, **params: object) -> None:
        """Say something on every stream that listens."""
        self.do(self._tell(method, params))

    def hang_up(self, properly: bool) -> None:
        """End every stream that listens: with a completion result, or by breaking it."""
        self.do(self._hang_up(properly))

    async def _tell(self, method: str, params: dict[str, object]) -> None:
        for reply in self.listens:
            await reply.event({"jsonrpc": "2.0", "method": method, "params": params})

    async def _hang_up(self, properly: bool) -> None:
        listens, self.listens = self.listens, []
        for reply in listens:
            if properly:
                await reply.event({"jsonrpc": "2.0", "id": reply.number, "result": {"resultType": "complete"}})  # type: ignore[attr-defined]
                await reply.end()
            else:
                reply.break_off()
            reply.gone.set()

    async def serve(self, request: Request, reply: Reply) -> None:
        message = request.message if request.method == "POST" else {}
        if self._dual and f"{_KEY}protocolVersion" not in message.get("params", {}).get("_meta", {}):
            await super().serve(request, reply)
        elif request.method != "POST":
            self.faults.append(f"{request.method} to a modern server")
            await reply.send(405)
        elif "id" not in message or "method" not in message:
            self.faults.append(f"neither request nor anything that HTTP has here: {message}")
            await reply.send(400)
        else:
            await self._serve(request, message, reply)

    async def _serve(self, request: Request, message: Any, reply: Reply) -> None:
        code, text = self._check(request, message, message.get("params", {}).get("_meta", {}))
        if code:
            await self._error(reply, message, code, text, 400)
            return
        handler = getattr(self, "_" + message["method"].replace("/", "_"), None)
        if handler is None:
            await self._error(reply, message, -32601, "no such method", 404)
            return
        await handler(request, message, reply)

    def _check(self, request: Request, message: Any, meta: Any) -> tuple[int, str]:
        headers = request.headers
        for forbidden in ("mcp-session-id", "last-event-id"):
            if forbidden in headers:
                self.faults.append(f"{forbidden} in the modern era")
        if f"{_KEY}protocolVersion" not in meta or f"{_KEY}clientCapabilities" not in meta:
            return -32602, "no envelope"
        if headers.get("mcp-protocol-version") != meta[f"{_KEY}protocolVersion"]:
            return -32020, "the version's header"
        if headers.get("mcp-method") != message["method"]:
            return -32020, "the method's header"
        key = _NAMES.get(message["method"])
        if key and decoded(headers.get("mcp-name", "")) != message["params"][key]:
            return -32020, "the name's header"
        return (0, "") if meta[f"{_KEY}protocolVersion"] in self._supported else (-32022, "the version")

    async def _error(self, reply: Reply, message: Any, code: int, text: str, status: int = 200) -> None:
        data = {"supported": list(self._supported), "requested": VERSION} if code == -32022 else None
        error = {"code": code, "message": text, **({"data": data} if data else {})}
        await reply.json({"jsonrpc": "2.0", "id": message["id"], "error": error}, status)

    # --- methods

    async def _server_discover(self, request: Request, message: Any, reply: Reply) -> None:
        await self._complete(
            reply, message, supportedVersions=[VERSION], capabilities={"tools": {"listChanged": True}}, ttlMs=0
        )

    async def _tools_list(self, request: Request, message: Any, reply: Reply) -> None:
        region = {"type": "string", "x-mcp-header": self.header}
        locate = {"name": "locate", "inputSchema": {"type": "object", "properties": {"region": region}}}
        others = [{"name": name, "inputSchema": {"type": "object"}} for name in self.names]
        await self._complete(reply, message, tools=[locate, *others], ttlMs=0)

    async def _resources_read(self, request: Request, message: Any, reply: Reply) -> None:
        await self._complete(reply, message, contents=[{"uri": message["params"]["uri"], "text": "read"}], ttlMs=0)

    async def _tools_call(self, request: Request, message: Any, reply: Reply) -> None:
        name, arguments = message["params"]["name"], message["params"].get("arguments", {})
        if name in ("report", "lose", "answer"):
            # As in the legacy era.
            await getattr(self, f"_tool_{name}")(self._only, message, reply, **arguments)
        else:
            await getattr(self, f"_call_{name}")(request, message, reply, **arguments)

    async def _subscriptions_listen(self, request: Request, message: Any, reply: Reply) -> None:
        await reply.stream(X_Accel_Buffering="no")
        acknowledged = {"_meta": {f"{_KEY}subscriptionId": message["id"]}, "notifications": self.honoured}
        await reply.event(
            {"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": acknowledged}
        )
        reply.number = message["id"]  # type: ignore[attr-defined]
        self.listens.append(reply)
        await reply.gone.wait()
        self.closed += 1

    async def _complete(self, reply: Reply, message: Any, **result: object) -> None:
        await self._result(reply, message, {"resultType": "complete", **result})

    # --- tools

    async def _call_echo(self, request: Request, message: Any, reply: Reply, text: str = "") -> None:
        await self._complete(reply, message, **content(text))

    async def _call_hang(self, request: Request, message: Any, reply: Reply) -> None:
        await reply.stream()
        await reply.event(LOG)
        await reply.gone.wait()
        self.closed += 1

    async def _call_locate(self, request: Request, message: Any, reply: Reply, region: str | None = None) -> None:
        header = request.headers.get(f"mcp-param-{self.header.lower()}")
        if (None if header is None else decoded(header)) != region:
            await self._error(reply, message, -32020, "the region's header", 400)
        else:
            await self._complete(reply, message, **content(str(region)))

    async def _call_forbid(self, request: Request, message: Any, reply: Reply, status: int) -> None:
        await reply.json({"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": "who are you?"}}, status)


def decoded(value: str) -> str:
    """What a header says."""
    if value.startswith("=?base64?") and value.endswith("?="):
        return base64.b64decode(value[len("=?base64?") : -len("?=")], validate=True).decode()
    return value
