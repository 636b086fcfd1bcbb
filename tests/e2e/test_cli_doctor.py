"""`hearth doctor` finds what is broken, says what to do, and is content otherwise."""

import contextlib
import json
import os
import signal
import socket
import sys
from typing import Any

import pytest

from e2e.cli_home import Bridge, Home, read, write
from hearth.daemon.acceptor import CONTROL_PLACES


def findings(home: Home, code: int, **changes: str) -> dict[str, dict[str, Any]]:
    done = home.run("doctor", "--json", **changes)
    assert done.returncode == code, done.stdout + done.stderr
    document = json.loads(done.stdout)
    assert document["ok"] == (code == 0)
    return {finding["id"]: finding for finding in document["findings"]}


def broken(home: Home, **changes: str) -> dict[str, dict[str, Any]]:
    found = {check: finding for check, finding in findings(home, 1, **changes).items() if finding["state"] == "broken"}
    assert all(finding["fix"] for finding in found.values()), "every broken thing says what to do"
    return found


def test_a_working_setup_has_nothing_broken(home: Home) -> None:
    home.configure_demo()
    found = findings(home, 0)
    assert found.keys() >= {
        "installation.python",
        "installation.package",
        "installation.bridge",
        "config.file",
        "servers.program",
        "folders.runtime",
        "folders.state",
        "socket.file",
        "daemon.state",
    }
    assert "Nothing is broken" in home.run("doctor").stdout


def test_a_running_daemon_is_recognised(home: Home, bridge: Bridge) -> None:
    found = findings(home, 0)
    assert "running as pid" in found["daemon.state"]["message"]
    assert found["socket.file"]["state"] == "ok"


def test_without_a_config_there_is_a_note(home: Home) -> None:
    found = findings(home, 0)["config.missing"]
    assert found["state"] == "note"
    assert "hearth add" in found["fix"]


def test_a_config_that_cannot_be_used_is_broken_and_named(home: Home) -> None:
    assert home.write_config("idle_timeoutt = 3\n") in broken(home)["config.broken"]["message"]


def test_a_server_whose_program_is_missing_is_named(home: Home) -> None:
    home.write_config('[mcpServers.gone]\ncommand = "no-such-program"\n')
    assert "no-such-program" in broken(home)["servers.program"]["message"]


def test_a_reference_that_leads_nowhere_is_named(home: Home) -> None:
    home.write_config(f'[mcpServers.s]\ncommand = "{sys.executable}"\nenv = {{ TOKEN = "${{NO_SUCH_VARIABLE}}" }}\n')
    assert "NO_SUCH_VARIABLE" in broken(home)["servers.reference"]["message"]


def test_a_server_by_url_is_named_as_it_was_written_and_not_tried(home: Home) -> None:
    home.write_config('[mcpServers.far]\nurl = "https://example.org/mcp?key=${HOME}"\n')
    found = findings(home, 0)["servers.program"]
    assert found["state"] == "ok"
    assert found["message"].startswith("far: https://example.org/mcp?key=${HOME}")


def test_a_reference_in_a_url_that_leads_nowhere_is_named(home: Home) -> None:
    home.write_config('[mcpServers.far]\nurl = "https://example.org/mcp?key=${NO_SUCH_VARIABLE}"\n')
    assert "NO_SUCH_VARIABLE" in broken(home)["servers.reference"]["message"]


def test_a_disabled_server_is_not_looked_for(home: Home) -> None:
    home.write_config('[mcpServers.gone]\ncommand = "no-such-program"\ndisabled = true\n')
    assert "servers.program" not in findings(home, 0)


def test_a_runtime_folder_open_to_others_is_broken(home: Home) -> None:
    os.makedirs(os.path.dirname(home.socket), 0o700)
    os.chmod(os.path.dirname(home.socket), 0o755)
    assert broken(home)["folders.open"]["fix"].startswith("chmod 700")


def test_a_file_where_the_runtime_folder_should_be_is_broken(home: Home) -> None:
    write(os.path.dirname(home.socket), "")
    assert "folders.runtime" in broken(home)


def test_the_folder_of_the_locks_is_looked_at_too(home: Home) -> None:
    folder = os.path.dirname(home.registry)
    os.makedirs(folder, 0o700)
    os.chmod(os.path.dirname(folder), 0o700)
    os.chmod(folder, 0o777)
    assert broken(home)["folders.open"]["fix"] == f"chmod 700 {folder}"


def test_a_link_where_the_runtime_folder_should_be_is_broken(home: Home) -> None:
    os.symlink(home.home, os.path.dirname(home.socket))
    assert "symbolic link" in broken(home)["folders.runtime"]["message"]


def test_a_runtime_folder_that_cannot_be_made_is_broken_however_much_of_it_is_missing(home: Home) -> None:
    path = write(os.path.join(home.folder, "file"), "")
    named = os.path.join(path, "user", "99999")
    found = broken(home, XDG_RUNTIME_DIR=named)
    told = json.loads(home.run("doctor", "--json", XDG_RUNTIME_DIR=named).stdout)["findings"]
    assert [finding["state"] for finding in told].count("broken") == 1, "one cause is told once"
    assert f"{path} is not a folder" in found["folders.runtime"]["message"]


def test_a_runtime_folder_that_will_be_made_is_well(home: Home) -> None:
    named = os.path.join(home.folder, "not", "yet")
    assert "will be made" in findings(home, 0, XDG_RUNTIME_DIR=named)["folders.runtime"]["message"]


def test_a_state_folder_that_cannot_be_made_is_broken(home: Home) -> None:
    path = write(os.path.join(home.folder, "file"), "")
    found = broken(home, XDG_STATE_HOME=path)["folders.state"]
    assert path in found["message"] and path in found["fix"]


@pytest.fixture
def pid(home: Home, bridge: Bridge) -> int:
    """The process of a daemon with a client."""
    return int(home.json("status", "--json")["pid"])


def test_a_daemon_that_hangs_is_broken_and_named(home: Home, pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)
    try:
        found = broken(home)["daemon.silent"]
    finally:
        os.kill(pid, signal.SIGCONT)
    assert "does not answer" in found["message"]
    assert f"kill -9 {pid}" in found["fix"]


def test_a_daemon_that_is_full_is_told_from_one_that_hangs(home: Home, pid: int) -> None:
    home.write_config(f"max_connections = 1\n{read(home.configure_demo())}")
    home.ok("reload", "--yes")
    with contextlib.ExitStack() as held:
        for _ in range(CONTROL_PLACES):
            control = held.enter_context(socket.socket(socket.AF_UNIX))
            control.connect(home.socket)
            # The beginning of a frame: a command that is slow.
            control.sendall(b"\0")
        found = broken(home)["daemon.full"]
        assert "max_connections" in found["message"] and str(pid) in found["message"]
        assert "kill" not in found["fix"]
        for words in (["status"], ["stop", "--yes"], ["reload"], ["sessions"], ["restart", "--yes"]):
            assert "9 connections are open already (max_connections)" in home.fails(4, *words)
    assert home.json("status", "--json")["pid"] == pid


def test_a_daemon_whose_socket_was_removed_is_broken_and_named(home: Home, pid: int) -> None:
    os.unlink(home.socket)
    assert str(pid) in broken(home)["socket.gone"]["message"]


def test_a_folder_where_the_socket_should_be_is_broken(home: Home) -> None:
    os.makedirs(home.socket, 0o700)
    os.chmod(os.path.dirname(home.socket), 0o700)
    assert "not a socket" in broken(home)["socket.kind"]["message"]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells who listens")
def test_a_socket_that_was_left_over_is_told_from_one_that_is_held(home: Home) -> None:
    os.makedirs(os.path.dirname(home.socket), 0o700)
    with socket.socket(socket.AF_UNIX) as held:
        held.bind(home.socket)
        os.chmod(home.socket, 0o600)
        held.listen()
        assert findings(home, 0)["socket.file"]["state"] == "ok"
    assert findings(home, 0)["socket.dead"]["state"] == "note"


def test_a_registry_whose_process_is_gone_is_a_note(home: Home, bridge: Bridge, pid: int) -> None:
    bridge.end()
    os.kill(pid, 9)
    found = findings(home, 0)["daemon.stale"]
    assert found["state"] == "note"
    assert str(pid) in found["message"]
