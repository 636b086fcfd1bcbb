"""A model's turn in four APIs: Anthropic's Messages, OpenAI's Responses and Chat Completions, and Gemini's.

Pure. Each function gives the events of a stream in three parts: what opens it, the pieces of the text (or the one call
of a tool), and what closes it.
"""

import json
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

Document = dict[str, Any]
# The name of an event, where the API gives one, and its data.
Event = tuple[str, Document | str]


class Turn(NamedTuple):
    """One answer of the model: a call of a tool, or text if there is none. `number` makes its ids unique."""

    number: int
    text: str
    tool: str = ""
    arguments: Mapping[str, Any] = MappingProxyType({})
    # Group of the tool's name, which only the Responses API has.
    namespace: str = ""
    model: str = "fake"

    @property
    def pieces(self) -> list[str]:
        """The text as it is streamed: word by word."""
        return re.findall(r"\S+\s*|\s+", self.text)


class Stream(NamedTuple):
    """Events of one answer."""

    opening: list[Event]
    body: list[Event]
    closing: list[Event]

    def parts(self) -> tuple[bytes, bytes]:
        """What comes before a stall, and the rest. Before it come the opening and the first piece of the body."""
        return _encoded([*self.opening, *self.body[:1]]), _encoded([*self.body[1:], *self.closing])


def _encoded(events: list[Event]) -> bytes:
    lines = []
    for name, data in events:
        lines += [f"event: {name}"] if name else []
        lines += [f"data: {data if isinstance(data, str) else json.dumps(data)}", ""]
    return "".join(f"{line}\n" for line in lines).encode()


def error(status: int, text: str) -> Document:
    """The body of an error; every API finds its own members in it."""
    inner = {"type": "invalid_request_error", "code": status, "status": "INVALID_ARGUMENT", "message": text}
    return {"type": "error", "error": inner}


# --- Anthropic

_USAGE = {"input_tokens": 1, "output_tokens": 1}


def message(turn: Turn) -> Document:
    """The whole answer of the Messages API."""
    block: Document = {"type": "text", "text": turn.text}
    if turn.tool:
        block = {"type": "tool_use", "id": f"toolu_{turn.number}", "name": turn.tool, "input": dict(turn.arguments)}
    reason = "tool_use" if turn.tool else "end_turn"
    whole = {"id": f"msg_{turn.number}", "type": "message", "role": "assistant", "model": turn.model}
    return {**whole, "content": [block], "stop_reason": reason, "stop_sequence": None, "usage": _USAGE}


def message_stream(turn: Turn) -> Stream:
    whole = message(turn)
    block, reason = whole["content"][0], whole["stop_reason"]
    deltas: list[Document] = [{"type": "text_delta", "text": piece} for piece in turn.pieces]
    if turn.tool:
        deltas = [{"type": "input_json_delta", "partial_json": json.dumps(dict(turn.arguments))}]
    empty = {**block, "input": {}} if turn.tool else {**block, "text": ""}
    opening: list[Document] = [
        {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": empty},
    ]
    body: list[Document] = [{"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas]
    closing: list[Document] = [
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": _USAGE},
        {"type": "message_stop"},
    ]
    return Stream(*([(each["type"], each) for each in part] for part in (opening, body, closing)))


# --- OpenAI's Responses


def response_stream(turn: Turn) -> Stream:
    item: Document
    if turn.tool:
        item = {"type": "function_call", "id": f"fc_{turn.number}", "call_id": f"call_{turn.number}"}
        item |= {"name": turn.tool, "arguments": json.dumps(dict(turn.arguments)), "status": "completed"}
        item |= {"namespace": turn.namespace} if turn.namespace else {}
        begun, deltas = item, []
    else:
        item = {"type": "message", "id": f"msg_{turn.number}", "role": "assistant", "status": "completed"}
        begun = {**item, "content": [], "status": "in_progress"}
        item["content"] = [{"type": "output_text", "text": turn.text, "annotations": []}]
        place = {"item_id": item["id"], "output_index": 0, "content_index": 0}
        deltas = [{"type": "response.output_text.delta", **place, "delta": piece} for piece in turn.pieces]
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    usage = {**_USAGE, "total_tokens": 2, **details}
    opened: Document = {"id": f"resp_{turn.number}", "object": "response", "status": "in_progress", "output": []}
    opening = [
        {"type": "response.created", "response": opened},
        {"type": "response.output_item.added", "output_index": 0, "item": begun},
    ]
    closing = [
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {**opened, "status": "completed", "output": [item], "usage": usage}},
    ]
    return Stream(*([(str(each["type"]), each) for each in part] for part in (opening, deltas, closing)))


# --- OpenAI's Chat Completions


def completion_stream(turn: Turn) -> Stream:
    whole = {"id": f"chatcmpl-{turn.number}", "object": "chat.completion.chunk", "created": 1, "model": turn.model}

    def chunk(delta: Document, reason: str | None = None) -> Event:
        return "", {**whole, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

    body = [chunk({"content": piece}) for piece in turn.pieces]
    if turn.tool:
        function = {"name": turn.tool, "arguments": json.dumps(dict(turn.arguments))}
        call = {"index": 0, "id": f"call_{turn.number}", "type": "function", "function": function}
        body = [chunk({"tool_calls": [call]})]
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    closing: list[Event] = [
        chunk({}, "tool_calls" if turn.tool else "stop"),
        ("", {**whole, "choices": [], "usage": usage}),
        ("", "[DONE]"),
    ]
    return Stream([chunk({"role": "assistant", "content": ""})], body, closing)


# --- Google


def content(turn: Turn) -> Document:
    """The whole answer of Gemini's API."""
    return _content(turn, _part(turn, turn.text), "STOP")


def content_stream(turn: Turn) -> Stream:
    pieces = [turn.text] if turn.tool else turn.pieces
    body: list[Event] = [("", _content(turn, _part(turn, piece), None)) for piece in pieces]
    return Stream([], body, [("", _content(turn, {"text": ""}, "STOP"))])


def _part(turn: Turn, text: str) -> Document:
    if not turn.tool:
        return {"text": text}
    return {"functionCall": {"name": turn.tool, "args": dict(turn.arguments), "id": f"call_{turn.number}"}}


def _content(turn: Turn, part: Document, reason: str | None) -> Document:
    candidate: Document = {"content": {"role": "model", "parts": [part]}, "index": 0}
    if reason:
        candidate["finishReason"] = reason
    usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": turn.model}
