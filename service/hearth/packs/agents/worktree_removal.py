"""Removal of git worktrees that Hearth made, and of the branches that came with them. Blocks; call it in a thread.

No work is lost without `force`: changes that are not committed, files that git does not track or ignores, submodules
that were checked out, and commits that no other branch, tag or branch of a remote has. A branch goes only with the
worktree that has it checked out, and one with commits of its own stays even with `force`.
"""

import os
import stat
from typing import NamedTuple

from hearth.errors import Refused
from hearth.host import folders, git
from hearth.packs.agents.model import Worktree

# A tree of a hundred thousand files on a slow disk.
REMOVE_SECONDS = 120.0
STATUS_SECONDS = 30.0
SHOWN_FILES = 5
_STATUS = (
    *("status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files=normal"),
    *("--ignored=traditional", "--ignore-submodules=dirty"),
)


class _Listed(NamedTuple):
    """Worktree as its repository knows it. `branch` is None for a detached HEAD."""

    commit: str
    branch: str | None
    is_locked: bool


def is_clean(worktree: Worktree) -> str | None:
    """Return None if nothing is lost with a worktree and its branch, else the reason. Raises HearthError."""
    listed = _listed(worktree)
    path = worktree.path
    if os.path.isdir(path):
        if listed is None or git.top(path) is None:
            return f"{path} is no worktree of {worktree.repository} any more, so git cannot tell what is in it"
        looks = (_submodules, _changes, _hidden_changes)
        if found := next(filter(None, (look(path) for look in looks)), None):
            return found
    if listed is None:
        return None
    return "`git worktree lock` has locked it" if listed.is_locked else _own_commits(worktree, listed)


def remove(worktree: Worktree, force: bool = False) -> str | None:
    """Remove a worktree and its branch; return a sentence if the branch stays.

    Raises Refused, without `force`, if work would be lost; HearthError if the removal fails.
    """
    if os.path.isdir(os.path.join(worktree.path, ".git")):
        raise Refused(f"{worktree.path} is a repository of its own, not a worktree; nothing was removed")
    if not force and (why := is_clean(worktree)):
        raise Refused(f"the worktree {worktree.path} stays: {why}; save that elsewhere, or remove it with force")
    listed = _listed(worktree)
    kept = _own_commits(worktree, listed) if listed else None
    discard(worktree.repository, worktree.path)
    if listed is None or listed.branch != worktree.branch:
        return None
    if kept:
        return f"the branch {worktree.branch!r} stays in {worktree.repository}: {kept}; `git branch -D` removes it"
    return delete_branch(worktree.repository, worktree.branch, listed.commit)


def discard(repository: str, path: str) -> None:
    """Remove a worktree whatever is in it, also a half-made one. Raises HearthError."""
    words = ("worktree", "remove", "--force", "--force", path)
    done = git.run(repository, *words, seconds=REMOVE_SECONDS) if os.path.isdir(repository) else None
    if not os.path.lexists(path):
        return
    _remove_tree(path)
    if done is not None and done.exit_code != 0:
        # Once the folder is gone, git forgets it without a look at its content. An unknown one fails again.
        git.run(repository, *words, seconds=REMOVE_SECONDS)


def delete_branch(repository: str, branch: str, commit: str) -> str | None:
    """Delete a branch that is still at a commit; return a sentence if it stays."""
    # With the commit, so that one that was added in the meantime is not lost.
    done = git.run(repository, "update-ref", "-d", f"refs/heads/{branch}", commit)
    if done.exit_code != 0:
        return f"the branch {branch!r} stays in {repository}: {git.sentence(done)}"
    # The section exists only if the branch was pushed; another branch of that name must not inherit it.
    git.run(repository, "config", "--local", "--remove-section", f"branch.{branch}")
    return None


def _remove_tree(path: str) -> None:
    import shutil

    try:
        if os.path.islink(path) or not os.path.isdir(path):
            os.unlink(path)
            return
        try:
            shutil.rmtree(path)
        except PermissionError:
            # Caches of build tools are read-only.
            for folder, inner, _ in os.walk(path):
                for each in (folder, *(os.path.join(folder, name) for name in inner)):
                    if not os.path.islink(each):
                        os.chmod(each, stat.S_IRWXU)
            shutil.rmtree(path)
    except OSError as exc:
        raise folders.refusal("remove", path, exc) from exc


# --- reasons to keep a worktree


def _listed(worktree: Worktree) -> _Listed | None:
    """Return a worktree as its repository lists it. Raises HearthError."""
    if not os.path.isdir(worktree.repository):
        return None
    done = git.run(worktree.repository, "worktree", "list", "--porcelain")
    if b"not a git repository" in done.output:
        return None
    git.check(done, "worktree list")
    path = os.path.normcase(os.path.realpath(worktree.path))
    for block in done.output.decode("utf-8", "surrogateescape").split("\n\n"):
        fields = dict(line.partition(" ")[::2] for line in block.splitlines())
        if os.path.normcase(os.path.realpath(fields.get("worktree", ""))) == path:
            branch = fields.get("branch", "").removeprefix("refs/heads/") or None
            return _Listed(fields.get("HEAD", ""), branch, "locked" in fields)
    return None


def _submodules(path: str) -> str | None:
    done = git.run(path, "rev-parse", "--git-dir")
    git.check(done, "rev-parse")
    modules = os.path.join(path, git.value(done), "modules")
    return "submodules are checked out in it" if os.path.isdir(modules) and os.listdir(modules) else None


def _changes(path: str) -> str | None:
    done = git.run(path, *git.without_filters(path), *_STATUS, seconds=STATUS_SECONDS)
    git.check(done, "status", STATUS_SECONDS)
    kinds: dict[str, list[str]] = {}
    for entry in done.output.decode("utf-8", "replace").split("\0"):
        if len(entry) > 3:
            kinds.setdefault(entry[:2], []).append(entry[3:])
    untracked, ignored = kinds.pop("??", []), kinds.pop("!!", [])
    changed = sorted(name for names in kinds.values() for name in names)
    for what, names in (("uncommitted changes", changed), ("untracked files", untracked), ("ignored files", ignored)):
        if names:
            return f"{what} in it ({_few(names)})"
    return None


def _hidden_changes(path: str) -> str | None:
    """Look for files that `git status` was told to overlook."""
    done = git.run(path, "ls-files", "-v", "-z", seconds=STATUS_SECONDS)
    git.check(done, "ls-files", STATUS_SECONDS)
    entries = [each for each in done.output.decode("utf-8", "surrogateescape").split("\0") if len(each) > 2]
    # A lower-case letter is a file that is assumed to be unchanged. S is one outside of a sparse checkout: its absence
    # is no change.
    hidden = [
        each[2:]
        for each in entries
        if each[0].islower() or (each[0] == "S" and os.path.lexists(os.path.join(path, each[2:])))
    ]
    return f"files in it that git was told to assume unchanged ({_few(hidden)})" if hidden else None


def _own_commits(worktree: Worktree, listed: _Listed) -> str | None:
    """Tell of commits that nothing has once the worktree, and its branch with it, are gone."""
    # A branch that has no commit yet.
    if not listed.commit.strip("0"):
        return None
    goes = [f"--exclude={listed.branch}"] if listed.branch == worktree.branch else []
    words = ("rev-list", "--count", listed.commit, "--not", *goes, "--branches", "--tags", "--remotes")
    done = git.run(worktree.repository, *words, seconds=STATUS_SECONDS)
    git.check(done, "rev-list", STATUS_SECONDS)
    count = git.value(done)
    return None if count == "0" else f"commits in it that no other branch, tag or remote has ({count})"


def _few(names: list[str]) -> str:
    more = len(names) - SHOWN_FILES
    return ", ".join(names[:SHOWN_FILES]) + (f" and {more} more" if more > 0 else "")
