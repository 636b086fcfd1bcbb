"""Servers whose conversations are the test's."""

from pathlib import Path

from hearth.config import Config, ServerSpec
from hearth.mcp import versions
from hearth.upstreams.client_context import ClientContext
from hearth.upstreams.connection import Connection, Owner
from hearth.upstreams.instance import Instance
from hearth.upstreams.server import Server
from hearth.upstreams.traits import TraitStore
from unit.conversations import Audience, Scripted, legacy_script

LEGACY, MODERN = ClientContext("1", versions.LEGACY), ClientContext("2", versions.MODERN)


class StagedServer(Server):
    """`script` is what its processes answer. What is to be ended is noted, with the time that it has for that."""

    def __init__(self, learned: Path, script: dict[str, object] | None = None, **spec: object) -> None:
        self.script = legacy_script() if script is None else script
        self.connections: list[Scripted] = []
        self.retired: list[tuple[Instance, float]] = []
        self.audience = Audience()
        super().__init__(
            ServerSpec(**{"name": "s", "command": "true", **spec}),  # type: ignore[arg-type]
            Config(drain_timeout=3.0),
            TraitStore(str(learned)),
            self.audience,
            lambda instance, seconds: self.retired.append((instance, seconds)),
        )

    async def _connect(self, owner: Owner, tenant: ClientContext) -> Connection:
        self.connections.append(Scripted(owner, self.script, self.name))
        return self.connections[-1]

    def again(self) -> "StagedServer":
        """The same server under another daemon, which knows what this one has learned."""
        spec = {key: getattr(self.spec, key) for key in ("isolation", "era", "instance_idle")}
        return StagedServer(Path(self._traits.path), self.script, **spec)
