"""A request on its way to a server: what is written into it, and when it has to wait for its turn."""

from typing import Any

import pytest

from hearth.errors import MessageError, UpstreamError
from hearth.hub.bindings import Binding, LogLevels
from hearth.hub.calls import Call
from hearth.hub.catalog import Catalog, Target, TargetLookup, View
from hearth.hub.client_requests import ClientRequests
from hearth.hub.dispatcher import Deadlines, Dispatcher
from hearth.hub.input_required import InputRequiredLoop, SuspendedCalls
from hearth.hub.pipeline import Pipeline
from hearth.hub.server_messages import UrlVisits
from hearth.hub.sessions import Session
from hearth.mcp import capabilities, versions
from hearth.mcp.request_state import StateRefused
from hearth.upstreams import supervision
from hearth.upstreams.client_context import ClientContext
from hearth.upstreams.connection import Owner
from hearth.wire import json
from hearth.wire.json import Raw
from hearth.wire.values import RawBytes
from unit.conversations import Recorded, Scripted, legacy_script, until
from unit.hub.stage import client, instance, offering, opened, server

ENVELOPE = {versions.PROTOCOL_VERSION_KEY: versions.NEWEST_MODERN, versions.CLIENT_CAPABILITIES_KEY: {}}


class Stage:
    """One server with one instance, and calls to it."""

    def __init__(self, era: str = versions.LEGACY, **spec: object) -> None:
        self.server = server(**spec)  # type: ignore[arg-type]
        self.instance, self.connection = instance(self.server, offering(era=era, tools=["t"]))
        servers = [self.server]
        levels = LogLevels()
        self.deadlines = Deadlines(lambda: servers)
        catalogue = Catalog(lambda: servers)
        self.forwarding = Dispatcher(levels, self.deadlines)
        binding = Binding(ClientRequests("d"), levels)
        loop = InputRequiredLoop(ClientRequests("d"), binding, lambda: 60.0)
        parking = SuspendedCalls(lambda: 60.0, lambda: 9, levels.attached)
        self.pipeline = Pipeline(catalogue, binding, self.forwarding, parking, loop, UrlVisits())

    def successor(self, script: dict[str, object]) -> Scripted:
        """The connection of the instance's next process."""
        successor = Scripted(self.instance, script)

        async def connect(owner: Owner, tenant: ClientContext) -> Scripted:
            return successor

        self.instance._opener._connect = connect
        return successor

    def forward(
        self,
        member: Session,
        id: int = 1,
        meta: dict[str, object] | None = None,
        era: str | None = None,
        unrepeatable: str | None = None,
        resent: bool = False,
        **params: object,
    ) -> Call:
        fields = json.dumps({"name": "s__t", **params} | ({"_meta": meta} if meta is not None else {}))
        call = opened(member, b"%d" % id, era, self.pipeline, params=fields, meta=meta, resent=resent)  # type: ignore[arg-type]
        target = Target(self.server, {"name": Raw(b'"t"')}, unrepeatable)
        self.forwarding.dispatch(call, View([], False), target, self.instance)
        return call

    def params(self, number: int = -1) -> dict[str, Any]:
        found: dict[str, Any] = self.connection.sent[number]["params"]
        return found


def sent_ids(connection: Recorded) -> list[object]:
    """Which calls the server has, by the mark in their arguments."""
    return [request["params"]["arguments"] for request in connection.sent]


@pytest.fixture
def stage() -> Stage:
    return Stage()


# --- turns


async def test_calls_above_the_limit_wait_for_their_turn_and_come_in_their_order() -> None:
    stage = Stage(max_concurrency=2)
    member, sink = client()
    for number in range(1, 6):
        stage.forward(member, number, arguments=number)
    assert sent_ids(stage.connection) == [1, 2]
    stage.connection.give(2, {})
    assert sent_ids(stage.connection) == [1, 2, 3]
    stage.connection.refuse(1, -32000)
    stage.connection.give(3, {})
    assert sent_ids(stage.connection) == [1, 2, 3, 4, 5]
    # Whoever comes now comes after those that have waited.
    stage.forward(member, 6, arguments=6)
    assert len(stage.connection.sent) == 5
    for number in (4, 5):
        stage.connection.give(number, {})
    stage.connection.give(6, {})
    assert len(sink.messages("answer")) == 6


async def test_a_call_whose_tool_is_withheld_by_the_time_of_its_turn_is_not_sent() -> None:
    stage = Stage(max_concurrency=1)
    stage.server.catalogs.known[capabilities.FULL] = offering(tools=["t"])
    member, sink = client()
    for number in (1, 2):
        stage.forward(member, number, arguments=number)
    stage.server.withheld = lambda offered: frozenset({"t"})  # type: ignore[method-assign]
    stage.connection.give(1, {})
    assert sent_ids(stage.connection) == [1]
    assert sink.messages("answer")[-1]["error"]["data"]["reason"] == "withheld"


async def test_a_call_that_is_cancelled_before_its_turn_is_never_sent_and_holds_nobody_up() -> None:
    stage = Stage(max_concurrency=1)
    member, _ = client()
    calls = [stage.forward(member, number, arguments=number) for number in range(1, 5)]
    for call in calls[1:3]:
        call.cancel()
    calls[0].cancel()
    assert sent_ids(stage.connection) == [1, 4]
    assert stage.connection.cancelled() == [1]


async def test_a_call_whose_turn_comes_when_nothing_can_be_sent_fails_and_so_does_the_next() -> None:
    stage = Stage(max_concurrency=1)
    member, sink = client()
    for number in range(1, 4):
        stage.forward(member, number)
    stage.connection.broken = True
    stage.connection.give(1, {})
    assert ["error" in answer for answer in sink.messages("answer")] == [False, True, True]


async def test_a_server_that_ends_fails_what_it_had_and_the_next_one_takes_those_who_wait_for_their_turn() -> None:
    stage = Stage(max_concurrency=1)
    successor = stage.successor(legacy_script())
    member, sink = client()
    for number in range(1, 4):
        stage.forward(member, number)
    stage.connection.end("it fell over")
    assert [(answer["id"], "error" in answer) for answer in sink.messages("answer")] == [(1, True)]
    for answered in (2, 3):
        await until(lambda: successor.methods()[-1:] == ["tools/call"], "it has its turn")
        successor.give(successor.sent[-1]["id"], {"content": []})
        assert sink.messages("answer")[-1]["id"] == answered


async def test_a_server_that_cannot_be_started_again_fails_those_who_wait_for_their_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(supervision, "FIRST_PAUSE_SECONDS", 0.001)
    stage = Stage(max_concurrency=1)

    async def connect(owner: Owner, tenant: ClientContext) -> Scripted:
        return Scripted(owner, {"initialize": -32600})

    stage.instance._opener._connect = connect
    member, sink = client()
    for number in range(1, 4):
        stage.forward(member, number)
    stage.connection.end("it fell over")
    await until(lambda: len(sink.messages("answer")) == 3, "all are told")
    assert all("server 's'" in answer["error"]["message"] for answer in sink.messages("answer"))


async def test_without_a_limit_nobody_waits(stage: Stage) -> None:
    member, _ = client()
    for number in range(100):
        stage.forward(member, number)
    assert len(stage.connection.sent) == 100


# --- what is sent


async def test_the_server_s_own_names_are_written_and_the_rest_stays(stage: Stage) -> None:
    member, _ = client()
    stage.forward(member, arguments={"a": [1]}, vendor=7)
    assert stage.connection.methods() == ["tools/call"]
    assert stage.params() == {"name": "t", "arguments": {"a": [1]}, "vendor": 7}


@pytest.mark.parametrize("era", [versions.LEGACY, versions.MODERN])
async def test_a_progress_token_becomes_the_number_of_the_request(era: str) -> None:
    stage = Stage(era)
    member, sink = client(era)
    meta = {"progressToken": "mine"} | (ENVELOPE if era == versions.MODERN else {})
    stage.forward(member, 1, meta)
    stage.forward(member, 2, {**meta, "progressToken": 5})
    assert [stage.params(number)["_meta"]["progressToken"] for number in (0, 1)] == [1, 2]
    stage.connection.say("notifications/progress", {"progressToken": 1, "progress": 1})
    assert sink.messages("notify")[0]["params"]["progressToken"] == "mine"


async def test_a_legacy_server_sees_nothing_of_a_modern_envelope(stage: Stage) -> None:
    member, _ = client(versions.MODERN)
    stage.forward(member, 1, {**ENVELOPE, versions.LOG_LEVEL_KEY: "debug", "traceparent": "t"})
    # Its level is set by a request of its own, first.
    assert stage.connection.methods() == ["logging/setLevel", "tools/call"]
    assert stage.params(0) == {"level": "debug"}
    assert stage.params()["_meta"] == {"traceparent": "t"}
    stage.forward(member, 2, ENVELOPE)
    assert "_meta" not in stage.params()


@pytest.mark.parametrize(("level", "sent"), [(None, "info"), ("error", "error")])
async def test_a_modern_server_is_told_of_a_legacy_client_s_capabilities_and_level(
    level: str | None, sent: str
) -> None:
    stage = Stage(versions.MODERN)
    member, _ = client(declared=b'{"sampling":{}}')
    member.log_level = level
    stage.forward(member)
    assert stage.params()["_meta"] == {
        versions.PROTOCOL_VERSION_KEY: versions.NEWEST_MODERN,
        versions.CLIENT_CAPABILITIES_KEY: {"sampling": {}},
        versions.LOG_LEVEL_KEY: sent,
    }


async def test_a_modern_server_is_told_of_a_modern_request_what_that_says_itself() -> None:
    stage = Stage(versions.MODERN)
    member, _ = client(versions.MODERN, declared=b'{"sampling":{}}')
    meta = {**ENVELOPE, versions.CLIENT_CAPABILITIES_KEY: {"roots": {}}}
    call = stage.forward(member, 1, meta)
    assert stage.params()["_meta"] == meta
    assert json.loads(bytes(call.declared)) == {"roots": {}}


async def test_a_state_that_a_legacy_server_cannot_have_given_is_refused(stage: Stage) -> None:
    member, _ = client(versions.MODERN)
    with pytest.raises(StateRefused, match="expired"):
        stage.forward(member, 1, ENVELOPE, requestState="foreign")
    assert stage.connection.sent == []


async def test_what_a_retry_may_be_compared_with_is_kept_and_answers_to_nothing_are_not_sent(stage: Stage) -> None:
    member, _ = client(versions.MODERN)
    call = stage.forward(member, 1, ENVELOPE, arguments={"a": 1}, inputResponses={"q1": {}})
    assert stage.params() == {"name": "t", "arguments": {"a": 1}}
    assert {key: json.loads(bytes(value)) for key, value in call.request.params.items() if key != "_meta"} == {
        "name": "s__t",
        "arguments": {"a": 1},
        "inputResponses": {"q1": {}},
    }


async def test_a_modern_server_s_state_goes_back_to_it_as_it_is() -> None:
    stage = Stage(versions.MODERN)
    member, _ = client(versions.MODERN)
    stage.forward(member, 1, ENVELOPE, requestState="foreign")
    assert stage.params()["requestState"] == "foreign"


# --- what is not sent


async def test_what_another_daemon_may_have_run_is_run_again_only_if_that_does_no_harm(stage: Stage) -> None:
    member, _ = client()
    with pytest.raises(UpstreamError, match="may or may not have run"):
        stage.forward(member, 1, resent=True, unrepeatable="pay")
    assert stage.connection.sent == []
    stage.forward(member, 2, resent=True)
    stage.forward(member, 3, unrepeatable="pay")
    assert len(stage.connection.sent) == 2


@pytest.mark.parametrize("noticed", [False, True])
async def test_a_call_that_a_server_has_not_taken_at_its_end_is_the_next_one_s(noticed: bool) -> None:
    class Closing(Recorded):
        def _send(self, number: int, method: bytes, params: RawBytes) -> None:
            self._owner.lost(self)
            raise UpstreamError("server 's' is not running")

    stage = Stage()
    successor = stage.successor(legacy_script(**{"tools/call": {"content": []}}))
    if noticed:
        stage.instance.lost(stage.connection)
    else:
        stage.instance.connection = Closing(stage.instance)
    member, sink = client()
    stage.forward(member)
    await until(lambda: sink.messages("answer"), "it is answered")
    assert sink.messages("answer")[0]["result"] == {"content": []}
    assert successor.sent[-1]["params"] == {"name": "t"}


async def test_a_call_is_not_the_next_one_s_if_that_describes_the_tool_as_nobody_has_approved(stage: Stage) -> None:
    successor = stage.successor(legacy_script(**{"tools/call": {"content": []}}))
    stage.instance.lost(stage.connection)
    stage.server.catalogs.known[capabilities.FULL] = offering(tools=["t"])
    stage.server.withheld = lambda offered: frozenset({"t"})  # type: ignore[method-assign]
    member, sink = client()
    stage.forward(member)
    await until(lambda: sink.messages("answer"), "it is answered")
    assert sink.messages("answer")[0]["error"]["data"]["reason"] == "withheld"
    assert successor.sent == []


async def test_a_call_to_a_server_that_is_no_longer_used_and_has_ended_fails(stage: Stage) -> None:
    stage.instance.mark_stale()
    stage.instance.connection = None
    member, _ = client()
    with pytest.raises(UpstreamError, match="server 's' has just ended"):
        stage.forward(member)


async def test_time_is_kept_from_the_first_call_on(stage: Stage) -> None:
    assert not stage.deadlines.armed
    member, _ = client()
    stage.forward(member, 1)
    assert stage.deadlines.armed
    # Once is enough.
    stage.deadlines.arm = None  # type: ignore[assignment,method-assign]
    stage.forward(member, 2)


# --- where it goes


async def test_what_nobody_can_have_is_refused_with_the_sentence(stage: Stage) -> None:
    stage.server.update_catalog(stage.instance)
    stage.server.catalogs.known[stage.instance.capabilities] = offering()
    member, sink = client()
    call = opened(member)
    missing = MessageError("unknown tool: x", -32602)
    search = TargetLookup(lambda view, settled: None, lambda of: True, missing)
    stage.pipeline.submit(call, search)
    await until(lambda: sink.heard("answer"), "it is answered")
    (answer,) = sink.messages("answer")
    assert (answer["error"]["code"], answer["error"]["message"]) == (-32602, "unknown tool: x")
    assert stage.connection.sent == []


async def test_bad_params_that_only_the_search_finds_are_the_client_s_error(stage: Stage) -> None:
    member, _ = client()

    def locate(view: View, settled: bool) -> Target | None:
        raise MessageError("params.x must be a string", versions.INVALID_PARAMS)

    with pytest.raises(MessageError):
        missing = MessageError("unknown", -32602)
        search = TargetLookup(locate, lambda of: True, missing)
        stage.pipeline.submit(opened(member), search)
