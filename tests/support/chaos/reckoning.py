"""The reckoning after the chaos: what was asked, what came back, what ran. No I/O; every violation is a sentence.

The rules:
- every request has exactly one answer, a cancelled one at most one, and an answer belongs to a request;
- what is read-only or idempotent, and what only asks Hearth, is answered with the right result;
- `once` may be answered with the error that says it may or may not have run, and only if it was in flight at a death;
- `once` has run at most once for each request, and what has a result has run;
- progress goes to a request that is not answered yet.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

Message = dict[str, Any]
# Other servers' tools may be among them.
TOOLS = {"counting__once", "counting__put", "counting__read"}
IN_DOUBT = "may or may not have run"


@dataclass
class Request:
    """One request of one client. `key` is unique over all clients, and names the call in the server's notes."""

    id: int | str
    kind: str
    key: str
    token: str | None = None
    cancelled: bool = False
    # Whether it waited for its answer when a daemon died.
    exposed: bool = False

    @property
    def is_call(self) -> bool:
        """Whether it runs a tool."""
        return self.kind in {"read", "put", "once"}

    def is_excused(self, sentence: str) -> bool:
        """Whether that error is an answer which this request may have."""
        return self.kind == "once" and self.exposed and IN_DOUBT in sentence

    def is_right(self, result: Message) -> bool:
        """Whether that is the result which this request must have."""
        if self.kind == "ping":
            return result == {}
        if self.kind == "list":
            return {tool["name"] for tool in result["tools"]} >= TOOLS
        return bool(result["content"] == [{"type": "text", "text": f"{self.kind} {self.key}"}])


def name_of(id: int | str) -> str:
    """An id as a key: `1` and `"1"` are two ids."""
    return json.dumps(id)


def violations(asked: Iterable[Request], received: Iterable[Message]) -> Iterator[str]:
    """What is wrong with one client's conversation."""
    requests = {name_of(request.id): request for request in asked}
    counts: Counter[str] = Counter()
    for message in received:
        if "method" in message:
            yield from _judge_notice(message, requests, counts)
            continue
        name = name_of(message["id"]) if "id" in message else "no id"
        counts[name] += 1
        request = requests.get(name)
        if request is None:
            yield f"an answer to what was not asked: {message}"
        else:
            yield from _judge_answer(request, message)
    for name, request in requests.items():
        if counts[name] > 1 or (counts[name] == 0 and not request.cancelled):
            yield f"{counts[name]} answers to {request}"


def _judge_answer(request: Request, message: Message) -> Iterator[str]:
    if "result" in message:
        if not request.is_right(message["result"]):
            yield f"a wrong result of {request}: {message['result']}"
        return
    if not request.is_excused(message["error"]["message"]):
        yield f"an error instead of a result of {request}: {message['error']}"


def _judge_notice(message: Message, requests: dict[str, Request], counts: Counter[str]) -> Iterator[str]:
    if message["method"] != "notifications/progress":
        return
    token = message["params"]["progressToken"]
    owner = next((name for name, request in requests.items() if request.token == token), None)
    if owner is None:
        yield f"progress of somebody else's request: {message}"
    elif counts[owner]:
        yield f"progress of {requests[owner]} behind its answer"


def wrong_runs(asked: Iterable[Request], answered: set[str], notes: Iterable[str]) -> Iterator[str]:
    """What ran too often, or not at all although it has a result. `answered`: the keys of requests with a result."""
    runs = Counter(notes)
    for request in asked:
        if not request.is_call:
            continue
        count = runs[f"{request.kind} {request.key}"]
        if request.kind == "once" and count > 1:
            yield f"it ran {count} times: {request}"
        if request.key in answered and count == 0:
            yield f"it has a result and never ran: {request}"
