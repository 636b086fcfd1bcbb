"""Calls of legacy clients on modern servers that require input: asks the client, then makes the call again."""

import asyncio
import os
from collections.abc import Callable, Mapping

from hearth.errors import HearthError, Refused, UpstreamError
from hearth.hub.bindings import Binding
from hearth.hub.calls import Call
from hearth.hub.client_requests import ClientRequests
from hearth.hub.dispatcher import guarded
from hearth.mcp import capabilities, messages, questions, versions
from hearth.mcp.questions import Question
from hearth.wire import json, values
from hearth.wire.values import Members, RawBytes

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
        task = asyncio.create_task(guarded(self._go_round(call, result), call))
        call.attach(task)

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
