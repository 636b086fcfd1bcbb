"""Installations that move under a running daemon, and the daemon by its former name, which older units use."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.clients import text_of
from support.daemon import Scratch, handing_over, server
from support.installation import Installation
from support.kernel import BOUND_SECONDS, pids_at_home, until

HEARTH = os.path.join(os.path.dirname(sys.executable), "hearth")


@pytest.fixture
def moved(scratch: Scratch) -> Scratch:
    """A daemon that has not loaded what speaks HTTP, and whose files are gone."""
    scratch.configure({"web": {"url": "http://127.0.0.1:9/mcp"}})
    installation = Installation(scratch.home / "venv")
    scratch.start(command=installation.command)
    assert scratch.status()["package"] == str(installation.package)
    installation.package.rename(scratch.home / "elsewhere")
    return scratch


def doctor(scratch: Scratch, *words: str) -> dict[str, Any]:
    done = subprocess.run(
        [HEARTH, "doctor", "--json", *words],
        env=scratch.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=2 * BOUND_SECONDS,
        check=False,
    )
    return json.loads(done.stdout)


def test_a_client_is_told_in_a_sentence(moved: Scratch) -> None:
    with moved.lines() as client:
        client.initialize()
        message = client.call("web__anything")["error"]["message"]
    assert "was moved, replaced or removed" in message
    assert "`hearth doctor --fix`" in message
    for told in (message, moved.upstream("web")["error"]):
        assert "cannot import name" not in told
        assert "No module named" not in told


def test_doctor_finds_it_and_fix_replaces_the_daemon(moved: Scratch) -> None:
    found = {each["id"]: each for each in doctor(moved)["findings"]}
    assert (found["daemon.moved"]["state"], found["daemon.moved"]["fixable"]) == ("broken", True)
    deeds = {each["deed"]: each for each in doctor(moved, "--fix", "--yes")["mended"]}
    assert (deeds["renew"]["done"], deeds["renew"]["error"]) == (True, None)
    assert "daemon.moved" not in {each["id"] for each in doctor(moved)["findings"]}


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
    scratch.start("--profile", "mcp", "--detach", command=FORMER)
    client = scratch.frames().initialized()
    assert text_of(client.call("echo__echo", text="hello")) == "hello"
    assert client.control("shutdown")[0]["ok"] is True
    client.close()
    # The orphan reaper ends after the daemon, and is no child of this process.
    until(lambda: not pids_at_home(str(scratch.home)), "daemon and orphan reaper are gone")


def test_a_signal_ends_a_daemon_of_the_former_name(scratch: Scratch) -> None:
    daemon = scratch.start(command=FORMER)
    daemon.signal(signal.SIGTERM)
    assert daemon.wait() == 0
