"""Whose turn it is, of the two requests that find out what a server speaks.

Over pipes both are written at once, and the first success decides. Over HTTP a server that speaks both eras would then
give a session to nobody: so the second one is sent when the first was refused, or has had no answer for too long.
"""

import asyncio

from hearth.mcp import versions
from hearth.wire import json, values


class Openings:
    """The openings of one conversation. `patience`: seconds for an answer to the first."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._asked: list[str] = []
        self._way_is_free = asyncio.Event()
        self._one_is_done = asyncio.Event()
        # Whether one of them has told what the server speaks.
        self.decided = False

    def ask(self, method: str) -> None:
        """One more is to be sent."""
        self._asked.append(method)

    async def wait_for_turn(self, method: str) -> None:
        """Return when it may be sent."""
        if self._asked[0] != method:
            await self._wait(self._way_is_free)

    async def wait_for_other(self) -> None:
        """Let the other one go ahead, and return when it is done."""
        self._way_is_free.set()
        if len(self._asked) > 1:
            await self._wait(self._one_is_done)

    def answered(self, message: json.Message) -> None:
        """The server has answered one."""
        code, _ = values.error(message)
        if message.result is not None or code in versions.MODERN_ONLY_ERRORS:
            self.decided = True
        else:
            self._way_is_free.set()

    def done(self) -> None:
        """Nothing more comes for one of them."""
        self._one_is_done.set()

    async def _wait(self, event: asyncio.Event) -> None:
        try:
            async with asyncio.timeout(self._patience):
                await event.wait()
        except TimeoutError:
            pass
