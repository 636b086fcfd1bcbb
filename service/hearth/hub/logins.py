"""Calls to servers that need a login first: a client that can show a URL is given one, any other gets the plain error.

A legacy client gets the error that demands visits to URLs (-32042), and is notified when the login is complete. A
modern client gets a result that requires input, and its repeated call waits for the login. All calls that need the same
login get the same URL.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from hearth.errors import HearthError, LoginRequired
from hearth.mcp import capabilities, messages, questions, versions
from hearth.mcp.capabilities import ELICITATION
from hearth.mcp.questions import Question
from hearth.wire import json, values

if TYPE_CHECKING:
    from hearth.hub.calls import Call
    from hearth.hub.dispatcher import Dispatcher
    from hearth.hub.sessions import Session
    from hearth.upstreams.oauth.logins import Invitation
    from hearth.upstreams.server import Server

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


def _complete(session: "Session", id: str) -> None:
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
