"""The socket's file: its mode, its group, what is in its place, and the registry entry of a daemon that was killed."""

import grp
import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from process.test_daemon_unauthenticated import KNOCK
from support.daemon import Scratch
from support.kernel import BOUND_SECONDS
from support.other_users import as_stranger, python, stranger
from support.scripted_daemon import BridgeProcess


def mode_of(path: Path | str) -> int:
    return os.lstat(path).st_mode & 0o777


def knock(scratch: Scratch, *groups: int) -> "subprocess.CompletedProcess[bytes]":
    """Ask for a ping as the second user, who has these supplementary groups."""
    command = as_stranger(python(), "-c", KNOCK, scratch.socket, groups=groups)
    return subprocess.run(command, capture_output=True, timeout=BOUND_SECONDS, check=False, cwd="/")


# --- modes and groups


@pytest.mark.root
def test_a_socket_that_is_open_to_a_group_lets_its_members_in_by_a_supplementary_group(scratch: Scratch) -> None:
    stranger()
    # A group of root's, which the second user is not in otherwise.
    group = grp.getgrnam("adm").gr_gid
    scratch.home.chmod(0o755)
    scratch.runtime.chmod(0o755)
    scratch.serve(socket_mode="0660", allowed_gids=[group])
    folder = Path(scratch.socket).parent
    assert (mode_of(scratch.socket), mode_of(folder), mode_of(scratch.folder)) == (0o660, 0o710, 0o700)
    assert (os.stat(scratch.socket).st_gid, os.stat(folder).st_gid) == (group, group)
    assert json.loads(knock(scratch, group).stdout)["result"] == {}
    assert b"PermissionError" in knock(scratch).stderr
    doctor = scratch.hearth("doctor", "--json").stdout
    assert "socket.open" not in doctor and "folders.open" not in doctor


@pytest.mark.root
def test_a_member_of_a_group_that_is_not_allowed_is_refused(scratch: Scratch) -> None:
    user = stranger()
    scratch.home.chmod(0o755)
    scratch.runtime.chmod(0o755)
    group = grp.getgrnam("adm").gr_gid
    scratch.serve(socket_mode="0660", allowed_gids=[group])
    scratch.configure(socket_mode="0660", allowed_gids=[])
    assert scratch.hearth("reload").returncode == 0
    answer = json.loads(knock(scratch, group).stdout)
    assert f"uid {user.pw_uid} may not use the daemon" in answer["error"]["message"]


def test_a_reload_leaves_the_modes_as_they_are(scratch: Scratch) -> None:
    scratch.serve(socket_mode="0660")
    folder = Path(scratch.socket).parent
    folder.chmod(0o711)
    scratch.configure(socket_mode="0600")
    assert scratch.hearth("reload").returncode == 0
    assert (mode_of(scratch.socket), mode_of(folder)) == (0o660, 0o711)


def test_without_the_setting_the_next_start_closes_what_was_open(scratch: Scratch) -> None:
    scratch.configure(socket_mode="0660")
    scratch.start().stop()
    scratch.serve()
    assert (mode_of(scratch.socket), mode_of(Path(scratch.socket).parent)) == (0o600, 0o700)


# --- what is in the socket's place


def test_a_file_in_the_place_of_the_socket_is_never_replaced(scratch: Scratch) -> None:
    path = Path(scratch.socket)
    path.parent.mkdir(mode=0o700)
    path.write_text("mine")
    daemon = scratch.attempt()
    assert f"{path} should be a socket and is a file; move it away" in daemon.said + daemon.stderr()
    assert path.read_text() == "mine"


def test_a_file_under_the_temporary_name_is_never_removed(scratch: Scratch) -> None:
    path = Path(scratch.socket[:-1] + "~")
    path.parent.mkdir(mode=0o700)
    path.write_text("mine")
    scratch.attempt()
    assert path.read_text() == "mine"


# --- the registry entry of a daemon that was killed


def left_over(scratch: Scratch) -> None:
    """Leave the entry of a daemon that was killed."""
    daemon = scratch.start()
    os.kill(daemon.pid, signal.SIGKILL)
    daemon.wait()
    assert scratch.registry.exists()


@pytest.mark.parametrize("words", [("status",), ("doctor",)])
def test_the_command_line_removes_the_entry_of_a_daemon_that_is_gone(scratch: Scratch, words: tuple[str, ...]) -> None:
    left_over(scratch)
    scratch.hearth(*words)
    assert not scratch.registry.exists()


def test_the_bridge_removes_the_entry_of_a_daemon_that_is_gone(scratch: Scratch) -> None:
    left_over(scratch)
    assert scratch.own(BridgeProcess(scratch.home, "--no-start", environment=scratch.environment())).wait() == 1
    assert not scratch.registry.exists()


def test_an_entry_is_left_while_its_lock_is_held(scratch: Scratch) -> None:
    """A daemon that is about to write its entry has the lock, whatever the old entry says."""
    scratch.start()
    entry = json.loads(scratch.registry.read_text())
    scratch.registry.write_text(json.dumps({**entry, "pid": 2**22, "startTime": 1}))
    scratch.hearth("status")
    assert scratch.registry.exists()
