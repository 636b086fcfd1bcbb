"""Calls that corners have in common."""

from support.conformance.clients import Client, Message
from support.conformance.edge_cases import Corner, act, outcome
from support.conformance.revisions import LEGACY
from support.puppets.server import Puppet

INVALID_PARAMS = -32602
RESOURCE_NOT_FOUND = -32002
NEWEST_LEGACY = LEGACY[-1]
FORM = {
    "message": "Who are you?",
    "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
}
PAGE = {"mode": "url", "message": "Go there.", "url": "https://test.example/consent", "elicitationId": "e-1"}
ANSWER = {"action": "accept", "content": {"name": "somebody: Who are you?"}}


def heard(corner: Corner, method: str | None) -> Message:
    """What the only server is told next by that method, or as an answer."""
    (server,) = corner.servers
    return server.next(method)[1]


def parked(corner: Corner, client: Client) -> tuple[Puppet, Message, Message]:
    """A modern client's call that waits for an answer: the puppet, its call, and the wish for input."""
    (server,) = corner.servers
    id = act(client)
    puppet, call = server.next("tools/call")
    puppet.ask("q-1", "elicitation/create", **FORM)
    result = outcome(client, id).result
    assert result["resultType"] == "input_required"
    return puppet, call, result
