"""What is said of folders and their file systems, by owner, mode and what is left."""

import os
import stat
import sys

import pytest

from hearth.doctor.environment import foreign_variable
from hearth.doctor.installation import Folder, FolderFacts, Room, judge_folders, tightness, unfitness

ME, OTHER = 1000, 1001
PLENTY = Room("/r", False, 1 << 30, 1 << 20)

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="owners and modes are POSIX's")


def folder(kind: int, mode: int, owner: int, path: str = "/r") -> Folder:
    return Folder(path, os.stat_result((kind | mode, 0, 0, 1, owner, owner, 0, 0, 0, 0)), path, True, True)


MINE = folder(stat.S_IFDIR, 0o700, ME)


def test_a_private_folder_of_mine_is_fit() -> None:
    assert unfitness(MINE, ME) is None


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (folder(stat.S_IFLNK, 0o777, ME), "symbolic link"),
        (folder(stat.S_IFREG, 0o600, ME), "not a folder"),
        (folder(stat.S_IFDIR, 0o700, OTHER), "belongs to user 1001"),
        (folder(stat.S_IFDIR, 0o777, ME), "mode 0777"),
    ],
)
def test_a_folder_that_the_daemon_would_refuse_is_broken(found: Folder, words: str) -> None:
    finding = unfitness(found, ME)
    assert finding and finding.state == "broken" and finding.fix
    assert words in finding.message


def test_only_a_folder_that_is_open_is_mended_without_a_person() -> None:
    found = [unfitness(folder(kind, 0o777, ME), ME) for kind in (stat.S_IFDIR, stat.S_IFLNK, stat.S_IFREG)]
    assert [finding and finding.request is not None for finding in found] == [True, False, False]


@pytest.mark.parametrize(("writable", "state"), [(False, "broken"), (True, "note")])
def test_a_variable_left_from_another_login_is_named(writable: bool, state: str) -> None:
    finding = foreign_variable("/run/user/1001", OTHER, ME, writable)
    assert finding.state == state
    assert "XDG_RUNTIME_DIR points to somebody else's folder" in finding.message


@pytest.mark.parametrize(
    ("room", "check"),
    [
        (PLENTY, None),
        (PLENTY._replace(free_files=None), None),
        (PLENTY._replace(free_bytes=0), "folders.full"),
        (PLENTY._replace(free_files=0), "folders.inodes"),
        (PLENTY._replace(read_only=True, free_bytes=0), "folders.read_only"),
    ],
)
def test_a_file_system_that_takes_no_more_is_broken(room: Room, check: str | None) -> None:
    finding = tightness(room)
    assert (finding and finding.id) == check


def test_one_cause_is_told_once() -> None:
    outer, inner = folder(stat.S_IFDIR, 0o755, ME, "/r"), folder(stat.S_IFDIR, 0o755, ME, "/r/inner")
    found = judge_folders(FolderFacts([outer, inner], MINE, [PLENTY], ME))
    assert [(finding.id, finding.subject) for finding in found] == [("folders.open", "/r")]
    full = PLENTY._replace(free_bytes=0)
    assert [finding.id for finding in judge_folders(FolderFacts([MINE], MINE, [full, full], ME))] == ["folders.full"]
