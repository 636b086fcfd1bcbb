"""The token for HTTP over TCP, as the daemon looks at it with every request."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from hearth.errors import FileAccessError
from hearth.host import private_files
from hearth.secrets import http_token


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def test_there_is_none_until_it_is_made_and_none_when_it_is_taken_away() -> None:
    current = http_token.Current()
    assert current.read() is None
    made = http_token.ensure()
    assert current.read() == made
    os.unlink(http_token.path())
    assert current.read() is None


def test_one_that_was_rotated_is_seen_at_once() -> None:
    current = http_token.Current()
    http_token.rotate()
    for _ in range(20):
        former = current.read()
        made = http_token.rotate()
        assert former != made and current.read() == made


def test_the_file_is_read_only_when_it_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    made = http_token.rotate()
    current = http_token.Current()
    reads: list[str] = []
    read = private_files.read
    monkeypatch.setattr(private_files, "read", lambda path, limit: reads.append(path) or read(path, limit))
    assert [current.read() for _ in range(3)] == [made] * 3
    assert len(reads) == 1


def test_a_file_that_became_useless_is_no_token() -> None:
    http_token.rotate()
    current = http_token.Current()
    assert current.read()
    Path(http_token.path()).write_bytes(b"\xff" * 40)
    for _ in range(2):
        with pytest.raises(FileAccessError):
            current.read()


def linked(file: Path) -> None:
    file.rename(file.with_name("public"))
    file.symlink_to("public")


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda file: file.write_text("short\n"), "43 letters"),
        (lambda file: file.write_text(file.read_text() * 2), "43 letters"),
        (lambda file: file.write_text("\N{LATIN SMALL LETTER E WITH ACUTE}" * 43), "is no token"),
        (lambda file: file.chmod(0o644), "0644"),
        (linked, "link"),
    ],
)
def test_a_token_that_others_may_know_or_guess_is_refused(spoil: Callable[[Path], object], why: str) -> None:
    http_token.rotate()
    current = http_token.Current()
    assert current.read()
    spoil(Path(http_token.path()))
    for read in (http_token.read, http_token.ensure, current.read):
        with pytest.raises(
            FileAccessError, match=f"{why}.*hearth token rotate|is no token .*{why}.*hearth token rotate"
        ):
            read()
    assert http_token.rotate() == http_token.read() == current.read()
