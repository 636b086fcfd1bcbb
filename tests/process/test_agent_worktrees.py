"""Worktrees of agents, with real git: made, left half-made, renamed and removed, never with work in them."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from hearth.errors import HearthError, Refused
from hearth.host import git as host_git
from hearth.packs.agents import worktrees
from hearth.packs.agents.model import Worktree

BOUND_SECONDS = 30.0


def git(folder: Path | str, *words: str) -> str:
    identity = ["-c", "user.name=u", "-c", "user.email=u@h", "-c", "init.defaultBranch=main"]
    command = ["git", *identity, "-c", "protocol.file.allow=always", *words]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture(autouse=True)
def no_config_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository with one commit on `main`."""
    folder = tmp_path / "tree"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "sub").mkdir()
    (folder / "sub" / "file").write_text("one")
    (folder / ".gitignore").write_text("ignored\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "one")
    return folder


@pytest.fixture
def create(tree: Path, tmp_path: Path) -> Callable[..., Worktree]:
    def made(
        name: str = "fix", base: str = "main", folder: Path = tree, in_use: tuple[str, ...] | None = None
    ) -> Worktree:
        return worktrees.create(str(tmp_path / "state" / "worktrees"), str(folder), name, base, in_use)

    return made


@pytest.fixture
def fresh_process(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Forget what this process has made, as a new daemon has."""
    return lambda: monkeypatch.setattr(worktrees, "_MADE", set())


def branches(tree: Path) -> list[str]:
    return git(tree, "for-each-ref", "--format=%(refname:short)", "refs/heads").split()


def registered(tree: Path) -> list[str]:
    lines = git(tree, "worktree", "list", "--porcelain").splitlines()
    return [line.removeprefix("worktree ") for line in lines if line.startswith("worktree ")]


def home(tmp_path: Path) -> Path:
    [found] = (tmp_path / "state" / "worktrees").iterdir()
    return found


# --- creation


def test_a_worktree_has_a_branch_of_its_own_at_the_base(create: Callable[..., Worktree], tree: Path) -> None:
    made = create("fix")
    assert (made.name, made.branch, made.base, made.repository) == ("fix", "fix", "main", str(tree))
    assert (made.cwd, made.note) == (made.path, None)
    assert Path(made.path, "sub", "file").read_text() == "one"
    assert git(made.path, "symbolic-ref", "--short", "HEAD") == "fix"
    assert git(made.path, "rev-parse", "HEAD") == git(tree, "rev-parse", "main")
    assert worktrees.is_clean(made) is None
    assert os.stat(made.path).st_mode and os.stat(Path(made.path).parent).st_mode & 0o077 == 0
    assert os.listdir(Path(made.path).parent) == ["fix"]


def test_worktrees_begin_at_branches_of_remotes_and_track_none(
    create: Callable[..., Worktree], tree: Path, tmp_path: Path
) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(tree), "remote")
    git(tree, "checkout", "-qb", "theirs")
    git(tree, "commit", "-qm", "two", "--allow-empty")
    git(tree, "remote", "add", "origin", str(tmp_path / "remote"))
    git(tree, "push", "-q", "origin", "theirs")
    git(tree, "checkout", "-q", "main")
    git(tree, "branch", "-qD", "theirs")
    for name, base in (("one", "origin/theirs"), ("two", "theirs")):
        made = create(name, base)
        assert git(made.path, "log", "-1", "--format=%s") == "two"
        with pytest.raises(subprocess.CalledProcessError):
            git(made.path, "rev-parse", "@{upstream}")


def test_a_folder_below_the_top_is_the_same_folder_in_the_worktree(create: Callable[..., Worktree], tree: Path) -> None:
    made = create("one", folder=tree / "sub")
    assert (made.subfolder, made.cwd) == ("sub", os.path.join(made.path, "sub"))
    (tree / "later").mkdir()
    made = create("two", folder=tree / "later")
    assert (made.subfolder, made.cwd) == ("", made.path)
    assert made.note == "The folder later does not exist in that branch: the agent works at the top."


def test_an_agent_in_a_worktree_gets_another_from_its_own_branch(create: Callable[..., Worktree], tree: Path) -> None:
    parent = create("parent")
    git(parent.path, "commit", "-qm", "two", "--allow-empty")
    child = create("child", "parent", folder=Path(parent.path))
    assert git(child.path, "log", "-1", "--format=%s") == "two"
    assert child.repository == str(tree)
    assert Path(child.path).parent == Path(parent.path).parent


def test_uncommitted_work_of_the_base_stays_behind_and_is_told(create: Callable[..., Worktree], tree: Path) -> None:
    (tree / "sub" / "file").write_text("two")
    (tree / "new").touch()
    made = create("fix")
    assert made.note == f"Uncommitted changes in {tree} (2 files) are not in the worktree."
    assert Path(made.path, "sub", "file").read_text() == "one"
    git(tree, "branch", "other")
    assert create("second", "other").note is None


def test_a_locked_index_of_the_base_is_no_obstacle(create: Callable[..., Worktree], tree: Path) -> None:
    (tree / ".git" / "index.lock").touch()
    (tree / ".git" / "config.lock").touch()
    assert worktrees.is_clean(create("fix")) is None


@pytest.mark.parametrize(
    "name", ["", "Fix", "-fix", "fix-", "a--b", "a/b", "a.b", "..", "a b", "x" * 61, "fix\n", "é", "--force"]
)
def test_a_name_that_git_or_a_folder_cannot_have_is_refused(create: Callable[..., Worktree], name: str) -> None:
    with pytest.raises(Refused, match="name"):
        create(name)


def test_an_unknown_base_is_refused_with_the_nearest_names(create: Callable[..., Worktree], tree: Path) -> None:
    with pytest.raises(Refused, match=r"there is no branch 'mian' in .*tree; branches: main$"):
        create("fix", "mian")
    for number in range(12):
        git(tree, "branch", f"release-{number}")
    with pytest.raises(Refused, match="did you mean main"):
        create("fix", "mian")
    with pytest.raises(Refused, match="it has 13 others"):
        create("fix", "zzzzzzzzzzz")
    for base in ("--detach", "main~1", "HEAD", "", "refs/heads/main"):
        with pytest.raises(Refused, match="there is no branch"):
            create("fix", base)
    assert registered(tree) == [str(tree)]


def test_a_taken_name_and_a_taken_branch_are_refused(create: Callable[..., Worktree], tree: Path) -> None:
    made = create("fix")
    with pytest.raises(Refused, match="the name 'fix' is taken"):
        create("fix")
    git(tree, "branch", "other")
    with pytest.raises(Refused, match="the branch 'other' exists already"):
        create("other")
    git(tree, "branch", "topic/one")
    with pytest.raises(Refused, match="beside the branch 'topic/one'"):
        create("topic")
    assert worktrees.is_clean(made) is None


def test_a_folder_without_a_work_tree_is_refused(create: Callable[..., Worktree], tree: Path, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="gone does not exist"):
        create(folder=tmp_path / "gone")
    with pytest.raises(Refused, match="is a file"):
        create(folder=tree / "sub" / "file")
    with pytest.raises(Refused, match="is not a git repository"):
        create(folder=tmp_path)
    git(tmp_path, "clone", "-q", "--bare", str(tree), "bare")
    with pytest.raises(Refused, match="is a bare repository"):
        create(folder=tmp_path / "bare")
    with pytest.raises(Refused, match="is not a git repository"):
        create(folder=tree / ".git")
    git(tmp_path, "init", "-q", "empty")
    with pytest.raises(Refused, match="has no commit yet"):
        create(folder=tmp_path / "empty")


def test_worktrees_of_a_bare_repository_have_others(
    create: Callable[..., Worktree], tree: Path, tmp_path: Path
) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(tree), "bare")
    git(tmp_path / "bare", "worktree", "add", "-q", str(tmp_path / "first"), "main")
    made = create(folder=tmp_path / "first")
    assert made.repository == str(tmp_path / "bare")
    assert worktrees.remove(made) is None
    assert branches(tmp_path / "bare") == ["main"]


def test_a_submodule_is_refused_and_those_of_a_repository_are_told(
    create: Callable[..., Worktree], tree: Path, tmp_path: Path
) -> None:
    git(tmp_path, "init", "-q", "outer")
    git(tmp_path / "outer", "submodule", "--quiet", "add", str(tree), "inner")
    git(tmp_path / "outer", "commit", "-qm", "one")
    with pytest.raises(Refused, match=r"is in a submodule of .*outer"):
        create(folder=tmp_path / "outer" / "inner")
    made = create(folder=tmp_path / "outer")
    assert made.note and "git submodule update --init" in made.note
    assert worktrees.is_clean(made) is None
    git(made.path, "submodule", "--quiet", "update", "--init")
    assert worktrees.is_clean(made) == "submodules are checked out in it"
    with pytest.raises(Refused, match="submodules"):
        worktrees.remove(made)
    assert worktrees.remove(made, force=True) is None
    assert not Path(made.path).exists()


def test_no_program_that_the_repository_names_is_run(
    create: Callable[..., Worktree], tree: Path, tmp_path: Path
) -> None:
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\ncat\n")
    trap.chmod(0o755)
    hooks = tree / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    (tree / ".gitattributes").write_text("* filter=f\n")
    git(tree, "add", ".")
    git(tree, "commit", "-qm", "two")
    for name in ("post-checkout", "reference-transaction", "post-index-change", "fsmonitor-watchman"):
        (hooks / name).write_text(trap.read_text())
        (hooks / name).chmod(0o755)
    for key, value in {
        "core.fsmonitor": str(trap),
        "filter.f.clean": str(trap),
        "filter.f.smudge": str(trap),
        "filter.f.process": str(trap),
        "filter.f.required": "true",
    }.items():
        git(tree, "-c", "core.fsmonitor=false", "config", key, value)
    made = create("fix")
    assert made.note and "Filters of the repository's config" in made.note
    assert worktrees.is_clean(made) is None
    assert worktrees.rename_branch(made, made.path, "other") == "other"
    assert worktrees.remove(msgspec.structs.replace(made, branch="other")) is None
    assert branches(tree) == ["main"]
    assert not (tmp_path / "sprung").exists()


def test_variables_do_not_lead_to_another_repository(
    create: Callable[..., Worktree], tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(tmp_path, "init", "-q", "elsewhere")
    with monkeypatch.context() as changed:
        changed.setenv("GIT_DIR", str(tmp_path / "elsewhere" / ".git"))
        changed.setenv("GIT_WORK_TREE", str(tmp_path / "elsewhere"))
        made = create("fix")
    assert registered(tree) == [str(tree), made.path]


def test_three_worktrees_of_one_repository_are_made_at_once(
    create: Callable[..., Worktree], tree: Path, tmp_path: Path
) -> None:
    together = threading.Barrier(5)

    def attempt(name: str) -> str:
        together.wait()
        try:
            return create(name).path
        except Refused as exc:
            return str(exc)

    with ThreadPoolExecutor(5) as pool:
        found = list(pool.map(attempt, ("one", "two", "three", "same", "same")))
    assert [Path(each).name for each in found[:3]] == ["one", "two", "three"]
    assert sum("is taken" in each for each in found[3:]) == 1
    assert sorted(branches(tree)) == ["main", "one", "same", "three", "two"]
    assert sorted(os.listdir(home(tmp_path))) == ["one", "same", "three", "two"]


# --- git that is missing, hangs or dies


@pytest.fixture
def fake_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Put a script before git on the PATH; `$real` is git itself."""
    real = subprocess.run(["which", "git"], check=True, capture_output=True, text=True).stdout.strip()
    folder = tmp_path / "bin"
    folder.mkdir()

    def placed(body: str) -> None:
        script = folder / "git"
        script.write_text(f'#!/bin/sh\nreal={real}\n{body}\nexec $real "$@"\n')
        script.chmod(0o755)
        if not os.environ["PATH"].startswith(str(folder)):
            monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    return placed


def test_a_missing_git_is_told(
    create: Callable[..., Worktree], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    with pytest.raises(HearthError, match="git is not installed, or not on the PATH"):
        create()


def test_a_git_that_hangs_is_ended_and_what_it_made_is_removed(
    create: Callable[..., Worktree],
    tree: Path,
    tmp_path: Path,
    fake_git: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake_git('case "$*" in *"worktree add"*) $real "$@"; sleep 1000;; esac')
    monkeypatch.setattr(worktrees, "ADD_SECONDS", 2.0)
    with pytest.raises(HearthError, match="`git worktree add` took longer than 2 s"):
        create("fix")
    assert (registered(tree), branches(tree)) == ([str(tree)], ["main"])
    assert os.listdir(home(tmp_path)) == []
    fake_git("sleep 1000")
    monkeypatch.setattr(host_git, "GIT_SECONDS", 0.2)
    with pytest.raises(HearthError, match="`git rev-parse` took longer than"):
        create("fix")


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_git_that_fails_leaves_nothing_behind(
    create: Callable[..., Worktree], tree: Path, tmp_path: Path, fake_git: Callable[[str], None], when: str
) -> None:
    done = '$real "$@";' if when == "after" else ""
    fake_git(f'case "$*" in *"worktree add"*) {done} echo "fatal: No space left on device" >&2; exit 128;; esac')
    with pytest.raises(HearthError, match="No space left on device"):
        create("fix")
    fake_git("")
    assert (registered(tree), branches(tree)) == ([str(tree)], ["main"])
    assert os.listdir(home(tmp_path)) == []
    assert worktrees.is_clean(create("fix")) is None


DYING = """
import os, sys
sys.path.insert(0, {service!r})
from hearth.packs.agents import worktrees
worktrees.create(sys.argv[2], sys.argv[1], "fix", "main")
"""


@pytest.fixture
def killed_while_making(tree: Path, tmp_path: Path, fake_git: Callable[[str], None]) -> Iterator[None]:
    """A process that is killed, with its git, in the middle of a creation."""
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    # `git worktree add` without its last steps: files are checked out, no index is written, the worktree is locked.
    body = f'$real "$@"; at=$PWD/.git/worktrees/fix; rm $at/index; echo initializing > $at/locked; echo $$ > {ready}'
    fake_git(f'case "$*" in *"worktree add"*) {body}; exec sleep 1000;; esac')
    service = str(Path(worktrees.__file__).parents[3])
    command = [sys.executable, "-c", DYING.format(service=service), str(tree), str(tmp_path / "state" / "worktrees")]
    process = subprocess.Popen(command)
    try:
        group = int(ready.read_text())
    finally:
        process.kill()
        process.wait(BOUND_SECONDS)
    os.killpg(group, 9)
    fake_git("")
    yield


@pytest.mark.usefixtures("killed_while_making")
def test_a_worktree_that_was_half_made_by_a_killed_daemon_is_removed_by_the_next_creation(
    create: Callable[..., Worktree], tree: Path, tmp_path: Path
) -> None:
    assert sorted(os.listdir(home(tmp_path))) == ["fix", "fix.making"]
    assert branches(tree) == ["fix", "main"]
    create("other")
    assert os.listdir(home(tmp_path)) == ["other"]
    assert branches(tree) == ["main", "other"]
    assert worktrees.is_clean(create("fix")) is None


@pytest.mark.usefixtures("killed_while_making")
def test_a_worktree_on_record_is_not_removed_for_its_mark(
    create: Callable[..., Worktree], tree: Path, tmp_path: Path
) -> None:
    create("other", in_use=(str(home(tmp_path) / "fix"),))
    assert sorted(os.listdir(home(tmp_path))) == ["fix", "other"]


def test_a_leftover_without_work_is_replaced_unless_it_is_on_record(
    create: Callable[..., Worktree], tree: Path, fresh_process: Callable[[], None]
) -> None:
    first = create("fix")
    git(tree, "commit", "-qm", "two", "--allow-empty")
    fresh_process()
    with pytest.raises(Refused, match="is taken"):
        create("fix", in_use=(first.path,))
    with pytest.raises(Refused, match="is taken"):
        create("fix", in_use=(os.path.join(first.path, "folder"),))
    with pytest.raises(Refused, match="is taken"):
        create("fix")
    second = create("fix", in_use=())
    assert git(second.path, "log", "-1", "--format=%s") == "two"
    Path(second.path, "new").touch()
    fresh_process()
    with pytest.raises(Refused, match="is taken"):
        create("fix", in_use=())
    assert Path(second.path, "new").exists()


def test_a_worktree_that_was_deleted_by_hand_does_not_block_its_name(
    create: Callable[..., Worktree], tree: Path
) -> None:
    import shutil

    made = create("fix")
    shutil.rmtree(made.path)
    with pytest.raises(Refused, match="the branch 'fix' exists"):
        create("fix")
    git(tree, "branch", "-qm", "fix", "kept")
    assert worktrees.is_clean(create("fix")) is None


# --- removal


def test_a_worktree_without_work_goes_with_its_branch(create: Callable[..., Worktree], tree: Path) -> None:
    made = create("fix")
    git(tree, "config", "branch.fix.remote", "origin")
    assert worktrees.remove(made) is None
    assert not Path(made.path).exists()
    assert (registered(tree), branches(tree)) == ([str(tree)], ["main"])
    assert "branch.fix" not in Path(tree, ".git", "config").read_text()


def _modify(path: Path) -> None:
    (path / "sub" / "file").write_text("two")


def _stage(path: Path) -> None:
    (path / "staged").touch()
    git(path, "add", "staged")


def _commit(path: Path) -> None:
    git(path, "commit", "-qm", "two", "--allow-empty")


def _commit_detached(path: Path) -> None:
    git(path, "checkout", "-q", "--detach")
    _commit(path)


def _assume(path: Path) -> None:
    git(path, "update-index", "--assume-unchanged", "sub/file")
    _modify(path)


def _skip(path: Path) -> None:
    git(path, "update-index", "--skip-worktree", "sub/file")
    _modify(path)


WORK: dict[str, tuple[Callable[[Path], object], str]] = {
    "changed": (_modify, r"uncommitted changes in it \(sub/file\)"),
    "staged": (_stage, r"uncommitted changes in it \(staged\)"),
    "deleted": (lambda path: (path / "sub" / "file").unlink(), "uncommitted changes"),
    "untracked": (lambda path: (path / "new").touch(), r"untracked files in it \(new\)"),
    "ignored": (lambda path: (path / "ignored").touch(), r"ignored files in it \(ignored\)"),
    "committed": (_commit, r"commits in it that no other branch, tag or remote has \(1\)"),
    "detached": (_commit_detached, r"commits in it that no other branch, tag or remote has \(1\)"),
    "assumed": (_assume, r"assume unchanged \(sub/file\)"),
    "skipped": (_skip, r"assume unchanged \(sub/file\)"),
    "locked": (lambda path: git(path, "worktree", "lock", str(path)), "has locked it"),
    "nested": (lambda path: git(path, "init", "-q", "nested"), r"untracked files in it \(nested/\)"),
}


@pytest.mark.parametrize("kind", WORK)
def test_a_worktree_with_work_in_it_stays_without_force(create: Callable[..., Worktree], tree: Path, kind: str) -> None:
    work, reason = WORK[kind]
    made = create("fix")
    work(Path(made.path))
    with pytest.raises(Refused, match=f"stays: .*{reason}.*with force"):
        worktrees.remove(made)
    assert Path(made.path).exists() and "fix" in branches(tree)
    note = worktrees.remove(made, force=True)
    assert not Path(made.path).exists()
    assert registered(tree) == [str(tree)]
    if kind == "committed":
        assert note and "the branch 'fix' stays" in note and "fix" in branches(tree)
    elif kind == "detached":
        assert note is None and "fix" in branches(tree)
    else:
        assert note is None and branches(tree) == ["main"]


@pytest.mark.parametrize("keeper", ["branch", "tag", "remote"])
def test_commits_that_something_else_has_are_no_reason_to_keep_a_worktree(
    create: Callable[..., Worktree], tree: Path, tmp_path: Path, keeper: str
) -> None:
    made = create("fix")
    _commit(Path(made.path))
    if keeper == "remote":
        git(tmp_path, "init", "-q", "--bare", "remote")
        git(tree, "remote", "add", "origin", str(tmp_path / "remote"))
        git(made.path, "push", "-q", "origin", "HEAD")
    else:
        git(made.path, keeper, "kept")
    assert worktrees.remove(made) is None
    assert "fix" not in branches(tree)


def test_branches_that_the_agent_made_stay_and_keep_its_commits(create: Callable[..., Worktree], tree: Path) -> None:
    made = create("fix")
    git(made.path, "checkout", "-qb", "own")
    _commit(Path(made.path))
    assert worktrees.remove(made) is None
    assert sorted(branches(tree)) == ["fix", "main", "own"]


def test_a_worktree_or_a_repository_that_is_gone_is_no_error(
    create: Callable[..., Worktree], tree: Path, tmp_path: Path
) -> None:
    import shutil

    one, two, three = create("one"), create("two"), create("three")
    _commit(Path(two.path))
    shutil.rmtree(one.path)
    shutil.rmtree(two.path)
    assert worktrees.remove(one) is None
    with pytest.raises(Refused, match="commits in it"):
        worktrees.remove(two)
    note = worktrees.remove(two, force=True)
    assert note and "'two' stays" in note
    assert sorted(branches(tree)) == ["main", "three", "two"]
    shutil.rmtree(tree)
    with pytest.raises(Refused, match="git cannot tell what is in it"):
        worktrees.remove(three)
    assert worktrees.remove(three, force=True) is None
    assert os.listdir(home(tmp_path)) == []


def test_read_only_folders_are_removed_by_force(create: Callable[..., Worktree], tree: Path) -> None:
    made = create("fix")
    cache = Path(made.path, "ignored")
    cache.mkdir()
    (cache / "file").touch()
    cache.chmod(0o500)
    try:
        worktrees.remove(made, force=True)
    finally:
        if cache.exists():
            cache.chmod(0o700)
    assert not Path(made.path).exists()


def test_a_repository_of_its_own_is_never_removed(create: Callable[..., Worktree], tree: Path) -> None:
    made = msgspec.structs.replace(create("fix"), path=str(tree))
    for force in (False, True):
        with pytest.raises(Refused, match="a repository of its own"):
            worktrees.remove(made, force)
    assert (tree / "sub" / "file").exists()


# --- the branch


def code_of(worktree: Worktree | None, cwd: Path | str, name: str) -> str:
    with pytest.raises(worktrees.BranchRefused) as refused:
        worktrees.rename_branch(worktree, str(cwd), name)
    assert str(refused.value).startswith(f"{refused.value.code}: ")
    return refused.value.code


def test_a_branch_is_renamed_once(create: Callable[..., Worktree], tree: Path) -> None:
    made = create("fix")
    assert worktrees.rename_branch(made, made.path, "feature/x-1") == "feature/x-1"
    assert git(made.path, "symbolic-ref", "--short", "HEAD") == "feature/x-1"
    assert branches(tree) == ["feature/x-1", "main"]
    assert code_of(made, made.path, "again") == "NOT_ALLOWED"
    git(made.path, "branch", "-m", "fix")
    assert code_of(msgspec.structs.replace(made, branch="feature/x-1"), made.path, "again") == "NOT_ALLOWED"


def test_a_branch_is_renamed_from_a_folder_of_the_worktree_and_beside_locks(
    create: Callable[..., Worktree], tree: Path
) -> None:
    made = create("fix")
    (tree / ".git" / "worktrees" / "fix" / "index.lock").touch()
    (tree / ".git" / "config.lock").touch()
    assert worktrees.rename_branch(made, os.path.join(made.path, "sub"), "other") == "other"
    assert branches(tree) == ["main", "other"]


@pytest.mark.parametrize(
    "name", ["", "A", "a b", "a.b", "a_b", "-a", "a-", "a--b", "/a", "a/", "a//b", "x" * 101, "a\n", "é", "a~1", "@"]
)
def test_a_bad_branch_name_is_refused(create: Callable[..., Worktree], name: str) -> None:
    made = create("fix")
    assert code_of(made, made.path, name) == "INVALID_BRANCH"


def test_branches_of_other_folders_are_not_renamed(create: Callable[..., Worktree], tree: Path, tmp_path: Path) -> None:
    made, foreign = create("fix"), create("foreign")
    assert code_of(made, tmp_path, "new") == "NOT_GIT_REPO"
    assert code_of(made, tmp_path / "gone", "new") == "NOT_GIT_REPO"
    assert code_of(None, tree, "new") == "NOT_ALLOWED"
    assert code_of(None, foreign.path, "new") == "NOT_ALLOWED"
    assert code_of(made, tree, "new") == "NOT_ALLOWED"
    assert code_of(made, foreign.path, "new") == "NOT_ALLOWED"
    git(made.path, "init", "-q", "nested")
    assert code_of(made, os.path.join(made.path, "nested"), "new") == "NOT_ALLOWED"
    assert sorted(branches(tree)) == ["fix", "foreign", "main"]


def test_a_taken_branch_and_a_detached_head_are_refused(create: Callable[..., Worktree], tree: Path) -> None:
    made = create("fix")
    git(tree, "branch", "taken")
    assert code_of(made, made.path, "taken") == "NOT_ALLOWED"
    assert code_of(made, made.path, "main/x") == "NOT_ALLOWED"
    git(made.path, "checkout", "-q", "--detach")
    assert code_of(made, made.path, "new") == "NOT_ALLOWED"


def test_a_rename_races_with_the_agents_own_git_and_with_itself(
    create: Callable[..., Worktree], tree: Path, fake_git: Callable[[str], None]
) -> None:
    made = create("fix")
    with ThreadPoolExecutor(2) as pool:

        def attempt(name: str) -> str:
            try:
                return worktrees.rename_branch(made, made.path, name)
            except worktrees.BranchRefused as exc:
                return exc.code

        found = sorted(pool.map(attempt, ("one", "two")))
    assert found[0] == "NOT_ALLOWED" and git(made.path, "symbolic-ref", "--short", "HEAD") == found[1]
    other = create("other")
    # The agent renames it between the look and the rename.
    fake_git('case "$*" in *"branch -m other"*) $real branch -m other own;; esac')
    assert code_of(other, other.path, "mine") == "NOT_ALLOWED"
    assert git(other.path, "symbolic-ref", "--short", "HEAD") == "own"


def test_a_rename_holds_if_only_the_config_is_locked(create: Callable[..., Worktree], tree: Path) -> None:
    made = create("fix")
    git(tree, "config", "branch.fix.description", "x")
    (tree / ".git" / "config.lock").touch()
    assert worktrees.rename_branch(made, made.path, "new") == "new"
    assert git(made.path, "symbolic-ref", "--short", "HEAD") == "new"
