"""Unsolicited messages of servers (requests to the client, log messages, notifications) and their recipients.

A request is never delivered to a session that is not certain to have caused it; an ambiguous one is answered with an
error, so that the server can go on without.

A legacy server on stdio names no request. Its message belongs to a session only if that session alone has requests in
flight on that instance, or if no other session has ever used it. An abandoned call counts for as long as the server
may still be working on it. Over HTTP the stream tells exactly. Anything else is ambiguous, and never guessed.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from hearth.errors import HearthError, MessageError, Refused
from hearth.hub.bindings import reaches_level
from hearth.hub.calls import Call
from hearth.hub.client_requests import ClientRequests
from hearth.hub.input_required import SuspendedCalls
from hearth.hub.sessions import Session
from hearth.mcp import capabilities, isolation, messages, questions, translate, versions
from hearth.mcp.questions import Question
from hearth.upstreams.connection import Connection, refusal
from hearth.upstreams.instance import Instance
from hearth.upstreams.server import Server
from hearth.wire import json, values

if TYPE_CHECKING:
    from hearth.hub.suspended_call import SuspendedCall

log = logging.getLogger(__name__)

# Questions of one server that may be open at a time: no person answers as many, and each is kept for its client.
QUESTIONS_LIMIT = 100
# Elicitations by URL whose end may still be announced; beyond it the oldest are forgotten.
VISITS_LIMIT = 1000

_AMBIGUOUS = "several clients share this server and it is not certain which of them is meant"
_NOBODY = "no client's request is in flight that this could belong to"


class UrlVisits:
    """Elicitations by URL that clients were told of, and the sessions to notify when a server announces the end of one.

    The ids are a server's own choice, and two processes of one server may choose the same.
    """

    def __init__(self) -> None:
        self._sessions: dict[tuple[Connection, str], Session] = {}

    def begun(self, connection: Connection, elicitation: str, session: Session) -> None:
        """Record that a client was sent to a URL."""
        if len(self._sessions) >= VISITS_LIMIT:
            del self._sessions[next(iter(self._sessions))]
        self._sessions[connection, elicitation] = session

    def ended(self, connection: Connection | None, elicitation: str) -> Session | None:
        """Return and forget the session of an elicitation that has ended; None for one that no client was told of."""
        return self._sessions.pop((connection, elicitation), None) if connection else None


class ServerQuestion(NamedTuple):
    """Question of a server to a client. `cause` is the request that it belongs to, if its transport tells.

    `key` is the connection with the server's id of the question.
    """

    key: tuple[Connection, object]
    instance: Instance
    connection: Connection
    message: json.Message
    cause: int | None

    def answer(self, payload: bytes) -> None:
        """Send the answer to the server."""
        self.connection.answer(payload, self.cause)

    def refuse(self, reason: str) -> None:
        """Answer with an error: the client cannot be asked now."""
        self.answer(refusal(self.message, reason, versions.INTERNAL_ERROR))


class ServerMessages:
    """Router of the messages of instances. `timeout` is how long a client gets to answer."""

    def __init__(
        self,
        asker: ClientRequests,
        parking: SuspendedCalls,
        visits: UrlVisits,
        servers: Callable[[Instance], Server | None],
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
        """Route a server's question. Every question is answered, by the client or with an error."""
        assert message.id is not None and message.method is not None
        question = ServerQuestion((connection, values.id_key(message.id)), instance, connection, message, cause)
        if question.key in self._open:
            # An answer would be taken for the answer to the first one.
            connection.disregard(MessageError("a second question by the same id is not answered"))
            return
        if message.method not in questions.METHODS:
            question.answer(refusal(message, f"no client can be asked for {message.method}"))
            return
        self._learn(instance, message.method, cause)
        if sum(asking is connection for asking, _ in self._open) >= QUESTIONS_LIMIT:
            question.refuse(f"{QUESTIONS_LIMIT} questions wait for their answers already")
            return
        call = causing_call(connection, cause, asks=True)
        if message.method == capabilities.ROOTS and _knows_folder(instance, call) and not _lists_roots(call):
            question.answer(self._roots(instance, message))
        elif call is None or (isinstance(call, Call) and call.era == versions.LEGACY):
            self._put(question, call)
        else:
            self._park(question, call)

    def _roots(self, instance: Instance, message: json.Message) -> bytes:
        """Return the roots of a workspace. Configured folders are not replaced by one that no client has named."""
        assert message.id is not None
        if instance.client_context.roots is None and _names_folders(instance):
            return refusal(message, "the client lists no roots, and the server was given folders by its config")
        return messages.result(message.id, instance.client_context.root_list())

    def _learn(self, instance: Instance, method: str, cause: int | None) -> None:
        """Isolate a server that asks more strictly from now on, unless its transport tells which client it means."""
        server = self._server(instance)
        if server is None:
            return
        if method == capabilities.ROOTS:
            server.learn(isolation.ROOTS, instance.era)
        elif cause is None:
            server.learn(isolation.QUESTION, instance.era)

    def _park(self, question: ServerQuestion, call: "Call | SuspendedCall") -> None:
        try:
            if isinstance(call, Call) and not may_be_asked(call):
                raise Refused(f"nobody can be asked anything in the midst of {call.method}")
            parked = self._suspended_calls.take(call) if isinstance(call, Call) else call
        except HearthError as problem:
            question.refuse(str(problem))
            return
        self._open[question.key] = parked
        parked.question(
            question.message,
            lambda: self._open.pop(question.key, None),
            lambda: self._ask_elsewhere(question, parked.session),
        )

    def _ask_elsewhere(self, question: ServerQuestion, session: Session) -> None:
        """Put a question of an ended call on another call of the session, or refuse it if there is none.

        The call has ended without the answer, so the question was for another call of the session, or for none.
        """
        call = next((call for call in calls_of(session, question.connection) if may_be_asked(call)), None)
        if call is None:
            question.refuse(_NOBODY)
        else:
            self._park(question, call)

    def _put(self, question: ServerQuestion, call: Call | None) -> None:
        session = call.session if call else sole_session(question.instance)
        problem = self._problem(session, question.instance, question.message)
        if session is None or problem:
            question.refuse(problem or _NOBODY)
            return
        task = asyncio.create_task(self._ask(question, session, call.tag if call else None))
        self._open[question.key] = task
        task.add_done_callback(lambda done: self._settled(question, done))
        if call:
            call.attach(task, is_certain=question.cause is not None)

    def _settled(self, question: ServerQuestion, task: asyncio.Task[None]) -> None:
        """Close a question, whatever ended its task; answer a server that still waits for a cancelled one."""
        if self._open.get(question.key) is not task:
            return
        del self._open[question.key]
        if task.cancelled():
            question.refuse("the call was withdrawn")

    def _problem(self, session: Session | None, instance: Instance, message: json.Message) -> str | None:
        if session is None:
            return _AMBIGUOUS if instance.in_flight else _NOBODY
        if session.era != versions.LEGACY:
            return _NOBODY
        params = values.members(message.fields.get("params"))
        return capabilities.problem(message.method or "", params, session.capabilities, session.version or "")

    async def _ask(self, question: ServerQuestion, session: Session, about: int | None) -> None:
        """Put a legacy server's question to a legacy client, and its answer to the server."""
        message = question.message
        assert message.id is not None and message.method is not None
        try:
            params = values.members(message.fields.get("params"))
            visit = questions.elicitation_id(params)
            asked = questions.legacy(
                Question(message.method, message.params or b"{}"), session.version or versions.NEWEST_LEGACY, visit
            )
            if visit:
                self._visits.begun(question.connection, visit, session)
            answer = await self._asker.put(session, asked.method, asked.params, self._timeout(), about)
            if answer.result is None:
                payload = messages.raw_error(message.id, answer.error or b"{}")
            else:
                catalog = question.instance.catalog
                version = catalog.version if catalog else versions.NEWEST_LEGACY
                result = questions.legacy_result(message.method, answer.result, version)
                payload = messages.result(message.id, result)
        except HearthError as problem:
            payload = messages.error(message.id, versions.INTERNAL_ERROR, str(problem))
        # Before the answer: a server that has its answer may use the same id again.
        self._open.pop(question.key, None)
        question.answer(payload)

    def ended(self, connection: Connection) -> None:
        """Cancel questions that an ended server asked outside of any call: their answers are not needed."""
        for key, held in list(self._open.items()):
            if key[0] is connection and isinstance(held, asyncio.Task):
                del self._open[key]
                held.cancel()

    def owes(self, connection: Connection) -> bool:
        """Tell whether a server waits for an answer to one of its questions."""
        return any(asking is connection for asking, _ in self._open)

    # --- notifications

    def noticed(self, instance: Instance, connection: Connection, message: json.Message, cause: int | None) -> None:
        """Route a server's notification that is neither progress nor about its lists or resources."""
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
            heard = call.log_level is not None and reaches_level(level, call.log_level)
        else:
            heard = session.era == versions.LEGACY and reaches_level(level, session.log_level)
        if heard:
            body = translate.notification_params(params)
            session.sink.notify(messages.notification("notifications/message", body), about=call.tag if call else None)

    def _withdrawn(self, connection: Connection, params: json.Fields) -> None:
        if "requestId" not in params:
            return
        id = bytes(params["requestId"])
        key = (connection, values.id_key(id))
        held = self._open.get(key)
        if isinstance(held, asyncio.Task):
            # Removed first: an answer would match no open request of the server.
            del self._open[key]
            held.cancel()
        elif held:
            held.withdrawn(id)

    def _visited(self, connection: Connection, params: json.Fields) -> None:
        elicitation = questions.elicitation_id(params)
        if elicitation is None:
            return
        self._suspended_calls.completed(connection, elicitation)
        session = self._visits.ended(connection, elicitation)
        if session:
            body = translate.notification_params(params)
            session.sink.notify(messages.notification("notifications/elicitation/complete", body))

    def _pass_on(self, instance: Instance, message: json.Message, params: json.Fields) -> None:
        """Forward an unknown notification to the only session that it can be meant for, or to none."""
        session = sole_session(instance)
        if session and message.method and session.era == instance.era:
            session.sink.notify(messages.notification(message.method, translate.notification_params(params)))


def _names_folders(instance: Instance) -> bool:
    """Tell whether the config says which folders the server may use."""
    words = (word for word in instance.spec.args if word.startswith(("/", "~")))
    return any(os.path.isdir(os.path.expanduser(word)) for word in words)


def _lists_roots(call: "Call | SuspendedCall | None") -> bool:
    """Tell whether the call's client lists roots with its requests. A legacy one listed them before it was bound."""
    attached = call if isinstance(call, Call) or call is None else call.call
    return attached is not None and attached.era == versions.MODERN and "roots" in values.members(attached.declared)


def _knows_folder(instance: Instance, call: "Call | SuspendedCall | None") -> bool:
    """Tell whether roots are known without asking: of a workspace, or of a modern client that cannot be asked now."""
    alone = instance.mode == isolation.SESSION and instance.client_context.era == versions.MODERN and call is None
    return alone or instance.mode == isolation.WORKSPACE


def causing_call(connection: Connection, cause: int | None, asks: bool = False) -> "Call | SuspendedCall | None":
    """Return the one call that a message can belong to; of several calls of one session, the oldest.

    `asks`: the message is a question, so the oldest call whose client can be asked is preferred, and among those one
    that is not suspended, because the client of a suspended call may never come back. If another call was meant, the
    same person is asked.
    """
    if cause is not None:
        return _call(connection.waiter(cause))
    calls = [call for waiter in connection.waiters() if (call := _call(waiter))]
    if not calls or any(call.session is not calls[0].session for call in calls):
        return None
    given_up = connection.abandoned.owners() if connection.abandoned else set()
    if given_up - {calls[0].session.id}:
        return None
    if not asks:
        return calls[0]
    askable = list(filter(may_be_asked, calls)) or calls
    return next((call for call in askable if isinstance(call, Call) or call.call), askable[0])


def calls_of(session: Session, connection: Connection) -> "Iterator[Call | SuspendedCall]":
    """Return the session's calls on that connection, the oldest first."""
    calls = (call for waiter in connection.waiters() if (call := _call(waiter)))
    return (call for call in calls if call.session is session)


def may_be_asked(call: "Call | SuspendedCall") -> bool:
    """Tell whether a client can be asked something during that call."""
    return not isinstance(call, Call) or call.era == versions.LEGACY or call.method in questions.MAY_REQUIRE


def _call(waiter: object) -> "Call | SuspendedCall | None":
    """Return the waiter if it is a client's call, suspended or not; None for Hearth's own requests."""
    return waiter if getattr(waiter, "session", None) else None  # type: ignore[return-value]  # no others have one


def sole_session(instance: Instance) -> Session | None:
    """Return the only session that has ever used the instance and still does, or the only one it is started for."""
    owner = instance.owner
    if isinstance(owner, Session) and not owner.left:
        return owner
    holder = next(iter(instance.holders), None) if len(instance.ever) == 1 else None
    return holder if isinstance(holder, Session) else None
