"""A client's line to whoever answers it, by era and method; on a whole hub with servers of the test's.

Unknown protocol versions and notifications: one warning of each kind for a client.

Input that is required in the middle of a call, on a whole hub.
"""

import logging
from pathlib import Path

import pytest

from hearth.hub import router as unknown_messages
from hearth.hub.router import UnknownMessages
from hearth.mcp import versions
from unit.conversations import modern_script, until
from unit.hub.outlets import Kept
from unit.hub.whole_hub import ENVELOPE, PLENTY, Stage, answer


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path, a=PLENTY)


# --- eras


@pytest.mark.parametrize(
    ("method", "modern"),
    [
        *((method, True) for method in ("ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe")),
        *((method, False) for method in ("server/discover", "subscriptions/listen")),
    ],
)
async def test_a_method_of_the_other_era_is_not_found_and_not_forwarded(
    method: str, modern: bool, stage: Stage
) -> None:
    member, sink = stage.client()
    stage.ask(member, method, **({"_meta": ENVELOPE} if modern else {}))
    error = (await answer(sink))["error"]
    assert error["code"] == -32601
    assert method in error["message"]
    assert stage.started() == []


async def test_the_era_is_told_by_each_request_and_the_session_s_by_its_first(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    member, sink = stage.client(initialized=False)
    info = {"name": "c", "version": "1"}
    meta = {**ENVELOPE, versions.CLIENT_CAPABILITIES_KEY: {"roots": {}}, versions.CLIENT_INFO_KEY: info}
    stage.ask(member, "tools/list", 1, _meta=meta)
    stage.ask(member, "tools/list", 2)
    stage.ask(member, "tools/list", 3, _meta=ENVELOPE)
    assert ["resultType" in message["result"] for message in sink.messages("answer")] == [True, False, True]
    assert (member.era, member.version, member.client) == (versions.MODERN, versions.NEWEST_MODERN, info)
    assert member.caller.capabilities == b'{"roots":{}}'


@pytest.mark.parametrize(
    ("meta", "code"),
    [
        ({versions.PROTOCOL_VERSION_KEY: versions.NEWEST_MODERN}, -32602),
        ({**ENVELOPE, versions.PROTOCOL_VERSION_KEY: "2027-01-01"}, -32022),
        ({**ENVELOPE, versions.LOG_LEVEL_KEY: "loud"}, -32602),
    ],
)
async def test_a_bad_envelope_is_refused(tmp_path: Path, meta: dict[str, object], code: int) -> None:
    stage = Stage(tmp_path)
    member, sink = stage.client(initialized=False)
    stage.ask(member, "tools/list", _meta=meta)
    assert (await answer(sink))["error"]["code"] == code
    assert (member.era, member.open) == (None, {})


# --- ids


async def test_an_id_in_flight_is_not_used_twice_and_the_first_goes_on(stage: Stage) -> None:
    member, sink = stage.client()
    stage.ask(member, "tools/call", name="a__t")
    stage.ask(member, "ping")
    assert (await answer(sink))["error"]["code"] == -32600
    stage.ask(member, "ping", id="1")
    assert (await answer(sink, 2))["result"] == {}
    request = await stage.on("a", "tools/call")
    stage.connection("a").give(request["id"], {"content": []})
    assert (await answer(sink, 3))["result"] == {"content": []}


async def test_the_id_of_an_open_subscription_is_in_use(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    member, sink = stage.client(initialized=False)
    for _ in range(2):
        stage.ask(member, "subscriptions/listen", _meta=ENVELOPE, notifications={"toolsListChanged": True})
    assert (await answer(sink))["error"]["code"] == -32600
    assert len(member.listens) == 1


async def test_a_response_to_nothing_is_finished_and_nothing_else(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    member, sink = stage.client()
    tag = stage.receive(member, {"id": "hearth-d0-1", "result": {}})
    assert sink.said == [("finish", tag)]


# --- notifications


async def test_a_cancelled_call_is_withdrawn_and_that_of_another_session_is_not(stage: Stage) -> None:
    (member, sink), (other, _) = stage.client(), stage.client()
    stage.ask(member, "tools/call", name="a__t")
    request = await stage.on("a", "tools/call")
    stage.tell(other, "notifications/cancelled", requestId=1)
    stage.tell(member, "notifications/cancelled", requestId="1")
    stage.tell(member, "notifications/cancelled")
    assert stage.connection("a").cancelled() == []
    stage.tell(member, "notifications/cancelled", requestId=1, reason="enough")
    assert stage.connection("a").notified[-1]["params"] == {"requestId": request["id"], "reason": "enough"}
    assert sink.heard("answer") == []


async def test_a_call_that_is_cancelled_while_its_server_is_started_is_never_sent(stage: Stage) -> None:
    member, sink = stage.client()
    stage.ask(member, "tools/call", 1, name="a__t")
    stage.tell(member, "notifications/cancelled", requestId=1)
    stage.ask(member, "tools/call", 2, name="a__t", arguments={"second": True})
    assert (await stage.on("a", "tools/call"))["params"]["arguments"] == {"second": True}
    assert sink.heard("answer") == []


async def test_a_cancelled_subscription_is_no_longer_kept(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    member, sink = stage.client(initialized=False)
    stage.ask(member, "subscriptions/listen", _meta=ENVELOPE, notifications={"toolsListChanged": True})
    stage.tell(member, "notifications/cancelled", requestId=1)
    assert (sink.kept, sink.dropped, member.listens) == (["listen:1"], ["listen:1"], {})


async def test_the_end_of_the_handshake_is_kept_and_a_replayed_one_is_told_to_look_again(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    member, sink = stage.client(initialized=False)
    stage.tell(member, "notifications/initialized")
    assert (sink.kept, sink.heard("notify"), member.initialized) == (["initialized"], [], True)
    stage.tell(member, "notifications/initialized", replay=True)
    assert {message["method"] for message in sink.messages("notify")} == {
        f"notifications/{what}/list_changed" for what in ("tools", "prompts", "resources")
    }


@pytest.mark.parametrize(("names", "passed"), [(("a",), True), (("a", "b"), False)])
async def test_a_notice_that_hearth_does_not_know_goes_where_there_is_one_place_to_go(
    tmp_path: Path, names: tuple[str, ...], passed: bool
) -> None:
    stage = Stage(tmp_path, **dict.fromkeys(names, PLENTY))
    member, sink = stage.client()
    stage.tell(member, "notifications/made/up", k=0)
    stage.ask(member, "tools/list")
    await answer(sink)
    stage.tell(member, "notifications/made/up", k=1)
    stage.tell(member, "$/internal")
    told = [item for item in stage.connection("a").notified if item["method"] != "notifications/initialized"]
    assert told == ([{"method": "notifications/made/up", "params": {"k": 1}}] if passed else [])


# --- what Hearth answers itself


async def test_a_level_is_kept_set_on_what_is_used_and_checked(stage: Stage) -> None:
    member, sink = stage.client()
    stage.ask(member, "tools/list")
    await answer(sink)
    stage.ask(member, "logging/setLevel", 2, level="loud")
    assert (await answer(sink, 2))["error"]["code"] == -32602
    stage.ask(member, "logging/setLevel", 3, level="debug")
    assert (await answer(sink, 3))["result"] == {}
    assert sink.kept == ["logLevel"]
    assert (await stage.on("a", "logging/setLevel"))["params"] == {"level": "debug"}


# --- the whole hub


async def test_a_session_that_leaves_takes_its_calls_questions_and_subscriptions_with_it(stage: Stage) -> None:
    member, sink = stage.client()
    stage.ask(member, "resources/subscribe", 1, uri="r:1")
    await answer(sink)
    stage.ask(member, "tools/call", 2, name="a__t")
    request = await stage.on("a", "tools/call")
    (instance,) = stage.servers["a"].instances.values()
    stage.hub.close_session(member)
    assert stage.connection("a").cancelled() == [request["id"]]
    assert (bool(instance.subscriptions), instance.holders, stage.hub.in_flight) == (False, set(), 0)
    stage.connection("a").give(request["id"], {})
    assert len(sink.heard("answer")) == 1


async def test_a_server_that_is_watched_is_started_again_when_it_ends(stage: Stage) -> None:
    member, sink = stage.client()
    stage.ask(member, "resources/subscribe", uri="r:1")
    await answer(sink)
    stage.connection("a").end("it fell over")
    assert (await stage.on("a", "resources/subscribe", 2))["params"] == {"uri": "r:1"}
    assert len(stage.servers["a"].connections) == 2
    stage.connection("a").say("notifications/resources/updated", {"uri": "r:1"})
    assert sink.messages("notify")[-1]["params"] == {"uri": "r:1"}


async def test_a_change_of_a_server_s_list_is_told_to_who_has_seen_it(stage: Stage) -> None:
    (member, sink), (_, others) = stage.client(), stage.client()
    stage.ask(member, "tools/list")
    await answer(sink)
    stage.servers["a"].script["tools/list"] = {"tools": [{"name": "u", "inputSchema": {}}]}
    stage.connection("a").say("notifications/tools/list_changed")
    await until(lambda: sink.heard("notify"), "it is told")
    assert [message["method"] for message in sink.messages("notify")] == ["notifications/tools/list_changed"]
    assert others.said == []


async def test_a_call_to_a_server_that_ends_is_an_error_and_the_next_finds_another_process(stage: Stage) -> None:
    member, sink = stage.client()
    stage.ask(member, "tools/call", 1, name="a__t")
    await stage.on("a", "tools/call")
    stage.connection("a").end("it fell over")
    assert (await answer(sink))["error"]["code"] == -32603
    stage.ask(member, "tools/call", 2, name="a__t")
    await stage.on("a", "tools/call", 2)
    assert len(stage.servers["a"].connections) == 2


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


async def test_an_unknown_version_in_initialize_is_a_warning_once_per_client(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stage = Stage(tmp_path)
    for name in ("one", "two"):
        member, _ = stage.client(initialized=False)
        for id in (1, 2):
            stage.ask(member, "initialize", id, protocolVersion="2031-01-01", clientInfo={"name": name})
    assert warnings(caplog) == [
        f"unknown protocol version '2031-01-01' from client '{name}'" for name in ("one", "two")
    ]


@pytest.mark.parametrize("version", sorted(versions.VERSIONS))
async def test_a_known_version_is_no_warning(version: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage(tmp_path)
    member, _ = stage.client(initialized=False)
    stage.ask(member, "initialize", protocolVersion=version)
    assert warnings(caplog) == []


async def test_an_unknown_version_in_a_modern_request_is_a_warning_once_per_client(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stage = Stage(tmp_path)
    member, _ = stage.client(initialized=False)
    for id in (1, 2):
        stage.ask(member, "tools/list", id, _meta={**ENVELOPE, versions.PROTOCOL_VERSION_KEY: "2031-01-01"})
    assert warnings(caplog) == ["unknown protocol version '2031-01-01' from a client"]


async def test_an_unknown_notification_is_a_warning_once_per_client(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stage = Stage(tmp_path, s=PLENTY)
    for _ in range(2):
        member, _ = stage.client()
        for method in (*sorted(versions.CLIENT_NOTIFICATIONS), "notifications/new", "notifications/newer"):
            stage.tell(member, method)
    assert warnings(caplog) == ["unknown notification 'notifications/new' from a client: ignored"] * 2


async def test_an_unknown_notification_that_is_passed_on_is_a_warning_with_the_server(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stage = Stage(tmp_path, s=PLENTY)
    member, _ = stage.client()
    stage.ask(member, "tools/call", name="s__t", arguments={})
    await stage.on("s", "tools/call")
    stage.tell(member, "notifications/new")
    assert warnings(caplog) == ["unknown notification 'notifications/new' from a client: passed on to server 's'"]


def test_what_a_client_sent_is_shown_cut_and_without_control_characters(caplog: pytest.LogCaptureFixture) -> None:
    UnknownMessages().version("client", "\x1b[2J\u202e" + "x" * 500)
    [said] = warnings(caplog)
    assert said.isprintable() and said.isascii() and len(said) < 200


def test_the_record_of_clients_is_bounded(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(unknown_messages, "CLIENTS_LIMIT", 2)
    record = UnknownMessages()
    for client in ("a", "b", "c", "c", "a"):
        record.version(client, "new")
    assert len(record._warned) == 2
    assert len(warnings(caplog)) == 4


RICH = {**ENVELOPE, versions.CLIENT_CAPABILITIES_KEY: {"elicitation": {"form": {}, "url": {}}}}
FORM = {"message": "Really?", "requestedSchema": {"type": "object"}}
URL = {"mode": "url", "message": "Go", "url": "https://x.example", "elicitationId": "e1"}


@pytest.mark.parametrize(
    ("method", "params"),
    [("tools/call", {"name": "a__t"}), ("prompts/get", {"name": "a__p"}), ("resources/read", {"uri": "r:1"})],
)
async def test_a_modern_client_s_retry_goes_on_with_its_parked_call(
    method: str, params: dict[str, object], stage: Stage
) -> None:
    member, sink = stage.client(initialized=False)
    stage.ask(member, method, 1, **params, _meta=RICH)
    request = await stage.on("a", method)
    connection = stage.connection("a")
    for count in (1, 2):
        connection.say("elicitation/create", FORM, id=f"q{count}")
        required = (await answer(sink, count))["result"]
        assert required["resultType"] == "input_required"
        responses = {key: {"action": "decline"} for key in required["inputRequests"]}
        state = {"requestState": required["requestState"], "inputResponses": responses}
        stage.ask(member, method, count + 1, **params, **state, _meta={**RICH, "progressToken": "p"})
        assert connection.answers[-1] == {"jsonrpc": "2.0", "id": f"q{count}", "result": {"action": "decline"}}
    connection.give(request["id"], {"content": [], "contents": [], "messages": []})
    assert (await answer(sink, 3))["id"] == 3
    assert connection.methods().count(method) == 1
    stage.ask(member, method, 4, **params, **state, _meta=RICH)
    assert (await answer(sink, 4))["error"]["data"] == {"reason": "spent"}


async def test_a_state_that_is_not_hearth_s_is_refused_where_the_server_cannot_have_given_it(stage: Stage) -> None:
    member, sink = stage.client(initialized=False)
    stage.ask(member, "tools/call", name="a__t", requestState="foreign", _meta=RICH)
    assert (await answer(sink))["error"]["data"] == {"reason": "expired"}
    # A legacy client's params are its own business.
    stage.ask(member, "tools/call", 2, name="a__t", requestState="mine")
    assert (await stage.on("a", "tools/call"))["params"]["requestState"] == "mine"


async def test_a_demand_for_urls_is_put_to_a_modern_client_and_the_call_made_afresh(stage: Stage) -> None:
    member, sink = stage.client(initialized=False)
    stage.ask(member, "tools/call", 1, name="a__t", arguments={"x": 1}, _meta=RICH)
    first = await stage.on("a", "tools/call")
    connection = stage.connection("a")
    connection.refuse(first["id"], -32042, "visit", {"elicitations": [URL]})
    required = (await answer(sink))["result"]
    responses = {key: {"action": "accept"} for key in required["inputRequests"]}
    state = {"requestState": required["requestState"], "inputResponses": responses}
    stage.ask(member, "tools/call", 2, name="a__t", arguments={"x": 1}, **state, _meta={**RICH, "v/k": 1})
    connection.say("notifications/elicitation/complete", {"elicitationId": "e1"})
    again = await stage.on("a", "tools/call", 2)
    assert again["params"] == {"name": "t", "arguments": {"x": 1}, "_meta": {"v/k": 1}}
    connection.give(again["id"], {"content": []})
    assert (await answer(sink, 2))["result"]["content"] == []


async def test_a_demand_for_urls_is_relayed_to_a_legacy_client_which_is_told_of_the_end_of_it(stage: Stage) -> None:
    (member, sink), (_, others) = stage.client(), stage.client()
    stage.ask(member, "tools/call", name="a__t")
    request = await stage.on("a", "tools/call")
    stage.connection("a").refuse(request["id"], -32042, "visit", {"elicitations": [URL]})
    assert (await answer(sink))["error"]["code"] == -32042
    stage.connection("a").say("notifications/elicitation/complete", {"elicitationId": "e1"})
    assert sink.messages("notify")[-1]["params"] == {"elicitationId": "e1"}
    assert others.said == []


async def test_a_legacy_client_is_asked_what_a_modern_server_requires(tmp_path: Path) -> None:
    stage = Stage(tmp_path, a=modern_script())
    sink = Kept()
    member = stage.hub.open_session(sink, "lines")
    stage.ask(member, "initialize", protocolVersion="2025-11-25", capabilities={"elicitation": {}})
    stage.ask(member, "tools/call", 2, name="a__t")
    first = await stage.on("a", "tools/call")
    asked = {"inputRequests": {"q": {"method": "elicitation/create", "params": FORM}}}
    stage.connection("a").give(first["id"], {"resultType": "input_required", **asked})
    await until(lambda: sink.heard("ask"), "the client is asked")
    stage.receive(member, {"id": sink.messages("ask")[0]["id"], "result": {"action": "decline"}})
    assert (await stage.on("a", "tools/call", 2))["params"]["inputResponses"] == {"q": {"action": "decline"}}
