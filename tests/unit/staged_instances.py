"""An instance whose conversations are the test's."""

import asyncio
from collections.abc import Callable
from typing import Any

from hearth.config import ServerSpec
from hearth.errors import HearthError
from hearth.mcp import isolation, versions
from hearth.upstreams.client_context import ClientContext
from hearth.upstreams.connection import Owner
from hearth.upstreams.instance import Instance
from hearth.upstreams.supervision import READY
from hearth.wire.values import RawBytes
from unit.conversations import Audience, Scripted, legacy_script

CHANGED = "notifications/tools/list_changed"


class Mortal(Scripted):
    """Ends when it is asked for something that it does not know."""

    def _send(self, number: int, method: bytes, params: RawBytes) -> None:
        super()._send(number, method, params)
        if method.strip(b'"').decode() not in self.script:
            asyncio.get_running_loop().call_soon(self.end, "it ended by itself (exit code 1)")


class Stage:
    """An instance, and every connection that it made."""

    def __init__(
        self,
        script: dict[str, object] | None = None,
        wanted: str = versions.MODERN,
        kind: Callable[[Owner, dict[str, object]], Scripted] = Scripted,
        **spec: object,
    ) -> None:
        self.script = legacy_script() if script is None else script
        self.kind = kind
        self.connections: list[Scripted] = []
        self.audience = Audience()
        self.instance = Instance(
            ServerSpec(name="s", command="true", **spec),  # type: ignore[arg-type]
            isolation.SHARED,
            ClientContext("1"),
            wanted,
            self._connect,
            b'{"roots":{}}',
            self.audience,
        )

    async def _connect(self, owner: Owner, tenant: ClientContext) -> Scripted:
        self.connections.append(self.kind(owner, self.script))
        return self.connections[-1]

    async def ready(self) -> Scripted:
        await self.instance.ensure()
        assert self.instance.state == READY
        return self.connections[-1]


class Turn:
    """A call that waits."""

    def __init__(self, told: list[str]) -> None:
        self._told = told

    def send(self) -> None:
        self._told.append("sent")

    def failed(self, problem: HearthError) -> None:
        self._told.append(str(problem))


BROKEN: dict[str, object] = {"server/discover": -32601, "initialize": -32600}


class Nobody:
    """Waits for an answer, and does nothing with it."""

    def answered(self, message: Any) -> None: ...
    def failed(self, problem: HearthError) -> None: ...
    def progressed(self, params: Any) -> None: ...
