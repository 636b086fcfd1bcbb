"""Questions to a client, and what becomes of them; who may stop the daemon."""

import asyncio
from typing import Any

import pytest
from outlets import Kept, session

from hearth.errors import Refused
from hearth.hub import client_requests
from hearth.hub.client_requests import ClientRequests
from hearth.hub.sessions import Sessions
from hearth.mcp import versions
from hearth.wire import json


async def asked(sink: Kept, count: int = 1) -> dict[str, Any]:
    """The question that was put last, once it was."""
    while len(sink.heard("ask")) < count:
        await asyncio.sleep(0)
    payload = sink.heard("ask")[-1][2]
    assert isinstance(payload, bytes)
    found: dict[str, Any] = json.loads(payload)
    return found


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


# --- consent


async def test_the_owner_and_a_session_without_one_need_nobody_s_consent() -> None:
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
