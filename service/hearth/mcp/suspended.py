"""State machine of a modern client's call that a legacy server answers with questions, suspended in between.

The legacy server asks in the middle of its call and waits; the modern client gets `input_required` instead and
calls again. In between the call is suspended: no request is attached to it. Each round of questions is answered once.

| state    | event                                     | becomes  | instructions                                  |
| -------- | ----------------------------------------- | -------- | --------------------------------------------- |
| RUNNING  | question that the client takes            | ASKING   | Park                                          |
| RUNNING  | question that it does not take            | RUNNING  | Refuse                                        |
| RUNNING  | demanded: URLs must be visited (-32042)   | VISITING | Park                                          |
| RUNNING  | demanded, and the client takes no URLs    | DONE     | Fail                                          |
| RUNNING  | finished                                  | DONE     | Answer                                        |
| RUNNING  | cancelled                                 | DONE     | Cancel                                        |
| ASKING   | question                                  | ASKING   | none: it is for the next round                |
| ASKING   | withdrawn                                 | ASKING   | none: its answer is no longer wanted          |
| ASKING   | demanded                                  | VISITING | none: the retry is asked to visit them        |
| ASKING   | finished                                  | FINISHED | none: it is kept                              |
| ASKING   | retry with every answer, none to ask      | RUNNING  | Deliver each                                  |
| ASKING   | retry, something missing or gathered      | ASKING   | Deliver what is given, Park with the rest     |
| ASKING   | expired, cancelled                        | DONE     | Deliver "cancel" or Refuse each, then Cancel  |
| FINISHED | retry                                     | DONE     | Answer                                        |
| FINISHED | expired, cancelled                        | DONE     | none                                          |
| VISITING | completed                                 | VISITING | none: it need not be waited for               |
| VISITING | retry, something missing                  | VISITING | Park with the rest                            |
| VISITING | retry, one declined                       | DONE     | Fail                                          |
| VISITING | retry, every URL visited                  | WAITING  | none                                          |
| VISITING | … and every one completed                 | RUNNING  | CallAgain                                     |
| VISITING | expired, cancelled                        | DONE     | none                                          |
| WAITING  | the last one completed, or waited long    | RUNNING  | CallAgain                                     |
| WAITING  | cancelled                                 | DONE     | none                                          |

A client is attached in RUNNING and WAITING. A question in any other state is refused, a retry raises StateRefused, and
every other event is late and changes nothing. The attached request's capabilities decide which questions it takes. A
retry may bring others than the call had: a question that it does not take is refused to the server, or fails the call.

The shell performs the instructions in order, and owns the clock, the seal of the tokens and the wires.
"""

import enum
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from hearth.errors import HearthError, MessageError
from hearth.mcp import questions, request_state
from hearth.mcp.capabilities import ELICITATION
from hearth.mcp.questions import Question
from hearth.mcp.request_state import StateRefused
from hearth.wire import json, values
from hearth.wire.values import RawBytes

Payload = TypeVar("Payload")
# Returns what the attached client lacks to be asked that, as a sentence; None if it can be asked.
Problem = Callable[[Question], str | None]

_OVER = "the call that this belongs to is over"
_UNANSWERED = "nobody answered: the call was given up"
_DECLINED = "the server demands that a URL is visited first, which was declined"


class SuspendedState(enum.Enum):
    """State of a call."""

    RUNNING = "running"
    ASKING = "asking"
    FINISHED = "finished"
    VISITING = "visiting"
    WAITING = "waiting"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Park:
    """Instruction to answer the attached request with `input_required`; this round's state is valid until `expires`."""

    round: int
    questions: dict[str, Question]
    expires: float


@dataclass(frozen=True, slots=True)
class Deliver:
    """Instruction to answer the server's question with the client's result, put into the server's revision."""

    id: bytes
    method: str
    result: bytes


@dataclass(frozen=True, slots=True)
class Refuse:
    """Instruction to answer the server's question with an error."""

    id: bytes
    reason: str


@dataclass(frozen=True, slots=True)
class Answer(Generic[Payload]):
    """Instruction to answer the attached request with the outcome of the server's call."""

    payload: Payload


@dataclass(frozen=True, slots=True)
class Fail:
    """Instruction to answer the attached request with an error; `missing` is the question that it cannot take."""

    reason: str
    missing: Question | None = None


@dataclass(frozen=True, slots=True)
class CallAgain:
    """Instruction to make the server's call again, for the attached request."""


@dataclass(frozen=True, slots=True)
class Cancel:
    """Instruction to cancel the server's call."""


Instruction = Park | Deliver | Refuse | Answer[Payload] | Fail | CallAgain | Cancel


@dataclass(frozen=True, slots=True)
class _Open:
    """Question that waits for an answer. `id` is the server's; `elicitation` is a demanded URL's id, if any."""

    id: bytes | None
    elicitation: str | None
    question: Question


class Suspended(Generic[Payload]):
    """Call of a modern client on a legacy server. `patience` is how long, in seconds, a round may take."""

    def __init__(self, patience: float, problem: Problem) -> None:
        self.state = SuspendedState.RUNNING
        self.round = 0
        self.expires = 0.0
        self._patience = patience
        self._problem = problem
        self._count = 0
        # Both by the key of the question in `inputRequests`: the questions of this round, and those that came since.
        self._asked: dict[str, _Open] = {}
        self._gathered: dict[str, _Open] = {}
        self._kept: list[Payload] = []
        # Elicitations by URL that the server demanded and has not reported as complete.
        self._incomplete: set[str] = set()

    @property
    def attached(self) -> bool:
        """Whether a request of the client waits for this call."""
        return self.state in (SuspendedState.RUNNING, SuspendedState.WAITING)

    def asked(self) -> dict[str, tuple[bytes, str]]:
        """Return the questions of this round by their keys: the server's id and the method of each."""
        return {key: (each.id, each.question.method) for key, each in self._asked.items() if each.id is not None}

    # Events from the server.

    def question(self, id: bytes, question: Question, now: float) -> list[Instruction[Payload]]:
        """Take a question of the server, in the wording of its own revision."""
        if self.state not in (SuspendedState.RUNNING, SuspendedState.ASKING):
            return [Refuse(id, _OVER)]
        try:
            asked = questions.modern(question)
        except HearthError as exc:
            return [Refuse(id, str(exc))]
        self._gathered[self._key()] = _Open(id, None, asked)
        return [] if self.state is SuspendedState.ASKING else self._next_round(now)

    def withdrawn(self, id: bytes) -> list[Instruction[Payload]]:
        """Take the server's withdrawal of a question."""
        for held in (self._asked, self._gathered):
            for key in [key for key, each in held.items() if each.id == id]:
                del held[key]
        return []

    def demanded(self, urls: Iterable[Question], now: float) -> list[Instruction[Payload]]:
        """Take the end of the server's call with the demand to visit URLs first."""
        if self.state not in (SuspendedState.RUNNING, SuspendedState.ASKING):
            return []
        self._asked.clear()
        self._gathered = {self._key(): _demanded(url) for url in urls}
        self._incomplete = {each.elicitation for each in self._gathered.values() if each.elicitation is not None}
        was_attached, self.state = self.attached, SuspendedState.VISITING
        return self._next_visits(now) if was_attached else []

    def finished(self, payload: Payload) -> list[Instruction[Payload]]:
        """Take the end of the server's call."""
        if self.state is SuspendedState.RUNNING:
            self._end()
            return [Answer(payload)]
        if self.state is SuspendedState.ASKING:
            self._asked.clear()
            self._gathered.clear()
            self._kept = [payload]
            self.state = SuspendedState.FINISHED
        return []

    def completed(self, elicitation: str) -> list[Instruction[Payload]]:
        """Take the server's notice that an elicitation by URL is complete."""
        self._incomplete.discard(elicitation)
        return self._afresh() if self.state is SuspendedState.WAITING else []

    # Events from the client.

    def retry(
        self, round: int, responses: Mapping[str, RawBytes], now: float, problem: Problem
    ) -> list[Instruction[Payload]]:
        """Take a retry of the client, and attach it unless this raises.

        Raises StateRefused for a round that was answered or has expired, MessageError for an invalid response.
        """
        if round != self.round or self.attached or self.state is SuspendedState.DONE:
            raise StateRefused(request_state.SPENT)
        if now >= self.expires:
            raise StateRefused(request_state.EXPIRED)
        if self.state is SuspendedState.FINISHED:
            return self._answer_kept()
        given = self._given(responses)
        self._problem = problem
        return self._deliver(given, now) if self.state is SuspendedState.ASKING else self._visited(given, now)

    def cancelled(self) -> list[Instruction[Payload]]:
        """Cancel the call, which the client does not want any more, or whose client has gone."""
        instructions: list[Instruction[Payload]] = []
        if self.state in (SuspendedState.RUNNING, SuspendedState.ASKING):
            instructions = [_given_up(each) for each in (self._asked | self._gathered).values() if each.id is not None]
            instructions.append(Cancel())
        self._end()
        return instructions

    # Events from the clock.

    def expired(self, now: float) -> list[Instruction[Payload]]:
        """End a round whose time is over; do nothing if it is not, or if the client has called again meanwhile."""
        if self.attached or self.state is SuspendedState.DONE or now < self.expires:
            return []
        return self.cancelled()

    def waited_long(self) -> list[Instruction[Payload]]:
        """Treat the elicitations as complete after a long wait: the notice of completion is optional."""
        if self.state is not SuspendedState.WAITING:
            return []
        self._incomplete.clear()
        return self._afresh()

    # Common parts of the events.

    def _key(self) -> str:
        self._count += 1
        return f"q{self._count}"

    def _given(self, responses: Mapping[str, RawBytes]) -> dict[str, bytes]:
        """Return the responses to the questions of this round; others are ignored. Raises MessageError."""
        given = {}
        for key, each in self._asked.items():
            if key in responses:
                try:
                    questions.check_result(each.question.method, responses[key])
                except MessageError as exc:
                    raise MessageError(f"inputResponses[{key!r}]: {exc}", exc.rpc_code) from None
                given[key] = bytes(responses[key])
        return given

    def _deliver(self, given: Mapping[str, bytes], now: float) -> list[Instruction[Payload]]:
        instructions: list[Instruction[Payload]] = []
        for key, result in given.items():
            each = self._asked.pop(key)
            assert each.id is not None
            instructions.append(Deliver(each.id, each.question.method, result))
        self.state = SuspendedState.RUNNING
        return instructions + self._next_round(now)

    def _next_round(self, now: float) -> list[Instruction[Payload]]:
        """Ask the attached client the remaining questions, if any; refuse those that it does not take."""
        instructions: list[Instruction[Payload]] = []
        pending, self._asked, self._gathered = self._asked | self._gathered, {}, {}
        for key, each in pending.items():
            reason = self._problem(each.question)
            if reason is None:
                self._asked[key] = each
            elif each.id is not None:
                instructions.append(Refuse(each.id, reason))
        if self._asked:
            self.state = SuspendedState.ASKING
            instructions.append(self._park(now))
        return instructions

    def _visited(self, given: Mapping[str, bytes], now: float) -> list[Instruction[Payload]]:
        for key, result in given.items():
            if values.text(values.members(result).get("action")) != "accept":
                self._end()
                return [Fail(_DECLINED)]
            del self._asked[key]
        if self._asked or self._gathered:
            return self._next_visits(now)
        self.state = SuspendedState.WAITING
        return self._afresh()

    def _next_visits(self, now: float) -> list[Instruction[Payload]]:
        self._asked, self._gathered = self._asked | self._gathered, {}
        for each in self._asked.values():
            reason = self._problem(each.question)
            if reason is not None:
                self._end()
                return [Fail(reason, each.question)]
        return [self._park(now)]

    def _afresh(self) -> list[Instruction[Payload]]:
        if self._incomplete:
            return []
        self.state = SuspendedState.RUNNING
        return [CallAgain()]

    def _park(self, now: float) -> Park:
        self.round += 1
        self.expires = now + self._patience
        return Park(self.round, {key: each.question for key, each in self._asked.items()}, self.expires)

    def _answer_kept(self) -> list[Instruction[Payload]]:
        payload = self._kept.pop()
        self._end()
        return [Answer(payload)]

    def _end(self) -> None:
        self.state = SuspendedState.DONE
        self._asked.clear()
        self._gathered.clear()
        self._kept.clear()


def _demanded(url: Question) -> _Open:
    return _Open(None, questions.elicitation_id(json.split(url.params)), questions.modern(url))


def _given_up(each: _Open) -> Deliver | Refuse:
    assert each.id is not None
    if each.question.method == ELICITATION:
        return Deliver(each.id, ELICITATION, questions.CANCELLED_ELICITATION)
    return Refuse(each.id, _UNANSWERED)
