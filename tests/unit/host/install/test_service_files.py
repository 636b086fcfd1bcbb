"""Files for a service manager: each is put in place whole, whoever else writes it at the moment."""

import os
import stat
from pathlib import Path

import pytest

from hearth.errors import FileAccessError
from hearth.host.install import service_files

NAME = "mcp.service"


def test_two_that_write_at_the_same_moment_do_not_write_into_each_other_s_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    half_written = []
    original = os.chmod

    def interrupted(temporary: str, mode: int) -> None:
        half_written.append(temporary)
        if len(half_written) == 1:
            # Another thread, or a process in a container in which it has the same id.
            service_files.write(str(tmp_path), {NAME: "other"})
        original(temporary, mode)

    monkeypatch.setattr(os, "chmod", interrupted)
    service_files.write(str(tmp_path), {NAME: "one"})
    assert len(set(half_written)) == 2
    assert (tmp_path / NAME).read_text() == "one"
    assert stat.S_IMODE((tmp_path / NAME).stat().st_mode) == 0o644
    assert os.listdir(tmp_path) == [NAME]


def test_a_file_that_cannot_be_put_in_place_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / NAME).mkdir()
    with pytest.raises(FileAccessError):
        service_files.write(str(tmp_path), {NAME: "one"})
    assert os.listdir(tmp_path) == [NAME]
