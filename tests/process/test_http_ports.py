"""HTTP on a TCP port: only when asked, only with the token, only for pages that may."""

import contextlib
import http.client
import json
import os
import secrets
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from support.daemon import COMMAND, Daemon, Scratch, server
from support.http.clients import HttpClient, LegacyHttp, ModernHttp, Response
from support.kernel import until
from support.stdio_server import StdioServer

Address = tuple[str, int]


def serve(scratch: Scratch, *arguments: str) -> Address:
    servers = {"echo": server("echo"), "slow": server("stalling", scratch.home / "ledger")}
    scratch.configure(servers, http_origins=["https://app.example"], idle_timeout=0.3)
    scratch.start("--http", "127.0.0.1:0", *arguments)
    [url] = scratch.status()["http"]
    parts = urlsplit(url)
    assert parts.hostname and parts.port
    return parts.hostname, parts.port


def token(scratch: Scratch, *words: str) -> str:
    command = [sys.executable, "-I", "-m", "hearth", "token", *(words or ("show",))]
    done = subprocess.run(command, env=scratch.environment(), capture_output=True, text=True, timeout=20, check=True)
    return done.stdout.strip()


def token_file(scratch: Scratch) -> Path:
    return scratch.home / ".local" / "state" / "hearth" / "http" / "token"


def bearer(scratch: Scratch) -> dict[str, str]:
    return {"Authorization": f"Bearer {token(scratch)}"}


@pytest.mark.quick
def test_whoever_has_the_token_is_served_and_nobody_else(scratch: Scratch) -> None:
    client = ModernHttp(scratch, address=serve(scratch))
    own = token(scratch)
    near_misses = ("", "Bearer", "Bearer ", "Bearer wrong", f"Bearer {own[:-1]}", f"Bearer {own}x", f"Basic {own}", own)
    for given in ({}, *({"Authorization": each} for each in near_misses)):
        got = client.post("tools/list", headers=given)
        assert (got.status, got.headers["www-authenticate"]) == (401, 'Bearer realm="hearth"')
    assert client.post("tools/list", headers=bearer(scratch)).status == 200
    assert stat.S_IMODE(token_file(scratch).stat().st_mode) == 0o600
    # On the socket the kernel tells who it is.
    assert ModernHttp(scratch).post("tools/list").status == 200


@pytest.mark.quick
def test_an_empty_token_file_admits_no_request(scratch: Scratch) -> None:
    client = ModernHttp(scratch, address=serve(scratch))
    token_file(scratch).write_text("\n")
    for given in ({}, {"Authorization": "Bearer"}, {"Authorization": "Bearer "}):
        assert client.post("tools/list", headers=given).status == 401


@pytest.mark.quick
def test_a_token_that_was_rotated_is_worth_nothing_at_once(scratch: Scratch) -> None:
    client = ModernHttp(scratch, address=serve(scratch))
    former = bearer(scratch)
    assert client.post("tools/list", headers=former).status == 200
    token(scratch, "rotate")
    assert client.post("tools/list", headers=former).status == 401
    assert client.post("tools/list", headers=bearer(scratch)).status == 200


def is_cut(stream: Response) -> bool:
    """Whether its connection ends before the stream does."""
    try:
        stream.text()
    except (ConnectionResetError, http.client.IncompleteRead):
        return True
    return False


def write_token(scratch: Scratch) -> None:
    """As somebody would who has no command for it."""
    token_file(scratch).write_text(secrets.token_urlsafe(32))


@pytest.mark.parametrize("change", [lambda scratch: token(scratch, "rotate"), write_token], ids=["rotate", "edit"])
def test_streams_and_calls_that_the_former_token_let_in_end(
    scratch: Scratch, change: Callable[[Scratch], object]
) -> None:
    address = serve(scratch)
    near, far, newer = (LegacyHttp(scratch, address=address if at else None) for at in (0, 1, 1))
    far.headers.update(bearer(scratch))
    near.open()
    far.open()
    streams = [client.request("GET") for client in (near, far)]
    call = far.call("slow__plod", meta={"progressToken": 1}, steps=600, pause=0.1)
    change(scratch)
    newer.headers.update(bearer(scratch))
    newer.open()
    kept = newer.request("GET")
    assert is_cut(streams[1]) and is_cut(call)
    assert far.post("ping").status == 401
    assert newer.post("ping").status == 200
    assert scratch.logged().count("connections over TCP that came with the former are cut: ") == 1
    # Those of others are as they were, until another GET takes them over.
    for client, stream in ((near, streams[0]), (newer, kept)):
        client.request("GET")
        assert not is_cut(stream)


def test_a_legacy_session_over_a_port(scratch: Scratch) -> None:
    client = LegacyHttp(scratch, address=serve(scratch))
    client.headers.update(bearer(scratch))
    client.open()
    assert client.call("echo__echo", text="far").json()["result"]["content"][0]["text"] == "far"


def test_a_port_that_was_asked_for_keeps_the_daemon(scratch: Scratch) -> None:
    address = serve(scratch)
    client = HttpClient(scratch, address=address)
    deadline = 5 * 0.3
    with socket.create_connection(address) as idle:
        idle.settimeout(deadline)
        with pytest.raises(TimeoutError):
            idle.recv(1)
    assert client.request("GET", path="/healthz", headers=bearer(scratch)).status == 200


@pytest.mark.parametrize(
    ("origin", "status"),
    [("https://app.example", 200), ("http://localhost:5173", 200), ("https://evil.example", 403), ("null", 403)],
)
@pytest.mark.quick
def test_pages_of_allowed_origins_may_read_the_answer(scratch: Scratch, origin: str, status: int) -> None:
    client = ModernHttp(scratch, address=serve(scratch))
    got = client.post("tools/list", headers={**bearer(scratch), "Origin": origin})
    assert got.status == status
    if status == 200:
        assert got.headers["access-control-allow-origin"] == origin
        assert got.headers["vary"] == "Origin"
        assert "Mcp-Session-Id" in got.headers["access-control-expose-headers"]
    else:
        assert "access-control-allow-origin" not in got.headers


@pytest.mark.quick
def test_a_browser_that_asks_first_needs_no_token(scratch: Scratch) -> None:
    client = HttpClient(scratch, address=serve(scratch))
    wanted = "authorization, content-type, mcp-protocol-version"
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": wanted}
    got = client.request("OPTIONS", headers={"Origin": "https://app.example", **asked})
    assert got.status == 204
    assert got.headers["access-control-allow-headers"] == wanted
    assert "POST" in got.headers["access-control-allow-methods"]
    assert got.headers["access-control-max-age"] == "86400"
    assert client.request("OPTIONS", headers={"Origin": "https://evil.example", **asked}).status == 403


def raw_answer(address: Address, request: bytes) -> bytes:
    """Send bytes and read up to the end of the connection."""
    with socket.create_connection(address, 20) as connection:
        connection.sendall(request)
        return b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.mark.quick
def test_every_answer_of_the_port_varies_by_origin(scratch: Scratch) -> None:
    address = serve(scratch)
    client = HttpClient(scratch, address=address)
    allowed = bearer(scratch)
    answers = [
        client.request("GET", path="/healthz", headers=allowed),
        client.request("GET", path="/healthz", headers={**allowed, "Origin": "https://app.example"}),
        client.request("GET", path="/healthz", headers={**allowed, "Origin": "https://evil.example"}),
        client.request("GET", path="/healthz"),
        client.request("GET", path="/nothing", headers=allowed),
        client.request("PUT", headers=allowed),
        client.request("OPTIONS", headers={"Origin": "https://app.example", "Access-Control-Request-Method": "POST"}),
        ModernHttp(scratch, address=address).post("tools/list", headers=allowed),
    ]
    assert [got.status for got in answers] == [200, 200, 403, 401, 404, 405, 204, 200]
    assert [got.headers.get("vary") for got in answers] == ["Origin"] * len(answers)
    not_http = raw_answer(address, b"nonsense\r\n\r\n")
    assert not_http.startswith(b"HTTP/1.1 400 ") and not_http.lower().count(b"\r\nvary: origin\r\n") == 1


@pytest.mark.quick
def test_a_name_that_was_made_to_mean_this_machine_is_refused(scratch: Scratch) -> None:
    client = ModernHttp(scratch, address=serve(scratch))
    assert client.post("tools/list", headers={**bearer(scratch), "Host": "rebound.example"}).status == 403


@pytest.mark.parametrize("path", ["/.well-known/oauth-protected-resource", "/mcps/echo", "/register", "/", "/mcp/"])
@pytest.mark.quick
def test_an_address_with_nothing_behind_it_has_the_same_door(scratch: Scratch, path: str) -> None:
    address = serve(scratch)
    client = HttpClient(scratch, address=address)
    assert client.request("GET", path=path, headers={**bearer(scratch), "Host": "rebound.example"}).status == 403
    assert client.request("GET", path=path, headers={**bearer(scratch), "Origin": "https://evil.example"}).status == 403
    with socket.create_connection(address, 20) as stranger:
        stranger.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        # Read to the end: that answer is the last.
        said = b"".join(iter(lambda: stranger.recv(65536), b""))
    assert said.startswith(b"HTTP/1.1 401 ") and b"hearth token show" in said
    if path != "/mcp/":
        got = client.request("GET", path=path, headers=bearer(scratch))
        assert (got.status, "/mcp" in got.json()["error"]) == (404, True)


def test_a_slash_at_the_end_of_the_address_does_no_harm(scratch: Scratch) -> None:
    client = ModernHttp(scratch, path="/mcp/", address=serve(scratch))
    assert client.post("tools/list", headers=bearer(scratch)).status == 200


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
        assert said.count("gone out") == 1


def test_a_port_that_is_taken_gives_way_to_the_next(scratch: Scratch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        scratch.configure()
        scratch.start("--http", f"127.0.0.1:{port}")
        [url] = scratch.status()["http"]
        assert port < (urlsplit(url).port or 0) <= port + 10


def test_those_without_the_token_take_nobody_s_place(scratch: Scratch) -> None:
    address = serve(scratch)
    scratch.configure({"echo": server("echo")}, max_connections=10)
    client = ModernHttp(scratch, address=address)
    allowed = bearer(scratch)
    strangers = [socket.create_connection(address, 20) for _ in range(40)]
    try:
        for each in strangers:
            each.sendall(b"GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n")
        # Each is told, or turned away, and the connection is over.
        for each in strangers:
            said = b""
            with contextlib.suppress(ConnectionResetError):
                while data := each.recv(65536):
                    said += data
            assert not said or said.startswith(b"HTTP/1.1 401 ")
    finally:
        for each in strangers:
            each.close()
    # More than may be there: those that wait longest and say nothing give way, also with the beginning of a request.
    idle = [socket.create_connection(address, 20) for _ in range(100)]
    try:
        for each in idle[-40:]:
            each.sendall(b"GET /status HTTP/1.1\r\nHost: ")
        for _ in range(3):
            assert ModernHttp(scratch, address=address).post("tools/list", headers=allowed).status == 200
        assert client.post("tools/list", headers=allowed).status == 200
        assert scratch.lines().ask("ping")["result"] == {}
    finally:
        for each in idle:
            each.close()


def test_who_has_the_token_is_told_in_http_that_there_is_no_room(scratch: Scratch) -> None:
    address = serve(scratch)
    allowed = bearer(scratch)
    scratch.configure({"echo": server("echo")}, max_connections=1)
    scratch.control().control("reload")
    first = ModernHttp(scratch, address=address)
    assert first.request("GET", path="/healthz", headers=allowed).status == 200
    for _ in range(12):
        got = ModernHttp(scratch, address=address).request("GET", path="/healthz", headers=allowed)
        assert (got.status, got.headers["retry-after"]) == (503, "1")
        assert "max_connections" in got.json()["error"]
    assert scratch.status()["running"]
    first.close()
    again = ModernHttp(scratch, address=address)
    until(lambda: again.request("GET", path="/healthz", headers=allowed).status == 200, "there is room again")


def test_those_without_the_token_who_go_on_sending_give_way(scratch: Scratch) -> None:
    address = serve(scratch)
    allowed = bearer(scratch)
    request = b"GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n"
    body = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50000000\r\n\r\n"
    assert ModernHttp(scratch, address=address).post("tools/list", headers=allowed).status == 200
    for said in (request * 3000, body + b" " * 100_000):
        with contextlib.ExitStack() as stack:
            # They read nothing, and do not go by themselves.
            for _ in range(40):
                each = stack.enter_context(socket.create_connection(address, 20))
                with contextlib.suppress(OSError):
                    each.setblocking(False)
                    each.send(said)
            for _ in range(10):
                with contextlib.closing(ModernHttp(scratch, address=address)) as client:
                    assert client.post("tools/list", headers=allowed).status == 200


def test_those_without_the_token_have_little_time_to_ask(scratch: Scratch) -> None:
    scratch.configure(http_request_timeout=0)
    scratch.start("--http", "127.0.0.1:0")
    parts = urlsplit(scratch.status()["http"][0])
    address = ("127.0.0.1", parts.port)
    with socket.create_connection(address, 20) as silent, socket.create_connection(address, 20) as slow:
        slow.sendall(b"GET /status HTTP/1.1\r\nHost: ")
        for each in (silent, slow):
            said = b"".join(iter(lambda each=each: each.recv(65536), b""))
            assert said.startswith(b"HTTP/1.1 408 ") and b"token" in said


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
    allowed = bearer(scratch)
    os.makedirs(os.path.dirname(scratch.socket), mode=0o700)
    with socket.socket(socket.AF_UNIX) as near, socket.create_server(("127.0.0.1", 0)) as port:
        near.bind(scratch.socket)
        near.listen()
        daemon = _start_handed_over(scratch, near, port)
        client = ModernHttp(scratch, address=port.getsockname())
        assert client.call("echo__echo", text="x").status == 401
        params = {"name": "echo__echo", "arguments": {"text": "lit"}}
        got = client.post("tools/call", params, headers=allowed)
        assert json.loads(got.text())["result"]["content"][0]["text"] == "lit"
        assert daemon.wait() == 0
        # Who comes now waits for the next one.
        with socket.create_connection(port.getsockname()):
            pass


def test_a_port_that_was_lost_is_not_said_to_be_served(scratch: Scratch) -> None:
    scratch.configure({"echo": server("echo")})
    bearer(scratch)
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
        assert f"HTTP lost   {address} (" in _hearth(scratch, "status")
        findings = _findings(scratch)
        assert findings["port.lost"]["state"] == "broken" and address in findings["port.lost"]["message"]
        assert "port.state" not in findings
        # Who has the socket is served on.
        assert ModernHttp(scratch).post("tools/list").status == 200


# Becomes the daemon, which takes the listening socket in its first word for the port that it binds.
BIND_INHERITED = """
import socket, sys
from hearth.host import sockets as ports
from hearth.daemon.main import main
inherited = socket.socket(fileno=int(sys.argv.pop(1)))
ports.bind = lambda *_: inherited
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


def _hearth(scratch: Scratch, *words: str) -> str:
    command = [sys.executable, "-I", "-m", "hearth", *words]
    done = subprocess.run(command, env=scratch.environment(), capture_output=True, text=True, timeout=30, check=False)
    return done.stdout


def _findings(scratch: Scratch) -> dict[str, dict[str, str]]:
    return {each["id"]: each for each in json.loads(_hearth(scratch, "doctor", "--json"))["findings"]}


def test_sessions_that_are_idle_hold_up_no_stop(scratch: Scratch) -> None:
    serve(scratch)
    legacy = LegacyHttp(scratch).opened()
    assert legacy.post("tools/list").status == ModernHttp(scratch).post("tools/list").status == 200
    until(lambda: not any(each["active"] for each in scratch.status()["sessions"]), "all are idle")
    assert "Nobody is attached, 2 sessions over HTTP idle" in _hearth(scratch, "status")
    assert "Stopped" in _hearth(scratch, "stop")


def test_doctor_lets_no_token_go_on_that_others_could_read(scratch: Scratch) -> None:
    client = ModernHttp(scratch, address=serve(scratch))
    former = bearer(scratch)
    file = token_file(scratch)
    file.chmod(0o644)
    mended = json.loads(_hearth(scratch, "doctor", "--fix", "--yes", "--json"))["mended"]
    assert [(each["deed"], each["done"]) for each in mended] == [("rotate", True)], mended
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert client.post("tools/list", headers=former).status == 401
    assert client.post("tools/list", headers=bearer(scratch)).status == 200


def test_doctor_says_what_is_wrong_with_a_token_that_is_refused(scratch: Scratch) -> None:
    serve(scratch)
    file = token_file(scratch)
    assert "port.token" not in _findings(scratch)
    file.chmod(0o644)
    found = _findings(scratch)
    assert "0644" in found["port.token"]["message"] and "secrets.open" not in found
    assert found["secrets.token"]["fix"] == found["port.token"]["fix"] == "hearth token rotate"
    file.chmod(0o600)
    file.rename(file.with_name("elsewhere"))
    file.symlink_to("elsewhere")
    assert "link" in _findings(scratch)["port.token"]["message"]
    file.unlink()
    file.touch(0o600)
    file.write_text("guess me\n")
    found = _findings(scratch)
    assert "43 letters" in found["port.token"]["message"] and found["port.token"]["fix"] == "hearth token rotate"
    token(scratch, "rotate")
    assert "port.token" not in _findings(scratch)


def test_a_port_that_is_handed_over_alone_is_refused_and_not_left_unheard(scratch: Scratch) -> None:
    scratch.configure()
    with socket.create_server(("127.0.0.1", 0)) as port:
        daemon = _start_handed_over(scratch, None, port)
        assert daemon.wait() == 5
    assert "hearth: a port was handed over" in daemon.stderr() and "mcp.socket" in daemon.stderr()


def test_an_installation_that_cannot_speak_http_says_so_and_goes_on(scratch: Scratch) -> None:
    scratch.configure({"echo": server("echo")})
    # As in an installation that lacks a package.
    broken = (
        "import sys; sys.modules['starlette'] = None; from hearth.daemon.main import main; sys.exit(main(sys.argv[1:]))"
    )
    scratch.start(command=(sys.executable, "-I", "-c", broken))
    got = HttpClient(scratch).request("GET", path="/healthz")
    assert (got.status, "hearth logs" in got.json()["error"]) == (500, True)
    assert "HTTP cannot be served" in scratch.logged()
    assert scratch.lines().ask("ping")["result"] == {}
