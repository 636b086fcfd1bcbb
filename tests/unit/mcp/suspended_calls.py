"""Parked calls in each of their states."""

from hearth.mcp.capabilities import ELICITATION, ROOTS, SAMPLING
from hearth.mcp.questions import Question
from hearth.mcp.suspended import Instruction, Suspended, SuspendedState
from hearth.wire import json

PATIENCE = 10.0
ACCEPT, DECLINE = b'{"action":"accept","content":{}}', b'{"action":"decline"}'
ROOT_LIST = b'{"roots":[]}'
SAMPLED = b'{"role":"assistant","content":{"type":"text","text":"x"},"model":"m"}'
ROOT = Question(ROOTS, b"{}")
SAMPLE = Question(SAMPLING, b'{"messages":[],"maxTokens":1}')


def form(message: str = "m") -> Question:
    return Question(ELICITATION, json.dumps({"message": message, "requestedSchema": {}}))


def url(elicitation: str | None = "e", message: str = "m") -> Question:
    params = {"mode": "url", "message": message, "url": "https://example.org"}
    return Question(ELICITATION, json.dumps(params | ({"elicitationId": elicitation} if elicitation else {})))


def takes_all(question: Question) -> str | None:
    return None


def takes_none(question: Question) -> str | None:
    return f"no {question.method}"


def running() -> Suspended[str]:
    return Suspended(PATIENCE, takes_all)


def asking(*questions: Question) -> Suspended[str]:
    """Parked with the first question asked and the others gathered; their ids are 1, 2, …"""
    call = running()
    for number, question in enumerate(questions or [form()], 1):
        call.question(b"%d" % number, question, 0.0)
    assert call.state is SuspendedState.ASKING
    return call


def visiting(*urls: Question) -> Suspended[str]:
    call = running()
    call.demanded(urls or [url()], 0.0)
    assert call.state is SuspendedState.VISITING
    return call


def waiting() -> Suspended[str]:
    call = visiting()
    assert retry(call, q1=ACCEPT) == []
    assert call.state is SuspendedState.WAITING
    return call


def finished() -> Suspended[str]:
    call = asking()
    call.finished("kept")
    assert call.state is SuspendedState.FINISHED
    return call


def done() -> Suspended[str]:
    call = running()
    call.finished("x")
    assert call.state is SuspendedState.DONE
    return call


def open_questions(call: Suspended[str]) -> int:
    """Number of questions that wait for the client, in this round or the next."""
    return len(call._asked) + len(call._gathered)


def retry(call: Suspended[str], **responses: bytes) -> list[Instruction[str]]:
    return call.retry(call.round, responses, 1.0, takes_all)
