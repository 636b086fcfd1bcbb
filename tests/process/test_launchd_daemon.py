"""A daemon that launchd would have started: it takes the socket on request, serves on it and leaves it in place.

launchd cannot run here. A library that is preloaded into a real daemon stands in for its one call, and the daemon is
told that launchd is there, which it knows by the platform otherwise; everything else is what runs on a Mac.
"""

import errno
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.clients import Message, text_of
from support.daemon import Daemon, Scratch, server
from support.installation import Installation
from support.kernel import BOUND_SECONDS, is_gone, until
from support.launchd import mac
from support.launchd.library import stand_in

AS_ON_A_MAC = """
import runpy, sys
from hearth.host.macos import launchd
launchd.PRESENT = True
sys.argv[0] = "hearth.daemon"
runpy.run_module("hearth.daemon", run_name="__main__")
"""


def command(python: str = sys.executable) -> tuple[str, ...]:
    return (python, "-I", "-c", AS_ON_A_MAC)


class Holder:
    """The listening socket as launchd keeps it: bound before any daemon runs, and its own for ever."""

    def __init__(self, scratch: Scratch) -> None:
        self._scratch = scratch
        Path(scratch.socket).parent.mkdir(mode=0o700)
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(scratch.socket)
        self.socket.listen(5)
        self.inode = os.lstat(scratch.socket).st_ino
        self.ledger = scratch.home / "ledger"

    def variables(self) -> dict[str, str]:
        """What the stand-in is told."""
        return {"STAND_IN_FD": str(self.socket.fileno()), "STAND_IN_LEDGER": str(self.ledger), "LD_PRELOAD": stand_in()}

    def light(self, **variables: str) -> Daemon:
        """Start the daemon as launchd does when somebody connects."""
        told = {**self.variables(), **variables}
        return self._scratch.attempt(command=command(), fds=(self.socket.fileno(),), **told)

    def is_left_alone(self) -> bool:
        """Whether the file is the same and whoever connects now still reaches this holder."""
        with socket.socket(socket.AF_UNIX) as late:
            late.connect(self._scratch.socket)
            self.socket.setblocking(True)
            self.socket.settimeout(BOUND_SECONDS)
            self.socket.accept()[0].close()
        return os.lstat(self._scratch.socket).st_ino == self.inode


@pytest.fixture
def holder(scratch: Scratch) -> Iterator[Holder]:
    found = Holder(scratch)
    yield found
    found.socket.close()


def test_it_serves_on_the_socket_that_it_was_handed_and_leaves_it_in_place(scratch: Scratch, holder: Holder) -> None:
    with scratch.lines() as client:  # waits in the kernel's queue, as the connection does that lights it
        daemon = holder.light()
        assert daemon.said == "ok\n", daemon.stderr()
        assert client.ask("ping")["result"] == {}
    assert scratch.status()["activation"] == "launchd"
    assert daemon.stop() == 0
    assert holder.is_left_alone()
    assert not scratch.registry.exists()
    # One array was allocated for the daemon, and it gave it back.
    assert holder.ledger.read_text().split() == ["1", "1"]


def test_the_log_is_its_own_file_and_not_a_journal(scratch: Scratch, holder: Holder) -> None:
    daemon = holder.light()
    assert "activated by launchd" in scratch.logged()
    assert daemon.stderr() == ""
    assert daemon.stop() == 0


def test_its_servers_have_nothing_of_the_socket(scratch: Scratch, holder: Holder) -> None:
    scratch.configure({"rec": server("recording", scratch.home / "record")}, drain_timeout=0.2)
    daemon = holder.light()
    about: Message = json.loads(text_of(scratch.lines().call("rec__about")))
    assert [target for fd, target in about["fds"].items() if int(fd) > 2 and "record" not in target] == []
    assert daemon.stop() == 0
    assert is_gone(about["pid"])


def test_it_goes_out_idle_and_the_next_connection_waits_for_the_next_start(scratch: Scratch, holder: Holder) -> None:
    scratch.configure(idle_timeout=0.2)
    assert holder.light().wait() == 0
    with scratch.lines() as client:
        second = holder.light()
        assert client.ask("ping")["result"] == {}
    assert second.wait() == 0
    assert holder.is_left_alone()


def test_with_a_bad_config_it_explains_itself_and_keeps_the_socket_over_its_own_exec(
    scratch: Scratch, holder: Holder
) -> None:
    scratch.write_config("idle_timeout = [\n")
    daemon = holder.light()
    assert scratch.lines().ask("ping")["error"]["code"] == -32603
    scratch.configure()
    # launchd would not hand the socket over a second time: what is asked now is answered by the same process, anew.
    assert scratch.lines().ask("ping")["result"] == {}
    assert scratch.status()["activation"] == "launchd"
    assert scratch.status()["pid"] == daemon.process.pid
    assert daemon.stop() == 0
    assert holder.is_left_alone()


def test_with_half_an_installation_it_explains_itself_too(scratch: Scratch, holder: Holder, tmp_path: Path) -> None:
    installation = Installation(tmp_path / "venv")
    installation.truncate("daemon/main.py")
    # What ended so early has no use for the ready pipe; it is told by its standard error.
    daemon = subprocess.Popen(
        command(str(installation.python)),
        env=scratch.environment(**holder.variables()),
        pass_fds=(holder.socket.fileno(),),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert "installation is broken" in scratch.lines().ask("ping")["error"]["message"]
        installation.install()
        until(lambda: scratch.lines().ask("ping").get("result") == {}, "it serves after the mending")
        assert scratch.status()["activation"] == "launchd"
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait(BOUND_SECONDS) == 0
    finally:
        daemon.kill()
        daemon.wait()
    assert holder.is_left_alone()


def test_a_daemon_that_a_bridge_starts_is_not_launchd_s_and_binds_its_own(scratch: Scratch) -> None:
    told = {"STAND_IN_ERROR": str(errno.ESRCH), "LD_PRELOAD": stand_in()}
    daemon = scratch.start(command=command(), **told)
    assert scratch.status()["activation"] == "self"
    assert daemon.stderr() == ""
    assert daemon.stop() == 0
    assert not os.path.lexists(scratch.socket)


def test_an_agent_without_a_socket_gets_a_daemon_that_binds_its_own_and_is_told(scratch: Scratch) -> None:
    """Homebrew's services are such agents: they know sockets of TCP only."""
    told = {"STAND_IN_ERROR": str(errno.ENOENT), "LD_PRELOAD": stand_in()}
    daemon = scratch.start(command=command(), **told)
    assert "names no socket 'mcp' under Sockets" in daemon.stderr()
    assert scratch.status()["activation"] == "self"
    assert daemon.stop() == 0


def test_one_that_lost_its_socket_ends_with_the_reason_and_leaves_launchd_s(scratch: Scratch, holder: Holder) -> None:
    daemon = holder.light(STAND_IN_ERROR=str(errno.EALREADY))
    assert "something listens on" in daemon.said
    assert "taken by this process before" in daemon.stderr()
    assert daemon.wait() != 0
    assert holder.is_left_alone()


def test_a_self_started_daemon_hands_over_to_launchd_s(scratch: Scratch) -> None:
    first = scratch.start()
    client = scratch.frames()
    # As launchd does when the agent is loaded: the file is replaced under the running daemon.
    os.unlink(scratch.socket)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(scratch.socket)
        listener.listen(5)
        number = listener.fileno()
        second = scratch.attempt(command=command(), fds=(number,), STAND_IN_FD=str(number), LD_PRELOAD=stand_in())
        assert client.receive_type("goodbye")[0]["reconnect"] is True
        assert first.wait() == 0
        assert second.said == "ok\n"
        assert scratch.status()["activation"] == "launchd"
        assert second.stop() == 0


def test_a_bridge_on_macos_waits_for_the_daemon_that_launchd_starts(scratch: Scratch) -> None:
    path = scratch.home / "Library" / "Application Support" / "hearth" / "run" / "mcp" / "mcp.sock"
    path.parent.mkdir(parents=True, mode=0o700)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(5)
        bridge = subprocess.Popen(
            [sys.executable, "-I", "-c", mac.AS_ON_A_MAC, "bridge"],
            env={"HOME": str(scratch.home), "PATH": os.environ["PATH"]},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        try:
            assert bridge.stdin and bridge.stdout
            bridge.stdin.write(b'{"jsonrpc":"2.0","id":7,"method":"ping"}\n')
            bridge.stdin.flush()
            assert select.select([listener], [], [], BOUND_SECONDS)[0], "the bridge did not connect"
            number = listener.fileno()
            told = {"STAND_IN_FD": str(number), "LD_PRELOAD": stand_in()}
            daemon = scratch.attempt(command=command(), fds=(number,), **told)
            assert json.loads(bridge.stdout.readline()) == {"jsonrpc": "2.0", "id": 7, "result": {}}
            bridge.stdin.close()
            assert bridge.wait(BOUND_SECONDS) == 0
            assert daemon.stop() == 0
        finally:
            bridge.kill()
            bridge.wait()
            assert bridge.stdout
            bridge.stdout.close()
