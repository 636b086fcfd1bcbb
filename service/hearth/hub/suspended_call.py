"""Call of a modern client on a legacy server that asks something: the shell around the machine in `mcp.suspended`."""

import asyncio
import os
from collections.abc import Callable, Mapping
from time import monotonic

from hearth.errors import HearthError, MessageError, Refused
from hearth.hub.calls import Call
from hearth.hub.input_required import SuspendedCalls
from hearth.hub.server_messages import calls_of
from hearth.mcp import capabilities, messages, questions, request_state, suspended, translate, versions
from hearth.mcp.questions import Question
from hearth.mcp.suspended import Suspended
from hearth.upstreams.connection import Connection
from hearth.wire import json, values
from hearth.wire.values import RawBytes

# Visited URLs may be complete without a notice: the reference server never sends one. Half of the minute after which
# the TypeScript clients give up a call.
VISIT_SECONDS = 30.0

Payload = json.Message | HearthError


class MissingCapability(MessageError):
    """Error for a capability that the server needs and the client did not declare."""

    def __init__(self, reason: str, question: Question) -> None:
        super().__init__(reason, versions.MISSING_CAPABILITY)
        self.data = {
            "requiredCapabilities": capabilities.required(question.method, values.members(json.Raw(question.params)))
        }


class SuspendedCall:
    """Suspended call: the server's waiter in the place of the client's request, which comes and goes."""

    def __init__(self, parking: SuspendedCalls, call: Call, patience: float) -> None:
        assert call.attempt is not None
        self.session = call.session
        self.call: Call | None = call
        self.token = os.urandom(12).hex()
        self._suspended_calls = parking
        # Attempt as sent to the server: every request of the client that resumes the call gets it.
        self._attempt = call.attempt._replace(plain=False)
        self._connection = call.attempt.connection
        self._number = call.attempt.id
        self._method = call.method
        self._suspended_at = 0.0
        # Digest of what a retry must have in common with the call.
        self._digest = request_state.digest(call.method, call.request.params)
        self._machine: Suspended[Payload] = Suspended(patience, _problem_for(call))
        self._timer: asyncio.TimerHandle | None = None
        # For each open question: the callback for its end, and the one that puts it on another call.
        self._settled: dict[bytes, Callable[[], object]] = {}
        self._elsewhere: dict[bytes, Callable[[], None]] = {}
        # Questions of the last round that were open when the server's call ended: id and method by their keys.
        self._left: dict[str, tuple[bytes, str]] = {}
        call.suspend(self)

    # --- from the server

    def answered(self, message: json.Message) -> None:
        """Take the end of the server's call."""
        urls = questions.url_elicitations(values.members(message.fields.get("error")))
        asked = self._machine.asked()
        if urls:
            self._perform(self._machine.demanded(urls, monotonic()))
        else:
            self._perform(self._machine.finished(message))
        if next(calls_of(self.session, self._connection), None):
            self._leave_questions(asked)

    def _leave_questions(self, asked: dict[str, tuple[bytes, str]]) -> None:
        """Put questions that are still open on another call of the client, for which they were.

        A question that the client was already shown is kept for its next request.
        """
        self._left = asked if self._machine.state is suspended.SuspendedState.FINISHED else {}
        left = {id for id, _ in self._left.values()}
        for id in [id for id in self._settled if id not in left]:
            self._ask_elsewhere(id)

    def failed(self, problem: HearthError) -> None:
        """Take the failure of the server's call: the server is gone."""
        self._perform(self._machine.finished(problem))

    def progressed(self, params: json.Fields) -> None:
        """Forward progress to the client while it is attached."""
        if self.call:
            self.call.progressed(params)

    def question(
        self, message: json.Message, settled: Callable[[], object], elsewhere: Callable[[], None] = lambda: None
    ) -> None:
        """Take a question of the server; `settled` is called when it has its answer, or needs none.

        `elsewhere` puts the question on another call of the client, if this one has ended without it.
        """
        assert message.id is not None and message.method is not None
        self._settled[message.id] = settled
        self._elsewhere[message.id] = elsewhere
        asked = Question(message.method, message.params or b"{}")
        self._perform(self._machine.question(message.id, asked, monotonic()))

    def demanded(self, urls: list[Question]) -> None:
        """Take the server's demand that URLs are visited before the call."""
        self._perform(self._machine.demanded(urls, monotonic()))

    def withdrawn(self, id: bytes) -> None:
        """Take the server's withdrawal of a question."""
        self._settle(id)
        self._perform(self._machine.withdrawn(id))

    def is_on(self, connection: Connection | None) -> bool:
        """Tell whether the call was sent on that connection."""
        return self._connection is connection

    def completed(self, elicitation: str) -> None:
        """Take the server's notice that an elicitation by URL is complete."""
        self._perform(self._machine.completed(elicitation))

    def stop_waiting_for_the_gone(self) -> None:
        """Stop waiting for visits if the server has ended: no notice will come, and its successor can be called."""
        if self._attempt.instance.connection is not self._connection:
            self._waited_long()

    # --- from the client

    def retry(self, call: Call, round: int, params: json.Fields) -> None:
        """Attach a retry of the client. Raises StateRefused or MessageError, in which case the call is not attached."""
        instructions = self._machine.retry(round, questions.responses(params), monotonic(), _problem_for(call))
        # Time spent suspended does not count.
        self._attempt = self._attempt._replace(started=self._attempt.started + monotonic() - self._suspended_at)
        call.resume(self, self._attempt)
        self.call = call
        self._suspended_calls.attached(call)
        self._answer_left(questions.responses(params))
        if self._machine.state is suspended.SuspendedState.WAITING:
            # Once: further elicitations that are completed in the meantime give it no more time.
            self._set_timer(VISIT_SECONDS, self._waited_long)
        self._perform(instructions)
        self.stop_waiting_for_the_gone()

    def cancelled(self) -> None:
        """Cancel the call, which the client no longer wants."""
        self.call = None
        self._perform(self._machine.cancelled())
        self._end()

    # --- instructions of the machine

    def _perform(self, instructions: list[suspended.Instruction[Payload]]) -> None:
        for instruction in instructions:
            match instruction:
                case suspended.Park():
                    self._park(instruction)
                case suspended.Deliver():
                    self._deliver(instruction)
                case suspended.Refuse(id, reason):
                    self._settle(id)
                    self._connection.answer(messages.error(id, versions.INTERNAL_ERROR, reason), self._number)
                case suspended.Answer(payload):
                    self._answer(payload)
                case suspended.Fail(reason, missing):
                    if call := self._end():
                        call.failed(MissingCapability(reason, missing) if missing else Refused(reason))
                case suspended.CallAgain():
                    if call := self._end():
                        call.handler.call_again(call)
                case suspended.Cancel():
                    self._connection.cancel(self._number, whose=self.session.id)

    def _park(self, instruction: suspended.Park) -> None:
        call, self.call = self.call, None
        self._suspended_at = monotonic()
        self._suspended_calls.keep(self)
        self._attempt.instance.pins.add(self)
        seal = self._suspended_calls.seal.seal(
            f"{self.token}.{instruction.round}", self.session.id, self._method, self._digest, instruction.expires
        )
        self._set_timer(instruction.expires - monotonic(), self._expire)
        if call:
            result = questions.required_result(instruction.questions, seal, translate.SERVER_INFO)
            call.close(messages.result(call.id, result))

    def _deliver(self, instruction: suspended.Deliver) -> None:
        version = self._attempt.instance.catalog.version if self._attempt.instance.catalog else versions.NEWEST_LEGACY
        try:
            result = questions.legacy_result(instruction.method, instruction.result, version)
        except HearthError as problem:
            payload = messages.failure(instruction.id, problem)
        else:
            payload = messages.result(instruction.id, result)
        self._settle(instruction.id)
        self._connection.answer(payload, self._number)

    def _settle(self, id: bytes) -> None:
        self._elsewhere.pop(id, None)
        settled = self._settled.pop(id, None)
        if settled:
            settled()

    def _ask_elsewhere(self, id: bytes) -> None:
        """Put a question on another call, because the server's call has ended without waiting for its answer."""
        elsewhere = self._elsewhere.get(id)
        self._settle(id)
        if elsewhere:
            elsewhere()

    def _answer_left(self, responses: Mapping[str, RawBytes]) -> None:
        """Deliver the client's answers to questions that were still open when the server's call ended."""
        left, self._left = self._left, {}
        for key, (id, method) in left.items():
            if id not in self._settled:
                continue
            try:
                questions.check_result(method, responses[key])
            except (KeyError, MessageError):
                self._ask_elsewhere(id)
            else:
                self._deliver(suspended.Deliver(id, method, bytes(responses[key])))

    def _answer(self, payload: Payload) -> None:
        call = self._end()
        if call is None:
            return
        call.suspend(None)
        if isinstance(payload, HearthError):
            call.failed(payload)
        else:
            call.answered(payload)

    def _end(self) -> Call | None:
        call, self.call = self.call, None
        left, self._left = self._left, {}
        for id, _ in left.values():
            self._ask_elsewhere(id)
        for id in list(self._settled):
            self._settle(id)
        self._suspended_calls.remove(self)
        self._attempt.instance.pins.discard(self)
        if self._timer:
            self._timer.cancel()
        return call

    # --- timers

    def _set_timer(self, seconds: float, act: Callable[[], None]) -> None:
        if self._timer:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(max(0.0, seconds), act)

    def _expire(self) -> None:
        # A little later than the promised time: clocks and timers round differently.
        self._perform(self._machine.expired(max(monotonic(), self._machine.expires)))
        if self._machine.state is suspended.SuspendedState.DONE:
            self._end()

    def _waited_long(self) -> None:
        self._perform(self._machine.waited_long())


def _problem_for(call: Call) -> Callable[[Question], str | None]:
    declared = values.members(call.declared)
    return lambda question: capabilities.problem(
        question.method, values.members(question.params), declared, versions.NEWEST_MODERN
    )
