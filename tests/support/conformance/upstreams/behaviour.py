"""What each tool does, said once for both eras: a generator of steps that ends with its result. Pure.

A step is something that the eras say differently: progress, a log message, a question to the client, waiting for the
end, a change of a resource. Who runs the generator sends it each question's answer, or throws `Refused` into it.
"""

import json
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

from support.conformance.revisions import LOG_LEVELS, is_modern
from support.conformance.upstreams import offer

Message = dict[str, Any]


@dataclass(frozen=True)
class Progress:
    """Told to whoever gave a token."""

    progress: int
    total: int


@dataclass(frozen=True)
class Log:
    """Told at or above the level that is wanted."""

    level: str
    data: object


@dataclass(frozen=True)
class Ask:
    """A question to the client: `capability` must have been declared, and within it `mode`."""

    method: str
    params: Message
    capability: str
    mode: str | None = None


@dataclass(frozen=True)
class Completed:
    """What a URL led to has been done, outside of MCP; told where the revision has words for it."""

    elicitation_id: str


@dataclass(frozen=True)
class Touched:
    """A resource changed."""

    uri: str


@dataclass(frozen=True)
class Wait:
    """Until the call is cancelled."""


Step = Progress | Log | Ask | Completed | Touched | Wait
Run = Generator[Step, Message, Message]


class Refused(Exception):
    """The client answered a question with an error, or cannot be asked."""


class Broken(Exception):
    """The call ends with a JSON-RPC error; `args` are its code, message and data."""


@dataclass
class State:
    """What a server's process keeps."""

    revision: str
    # How often each resource was touched.
    touches: dict[str, int] = field(default_factory=dict)
    # The marks of waiting calls that were cancelled.
    cancelled: list[str] = field(default_factory=list)

    def text_of(self, uri: str) -> str | None:
        """What a resource contains; None when there is no such resource."""
        if uri not in (offer.uri(self.revision, id) for id in offer.RESOURCE_IDS):
            return None
        return f"{uri} touched {self.touches.get(uri, 0)} times"


@dataclass(frozen=True)
class Call:
    """One call of a tool."""

    state: State
    arguments: Message
    # As it came, without what the era itself has in it.
    meta: Message


def words(text: str, **more: object) -> Message:
    """A result that consists of words."""
    return {"content": [{"type": "text", "text": text}], **more}


def start(name: str, call: Call) -> Run | None:
    """The run of a tool; None when the revision has no such tool."""
    return _TOOLS[name](call) if name in offer.tool_names(call.state.revision) else None


# --- the tools


def echo(call: Call) -> Run:
    yield from ()
    return words(call.arguments["text"])


def meta(call: Call) -> Run:
    yield from ()
    return words(json.dumps(call.meta), _meta={"test.example/answer": {"exact": 10**30, "list": [1.5, None]}})


def failing(call: Call) -> Run:
    yield from ()
    return words("failed on purpose", isError=True)


def broken(call: Call) -> Run:
    yield from ()
    raise Broken(-32603, "broken on purpose", {"part": "spring", "count": 3})


def progress(call: Call) -> Run:
    steps = call.arguments["steps"]
    for step in range(steps):
        yield Progress(step + 1, steps)
    return words("done")


def waiting(call: Call) -> Run:
    yield Progress(1, 2)
    try:
        yield Wait()
    except GeneratorExit:
        call.state.cancelled.append(call.arguments["mark"])
        raise
    return words("nothing ends the waiting but its cancellation")


def cancelled(call: Call) -> Run:
    yield from ()
    return words(json.dumps(call.state.cancelled))


def touch(call: Call) -> Run:
    uri = call.arguments["uri"]
    call.state.touches[uri] = call.state.touches.get(uri, 0) + 1
    yield Touched(uri)
    return words(call.state.text_of(uri) or "touched nothing")


def log(call: Call) -> Run:
    for level in LOG_LEVELS:
        yield Log(level, {"said": level})
    return words("logged")


def structured(call: Call) -> Run:
    yield from ()
    return words(json.dumps(offer.STRUCTURE), structuredContent=offer.STRUCTURE)


def array(call: Call) -> Run:
    yield from ()
    return words(json.dumps(offer.ARRAY), structuredContent=offer.ARRAY)


def link(call: Call) -> Run:
    yield from ()
    linked = {"type": "resource_link", "uri": offer.uri(call.state.revision, "two"), "name": "two"}
    return {"content": [{"type": "text", "text": "see there"}, linked]}


def audio(call: Call) -> Run:
    yield from ()
    return {"content": [{"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}]}


def sample(call: Call) -> Run:
    said = {"role": "user", "content": {"type": "text", "text": "Say something."}}
    answer = yield Ask("sampling/createMessage", {"messages": [said], "maxTokens": 10}, "sampling")
    return words(answer["content"]["text"])


def roots(call: Call) -> Run:
    answer = yield Ask("roots/list", {}, "roots")
    return words(json.dumps([root["uri"] for root in answer["roots"]]))


def elicit(call: Call) -> Run:
    answer = yield question(call, "Who are you?")
    return words(json.dumps(answer))


def interview(call: Call) -> Run:
    first = yield question(call, "Who are you?")
    second = yield question(call, "Who else?")
    return words(json.dumps([first, second]))


def question(call: Call, message: str) -> Ask:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    return Ask("elicitation/create", {"message": message, "requestedSchema": schema}, "elicitation")


def elicit_url(call: Call) -> Run:
    params = {"mode": "url", "message": "Go there.", "url": "https://test.example/consent"}
    # Modern revisions know the question by its key.
    known = {} if is_modern(call.state.revision) else {"elicitationId": "e-1"}
    answer = yield Ask("elicitation/create", {**params, **known}, "elicitation", "url")
    yield Completed("e-1")
    return words(json.dumps(answer))


_TOOLS: dict[str, Callable[[Call], Run]] = {
    tool.__name__: tool
    for tool in (
        *(echo, meta, failing, broken, progress, waiting, cancelled, touch, log),
        *(structured, array, link, audio, sample, roots, elicit, interview, elicit_url),
    )
}
