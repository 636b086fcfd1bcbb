"""Typed captures: each kind takes its plain values, and refuses whatever could mean something else."""

import ntpath
import os
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth.policy import captures
from hearth.policy.captures import KINDS, NoMatch, Surroundings, real_path, shown

NOWHERE = Surroundings(None)


def refused(kind: str, value: str, around: Surroundings = NOWHERE) -> bool:
    try:
        KINDS[kind](value, around)
    except NoMatch:
        return True
    return False


@pytest.mark.parametrize("value", ["main", "feature/x", "feature/x/y-z", "v1.2", "a@b", "x#1", "JIRA-1_fix"])
def test_plain_branches_are_taken(value: str) -> None:
    assert KINDS["branch"](value, NOWHERE) == value


@pytest.mark.parametrize(
    "value",
    [
        *(
            "",
            "-x",
            "+x",
            "a:b",
            ":a",
            "a..b",
            "a.lock",
            "a.LOCK",
            "a/.b",
            ".a",
            "a/",
            "/a",
            "a//b",
            "a.",
            "@",
            "a@{1}",
        ),
        *("a b", "a~1", "a^", "a?", "a*", "a[", "a\\b", "HEAD", "head", "x/HEAD", "FETCH_HEAD", "refs/heads/a", "ä"),
        *("a\n", "a\0", "x" * 300),
    ],
)
def test_other_refs_are_refused(value: str) -> None:
    assert refused("branch", value)


@given(st.text(min_size=1, max_size=12, alphabet="abHEADrefs0-_./@{}~^:?*[\\+ ,=#!%"))
def test_whatever_is_taken_as_a_branch_is_one_to_git(value: str) -> None:
    if not refused("branch", value):
        done = subprocess.run(["git", "check-ref-format", "--branch", value], capture_output=True, check=False)
        assert (done.returncode, done.stdout.decode().strip()) == (0, value)


def test_only_a_configured_remote_is_taken(project: Path) -> None:
    around = Surroundings(str(project))
    assert KINDS["remote"]("origin", around) == "origin"
    assert not refused("remote", "origin", Surroundings(str(project / "src")))
    for value in ("upstream", "Origin", ".", "..", "src", "https://x", "a:b", "-x", ""):
        assert refused("remote", value, around), value


def test_a_remote_that_is_added_is_noticed(project: Path) -> None:
    assert refused("remote", "fork", Surroundings(str(project)))
    subprocess.run(["git", "-C", str(project), "remote", "add", "fork", "https://example.org/f.git"], check=True)
    assert not refused("remote", "fork", Surroundings(str(project)))


def test_a_linked_worktree_has_the_remotes_of_the_main_one(project: Path, home: Path) -> None:
    git = ["git", "-C", str(project), "-c", "user.name=x", "-c", "user.email=x@example.org"]
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    subprocess.run([*git, "worktree", "add", "-q", str(home / "work" / "tree")], check=True, capture_output=True)
    assert not refused("remote", "origin", Surroundings(str(home / "work" / "tree")))


def test_outside_of_a_repository_there_is_no_remote(home: Path) -> None:
    (home / "plain").mkdir()
    assert refused("remote", "origin", Surroundings(str(home / "plain")))


@pytest.mark.parametrize(
    ("value", "relative"),
    [
        ("src/a.py", "src/a.py"),
        ("./src/a.py", "src/a.py"),
        ("src//a.py", "src/a.py"),
        (".", "."),
        ("new/file", "new/file"),
        ("inner/a.py", "src/a.py"),
        ("größe.md", "größe.md"),
        ("tests/test_a.py::test_x", "tests/test_a.py::test_x"),
        ("README.md::x", "README.md::x"),
    ],
)
def test_a_path_is_relative_to_the_workspace_with_links_resolved(project: Path, value: str, relative: str) -> None:
    assert KINDS["path"](value, Surroundings(str(project))) == relative
    assert KINDS["path"](str(project / "src" / "a.py"), Surroundings(str(project))) == "src/a.py"


@pytest.mark.parametrize(
    "value", ["out", "up", "dangling", "loop/x", "host:x", "a::b", "https://x", ":/", ".git", "@x"]
)
def test_a_path_that_leads_elsewhere_is_refused(project: Path, value: str) -> None:
    assert refused("path", value, Surroundings(str(project))) or value == "loop/x"


def test_a_workspace_behind_a_link_is_the_folder_that_it_leads_to(project: Path, home: Path) -> None:
    (home / "link").symlink_to(project)
    around = Surroundings(str(home / "link"))
    assert KINDS["path"](str(project / "src"), around) == "src"
    assert KINDS["path"](str(home / "link" / "src"), around) == "src"


def test_a_workspace_inside_of_gits_own_folder_grants_no_path(project: Path) -> None:
    assert refused("path", "pre-commit", Surroundings(str(project / ".git" / "hooks")))


@pytest.mark.parametrize(
    ("value", "taken"),
    [
        (r"src\a.py", True),
        ("src/a.py", True),
        (r"C:\work\a.py", True),
        (r"C:a.py", False),
        (r"src\a.py:stream", False),
        (r"src\..\..\x", False),
        (r"\\server\share\x", False),
        (r"\\?\C:\work", False),
        (r"src\a.py.", False),
        (r"src \a.py", False),
        (r"HEARTH~1\policy.toml", False),
        (r"src\LONGNA~2.TXT", False),
    ],
)
def test_paths_that_windows_reads_otherwise_are_refused(
    value: str, taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Stands for the module os on Windows: only the text of the path is checked here.
    monkeypatch.setattr(captures, "os", SimpleNamespace(sep="\\", path=ntpath))
    try:
        captures._check_path_text(value, "C:\\work")
    except NoMatch:
        assert not taken
    else:
        assert taken


@pytest.mark.parametrize("value", ["x", "test:unit", "a-b_c.d", "1.2.3", "pkg@1"])
def test_plain_words_are_taken(value: str) -> None:
    assert KINDS["word"](value, NOWHERE) == value


@pytest.mark.parametrize("value", ["", "-x", "a b", "a=b", "@x", "+x", "..", "a/b", "ä", "$x", "a\n", "x" * 300])
def test_other_words_are_refused(value: str) -> None:
    assert refused("word", value)


def test_text_is_anything_that_can_be_seen() -> None:
    assert not refused("text", "Größe; $x `y` 'z' – “q” 名前")
    for value in ("a\nb", "a\u202eb", "a\u200bb", "a\u00a0b", "\ud800", "x" * 10_000):
        assert refused("text", value)


def test_a_reason_has_no_secret_in_it() -> None:
    secret = "ghp_" + "a1B2" * 9
    assert secret not in str(NoMatch("{} is not", f"https://x:{secret}@example.org"))
    assert shown("x" * 500).endswith("…'")
    assert shown("\u202e") == "'\\u202e'"


@pytest.mark.parametrize(
    "value",
    [
        "",
        "a",
        "a/b",
        "a/b/none/x",
        "file/x",
        "link",
        "link/b",
        "link/../a",
        "a/loop",
        "a/./b",
        "a//b",
        "up",
        "up/a/b",
        "a/",
    ],
)
def test_a_real_path_is_the_systems_own(value: str, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "file").touch()
    (folder / "link").symlink_to("a")
    (folder / "up").symlink_to(folder)
    (folder / "a" / "loop").symlink_to("loop")
    whole = os.path.join(folder, value)
    assert real_path(whole) == os.path.realpath(whole)
    assert real_path(whole, os.path.realpath(folder)) == os.path.realpath(whole)
    assert Surroundings(str(folder)).resolve(whole) == os.path.realpath(whole)


def test_a_workspace_whose_name_leads_elsewhere_is_resolved_again(tmp_path: Path) -> None:
    name = tmp_path / "work"
    for folder in (tmp_path / "a", tmp_path / "b"):
        folder.mkdir()
        name.unlink(missing_ok=True)
        name.symlink_to(folder)
        assert Surroundings(str(name)).real == os.path.realpath(folder)
    name.unlink()
    name.mkdir()
    assert Surroundings(str(name)).real == os.path.realpath(tmp_path) + "/work"


def test_links_out_of_a_workspace_that_was_moved_are_seen(tmp_path: Path) -> None:
    name, folder, moved = tmp_path / "name", tmp_path / "a", tmp_path / "b"
    (folder / "work").mkdir(parents=True)
    (tmp_path / "secrets").mkdir()
    name.symlink_to(folder)
    workspace = str(name / "work")
    assert KINDS["path"]("foo/x", Surroundings(workspace)) == "foo/x"
    folder.rename(moved)
    name.unlink()
    name.symlink_to(moved)
    (moved / "work" / "foo").symlink_to(tmp_path / "secrets")
    assert Surroundings(workspace).real == os.path.realpath(workspace)
    assert refused("path", "foo/x", Surroundings(workspace))
