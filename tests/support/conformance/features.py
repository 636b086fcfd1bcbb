"""What is tried in every cell of the matrix. A feature is a function of a desk; its value says what was found.

works     as the client's revision has it
absent    the server's revision has no such thing: it is not listed, and calling it is -32602
omitted   the client's revision has no such thing: it gets the rest
lowered   the client's revision has no such thing: it gets something else that says the same
refused   the client cannot do what is asked of it: the call fails, and says what is missing
"""

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from support.conformance.clients import LOGGED, PROGRESS, UPDATED, Client, Message, Outcome
from support.conformance.revisions import LOG_LEVELS, SUBSCRIPTION_KEY, is_modern
from support.conformance.upstreams import offer
from support.kernel import until

INVALID_PARAMS = -32602
_marks = itertools.count(1)


@dataclass(frozen=True)
class Desk:
    """A client and the server that it turns to; `bare` is a client of the same revision that declared nothing."""

    client: Client
    bare: Client
    upstream: str
    # What Hearth puts before the server's names.
    prefix: str = ""

    def call(self, tool: str, **more: Any) -> Outcome:
        return self.client.call(self.prefix + tool, **more)

    def uri(self, id: str) -> str:
        return offer.uri(self.upstream, id)

    def own(self, items: list[Message], key: str = "name") -> dict[str, Message]:
        """Those of a list that are this server's, by their own names."""
        return {item[key].removeprefix(self.prefix): item for item in items if item[key].startswith(self.prefix)}

    def tools(self) -> dict[str, Message]:
        return self.own(self.client.everything("tools/list", "tools"))


def is_absent(desk: Desk, tool: str) -> bool:
    """Whether there is no such tool; then calling it must be refused."""
    if tool in desk.tools():
        return False
    outcome = desk.call(tool)
    assert outcome.error["code"] == INVALID_PARAMS, outcome
    return True


# --- lists and calls


def lists(desk: Desk) -> str:
    tools = desk.tools()
    assert set(tools) == set(offer.tool_names(desk.upstream))
    assert all(tool["inputSchema"]["type"] == "object" and tool["description"] for tool in tools.values())
    assert set(desk.own(desk.client.everything("prompts/list", "prompts"))) == {"greet"}
    assert [item["uri"] for item in desk.client.everything("resources/list", "resources")].count(desk.uri("one")) == 1
    templates = desk.client.everything("resources/templates/list", "resourceTemplates")
    assert [item["uriTemplate"] for item in templates].count(desk.uri("{id}")) == 1
    return "works"


def call(desk: Desk) -> str:
    text = 'wörds "quoted"\n\t\u2028 \U0001f525'
    outcome = desk.call("echo", text=text)
    assert outcome.result["content"] == [{"type": "text", "text": text}]
    assert not outcome.failed and not outcome.questions and not outcome.progress
    return "works"


def meta(desk: Desk) -> str:
    vendor = {"test.example/key": {"exact": 10**30, "list": [1.5, None, "x"]}, "traceparent": "00-1-2-01"}
    outcome = desk.call("meta", meta=vendor)
    assert json.loads(outcome.text) == vendor
    assert outcome.result["_meta"]["test.example/answer"] == {"exact": 10**30, "list": [1.5, None]}
    return "works"


def structure(desk: Desk, tool: str, value: object) -> str:
    if is_absent(desk, tool):
        return "absent"
    outcome = desk.call(tool)
    assert json.loads(outcome.text) == value
    schema = desk.tools()[tool].get("outputSchema")
    assert schema == (offer.OUTPUT_SCHEMAS[tool] if "structuredContent" in outcome.result else None)
    if "structuredContent" not in outcome.result:
        return "omitted"
    assert outcome.result["structuredContent"] == value
    return "works"


def structured(desk: Desk) -> str:
    return structure(desk, "structured", offer.STRUCTURE)


def array(desk: Desk) -> str:
    return structure(desk, "array", offer.ARRAY)


def link(desk: Desk) -> str:
    if is_absent(desk, "link"):
        return "absent"
    first, second = desk.call("link").result["content"]
    assert first == {"type": "text", "text": "see there"}
    assert desk.uri("two") in json.dumps(second)
    return "works" if second["type"] == "resource_link" else "lowered"


def audio(desk: Desk) -> str:
    if is_absent(desk, "audio"):
        return "absent"
    (block,) = desk.call("audio").result["content"]
    if block["type"] != "audio":
        assert "audio/wav" in block["text"]
        return "lowered"
    assert block == {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}
    return "works"


def error(desk: Desk) -> str:
    failing = desk.call("failing")
    assert failing.result["isError"] is True and failing.text == "failed on purpose"
    broken = desk.call("broken").error
    assert broken == {"code": -32603, "message": "broken on purpose", "data": {"part": "spring", "count": 3}}
    assert desk.call("no such tool").error["code"] == INVALID_PARAMS
    missing = desk.client.ask("resources/read", uri=desk.uri("missing")).error
    # Legacy revisions have a code of their own for it, which modern ones have dropped.
    assert missing["code"] in ((INVALID_PARAMS,) if is_modern(desk.client.revision) else (INVALID_PARAMS, -32002))
    assert missing["data"]["uri"] == desk.uri("missing")
    return "works"


# --- while a call runs


def progress(desk: Desk) -> str:
    for token in ("token", 7, "7", 0):
        outcome = desk.call("progress", meta={"progressToken": token}, steps=3)
        assert outcome.text == "done"
        assert [(item["progress"], item["total"]) for item in outcome.progress] == [(1, 3), (2, 3), (3, 3)]
        assert {json.dumps(item["progressToken"]) for item in outcome.progress} == {json.dumps(token)}
    assert desk.call("progress", steps=3).progress == []
    return "works"


def cancel(desk: Desk) -> str:
    client, mark = desk.client, f"mark {next(_marks)}"
    call = {"name": f"{desk.prefix}waiting", "arguments": {"mark": mark}, "_meta": {"progressToken": mark}}
    id = client.begin("tools/call", **call)
    # Now it runs.
    assert client.next_notice(PROGRESS)["params"]["progressToken"] == mark
    client.cancel(id)
    # A late answer would be complained about.
    until(lambda: mark in json.loads(desk.call("cancelled").text), "the server is told")
    return "works"


def log(desk: Desk) -> str:
    def said(outcome: Outcome) -> list[str]:
        assert all(item["data"] == {"said": item["level"]} for item in outcome.logs), outcome.logs
        return [item["level"] for item in outcome.logs]

    for level in ("warning", "debug", "emergency"):
        wanted = list(LOG_LEVELS[LOG_LEVELS.index(level) :])
        assert said(desk.call("log", log_level=level)) == wanted
    # Legacy clients expect logs without having said so; modern ones get none.
    unasked = said(desk.bare.call(f"{desk.prefix}log"))
    assert not unasked if is_modern(desk.client.revision) else "error" in unasked
    return "works"


# --- resources, prompts, completion


def resource(desk: Desk) -> str:
    for id in ("one", "two"):
        (content,) = desk.client.ask("resources/read", uri=desk.uri(id)).result["contents"]
        assert content["uri"] == desk.uri(id)
        assert content["text"].startswith(f"{desk.uri(id)} touched")
    return "works"


def update(desk: Desk) -> str:
    client, uri = desk.client, desk.uri("one")
    subscription = client.subscribe(uri)
    said = desk.call("touch", uri=uri).text
    notice = client.next_notice(UPDATED)["params"]
    assert notice["uri"] == uri
    assert notice.get("_meta", {}).get(SUBSCRIPTION_KEY) == subscription
    (content,) = client.ask("resources/read", uri=uri).result["contents"]
    assert content["text"] == said
    client.unsubscribe(uri, subscription)
    desk.call("touch", uri=uri)
    # Whatever was sent for the second touch came before this answer.
    desk.call("echo", text="")
    assert [item for item in client.notices if item["method"] == UPDATED] == []
    return "works"


def prompt(desk: Desk) -> str:
    name = f"{desk.prefix}greet"
    result = desk.client.ask("prompts/get", name=name, arguments={"name": "Ada"}).result
    words = {"type": "text", "text": f"Greet Ada, {desk.upstream}!"}
    assert result["messages"] == [{"role": "user", "content": words}]
    assert desk.client.ask("prompts/get", name=name).error["code"] == INVALID_PARAMS
    return "works"


def completion(desk: Desk) -> str:
    wishes = [
        ({"type": "ref/prompt", "name": f"{desk.prefix}greet"}, "name", "A", ["Ada", "Alan"]),
        ({"type": "ref/resource", "uri": desk.uri("{id}")}, "id", "t", ["two"]),
    ]
    for ref, name, value, expected in wishes:
        outcome = desk.client.ask("completion/complete", ref=ref, argument={"name": name, "value": value})
        assert outcome.result["completion"]["values"] == expected, outcome
    return "works"


# --- questions


def asked(desk: Desk, tool: str, method: str, expected: Callable[[Outcome], object]) -> str:
    """What becomes of a tool that asks; `expected` says whether the tool got this very client's answer."""
    if is_absent(desk, tool):
        return "absent"
    outcome = desk.call(tool)
    if outcome.failed:
        assert_refusal(outcome, method)
        return "refused"
    assert {question["method"] for question in outcome.questions} == {method}
    assert expected(outcome), outcome
    return "works"


def assert_refusal(outcome: Outcome, method: str) -> None:
    assert outcome.failed and outcome.questions == [], outcome
    assert method.split("/")[0] in outcome.text, outcome


def elicitation(desk: Desk) -> str:
    def named(question: str) -> Message:
        return {"action": "accept", "content": {"name": f"{desk.client.name}: {question}"}}

    def as_filled_in(outcome: Outcome) -> bool:
        params = outcome.questions[0]["params"]
        shown = params["message"], params["requestedSchema"]["required"], params.get("mode", "form")
        return json.loads(outcome.text) == named("Who are you?") and shown == ("Who are you?", ["name"], "form")

    def round_by_round(outcome: Outcome) -> bool:
        said = [named("Who are you?"), named("Who else?")]
        return json.loads(outcome.text) == said and len(outcome.questions) == 2

    once = asked(desk, "elicit", "elicitation/create", as_filled_in)
    assert asked(desk, "interview", "elicitation/create", round_by_round) == once
    return once


def url_elicitation(desk: Desk) -> str:
    def as_visited(outcome: Outcome) -> bool:
        (question,) = outcome.questions
        params = question["params"]
        # Legacy revisions know the page by an id; the modern one by the question's key.
        assert isinstance(params.get("elicitationId"), str) is not is_modern(desk.client.revision), params
        shown = params["mode"], params["url"], params["message"]
        return json.loads(outcome.text) == {"action": "accept"} and shown == (
            "url", "https://test.example/consent", "Go there.",
        )  # fmt: skip

    return asked(desk, "elicit_url", "elicitation/create", as_visited)


def sampling(desk: Desk) -> str:
    def as_said(outcome: Outcome) -> bool:
        (question,) = outcome.questions
        (message,) = question["params"]["messages"]
        shown = message["content"]["text"], question["params"]["maxTokens"]
        return outcome.text == f"said for {desk.client.name}" and shown == ("Say something.", 10)

    return asked(desk, "sample", "sampling/createMessage", as_said)


def roots(desk: Desk) -> str:
    outcome = desk.call("roots")
    assert not outcome.failed, outcome
    assert json.loads(outcome.text) == [f"file:///home/{desk.client.name}"]
    return "works"


def undeclared(desk: Desk) -> str:
    for tool, method in {"sample": "sampling/createMessage", "elicit": "elicitation/create"}.items():
        if tool in offer.tool_names(desk.upstream):
            assert_refusal(desk.bare.call(desk.prefix + tool), method)
    return "refused"


# In the order of the matrix's columns.
FEATURES: dict[str, Callable[[Desk], str]] = {
    "list": lists,
    "call": call,
    "meta": meta,
    "structured": structured,
    "array": array,
    "link": link,
    "audio": audio,
    "error": error,
    "progress": progress,
    "log": log,
    "resource": resource,
    "update": update,
    "prompt": prompt,
    "completion": completion,
    "elicitation": elicitation,
    "url": url_elicitation,
    "sampling": sampling,
    "roots": roots,
    "undeclared": undeclared,
    # Last: what a shared legacy server says afterwards might belong to what was cancelled, and is nobody else's.
    "cancel": cancel,
}


def tried(feature: str, desk: Desk) -> str:
    """Try one feature. Neither client may have been told what its revision does not know."""
    found = FEATURES[feature](desk)
    for client in (desk.client, desk.bare):
        assert client.complaints == []
        # Progress and logs come with their request, or not at all.
        assert [item for item in client.notices if item["method"] in (PROGRESS, LOGGED)] == []
    return found
