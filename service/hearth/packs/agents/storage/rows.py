"""Rows of the agents' file: what is written and read by each statement. For the store's thread, in its transactions.

Records are JSON, so that a field more needs no migration. A row that is not what was written is skipped and logged.
"""

import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from hearth.errors import Refused
from hearth.packs.agents.model import AgentRecord, Mode, Notice, PullRequest, Task, TaskStatus, TeamMessage
from hearth.packs.agents.timeline_items import TimelineItem

if TYPE_CHECKING:
    from sqlite3 import Connection

log = logging.getLogger(__name__)

# A lead that has not read so many messages reads none.
UNREAD_LIMIT = 1000
# Part of that for one sender, who must not keep the others' messages out.
SENDER_LIMIT = 100
# Messages that were read, and pull requests, are a history: the newest are kept.
HISTORY_LIMIT = 1000
# Above that a list of tasks is no plan any more; finished ones make room first.
TASKS_LIMIT = 1000

Kept = TypeVar("Kept", AgentRecord, Notice, TeamMessage, Task, PullRequest)


def encode(record: object) -> bytes:
    """Return a record as JSON."""
    try:
        return msgspec.json.encode(record)
    except UnicodeEncodeError:
        # Half a surrogate pair, which has no place in JSON.
        import json

        found = json.dumps(msgspec.to_builtins(record), ensure_ascii=False, separators=(",", ":"))
        return found.encode("utf-8", "replace")


def _decoded(rows: Iterable[Sequence[Any]], kind: type[Kept]) -> list[Kept]:
    """Return the records of rows of id and data."""
    decoder = msgspec.json.Decoder(kind)
    found = []
    for id, data in rows:
        try:
            found.append(decoder.decode(data))
        except (msgspec.MsgspecError, TypeError) as exc:
            log.error("stored record not readable kind=%s id=%r reason=%s", kind.__name__, id, exc)
    return found


# --- agents


def load(connection: "Connection") -> tuple[list[AgentRecord], list[Notice]]:
    """Return the records of all agents, oldest first, and the notices that were not delivered, oldest first."""
    records = _decoded(connection.execute("SELECT id, data FROM agents"), AgentRecord)
    records.sort(key=lambda record: record.created_at)
    # Agents of one provider have the same modes: half of the memory that a hundred records take.
    modes: dict[Mode, Mode] = {}
    for record in records:
        record.modes = [modes.setdefault(mode, mode) for mode in record.modes]
    return records, _decoded(connection.execute("SELECT id, data FROM notices ORDER BY number"), Notice)


def put_record(connection: "Connection", agent_id: str, data: bytes) -> None:
    """Insert or replace the record of an agent."""
    connection.execute(
        "INSERT INTO agents (id, data) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET data = excluded.data",
        (agent_id, data),
    )


def delete_agent(connection: "Connection", agent_id: str) -> None:
    """Remove an agent with its timeline, its pull requests, and the notices and messages for it."""
    connection.execute("DELETE FROM agents WHERE id = ?", (agent_id,))
    connection.execute("DELETE FROM timeline WHERE agent = ?", (agent_id,))
    connection.execute("DELETE FROM notices WHERE parent = ?", (agent_id,))
    connection.execute("DELETE FROM messages WHERE recipient = ?", (agent_id,))
    connection.execute("DELETE FROM pull_requests WHERE agent = ?", (agent_id,))


# --- timelines


def put_items(connection: "Connection", agent_id: str, items: Iterable[TimelineItem]) -> int:
    """Insert or replace items of a timeline; return the bytes of their data."""
    rows = []
    total = 0
    for item in items:
        data = encode(item.data)
        total += len(data)
        rows.append((agent_id, item.seq, item.kind, item.at, len(data), data))
    connection.executemany("INSERT OR REPLACE INTO timeline VALUES (?, ?, ?, ?, ?, ?)", rows)
    return total


def trim(connection: "Connection", agent_id: str, limit: int, limit_bytes: int) -> None:
    """Remove the oldest items of a timeline beyond the limits."""
    total = 0
    rows = connection.execute("SELECT seq, size FROM timeline WHERE agent = ? ORDER BY seq DESC", (agent_id,))
    for count, (seq, size) in enumerate(rows):
        total += size
        if count >= limit or (count and total > limit_bytes):
            rows.close()
            connection.execute("DELETE FROM timeline WHERE agent = ? AND seq <= ?", (agent_id, seq))
            return


def items(connection: "Connection", agent_id: str, limit: int, after: int) -> list[TimelineItem]:
    """Return the newest items of a timeline with numbers above `after`, oldest first."""
    rows = connection.execute(
        "SELECT seq, kind, at, data FROM timeline WHERE agent = ? AND seq > ? ORDER BY seq DESC LIMIT ?",
        (agent_id, after, limit),
    )
    found = []
    for seq, kind, at, data in rows:
        try:
            tree = {"seq": seq, "kind": kind, "at": at, "data": msgspec.json.decode(data)}
            found.append(msgspec.convert(tree, TimelineItem))
        except (msgspec.MsgspecError, TypeError) as exc:
            log.error("stored timeline item not readable agent=%s seq=%s reason=%s", agent_id, seq, exc)
    found.reverse()
    return found


def last_seq(connection: "Connection", agent_id: str) -> int:
    """Return the number of the newest item of a timeline, 0 if there is none."""
    found = connection.execute("SELECT max(seq) FROM timeline WHERE agent = ?", (agent_id,)).fetchone()[0]
    return int(found or 0)


# --- notices


def add_notice(connection: "Connection", notice: Notice) -> None:
    """Insert a notice."""
    connection.execute(
        "INSERT INTO notices (id, parent, data) VALUES (?, ?, ?)", (notice.id, notice.parent_id, encode(notice))
    )


def remove_notice(connection: "Connection", notice_id: str) -> None:
    """Remove a notice, which was delivered."""
    connection.execute("DELETE FROM notices WHERE id = ?", (notice_id,))


# --- messages


def add_message(connection: "Connection", message: TeamMessage) -> None:
    """Insert a message. Raises Refused."""
    data = encode(message)
    # A message's JSON begins with its sender.
    theirs = encode({"sender": message.sender})[:-1]
    counted = "SELECT count(*), sum(substr(data, 1, ?) = ?) FROM messages WHERE recipient = ? AND is_read = 0"
    unread, own = connection.execute(counted, (len(theirs), theirs, message.recipient)).fetchone()
    if (own or 0) >= SENDER_LIMIT:
        raise Refused(
            f"the message was not sent: {message.recipient} has {SENDER_LIMIT} unread messages of {message.sender};"
            f" send it after some of them are read"
        )
    if unread >= UNREAD_LIMIT:
        raise Refused(
            f"the message was not sent: {message.recipient} has {UNREAD_LIMIT} unread messages;"
            f" send it after some of them are read"
        )
    connection.execute(
        "INSERT INTO messages (id, recipient, data) VALUES (?, ?, ?)", (message.id, message.recipient, data)
    )
    connection.execute(
        """DELETE FROM messages WHERE number IN
           (SELECT number FROM messages WHERE recipient = ? AND is_read = 1 ORDER BY number DESC LIMIT -1 OFFSET ?)""",
        (message.recipient, HISTORY_LIMIT),
    )


def messages(connection: "Connection", recipient: str, unread_only: bool, limit: int) -> list[TeamMessage]:
    """Return the oldest unread messages, or the newest of all, oldest first."""
    if unread_only:
        query = "SELECT id, data FROM messages WHERE recipient = ? AND is_read = 0 ORDER BY number LIMIT ?"
        return _decoded(connection.execute(query, (recipient, limit)), TeamMessage)
    query = "SELECT id, data FROM messages WHERE recipient = ? ORDER BY number DESC LIMIT ?"
    return _decoded(reversed(connection.execute(query, (recipient, limit)).fetchall()), TeamMessage)


def mark_read(connection: "Connection", ids: Iterable[str]) -> None:
    """Note that messages were read."""
    connection.executemany("UPDATE messages SET is_read = 1 WHERE id = ?", [(id,) for id in ids])


# --- tasks and pull requests


def put_task(connection: "Connection", task: Task) -> None:
    """Insert or replace a task. Raises Refused."""
    if connection.execute("SELECT 1 FROM tasks WHERE id = ?", (task.id,)).fetchone() is None:
        _make_room(connection, task.workspace)
    connection.execute(
        """INSERT INTO tasks (id, workspace, status, data) VALUES (?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET
           workspace = excluded.workspace, status = excluded.status, data = excluded.data""",
        (task.id, task.workspace, task.status, encode(task)),
    )


def _make_room(connection: "Connection", workspace: str | None) -> None:
    count = connection.execute("SELECT count(*) FROM tasks WHERE workspace IS ?", (workspace,)).fetchone()[0]
    if count < TASKS_LIMIT:
        return
    removed = connection.execute(
        """DELETE FROM tasks WHERE number IN (SELECT number FROM tasks WHERE workspace IS ?
           AND status IN ('completed', 'cancelled') ORDER BY number LIMIT ?)""",
        (workspace, count - TASKS_LIMIT + 1),
    ).rowcount
    if not removed:
        raise Refused(
            f"the task was not created: there are {count} open tasks already; complete or cancel some of them"
        )


def tasks(connection: "Connection", workspace: str | None, status: TaskStatus | None) -> list[Task]:
    """Return the tasks of a workspace, oldest first."""
    rows = connection.execute(
        "SELECT id, data FROM tasks WHERE workspace IS ?1 AND (?2 IS NULL OR status = ?2) ORDER BY number",
        (workspace, status),
    )
    return _decoded(rows, Task)


def task(connection: "Connection", task_id: str) -> Task | None:
    """Return one task, None if there is no such task."""
    found = _decoded(connection.execute("SELECT id, data FROM tasks WHERE id = ?", (task_id,)), Task)
    return found[0] if found else None


def add_pull_request(connection: "Connection", request: PullRequest) -> None:
    """Insert a pull request."""
    connection.execute(
        "INSERT INTO pull_requests (id, agent, data) VALUES (?, ?, ?)", (request.id, request.agent_id, encode(request))
    )
    connection.execute(
        """DELETE FROM pull_requests WHERE number IN
           (SELECT number FROM pull_requests WHERE agent = ? ORDER BY number DESC LIMIT -1 OFFSET ?)""",
        (request.agent_id, HISTORY_LIMIT),
    )


def pull_requests(connection: "Connection", agent_id: str) -> list[PullRequest]:
    """Return the pull requests of an agent, oldest first."""
    rows = connection.execute("SELECT id, data FROM pull_requests WHERE agent = ? ORDER BY number", (agent_id,))
    return _decoded(rows, PullRequest)
