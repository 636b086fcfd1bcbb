"""Git worktrees of agents: each is made from a base branch, with a branch of its own. Blocks; call it in a thread.

A worktree is in `ROOT/REPOSITORY/NAME`, where REPOSITORY is a digest of the repository's path. While one is made, the
file `NAME.making` is beside it. A daemon that dies meanwhile leaves that file behind: no agent was in that worktree, so
the next creation in the repository removes it. A worktree that is on record for an agent is never removed that way.

Changes in one repository wait for each other: git itself stumbles over half-made worktrees. No hook and no filter of
the repository's own config is run (`hearth.host.git`).
"""

import contextlib
import logging
import os
import re
import threading
from collections.abc import Collection, Iterator, Mapping

from hearth import paths
from hearth.errors import HearthError, Refused
from hearth.host import folders, git, private_files
from hearth.host.git import Repository
from hearth.packs.agents import worktree_removal
from hearth.packs.agents.model import Worktree
from hearth.packs.agents.worktree_removal import is_clean
from hearth.policy.captures import is_inside

__all__ = ["BranchRefused", "create", "is_clean", "remove", "rename_branch"]

log = logging.getLogger(__name__)

# Checkout of a hundred thousand files on a slow disk.
ADD_SECONDS = 120.0
# Three creations before this one may take their whole time.
QUEUE_SECONDS = 4 * ADD_SECONDS
STATUS_SECONDS = 10.0
# Names are branches and folders at the same time; git and people cope with that.
NAME_CHARACTERS = 60
BRANCH_CHARACTERS = 100
# Names in an error message.
SHOWN_NAMES = 10
NEAREST_NAMES = 3
# Names among which a similar one is looked for: difflib takes a second for some ten thousand.
SIMILAR_AMONG = 2000
MARK_BYTES = 1024

_HEADS, _REMOTES = "refs/heads/", "refs/remotes/"
_MAKING = ".making"

_GUARD = threading.Lock()
# One lock for each repository: a handful, as long as the daemon runs.
_LOCKS: dict[str, threading.Lock] = {}
# Worktrees that this process has made: a record of theirs may not exist yet.
_MADE: set[str] = set()


class BranchRefused(Refused):
    """Error for a branch that was not renamed. `code` is INVALID_BRANCH, NOT_ALLOWED or NOT_GIT_REPO."""

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(f"{code}: {sentence}")
        self.code = code


def create(root: str, folder: str, name: str, base: str, in_use: Collection[str] | None = None) -> Worktree:
    """Make a worktree with the branch `name`, which begins at the branch `base`, for the repository of a folder.

    `in_use` are the paths of the worktrees of all agents on record, and the folders in which agents work. With them, a
    leftover of that name that no agent has, and with which nothing is lost, is replaced. Raises Refused for bad input,
    HearthError if git fails.
    """
    if problem := _name_problem(name):
        raise Refused(problem)
    repository = git.find(folder)
    home = os.path.join(os.path.realpath(root), paths.digest(repository.common))
    path = os.path.join(home, name)
    with _alone(repository.main):
        folders.make_private(home)
        _sweep(repository.main, home, in_use or ())
        branches = git.branches(folder)
        begin, commit = _begin(repository, branches, base)
        if in_use is not None and path not in _MADE and not any(is_inside(each, path) for each in in_use):
            branches = _replace(Worktree(path, repository.main, name, name, base), folder, branches)
        _check_free(repository, branches, path, name)
        _add(folder, repository.main, path, name, commit)
        _MADE.add(path)
    note = " ".join(_notes(folder, repository, path, begin))
    subfolder = repository.prefix if os.path.isdir(os.path.join(path, repository.prefix)) else ""
    log.info("worktree made path=%s base=%s", path, base)
    return Worktree(path, repository.main, name, name, base, subfolder, note or None)


def remove(worktree: Worktree, force: bool = False) -> str | None:
    """Remove a worktree and its branch; return a sentence if the branch stays.

    Raises Refused, without `force`, if work would be lost; HearthError if the removal fails.
    """
    with _alone(worktree.repository):
        return worktree_removal.remove(worktree, force)


def _name_problem(name: str) -> str | None:
    if len(name) > NAME_CHARACTERS:
        return f"a worktree's name has at most {NAME_CHARACTERS} characters, not {len(name)}"
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name):
        return f"{name!r} cannot be a worktree's name: lower-case letters and digits, with single hyphens between them"
    return None


@contextlib.contextmanager
def _alone(repository: str) -> Iterator[None]:
    """Keep the other threads from changing the worktrees of a repository inside the block."""
    with _GUARD:
        lock = _LOCKS.setdefault(os.path.realpath(repository), threading.Lock())
    if not lock.acquire(timeout=QUEUE_SECONDS):
        raise HearthError(f"other worktrees of {repository} are being made; try again later")
    try:
        yield
    finally:
        lock.release()


def _begin(repository: Repository, branches: Mapping[str, str], base: str) -> tuple[str, str]:
    """Return the full name of the base branch and its newest commit. Raises Refused."""
    of_remotes = [name for name in branches if name.startswith(_REMOTES) and name.split("/", 3)[-1] == base]
    candidates = [_HEADS + base, _REMOTES + base, *(of_remotes if len(of_remotes) == 1 else [])]
    if found := next((each for each in candidates if each in branches), None):
        return found, branches[found]
    if not branches:
        raise Refused(f"{repository.main} has no commit yet, so no worktree can be made from it; commit something")
    raise Refused(f"there is no branch {base!r} in {repository.main}; {_nearest(base, branches)}")


def _nearest(base: str, branches: Mapping[str, str]) -> str:
    import difflib

    known = [name.removeprefix(_HEADS).removeprefix(_REMOTES) for name in branches]
    if len(known) <= SHOWN_NAMES:
        return f"branches: {', '.join(known)}"
    near = difflib.get_close_matches(base, known[:SIMILAR_AMONG], n=NEAREST_NAMES, cutoff=0.5)
    return f"did you mean {', '.join(near)}?" if near else f"it has {len(known)} others; `git branch -a` lists them"


def _replace(leftover: Worktree, folder: str, branches: Mapping[str, str]) -> Mapping[str, str]:
    """Remove a worktree that no agent has, unless something is lost with it; return the branches that are left."""
    if not os.path.isdir(leftover.path) or is_clean(leftover):
        return branches
    worktree_removal.remove(leftover)
    log.info("worktree without an agent removed path=%s", leftover.path)
    return git.branches(folder)


def _check_free(repository: Repository, branches: Mapping[str, str], path: str, name: str) -> None:
    if os.path.lexists(path):
        raise Refused(f"the name {name!r} is taken: {path} exists; choose another name")
    if _HEADS + name in branches:
        raise Refused(f"the branch {name!r} exists already in {repository.main}; choose another name")
    if below := next((each for each in branches if each.startswith(f"{_HEADS}{name}/")), None):
        taken = below.removeprefix(_HEADS)
        raise Refused(f"git cannot have a branch {name!r} beside the branch {taken!r}; choose another name")


def _add(folder: str, main: str, path: str, name: str, commit: str) -> None:
    mark = path + _MAKING
    try:
        private_files.write(mark, f"{name} {commit}".encode())
    except OSError as exc:
        raise folders.refusal("write", mark, exc) from exc
    # Forced: a worktree that was deleted by hand, and is still registered at this path, is no reason to refuse.
    words = ("worktree", "add", "--quiet", "--force", "--no-track", "-b", name, path, commit)
    try:
        done = git.run(
            folder, *git.without_filters(folder), "-c", "submodule.recurse=false", *words, seconds=ADD_SECONDS
        )
        git.check(done, "worktree add", ADD_SECONDS)
        # Before an agent works there: a worktree with a mark is removed.
        folders.remove_file(mark)
    except HearthError:
        _undo(main, path, name, commit)
        raise


def _sweep(main: str, home: str, in_use: Collection[str]) -> None:
    """Remove the worktrees that a daemon was making when it died."""
    for entry in os.listdir(home):
        if not entry.endswith(_MAKING):
            continue
        mark = os.path.join(home, entry)
        if mark.removesuffix(_MAKING) in in_use:
            # After a power failure a mark may be there again.
            private_files.remove(mark)
            continue
        try:
            name, _, commit = private_files.read(mark, MARK_BYTES).decode("utf-8", "replace").partition(" ")
        except (OSError, ValueError) as exc:
            log.warning("mark of a half-made worktree not read path=%s reason=%s", mark, exc)
            continue
        if name == entry.removesuffix(_MAKING) and _name_problem(name) is None:
            log.warning("half-made worktree removed path=%s", os.path.join(home, name))
            _undo(main, os.path.join(home, name), name, commit)


def _undo(main: str, path: str, name: str, commit: str) -> None:
    try:
        worktree_removal.discard(main, path)
        # Git makes the branch first; at its commit it is the one of the attempt.
        worktree_removal.delete_branch(main, name, commit)
    except HearthError as exc:
        # The mark stays for the next attempt.
        log.warning("half-made worktree not removed path=%s reason=%s", path, exc)
        return
    private_files.remove(path + _MAKING)


def _notes(folder: str, repository: Repository, path: str, begin: str) -> Iterator[str]:
    """Yield sentences about that which the worktree lacks. A git that fails here is no reason to give up."""
    with contextlib.suppress(HearthError):
        if begin == f"{_HEADS}{git.current_branch(folder)}":
            words = ("status", "--porcelain=v1", "-z", "--no-renames", "--ignore-submodules=dirty")
            done = git.run(folder, *git.without_filters(folder), *words, seconds=STATUS_SECONDS)
            git.check(done, "status", STATUS_SECONDS)
            if count := sum(len(entry) > 3 for entry in done.output.split(b"\0")):
                yield f"Uncommitted changes in {repository.top} ({count} files) are not in the worktree."
        if git.without_filters(folder):
            yield "Filters of the repository's config, such as Git LFS, were not run: files are as git stores them."
    if os.path.isfile(os.path.join(path, ".gitmodules")):
        yield "Submodules are not checked out: `git submodule update --init` does that."
    if repository.prefix and not os.path.isdir(os.path.join(path, repository.prefix)):
        yield f"The folder {repository.prefix} does not exist in that branch: the agent works at the top."


# --- the branch of a worktree


def rename_branch(worktree: Worktree | None, cwd: str, name: str) -> str:
    """Rename the branch of an agent's own worktree, once; return the new name. Raises BranchRefused."""
    if problem := _branch_problem(name):
        raise BranchRefused("INVALID_BRANCH", problem)
    top = git.top(cwd) if os.path.isdir(cwd) else None
    if top is None:
        raise BranchRefused("NOT_GIT_REPO", f"{cwd} is not in a git repository")
    if worktree is None or os.path.realpath(top) != os.path.realpath(worktree.path):
        raise BranchRefused("NOT_ALLOWED", "Branch renames are only allowed inside worktrees that Hearth made")
    with _alone(worktree.repository):
        former = git.current_branch(top)
        if former is None:
            raise BranchRefused("NOT_ALLOWED", f"{top} is on no branch; check the branch {worktree.branch!r} out first")
        if former != worktree.name or worktree.branch != worktree.name:
            raise BranchRefused(
                "NOT_ALLOWED", "Branch has already been renamed. Use git commands for subsequent renames."
            )
        if name != former:
            _rename(top, former, name)
    return name


def _rename(top: str, former: str, name: str) -> None:
    # By its name, not as the current branch: the agent's own git may switch to another in this moment.
    done = git.run(top, "branch", "-m", former, name)
    # Git renames first, and then the section of the config, which may be locked.
    if done.exit_code == 0 or git.current_branch(top) == name:
        return
    if not done.is_late:
        raise BranchRefused("NOT_ALLOWED", git.sentence(done))
    git.check(done, "branch -m")


def _branch_problem(name: str) -> str | None:
    if not 1 <= len(name) <= BRANCH_CHARACTERS:
        return f"a branch's name has 1 to {BRANCH_CHARACTERS} characters, not {len(name)}"
    if not re.fullmatch(r"[a-z0-9/-]+", name):
        return "a branch's name has lower-case letters, digits, hyphens and slashes"
    if name.startswith("-") or name.endswith("-") or "--" in name:
        return "a branch's name neither begins nor ends with a hyphen, and has no two in a row"
    if name.startswith("/") or name.endswith("/") or "//" in name:
        return "a branch's name neither begins nor ends with a slash, and has no two in a row"
    return None
