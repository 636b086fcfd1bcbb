"""How much a client may send, on every wire: what is beyond is refused and said so, and nobody else is disturbed."""

import json
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from support.batches import Bridged
from support.clients import Message
from support.daemon import Scratch, server
from support.http.clients import HttpClient, LegacyHttp, ModernHttp, OldHttp, Response, bearer, port_of
from support.kernel import pids_at_home, until
from support.speakers import WIRES, Speaker
from support.stdio_server import StdioServer

# Ten at once, then one in a second.
RATE = {"rate_limit": 1, "port_rate_limit": 1, "rate_burst": 10}
# No wire has so much to say that a client needs more to meet the limit.
TRIES = 100
LONG_MS = 60_000


def start(scratch: Scratch, **settings: object) -> None:
    configure(scratch, **settings)
    scratch.start("--http", "127.0.0.1:0")


def configure(scratch: Scratch, **settings: object) -> None:
    scratch.configure({"echo": server("echo"), "count": server("counting", scratch.home / "ledger")}, **settings)


def ledger(scratch: Scratch) -> str:
    file = scratch.home / "ledger"
    return file.read_text() if file.exists() else ""


def echo(speaker: Speaker, id: int) -> Message:
    return speaker.ask(id, "tools/call", {"name": "echo__echo", "arguments": {"text": "x"}})


def reason(answer: Message) -> str | None:
    found: str | None = answer.get("error", {}).get("data", {}).get("reason")
    return found


def use_up(speaker: Speaker) -> Message:
    """Speak until the limit is met. The refusal."""
    for id in range(1, TRIES):
        answer = echo(speaker, id)
        if reason(answer):
            return answer
        assert answer["result"]["content"][0]["text"] == "x"
    raise AssertionError("nothing was refused")


def first_refused(request: Callable[[], Response]) -> Response:
    for _ in range(TRIES):
        got = request()
        if got.status == 429:
            return got
    raise AssertionError("nothing was refused")


def in_flight(scratch: Scratch) -> int:
    return sum(each["inFlight"] for each in scratch.status()["sessions"])


def refused(scratch: Scratch, **labels: str) -> int:
    text = HttpClient(scratch).request("GET", path="/metrics").text()
    wanted = ",".join(f'{name}="{value}"' for name, value in sorted(labels.items()))
    [line] = [line for line in text.splitlines() if line.startswith(f"hearth_messages_refused_total{{{wanted}}}")]
    return int(float(line.split()[-1]))


# --- messages per second


@pytest.mark.parametrize("wire", WIRES)
def test_what_is_beyond_the_rate_is_refused_and_later_served_again(scratch: Scratch, wire: str) -> None:
    start(scratch, **RATE)
    busy, other = WIRES[wire](scratch, "busy"), WIRES[wire](scratch, "other")
    answer = use_up(busy)
    setting = "port_rate_limit" if wire.startswith("tcp") else "rate_limit"
    assert answer["error"]["code"] == -32603
    assert f"more than 1 message a second ({setting}); send it again in " in answer["error"]["message"]
    assert reason(answer) == "rate_limit" and 0 < answer["error"]["data"]["retryAfterSeconds"] <= 1.001
    assert "result" in echo(other, 1)
    until(lambda: "result" in echo(busy, TRIES), "it is served again")
    assert refused(scratch, limit="rate", kind="request") >= 1
    assert in_flight(scratch) == 0
    # However much was refused, the log has one line of it.
    assert scratch.logged().count("what is beyond is refused") == 1


def test_a_port_is_limited_and_the_socket_is_not_unless_somebody_says_so(scratch: Scratch) -> None:
    start(scratch, port_rate_limit=1)
    use_up(WIRES["tcp modern"](scratch, "far"))
    near = WIRES["http modern"](scratch, "far")
    assert all("result" in echo(near, number) for number in range(TRIES))


def test_messages_in_one_piece_are_counted_one_by_one(scratch: Scratch, wire: str) -> None:
    start(scratch, **RATE)
    client = scratch.lines() if wire == "lines" else scratch.frames()
    for id in range(30):
        client.begin("ping", id=id)
    answers = [client.answer_to(id) for id in range(30)]
    assert [reason(each) for each in answers[:10]] == [None] * 10
    assert {reason(each) for each in answers[10:]} >= {"rate_limit"}


def test_a_notification_over_the_rate_is_dropped_and_a_cancellation_never_is(scratch: Scratch, wire: str) -> None:
    start(scratch, **RATE)
    client = scratch.lines() if wire == "lines" else scratch.frames()
    client.initialize()
    call = client.begin_call("count__read", key="k", delay=LONG_MS)
    until(lambda: "read k" in ledger(scratch), "the call is with its server")
    for _ in range(50):
        client.notify("notifications/roots/list_changed")
    client.notify("notifications/cancelled", {"requestId": call})
    until(lambda: "cancelled k" in ledger(scratch), "the server was told")
    assert refused(scratch, limit="rate", kind="notification") >= 30
    assert any(reason(client.ask("ping")) == "rate_limit" for _ in range(TRIES))
    assert in_flight(scratch) == 0


def test_a_dropped_line_is_finished_for_the_bridge(scratch: Scratch) -> None:
    start(scratch, **RATE)
    client = scratch.frames()
    for _ in range(20):
        client.notify("notifications/roots/list_changed")
    done: set[int] = set()
    while len(done) < 20:
        done |= set(client.receive_type("ack")[0].get("done", ()))
    assert done == set(range(1, 21))


def test_answers_to_questions_always_pass(scratch: Scratch) -> None:
    client = (
        scratch.serve({"ask": server("asking", isolation="session")}, **RATE)
        .lines()
        .initialized(capabilities={"elicitation": {}})
    )
    id = client.begin_call("ask__ask", method="elicitation/create")
    question = client.next_called("elicitation/create")
    while not reason(client.ask("ping")):
        pass
    client.send({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}})
    assert "result" in client.answer_to(id)


def test_what_a_bridge_sends_again_is_never_refused(scratch: Scratch) -> None:
    start(scratch, in_flight_limit=1, **RATE)
    client = scratch.frames().initialized()
    while not reason(client.ask("ping")):
        pass
    for flag in ("resent", "replay"):
        for id in range(100, 130):
            line = {"jsonrpc": "2.0", "id": f"{flag}{id}", "method": "ping"}
            client.send_line(json.dumps(line).encode(), **{flag: True})
            assert client.answer_to(f"{flag}{id}")["result"] == {}


def test_a_bridge_loses_no_call_to_the_limits_of_the_next_daemon(scratch: Scratch) -> None:
    configure(scratch)
    daemon = scratch.start()
    client = Bridged(scratch)
    try:
        client.initialize()
        ids = [client.begin_call("count__read", key=str(number), delay=1500) for number in range(20)]
        until(lambda: in_flight(scratch) == len(ids), "all of them are in flight")
        configure(scratch, rate_limit=0.001, rate_burst=0, in_flight_limit=1)
        os.kill(daemon.pid, signal.SIGKILL)
        # The bridge starts another, and sends again what was not answered, and what has to be known there.
        assert all("result" in client.answer_to(id) for id in ids)
        # What it says from now on is counted, as everybody's.
        assert [reason(client.ask("ping")), reason(client.ask("ping"))] == [None, "rate_limit"]
    finally:
        client.close()
        scratch.control().control("shutdown")
        until(lambda: not pids_at_home(str(scratch.home)), "everybody has gone")


# --- on standard input


def test_who_speaks_on_standard_input_is_limited_as_on_the_socket(scratch: Scratch) -> None:
    configure(scratch, in_flight_limit=2, **RATE)
    client = StdioServer(scratch).initialized()
    for number in range(2):
        client.begin_call("count__read", id=f"long{number}", key=str(number), delay=LONG_MS)
    assert reason(client.call("echo__echo", text="x")) == "in_flight_limit"
    client.notify("notifications/cancelled", {"requestId": "long0"})
    assert "result" in client.call("echo__echo", text="x")
    assert any(reason(client.ask("ping")) == "rate_limit" for _ in range(TRIES))
    until(lambda: "result" in client.ask("ping"), "it is served again")


# --- batches


def batch(*ids: int) -> list[Message]:
    return [{"jsonrpc": "2.0", "id": id, "method": "ping"} for id in ids]


def test_each_member_of_a_batch_counts_on_a_line(scratch: Scratch) -> None:
    start(scratch, **RATE)
    client = scratch.lines().initialized(version="2025-03-26")
    client.send_line(json.dumps(batch(*range(100, 150))).encode())
    answers: Any = json.loads(client.receive_line())
    found = {each["id"]: reason(each) for each in answers}
    assert set(found) == set(range(100, 150))
    # Two were spent on the opening.
    assert [found[id] for id in range(100, 108)] == [None] * 8
    assert "rate_limit" in found.values()


def test_each_member_of_a_batch_counts_over_http(scratch: Scratch) -> None:
    start(scratch, **RATE)
    client = LegacyHttp(scratch).opened(version="2025-03-26")
    got = client.request("POST", batch(*range(50)))
    answers: Any = got.json()
    assert got.status == 200 and len(answers) == 50
    assert 8 <= sum("result" in each for each in answers) < 50
    # Nothing is left, or little: the whole of the next is refused, or of the one after it.
    got = first_refused(lambda: client.request("POST", batch(*range(50))))
    assert got.headers["retry-after"] == "1"
    assert "more than 1 message a second (rate_limit)" in got.json()["error"]


# --- over HTTP


def test_what_is_no_request_is_refused_with_a_small_object(scratch: Scratch) -> None:
    start(scratch, **RATE)
    client = LegacyHttp(scratch).opened()
    notice = {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}
    assert client.request("POST", notice).status == 202
    got = first_refused(lambda: client.request("POST", notice))
    assert (list(got.json()), got.headers["retry-after"]) == (["error"], "1")
    for method in ("cancelled", "initialized"):
        got = client.request("POST", {"jsonrpc": "2.0", "method": f"notifications/{method}", "params": {}})
        assert got.status == 202


def test_another_connection_is_no_other_allowance(scratch: Scratch) -> None:
    start(scratch, **RATE)
    # Each request has a connection of its own.
    client = ModernHttp(scratch, address=port_of(scratch))
    client.headers |= bearer(scratch)
    assert client.post("tools/list").status == 200
    first_refused(lambda: client.post("tools/list"))


@pytest.mark.parametrize("path", ["/mcp", "/sse"])
def test_beginning_sessions_is_limited_for_all_together(scratch: Scratch, path: str) -> None:
    start(scratch, **RATE)
    settled = WIRES["tcp legacy"](scratch, "settled")
    client = HttpClient(scratch, path, port_of(scratch))
    client.headers |= bearer(scratch)
    opening = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    body = {"jsonrpc": "2.0", "id": 5, "method": "initialize", "params": opening}
    got = first_refused(lambda: client.request("POST", body) if path == "/mcp" else client.request("GET"))
    assert got.headers["retry-after"] == "1"
    told = got.json()["error"]
    assert "more than 1 session begun a second (port_rate_limit)" in (told if path == "/sse" else told["message"])
    assert "result" in echo(settled, 1)
    # By the other door, anybody may.
    assert "result" in echo(WIRES["http legacy"](scratch, "near"), 1)


@pytest.mark.parametrize("is_far", [True, False], ids=["port", "socket"])
def test_opening_streams_counts_as_messages_of_the_session(scratch: Scratch, is_far: bool) -> None:
    start(scratch, **RATE)
    clients = [LegacyHttp(scratch, address=port_of(scratch) if is_far else None) for _ in range(2)]
    for client in clients:
        client.headers |= bearer(scratch)
        client.open()

    def look() -> Response:
        got = clients[0].request("GET")
        got.break_off()
        return got

    got = first_refused(look)
    assert got.headers["retry-after"] == "1" and not got.is_stream
    assert reason(clients[0].post("ping").json()) == "rate_limit"
    stream = clients[1].request("GET")
    assert stream.status == 200 and stream.is_stream
    stream.break_off()


@pytest.mark.parametrize("path", ["/status", "/metrics"])
def test_looking_at_the_daemon_is_limited_and_keeps_nobody_from_working(scratch: Scratch, path: str) -> None:
    start(scratch, port_rate_limit=1)
    far = HttpClient(scratch, path, port_of(scratch))
    assert far.request("GET").status == 401
    far.headers |= bearer(scratch)
    got = first_refused(lambda: far.request("GET"))
    assert got.headers["retry-after"] == "1"
    assert "more than 1 request a second (port_rate_limit)" in got.json()["error"]
    # Whether it is there may always be asked, and sessions begin.
    assert all(far.request("GET", path="/healthz").status == 200 for _ in range(TRIES))
    assert "result" in echo(WIRES["tcp legacy"](scratch, "other"), 1)
    near = HttpClient(scratch, path)
    assert all(near.request("GET").status == 200 for _ in range(TRIES))
    until(lambda: far.request("GET").status == 200, "it is answered again")


def test_the_oldest_clients_are_limited_too(scratch: Scratch) -> None:
    start(scratch, **RATE)
    client = OldHttp(scratch)
    assert client.post("ping").status == 202
    got = first_refused(lambda: client.post("ping"))
    assert reason(got.json()) == "rate_limit" and got.headers["retry-after"] == "1"


def test_a_page_may_read_when_to_come_back(scratch: Scratch) -> None:
    start(scratch, **RATE)
    client = ModernHttp(scratch)
    client.headers["Origin"] = "http://localhost:5173"
    got = first_refused(lambda: client.post("tools/list"))
    assert "Retry-After" in got.headers["access-control-expose-headers"]


# --- requests in flight


@pytest.mark.parametrize("wire", WIRES)
def test_requests_in_flight_are_limited_until_one_ends(scratch: Scratch, wire: str) -> None:
    start(scratch, in_flight_limit=2, port_in_flight_limit=2)
    busy, other = WIRES[wire](scratch, "busy"), WIRES[wire](scratch, "other")
    assert "result" in echo(busy, 1)
    busy.begin(101, "count__read", key="a", delay=LONG_MS)
    busy.begin(102, "count__read", key="b", delay=LONG_MS)
    until(lambda: in_flight(scratch) == 2, "two are in flight")
    answer = echo(busy, 3)
    setting = "port_in_flight_limit" if wire.startswith("tcp") else "in_flight_limit"
    assert f"2 requests are in flight already ({setting})" in answer["error"]["message"]
    assert (answer["error"]["code"], reason(answer)) == (-32603, "in_flight_limit")
    assert "result" in echo(other, 1)
    if "modern" not in wire:
        assert busy.ask(4, "ping", {})["result"] == {}
    busy.notify("notifications/cancelled", {"requestId": 101})
    until(lambda: in_flight(scratch) == 1, "one is in flight")
    assert "result" in echo(busy, 5)
    # Answered by itself: again there is room.
    busy.begin(103, "count__read", key="c", delay=200)
    until(lambda: in_flight(scratch) == 1 and "read c" in ledger(scratch), "it is answered")
    assert "result" in echo(busy, 6)
    busy.leave()
    until(lambda: in_flight(scratch) == 0, "nothing is left of who has gone")
    assert refused(scratch, limit="in_flight", kind="request") >= 1


# --- another config


@pytest.mark.parametrize("wire", WIRES)
def test_other_limits_hold_for_who_is_there(scratch: Scratch, wire: str) -> None:
    start(scratch, port_rate_limit=0)
    speaker = WIRES[wire](scratch, "there")
    assert all("result" in echo(speaker, id) for id in range(20))
    configure(scratch, **RATE)
    scratch.reload()
    use_up(speaker)
    configure(scratch, port_rate_limit=0)
    scratch.reload()
    assert all("result" in echo(speaker, id) for id in range(20))
