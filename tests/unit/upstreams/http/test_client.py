"""Reading answers over HTTP."""

import asyncio
from typing import cast

import httpx

from hearth.upstreams.http.client import TURN_LINES, HttpClient, Response


async def test_a_body_of_many_lines_is_read_with_turns_of_the_loop_for_others() -> None:
    data = b"data: x\n" * (10 * TURN_LINES)
    response = Response(cast(HttpClient, None), httpx.Response(200, content=data))
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(count())
    found = [chunk async for chunk in response.chunks()]
    other.cancel()
    assert b"".join(found) == data
    assert max(chunk.count(b"\n") for chunk in found) == TURN_LINES
    assert turns >= 9
