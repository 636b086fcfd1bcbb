"""Git, run within bounds on folders whose config is not trusted. Blocks; call it in a thread.

Agents work in these folders, and the config of a repository is theirs to write. Hence no hook, no file-system monitor
and no filter of the repository is run, and variables of the environment do not lead to another repository.
"""

import os

from hearth.errors import HearthError
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


def run(folder: str, *words: str) -> RunResult:
    """Run git in a folder, and return its exit code and output. Raises HearthError if it cannot be started."""
    # Variables could name another repository, or programs to run.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    return bounded_run.run((*_GIT, *words), folder, environment, GIT_SECONDS, GIT_OUTPUT_BYTES)


def check(done: RunResult, word: str) -> None:
    """Raise HearthError if a command has failed; `word` is its name."""
    if done.is_late:
        raise HearthError(f"`git {word}` took longer than {GIT_SECONDS:g} s")
    if done.exit_code != 0 and not done.is_cut:
        raise HearthError(f"`git {word}`: {done.output.decode('utf-8', 'replace').strip()[:SHOWN_CHARACTERS]}")


def top(folder: str) -> str | None:
    """Return the top of the work tree; None outside of one. Raises HearthError."""
    done = run(folder, "rev-parse", "--show-toplevel")
    if done.exit_code == 0:
        return os.fsdecode(done.output.removesuffix(b"\n"))
    if b"not a git repository" in done.output or b"must be run in a work tree" in done.output:
        return None
    check(done, "rev-parse")
    return None


def without_filters(folder: str) -> list[str]:
    """Return the options that switch the filters off that the repository's own config names."""
    found = []
    for scope in ("--local", "--worktree"):
        done = run(folder, "config", scope, "--includes", "--name-only", "-z", "--list")
        if done.exit_code != 0:
            continue
        for name in done.output.decode("utf-8", "surrogateescape").split("\0"):
            if name.startswith("filter.") and name.endswith(_FILTER_KEYS):
                found += ["-c", f"{name}="]
            elif name.startswith("filter.") and name.endswith(".required"):
                found += ["-c", f"{name}=false"]
    return found
