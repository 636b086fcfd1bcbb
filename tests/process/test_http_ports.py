"""HTTP on a TCP port: only when asked, only with the token, only for pages that may."""

import contextlib
import http.client
import json
import secrets
import socket
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from support.daemon import Scratch, server
from support.http.clients import HttpClient, LegacyHttp, ModernHttp, Response, bearer, port_of
from support.kernel import until

Address = tuple[str, int]


def serve(scratch: Scratch, *arguments: str) -> Address:
    servers = {"echo": server("echo"), "slow": server("stalling", scratch.home / "ledger")}
    scratch.configure(servers, http_origins=["https://app.example"], idle_timeout=0.3)
    scratch.start("--http", "127.0.0.1:0", *arguments)
    return port_of(scratch)


def token(scratch: Scratch, *words: str) -> str:
    done = scratch.hearth("token", *(words or ("show",)))
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def token_file(scratch: Scratch) -> Path:
    return scratch.home / ".local" / "state" / "hearth" / "http" / "token"


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
    got = ModernHttp(scratch, address=serve(scratch)).post("tools/list", headers={**bearer(scratch), "Origin": origin})
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
    address = ("127.0.0.1", urlsplit(scratch.status()["http"][0]).port)
    with socket.create_connection(address, 20) as silent, socket.create_connection(address, 20) as slow:
        slow.sendall(b"GET /status HTTP/1.1\r\nHost: ")
        for each in (silent, slow):
            said = b"".join(iter(lambda each=each: each.recv(65536), b""))
            assert said.startswith(b"HTTP/1.1 408 ") and b"token" in said


def test_sessions_that_are_idle_hold_up_no_stop(scratch: Scratch) -> None:
    serve(scratch)
    legacy = LegacyHttp(scratch).opened()
    assert legacy.post("tools/list").status == ModernHttp(scratch).post("tools/list").status == 200
    until(lambda: not any(each["active"] for each in scratch.status()["sessions"]), "all are idle")
    assert "Nobody is attached, 2 sessions over HTTP idle" in scratch.hearth("status").stdout
    assert "Stopped" in scratch.hearth("stop").stdout


def test_doctor_lets_no_token_go_on_that_others_could_read(scratch: Scratch) -> None:
    client = ModernHttp(scratch, address=serve(scratch))
    former = bearer(scratch)
    file = token_file(scratch)
    file.chmod(0o644)
    mended = json.loads(scratch.hearth("doctor", "--fix", "--yes", "--json").stdout)["mended"]
    assert [(each["deed"], each["done"]) for each in mended] == [("rotate", True)], mended
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert client.post("tools/list", headers=former).status == 401
    assert client.post("tools/list", headers=bearer(scratch)).status == 200


def test_doctor_says_what_is_wrong_with_a_token_that_is_refused(scratch: Scratch) -> None:
    serve(scratch)
    file = token_file(scratch)
    assert "port.token" not in scratch.findings()
    file.chmod(0o644)
    found = scratch.findings()
    assert "0644" in found["port.token"]["message"] and "secrets.open" not in found
    assert found["secrets.token"]["fix"] == found["port.token"]["fix"] == "hearth token rotate"
    file.chmod(0o600)
    file.rename(file.with_name("elsewhere"))
    file.symlink_to("elsewhere")
    assert "link" in scratch.findings()["port.token"]["message"]
    file.unlink()
    file.touch(0o600)
    file.write_text("guess me\n")
    found = scratch.findings()
    assert "43 letters" in found["port.token"]["message"] and found["port.token"]["fix"] == "hearth token rotate"
    token(scratch, "rotate")
    assert "port.token" not in scratch.findings()


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
