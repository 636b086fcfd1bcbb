"""The table of parked calls in long random lives, in which nothing is mixed up."""

import random

import pytest

from hearth.mcp.capabilities import ELICITATION, ROOTS, SAMPLING
from hearth.mcp.questions import Question
from hearth.mcp.request_state import StateRefused
from hearth.mcp.suspended import (
    Answer,
    CallAgain,
    Cancel,
    Deliver,
    Fail,
    Instruction,
    Park,
    Refuse,
    Suspended,
    SuspendedState,
)
from hearth.wire import json, values
from unit.mcp.suspended_calls import PATIENCE, form, open_questions, url

MOVES = {
    ("question", SuspendedState.RUNNING): {SuspendedState.RUNNING, SuspendedState.ASKING},
    ("question", SuspendedState.ASKING): {SuspendedState.ASKING},
    ("demanded", SuspendedState.RUNNING): {SuspendedState.VISITING, SuspendedState.DONE},
    ("demanded", SuspendedState.ASKING): {SuspendedState.VISITING},
    ("finished", SuspendedState.RUNNING): {SuspendedState.DONE},
    ("finished", SuspendedState.ASKING): {SuspendedState.FINISHED},
    ("retry", SuspendedState.ASKING): {SuspendedState.RUNNING, SuspendedState.ASKING},
    ("retry", SuspendedState.FINISHED): {SuspendedState.DONE},
    ("retry", SuspendedState.VISITING): {
        SuspendedState.VISITING,
        SuspendedState.DONE,
        SuspendedState.WAITING,
        SuspendedState.RUNNING,
    },
    ("completed", SuspendedState.WAITING): {SuspendedState.WAITING, SuspendedState.RUNNING},
    ("waited_long", SuspendedState.WAITING): {SuspendedState.RUNNING},
    ("expired", SuspendedState.ASKING): {SuspendedState.ASKING, SuspendedState.DONE},
    ("expired", SuspendedState.FINISHED): {SuspendedState.FINISHED, SuspendedState.DONE},
    ("expired", SuspendedState.VISITING): {SuspendedState.VISITING, SuspendedState.DONE},
    **{("cancelled", state): {SuspendedState.DONE} for state in SuspendedState},
}


class Life:
    """A random life of one call, with a client and a server that keep their own books."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.now = 0.0
        self.refused_kinds: set[str] = set()
        self.call: Suspended[str] = Suspended(PATIENCE, self.problem)
        # The server's books: its call, and what each of its open questions said.
        self.call_runs = True
        self.open: dict[bytes, Question] = {}
        self.count = 0
        self.elicitations: set[str] = set()
        self.payload: str | None = None
        # The client's books: whether it waits for an answer; its last round; every round that it has used.
        self.waits = True
        self.round: Park | None = None
        self.used: list[int] = []
        self.answers: dict[str, bytes] = {}
        self.moves: set[tuple[str, SuspendedState, SuspendedState]] = set()

    def problem(self, question: Question) -> str | None:
        return "not taken" if question.method in self.refused_kinds else None

    def said(self, question: Question) -> object:
        return json.loads(values.members(question.params).get("message", b"null"))

    def question(self) -> list[Instruction[str]]:
        self.count += 1
        id, text = b"%d" % self.count, f"question {self.count}"
        sample = Question(SAMPLING, json.dumps({"messages": [], "maxTokens": 1, "message": text}))
        root = Question(ROOTS, json.dumps({"message": text}))
        question = self.chance.choice([form(text), url(f"by request {self.count}", text), sample, root])
        # A server whose call is over asks in error: it is answered at once.
        self.open[id] = question
        return self.call.question(id, question, self.now)

    def withdrawn(self) -> list[Instruction[str]]:
        if not self.open:
            return []
        id = self.chance.choice(list(self.open))
        del self.open[id]
        return self.call.withdrawn(id)

    def demanded(self) -> list[Instruction[str]]:
        if not self.call_runs:
            return []
        self.call_runs = False
        self.open.clear()
        self.elicitations = {f"e{self.count}-{number}" for number in range(self.chance.randint(1, 3))}
        return self.call.demanded([url(each, each) for each in sorted(self.elicitations)], self.now)

    def finished(self) -> list[Instruction[str]]:
        if not self.call_runs:
            return []
        self.call_runs = False
        self.open.clear()
        self.payload = f"payload {self.count}"
        return self.call.finished(self.payload)

    def completed(self) -> list[Instruction[str]]:
        return self.call.completed(self.chance.choice(sorted(self.elicitations | {"unknown"})))

    def retry(self) -> list[Instruction[str]]:
        if self.used and self.chance.random() < 0.3:
            with pytest.raises(StateRefused):
                self.call.retry(self.chance.choice(self.used), {}, self.now, self.problem)
        if self.round is None:
            return []
        self.answers = {
            key: self.answer(question) for key, question in self.round.questions.items() if self.chance.random() < 0.8
        }
        self.refused_kinds = set(self.chance.sample([ROOTS, SAMPLING, ELICITATION], self.chance.choice([0, 0, 0, 1])))
        try:
            instructions = self.call.retry(self.round.round, self.answers | {"extra": b"1"}, self.now, self.problem)
        except StateRefused:
            assert self.now >= self.round.expires or self.call.state is SuspendedState.DONE
            return []
        self.used.append(self.round.round)
        self.round, self.waits = None, True
        return instructions

    def answer(self, question: Question) -> bytes:
        """A result that says which question it is for."""
        action = "accept" if self.chance.random() < 0.9 else "decline"
        result: dict[str, object] = {"for": self.said(question)}
        if question.method == ELICITATION:
            return json.dumps({**result, "action": action})
        if question.method == ROOTS:
            return json.dumps({**result, "roots": []})
        return json.dumps({**result, "role": "assistant", "content": []})

    def cancelled(self) -> list[Instruction[str]]:
        self.waits = False
        return self.call.cancelled()

    def waited_long(self) -> list[Instruction[str]]:
        return self.call.waited_long()

    def expired(self) -> list[Instruction[str]]:
        self.now += self.chance.choice([0.0, 1.0, PATIENCE])
        return self.call.expired(self.now)

    def step(self) -> None:
        often = ["question", "retry", "completed", "finished", "withdrawn", "waited_long", "demanded"]
        event = self.chance.choice(often * 3 + ["question", "retry"] * 12 + ["expired", "cancelled"])
        before = self.call.state
        instructions = getattr(self, event)()
        after = self.call.state
        assert after is before or after in MOVES.get((event, before), set()), (event, before, after)
        self.moves.add((event, before, after))
        for instruction in instructions:
            self.perform(instruction)
        self.check()

    def perform(self, instruction: Instruction[str]) -> None:
        match instruction:
            case Deliver(id, method, result):
                question = self.open.pop(id)
                assert method == question.method
                said = values.members(result).get("for")
                if said is None:
                    assert result == b'{"action":"cancel"}'
                    assert self.call.state is SuspendedState.DONE
                else:
                    assert json.loads(said) == self.said(question)
                    assert result in self.answers.values()
            case Refuse(id, reason):
                assert reason
                del self.open[id]
            case Park(round, questions, expires):
                self.client_is_answered()
                assert round > max(self.used, default=0)
                assert expires == self.now + PATIENCE
                assert all(self.problem(question) is None for question in questions.values())
                wanted = (
                    {self.said(question) for question in self.open.values()} if self.call_runs else self.elicitations
                )
                assert {self.said(question) for question in questions.values()} <= wanted
                self.round = instruction
            case Answer(payload):
                self.client_is_answered()
                assert payload == self.payload
            case Fail():
                self.client_is_answered()
                assert not self.call_runs
            case CallAgain():
                assert self.waits
                assert not self.call_runs
                self.call_runs = True
            case Cancel():
                assert self.call_runs
                self.call_runs = False
                self.open.clear()

    def client_is_answered(self) -> None:
        assert self.waits
        self.waits = False

    def check(self) -> None:
        """Nobody is forgotten: who waits is attached, what is open is known, and nothing is left behind the end."""
        assert self.waits == self.call.attached
        assert self.call_runs == (self.call.state in (SuspendedState.RUNNING, SuspendedState.ASKING))
        if self.call.state is SuspendedState.VISITING:
            assert 0 < open_questions(self.call) <= len(self.elicitations)
        else:
            assert open_questions(self.call) == len(self.open)
        if self.call.state is not SuspendedState.ASKING:
            assert not self.open


def test_in_random_lives_nobody_is_forgotten_or_answered_twice_or_with_another_s_answer() -> None:
    moves: set[tuple[str, SuspendedState, SuspendedState]] = set()
    for seed in range(3000):
        life = Life(seed)
        for _ in range(40):
            life.step()
        moves |= life.moves
    assert {(event, before, after) for (event, before), states in MOVES.items() for after in states} <= moves
