"""Audit log of the daemon: entries are queued by the event loop and written by a thread.

`record` is for the path of every call: it appends to a bounded queue and returns. `record_durably` is for the decision
of a lead or a person, which must be on disk before it takes effect. The thread starts, and sqlite3 is imported, with
the first entry. `audit_files` has the format and the rules of the chain, `audit_store` writes the files,
`audit_reading` reads and verifies them.

While the log cannot be written, the queue fills up and then new entries are lost; both are logged, and the number of
lost entries becomes a row as soon as rows can be written. Calls go on. A durable entry fails instead.
"""

import asyncio
import logging
import threading
import time
from collections import deque
from typing import NamedTuple, Protocol

from hearth.errors import FileAccessError
from hearth.policy.audit_files import LOST, AuditEntry, AuditHead, AuditKind
from hearth.policy.audit_reading import Verification, verify
from hearth.policy.audit_store import DAYS_BY_DEFAULT, SIZE_BYTES_BY_DEFAULT, AuditStore

__all__ = ["AuditEntry", "AuditHead", "AuditKind", "AuditLog", "LateEntry", "Verification", "verify"]

log = logging.getLogger(__name__)

# Entries that wait for the writer: 10 MB, and several seconds of the fastest clients. A disk that is full for longer
# than that costs entries, not memory.
QUEUE_LIMIT = 20_000
# Rows in one transaction: a hundredth of a second of the writer, so that a durable entry behind them waits no longer.
BATCH_ROWS = 500
# Entries are gathered for so long before they are written together; a durable entry does not wait.
GATHER_SECONDS = 0.25
# Interval of heads in the log, by which a truncated tail is found. Nothing is written while nothing is recorded.
HEAD_SECONDS = 60.0
# Interval of attempts while the log cannot be written, and of the message that says so.
RETRY_SECONDS = 5.0
WARN_SECONDS = 60.0
# A disk that does not answer for so long counts as failed: the decision does not take effect.
DURABLE_SECONDS = 10.0
# How long the end of the daemon waits for the last rows.
CLOSE_SECONDS = 5.0


class LateEntry(Protocol):
    """Protocol for an entry that is made by the writer's thread, off the path of the call that it is about."""

    def made(self) -> AuditEntry:
        """Return the entry."""


class _DurableEntry(NamedTuple):
    """Entry whose caller waits until the row is on disk."""

    entry: AuditEntry
    loop: asyncio.AbstractEventLoop
    done: "asyncio.Future[None]"

    def tell(self, problem: Exception | None) -> None:
        """Wake the caller, from the writer's thread."""
        try:
            self.loop.call_soon_threadsafe(self._resolve, problem)
        except RuntimeError:
            # The loop is closed: no task waits any more.
            pass

    def _resolve(self, problem: Exception | None) -> None:
        if self.done.done():
            return
        if problem is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(problem)


class AuditLog:
    """Audit log of one profile (Places.audit). Nothing is opened before the first entry.

    `days` and `size` bound what is kept; both are limits of the whole log. `close` blocks for up to CLOSE_SECONDS.
    """

    def __init__(self, folder: str, days: float = DAYS_BY_DEFAULT, size: int = SIZE_BYTES_BY_DEFAULT) -> None:
        self.folder = folder
        # Entries that were not recorded, because the queue was full.
        self.lost = 0
        # Of those, the ones that a row tells of; written by the thread, as `lost` is by the loop.
        self._reported_lost = 0
        self._store = AuditStore(folder, days, size)
        self._queue: deque[AuditEntry | LateEntry | _DurableEntry] = deque()
        # Set while there is work; `_urgent` ends the gathering and the pause between attempts.
        self._wake = threading.Event()
        self._urgent = threading.Event()
        # The state of `_wake`: asking an event costs a call of Python code, and every entry would have to ask.
        self._is_awake = False
        self._is_closing = False
        self._is_failing = False
        self._warned_at = 0.0
        self._published = AuditHead(0, "")
        self._publish_at = 0.0
        self._thread: threading.Thread | None = None

    # --- for the event loop: nothing here blocks

    def record(self, entry: AuditEntry | LateEntry) -> None:
        """Queue an entry. Never blocks and never raises; an entry beyond the queue's limit is lost and counted."""
        if len(self._queue) >= QUEUE_LIMIT or self._is_closing:
            self.lost += 1
            return
        self._queue.append(entry)
        if not self._is_awake:
            self._start()

    async def record_durably(self, entry: AuditEntry) -> None:
        """Record an entry; return when its row is committed and synced to the disk. Raises FileAccessError.

        After an error the decision must not take effect. If the disk only was too slow, its row may appear later.
        """
        if self._is_closing:
            raise FileAccessError(f"cannot write the audit log in {self.folder}: the daemon is shutting down")
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        self._queue.append(_DurableEntry(entry, loop, done))
        self._start()
        self._urgent.set()
        try:
            await asyncio.wait_for(done, DURABLE_SECONDS)
        except TimeoutError as exc:
            raise FileAccessError(
                f"cannot write the audit log in {self.folder}: the disk did not answer within {DURABLE_SECONDS:g} s"
            ) from exc

    def head(self) -> AuditHead:
        """Return the count of rows and the hash of the last one, as last committed here; (0, "") before that."""
        return self._store.head

    def set_limits(self, days: float, size: int) -> None:
        """Change what is kept, from the next rotation on."""
        self._store.days, self._store.size = days, size

    def close(self) -> None:
        """Write all queued entries and the head; entries that come later are lost. Blocks, see CLOSE_SECONDS."""
        self._is_closing = True
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._wake.set()
        self._urgent.set()
        thread.join(CLOSE_SECONDS)
        if thread.is_alive():
            log.error("audit log not closed folder=%s unwritten=%d", self.folder, len(self._queue))

    def _start(self) -> None:
        self._is_awake = True
        self._wake.set()
        if self._thread is None:
            # Not joined at the interpreter's end: a disk that hangs must not keep the process.
            self._thread = threading.Thread(target=self._run, name="audit", daemon=True)
            self._thread.start()

    # --- the writer's thread

    def _run(self) -> None:
        while not self._is_closing:
            self._wait()
            try:
                self._work()
            except FileAccessError as exc:
                self._note_failure(exc)
            except Exception:
                # The thread must survive its errors: without it every decision of a lead or a person is refused.
                log.exception("unhandled exception while writing the audit log folder=%s", self.folder)
                self._store.close()
                self._is_failing = True
        self._finish()

    def _finish(self) -> None:
        try:
            self._work()
        except FileAccessError as exc:
            self._note_failure(exc)
        self._store.close()
        if self._queue:
            log.error("audit log closed with unwritten entries count=%d", len(self._queue))

    def _work(self) -> None:
        """Write what is queued, and the head if it is due. Raises FileAccessError."""
        self._write_queued()
        if self._store.head == self._published:
            self._publish_at = time.monotonic() + HEAD_SECONDS
        elif self._is_closing or time.monotonic() >= self._publish_at:
            self._publish()
        if self._is_failing:
            log.warning("audit log written again lost=%d", self.lost)
            self._is_failing = False

    def _wait(self) -> None:
        """Wait for entries, and then a moment for more of them; or until a head is due, or the next attempt."""
        if self._is_failing:
            self._urgent.wait(RETRY_SECONDS)
        else:
            is_published = self._store.head == self._published
            timeout = None if is_published else max(0.0, self._publish_at - time.monotonic())
            if self._wake.wait(timeout):
                self._urgent.wait(GATHER_SECONDS)
        # Cleared before the queue is read: an entry that comes in between sets it again.
        self._urgent.clear()
        self._wake.clear()
        self._is_awake = False

    def _write_queued(self) -> None:
        """Write the queue to its end, in batches. Raises FileAccessError; then only durable entries have left it."""
        while self._queue:
            batch = [_made(self._queue.popleft()) for _ in range(min(BATCH_ROWS, len(self._queue)))]
            # A caller that has given up must not find its decision recorded later.
            batch = [each for each in batch if isinstance(each, AuditEntry) or not each.done.done()]
            waiting = [each for each in batch if isinstance(each, _DurableEntry)]
            lost = self.lost - self._reported_lost
            entries = [each.entry if isinstance(each, _DurableEntry) else each for each in batch]
            if not entries:
                continue
            try:
                self._store.append([*_notes(lost), *entries], durable=bool(waiting))
            except FileAccessError as exc:
                self._put_back(batch, exc)
                raise
            except Exception as exc:
                for each in waiting:
                    each.tell(FileAccessError(f"cannot write the audit log in {self.folder}: {exc!r}"))
                raise
            self._reported_lost += lost
            for each in waiting:
                each.tell(None)

    def _put_back(self, batch: "list[AuditEntry | _DurableEntry]", exc: FileAccessError) -> None:
        """Queue the entries of a failed batch again. Durable ones fail, also those that are behind the batch."""
        batch += [_made(self._queue.popleft()) for _ in range(len(self._queue))]
        self._queue.extendleft(reversed([each for each in batch if isinstance(each, AuditEntry)]))
        for each in batch:
            if isinstance(each, _DurableEntry):
                each.tell(exc)

    def _publish(self) -> None:
        """Sync the rows, write the head file and log the head. Raises FileAccessError."""
        self._published = self._store.sync()
        self._publish_at = time.monotonic() + HEAD_SECONDS
        log.info("audit head count=%d hash=%s", *self._published)

    def _note_failure(self, exc: FileAccessError) -> None:
        now = time.monotonic()
        if not self._is_failing or now - self._warned_at >= WARN_SECONDS:
            self._warned_at = now
            waiting = len(self._queue)
            log.error("audit log not written waiting=%d lost=%d reason=%s", waiting, self.lost, exc)
        self._is_failing = True


def _made(queued: "AuditEntry | LateEntry | _DurableEntry") -> "AuditEntry | _DurableEntry":
    return queued if isinstance(queued, AuditEntry | _DurableEntry) else queued.made()


def _notes(lost: int) -> list[AuditEntry]:
    """Return the row that says how many entries were lost before it."""
    if not lost:
        return []
    reason = f"{lost} entries before this one were lost: the log could not be written, or not fast enough"
    return [AuditEntry(time.time(), "audit", outcome=LOST, reason=reason)]
