"""Calls of modern clients in the midst of which a legacy server has asked something."""

from typing import Any

from support.puppets.stage import QUESTIONS, Actor, Errand, Message, ModernClient, Puppet

# Longer than a call needs on a busy machine, and short enough to wait for.
CEILING_SECONDS = 2.5
LOG_LEVEL = "io.modelcontextprotocol/logLevel"


def parked(
    actor: Actor, client: ModernClient, question: str = "elicitation/create", **params: Any
) -> tuple[Errand, Puppet, Message]:
    """A call in the midst of which the server has asked `q-1`; the client knows."""
    errand = Errand(client, **params)
    puppet, call = actor.next(errand.method)
    puppet.ask("q-1", question, **QUESTIONS[question])
    assert [asked["method"] for asked in errand.wishes().values()] == [question]
    return errand, puppet, call
