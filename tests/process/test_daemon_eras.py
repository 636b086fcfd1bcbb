"""Both eras of MCP on either side: what a client of one gets from a server of the other.

Fields are checked by hand against the schemas of 2025-11-25 and 2026-07-28.
"""

import json

import pytest

from support.clients import MODERN, PREFIX, Message, modern, text_of
from support.daemon import Scratch, server
from support.eras import CHANGED, Speaker, opened, received

LEGACY_VERSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
# Declared once and for all, whatever the servers of the moment have.
EVERYTHING = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "logging": {},
    "completions": {},
}
# A question to a client, what it must have declared to be asked, and an answer to it.
QUESTIONS = [
    ("roots/list", "roots", {"roots": [{"uri": "file:///here"}]}),
    (
        "sampling/createMessage",
        "sampling",
        {"role": "assistant", "content": {"type": "text", "text": "hm"}, "model": "m"},
    ),
    ("elicitation/create", "elicitation", {"action": "decline"}),
]


# --- openings


@pytest.mark.parametrize("version", LEGACY_VERSIONS)
def test_initialize_echoes_a_known_version(both: Scratch, wire: str, version: str) -> None:
    result = opened(both, wire).initialize(version)
    assert result["protocolVersion"] == version
    assert result["capabilities"] == EVERYTHING
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


def test_discover_says_what_a_modern_client_must_know(both: Scratch, wire: str) -> None:
    result = opened(both, wire).ask("server/discover", modern())["result"]
    assert result["resultType"] == "complete"
    assert result["supportedVersions"] == [MODERN]
    assert result["capabilities"] == EVERYTHING
    assert result["ttlMs"] >= 0
    assert result["cacheScope"] in ("private", "public")
    assert result["_meta"][f"{PREFIX}serverInfo"]["name"] == "hearth"
    assert result["_meta"]["hearth/daemonId"] == both.status()["daemonId"]


def test_both_openings_are_answered_before_any_server_runs(scratch: Scratch) -> None:
    client = scratch.serve({"silent": server("silent")}).lines()
    assert client.initialize()
    assert client.ask("server/discover", modern())["result"]
    assert scratch.upstream("silent")["state"] == "stopped"


def test_both_eras_may_be_spoken_on_one_connection(both: Scratch) -> None:
    client = both.lines().initialized()
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
    scratch.serve({"one": server(kind, record, era=era)})
    scratch.lines().tools()
    methods = [message["method"] for message in received(scratch, "record")]
    assert ("initialize" in methods, "server/discover" in methods) == (era == "legacy", era == "modern")


def test_a_server_that_refuses_the_handshake_first_is_listened_to_all_the_same(scratch: Scratch) -> None:
    client = scratch.serve({"new": server("modern", "--backwards")}).lines().initialized()
    client.tools()
    assert scratch.upstream("new")["era"] == "modern"
    client.call("new__grow")
    client.next_called(CHANGED)


# --- refusals


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


@pytest.mark.parametrize("cursor", ["", "page2"])
def test_a_cursor_is_bad_params_because_the_list_has_one_page(speaker: Speaker, cursor: str) -> None:
    assert speaker.ask("tools/list", cursor=cursor)["error"]["code"] == -32602


def test_an_unknown_tool_is_bad_params(speaker: Speaker) -> None:
    error = speaker.call("old__none")["error"]
    assert error["code"] == -32602
    assert "old__none" in error["message"]


def test_a_legacy_client_s_ping_is_answered(both: Scratch, wire: str) -> None:
    assert opened(both, wire).ask("ping")["result"] == {}


# --- tools


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


def test_an_output_schema_that_is_no_object_is_shown_to_modern_clients_only(speaker: Speaker) -> None:
    tools = {tool["name"]: tool for tool in speaker.ask("tools/list")["result"]["tools"]}
    assert ("outputSchema" in tools["new__shape"]) is (speaker.era == "modern")


def test_all_pages_of_a_server_are_one_list_and_a_circle_of_cursors_ends(speaker: Speaker) -> None:
    names = [tool["name"] for tool in speaker.ask("tools/list")["result"]["tools"]]
    for name in ("page", "loop"):
        assert [f"{name}__tool_{number}" for number in range(5)] == [item for item in names if item.startswith(name)]
    assert text_of(speaker.call("loop__tool_4")) == "tool_4"


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


def test_structured_content_that_is_no_object_reaches_modern_clients_only(speaker: Speaker) -> None:
    result = speaker.call("new__shape")["result"]
    assert result["content"][0]["text"] == "[1,2]"
    assert result.get("structuredContent") == ([1, 2] if speaker.era == "modern" else None)


def test_a_wish_for_input_reaches_modern_clients_and_is_an_error_for_those_that_cannot_be_asked(
    speaker: Speaker,
) -> None:
    answer = speaker.call("new__ask")
    if speaker.era == "modern":
        assert answer["result"]["resultType"] == "input_required"
    else:
        assert answer["error"]["code"] == -32602
        assert "server 'new' asks" in answer["error"]["message"]
        assert "the client has not declared elicitation" in answer["error"]["message"]
    assert speaker.client.aside == []


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
def test_a_wish_for_input_is_put_to_a_legacy_client_that_can_be_asked(both: Scratch, wire: str, version: str) -> None:
    client = opened(both, wire)
    client.initialize(version, {"elicitation": {}})
    call = client.begin_call("new__ask")
    question = client.next_called("elicitation/create")
    assert question["params"]["message"] == "Really?"
    given = {"action": "accept", "content": {"sure": True}}
    client.send({"jsonrpc": "2.0", "id": question["id"], "result": given})
    answer = client.answer_to(call)
    assert json.loads(text_of(answer)) == {"q": given}
    assert "resultType" not in answer["result"]


def test_a_modern_server_is_told_the_legacy_client_s_name_and_what_it_can_be_asked(both: Scratch) -> None:
    client = both.lines().initialized(capabilities={"elicitation": {}})
    meta = json.loads(text_of(client.call("new__whoami", meta={"vendor/key": 1})))
    assert meta[f"{PREFIX}protocolVersion"] == MODERN
    assert meta[f"{PREFIX}clientInfo"] == {"name": "test-client", "version": "1"}
    assert meta[f"{PREFIX}clientCapabilities"] == {"elicitation": {}}
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
    assert received(both, "old")[-1]["params"] == {"name": "echo", "_meta": {"traceparent": "00-1-2-01", "v/k": [1]}}
    both.lines().ask("tools/call", modern(name="old__echo"))
    assert received(both, "old")[-1]["params"] == {"name": "echo"}


@pytest.mark.parametrize(("method", "capability", "result"), QUESTIONS)
def test_a_server_that_asks_for_what_the_client_did_not_declare_gets_an_error_and_the_client_no_question(
    both: Scratch, method: str, capability: str, result: Message
) -> None:
    others = {other: {} for _, other, _ in QUESTIONS if other != capability}
    client = both.lines().initialized(capabilities=others)
    reply = json.loads(text_of(client.call("ask__ask", method=method)))
    assert reply["error"]["code"] == -32603
    assert "the client has not declared" in reply["error"]["message"]
    assert client.aside == []


@pytest.mark.parametrize(("method", "capability", "result"), QUESTIONS)
def test_a_server_that_asks_for_what_the_client_declared_gets_the_client_s_answer(
    both: Scratch, wire: str, method: str, capability: str, result: Message
) -> None:
    client, other = opened(both, wire), both.lines()
    for one in (client, other):
        one.initialize(capabilities={capability: {}})
    call = client.begin_call("ask__ask", method=method)
    client.send({"jsonrpc": "2.0", "id": client.next_called(method)["id"], "result": result})
    assert json.loads(text_of(client.answer_to(call)))["result"] == result
    assert other.ask("ping")["result"] == {}
    assert other.aside == []


def test_a_server_is_refused_what_no_client_can_be_asked_for(both: Scratch) -> None:
    client = both.lines().initialized(capabilities={"roots": {}, "sampling": {}, "elicitation": {}})
    reply = json.loads(text_of(client.call("ask__ask", method="made/up")))
    assert reply["error"]["code"] == -32601
    assert "made/up" in reply["error"]["message"]
    assert client.aside == []


def test_a_server_s_ping_is_answered(both: Scratch) -> None:
    assert json.loads(text_of(both.lines().call("ask__ask", method="ping")))["result"] == {}
