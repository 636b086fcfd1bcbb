"""HTTP that is unusual and right, comes in a row, or has a client that does not read: served, and nobody waits."""

import contextlib
import json
import re
import signal
import socket

import pytest

from support.daemon import Scratch, server
from support.http.clients import HttpClient, LegacyHttp, ModernHttp
from support.http.raw import CHUNKED, DOORS, GET, HEAD, LAST, PING, TOKEN, Door, connections, posted, status
from support.kernel import until

# --- what is unusual, and right


def test_a_body_in_chunks_with_trailers_is_read(open_door: Door) -> None:
    client = open_door.client(LegacyHttp)
    assert isinstance(client, LegacyHttp)
    client.open()
    session = b"Mcp-Session-Id: %b\r\n" % client.headers["Mcp-Session-Id"].encode()
    pieces = b"".join(b"%x;n=v\r\n%b\r\n" % (1, PING[n : n + 1]) for n in range(len(PING)))
    said = open_door.talk(CHUNKED.replace(LAST, LAST + session) + pieces + b"0\r\nX-Sum: 1\r\n\r\n")
    assert status(said) == 200 and said.endswith(b'{"jsonrpc":"2.0","id":1,"result":{}}')


def test_who_asks_first_is_told_to_go_on(open_door: Door) -> None:
    def body_when_told(sock: socket.socket) -> None:
        assert sock.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        sock.sendall(PING)

    asked = posted(PING, b"Expect: 100-continue\r\n").removesuffix(PING)
    # A ping without a session is refused; it has been read.
    assert b"Mcp-Session-Id is missing" in open_door.talk(asked, body_when_told)


@pytest.mark.parametrize(("path", "code"), [("/healthz", 200), ("/status", 200), ("/mcp", 405), ("/nothing", 404)])
def test_an_answer_to_head_has_no_body(open_door: Door, path: str, code: int) -> None:
    said = open_door.talk(GET.replace(b"GET /healthz", b"HEAD " + path.encode()) + LAST + b"\r\n")
    assert status(said) == code and said.endswith(b"\r\n\r\n")


def test_who_knows_no_chunks_gets_none(open_door: Door) -> None:
    for old in (b"HTTP/1.0", b"HTTP/1.0\r\nConnection: keep-alive"):

        def first_event(sock: socket.socket) -> None:
            with sock.makefile("rb") as stream:
                said = b"".join(iter(stream.readline, b"\r\n"))
                assert status(said) == 200 and b"transfer-encoding" not in said and b"connection: close" in said
                assert stream.readline() == b"event: endpoint\n"
            sock.shutdown(socket.SHUT_WR)

        stream = GET.replace(b"/healthz", b"/sse").replace(b"HTTP/1.1", old)
        open_door.talk(stream + b"\r\n", first_event)
        # A stream that comes to its end.
        progress = call("count__read", key="old", delay=10, steps=3).replace(b"HTTP/1.1", old)
        progress = progress.replace(b'"_meta": {', b'"_meta": {"progressToken": 1, ')
        length = len(progress.partition(b"\r\n\r\n")[2])
        said = open_door.talk(re.sub(rb"Content-Length: \d+", b"Content-Length: %d" % length, progress))
        head, _, events = said.partition(b"\r\n\r\n")
        assert status(head) == 200 and b"text/event-stream" in head and b"transfer-encoding" not in head
        assert events.startswith(b"event: message\n") and events.count(b"read old") == 1 and events.endswith(b"}\n\n")
        assert open_door.talk(GET.replace(b"HTTP/1.1", old) + b"\r\n").endswith(b'\r\n\r\n{"status":"ok"}')


# As Java's client says with every first request.
UPGRADE = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAAB\r\n"
SMUGGLED = b"GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n"


def test_an_upgrade_is_not_taken(open_door: Door) -> None:
    said = open_door.talk(GET + UPGRADE + b"\r\n" + GET + LAST + b"\r\n")
    assert said.count(b'{"status":"ok"}') == 2
    assert said.count(b"HTTP/1.1 ") == 2
    said = open_door.talk((GET + UPGRADE + b"\r\n") * 100 + GET + LAST + b"\r\n")
    assert said.count(b'{"status":"ok"}') == said.count(b"HTTP/1.1 ") == 101
    assert open_door.serves()


def answered(sock: socket.socket) -> None:
    """The next piece is sent when this much has been answered."""
    assert sock.recv(65536, socket.MSG_PEEK)


@pytest.mark.parametrize("is_split", [False, True])
def test_the_body_of_who_asks_for_an_upgrade_is_read(open_door: Door, is_split: bool) -> None:
    whole = call("echo__echo", text="upgraded").replace(b"Accept:", UPGRADE + b"Accept:")
    head, end, body = whole.partition(b"\r\n\r\n")
    chunks = head[: head.index(b"Content-Length")] + b"Transfer-Encoding: chunked"
    chunked = chunks + end + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    for request in (whole, chunked):
        pieces = [request[:40], request[40:-30], request[-30:]] if is_split else [request]
        said = open_door.talk(*pieces, answered, GET + LAST + b"\r\n")
        assert (status(said), said.count(b"upgraded"), said.count(b'{"status":"ok"}')) == (200, 1, 1)


def test_the_body_of_who_asks_for_an_upgrade_is_no_request(open_door: Door) -> None:
    head = HEAD + UPGRADE + b"Content-Length: %d\r\n\r\n" % len(SMUGGLED)
    said = open_door.talk(head, SMUGGLED, answered, GET + LAST + b"\r\n")
    assert status(said) == 400 and said.count(b"HTTP/1.1 ") == 2 and said.endswith(b'{"status":"ok"}')


def test_requests_in_a_row_are_answered_in_a_row(open_door: Door) -> None:
    assert open_door.talk((GET + b"\r\n") * 500 + GET + LAST + b"\r\n").count(b'{"status":"ok"}') == 501


def call(tool: str, **arguments: object) -> bytes:
    """A modern request, whole in itself, on a connection that stays."""
    name = "io.modelcontextprotocol/"
    meta = {f"{name}protocolVersion": "2026-07-28", f"{name}clientCapabilities": {}}
    params = {"name": tool, "arguments": arguments, "_meta": meta}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
    headers = b"MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: %b\r\n" % tool.encode()
    return posted(body, headers).replace(LAST, b"")


def test_a_call_that_is_no_utf_8_is_refused_for_that_reason_and_not_carried_out(open_door: Door) -> None:
    for text in (b"\xff", b"\xc3", b"\xed\xa0\x80"):
        whole = call("count__put", key="mangled...").replace(TOKEN, TOKEN + LAST)
        said = open_door.talk(whole.replace(b"...", b"..."[len(text) :] + text))
        assert status(said) == 400
        assert "UTF-8" in json.loads(said.partition(b"\r\n\r\n")[2])["error"]["message"]
    assert open_door.serves()
    ledger = open_door.home.home / "ledger"
    assert not ledger.exists() or b"mangled" not in ledger.read_bytes()


def test_a_request_behind_one_that_takes_long_waits_for_it(door: Door) -> None:
    """Longer than a request may take to come: nothing is late that was not let in."""
    said = door.talk(call("count__read", key="row", delay=1200) + GET + LAST + b"\r\n")
    assert said.index(b"read row") < said.index(b'{"status":"ok"}')
    assert door.serves()


@pytest.mark.parametrize(
    ("code", "half"),
    [
        (408, HEAD + b"Content-Length: 5\r\n\r\n{"),
        (408, HEAD),
        (414, b"GET /" + b"x" * 9000),
        (400, b"nonsense\r\n\r\n"),
    ],
    ids=["body", "headers", "address", "nonsense"],
)
def test_what_is_wrong_with_a_request_is_not_told_as_the_answer_to_another(door: Door, code: int, half: bytes) -> None:
    """Nor does the other lose its answer, although it takes longer than a request may take to come."""
    first, then, second = door.talk(call("count__read", key="first", delay=1200) + half).partition(b"read first")
    assert (status(first), then) == (200, b"read first")
    assert status(second[second.index(b"HTTP/1.1 ") :]) == code and second.count(b"\r\n\r\n") == 1
    assert door.serves()


# --- who does not read


def test_who_reads_nothing_holds_up_nobody_and_leaves_nothing(open_door: Door) -> None:
    before = connections(open_door.home)
    with open_door.connect() as sock:
        # 24 MB of answers: more than any buffer on the way takes.
        sock.sendall(open_door.signed(call("big__big", bytes=80_000)) * 300)
        until(lambda: connections(open_door.home) > before, "it is being served")
        assert open_door.serves()
    until(lambda: connections(open_door.home) <= before, "nothing is left of it")
    assert open_door.serves()


def test_who_reads_nothing_for_too_long_is_dropped(door: Door) -> None:
    before = connections(door.home)
    with door.connect() as sock:
        sock.sendall(door.signed(call("big__big", bytes=80_000)) * 300)
        until(lambda: connections(door.home) > before, "it is being served")
        until(lambda: connections(door.home) <= before, "it is dropped")
    assert door.serves()


def test_a_client_that_does_not_read_loses_its_stream_and_nobody_else_waits(patient: Scratch) -> None:
    stuck, lively = HttpClient(patient, "/sse"), ModernHttp(patient)
    stream = stuck.request("GET")
    assert stream.line() == "event: endpoint"
    path = stream.line().removeprefix("data: ")
    arguments = {"name": "big__big", "arguments": {"bytes": 80_000}}
    for number in range(40):
        body = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": arguments}
        assert stuck.request("POST", body, path=path).status in (202, 404)
    until(lambda: "its connection is dropped" in patient.logged(), "the one that does not read is dropped")
    assert "outbound_limit" in patient.logged()
    assert lively.call("echo__echo", text="on").status == 200
    until(lambda: stuck.request("POST", body, path=path).status == 404, "its session is over")


def test_a_client_that_does_not_read_for_a_moment_loses_progress_but_no_answer(patient: Scratch) -> None:
    slow = ModernHttp(patient).call("count__read", meta={"progressToken": 1}, key="k", delay=1000, steps=20_000)
    assert ModernHttp(patient).call("count__read", key="after", delay=1500).status == 200
    messages = slow.messages()
    assert messages[-1]["result"]["content"][0]["text"] == "read k"
    assert len(messages) < 20_000


# --- the end


def test_strangers_keep_no_connection_whatever_they_ask(patient: Scratch) -> None:
    door = Door(patient, "port")
    for request in (
        GET,
        GET.replace(b"GET", b"OPTIONS"),
        GET.replace(b"localhost", b"example.com"),
        GET + b"Origin: https://evil.example\r\n",
    ):
        assert status(door.talk(request + b"\r\n", is_known=False)) in (204, 401, 403)


def test_strangers_get_one_answer_however_many_requests_they_send(patient: Scratch) -> None:
    door = Door(patient, "port")
    for number in (3, 20_000):
        said = door.talk((GET + b"\r\n") * number, is_known=False)
        assert (status(said), said.count(b"HTTP/1.1 ")) == (401, 1)
    assert door.serves()


def test_who_is_refused_while_it_sends_can_read_why(open_door: Door) -> None:
    """By a client that reads nothing before it has sent everything."""
    head = HEAD + b"Content-Length: 10000000\r\n\r\n"
    for code, is_known in ((413, True), (401, False)):
        with open_door.connect() as sock:
            if not is_known and sock.family == socket.AF_UNIX:
                continue
            sock.sendall(open_door.signed(head, is_known))
            for _ in range(100):
                sock.sendall(b" " * 100_000)
            said = b"".join(iter(lambda sock=sock: sock.recv(65536), b""))
        assert (status(said), said.count(b"content-length:")) == (code, 1)
    assert open_door.serves()


def test_a_client_that_goes_with_a_request_in_waiting_leaves_nothing(open_door: Door) -> None:
    before = connections(open_door.home)
    logged = len(open_door.home.logged())
    with open_door.connect() as sock:
        sock.sendall(open_door.signed(call("count__read", key="left", delay=60_000) + GET + b"\r\n"))
        until(lambda: connections(open_door.home) > before, "it is being served")
    until(lambda: connections(open_door.home) <= before, "nothing is left of it")
    assert "Traceback" not in open_door.home.logged()[logged:]
    assert open_door.serves()


@pytest.mark.parametrize("begun", [b"GET / HT", GET, HEAD + b"Content-Length: 5\r\n\r\n{", CHUNKED + b"5\r\n{"])
@pytest.mark.parametrize("way", DOORS)
def test_half_a_request_does_not_keep_a_daemon_that_goes_out(scratch: Scratch, way: str, begun: bytes) -> None:
    scratch.configure({"echo": server("echo")}, http_request_timeout=0)
    daemon = scratch.start("--http", "127.0.0.1:0")
    door = Door(scratch, way)
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(door.connect()) for _ in range(20)]
        for sock in sockets:
            sock.sendall(door.signed(begun))
        assert door.serves()
        daemon.process.send_signal(signal.SIGTERM)
        assert daemon.wait() == 0
        for sock in sockets:
            said = sock.recv(65536)
            assert not said or (status(said), b"\r\nretry-after: 1\r\n" in said) == (503, True)


def test_the_log_does_not_grow_with_what_is_no_http(patient: Scratch) -> None:
    door = Door(patient, "port")
    before = len(patient.logged())
    for _ in range(50):
        door.talk(b"NONSENSE\r\n\r\n")
    assert len(patient.logged()) == before
