"""What servers say of their own accord, to exactly the client that it is meant for: questions, messages, notices.

A question is never delivered to a session that is not certain to have caused it; what is ambiguous is an error to the
server, so that it can go on without.
"""

import asyncio
import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from hearth.errors import HearthError, MessageError, Refused
from hearth.hub import log_levels
from hearth.hub.attribution import calls_of, causing_call, may_be_asked, sole_session
from hearth.hub.calls import Call
from hearth.hub.client_requests import ClientRequests
from hearth.hub.sessions import Session
from hearth.hub.suspended_calls import SuspendedCalls
from hearth.hub.visits import UrlVisits
from hearth.mcp import capabilities, client_requests, input_required, isolation, messages, translate, versions
from hearth.mcp.client_requests import Question
from hearth.upstreams.connection import Connection, refusal
from hearth.upstreams.instance import Instance
from hearth.upstreams.server import Server
from hearth.wire import json, values

if TYPE_CHECKING:
    from hearth.hub.suspended_call import SuspendedCall

log = logging.getLogger(__name__)

# Questions of one server that may be open at a time: nobody answers as many, and each is kept for its client.
QUESTIONS_LIMIT = 100

_AMBIGUOUS = "several clients share this server and it is not certain which of them is meant"
_NOBODY = "no client's request is in flight that this could belong to"


class ServerMessages:
    """Takes what instances say. `timeout` is how long a client gets to answer."""

    def __init__(
        self,
        asker: ClientRequests,
        parking: SuspendedCalls,
        visits: UrlVisits,
        servers: Callable[[str], Server | None],
        timeout: Callable[[], float],
    ) -> None:
        self._asker = asker
        self._suspended_calls = parking
        self._visits = visits
        self._server = servers
        self._timeout = timeout
        # Questions of servers on their way to clients, by the connection and the server's id.
        self._open: dict[tuple[Connection, object], asyncio.Task[None] | SuspendedCall] = {}

    # --- questions

    def asked(self, instance: Instance, connection: Connection, message: json.Message, cause: int | None) -> None:
        """A server asks. Every question is answered, by the client or with an error."""
        assert message.id is not None and message.method is not None
        key = (connection, json.id_key(message.id))
        if key in self._open:
            # An answer would be one to the first of the two.
            connection.disregard(MessageError("a second question by the same id is not answered"))
            return
        if message.method not in client_requests.METHODS:
            connection.answer(refusal(message, f"no client can be asked for {message.method}"), cause)
            return
        self._learn(instance, message.method, cause)
        if sum(asking is connection for asking, _ in self._open) >= QUESTIONS_LIMIT:
            reason = f"{QUESTIONS_LIMIT} questions wait for their answers already"
            connection.answer(refusal(message, reason, versions.INTERNAL_ERROR), cause)
            return
        call = causing_call(connection, cause, asks=True)
        if message.method == capabilities.ROOTS and _knows_folder(instance, call) and not _lists_roots(call):
            connection.answer(self._roots(instance, message), cause)
            return
        if call is None or (isinstance(call, Call) and call.era == versions.LEGACY):
            self._put(key, instance, connection, call, message, cause)
        else:
            self._park(key, connection, call, message, cause)

    def _roots(self, instance: Instance, message: json.Message) -> bytes:
        """The roots of a workspace. Folders that are configured are not replaced by one that no client has named."""
        assert message.id is not None
        if instance.client_context.roots is None and _names_folders(instance):
            return refusal(message, "the client lists no roots, and the server was given folders by its config")
        return messages.result(message.id, instance.client_context.root_list())

    def _learn(self, instance: Instance, method: str, cause: int | None) -> None:
        """A server that asks is shared more narrowly from now on, unless its transport tells whom it means."""
        server = self._server(instance.name)
        if server is None:
            return
        if method == capabilities.ROOTS:
            server.learn(isolation.ROOTS, instance.era)
        elif cause is None:
            server.learn(isolation.QUESTION, instance.era)

    def _park(
        self,
        key: tuple[Connection, object],
        connection: Connection,
        call: "Call | SuspendedCall",
        message: json.Message,
        cause: int | None,
    ) -> None:
        try:
            if isinstance(call, Call) and not may_be_asked(call):
                raise Refused(f"nobody can be asked anything in the midst of {call.method}")
            parked = self._suspended_calls.take(call) if isinstance(call, Call) else call
        except HearthError as problem:
            connection.answer(refusal(message, str(problem), versions.INTERNAL_ERROR), cause)
            return
        self._open[key] = parked
        parked.question(
            message,
            lambda: self._open.pop(key, None),
            lambda: self._ask_elsewhere(key, connection, parked.session, message, cause),
        )

    def _ask_elsewhere(
        self,
        key: tuple[Connection, object],
        connection: Connection,
        session: Session,
        message: json.Message,
        cause: int | None,
    ) -> None:
        """The call that a question was put on has ended without it: it was for another of the session, or for none."""
        call = next((call for call in calls_of(session, connection) if may_be_asked(call)), None)
        if call is None:
            connection.answer(refusal(message, _NOBODY, versions.INTERNAL_ERROR), cause)
        else:
            self._park(key, connection, call, message, cause)

    def _put(
        self,
        key: tuple[Connection, object],
        instance: Instance,
        connection: Connection,
        call: Call | None,
        message: json.Message,
        cause: int | None,
    ) -> None:
        session = call.session if call else sole_session(instance)
        problem = self._problem(session, instance, message)
        if session is None or problem:
            connection.answer(refusal(message, problem or _NOBODY, versions.INTERNAL_ERROR), cause)
            return
        about = call.tag if call else None
        task = asyncio.create_task(self._ask(session, instance, connection, message, cause, about))
        self._open[key] = task
        task.add_done_callback(lambda done: self._settled(key, done, message, cause))
        if call:
            call.attach(task, is_certain=cause is not None)

    def _settled(
        self, key: tuple[Connection, object], task: asyncio.Task[None], message: json.Message, cause: int | None
    ) -> None:
        """Whatever ended it: only a server that asked in vain, and still waits, is to be answered here."""
        if self._open.get(key) is not task:
            return
        del self._open[key]
        if task.cancelled():
            key[0].answer(refusal(message, "the call was withdrawn", versions.INTERNAL_ERROR), cause)

    def _problem(self, session: Session | None, instance: Instance, message: json.Message) -> str | None:
        if session is None:
            return _AMBIGUOUS if instance.in_flight else _NOBODY
        if session.era != versions.LEGACY:
            return _NOBODY
        params = values.members(message.fields.get("params"))
        return capabilities.problem(message.method or "", params, session.capabilities, session.version or "")

    async def _ask(
        self,
        session: Session,
        instance: Instance,
        connection: Connection,
        message: json.Message,
        cause: int | None,
        about: int | None,
    ) -> None:
        """Put a legacy server's question to a legacy client, and its answer to the server."""
        assert message.id is not None and message.method is not None
        try:
            params = values.members(message.fields.get("params"))
            visit = input_required.elicitation_id(params)
            asked = client_requests.legacy(
                Question(message.method, message.params or b"{}"), session.version or versions.NEWEST_LEGACY, visit
            )
            if visit:
                self._visits.begun(connection, visit, session)
            answer = await self._asker.put(session, asked.method, asked.params, self._timeout(), about)
            if answer.result is None:
                payload = messages.raw_error(message.id, answer.error or b"{}")
            else:
                version = instance.catalog.version if instance.catalog else versions.NEWEST_LEGACY
                result = client_requests.legacy_result(message.method, answer.result, version)
                payload = messages.result(message.id, result)
        except HearthError as problem:
            payload = messages.error(message.id, versions.INTERNAL_ERROR, str(problem))
        # Before it: a server that has its answer may ask by the same id again.
        self._open.pop((connection, json.id_key(message.id)), None)
        connection.answer(payload, cause)

    def ended(self, connection: Connection) -> None:
        """A server is gone: nobody needs the answers to what it asked outside of any call."""
        for key, held in list(self._open.items()):
            if key[0] is connection and isinstance(held, asyncio.Task):
                del self._open[key]
                held.cancel()

    def owes(self, connection: Connection) -> bool:
        """Whether a server waits for an answer to something that it asked."""
        return any(asking is connection for asking, _ in self._open)

    # --- notices

    def noticed(self, instance: Instance, connection: Connection, message: json.Message, cause: int | None) -> None:
        """A server tells something that is neither progress nor about its lists or resources."""
        params = values.members(message.fields.get("params"))
        if message.method == "notifications/message":
            self._log(instance, connection, params, cause)
        elif message.method == "notifications/cancelled":
            self._withdrawn(connection, params)
        elif message.method == "notifications/elicitation/complete":
            self._visited(connection, params)
        elif message.method and not message.method.startswith("notifications/subscriptions/"):
            self._pass_on(instance, message, params)

    def _log(self, instance: Instance, connection: Connection, params: json.Fields, cause: int | None) -> None:
        level = values.text(params.get("level"))
        call = causing_call(connection, cause)
        if call is not None and not isinstance(call, Call):
            call = call.call
            if call is None:
                return
        session = call.session if call else sole_session(instance)
        if session is None:
            log.debug("a message for nobody in particular", extra={"upstream": instance.name})
            return
        if call and call.era == versions.MODERN:
            heard = call.log_level is not None and log_levels.at_least(level, call.log_level)
        else:
            heard = session.era == versions.LEGACY and log_levels.at_least(level, session.log_level)
        if heard:
            body = translate.notification_params(params)
            session.sink.notify(messages.notification("notifications/message", body), about=call.tag if call else None)

    def _withdrawn(self, connection: Connection, params: json.Fields) -> None:
        if "requestId" not in params:
            return
        id = bytes(params["requestId"])
        key = (connection, json.id_key(id))
        held = self._open.get(key)
        if isinstance(held, asyncio.Task):
            # It is no longer open: an answer would be one to nothing.
            del self._open[key]
            held.cancel()
        elif held:
            held.withdrawn(id)

    def _visited(self, connection: Connection, params: json.Fields) -> None:
        elicitation = input_required.elicitation_id(params)
        if elicitation is None:
            return
        self._suspended_calls.completed(connection, elicitation)
        session = self._visits.ended(connection, elicitation)
        if session:
            body = translate.notification_params(params)
            session.sink.notify(messages.notification("notifications/elicitation/complete", body))

    def _pass_on(self, instance: Instance, message: json.Message, params: json.Fields) -> None:
        """What Hearth does not know goes to whom it must be meant for, or to nobody."""
        session = sole_session(instance)
        if session and message.method and session.era == instance.era:
            body = translate.notification_params(params)
            session.sink.notify(messages.notification(message.method, body))


def _names_folders(instance: Instance) -> bool:
    """Whether its config says which folders it may use."""
    words = (word for word in instance.spec.args if word.startswith(("/", "~")))
    return any(os.path.isdir(os.path.expanduser(word)) for word in words)


def _lists_roots(call: "Call | SuspendedCall | None") -> bool:
    """Whether the call's client tells roots of its own with it. A legacy one has, before it came to its workspace."""
    attached = call if isinstance(call, Call) or call is None else call.call
    return attached is not None and attached.era == versions.MODERN and "roots" in values.members(attached.declared)


def _knows_folder(instance: Instance, call: "Call | SuspendedCall | None") -> bool:
    """Whether roots are known without asking: those of a workspace, or of a modern client that cannot be asked now."""
    alone = instance.mode == isolation.SESSION and instance.client_context.era == versions.MODERN and call is None
    return alone or instance.mode == isolation.WORKSPACE
