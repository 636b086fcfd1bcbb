"""Stream of an agent's log by HTTP: its end, whoever ends it."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from hearth.daemon.http import agents

if TYPE_CHECKING:
    from hearth.daemon.http.app import Request


class FakeRequest:
    """Fake of a request whose client takes everything."""

    def __init__(self) -> None:
        self.app = SimpleNamespace(followers=set())
        self.connection = SimpleNamespace(on_lost=[])

    async def begin(self, *_: object, more: bool) -> None: ...

    async def send_body(self, body: bytes, more: bool) -> None: ...


async def test_a_stream_whose_request_is_cancelled_closes_its_log() -> None:
    waits, is_closed = asyncio.Event(), asyncio.Event()

    async def log() -> AsyncGenerator[list[dict[str, Any]], None]:
        try:
            yield []
            waits.set()
            await asyncio.get_running_loop().create_future()
        finally:
            # As a log does that tells its agent that it has gone.
            await asyncio.sleep(0)
            is_closed.set()

    request = FakeRequest()

    async def serve() -> None:
        async with aclosing(log()) as entries:
            first = await anext(entries)
            await agents._stream(cast("Request", request), first, entries)

    serving = asyncio.ensure_future(serve())
    await waits.wait()
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    assert is_closed.is_set()
    assert (request.app.followers, request.connection.on_lost) == (set(), [])
