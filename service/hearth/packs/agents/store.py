"""Store of agents, of their timelines, and of what teams write, in one SQLite file: `FOLDER/agents.db`.

`save`, `append`, `delete` and `deliver_notice` return at once: records are coalesced per agent and timeline items per
item, and a thread writes them a moment later. The other methods wait for the disk; what they have written survives a
power failure. Nothing is opened before the first use, and all is closed again when there is no work.

While the file cannot be written, waiting callers get a FileAccessError. Records, notices, and what no caller waits for
are tried again. Timeline items beyond the bounds of `item_queue` are lost. Both are logged once.

Records and undelivered notices are in memory; timelines are read on demand. In the folder `storage`, `writer` has the
thread, `database` opens the file and `rows` has the statements.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from hearth.packs.agents.model import AgentRecord, Notice, PullRequest, Task, TaskStatus, TeamMessage
from hearth.packs.agents.storage import rows
from hearth.packs.agents.storage.database import AgentDatabase, DamagedFile
from hearth.packs.agents.storage.jobs import StoreJob
from hearth.packs.agents.storage.writer import StoreWriter
from hearth.packs.agents.timeline import ITEMS_LIMIT
from hearth.packs.agents.timeline_items import TimelineItem

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from sqlite3 import Connection

# How long the end of the daemon waits for the last rows.
CLOSE_SECONDS = 5.0


class AgentStore:
    """Store of one profile, in a folder of its own (Places.agents). For one event loop; `load` comes first."""

    def __init__(self, folder: str, timeline_limit: int = ITEMS_LIMIT) -> None:
        self.folder = folder
        self._database = AgentDatabase(folder)
        self._writer = StoreWriter(self._database, timeline_limit)
        # Undelivered ones by id, oldest first.
        self._notices: dict[str, Notice] = {}

    def set_timeline_limit(self, limit: int) -> None:
        """Change how many items of each timeline are kept."""
        self._writer.timeline_limit = limit

    async def flush(self) -> None:
        """Return when all that was queued so far is on disk. Raises FileAccessError."""
        await self._writer.flush()

    async def close(self) -> None:
        """Write what is queued and close the file. Items that come later are ignored, and calls refused."""
        await self._writer.close(CLOSE_SECONDS)

    async def _write(self, run: "Callable[[Connection], None]", is_kept: bool = False) -> None:
        await self._writer.call(StoreJob(run, is_kept=is_kept))

    async def _read(self, run: "Callable[[Connection], Any]", agent_id: str | None = None) -> Any:
        return await self._writer.call(StoreJob(run, "read", agent_id=agent_id))

    # --- agents

    def load(self) -> list[AgentRecord]:
        """Return the records of all agents, oldest first. Blocks. Raises FileAccessError.

        Of a damaged file, which is moved aside, these are the records that can still be read.
        """
        if not self._database.exists():
            return []
        try:
            records, notices = self._load()
        except DamagedFile:
            records, notices = self._load()
        finally:
            self._database.close()
        for record in records:
            self._writer.know(record.id)
        self._notices = {notice.id: notice for notice in notices}
        return records

    def _load(self) -> tuple[list[AgentRecord], list[Notice]]:
        with self._database.connection() as connection:
            return rows.load(connection)

    def save(self, record: AgentRecord) -> None:
        """Queue a record as it is now."""
        self._writer.put_record(record.id, rows.encode(record))

    async def save_durably(self, record: AgentRecord) -> None:
        """Write a record; return when it is on disk. Raises FileAccessError; then it is tried again all the same."""
        await self._writer.write_record(record.id, rows.encode(record))

    def together(self) -> "AbstractContextManager[None]":
        """Have what is queued inside the block written in one transaction: all of it is on disk, or nothing."""
        return self._writer.together()

    def delete(self, agent_id: str) -> None:
        """Remove an agent with its timeline, its pull requests, and the notices and messages for it."""
        for notice in self.notices():
            if notice.parent_id == agent_id:
                del self._notices[notice.id]
        self._writer.delete(agent_id)

    # --- timelines

    def append(self, agent_id: str, items: Sequence[TimelineItem]) -> None:
        """Queue new and changed items of an agent that was saved before.

        If the disk is too slow, the oldest ones are dropped, and an item of kind `system` says how many.
        """
        self._writer.append(agent_id, items)

    async def timeline(self, agent_id: str, limit: int | None = None, after: int = 0) -> list[TimelineItem]:
        """Return the newest items with numbers above `after`, oldest first. Raises FileAccessError."""
        most = self._writer.timeline_limit if limit is None else min(limit, self._writer.timeline_limit)
        found: list[TimelineItem] = await self._read(
            lambda connection: rows.items(connection, agent_id, most, after), agent_id
        )
        return found

    async def last_seq(self, agent_id: str) -> int:
        """Return the number of the newest item, 0 if there is none. Raises FileAccessError."""
        found: int = await self._read(lambda connection: rows.last_seq(connection, agent_id), agent_id)
        return found

    # --- notices

    def notices(self) -> list[Notice]:
        """Return the undelivered notices, oldest first."""
        return list(self._notices.values())

    async def add_notice(self, notice: Notice) -> None:
        """Add a notice; return when it is on disk. Raises FileAccessError; then it is in memory and tried again."""
        self._notices[notice.id] = notice
        await self._write(lambda connection: rows.add_notice(connection, notice), is_kept=True)

    def deliver_notice(self, id: str) -> None:
        """Remove a notice that was delivered. After `flush` it is gone from the disk, too."""
        if self._notices.pop(id, None) is not None:
            self._writer.submit(StoreJob(lambda connection: rows.remove_notice(connection, id), is_kept=True))
            self._writer.hurry()

    # --- messages, tasks and pull requests of teams

    async def add_message(self, message: TeamMessage) -> None:
        """Add a message. Raises FileAccessError, and Refused for a recipient with too many unread ones."""
        await self._write(lambda connection: rows.add_message(connection, message))

    async def messages(self, recipient: str, unread_only: bool = False, limit: int = 100) -> list[TeamMessage]:
        """Return the oldest unread messages, or the newest of all; oldest first. Raises FileAccessError."""
        found: list[TeamMessage] = await self._read(
            lambda connection: rows.messages(connection, recipient, unread_only, limit)
        )
        return found

    async def mark_read(self, ids: Iterable[str]) -> None:
        """Note that messages were read. Raises FileAccessError."""
        marked = list(ids)
        await self._write(lambda connection: rows.mark_read(connection, marked))

    async def put_task(self, task: Task) -> None:
        """Add or change a task. Raises FileAccessError, and Refused for a workspace with too many open ones."""
        await self._write(lambda connection: rows.put_task(connection, task))

    async def tasks(self, workspace: str | None, status: TaskStatus | None = None) -> list[Task]:
        """Return the tasks of a workspace, oldest first. Raises FileAccessError."""
        found: list[Task] = await self._read(lambda connection: rows.tasks(connection, workspace, status))
        return found

    async def task(self, id: str) -> Task | None:
        """Return one task, None if there is no such task. Raises FileAccessError."""
        found: Task | None = await self._read(lambda connection: rows.task(connection, id))
        return found

    async def add_pull_request(self, request: PullRequest) -> None:
        """Add a pull request. Raises FileAccessError."""
        await self._write(lambda connection: rows.add_pull_request(connection, request))

    async def pull_requests(self, agent_id: str) -> list[PullRequest]:
        """Return the pull requests of an agent, oldest first. Raises FileAccessError."""
        found: list[PullRequest] = await self._read(lambda connection: rows.pull_requests(connection, agent_id))
        return found
