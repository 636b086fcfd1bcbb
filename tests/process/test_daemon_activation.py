"""A socket that somebody else holds: adopted, never taken away, and no business of the servers.

The light kind of activation, by systemd-socket-activate; what the manager itself does is tested on a booted systemd.
"""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.clients import Message, text_of
from support.daemon import COMMAND, Scratch, handing_over, server
from support.kernel import BOUND_SECONDS, is_gone, pids_at_home, until
from support.socket_activation import Activation

Activate = Callable[..., Activation]


@pytest.fixture
def activate(scratch: Scratch) -> Iterator[Activate]:
    """Opens sockets that light a daemon, and ends what was lit."""
    begun: list[Activation] = []

    def opener(fdname: str = "mcp") -> Activation:
        begun.append(Activation(scratch, fdname=fdname, SECRET="of-the-daemon"))
        return begun[-1]

    yield opener
    for activation in begun:
        activation.end()


@pytest.fixture
def activated(scratch: Scratch, activate: Activate) -> Activation:
    scratch.configure({"rec": server("recording", scratch.home / "record", env={"NAMED": "yes"})}, drain_timeout=0.2)
    return activate()


def test_the_first_connection_lights_the_daemon_and_is_served(scratch: Scratch, activated: Activation) -> None:
    assert not scratch.registry.exists()
    with scratch.lines() as client:
        assert client.ask("ping")["result"] == {}
    status = scratch.status()
    assert status["activation"] == "systemd"
    assert status["pid"] == activated.process.pid
    assert json.loads(scratch.registry.read_text())["pid"] == activated.process.pid


def test_the_socket_that_was_handed_over_is_not_unlinked(scratch: Scratch, activated: Activation) -> None:
    scratch.lines().ask("ping")
    assert activated.end() == 0
    assert os.lstat(scratch.socket).st_ino == activated.inode
    assert not scratch.registry.exists()


def test_the_socket_that_was_handed_over_is_not_shut_down(scratch: Scratch) -> None:
    # The holder keeps its copy, as the service manager does, and goes on listening on it.
    with socket.socket(socket.AF_UNIX) as listener:
        Path(scratch.socket).parent.mkdir(mode=0o700)
        listener.bind(scratch.socket)
        listener.listen(5)
        daemon = scratch.start(command=handing_over(listener, COMMAND), fds=(listener.fileno(),))
        assert scratch.status()["activation"] == "systemd"
        assert daemon.stop() == 0
        with socket.socket(socket.AF_UNIX) as late:
            late.connect(scratch.socket)
            listener.settimeout(BOUND_SECONDS)
            listener.accept()[0].close()


def test_a_server_of_an_activated_daemon_is_told_nothing_of_the_activation(
    scratch: Scratch, activated: Activation
) -> None:
    about: Message = json.loads(text_of(scratch.lines().call("rec__about")))
    assert not [name for name in about["env"] if name.startswith(("LISTEN_", "SECRET", "NOTIFY"))]
    assert about["env"]["NAMED"] == "yes"
    assert [target for fd, target in about["fds"].items() if int(fd) > 2 and "record" not in target] == []
    activated.end()
    assert is_gone(about["pid"])


def test_an_activated_daemon_goes_out_idle_and_leaves_the_socket(scratch: Scratch, activate: Activate) -> None:
    scratch.configure(idle_timeout=0.2)
    activation = activate()
    with scratch.lines() as client:
        client.ask("ping")
    assert activation.process.wait(BOUND_SECONDS) == 0
    assert os.path.lexists(scratch.socket)


def test_a_socket_under_another_name_is_adopted_when_it_is_the_only_one(scratch: Scratch, activate: Activate) -> None:
    activation = activate(fdname="other")
    assert scratch.lines().ask("ping")["result"] == {}
    assert activation.end() == 0


@pytest.mark.parametrize("config", ["idle_timeout = [\n", "no_such_key = 1\n"])
def test_an_activated_daemon_with_a_bad_config_explains_itself_and_serves_after_the_mending(
    scratch: Scratch, activate: Activate, config: str
) -> None:
    scratch.write_config(config)
    activation = activate()
    error = scratch.lines().ask("ping")["error"]
    assert (error["code"], str(scratch.config) in error["message"]) == (-32603, True)
    assert scratch.status()["activation"] == "systemd"
    scratch.configure()
    assert scratch.lines().ask("ping")["result"] == {}
    # The same process, which is what the manager watches; and still its socket.
    assert scratch.status()["pid"] == activation.process.pid
    assert activation.end() == 0
    assert os.lstat(scratch.socket).st_ino == activation.inode


def test_a_self_started_daemon_hands_over_to_an_activated_one(scratch: Scratch, activate: Activate) -> None:
    first = scratch.serve({"rec": server("recording", scratch.home / "record")})
    client = scratch.frames()
    former = first.pid
    # As `systemctl start mcp.socket` does: the file is replaced under the running daemon.
    os.unlink(scratch.socket)
    activation = activate()
    with scratch.lines() as newcomer:
        newcomer.begin("ping")
        goodbye, _ = client.receive_type("goodbye")
        assert goodbye["reconnect"] is True
        assert first.wait() == 0
        assert is_gone(former)
        assert newcomer.answer_to(1)["result"] == {}
    assert os.lstat(scratch.socket).st_ino == activation.inode
    assert scratch.status()["activation"] == "systemd"
    assert activation.end() == 0


def test_variables_that_were_meant_for_another_process_are_ignored(scratch: Scratch) -> None:
    daemon = scratch.start(LISTEN_FDS="1", LISTEN_PID="1", LISTEN_FDNAMES="mcp")
    assert scratch.status()["activation"] == "self"
    assert daemon.stop() == 0


# --- what the service manager hears


class Manager:
    """The receiving end of sd_notify(3)."""

    def __init__(self, path: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(path)
        self.socket.settimeout(BOUND_SECONDS)
        self.heard: list[str] = []

    def hears(self, words: str) -> None:
        while not any(words in line for line in self.heard):
            self.heard += self.socket.recv(4096).decode().splitlines()


def test_the_manager_hears_of_readiness_status_reload_watchdog_and_the_end(scratch: Scratch) -> None:
    scratch.configure({"echo": server("echo")}, heartbeat_interval=0.1)
    manager = Manager(str(scratch.home / "notify"))
    daemon = scratch.start(NOTIFY_SOCKET=str(scratch.home / "notify"), WATCHDOG_USEC="200000")
    try:
        manager.hears("READY=1")
        manager.hears("STATUS=0 sessions, 1 server, 0 calls")
        manager.hears("WATCHDOG=1")
        with scratch.lines() as client:
            client.call("echo__echo", text="x")
            manager.hears("STATUS=1 session, 1 server (1 running), 0 calls")
        manager.heard.clear()
        daemon.signal(signal.SIGHUP)
        manager.hears("RELOADING=1")
        assert any(line.startswith("MONOTONIC_USEC=") for line in manager.heard)
        manager.hears("READY=1")
        daemon.signal(signal.SIGTERM)
        manager.hears("STOPPING=1")
        assert daemon.wait() == 0
    finally:
        manager.socket.close()


def test_a_watchdog_meant_for_another_process_is_left_alone(scratch: Scratch) -> None:
    manager = Manager(str(scratch.home / "notify"))
    daemon = scratch.start(NOTIFY_SOCKET=str(scratch.home / "notify"), WATCHDOG_USEC="20000", WATCHDOG_PID="1")
    try:
        manager.hears("READY=1")
        assert daemon.stop() == 0
        manager.hears("STOPPING=1")
        assert "WATCHDOG=1" not in manager.heard
    finally:
        manager.socket.close()


def test_nothing_is_left_when_a_starter_dies_before_its_daemon_is_ready(scratch: Scratch) -> None:
    """The ready pipe has no reader any more: that is no reason not to serve."""
    reading, writing = os.pipe()
    os.close(reading)
    child = subprocess.Popen(
        [sys.executable, "-I", "-m", "hearth.daemon", "--ready-fd", str(writing)],
        env=scratch.environment(),
        pass_fds=(writing,),
        stdin=subprocess.DEVNULL,
    )
    os.close(writing)
    until(lambda: os.path.lexists(scratch.socket), "it listens")
    assert scratch.lines().ask("ping")["result"] == {}
    child.send_signal(signal.SIGTERM)
    assert child.wait(BOUND_SECONDS) == 0
    assert pids_at_home(str(scratch.home)) == []
