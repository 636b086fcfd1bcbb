"""HTTP+SSE of the oldest revision: what is answered comes on the one stream, which is the session."""

import json
import signal
import socket

import pytest

from support.clients import text_of
from support.daemon import Scratch, server
from support.http.clients import HttpClient, LegacyHttp, OldHttp
from support.http.sessions import files, go_out
from support.kernel import BOUND_SECONDS, until
from support.puppets.stage import Actor, Stage


def test_the_oldest_clients_have_one_stream_and_an_address_to_post_to(scratch: Scratch) -> None:
    scratch.serve({"echo": server("echo")})
    client = OldHttp(scratch)
    assert client.open()["protocolVersion"] == "2024-11-05"
    assert client.call("echo__echo", text="old").status == 202
    assert text_of(client.next()) == "old"


def test_what_may_not_be_posted_is_refused_and_the_stream_goes_on(scratch: Scratch) -> None:
    scratch.serve({"echo": server("echo")})
    client = OldHttp(scratch).opened()
    ping = b'{"jsonrpc":"2.0","id":7,"method":"ping"}'
    for body, headers, status in (
        (ping, {"Content-Type": "text/plain"}, 415),
        (ping, {"Content-Encoding": "gzip"}, 415),
        (ping, {"Origin": "https://example.com"}, 403),
        (ping, {"Host": "example.com"}, 403),
        (ping.replace(b"ping", b"\xff"), {}, 400),
        (b"{", {}, 400),
        (b"[%b]" % ping, {}, 400),
    ):
        got = client.request("POST", body, headers, client.path)
        assert (got.status, bool(got.json()["error"])) == (status, True)
    for path in ("/messages", "/messages?session=0", client.path[:-1]):
        assert client.request("POST", ping, path=path).status == 404
    assert client.request("GET", path=client.path).status == 405
    assert client.request("POST", ping, path=client.path).status == 202
    assert client.next()["id"] == 7


def test_a_session_ends_with_its_stream_and_that_with_the_daemon(scratch: Scratch) -> None:
    daemon = scratch.serve({"echo": server("echo")})
    client = OldHttp(scratch).opened()
    assert files(scratch) == []
    go_out(daemon)
    assert list(client.events) == []
    scratch.start()
    assert client.post("ping").status == 404


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_daemon_that_goes_out_answers_what_is_in_flight_first(stage: Stage, actor: Actor, is_lost: bool) -> None:
    client = OldHttp(stage.scratch).opened()
    client.call("puppet__act", id=7)
    puppet, call = actor.next("tools/call")
    stage.daemon.signal(signal.SIGTERM)
    until(lambda: "shutting down" in stage.scratch.logged(), "the daemon is on its way out")
    if is_lost:
        # The server has died: that is the answer.
        puppet.close()
        assert client.next()["error"]["code"] == -32603
    else:
        puppet.say(call, "done")
        answer = client.next()
        assert (answer["id"], text_of(answer)) == (7, "done")
    assert list(client.events) == []
    assert stage.daemon.wait() == 0


def test_a_message_that_comes_to_its_end_after_its_session_is_for_nobody(stage: Stage, actor: Actor) -> None:
    client = OldHttp(stage.scratch).opened()
    body = json.dumps({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "puppet__act"}}).encode()
    with socket.socket(socket.AF_UNIX) as late:
        late.settimeout(BOUND_SECONDS)
        late.connect(stage.scratch.socket)
        head = (
            f"POST {client.path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\nExpect: 100-continue\r\n"
        )
        late.sendall(head.encode() + b"Content-Type: application/json\r\n\r\n")
        assert late.recv(65536).startswith(b"HTTP/1.1 100 ")
        client.close()
        until(lambda: not stage.scratch.status()["sessions"], "the session has ended")
        late.sendall(body)
        assert late.recv(65536).startswith(b"HTTP/1.1 404 ")
    assert stage.scratch.upstream("puppet")["pids"] == []


def test_its_id_is_none_of_the_later_revisions(scratch: Scratch) -> None:
    scratch.serve({"echo": server("echo")})
    client = OldHttp(scratch).opened()
    other = HttpClient(scratch)
    other.headers["Mcp-Session-Id"] = client.path.partition("=")[2]
    assert other.request("POST", {"jsonrpc": "2.0", "id": 1, "method": "ping"}).status == 404
    assert other.request("GET").status == 404
    # Nor the other way round.
    legacy = LegacyHttp(scratch).opened()
    path = f"/messages?session={legacy.headers['Mcp-Session-Id']}"
    assert other.request("POST", {"jsonrpc": "2.0", "id": 1, "method": "ping"}, path=path).status == 404
    assert client.post("ping", id=2).status == 202 and client.next()["id"] == 2
