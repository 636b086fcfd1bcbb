"""`hearth doctor` finds what is broken, says what to do, and is content otherwise."""

import json
import os
import socket
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.cli_home import Bridge, Home, attached_bridge, scratch_home


@pytest.fixture
def home() -> Iterator[Home]:
    yield from scratch_home()


def findings(home: Home, code: int) -> dict[str, dict[str, Any]]:
    done = home.run("doctor", "--json")
    assert done.returncode == code, done.stdout + done.stderr
    document = json.loads(done.stdout)
    assert document["ok"] == (code == 0)
    return {finding["check"]: finding for finding in document["findings"]}


def broken(home: Home) -> dict[str, dict[str, Any]]:
    found = {check: finding for check, finding in findings(home, 1).items() if finding["state"] == "broken"}
    assert all(finding["fix"] for finding in found.values()), "every broken thing says what to do"
    return found


def test_a_working_setup_has_nothing_broken(home: Home) -> None:
    home.configure_demo()
    found = findings(home, 0)
    assert found.keys() >= {
        "python",
        "package",
        "bridge",
        "config",
        "server demo",
        "runtime folder",
        "socket",
        "daemon",
    }
    assert "nothing is broken" in home.run("doctor").stdout


def test_a_running_daemon_is_recognised(home: Home) -> None:
    for bridge in attached_bridge(home):
        assert isinstance(bridge, Bridge)
        found = findings(home, 0)
        assert "running as pid" in found["daemon"]["message"]
        assert found["socket"]["state"] == "ok"


def test_without_a_config_there_is_a_note(home: Home) -> None:
    assert findings(home, 0)["config"]["state"] == "note"


def test_a_config_that_cannot_be_used_is_broken_and_named(home: Home) -> None:
    path = home.write_config("idle_timeoutt = 3\n")
    assert path in broken(home)["config"]["message"]


def test_a_server_whose_program_is_missing_is_named(home: Home) -> None:
    home.write_config('[mcpServers.gone]\ncommand = "no-such-program"\n')
    assert "no-such-program" in broken(home)["server gone"]["message"]


def test_a_reference_that_leads_nowhere_is_named(home: Home) -> None:
    home.write_config(f'[mcpServers.s]\ncommand = "{sys.executable}"\nenv = {{ TOKEN = "${{NO_SUCH_VARIABLE}}" }}\n')
    assert "NO_SUCH_VARIABLE" in broken(home)["server s"]["message"]


def test_a_server_by_url_is_told_to_be_for_later(home: Home) -> None:
    home.write_config('[mcpServers.far]\nurl = "https://example.org/mcp"\n')
    assert findings(home, 0)["server far"]["state"] == "note"


def test_a_disabled_server_is_not_looked_for(home: Home) -> None:
    home.write_config('[mcpServers.gone]\ncommand = "no-such-program"\ndisabled = true\n')
    assert "server gone" not in findings(home, 0)


def test_a_runtime_folder_open_to_others_is_broken(home: Home) -> None:
    os.makedirs(os.path.dirname(home.socket), 0o700)
    os.chmod(os.path.dirname(home.socket), 0o755)
    assert broken(home)["runtime folder"]["fix"].startswith("chmod 700")


def test_a_file_where_the_runtime_folder_should_be_is_broken(home: Home) -> None:
    with open(os.path.dirname(home.socket), "w", encoding="utf-8"):
        pass
    assert "runtime folder" in broken(home)


def test_a_folder_where_the_socket_should_be_is_broken(home: Home) -> None:
    os.makedirs(home.socket, 0o700)
    os.chmod(os.path.dirname(home.socket), 0o700)
    assert "not a socket" in broken(home)["socket"]["message"]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells who listens")
def test_a_socket_that_was_left_over_is_told_from_one_that_is_held(home: Home) -> None:
    os.makedirs(os.path.dirname(home.socket), 0o700)
    with socket.socket(socket.AF_UNIX) as held:
        held.bind(home.socket)
        held.listen()
        assert findings(home, 0)["socket"]["state"] == "ok"
    assert findings(home, 0)["socket"]["state"] == "note"


def test_a_registry_whose_process_is_gone_is_a_note(home: Home) -> None:
    for bridge in attached_bridge(home):
        pid = home.json("status", "--json")["pid"]
        bridge.end()
        os.kill(pid, 9)
        found = findings(home, 0)["daemon"]
        assert found["state"] == "note"
        assert str(pid) in found["message"]
