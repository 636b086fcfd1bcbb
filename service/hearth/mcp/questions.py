"""Questions of servers to clients, and their answers, in the wording of each revision. Does not know who asks whom.

Anything that the other side's revision does not have is dropped if nothing is lost, reworded if that is possible, and
refused with a sentence otherwise. Payloads stay raw where nothing changes.

A legacy server sends a request. A modern one answers a call with `input_required`, and the client makes the call again
with the answers. An error by which a legacy server demands that URLs are visited first is a third form.
"""

from collections.abc import Mapping
from typing import NamedTuple

from hearth.errors import MessageError, Refused, UpstreamError
from hearth.mcp import versions
from hearth.mcp.capabilities import (
    ELICITATION,
    NEWER_QUESTIONS_SINCE,
    ROOTS,
    SAMPLING,
    URL_MODE,
    elicitation_mode,
    wants_tools,
)
from hearth.mcp.translate import INPUT_REQUIRED
from hearth.wire import json, values
from hearth.wire.values import Members, RawBytes

METHODS = frozenset({ROOTS, SAMPLING, ELICITATION})
CANCELLED_ELICITATION = b'{"action":"cancel"}'
_ACTIONS = frozenset({"accept", "decline", "cancel"})
# The token belongs to one conversation, and no client reports progress on an input request. Tasks are not offered.
_DROPPED_META = ("progressToken", "io.modelcontextprotocol/related-task")
# Content that one message may hold before sampling had tools.
_OLD_CONTENT_SINCE = {"text": "2024-11-05", "image": "2024-11-05", "audio": "2025-03-26"}


class Question(NamedTuple):
    """Request to a client without its id. `params` is a raw object."""

    method: str
    params: bytes


def modern(question: Question) -> Question:
    """Return a legacy server's question as an input request. Raises Refused for what no client can be asked for."""
    params = _checked_params(question)
    params.pop("elicitationId", None)
    return Question(question.method, json.join(params))


def legacy(question: Question, version: str, elicitation_id: str | None = None) -> Question:
    """Return a question as a client of that legacy revision takes it. Raises Refused for what cannot be put to it.

    `elicitation_id` is for a URL that came without one.
    """
    params = _checked_params(question)
    if question.method == ELICITATION:
        params = _legacy_elicitation(params, version, elicitation_id)
    elif question.method == SAMPLING and version < NEWER_QUESTIONS_SINCE:
        params = _old_sampling(params, version)
    return Question(question.method, json.join(params))


def _checked_params(question: Question) -> Members:
    """Return the params without the parts that concern only Hearth and the server that asks. Raises Refused."""
    if question.method not in METHODS:
        raise Refused(f"{question.method} is nothing that a client can be asked for")
    params: Members = {**json.split(question.params)}
    # A receiver that has declared no tasks ignores the request for one (2025-11-25, tasks).
    params.pop("task", None)
    if "_meta" in params:
        meta = {key: value for key, value in values.members(params["_meta"]).items() if key not in _DROPPED_META}
        params["_meta"] = json.join(meta)
        if not meta:
            del params["_meta"]
    return params


def _legacy_elicitation(params: Members, version: str, elicitation_id: str | None) -> Members:
    if version < versions.ELICITATION_SINCE:
        raise Refused(f"the client speaks MCP {version}, which has no elicitation")
    by_url = elicitation_mode(params) == URL_MODE
    if version >= NEWER_QUESTIONS_SINCE:
        if by_url and elicitation_id is not None:
            params.setdefault("elicitationId", json.dumps(elicitation_id))
        return params
    if by_url:
        raise Refused(f"the client speaks MCP {version}, which has no elicitation by URL")
    params.pop("mode", None)
    if "requestedSchema" in params:
        params["requestedSchema"] = _old_schema(params["requestedSchema"], version)
    return params


def _old_schema(raw: RawBytes, version: str) -> bytes:
    schema: Members = {**values.members(raw)}
    schema.pop("$schema", None)
    properties = values.members(schema.get("properties"))
    schema["properties"] = json.join({name: _old_property(name, item, version) for name, item in properties.items()})
    return json.join(schema)


def _old_property(name: str, raw: RawBytes, version: str) -> RawBytes:
    fields: Members = {**values.members(raw)}
    if values.text(fields.get("type")) == "array":
        raise Refused(f"{name!r} asks for several choices at once, which MCP {version} has no form for")
    if "oneOf" not in fields:
        return raw
    options = [values.members(option) for option in values.elements(fields.pop("oneOf"))]
    empty = json.Raw(b'""')
    fields["enum"] = values.array(option.get("const", empty) for option in options)
    fields["enumNames"] = values.array(option.get("title", option.get("const", empty)) for option in options)
    return json.join(fields)


def _old_sampling(params: Members, version: str) -> Members:
    if wants_tools(params):
        raise Refused(f"the client speaks MCP {version}, which has no tools in sampling")
    messages: list[RawBytes] = []
    for raw in values.elements(params.get("messages")):
        message = values.members(raw)
        # Older revisions have one block per message; several messages of one role say the same.
        for block in _blocks(message.get("content")):
            _check_content(block, version)
            messages.append(json.join({**message, "content": block}))
    params["messages"] = values.array(messages)
    return params


def modern_result(method: str, result: RawBytes) -> bytes:
    """Return a legacy client's result as an input response. Raises MessageError if it is no result of that method."""
    check_result(method, result)
    return bytes(result)


def legacy_result(method: str, result: RawBytes, version: str) -> bytes:
    """Return a client's result as a server of that legacy revision takes it.

    Raises MessageError if it is no result of that method, Refused if that revision cannot express it.
    """
    check_result(method, result)
    fields: Members = {**json.split(result)}
    fields.pop("resultType", None)
    if method == SAMPLING and version < NEWER_QUESTIONS_SINCE:
        fields["content"] = _one_block(_blocks(fields["content"]), version)
    return json.join(fields)


def check_result(method: str, result: RawBytes) -> None:
    """Raise MessageError (-32602) unless this can be a client's result for that kind of question."""
    fields = values.members(result)
    if method == ELICITATION:
        good = values.text(fields.get("action")) in _ACTIONS
    elif method == ROOTS:
        good = bytes(fields.get("roots", b"")).lstrip()[:1] == b"["
    else:
        good = bytes(fields.get("content", b"")).lstrip()[:1] in (b"{", b"[")
        good = good and values.text(fields.get("role")) is not None
    if not good:
        raise MessageError(f"this is no result of {method}", versions.INVALID_PARAMS)


def _one_block(blocks: list[RawBytes], version: str) -> RawBytes:
    for block in blocks:
        _check_content(block, version)
    if len(blocks) == 1:
        return blocks[0]
    texts = [values.text(values.members(block).get("text")) for block in blocks]
    if None in texts:
        raise Refused(f"the answer has several parts, which MCP {version} has no room for")
    return json.dumps({"type": "text", "text": "\n".join(text for text in texts if text)})


def _blocks(content: RawBytes | None) -> list[RawBytes]:
    """Return the blocks of a message, which may be a single one without an array around it."""
    if values.is_object(content):
        return [content]
    return list(values.elements(content))


def _check_content(block: RawBytes, version: str) -> None:
    kind = values.text(values.members(block).get("type")) or "nameless"
    if version < _OLD_CONTENT_SINCE.get(kind, NEWER_QUESTIONS_SINCE):
        raise Refused(f"MCP {version} has no {kind} content in sampling")


# --- input_required

# Methods that may be answered with it; no others can be called again with answers.
MAY_REQUIRE = frozenset({"tools/call", "prompts/get", "resources/read"})
_RETRY_KEYS = ("inputResponses", "requestState")


class Required(NamedTuple):
    """Contents of an `input_required` result. `state` is the raw JSON string to echo byte for byte."""

    questions: dict[str, Question]
    state: bytes | None


def required_result(questions: Mapping[str, Question], state: str | None, server_info: RawBytes) -> bytes:
    """Return the result that asks a modern client. At least one of questions and state must be given."""
    assert questions or state is not None
    fields: Members = {"resultType": json.dumps(INPUT_REQUIRED)}
    if questions:
        fields["inputRequests"] = json.join({key: _request(question) for key, question in questions.items()})
    if state is not None:
        fields["requestState"] = json.dumps(state)
    fields["_meta"] = json.join({versions.SERVER_INFO_KEY: server_info})
    return json.join(fields)


def _request(question: Question) -> bytes:
    return json.join({"method": json.dumps(question.method), "params": question.params})


def parse_required(result: json.Fields) -> Required:
    """Parse a modern server's questions and state. Raises UpstreamError for anything that the schema does not allow."""
    asked, state = _present(result, "inputRequests"), _present(result, "requestState")
    if asked is None and state is None:
        raise UpstreamError("the server requires input and says neither which nor to call again")
    if state is not None and values.text(state) is None:
        raise UpstreamError("the server requires input with a requestState that is not a string")
    try:
        requests = json.split(asked) if asked is not None else {}
    except MessageError as exc:
        raise UpstreamError("the server requires input in inputRequests that are not an object") from exc
    return Required({key: _parsed(key, raw) for key, raw in requests.items()}, None if state is None else bytes(state))


def _parsed(key: str, raw: RawBytes) -> Question:
    request = values.members(raw)
    method = values.text(request.get("method"))
    if method not in METHODS:
        raise UpstreamError(f"the server requires input {key!r} by {method!r}, which no client can be asked for")
    params = _present(request, "params")
    if params is None and method == ROOTS:
        return Question(method, b"{}")
    if not values.is_object(params):
        raise UpstreamError(f"the server requires input {key!r} by {method} without params")
    return Question(method, bytes(params))


def responses(params: json.Fields) -> dict[str, RawBytes]:
    """Return the answers that a retry brings; empty if there are none. Raises MessageError (-32602)."""
    raw = _present(params, "inputResponses")
    if raw is None:
        return {}
    if not values.is_object(raw):
        raise MessageError("inputResponses must be an object", versions.INVALID_PARAMS)
    return {key: bytes(value) for key, value in json.split(raw).items()}


def without_retry(params: json.Fields) -> json.Fields:
    """Return the params without the members that make a call a retry."""
    return {key: value for key, value in params.items() if key not in _RETRY_KEYS}


def retry_params(params: json.Fields, answers: Mapping[str, RawBytes], state: RawBytes | None) -> Members:
    """Return the params of a call that is made again with answers; they have a state exactly if one was given."""
    sent: Members = {**without_retry(params)}
    if answers:
        sent["inputResponses"] = json.join(answers)
    if state is not None:
        sent["requestState"] = state
    return sent


def url_elicitations(error: json.Fields) -> list[Question] | None:
    """Return the elicitations by URL that a legacy server demands before the call; None for any other error."""
    if values.integer(error.get("code")) != versions.URL_ELICITATION_REQUIRED:
        return None
    demanded = values.members(error.get("data")).get("elicitations")
    try:
        found = [_demanded(raw) for raw in values.elements(demanded)]
    except MessageError:
        return None
    usable = [question for question in found if question is not None]
    return usable if usable and len(usable) == len(found) else None


def _demanded(raw: RawBytes) -> Question | None:
    params = values.members(raw)
    if "url" not in params or "message" not in params:
        return None
    # Only URLs can be demanded this way, so some servers leave the mode out.
    return Question(ELICITATION, json.join({**params, "mode": b'"%b"' % URL_MODE.encode()}))


def elicitation_id(params: json.Fields) -> str | None:
    """Return the id by which `notifications/elicitation/complete` of a legacy server refers to a URL elicitation."""
    return values.text(params.get("elicitationId"))


def _present(fields: json.Fields, name: str) -> json.Raw | None:
    """Return the value; None if it is missing or null."""
    raw = fields.get(name)
    return None if raw is None or bytes(raw) == b"null" else raw
