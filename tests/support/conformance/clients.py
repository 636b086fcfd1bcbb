"""Clients of one revision each, with one face for the test body: what a client does is said here, how is the era's.

A client knows its revision's schema and nothing of Hearth. It answers what it is asked, in the way of its revision:
a legacy one by answering requests, a modern one by calling again. It complains about each message that it should not
have got. It declares all capabilities of its revision, or, when it is `bare`, none.
"""

import itertools
from dataclasses import dataclass, field
from typing import Any

from support.conformance import vocabulary
from support.conformance.revisions import (
    CAPABILITIES_KEY,
    CLIENT_INFO_KEY,
    ELICITATION_SINCE,
    LOG_LEVEL_KEY,
    SUBSCRIPTION_KEY,
    URL_ELICITATION_SINCE,
    VERSION_KEY,
    is_modern,
)
from support.conformance.wires import Wire

Message = dict[str, Any]

UPDATED = "notifications/resources/updated"
CANCELLED = "notifications/cancelled"
PROGRESS = "notifications/progress"
LOGGED = "notifications/message"
# How often a modern client goes on answering one call.
ROUNDS_LIMIT = 10


@dataclass
class Outcome:
    """What became of a request, and what came on the way."""

    result: Message = field(default_factory=dict)
    error: Message = field(default_factory=dict)
    progress: list[Message] = field(default_factory=list)
    logs: list[Message] = field(default_factory=list)
    questions: list[Message] = field(default_factory=list)

    @property
    def failed(self) -> bool:
        """Whether there is an error, or the result of a tool that failed."""
        return bool(self.error) or self.result.get("isError") is True

    @property
    def text(self) -> str:
        """The words of a result, or of an error."""
        if self.error:
            return str(self.error["message"])
        return "\n".join(block["text"] for block in self.result["content"] if block["type"] == "text")


def capabilities_of(revision: str) -> Message:
    """Everything that a client of that revision can declare."""
    found: Message = {"roots": {} if is_modern(revision) else {"listChanged": True}, "sampling": {}}
    if revision >= URL_ELICITATION_SINCE:
        found["elicitation"] = {"form": {}, "url": {}}
    elif revision >= ELICITATION_SINCE:
        found["elicitation"] = {}
    return found


class Client:
    """One client on one wire. `name` is in everything that it answers, so that no answer can be taken for another's."""

    def __init__(self, wire: Wire, revision: str, name: str, bare: bool = False) -> None:
        self.wire = wire
        self.revision = revision
        self.name = name
        self.capabilities = {} if bare else capabilities_of(revision)
        self.info = {"name": name, "version": revision}
        # The error that answers every question, for a client that is out of sorts.
        self.refusal: Message | None = None
        # Whether it leaves questions unanswered.
        self.silent = False
        # What the server said of itself.
        self.server: Message = {}
        # What came and belongs to no request, in its order.
        self.notices: list[Message] = []
        self.complaints: list[str] = []
        self._ids = itertools.count(1)
        self._methods: dict[object, str] = {}

    # --- what the test body says

    def open(self) -> None:
        """Say the first words of the revision."""
        raise NotImplementedError

    def ask(self, method: str, log_level: str | None = None, **params: Any) -> Outcome:
        """A request, with all that it takes until its final answer. What is logged from `log_level` on is wanted."""
        raise NotImplementedError

    def begin(self, method: str, **params: Any) -> object:
        """A request whose answer is not waited for; its id."""
        id = next(self._ids)
        self._methods[id] = method
        self.wire.send({"jsonrpc": "2.0", "id": id, "method": method, "params": self.dressed(params)})
        return id

    def cancel(self, id: object) -> None:
        """Withdraw a request."""
        self.wire.send({"jsonrpc": "2.0", "method": CANCELLED, "params": {"requestId": id, "reason": "not needed"}})

    def subscribe(self, uri: str) -> object:
        """Wish for notices about a resource; what ends it."""
        raise NotImplementedError

    def unsubscribe(self, uri: str, subscription: object) -> None:
        raise NotImplementedError

    def everything(self, method: str, key: str) -> list[Message]:
        """All pages of a list."""
        found: list[Message] = []
        cursor: Message = {}
        while True:
            outcome = self.ask(method, **cursor)
            assert not outcome.error, outcome.error
            found += outcome.result[key]
            if "nextCursor" not in outcome.result:
                return found
            cursor = {"cursor": outcome.result["nextCursor"]}

    def call(self, tool: str, log_level: str | None = None, meta: Message | None = None, **arguments: Any) -> Outcome:
        more = {} if meta is None else {"_meta": meta}
        return self.ask("tools/call", log_level, name=tool, arguments=arguments, **more)

    def next_notice(self, method: str) -> Message:
        """The next notification of that name; those before it stay where they are."""
        known = 0
        while True:
            for message in self.notices[known:]:
                if message["method"] == method:
                    self.notices.remove(message)
                    return message
            known = len(self.notices)
            self.take(self.wire.receive())

    def close(self) -> None:
        self.wire.close()

    # --- what the eras say differently

    def dressed(self, params: Message) -> Message:
        """Params as the revision wants them."""
        raise NotImplementedError

    def asked(self, message: Message) -> None:
        """A request came."""
        raise NotImplementedError

    # --- messages

    def answer_to(self, id: object, outcome: Outcome) -> None:
        """Take what comes until the answer is there."""
        while True:
            message = self.wire.receive()
            if "method" not in message and (type(message.get("id")), message.get("id")) == (type(id), id):
                self._judge(message)
                outcome.result, outcome.error = message.get("result", {}), message.get("error", {})
                return
            self.take(message, outcome)

    def take(self, message: Message, outcome: Outcome | None = None) -> None:
        """Anything but the answer that is waited for."""
        method = message.get("method")
        if method is None:
            self.complaints.append(f"an answer to nothing that is open: {message}")
            return
        self._judge(message)
        if "id" in message:
            if outcome is not None:
                outcome.questions.append({"method": method, "params": message.get("params", {})})
            self.asked(message)
        elif outcome is not None and method in (PROGRESS, LOGGED):
            (outcome.progress if method == PROGRESS else outcome.logs).append(message["params"])
        else:
            self.notices.append(message)

    def _judge(self, message: Message) -> None:
        method = self._methods.pop(message.get("id"), None) if "method" not in message else None
        self.complaints += [
            f"{trouble} in {message}" for trouble in vocabulary.to_client(self.revision, message, method)
        ]

    def reply(self, method: str, params: Message) -> Message | None:
        """What this client's person, model and folder answer; None for what was not declared."""
        if method.split("/")[0] not in self.capabilities:
            return None
        if method == "roots/list":
            return {"roots": [{"uri": f"file:///home/{self.name}", "name": self.name}]}
        if method == "sampling/createMessage":
            content = {"type": "text", "text": f"said for {self.name}"}
            return {"role": "assistant", "content": content, "model": "test-model", "stopReason": "endTurn"}
        if params.get("mode") == "url":
            return {"action": "accept"}
        return {"action": "accept", "content": {"name": f"{self.name}: {params['message']}"}}


class LegacyClient(Client):
    """Handshake first; answers requests."""

    def __init__(self, wire: Wire, revision: str, name: str, bare: bool = False) -> None:
        super().__init__(wire, revision, name, bare)
        self._questions: list[Message] = []
        self._level: str | None = None

    def open(self) -> None:
        params: Message = {"protocolVersion": self.revision, "capabilities": self.capabilities, "clientInfo": self.info}
        outcome = self.ask("initialize", **params)
        assert outcome.result["protocolVersion"] == self.revision, outcome
        self.server = outcome.result
        self.wire.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def dressed(self, params: Message) -> Message:
        return params

    def ask(self, method: str, log_level: str | None = None, **params: Any) -> Outcome:
        if log_level is not None and log_level != self._level:
            # It stays until another is set.
            self._level = log_level
            outcome = self.ask("logging/setLevel", level=log_level)
            assert outcome.result == {} and not outcome.error, outcome
        outcome = Outcome()
        self.answer_to(self.begin(method, **params), outcome)
        return outcome

    def asked(self, message: Message) -> None:
        self._questions.append(message)
        if not self.silent:
            self.wire.send({"jsonrpc": "2.0", "id": message["id"], **self._answer(message)})

    def _answer(self, message: Message) -> Message:
        method, params = message["method"], message.get("params", {})
        result = {} if method == "ping" else self.reply(method, params)
        if result is None:
            self.complaints.append(f"asked for what was not declared: {message}")
            return {"error": {"code": -32601, "message": f"Method not found: {method}"}}
        return {"result": result} if self.refusal is None else {"error": self.refusal}

    def next_question(self) -> Message:
        """The next request of the server's."""
        known = len(self._questions)
        while len(self._questions) == known:
            self.take(self.wire.receive())
        return self._questions[-1]

    def subscribe(self, uri: str) -> object:
        outcome = self.ask("resources/subscribe", uri=uri)
        assert outcome.result == {} and not outcome.error, outcome
        return None

    def unsubscribe(self, uri: str, subscription: object) -> None:
        outcome = self.ask("resources/unsubscribe", uri=uri)
        assert outcome.result == {} and not outcome.error, outcome


class ModernClient(Client):
    """An envelope on every request; answers by calling again."""

    def open(self) -> None:
        self.server = self.ask("server/discover").result
        assert self.server["supportedVersions"] == [self.revision], self.server

    def dressed(self, params: Message) -> Message:
        envelope = {VERSION_KEY: self.revision, CAPABILITIES_KEY: self.capabilities, CLIENT_INFO_KEY: self.info}
        return {**params, "_meta": {**params.get("_meta", {}), **envelope}}

    def ask(self, method: str, log_level: str | None = None, **params: Any) -> Outcome:
        if log_level is not None:
            params["_meta"] = {**params.get("_meta", {}), LOG_LEVEL_KEY: log_level}
        outcome, more = Outcome(), Message()
        for _ in range(ROUNDS_LIMIT):
            self.answer_to(self.begin(method, **params, **more), outcome)
            if outcome.result.get("resultType") != "input_required":
                return outcome
            more = self._answers(outcome)
        raise AssertionError(f"asked again and again: {outcome.questions}")

    def _answers(self, outcome: Outcome) -> Message:
        """What the next request carries: the answers, and the state if one was given."""
        given: Message = {}
        for key, request in outcome.result.get("inputRequests", {}).items():
            method, params = request["method"], request.get("params", {})
            outcome.questions.append({"method": method, "params": params})
            answer = self.reply(method, params)
            if answer is None:
                self.complaints.append(f"asked for what was not declared: {request}")
                answer = {"action": "cancel"}
            given[key] = answer
        state = {key: outcome.result[key] for key in ("requestState",) if key in outcome.result}
        return {**({"inputResponses": given} if given else {}), **state}

    def asked(self, message: Message) -> None:
        """No server of this revision asks: the judge has complained."""

    def subscribe(self, uri: str) -> object:
        id = self.begin("subscriptions/listen", notifications={"resourceSubscriptions": [uri]})
        params = self.next_notice(vocabulary.ACKNOWLEDGED)["params"]
        assert params["_meta"][SUBSCRIPTION_KEY] == id
        assert params["notifications"] == {"resourceSubscriptions": [uri]}
        return id

    def unsubscribe(self, uri: str, subscription: object) -> None:
        self.cancel(subscription)


def client_of(wire: Wire, revision: str, name: str, bare: bool = False) -> Client:
    """A client of that revision, which has not said anything yet."""
    return (ModernClient if is_modern(revision) else LegacyClient)(wire, revision, name, bare)
