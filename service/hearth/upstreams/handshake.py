"""Opening a conversation with an MCP server, and reading what it offers. Coroutines over a `Connection`."""

import asyncio

from hearth import __version__
from hearth.errors import HearthError, MessageError, UpstreamError
from hearth.mcp import eras, probe, tools
from hearth.upstreams.connection import Connection
from hearth.wire import json, values
from hearth.wire.values import RawBytes

# A server that pages for ever is cut off here; 100 pages of 50 tools are more than any client takes.
PAGES_LIMIT = 100


class Greeting:
    """What a server said of itself when it was greeted."""

    def __init__(self, era: str, result: json.Fields) -> None:
        self.era = era
        self.instructions = values.text(result.get("instructions"))
        capabilities = values.members(result.get("capabilities"))
        # A modern server may prove its era by an error; then nothing is known, and all is worth asking for.
        self.has_tools = not capabilities or "tools" in capabilities
        offered = values.members(capabilities.get("tools"))
        self.announces_tools = not capabilities or values.is_true(offered.get("listChanged"))


class Reply:
    """A waiter that resolves a future."""

    def __init__(self) -> None:
        self.future: asyncio.Future[json.Message] = asyncio.get_running_loop().create_future()

    def answered(self, message: json.Message) -> None:
        if not self.future.done():
            self.future.set_result(message)

    def failed(self, problem: HearthError) -> None:
        if not self.future.done():
            self.future.set_exception(problem)

    def progressed(self, params: json.Fields) -> None:
        pass


async def greet(connection: Connection, era: str) -> Greeting:
    """Find the era and shake hands. Raises UpstreamError; the caller bounds the time."""
    attempt = probe.Probe(era)
    waiting: dict[asyncio.Future[json.Message], tuple[str, int]] = {}
    try:
        for opening in attempt.openings:
            reply = Reply()
            params = probe.opening_params(opening, __version__)
            try:
                number = connection.request(json.dumps(opening), params, reply)
            except UpstreamError as exc:
                raise await connection.why_lost() from exc
            waiting[reply.future] = (opening, number)
        while attempt.era is None:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            # In the order of asking: of a modern server, the answer to `discover` tells more than the refusal of the
            # other opening.
            for future in [asked for asked in waiting if asked in done]:
                attempt.receive_answer(waiting.pop(future)[0], future.result())
    finally:
        for future, (_, number) in waiting.items():
            # The losing opening's answer comes later, or never, and is of no interest.
            connection.forget(number)
            if future.done():
                future.exception()
            future.cancel()
    if attempt.era == eras.LEGACY:
        connection.notify("notifications/initialized")
    return Greeting(attempt.era, attempt.result)


def _own_params(era: str, **members: RawBytes | None) -> bytes:
    params = {key: value for key, value in members.items() if value is not None}
    if era == eras.MODERN:
        params["_meta"] = json.dumps(probe.envelope({"name": "hearth", "version": __version__}))
    return json.join(params)


async def ask(connection: Connection, era: str, method: str, **members: RawBytes | None) -> RawBytes:
    """One request of Hearth's own. Returns the raw result; raises UpstreamError."""
    reply = Reply()
    number = connection.request(json.dumps(method), _own_params(era, **members), reply)
    try:
        message = await reply.future
    finally:
        # Given up, it would count as a call in flight for as long as the server lives.
        connection.forget(number)
    if message.result is None:
        code, text = values.error(message)
        raise UpstreamError(f"server {connection.name!r} refused {method}: {text} ({code})")
    return message.result


def listen(connection: Connection) -> None:
    """Ask a modern server for its change notices; it answers only when it is done with them."""
    params = _own_params(eras.MODERN, notifications=b'{"toolsListChanged":true}')
    reply = Reply()
    reply.future.add_done_callback(lambda late: late.cancelled() or late.exception())
    connection.stand(b'"subscriptions/listen"', params, reply)


async def list_tools(connection: Connection, era: str) -> list[tools.Tool]:
    """Every page of `tools/list`. Raises UpstreamError."""
    found: dict[str, tools.Tool] = {}
    cursor: bytes | None = None
    seen: set[bytes] = set()
    try:
        for _ in range(PAGES_LIMIT):
            page, cursor = tools.from_page(connection.name, await ask(connection, era, "tools/list", cursor=cursor))
            for tool in page:
                found.setdefault(tool.name, tool)
            if cursor is None or cursor in seen:
                break
            seen.add(cursor)
    except MessageError as exc:
        raise UpstreamError(f"server {connection.name!r} gave a list of tools that is none: {exc}") from exc
    return list(found.values())
