"""Requests that Hearth sends to clients, and their answers; among them the owner's approval of a shutdown or reload.

An id contains the daemon's: a late answer to a former daemon's request matches nothing.
"""

import asyncio

from hearth.errors import HearthError, Refused
from hearth.hub.sessions import Session, Sessions
from hearth.mcp import messages
from hearth.wire import json, values
from hearth.wire.values import RawBytes

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
        question = values.text(message.id)
        asked, future = self._open.get(question or "", (None, None))
        if asked is session and future and not future.done():
            future.set_result(message)

    def session_left(self, session: Session) -> None:
        """Fail the open questions of a session that has left."""
        for question, (asked, future) in list(self._open.items()):
            if asked is session:
                del self._open[question]
                if not future.done():
                    future.set_exception(_gone())

    def _withdraw(self, question: str, reason: str, about: int | None) -> None:
        if question in self._open:
            params = json.dumps({"requestId": question, "reason": reason})
            self._open[question][0].sink.tell(messages.notification("notifications/cancelled", params), about)


def _gone() -> HearthError:
    return Refused("the session that was asked has left")


async def obtain_approval(asker: Session, act: str, sessions: Sessions, requests: ClientRequests, policy: str) -> None:
    """Return when a session may stop, restart or reload the daemon; raise Refused with the reason when it may not.

    The owner may; a request of any other session is put to the owner. `policy` is `owner.approve`.
    """
    owner = sessions.owner
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
