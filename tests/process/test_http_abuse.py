"""HTTP that is malformed, endless or never comes to its point: each ends by itself, and nobody else is kept waiting."""

import socket

import pytest

from process.daemon import Scratch, server
from process.http_clients import HttpClient, ModernHttp
from process.kernel import BOUND_SECONDS, until

HEAD = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: */*\r\n"


def started(scratch: Scratch, **settings: float) -> Scratch:
    servers = {"echo": server("echo"), "big": server("big"), "count": server("counting", scratch.home / "ledger")}
    scratch.configure(servers, message_limit=100_000, outbound_limit=1_000_000, **settings)
    scratch.start()
    return scratch


@pytest.fixture
def home(scratch: Scratch) -> Scratch:
    return started(scratch, http_request_timeout=0.5)


@pytest.fixture
def patient(scratch: Scratch) -> Scratch:
    """Where a client may take its time to read."""
    return started(scratch)


def talk(home: Scratch, *pieces: bytes) -> bytes:
    """Everything that the daemon says to these bytes, until it ends the connection."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(BOUND_SECONDS)
        sock.connect(home.socket)
        said = b""
        try:
            for piece in pieces:
                sock.sendall(piece)
            while chunk := sock.recv(65536):
                said += chunk
        except (BrokenPipeError, ConnectionResetError):
            pass
        return said


def status(said: bytes) -> int:
    return int(said.split(b" ", 2)[1])


@pytest.mark.parametrize(
    ("pieces", "code"),
    [
        ((b"GET /mcp HTTP/1.1\r\nHost",), 408),
        ((HEAD + b"Content-Length: 5\r\n\r\n{",), 408),
        ((HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nabc",), 408),
        ((HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",), 400),
        ((HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n{}",), 400),
        ((b"GET /mcp HTTP/1.1\r\nHost: localhost\r\nBad Header\r\n\r\n",), 400),
        ((b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",), 414),
        ((HEAD + b"".join(b"X-%d: y\r\n" % n for n in range(100_000)) + b"\r\n",), 431),
        ((HEAD + b"X: " + b"y" * 100_000 + b"\r\n\r\n",), 431),
        ((HEAD + b"Content-Length: 100001\r\n\r\n",), 413),
        ((HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"ffff\r\n%b\r\n" % (b" " * 0xFFFF) * 2,), 413),
        ((b"NONSENSE\r\n\r\n",), 400),
    ],
    ids=lambda value: str(value) if isinstance(value, int) else value[0][-30:],
)
def test_what_is_no_request_ends_within_its_limit(home: Scratch, pieces: tuple[bytes, ...], code: int) -> None:
    said = talk(home, *pieces)
    # A client that was still writing may lose the answer with the connection.
    assert not said or status(said) == code
    assert ModernHttp(home).call("echo__echo", text="on").status == 200


def test_an_upgrade_is_not_taken(home: Scratch) -> None:
    said = talk(home, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, close\r\nUpgrade: h2c\r\n\r\n")
    assert status(said) in (200, 400)


def test_requests_in_a_row_are_answered_in_a_row(home: Scratch) -> None:
    ask = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    last = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    assert talk(home, ask * 20 + last).count(b'{"status":"ok"}') == 21


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
