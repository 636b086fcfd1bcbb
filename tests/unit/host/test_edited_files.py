"""Files that are replaced whole or not at all."""

import errno
import os
from pathlib import Path

import pytest

from hearth.errors import FileAccessError
from hearth.host import edited_files, private_files


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "config.toml"
    made.write_text("former")
    return made


def fail(number: int):  # type: ignore[no-untyped-def]
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    return refuse


@pytest.mark.parametrize("call", ["replace", "fsync", "open"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_what_cannot_be_written_stays_as_it_was(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail(number))
        with pytest.raises(FileAccessError, match=r"cannot write .*config\.toml"):
            edited_files.replace(str(path), b"new")
    assert path.read_text() == "former"
    assert os.listdir(tmp_path) == ["config.toml"]


def test_a_file_that_must_not_be_written_is_not_replaced(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(FileAccessError, match="permission denied"):
        edited_files.replace(str(path), b"new")
    assert path.read_text() == "former"


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileAccessError, match="a part of the path is a file"):
        edited_files.replace(str(tmp_path / "file" / "config.toml"), b"new")


def test_attributes_are_kept(path: Path) -> None:
    try:
        os.setxattr(path, "user.note", b"mine")
    except OSError:
        pytest.skip("this file system has no attributes")
    edited_files.replace(str(path), b"new")
    assert os.getxattr(path, "user.note") == b"mine"
    assert path.read_bytes() == b"new"


def test_a_file_of_somebody_else_s_beside_it_is_never_removed(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What a temporary file may be called: by this process's number, and by whatever is drawn.
    others = [tmp_path / f"config.toml.{os.getpid()}.new", tmp_path / "config.toml.drawn.new"]
    for other in others:
        other.write_text("somebody's")
    names = iter(["drawn", "free"])
    monkeypatch.setattr("tempfile._get_candidate_names", lambda: names)
    assert edited_files.replace(str(path), b"new")
    assert path.read_bytes() == b"new"
    assert [other.read_text() for other in others] == ["somebody's"] * 2
    assert len(os.listdir(tmp_path)) == 3


def test_when_no_name_is_free_nothing_is_removed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    removed: list[str] = []
    monkeypatch.setattr(os, "open", fail(errno.EEXIST))
    monkeypatch.setattr("tempfile.TMP_MAX", 3)
    monkeypatch.setattr("hearth.host.private_files.remove", removed.append)
    with pytest.raises(FileAccessError, match="cannot write"):
        edited_files.replace(str(path), b"new")
    assert removed == []
    assert path.read_text() == "former"


def test_a_file_that_somebody_reads_at_the_moment_is_waited_for(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # As on Windows, where it cannot be replaced meanwhile.
    replace, refusals = os.replace, iter([errno.EACCES, errno.EACCES])

    def refuse_first(source: str, target: str) -> None:
        if number := next(refusals, None):
            raise OSError(number, os.strerror(number))
        replace(source, target)

    monkeypatch.setattr(os, "replace", refuse_first)
    monkeypatch.setattr("hearth.host.private_files.replace", private_files._replace_patiently)
    assert edited_files.replace(str(path), b"new")
    assert path.read_bytes() == b"new"


def test_a_link_whose_file_cannot_be_removed_is_named_as_the_person_knows_it(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = tmp_path / "link.toml"
    link.symlink_to(path)
    monkeypatch.setattr(os, "unlink", fail(errno.EACCES))
    with pytest.raises(FileAccessError, match=r"cannot remove .*link\.toml"):
        edited_files.remove(str(link))
