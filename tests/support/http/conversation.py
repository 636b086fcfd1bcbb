"""A conversation over HTTP without a hub: its owner keeps what it is told, and answers questions as the test says."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import pytest

from hearth.config import ServerSpec
from hearth.errors import HearthError, UpstreamError
from hearth.mcp import versions
from hearth.upstreams import handshake
from hearth.upstreams.connection import Connection
from hearth.upstreams.http.connection import HttpUpstreamConnection
from hearth.wire.json import Fields, Message
from support.kernel import BOUND_SECONDS
from support.sites.web import Site

Found = TypeVar("Found")
AnySite = TypeVar("AnySite", bound=Site)

LIMITS = (1024 * 1024, 1024 * 1024)
INFO = {"name": "test", "version": "1"}
META = {
    versions.PROTOCOL_VERSION_KEY: versions.NEWEST_MODERN,
    versions.CLIENT_CAPABILITIES_KEY: {"elicitation": {}},
    versions.CLIENT_INFO_KEY: INFO,
}


class Answer:
    """A waiter. `progress` has what was reported."""

    def __init__(self) -> None:
        self.future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self.progress: list[Any] = []
        self.times = 0

    def answered(self, message: Message) -> None:
        self.times += 1
        self.future.set_result(message)

    def failed(self, problem: HearthError) -> None:
        self.times += 1
        self.future.set_exception(problem)
        self.future.exception()

    def progressed(self, params: Fields) -> None:
        self.progress.append(json.loads(bytes(params["progress"])))


class Talk:
    """The owner of a connection, and what a client does with it."""

    def __init__(self, url: str, limits: tuple[int, int] = LIMITS, **entry: Any) -> None:
        spec = ServerSpec(name="far", url=url, **entry)
        self.connection: Connection = HttpUpstreamConnection("far", self, spec, limits)
        self.notices: list[tuple[str, Any, int | None]] = []
        self.questions: list[tuple[str, int | None]] = []
        self.lost_count = 0
        self.endings: list[str] = []
        self.era = ""
        self.version = ""
        self.on_notice: Callable[[str], None] = lambda method: None

    # --- as an owner

    def noticed(self, connection: Connection, message: Message, cause: int | None) -> None:
        self.notices.append((str(message.method), json.loads(message.params or b"null"), cause))
        self.on_notice(str(message.method))

    def asked(self, connection: Connection, message: Message, cause: int | None) -> None:
        self.questions.append((str(message.method), cause))
        result = {"action": "accept", "content": {"name": "Ada"}}
        connection.answer(b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (message.id, json.dumps(result).encode()), cause)

    def lost(self, connection: Connection) -> None:
        self.lost_count += 1

    def closed(self, connection: Connection, why: str) -> None:
        self.endings.append(why)

    # --- as a client

    async def open(self, era: str = "auto", capabilities: bytes = b"{}") -> None:
        """Connect and greet, in that era or, with a word before it as in "any legacy", in that era first."""
        await self.connection.open()
        first = versions.LEGACY if versions.LEGACY in era else versions.MODERN
        found = await handshake.greet(self.connection, handshake.Opening(first, era == first), capabilities)
        self.era, self.version = found.era, found.version

    def request(self, method: str, **params: Any) -> tuple[int, Answer]:
        """Ask. Returns the id, and what waits for the answer."""
        if self.era == versions.MODERN or method == "server/discover":
            params["_meta"] = {**META, **params.get("_meta", {})}
        answer = Answer()
        return self.connection.request(as_bytes(method), as_bytes(params), answer), answer

    def begin(self, tool: str, **arguments: Any) -> tuple[int, Answer]:
        """Begin to call a tool, with a progress token."""
        meta = {"progressToken": self.connection.reserve()}
        return self.request("tools/call", name=tool, arguments=arguments, _meta=meta)

    async def ask(self, method: str, **params: Any) -> Any:
        """The result of a request. Raises UpstreamError; an error of the server is an AssertionError."""
        return result_of(await bounded(self.request(method, **params)[1].future))

    async def call(self, tool: str, **arguments: Any) -> str:
        """The text that a tool answers with."""
        return text_of(await bounded(self.begin(tool, **arguments)[1].future))

    async def problem(self, tool: str, **arguments: Any) -> str:
        """The sentence with which a call fails."""
        try:
            found = await self.call(tool, **arguments)
        except UpstreamError as exc:
            return str(exc)
        raise AssertionError(f"answered: {found}")


def as_bytes(value: object) -> bytes:
    return json.dumps(value).encode()


def result_of(message: Message) -> Any:
    assert message.result is not None, message.error
    return json.loads(message.result)


def text_of(message: Message) -> str:
    return str(result_of(message)["content"][0]["text"])


async def bounded(work: "asyncio.Future[Found] | Coroutine[Any, Any, Found]") -> Found:
    async with asyncio.timeout(BOUND_SECONDS):
        return await work


async def until(condition: Callable[[], Found], what: str) -> Found:
    """What the condition gives as soon as it is true."""
    try:
        async with asyncio.timeout(BOUND_SECONDS):
            while not (found := condition()):
                await asyncio.sleep(0.005)
            return found
    except TimeoutError:
        raise AssertionError(f"not within {BOUND_SECONDS:g} s: {what}") from None


def _own_tasks() -> list[str]:
    """The coroutines of Hearth that are still under way; finished ones of libraries may wait for their collection."""
    code = [getattr(task.get_coro(), "cr_code", None) for task in asyncio.all_tasks()]
    return [found.co_qualname for found in code if found and f"{os.sep}hearth{os.sep}" in found.co_filename]


@asynccontextmanager
async def talking(
    url: str, era: str = "auto", limits: tuple[int, int] = LIMITS, capabilities: bytes = b"{}", **entry: Any
) -> AsyncIterator[Talk]:
    """A conversation that has begun; at its end nothing of it may be left."""
    talk = Talk(url, limits, **entry)
    try:
        await bounded(talk.open(era, capabilities))
        yield talk
    finally:
        await bounded(talk.connection.stop())
        assert _own_tasks() == []
        # Closed transports close their sockets in the next turns: before a site ends, which blocks the test's loop.
        for _ in range(5):
            await asyncio.sleep(0)


@asynccontextmanager
async def visiting(site: AnySite, era: str = "auto", **options: Any) -> AsyncIterator[tuple[AnySite, Talk]]:
    """A site, and a conversation with it; the site ends after the conversation."""
    with site:
        async with talking(site.url, era, **options) as talk:
            yield site, talk


async def refused(url: str, sentence: str, era: str = "auto", **options: Any) -> str:
    """The words with which a conversation does not begin. They match the sentence."""
    with pytest.raises(UpstreamError, match=sentence) as caught:
        async with talking(url, era, **options):
            pass
    return str(caught.value)
