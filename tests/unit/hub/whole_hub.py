"""A whole hub with servers of the test's, for tests of what passes through it."""

from pathlib import Path
from typing import Any

from hearth.config import Config
from hearth.hub.hub import Hub
from hearth.hub.sessions import Session
from hearth.mcp import versions
from hearth.wire import json
from unit.conversations import Scripted, legacy_script, until
from unit.hub.outlets import Kept
from unit.staged_servers import StagedServer

ENVELOPE = {versions.PROTOCOL_VERSION_KEY: versions.NEWEST_MODERN, versions.CLIENT_CAPABILITIES_KEY: {}}


def offering(**lists: list[dict[str, object]]) -> dict[str, object]:
    """A legacy server that has those; what is called there stays open."""
    capabilities = {"tools": {}, "prompts": {}, "resources": {"subscribe": True}, "logging": {}, "completions": {}}
    script = legacy_script(initialize={"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": {}})
    script |= {"tools/list": {"tools": lists.get("tools", [])}, "prompts/list": {"prompts": lists.get("prompts", [])}}
    script["resources/list"] = {"resources": lists.get("resources", [])}
    script["resources/templates/list"] = {"resourceTemplates": lists.get("templates", [])}
    return script


PLENTY = offering(
    tools=[{"name": "t", "inputSchema": {"type": "object"}}],
    prompts=[{"name": "p"}],
    resources=[{"uri": "r:1", "name": "r"}],
    templates=[{"uriTemplate": "t:{n}", "name": "t"}],
)


class Stage:
    """A hub, and clients of it."""

    def __init__(
        self, folder: Path, isolation: str = "shared", config: Config | None = None, **scripts: dict[str, object]
    ) -> None:
        self.hub = Hub(config or Config(list_timeout=60.0), str(folder / "learned.json"), "d1")
        self.servers: dict[str, StagedServer] = {}
        for name, script in scripts.items():
            server = StagedServer(folder / "learned.json", dict(script), name=name, isolation=isolation)
            server._listener, server._retiring = self.hub._listener, self.hub._retire
            self.hub.servers[name] = self.servers[name] = server
        self._tag = 0

    def client(self, initialized: bool = True, **keys: str) -> tuple[Session, Kept]:
        sink = Kept()
        member = self.hub.open_session(sink, "lines", **keys)
        if initialized:
            self.ask(member, "initialize", id="i", protocolVersion="2025-11-25", capabilities={})
            self.tell(member, "notifications/initialized")
            sink.said.clear()
            sink.kept.clear()
        return member, sink

    def receive(self, member: Session, message: dict[str, object], resent: bool = False, replay: bool = False) -> int:
        self._tag += 1
        line = json.dumps({"jsonrpc": "2.0", **message})
        self.hub.receive(member, self._tag, json.parse(line), resent, replay)
        return self._tag

    def ask(self, member: Session, method: str, id: object = 1, **params: object) -> None:
        self.receive(member, {"id": id, "method": method, "params": params})

    def tell(self, member: Session, method: str, replay: bool = False, **params: object) -> int:
        return self.receive(member, {"method": method, "params": params}, replay=replay)

    async def on(self, name: str, method: str, count: int = 1) -> dict[str, Any]:
        """A request of that method, once the server has it."""

        def requests() -> list[dict[str, Any]]:
            return [item for one in self.servers[name].connections for item in one.sent if item["method"] == method]

        await until(lambda: len(requests()) >= count, f"{name} has {method}")
        return requests()[count - 1]

    def connection(self, name: str) -> Scripted:
        return self.servers[name].connections[-1]

    def started(self) -> list[str]:
        return [name for name, server in self.servers.items() if server.connections]


async def answer(sink: Kept, count: int = 1) -> dict[str, Any]:
    await until(lambda: len(sink.heard("answer")) >= count, "it is answered")
    return sink.messages("answer")[count - 1]
