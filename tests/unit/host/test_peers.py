"""Who the kernel says is at the other end."""

import ctypes
import os
import socket
import subprocess
import sys
from typing import cast

import psutil
import pytest

from hearth.host import peers, processes
from support.launchd.library import stand_in
from support.requirements import needs_root

# Connects, and stays until its input ends.
CONNECTS = "import socket, sys; _ = socket.create_connection((sys.argv[1], int(sys.argv[2]))); sys.stdin.read()"


@pytest.mark.parametrize("uid", [1, 2**31 - 1, 2**31, 2**32 - 2])
def test_a_user_is_known_by_its_own_number_however_large(uid: int) -> None:
    needs_root()
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            one, _other = socket.socketpair()
            os.write(writing, repr((os.getpid(), peers.peer_of(one), os.getuid())).encode())
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    said = os.read(reading, 4096).decode()
    os.close(reading)
    assert said == repr((child, peers.Peer(child, uid, uid), uid))


# --- macOS, whose structs a C compiler lays out here


def xucred(version: int, uid: int, groups: int, gid: int) -> bytes:
    call = ctypes.CDLL(stand_in()).stand_in_xucred
    call.argtypes = (ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint, ctypes.c_short, ctypes.c_uint)
    call.restype = ctypes.c_size_t
    room = ctypes.create_string_buffer(256)
    size = call(room, version, uid, groups, gid)
    return room.raw[:size]


@pytest.mark.parametrize("uid", [0, 501, 2**31, 2**32 - 2])
def test_a_user_of_macos_is_read_where_the_compiler_puts_it(uid: int) -> None:
    raw = xucred(0, uid, 1, 20)
    assert len(raw) == peers._XUCRED.size
    assert peers.read_xucred(raw) == (uid, (20,))


def test_credentials_of_an_unknown_kind_are_nobody_s() -> None:
    assert peers.read_xucred(xucred(1, 501, 1, 20)) is None
    assert peers.read_xucred(xucred(0, 501, 0, 20)) is None
    assert peers.read_xucred(xucred(0, 501, 1, 20)[:12]) is None


class MacSocket:
    """The two options of a Mac's connected socket; the peer's pid is gone with the peer."""

    def __init__(self, pid: int | None) -> None:
        self._pid = pid

    def getsockopt(self, level: int, option: int, size: int) -> bytes:
        if (level, option, size) == (0, 1, 76):
            return xucred(0, 501, 2, 20)
        if (level, option, size) == (0, 2, 4) and self._pid is not None:
            return self._pid.to_bytes(4, "little")
        raise OSError(57, "Socket is not connected")


@pytest.mark.parametrize("pid", [4711, None])
def test_the_peer_on_macos_is_known_with_its_process_or_after_it_has_gone(pid: int | None) -> None:
    assert peers._local_peercred(cast("socket.socket", MacSocket(pid))) == peers.Peer(pid, 501, 20)


def test_the_start_of_a_process_of_macos_is_read_where_the_compiler_puts_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_LIBPROC", stand_in())
    assert processes.look_by_libproc(4711) == (True, 1_700_000_000_999_999)
    assert processes.look_by_libproc(4712) is None


# --- the other end of a TCP connection


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_the_process_at_the_other_end_of_a_local_connection_is_found(host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as listener:
        try:
            listener.bind((host, 0))
        except OSError:
            pytest.skip(f"{host} is not available here")
        listener.listen()
        own = listener.getsockname()[:2]
        with subprocess.Popen([sys.executable, "-c", CONNECTS, *map(str, own)], stdin=subprocess.PIPE) as client:
            connection, peer = listener.accept()
            with connection:
                assert peers.pid_of_tcp(peer[:2], own) == client.pid
                assert peers.pid_of_tcp(peer[:2], own, [os.getpid(), client.pid]) == client.pid
                # A socket of IPv6 may write an address of IPv4 in another way.
                if host == "127.0.0.1":
                    assert peers.pid_of_tcp((f"::ffff:{host}", peer[1]), (f"::ffff:{host}", own[1])) == client.pid
                assert peers.pid_of_tcp((host, 1), own) is None
                client.communicate()


def test_connections_are_found_by_process_where_the_table_of_all_is_for_root(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: str) -> None:
        raise psutil.AccessDenied

    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as client:
        monkeypatch.setattr(psutil, "net_connections", refuse)
        assert peers.pid_of_tcp(client.getsockname(), listener.getsockname()) == os.getpid()


def test_a_client_of_another_machine_is_not_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "net_connections", lambda _: pytest.fail("looked at"))
    assert peers.pid_of_tcp(("192.0.2.1", 4000), ("192.0.2.2", 80)) is None
