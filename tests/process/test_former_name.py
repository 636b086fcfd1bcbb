"""The daemon by its former name, `python -m hearth.server`: units, plists and bridges from before an upgrade use it."""

import signal
import socket
import sys
from pathlib import Path

from support.clients import text_of
from support.daemon import Scratch, handing_over, server
from support.kernel import is_gone, until

FORMER = (sys.executable, "-I", "-m", "hearth.server")


def test_an_installed_unit_of_before_starts_the_daemon(scratch: Scratch) -> None:
    scratch.configure({"echo": server("echo")})
    with socket.socket(socket.AF_UNIX) as listener:
        Path(scratch.socket).parent.mkdir(mode=0o700)
        listener.bind(scratch.socket)
        listener.listen(5)
        command = handing_over(listener, (*FORMER, "--profile", "mcp", "--delegated"))
        daemon = scratch.start(command=command, fds=(listener.fileno(),))
        assert scratch.status()["activation"] == "systemd"
        assert text_of(scratch.lines().call("echo__echo", text="hello")) == "hello"
        assert daemon.stop() == 0


def test_a_running_bridge_of_before_starts_the_daemon(scratch: Scratch) -> None:
    scratch.configure({"echo": server("echo")})
    daemon = scratch.start("--profile", "mcp", "--detach", command=FORMER)
    pid = daemon.pid
    client = scratch.frames()
    client.initialize()
    assert text_of(client.call("echo__echo", text="hello")) == "hello"
    assert client.control("shutdown")[0]["ok"] is True
    client.close()
    until(lambda: is_gone(pid), "the daemon is gone")


def test_a_signal_ends_a_daemon_of_the_former_name(scratch: Scratch) -> None:
    daemon = scratch.start(command=FORMER)
    daemon.signal(signal.SIGTERM)
    assert daemon.wait() == 0
