"""State of one conversation over HTTP: its requests on their way, the order of its probes, its session. No I/O."""

import asyncio
from collections.abc import Callable, Iterator

from hearth.mcp import versions
from hearth.wire import json, values
from hearth.wire.values import RawBytes

DISCOVER, INITIALIZE = "server/discover", "initialize"
LISTEN = "subscriptions/listen"
SESSION_HEADER = "Mcp-Session-Id"
VERSION_HEADER = "MCP-Protocol-Version"
# The specification allows any length; a header has to fit into 8 KiB with all the others.
_ID_LIMIT_CHARACTERS = 4096

_SET_LEVEL, _SUBSCRIBE, _UNSUBSCRIBE = "logging/setLevel", "resources/subscribe", "resources/unsubscribe"
# Lists that may have changed while there was no session, by the capability that says so.
_NOTICES = {
    "tools": "notifications/tools/list_changed",
    "resources": "notifications/resources/list_changed",
    "prompts": "notifications/prompts/list_changed",
}


class OutgoingRequest:
    """Request on its way over HTTP, until nothing is read for it any more.

    `sent` once all of it has been written; `task` does the asking.
    """

    __slots__ = ("_on_done", "body", "method", "number", "params", "sent", "task")

    def __init__(self, number: int, method: RawBytes, params: RawBytes, on_done: Callable[[int], None]) -> None:
        self.number = number
        self.method = values.text(method) or ""
        self.params = params
        self.body = b'{"jsonrpc":"2.0","id":%d,"method":%b,"params":%b}' % (number, method, params)
        self.sent = False
        self.task: asyncio.Task[None] | None = None
        self._on_done: Callable[[int], None] | None = on_done

    @property
    def is_opening(self) -> bool:
        """True if this request probes the era of the server."""
        return self.method in (DISCOVER, INITIALIZE)

    def was_sent(self) -> None:
        """Note that the kernel has the whole request: it no longer counts as queued."""
        self.sent = True
        self.finish()

    def finish(self) -> None:
        """Stop counting the request as queued, whatever its outcome."""
        done, self._on_done = self._on_done, None
        if done:
            done(len(self.body))

    def drop(self) -> None:
        """Give up its answer."""
        if self.task:
            self.task.cancel()


class ProbeOrder:
    """Order of the two requests that probe the era of a server.

    Over pipes both are written at once, and the first success decides. Over HTTP a server that speaks both eras would
    then create a session that is never used: so the second request is sent when the first was refused, or has had no
    answer for `patience` seconds.
    """

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._asked: list[str] = []
        self._way_is_free = asyncio.Event()
        self._one_is_done = asyncio.Event()
        # Whether one of them has shown the server's era.
        self.decided = False

    def ask(self, method: str) -> None:
        """Add a request to send."""
        self._asked.append(method)

    async def wait_for_turn(self, method: str) -> None:
        """Wait until the request may be sent."""
        if self._asked[0] != method:
            await self._wait(self._way_is_free)

    async def wait_for_other(self) -> None:
        """Let the other request go first, and wait until it is done."""
        self._way_is_free.set()
        if len(self._asked) > 1:
            await self._wait(self._one_is_done)

    def answered(self, message: json.Message) -> None:
        """Take the server's answer to one of them."""
        code, _ = values.error(message)
        if message.result is not None or code in versions.MODERN_ONLY_ERRORS:
            self.decided = True
        else:
            self._way_is_free.set()

    def done(self) -> None:
        """Note that nothing more comes for one of them."""
        self._one_is_done.set()

    async def _wait(self, event: asyncio.Event) -> None:
        try:
            async with asyncio.timeout(self._patience):
                await event.wait()
        except TimeoutError:
            pass


class UpstreamSession:
    """Session of a legacy server: the id and version of every request, and the state to restore after its loss.

    `generation` counts the sessions, so that a caller who finds one lost can tell whether it was renewed since.
    """

    def __init__(self) -> None:
        self.id: str | None = None
        self.version: str | None = None
        self.generation = 0
        # The params of `initialize`, as the owner gave them.
        self.opening: RawBytes | None = None
        self._capabilities: frozenset[str] = frozenset()
        self._told: dict[tuple[str, bytes], RawBytes] = {}

    def headers(self) -> dict[str, str]:
        """Return the headers of every request of the session."""
        found = {SESSION_HEADER: self.id} if self.id else {}
        return {**found, VERSION_HEADER: self.version} if self.version else found

    def begin(self, id: str | None, result: RawBytes) -> None:
        """Begin a session by the answer to `initialize` and the id that came with it."""
        fields = values.members(result)
        self.id = id if id and is_usable(id) else None
        self.version = values.text(fields.get("protocolVersion"))
        self._capabilities = frozenset(values.members(fields.get("capabilities")))
        self.generation += 1

    def note(self, method: str, params: RawBytes) -> None:
        """Remember a request that changes the server's state for the whole session."""
        if method == _SET_LEVEL:
            self._told[method, b""] = params
        elif method == _SUBSCRIBE:
            self._told[method, _uri(params)] = params
        elif method == _UNSUBSCRIBE:
            self._told.pop((_SUBSCRIBE, _uri(params)), None)

    def told(self) -> Iterator[tuple[str, RawBytes]]:
        """Return the requests to repeat in a new session."""
        return ((method, params) for (method, _), params in list(self._told.items()))

    def notices(self) -> Iterator[json.Message]:
        """Return the notifications that a new session means for clients that knew the lists of the former one."""
        for capability, method in _NOTICES.items():
            if capability in self._capabilities:
                yield json.Message(None, method, {})


def is_usable(id: str) -> bool:
    """Return whether the id is one that the specification allows: visible ASCII."""
    return len(id) <= _ID_LIMIT_CHARACTERS and all("!" <= character <= "~" for character in id)


def _uri(params: RawBytes) -> bytes:
    return bytes(values.members(params).get("uri", b""))
