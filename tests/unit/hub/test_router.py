"""A client's line to whoever answers it: by era, by method, by name; on a whole hub with servers of the test's."""

from pathlib import Path

import pytest

from hearth.mcp import eras
from unit.conversations import modern_script, run, until
from unit.hub.outlets import Kept
from unit.hub.whole_hub import ENVELOPE, PLENTY, Stage, answer, offering

# --- eras


@pytest.mark.parametrize(
    ("method", "modern"),
    [
        *((method, True) for method in ("ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe")),
        *((method, False) for method in ("server/discover", "subscriptions/listen")),
    ],
)
def test_a_method_of_the_other_era_is_not_found_and_not_forwarded(tmp_path: Path, method: str, modern: bool) -> None:
    async def body() -> None:
        stage = Stage(tmp_path, a=PLENTY)
        member, outlet = stage.client()
        stage.ask(member, method, **({"_meta": ENVELOPE} if modern else {}))
        error = (await answer(outlet))["error"]
        assert error["code"] == -32601
        assert method in error["message"]
        assert stage.started() == []

    run(body())


def test_the_era_is_told_by_each_request_and_the_session_s_by_its_first(tmp_path: Path) -> None:
    async def body() -> None:
        stage = Stage(tmp_path)
        member, outlet = stage.client(initialized=False)
        info = {"name": "c", "version": "1"}
        meta = {**ENVELOPE, eras.CLIENT_CAPABILITIES_KEY: {"roots": {}}, eras.CLIENT_INFO_KEY: info}
        stage.ask(member, "tools/list", 1, _meta=meta)
        stage.ask(member, "tools/list", 2)
        stage.ask(member, "tools/list", 3, _meta=ENVELOPE)
        assert ["resultType" in message["result"] for message in outlet.messages("answer")] == [True, False, True]
        assert (member.era, member.version, member.client) == (eras.MODERN, eras.NEWEST_MODERN, info)
        assert member.caller.capabilities == b'{"roots":{}}'

    run(body())


@pytest.mark.parametrize(
    ("meta", "code"),
    [
        ({eras.PROTOCOL_VERSION_KEY: eras.NEWEST_MODERN}, -32602),
        ({**ENVELOPE, eras.PROTOCOL_VERSION_KEY: "2027-01-01"}, -32022),
        ({**ENVELOPE, eras.LOG_LEVEL_KEY: "loud"}, -32602),
    ],
)
def test_a_bad_envelope_is_refused(tmp_path: Path, meta: dict[str, object], code: int) -> None:
    async def body() -> None:
        stage = Stage(tmp_path)
        member, outlet = stage.client(initialized=False)
        stage.ask(member, "tools/list", _meta=meta)
        assert (await answer(outlet))["error"]["code"] == code
        assert (member.era, member.open) == (None, {})

    run(body())


# --- ids


def test_an_id_in_flight_is_not_used_twice_and_the_first_goes_on(tmp_path: Path) -> None:
    async def body() -> None:
        stage = Stage(tmp_path, a=PLENTY)
        member, outlet = stage.client()
        stage.ask(member, "tools/call", name="a__t")
        stage.ask(member, "ping")
        assert (await answer(outlet))["error"]["code"] == -32600
        stage.ask(member, "ping", id="1")
        assert (await answer(outlet, 2))["result"] == {}
        request = await stage.on("a", "tools/call")
        stage.connection("a").give(request["id"], {"content": []})
        assert (await answer(outlet, 3))["result"] == {"content": []}

    run(body())


def test_the_id_of_an_open_subscription_is_in_use(tmp_path: Path) -> None:
    async def body() -> None:
        stage = Stage(tmp_path)
        member, outlet = stage.client(initialized=False)
        for _ in range(2):
            stage.ask(member, "subscriptions/listen", _meta=ENVELOPE, notifications={"toolsListChanged": True})
        assert (await answer(outlet))["error"]["code"] == -32600
        assert len(member.listens) == 1

    run(body())


def test_a_response_to_nothing_is_finished_and_nothing_else(tmp_path: Path) -> None:
    async def body() -> None:
        stage = Stage(tmp_path)
        member, outlet = stage.client()
        tag = stage.receive(member, {"id": "hearth-d0-1", "result": {}})
        assert outlet.said == [("finish", tag)]

    run(body())


# --- notifications


def test_a_cancelled_call_is_withdrawn_and_that_of_another_session_is_not(tmp_path: Path) -> None:
    async def body() -> None:
        stage = Stage(tmp_path, a=PLENTY)
        (member, outlet), (other, _) = stage.client(), stage.client()
        stage.ask(member, "tools/call", name="a__t")
        request = await stage.on("a", "tools/call")
        stage.tell(other, "notifications/cancelled", requestId=1)
        stage.tell(member, "notifications/cancelled", requestId="1")
        stage.tell(member, "notifications/cancelled")
        assert stage.connection("a").cancelled() == []
        stage.tell(member, "notifications/cancelled", requestId=1, reason="enough")
        assert stage.connection("a").notified[-1]["params"] == {"requestId": request["id"], "reason": "enough"}
        assert outlet.heard("answer") == []

    run(body())


def test_a_call_that_is_cancelled_while_its_server_is_started_is_never_sent(tmp_path: Path) -> None:
    async def body() -> None:
        stage = Stage(tmp_path, a=PLENTY)
        member, outlet = stage.client()
        stage.ask(member, "tools/call", 1, name="a__t")
        stage.tell(member, "notifications/cancelled", requestId=1)
        stage.ask(member, "tools/call", 2, name="a__t", arguments={"second": True})
        assert (await stage.on("a", "tools/call"))["params"]["arguments"] == {"second": True}
        assert outlet.heard("answer") == []

    run(body())


def test_a_cancelled_subscription_is_no_longer_kept(tmp_path: Path) -> None:
    async def body() -> None:
        stage = Stage(tmp_path)
        member, outlet = stage.client(initialized=False)
        stage.ask(member, "subscriptions/listen", _meta=ENVELOPE, notifications={"toolsListChanged": True})
        stage.tell(member, "notifications/cancelled", requestId=1)
        assert (outlet.kept, outlet.dropped, member.listens) == (["listen:1"], ["listen:1"], {})

    run(body())


def test_the_end_of_the_handshake_is_kept_and_a_replayed_one_is_told_to_look_again(tmp_path: Path) -> None:
    async def body() -> None:
        stage = Stage(tmp_path)
        member, outlet = stage.client(initialized=False)
        stage.tell(member, "notifications/initialized")
        assert (outlet.kept, outlet.heard("notify"), member.initialized) == (["initialized"], [], True)
        stage.tell(member, "notifications/initialized", replay=True)
        assert {message["method"] for message in outlet.messages("notify")} == {
            f"notifications/{what}/list_changed" for what in ("tools", "prompts", "resources")
        }

    run(body())


@pytest.mark.parametrize(("names", "passed"), [(("a",), True), (("a", "b"), False)])
def test_a_notice_that_hearth_does_not_know_goes_where_there_is_one_place_to_go(
    tmp_path: Path, names: tuple[str, ...], passed: bool
) -> None:
    async def body() -> None:
        stage = Stage(tmp_path, **dict.fromkeys(names, PLENTY))
        member, outlet = stage.client()
        stage.tell(member, "notifications/made/up", k=0)
        stage.ask(member, "tools/list")
        await answer(outlet)
        stage.tell(member, "notifications/made/up", k=1)
        stage.tell(member, "$/internal")
        told = [item for item in stage.connection("a").notified if item["method"] != "notifications/initialized"]
        assert told == ([{"method": "notifications/made/up", "params": {"k": 1}}] if passed else [])

    run(body())


# --- what Hearth answers itself


def test_a_level_is_kept_set_on_what_is_used_and_checked(tmp_path: Path) -> None:
    async def body() -> None:
        stage = Stage(tmp_path, a=PLENTY)
        member, outlet = stage.client()
        stage.ask(member, "tools/list")
        await answer(outlet)
        stage.ask(member, "logging/setLevel", 2, level="loud")
        assert (await answer(outlet, 2))["error"]["code"] == -32602
        stage.ask(member, "logging/setLevel", 3, level="debug")
        assert (await answer(outlet, 3))["result"] == {}
        assert outlet.kept == ["logLevel"]
        assert (await stage.on("a", "logging/setLevel"))["params"] == {"level": "debug"}

    run(body())


# --- where it goes


def test_only_the_server_that_may_have_it_is_started_for_a_call(tmp_path: Path) -> None:
    async def body() -> None:
        stage = Stage(tmp_path, a=PLENTY, b=PLENTY)
        member, _ = stage.client()
        stage.ask(member, "tools/call", name="b__t", arguments={"x": 1})
        assert (await stage.on("b", "tools/call"))["params"] == {"name": "t", "arguments": {"x": 1}}
        assert stage.started() == ["b"]

    run(body())


def test_a_session_of_one_server_uses_its_own_names(tmp_path: Path) -> None:
    async def body() -> None:
        stage = Stage(tmp_path, a=PLENTY, b=PLENTY)
        member, outlet = stage.client(server="b")
        stage.ask(member, "tools/call", name="t")
        await stage.on("b", "tools/call")
        stage.ask(member, "tools/call", 2, name="b__t")
        assert (await answer(outlet))["error"]["code"] == -32602
        assert stage.started() == ["b"]

    run(body())


@pytest.mark.parametrize(
    ("method", "params", "words"),
    [
        ("tools/call", {"name": "a__none"}, "unknown tool: a__none"),
        ("tools/call", {"name": "none"}, "unknown tool: none"),
        ("tools/call", {}, "params.name"),
        ("prompts/get", {"name": "a__none"}, "unknown prompt: a__none"),
        ("prompts/get", {"name": 7}, "params.name"),
        ("resources/read", {}, "params.uri"),
        ("completion/complete", {"ref": {"type": "ref/prompt", "name": "a__none"}}, "unknown prompt: a__none"),
        ("completion/complete", {"ref": {"type": "ref/resource", "uri": "none:{n}"}}, "none:{n}"),
        ("completion/complete", {}, "params.ref"),
    ],
)
def test_what_nobody_has_is_bad_params_with_a_sentence(
    tmp_path: Path, method: str, params: dict[str, object], words: str
) -> None:
    async def body() -> None:
        stage = Stage(tmp_path, a=PLENTY, b=PLENTY)
        member, outlet = stage.client()
        stage.ask(member, method, **params)
        error = (await answer(outlet))["error"]
        assert error["code"] == -32602
        assert words in error["message"]

    run(body())


@pytest.mark.parametrize(("modern", "code"), [(False, -32002), (True, -32602)])
def test_a_resource_that_nobody_has_is_named_as_the_era_wants_it(tmp_path: Path, modern: bool, code: int) -> None:
    async def body() -> None:
        stage = Stage(tmp_path, a=PLENTY, b=PLENTY)
        member, outlet = stage.client()
        stage.ask(member, "resources/read", uri="none:1", **({"_meta": ENVELOPE} if modern else {}))
        error = (await answer(outlet))["error"]
        assert (error["code"], error["data"]) == (code, {"uri": "none:1"})
        assert "none:1" in error["message"]

    run(body())


@pytest.mark.parametrize(
    ("method", "params", "sent"),
    [
        ("prompts/get", {"name": "b__p"}, {"name": "p"}),
        ("resources/read", {"uri": "hearth:b:r:1"}, {"uri": "r:1"}),
        ("resources/read", {"uri": "hearth:b:unlisted"}, {"uri": "unlisted"}),
        (
            "completion/complete",
            {"ref": {"type": "ref/prompt", "name": "b__p", "k": 1}, "argument": {"name": "x", "value": "v"}},
            {"ref": {"type": "ref/prompt", "name": "p", "k": 1}, "argument": {"name": "x", "value": "v"}},
        ),
        (
            "completion/complete",
            {"ref": {"type": "ref/resource", "uri": "hearth:b:t:{n}"}},
            {"ref": {"type": "ref/resource", "uri": "t:{n}"}},
        ),
    ],
)
def test_a_request_reaches_its_server_under_the_server_s_own_names(
    tmp_path: Path, method: str, params: dict[str, object], sent: dict[str, object]
) -> None:
    async def body() -> None:
        stage = Stage(tmp_path, a=PLENTY, b=PLENTY)
        member, outlet = stage.client()
        stage.ask(member, "tools/list")
        await answer(outlet)
        stage.ask(member, method, 2, **params)
        assert (await stage.on("b", method))["params"] == sent
        assert method not in stage.connection("a").methods()

    run(body())


def test_a_resource_is_looked_for_in_servers_that_have_not_said_yet_what_they_have(tmp_path: Path) -> None:
    async def body() -> None:
        other = offering(resources=[{"uri": "r:2", "name": "r"}])
        stage = Stage(tmp_path, a=PLENTY, b=other)
        member, _ = stage.client()
        stage.ask(member, "resources/read", uri="r:2")
        assert (await stage.on("b", "resources/read"))["params"] == {"uri": "r:2"}

    run(body())


def test_a_resource_to_subscribe_to_is_looked_for_there_too(tmp_path: Path) -> None:
    async def body() -> None:
        stage = Stage(tmp_path, a=PLENTY, b=offering(resources=[{"uri": "r:2", "name": "r"}]))
        member, outlet = stage.client()
        stage.ask(member, "resources/subscribe", uri="r:2")
        assert (await answer(outlet))["result"] == {}
        assert (await stage.on("b", "resources/subscribe"))["params"] == {"uri": "r:2"}
        stage.ask(member, "resources/subscribe", 2, uri="none:1")
        assert (await answer(outlet, 2))["error"]["code"] == -32002

    run(body())


@pytest.mark.parametrize("method", ["tools/call", "prompts/get"])
def test_the_failure_of_the_server_that_may_have_it_is_told(tmp_path: Path, method: str) -> None:
    async def body() -> None:
        stage = Stage(tmp_path, a={"initialize": -32600, "server/discover": -32601}, b=PLENTY)
        member, outlet = stage.client()
        stage.ask(member, method, name="a__t")
        error = (await answer(outlet))["error"]
        assert error["code"] == -32603
        assert "server 'a' could not be started" in error["message"]

    run(body())


# --- extensions


def test_a_method_that_hearth_does_not_know_is_forwarded_where_there_is_one_server(tmp_path: Path) -> None:
    async def body() -> None:
        stage = Stage(tmp_path, a=PLENTY)
        member, outlet = stage.client()
        stage.ask(member, "made/up", k=[1])
        request = await stage.on("a", "made/up")
        assert request["params"] == {"k": [1]}
        # What old SDKs say when they have no such method.
        stage.connection("a").refuse(request["id"], -32602)
        assert (await answer(outlet))["error"]["code"] == -32601

    run(body())


@pytest.mark.parametrize(("names", "method"), [(("a", "b"), "made/up"), ((), "made/up"), (("a",), "hearth/made-up")])
def test_a_method_that_hearth_does_not_know_is_refused_where_it_is_not_clear_who_is_meant(
    tmp_path: Path, names: tuple[str, ...], method: str
) -> None:
    async def body() -> None:
        stage = Stage(tmp_path, **dict.fromkeys(names, PLENTY))
        member, outlet = stage.client()
        stage.ask(member, method)
        error = (await answer(outlet))["error"]
        assert (error["code"], method in error["message"]) == (-32601, True)
        assert stage.started() == []

    run(body())


def test_what_nobody_knows_is_not_done_twice(tmp_path: Path) -> None:
    async def body() -> None:
        stage = Stage(tmp_path, a=PLENTY)
        member, outlet = stage.client()
        stage.receive(member, {"id": 1, "method": "made/up", "params": {}}, resent=True)
        assert "may or may not have run" in (await answer(outlet))["error"]["message"]
        assert "made/up" not in stage.connection("a").methods()

    run(body())


# --- input that is required in the middle of a call


RICH = {**ENVELOPE, eras.CLIENT_CAPABILITIES_KEY: {"elicitation": {"form": {}, "url": {}}}}
FORM = {"message": "Really?", "requestedSchema": {"type": "object"}}
URL = {"mode": "url", "message": "Go", "url": "https://x.example", "elicitationId": "e1"}


@pytest.mark.parametrize(
    ("method", "params"),
    [("tools/call", {"name": "a__t"}), ("prompts/get", {"name": "a__p"}), ("resources/read", {"uri": "r:1"})],
)
def test_a_modern_client_s_retry_goes_on_with_its_parked_call(
    tmp_path: Path, method: str, params: dict[str, object]
) -> None:
    async def body() -> None:
        stage = Stage(tmp_path, a=PLENTY)
        member, outlet = stage.client(initialized=False)
        stage.ask(member, method, 1, **params, _meta=RICH)
        request = await stage.on("a", method)
        connection = stage.connection("a")
        for count in (1, 2):
            connection.say("elicitation/create", FORM, id=f"q{count}")
            required = (await answer(outlet, count))["result"]
            assert required["resultType"] == "input_required"
            responses = {key: {"action": "decline"} for key in required["inputRequests"]}
            state = {"requestState": required["requestState"], "inputResponses": responses}
            stage.ask(member, method, count + 1, **params, **state, _meta={**RICH, "progressToken": "p"})
            assert connection.answers[-1] == {"jsonrpc": "2.0", "id": f"q{count}", "result": {"action": "decline"}}
        connection.give(request["id"], {"content": [], "contents": [], "messages": []})
        assert (await answer(outlet, 3))["id"] == 3
        assert connection.methods().count(method) == 1
        stage.ask(member, method, 4, **params, **state, _meta=RICH)
        assert (await answer(outlet, 4))["error"]["data"] == {"reason": "spent"}

    run(body())


def test_a_state_that_is_not_hearth_s_is_refused_where_the_server_cannot_have_given_it(tmp_path: Path) -> None:
    async def body() -> None:
        stage = Stage(tmp_path, a=PLENTY)
        member, outlet = stage.client(initialized=False)
        stage.ask(member, "tools/call", name="a__t", requestState="foreign", _meta=RICH)
        assert (await answer(outlet))["error"]["data"] == {"reason": "expired"}
        # A legacy client's params are its own business.
        stage.ask(member, "tools/call", 2, name="a__t", requestState="mine")
        assert (await stage.on("a", "tools/call"))["params"]["requestState"] == "mine"

    run(body())


def test_a_demand_for_urls_is_put_to_a_modern_client_and_the_call_made_afresh(tmp_path: Path) -> None:
    async def body() -> None:
        stage = Stage(tmp_path, a=PLENTY)
        member, outlet = stage.client(initialized=False)
        stage.ask(member, "tools/call", 1, name="a__t", arguments={"x": 1}, _meta=RICH)
        first = await stage.on("a", "tools/call")
        connection = stage.connection("a")
        connection.refuse(first["id"], -32042, "visit", {"elicitations": [URL]})
        required = (await answer(outlet))["result"]
        responses = {key: {"action": "accept"} for key in required["inputRequests"]}
        state = {"requestState": required["requestState"], "inputResponses": responses}
        stage.ask(member, "tools/call", 2, name="a__t", arguments={"x": 1}, **state, _meta={**RICH, "v/k": 1})
        connection.say("notifications/elicitation/complete", {"elicitationId": "e1"})
        again = await stage.on("a", "tools/call", 2)
        assert again["params"] == {"name": "t", "arguments": {"x": 1}, "_meta": {"v/k": 1}}
        connection.give(again["id"], {"content": []})
        assert (await answer(outlet, 2))["result"]["content"] == []

    run(body())


def test_a_demand_for_urls_is_relayed_to_a_legacy_client_which_is_told_of_the_end_of_it(tmp_path: Path) -> None:
    async def body() -> None:
        stage = Stage(tmp_path, a=PLENTY)
        (member, outlet), (_, others) = stage.client(), stage.client()
        stage.ask(member, "tools/call", name="a__t")
        request = await stage.on("a", "tools/call")
        stage.connection("a").refuse(request["id"], -32042, "visit", {"elicitations": [URL]})
        assert (await answer(outlet))["error"]["code"] == -32042
        stage.connection("a").say("notifications/elicitation/complete", {"elicitationId": "e1"})
        assert outlet.messages("notify")[-1]["params"] == {"elicitationId": "e1"}
        assert others.said == []

    run(body())


def test_a_legacy_client_is_asked_what_a_modern_server_requires(tmp_path: Path) -> None:
    async def body() -> None:
        stage = Stage(tmp_path, a=modern_script())
        outlet = Kept()
        member = stage.hub.open_session(outlet, "lines")
        stage.ask(member, "initialize", protocolVersion="2025-11-25", capabilities={"elicitation": {}})
        stage.ask(member, "tools/call", 2, name="a__t")
        first = await stage.on("a", "tools/call")
        asked = {"inputRequests": {"q": {"method": "elicitation/create", "params": FORM}}}
        stage.connection("a").give(first["id"], {"resultType": "input_required", **asked})
        await until(lambda: outlet.heard("ask"), "the client is asked")
        stage.receive(member, {"id": outlet.messages("ask")[0]["id"], "result": {"action": "decline"}})
        again = await stage.on("a", "tools/call", 2)
        assert again["params"]["inputResponses"] == {"q": {"action": "decline"}}

    run(body())


# --- the whole hub


def test_a_session_that_leaves_takes_its_calls_questions_and_subscriptions_with_it(tmp_path: Path) -> None:
    async def body() -> None:
        stage = Stage(tmp_path, a=PLENTY)
        member, outlet = stage.client()
        stage.ask(member, "resources/subscribe", 1, uri="r:1")
        await answer(outlet)
        stage.ask(member, "tools/call", 2, name="a__t")
        request = await stage.on("a", "tools/call")
        (instance,) = stage.servers["a"].instances.values()
        stage.hub.close_session(member)
        assert stage.connection("a").cancelled() == [request["id"]]
        assert (bool(instance.watch), instance.holders, stage.hub.in_flight) == (False, set(), 0)
        stage.connection("a").give(request["id"], {})
        assert len(outlet.heard("answer")) == 1

    run(body())


def test_a_server_that_is_watched_is_started_again_when_it_ends(tmp_path: Path) -> None:
    async def body() -> None:
        stage = Stage(tmp_path, a=PLENTY)
        member, outlet = stage.client()
        stage.ask(member, "resources/subscribe", uri="r:1")
        await answer(outlet)
        stage.connection("a").end("it fell over")
        assert (await stage.on("a", "resources/subscribe", 2))["params"] == {"uri": "r:1"}
        assert len(stage.servers["a"].connections) == 2
        stage.connection("a").say("notifications/resources/updated", {"uri": "r:1"})
        assert outlet.messages("notify")[-1]["params"] == {"uri": "r:1"}

    run(body())


def test_a_change_of_a_server_s_list_is_told_to_who_has_seen_it(tmp_path: Path) -> None:
    async def body() -> None:
        stage = Stage(tmp_path, a=PLENTY)
        (member, outlet), (_, others) = stage.client(), stage.client()
        stage.ask(member, "tools/list")
        await answer(outlet)
        stage.servers["a"].script["tools/list"] = {"tools": [{"name": "u", "inputSchema": {}}]}
        stage.connection("a").say("notifications/tools/list_changed")
        await until(lambda: outlet.heard("notify"), "it is told")
        assert [message["method"] for message in outlet.messages("notify")] == ["notifications/tools/list_changed"]
        assert others.said == []

    run(body())


def test_a_call_to_a_server_that_ends_is_an_error_and_the_next_finds_another_process(tmp_path: Path) -> None:
    async def body() -> None:
        stage = Stage(tmp_path, a=PLENTY)
        member, outlet = stage.client()
        stage.ask(member, "tools/call", 1, name="a__t")
        await stage.on("a", "tools/call")
        stage.connection("a").end("it fell over")
        assert (await answer(outlet))["error"]["code"] == -32603
        stage.ask(member, "tools/call", 2, name="a__t")
        await stage.on("a", "tools/call", 2)
        assert len(stage.servers["a"].connections) == 2

    run(body())
