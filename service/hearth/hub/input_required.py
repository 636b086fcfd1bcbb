"""Calls whose server asks something in the middle, where client and server are of different eras.

A legacy client on a modern server is asked, then the call is made again (`InputRequiredLoop`). A modern client's call
on a legacy server is suspended until the client calls again with its answers (`SuspendedCalls`). The behaviour of one
suspended call is in `suspended_call`, which is loaded with the first: few servers ask.
"""

import asyncio
import os
from collections.abc import Callable, Mapping
from time import monotonic
from typing import TYPE_CHECKING

from hearth.errors import HearthError, MessageError, Refused, UpstreamError
from hearth.hub.bindings import Binding
from hearth.hub.calls import Call
from hearth.hub.client_requests import ClientRequests
from hearth.hub.dispatcher import guarded
from hearth.hub.sessions import Session
from hearth.mcp import capabilities, messages, questions, versions
from hearth.mcp.questions import Question
from hearth.upstreams.connection import Connection
from hearth.wire import json, values
from hearth.wire.values import Members, RawBytes

if TYPE_CHECKING:
    from hearth.hub.suspended_call import SuspendedCall
    from hearth.mcp.request_state import Seal


# A server that is never satisfied must not keep a call alive for ever.
ROUNDS_LIMIT = 32
# Pause between two calls when the server asked nothing and only wants to be called again.
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 5.0


class ClientAnswerError(Exception):
    """Error for a client's error response to a question, which ends the call."""

    def __init__(self, error: bytes) -> None:
        self.error = error


class InputRequiredLoop:
    """Loop that asks and calls again until the server has its input. `timeout`: how long a client gets to answer."""

    def __init__(self, asker: ClientRequests, binding: Binding, timeout: Callable[[], float]) -> None:
        self._asker = asker
        self._binding = binding
        self._timeout = timeout

    def go_round(self, call: Call, result: RawBytes) -> None:
        """Ask the client for the input that the server requires for the call."""
        call.attach(asyncio.create_task(guarded(self._go_round(call, result), call)))

    async def _go_round(self, call: Call, result: RawBytes) -> None:
        try:
            required = questions.parse_required(json.split(result))
            await self._pause(call, bool(required.questions))
            given = await self._ask_all(call, required.questions)
            await self._find_again(call)
            if call.is_open:
                call.send_again(_retry(call, given, required.state))
        except ClientAnswerError as refused:
            call.close(messages.raw_error(call.id, refused.error))
        except HearthError as problem:
            call.failed(problem)

    async def _pause(self, call: Call, asks: bool) -> None:
        rounds = call.next_round()
        if rounds > ROUNDS_LIMIT:
            raise UpstreamError(f"server {_server_name(call)!r} required input {rounds} times; the call was given up")
        if not asks:
            await asyncio.sleep(min(FIRST_PAUSE_SECONDS * 2 ** (rounds - 1), LONGEST_PAUSE_SECONDS))

    async def _ask_all(self, call: Call, asked: Mapping[str, Question]) -> dict[str, bytes]:
        for question in asked.values():
            self._check(call, question)
        tasks = [asyncio.create_task(self._ask(call, question)) for question in asked.values()]
        try:
            return dict(zip(asked, await asyncio.gather(*tasks), strict=True))
        finally:
            # One failed question ends the call: the others are withdrawn.
            for task in tasks:
                task.cancel()

    async def _find_again(self, call: Call) -> None:
        """Move the call to the successor if the server has ended: all that a server must remember is in its state."""
        attempt = call.attempt
        assert attempt is not None
        if attempt.connection is attempt.instance.connection:
            return
        instance = await self._binding.bind(call.session, call.era, attempt.server)
        if instance.connection is None:
            call.detach()
        else:
            call.move(instance, instance.connection)
        if instance.connection is None or instance.era != versions.MODERN:
            raise UpstreamError(f"server {instance.name!r} ended before it answered; call again")

    def _check(self, call: Call, question: Question) -> None:
        session = call.session
        params = values.members(question.params)
        problem = capabilities.problem(question.method, params, session.capabilities, session.version or "")
        if problem:
            raise Refused(f"server {_server_name(call)!r} asks for something in the middle of the call, but {problem}")

    async def _ask(self, call: Call, question: Question) -> bytes:
        session = call.session
        put = questions.legacy(question, session.version or versions.NEWEST_LEGACY, f"hearth-{os.urandom(8).hex()}")
        message = await self._asker.put(session, put.method, put.params, self._timeout(), call.tag)
        if message.result is None:
            raise ClientAnswerError(message.error or b"{}")
        return questions.modern_result(question.method, message.result)


def _retry(call: Call, given: Mapping[str, bytes], state: RawBytes | None) -> bytes:
    attempt = call.attempt
    assert attempt is not None
    params = questions.retry_params(json.split(attempt.params), given, state)
    if "progressToken" in call.request.meta:
        meta: Members = {**values.members(params.get("_meta"))}
        meta["progressToken"] = b"%d" % attempt.connection.reserve()
        params["_meta"] = json.join(meta)
    return json.join(params)


def _server_name(call: Call) -> str:
    return call.attempt.instance.name if call.attempt else ""


class SuspendedCalls:
    """Suspended calls of this daemon. `patience` and `limit` are the config's; `attached` is called for every retry."""

    def __init__(
        self, patience: Callable[[], float], limit: Callable[[], int], attached: Callable[[Call], None]
    ) -> None:
        self.attached = attached
        self._seal: Seal | None = None
        self._patience = patience
        self._limit = limit
        self._suspended: dict[str, SuspendedCall] = {}

    @property
    def seal(self) -> "Seal":
        """Seal that tells Hearth's own states from those of others."""
        if self._seal is None:
            from hearth.mcp.request_state import KEY_BYTES, Seal

            self._seal = Seal(os.urandom(KEY_BYTES))
        return self._seal

    def __len__(self) -> int:
        return len(self._suspended)

    def take(self, call: Call) -> "SuspendedCall":
        """Return the call in suspendable form. Raises Refused if its client has too many suspended calls already."""
        if call.suspended:
            return call.suspended
        if sum(held.session is call.session for held in self._suspended.values()) >= self._limit():
            raise Refused(f"{self._limit()} calls wait for this client's input already (parked_limit)")
        from hearth.hub.suspended_call import SuspendedCall

        suspended = SuspendedCall(self, call, self._patience())
        assert call.attempt is not None
        call.attempt.connection.replace(call.attempt.id, suspended)
        return suspended

    def retry(self, call: Call, method: str, params: json.Fields) -> bool:
        """Attach the retry of a suspended call; return False for any other. Raises StateRefused, MessageError."""
        if "requestState" not in params:
            return False
        state = values.text(params["requestState"])
        if state is None:
            raise MessageError("params.requestState must be a string", versions.INVALID_PARAMS)
        from hearth.mcp import request_state

        digest = request_state.digest(method, params)
        token = self.seal.open(state, call.session.id, method, digest, monotonic())
        if token is None:
            return False
        key, _, round = token.rpartition(".")
        held = self._suspended.get(key)
        if held is None:
            raise request_state.StateRefused(request_state.SPENT)
        held.retry(call, int(round), params)
        return True

    def keep(self, suspended: "SuspendedCall") -> None:
        """Add a call that waits for its client."""
        self._suspended[suspended.token] = suspended

    def remove(self, suspended: "SuspendedCall") -> None:
        """Remove a call that has ended."""
        self._suspended.pop(suspended.token, None)

    def session_left(self, session: Session) -> None:
        """Cancel the calls of a session that has left."""
        for held in [held for held in self._suspended.values() if held.session is session]:
            held.cancelled()

    def completed(self, connection: Connection | None, elicitation: str) -> None:
        """Record a server's notice that an elicitation by URL is complete."""
        for held in list(self._suspended.values()):
            if held.is_on(connection):
                held.completed(elicitation)

    def server_ended(self) -> None:
        """Stop waiting for notices of servers whose process has ended."""
        for held in list(self._suspended.values()):
            held.stop_waiting_for_the_gone()
