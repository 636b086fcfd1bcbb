"""Sessions in files: what one daemon kept the next one reads, whatever has become of the files meanwhile."""

import errno
import os
import stat
import time
from pathlib import Path

import pytest

from hearth.daemon.http import session_store
from hearth.daemon.http.session_store import ClientIdentity, SessionJournal, SessionRecord, SessionStore
from hearth.host import private_files

TTL = 100.0
WHO = ClientIdentity(1000, "lead", "a-1", "git", "search")
OPENING = {"initialize": b'{"jsonrpc":"2.0","id":1,"method":"initialize"}'}


class Clock:
    """Seconds since 1970."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "sessions" / "mcp"


def daemon(folder: Path, clock: Clock | None = None) -> SessionStore:
    return SessionStore(str(folder), TTL, clock) if clock else SessionStore(str(folder), TTL)


def files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.exists() else []


def test_what_one_daemon_keeps_the_next_one_reads(folder: Path) -> None:
    record = SessionRecord(WHO, {**OPENING, "subscribe:é": '{"uri":"é"}'.encode()}, (b'{"uri":"file:///x"}',))
    daemon(folder).write("secret", record)
    assert daemon(folder).read("secret") == record
    assert daemon(folder).read("other") is None


def test_the_id_is_not_in_the_file_nor_in_its_name_and_nobody_else_may_read_it(folder: Path) -> None:
    daemon(folder).write("secret", SessionRecord(WHO, OPENING))
    [file] = files(folder)
    assert "secret" not in file.name and b"secret" not in file.read_bytes()
    assert (stat.S_IMODE(file.stat().st_mode), stat.S_IMODE(folder.stat().st_mode)) == (0o600, 0o700)


def test_a_session_that_is_over_is_gone_for_every_daemon(folder: Path) -> None:
    first = daemon(folder)
    first.write("a", SessionRecord(WHO, OPENING))
    first.remove("a")
    assert files(folder) == [] and first.read("a") is None and daemon(folder).read("a") is None


def test_its_time_runs_on_from_daemon_to_daemon(folder: Path) -> None:
    clock = Clock()
    first = daemon(folder, clock)
    first.write("a", SessionRecord(WHO, OPENING))
    clock.now += 1
    first.touch("a", clock.now)
    clock.now += TTL - 1
    assert daemon(folder, clock).read("a") is not None
    clock.now += 1
    assert daemon(folder, clock).read("a") is None
    assert files(folder) == []


def test_one_that_is_used_lives_longer_and_never_goes_back_in_time(folder: Path) -> None:
    clock = Clock()
    first = daemon(folder, clock)
    first.write("a", SessionRecord(WHO, OPENING))
    first.touch("a", clock.now + 50)
    first.touch("a", clock.now + 20)
    clock.now += TTL + 49
    assert daemon(folder, clock).read("a") is not None
    first.sweep()
    assert len(files(folder)) == 1
    clock.now += 1
    first.sweep()
    assert files(folder) == []


@pytest.mark.parametrize(
    "content",
    [
        b"\x00\xff\xfe",
        b"{",
        b"[]",
        b'{"version":1,"who":[1000],"lines":{"initialize":"{}"}',
        b'{"version":2,"who":[1000,null,null,null,null],"lines":{},"roots":null}',
        b'{"version":1,"who":["root",null,null,null,null],"lines":{},"roots":null}',
        b'{"version":1,"who":[0,null,null,null,null],"lines":{"a":7},"roots":null}',
        b"[" * 100_000,
        b" " * (session_store.SIZE_LIMIT_BYTES + 1),
    ],
)
def test_garbage_is_thrown_away_and_said_so(folder: Path, content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    daemon(folder).write("a", SessionRecord(WHO, OPENING))
    [file] = files(folder)
    file.write_bytes(content)
    assert daemon(folder).read("a") is None
    assert not file.exists()
    assert "is thrown away" in caplog.text


def test_sessions_that_were_only_opened_make_room_before_one_in_use(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(session_store, "SESSIONS_LIMIT", 20)
    sessions = daemon(folder)
    sessions.write("mine", SessionRecord(WHO, OPENING))
    sessions.use("mine")
    for number in range(60):
        sessions.write(f"flood {number}", SessionRecord(WHO, OPENING))
    assert daemon(folder).read("mine") is not None
    assert len(files(folder)) <= 20 and daemon(folder).read("flood 59") is not None
    assert "sessions over HTTP are over" in caplog.text


def test_one_in_use_that_had_to_make_room_is_in_use_when_it_is_kept_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_store, "SESSIONS_LIMIT", 20)
    sessions = daemon(folder)
    book = SessionJournal(sessions, "mine", SessionRecord(WHO, {}))
    book.keep("initialize", OPENING["initialize"])
    book.use()
    sessions.remove("mine")
    book.keep("setLevel", b"{}")
    for number in range(60):
        sessions.write(f"flood {number}", SessionRecord(WHO, OPENING))
    assert daemon(folder).read("mine") is not None


def test_half_a_file_is_swept_unless_somebody_may_be_writing_it(folder: Path) -> None:
    daemon(folder).write("a", SessionRecord(WHO, OPENING))
    [file] = files(folder)
    half, fresh = folder / f"{file.name}.4711", folder / f"{file.name}.4712"
    for each in (half, fresh):
        each.write_bytes(b'{"version"')
    os.utime(half, (1e9, 1e9))
    (folder / "notes").write_text("somebody else's")
    daemon(folder).sweep()
    assert [each.name for each in files(folder)] == sorted([file.name, fresh.name, "notes"])


def test_a_file_that_was_removed_is_a_session_that_is_over(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    first = daemon(folder)
    first.write("a", SessionRecord(WHO, OPENING))
    files(folder)[0].unlink()
    assert first.read("a") is None and caplog.text == ""


def test_those_that_were_used_longest_ago_make_room(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_store, "SESSIONS_LIMIT", 10)
    first = daemon(folder)
    ids = [f"id-{number}" for number in range(10)]
    for age, id in enumerate(ids):
        first.write(id, SessionRecord(WHO, OPENING))
        moment = time.time() - 50 + age
        os.utime(max(files(folder), key=lambda file: file.stat().st_ctime_ns), (moment, moment))
    first.touch(ids[0], time.time())
    first.write("new", SessionRecord(WHO, OPENING))
    assert first.read(ids[0]) and first.read(ids[-1]) and first.read("new")
    assert first.read(ids[1]) is None
    assert len(files(folder)) == 10
    for number in range(20):
        first.write(f"more-{number}", SessionRecord(WHO, OPENING))
        assert first.read(f"more-{number}") and len(files(folder)) <= 10


def test_what_another_process_has_used_meanwhile_is_not_over(folder: Path) -> None:
    clock = Clock()
    clock.now = time.time()
    one, other = daemon(folder, clock), daemon(folder, clock)
    for id in "ab":
        one.write(id, SessionRecord(WHO, OPENING))
    other.sweep()
    one.write("c", SessionRecord(WHO, OPENING))
    clock.now += TTL - 1
    one.touch("a", clock.now)
    clock.now += 2
    other.sweep()
    assert other.read("a") == SessionRecord(WHO, OPENING)
    assert other.read("b") is None and other.read("c") is None
    assert len(files(folder)) == 1


def test_one_with_too_much_to_keep_is_not_kept_at_all(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    first = daemon(folder)
    book = SessionJournal(first, "a", SessionRecord(WHO, {}))
    book.keep("initialize", OPENING["initialize"])
    assert len(files(folder)) == 1
    book.keep("subscribe:x", b"x" * session_store.SIZE_LIMIT_BYTES)
    # What was there would be less than its client relies on.
    assert files(folder) == [] and caplog.text.count("end with the daemon") == 1
    book.drop("subscribe:x")
    assert first.read("a") == SessionRecord(WHO, OPENING)


def test_a_disk_that_is_full_costs_the_session_only_and_is_said_once(
    folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = daemon(folder)
    first.write("a", SessionRecord(WHO, OPENING))

    def full(path: str, data: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    monkeypatch.setattr(private_files, "write", full)
    for id in "ab":
        first.write(id, SessionRecord(WHO, {**OPENING, "logLevel": b"{}"}))
        first.touch(id, 2e9)
    assert files(folder) == []
    assert caplog.text.count("No space left") == 1


def test_a_folder_that_cannot_be_made_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "sessions").write_text("a file is in the way")
    first = daemon(tmp_path / "sessions" / "mcp")
    for id in "ab":
        first.write(id, SessionRecord(WHO, OPENING))
        assert first.read(id) is None
    assert caplog.text.count("sessions over HTTP cannot be") == 1


def test_a_book_writes_what_is_new_only(folder: Path) -> None:
    book = SessionJournal(daemon(folder), "a", SessionRecord(WHO, {}))
    book.keep("initialize", OPENING["initialize"])
    [file] = files(folder)
    written = file.stat().st_ino
    book.keep("initialize", OPENING["initialize"])
    book.drop("subscribe:x")
    book.note(2e9, None)
    assert (file.stat().st_ino, file.stat().st_mtime) == (written, 2e9)
    book.note(2e9, (b"{}",))
    assert daemon(folder).read("a") == SessionRecord(WHO, OPENING, (b"{}",))


def test_one_that_was_never_opened_leaves_nothing(folder: Path) -> None:
    book = SessionJournal(daemon(folder), "a", SessionRecord(WHO, {}))
    book.note(2e9, (b"{}",))
    book.end()
    assert files(folder) == []
