"""HTTP on Windows: on the pipe, and on a port when it is asked for."""

import asyncio
import errno
import http.client
import json
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import win32security
from house import DEMO, LIMIT_SECONDS, House, named_in

from hearth import sids
from hearth.errors import StartError
from hearth.host import private_files, sockets
from hearth.host.sockets import AcceptLoop
from hearth.host.windows import accounts, pipe_streams
from hearth.secrets import http_token

pytestmark = pytest.mark.timeout(120)

# Well-known, as is the number of the error.
SYSTEM = "S-1-5-18"
WSAEACCES = 10013
VERSION = "2026-07-28"
META = {"io.modelcontextprotocol/protocolVersion": VERSION, "io.modelcontextprotocol/clientCapabilities": {}}
HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": VERSION,
    "Mcp-Method": "tools/call",
    "Mcp-Name": "demo__add",
}
CALL = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "demo__add", "arguments": {"a": 20, "b": 22}, "_meta": META},
    }
)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with sockets.bind_port("127.0.0.1", 0, allow_remote=False) as found:
        yield found


def ask(address: tuple[str, int], **headers: str) -> tuple[int, bytes]:
    """Call the tool over TCP."""
    connection = http.client.HTTPConnection(*address, timeout=LIMIT_SECONDS)
    try:
        connection.request("POST", "/mcp", CALL, {**HEADERS, **headers})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def ask_pipe(name: str) -> bytes:
    """Call the tool over the pipe; the whole answer."""
    head = "".join(f"{key}: {value}\r\n" for key, value in HEADERS.items())
    head = f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {len(CALL)}\r\n{head}\r\n"
    stream = pipe_streams.connect(name)
    try:
        stream.settimeout(LIMIT_SECONDS)
        stream.sendall((head + CALL).encode())
        answer = b""
        while data := stream.recv(1 << 16):
            answer += data
        return answer
    finally:
        stream.close()


def test_a_port_and_the_pipe_speak_http_and_the_port_wants_the_token(house: House) -> None:
    house.write(idle_timeout=0.2, demo=DEMO)
    with house.serving_http() as url:
        parts = urlsplit(url)
        assert parts.hostname == "127.0.0.1"
        assert parts.port
        address = parts.hostname, parts.port
        assert ask(address)[0] == 401
        status, body = ask(address, Authorization=f"Bearer {http_token.read()}")
        assert (status, json.loads(body)["result"]["content"]) == (200, [{"type": "text", "text": "42"}])
        assert ask(address, Authorization=f"Bearer {http_token.read()}", Host="rebound.example")[0] == 403
        # Whom the pipe lets in needs none.
        answer = ask_pipe(house.places.socket)
        assert answer.startswith(b"HTTP/1.1 200")
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["result"]["content"] == [{"type": "text", "text": "42"}]


def test_a_port_besides_stdio_outlives_its_client_and_a_bridge_leads_to_it(house: House) -> None:
    house.write(demo=DEMO)
    hearth = [sys.executable, "-I", "-m", "hearth"]
    with piped([*hearth, "serve", "--transport", "both", "--http-port", "0", "--config", str(house.config)]) as server:
        assert server.stdin and server.stderr
        found = None
        while not found:
            line = server.stderr.readline()
            assert line, "it has ended"
            found = re.search(r"HTTP on (\S+),", line)
        server.stdin.close()
        token = f"Authorization: Bearer {http_token.read()}"
        # Of a daemon of its own, which ends by itself.
        own = house.config.with_name("bridge.toml")
        own.write_text("idle_timeout = 0.2\n")
        aim = ["--to", f"{found[1]}/mcp", "--header", token, "--config", str(own)]
        with piped([*hearth, "bridge", *aim]) as bridge:
            assert bridge.stdin and bridge.stdout
            bridge.stdin.write(f"{CALL}\n")
            bridge.stdin.flush()
            assert json.loads(bridge.stdout.readline())["result"]["content"] == [{"type": "text", "text": "42"}]
            bridge.stdin.close()
            assert bridge.wait(LIMIT_SECONDS) == 0


@contextmanager
def piped(command: list[str]) -> "Iterator[subprocess.Popen[str]]":
    """Such a process, ended behind the block and after a while."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, encoding="utf-8", **pipes) as process:
        limit = threading.Timer(LIMIT_SECONDS, process.kill)
        limit.start()
        try:
            yield process
        finally:
            process.kill()
            limit.cancel()


def test_a_port_is_ours_alone_and_one_that_is_taken_gives_way_to_the_next(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert listener.getsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE)
    taken = listener.getsockname()[1]
    with sockets.bind_port("127.0.0.1", taken, allow_remote=False) as other:
        assert taken < other.getsockname()[1] <= taken + sockets.NEXT_PORTS

    # What Windows says of a port that it keeps for itself.
    def refuse(sock: socket.socket, address: object) -> None:
        raise PermissionError(WSAEACCES, "forbidden by its access permissions", None, WSAEACCES)

    monkeypatch.setattr(socket.socket, "bind", refuse)
    with pytest.raises(StartError, match="are all taken"):
        sockets.bind_port("127.0.0.1", taken, allow_remote=False)


async def test_who_comes_while_a_port_rests_is_met_afterwards(listener: socket.socket) -> None:
    acceptor, came = AcceptLoop(listener), asyncio.Event()
    met: list[int] = []

    async def one() -> None:
        acceptor.poll(came.set)
        async with asyncio.timeout(LIMIT_SECONDS):
            await came.wait()
        came.clear()
        # Before it is accepted: otherwise the loop would end while it waits for yet another.
        acceptor.rest()
        connection = acceptor.accept()
        assert connection
        met.append(connection.getpeername()[1])
        connection.close()

    clients = [socket.create_connection(listener.getsockname(), LIMIT_SECONDS) for _ in range(2)]
    await one()
    await one()
    acceptor.poll(came.set)
    acceptor.rest()
    clients.append(socket.create_connection(listener.getsockname(), LIMIT_SECONDS))
    await one()
    expected = [client.getsockname()[1] for client in clients]
    for client in clients:
        client.close()
    assert met == expected


async def test_an_error_is_told_to_whoever_accepts_and_the_next_poll_tries_again(listener: socket.socket) -> None:
    acceptor, came = AcceptLoop(listener), asyncio.Event()
    loop = asyncio.get_running_loop()
    accept = loop.sock_accept

    async def refuse(sock: socket.socket) -> tuple[socket.socket, object]:
        raise OSError(errno.EMFILE, "too many open files")

    loop.sock_accept = refuse  # type: ignore[method-assign]
    async with asyncio.timeout(LIMIT_SECONDS):
        acceptor.poll(came.set)
        await came.wait()
        acceptor.rest()
        with pytest.raises(OSError, match="too many open files"):
            acceptor.accept()
        loop.sock_accept = accept  # type: ignore[method-assign]
        came.clear()
        acceptor.poll(came.set)
        with socket.create_connection(listener.getsockname(), LIMIT_SECONDS):
            await came.wait()
            acceptor.rest()
            connection = acceptor.accept()
            assert connection
            connection.close()


def test_a_private_file_is_made_for_its_owner_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    attributes = accounts.attributes
    monkeypatch.setattr(accounts, "attributes", lambda text: asked.append(text) or attributes(text))
    file = tmp_path / "token"
    for content in (b"former", b"new"):
        private_files.write(str(file), content)
        assert file.read_bytes() == content
    assert asked == [f"O:{sids.own()}D:P(A;;FA;;;{sids.own()})"] * 2
    # What Wine makes of it is the mode of a Unix file, in which SYSTEM is always named.
    found = win32security.GetFileSecurity(str(file), win32security.DACL_SECURITY_INFORMATION)
    assert set(named_in(found)) <= {sids.own(), SYSTEM}
