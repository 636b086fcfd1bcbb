"""Connection to a coding agent that runs as a child process and speaks the Agent Client Protocol on its streams.

The process, its bounded stop, the matching of answers and the budget for a flood of messages are those of a server's
connection (`upstreams.stdio`). Different is what the messages mean: requests are cancelled by `$/cancel_request`, the
agent asks for permissions, and nothing else that it asks for is offered.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

from hearth import masking
from hearth.errors import AgentError, HearthError, MessageError, UpstreamBusy, UpstreamError
from hearth.mcp import messages, versions
from hearth.packs.agents import acp
from hearth.packs.agents.acp_updates import Members, ToolCalls, parse_update
from hearth.upstreams.connection import Connection
from hearth.upstreams.handshake import Reply
from hearth.upstreams.stdio import StdioConnection
from hearth.wire import json, values
from hearth.wire.lines import Item
from hearth.wire.values import RawBytes

log = logging.getLogger(__name__)

Found = TypeVar("Found")

# Agents are started by npx as well, which may have to download one first.
INITIALIZE_SECONDS = 60.0
# A login that opens a browser waits for a person; those that Hearth asks for take a key from the environment.
AUTHENTICATE_SECONDS = 60.0
# The agent starts its MCP servers, and reads a long history.
OPEN_SECONDS = 120.0
SETTING_SECONDS = 30.0
# Before the process is stopped, which does not need the agent's consent.
CLOSE_SECONDS = 5.0
# Open permission requests of one agent. Agents ask for one tool at a time, or for a batch of parallel tools.
PERMISSIONS_LIMIT = 64
# Of an agent's own words in an error: its last lines of stderr, and characters in all.
LAST_LINES = 5
WORDS_CHARACTERS = 1000
# Of a longer text only this much is looked at: an error may be as large as a message.
WORDS_READ = 4 * WORDS_CHARACTERS


class AcpEvents(Protocol):
    """Protocol for the owner of a connection, which receives what the agent sends by itself. Nothing here may block."""

    def updated(self, session_id: str, update: Members) -> None:
        """Take an update. All of a turn come before `prompt` returns, all of a load before `load_session` does."""

    def permission_asked(self, request: acp.PermissionRequest, answer: Callable[[str | None], None]) -> None:
        """Take a permission request. `answer` takes the id of an option, or None for cancelled; only the first counts.

        `answer` raises ValueError for an option that was not offered, and does nothing once the request is withdrawn.
        """

    def permission_withdrawn(self, request: acp.PermissionRequest) -> None:
        """Note that a request needs no answer any more: by the agent, with its turn, or with its process."""

    def ended(self, why: str) -> None:
        """Note the end of the process, once; calls in flight have been told. `why` is a sentence about the agent."""


class _OpenPermission(NamedTuple):
    id: bytes
    request: acp.PermissionRequest


class AcpConnection(StdioConnection):
    """Connection to one agent's process, from its start to its exit.

    `limits`: bytes of one message, bytes queued for stdin. All requests raise AgentError, and a cancelled task cancels
    its request.
    """

    peer = "agent"
    protocol = "ACP"

    def __init__(
        self,
        name: str,
        events: AcpEvents,
        launch: tuple[Sequence[str], Mapping[str, str], str],
        limits: tuple[int, int],
    ) -> None:
        super().__init__(name, self, launch, limits)
        self._events = events
        # By the key of their ids: the agent may write an id in another way when it withdraws a request.
        self._permissions: dict[object, _OpenPermission] = {}
        self._tool_calls = ToolCalls()
        self._is_stopping = False

    # --- the process

    async def open(self) -> None:
        """Start the agent's process. Raises AgentError."""
        try:
            await super().open()
        except UpstreamError as exc:
            raise AgentError(f"agent {self.name!r} could not be started: {exc}") from exc

    async def stop(self) -> None:
        """Stop the process and its group, by the bounded sequence; return when it is reaped."""
        self._is_stopping = True
        await super().stop()

    # --- requests

    async def initialize(self) -> acp.AgentCapabilities:
        """Open the conversation; the first request."""
        found = await self._ask(acp.INITIALIZE, acp.initialize_params(), INITIALIZE_SECONDS, acp.parse_initialize)
        self.greeted("", "")
        return found

    async def authenticate(self, method_id: str) -> None:
        """Log in by a method of kind "agent"."""
        await self.call(acp.AUTHENTICATE, acp.authenticate_params(method_id), AUTHENTICATE_SECONDS)

    async def new_session(self, cwd: str, mcp_servers: Sequence[Members]) -> acp.SessionInfo:
        """Open a session. Error code `acp.AUTH_REQUIRED`: the agent wants a login first."""
        return await self._ask(
            acp.NEW_SESSION, acp.new_session_params(cwd, mcp_servers), OPEN_SECONDS, acp.parse_session
        )

    async def load_session(self, session_id: str, cwd: str, mcp_servers: Sequence[Members]) -> acp.SessionInfo:
        """Continue a session; the agent sends the whole conversation as updates first."""
        return await self._continue(acp.LOAD_SESSION, session_id, cwd, mcp_servers)

    async def resume_session(self, session_id: str, cwd: str, mcp_servers: Sequence[Members]) -> acp.SessionInfo:
        """Continue a session, without its conversation."""
        return await self._continue(acp.RESUME_SESSION, session_id, cwd, mcp_servers)

    async def _continue(
        self, method: str, session_id: str, cwd: str, mcp_servers: Sequence[Members]
    ) -> acp.SessionInfo:
        params = acp.known_session_params(session_id, cwd, mcp_servers)
        return await self._ask(method, params, OPEN_SECONDS, partial(acp.parse_session, session_id=session_id))

    async def prompt(self, session_id: str, *texts: str) -> acp.TurnEnd:
        """Run a turn, however long it takes; end it by `cancel_turn`."""
        return await self._ask(acp.PROMPT, acp.prompt_params(session_id, *texts), None, acp.parse_turn_end)

    def cancel_turn(self, session_id: str) -> None:
        """Cancel the turn; `prompt` returns when the agent has stopped. Its permission requests are withdrawn."""
        self.tell(acp.CANCEL, acp.session_params(session_id))
        # A client must answer all of them so (prompt turn, cancellation).
        for key, pending in list(self._permissions.items()):
            if pending.request.session_id == session_id:
                self._withdraw_permission(key, _permission_answer(pending, None))

    async def set_mode(self, session: acp.SessionInfo, mode: str) -> acp.SessionInfo:
        """Set the mode; return the session as it is then."""
        method, params = acp.mode_request(session, mode)
        result = await self.call(method, params, SETTING_SECONDS)
        return acp.with_config_options(session._replace(current_mode=mode), result)

    async def set_model(self, session: acp.SessionInfo, model: str) -> acp.SessionInfo:
        """Set the model, one of `session.models`; return the session as it is then."""
        if session.model_option is not None:
            return await self.set_config_option(session, session.model_option, model)
        await self.call(acp.SET_MODEL, acp.model_params(session, model), SETTING_SECONDS)
        return session._replace(model=model)

    async def set_config_option(self, session: acp.SessionInfo, option: str, value: str | bool) -> acp.SessionInfo:
        """Set a config option; return the session as it is then."""
        params = acp.config_option_params(session.session_id, option, value)
        return acp.with_config_options(session, await self.call(acp.SET_CONFIG_OPTION, params, SETTING_SECONDS))

    async def close_session(self, session_id: str) -> None:
        """Close a session, for agents with the capability `close`."""
        await self.call(acp.CLOSE_SESSION, acp.session_params(session_id), CLOSE_SECONDS)

    async def _ask(
        self, method: str, params: Members, timeout: float | None, parse: Callable[[Members], Found]
    ) -> Found:
        result = await self.call(method, params, timeout)
        try:
            return parse(result)
        except MessageError as exc:
            raise AgentError(f"agent {self.name!r} answered {method} in a way that Hearth cannot use: {exc}") from exc

    async def call(self, method: str, params: dict[str, Any], timeout: float | None) -> dict[str, Any]:
        """Send a request and return its result; None as a result is an empty one.

        Raises AgentError with the agent's sentence. A request that is given up, by time or by cancellation of this
        task, is cancelled at the agent.
        """
        reply = Reply()
        try:
            number = self.request(json.dumps(method), json.dumps(params), reply)
        except UpstreamBusy as exc:
            raise AgentError(str(exc)) from exc
        except UpstreamError as exc:
            raise AgentError(str(await self.why_lost())) from exc
        try:
            async with asyncio.timeout(timeout):
                message = await reply.future
        except TimeoutError:
            sentence = f"agent {self.name!r} did not answer {method} within {timeout:g} s{self._last_lines()}"
            raise AgentError(sentence) from None
        except UpstreamError as exc:
            raise AgentError(str(exc)) from exc
        finally:
            # Without effect on a request that was answered.
            self.cancel(number)
        return self._result(method, message)

    def _result(self, method: str, message: json.Message) -> Members:
        subject = f"agent {self.name!r}"
        try:
            if message.error is not None:
                code, text = acp.describe_error(json.loads(message.error))
                raise AgentError(f"{subject} refused {method}: {self._shown(text)} ({code})", code)
            result = json.loads(message.result or b"null")
        except MessageError as exc:
            raise AgentError(f"{subject} answered {method} with what cannot be read: {exc}") from exc
        if result is None:
            return {}
        if not isinstance(result, dict):
            raise AgentError(f"{subject} answered {method} with a {type(result).__name__} instead of an object")
        return result

    def tell(self, method: str, params: dict[str, Any]) -> None:
        """Send a notification; an agent that is gone gets none, without an error."""
        self.notify(method, json.dumps(params))

    def _withdraw(self, number: int, reason: RawBytes | None) -> None:
        self.tell(acp.CANCEL_REQUEST, {"requestId": number})

    # --- words of the agent

    def _shown(self, text: str) -> str:
        """Return the agent's own words for an error: on one line, without its secrets, cut."""
        line = masking.escaped(self.mask(" ".join(text[:WORDS_READ].split())))
        return line if len(line) <= WORDS_CHARACTERS else f"{line[:WORDS_CHARACTERS]}…"

    def _last_lines(self) -> str:
        lines = self.last_words[-LAST_LINES:]
        return f"; its last lines: {self._shown(' | '.join(lines))}" if lines else ""

    def _ended(self, code: int) -> UpstreamError:
        return UpstreamError(f"{super()._ended(code)}{self._last_lines()}")

    # --- messages of the agent

    def _take(self, item: Item, cause: int | None = None) -> None:
        """Handle one message: ACP has neither the ping of MCP nor its progress."""
        if isinstance(item, json.Message) and item.method is not None:
            take = self.noticed if item.id is None else self.asked
            take(self, item, cause)
        else:
            super()._take(item, cause)

    def noticed(self, connection: Connection, message: json.Message, cause: int | None) -> None:
        """Handle a notification; others than those below are extensions, and may be ignored."""
        if message.method == acp.UPDATE:
            try:
                session_id, update = parse_update(self._params(message))
            except MessageError as exc:
                self.disregard(exc)
                return
            self._tool_calls.note(update)
            self._events.updated(session_id, update)
        elif message.method == acp.CANCEL_REQUEST:
            id = values.members(message.fields.get("params")).get("requestId")
            key = values.id_key(bytes(id)) if id is not None else None
            if pending := self._permissions.get(key):
                text = "the permission request was withdrawn"
                self._withdraw_permission(key, messages.error(pending.id, acp.REQUEST_CANCELLED, text))

    def asked(self, connection: Connection, message: json.Message, cause: int | None) -> None:
        """Handle a request: a permission request, or one for a capability that Hearth has not declared."""
        assert message.id is not None
        if message.method != acp.REQUEST_PERMISSION:
            text = f"Hearth does not offer {self._shown(message.method or '')!r}"
            self.answer(messages.error(message.id, versions.METHOD_NOT_FOUND, text))
            return
        try:
            request = acp.parse_permission(self._params(message))
            completed = request._replace(tool_call=self._tool_calls.completed(request.tool_call))
            self._ask_permission(message.id, completed)
        except HearthError as exc:
            self.answer(messages.failure(message.id, exc))

    def _params(self, message: json.Message) -> Members:
        params = json.loads(message.params or b"null")
        return params if isinstance(params, dict) else {}

    def _ask_permission(self, id: bytes, request: acp.PermissionRequest) -> None:
        key = values.id_key(id)
        if key in self._permissions:
            # An error would answer the first request with that id.
            self.disregard(MessageError("a second request with the id of an open one"))
            return
        if len(self._permissions) >= PERMISSIONS_LIMIT:
            raise AgentError(f"{PERMISSIONS_LIMIT} permission requests are open already")
        pending = self._permissions[key] = _OpenPermission(id, request)
        try:
            self._events.permission_asked(request, partial(self._answer_permission, key, pending))
        except BaseException:
            self._answer_permission(key, pending, None)
            raise

    def _answer_permission(self, key: object, pending: _OpenPermission, option_id: str | None) -> None:
        if option_id is not None and option_id not in {option.id for option in pending.request.options}:
            raise ValueError(f"no option {option_id!r} was offered")
        if self._permissions.get(key) is pending:
            del self._permissions[key]
            self.answer(_permission_answer(pending, option_id))

    def _withdraw_permission(self, key: object, answer: bytes) -> None:
        pending = self._permissions.pop(key)
        self.answer(answer)
        self._events.permission_withdrawn(pending.request)

    # --- the end, as the owner of this connection

    def lost(self, connection: Connection) -> None:
        """Do nothing: `closed` follows, and calls fail by then."""

    def closed(self, connection: Connection, why: str) -> None:
        """Note the end of the process."""
        permissions, self._permissions = self._permissions, {}
        try:
            for pending in permissions.values():
                self._events.permission_withdrawn(pending.request)
        finally:
            self._events.ended("it was stopped" if self._is_stopping else f"{why}{self._last_lines()}")


def _permission_answer(pending: _OpenPermission, option_id: str | None) -> bytes:
    return messages.result(pending.id, json.dumps(acp.permission_result(option_id)))
