"""Git, run within bounds on folders whose config is not trusted. Blocks; call it in a thread.

Agents work in these folders, and the config of a repository is theirs to write. Hence no hook, no file-system monitor
and no filter of the repository is run, missing objects are not fetched, and variables of the environment do not lead to
another repository.
"""

import os
from collections.abc import Mapping
from typing import NamedTuple

from hearth.errors import HearthError, Refused
from hearth.host import bounded_run
from hearth.host.bounded_run import RunResult

# Git answers in milliseconds; a cold disk and a large tree take longer.
GIT_SECONDS = 10.0
# Names of a hundred thousand changed files.
GIT_OUTPUT_BYTES = 8 * 1024 * 1024
# Enough of what git says to understand it.
SHOWN_CHARACTERS = 1500
_GIT = (
    "git",
    "--no-optional-locks",
    "-c",
    "core.hooksPath=",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.quotePath=false",
)
# Keys of a repository's own config that name programs which `git status` would run.
_FILTER_KEYS = (".clean", ".smudge", ".process")
# A fetch of missing objects (git 2.45 and later) would run the programs that the config names for its transport.
_ENVIRONMENT = {"GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1", "LC_ALL": "C"}
_HEADS, _REMOTES = "refs/heads/", "refs/remotes/"


class Repository(NamedTuple):
    """Repository of a folder. `top` is the work tree with the folder in it, `prefix` the folder below it.

    `main` is the main work tree, or the bare repository, and `common` the folder that all its work trees share.
    """

    top: str
    prefix: str
    main: str
    common: str


def run(folder: str, *words: str, seconds: float | None = None) -> RunResult:
    """Run git in a folder, and return its exit code and output. Raises HearthError if it cannot be started."""
    # Variables could name another repository, or programs to run.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | _ENVIRONMENT
    try:
        return bounded_run.run((*_GIT, *words), folder, environment, seconds or GIT_SECONDS, GIT_OUTPUT_BYTES)
    except HearthError as exc:
        if not os.path.isdir(folder):
            raise HearthError(f"the folder {folder} does not exist") from exc
        import shutil

        if shutil.which("git") is None:
            raise HearthError("git is not installed, or not on the PATH of the daemon; install it") from exc
        raise


def check(done: RunResult, word: str, seconds: float | None = None) -> None:
    """Raise HearthError if a command has failed; `word` is its name."""
    if done.is_late:
        raise HearthError(f"`git {word}` took longer than {seconds or GIT_SECONDS:g} s")
    if done.exit_code != 0 and not done.is_cut:
        raise HearthError(f"`git {word}`: {sentence(done)}")


def sentence(done: RunResult) -> str:
    """Return what git said."""
    return done.output.decode("utf-8", "replace").strip()[:SHOWN_CHARACTERS]


def value(done: RunResult) -> str:
    """Return the one value that a command has printed, after any warnings."""
    return os.fsdecode(done.output.removesuffix(b"\n").rpartition(b"\n")[2])


def top(folder: str) -> str | None:
    """Return the top of the work tree; None outside of one. Raises HearthError."""
    done = run(folder, "rev-parse", "--show-toplevel")
    if done.exit_code == 0:
        return value(done)
    if b"not a git repository" in done.output or b"must be run in a work tree" in done.output:
        return None
    check(done, "rev-parse")
    return None


def find(folder: str) -> Repository:
    """Return the repository of a folder. Raises Refused if there is none in which a work tree could be made."""
    if not os.path.isdir(folder):
        what = "is a file, not a folder" if os.path.lexists(folder) else "does not exist"
        raise Refused(f"the folder {folder} {what}")
    found = top(folder)
    if found is None:
        if value(run(folder, "rev-parse", "--is-bare-repository")) == "true":
            raise Refused(f"{folder} is a bare repository, without files; give the folder of one of its work trees")
        raise Refused(f"{folder} is not a git repository; `git init` makes one, or use the folder as it is")
    outer = run(folder, "rev-parse", "--show-superproject-working-tree")
    if outer.exit_code == 0 and value(outer):
        raise Refused(f"{folder} is in a submodule of {value(outer)}; give the folder of a repository of its own")
    done = run(folder, "rev-parse", "--git-common-dir")
    check(done, "rev-parse")
    common = os.path.realpath(os.path.join(folder, value(done)))
    prefix = os.path.relpath(os.path.realpath(folder), os.path.realpath(found))
    return Repository(found, "" if prefix == os.curdir else prefix, _main(folder, found, common), common)


def _main(folder: str, top: str, common: str) -> str:
    if os.path.realpath(os.path.join(top, ".git")) == common:
        return top
    done = run(folder, "worktree", "list", "--porcelain")
    check(done, "worktree list")
    lines = done.output.decode("utf-8", "surrogateescape").splitlines()
    # The main one is the first; for a repository whose .git is elsewhere, git names that folder.
    return next((line.removeprefix("worktree ") for line in lines if line.startswith("worktree ")), top)


def branches(folder: str) -> Mapping[str, str]:
    """Return the newest commits of all branches, those of remotes included, by their full names. Raises HearthError."""
    done = run(folder, "for-each-ref", "--format=%(objectname) %(refname)", _HEADS, _REMOTES)
    check(done, "for-each-ref")
    pairs = (line.split(" ", 1) for line in done.output.decode("utf-8", "surrogateescape").splitlines())
    return {pair[1]: pair[0] for pair in pairs if len(pair) == 2 and pair[1].startswith((_HEADS, _REMOTES))}


def current_branch(folder: str) -> str | None:
    """Return the branch of a work tree; None if there is none, as in the middle of a rebase."""
    done = run(folder, "symbolic-ref", "--quiet", "HEAD")
    name = value(done)
    return name.removeprefix(_HEADS) if done.exit_code == 0 and name.startswith(_HEADS) else None


def without_filters(folder: str) -> list[str]:
    """Return the options that switch the filters off that the repository's own config names. Raises HearthError."""
    found = []
    for scope in ("--local", "--worktree"):
        done = run(folder, "config", scope, "--includes", "--name-only", "-z", "--list")
        if done.is_late or done.is_cut:
            raise HearthError(f"the config of the repository in {folder} cannot be read: `git config` did not end")
        if done.exit_code != 0:
            # Without an extension, several work trees have no config of their own.
            continue
        for entry in done.output.decode("utf-8", "surrogateescape").split("\0"):
            # A warning comes before the name, on lines of its own.
            name = entry.rpartition("\n")[2]
            if name.startswith("filter.") and name.endswith(_FILTER_KEYS):
                found += ["-c", f"{name}="]
            elif name.startswith("filter.") and name.endswith(".required"):
                found += ["-c", f"{name}=false"]
    return found
