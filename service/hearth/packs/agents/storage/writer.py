"""Thread that writes and reads the agents' file; the event loop queues. Nothing that the loop calls blocks.

Order: jobs that write, as they were queued, and records behind them in the same transaction; then jobs that read; then
timeline items. A read of a timeline has the items queued before it.

While the file cannot be written, records, jobs that are kept, and items up to the bounds of `item_queue` are tried
again. The thread and the open file are there only while there is work.
"""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from hearth.errors import FileAccessError
from hearth.packs.agents.storage import rows
from hearth.packs.agents.storage.database import AgentDatabase, DamagedFile
from hearth.packs.agents.storage.item_queue import ItemQueue
from hearth.packs.agents.storage.jobs import StoreJob
from hearth.packs.agents.timeline_items import TimelineItem

if TYPE_CHECKING:
    from sqlite3 import Connection

log = logging.getLogger(__name__)

# One timeline on disk: twice what it may have in memory, because the bytes of JSON count here.
TIMELINE_LIMIT_BYTES = 8 * 1024 * 1024
# Work without a waiter is gathered for so long, to be written together.
GATHER_SECONDS = 0.25
# Items in one transaction: about 10 ms, so that a caller behind them waits no longer.
BATCH_ITEMS = 500
# A timeline is trimmed after so many new items or bytes: reading its sizes takes a millisecond.
TRIM_ITEMS = 64
TRIM_BYTES = 1024 * 1024
# Interval of attempts while the file cannot be written, and of the message that says so.
RETRY_SECONDS = 5.0
WARN_SECONDS = 600.0
# A disk that does not answer for so long counts as failed.
ANSWER_SECONDS = 10.0
# Without work for so long, the file is closed and the thread ends.
IDLE_SECONDS = 30.0


class StoreWriter:
    """Queue and thread of one file. Every public method is for the event loop."""

    def __init__(self, database: AgentDatabase, timeline_limit: int) -> None:
        self.timeline_limit = timeline_limit
        self._database = database
        # For what both threads change; held for moments, never while the disk is waited for. The loop may hold it for
        # several changes, which are then written together.
        self._lock = threading.RLock()
        self._jobs: list[StoreJob] = []
        self._items = ItemQueue()
        # Waiting records as JSON, each with its number; `_newest` has the newest number of every agent on record.
        self._records: dict[str, tuple[int, bytes]] = {}
        self._newest: dict[str, int] = {}
        self._number = 0
        self._thread: threading.Thread | None = None
        self._is_closing = False
        # Set while there is work; `_urgent` ends the gathering and the pause between attempts.
        self._wake = threading.Event()
        self._urgent = threading.Event()
        self._is_dropping = False
        # For the thread alone.
        self._is_failing = False
        self._warned_at = 0.0
        self._untrimmed: dict[str, tuple[int, int]] = {}

    # --- for the event loop

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Have what is queued inside the block written in one transaction."""
        with self._lock:
            yield

    def know(self, agent_id: str) -> int:
        """Note that there is a new record of an agent; return its number. Items of other agents are ignored."""
        self._number += 1
        self._newest[agent_id] = self._number
        return self._number

    def put_record(self, agent_id: str, data: bytes) -> None:
        """Queue a record in place of any former one."""
        with self._lock:
            self._records[agent_id] = self.know(agent_id), data
        self._start()

    def record_job(self, agent_id: str, data: bytes) -> StoreJob:
        """Return a job that writes a record, to be queued at once."""
        with self._lock:
            number = self.know(agent_id)
            # Records are written after jobs, and this one is older.
            self._records.pop(agent_id, None)
        # Written even if a newer record waits: that one is not on disk when the caller goes on.
        job = StoreJob(lambda connection: rows.put_record(connection, agent_id, data), is_kept=True)
        job.record = agent_id, number, data
        return job

    async def write_record(self, agent_id: str, data: bytes) -> None:
        """Write a record; return when it is on disk. Raises FileAccessError; then it is tried again all the same."""
        with self._lock:
            done = self._queue(self.record_job(agent_id, data))
        await self._answer(done)

    def delete(self, agent_id: str) -> None:
        """Drop what is queued of an agent, and remove it from the file."""
        with self._lock:
            self._newest.pop(agent_id, None)
            self._records.pop(agent_id, None)
            self._items.take(agent_id)

        def remove(connection: "Connection") -> None:
            rows.delete_agent(connection, agent_id)
            self._untrimmed.pop(agent_id, None)

        self.submit(StoreJob(remove, is_kept=True))

    def append(self, agent_id: str, items: Sequence[TimelineItem]) -> None:
        """Queue items of an agent on record."""
        with self._lock:
            # A deleted agent may still have printed something.
            if not items or agent_id not in self._newest or self._is_closing:
                return
            dropped = self._items.put(agent_id, items)
        self._note_dropped(dropped)
        self._start()

    def submit(self, job: StoreJob) -> None:
        """Queue a job that no caller waits for."""
        with self._lock:
            self._jobs.append(job)
        self._start()

    def hurry(self) -> None:
        """Have what is queued written at once."""
        self._urgent.set()

    async def call(self, job: StoreJob) -> Any:
        """Queue a job and return its result. Raises FileAccessError, and what the job refuses."""
        return await self._answer(self._queue(job))

    def _queue(self, job: StoreJob) -> "asyncio.Future[Any]":
        if self._is_closing:
            raise FileAccessError(f"cannot use the agents in {self._database.folder}: the daemon is shutting down")
        done = job.waiting()
        self.submit(job)
        self.hurry()
        return done

    async def _answer(self, done: "asyncio.Future[Any]") -> Any:
        try:
            return await asyncio.wait_for(done, ANSWER_SECONDS)
        except TimeoutError as exc:
            raise FileAccessError(
                f"cannot use the agents in {self._database.folder}: the disk did not answer within {ANSWER_SECONDS:g} s"
            ) from exc

    async def flush(self) -> None:
        """Return when all that is queued is on disk. Raises FileAccessError."""
        await self.call(StoreJob(_checkpoint, "flush"))

    async def close(self, seconds: float) -> None:
        """Write what is queued and end the thread; give up after so many seconds, and log it."""
        with self._lock:
            self._is_closing = True
            thread = self._thread
        if thread is None:
            return
        self._wake.set()
        self._urgent.set()
        await asyncio.to_thread(thread.join, seconds)
        if thread.is_alive():
            log.error("agents file not closed, the disk does not answer folder=%s", self._database.folder)

    def _start(self) -> None:
        self._wake.set()
        with self._lock:
            if self._thread is None and not self._is_closing:
                # Not joined at the interpreter's end: a disk that hangs must not keep the process.
                self._thread = threading.Thread(target=self._run, name="agents", daemon=True)
                self._thread.start()

    def _note_dropped(self, dropped: int) -> None:
        """Log once that items were dropped, until the queue was empty again."""
        if dropped and not self._is_dropping:
            self._is_dropping = True
            log.error("timeline entries dropped, the disk is too slow folder=%s", self._database.folder)

    # --- the thread

    def _run(self) -> None:
        while True:
            is_idle = self._wait()
            problem = self._work()
            if isinstance(problem, _UnexpectedError):
                # Logged, and gone; the work behind it goes on.
                self._wake.set()
            elif problem is not None:
                self._note_failure(problem)
            if (is_idle or self._is_closing) and self._end():
                return

    def _wait(self) -> bool:
        """Wait for work, and a moment for more of it, or for the next attempt; return whether none came for long."""
        is_idle = False
        if self._is_failing:
            self._urgent.wait(RETRY_SECONDS)
        elif self._wake.wait(IDLE_SECONDS):
            self._urgent.wait(GATHER_SECONDS)
        else:
            is_idle = True
        # Cleared before the queue is read: work that comes in between sets it again.
        self._urgent.clear()
        self._wake.clear()
        return is_idle

    def _end(self) -> bool:
        """Close the file; tell whether the thread may end: there is no work, or no hope for it."""
        # Before the lock: closing syncs the disk, and the event loop must not wait for that.
        self._database.shrink()
        self._database.close()
        with self._lock:
            unwritten = len(self._jobs) + len(self._records) + len(self._items)
            if unwritten and not (self._is_closing and self._is_failing):
                return False
            self._thread = None
        if unwritten:
            log.error("agents file closed with unwritten rows count=%d folder=%s", unwritten, self._database.folder)
        return True

    def _work(self) -> FileAccessError | None:
        """Do what is queued; return the first error, after which the rest is queued again."""
        while True:
            with self._lock:
                jobs, self._jobs = self._jobs, []
                records, self._records = self._records, {}
                has_items = len(self._items) > 0
            if not jobs and not records and not has_items:
                break
            problem = self._write([job for job in jobs if job.kind == "write"], records)
            for job in jobs:
                if job.kind != "write":
                    problem = self._read(job, problem)
            problem = problem or self._write_items()
            if problem is not None:
                return problem
        self._is_dropping = False
        if self._is_failing:
            self._is_failing = False
            log.warning("agents file written again folder=%s", self._database.folder)
        return None

    def _write(self, jobs: list[StoreJob], records: dict[str, tuple[int, bytes]]) -> FileAccessError | None:
        """Write in one transaction and tell the callers. Return the error, if there was one."""
        if not jobs and not records:
            return None

        def write(connection: "Connection") -> None:
            for job in jobs:
                job.perform(connection)
            for agent_id, (_, data) in records.items():
                rows.put_record(connection, agent_id, data)

        problem = self._transact(write, durable=bool(jobs))
        for job in jobs:
            job.tell(problem)
        if problem is not None and not isinstance(problem, _UnexpectedError):
            with self._lock:
                self._jobs[:0] = [job for job in jobs if job.is_kept and job.record is None]
                # Of each agent one record waits, however many callers have been told that theirs was not written.
                unwritten = [job.record for job in jobs if job.record is not None]
                unwritten += [(agent_id, *record) for agent_id, record in records.items()]
                for agent_id, number, data in unwritten:
                    if self._newest.get(agent_id) == number:
                        self._records[agent_id] = number, data
        return problem

    def _read(self, job: StoreJob, problem: FileAccessError | None) -> FileAccessError | None:
        """Do a job that reads, and tell the caller. Return the error of writing so far, if there was one."""
        if job.kind == "flush":
            while problem is None and len(self._items):
                problem = self._write_items()
        elif job.agent_id is not None:
            problem = self._write_items(job.agent_id) or problem
        # A full disk can still be read.
        failed = problem if job.kind == "flush" else None
        job.tell(failed or self._transact(job.perform, durable=None))
        return problem

    def _write_items(self, agent_id: str | None = None) -> FileAccessError | None:
        """Write the items of one agent, or of those that have waited longest. Return the error, if there was one."""
        batch: dict[str, list[TimelineItem]] = {}
        with self._lock:
            if agent_id is not None:
                batch[agent_id] = self._items.take(agent_id)
            else:
                room = BATCH_ITEMS
                for each in self._items.agents():
                    if room > 0:
                        batch[each] = self._items.take(each, room)
                        room -= len(batch[each])
        if not any(batch.values()):
            return None

        def write(connection: "Connection") -> None:
            for each, items in batch.items():
                self._put_items(connection, each, items)

        problem = self._transact(write, durable=False)
        if problem is not None and not isinstance(problem, _UnexpectedError):
            with self._lock:
                dropped = sum(
                    self._items.put_back(each, items) for each, items in batch.items() if each in self._newest
                )
            self._note_dropped(dropped)
        return problem

    def _put_items(self, connection: "Connection", agent_id: str, items: list[TimelineItem]) -> None:
        count, size = self._untrimmed.get(agent_id, (0, 0))
        count += len(items)
        size += rows.put_items(connection, agent_id, items)
        if count >= TRIM_ITEMS or size >= TRIM_BYTES:
            rows.trim(connection, agent_id, self.timeline_limit, TIMELINE_LIMIT_BYTES)
            count = size = 0
        # After a failure it counts too much: the timeline is trimmed a little earlier.
        self._untrimmed[agent_id] = count, size

    def _transact(self, run: "Callable[[Connection], None]", durable: bool | None) -> FileAccessError | None:
        """Run in a transaction, or in none if `durable` is None; return the error, if there was one."""
        database = self._database
        for is_last in (False, True):
            try:
                with database.connection() if durable is None else database.transaction(durable) as connection:
                    run(connection)
            except FileAccessError as exc:
                # In place of a damaged file there is a new one.
                if is_last or not isinstance(exc, DamagedFile):
                    return exc
            except Exception as exc:
                # The thread must survive: without it every caller waits until the time is over.
                log.exception("unhandled exception while using the agents file folder=%s", database.folder)
                return _UnexpectedError(f"cannot use the agents in {database.folder}: {exc!r}")
            else:
                break
        return None

    def _note_failure(self, exc: FileAccessError) -> None:
        now = time.monotonic()
        if not self._is_failing or now - self._warned_at >= WARN_SECONDS:
            self._warned_at = now
            log.error("agents file not written, trying again folder=%s reason=%s", self._database.folder, exc)
        self._is_failing = True


class _UnexpectedError(FileAccessError):
    """Error of this program: what caused it is not tried again."""


def _checkpoint(connection: "Connection") -> None:
    # Syncs the log before it is written back.
    connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
