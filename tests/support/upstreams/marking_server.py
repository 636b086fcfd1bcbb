"""A server that does what each call tells it to, one step of any call at a time, and puts the call's mark on all of it.

    marking_server.py ERA SEED [--leak]

ERA is `legacy` or `modern`. Tool: `run` {mark, steps, deaf}. The steps are `progress`, `log`, `ask` (an elicitation)
and `sample`; which call goes on next is drawn by lot, so that calls at the same time are interleaved in every way.
A call that is cancelled stops there, unless it is `deaf`. The answer is {mark, answered, refused, strange} as JSON
text: how many questions were answered, refused, and answered with another mark than that of the call. With --leak each
call's log carries the mark of the call before it, as that of a server would that mixes its callers up.
"""

import json
import random
import select
import sys
from typing import Any

import stdio

VERSION = "2026-07-28"
PREFIX = "io.modelcontextprotocol/"
TOOLS = [stdio.described("run")]
CACHE = {"ttlMs": 0, "cacheScope": "private"}
METHODS = {"ask": "elicitation/create", "sample": "sampling/createMessage"}
LEAKED = ["nobody's"]


def asked(step: str, mark: str) -> stdio.Message:
    """The params of a question."""
    if step == "ask":
        return {"message": mark, "requestedSchema": {"type": "object", "properties": {"mark": {"type": "string"}}}}
    return {"messages": [{"role": "user", "content": {"type": "text", "text": mark}}], "maxTokens": 1}


def mark_in(step: str, result: Any) -> object:
    """The mark that an answer to a question carries."""
    return (result.get("content") or {}).get("mark" if step == "ask" else "text")


class Call:
    """One call on its way."""

    def __init__(self, request: stdio.Message, is_modern: bool) -> None:
        given = stdio.arguments(request)
        self.request = request
        self.is_modern = is_modern
        self.mark: str = given["mark"]
        self.is_deaf: bool = given.get("deaf", False)
        self.meta = request["params"].get("_meta") or {}
        self.steps: list[str] = list(given["steps"])
        self.counts = {"answered": 0, "refused": 0, "strange": 0}
        # The step whose question is open; a legacy call waits for its answer.
        self.waiting = ""
        if is_modern and "requestState" in request["params"]:
            self.go_back_to(
                json.loads(request["params"]["requestState"]), request["params"].get("inputResponses") or {}
            )

    def go_back_to(self, state: Any, responses: Any) -> None:
        """A modern call comes again: where it was, and what was asked."""
        self.counts, self.steps = state["counts"], state["steps"]
        self.counts["strange"] += state["mark"] != self.mark
        self.take(state["waiting"], responses.get("q"))

    def take(self, step: str, result: Any) -> None:
        """The answer to a question; None for a refusal."""
        self.waiting = ""
        if result is None or result.get("action") == "cancel":
            self.counts["refused"] += 1
        else:
            self.counts["answered" if mark_in(step, result) == self.mark else "strange"] += 1

    def go_on(self, ask: Any) -> bool:
        """The next step; whether it was the last. `ask` sends a legacy question."""
        if not self.steps:
            self.answer({**stdio.text(json.dumps({"mark": self.mark, **self.counts}))})
            return True
        step = self.steps.pop(0)
        if step == "progress" and "progressToken" in self.meta:
            params = {
                "progressToken": self.meta["progressToken"],
                "progress": 99 - len(self.steps),
                "message": self.mark,
            }
            stdio.send(stdio.notice("notifications/progress", params))
        elif step == "log" and (not self.is_modern or PREFIX + "logLevel" in self.meta):
            mark = LEAKED[0] if "--leak" in sys.argv else self.mark
            LEAKED[0] = self.mark
            stdio.send(stdio.notice("notifications/message", {"level": "error", "data": mark}))
        elif step in METHODS and self.is_modern:
            self.require(step)
            return True
        elif step in METHODS:
            self.waiting = step
            ask(self, METHODS[step], asked(step, self.mark))
        return False

    def require(self, step: str) -> None:
        state = {"mark": self.mark, "steps": self.steps, "counts": self.counts, "waiting": step}
        wish = {"method": METHODS[step], "params": asked(step, self.mark)}
        required = {"inputRequests": {"q": wish}, "requestState": json.dumps(state)}
        stdio.send(stdio.result(self.request, {"resultType": "input_required", **required}))

    def answer(self, result: stdio.Message) -> None:
        stdio.send(stdio.result(self.request, {"resultType": "complete", **result} if self.is_modern else result))


class Server:
    """The calls on their way, and the questions that are open."""

    def __init__(self, is_modern: bool, seed: str) -> None:
        self.is_modern = is_modern
        self.lots = random.Random(seed)
        self.calls: dict[object, Call] = {}
        self.questions: dict[object, Call] = {}

    def ask(self, call: Call, method: str, params: stdio.Message) -> None:
        """Ids are small and start anew in every process, as they do everywhere."""
        number = len(self.questions) + 1
        while number in self.questions:
            number += 1
        self.questions[number] = call
        stdio.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})

    def take(self, message: stdio.Message) -> None:
        method = message.get("method")
        if method is None:
            call = self.questions.pop(message["id"])
            call.take(call.waiting, message.get("result"))
        elif method == "notifications/cancelled":
            self.cancel(message["params"]["requestId"])
        elif method == "tools/call":
            self.calls[message["id"]] = Call(message, self.is_modern)
        else:
            stdio.send_if(self.routine(message))

    def cancel(self, id: object) -> None:
        call = self.calls.get(id)
        if call and not call.is_deaf:
            del self.calls[id]

    def routine(self, request: stdio.Message) -> stdio.Message | None:
        if not self.is_modern:
            found = stdio.handshake(request, "marking", TOOLS)
            if found and request.get("method") == "initialize":
                found["result"]["capabilities"]["logging"] = {}
            return stdio.result(request, {}) if request.get("method") == "logging/setLevel" else found
        known: dict[str, stdio.Message] = {
            "server/discover": {"supportedVersions": [VERSION], "capabilities": {"tools": {}, "logging": {}}},
            "tools/list": {"tools": TOOLS},
        }
        if "id" not in request:
            return None
        if request["method"] not in known:
            return stdio.error(request, -32022 if request["method"] == "initialize" else -32601, "not here")
        return stdio.result(request, {"resultType": "complete", **CACHE, **known[request["method"]]})

    def go_on(self) -> bool:
        """One step of one call; whether there was one to go on with."""
        ready = [id for id, call in self.calls.items() if not call.waiting]
        if not ready:
            return False
        id = self.lots.choice(ready)
        if self.calls[id].go_on(self.ask):
            del self.calls[id]
        return True


server, busy = Server(sys.argv[1] == "modern", sys.argv[2]), False
messages: list[stdio.Message] | None = []
while messages is not None:
    # Sometimes more calls come in first, sometimes those that are there go on.
    if busy and (server.lots.random() < 0.5 or not select.select([0], [], [], 0)[0]):
        busy = server.go_on()
        continue
    messages = stdio.poll(None)
    for message in messages or ():
        server.take(message)
    busy = True
