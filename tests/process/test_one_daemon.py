"""One daemon of a profile, whichever runtime folder its bridges have; or several that know of each other."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hearth import registry
from hearth.daemon.daemon_lock import DaemonLock
from hearth.host import listening
from hearth.host.locks import Lock
from hearth.paths import Places
from hearth.registry import ProfileLock
from support.daemon import Scratch
from support.kernel import BOUND_SECONDS, describe, pids_at_home, until
from support.requirements import needs_program, needs_root
from support.scripted_daemon import BridgeProcess, end_daemon


@pytest.fixture(autouse=True)
def ended(scratch: Scratch) -> Iterator[None]:
    """End what bridges have started, before the scratch home is looked at."""
    bridges: list[BridgeProcess] = []
    scratch.bridges = bridges  # type: ignore[attr-defined]
    yield
    for bridge in bridges:
        bridge.close()
    for entry in scratch.home.glob("**/daemon.json"):
        end_daemon(entry)
    until(lambda: "--detach" not in describe(pids_at_home(str(scratch.home))), "the watchers are gone")


def elsewhere(scratch: Scratch) -> dict[str, str]:
    """Return the environment of a client with another runtime folder."""
    folder = scratch.home / "run2"
    folder.mkdir(mode=0o700, exist_ok=True)
    return {**scratch.environment(), "XDG_RUNTIME_DIR": str(folder)}


def opened(scratch: Scratch, environment: dict[str, str]) -> str:
    """Open a session by a bridge; return the daemon's id."""
    bridge = BridgeProcess(scratch.home, environment=environment)
    scratch.bridges.append(bridge)  # type: ignore[attr-defined]
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    bridge.send({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
    return str(bridge.read()["result"]["_meta"]["hearth/daemonId"])


def hearth(environment: dict[str, str], *words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "hearth", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=BOUND_SECONDS, check=False)


def status(environment: dict[str, str]) -> dict[str, Any]:
    return json.loads(hearth(environment, "status", "--json").stdout)


def seconds_of(environment: dict[str, str]) -> list[dict[str, Any]]:
    """Return the findings of doctor on other daemons."""
    found = json.loads(hearth(environment, "doctor", "--json").stdout)
    return [each for each in found["findings"] if each["id"] == "daemon.second"]


def test_bridges_with_different_runtime_folders_meet_in_one_daemon(scratch: Scratch) -> None:
    first = opened(scratch, scratch.environment())
    assert opened(scratch, elsewhere(scratch)) == first
    assert not (scratch.home / "run2" / "mcp" / "mcp" / "daemon.json").exists()


def test_the_command_line_sees_and_stops_a_daemon_with_another_runtime_folder(scratch: Scratch) -> None:
    scratch.start()
    found = status(elsewhere(scratch))
    assert (found["running"], found["endpoint"]) == (True, scratch.socket)
    assert hearth(elsewhere(scratch), "stop", "--yes", "--all").returncode == 0
    assert not scratch.registry.exists()


def test_after_the_first_daemon_has_gone_the_next_takes_its_place(scratch: Scratch) -> None:
    scratch.start().stop()
    opened(scratch, elsewhere(scratch))
    assert (scratch.home / "run2" / "mcp" / "mcp" / "daemon.json").exists()


def test_a_daemon_that_cannot_be_reached_is_left_and_doctor_reports_both(scratch: Scratch) -> None:
    """A container that shares the home and has a runtime folder of its own, which nobody else sees."""
    needs_root()
    unshare = needs_program("unshare")
    command = (
        unshare, "--mount", "sh", "-c", f'mount -t tmpfs -o mode=700 none "{scratch.runtime}" && exec "$@"', "sh",
        sys.executable, "-I", "-m", "hearth.daemon",
    )  # fmt: skip
    scratch.start(command=command)
    assert not Path(scratch.socket).exists()
    second = opened(scratch, elsewhere(scratch))
    assert status(elsewhere(scratch))["daemonId"] == second
    (finding,) = seconds_of(elsewhere(scratch))
    assert scratch.socket in finding["message"]
    assert "cannot be reached from here" in finding["fix"]
    # The first one's side sees the second.
    (other,) = seconds_of(scratch.environment())[-1:]
    assert "run2" in str(seconds_of(scratch.environment())) and other["id"] == "daemon.second"


def test_doctor_reaches_another_daemon_where_its_registry_entry_says(scratch: Scratch) -> None:
    scratch.serve(listen="tcp:127.0.0.1:0")
    (finding,) = seconds_of(elsewhere(scratch))
    assert finding["fix"].startswith("Stop it: ")


def test_a_home_of_another_machine_is_no_hindrance(scratch: Scratch) -> None:
    """Its lock has another name, and whether it is held cannot be told."""
    scratch.start().stop()
    folder = scratch.home / ".local" / "state" / "hearth" / "daemons" / "mcp"
    (lock,) = folder.glob("*.lock")
    shutil.copy(lock, folder / "0123456789abcdef.lock")
    (folder / "0123456789abcdef.json").write_text(json.dumps({"socket": "/nowhere/mcp.sock", "pid": 1}))
    scratch.start()
    assert status(scratch.environment())["endpoint"] == scratch.socket
    assert seconds_of(scratch.environment()) == []


def test_a_state_folder_that_cannot_be_written_to_costs_nothing_but_the_sight(scratch: Scratch) -> None:
    state = scratch.home / ".local" / "state" / "hearth"
    state.mkdir(parents=True)
    (state / "daemons").write_text("in the way")
    scratch.start()
    assert os.path.exists(scratch.socket)


@pytest.fixture
def places(scratch: Scratch, monkeypatch: pytest.MonkeyPatch) -> Places:
    for name in ("HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, scratch.environment().get(name, ""))
    return Places()


def leave_record(places: Places) -> Lock:
    """Write the record of a daemon that was killed; return its lock, which is free."""
    path = os.path.join(registry.profile_folder(places.key), registry.machine())
    os.makedirs(os.path.dirname(path), 0o700)
    Path(path + ".json").write_text(json.dumps({"socket": "/nowhere/mcp.sock", "pid": 1}))
    return Lock(path + ".lock")


def test_a_daemon_that_starts_is_not_taken_for_the_killed_one_before_it(places: Places) -> None:
    leave_record(places)
    first, second = ProfileLock(places), ProfileLock(places)
    assert first.take() is None
    try:
        assert second.take() == ""
    finally:
        first.release()


def test_a_look_at_the_lock_does_not_make_a_daemon_run_beside(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    look = leave_record(places)
    assert look.acquire(blocking=False)

    def end_look(endpoint: str) -> bool:
        look.release()
        return False

    monkeypatch.setattr(listening, "answers", end_look)
    claim = DaemonLock(places)
    claim.take(activated=False)
    try:
        assert [path.name for path in Path(look.path).parent.glob("*.lock")] == [os.path.basename(look.path)]
    finally:
        claim.release()


def test_the_entry_of_a_killed_daemon_is_gone_as_soon_as_the_next_holds_the_lock(places: Places) -> None:
    # The pid is taken, by a process with another start time.
    former = registry.RegistryEntry(
        daemon_id="former", endpoint="tcp:127.0.0.1:1", pid=os.getpid(), start_time=1, started_at=0.0, version="0",
        protocol=1, token="token",
    )  # fmt: skip
    registry.write(places, former)
    claim = DaemonLock(places)
    claim.take(activated=False)
    try:
        assert registry.read(places) is None
    finally:
        claim.release()
