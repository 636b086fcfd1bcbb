"""Lines in files: private, bounded, and never at the cost of whoever says them."""

import errno
import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hearth.host import line_files
from hearth.host.line_files import LineFiles


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "logs" / "servers" / "mcp"


@pytest.fixture
def files(folder: Path) -> Iterator[LineFiles]:
    made = LineFiles()
    made.keep_in(lambda name: str(folder / f"{name}.log"))
    yield made
    made.close()


def test_lines_of_several_writers_are_whole_and_in_one_private_file(files: LineFiles, folder: Path) -> None:
    threads = [
        threading.Thread(target=lambda mark=mark: [files.append("it", [f"{mark} {i}"]) for i in range(200)])
        for mark in "abc"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    files.close()
    lines = (folder / "it.log").read_text().splitlines()
    for mark in "abc":
        assert [line for line in lines if line[0] == mark] == [f"{mark} {i}" for i in range(200)]
    assert stat.S_IMODE((folder / "it.log").stat().st_mode) == 0o600
    assert {stat.S_IMODE(path.stat().st_mode) for path in (folder, folder.parent)} == {0o700}


def test_nothing_is_kept_before_it_is_said_where_and_after_the_end(folder: Path) -> None:
    files = LineFiles()
    files.append("it", ["lost"])
    files.keep_in(lambda name: str(folder / name))
    files.close()
    files.append("it", ["lost"])
    assert not folder.exists()


def test_a_file_is_rotated_before_it_is_too_large(
    files: LineFiles, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_files, "FILE_BYTES", 1000)
    for number in range(300):
        line_files._append(str(folder / "it.log"), b"%d %s\n" % (number, b"x" * 40))
    sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
    assert set(sizes) == {"it.log", "it.log.1"}
    assert max(sizes.values()) <= 1000
    kept = (folder / "it.log.1").read_text() + (folder / "it.log").read_text()
    numbers = [int(line.split()[0]) for line in kept.splitlines()]
    assert numbers == list(range(numbers[0], 300))


def test_two_processes_that_keep_lines_in_one_file_rotate_it_in_turn(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_files, "FILE_BYTES", 1000)
    # Each opens the file for itself, as another process does.
    threads = [
        threading.Thread(
            target=lambda mark=mark: [
                line_files._append(str(folder / "it.log"), b"%s %d %s\n" % (mark, i, b"x" * 40)) for i in range(500)
            ]
        )
        for mark in (b"a", b"b")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    former = (folder / "it.log.1").read_text()
    # Put aside twice at once, it would be the new file with a line or none.
    assert 900 < len(former) <= 1000
    kept = [line.split() for line in (former + (folder / "it.log").read_text()).splitlines()]
    assert all(len(words) == 3 for words in kept)
    for mark in ("a", "b"):
        numbers = [int(words[1]) for words in kept if words[0] == mark]
        assert numbers == [number + index for index, number in enumerate(numbers[:1] * len(numbers))]


def test_a_torn_line_is_ended_before_the_next(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "it.log").write_bytes(b"whole\nto")
    line_files._append(str(folder / "it.log"), b"next\n")
    assert (folder / "it.log").read_bytes() == b"whole\nto\nnext\n"


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT])
def test_a_disk_that_refuses_is_told_of_once_and_tried_again_later(
    files: LineFiles, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, code: int
) -> None:
    tries = []

    def refuse(path: str, flags: int, mode: int = 0o777) -> int:
        tries.append(path)
        raise OSError(code, os.strerror(code), path)

    with monkeypatch.context() as patched:
        patched.setattr(line_files.os, "open", refuse)
        for _ in range(5):
            files._write("it", str(folder / "it.log"), ["lost"])
    assert len(tries) == 1
    assert [record.message for record in caplog.records] == [
        f"lines are not kept: {folder / 'it.log'}: {os.strerror(code)}"
    ]
    files._failed["it"] = 0.0
    files._write("it", str(folder / "it.log"), ["kept"])
    assert (folder / "it.log").read_text() == "kept\n"


def test_what_is_in_the_way_is_neither_followed_nor_waited_for(files: LineFiles, folder: Path, tmp_path: Path) -> None:
    folder.mkdir(parents=True, mode=0o700)
    (folder / "link.log").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(folder / "pipe.log")
    (folder / "folder.log").mkdir()
    for name in ("link", "pipe", "folder", "fine"):
        files.append(name, ["line"])
    files.close()
    assert not (tmp_path / "elsewhere").exists()
    assert (folder / "fine.log").read_text() == "line\n"


def test_a_disk_that_hangs_holds_neither_the_writer_nor_the_end(
    files: LineFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_files, "CLOSE_SECONDS", 0.01)
    monkeypatch.setattr(line_files, "QUEUE_BYTES", 100)
    hanging, released, written = threading.Event(), threading.Event(), []

    def hang(path: str, data: bytes) -> None:
        hanging.set()
        released.wait(20)
        written.append(data.decode())

    monkeypatch.setattr(line_files, "_append", hang)
    files.append("it", ["first"])
    assert hanging.wait(20)
    for number in range(100):
        files.append("it", [f"line {number}"])
    thread = files._thread
    files.close()
    released.set()
    assert thread is not None
    thread.join(20)
    assert not thread.is_alive()
    assert "lines were left out: the disk was too slow" in written[-1]
    assert len("".join(written)) < 1000
