"""Both eras of MCP on either side: what a client of one gets from a server of the other.

Fields are checked by hand against the schemas of 2025-11-25 and 2026-07-28.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from process.clients import MODERN, PREFIX, Client, FramesClient, Message, modern, text_of
from process.daemon import Scratch, server
from process.kernel import until

LEGACY_VERSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
CHANGED = "notifications/tools/list_changed"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"

WIRES = pytest.mark.parametrize("wire", ["lines", "frames"])
CLIENTS = pytest.mark.parametrize("era", ["legacy", "modern"])
# Which server of the config below; both keep what they received.
UPSTREAMS = pytest.mark.parametrize("upstream", ["old", "new"])


@pytest.fixture(scope="module")
def both(shared: Scratch) -> Scratch:
    """A daemon with a server of each era."""
    shared.configure(
        {"old": server("recording", shared.home / "old"), "new": server("modern", shared.home / "new")}
        | {"count": server("counting", shared.home / "ledger"), "change": server("changing")}
        | {"ask": server("asking"), "page": server("paging", 5), "loop": server("paging", 5, "--loop")}
    )
    shared.start()
    with shared.lines() as client:
        # Everything runs: the tests are not about starting.
        client.tools()
    return shared


class Speaker:
    """A client that speaks one era, over one wire."""

    def __init__(self, client: Client, era: str, version: str = "2025-11-25") -> None:
        self.client = client
        self.era = era
        if era == "legacy":
            client.initialize(version)

    def params(self, **params: Any) -> Message:
        return modern(**params) if self.era == "modern" else params

    def ask(self, method: str, **params: Any) -> Message:
        return self.client.ask(method, self.params(**params))

    def call(self, tool: str, **params: Any) -> Message:
        return self.ask("tools/call", name=tool, **params)

    def begin_call(self, tool: str, id: object, **params: Any) -> None:
        self.client.begin("tools/call", self.params(name=tool, **params), id)

    def cancel(self, id: object) -> None:
        self.client.notify("notifications/cancelled", {"requestId": id, "reason": "not needed"})


def opened(scratch: Scratch, wire: str = "lines") -> Client:
    return scratch.lines() if wire == "lines" else scratch.frames()


@pytest.fixture
def speaker(both: Scratch, era: str) -> Speaker:
    return Speaker(opened(both), era)


def received(scratch: Scratch, upstream: str) -> list[Message]:
    # What is behind the last line end is still being written.
    whole = Path(scratch.home / upstream).read_bytes().rpartition(b"\n")[0]
    return [json.loads(line) for line in whole.splitlines()]


# --- openings


@WIRES
@pytest.mark.parametrize("version", LEGACY_VERSIONS)
def test_initialize_echoes_a_known_version(both: Scratch, wire: str, version: str) -> None:
    result = opened(both, wire).initialize(version)
    assert result["protocolVersion"] == version
    assert result["capabilities"] == {"tools": {"listChanged": True}}
    assert result["serverInfo"]["name"] == "hearth"
    assert result["serverInfo"]["version"]
    assert result["_meta"]["hearth/daemonId"] == both.status()["daemonId"]
    assert "resultType" not in result


@pytest.mark.parametrize("version", ["2099-01-01", "", "2026-07-28", 7, None])
def test_initialize_answers_an_unknown_version_with_the_newest_legacy_one(both: Scratch, version: object) -> None:
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    assert both.lines().ask("initialize", params)["result"]["protocolVersion"] == "2025-11-25"


def test_initialize_is_legacy_whatever_its_meta_says(both: Scratch) -> None:
    result = both.lines().ask("initialize", modern(protocolVersion="2025-06-18", capabilities={}))["result"]
    assert result["protocolVersion"] == "2025-06-18"


@WIRES
def test_discover_says_what_a_modern_client_must_know(both: Scratch, wire: str) -> None:
    result = opened(both, wire).ask("server/discover", modern())["result"]
    assert result["resultType"] == "complete"
    assert result["supportedVersions"] == [MODERN]
    assert result["capabilities"] == {"tools": {"listChanged": True}}
    assert result["ttlMs"] >= 0
    assert result["cacheScope"] in ("private", "public")
    assert result["_meta"][f"{PREFIX}serverInfo"]["name"] == "hearth"
    assert result["_meta"]["hearth/daemonId"] == both.status()["daemonId"]


def test_both_openings_are_answered_before_any_server_runs(scratch: Scratch) -> None:
    scratch.configure({"silent": server("silent")})
    scratch.start()
    client = scratch.lines()
    assert client.initialize()
    assert client.ask("server/discover", modern())["result"]
    assert scratch.upstream("silent")["state"] == "stopped"


def test_both_eras_may_be_spoken_on_one_connection(both: Scratch) -> None:
    client = both.lines()
    client.initialize()
    assert "resultType" not in client.ask("tools/list")["result"]
    assert client.ask("tools/list", modern())["result"]["resultType"] == "complete"
    assert client.ask("ping")["result"] == {}
    assert client.ask("ping", modern())["error"]["code"] == -32601


def test_the_status_shows_each_session_s_era_version_and_client(both: Scratch) -> None:
    old, new = both.frames(), both.frames()
    old.initialize("2025-06-18")
    new.ask("server/discover", modern(_meta={f"{PREFIX}clientInfo": {"name": "new-client", "version": "2"}}))
    shown = {item["id"]: item for item in both.status()["sessions"]}
    first, second = shown[old.session["sessionId"]], shown[new.session["sessionId"]]
    assert (first["era"], first["version"], first["client"]["name"]) == ("legacy", "2025-06-18", "test-client")
    assert (second["era"], second["version"], second["client"]["name"]) == ("modern", MODERN, "new-client")


def test_the_era_of_each_server_was_found_by_the_probe(both: Scratch) -> None:
    eras = {item["name"]: item["era"] for item in both.status()["upstreams"]}
    assert eras["old"] == "legacy"
    assert eras["new"] == "modern"


@pytest.mark.parametrize("kind", ["modern", "recording"])
def test_an_era_that_the_config_names_is_not_probed_for(scratch: Scratch, kind: str) -> None:
    record = scratch.home / "record"
    era = "modern" if kind == "modern" else "legacy"
    scratch.configure({"one": server(kind, record, era=era)})
    scratch.start()
    scratch.lines().tools()
    methods = [message["method"] for message in received(scratch, "record")]
    assert ("initialize" in methods, "server/discover" in methods) == (era == "legacy", era == "modern")


def test_a_server_that_refuses_the_handshake_first_is_listened_to_all_the_same(scratch: Scratch) -> None:
    scratch.configure({"new": server("modern", "--backwards")})
    scratch.start()
    client = scratch.lines()
    client.initialize()
    client.tools()
    assert scratch.upstream("new")["era"] == "modern"
    client.call("new__grow")
    client.next_called(CHANGED)


# --- refusals


@WIRES
def test_an_unknown_modern_version_is_refused_with_those_that_are_served(both: Scratch, wire: str) -> None:
    meta = {f"{PREFIX}protocolVersion": "2027-01-01"}
    error = opened(both, wire).ask("tools/list", modern(_meta=meta))["error"]
    assert error["code"] == -32022
    assert error["data"] == {"requested": "2027-01-01", "supported": [MODERN]}


@pytest.mark.parametrize(
    "meta", [{f"{PREFIX}protocolVersion": MODERN}, {f"{PREFIX}protocolVersion": 7, f"{PREFIX}clientCapabilities": {}}]
)
def test_an_envelope_with_something_missing_is_bad_params(both: Scratch, meta: Message) -> None:
    assert both.lines().ask("tools/list", {"_meta": meta})["error"]["code"] == -32602


@pytest.mark.parametrize(
    ("era", "method"),
    [
        *(
            ("modern", method)
            for method in ("ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe")
        ),
        *(("legacy", method) for method in ("server/discover", "subscriptions/listen", "no/such/method")),
    ],
)
def test_a_method_that_an_era_does_not_have_is_not_found(speaker: Speaker, method: str) -> None:
    error = speaker.ask(method)["error"]
    assert error["code"] == -32601
    assert method in error["message"]


@CLIENTS
@pytest.mark.parametrize("cursor", ["", "page2"])
def test_a_cursor_is_bad_params_because_the_list_has_one_page(speaker: Speaker, cursor: str) -> None:
    assert speaker.ask("tools/list", cursor=cursor)["error"]["code"] == -32602


@CLIENTS
def test_an_unknown_tool_is_bad_params(speaker: Speaker) -> None:
    error = speaker.call("old__none")["error"]
    assert error["code"] == -32602
    assert "old__none" in error["message"]


@WIRES
def test_a_legacy_client_s_ping_is_answered(both: Scratch, wire: str) -> None:
    assert opened(both, wire).ask("ping")["result"] == {}


# --- tools


@CLIENTS
def test_the_list_has_the_tools_of_all_servers_in_the_config_s_order(speaker: Speaker) -> None:
    result = speaker.ask("tools/list")["result"]
    names = [tool["name"] for tool in result["tools"]]
    assert [name for name in names if name.startswith(("old__", "new__"))][:4] == [
        "old__about", "old__echo", "old__hold", "new__ask",
    ]  # fmt: skip
    assert all(tool["inputSchema"]["type"] == "object" for tool in result["tools"])
    assert "nextCursor" not in result
    if speaker.era == "modern":
        assert (result["resultType"], result["ttlMs"], result["cacheScope"]) == ("complete", 0, "private")
        assert result["_meta"][f"{PREFIX}serverInfo"]["name"] == "hearth"
    else:
        assert set(result) == {"tools"}


@CLIENTS
def test_an_output_schema_that_is_no_object_is_shown_to_modern_clients_only(speaker: Speaker) -> None:
    tools = {tool["name"]: tool for tool in speaker.ask("tools/list")["result"]["tools"]}
    assert ("outputSchema" in tools["new__shape"]) is (speaker.era == "modern")


@CLIENTS
def test_all_pages_of_a_server_are_one_list_and_a_circle_of_cursors_ends(speaker: Speaker) -> None:
    names = [tool["name"] for tool in speaker.ask("tools/list")["result"]["tools"]]
    for name in ("page", "loop"):
        assert [f"{name}__tool_{number}" for number in range(5)] == [item for item in names if item.startswith(name)]
    assert text_of(speaker.call("loop__tool_4")) == "tool_4"


@CLIENTS
def test_a_call_s_result_is_in_the_client_s_era_from_a_server_of_either(speaker: Speaker) -> None:
    old, new = speaker.call("old__echo"), speaker.call("new__echo", arguments={"text": "heard"})
    for answer in (old, new):
        result = answer["result"]
        assert result["content"] == [{"type": "text", "text": "heard"}]
        if speaker.era == "modern":
            assert result["resultType"] == "complete"
            assert result["_meta"][f"{PREFIX}serverInfo"]["name"]
        else:
            assert set(result) == {"content"}


@CLIENTS
def test_structured_content_that_is_no_object_reaches_modern_clients_only(speaker: Speaker) -> None:
    result = speaker.call("new__shape")["result"]
    assert result["content"][0]["text"] == "[1,2]"
    assert result.get("structuredContent") == ([1, 2] if speaker.era == "modern" else None)


@CLIENTS
def test_a_wish_for_input_reaches_modern_clients_and_is_an_error_for_others(speaker: Speaker) -> None:
    answer = speaker.call("new__ask")
    if speaker.era == "modern":
        assert answer["result"]["resultType"] == "input_required"
    else:
        assert answer["error"]["code"] == -32603
        assert "'input_required'" in answer["error"]["message"]


def test_a_modern_server_is_told_the_legacy_client_s_name(both: Scratch) -> None:
    client = both.lines()
    client.initialize(capabilities={"elicitation": {}})
    meta = json.loads(text_of(client.call("new__whoami", meta={"vendor/key": 1})))
    assert meta[f"{PREFIX}protocolVersion"] == MODERN
    assert meta[f"{PREFIX}clientInfo"] == {"name": "test-client", "version": "1"}
    assert meta[f"{PREFIX}clientCapabilities"] == {}
    assert meta["vendor/key"] == 1


def test_a_modern_server_gets_the_modern_client_s_own_envelope(both: Scratch) -> None:
    own = {
        f"{PREFIX}clientCapabilities": {"elicitation": {}},
        f"{PREFIX}clientInfo": {"name": "mine", "version": "3"},
        f"{PREFIX}logLevel": "debug",
        "traceparent": "00-1-2-01",
    }
    answer = both.lines().ask("tools/call", modern(name="new__whoami", _meta=own))
    assert json.loads(text_of(answer)) == {f"{PREFIX}protocolVersion": MODERN, **own}


def test_a_legacy_server_sees_nothing_of_the_modern_envelope(both: Scratch) -> None:
    answer = both.lines().ask("tools/call", modern(name="old__echo", _meta={"traceparent": "00-1-2-01", "v/k": [1]}))
    assert answer["result"]["resultType"] == "complete"
    sent = received(both, "old")[-1]["params"]
    assert sent == {"name": "echo", "_meta": {"traceparent": "00-1-2-01", "v/k": [1]}}
    both.lines().ask("tools/call", modern(name="old__echo"))
    assert received(both, "old")[-1]["params"] == {"name": "echo"}


@pytest.mark.parametrize("method", ["roots/list", "sampling/createMessage", "elicitation/create"])
def test_a_server_that_asks_for_what_nobody_declared_is_refused_by_hearth_itself(both: Scratch, method: str) -> None:
    client = both.lines()
    client.initialize(capabilities={"roots": {}, "sampling": {}, "elicitation": {}})
    reply = json.loads(text_of(client.call("ask__ask", method=method)))
    assert reply["error"]["code"] == -32601
    assert client.aside == []


def test_a_server_s_ping_is_answered(both: Scratch) -> None:
    assert json.loads(text_of(both.lines().call("ask__ask", method="ping")))["result"] == {}


# --- progress


@CLIENTS
@WIRES
@pytest.mark.parametrize("token", ["mine", 7, "7", 0])
def test_progress_of_a_legacy_server_comes_under_the_client_s_own_token(
    both: Scratch, wire: str, era: str, token: object
) -> None:
    speaker, other = Speaker(opened(both, wire), era), both.lines()
    speaker.begin_call(
        "count__read",
        1,
        arguments={"key": "p", "delay": 60, "steps": 2},
        _meta={"progressToken": token},
    )
    assert text_of(speaker.client.answer_to(1)) == "read p"
    notices = [message for message in speaker.client.aside if message.get("method") == "notifications/progress"]
    assert [notice["params"]["progress"] for notice in notices] == [1, 2]
    assert {json.dumps(notice["params"]["progressToken"]) for notice in notices} == {json.dumps(token)}
    assert other.ask("ping")["result"] == {}
    assert other.aside == []


@CLIENTS
def test_progress_of_a_modern_server_comes_under_the_client_s_own_token(both: Scratch, speaker: Speaker) -> None:
    other = Speaker(both.lines(), speaker.era)
    other.begin_call("new__wait", 1, _meta={"progressToken": "t"})
    assert other.client.next_called("notifications/progress")["params"] == {"progressToken": "t", "progress": 1}
    speaker.begin_call("new__wait", 1, _meta={"progressToken": "t"})
    assert speaker.client.next_called("notifications/progress")["params"] == {"progressToken": "t", "progress": 1}
    for one in (speaker, other):
        one.cancel(1)
        assert one.ask("tools/list")["result"]["tools"]
        assert one.client.aside == []


# --- cancellation


@WIRES
@CLIENTS
@UPSTREAMS
def test_a_cancelled_call_is_withdrawn_upstream_and_nothing_more_is_sent_for_it(
    both: Scratch, wire: str, era: str, upstream: str
) -> None:
    speaker = Speaker(opened(both, wire), era)
    tool = "old__hold" if upstream == "old" else "new__wait"
    speaker.begin_call(tool, "c", arguments={"mark": f"{wire}{era}"})

    def sent() -> Message | None:
        calls = [message for message in received(both, upstream) if message.get("method") == "tools/call"]
        return calls[-1] if calls and calls[-1]["params"].get("arguments") == {"mark": f"{wire}{era}"} else None

    call = until(sent, "the server has the call")
    assert call is not None
    number = call["id"]
    speaker.cancel("c")

    def withdrawn() -> bool:
        last = received(both, upstream)[-1]
        return bool(last.get("method") == "notifications/cancelled" and last["params"]["requestId"] == number)

    until(withdrawn, "the server is told")
    assert received(both, upstream)[-1]["params"]["reason"] == "not needed"
    # The id is free again, and its one answer is that of the second request.
    speaker.begin_call("old__echo", "c")
    assert text_of(speaker.client.answer_to("c")) == "heard"
    assert speaker.client.aside == []
    if isinstance(speaker.client, FramesClient):
        done = [seq for header in speaker.client.headers for seq in header.get("done", [])]
        assert len(done) == len(set(done))


def test_an_answer_that_comes_after_the_cancel_is_dropped(both: Scratch) -> None:
    client = both.lines()
    client.begin_call("count__read", id=1, key="late", delay=50)
    client.notify("notifications/cancelled", {"requestId": 1})
    assert text_of(client.call("count__read", key="other", delay=300)) == "read other"
    assert client.aside == []


def test_a_cancel_of_nothing_and_one_of_another_session_s_call_do_nothing(both: Scratch) -> None:
    first, second = both.lines(), both.frames()
    first.begin_call("count__read", id=1, key="mine", delay=300)
    second.notify("notifications/cancelled", {"requestId": 1})
    second.notify("notifications/cancelled", {"requestId": "none"})
    second.notify("notifications/cancelled", {})
    assert second.ask("ping", id="p")["result"] == {}
    assert text_of(first.answer_to(1)) == "read mine"


# --- changes of the list


def grow(client: Client, upstream: str, name: str) -> None:
    if upstream == "old":
        client.call("change__grow", name=name)
    else:
        client.call("new__grow")


@WIRES
@UPSTREAMS
def test_a_legacy_client_hears_of_a_change_by_a_notification(both: Scratch, wire: str, upstream: str) -> None:
    client, other = opened(both, wire), both.lines()
    client.initialize()
    before = client.tools()
    grow(other, upstream, f"leaf-{wire}")
    notice = client.next_called(CHANGED)
    assert notice == {"jsonrpc": "2.0", "method": CHANGED}
    assert len(client.tools()) == len(before) + 1


@WIRES
@UPSTREAMS
def test_a_modern_client_hears_of_a_change_on_its_subscription(both: Scratch, wire: str, upstream: str) -> None:
    client, other = opened(both, wire), both.lines()
    client.ask("tools/list", modern())
    client.begin("subscriptions/listen", modern(notifications={"toolsListChanged": True}), id="sub")
    acknowledged = client.receive()
    assert acknowledged["method"] == ACKNOWLEDGED
    assert acknowledged["params"]["notifications"] == {"toolsListChanged": True}
    assert acknowledged["params"]["_meta"] == {f"{PREFIX}subscriptionId": "sub"}
    grow(other, upstream, f"twig-{wire}")
    notice = client.next_called(CHANGED)
    assert notice["params"]["_meta"] == {f"{PREFIX}subscriptionId": "sub"}


def test_each_subscription_gets_its_own_notice_and_a_cancelled_one_gets_none(both: Scratch) -> None:
    client, other = both.lines(), both.lines()
    client.ask("tools/list", modern())
    for id in (1, "two", 3):
        client.begin("subscriptions/listen", modern(notifications={"toolsListChanged": True}), id=id)
        assert client.next_called(ACKNOWLEDGED)["params"]["_meta"][f"{PREFIX}subscriptionId"] == id
    client.notify("notifications/cancelled", {"requestId": "two"})
    grow(other, "old", "branch")
    heard = [client.next_called(CHANGED)["params"]["_meta"][f"{PREFIX}subscriptionId"] for _ in range(2)]
    assert heard == [1, 3]
    assert client.ask("server/discover", modern(), id="end")["result"]
    assert client.aside == []


def test_what_was_not_asked_for_is_not_honoured_and_not_told(both: Scratch) -> None:
    client, other = both.lines(), both.lines()
    client.ask("tools/list", modern())
    client.begin("subscriptions/listen", modern(notifications={"promptsListChanged": True}), id=1)
    assert client.next_called(ACKNOWLEDGED)["params"]["notifications"] == {}
    grow(other, "old", "root")
    assert client.ask("server/discover", modern(), id="end")["result"]
    assert client.aside == []


def test_a_second_subscription_under_an_id_in_use_is_refused(both: Scratch) -> None:
    client = both.lines()
    for _ in range(2):
        client.begin("subscriptions/listen", modern(notifications={"toolsListChanged": True}), id=1)
    client.next_called(ACKNOWLEDGED)
    assert client.answer_to(1)["error"]["code"] == -32600


def test_a_subscription_without_a_wish_is_bad_params(both: Scratch) -> None:
    assert both.lines().ask("subscriptions/listen", modern())["error"]["code"] == -32602


def test_a_bridge_keeps_a_subscription_until_it_is_cancelled(both: Scratch) -> None:
    client = both.frames()
    client.begin("subscriptions/listen", modern(notifications={"toolsListChanged": True}), id=1)
    client.next_called(ACKNOWLEDGED)
    client.notify("notifications/cancelled", {"requestId": 1})
    client.ask("server/discover", modern(), id="end")
    while not any("drop" in header for header in client.headers):
        client.receive_frame()
    (key,) = next(header["keep"] for header in client.headers if isinstance(header.get("keep"), dict))
    assert [header["drop"] for header in client.headers if "drop" in header] == [[key]]


def test_a_burst_of_notices_about_nothing_tells_nobody(both: Scratch) -> None:
    client, other = both.lines(), both.lines()
    client.initialize()
    client.tools()
    other.call("change__burst", count=50)
    # The next real change is the first that is told.
    grow(other, "old", "blossom")
    client.next_called(CHANGED)
    assert "change__blossom" in client.tools()
    assert [message for message in client.aside if message.get("method") == CHANGED] == []


def test_a_client_that_never_asked_for_the_list_is_not_told_of_changes(both: Scratch) -> None:
    client, other = both.lines(), both.lines()
    client.initialize()
    other.initialize()
    other.tools()
    grow(other, "old", "moss")
    other.next_called(CHANGED)
    assert client.ask("ping")["result"] == {}
    assert client.aside == []
