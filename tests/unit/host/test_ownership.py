"""In whose hands a file is that somebody else is going to run."""

import os
from pathlib import Path

import pytest

from hearth.host import ownership
from hearth.host.ownership import ROOT, Trusted

OTHER = 12345
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder as if nothing lay above it: what does, is this machine's and may be anybody's."""
    real = os.lstat
    above = {str(folder) for folder in tmp_path.parents}
    monkeypatch.setattr(os, "lstat", lambda path: real("/") if str(path) in above else real(path))
    folder = tmp_path / "tree"
    (folder / "bin").mkdir(parents=True, mode=0o755)
    (folder / "bin" / "python").touch(mode=0o755)
    return folder


def objection(path: Path | str) -> str | None:
    return ownership.objection(str(path), Trusted((0, os.geteuid())))


def test_a_file_that_nobody_else_can_replace_is_in_good_hands(tree: Path) -> None:
    assert objection(tree / "bin" / "python") is None
    assert ownership.objection("/usr/bin") is None


@pytest.mark.parametrize("place", ["bin/python", "bin", "."])
@pytest.mark.parametrize(("bit", "who"), [(0o002, "everybody"), (0o020, "the group")])
def test_whoever_can_write_to_it_or_to_a_folder_above_is_named(tree: Path, place: str, bit: int, who: str) -> None:
    (tree / place).chmod(0o755 | bit)
    assert f"{tree / place} can be written to by {who}" in str(objection(tree / "bin" / "python"))


@as_root
@pytest.mark.parametrize("place", ["bin/python", "bin", "."])
def test_the_owner_of_it_or_of_a_folder_above_is_named(tree: Path, place: str) -> None:
    os.chown(tree / place, OTHER, 0)
    assert objection(tree / "bin" / "python") == f"{tree / place} belongs to {OTHER}"
    assert ownership.objection(str(tree / "bin" / "python"), Trusted((0, OTHER))) is None


def test_links_are_followed_and_what_they_lead_through_counts(tree: Path) -> None:
    (tree / "open").mkdir()
    (tree / "open").chmod(0o777)
    (tree / "open" / "bin").symlink_to("../bin")
    (tree / "short").symlink_to(tree / "open" / "bin")
    (tree / "good").symlink_to("./bin/../bin")
    assert objection(tree / "good" / "python") is None
    assert objection(tree / "short" / "python") == f"{tree / 'open'} can be written to by everybody"


def test_a_circle_of_links_is_an_objection_and_not_a_hang(tree: Path) -> None:
    (tree / "a").symlink_to("b")
    (tree / "b").symlink_to("a")
    assert "cannot be looked at" in str(objection(tree / "a"))


def test_what_is_missing_is_as_safe_as_the_folder_that_it_would_be_in(tree: Path) -> None:
    assert objection(tree / "none" / "at all") is None
    tree.chmod(0o777)
    assert "everybody" in str(objection(tree / "none" / "at all"))


def test_every_file_below_a_folder_is_looked_at(tree: Path) -> None:
    trusted = Trusted((0, os.geteuid()))
    assert ownership.objection_below(str(tree), trusted) is None
    (tree / "bin" / "python").chmod(0o775)
    assert f"{tree}/bin/python can be written" in str(ownership.objection_below(str(tree), trusted))
    (tree / "bin" / "python").chmod(0o755)
    (tree / "open").mkdir()
    (tree / "open").chmod(0o777)
    assert str(tree / "open") in str(ownership.objection_below(str(tree), trusted))


def test_a_group_of_the_user_alone_may_write(tree: Path) -> None:
    (tree / "bin").chmod(0o775)
    assert ownership.objection(str(tree / "bin"), Trusted((0, os.geteuid()), (tree / "bin").stat().st_gid)) is None


@pytest.mark.parametrize(
    ("name", "members", "private"),
    [("ada", [], True), ("ada", ["ada"], True), ("users", [], False), ("ada", ["bob"], False)],
)
def test_a_group_is_private_if_it_is_called_like_its_user_and_has_no_other_members(
    monkeypatch: pytest.MonkeyPatch, name: str, members: list[str], private: bool
) -> None:
    import grp

    monkeypatch.setattr(grp, "getgrgid", lambda gid: grp.struct_group((name, "x", gid, members)))
    assert ownership.private_group("ada", 7) == (7 if private else None)


def test_only_root_is_trusted_unless_another_is_named() -> None:
    assert (*ROOT.uids, ROOT.gid) == (0, None)
