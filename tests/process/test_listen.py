"""Where the daemon listens: another socket, or a port of this machine whose clients show a token."""

import http.client
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hearth.bridge import connector
from hearth.bridge.finder import attempt
from hearth.host.locks import Lock
from hearth.paths import Places
from hearth.wire.frames import encode
from support.clients import Closed, FramesClient, Stream
from support.daemon import COMMAND, Scratch
from support.kernel import BOUND_SECONDS, describe, pids_at_home, until
from support.other_users import as_stranger, python
from support.scripted_daemon import BridgeProcess, end_daemon

TCP = {"listen": "tcp:127.0.0.1:0"}
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'


def entry(scratch: Scratch) -> dict[str, Any]:
    return json.loads(scratch.registry.read_text())


def said(scratch: Scratch, data: bytes) -> bytes:
    """Return everything that comes back for these bytes, until the end."""
    port = int(entry(scratch)["endpoint"].rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), BOUND_SECONDS) as sock:
        sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)
        found = b""
        while data := sock.recv(65536):
            found += data
    return found


class Started:
    """The daemon that a bridge may have started, which is nobody's child."""

    def __init__(self, scratch: Scratch) -> None:
        self._registry = scratch.registry
        self._home = str(scratch.home)

    def close(self) -> None:
        """End it, after the bridges that would start another, and see its watcher gone."""
        if self._registry.exists():
            end_daemon(self._registry)
        until(lambda: "--detach" not in describe(pids_at_home(self._home)), "the watcher is gone")


@pytest.fixture(autouse=True)
def started(scratch: Scratch) -> Iterator[None]:
    yield
    scratch.own(Started(scratch))


def bridged(scratch: Scratch, *words: str, **extra: str) -> tuple[BridgeProcess, dict[str, Any]]:
    """Open a session by a bridge; return its answer, too."""
    bridge = scratch.own(BridgeProcess(scratch.home, *words, environment=scratch.environment(**extra)))
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    bridge.send({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
    return bridge, bridge.read()


# --- another socket


def test_a_socket_elsewhere_is_found_by_the_registry(scratch: Scratch) -> None:
    path = scratch.home / "deep" / "down" / "d.sock"
    scratch.configure(listen=f"unix:{path}")
    _, opened = bridged(scratch)
    assert entry(scratch)["endpoint"] == str(path)
    assert "token" not in entry(scratch)
    assert not Path(scratch.socket).exists()
    status = json.loads(scratch.hearth("status", "--json").stdout)
    assert (status["endpoint"], status["daemonId"]) == (str(path), opened["result"]["_meta"]["hearth/daemonId"])
    assert scratch.hearth("stop", "--yes").returncode == 0


def test_the_variable_goes_before_the_file(scratch: Scratch) -> None:
    scratch.configure(listen=f"unix:{scratch.home}/file.sock")
    bridged(scratch, HEARTH_LISTEN=f"unix:{scratch.home}/variable.sock")
    assert entry(scratch)["endpoint"] == f"{scratch.home}/variable.sock"


# --- a port


def test_bridges_and_the_command_line_find_port_and_token_in_the_registry(scratch: Scratch) -> None:
    scratch.configure(**TCP)
    first, opened = bridged(scratch)
    assert entry(scratch)["endpoint"].startswith("tcp:127.0.0.1:")
    assert len(entry(scratch)["token"]) == 64
    assert scratch.registry.stat().st_mode & 0o777 == 0o600
    _, again = bridged(scratch)
    assert again["result"]["_meta"] == opened["result"]["_meta"]
    status = json.loads(scratch.hearth("status", "--json").stdout)
    assert status["endpoint"] == entry(scratch)["endpoint"]
    assert entry(scratch)["token"] not in json.dumps(status) + scratch.logged()
    assert "socket.gone" not in scratch.hearth("doctor", "--json").stdout
    assert scratch.hearth("restart", "--yes").returncode == 0
    first.request(2, "tools/list")
    assert first.read()["id"] == 2


def test_frames_need_the_token(scratch: Scratch) -> None:
    scratch.serve(**TCP)
    token = entry(scratch)["token"]
    for shown in ({}, {"token": ""}, {"token": token[:-1]}, {"token": token + "0"}, {"token": 1}, {"token": None}):
        for kind in ("hello", "status", "shutdown"):
            answer = said(scratch, encode(json.dumps({"type": kind, "protocol": 1, "seq": 1, **shown}).encode()))
            assert "token of its registry entry is missing or wrong" in json.loads(answer)["error"]["message"]
    assert scratch.own(FramesClient(entry(scratch)["endpoint"], {"token": token})).ask("ping")["result"] == {}


def test_raw_lines_begin_with_the_token(scratch: Scratch) -> None:
    scratch.serve(**TCP)
    token = entry(scratch)["token"].encode()
    assert json.loads(said(scratch, b"Authorization: Bearer " + token + b"\r\n" + PING))["result"] == {}
    assert json.loads(said(scratch, b"authorization: bearer " + token + b"\n" + PING))["result"] == {}
    for wrong in (b"", b"Authorization: Bearer \n", b"Authorization: Bearer " + token[:-1] + b"\n",
                  b"Authorization: Basic " + token + b"\n", b"Authorization: Bearer " + token):  # fmt: skip
        answer = json.loads(said(scratch, wrong + PING))
        assert "token of its registry entry is missing or wrong" in answer["error"]["message"]


def test_http_needs_the_token_with_every_request(scratch: Scratch) -> None:
    scratch.serve(**TCP)
    port = int(entry(scratch)["endpoint"].rpartition(":")[2])

    connections: list[http.client.HTTPConnection] = []

    def asked(connection: http.client.HTTPConnection, **headers: str) -> int:
        connection.request("GET", "/status", headers=headers)
        answer = connection.getresponse()
        answer.read()
        return answer.status

    def fresh() -> http.client.HTTPConnection:
        connections.append(http.client.HTTPConnection("127.0.0.1", port, timeout=BOUND_SECONDS))
        return connections[-1]

    right = {"Authorization": f"Bearer {entry(scratch)['token']}"}
    connection = fresh()
    assert [asked(connection, **right), asked(connection, **right), asked(connection)] == [200, 200, 401]
    for wrong in ("", "Bearer ", f"Bearer {entry(scratch)['token'][:-1]}", f"Basic {entry(scratch)['token']}"):
        assert asked(fresh(), Authorization=wrong) == 401
    connection = fresh()
    connection.request("GET", "/status")
    said = connection.getresponse().read()
    # `hearth token show` is for the port of `hearth serve --transport http`.
    assert b"registry entry" in said and b"hearth token show" not in said
    for each in connections:
        each.close()


def test_who_does_not_show_the_token_in_time_is_dropped(scratch: Scratch) -> None:
    scratch.serve(**TCP)
    silent = scratch.own(Stream(entry(scratch)["endpoint"]))
    # The first byte of a frame, and no more.
    silent.send(b"\0")
    assert b"missing or wrong" in silent.take_line()
    with pytest.raises(Closed):
        silent.take(1)


@pytest.mark.root
def test_another_user_gets_nothing_without_the_token(scratch: Scratch) -> None:
    scratch.serve(**TCP)
    port = entry(scratch)["endpoint"].rpartition(":")[2]
    script = (
        "import socket, sys; s = socket.create_connection(('127.0.0.1', int(sys.argv[1])));"
        f"s.sendall({PING!r}); s.shutdown(1); print(s.recv(65536))"
    )
    done = subprocess.run(
        as_stranger(python(), "-c", script, port), capture_output=True, text=True, check=True, cwd="/"
    )
    assert "missing or wrong" in done.stdout
    assert "result" not in done.stdout


def test_a_degraded_daemon_on_tcp_explains_itself_to_who_has_the_token(scratch: Scratch) -> None:
    scratch.write_config("broken = [")
    command = (sys.executable, "-I", "-c", _WITHOUT_UNIX_SOCKETS, *COMMAND)
    scratch.start(command=command)
    _, answer = bridged(scratch)
    assert "config.toml" in answer["error"]["message"]
    assert said(scratch, PING) == b""


@pytest.mark.parametrize("header", [b"[]", b"[" * 60_000, b"{"])
def test_a_degraded_daemon_on_tcp_outlives_a_first_frame_that_makes_no_sense(scratch: Scratch, header: bytes) -> None:
    scratch.write_config("broken = [")
    scratch.start(command=(sys.executable, "-I", "-c", _WITHOUT_UNIX_SOCKETS, *COMMAND))
    former = entry(scratch)
    assert said(scratch, encode(header)) == b""
    bridged(scratch)
    assert entry(scratch) == former


# Becomes the program in its words, in a process whose socket(AF_UNIX) fails: a seccomp filter, as container runtimes
# and RestrictAddressFamilies= of systemd set one.
_WITHOUT_UNIX_SOCKETS = """
import ctypes, errno, os, platform, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
number = {"x86_64": 41, "aarch64": 198}[platform.machine()]
code = [(0x20, 0, 0, 0), (0x15, 0, 3, number), (0x20, 0, 0, 16), (0x15, 0, 1, 1),
        (0x06, 0, 0, 0x00050000 | errno.EAFNOSUPPORT), (0x06, 0, 0, 0x7FFF0000)]
filters = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *each) for each in code))
class Program(ctypes.Structure):
    _fields_ = [("size", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
program = Program(len(code), ctypes.addressof(filters))
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.byref(program), 0, 0) == 0, ctypes.get_errno()
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_where_unix_sockets_cannot_be_made_the_daemon_chooses_a_port_and_says_so(scratch: Scratch) -> None:
    scratch.start(command=(sys.executable, "-I", "-c", _WITHOUT_UNIX_SOCKETS, *COMMAND))
    assert entry(scratch)["endpoint"].startswith("tcp:127.0.0.1:")
    assert f"no Unix socket, listening on {entry(scratch)['endpoint']} instead" in scratch.logged()
    _, opened = bridged(scratch)
    assert opened["result"]["serverInfo"]


def test_a_port_that_is_left_over_in_the_registry_is_not_sent_a_byte(scratch: Scratch) -> None:
    """The daemon is gone, and another program has got its port: the token must not be shown to that one."""
    daemon = scratch.serve(**TCP)
    left = entry(scratch)
    daemon.stop()
    with socket.create_server(("127.0.0.1", 0)) as other:
        left["endpoint"] = f"tcp:127.0.0.1:{other.getsockname()[1]}"
        scratch.registry.write_text(json.dumps(left))
        scratch.registry.chmod(0o600)
        _, opened = bridged(scratch)
        assert opened["result"]["serverInfo"]
        other.settimeout(0)
        with pytest.raises(BlockingIOError):
            other.accept()


def test_a_port_whose_entry_was_replaced_meanwhile_is_not_sent_a_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The daemon ended and the next one wrote its entry, while the bridge connected to the former port."""
    places = Places(named=str(tmp_path / "x.sock"))
    os.makedirs(places.folder, 0o700)
    lock = Lock(places.daemon_lock)
    with socket.create_server(("127.0.0.1", 0)) as other:
        former = {"endpoint": f"tcp:127.0.0.1:{other.getsockname()[1]}", "token": "former"}
        Path(places.registry).write_text(json.dumps(former))
        connect = connector.open_tcp

        def connect_late(host: str, port: int) -> connector.Stream:
            Path(places.registry).write_text(json.dumps({"endpoint": "tcp:127.0.0.1:1", "token": "next"}))
            return connect(host, port)

        monkeypatch.setattr(connector, "open_tcp", connect_late)
        try:
            assert lock.acquire(blocking=False)
            found = attempt(places)
        finally:
            lock.release()
        assert (found.sock, found.absent, found.token) == (None, True, "")


def test_a_port_that_is_taken_is_told(scratch: Scratch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        where = f"tcp:127.0.0.1:{other.getsockname()[1]}"
        scratch.serve(listen=where)
        assert f"cannot listen on {where}" in scratch.lines().ask("ping")["error"]["message"]
