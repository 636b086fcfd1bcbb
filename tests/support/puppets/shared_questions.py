"""Clients that are all inside a call of a server that they share."""

from collections.abc import Sequence

import pytest

from support.conformance.clients import Client, Message
from support.puppets.server import Puppet, PuppetServer
from support.puppets.sharing import QUESTIONS, act

KINDS = pytest.mark.parametrize("kind", QUESTIONS)
AMBIGUOUS = "several clients share this server"

Begun = dict[str, tuple[Puppet, Message]]


def all_called(server: PuppetServer, clients: Sequence[Client]) -> tuple[list[object], Begun]:
    """Every client is inside a call: their ids, and by the client's name which puppet has which call."""
    ids = [act(client) for client in clients]
    begun: Begun = {}
    for _ in clients:
        puppet, call = server.next("tools/call")
        begun[call["params"]["arguments"]["who"]] = puppet, call
    return ids, begun


def expected_answer(client: Client, kind: str) -> Message:
    method, params = QUESTIONS[kind]
    answer = client.reply(method, params)
    assert answer is not None
    return answer
