"""Sockets of HTTP ports: bound at an address, handed over by a service manager, taken by others, or lost."""

import json
import os
import signal
import socket
import sys
from urllib.parse import urlsplit

import pytest

from support.daemon import COMMAND, Daemon, Scratch, server
from support.http.clients import HttpClient, ModernHttp, bearer
from support.kernel import until
from support.stdio_server import StdioServer


def attempt(scratch: Scratch, *arguments: str) -> Daemon:
    scratch.configure()
    return scratch.attempt(*arguments)


def test_an_address_that_others_can_reach_has_to_be_meant(scratch: Scratch) -> None:
    refused = attempt(scratch, "--http", "0.0.0.0:0")
    assert refused.wait() == 2
    assert refused.stderr().startswith("hearth: 0.0.0.0 can be reached from other machines; say --allow-remote")
    assert not os.path.exists(scratch.socket)


def own_address() -> str:
    """One of this machine that is not for itself alone, where it has any; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return "127.0.0.3"
        return str(probe.getsockname()[0])


@pytest.mark.parametrize("bound", ["127.0.0.2", "0.0.0.0"])  # noqa: S104 - for what is reached at another address
def test_the_address_that_was_asked_for_is_served(scratch: Scratch, bound: str) -> None:
    scratch.configure({"echo": server("echo")})
    scratch.start("--http", f"{bound}:0", "--allow-remote")
    port = urlsplit(scratch.status()["http"][0]).port or 0
    reached = bound if bound == "127.0.0.2" else own_address()
    named = {"Host": f"{reached}:{port}"}
    client = ModernHttp(scratch, address=(reached, port))
    assert client.post("tools/list", headers={**bearer(scratch), **named}).status == 200
    assert client.post("tools/list", headers=named).status == 401
    for wrong in ({"Host": "rebound.example"}, {"Host": "203.0.113.9"}, {**named, "Origin": "http://rebound.example"}):
        assert client.post("tools/list", headers={**bearer(scratch), **named, **wrong}).status == 403


def test_a_name_that_means_nothing_is_told_as_such(scratch: Scratch) -> None:
    # No name server need be asked about a label as long as that.
    refused = attempt(scratch, "--http", f"{'x' * 64}:0")
    assert refused.wait() == 2
    assert "cannot be resolved" in refused.stderr() and "--allow-remote" not in refused.stderr()


def test_whoever_serves_by_hand_reads_the_address_on_stderr_without_a_terminal_too(scratch: Scratch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        scratch.configure()
        daemon = StdioServer(scratch, "--http-port", str(port), transport="http")
        until(lambda: "serving on" in daemon.stderr(), "the daemon serves")
        [url] = scratch.status()["http"]
    daemon.signal(signal.SIGTERM)
    assert daemon.wait() == 0
    for said in (daemon.stderr(), scratch.logged()):
        assert url in said and said.count(f"port {port} is taken") == 1
        assert said.count("daemon stopped") == 1


def test_a_port_that_is_taken_gives_way_to_the_next(scratch: Scratch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        scratch.configure()
        scratch.start("--http", f"127.0.0.1:{port}")
        [url] = scratch.status()["http"]
        assert port < (urlsplit(url).port or 0) <= port + 10


def test_a_config_that_cannot_be_used_is_told_to_whoever_asked_for_the_port(scratch: Scratch) -> None:
    scratch.write_config("idle_timeout = nonsense\n")
    refused = scratch.attempt("--http", "127.0.0.1:0")
    assert refused.wait() == 2
    assert refused.stderr().startswith("hearth: ") and str(scratch.config) in refused.stderr()
    assert not os.path.exists(scratch.socket)


def test_a_daemon_that_cannot_serve_says_so_over_http(scratch: Scratch) -> None:
    scratch.write_config("idle_timeout = nonsense\n")
    os.makedirs(os.path.dirname(scratch.socket), mode=0o700)
    with socket.socket(socket.AF_UNIX) as near, socket.create_server(("127.0.0.1", 0)) as port:
        near.bind(scratch.socket)
        near.listen()
        _start_handed_over(scratch, near, port)
        told = HttpClient(scratch).request("GET", path="/healthz")
        assert told.status == 503 and "config" in told.json()["error"]
        # Who has not shown who it is is told nothing of what is wrong.
        far = HttpClient(scratch, address=port.getsockname()).request("GET", path="/healthz")
        assert far.status == 503 and "hearth status" in far.json()["error"]
        assert far.headers["vary"] == "Origin"


# Becomes the daemon, with a Unix socket and a TCP socket as a service manager hands them over, or the latter alone.
HAND_OVER = """
import os, sys
names, fds = sys.argv[1], sys.argv[2].split(":")
for number, given in enumerate(fds, 3):
    os.dup2(int(given), number)
os.environ.update(LISTEN_FDS=str(len(fds)), LISTEN_PID=str(os.getpid()), LISTEN_FDNAMES=names)
os.execv(sys.argv[3], sys.argv[3:])
"""


def _start_handed_over(scratch: Scratch, near: socket.socket | None, port: socket.socket) -> Daemon:
    # High numbers: what is copied to 3 and 4 must not be one of them.
    sockets = [(near, 50), (port, 51)] if near else [(port, 51)]
    fds = [os.dup2(each.fileno(), number, inheritable=True) for each, number in sockets]
    try:
        names = "mcp:http" if near else "http"
        words = (sys.executable, "-I", "-S", "-c", HAND_OVER, names, ":".join(map(str, fds)))
        return scratch.attempt(command=(*words, *COMMAND), fds=tuple(fds))
    finally:
        for each in fds:
            os.close(each)


def test_a_port_that_is_handed_over_lights_the_daemon_and_lets_it_go_out(scratch: Scratch) -> None:
    scratch.configure({"echo": server("echo")}, idle_timeout=1)
    # Makes the token.
    scratch.hearth("token", "show")
    allowed = bearer(scratch)
    os.makedirs(os.path.dirname(scratch.socket), mode=0o700)
    with socket.socket(socket.AF_UNIX) as near, socket.create_server(("127.0.0.1", 0)) as port:
        near.bind(scratch.socket)
        near.listen()
        daemon = _start_handed_over(scratch, near, port)
        client = ModernHttp(scratch, address=port.getsockname())
        assert client.call("echo__echo", text="x").status == 401
        got = client.post("tools/call", {"name": "echo__echo", "arguments": {"text": "lit"}}, headers=allowed)
        assert json.loads(got.text())["result"]["content"][0]["text"] == "lit"
        assert daemon.wait() == 0
        # Who comes now waits for the next one.
        with socket.create_connection(port.getsockname()):
            pass


def test_a_port_that_was_lost_is_not_said_to_be_served(scratch: Scratch) -> None:
    scratch.configure({"echo": server("echo")})
    os.makedirs(os.path.dirname(scratch.socket), mode=0o700)
    with socket.socket(socket.AF_UNIX) as near, socket.create_server(("127.0.0.1", 0)) as port:
        near.bind(scratch.socket)
        near.listen()
        _start_handed_over(scratch, near, port)
        address = f"http://127.0.0.1:{port.getsockname()[1]}"
        status = scratch.status()
        assert (status["http"], status["httpLost"]) == ([address], [])
        # As `ss --kill` does it.
        port.shutdown(socket.SHUT_RDWR)
        until(lambda: scratch.status()["http"] == [], "it is not served any more")
        [lost] = scratch.status()["httpLost"]
        assert lost["address"] == address and lost["error"]
        assert f"HTTP lost   {address} (" in scratch.hearth("status").stdout
        findings = scratch.findings()
        assert findings["port.lost"]["state"] == "broken" and address in findings["port.lost"]["message"]
        assert "port.state" not in findings
        # Who has the socket is served on.
        assert ModernHttp(scratch).post("tools/list").status == 200


# Becomes the daemon, which takes the listening socket in its first word for the port that it binds.
BIND_INHERITED = """
import socket, sys
from hearth.host import sockets
from hearth.daemon.main import main
inherited = socket.socket(fileno=int(sys.argv.pop(1)))
sockets.bind_port = lambda *_: inherited
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.quick
def test_a_daemon_whose_port_was_asked_for_and_is_lost_ends_with_1(scratch: Scratch) -> None:
    scratch.configure({"slow": server("stalling", scratch.home / "ledger")})
    with socket.create_server(("127.0.0.1", 0)) as port:
        command = (sys.executable, "-I", "-c", BIND_INHERITED, str(port.fileno()))
        daemon = scratch.start("--http", "127.0.0.1:0", command=command, fds=(port.fileno(),))
        address = f"http://127.0.0.1:{port.getsockname()[1]}"
        client = scratch.frames()
        call = client.begin_call("slow__plod", meta={"progressToken": 1}, steps=5, pause=0.1)
        client.next_called("notifications/progress")
        # As `ss --kill` does it.
        port.shutdown(socket.SHUT_RDWR)
        # Bridges are told to come back, and calls in flight are answered.
        assert client.receive_type("goodbye")[0]["reconnect"] is True
        assert "result" in client.answer_to(call)
        assert daemon.wait() == 1
    assert f"HTTP on {address} has ended" in scratch.logged()


def test_a_port_that_is_handed_over_alone_is_refused_and_not_left_unheard(scratch: Scratch) -> None:
    scratch.configure()
    with socket.create_server(("127.0.0.1", 0)) as port:
        daemon = _start_handed_over(scratch, None, port)
        assert daemon.wait() == 5
    assert "hearth: a port was handed over" in daemon.stderr() and "mcp.socket" in daemon.stderr()
