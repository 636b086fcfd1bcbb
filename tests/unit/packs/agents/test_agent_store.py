"""Store of agents with real files: what is kept, in which order, and what happens to files that cannot be used."""

import asyncio
import logging
import os
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hearth.errors import FileAccessError, Refused
from hearth.packs.agents.model import AgentRecord, Mode, Notice, PullRequest, Task, TeamMessage, Worktree
from hearth.packs.agents.storage import database, rows, writer
from hearth.packs.agents.storage.item_queue import ItemQueue
from hearth.packs.agents.store import AgentStore
from hearth.packs.agents.timeline_items import TimelineItem
from support.kernel import until


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "agents"


@pytest.fixture
async def store(folder: Path) -> AsyncIterator[AgentStore]:
    opened = AgentStore(str(folder))
    yield opened
    await opened.close()


def record(id: str = "a1", **fields: Any) -> AgentRecord:
    return AgentRecord(id=id, provider="claude", cwd="/src", created_at=float(id[1:]), **fields)


def item(seq: int, text: str = "text", kind: Any = "message") -> TimelineItem:
    return TimelineItem(seq, kind, 1.5 * seq, {"text": text})


def notice(parent: str = "p", child: str = "c", turn: int = 1) -> Notice:
    return Notice(parent_id=parent, child_id=child, kind="finished", turn=turn)


def query(folder: Path, statement: str) -> list[Any]:
    """Read the file as another program does."""
    connection = sqlite3.connect(folder / "agents.db", isolation_level=None)
    try:
        return connection.execute(statement).fetchall()
    finally:
        connection.close()


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep all writers out of the file."""
    connection = sqlite3.connect(folder / "agents.db", isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        connection.close()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a lock an error at once, and attempts frequent."""
    monkeypatch.setattr(database, "_BUSY_SECONDS", 0.01)
    monkeypatch.setattr(writer, "RETRY_SECONDS", 0.01)


async def reopened(store: AgentStore) -> tuple[AgentStore, list[AgentRecord]]:
    await store.close()
    again = AgentStore(store.folder)
    return again, again.load()


# --- agents


async def test_records_come_back_as_they_were(store: AgentStore) -> None:
    full = record(
        title="Fix it", has_own_title=True, role="dev", mode="code", modes=[Mode("code", "Code", "writes")],
        parent_id="a0", creator="claude-code", workspace="/src", labels={"k": "v"}, status="idle", session_id="s",
        worktree=Worktree("/w", "/src", "fix", "fix", "main"), can_load=True, usage={"totalCostUsd": 0.25}, turn=3,
        last_message="done ✓", last_user_message_at=12.5,
    )  # fmt: skip
    store.load()
    await store.save_durably(full)
    store.save(record("a2"))
    _, found = await reopened(store)
    assert found[0] == full
    assert [each.id for each in found] == ["a1", "a2"]


async def test_only_the_newest_record_of_each_agent_is_written(store: AgentStore, folder: Path) -> None:
    first, second = record("a1"), record("a2")
    for turn in range(1000):
        first.turn = second.turn = turn
        store.save(first)
        store.save(second)
    first.turn = -1  # Saved is the record as it was.
    _, found = await reopened(store)
    assert [each.turn for each in found] == [999, 999]
    assert query(folder, "SELECT count(*) FROM agents") == [(2,)]


async def test_the_order_of_saves_is_kept_whichever_way_they_are_saved(store: AgentStore) -> None:
    for turn in range(20):
        store.save(record(turn=2 * turn))
        await store.save_durably(record(turn=2 * turn + 1))
        assert query(Path(store.folder), "SELECT count(*) FROM agents") == [(1,)]
    store.save(record(turn=100))
    _, found = await reopened(store)
    assert [each.turn for each in found] == [100]


async def test_a_durable_save_is_synced_even_if_the_same_was_saved_before(store: AgentStore, folder: Path) -> None:
    await store.save_durably(record())
    log = folder / "agents.db-wal"
    for _ in range(3):
        size = log.stat().st_size
        await store.save_durably(record())
        # SQLite syncs nothing if it has nothing to commit.
        assert log.stat().st_size > size


async def test_agents_share_what_is_the_same(store: AgentStore) -> None:
    for number in range(3):
        store.save(record(f"a{number}", modes=[Mode("code", "Code"), Mode("plan", f"Plan {number}")]))
    _, found = await reopened(store)
    assert [[mode.label for mode in each.modes] for each in found] == [["Code", f"Plan {n}"] for n in range(3)]
    assert found[0].modes[0] is found[2].modes[0]


async def test_a_deleted_agent_leaves_nothing(store: AgentStore, folder: Path) -> None:
    await store.save_durably(record("a1"))
    await store.save_durably(record("a2"))
    for agent in ("a1", "a2"):
        store.append(agent, [item(1)])
        await store.add_notice(notice(parent=agent))
        await store.add_message(TeamMessage(sender="x", recipient=agent, content="hello"))
        await store.add_pull_request(PullRequest(agent_id=agent, title="t"))
    store.save(record("a1"))
    store.delete("a1")
    store.append("a1", [item(2)])
    await store.flush()
    assert [each.parent_id for each in store.notices()] == ["a2"]
    tables = ("agents", "timeline", "notices", "messages", "pull_requests")
    assert [query(folder, f"SELECT count(*) FROM {table}") for table in tables] == [[(1,)]] * 5
    assert await store.timeline("a1") == []


async def test_the_space_of_deleted_agents_is_given_back(store: AgentStore, folder: Path) -> None:
    await store.save_durably(record())
    store.append("a1", [item(seq, "x" * 10_000) for seq in range(500)])
    await store.flush()
    size = (folder / "agents.db").stat().st_size
    store.delete("a1")
    await store.close()
    assert (folder / "agents.db").stat().st_size < size // 10


async def test_half_a_surrogate_pair_is_replaced(store: AgentStore) -> None:
    await store.save_durably(record(title="half \ud83d"))
    _, found = await reopened(store)
    assert found[0].title == "half ?"


async def test_a_record_that_makes_no_sense_is_skipped_and_logged(
    store: AgentStore, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await store.save_durably(record("a1"))
    await store.save_durably(record("a2"))
    await store.close()
    query(folder, "UPDATE agents SET data = 'x' WHERE id = 'a1'")
    assert [each.id for each in AgentStore(str(folder)).load()] == ["a2"]
    assert "stored record not readable kind=AgentRecord id='a1'" in caplog.text


# --- files


def test_nothing_is_opened_or_imported_before_the_first_use(folder: Path) -> None:
    program = """
import sys
from hearth.packs.agents.store import AgentStore
store = AgentStore(sys.argv[1])
assert store.load() == [] and store.notices() == []
print("sqlite3" in sys.modules, "sqlite3.dbapi2" in sys.modules)
"""
    shown = subprocess.run([sys.executable, "-c", program, str(folder)], capture_output=True, text=True, check=True)
    assert shown.stdout == "False False\n"
    assert not folder.exists()


async def test_files_are_private_even_if_they_were_not(store: AgentStore, folder: Path) -> None:
    await store.save_durably(record())
    await store.close()
    os.chmod(folder, 0o755)
    os.chmod(folder / "agents.db", 0o644)
    again = AgentStore(str(folder))
    again.load()
    await again.save_durably(record())
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["agents.db", "agents.db-shm", "agents.db-wal"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    await again.close()
    assert [path.name for path in folder.iterdir()] == ["agents.db"]


async def test_an_idle_store_has_neither_a_thread_nor_an_open_file(
    store: AgentStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "IDLE_SECONDS", 0.01)
    for turn in range(3):
        store.save(record(turn=turn))
        await store.save_durably(record("a2"))
        await asyncio.to_thread(until, lambda: store._writer._thread is None, "the end of the thread")
        assert [path.name for path in folder.iterdir()] == ["agents.db"]
    _, found = await reopened(store)
    assert [each.turn for each in found] == [2, 0]


async def test_a_closed_store_refuses_calls_and_has_written_the_rest(store: AgentStore) -> None:
    store.save(record())
    store.append("a1", [item(seq) for seq in range(5000)])
    await store.close()
    store.save(record("a2"))
    store.append("a1", [item(9999)])
    with pytest.raises(FileAccessError, match="the daemon is shutting down"):
        await store.timeline("a1")
    again = AgentStore(store.folder)
    assert [each.id for each in again.load()] == ["a1"]
    assert await again.last_seq("a1") == 4999
    await again.close()


# --- timelines


async def test_a_timeline_is_read_with_what_was_queued_before(store: AgentStore) -> None:
    store.save(record())
    assert (await store.timeline("a1"), await store.last_seq("a1")) == ([], 0)
    store.append("a1", [item(seq) for seq in range(1, 8)])
    assert await store.timeline("a1") == [item(seq) for seq in range(1, 8)]
    store.append("a1", [item(3, "changed"), item(8)])
    found = await store.timeline("a1", limit=6)
    assert [(each.seq, each.data["text"]) for each in found] == [
        (3, "changed"), (4, "text"), (5, "text"), (6, "text"), (7, "text"), (8, "text")
    ]  # fmt: skip
    assert [each.seq for each in await store.timeline("a1", after=6)] == [7, 8]
    assert await store.last_seq("a1") == 8
    assert await store.timeline("a2") == []


async def test_items_of_agents_that_were_never_saved_are_ignored(store: AgentStore) -> None:
    store.append("a1", [item(1)])
    assert await store.timeline("a1") == []


async def test_old_items_beyond_the_limit_are_removed(folder: Path) -> None:
    store = AgentStore(str(folder), timeline_limit=100)
    store.save(record())
    for seq in range(1, 1001):
        store.append("a1", [item(seq)])
        if seq % 10 == 0:
            await store.flush()
    assert [each.seq for each in await store.timeline("a1")] == list(range(901, 1001))
    assert query(folder, "SELECT count(*) FROM timeline")[0][0] <= 100 + writer.TRIM_ITEMS
    store.set_timeline_limit(50)
    assert [each.seq for each in await store.timeline("a1", limit=80)] == list(range(951, 1001))
    await store.close()


async def test_old_items_beyond_the_limit_of_bytes_are_removed(
    store: AgentStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "TIMELINE_LIMIT_BYTES", 300_000)
    monkeypatch.setattr(writer, "TRIM_BYTES", 50_000)
    store.save(record())
    for seq in range(1, 101):
        store.append("a1", [item(seq, "x" * 10_000)])
        await store.flush()
    assert query(folder, "SELECT sum(size) FROM timeline")[0][0] <= 350_000
    assert (await store.timeline("a1"))[-1].seq == 100


async def test_one_item_beyond_the_limit_of_bytes_is_kept(store: AgentStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "TIMELINE_LIMIT_BYTES", 10)
    monkeypatch.setattr(writer, "TRIM_BYTES", 1)
    store.save(record())
    store.append("a1", [item(1), item(2, "x" * 10_000)])
    assert [each.seq for each in await store.timeline("a1")] == [2]


async def test_an_unreadable_item_is_skipped(store: AgentStore, folder: Path) -> None:
    store.save(record())
    store.append("a1", [item(1), item(2), item(3)])
    await store.flush()
    query(folder, "UPDATE timeline SET data = x'ff' WHERE seq = 2")
    query(folder, "UPDATE timeline SET kind = 'other' WHERE seq = 1")
    assert [each.seq for each in await store.timeline("a1")] == [3]


# --- notices


async def test_undelivered_notices_come_back_in_order(store: AgentStore) -> None:
    first, second, third = (notice(turn=turn) for turn in range(3))
    for each in (first, second, third):
        await store.add_notice(each)
    assert store.notices() == [first, second, third]
    store.deliver_notice(second.id)
    store.deliver_notice(second.id)
    store.deliver_notice("unknown")
    assert store.notices() == [first, third]
    await store.flush()
    # As after `kill -9`: nothing is closed.
    again = AgentStore(store.folder)
    again.load()
    assert again.notices() == [first, third]


# --- teams


async def test_messages_are_read_in_order_and_once(store: AgentStore) -> None:
    sent = [TeamMessage(sender="x", recipient="a1", content=str(number)) for number in range(5)]
    for message in sent:
        await store.add_message(message)
    await store.add_message(TeamMessage(sender="x", recipient="a2", content="other"))
    assert await store.messages("a1") == sent
    assert await store.messages("a1", unread_only=True, limit=2) == sent[:2]
    await store.mark_read([sent[0].id, sent[1].id, "unknown"])
    assert await store.messages("a1", unread_only=True) == sent[2:]
    assert await store.messages("a1", limit=2) == sent[3:]
    again, _ = await reopened(store)
    assert await again.messages("a1", unread_only=True) == sent[2:]
    await again.close()


async def test_a_recipient_that_reads_nothing_gets_no_more(store: AgentStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "UNREAD_LIMIT", 3)
    monkeypatch.setattr(rows, "HISTORY_LIMIT", 2)
    sent = [TeamMessage(sender="x", recipient="a1", content=str(number)) for number in range(8)]
    for message in sent[:3]:
        await store.add_message(message)
    results = await asyncio.gather(
        store.add_message(sent[3]), store.put_task(Task(subject="t")), return_exceptions=True
    )
    assert isinstance(results[0], Refused) and "a1 has 3 unread messages" in str(results[0])
    assert len(await store.tasks(None)) == 1
    await store.mark_read(message.id for message in sent[:3])
    await store.add_message(sent[4])
    assert await store.messages("a1") == [*sent[1:3], sent[4]]


async def test_a_sender_does_not_keep_the_messages_of_others_out(
    store: AgentStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "UNREAD_LIMIT", 4)
    monkeypatch.setattr(rows, "SENDER_LIMIT", 2)
    for content in ("one", "half a pair: \ud800"):
        await store.add_message(TeamMessage(sender="x", recipient="a1", content=content))
    with pytest.raises(Refused, match="a1 has 2 unread messages of x"):
        await store.add_message(TeamMessage(sender="x", recipient="a1", content="three"))
    for sender, recipient in (("xy", "a1"), ("y", "a1"), ("x", "a2")):
        await store.add_message(TeamMessage(sender=sender, recipient=recipient, content="other"))
    with pytest.raises(Refused, match="a1 has 4 unread messages;"):
        await store.add_message(TeamMessage(sender="z", recipient="a1", content="last"))


async def test_tasks_are_added_changed_and_listed(store: AgentStore) -> None:
    first = Task(subject="one", workspace="/w", description="✓")
    second = Task(subject="two", workspace="/w", status="completed")
    alone = Task(subject="three")
    for task in (first, second, alone):
        await store.put_task(task)
    changed = Task(id=first.id, subject="one", workspace="/w", status="in_progress", owner="a1", created=first.created)
    await store.put_task(changed)
    again, _ = await reopened(store)
    assert await again.tasks("/w") == [changed, second]
    assert await again.tasks("/w", "completed") == [second]
    assert await again.tasks(None) == [alone]
    assert (await again.task(first.id), await again.task("unknown")) == (changed, None)
    await again.close()


async def test_finished_tasks_make_room_for_new_ones(store: AgentStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "TASKS_LIMIT", 3)
    kept = [Task(subject="a"), Task(subject="b", status="completed"), Task(subject="c"), Task(subject="d")]
    for task in kept:
        await store.put_task(task)
    assert [task.subject for task in await store.tasks(None)] == ["a", "c", "d"]
    with pytest.raises(Refused, match="there are 3 open tasks already; complete or cancel some"):
        await store.put_task(Task(subject="e"))
    await store.put_task(Task(id=kept[0].id, subject="a", status="cancelled"))
    await store.put_task(Task(subject="f", workspace="/other"))
    await store.put_task(Task(subject="g"))
    assert [task.subject for task in await store.tasks(None)] == ["c", "d", "g"]


async def test_pull_requests_are_kept_by_agent(store: AgentStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "HISTORY_LIMIT", 2)
    filed = [PullRequest(agent_id="a1", title=str(number), url="https://x") for number in range(3)]
    for request in filed:
        await store.add_pull_request(request)
    assert await store.pull_requests("a1") == filed[1:]
    assert await store.pull_requests("a2") == []


# --- a file that cannot be written for a while


@pytest.mark.usefixtures("impatient")
async def test_callers_are_told_and_the_rest_is_tried_again(
    store: AgentStore, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    await store.save_durably(record(turn=1))
    told = notice()
    with locked(folder):
        store.append("a1", [item(1), item(2)])
        store.save(record(turn=2))
        store.save(record("a2"))
        calls: list[Callable[[], Any]] = [
            lambda: store.save_durably(record(turn=3)),
            lambda: store.add_notice(told),
            lambda: store.add_message(TeamMessage(sender="x", recipient="a1", content="lost")),
            lambda: store.put_task(Task(subject="lost")),
            store.flush,
        ]
        for call in calls:
            with pytest.raises(FileAccessError, match=r"cannot write the agents in .*: database is locked; is another"):
                await call()
        # Reading needs no lock; what could not be written is missing.
        assert await store.timeline("a1") == []
        assert store.notices() == [told]
    await store.flush()
    assert await store.messages("a1") == [] and await store.tasks(None) == []
    assert [each.seq for each in await store.timeline("a1")] == [1, 2]
    again, found = await reopened(store)
    assert [(each.id, each.turn) for each in found] == [("a1", 3), ("a2", 0)]
    assert again.notices() == [told]
    assert caplog.text.count("agents file not written, trying again") == 1
    assert caplog.text.count("agents file written again") == 1


@pytest.mark.usefixtures("impatient")
async def test_a_record_that_is_tried_again_does_not_replace_a_newer_one(store: AgentStore, folder: Path) -> None:
    await store.save_durably(record(turn=1))
    with locked(folder):
        for turn in range(2, 20):
            if turn % 3:
                store.save(record(turn=turn))
            else:
                with pytest.raises(FileAccessError):
                    await store.save_durably(record(turn=turn))
        with pytest.raises(FileAccessError):
            await store.save_durably(record("a2"))
        store.delete("a2")
    _, found = await reopened(store)
    assert [(each.id, each.turn) for each in found] == [("a1", 19)]


async def test_a_durable_record_is_written_even_if_a_newer_one_waits(store: AgentStore, tmp_path: Path) -> None:
    job = store._writer.record_job("a1", rows.encode(record(turn=1)))
    store.save(record(turn=2))
    other = database.AgentDatabase(str(tmp_path / "other"))
    with other.transaction(durable=True) as connection:
        job.perform(connection)
        assert [each.turn for each in rows.load(connection)[0]] == [1]
    other.close()


@pytest.mark.usefixtures("impatient")
async def test_one_record_waits_however_often_it_could_not_be_written(
    store: AgentStore, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await store.save_durably(record(turn=1))
    with locked(folder):
        for turn in range(2, 6):
            with pytest.raises(FileAccessError):
                await store.save_durably(record(turn=turn))
        await store.close()
    assert "agents file closed with unwritten rows count=1 " in caplog.text


async def test_what_is_queued_together_is_written_in_one_transaction(
    store: AgentStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, writer = notice(), store._writer
    await store.save_durably(record(turn=1))
    await store.add_notice(told)
    is_at_work, batches = threading.Event(), list[tuple[int, int]]()
    work, write = writer._work, writer._write

    def worked() -> object:
        is_at_work.set()
        found = work()
        is_at_work.clear()
        return found

    def written(jobs: Any, records: Any) -> Any:
        batches.append((len(jobs), len(records)))
        return write(jobs, records)

    monkeypatch.setattr(writer, "_work", worked)
    monkeypatch.setattr(writer, "_write", written)
    await store.flush()
    batches.clear()
    with store.together():
        store.deliver_notice(told.id)
        # Now the thread is about to read the queue.
        assert is_at_work.wait(20)
        store.save(record(turn=2))
    await store.flush()
    assert next(filter(any, batches)) == (1, 1)


@pytest.mark.usefixtures("impatient")
async def test_a_flood_before_a_slow_disk_drops_the_oldest_and_says_so(
    store: AgentStore, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await store.save_durably(record("a1"))
    await store.save_durably(record("a2"))
    store._writer._items = ItemQueue(limit=1000)
    with locked(folder):
        store.append("a2", [item(1)])
        for seq in range(1, 5001):
            store.append("a1", [item(seq)])
        with pytest.raises(FileAccessError):
            await store.flush()
        for seq in range(5001, 6001):
            store.append("a1", [item(seq)])
    first, *rest = await store.timeline("a1")
    assert first.kind == "system"
    assert [each.seq for each in rest] == list(range(first.seq + 1, 6001))
    assert first.data["missing"] == 6000 - len(rest)
    assert await store.timeline("a2") == [item(1)]
    assert caplog.text.count("timeline entries dropped, the disk is too slow") == 1


@pytest.mark.usefixtures("impatient")
async def test_the_end_does_not_wait_for_a_file_that_cannot_be_written(
    store: AgentStore, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await store.save_durably(record())
    with locked(folder):
        store.save(record(turn=5))
        await store.close()
    assert "agents file closed with unwritten rows count=1" in caplog.text


async def test_a_disk_that_does_not_answer_is_an_error(
    store: AgentStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.save_durably(record())
    monkeypatch.setattr(writer, "ANSWER_SECONDS", 0.05)
    with locked(folder), pytest.raises(FileAccessError, match="the disk did not answer within"):
        await store.put_task(Task(subject="given up"))
    monkeypatch.undo()
    # The caller was told that the task was not created.
    await store.flush()
    assert await store.tasks(None) == []


async def test_an_error_of_the_program_is_told_and_does_not_stop_the_store(
    store: AgentStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(connection: object, task: Task) -> None:
        raise TypeError("not foreseen")

    await store.save_durably(record())
    monkeypatch.setattr(rows, "put_task", failing)
    with pytest.raises(FileAccessError, match=r"cannot use the agents in .*not foreseen"):
        await store.put_task(Task(subject="t"))
    assert "unhandled exception while using the agents file" in caplog.text
    store.append("a1", [item(1)])
    assert [each.seq for each in await store.timeline("a1")] == [1]


async def test_items_that_cannot_be_encoded_are_dropped(store: AgentStore, caplog: pytest.LogCaptureFixture) -> None:
    await store.save_durably(record())
    store.append("a1", [TimelineItem(1, "message", 0.0, {"text": object()})])
    assert await store.timeline("a1") == []
    store.append("a1", [item(2)])
    await store.flush()
    assert await store.timeline("a1") == [item(2)]
    assert "unhandled exception while using the agents file" in caplog.text


# --- files that cannot be used


async def test_a_file_of_a_newer_version_is_refused_and_left_alone(store: AgentStore, folder: Path) -> None:
    await store.save_durably(record())
    await store.close()
    query(folder, "PRAGMA user_version = 7")
    before = (folder / "agents.db").read_bytes()
    again = AgentStore(str(folder))
    with pytest.raises(FileAccessError, match=r"written by a newer Hearth \(version 7 .* knows 1\); update Hearth"):
        again.load()
    with pytest.raises(FileAccessError, match="written by a newer Hearth"):
        await again.save_durably(record())
    await again.close()
    assert (folder / "agents.db").read_bytes() == before
    assert [path.name for path in folder.iterdir()] == ["agents.db"]


async def test_a_file_of_an_older_version_is_migrated(
    store: AgentStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.save_durably(record())
    await store.close()
    added = (*database.MIGRATIONS, ("ALTER TABLE tasks ADD COLUMN extra TEXT", "CREATE TABLE more (x)"))
    monkeypatch.setattr(database, "MIGRATIONS", added)
    again, found = await reopened(store)
    assert [each.id for each in found] == ["a1"]
    assert query(folder, "PRAGMA user_version") == [(2,)]
    assert query(folder, "SELECT extra FROM tasks") == []
    await again.save_durably(record("a2"))
    await again.close()
    assert len(AgentStore(str(folder)).load()) == 2


async def test_a_migration_that_fails_changes_nothing(
    store: AgentStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.save_durably(record())
    await store.close()
    failing = (*database.MIGRATIONS, ("CREATE TABLE more (x UNIQUE)", "INSERT INTO more VALUES (1), (1)"))
    with monkeypatch.context() as patched:
        patched.setattr(database, "MIGRATIONS", failing)
        with pytest.raises(FileAccessError, match="UNIQUE constraint failed"):
            AgentStore(str(folder)).load()
    assert query(folder, "PRAGMA user_version") == [(1,)]
    assert query(folder, "SELECT name FROM sqlite_master WHERE name = 'more'") == []
    assert len(AgentStore(str(folder)).load()) == 1


@pytest.mark.parametrize("content", [b"not a database at all " * 500, b"SQLite format 3\x00" + b"\xff" * 5000])
async def test_a_file_that_is_no_database_is_moved_aside(
    folder: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    folder.mkdir(mode=0o700)
    (folder / "agents.db").write_bytes(content)
    store = AgentStore(str(folder))
    assert store.load() == []
    assert (folder / "agents.db.damaged-1").read_bytes() == content
    await store.save_durably(record())
    await store.close()
    (folder / "agents.db").write_bytes(b"again" * 1000)
    assert AgentStore(str(folder)).load() == []
    assert (folder / "agents.db.damaged-2").read_bytes() == b"again" * 1000
    assert caplog.text.count("agents file damaged, begun again") == 2


async def test_records_of_a_damaged_file_are_rescued(store: AgentStore, folder: Path) -> None:
    for number in range(50):
        await store.save_durably(record(f"a{number:02}", labels={"x": "y" * 500}))
    await store.add_notice(kept := notice())
    await store.put_task(task := Task(subject="t"))
    await store.close()
    damage(folder / "agents.db", "agents")
    again = AgentStore(str(folder))
    found = again.load()
    assert 0 < len(found) < 50
    assert (again.notices(), await again.tasks(None)) == ([kept], [task])
    assert (folder / "agents.db.damaged-1").exists()
    assert query(folder, "PRAGMA integrity_check") == [("ok",)]
    await again.close()
    assert AgentStore(str(folder)).load() == found


async def test_damage_that_is_met_while_the_daemon_runs_costs_timelines_only(
    store: AgentStore, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store.save(record())
    store.append("a1", [item(seq, "x" * 2000) for seq in range(1, 200)])
    await store.close()
    damage(folder / "agents.db", "timeline")
    again = AgentStore(str(folder))
    assert [each.id for each in again.load()] == ["a1"]
    again.append("a1", [item(200)])
    await again.add_message(message := TeamMessage(sender="x", recipient="a1", content="before"))
    # Whether the reading or the writing meets the damage, the caller gets what there is.
    assert [each.seq for each in await again.timeline("a1")] in ([], [200])
    again.append("a1", [item(201)])
    assert (await again.timeline("a1"))[-1].seq == 201
    assert await again.messages("a1") == [message]
    assert (folder / "agents.db.damaged-1").exists()
    await again.close()
    assert [each.id for each in AgentStore(str(folder)).load()] == ["a1"]
    assert "agents file damaged, begun again" in caplog.text


def damage(path: Path, table: str) -> None:
    """Overwrite a page in the middle of a table, and leave the rest."""
    connection = sqlite3.connect(path)
    size = connection.execute("PRAGMA page_size").fetchone()[0]
    root = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()[0]
    connection.close()
    with path.open("r+b") as file:
        file.seek((root - 1) * size)
        page = file.read(size)
        # The pointer to the last child of an interior page, or a number of cells that no page has.
        file.seek((root - 1) * size)
        file.write(page[:8] + b"\xff\xff\xff\xf0" + page[12:] if page[0] == 5 else b"\x0d\x00\x00\xff\xff" + page[5:])


async def test_a_database_of_another_program_is_moved_aside(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    query(folder, "CREATE TABLE agents (name TEXT)")
    store = AgentStore(str(folder))
    assert store.load() == []
    await store.save_durably(record())
    await store.close()
    (folder / "agents.db.damaged-1").rename(folder / "agents.db")
    assert query(folder, "SELECT name FROM agents") == []


async def test_too_many_damaged_files_are_an_error(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    for number in range(1, database._DAMAGED_LIMIT + 1):
        (folder / f"agents.db.damaged-{number}").touch()
    (folder / "agents.db").write_bytes(b"x" * 5000)
    store = AgentStore(str(folder))
    with pytest.raises(FileAccessError, match="20 damaged ones are beside it already; check the disk"):
        store.load()
    assert (folder / "agents.db").read_bytes() == b"x" * 5000


async def test_a_folder_that_is_a_file_is_an_error(folder: Path) -> None:
    folder.touch()
    store = AgentStore(str(folder))
    assert store.load() == []
    with pytest.raises(FileAccessError, match="should be a folder and is a file"):
        await store.save_durably(record())
    await store.close()


async def test_a_folder_in_place_of_the_file_is_an_error(folder: Path) -> None:
    (folder / "agents.db").mkdir(parents=True)
    with pytest.raises(FileAccessError, match=r"cannot write the agents in .*unable to open database file"):
        AgentStore(str(folder)).load()


async def test_a_python_without_sqlite_is_an_error(
    store: AgentStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sqlite3", None)
    with pytest.raises(FileAccessError, match="not kept without Python's sqlite3 module"):
        await store.save_durably(record())
