"""Servers of a daemon whose every word a test says: for what no well-behaved server would do at the right moment.

A puppet server answers openings, pings and lists by itself; everything else waits until the test takes it.
"""

import contextlib
import json
import queue
import socket
import sys
import threading
from pathlib import Path
from typing import Any

from support.conformance.clients import Client, Outcome
from support.conformance.revisions import MODERN, SERVER_INFO_KEY, SUBSCRIPTION_KEY, is_modern
from support.conformance.upstreams import offer
from support.conformance.vocabulary import ACKNOWLEDGED
from support.daemon import Daemon, Scratch
from support.kernel import BOUND_SECONDS

Message = dict[str, Any]

PROGRAM = Path(__file__).with_name("puppet_server.py")
LISTS = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}
ACT = {"name": "act", "description": "Does what the test does.", "inputSchema": {"type": "object"}}


class Puppet:
    """One process of a puppet server, from the side of who holds its strings."""

    def __init__(self, server: "PuppetServer", connection: socket.socket) -> None:
        self._server = server
        self._connection = connection

    def listen(self) -> None:
        """Take what it is told, until its end."""
        try:
            with self._connection.makefile("rb") as lines:
                for line in lines:
                    self._server.heard(self, json.loads(line))
        except OSError:
            # The test is over.
            return

    def send(self, *messages: Message) -> None:
        """Several are one write."""
        lines = [json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n" for message in messages]
        self._connection.sendall(b"".join(lines))

    def notify(self, method: str, **params: Any) -> None:
        self.send({"method": method, "params": params})

    def ask(self, id: object, method: str, **params: Any) -> None:
        self.send({"id": id, "method": method, "params": params})

    def answer(self, request: Message, **result: Any) -> None:
        """A result; `resultType` and the like are there unless they are given."""
        self.send({"id": request["id"], "result": {**self._server.result_keys(request["method"]), **result}})

    def say(self, request: Message, text: str) -> None:
        """Answer a call with words."""
        self.answer(request, content=[{"type": "text", "text": text}])

    def refuse(self, request: Message, code: int, text: str, data: object = None) -> None:
        error = {"code": code, "message": text, **({} if data is None else {"data": data})}
        self.send({"id": request["id"], "error": error})

    def close(self) -> None:
        """End the process: it ends with its strings."""
        # Closing alone leaves it open for the thread that listens.
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()


class PuppetServer:
    """All processes of one server: what they offer, and what they were told."""

    def __init__(self, folder: Path, name: str, revision: str, **offers: list[Message]) -> None:
        self.name = name
        self.revision = revision
        # What is in each list; a test may change it.
        self.offers: dict[str, list[Message]] = {"tools": [ACT], **offers}
        # Methods that are left unanswered from now on.
        self.mute: set[str] = set()
        self._path = str(folder / f"{name}.strings")
        self._heard: queue.Queue[tuple[Puppet, Message]] = queue.Queue()
        self._puppets: list[Puppet] = []
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(self._path)
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def entry(self, **keys: Any) -> dict[str, object]:
        """The server's part of a config."""
        return {"command": sys.executable, "args": ["-I", "-S", str(PROGRAM), self._path], **keys}

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                # The test is over.
                return
            self._puppets.append(puppet := Puppet(self, connection))
            threading.Thread(target=puppet.listen, daemon=True).start()

    def next(self, *methods: str | None) -> tuple[Puppet, Message]:
        """The next message of one of those methods, None for answers, and who got it; what was before is forgotten.

        Without any, the next message.
        """
        while True:
            puppet, message = self._heard.get(timeout=BOUND_SECONDS)
            if not methods or message.get("method") in methods:
                return puppet, message

    def answer_heard(self) -> Message | None:
        """An answer, if one was heard that the test has not taken; what came before is forgotten."""
        while not self._heard.empty():
            if "method" not in (message := self._heard.get()[1]):
                return message
        return None

    def methods(self) -> list[str]:
        """The methods of all that was heard and not taken; it counts as taken now."""
        found = []
        while not self._heard.empty():
            found.append(self._heard.get()[1].get("method", ""))
        return found

    def is_silent(self) -> bool:
        """Whether nothing was heard that the test has not taken."""
        return self._heard.empty()

    def close(self) -> None:
        # Closing alone does not wake the thread that accepts.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for puppet in self._puppets:
            puppet.close()

    # --- what a puppet does by itself

    def heard(self, puppet: Puppet, message: Message) -> None:
        """Answer what is routine; keep everything for the test."""
        method = message.get("method", "")
        if method == "subscriptions/listen":
            wanted, meta = message["params"]["notifications"], {SUBSCRIPTION_KEY: message["id"]}
            puppet.notify(ACKNOWLEDGED, notifications=wanted, _meta=meta)
        elif (outcome := self._routine(method)) is not None:
            puppet.send({"id": message["id"], **outcome})
        self._heard.put((puppet, message))

    def _routine(self, method: str) -> Message | None:
        if method in self.mute:
            return None
        if method == ("initialize" if is_modern(self.revision) else "server/discover"):
            return {"error": {"code": -32601, "message": f"no method {method}"}}
        if method in ("initialize", "server/discover"):
            return {"result": self._introduction(method)}
        if method in LISTS:
            return {"result": {**self.result_keys(method), LISTS[method]: self.offers.get(LISTS[method], [])}}
        if method in ("ping", "resources/subscribe", "resources/unsubscribe", "logging/setLevel"):
            return {"result": {}}
        return None

    def _introduction(self, method: str) -> Message:
        known = {"capabilities": offer.capabilities(self.revision)}
        if is_modern(self.revision):
            return {**self.result_keys(method), "supportedVersions": [MODERN], **known}
        return {"protocolVersion": self.revision, "serverInfo": {"name": self.name, "version": "1"}, **known}

    def result_keys(self, method: str) -> Message:
        """What a result of that revision carries in any case."""
        if not is_modern(self.revision):
            return {}
        cached = {} if method in ("tools/call", "prompts/get") else {"ttlMs": 0, "cacheScope": "private"}
        return {"resultType": "complete", **cached, "_meta": {SERVER_INFO_KEY: {"name": self.name, "version": "1"}}}


class PuppetDaemon:
    """Daemon with puppet servers behind it and scripted clients in front of it. Servers first, then `start`."""

    def __init__(self, scratch: Scratch) -> None:
        self.scratch = scratch
        self._servers: dict[str, tuple[PuppetServer, Message]] = {}
        self._clients: list[Client] = []

    def start(self, **settings: Any) -> Daemon:
        return self.scratch.serve(self.entries(), **settings)

    def entries(self) -> dict[str, Message]:
        """The servers of the config."""
        return {name: server.entry(**keys) for name, (server, keys) in self._servers.items()}

    def own(self, client: Client) -> None:
        """Let it say its first words, and close it with the daemon."""
        self._clients.append(client)
        client.open()

    def close(self) -> None:
        """Whoever was told what it cannot know says so now."""
        for client in self._clients:
            client.close()
        for server, _ in self._servers.values():
            server.close()
        assert [client.complaints for client in self._clients if client.complaints] == []


def outcome(client: Client, id: object) -> Outcome:
    """One answer, which may be a wish for input, and what came before it."""
    found = Outcome()
    client.answer_to(id, found)
    return found
