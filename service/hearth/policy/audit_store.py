"""Writer of the audit log's files: transactions, rotation and retention, by the rules of `audit_files`.

Everything here blocks: for the writer's thread (`audit`) and for the command line.
"""

import logging
import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hearth.errors import FileAccessError
from hearth.host import private_files
from hearth.host.folders import make_private, sync_folder
from hearth.host.locks import Lock
from hearth.policy import audit_files
from hearth.policy.audit_files import NO_HASH, AuditEntry, AuditHead, Chain, SegmentHeader

if TYPE_CHECKING:
    from sqlite3 import Connection

log = logging.getLogger(__name__)

DAYS_BY_DEFAULT = 90
SIZE_BYTES_BY_DEFAULT = 256 * 1024 * 1024
# A log consists of about this many segments: retention removes whole ones, an eighth of the log at a time.
SEGMENTS = 8
# Below this size the fixed pages of a segment would outweigh its rows.
SEGMENT_LEAST_BYTES = 64 * 1024


class AuditStore:
    """Writer of one log, for one thread. A failed `append` leaves the log as it was and may be repeated."""

    def __init__(
        self, folder: str, days: float = DAYS_BY_DEFAULT, size: int = SIZE_BYTES_BY_DEFAULT, rotates: bool = True
    ) -> None:
        self.folder = folder
        # A process that does not know the limits of the policy must not remove what these keep.
        self._rotates = rotates
        self.days = days
        self.size = size
        self._chain: Chain | None = None
        self._connection: Connection | None = None
        self._number = 0
        self._identity: tuple[int, int] | None = None
        self._created = 0.0
        # As of the last commit of this process.
        self.head = AuditHead(0, "")
        # Row that must be there: the last one of this process, or that of the head file.
        self._expected: AuditHead | None = None

    def append(self, entries: Sequence[AuditEntry], durable: bool = False) -> None:
        """Append rows in one transaction; `durable` returns after they are synced. Raises FileAccessError.

        Without `durable` the rows survive the end of this process at any moment, but not a power failure.
        """
        sqlite_error = audit_files.sqlite_errors()
        try:
            connection = self._begin(durable)
            seq, last = self._last_row(connection)
            rows = []
            for entry in (*self._truncation(seq, last), *entries):
                values = audit_files.row_values(entry)
                seq += 1
                last = self._link(last, seq, values)
                rows.append((seq, *values, last))
            connection.executemany(audit_files.INSERT, rows)
            connection.execute("COMMIT")
        except (sqlite_error, OSError, FileAccessError) as exc:
            self.close()
            raise audit_files.unusable("write", self.folder, exc) from exc
        self.head = self._expected = AuditHead(seq, last.hex())
        try:
            if durable:
                audit_files.write_head(self.folder, self.head)
            if self._rotates and self._is_full(connection):
                self._rotate()
        except (sqlite_error, OSError, FileAccessError) as exc:
            # The rows are written: an error here must not have them written twice.
            self.close()
            reason = audit_files.unusable("write", self.folder, exc)
            log.error("audit log not rotated or head not written reason=%s", reason)

    def sync(self) -> AuditHead:
        """Sync all rows to the disk and write the head file; return the head. Raises FileAccessError."""
        sqlite_error = audit_files.sqlite_errors()
        try:
            if self.head.seq:
                connection = self._connection or self._open()
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
                audit_files.write_head(self.folder, self.head)
        except (sqlite_error, OSError, FileAccessError) as exc:
            self.close()
            raise audit_files.unusable("write", self.folder, exc) from exc
        return self.head

    def close(self) -> None:
        """Close the segment; the next `append` opens it again. Nothing that was committed is lost."""
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                connection.close()
            except audit_files.sqlite_errors():
                # The disk is full or gone, and closing rolls back and checkpoints; the next opening does the same.
                pass

    # --- transactions

    def _begin(self, durable: bool) -> "Connection":
        """Return a connection to the newest segment with the write lock taken."""
        while True:
            connection = self._connection or self._open()
            connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            connection.execute("BEGIN IMMEDIATE")
            # Another process may have rotated the log while this one waited for the lock; and rows for a file that
            # was moved away or removed would be lost.
            has_successor = os.path.exists(audit_files.segment_path(self.folder, self._number + 1))
            if not has_successor and self._identity == _identity(self._path()):
                return connection
            self.close()

    def _open(self) -> "Connection":
        make_private(self.folder)
        if not audit_files.segment_numbers(self.folder):
            self._begin_log()
        self._chain = Chain(audit_files.read_key(self.folder))
        self._number = audit_files.segment_numbers(self.folder)[-1]
        path = self._path()
        self._identity = _identity(path)
        self._connection = audit_files.connect(path)
        self._connection.execute("PRAGMA journal_mode = WAL").fetchall()
        header = audit_files.read_header(self._connection)
        if header is None or not header.is_authentic(self._chain):
            raise FileAccessError(
                f"{path} was not written with the key {audit_files.key_path(self.folder)};"
                f" `hearth audit --verify` tells more, and moving {self.folder} away begins a new log"
            )
        self._created = header.created
        self._expected = self._expected or self._head_in_file()
        return self._connection

    def _head_in_file(self) -> AuditHead | None:
        try:
            return audit_files.read_head(self.folder)
        except ValueError as exc:
            # Verification reports the file until the next head replaces it; rows must be written all the same.
            log.error("audit head not read reason=%s", exc)
            return None

    def _path(self) -> str:
        return audit_files.segment_path(self.folder, self._number)

    def _begin_log(self) -> None:
        lock = Lock(os.path.join(self.folder, "lock"))
        # Two processes may begin a log at once.
        lock.acquire()
        try:
            if not audit_files.segment_numbers(self.folder):
                self._chain = Chain(audit_files.make_key(self.folder))
                self._create_segment(1, SegmentHeader(1, NO_HASH, 1, time.time()))
        finally:
            lock.release()

    def _last_row(self, connection: "Connection") -> tuple[int, bytes]:
        found = connection.execute("SELECT seq, hash FROM entries ORDER BY seq DESC LIMIT 1").fetchone()
        if found is None:
            header = audit_files.read_header(connection)
            assert header is not None  # `_open` has read it
            return header.first - 1, header.previous
        return found[0], bytes(found[1])

    def _link(self, previous: bytes, seq: int, values: Sequence[object]) -> bytes:
        assert self._chain is not None  # `_open` has made it
        return self._chain.link_written(previous, seq, values)

    def _truncation(self, seq: int, last: bytes) -> list[AuditEntry]:
        """Return the row that says that rows were removed from the end, if the last one is not the expected one."""
        expected = self._expected
        if expected is None or seq > expected.seq or (seq, last.hex()) == expected:
            return []
        reason = f"the end of the log was removed: row {expected.seq} was written, and row {seq} is the last one"
        log.error("audit log truncated expected=%d found=%d folder=%s", expected.seq, seq, self.folder)
        return [AuditEntry(time.time(), "audit", outcome=audit_files.TRUNCATED, reason=reason)]

    # --- rotation and retention

    def _is_full(self, connection: "Connection") -> bool:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        page_bytes = connection.execute("PRAGMA page_size").fetchone()[0]
        if pages * page_bytes >= max(self.size // SEGMENTS, SEGMENT_LEAST_BYTES):
            return True
        return time.time() - self._created >= self.days * 86400 / SEGMENTS

    def _rotate(self) -> None:
        """Begin a new segment, and remove the oldest ones that are beyond the limits."""
        connection = self._begin(durable=True)
        seq, last = self._last_row(connection)
        header = audit_files.read_header(connection)
        if header is None or seq < header.first:
            # Another process has rotated already, and this segment is new.
            connection.execute("ROLLBACK")
            return
        now = time.time()
        kept_from, removed = self._retention(header, now)
        # The write lock of the old segment is held until the new one is there: no process appends in between.
        self._create_segment(self._number + 1, SegmentHeader(seq + 1, last, kept_from, now))
        connection.execute("COMMIT")
        self.head = AuditHead(seq, last.hex())
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        audit_files.write_head(self.folder, self.head)
        _seal(connection)
        self.close()
        log.info("audit head count=%d hash=%s", *self.head)
        for number in removed:
            _remove_segment(self.folder, number)
            log.info("audit segment removed path=%s", audit_files.segment_path(self.folder, number))

    def _retention(self, newest: SegmentHeader, now: float) -> tuple[int, list[int]]:
        """Return the first row to keep, and the segments that have none of the rows to keep.

        The last segment is always kept. A segment ended when its successor was created.
        """
        numbers = audit_files.segment_numbers(self.folder)
        paths = [audit_files.segment_path(self.folder, number) for number in numbers]
        headers = self._headers(paths)
        if headers is None:
            return newest.kept_from, []
        kept_from, ended = newest.first, newest.created
        total = os.path.getsize(paths[-1])
        for index in range(len(numbers) - 2, -1, -1):
            total += os.path.getsize(paths[index])
            is_over = total > self.size or now - ended > self.days * 86400
            if is_over or headers[index].first < newest.kept_from:
                return max(kept_from, newest.kept_from), numbers[: index + 1]
            kept_from, ended = headers[index].first, headers[index].created
        return kept_from, []

    def _headers(self, paths: list[str]) -> list[SegmentHeader] | None:
        """Return the headers of all segments; None if one is damaged: it is evidence, and nothing is removed then."""
        assert self._chain is not None  # as in `_link`
        found = []
        for path in paths:
            header = audit_files.header_of(path)
            if header is None or not header.is_authentic(self._chain):
                log.error("audit segment damaged, nothing is removed path=%s", path)
                return None
            found.append(header)
        return found

    def _create_segment(self, number: int, header: SegmentHeader) -> None:
        """Create a segment, complete from the moment it has its name."""
        assert self._chain is not None  # as in `_link`
        path = audit_files.segment_path(self.folder, number)
        temporary = private_files.beside(path)
        os.close(private_files.open_private(temporary))
        try:
            connection = audit_files.connect(temporary)
            try:
                connection.executescript(audit_files.SCHEMA)
                mac = self._chain.header_mac(header)
                connection.execute("INSERT INTO segment VALUES (?, ?, ?, ?, ?)", (*header[:4], mac))
            finally:
                connection.close()
            private_files.replace(temporary, path)
            sync_folder(self.folder)
        finally:
            private_files.remove(temporary)


def _identity(path: str) -> tuple[int, int] | None:
    """Return device and number of a file, None if there is no such file."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _seal(connection: "Connection") -> None:
    """Make a segment a single file that readers leave as it is, unless one of them has it open."""
    try:
        connection.execute("PRAGMA busy_timeout = 0")
        connection.execute("PRAGMA journal_mode = DELETE").fetchall()
    except audit_files.sqlite_errors():
        # In use: the files beside it stay, and do no harm.
        pass


def _remove_segment(folder: str, number: int) -> None:
    """Remove a segment's files; what a reader has open on Windows is removed at the next rotation."""
    path = audit_files.segment_path(folder, number)
    for name in (path, f"{path}-wal", f"{path}-shm"):
        private_files.remove(name)
