"""A daemon between servers whose every word a test says and clients of any revision, for what seldom happens.

Servers are the conformance tests' puppets, which also keep what they were told; clients complain of every message that
their revision does not have, and a stage on which somebody complained fails its test.
"""

import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from support.conformance.clients import Client, LegacyClient, Message, ModernClient, Outcome, client_of
from support.conformance.revisions import MODERN, NEWEST_LEGACY
from support.conformance.vocabulary import CACHEABLE
from support.conformance.wires import Child, Lines, Wire
from support.daemon import Daemon, Scratch
from support.kernel import is_gone, pids_at_home, until
from support.puppets.server import Puppet, PuppetDaemon, PuppetServer, outcome

INVALID_PARAMS = -32602
METHOD_NOT_FOUND = -32601
FAILED = -32603
# Error by which a legacy server demands visits.
DEMANDED = -32042

FORM: Message = {
    "message": "Who are you?",
    "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
}
FORM_ANSWER = {"action": "accept", "content": {"name": "somebody: Who are you?"}}
SAMPLE: Message = {
    "messages": [{"role": "user", "content": {"type": "text", "text": "Say something."}}],
    "maxTokens": 10,
}
QUESTIONS: dict[str, Message] = {"elicitation/create": FORM, "sampling/createMessage": SAMPLE, "roots/list": {}}
SAMPLE_ANSWER = {
    "role": "assistant",
    "model": "test-model",
    "stopReason": "endTurn",
    "content": {"type": "text", "text": "said for somebody"},
}
ROOTS_ANSWER = {"roots": [{"uri": "file:///home/somebody", "name": "somebody"}]}
# Each kind of question, with the answer that every client of these tests gives.
EACH_QUESTION = pytest.mark.parametrize(
    ("question", "answer"), list(zip(QUESTIONS, (FORM_ANSWER, SAMPLE_ANSWER, ROOTS_ANSWER), strict=True))
)
# What a client may ask besides a tool's call, and be asked about: the request, and its answer.
OTHER_CALLS = pytest.mark.parametrize(
    ("method", "params", "result"),
    [
        ("prompts/get", {"name": "puppet__greet"}, {"messages": []}),
        ("resources/read", {"uri": "made:up"}, {"contents": [{"uri": "made:up", "text": "content"}]}),
    ],
)


def page(number: int = 1, **more: Any) -> Message:
    """An elicitation by URL, as a legacy server words it."""
    url = f"https://test.example/consent/{number}"
    return {"mode": "url", "message": "Go there.", "url": url, "elicitationId": f"e-{number}", **more}


def shown(elicitation: Message) -> Message:
    """The same as a modern client is asked it."""
    params = {key: value for key, value in elicitation.items() if key != "elicitationId"}
    return {"method": "elicitation/create", "params": params}


def demand(puppet: Puppet, call: Message, *pages: Message) -> None:
    """Refuse a call until those pages were visited."""
    puppet.refuse(call, DEMANDED, "Go there first.", {"elicitations": list(pages)})


class Actor(PuppetServer):
    """A puppet server that keeps everything it was told, in order, whoever has taken it since."""

    def __init__(self, *words: Any, **offers: Any) -> None:
        # Before the first process of it can be started.
        self.record: list[Message] = []
        # Answers in the place of the routine, where it has one; does something besides.
        self.instead: Callable[[Message], Message | None] = lambda message: None
        # Capabilities in the place of all that its revision has.
        self.declared: Message | None = None
        # What the test answers itself, although there is a routine.
        self.silent_about = ""
        self.aside: Callable[[Puppet, Message], None] = lambda puppet, message: None
        super().__init__(*words, **offers)

    def heard(self, puppet: Puppet, message: Message) -> None:
        self.record.append(message)
        if message.get("method") == self.silent_about:
            self._heard.put((puppet, message))
            return
        answer = self.instead(message)
        if answer is None:
            self.aside(puppet, message)
            super().heard(puppet, message)
        else:
            puppet.send({"id": message["id"], **answer})

    def _introduction(self, method: str) -> Message:
        found = super()._introduction(method)
        return found if self.declared is None else {**found, "capabilities": self.declared}

    def result_keys(self, method: str) -> Message:
        return super().result_keys(method if method in CACHEABLE else "tools/call")

    def told(self, method: str) -> list[Message]:
        """The params of all messages of that method."""
        return [message.get("params", {}) for message in list(self.record) if message.get("method") == method]

    def reply_to(self, id: object) -> Message:
        """The next answer, which must be the one to that question."""
        _, message = self.next(None)
        assert message["id"] == id, message
        return message

    def called_by(self, client: Client, *words: Any, **params: Any) -> "tuple[Errand, Puppet, Message]":
        """Have the client call: the call, the process that has it, and the call as it came there."""
        return Errand(client, *words, **params), *self.next("tools/call")

    def caught_up(self, puppet: Puppet) -> None:
        """Return when the daemon has taken all that the puppet has said."""
        puppet.ask("caught-up", "ping")
        self.reply_to("caught-up")


class Stage(PuppetDaemon):
    """Servers first, then `start`, then clients."""

    daemon: Daemon

    def __init__(self, scratch: Scratch) -> None:
        super().__init__(scratch)
        self._others: dict[str, Message] = {}
        self._has_successor = False

    def add(self, name: str, entry: Message) -> None:
        """One more server in the config that is none of the actors."""
        self._others[name] = entry

    def actor(
        self, revision: str = NEWEST_LEGACY, name: str = "puppet", keys: Message | None = None, **offers: Any
    ) -> Actor:
        """One more server in the config, for one client alone unless `keys` say otherwise."""
        server = Actor(self.scratch.home, name, revision, **offers)
        self._servers[name] = server, {"isolation": "session", **(keys or {})}
        return server

    def serve(self, *words: Any, **offers: Any) -> Actor:
        """Start a daemon with one server."""
        found = self.actor(*words, **offers)
        self.start()
        return found

    def start(self, **settings: Any) -> Daemon:
        self.daemon = super().start(**settings)
        return self.daemon

    def entries(self) -> dict[str, Message]:
        return {**super().entries(), **self._others}

    def restart(self, **settings: Any) -> None:
        """Another daemon in the place of the one that runs; no client is carried over."""
        assert self.daemon.stop() == 0
        self.start(**settings)

    def bridge(self) -> Wire:
        """A real bridge, which starts the next daemon when this one crashes."""
        return Child(self.scratch.home, self.scratch.environment())

    def crash(self) -> None:
        """The daemon dies without a word; its bridges start another."""
        pid = self.daemon.pid
        os.kill(pid, signal.SIGKILL)
        until(lambda: is_gone(pid), "the daemon is dead")
        self._has_successor = True

    def close(self) -> None:
        super().close()
        if self._has_successor and pids_at_home(str(self.scratch.home)):
            self.scratch.control().control("shutdown")
            until(lambda: not pids_at_home(str(self.scratch.home)), "the last daemon has gone")

    def guest(
        self, revision: str, name: str = "somebody", capabilities: Message | None = None, wire: Wire | None = None
    ) -> Client:
        """A client that has said its first words; `capabilities` in the place of all that its revision has."""
        client = client_of(wire or Lines(self.scratch.socket), revision, name)
        if capabilities is not None:
            client.capabilities = capabilities
        self.own(client)
        return client

    def modern(self, name: str = "somebody", **more: Any) -> ModernClient:
        client = self.guest(MODERN, name, **more)
        assert isinstance(client, ModernClient)
        return client

    def legacy(
        self, revision: str = NEWEST_LEGACY, name: str = "somebody", silent: bool = False, **more: Any
    ) -> LegacyClient:
        """A legacy client; `silent`: it leaves questions unanswered."""
        client = self.guest(revision, name, **more)
        assert isinstance(client, LegacyClient)
        client.silent = silent
        return client


class Errand:
    """One call of a client; a modern one may have to make it several times."""

    def __init__(self, client: Client, server: str = "puppet", method: str = "tools/call", **params: Any) -> None:
        self.client = client
        self.method = method
        self.params = params or {"name": f"{server}__act", "arguments": {"key": "value"}}
        self.wish: Message = {}
        self.id = client.begin(method, **self.params)

    def outcome(self) -> Outcome:
        """The next answer."""
        return outcome(self.client, self.id)

    def wishes(self) -> Message:
        """What the next answer asks for, which must be a wish for input: question by key."""
        found = self.outcome()
        assert found.result.get("resultType") == "input_required", found
        self.wish = found.result
        return self.wish.get("inputRequests", {})

    def go_on(self, **answers: Message) -> None:
        """Call again with these answers, or with those that the client has."""
        asked = self.wish.get("inputRequests", {}).items()
        own = {key: self.client.reply(item["method"], item.get("params", {})) for key, item in asked}
        self.call_again(inputResponses=answers or own)

    def call_again(self, **more: Any) -> None:
        """Call again, with the state that was given last and whatever else."""
        state = {key: self.wish[key] for key in ("requestState",) if key in self.wish}
        self.id = self.client.begin(self.method, **{**self.params, **state, **more})

    def finish(self, puppet: Puppet, call: Message, text: str) -> None:
        """Have the server answer with words, which the client must get."""
        puppet.say(call, text)
        assert self.outcome().text == text

    def fill_in(self, server: Actor, question: object) -> None:
        """Call again with the answer to a form, which the server must get."""
        self.go_on()
        assert server.reply_to(question)["result"] == FORM_ANSWER

    def cancel(self) -> None:
        self.client.cancel(self.id)


def parked(
    actor: Actor, client: ModernClient, question: str = "elicitation/create", **params: Any
) -> tuple[Errand, Puppet, Message]:
    """A call in the midst of which the server has asked `q-1`; the client knows."""
    errand = Errand(client, **params)
    puppet, call = actor.next(errand.method)
    puppet.ask("q-1", question, **QUESTIONS[question])
    assert [asked["method"] for asked in errand.wishes().values()] == [question]
    return errand, puppet, call
