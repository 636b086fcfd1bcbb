"""Clients that put a secret mark on every call, and look in everything that they are told for marks of others.

One `Crowd` has them all, in one thread: whose turn it is, is drawn by lot.
"""

import json
import random
import re
import select
import time
from dataclasses import dataclass, field
from typing import Any

from support.clients import PREFIX, Client, FramesClient, Message, modern
from support.daemon import Scratch
from support.kernel import BOUND_SECONDS

MARK = re.compile(rb"mark-[0-9]+-[0-9]+-[0-9a-f]{8}")
CAPABILITIES = {"elicitation": {}, "sampling": {}}
STEPS = ("progress", "log", "ask", "sample")


class MixUp(AssertionError):
    """A client was told what is another's."""


@dataclass
class Call:
    """One call of a client, and what came for it."""

    mark: str
    server: str
    steps: list[str]
    is_deaf: bool
    token: int
    id: int = 0
    progress: int = 0
    more: Message = field(default_factory=dict)


class Marked:
    """One client. Ids and tokens begin at 1, as everybody's do."""

    def __init__(self, number: int, client: Client, era: str, lots: random.Random) -> None:
        self.number = number
        self.client = client
        self.era = era
        self.logs = 0
        self.open: dict[int, Call] = {}
        # Questions that it has not answered yet: a message's id and its mark, or a call and its wish for input.
        self.questions: list[tuple[Message, Call | None]] = []
        self._marks: dict[str, Call] = {}
        self._given_up: dict[int, Call] = {}
        self._lots = lots
        self._ids = 0
        if era == "legacy":
            client.initialize(capabilities=CAPABILITIES)
            self._ids = 1

    # --- what it says

    def begin(self, server: str, steps: list[str], is_deaf: bool) -> Call:
        mark = f"mark-{self.number}-{len(self._marks)}-{self._lots.getrandbits(32):08x}"
        call = self._marks[mark] = Call(mark, server, steps, is_deaf, len(self._marks) + 1)
        self.send(call)
        return call

    def send(self, call: Call) -> None:
        """The call, for the first time or again."""
        self._ids += 1
        call.id = self._ids
        self.open[call.id] = call
        arguments = {"mark": call.mark, "steps": call.steps, "deaf": call.is_deaf}
        params: Message = {"name": f"{call.server}__run", "arguments": arguments, **call.more}
        params["_meta"] = {"progressToken": call.token}
        if self.era == "modern":
            capabilities = {f"{PREFIX}clientCapabilities": CAPABILITIES, f"{PREFIX}logLevel": "debug"}
            params = modern(**{**params, "_meta": {**params["_meta"], **capabilities}})
        self.client.begin("tools/call", params, call.id)

    def cancel(self, call: Call) -> None:
        # Its answer may have been on its way.
        self._given_up[call.id] = self.open.pop(call.id)
        self.client.notify("notifications/cancelled", {"requestId": call.id})

    def answer(self) -> None:
        """One of the questions, whichever."""
        question, call = self.questions.pop(self._lots.randrange(len(self.questions)))
        if call is None:
            answer = _answer(question["method"], question["params"])
            self.client.send({"jsonrpc": "2.0", "id": question["id"], "result": answer})
            return
        responses = {key: _answer(wish["method"], wish["params"]) for key, wish in question["inputRequests"].items()}
        call.more = {"inputResponses": responses, "requestState": question["requestState"]}
        self.send(call)

    # --- what it is told

    def take(self, line: bytes) -> Message | None:
        """One message; the result of a call that has ended with it."""
        foreign = [mark for mark in map(bytes.decode, MARK.findall(line)) if mark not in self._marks]
        if foreign:
            raise MixUp(f"client {self.number} was told of {foreign}: {line!r}")
        message: Message = json.loads(line)
        method = message.get("method")
        if method is None:
            return self._take_answer(message)
        if "id" in message:
            self.questions.append((message, None))
        elif method == "notifications/message":
            self.logs += 1
        elif method == "notifications/progress":
            self._take_progress(message["params"])
        elif method == "notifications/cancelled":
            id = message["params"]["requestId"]
            self.questions = [asked for asked in self.questions if asked[0].get("id") != id]
        return None

    def _take_progress(self, params: Message) -> None:
        call = self._marks[params["message"]]
        if params["progressToken"] != call.token:
            raise MixUp(f"client {self.number} was told of {call} by the token of another call: {params}")
        call.progress += 1

    def _take_answer(self, message: Message) -> Message | None:
        is_given_up = message["id"] in self._given_up
        call = (self._given_up if is_given_up else self.open).pop(message["id"], None)
        if call is None:
            raise MixUp(f"client {self.number} has no call open for {message}")
        assert "result" in message, (call, message)
        if message["result"].get("resultType") == "input_required":
            if not is_given_up:
                self.questions.append((message["result"], call))
            return None
        outcome: Message = json.loads(message["result"]["content"][0]["text"])
        if outcome["mark"] != call.mark or outcome["strange"]:
            raise MixUp(f"client {self.number} called {call} and was answered {message}")
        return None if is_given_up else {"call": call, **outcome}


def _answer(method: str, params: Message) -> Message:
    """What its person or model says: the mark of the question."""
    if method == "elicitation/create":
        return {"action": "accept", "content": {"mark": params["message"]}}
    words = params["messages"][0]["content"]["text"]
    return {"role": "assistant", "content": {"type": "text", "text": words}, "model": "m"}


class Crowd:
    """All clients of one daemon. `outcomes` has what became of each call that was answered."""

    def __init__(self, scratch: Scratch, lots: random.Random, eras: list[str]) -> None:
        self._scratch = scratch
        self._lots = lots
        self._count = 0
        self.members = [self._member(number, era) for number, era in enumerate(eras)]
        self.outcomes: list[Message] = []

    def _member(self, seat: int, era: str) -> Marked:
        self._count += 1
        # By twos they work in the same folder; one of them has none.
        folder = self._scratch.home / f"folder-{seat // 2}"
        folder.mkdir(exist_ok=True)
        wire = self._scratch.frames(cwd=str(folder)) if seat else self._scratch.lines()
        return Marked(self._count, wire, era, self._lots)

    def replace(self, seat: int) -> None:
        """One leaves, in the middle of whatever it does, and another comes."""
        self.members[seat].client.close()
        self.members[seat] = self._member(seat, self.members[seat].era)

    def play(self, plan: list[Any]) -> None:
        """Do everything on the plan, in any order with what comes, until every call has its answer."""
        deadline = time.monotonic() + BOUND_SECONDS
        while plan or any(member.open or member.questions for member in self.members):
            assert time.monotonic() < deadline, [(member.number, member.open) for member in self.members]
            asked = [member for member in self.members if member.questions]
            acts = ["begin"] * bool(plan) + ["answer"] * bool(asked) + ["listen"]
            act = self._lots.choice(acts)
            if act == "begin":
                plan.pop()()
            elif act == "answer":
                self._lots.choice(asked).answer()
            else:
                self._listen(patient=len(acts) == 1)

    def _listen(self, patient: bool) -> None:
        """Take one message of each who has one; `patient`: wait for it, there is nothing else to do."""
        sockets = {member.client.stream.socket: member for member in self.members}
        ready = {member for member in self.members if member.client.stream.has_data()}
        found = select.select(list(sockets), [], [], 1.0 if patient and not ready else 0.0)[0]
        for member in ready | {sockets[each] for each in found}:
            line = _line(member.client)
            outcome = member.take(line) if line else None
            if outcome:
                self.outcomes.append({"member": member, **outcome})


def _line(client: Client) -> bytes | None:
    """What has come, if it is a line and not something between daemon and bridge."""
    if not isinstance(client, FramesClient):
        return client.receive_line()
    header, payload = client.receive_frame()
    return payload if header["type"] == "mcp" else None
