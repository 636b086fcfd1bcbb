"""What is said of folders, by their owner and mode."""

import os
import stat
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from hearth.cli import folder_checks
from hearth.cli.folder_checks import foreign_variable, unfitness
from hearth.paths import Places

ME, OTHER = 1000, 1001

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="owners and modes are POSIX's")


def folder(kind: int, mode: int, owner: int) -> os.stat_result:
    return os.stat_result((kind | mode, 0, 0, 1, owner, owner, 0, 0, 0, 0))


def test_a_private_folder_of_mine_is_fit() -> None:
    assert unfitness("/r", folder(stat.S_IFDIR, 0o700, ME), ME) is None


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (folder(stat.S_IFLNK, 0o777, ME), "symbolic link"),
        (folder(stat.S_IFREG, 0o600, ME), "not a folder"),
        (folder(stat.S_IFDIR, 0o700, OTHER), "belongs to user 1001"),
        (folder(stat.S_IFDIR, 0o777, ME), "mode 0777"),
    ],
)
def test_a_folder_that_the_daemon_would_refuse_is_broken(found: os.stat_result, words: str) -> None:
    finding = unfitness("/r", found, ME)
    assert finding and finding.state == "broken" and finding.fix
    assert words in finding.message


@pytest.mark.parametrize(("writable", "state"), [(False, "broken"), (True, "note")])
def test_a_variable_left_from_another_login_is_named(writable: bool, state: str) -> None:
    finding = foreign_variable("/run/user/1001", OTHER, ME, writable)
    assert finding and finding.state == state
    assert "XDG_RUNTIME_DIR points to somebody else's folder" in finding.message


def test_a_variable_of_mine_is_not_mentioned() -> None:
    assert foreign_variable("/run/user/1000", ME, ME, True) is None


@pytest.mark.parametrize(("free", "state"), [(0, "broken"), (folder_checks.LEAST_FREE_BYTES, "ok")])
def test_a_full_disk_is_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, state: str) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=free))
    (found,) = folder_checks.check_state(Places())
    assert found.state == state
