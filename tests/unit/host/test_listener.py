"""The listening socket: bound whole or not at all, and taken away only while it is our own."""

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hearth.errors import AlreadyRunning, StartError
from hearth.host.listener import Listener, bind
from hearth.host.peers import has_left, peer_of


@pytest.fixture
def path() -> Iterator[str]:
    """A place for a socket, under a path short enough for one."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield os.path.join(folder, "s.sock")


@pytest.fixture
def listener(path: str) -> Iterator[Listener]:
    found = bind(path)
    yield found
    found.socket.close()


def test_a_bound_socket_is_private_and_nothing_else_is_left_beside_it(listener: Listener) -> None:
    assert os.lstat(listener.path).st_mode & 0o777 == 0o600
    assert os.listdir(os.path.dirname(listener.path)) == ["s.sock"]
    assert listener.owned


def test_who_connects_is_accepted_and_nobody_is_none(listener: Listener) -> None:
    assert listener.accept() is None
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(listener.path)
        connection = listener.accept()
        assert connection is not None
        connection.close()


def test_retiring_takes_an_own_file_away(listener: Listener) -> None:
    listener.retire()
    assert not os.path.lexists(listener.path)


def test_retiring_leaves_a_file_that_has_taken_its_place(listener: Listener) -> None:
    os.unlink(listener.path)
    Path(listener.path).write_text("another's")
    assert listener.replaced()
    listener.retire()
    assert Path(listener.path).read_text() == "another's"


def test_an_adopted_socket_is_never_touched(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(path)
        sock.listen()
        adopted = Listener(sock, path, None)
        assert not adopted.owned
        os.unlink(path)
        assert not adopted.replaced()
        adopted.retire()
        assert sock.fileno() >= 0


def test_a_live_socket_is_not_replaced(listener: Listener) -> None:
    with pytest.raises(AlreadyRunning, match="something listens on"):
        bind(listener.path)


def test_a_folder_that_is_not_there_is_a_sentence(path: str) -> None:
    missing = os.path.join(os.path.dirname(path), "none", "s.sock")
    with pytest.raises(StartError, match=r"cannot be made: No such file or directory; make .* writable"):
        bind(missing)


AGAIN = """
import os, sys
from hearth.host.listener import bind, inherit
path = sys.argv[1]
listener = inherit(path)
if listener is None:
    listener = bind(path)
    listener.hand_on()
    os.execv(sys.executable, [sys.executable, "-I", "-c", sys.argv[2], *sys.argv[1:]])
print(listener.owned, listener.replaced(), os.get_inheritable(listener.socket.fileno()), "LISTEN_FDS" in os.environ)
listener.retire()
print(os.path.lexists(path))
"""


def test_an_own_listener_survives_an_exec_and_is_still_known_as_own(path: str) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-c", AGAIN, path, AGAIN], capture_output=True, timeout=20, check=True, text=True
    )
    assert done.stdout.split() == ["True", "False", "False", "False", "False"]


# --- who is at the other end


def test_the_peer_is_known_by_the_kernel() -> None:
    left, right = socket.socketpair()
    with left, right:
        peer = peer_of(left)
        assert peer is not None
        assert (peer.pid, peer.uid, peer.gid) == (os.getpid(), os.getuid(), os.getgid())


def test_one_that_is_done_with_writing_has_not_left() -> None:
    left, right = socket.socketpair()
    with left:
        assert not has_left(left.fileno())
        right.shutdown(socket.SHUT_WR)
        assert not has_left(left.fileno())
        right.close()
        assert has_left(left.fileno())
