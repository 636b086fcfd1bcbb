"""Starting where something is in the way: each case ends in a start or in one clear sentence."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from support.daemon import COMMAND, Daemon, Scratch
from support.kernel import is_gone, pids_at_home, until
from support.mounts import read_only_mount


def stale_entry(scratch: Scratch, pid: int, start_time: int) -> None:
    scratch.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    entry = {
        "daemonId": "former", "endpoint": scratch.socket, "pid": pid, "startTime": start_time, "startedAt": 1.0,
        "version": "0.0.1", "protocol": 1, "configHash": "",
    }  # fmt: skip
    scratch.registry.write_text(json.dumps(entry))


def dead_pid() -> int:
    child = subprocess.Popen([sys.executable, "-I", "-S", "-c", ""])
    child.wait()
    return child.pid


def bound_socket(path: str, backlog: int | None) -> socket.socket:
    Path(path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.bind(path)
    if backlog is not None:
        sock.listen(backlog)
    return sock


def assert_serves(scratch: Scratch) -> None:
    with scratch.lines() as client:
        assert client.ask("ping")["result"] == {}


def test_a_daemon_that_starts_while_another_runs_exits_with_3_and_names_it(scratch: Scratch) -> None:
    first = scratch.start()
    second = scratch.attempt()
    assert second.wait() == 3
    assert second.said.startswith("running ")
    assert f"pid {first.pid}" in second.said
    assert scratch.socket in second.said
    assert f"pid {first.pid}" in second.stderr() and "`hearth stop` first" in second.stderr()
    assert_serves(scratch)


def test_a_daemon_that_was_refused_leaves_socket_and_registry_of_the_other_alone(scratch: Scratch) -> None:
    first = scratch.start()
    before = scratch.registry.read_bytes(), os.lstat(scratch.socket).st_ino
    scratch.attempt().wait()
    assert (scratch.registry.read_bytes(), os.lstat(scratch.socket).st_ino) == before
    assert not is_gone(first.pid)


def test_two_profiles_run_side_by_side(scratch: Scratch) -> None:
    scratch.start()
    scratch.start("--profile", "other")
    assert (scratch.runtime / "mcp" / "other.sock").is_socket()
    assert_serves(scratch)


def test_the_registry_of_a_dead_daemon_is_replaced(scratch: Scratch) -> None:
    stale_entry(scratch, dead_pid(), 1)
    daemon = scratch.start()
    assert json.loads(scratch.registry.read_text())["daemonId"] == scratch.status()["daemonId"] != "former"
    assert daemon.pid == scratch.status()["pid"]


def test_a_registry_entry_whose_pid_belongs_to_a_stranger_is_replaced(scratch: Scratch) -> None:
    # Alive, but started at another time than the entry says: the pid was given to somebody else.
    stale_entry(scratch, os.getpid(), 1)
    scratch.start()
    assert scratch.status()["daemonId"] != "former"


def test_a_registry_of_garbage_is_replaced(scratch: Scratch) -> None:
    scratch.folder.mkdir(parents=True, mode=0o700)
    scratch.registry.write_bytes(b"\xff{not json")
    scratch.start()
    assert scratch.status()["pid"] == json.loads(scratch.registry.read_text())["pid"]


def test_a_socket_file_that_nobody_listens_on_is_replaced(scratch: Scratch) -> None:
    bound_socket(scratch.socket, None).close()
    scratch.start()
    assert_serves(scratch)


def test_a_daemon_killed_with_9_leaves_nothing_that_stops_the_next(scratch: Scratch) -> None:
    first = scratch.start()
    os.kill(first.pid, 9)
    assert first.wait() == 128 + 9
    assert Path(scratch.socket).exists()
    scratch.start()
    assert_serves(scratch)


def test_a_directory_in_the_socket_s_place_is_one_clear_sentence(scratch: Scratch) -> None:
    Path(scratch.socket).mkdir(parents=True, mode=0o700)
    daemon = scratch.attempt()
    assert daemon.wait() == 1
    assert scratch.socket in daemon.said
    assert "should be a socket and is a folder; move it away" in daemon.said
    assert daemon.said.count("\n") == 1
    assert not scratch.registry.exists()


def test_somebody_else_s_listening_socket_is_not_taken_away(scratch: Scratch) -> None:
    with bound_socket(scratch.socket, 5):
        inode = os.lstat(scratch.socket).st_ino
        daemon = scratch.attempt()
        assert daemon.wait() == 3
        assert daemon.said.startswith("running something listens on")
        assert os.lstat(scratch.socket).st_ino == inode


def test_a_full_accept_queue_is_not_taken_for_a_stale_socket(scratch: Scratch) -> None:
    with bound_socket(scratch.socket, 0), socket.socket(socket.AF_UNIX) as queued:
        # Backlog 0 holds one connection; the next connect gives EAGAIN.
        queued.connect(scratch.socket)
        with socket.socket(socket.AF_UNIX) as probe, pytest.raises(BlockingIOError):
            probe.setblocking(False)
            probe.connect(scratch.socket)
        daemon = scratch.attempt()
        assert daemon.wait() == 3
        assert "something listens on" in daemon.said


def test_a_runtime_path_beyond_the_kernel_s_limit_is_served_under_a_short_stand_in(scratch: Scratch) -> None:
    deep = scratch.home / ("d" * 60) / ("e" * 60)
    deep.mkdir(parents=True)
    scratch.runtime = deep
    scratch.registry = deep / "mcp" / "mcp" / "daemon.json"
    scratch.start()
    scratch.socket = json.loads(scratch.registry.read_text())["endpoint"]
    assert len(scratch.socket) <= 107
    assert os.lstat(Path(scratch.socket).parent).st_mode & 0o777 == 0o700
    assert_serves(scratch)


@pytest.mark.parametrize("profile", ["a", "a-name-of-some-length"])
def test_a_socket_path_of_exactly_the_limit_is_used_as_it_is(scratch: Scratch, profile: str) -> None:
    room = 107 - len(f"/mcp/{profile}.sock") - len(str(scratch.home)) - 1
    scratch.runtime = scratch.home / ("d" * room)
    scratch.runtime.mkdir()
    scratch.start("--profile", profile)
    scratch.socket = f"{scratch.runtime}/mcp/{profile}.sock"
    assert len(scratch.socket) == 107
    assert_serves(scratch)


def test_a_profile_name_that_is_none_is_refused_in_one_sentence(scratch: Scratch) -> None:
    daemon = scratch.attempt("--profile", "../other")
    assert daemon.wait() == 2
    assert daemon.stderr().count("\n") == 1
    assert "'../other' is not a profile name" in daemon.stderr()


def test_a_config_that_was_named_and_is_not_there_reaches_the_client_as_the_reason(scratch: Scratch) -> None:
    missing = scratch.home / "none.json"
    scratch.start("--config", str(missing))
    socket_path = next((scratch.runtime / "mcp").glob("*.sock"))
    scratch.socket = str(socket_path)
    with scratch.lines() as client:
        assert str(missing) in client.ask("ping")["error"]["message"]


def test_a_read_only_runtime_folder_is_one_clear_sentence(scratch: Scratch) -> None:
    command = (*read_only_mount(), str(scratch.runtime), sys.executable, "-I", "-m", "hearth.daemon")
    daemon = scratch.attempt(command=command)
    assert daemon.wait() == 1
    assert "the file system is read-only" in daemon.said
    assert str(scratch.runtime) in daemon.said
    assert daemon.said.count("\n") == 1
    assert not any(scratch.runtime.iterdir())


def test_a_runtime_folder_that_others_may_enter_is_closed_to_them(scratch: Scratch) -> None:
    Path(scratch.socket).parent.mkdir(mode=0o755)
    scratch.start()
    assert os.lstat(Path(scratch.socket).parent).st_mode & 0o777 == 0o700
    assert os.lstat(scratch.socket).st_mode & 0o777 == 0o600
    assert os.lstat(scratch.registry).st_mode & 0o777 == 0o600


def test_a_detached_daemon_has_a_session_of_its_own_and_holds_nothing_of_its_starter(scratch: Scratch) -> None:
    reading, writing = os.pipe()
    daemon = scratch.start("--detach", fds=(writing,))
    os.close(writing)
    pid = daemon.pid
    # The starter's process is gone, and the pipe that it let through by mistake has no writer left.
    assert daemon.wait() == 0
    assert os.read(reading, 1) == b""
    os.close(reading)
    assert os.getsid(pid) != os.getsid(0)
    assert os.readlink(f"/proc/{pid}/cwd") == str(scratch.home)
    end_detached(scratch)


def end_detached(scratch: Scratch) -> None:
    scratch.control().control("shutdown")
    until(lambda: not pids_at_home(str(scratch.home)), "the detached daemon has gone")


@pytest.mark.parametrize("mask", ["0002", "0000"])
def test_a_detached_daemon_keeps_the_mask_for_its_servers_and_its_own_files_private(
    scratch: Scratch, mask: str
) -> None:
    daemon = scratch.start("--detach", command=("sh", "-c", f'umask {mask}; exec "$@"', "sh", *COMMAND))
    assert f"Umask:\t{mask}\n" in Path(f"/proc/{daemon.pid}/status").read_text()
    files = [Path(scratch.socket), scratch.log, *scratch.folder.iterdir()]
    assert len(files) > 3
    assert {path: oct(path.lstat().st_mode & 0o777) for path in files} == dict.fromkeys(files, "0o600")
    folders = (scratch.folder, scratch.folder.parent, scratch.log.parent)
    assert {oct(path.lstat().st_mode & 0o777) for path in folders} == {"0o700"}
    end_detached(scratch)


def start_below_a_manager(scratch: Scratch, manager: socket.socket, *arguments: str) -> Daemon:
    manager.bind(str(scratch.home / "notify"))
    manager.setblocking(False)
    return scratch.start(*arguments, NOTIFY_SOCKET=str(scratch.home / "notify"), WATCHDOG_USEC="20000")


def test_a_detached_daemon_has_nothing_to_say_to_the_service_manager_of_its_starter(scratch: Scratch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        start_below_a_manager(scratch, manager, "--detach")
        end_detached(scratch)
        with pytest.raises(BlockingIOError):
            manager.recv(4096)


def test_a_daemon_that_is_a_service_without_a_socket_unit_says_that_it_is_ready(scratch: Scratch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        start_below_a_manager(scratch, manager)
        # Said before the ready pipe was written.
        assert manager.recv(4096).startswith(b"READY=1\n")
