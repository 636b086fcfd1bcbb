"""Requests of Hearth itself to clients: questions, the owner's approval of a shutdown or reload, and logins.

An id contains the daemon's: a late answer to a former daemon's request matches nothing.

A call to a server that needs a login first: a client that can show a URL is given one, any other gets the plain error.
A legacy client gets the error that demands visits to URLs (-32042), and is notified when the login is complete. A
modern client gets a result that requires input, and its repeated call waits for the login. All calls that need the same
login get the same URL.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from hearth.errors import HearthError, LoginRequired, Refused
from hearth.hub.sessions import Session, Sessions
from hearth.mcp import capabilities, messages, questions, versions
from hearth.mcp.capabilities import ELICITATION
from hearth.mcp.questions import Question
from hearth.wire import json, values
from hearth.wire.values import RawBytes

if TYPE_CHECKING:
    from hearth.hub.calls import Call
    from hearth.hub.dispatcher import Dispatcher
    from hearth.upstreams.oauth.logins import Invitation
    from hearth.upstreams.server import Server


# Long enough for a person who is busy with something else.
ANSWER_SECONDS = 60.0

_WORDS = {
    "shutdown": "shut the shared MCP daemon down",
    "reload": "reload the configuration of the shared MCP daemon",
    "restart": "restart a server of the shared MCP daemon",
}
_SCHEMA = {
    "type": "object",
    "properties": {"approve": {"type": "boolean", "title": "Allow it", "default": False}},
    "required": ["approve"],
}


class ClientRequests:
    """Open requests of this daemon to clients."""

    def __init__(self, daemon_id: str) -> None:
        self._prefix = f"hearth-{daemon_id}-"
        self._count = 0
        self._open: dict[str, tuple[Session, asyncio.Future[json.Message]]] = {}

    async def ask(self, session: Session, method: str, params: RawBytes, timeout: float) -> json.Fields:
        """Ask one client and wait for its result. Raises Refused when it errs, leaves, or does not answer in time."""
        message = await self.put(session, method, params, timeout)
        if message.result is None:
            raise Refused(f"the client refused the question: {values.error(message)[1]}")
        return json.split(message.result)

    async def put(
        self, session: Session, method: str, params: RawBytes, timeout: float, about: int | None = None
    ) -> json.Message:
        """Ask one client and wait for its response, a result or an error. Raises Refused when there is none.

        `about` is the tag of the client's request that caused the question.
        """
        self._count += 1
        question = f"{self._prefix}{self._count}"
        future: asyncio.Future[json.Message] = asyncio.get_running_loop().create_future()
        self._open[question] = (session, future)
        session.sink.ask(question, messages.request(json.dumps(question), method, params), about)
        try:
            async with asyncio.timeout(timeout or None):
                return await future
        except TimeoutError:
            self._withdraw(question, "no answer in time", about)
            raise Refused(f"nobody answered within {timeout:g} s") from None
        except asyncio.CancelledError:
            self._withdraw(question, "whoever wanted to know has left", about)
            raise
        finally:
            # A session that left has no open questions any more, and no client to tell.
            if self._open.pop(question, None):
                session.sink.settled(question)

    def receive_answer(self, session: Session, message: json.Message) -> None:
        """Take a client's response. A response to another daemon's question, or from another session, is dropped."""
        asked, future = self._open.get(values.text(message.id) or "", (None, None))
        if asked is session and future and not future.done():
            future.set_result(message)

    def session_left(self, session: Session) -> None:
        """Fail the open questions of a session that has left."""
        for question, (asked, future) in list(self._open.items()):
            if asked is session:
                del self._open[question]
                if not future.done():
                    future.set_exception(Refused("the session that was asked has left"))

    def _withdraw(self, question: str, reason: str, about: int | None) -> None:
        if question in self._open:
            params = json.dumps({"requestId": question, "reason": reason})
            self._open[question][0].sink.tell(messages.notification("notifications/cancelled", params), about)


async def obtain_approval(asker: Session, act: str, sessions: Sessions, requests: ClientRequests, policy: str) -> None:
    """Return when a session may stop, restart or reload the daemon; raise Refused with the reason when it may not.

    The owner may; a request of any other session is put to the owner. `policy` is `owner.approve`.
    """
    owner = sessions.owner
    if owner is None and asker.is_agent:
        raise Refused("agents are never the owner, and there is no owner who could be asked")
    if owner is None or owner is asker:
        return
    if not owner.can_be_asked():
        if policy == "always":
            return
        raise Refused("the owner's client cannot be asked, and owner.approve is 'never'")
    who = asker.client.get("title") or asker.client.get("name") or f"session {asker.id}"
    params = json.dumps({"message": f"{who} asks to {_WORDS[act]}. Allow it?", "requestedSchema": _SCHEMA})
    try:
        answer = await requests.ask(owner, "elicitation/create", params, ANSWER_SECONDS)
    except HearthError as exc:
        raise Refused(f"the owner was asked: {exc}") from exc
    content = values.members(answer.get("content"))
    if values.text(answer.get("action")) != "accept" or not values.is_true(content.get("approve")):
        raise Refused("the owner said no")


# --- logins

# How long a repeated call waits for its user to come back from the browser before the client is asked once more: below
# the minute after which clients give up.
WAIT_SECONDS = 45.0
# Key that tells the client's answer from answers to the server's own questions.
ANSWER_KEY = "hearth_login"
_BY_URL = {"mode": json.Raw(b'"url"')}


class Logins:
    """Invitations to log in of this daemon. `find` returns a server by its name."""

    def __init__(self, find: "Callable[[str], Server | None]", dispatcher: "Dispatcher", server_info: bytes) -> None:
        self._find = find
        self._dispatcher = dispatcher
        self._server_info = server_info
        # Ids of the sessions that were given each invitation.
        self._told: dict[Invitation, set[object]] = {}

    def __len__(self) -> int:
        return sum(invitation.is_open for invitation in self._told)

    def offer(self, call: "Call", problem: LoginRequired, method: str, again: Callable[[], None]) -> bool:
        """Ask the client to show a login; return whether it is, or has been, asked. `again` makes the call after it."""
        known = call.session.capabilities if call.era == versions.LEGACY else values.members(call.declared)
        if method not in questions.MAY_REQUIRE or capabilities.problem(ELICITATION, _BY_URL, known, call.version):
            return False
        server = self._find(problem.server)
        if server is None or call.login not in (None, "accept"):
            # A user who declined is not asked again, but gets the error with the command to type.
            return False
        self._dispatcher.spawn(self._invite(call, problem, server, again), call)
        return True

    async def _invite(self, call: "Call", problem: LoginRequired, server: "Server", again: Callable[[], None]) -> None:
        try:
            invitation = await server.invite()
        except HearthError:
            # The error contains a command, which tells the reason when it is run.
            return self._refuse(call, problem)
        told = self._told.setdefault(invitation, set())
        if call.session.id in told and call.era == versions.MODERN:
            outcome = await invitation.wait(WAIT_SECONDS)
            if outcome is not None:
                return self._go_on(call, again) if outcome else self._refuse(call, problem)
        self._tell(call, problem, invitation, told)
        return None

    def _go_on(self, call: "Call", again: Callable[[], None]) -> None:
        if not call.is_open:
            return
        try:
            again()
        except HearthError as problem:
            # The server may be busy, or may have other lists by now.
            call.failed(problem)

    def _refuse(self, call: "Call", problem: LoginRequired) -> None:
        call.close(messages.failure(call.id, problem))

    def _tell(self, call: "Call", problem: LoginRequired, invitation: "Invitation", told: set[object]) -> None:
        session = call.session
        page = {
            "mode": "url",
            "message": f"Log in to {invitation.server}, so that it can be used by all your clients of Hearth.",
            "url": invitation.url,
        }
        if not told:
            invitation.when_over(lambda _: self._forget(invitation))
        if call.era == versions.MODERN:
            question = Question(ELICITATION, json.dumps(page))
            call.close(
                messages.result(call.id, questions.required_result({ANSWER_KEY: question}, None, self._server_info))
            )
        else:
            if session.id not in told:
                invitation.when_over(lambda done: _complete(session, invitation.id) if done else None)
            data = {"elicitations": [{**page, "elicitationId": invitation.id}]}
            call.close(messages.error(call.id, versions.URL_ELICITATION_REQUIRED, str(problem), data))
        told.add(session.id)

    def _forget(self, invitation: "Invitation") -> None:
        self._told.pop(invitation, None)


def _complete(session: Session, id: str) -> None:
    params = json.dumps({"elicitationId": id})
    session.sink.notify(messages.notification("notifications/elicitation/complete", params))


def take_answer(call: "Call") -> None:
    """Take the user's answer to a login out of the input responses; all others are for the server."""
    params = dict(call.request.params)
    given = values.members(params.get("inputResponses"))
    if ANSWER_KEY not in given:
        return
    others = {key: value for key, value in given.items() if key != ANSWER_KEY}
    if others:
        params["inputResponses"] = json.Raw(json.join(others))
    else:
        del params["inputResponses"]
    call.replace_params(params)
    call.answer_login(values.text(values.members(given[ANSWER_KEY]).get("action")) or "cancel")
