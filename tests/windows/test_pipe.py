"""The daemon's pipe by itself: what Windows is asked for, who is at its ends, and what becomes of waiting clients.

Wine sets and tells descriptors and does not enforce them, nor the first instance; so it is the request that is seen.
"""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest
import win32pipe
import win32security
from house import LIMIT_SECONDS, named_in

from hearth import paths, sids
from hearth.errors import AlreadyRunning
from hearth.host import listening
from hearth.host.locks import Lock
from hearth.host.windows import accounts, pipe_streams, pipes

pytestmark = pytest.mark.timeout(120)

Found = TypeVar("Found")
STRANGER = "S-1-5-21-9-9-9-9999"
# What a client is given to read, more than a pipe's buffers hold.
MUCH_BYTES = 1 << 20


@pytest.fixture
def name() -> str:
    return paths.pipe_name(sids.own(), f"test-{threading.get_native_id()}")


@pytest.fixture
def listener(name: str) -> Iterator[pipes.Listener]:
    found = pipes.bind(name)
    yield found
    found.retire()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What CreateNamedPipe is called with."""
    calls: list[Any] = []
    create = win32pipe.CreateNamedPipe
    monkeypatch.setattr(win32pipe, "CreateNamedPipe", lambda *asked: calls.append(asked) or create(*asked))
    return calls


def apart(work: Callable[[], Found]) -> "asyncio.Future[Found]":
    """The same in a thread: what a client does blocks."""
    return asyncio.get_running_loop().run_in_executor(None, work)


async def accepted(listener: pipes.Listener) -> pipes.Connection:
    """The next client."""
    came = asyncio.Event()
    listener.poll(came.set)
    async with asyncio.timeout(LIMIT_SECONDS):
        while not (connection := listener.accept()):
            await came.wait()
            came.clear()
    return connection


async def connected(listener: pipes.Listener) -> tuple[pipes.Connection, pipe_streams.PipeStream]:
    """Both ends of a connection."""
    client = apart(lambda: pipe_streams.connect(listener.path))
    return await accepted(listener), await client


async def test_only_the_first_instance_has_to_be_the_first_and_all_are_private_and_local(
    name: str, asked: list[Any]
) -> None:
    listener = pipes.bind(name)
    listener.poll(lambda: None)
    listener.retire()
    assert len(asked) == pipes.LISTENING_INSTANCES
    assert {call[0] for call in asked} == {name}
    assert [call[1] for call in asked] == [pipes.open_mode(True)] + [pipes.open_mode(False)] * (len(asked) - 1)
    assert {call[2] for call in asked} == {pipes.PIPE_MODE}
    (attributes,) = {call[7] for call in asked}
    # Children must not inherit it.
    assert not attributes.bInheritHandle


def test_the_pipe_is_its_owners_and_nobody_else_is_in_its_list(listener: pipes.Listener) -> None:
    (pipe,) = listener._listening
    wanted = win32security.OWNER_SECURITY_INFORMATION | win32security.DACL_SECURITY_INFORMATION
    found = win32security.GetSecurityInfo(pipe.fileno(), win32security.SE_KERNEL_OBJECT, wanted)
    owner = win32security.ConvertSidToStringSid(found.GetSecurityDescriptorOwner())
    assert (named_in(found), owner) == ([sids.own()], sids.own())


def test_a_name_that_is_taken_is_refused_and_said(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> int:
        raise win32pipe.error(5, "CreateNamedPipe", "Access is denied")

    monkeypatch.setattr(win32pipe, "CreateNamedPipe", refuse)
    with pytest.raises(AlreadyRunning, match="another program has made"):
        pipes.bind(name)


async def test_who_connects_is_known_by_pid_and_sid_and_a_stranger_is_turned_away(
    listener: pipes.Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection, stream = await connected(listener)
    peer = listening.peer_of(connection)
    assert peer
    assert (peer.pid, peer.sid) == (os.getpid(), sids.own())
    assert listening.refusal(peer, (), ()) is None
    with monkeypatch.context() as patch:
        patch.setattr(sids, "own", lambda: STRANGER)
        unwelcome = listening.refusal(peer, (), ())
    assert unwelcome == f"{sids.own()} may not use the daemon of {STRANGER}"
    listening.dismiss(connection, b"not you")
    assert await apart(lambda: stream.recv(100) + stream.recv(100)) == b"not you"
    stream.close()


def test_a_pipe_that_another_user_has_made_is_not_spoken_to(
    listener: pipes.Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sids, "owner", lambda handle: STRANGER)
    with pytest.raises(PermissionError, match="belongs to another user"):
        pipe_streams.connect(listener.path)


def test_the_other_end_of_a_process_is_known() -> None:
    assert accounts.of_process(os.getpid()) == sids.own()
    assert accounts.of_process(0xFFFF_FFF0) == sids.NOBODY


async def test_who_comes_while_nobody_polls_is_found_by_one_more_look(listener: pipes.Listener) -> None:
    listener.poll(lambda: None)
    listener.rest()
    assert listener.accept() is None
    stream = await apart(lambda: pipe_streams.connect(listener.path))
    connection = listener.accept()
    assert connection is not None
    connection.close()
    stream.close()


@pytest.mark.parametrize(("winerror", "connected"), [(109, True), (230, False), (233, False), (536, False)])
def test_who_has_come_and_left_is_told_from_who_never_came(
    listener: pipes.Listener, winerror: int, connected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # ERROR_BROKEN_PIPE; ERROR_BAD_PIPE, which Wine never says; ERROR_PIPE_NOT_CONNECTED; ERROR_PIPE_LISTENING.
    def peek(handle: int, size: int) -> None:
        raise win32pipe.error(winerror, "PeekNamedPipe", "")

    monkeypatch.setattr(win32pipe, "PeekNamedPipe", peek)
    found = listener.accept()
    assert (found is not None) == connected
    if found:
        found.close()


def test_nobody_is_there_once_the_listener_is_retired(name: str) -> None:
    listener = pipes.bind(name)
    assert pipes.is_there(name)
    listener.retire()
    assert not pipes.is_there(name)
    with pytest.raises(FileNotFoundError):
        pipe_streams.connect(name)


def test_a_full_house_is_waited_for_and_then_said(listener: pipes.Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipe_streams, "BUSY_SECONDS", 0.1)
    first = pipe_streams.connect(listener.path)
    with pytest.raises(BlockingIOError, match="too many wait"):
        pipe_streams.connect(listener.path)
    first.close()


async def test_a_client_reads_and_writes_at_once_and_gives_up_neither_for_a_timeout(listener: pipes.Listener) -> None:
    """Both sides write more than the pipe holds before either reads: with one direction at a time they would hang."""
    data = bytes(range(256)) * (MUCH_BYTES // 256)

    class Mirror(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            assert isinstance(transport, asyncio.Transport)
            self.transport, self.received = transport, 0
            transport.write(data)

        def data_received(self, chunk: bytes) -> None:
            self.received += len(chunk)
            if self.received == len(data):
                self.transport.write(b"!")
                self.transport.close()

    def talk() -> tuple[bytes, bool]:
        stream = pipe_streams.connect(listener.path)
        writer = threading.Thread(target=stream.sendall, args=(data,))
        writer.start()
        received, ended = b"", False
        while not ended:
            chunk = stream.recv(1 << 16)
            received, ended = received + chunk, not chunk
        writer.join(LIMIT_SECONDS)
        stream.close()
        return received, not writer.is_alive()

    client = apart(talk)
    await listening.attach(await accepted(listener), Mirror())
    assert await client == (data + b"!", True)


async def test_silence_is_told_and_what_comes_later_is_still_read(listener: pipes.Listener) -> None:
    connection, stream = await connected(listener)
    stream.settimeout(0.01)
    for _ in range(3):
        with pytest.raises(BlockingIOError):
            await apart(lambda: stream.recv(10))
    listening.dismiss(connection, b"late")
    stream.settimeout(LIMIT_SECONDS)
    assert await apart(lambda: stream.recv(10)) == b"late"
    stream.close()


def test_hanging_up_frees_whoever_waits_for_a_daemon_that_does_nothing(listener: pipes.Listener) -> None:
    stream = pipe_streams.connect(listener.path)
    ended = {"read": threading.Event(), "write": threading.Event()}

    def wait(what: str, work: Callable[[], object]) -> None:
        try:
            work()
        except OSError:
            ended[what].set()

    for what, work in (("read", lambda: stream.recv(10)), ("write", lambda: stream.sendall(bytes(MUCH_BYTES)))):
        threading.Thread(target=wait, args=(what, work), daemon=True).start()
    assert not ended["write"].wait(0.2)
    stream.hang_up()
    assert ended["read"].wait(LIMIT_SECONDS)
    assert ended["write"].wait(LIMIT_SECONDS)
    stream.close()


def test_bytes_that_must_not_wait_do_not_and_do_not_pile_up(listener: pipes.Listener) -> None:
    stream = pipe_streams.connect(listener.path)
    with pytest.raises(BlockingIOError):
        for _ in range(100):
            stream.send_now(bytes(pipes.BUFFER_BYTES))
    stream.close()


def test_a_lock_keeps_another_process_out_until_its_holder_is_gone(tmp_path: object) -> None:
    path = f"{tmp_path}\\folder\\it.lock"
    code = f"from hearth.host.locks import Lock; print(Lock({path!r}).acquire(blocking=False))"

    def other() -> str:
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()

    lock, second = Lock(path), Lock(path)
    assert lock.acquire()
    assert not second.acquire(blocking=False)
    assert other() == "False"
    lock.release()
    assert second.acquire(blocking=False)
    second.release()
    assert other() == "True"
