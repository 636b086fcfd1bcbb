"""Questions to a client, and what becomes of them; who may stop the daemon.

Calls that wait for a login: what becomes of them when somebody has logged in.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from hearth.errors import LoginRequired, Refused, UpstreamError
from hearth.hub import client_requests
from hearth.hub.calls import Call
from hearth.hub.client_requests import ClientRequests, Logins
from hearth.hub.sessions import Sessions
from hearth.mcp import versions
from hearth.wire import json
from unit.hub.outlets import Kept, session
from unit.hub.stage import client, opened


async def asked(sink: Kept, count: int = 1) -> dict[str, Any]:
    """The question that was put last, once it was."""
    while len(sink.heard("ask")) < count:
        await asyncio.sleep(0)
    payload = sink.heard("ask")[-1][2]
    assert isinstance(payload, bytes)
    return json.loads(payload)


def response(id: str, result: str = "{}") -> json.Message:
    return json.parse(f'{{"jsonrpc":"2.0","id":"{id}","result":{result}}}'.encode())


async def test_an_answer_reaches_who_asked_and_settles_the_question() -> None:
    questions, member, sink = ClientRequests("d1"), *session()
    asking = asyncio.create_task(questions.ask(member, "elicitation/create", b"{}", 5))
    question = await asked(sink)
    assert question["id"].startswith("hearth-d1-")
    questions.receive_answer(member, response(question["id"], '{"action":"accept"}'))
    assert bytes((await asking)["action"]) == b'"accept"'
    assert sink.heard("settled") == [("settled", question["id"])]


async def test_an_answer_to_another_daemon_s_question_or_by_another_session_reaches_nothing() -> None:
    questions, member, sink = ClientRequests("d1"), *session()
    asking = asyncio.create_task(questions.ask(member, "m", b"{}", 0.05))
    question = await asked(sink)
    questions.receive_answer(member, response("hearth-dead-1"))
    questions.receive_answer(session()[0], response(question["id"]))
    with pytest.raises(Refused, match="nobody answered"):
        await asking
    assert sink.heard("tell")
    questions.receive_answer(member, response(question["id"]))


async def test_a_session_that_leaves_leaves_no_open_question() -> None:
    questions, member, sink = ClientRequests("d1"), *session()
    asking = asyncio.create_task(questions.ask(member, "m", b"{}", 5))
    await asked(sink)
    questions.session_left(member)
    with pytest.raises(Refused, match="has left"):
        await asking
    assert sink.heard("settled") == sink.heard("tell") == []


async def test_a_question_that_nobody_waits_for_any_more_is_withdrawn() -> None:
    questions, member, sink = ClientRequests("d1"), *session()
    asking = asyncio.create_task(questions.ask(member, "m", b"{}", 5))
    question = await asked(sink)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    ((_, notice),) = sink.heard("tell")
    assert isinstance(notice, bytes)
    assert json.loads(notice)["params"]["requestId"] == question["id"]


async def test_each_question_has_an_id_of_its_own() -> None:
    questions, member, sink = ClientRequests("d1"), *session()
    tasks = [asyncio.create_task(questions.ask(member, "m", b"{}", 5)) for _ in range(3)]
    await asked(sink, 3)
    assert len({item[1] for item in sink.heard("ask")}) == 3
    questions.session_left(member)
    await asyncio.gather(*tasks, return_exceptions=True)


# --- approval by the owner


async def test_the_owner_and_a_session_without_one_need_nobody_s_approval() -> None:
    questions, member, sink = ClientRequests("d1"), *session()
    sessions = Sessions()
    await client_requests.obtain_approval(member, "shutdown", sessions, questions, "never")
    sessions.add(member)
    await client_requests.obtain_approval(member, "shutdown", sessions, questions, "never")
    assert sink.heard("ask") == []


@pytest.mark.parametrize(
    ("title", "words"), [({"title": "The Client", "name": "c"}, "The Client asks"), ({"name": "c"}, "c asks")]
)
async def test_the_question_names_who_asks_by_title_before_name(title: dict[str, str], words: str) -> None:
    questions, owner, sink = ClientRequests("d1"), *session()
    owner.era, owner.version = versions.LEGACY, "2025-11-25"
    owner.capabilities = json.split(b'{"elicitation":{}}')
    asker, _ = session()
    asker.client = title
    sessions = Sessions()
    sessions.add(owner)
    sessions.add(asker)
    asking = asyncio.create_task(client_requests.obtain_approval(asker, "reload", sessions, questions, "never"))
    question = await asked(sink)
    assert question["params"]["message"].startswith(words)
    questions.receive_answer(owner, response(question["id"], '{"action":"accept","content":{"approve":true}}'))
    await asking


PROBLEM = LoginRequired("server 's' needs a login: type `hearth auth login s`", "s")


class Invited:
    """An invitation that is over at once, by a login or without one."""

    id, server, url = "1", "s", "http://127.0.0.1/login"

    def __init__(self, outcome: bool) -> None:
        self.outcome = outcome

    async def wait(self, seconds: float) -> bool:
        return self.outcome

    def when_over(self, act: Callable[[bool], None]) -> None: ...


class Server:
    def __init__(self, invited: Invited) -> None:
        self.invited = invited

    async def invite(self) -> Invited:
        return self.invited


async def asked_again(outcome: bool, again: Callable[[], None]) -> tuple[Call, Kept]:
    """A modern client's call, made once more after its person was shown the page."""
    member, sink = client(versions.MODERN)
    invited = Invited(outcome)
    logins = Logins(lambda name: None, None, b"{}")
    logins._told[invited] = {member.id}  # type: ignore[index]
    call = opened(member)
    await logins._invite(call, PROBLEM, Server(invited), again)  # type: ignore[arg-type]
    return call, sink


async def test_once_somebody_has_logged_in_the_call_is_done() -> None:
    done: list[str] = []
    call, sink = await asked_again(True, lambda: done.append("again"))
    assert (done, call.is_open, sink.messages("answer")) == (["again"], True, [])


async def test_what_keeps_the_call_from_being_done_then_is_its_answer() -> None:
    def again() -> None:
        raise UpstreamError("server 's' is busy")

    _, sink = await asked_again(True, again)
    assert sink.messages("answer")[0]["error"]["message"] == "server 's' is busy"


async def test_where_nobody_has_the_command_to_type_is_the_answer() -> None:
    _, sink = await asked_again(False, lambda: pytest.fail("nobody has logged in"))
    assert sink.messages("answer")[0]["error"]["message"] == str(PROBLEM)
