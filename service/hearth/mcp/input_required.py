"""Format of `input_required`: a modern server's result that asks the client, and the repeated call with the answers.

Also the error by which a legacy server demands that URLs are visited first. Does not know who asks whom, and when; the
wording of questions in other revisions is in `client_requests`.
"""

from collections.abc import Mapping
from typing import NamedTuple

from hearth.errors import MessageError, UpstreamError
from hearth.mcp import versions
from hearth.mcp.capabilities import ELICITATION, ROOTS, URL_MODE
from hearth.mcp.client_requests import METHODS, Question, is_object
from hearth.mcp.translate import INPUT_REQUIRED
from hearth.wire import json, values
from hearth.wire.values import Members, RawBytes

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
    if params is None or not is_object(params):
        raise UpstreamError(f"the server requires input {key!r} by {method} without params")
    return Question(method, bytes(params))


def responses(params: json.Fields) -> dict[str, RawBytes]:
    """Return the answers that a retry brings; empty if there are none. Raises MessageError (-32602)."""
    raw = _present(params, "inputResponses")
    if raw is None:
        return {}
    if not is_object(raw):
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
