"""The file that says who the daemon is."""

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hearth import registry
from hearth.errors import FileAccessError
from hearth.host import processes
from hearth.host.locks import Lock
from hearth.paths import Places
from hearth.registry import RegistryEntry
from support.requirements import needs_root


def entry_of(pid: int) -> RegistryEntry:
    return RegistryEntry(
        daemon_id="d1",
        endpoint="/run/ü.sock",
        pid=pid,
        start_time=processes.start_time(pid) or 1,
        started_at=1700000000.25,
        version="1.0",
        protocol=1,
        config_hash="abc",
    )


def test_what_was_written_is_read(places: Places) -> None:
    entry = entry_of(os.getpid())
    registry.write(places, entry)
    assert registry.read(places) == entry
    registry.write(places, entry.replace(daemon_id="d2"))
    assert registry.read(places) == entry.replace(daemon_id="d2")


def test_the_file_has_the_documented_keys_and_is_private(places: Places) -> None:
    registry.write(places, entry_of(os.getpid()))
    assert set(json.loads(Path(places.registry).read_text())) == {
        *("daemonId", "endpoint", "pid", "startTime", "startedAt", "version", "protocol", "configHash")
    }
    assert os.stat(places.registry).st_mode & 0o777 == 0o600
    assert os.stat(places.folder).st_mode & 0o777 == 0o700
    assert os.listdir(places.folder) == ["daemon.json"]


def test_a_removed_entry_is_gone_and_removing_none_is_no_error(places: Places) -> None:
    registry.write(places, entry_of(os.getpid()))
    registry.remove(places)
    assert registry.read(places) is None
    registry.remove(places)


def test_looking_for_an_entry_makes_nothing(places: Places) -> None:
    assert registry.read(places) is None
    assert not os.path.exists(os.path.dirname(places.folder))


def test_a_half_written_entry_is_none(places: Places) -> None:
    registry.write(places, entry_of(os.getpid()))
    whole = Path(places.registry).read_bytes()
    for length in range(len(whole.rstrip()) - 1):
        Path(places.registry).write_bytes(whole[:length])
        assert registry.read(places) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("pid", 0), ("pid", -1), ("pid", 2**31), ("pid", True), ("pid", "7"), ("pid", 1.5), ("pid", None)),
        *(("daemonId", 3), ("startedAt", "now"), ("protocol", None)),
    ],
)
def test_an_entry_with_a_wrong_value_is_none(places: Places, key: str, value: object) -> None:
    registry.write(places, entry_of(os.getpid()))
    Path(places.registry).write_text(json.dumps({**json.loads(Path(places.registry).read_text()), key: value}))
    assert registry.read(places) is None


def test_keys_of_a_later_version_are_ignored(places: Places) -> None:
    registry.write(places, entry_of(os.getpid()))
    Path(places.registry).write_text(json.dumps({**json.loads(Path(places.registry).read_text()), "later": [1]}))
    assert registry.read(places) == entry_of(os.getpid())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.one_of(st.binary(max_size=100), st.just(b"[" * 100_000), st.just(b'{"pid": ' + b"9" * 5000 + b"}")))
def test_any_bytes_are_an_entry_or_none(places: Places, data: bytes) -> None:
    registry.prepare(places)
    Path(places.registry).write_bytes(data)
    assert registry.read(places) is None


def test_a_folder_in_place_of_the_entry_is_none_to_a_reader_and_a_sentence_to_a_writer(places: Places) -> None:
    os.makedirs(os.path.join(places.registry, "full"))
    assert registry.read(places) is None
    with pytest.raises(FileAccessError, match="a folder is where a file should be"):
        registry.write(places, entry_of(os.getpid()))
    assert os.listdir(places.folder) == ["daemon.json"]
    with pytest.raises(FileAccessError, match="cannot remove"):
        registry.remove(places)


def test_a_named_pipe_in_place_of_the_entry_holds_nobody(places: Places) -> None:
    registry.prepare(places)
    os.mkfifo(places.registry)
    assert registry.read(places) is None


def test_an_entry_that_somebody_else_wrote_is_none(places: Places) -> None:
    needs_root()
    registry.write(places, entry_of(os.getpid()))
    os.chown(places.registry, 65534, -1)
    assert registry.read(places) is None


def test_an_entry_lives_as_long_as_its_process(places: Places) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        entry = entry_of(child.pid)
        assert registry.is_alive(entry)
        child.communicate()
    assert not registry.is_alive(entry)


def test_a_reused_pid_is_not_the_daemon() -> None:
    entry = entry_of(os.getpid())
    assert registry.is_alive(entry)
    assert not registry.is_alive(entry.replace(start_time=entry.start_time + 1))


def test_folders_are_made_for_this_user_alone_whatever_the_umask(places: Places) -> None:
    before = os.umask(0)
    try:
        registry.prepare(places)
    finally:
        os.umask(before)
    for folder in places.private_folders():
        assert os.stat(folder).st_mode & 0o777 == 0o700


def test_a_folder_that_others_may_enter_is_closed_to_them(places: Places) -> None:
    os.makedirs(places.folder, 0o755)
    os.chmod(os.path.dirname(places.folder), 0o777)
    registry.prepare(places)
    for folder in places.private_folders():
        assert os.stat(folder).st_mode & 0o777 == 0o700


def test_a_link_to_elsewhere_is_refused(places: Places, tmp_path: Path) -> None:
    os.symlink(tmp_path, os.path.dirname(places.folder))
    with pytest.raises(FileAccessError, match="is a symbolic link, which is not followed here; remove the link"):
        registry.prepare(places)
    assert os.listdir(tmp_path) == []


def test_a_file_in_place_of_the_folder_is_one_sentence(places: Places) -> None:
    Path(os.path.dirname(places.folder)).touch()
    with pytest.raises(FileAccessError, match="should be a folder and is a file; move it away"):
        registry.prepare(places)
    with pytest.raises(FileAccessError, match="a part of the path is a file"):
        Lock(places.daemon_lock).acquire()


@pytest.mark.root
@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder to somebody else")
def test_a_folder_of_another_user_is_refused(places: Places) -> None:
    os.mkdir(os.path.dirname(places.folder), 0o700)
    os.chown(os.path.dirname(places.folder), 12345, 12345)
    with pytest.raises(FileAccessError, match="belongs to user 12345, not to you"):
        registry.prepare(places)


@pytest.mark.root
@pytest.mark.skipif(os.getuid() != 0, reason="only root can mount")
@pytest.mark.parametrize(
    ("options", "reason"), [("ro", "the file system is read-only"), ("size=4k,nr_inodes=2", "the disk is full")]
)
def test_what_the_system_refuses_is_one_sentence(options: str, reason: str) -> None:
    script = (
        "import os, sys\n"
        "from hearth import registry; from hearth.paths import Places; from hearth.errors import FileAccessError\n"
        "try: registry.prepare(Places()); print('made')\n"
        "except FileAccessError as exc: print(exc)\n"
    )
    with TemporaryDirectory(dir="/tmp") as folder:
        command = f'mount -t tmpfs -o {options} none {folder} && exec {sys.executable} -c "$0"'
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-c", command, script],
            env={**os.environ, "XDG_RUNTIME_DIR": folder},
            capture_output=True,
            text=True,
            check=False,
        )
    assert reason in done.stdout, done.stderr
