"""A daemon with puppet servers behind it and scripted clients in front of it, for one test."""

from typing import Any

from support.conformance.clients import Client, Message, Outcome, client_of
from support.conformance.wires import Lines
from support.daemon import Daemon, Scratch
from support.puppets.server import PuppetServer

LEGACY_SERVER = "2025-11-25"


class Corner:
    """Servers first, then `start`, then clients."""

    def __init__(self, scratch: Scratch) -> None:
        self._scratch = scratch
        self._servers: dict[str, tuple[PuppetServer, Message]] = {}
        self._clients: list[Client] = []

    def server(self, revision: str, name: str = "puppet", isolation: str = "session", **offers: Any) -> PuppetServer:
        """One more server in the config; its tool `act` is the test's."""
        server = PuppetServer(self._scratch.home, name, revision, **offers)
        self._servers[name] = server, {"isolation": isolation}
        return server

    @property
    def servers(self) -> list[PuppetServer]:
        return [server for server, _ in self._servers.values()]

    def start(self, **settings: Any) -> Daemon:
        entries = {name: server.entry(**keys) for name, (server, keys) in self._servers.items()}
        return self._scratch.serve(entries, **settings)

    def client(self, revision: str, name: str = "somebody", bare: bool = False) -> Client:
        """A client on a connection of its own, which has said its first words."""
        client = client_of(Lines(self._scratch.socket), revision, name, bare)
        self._clients.append(client)
        client.open()
        return client

    def close(self) -> None:
        """Whoever was told what it cannot know says so now."""
        for client in self._clients:
            client.close()
        for server in self.servers:
            server.close()
        assert [client.complaints for client in self._clients if client.complaints] == []


def act(client: Client, server: str = "puppet", **more: Any) -> object:
    """Begin a call of the puppet's tool; the request's id."""
    return client.begin("tools/call", name=f"{server}__act", arguments={"key": "value"}, **more)


def outcome(client: Client, id: object) -> Outcome:
    """One answer, which may be a wish for input."""
    found = Outcome()
    client.answer_to(id, found)
    return found


def retry(client: Client, result: Message, **answers: Message) -> object:
    """Call again with the state of a wish for input, and these answers or the client's own; the request's id."""
    questions = result.get("inputRequests", {})
    given: Message = answers or {
        key: client.reply(item["method"], item.get("params", {})) for key, item in questions.items()
    }
    state = {key: result[key] for key in ("requestState",) if key in result}
    return act(client, inputResponses=given, **state)
