"""A daemon that is named by its socket: `--socket`, HEARTH_SOCKET, and `--no-start`."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.scripted_daemon import BOUND_SECONDS, BridgeProcess, Stage, client_environment, end_daemon, opening, stage


@pytest.fixture
def scene() -> Iterator[Stage]:
    with stage() as opened:
        yield opened
        for entry in opened.home.glob("**/daemon.json"):
            end_daemon(entry)


def initialize(bridge: BridgeProcess) -> str:
    """Open a session; return the daemon's id."""
    bridge.send(opening())
    return str(bridge.read()["result"]["_meta"]["hearth/daemonId"])


def without_runtime(scene: Stage) -> dict[str, str]:
    """Return the environment of a client that drops XDG_RUNTIME_DIR."""
    environment = client_environment(scene.home)
    del environment["XDG_RUNTIME_DIR"]
    return environment


def status(scene: Stage, **more: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "hearth", "status", "--json"]
    environment = {**client_environment(scene.home), **more}
    found = subprocess.run(command, env=environment, capture_output=True, timeout=BOUND_SECONDS, check=False)
    return json.loads(found.stdout)


def test_a_socket_that_is_named_leads_to_the_daemon_that_the_environment_leads_to(scene: Stage) -> None:
    first = initialize(scene.bridge())
    assert initialize(scene.bridge("--socket", str(scene.socket), environment=without_runtime(scene))) == first


def test_the_daemon_of_a_socket_that_is_named_is_started_there(scene: Stage) -> None:
    first = initialize(scene.bridge("--socket", str(scene.socket), environment=without_runtime(scene)))
    assert initialize(scene.bridge()) == first
    assert status(scene)["endpoint"] == str(scene.socket)


@pytest.mark.parametrize("name", ["d.sock", "endpoint", "x" * 120 + ".sock"])
def test_any_path_can_be_a_socket_and_the_folder_around_it_keeps_its_mode(scene: Stage, name: str) -> None:
    folder = scene.home / "place"
    folder.mkdir()
    folder.chmod(0o755)
    path = str(folder / name)
    first = initialize(scene.bridge("--socket", f"unix:{path}"))
    assert initialize(scene.bridge(extra={"HEARTH_SOCKET": path})) == first
    found = status(scene, HEARTH_SOCKET=path)
    assert (found["running"], found["daemonId"]) == (True, first)
    # Without the variable it is found by the lock of the profile.
    assert status(scene)["daemonId"] == first
    assert folder.stat().st_mode & 0o777 == 0o755


def test_an_endpoint_of_tcp_is_not_a_socket(scene: Stage) -> None:
    bridge = scene.bridge("--socket", "tcp:127.0.0.1:1")
    assert bridge.wait() == 2
    assert "is found by its registry entry" in bridge.stderr()


def test_without_leave_to_start_one_a_missing_daemon_ends_the_bridge(scene: Stage) -> None:
    bridge = scene.bridge_with("exit 1", "--no-start")
    assert bridge.wait() == 1
    assert f"no daemon runs ({scene.socket} does not exist)" in bridge.stderr()
    assert scene.starts() == []


def test_without_leave_to_start_one_a_daemon_that_runs_is_used(scene: Stage) -> None:
    first = initialize(scene.bridge())
    assert initialize(scene.bridge("--no-start")) == first


def test_without_leave_to_start_one_a_daemon_that_does_not_come_back_ends_the_bridge(scene: Stage) -> None:
    starter = scene.bridge()
    initialize(starter)
    bridge = scene.bridge("--no-start", extra={"HEARTH_BRIDGE_PATIENCE": "0.3"})
    initialize(bridge)
    starter.close()
    entry = Path(scene.home / "mcp" / "mcp" / "daemon.json")
    os.kill(json.loads(entry.read_text())["pid"], signal.SIGKILL)
    bridge.request(2)
    assert "could not be reached within 0.3 s" in bridge.read()["error"]["message"]
    assert bridge.wait() == 1
    entry.unlink(missing_ok=True)
