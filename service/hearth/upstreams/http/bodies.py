"""The messages in a body or in an event's data: one, or an array of them as revision 2025-03-26 has it. Pure."""

from hearth.errors import MessageError
from hearth.mcp import messages
from hearth.wire import json, values
from hearth.wire.lines import Item

_SPACE = b" \t\r\n"


def items(data: bytes) -> list[Item]:
    """Every message, in order; an error stands for what is none."""
    try:
        if data.lstrip(_SPACE)[:1] == b"[":
            return list(json.parse_batch(data).items)
        return [json.parse(data)]
    except MessageError as exc:
        return [exc]


def error_in(data: bytes) -> json.Raw | None:
    """The JSON-RPC error object in the body of a refusal, whatever the id beside it; None if there is none.

    Servers that did not get as far as the id answer with null, with a name of their own, or with no id at all.
    """
    fields = values.members(data)
    error = values.members(fields.get("error"))
    return fields["error"] if values.integer(error.get("code")) is not None else None


def answers_to(number: int, data: bytes) -> bool:
    """Whether the body is an answer to just that request."""
    return bytes(values.members(data).get("id", b"")) == b"%d" % number


def refusal(number: int, code: int, text: str) -> json.Message:
    """The answer that a server would have given, had it known how."""
    return json.parse(messages.error(b"%d" % number, code, text))


def relabelled(number: int, error: json.Raw) -> json.Message:
    """An error as the answer to that request."""
    return json.parse(json.one_line(messages.raw_error(b"%d" % number, error)))
