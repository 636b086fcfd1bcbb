"""Facts about an agent that wants to stop, for the stop checks: its tasks, its pull requests, the files it edited.

The methods are called in a thread of the checks. The store belongs to the daemon's loop, which answers meanwhile.
"""

import asyncio
import os
from collections.abc import Collection, Coroutine, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from hearth.errors import HearthError
from hearth.packs.team.roster import Roster
from hearth.wire import json

if TYPE_CHECKING:
    from hearth.packs.agents.model import AgentRecord
    from hearth.packs.agents.service import AgentService

Result = TypeVar("Result")

# The store answers in milliseconds; a disk that hangs must not hold the check.
ANSWER_SECONDS = 5.0
_DONE = ("completed", "cancelled")
_CHANGING = frozenset({"edit", "delete", "move"})
# Members of tools' arguments that name files, as the built-in agents call them.
_PATHS = ("file_path", "filePath", "path", "abs_path", "absolute_path", "notebook_path", "source", "destination")
_DIFF = "[diff] "


class AgentStopFacts:
    """Facts about one agent; implements `policy.stop_checks.StopFacts`. To be made in the daemon's loop."""

    def __init__(self, agents: "AgentService", record: "AgentRecord", files_prs: bool) -> None:
        self._agents = agents
        self._record = record
        # Whether there is a command with which pull requests are filed.
        self._files_prs = files_prs
        self._roster = Roster(record, [each.record for each in agents.agents.values()])
        self._loop = asyncio.get_running_loop()

    def edited_files(self) -> Collection[str] | None:
        """Return the files that this agent edited, where it shares its folder; None: every file there is its own."""
        if not self._is_folder_shared():
            return None
        items = self._answer(self._agents.store.timeline(self._record.id))
        return set(edited_paths(items, self._record.cwd))

    def is_task_done(self) -> bool | None:
        """Tell whether all tasks of the agent are completed or cancelled; None if it has none."""
        tasks = self._answer(self._agents.store.tasks(self._roster.workspace))
        own = [each.status in _DONE for each in tasks if each.owner == self._record.id]
        return all(own) if own else None

    def is_pr_filed(self) -> bool | None:
        """Tell whether the agent has filed a pull request; None if nothing files them here."""
        found = self._answer(self._agents.store.pull_requests(self._record.id))
        return bool(found) or (False if self._files_prs else None)

    def _is_folder_shared(self) -> bool:
        """Tell whether others may work in the agent's folder: people, outside of a worktree, or other agents in it."""
        own = self._record.worktree
        if own is None:
            return True
        top = os.path.realpath(own.path)
        others = (os.path.realpath(each.cwd) for each in self._roster.others() if each.status != "closed")
        return any(each == top or each.startswith(top + os.sep) for each in others)

    def _answer(self, question: Coroutine[Any, Any, Result]) -> Result:
        future = asyncio.run_coroutine_threadsafe(question, self._loop)
        try:
            return future.result(ANSWER_SECONDS)
        except TimeoutError as exc:
            future.cancel()
            raise HearthError(f"the store of agents did not answer within {ANSWER_SECONDS:g} s") from exc


def edited_paths(items: Iterable[Any], folder: str) -> Iterator[str]:
    """Yield the files that the tool calls of a timeline have edited, deleted or moved. Shell commands are not seen."""
    for item in items:
        data = item.data
        if item.kind == "tool" and data.get("tool_kind") in _CHANGING and data.get("status") != "failed":
            for path in _paths_of(data):
                yield os.path.join(folder, path)


def _paths_of(data: dict[str, Any]) -> Iterator[str]:
    for line in str(data.get("output", "")).splitlines():
        if line.startswith(_DIFF):
            yield line.removeprefix(_DIFF)
    try:
        arguments = json.loads(str(data.get("input", "")).encode())
    except HearthError:
        # Without arguments, or with ones that were cut.
        return
    if not isinstance(arguments, dict):
        return
    yield from (value for key in _PATHS if isinstance(value := arguments.get(key), str))
    # A patch of Codex: changes by the names of their files.
    changes = arguments.get("changes")
    yield from (changes if isinstance(changes, dict) else ())
