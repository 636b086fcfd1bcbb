"""One request, one answer: whatever comes first, and nothing after it."""

import asyncio
from typing import Any

import pytest

from hearth.errors import UpstreamError
from hearth.hub.calls import Call
from hearth.hub.catalog import View
from hearth.hub.dispatcher import unrepeatable
from hearth.mcp import versions
from hearth.wire import json
from hearth.wire.json import Raw
from unit.hub.outlets import Kept
from unit.hub.stage import Desk, client, instance, offering, opened, sent, server


class Stage:
    """A call of a client of one era on a server of one, sent."""

    def __init__(
        self,
        era: str = versions.LEGACY,
        server_era: str = versions.LEGACY,
        id: bytes = b"1",
        desk: Desk | None = None,
        version: str = "2025-11-25",
        meta: dict[str, object] | None = None,
    ) -> None:
        self.desk = desk or Desk()
        self.server = server()
        self.instance, self.connection = instance(self.server, offering(era=server_era))
        self.member, self.sink = client(era, version)
        self.call = sent(self.member, self.server, self.instance, id, desk=self.desk, meta=meta)

    def answers(self) -> list[dict[str, Any]]:
        return self.sink.messages("answer")


@pytest.fixture
def stage() -> Stage:
    return Stage()


async def test_the_first_answer_is_given_and_later_ones_are_dropped(stage: Stage) -> None:
    stage.call.answered(json.parse(b'{"jsonrpc":"2.0","id":1,"result":{"a": 1}}'))
    stage.call.answered(json.parse(b'{"jsonrpc":"2.0","id":1,"result":{"a":2}}'))
    stage.call.failed(UpstreamError("late"))
    assert stage.sink.said == [("answer", 7, b'{"jsonrpc":"2.0","id":1,"result":{"a": 1}}')]
    assert stage.member.open == {}


async def test_a_cancelled_call_has_no_answer_and_is_withdrawn_upstream(stage: Stage) -> None:
    stage.call.cancel(b'"not needed"')
    stage.connection.give(1, {})
    assert stage.sink.said == [("finish", 7)]
    assert not stage.call.is_open
    assert [item["params"] for item in stage.connection.notified] == [{"requestId": 1, "reason": "not needed"}]


async def test_a_cancel_after_the_answer_does_nothing(stage: Stage) -> None:
    stage.connection.give(1, {})
    stage.call.cancel()
    assert len(stage.sink.said) == 1
    assert stage.connection.notified == []


async def test_a_call_that_was_never_sent_can_be_cancelled() -> None:
    member, sink = client()
    opened(member).cancel()
    assert sink.said == [("finish", 7)]


async def test_a_second_call_under_the_same_id_is_not_closed_by_the_first_one_s_answer(stage: Stage) -> None:
    stage.call.cancel()
    second = opened(stage.member)
    stage.call.answered(json.parse(b'{"jsonrpc":"2.0","id":1,"result":{}}'))
    assert second.is_open
    assert stage.answers() == []


async def test_what_is_kept_and_dropped_goes_with_the_answer() -> None:
    member, sink = client()
    opened(member).close(b"{}", keep="this", drop="that")
    assert (sink.kept, sink.dropped) == (["this"], ["that"])


async def test_a_batch_takes_the_answer_in_the_session_s_stead() -> None:
    (member, sink), batch = client(), Kept()
    for id, end in ((b"1", "close"), (b"2", "cancel")):
        call = opened(member, id)
        call.request = call.request._replace(batch=batch)
        call.close(b"{}") if end == "close" else call.cancel()
    assert batch.said == [("answer", 7, b"{}"), ("finish", 7)]
    assert sink.said == []


async def test_an_error_of_the_server_is_relayed_with_the_client_s_id_byte_for_byte() -> None:
    stage = Stage(id=b'"x"')
    stage.call.answered(json.parse(b'{"jsonrpc":"2.0","id":1,"error":{"code":-32602, "message":"no","data":{"k":1}}}'))
    ((_, _, payload),) = stage.sink.said
    assert payload == b'{"jsonrpc":"2.0","id":"x","error":{"code":-32602, "message":"no","data":{"k":1}}}'


async def test_a_result_that_cannot_be_translated_is_an_error() -> None:
    stage = Stage(server_era=versions.MODERN)
    stage.connection.give(1, {"resultType": "task"})
    (answer,) = stage.answers()
    assert answer["error"]["code"] == -32603
    assert "'task'" in answer["error"]["message"]


# --- what is not the end of it


@pytest.mark.parametrize(
    ("era", "server_era", "is_taken"),
    [
        (versions.LEGACY, versions.MODERN, True),
        (versions.MODERN, versions.MODERN, False),
        (versions.LEGACY, versions.LEGACY, False),
    ],
)
async def test_required_input_is_a_legacy_client_s_call_going_on_and_a_modern_one_s_answer(
    era: str, server_era: str, is_taken: bool
) -> None:
    stage = Stage(era, server_era)
    stage.connection.give(1, {"resultType": "input_required", "requestState": "s"})
    assert bool(stage.desk.required) is stage.call.is_open is is_taken
    assert bool(stage.answers()) is not is_taken


@pytest.mark.parametrize("takes", [True, False])
async def test_a_demand_for_urls_may_be_taken_care_of_and_is_an_error_otherwise(takes: bool) -> None:
    stage = Stage(versions.MODERN, versions.LEGACY, desk=Desk(takes_urls=takes))
    stage.connection.refuse(1, -32042, "visit", {"elicitations": []})
    assert len(stage.desk.demands) == 1
    assert stage.call.is_open is takes
    # A modern client never sees the legacy code.
    assert [answer["error"]["code"] for answer in stage.answers()] == ([] if takes else [-32603])


async def test_a_demand_for_urls_between_two_of_one_era_is_noted_and_relayed_as_it_is(stage: Stage) -> None:
    stage.connection.refuse(1, -32042, "visit", {"elicitations": []})
    assert len(stage.desk.demands) == 1
    assert stage.answers()[0]["error"]["code"] == -32042


# --- results


@pytest.mark.parametrize(
    ("era", "server_era", "version", "plain"),
    [
        (versions.LEGACY, versions.LEGACY, "2025-06-18", True),
        (versions.LEGACY, versions.LEGACY, "2025-03-26", False),
        (versions.MODERN, versions.MODERN, "", True),
        (versions.MODERN, versions.LEGACY, "", False),
        (versions.LEGACY, versions.MODERN, "2025-11-25", False),
    ],
)
async def test_a_result_is_looked_at_only_where_something_in_it_may_have_to_change(
    era: str, server_era: str, version: str, plain: bool
) -> None:
    attempt = Stage(era, server_era, version=version).call.attempt
    assert attempt is not None and attempt.plain is plain


async def test_where_several_servers_have_resources_every_result_is_looked_at_for_uris() -> None:
    first, second = server("a"), server("b")
    listed = {"resources": ["r:1"]}
    view = View([(first, offering("a", **listed)), (second, offering("b", **listed))], False)
    on, connection = instance(second)
    member, sink = client()
    sent(member, second, on, view=view)
    connection.give(1, {"content": [{"type": "resource_link", "name": "n", "uri": "r:1"}]})
    (answer,) = sink.messages("answer")
    assert answer["result"]["content"][0]["uri"] == "hearth:b:r:1"


async def test_the_revision_of_an_answer_is_the_session_s_or_the_modern_one() -> None:
    member, _ = client(version="2025-03-26")
    assert opened(member).version == "2025-03-26"
    assert opened(member, b"2", versions.MODERN).version == versions.NEWEST_MODERN
    member.version = None
    assert opened(member, b"3").version == versions.NEWEST_LEGACY


# --- progress


async def test_progress_goes_out_under_the_client_s_token_while_the_call_is_open(stage: Stage) -> None:
    stage.connection.say("notifications/progress", {"progressToken": 1, "progress": 1})
    assert stage.sink.said == []
    stage = Stage(meta={"progressToken": "mine"})
    stage.connection.say("notifications/progress", {"progressToken": 1, "progress": 0.5})
    ((_, _, topic),) = stage.sink.said
    (notice,) = stage.sink.messages("notify")
    assert (notice["params"], topic) == ({"progressToken": "mine", "progress": 0.5}, None)
    stage.call.close(b"{}")
    stage.call.progressed({"progressToken": Raw(b"1"), "progress": Raw(b"1")})
    assert len(stage.sink.said) == 2


async def test_progress_counts_as_a_sign_of_life_whether_or_not_the_client_hears_of_it(stage: Stage) -> None:
    stage.call.touched = 0.0
    stage.connection.say("notifications/progress", {"progressToken": 1, "progress": 1})
    assert stage.call.touched > 0.0


# --- questions that it waits for


async def never() -> None:
    await asyncio.Event().wait()


async def test_a_question_ends_with_its_call() -> None:
    for end in (Call.cancel, lambda call: call.close(b"{}")):
        member, _ = client()
        call, task = opened(member), asyncio.create_task(never())
        call.attach(task)
        assert call.waits_for_client
        end(call)
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not call.waits_for_client


async def test_a_question_of_which_it_is_not_certain_whose_it_is_goes_on_with_another_call_of_the_session(
    stage: Stage,
) -> None:
    other, _ = client()
    sent(other, stage.server, stage.instance, b"9")
    heir = sent(stage.member, stage.server, stage.instance, b"2")
    certain, uncertain = asyncio.create_task(never()), asyncio.create_task(never())
    stage.call.attach(certain)
    stage.call.attach(uncertain, is_certain=False)
    stage.connection.give(1, {})
    with pytest.raises(asyncio.CancelledError):
        await certain
    assert not uncertain.done()
    assert heir.waits_for_client
    heir.cancel()
    with pytest.raises(asyncio.CancelledError):
        await uncertain


async def test_a_question_that_nobody_else_can_have_caused_ends_with_the_last_call(stage: Stage) -> None:
    sent(client()[0], stage.server, stage.instance, b"9")
    task = asyncio.create_task(never())
    stage.call.attach(task, is_certain=False)
    stage.connection.give(1, {})
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_whoever_asks_may_end_the_call_without_ending_itself() -> None:
    member, sink = client()
    call = opened(member)

    async def ask() -> None:
        call.close(b"{}")
        await asyncio.sleep(0)
        sink.said.append(("went on",))

    task = asyncio.create_task(ask())
    call.attach(task)
    await task
    assert sink.said == [("answer", 7, b"{}"), ("went on",)]


async def test_an_answered_question_starts_the_call_s_time_anew(stage: Stage) -> None:
    stage.call.touched = 0.0
    task = asyncio.create_task(asyncio.sleep(0))
    stage.call.attach(task)
    await task
    await asyncio.sleep(0)
    assert not stage.call.waits_for_client
    assert stage.call.touched > 0.0


def begun_at(call: Call) -> float:
    assert call.attempt is not None
    return call.attempt.started


async def test_the_time_that_questions_take_is_not_the_call_s(stage: Stage) -> None:
    begun, events = begun_at(stage.call), [asyncio.Event(), asyncio.Event()]
    tasks = [asyncio.create_task(event.wait()) for event in events]
    for task in tasks:
        stage.call.attach(task)  # type: ignore[arg-type]
    stage.call.paused -= 50.0
    for event, task in zip(events, tasks, strict=True):
        assert stage.call.waits_for_client
        assert begun_at(stage.call) == begun
        event.set()
        await task
        await asyncio.sleep(0)
    assert not stage.call.waits_for_client
    assert 50.0 <= begun_at(stage.call) - begun < 100.0


async def test_a_call_is_sent_again_under_a_new_number_and_withdrawn_under_that_one(stage: Stage) -> None:
    stage.connection.forget(1)
    stage.call.send_again(b'{"name":"t","requestState":"s"}')
    again = stage.connection.sent[1]
    assert (again["id"], again["method"], again["params"]["requestState"]) == (2, "tools/call", "s")
    stage.call.cancel()
    assert stage.connection.cancelled() == [2]


async def test_a_server_that_takes_nothing_leaves_the_call_open() -> None:
    of = server()
    on, connection = instance(of)
    connection.broken = True
    member, _ = client()
    with pytest.raises(UpstreamError, match="takes nothing"):
        sent(member, of, on)
    assert len(member.open) == 1


def test_the_refusal_to_run_twice_names_the_tool_and_says_why() -> None:
    words = str(unrepeatable("pay"))
    assert "'pay'" in words
    assert "may or may not have run" in words


# --- figures


@pytest.mark.parametrize(
    ("answer", "errors"),
    [
        ({"result": {"content": []}}, 0),
        ({"result": {"content": [], "isError": False}}, 0),
        ({"result": {"content": [], "isError": True}}, 1),
        ({"result": {"structuredContent": {"isError": True}, "content": []}}, 0),
        ({"error": {"code": -32603, "message": "no"}}, 1),
    ],
    ids=json.dumps,
)
async def test_an_answer_is_counted_and_so_is_what_failed(answer: dict[str, Any], errors: int, stage: Stage) -> None:
    stage.call.answered(json.parse(json.dumps({"jsonrpc": "2.0", "id": 1, **answer})))
    stage.call.failed(UpstreamError("late"))
    assert (stage.instance.stats.calls, stage.instance.stats.errors) == (1, errors)


@pytest.mark.parametrize(
    ("result", "errors"),
    [
        (b'{"content":[], "isError" : true}', 1),
        (b'{"isError": true, "content": []}', 1),
        (b'{"content":["isError"]}', 0),
        (b'{"isError":true,"structuredContent":{"isError":true}}', 1),
    ],
)
async def test_however_a_server_writes_it(result: bytes, errors: int, stage: Stage) -> None:
    stage.call.answered(json.parse(b'{"jsonrpc":"2.0","id":1,"result":%b}' % result))
    assert stage.instance.stats.errors == errors


async def test_what_was_cancelled_or_never_sent_is_in_no_figure(stage: Stage) -> None:
    stage.call.cancel()
    opened(stage.member).failed(UpstreamError("it could not be started"))
    assert stage.instance.stats.calls == 0
