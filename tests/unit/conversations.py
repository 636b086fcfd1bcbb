"""Conversations whose other end is the test: connections that keep what is said, and answer what they are told to."""

import asyncio
from collections.abc import Callable, Collection
from typing import Any

from hearth.errors import UpstreamError
from hearth.mcp.catalog import ListKind
from hearth.upstreams.connection import Connection, Owner
from hearth.upstreams.instance import Instance
from hearth.wire import json
from hearth.wire.values import RawBytes

Said = dict[str, Any]

# Far more than anything here takes.
BOUND_SECONDS = 20

LEGACY_INITIALIZED = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {"listChanged": True}, "resources": {"subscribe": True}, "logging": {}},
    "serverInfo": {"name": "other", "version": "1"},
}
MODERN_DISCOVERED = {
    "resultType": "complete",
    "supportedVersions": ["2026-07-28"],
    "capabilities": {"tools": {"listChanged": True}},
}
TOOL_LIST = {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}


class Hearer:
    """The owner of a connection, as an instance is one; it keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[object, ...]] = []

    def noticed(self, connection: Connection, message: json.Message, cause: int | None) -> None:
        self.told.append(("noticed", message.method, cause))

    def asked(self, connection: Connection, message: json.Message, cause: int | None) -> None:
        self.told.append(("asked", message.method, cause))

    def lost(self, connection: Connection) -> None:
        self.told.append(("lost",))

    def closed(self, connection: Connection, why: str) -> None:
        self.told.append(("closed", why))


class Recorded(Connection):
    """Keeps what is sent to the server; the test says what comes back."""

    def __init__(self, owner: Owner | None = None, name: str = "s") -> None:
        super().__init__(name, owner or Hearer())
        self.sent: list[Said] = []
        self.notified: list[Said] = []
        self.answers: list[Said] = []
        self.causes: list[int | None] = []
        self.opened = self.stopped = False
        # Set, nothing can be sent.
        self.broken = False

    async def open(self) -> None:
        self.opened = True

    async def stop(self) -> None:
        if not self.stopped:
            self.stopped = True
            self.end("it was stopped")

    def notify(self, method: str, params: RawBytes | None = None) -> None:
        self.notified.append({"method": method, "params": json.loads(params or b"null")})

    def answer(self, payload: bytes, cause: int | None = None) -> None:
        self.answers.append(json.loads(payload))
        self.causes.append(cause)

    async def why_lost(self) -> UpstreamError:
        return UpstreamError("it is gone")

    def _send(self, number: int, method: bytes, params: RawBytes) -> None:
        if self.broken:
            raise UpstreamError("it takes nothing")
        self.sent.append({"id": number, "method": json.loads(method), "params": json.loads(bytes(params))})

    # --- the server's side

    def methods(self) -> list[str]:
        """What was asked, in order."""
        return [request["method"] for request in self.sent]

    def cancelled(self) -> list[int]:
        """The requests that were withdrawn."""
        cancels = [item for item in self.notified if item["method"] == "notifications/cancelled"]
        return [cancel["params"]["requestId"] for cancel in cancels]

    def give(self, number: int, result: object) -> None:
        """The server's result."""
        self._take(json.parse(json.dumps({"jsonrpc": "2.0", "id": number, "result": result})))

    def refuse(self, number: int, code: int, text: str = "no", data: object = None) -> None:
        """The server's error."""
        error = {"code": code, "message": text} | ({"data": data} if data is not None else {})
        self._take(json.parse(json.dumps({"jsonrpc": "2.0", "id": number, "error": error})))

    def say(self, method: str, params: object = None, id: object = None, cause: int | None = None) -> None:
        """A notification of the server's or, with an id, a request."""
        message = {"jsonrpc": "2.0", "method": method} | ({} if params is None else {"params": params})
        self._take(json.parse(json.dumps(message | ({} if id is None else {"id": id}))), cause)

    def end(self, why: str) -> None:
        """The server is gone."""
        self._end(UpstreamError(f"server {self.name!r} is gone"), why)


class Scripted(Recorded):
    """Answers by itself: `script` has the result of each method, or an error's code. What is not in it stays open."""

    def __init__(self, owner: Owner | None, script: dict[str, object], name: str = "s") -> None:
        super().__init__(owner, name)
        self.script = script

    def _send(self, number: int, method: bytes, params: RawBytes) -> None:
        super()._send(number, method, params)
        if json.loads(method) in self.script:
            asyncio.get_running_loop().call_soon(self._reply, number, self.script[json.loads(method)])

    def _reply(self, number: int, reply: object) -> None:
        if isinstance(reply, int):
            self.refuse(number, reply)
        else:
            self.give(number, reply)


def legacy_script(**more: object) -> dict[str, object]:
    """A server that knows `initialize` only."""
    empty = {"resources/list": {"resources": []}, "resources/templates/list": {"resourceTemplates": []}}
    taken: dict[str, object] = {"resources/subscribe": {}, "resources/unsubscribe": {}, "logging/setLevel": {}}
    opened = {"initialize": LEGACY_INITIALIZED, "server/discover": -32601}
    return {**opened, "tools/list": TOOL_LIST, **empty, **taken, **more}


def modern_script(**more: object) -> dict[str, object]:
    """A server that knows `server/discover` only."""
    return {"server/discover": MODERN_DISCOVERED, "initialize": -32022, "tools/list": TOOL_LIST, **more}


def dual_script(**more: object) -> dict[str, object]:
    """A server that speaks both eras."""
    return {**legacy_script(), "server/discover": MODERN_DISCOVERED, **more}


class Audience:
    """What instances tell the hub, kept."""

    def __init__(self) -> None:
        self.told: list[tuple[object, ...]] = []
        # The lists that servers called changed, once they were read again.
        self.noticed_lists: list[ListKind] = []
        # Whose questions are not answered yet.
        self.owing: set[Connection] = set()

    def catalog_changed(self, instance: Instance, noticed: Collection[ListKind] = ()) -> None:
        self.noticed_lists += noticed
        self.told.append(("offered", instance))

    def noticed(self, instance: Instance, connection: Connection, message: json.Message, cause: int | None) -> None:
        self.told.append(("noticed", instance, message.method))

    def asked(self, instance: Instance, connection: Connection, message: json.Message, cause: int | None) -> None:
        self.told.append(("asked", instance, message.method))

    def started(self, instance: Instance) -> None: ...
    def failed(self, instance: Instance, problem: BaseException) -> None: ...

    def ended(self, instance: Instance, connection: Connection) -> None:
        self.told.append(("ended", instance))

    def owes(self, connection: Connection) -> bool:
        return connection in self.owing

    def count(self, what: str) -> int:
        """How often it was told that."""
        return sum(item[0] == what for item in self.told)


async def until(is_so: Callable[[], object], what: str) -> None:
    """Go on with the loop until it is so, bounded."""
    try:
        async with asyncio.timeout(BOUND_SECONDS):
            turns = 0
            while not is_so():
                # What lasts for one turn of the loop is seen, too; what takes long is not waited for in a hurry.
                turns += 1
                await asyncio.sleep(0 if turns < 1000 else 0.001)
    except TimeoutError:
        raise AssertionError(f"it never came to this: {what}") from None
