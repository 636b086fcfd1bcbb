"""`hearth serve --transport stdio|both`: one client's own server, with everything that the daemon has and no daemon."""

import contextlib
import http.client as http_client
import json
import os
import re
import signal
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from support.clients import text_of
from support.daemon import Scratch, server
from support.http.clients import ModernHttp, address_of, bearer
from support.kernel import BOUND_SECONDS, is_gone, until
from support.stdio_server import StdioServer, blocks, broken_python, fill, pipe, run, started, with_http

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
PONG = b'{"jsonrpc":"2.0","id":1,"result":{}}\n'
CONFIG_PROBLEM = "mcpServers"


@pytest.fixture(autouse=True)
def empty_config(scratch: Scratch) -> None:
    scratch.configure()


def state(scratch: Scratch) -> list[str]:
    """Everything below the folder for sockets, locks and registries."""
    return sorted(str(path.relative_to(scratch.runtime)) for path in scratch.runtime.rglob("*"))


# --- with its client


def test_it_serves_the_tools_of_the_config_and_ends_with_its_input(scratch: Scratch) -> None:
    scratch.configure({"echo": server("echo")})
    client = StdioServer(scratch)
    assert client.initialize()["serverInfo"]["name"] == "hearth"
    assert client.tools() == ["echo__add", "echo__echo"]
    assert text_of(client.call("echo__echo", text="wörds")) == "wörds"
    client.end_input()
    assert (client.rest(), client.wait()) == ([], 0)


def test_every_answer_is_delivered_after_the_end_of_the_input(scratch: Scratch) -> None:
    scratch.configure({"it": server("stalling", scratch.home / "cancelled")})
    client = StdioServer(scratch).initialized()
    for id in ("a", "b", "c"):
        client.begin_call("it__plod", id, steps=0, pause=0.2)
    client.end_input()
    lines = [json.loads(line) for line in client.rest()]
    assert sorted(line["id"] for line in lines) == ["a", "b", "c"]
    assert all("result" in line for line in lines)
    assert client.wait() == 0
    assert not (scratch.home / "cancelled").exists()


def test_an_answer_that_does_not_come_is_waited_for_no_longer_than_eof_timeout(scratch: Scratch) -> None:
    scratch.configure({"it": server("stalling", scratch.home / "cancelled")}, eof_timeout=0.3)
    client = StdioServer(scratch).initialized()
    client.begin_call("it__never", "a")
    client.end_input()
    [answer] = map(json.loads, client.rest())
    assert answer["id"] == "a" and "eof_timeout" in answer["error"]["message"]
    assert "may or may not have run" in answer["error"]["message"]
    assert client.wait() == 0


@pytest.mark.parametrize(
    ("given", "answered"), [({"input": PING.rstrip()}, PONG), ({"stdin": subprocess.DEVNULL}, b"")]
)
def test_its_last_line_need_not_end_in_a_newline_and_no_input_at_all_is_the_end(
    scratch: Scratch, given: dict[str, Any], answered: bytes
) -> None:
    done = run(scratch, **given)
    assert (done.stdout, done.returncode) == (answered, 0)


def test_nobody_else_finds_it_so_it_runs_beside_a_daemon_and_more_than_once(scratch: Scratch) -> None:
    scratch.configure({"echo": server("echo")})
    one, two = StdioServer(scratch), StdioServer(scratch)
    for client in (one, two):
        client.initialize()
        assert client.tools() == ["echo__add", "echo__echo"]
    assert state(scratch) == []
    scratch.start()
    for number, client in enumerate((one, two, scratch.lines().initialized())):
        assert text_of(client.call("echo__echo", text=str(number))) == str(number)
    assert len(scratch.status()["sessions"]) == 1
    assert not any("serving on stdio" in line for line in scratch.logged().splitlines())


def test_its_output_carries_nothing_but_messages(scratch: Scratch) -> None:
    scratch.configure({"loud": server("shouting"), "broken": {"command": "/no/such/program"}}, log_level="debug")
    client = StdioServer(scratch).initialized()
    client.call("loud__say", text="shouted\n")
    client.call("broken__x")
    client.end_input()
    for line in client.rest():
        assert json.loads(line)["jsonrpc"] == "2.0"
    assert client.wait() == 0
    assert "serving on stdio" in client.stderr()


def test_a_client_that_never_reads_its_errors_is_served_all_the_same(scratch: Scratch) -> None:
    scratch.configure({"echo": server("echo")}, log_level="debug")
    with pipe() as (_, writing):
        # Full from the start.
        fill(writing)
        done = run(scratch, input=PING, stderr=writing)
    assert (done.stdout, done.returncode) == (PONG, 0)


def test_it_works_where_its_client_works(scratch: Scratch) -> None:
    """As the bridge's session has the folder, so that servers for a workspace are this one's."""
    scratch.configure({"it": server("keeping", isolation="workspace")})
    [session] = http(scratch, with_http(scratch).initialized()).request("GET", path="/status").json()["sessions"]
    assert (session["cwd"], session["wire"], session["pid"]) == (str(scratch.home), "stdio", os.getpid())


# --- whatever its client hands over


def test_input_and_output_may_be_files(scratch: Scratch) -> None:
    source, target = scratch.home / "in", scratch.home / "out"
    source.write_bytes(PING)
    with source.open("rb") as given, target.open("wb") as taken:
        assert run(scratch, stdin=given, stdout=taken).returncode == 0
    assert target.read_bytes() == PONG


def test_input_and_output_may_be_one_socket(scratch: Scratch) -> None:
    ours, theirs = socket.socketpair()
    ours.settimeout(BOUND_SECONDS)
    with ours, started(scratch, stdin=theirs, stdout=theirs) as process:
        theirs.close()
        ours.sendall(PING)
        assert ours.recv(1 << 16) == PONG
        ours.shutdown(socket.SHUT_WR)
        assert ours.recv(1) == b""
        assert process.wait(BOUND_SECONDS) == 0


def test_an_answer_that_cannot_be_written_is_told_of_and_is_a_failure(scratch: Scratch) -> None:
    with open("/dev/full", "wb") as full:
        done = run(scratch, input=PING, stdout=full)
    assert done.returncode == 1
    assert b"could not be written to standard output: [Errno 28]" in done.stderr


@pytest.mark.parametrize("blocking", [True, False])
def test_descriptors_that_others_share_stay_as_they_were(scratch: Scratch, blocking: bool) -> None:
    (to_read, to_write), (from_read, from_write) = os.pipe(), os.pipe()
    for descriptor in (to_read, from_write):
        os.set_blocking(descriptor, blocking)
    with started(scratch, stdin=to_read, stdout=from_write) as process:
        os.write(to_write, PING)
        assert os.read(from_read, 1 << 16) == PONG
        assert (blocks(to_read), blocks(from_write)) == (blocking, blocking)
        os.close(to_write)
        assert process.wait(BOUND_SECONDS) == 0
        assert (blocks(to_read), blocks(from_write)) == (blocking, blocking)
    for descriptor in (to_read, from_read, from_write):
        os.close(descriptor)


# --- its end


def pid_of(process: "subprocess.Popen[bytes]") -> int:
    """The server's own pid: the first process is its watcher."""
    [child] = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return int(child)


def test_a_client_that_reads_no_more_ends_it(scratch: Scratch) -> None:
    scratch.configure({"echo": server("echo")})
    client = StdioServer(scratch).initialized()
    client.output.close()
    client.begin("ping")
    assert client.wait() == 0


def test_a_client_that_does_not_read_is_dropped_beyond_the_limit(scratch: Scratch) -> None:
    scratch.configure({"it": server("big")}, outbound_limit="1 MiB")
    client = StdioServer(scratch).initialized()
    for _ in range(40):
        client.begin_call("it__big", bytes=200_000)
    assert client.wait() == 0
    assert "does not read" in client.stderr()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it_at_once_whatever_is_in_flight(scratch: Scratch, number: signal.Signals) -> None:
    scratch.configure({"it": server("stalling", scratch.home / "cancelled")}, drain_timeout=600)
    client = StdioServer(scratch).initialized()
    client.begin_call("it__never", "a")
    assert text_of(client.call("it__echo", text="x")) == "x"
    client.signal(number)
    assert "may or may not have run" in client.answer_to("a")["error"]["message"]
    assert client.wait() == 0


def test_one_that_was_started_by_nohup_stays_when_the_terminal_is_closed(scratch: Scratch) -> None:
    former = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        client = with_http(scratch)
    finally:
        signal.signal(signal.SIGHUP, former)
    assert client.ask("ping")["result"] == {}
    client.signal(signal.SIGHUP)
    os.kill(pid_of(client.process), signal.SIGHUP)
    assert client.ask("ping")["result"] == {}
    client.signal(signal.SIGTERM)
    assert client.wait() == 0
    assert "shutting down: SIGTERM" in client.stderr()


def test_nothing_outlives_one_that_is_killed(scratch: Scratch) -> None:
    scratch.configure({"it": server("stubborn")})
    client = StdioServer(scratch).initialized()
    assert client.tools()
    pid = pid_of(client.process)
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    os.kill(pid, signal.SIGKILL)
    assert client.wait() == 128 + signal.SIGKILL
    assert children and all(is_gone(int(child)) for child in children)


def test_it_ends_in_order_when_the_process_that_its_client_started_is_killed(scratch: Scratch) -> None:
    scratch.configure({"it": server("echo")})
    client = with_http(scratch).initialized()
    assert client.tools()
    pid = pid_of(client.process)
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    client.process.kill()
    until(lambda: all(is_gone(int(each)) for each in [pid, *children]), "the server and what it had started are gone")
    assert children and "daemon stopped" in client.stderr()


# --- when it cannot serve


def test_a_client_is_told_why_it_cannot_be_served(scratch: Scratch) -> None:
    scratch.write_config("mcpServers = 3\n")
    client = StdioServer(scratch)
    client.send({"jsonrpc": "2.0", "method": "notifications/x"})
    error = client.ask("initialize", {"protocolVersion": "2025-11-25"})["error"]
    assert error["code"] == -32603
    assert error["message"].startswith("Hearth cannot serve: ") and CONFIG_PROBLEM in error["message"]
    assert client.ask("server/discover")["error"] == error
    client.send_line(b"no JSON")
    assert client.receive()["error"]["code"] == -32700
    client.end_input()
    assert (client.rest(), client.wait()) == ([], 2)
    assert CONFIG_PROBLEM in client.stderr()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_one_that_cannot_serve_is_ended_by_a_signal_all_the_same(scratch: Scratch, number: signal.Signals) -> None:
    scratch.write_config("mcpServers = 3\n")
    client = StdioServer(scratch)
    assert "error" in client.ask("ping")
    client.signal(number)
    assert client.wait() == 128 + number
    assert "Traceback" not in client.stderr()


# --- with HTTP besides

ADDRESS = re.compile(r"HTTP on (\S+),")


def http(scratch: Scratch, client: StdioServer) -> ModernHttp:
    """A client of the port, whose address is on stderr."""
    return http_at(scratch, until(lambda: ADDRESS.search(client.stderr()), "the address of the port")[1])


def http_at(scratch: Scratch, url: str) -> ModernHttp:
    found = ModernHttp(scratch, address=address_of(url))
    found.headers |= bearer(scratch)
    return found


def test_the_end_of_the_input_leaves_http_running_and_a_signal_ends_it(scratch: Scratch) -> None:
    scratch.configure({"echo": server("echo")}, idle_timeout=0.1)
    client = with_http(scratch).initialized()
    web = http(scratch, client)
    assert text_of(web.call("echo__echo", text="x").json()) == "x"
    client.end_input()
    # Its output ends, for clients who wait for that.
    assert client.rest() == []
    until(lambda: "the client at stdio has left" in client.stderr(), "the client's leaving is noticed")
    assert text_of(web.call("echo__echo", text="y").json()) == "y"
    status = web.request("GET", path="/status").json()
    assert (status["endpoint"], status["activation"]) == (None, "stdio")
    assert state(scratch) == []
    client.signal(signal.SIGTERM)
    assert client.wait() == 0


def test_a_signal_does_not_wait_for_the_input(scratch: Scratch) -> None:
    scratch.configure({"echo": server("echo")})
    client = with_http(scratch).initialized()
    client.signal(signal.SIGINT)
    assert client.wait() == 0
    # Its client has not left: it was left.
    assert "shutting down: SIGINT" in client.stderr() and "HTTP is served until" not in client.stderr()


def test_a_port_that_cannot_be_had_is_the_end(scratch: Scratch) -> None:
    client = StdioServer(scratch, "--http-bind", "192.0.2.1", "--allow-remote", transport="both")
    assert (client.rest(), client.wait()) == ([], 1)
    assert "cannot listen on 192.0.2.1" in client.stderr()


def test_an_installation_that_cannot_speak_http_is_the_end_as_soon_as_that_is_known(scratch: Scratch) -> None:
    scratch.configure({"it": server("stalling", scratch.home / "cancelled")}, drain_timeout=600)
    client = with_http(scratch, python=broken_python(scratch, "daemon/http/app.py")).initialized()
    client.begin_call("it__never", "a")
    assert text_of(client.call("it__echo", text="x")) == "x"
    with pytest.raises((http_client.HTTPException, OSError)):
        http(scratch, client).request("GET", path="/healthz")
    assert "may or may not have run" in client.answer_to("a")["error"]["message"]
    assert client.wait() == 1
    assert "HTTP cannot be served" in client.stderr()


def test_it_is_the_end_also_for_a_client_that_does_not_read_its_errors(scratch: Scratch) -> None:
    with pipe() as (reading, writing):
        client = with_http(scratch, python=broken_python(scratch, "daemon/http/app.py"), stderr=writing).initialized()
        os.set_blocking(reading, False)
        said = bytearray()
        address = until(lambda: ADDRESS.search(_more(reading, said)), "the address of the port")[1]
        fill(writing)
        with pytest.raises((http_client.HTTPException, OSError)):
            http_at(scratch, address).request("GET", path="/healthz")
        assert client.wait() == 1


def _more(pipe: int, said: bytearray) -> str:
    with contextlib.suppress(BlockingIOError):
        said += os.read(pipe, 1 << 16)
    return said.decode()


def test_a_broken_installation_is_explained_to_the_client(scratch: Scratch) -> None:
    client = StdioServer(scratch, python=broken_python(scratch, "hub/router.py"))
    assert "installation is broken" in client.ask("initialize")["error"]["message"]
    client.end_input()
    assert client.wait() == 1


# --- what was typed


def test_options_that_mean_nothing_to_a_transport_are_told_of_once(scratch: Scratch) -> None:
    done = run(scratch, "--http-port", "3", "--allow-remote", input=PING)
    assert (done.stdout, done.returncode) == (PONG, 0)
    [warning] = [line for line in done.stderr.decode().splitlines() if "warning" in line]
    assert "--http-port and --allow-remote have no effect with --transport stdio" in warning


def test_a_person_at_a_terminal_is_told_what_is_expected(scratch: Scratch) -> None:
    ours, theirs = os.openpty()
    with started(scratch, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        os.close(theirs)
        # Ctrl-D, at the beginning of a line.
        os.write(ours, PING + b"\x04")
        output, errors = process.communicate(timeout=BOUND_SECONDS)
    os.close(ours)
    assert (output, process.returncode) == (PONG, 0)
    assert b"Ctrl-D ends it" in errors
