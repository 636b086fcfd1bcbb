"""HTTP on the daemon's socket, both eras: a real daemon, real servers, and a client that is as small as it can be."""

import contextlib
import json
import select
import signal
import sys
from collections.abc import Iterator

import pytest

from hearth.daemon.acceptor import CONTROL_PLACES
from hearth.mcp import versions
from support.clients import text_of
from support.daemon import Scratch, server
from support.http.clients import Connection, HttpClient, LegacyHttp, ModernHttp, bearer, knowing_tools, port_of
from support.kernel import until

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


@pytest.fixture
def home(scratch: Scratch) -> Iterator[Scratch]:
    ledger = scratch.home / "ledger"
    scratch.serve({"echo": server("echo"), "count": server("counting", ledger), "modern": server("modern")})
    yield scratch


# --- legacy


def test_a_legacy_client_opens_a_session_calls_and_leaves(home: Scratch) -> None:
    client = LegacyHttp(home)
    result = client.open()
    assert (result["protocolVersion"], result["serverInfo"]["name"]) == (versions.NEWEST_LEGACY, "hearth")
    tools = [tool["name"] for tool in client.post("tools/list").json()["result"]["tools"]]
    assert {"echo__echo", "count__read"} <= set(tools)
    got = client.call("echo__echo", id="a", text="hello")
    assert (got.status, got.is_stream) == (200, False)
    answer = got.json()
    assert (answer["id"], text_of(answer)) == ("a", "hello")
    assert client.request("DELETE").status == 204
    assert client.post("ping").status == 404


def test_progress_comes_on_the_stream_of_its_call(home: Scratch) -> None:
    got = LegacyHttp(home).opened().call("count__read", meta={"progressToken": "p"}, key="k", delay=300, steps=3)
    assert got.is_stream and got.headers["x-accel-buffering"] == "no"
    events = list(got.events())
    # The first has no data: from it on the client knows where it would have to resume.
    assert events[0].message is None and events[0].id is not None
    assert [event.message.get("method") for event in events if event.message] == ["notifications/progress"] * 3 + [None]
    ids = [event.id for event in events]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
def test_clients_of_the_one_revision_that_has_it_are_told_first_where_and_when_to_resume(
    home: Scratch, version: str
) -> None:
    got = LegacyHttp(home).opened(version).call("count__read", meta={"progressToken": "p"}, key="k", delay=200, steps=2)
    first = [got.line(), got.line(), got.line()]
    if version == "2025-11-25":
        assert first[0].startswith("id: ") and first[1:] == ["retry: 1000", "data:"]
    else:
        assert first[0] == "event: message" and first[1].startswith("id: ") and "progress" in first[2]


def test_a_modern_stream_has_no_ids_and_is_not_collected_on_its_way(home: Scratch) -> None:
    got = ModernHttp(home).call("count__read", meta={"progressToken": "p"}, key="k", delay=200, steps=2)
    assert got.is_stream and got.headers["x-accel-buffering"] == "no"
    events = list(got.events())
    assert len(events) == 3 and {event.id for event in events} == {None}


def test_a_client_that_lost_its_stream_gets_the_rest_once_when_it_comes_back(home: Scratch) -> None:
    client = LegacyHttp(home).opened()
    events = client.call("count__read", meta={"progressToken": "p"}, key="k", delay=1500, steps=3).events()
    seen = [next(events), next(events)]
    # The connection breaks in the middle; that is no cancellation.
    client.close()
    resumed = client.request("GET", headers={"Last-Event-ID": seen[-1].id or ""})
    assert resumed.is_stream
    rest = [event for event in resumed.events() if event.message]
    methods = [event.message.get("method") for event in (*seen[1:], *rest) if event.message]
    assert methods == ["notifications/progress"] * 3 + [None]
    assert rest[-1].message and text_of(rest[-1].message) == "read k"
    assert (home.home / "ledger").read_text().splitlines()[1:] == ["read k"]


@pytest.mark.parametrize("last", ["", "x", "9-1", "1-99", "1", "-", "1-1-1"])
def test_what_cannot_be_resumed_is_refused(home: Scratch, last: str) -> None:
    assert LegacyHttp(home).opened().request("GET", headers={"Last-Event-ID": last}).status == 400


def test_what_no_request_is_the_reason_of_comes_on_the_stream_that_was_opened_for_it(scratch: Scratch) -> None:
    scratch.serve({"change": server("changing")})
    client, other = knowing_tools(scratch), knowing_tools(scratch)
    general = client.request("GET").events()
    assert next(general).message is None
    other.call("change__grow", name="leaf").messages()
    told = next(general).message
    assert told is not None and told["method"] == "notifications/tools/list_changed"


def test_a_server_s_question_comes_on_the_stream_of_the_call_that_caused_it(scratch: Scratch) -> None:
    scratch.serve({"ask": server("asking")})
    client = LegacyHttp(scratch).opened(capabilities={"elicitation": {}, "sampling": {}})
    events = client.call("ask__ask", method="elicitation/create").events()
    asked = next(event.message for event in events if event.message)
    assert asked["method"] == "elicitation/create"
    assert client.request("POST", {"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "decline"}}).status == 202
    final = next(event.message for event in events if event.message)
    assert json.loads(text_of(final))["result"] == {"action": "decline"}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 400),
        ({"Mcp-Session-Id": "0" * 48}, 404),
        ({"Mcp-Session-Id": "mine", "MCP-Protocol-Version": "1999-01-01"}, 400),
        ({"Mcp-Session-Id": "mine", "MCP-Protocol-Version": "zzz"}, 400),
    ],
)
def test_a_request_without_a_session_that_is_known_is_refused(
    home: Scratch, headers: dict[str, str], status: int
) -> None:
    client = LegacyHttp(home).opened()
    own = client.headers.pop("Mcp-Session-Id")
    client.headers.clear()
    given = {name: own if value == "mine" else value for name, value in headers.items()}
    got = client.request("POST", PING, given)
    assert got.status == status
    assert "error" in got.json()


def test_batches_are_for_the_one_revision_that_has_them(home: Scratch) -> None:
    client = LegacyHttp(home)
    batch = [PING, {**PING, "id": 2}, {"jsonrpc": "2.0", "method": "notifications/x"}]
    client.open("2025-03-26")
    assert sorted(answer["id"] for answer in json.loads(client.request("POST", batch).text())) == [1, 2]
    client.headers.clear()
    client.open()
    assert client.request("POST", batch).status == 400


def test_who_takes_no_events_gets_no_stream(home: Scratch) -> None:
    got = LegacyHttp(home).opened().request("GET", headers={"Accept": "application/json"})
    assert (got.status, "text/event-stream" in got.json()["error"]["message"]) == (406, True)


# --- modern


def test_a_modern_client_needs_no_session(home: Scratch) -> None:
    client = ModernHttp(home)
    assert client.post("server/discover").json()["result"]["supportedVersions"] == list(versions.MODERN_VERSIONS)
    got = client.call("echo__echo", text="hi")
    assert got.status == 200 and "mcp-session-id" not in got.headers
    assert text_of(got.json()) == "hi"


def test_two_clients_may_use_the_same_id_at_the_same_time(home: Scratch) -> None:
    one, other = ModernHttp(home), ModernHttp(home)
    slow = one.call("count__read", meta={"progressToken": 1}, key="slow", delay=400, steps=2)
    assert text_of(other.call("count__read", key="quick").json()) == "read quick"
    assert text_of(slow.messages()[-1]) == "read slow"


def test_closing_the_stream_cancels_the_call(home: Scratch) -> None:
    client = ModernHttp(home)
    next(client.call("count__read", meta={"progressToken": 1}, key="k", delay=60_000, steps=600).events())
    client.close()
    ledger = home.home / "ledger"
    until(lambda: "cancelled k" in ledger.read_text().splitlines(), "the server hears of it")
    assert ModernHttp(home).call("echo__echo", text="on").status == 200


def test_a_listening_client_is_told_on_its_own_stream(scratch: Scratch) -> None:
    scratch.serve({"change": server("changing")})
    client = ModernHttp(scratch)
    client.post("tools/list").json()
    events = client.post("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, id=7).events()
    first = next(events).message
    assert first is not None and first["method"] == "notifications/subscriptions/acknowledged"
    client.call("change__grow", name="leaf").messages()
    told = next(events).message
    assert told is not None and told["method"] == "notifications/tools/list_changed"
    assert told["params"]["_meta"][versions.SUBSCRIPTION_ID_KEY] == 7


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"MCP-Protocol-Version": "2025-11-25"}, 400, versions.HEADER_MISMATCH),
        ({"Mcp-Method": "tools/list"}, 400, versions.HEADER_MISMATCH),
        ({"Mcp-Name": "other"}, 400, versions.HEADER_MISMATCH),
    ],
)
def test_headers_that_do_not_say_what_the_body_says_are_refused(
    home: Scratch, change: dict[str, str], status: int, code: int
) -> None:
    params = {"name": "echo__echo", "arguments": {"text": ""}}
    got = ModernHttp(home).post("tools/call", params, id="q", headers=change)
    answer = got.json()
    assert (got.status, answer["error"]["code"], answer["id"]) == (status, code, "q")


def test_an_unknown_version_is_answered_with_those_that_are_known(home: Scratch) -> None:
    params = {"_meta": {versions.PROTOCOL_VERSION_KEY: "2030-01-01"}}
    got = ModernHttp(home).post("tools/list", params, headers={"MCP-Protocol-Version": "2030-01-01"})
    error = got.json()["error"]
    assert (got.status, error["code"]) == (400, versions.UNSUPPORTED_VERSION)
    assert error["data"]["supported"] == list(versions.MODERN_VERSIONS)


@pytest.mark.quick
def test_an_unknown_version_or_notification_is_a_warning_once_per_client(home: Scratch) -> None:
    unknown = {"MCP-Protocol-Version": "2030-01-01"}
    for agent in ("one", "two"):
        client = ModernHttp(home, f"/mcp?agent={agent}")
        for _ in range(2):
            params = {"_meta": {versions.PROTOCOL_VERSION_KEY: "2030-01-01"}}
            assert client.post("tools/list", params, headers=unknown).status == 400
            notice = {"jsonrpc": "2.0", "method": "notifications/new"}
            assert client.request("POST", notice, {"MCP-Protocol-Version": versions.NEWEST_MODERN}).status == 202
    assert home.logged().count("unknown protocol version '2030-01-01' from an HTTP client") == 2
    assert home.logged().count("unknown notification 'notifications/new' from an HTTP client: ignored") == 2


def test_in_a_legacy_session_too_it_is_the_unknown_version_that_is_wrong(home: Scratch) -> None:
    client = LegacyHttp(home).opened()
    client.headers["MCP-Protocol-Version"] = "2030-06-18"
    got = client.post("tools/list")
    error = got.json()["error"]
    assert (got.status, error["code"], "2030-06-18" in error["message"]) == (400, versions.UNSUPPORTED_VERSION, True)


@pytest.mark.parametrize("missing", ["MCP-Protocol-Version", "Mcp-Method", "Mcp-Name"])
def test_a_header_that_is_missing_is_called_missing(home: Scratch, missing: str) -> None:
    given = {"MCP-Protocol-Version": versions.NEWEST_MODERN, "Mcp-Method": "tools/call", "Mcp-Name": "echo__echo"}
    meta = {versions.PROTOCOL_VERSION_KEY: versions.NEWEST_MODERN, versions.CLIENT_CAPABILITIES_KEY: {}}
    params = {"name": "echo__echo", "arguments": {"text": ""}, "_meta": meta}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    del given[missing]
    got = ModernHttp(home).request("POST", message, headers=given)
    error = got.json()["error"]
    assert (got.status, error["code"]) == (400, versions.HEADER_MISMATCH)
    assert error["message"].startswith(f"header {missing} is missing")


def test_headers_are_compared_before_the_version_is_looked_at(home: Scratch) -> None:
    params = {"_meta": {versions.PROTOCOL_VERSION_KEY: "2030-01-01"}}
    other = {"MCP-Protocol-Version": "2030-01-01", "Mcp-Method": "prompts/list"}
    assert (
        ModernHttp(home).post("tools/list", params, headers=other).json()["error"]["code"] == versions.HEADER_MISMATCH
    )


@pytest.mark.parametrize("method", ["ping", "initialize", "resources/subscribe", "no/such"])
def test_a_method_that_the_revision_does_not_have_is_not_found(home: Scratch, method: str) -> None:
    got = ModernHttp(home).post(method)
    assert (got.status, got.json()["error"]["code"]) == (404, versions.METHOD_NOT_FOUND)


def test_a_response_may_not_be_posted_and_a_notification_means_nothing(home: Scratch) -> None:
    client = ModernHttp(home)
    client.headers["MCP-Protocol-Version"] = versions.NEWEST_MODERN
    got = client.request("POST", {"jsonrpc": "2.0", "id": 1, "result": {}})
    assert (got.status, "response" in got.json()["error"]["message"]) == (400, True)
    got = client.request("POST", {"jsonrpc": "2.0", "method": "notifications/initialized"})
    assert (got.status, got.text()) == (202, "")


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_the_modern_era_has_nothing_to_get_or_delete(home: Scratch, method: str) -> None:
    got = ModernHttp(home).request(method, headers={"MCP-Protocol-Version": versions.NEWEST_MODERN})
    assert (got.status, got.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize("method", ["GET", "DELETE", "POST"])
def test_what_is_no_revision_at_all_is_refused_as_such_in_a_session(home: Scratch, method: str) -> None:
    client = LegacyHttp(home).opened()
    body = PING if method == "POST" else None
    got = client.request(method, body, {"MCP-Protocol-Version": "zzz"})
    assert got.status == 400
    assert "names no known revision: 'zzz'" in got.json()["error"]["message"]
    assert client.post("ping").status == 200


def test_a_method_that_means_nothing_is_answered_with_those_that_do(home: Scratch) -> None:
    got = HttpClient(home).request("PUT", {})
    assert (got.status, got.headers["allow"]) == (405, "GET, POST, DELETE, OPTIONS")


# --- what both have in common


@pytest.mark.parametrize("path", ["/mcp", "/mcp/echo", "/sse"])
def test_a_mode_that_there_is_not_is_refused_with_those_that_there_are(home: Scratch, path: str) -> None:
    for client in (HttpClient(home, f"{path}?mode=bogus"), ModernHttp(home, f"{path}?mode=full&mode=bogus")):
        got = client.request("GET") if path == "/sse" else client.request("POST", PING)
        assert got.status == 400
        assert got.json()["error"]["message"] == "?mode= is full, search or auto, not 'bogus'"


def test_there_is_no_room_for_a_session_more_and_the_request_is_told_so(scratch: Scratch) -> None:
    servers = {"count": server("counting", scratch.home / "ledger")}
    scratch.serve(servers, max_connections=3)
    clients = [LegacyHttp(scratch) for _ in range(3)]
    for each in clients:
        each.headers["Connection"] = "close"
        each.open()
    first, second, third = clients
    assert second.request("GET").is_stream and third.request("GET").is_stream
    scratch.configure(servers, max_connections=2)
    scratch.control().control("reload")
    # Both places are held, by connections and by sessions: which of them is said first is all the same.
    for got in (ModernHttp(scratch).post("tools/list", id="q"), first.post("ping", id="q")):
        assert got.status == 503 and "max_connections" in got.text()


def test_connections_that_speak_http_are_told_in_http_and_leave_the_places_of_the_commands(scratch: Scratch) -> None:
    daemon = scratch.serve(max_connections=2)
    kept = [HttpClient(scratch, "/healthz") for _ in range(2)]
    for each in kept:
        assert each.request("GET").status == 200
    for _ in range(2 * CONTROL_PLACES):
        got = HttpClient(scratch, "/healthz").request("GET")
        assert (got.status, got.headers["retry-after"], got.headers["connection"]) == (503, "1", "close")
        assert "2 connections are open already (max_connections)" in got.json()["error"]
    assert scratch.status()["running"]
    kept.pop().close()
    until(lambda: HttpClient(scratch, "/healthz").request("GET").status == 200, "there is room again")
    scratch.control().control("shutdown")
    assert daemon.wait() == 0


@pytest.mark.parametrize(
    ("query", "headers"),
    [
        ("?role=writer&agent=a1", {}),
        ("", {"X-Hearth-Role": "writer", "X-Hearth-Agent": "a1"}),
        # What a client sends with each request counts before what somebody wrote into its address.
        ("?role=x&agent=y", {"X-Hearth-Role": "writer", "X-Hearth-Agent": "a1"}),
    ],
)
@pytest.mark.parametrize("kind", [LegacyHttp, ModernHttp])
def test_who_calls_is_said_in_the_address_or_in_headers(
    home: Scratch, kind: type[HttpClient], query: str, headers: dict[str, str]
) -> None:
    client = kind(home, f"/mcp{query}")
    client.headers |= headers
    if isinstance(client, LegacyHttp):
        client.open()
    elif isinstance(client, ModernHttp):
        assert client.post("tools/list").status == 200
    [session] = [each for each in home.status()["sessions"] if each["wire"] == "http"]
    assert (session["role"], session["agentId"]) == ("writer", "a1")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "https://example.com"}, 403),
        ({"Origin": "null"}, 403),
        ({"Host": "example.com"}, 403),
        ({"Host": "localhost.example.com:80"}, 403),
        ({"Origin": "http://localhost:5173", "Host": "127.0.0.1:8080"}, 200),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "none"}, 200),
        ({"Content-Type": "text/plain"}, 415),
        ({"Accept": "application/json"}, 406),
        ({"Accept": "*/*"}, 200),
    ],
)
@pytest.mark.quick
def test_who_is_let_in(home: Scratch, headers: dict[str, str], status: int) -> None:
    assert ModernHttp(home).post("tools/list", headers=headers).status == status


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b'{"jsonrpc":"1.0"}', b"[]", b"7", b'{"a":"\xff"}'])
def test_what_is_no_message_is_refused_with_the_reason(home: Scratch, body: bytes) -> None:
    got = HttpClient(home).request("POST", body)
    assert got.status == 400
    assert "id" not in got.json()


def test_a_quiet_session_does_not_hold_the_daemon(scratch: Scratch) -> None:
    daemon = scratch.serve({"echo": server("echo")}, idle_timeout=0.5)
    LegacyHttp(scratch).opened().call("echo__echo", text="bye").json()
    assert daemon.wait() == 0


def test_nothing_of_http_is_loaded_before_somebody_speaks_it(scratch: Scratch) -> None:
    scratch.configure({"echo": server("echo")})
    # None of them could be imported if anybody tried, and what comes over HTTP is answered with the reason.
    names = ("uvicorn", "starlette", "httptools", "anyio", "click", "prometheus_client")
    code = f"import sys; sys.modules.update(dict.fromkeys({names!r}))"
    lacking = f"{code}; from hearth.daemon.main import main; sys.exit(main(sys.argv[1:]))"
    scratch.start(command=(sys.executable, "-I", "-c", lacking))
    assert text_of(scratch.lines().call("echo__echo", text="lines")) == "lines"
    assert text_of(scratch.frames().call("echo__echo", text="frames")) == "frames"
    assert scratch.status()["sessions"] and "HTTP" not in scratch.logged()
    assert HttpClient(scratch).request("GET", path="/healthz").status == 500
    assert "HTTP cannot be served" in scratch.logged()


@pytest.mark.parametrize("way", ["socket", "port"])
def test_who_asks_while_http_is_loaded_and_the_daemon_goes_out_leaves_no_trace(scratch: Scratch, way: str) -> None:
    scratch.configure({"echo": server("echo")})
    gate = scratch.home / "gate"
    code = f"""import importlib, os, sys, time
load = importlib.import_module
def slowly(name, *words):
    while name == "hearth.daemon.http.app" and not os.path.exists({str(gate)!r}):
        time.sleep(0.005)
    return load(name, *words)
importlib.import_module = slowly
from hearth.daemon.main import main
sys.exit(main(sys.argv[1:]))"""
    daemon = scratch.start("--http", "127.0.0.1:0", command=(sys.executable, "-I", "-c", code))
    address = port_of(scratch) if way == "port" else None
    client = Connection(address or scratch.socket)
    with contextlib.closing(client):
        client.request("GET", "/healthz", headers=bearer(scratch))
        # Whoever asks this has been accepted later.
        scratch.status()
        daemon.signal(signal.SIGTERM)
        until(lambda: "shutting down" in scratch.logged(), "the daemon is on its way out")
        is_over = bool(select.select([client.sock], [], [], 0.2)[0])
        gate.touch()
        assert is_over if address else client.getresponse().status == 503
    assert daemon.wait() == 0
    assert "Traceback" not in scratch.logged()
