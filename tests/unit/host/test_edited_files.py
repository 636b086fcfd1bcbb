"""Files that are replaced whole or not at all."""

import errno
import os
from pathlib import Path

import pytest

from hearth.errors import StartError
from hearth.host import edited_files


def fail(number: int):  # type: ignore[no-untyped-def]
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    return refuse


@pytest.mark.parametrize("call", ["replace", "fsync", "open"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_what_cannot_be_written_stays_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    path = tmp_path / "config.toml"
    path.write_text("former")
    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail(number))
        with pytest.raises(StartError, match=r"cannot write .*config\.toml"):
            edited_files.replace(str(path), b"new")
    assert path.read_text() == "former"
    assert os.listdir(tmp_path) == ["config.toml"]


def test_a_file_that_must_not_be_written_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "config.toml"
    path.write_text("former")
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(StartError, match="permission denied"):
        edited_files.replace(str(path), b"new")
    assert path.read_text() == "former"


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StartError, match="a part of the path is a file"):
        edited_files.replace(str(tmp_path / "file" / "config.toml"), b"new")


def test_attributes_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("former")
    try:
        os.setxattr(path, "user.note", b"mine")
    except OSError:
        pytest.skip("this file system has no attributes")
    edited_files.replace(str(path), b"new")
    assert os.getxattr(path, "user.note") == b"mine"
    assert path.read_bytes() == b"new"
