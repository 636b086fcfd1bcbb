"""Bridges that are killed, stopped, or not read from: what the daemon owes them, and what it no longer does."""

import array
import fcntl
import os
import signal
import termios
from collections.abc import Iterator

import pytest

from support.chaos.client import Client
from support.chaos.frames import status
from support.chaos.home import Home
from support.kernel import until

# Short, so that three missed ones are soon over; the tests do not measure it.
HEARTBEAT_SECONDS = 0.3
FOREVER_MS = 600_000
PIPE_BYTES = 64 * 1024


@pytest.fixture
def clients(home: Home) -> Iterator[list[Client]]:
    """Two clients of a daemon that listens for heartbeats often; the first is the owner."""
    home.configure(heartbeat_interval=HEARTBEAT_SECONDS)
    clients: list[Client] = []
    try:
        for _ in range(2):
            clients.append(Client(home))
            clients[-1].greet()
        yield clients
    finally:
        for client in clients:
            client.discard()


def sessions(home: Home) -> dict[int, dict[str, object]]:
    """The sessions by the pid of their bridge."""
    return {session["pid"]: session for session in status(home)["sessions"]}


def owner(home: Home) -> int:
    """The pid of the owner's bridge."""
    return next(pid for pid, session in sessions(home).items() if session["isOwner"])


def test_a_killed_bridge_takes_its_session_its_calls_and_its_ownership_with_it(
    home: Home, clients: list[Client]
) -> None:
    first, second = clients
    assert owner(home) == first.pid
    first.call("once", key="orphan", delay=FOREVER_MS)
    until(lambda: "once orphan" in home.noted(), "the call runs")
    first.process.kill()
    until(lambda: set(sessions(home)) == {second.pid}, "the session has gone with its bridge")
    assert owner(home) == second.pid
    until(lambda: "cancelled orphan" in home.noted(), "its call is withdrawn")
    assert second.text(second.call("read", key="after")) == "read after"


def test_a_stopped_bridge_loses_the_ownership_and_nothing_that_it_is_owed(home: Home, clients: list[Client]) -> None:
    first, second = clients
    running = first.call("once", key="owed", delay=2 * HEARTBEAT_SECONDS * 1000)
    until(lambda: "once owed" in home.noted(), "the call runs")
    os.kill(first.pid, signal.SIGSTOP)
    unread = [first.call("once", key=f"unread.{number}") for number in range(5)]
    until(lambda: owner(home) == second.pid, "the ownership has moved")
    assert not sessions(home)[first.pid]["active"]
    assert first.answers(running) == []
    os.kill(first.pid, signal.SIGCONT)
    assert first.text(running) == "once owed"
    assert [first.text(id) for id in unread] == [f"once unread.{number}" for number in range(5)]
    until(lambda: sessions(home)[first.pid]["active"], "it counts again")
    assert owner(home) == second.pid
    assert first.leave() == 0
    assert [len(first.answers(id)) for id in (running, *unread)] == [1] * 6


def test_a_bridge_that_is_stopped_while_its_daemon_dies_delivers_each_answer_once(
    home: Home, clients: list[Client]
) -> None:
    first, second = clients
    safe = first.call("read", key="safe", delay=FOREVER_MS)
    unsafe = first.call("once", key="unsafe", delay=FOREVER_MS)
    until(lambda: "once unsafe" in home.noted(), "both calls run")
    os.kill(first.pid, signal.SIGSTOP)
    former = home.kill_daemon()
    unread = first.call("once", key="unread")
    assert second.text(second.call("read", key="meanwhile")) == "read meanwhile"
    assert home.daemon() != former
    os.kill(first.pid, signal.SIGCONT)
    assert first.text(unread) == "once unread"
    assert "may or may not have run" in first.answer(unsafe)["error"]["message"]
    until(lambda: home.noted().count("read safe") == 2, "what is safe to repeat runs again")
    first.cancel(safe)
    assert first.leave() == 0
    assert [len(first.answers(id)) for id in (safe, unsafe, unread)] == [0, 1, 1]
    assert home.noted().count("once unsafe") == home.noted().count("once unread") == 1


def test_a_bridge_whose_output_is_blocked_still_delivers_a_cancel(home: Home) -> None:
    with Client(home, reading=False) as client:
        client.send({"id": 0, "method": "ping"})
        victim = client.call("once", key="victim", delay=FOREVER_MS)
        until(lambda: "once victim" in home.noted(), "the call runs")
        large = "x" * 4 * PIPE_BYTES
        reads = [client.call("read", key=large) for _ in range(4)]
        until(lambda: _is_full(client.output), "the pipe to the client is full")
        client.cancel(victim)
        until(lambda: "cancelled victim" in home.noted(), "the cancel has reached the server")
        assert _is_full(client.output)
        client.read()
        assert all(client.text(id) == f"read {large}" for id in reads)
        assert client.leave() == 0
        assert [len(client.answers(id)) for id in (victim, *reads)] == [0, 1, 1, 1, 1]


def _is_full(pipe: int) -> bool:
    size = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, size)
    # The kernel fills whole pages: one that a short message began may have room left.
    return size[0] > PIPE_BYTES - 2 * os.sysconf("SC_PAGESIZE")
