"""`hearth install` on macOS, with a launchctl that only records its calls and a platform that only has the name.

launchd cannot run here. What is shown is which files are written and which commands are given, not that a Mac obeys.
"""

import json
import os
import plistlib
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.launchd.launchctl import Launchd, calls, put_on_path
from support.launchd.mac import hearth

DOMAIN = f"gui/{os.getuid()}"
JOB = f"{DOMAIN}/mcp.hearth"


@pytest.fixture
def home() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="hearth mac ", dir="/tmp"))
    yield folder
    shutil.rmtree(folder)


def plist(home: Path) -> Path:
    return home / "Library" / "LaunchAgents" / "mcp.hearth.plist"


def socket_of(home: Path) -> Path:
    return home / "Library" / "Application Support" / "hearth" / "run" / "mcp" / "mcp.sock"


def document(home: Path, path: str, *arguments: str) -> dict[str, Any]:
    done = hearth(home, path, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def listen(home: Path) -> None:
    """As launchd does when it loads the agent."""
    socket_of(home).touch()


def test_the_agent_is_written_with_the_paths_of_this_mac_and_loaded(home: Path) -> None:
    path = put_on_path(home)
    done = hearth(home, path, "install")
    assert done.returncode == 0, done.stderr
    found = plistlib.loads(plist(home).read_bytes())
    assert found["ProgramArguments"][0] == sys.executable
    assert found["Sockets"]["mcp"]["SockPathName"] == str(socket_of(home))
    assert found["EnvironmentVariables"]["PATH"].startswith(f"{path}:")
    assert found["StandardErrorPath"] == str(home / "Library" / "Logs" / "hearth" / "mcp.launchd.log")
    assert calls(home)[-3:] == [f"enable {JOB}", f"bootstrap {DOMAIN} {plist(home)}", f"print {JOB}"]
    assert f"launchd listens on {socket_of(home)}" in done.stdout
    assert f"looked for in {path}" in done.stdout


def test_launchd_finds_its_folders_made_and_closed_to_others_and_a_file_that_only_the_user_may_write(
    home: Path,
) -> None:
    previous = os.umask(0o002)
    try:
        hearth(home, put_on_path(home), "install")
    finally:
        os.umask(previous)
    for folder in (socket_of(home).parent, home / "Library" / "Logs" / "hearth"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(plist(home).stat().st_mode) == 0o644


def test_installing_again_changes_nothing_and_loads_nothing(home: Path) -> None:
    path = put_on_path(home)
    hearth(home, path, "install")
    listen(home)
    before, asked = plist(home).stat(), len(calls(home))
    again = document(home, path, "install")
    assert (again["written"], again["unchanged"], again["enabled"]) == ([], ["mcp.hearth.plist"], True)
    assert (plist(home).stat().st_ino, plist(home).stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert {call.split()[0] for call in calls(home)[asked:]} == {"print"}


def test_a_changed_path_is_written_and_the_agent_loaded_anew(home: Path) -> None:
    path = put_on_path(home, busy=0)
    hearth(home, path, "install")
    listen(home)
    asked = len(calls(home))
    again = document(home, f"{path}:/opt/other/bin", "install")
    assert again["written"] == ["mcp.hearth.plist"]
    assert "/opt/other/bin" in again["path"]
    verbs = [call.split()[0] for call in calls(home)[asked:]]
    assert verbs.index("bootout") < verbs.index("bootstrap")


def test_a_socket_that_was_removed_is_bound_anew_by_loading_the_agent_anew(home: Path) -> None:
    path = put_on_path(home)
    hearth(home, path, "install")
    asked = len(calls(home))
    assert document(home, path, "install")["enabled"]
    assert f"bootout {JOB}" in calls(home)[asked:]
    assert f"bootstrap {DOMAIN} {plist(home)}" in calls(home)[asked:]


def test_a_launchd_that_has_not_settled_is_asked_again(home: Path) -> None:
    assert document(home, put_on_path(home, busy=2), "install")["enabled"]
    assert [call.split()[0] for call in calls(home)].count("bootstrap") == 3


def test_a_launchd_that_refuses_is_told_with_its_words(home: Path) -> None:
    done = hearth(home, put_on_path(home, refuses=1), "install")
    assert done.returncode == 1
    assert "Bootstrap failed: 5" in done.stderr


def test_older_systems_are_asked_by_load_and_unload(home: Path) -> None:
    path = put_on_path(home, old=1)
    assert document(home, path, "install")["enabled"]
    assert f"load -w {plist(home)}" in calls(home)
    assert document(home, path, "uninstall")["removed"] == ["mcp.hearth.plist"]
    assert f"unload {plist(home)}" in calls(home)
    assert not plist(home).exists()


def test_without_a_login_at_the_screen_the_agent_is_written_and_the_command_said(home: Path) -> None:
    done = hearth(home, put_on_path(home, away=1), "install")
    assert done.returncode == 0, done.stderr
    assert plist(home).exists()
    assert "launchd was not asked: you are not logged in at this Mac's screen" in done.stdout
    assert f"launchctl bootstrap {DOMAIN} '{plist(home)}'" in done.stdout


def test_no_enable_writes_the_agent_and_leaves_it_unloaded(home: Path) -> None:
    found = document(home, put_on_path(home), "install", "--no-enable")
    assert (found["written"], found["enabled"]) == (["mcp.hearth.plist"], False)
    assert found["commands"] == [f"launchctl bootstrap {DOMAIN} '{plist(home)}'"]
    assert {call.split()[0] for call in calls(home)} == {"print"}


@pytest.mark.parametrize("verb", ["install", "uninstall"])
def test_a_dry_run_changes_nothing(home: Path, verb: str) -> None:
    path = put_on_path(home)
    if verb == "uninstall":
        hearth(home, path, "install")
    asked, before = len(calls(home)), sorted(home.rglob("*"))
    found = document(home, path, verb, "--dry-run")
    assert found["written"] + found["removed"] == ["mcp.hearth.plist"]
    assert sorted(home.rglob("*")) == before
    assert {call.split()[0] for call in calls(home)[asked:]} == {"print"}


def test_a_file_of_somebody_else_is_neither_overwritten_nor_removed(home: Path) -> None:
    path = put_on_path(home)
    plist(home).parent.mkdir(parents=True)
    plist(home).write_text("<plist/>")
    done = hearth(home, path, "install")
    assert (done.returncode, "was not written by Hearth" in done.stderr) == (1, True)
    assert document(home, path, "uninstall")["foreign"] == ["mcp.hearth.plist"]
    assert plist(home).read_text() == "<plist/>"
    assert {call.split()[0] for call in calls(home)} == {"print"}


def test_uninstall_takes_everything_away_and_again_finds_nothing(home: Path) -> None:
    path = put_on_path(home)
    hearth(home, path, "install")
    done = hearth(home, path, "uninstall")
    assert done.returncode == 0, done.stderr
    assert f"removed {plist(home)}" in done.stdout
    assert not plist(home).exists()
    assert Launchd(home).loaded == ""
    assert "Nothing is installed." in hearth(home, path, "uninstall").stdout


def test_a_home_with_so_long_a_path_that_the_socket_would_not_last_is_refused(home: Path) -> None:
    far = home / ("h" * 90)
    far.mkdir()
    done = hearth(far, put_on_path(home), "install")
    assert done.returncode == 1
    assert "could not bind it there" in done.stderr
    assert not plist(far).exists()


def test_status_says_who_would_light_it_and_wakes_nothing(home: Path) -> None:
    path = put_on_path(home)
    assert "The first bridge starts it" in hearth(home, path, "status").stdout
    hearth(home, path, "install")
    assert (
        "launchd holds the socket (mcp.hearth): the first connection lights it" in hearth(home, path, "status").stdout
    )
    launchd = Launchd(home)
    launchd.loaded = ""
    launchd.save()
    assert "installed but not loaded: `hearth install` loads it" in hearth(home, path, "status").stdout


def test_doctor_finds_what_is_wrong_with_the_agent(home: Path) -> None:
    def found() -> tuple[str, str, str]:
        said = json.loads(hearth(home, path, "doctor", "--json").stdout)["findings"]
        return next((each["id"], each["state"], each["message"]) for each in said if each["subject"] == "mcp.hearth")

    path = put_on_path(home, exit=78)
    assert found() == ("units.missing", "note", "mcp.hearth is not installed: the first bridge starts the daemon")
    hearth(home, path, "install")
    assert found() == (
        "socket.gone",
        "broken",
        f"mcp.hearth is loaded, but {socket_of(home)} is gone, so nobody can connect",
    )
    listen(home)
    assert found() == ("units.failed", "note", "mcp.hearth is loaded; it ended last with exit code 78")
    plist(home).write_text(plist(home).read_text().replace(sys.executable, "/gone/bin/python"))
    assert found() == ("units.interpreter", "broken", "mcp.hearth starts /gone/bin/python, which is not there")


def test_what_connects_a_client_names_no_place_of_linux(home: Path) -> None:
    entry = json.loads(hearth(home, put_on_path(home), "connect", "--print").stdout)["mcpServers"]["hearth"]
    assert entry["command"] == sys.executable
    assert entry["args"][:2] == ["-I", "-S"]


def test_doctor_looks_for_programs_on_the_path_that_launchd_gives_the_daemon(home: Path) -> None:
    path = put_on_path(home)
    tools = home / "tools"
    tools.mkdir()
    (tools / "mine").write_text("#!/bin/sh\n")
    (tools / "mine").chmod(0o755)
    config = home / "Library" / "Application Support" / "hearth" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[mcpServers.mine]\ncommand = "mine"\n')

    def found() -> dict[str, str]:
        said = json.loads(hearth(home, f"{path}:{tools}", "doctor", "--json").stdout)["findings"]
        return next(each for each in said if each["subject"] == "mine")

    # This shell finds it, and what was kept of another one does not.
    hearth(home, path, "install")
    assert (found()["state"], "hearth install" in found()["fix"]) == ("broken", True)
    hearth(home, f"{path}:{tools}", "install")
    assert found()["state"] == "ok"
