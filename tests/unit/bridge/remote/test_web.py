"""Requests on connections that fail, over real sockets of loopback."""

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from hearth.bridge.remote import web as remote_web
from hearth.bridge.remote import wires
from hearth.bridge.remote.errands import Identity
from hearth.bridge.remote.target import Target
from hearth.bridge.remote.web import Broken, GivenUp, Reply, Web
from hearth.bridge.remote.wires import Call
from hearth.errors import Unreachable

BOUND_SECONDS = 20
# More than two kernels' buffers hold.
LARGE = b"x" * (32 * 1024 * 1024)


class Deaf:
    """A server that takes connections, and says what the test gives it without reading anything."""

    def __init__(self, says: bytes = b"") -> None:
        self._says = says
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/mcp"
        self.taken: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self.taken.append(connection)
                connection.sendall(self._says)

    def __enter__(self) -> "Deaf":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(BOUND_SECONDS)
        for connection in self.taken:
            connection.close()


def web_to(url: str) -> Web:
    target = Target(url, "")
    # With a header of its own it looks for no login.
    return Web(target, Identity(target, [("Authorization", "x")]), patience=BOUND_SECONDS)


@pytest.fixture
def call() -> Iterator[Call]:
    """A call that is given up when it takes longer than a test may."""
    call = Call()
    alarm = threading.Timer(BOUND_SECONDS, call.give_up)
    alarm.start()
    yield call
    alarm.cancel()
    alarm.join(BOUND_SECONDS)


def ask(web: Web, call: Call) -> Reply:
    try:
        return web.send("POST", {}, LARGE, call)
    except GivenUp:
        pytest.fail("it would have waited for ever")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wires, "WRITE_SECONDS", 0.2)
    monkeypatch.setattr(remote_web, "AFTERWORD_SECONDS", 0.2)


@pytest.mark.usefixtures("impatient")
def test_a_server_that_never_reads_is_given_up_and_not_asked_again(call: Call) -> None:
    with Deaf() as server:
        with pytest.raises(Broken, match="did not take the request") as caught:
            ask(web_to(server.url), call)
        assert not caught.value.sent
        assert len(server.taken) == 1


@pytest.mark.usefixtures("impatient")
def test_what_a_server_says_that_reads_no_further_is_heard_and_its_connection_not_used_again(call: Call) -> None:
    with Deaf(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n") as server:
        web = web_to(server.url)
        for _ in range(2):
            reply = ask(web, call)
            assert reply.status == 413
            reply.close()
        assert len(server.taken) == 2


def test_a_body_over_its_limit_is_not_read_to_its_end(call: Call) -> None:
    """It would be of any size: who is at the other end is not known."""
    with Deaf(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n" + b"x" * 1001) as server:
        reply = web_to(server.url).send("GET", {}, b"", call)
        with pytest.raises(Unreachable, match="over the limit of 1000 bytes"):
            reply.body(1000)
        reply.close()
    with Deaf(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1000\r\n\r\n" + b"x" * 1000) as server:
        reply = web_to(server.url).send("GET", {}, b"", call)
        assert len(reply.body(1000)) == 1000
        reply.close()
