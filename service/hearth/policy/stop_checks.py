"""Stop checks: conditions that hold before an agent may stop, such as a committed tree.

`run` looks, `verdict` decides. A failed check with the action "block" blocks every stop, one with "nudge" only the
first: an agent that is called again (`stop_hook_active`) has read the message. How many blocks there may be in a row
is the business of `hub.authorization.hooks`.

Git is run on folders that an agent works in, and their config is the agent's to write (`host.git`). Hence submodules,
whose config git would read, are not entered.
"""

import asyncio
import os
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple, Protocol

from hearth.errors import HearthError
from hearth.host import bounded_run, git
from hearth.policy.hook_formats import HookVerdict
from hearth.policy.model import StopCheck

# A test suite may be a check; the client waits for hook_wait (50 s) at most.
COMMAND_SECONDS = 40.0
# The tail of a failed command's output is for the model to read.
COMMAND_OUTPUT_BYTES = 1024 * 1024
SHOWN_CHARACTERS = 1500
SHOWN_FILES = 10


class StopFacts(Protocol):
    """Facts about the agent that stops, from the parts of Hearth that know them. None: nothing is known."""

    def edited_files(self) -> Collection[str] | None:
        """Return the files that this agent edited, where it shares its folder with others; None: every file counts."""

    def is_task_done(self) -> bool | None:
        """Tell whether the agent's task is marked as done."""

    def is_pr_filed(self) -> bool | None:
        """Tell whether the agent has filed a pull request."""


class NoFacts:
    """Facts of an agent without a task or a pull request that Hearth knows of."""

    def edited_files(self) -> Collection[str] | None:
        """Return None: every file counts."""
        return None

    def is_task_done(self) -> bool | None:
        """Return None."""
        return None

    def is_pr_filed(self) -> bool | None:
        """Return None."""
        return None


class FailedCheck(NamedTuple):
    """Check that does not hold, and the details for the agent."""

    rule: StopCheck
    detail: str


async def run(rules: Iterable[StopCheck], role: str, folder: str, facts: StopFacts) -> list[FailedCheck]:
    """Run the checks of a role and return those that do not hold, in the order of the policy."""
    found = []
    for rule in rules:
        if rule.roles and role not in rule.roles:
            continue
        try:
            # In a thread: git reads the disk.
            detail = await asyncio.to_thread(_CHECKS[rule.kind], rule, folder, facts)
        except HearthError as exc:
            detail = f"the check {rule.kind!r} could not be made: {exc}"
        if detail is not None:
            found.append(FailedCheck(rule, detail))
    return found


def verdict(failed: Sequence[FailedCheck], stop_hook_active: bool) -> HookVerdict:
    """Return the verdict on a stop. Pure."""
    due = [each for each in failed if each.rule.action == "block" or not stop_hook_active]
    if not due:
        return HookVerdict("allow")
    texts = [": ".join(filter(None, (each.rule.message, each.detail))) for each in due]
    return HookVerdict("block", "\n".join(texts))


# --- checks: None if one holds, else the details


def _committed(rule: StopCheck, folder: str, facts: StopFacts) -> str | None:
    top = git.top(folder)
    if top is None:
        return None
    words = ("status", "--porcelain=v1", "-z", "--no-renames", "--ignore-submodules=dirty", "--untracked-files=normal")
    done = git.run(folder, *git.without_filters(folder), *words)
    git.check(done, "status")
    changed = [entry[3:].decode("utf-8", "replace") for entry in done.output.split(b"\0") if len(entry) > 3]
    edited = facts.edited_files()
    if edited is not None:
        own = {os.path.realpath(path) for path in edited}
        changed = [path for path in changed if _is_among(os.path.join(top, path), own)]
    return f"not committed: {_few(changed)}" if changed else None


def _is_among(path: str, own: Collection[str]) -> bool:
    """Tell whether a changed path is a file of the agent's, or a new folder with one in it."""
    path = os.path.realpath(path)
    return any(each == path or each.startswith(path + os.sep) for each in own)


def _pushed(rule: StopCheck, folder: str, facts: StopFacts) -> str | None:
    if git.top(folder) is None:
        return None
    head = git.run(folder, "rev-parse", "--verify", "--quiet", "HEAD")
    if head.exit_code != 0:
        # A repository without a commit has nothing to push.
        return None
    # By the local refs of the remotes; the network is not used.
    done = git.run(folder, "for-each-ref", "--count=1", "--format=%(refname)", "--contains=HEAD", "refs/remotes")
    git.check(done, "for-each-ref")
    return None if done.output.strip() else "not pushed: no branch of a remote has the newest commit"


def _pr_filed(rule: StopCheck, folder: str, facts: StopFacts) -> str | None:
    return "no pull request was filed" if facts.is_pr_filed() is False else None


def _task_done(rule: StopCheck, folder: str, facts: StopFacts) -> str | None:
    return "the task is not marked as done" if facts.is_task_done() is False else None


def _command(rule: StopCheck, folder: str, facts: StopFacts) -> str | None:
    if not rule.command:
        return None
    done = bounded_run.run(rule.command, folder, os.environ, COMMAND_SECONDS, COMMAND_OUTPUT_BYTES)
    if done.exit_code == 0 and not done.is_late and not done.is_cut:
        return None
    shown = " ".join(rule.command)
    if done.is_late:
        return f"`{shown}` took longer than {COMMAND_SECONDS:g} s"
    tail = done.output.decode("utf-8", "replace").strip()[-SHOWN_CHARACTERS:]
    return f"`{shown}` failed with exit code {done.exit_code}\n{tail}".strip()


_CHECKS = {
    "committed": _committed,
    "pushed": _pushed,
    "pr_filed": _pr_filed,
    "task_done": _task_done,
    "command": _command,
}


def _few(paths: Sequence[str]) -> str:
    more = len(paths) - SHOWN_FILES
    return ", ".join(paths[:SHOWN_FILES]) + (f" and {more} more" if more > 0 else "")
