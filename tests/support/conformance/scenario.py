"""One scenario for both eras: everything that a client says in a day, and each word that it gets for it.

The client's ids are the same on every wire, so what comes back may be compared as it is. What is made up by Hearth
cannot be the same twice, and is named here (`MADE_UP`): nothing else is left out of the comparison. What no request is
the reason of has a stream of its own over HTTP, so when it came is not compared, and that it came is.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from support.conformance.channels import Channel
from support.conformance.clients import capabilities_of
from support.conformance.revisions import (
    CAPABILITIES_KEY,
    CLIENT_INFO_KEY,
    LOG_LEVEL_KEY,
    MODERN,
    SERVER_INFO_KEY,
    VERSION_KEY,
    is_modern,
)
from support.conformance.upstreams import offer

Message = dict[str, Any]

LEGACY = "2025-11-25"
REVISIONS = (LEGACY, MODERN)
INFO = {"name": "somebody", "version": "1"}
# Ids that Hearth draws by lot: its own, those of its questions, of what is parked, and of pages to visit.
MADE_UP = [
    (re.compile(rb'"hearth/daemonId":"[0-9a-f]{12}"'), b'"hearth/daemonId":"DAEMON"'),
    (re.compile(rb'"id":"hearth-[0-9a-f]{12}-(\d+)"'), rb'"id":"hearth-DAEMON-\1"'),
    (re.compile(rb'"requestState":"[^"]+"'), b'"requestState":"STATE"'),
    (re.compile(rb'"elicitationId":"[^"]+"'), b'"elicitationId":"ELICITATION"'),
]
# What no request is the reason of, or need not be.
UPDATED = "notifications/resources/updated"
BY_ITSELF = {
    UPDATED,
    "notifications/subscriptions/acknowledged",
    "notifications/elicitation/complete",
    # Hearth wants to know which folder to work in.
    "roots/list",
}
ROUNDS_LIMIT = 5
# How often it is looked whether something has come that is on its way.
LOOKS = 500


class Step(NamedTuple):
    """What was done, and all that came of it."""

    name: str
    messages: list[bytes]


class Transcript(NamedTuple):
    """Everything that a client got."""

    steps: list[Step]
    # What came by itself, in no order.
    others: list[bytes]


def normal(raw: bytes) -> bytes:
    """A message without what Hearth drew by lot."""
    for pattern, replacement in MADE_UP:
        raw = pattern.sub(replacement, raw)
    return raw


def without_envelope(raw: bytes) -> str | None:
    """A message without id and without what the modern era alone puts around a result; None for a question.

    The two eras ask in different ways, and the number of rounds decides over the ids that follow.
    """
    message: Message = json.loads(raw)
    result = message.get("result", {})
    if ("method" in message and "id" in message) or result.get("resultType") == "input_required":
        return None
    message.pop("id", None)
    for key in ("resultType", "ttlMs", "cacheScope"):
        result.pop(key, None)
    meta = result.get("_meta", {})
    meta.pop(SERVER_INFO_KEY, None)
    if not meta:
        result.pop("_meta", None)
    return json.dumps(message)


class Player:
    """A client of one revision on one channel."""

    def __init__(self, channel: Channel, revision: str) -> None:
        self._channel = channel
        self.revision = revision
        self.is_modern = is_modern(revision)
        self._last_id = 0
        self.steps: list[Step] = []
        self.others: list[bytes] = []

    # --- what the scenario says

    def open(self) -> None:
        """The first words of the revision."""
        if self.is_modern:
            self.ask("server/discover")
            return
        params = {"protocolVersion": self.revision, "capabilities": capabilities_of(self.revision), "clientInfo": INFO}
        self.ask("initialize", **params)
        self._channel.tell(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        self._channel.listen(None, self._hear)

    def subscribe(self, uris: list[str]) -> None:
        """Wish for notices about resources."""
        if self.is_modern:
            wishes = {"notifications": {"resourceSubscriptions": uris}}
            self._channel.listen(self._line("listen", "subscriptions/listen", wishes), self._hear)
        else:
            for uri in uris:
                self.ask("resources/subscribe", uri, uri=uri)

    def await_notices(self, method: str, count: int) -> None:
        """Until so many of them have come."""
        for _ in range(LOOKS):
            if sum(b'"%b"' % method.encode() in raw for raw in self.others) >= count:
                return
            self._look(f"{LEGACY}__echo", text="anything new?")
        raise AssertionError(f"{method} never came {count} times: {self.others}")

    def ask(self, method: str, note: str = "", **params: Any) -> Message:
        """A request, with all that it takes until its final answer; the answer."""
        step = Step(f"{method} {note}".strip(), [])
        self.steps.append(step)
        more: Message = {}
        for _ in range(ROUNDS_LIMIT):
            answer = self._ask(step, method, {**params, **more}, self._next_id())
            result = answer.get("result", {})
            if result.get("resultType") != "input_required":
                return answer
            more = {"inputResponses": {key: _reply(asked) for key, asked in result.get("inputRequests", {}).items()}}
            if "requestState" in result:
                more["requestState"] = result["requestState"]
        raise AssertionError(f"asked again and again: {step}")

    def call(self, tool: str, meta: Message | None = None, note: str = "", **arguments: Any) -> Message:
        more = {} if meta is None else {"_meta": meta}
        return self.ask("tools/call", note or tool, name=tool, arguments=arguments, **more)

    def log(self, tool: str, level: str) -> None:
        """Call it, wanting what it logs from that level on."""
        if self.is_modern:
            self.call(tool, {LOG_LEVEL_KEY: level})
        else:
            self.ask("logging/setLevel", level=level)
            self.call(tool)

    def say(self, note: str, line: bytes) -> None:
        """Whatever bytes, which get one answer."""
        exchange = self._channel.begin(line)
        self.steps.append(Step(f"malformed: {note}", [normal(exchange.next())]))

    def cancel(self, prefix: str) -> None:
        """Call what waits until it is cancelled, and see that its server was told."""
        id = self._next_id()
        params = {"name": f"{prefix}waiting", "arguments": {"mark": "m"}, "_meta": {"progressToken": "t"}}
        exchange = self._channel.begin(self._line(id, "tools/call", params))
        # Now it runs.
        begun = exchange.next()
        after = exchange.withdraw(id)
        self.steps.append(Step("cancel", [normal(raw) for raw in (begun, *after)]))
        for _ in range(LOOKS):
            if "m" in json.dumps(self._look(f"{prefix}cancelled")["result"]["content"]):
                return
        raise AssertionError("the server was never told")

    # --- messages

    def _look(self, tool: str, **arguments: Any) -> Message:
        """Call it for what it may have brought about by now; how often that takes is nobody's business."""
        step = Step("", [])
        answer = self._ask(step, "tools/call", {"name": tool, "arguments": arguments}, "look")
        # On the wires where everything comes in one stream, what is said too much would come now.
        assert len(step.messages) == 1, f"nobody asked for {step.messages[:-1]}"
        return answer

    def _ask(self, step: Step, method: str, params: Message, id: object) -> Message:
        exchange = self._channel.begin(self._line(id, method, params))
        while True:
            raw = exchange.next()
            message: Message = json.loads(raw)
            if message.get("method") in BY_ITSELF:
                self._hear(raw)
                continue
            step.messages.append(normal(raw))
            self._answer(message)
            if "method" not in message and message.get("id") == id:
                return message

    def _hear(self, raw: bytes) -> None:
        """Something came by itself."""
        self.others.append(normal(raw))
        self._answer(json.loads(raw))

    def _answer(self, message: Message) -> None:
        if "method" in message and "id" in message:
            self._channel.tell(_dumped({"jsonrpc": "2.0", "id": message["id"], "result": _reply(message)}))

    def _next_id(self) -> int:
        self._last_id += 1
        return self._last_id

    def _line(self, id: object, method: str, params: Message) -> bytes:
        return _dumped({"jsonrpc": "2.0", "id": id, "method": method, "params": self.dressed(params)})

    def dressed(self, params: Message) -> Message:
        """Params as the revision wants them."""
        if not self.is_modern:
            return params
        envelope = {VERSION_KEY: self.revision, CAPABILITIES_KEY: capabilities_of(self.revision), CLIENT_INFO_KEY: INFO}
        return {**params, "_meta": {**params.get("_meta", {}), **envelope}}


def _dumped(message: object) -> bytes:
    return json.dumps(message).encode()


def _reply(asked: Message) -> Message:
    """What the client's person, model and folder answer."""
    method, params = asked["method"], asked.get("params", {})
    if method == "roots/list":
        return {"roots": [{"uri": "file:///home/somebody", "name": "home"}]}
    if method == "sampling/createMessage":
        content = {"type": "text", "text": "said"}
        return {"role": "assistant", "content": content, "model": "test-model", "stopReason": "endTurn"}
    if params.get("mode") == "url":
        return {"action": "accept"}
    return {"action": "accept", "content": {"name": f"Ada, {params['message']}"}}


# --- the scenario


def play(channel: Channel, revision: str) -> Transcript:
    """All of it; everything that came."""
    player = Player(channel, revision)
    player.open()
    lists(player)
    for upstream in REVISIONS:
        for part in (calls, reads, while_it_runs, questions):
            part(player, upstream)
    refusals(player)
    malformed(player)
    if player.is_modern:
        envelopes(player)
    for upstream in REVISIONS:
        player.cancel(f"{upstream}__")
    updates(player)
    return Transcript(player.steps, sorted(player.others))


def lists(player: Player) -> None:
    for method in ("tools/list", "resources/list", "resources/templates/list", "prompts/list"):
        player.ask(method)


def calls(player: Player, upstream: str) -> None:
    tool = f"{upstream}__"
    player.call(f"{tool}echo", text='wörds "quoted"\n\t\u2028 \U0001f525')
    player.call(f"{tool}meta", {"test.example/key": {"exact": 10**30, "list": [1.5, None]}, "traceparent": "00-1-2-01"})
    for name in ("structured", "link", "audio", "failing", "broken"):
        player.call(f"{tool}{name}")
    if upstream == MODERN:
        player.call(f"{tool}array")


def reads(player: Player, upstream: str) -> None:
    for id in ("one", "two", "missing"):
        player.ask("resources/read", id, uri=offer.uri(upstream, id))
    player.ask("prompts/get", name=f"{upstream}__greet", arguments={"name": "Ada"})
    player.ask("prompts/get", "without its argument", name=f"{upstream}__greet")
    prompt = {"type": "ref/prompt", "name": f"{upstream}__greet"}
    player.ask("completion/complete", "of a prompt", ref=prompt, argument={"name": "name", "value": "A"})
    resource = {"type": "ref/resource", "uri": offer.uri(upstream, "{id}")}
    player.ask("completion/complete", "of a template", ref=resource, argument={"name": "id", "value": "t"})


def while_it_runs(player: Player, upstream: str) -> None:
    for token in ("token", 7):
        player.call(f"{upstream}__progress", {"progressToken": token}, steps=3)
    for level in ("warning", "debug"):
        player.log(f"{upstream}__log", level)


def questions(player: Player, upstream: str) -> None:
    for name in ("roots", "elicit", "interview", "elicit_url", "sample"):
        player.call(f"{upstream}__{name}")


def refusals(player: Player) -> None:
    player.call("nobody__knows", note="unknown tool")
    player.ask("tools/call", "without a name", arguments={})
    player.ask("tools/call", "a name that is none", name=3)
    player.ask("no/such/method")
    player.ask("resources/read", "without an address")
    player.ask("resources/read", "nobody's", uri="nobody://x")
    player.ask("prompts/get", "unknown", name="nobody__knows")
    player.ask("completion/complete", "without a reference")
    player.ask("tools/list", "a cursor that nobody gave", cursor="x")
    # Of the legacy era alone, and refused by the other.
    player.ask("ping")
    player.ask("logging/setLevel", "a level that is none", level="shout")
    player.ask("resources/subscribe", "nobody's", uri="nobody://x")


def envelopes(player: Player) -> None:
    """Of the modern era alone: what is wrong with the envelope itself."""
    declared = {CAPABILITIES_KEY: {}}
    for note, meta in {
        "a revision that nobody knows": {VERSION_KEY: "2099-01-01", **declared},
        "a revision that is none": {VERSION_KEY: 3, **declared},
        "no capabilities": {VERSION_KEY: MODERN},
        "capabilities that are none": {VERSION_KEY: MODERN, CAPABILITIES_KEY: []},
        "a level that is none": {VERSION_KEY: MODERN, **declared, LOG_LEVEL_KEY: "shout"},
    }.items():
        params = {"name": f"{LEGACY}__echo", "arguments": {"text": "x"}, "_meta": meta}
        player.say(note, _dumped({"jsonrpc": "2.0", "id": "e", "method": "tools/call", "params": params}))


def updates(player: Player) -> None:
    """Last: whatever came by itself before has come when these have."""
    uris = {upstream: offer.uri(upstream, "one") for upstream in REVISIONS}
    player.subscribe(list(uris.values()))
    if player.is_modern:
        player.await_notices("notifications/subscriptions/acknowledged", 1)
    for count, (upstream, uri) in enumerate(uris.items(), 1):
        player.call(f"{upstream}__touch", uri=uri)
        player.await_notices(UPDATED, count)


def malformed(player: Player) -> None:
    for note, line in bad_lines(player):
        player.say(note, line)


def bad_lines(player: Player) -> Iterator[tuple[str, bytes]]:
    # On lines, one that could go on in the next is waited for.
    yield "no JSON", b'{"jsonrpc":"2.0","id":1,"method":}'
    yield "no object", b'"words"'
    yield "a number", b"3"
    yield "nothing in it", b"{}"
    yield "invalid UTF-8", b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"x":"\xff"}}'
    yield "another version of JSON-RPC", b'{"jsonrpc":"1.0","id":1,"method":"tools/list"}'
    yield "an id that is null", b'{"jsonrpc":"2.0","id":null,"method":"tools/list"}'
    yield "an id that is an object", b'{"jsonrpc":"2.0","id":{},"method":"tools/list"}'
    yield "a method that is a number", b'{"jsonrpc":"2.0","id":1,"method":3}'
    if not player.is_modern:
        # Without its envelope no message is of the modern era, except where a header says so.
        yield "params that are an array", b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":[]}'
        yield (
            "too deep",
            b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"x":%b%b}}' % (b"[" * 100_000, b"]" * 100_000),
        )
    yield "an empty batch", b"[]"
    yield "a batch", b'[{"jsonrpc":"2.0","id":1,"method":"tools/list"}]'
