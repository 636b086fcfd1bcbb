"""Batches of messages, which revision 2025-03-26 has: one line, and one array of answers."""

import json
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from support.batches import REVISION, Bridged, call, ledger, notice, received, request, send
from support.clients import Client, Closed, modern, text_of
from support.daemon import Scratch, server
from support.kernel import until

LIMIT = 1000


@pytest.fixture(params=["lines", "bridge"])
def wire(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def serving(shared: Scratch) -> Scratch:
    """A daemon with servers that answer, that do not, and that keep what they were sent."""
    shared.serve(
        {"count": server("counting", shared.home / "ledger"), "rec": server("recording", shared.home / "record")}
        | {"echo": server("echo"), "array": server("batching")}
    )
    with shared.lines() as client:
        client.tools()
    return shared


@pytest.fixture
def client(serving: Scratch, wire: str) -> Iterator[Client]:
    """A client of the revision, its handshake done."""
    with Bridged(serving) if wire == "bridge" else serving.lines() as opened:
        opened.initialize(REVISION)
        yield opened


def test_a_batch_gets_one_array_with_an_answer_to_each_request_and_to_what_is_no_message(client: Client) -> None:
    send(
        client,
        request(1, "tools/list"),
        call("two", "echo__echo", text="heard"),
        notice("notifications/roots/list_changed"),
        7,
        {"jsonrpc": "2.0", "id": 3, "method": "no/such"},
    )
    answers = received(client)
    assert set(answers) == {1, "two", None, 3}
    assert "echo__echo" in [tool["name"] for tool in answers[1]["result"]["tools"]]
    assert text_of(answers["two"]) == "heard"
    assert answers[None]["error"]["code"] == -32600
    assert "id" not in answers[None]
    assert answers[3]["error"]["code"] == -32601
    # Nothing else came of it.
    assert client.ask("ping", id="end")["result"] == {}
    assert client.aside == []


def test_members_run_at_the_same_time_and_progress_comes_before_their_array(client: Client) -> None:
    slow = call(1, "count__read", key="slow", delay=400, steps=2)
    slow["params"]["_meta"] = {"progressToken": "t"}
    send(client, slow, call(2, "count__read", key="quick"))
    notices = [client.receive(), client.receive()]
    assert [(item["method"], item["params"]["progressToken"]) for item in notices] == [
        ("notifications/progress", "t")
    ] * 2
    answers = received(client)
    assert (text_of(answers[1]), text_of(answers[2])) == ("read slow", "read quick")


def test_a_batch_that_wants_no_answer_gets_none(client: Client) -> None:
    send(client, notice("notifications/roots/list_changed"), {"jsonrpc": "2.0", "id": "hearth-x-1", "result": {}})
    assert client.ask("ping", id="end")["result"] == {}
    assert client.aside == []


def test_a_bridge_owes_nothing_for_a_batch_that_is_done(serving: Scratch) -> None:
    with Bridged(serving) as client:
        client.initialize(REVISION)
        send(client, notice("notifications/roots/list_changed"))
        send(client, request(1, "ping"))
        client.process.end_input()
        rest: list[Any] = [*client.process.read_rest()]
        assert rest == [[{"jsonrpc": "2.0", "id": 1, "result": {}}]]
        assert (client.process.wait(), client.process.stderr()) == (0, "")


@pytest.mark.parametrize("indent", [1, 4])
def test_a_batch_may_be_pretty_printed(client: Client, indent: int) -> None:
    client.send_line(json.dumps([request(1, "ping"), request(2, "ping")], indent=indent).encode())
    assert set(received(client)) == {1, 2}


def test_a_batch_may_have_a_message_on_each_line(client: Client) -> None:
    for line in ("[", json.dumps(request(1, "ping")) + ",", json.dumps(request(2, "ping")), "]"):
        client.send_line(line.encode())
    assert set(received(client)) == {1, 2}


def test_frames_carry_one_answer_to_the_batch_s_line(serving: Scratch) -> None:
    client = serving.frames().initialized(REVISION)
    send(client, request("a", "ping"), call("b", "echo__echo", text="heard"), notice("notifications/x"))
    seq = client.seq
    assert set(received(client)) == {"a", "b"}
    send(client, notice("notifications/x"))
    client.ask("ping", id="end")
    while not any(seq + 1 in header.get("done", ()) for header in client.headers):
        client.receive_frame()
    assert [header for header in client.headers if header.get("re") == seq] == [{"type": "mcp", "re": seq}]
    assert not any(seq in header.get("done", ()) for header in client.headers)


# --- refusals


@pytest.mark.parametrize("version", [None, "2024-11-05", "2025-06-18", "2025-11-25"])
def test_a_session_of_another_revision_is_told_once_that_it_has_no_batches(
    serving: Scratch, wire: str, version: str | None
) -> None:
    with Bridged(serving) if wire == "bridge" else serving.lines() as client:
        if version:
            client.initialize(version)
        else:
            client.ask("ping")
        send(client, request("b", "ping"), call("c", "count__once", key=f"refused {wire} {version}"))
        refused = client.receive()
        assert set(refused) == {"jsonrpc", "error"}
        assert refused["error"]["code"] == -32600
        assert "only in revision 2025-03-26" in refused["error"]["message"]
        assert client.ask("ping", id="end")["result"] == {}
        assert client.aside == []
    assert f"once refused {wire} {version}" not in ledger(serving)


def test_a_modern_session_has_no_batches_and_a_batch_has_no_modern_requests(serving: Scratch) -> None:
    client = serving.frames()
    client.ask("server/discover", modern())
    send(client, request("b", "tools/list", **modern()))
    assert "only in revision 2025-03-26" in client.receive()["error"]["message"]
    client.initialize(REVISION)
    send(client, request("b", "tools/list", **modern()), request("p", "ping"))
    answers = received(client)
    assert answers["b"]["error"]["code"] == -32600
    assert answers["p"]["result"] == {}


def test_initialize_is_refused_in_a_batch_and_changes_nothing(client: Client) -> None:
    opening = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    send(client, request("i", "initialize", **opening), request("p", "ping"))
    answers = received(client)
    assert answers["i"]["error"]["code"] == -32600
    assert "initialize" in answers["i"]["error"]["message"]
    assert answers["p"]["result"] == {}
    # Still a session that may send batches.
    send(client, request(1, "ping"))
    assert set(received(client)) == {1}


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        pytest.param(b"[]", -32600, "at least one message", id="empty"),
        pytest.param(b"[" + b"1," * LIMIT + b"1]", -32600, f"at most {LIMIT} messages", id="too many"),
        pytest.param(b'[{"jsonrpc":"2.0","id":1,"method":"ping"},]', -32700, "not JSON", id="no JSON"),
    ],
)
def test_what_is_no_batch_is_refused_as_a_whole(client: Client, line: bytes, code: int, words: str) -> None:
    client.send_line(line)
    refused = client.receive()
    assert set(refused) == {"jsonrpc", "error"}
    assert refused["error"]["code"] == code
    assert words in refused["error"]["message"]
    assert client.ask("ping", id="end")["result"] == {}


def test_a_batch_of_batches_and_of_an_id_twice_spoils_only_those(client: Client) -> None:
    send(client, [request(1, "ping")], call(2, "count__read", key="first", delay=100), request(2, "ping"))
    found = json.loads(client.receive_line())
    assert sorted((member.get("id") or 0, member.get("error", {}).get("code", 0)) for member in found) == [
        (0, -32600), (2, -32600), (2, 0),
    ]  # fmt: skip


def test_the_largest_batch_is_answered_in_full(client: Client) -> None:
    send(client, *(request(number, "ping") for number in range(LIMIT)))
    assert sorted(received(client)) == list(range(LIMIT))


# --- cancellation, and the end


def test_a_member_may_be_cancelled_by_a_later_line(serving: Scratch, client: Client, wire: str) -> None:
    send(client, call("h", "rec__hold", mark=wire), call("e", "echo__echo", text="heard"))
    record = serving.home / "record"
    until(lambda: f'"mark":"{wire}"' in record.read_text().replace(": ", ":"), "the server has the call")
    client.notify("notifications/cancelled", {"requestId": "h"})
    assert set(received(client)) == {"e"}
    until(lambda: "notifications/cancelled" in record.read_text().splitlines()[-1], "the server is told")
    assert client.ask("ping", id="h")["result"] == {}


def test_a_batch_whose_members_were_all_cancelled_has_no_answer(client: Client) -> None:
    send(client, call(1, "rec__hold"), call(2, "rec__hold"), notice("notifications/cancelled", requestId=1))
    client.notify("notifications/cancelled", {"requestId": 2})
    assert client.ask("ping", id="end")["result"] == {}
    assert client.aside == []


def test_a_session_that_ends_in_the_middle_of_a_batch_leaves_nothing(
    serving: Scratch, client: Client, wire: str
) -> None:
    other = serving.lines()
    other.ask("ping")
    key = f"left {wire}"
    send(client, call(1, "count__read", key=key, delay=600_000), request(2, "ping"))
    until(lambda: f"read {key}" in ledger(serving), "the call runs")
    client.close()
    until(lambda: f"cancelled {key}" in ledger(serving), "the call is withdrawn")

    until(lambda: all(session["inFlight"] == 0 for session in serving.status()["sessions"]), "nothing is in flight")
    assert other.ask("ping")["result"] == {}
    assert "Traceback" not in serving.logged()


def test_a_batch_is_answered_after_the_client_has_said_everything(client: Client) -> None:
    send(client, call(1, "count__read", key="late", delay=200), request(2, "ping"))
    if isinstance(client, Bridged):
        client.process.end_input()
        rest: list[Any] = [*client.process.read_rest()]
        assert [{member["id"] for member in batch} for batch in rest] == [{1, 2}]
        assert client.process.wait() == 0
    else:
        client.stream.end_input()
        assert set(received(client)) == {1, 2}
        with pytest.raises(Closed):
            client.receive()


def test_a_daemon_that_is_going_out_refuses_the_requests_of_a_batch_and_takes_the_rest(scratch: Scratch) -> None:
    daemon = scratch.serve({"count": server("counting", scratch.home / "ledger")}, drain_timeout=30)
    client = scratch.lines().initialized(REVISION)
    client.begin_call("count__read", id="held", key="held", delay=600_000)
    until(lambda: "read held" in ledger(scratch), "the call runs")
    daemon.signal(signal.SIGTERM)
    until(lambda: "shutting down" in scratch.logged(), "it drains")
    send(client, request(1, "ping"), notice("notifications/cancelled", requestId="held"))
    answers = received(client)
    assert answers[1]["error"]["code"] == -32603
    assert "shutting down" in answers[1]["error"]["message"]
    # Nothing is in flight any longer.
    assert daemon.wait() == 0


# --- servers


def test_a_server_may_answer_in_arrays(serving: Scratch) -> None:
    client = serving.lines().initialized("2025-11-25")
    answer = client.call("array__say", meta={"progressToken": "t"}, text="heard")
    assert text_of(answer) == "heard"
    assert [message["params"]["progressToken"] for message in client.aside] == ["t"]
    ids = [client.begin_call("array__pair", text=str(number)) for number in range(2)]
    assert [text_of(client.answer_to(id)) for id in ids] == ["0", "1"]
