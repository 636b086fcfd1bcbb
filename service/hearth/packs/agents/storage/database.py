"""SQLite file of the agents: opening, migrations, transactions, and what happens to a damaged file.

`FOLDER/agents.db` belongs to one daemon at a time (`daemon.lock`) and to one thread at a time. Everything here blocks.
sqlite3 is imported by the first use: it costs 2 MB.

1. A transaction that is not durable survives the end of the process at any moment, but not a power failure.
2. A file of a newer version is refused and left as it is.
3. A damaged file is moved to `agents.db.damaged-N`, never removed. A new file takes its place, with all rows that can
   still be read, except timelines: these may be large, and a start of the daemon waits for this.
"""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hearth.errors import FileAccessError
from hearth.host import private_files
from hearth.host.folders import make_private, refusal

if TYPE_CHECKING:
    from sqlite3 import Connection
    from sqlite3 import Error as SQLiteError

log = logging.getLogger(__name__)

FILE_NAME = "agents.db"

# Statements that lead from each version to the next. A version that was released is never changed.
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        "CREATE TABLE agents (id TEXT PRIMARY KEY NOT NULL, data BLOB NOT NULL)",
        # `size` is before `data`: retention reads it without the pages that a long text fills.
        """CREATE TABLE timeline (agent TEXT NOT NULL, seq INTEGER NOT NULL, kind TEXT NOT NULL, at REAL NOT NULL,
                                  size INTEGER NOT NULL, data BLOB NOT NULL, PRIMARY KEY (agent, seq))""",
        "CREATE TABLE notices (number INTEGER PRIMARY KEY, id TEXT NOT NULL, parent TEXT NOT NULL, data BLOB NOT NULL)",
        """CREATE TABLE messages (number INTEGER PRIMARY KEY, id TEXT NOT NULL, recipient TEXT NOT NULL,
                                  is_read INTEGER NOT NULL DEFAULT 0, data BLOB NOT NULL)""",
        "CREATE INDEX messages_by_recipient ON messages (recipient, is_read)",
        "CREATE INDEX messages_by_id ON messages (id)",
        """CREATE TABLE tasks (number INTEGER PRIMARY KEY, id TEXT UNIQUE NOT NULL, workspace TEXT,
                               status TEXT NOT NULL, data BLOB NOT NULL)""",
        "CREATE INDEX tasks_by_workspace ON tasks (workspace, status)",
        """CREATE TABLE pull_requests (number INTEGER PRIMARY KEY, id TEXT NOT NULL, agent TEXT NOT NULL,
                                       data BLOB NOT NULL)""",
        "CREATE INDEX pull_requests_by_agent ON pull_requests (agent)",
        "CREATE TABLE durable (transactions INTEGER NOT NULL)",
        "INSERT INTO durable VALUES (0)",
    ),
)

# Tables with their columns, as of the newest version. The rows of all but `timeline` are kept if the file is damaged.
COLUMNS = {
    "agents": "id, data",
    "notices": "number, id, parent, data",
    "messages": "number, id, recipient, is_read, data",
    "tasks": "number, id, workspace, status, data",
    "pull_requests": "number, id, agent, data",
    "timeline": "agent, seq, kind, at, size, data",
}

# Pages in memory. The store reads and writes in batches, and needs no row twice.
_CACHE_KIB = 256
# The log beside the file is cut back to this after a large batch.
_WAL_LIMIT_BYTES = 4 * 1024 * 1024
# Moving so many pages takes a tenth of a second: 16 MiB.
_VACUUM_PAGES = 4096
# Another process that reads the file, such as a backup, holds a lock for moments.
_BUSY_SECONDS = 5.0
# A disk that damages more files than this is not repaired by another one.
_DAMAGED_LIMIT = 20
# More than a disk that is full for SQLite has left for a small file.
_PROBE_BYTES = 64 * 1024


class DamagedFile(FileAccessError):
    """Error for a file that was damaged and is moved aside; the next attempt uses a new file."""


class AgentDatabase:
    """SQLite file in a folder; opened by the first use, and again by the first use after `close` or an error."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.path = os.path.join(folder, FILE_NAME)
        self._connection: Connection | None = None

    def exists(self) -> bool:
        """Tell whether there is a file."""
        return os.path.exists(self.path)

    @contextmanager
    def transaction(self, durable: bool) -> "Iterator[Connection]":
        """Run the block in a transaction; if `durable`, it is on disk afterwards. Raises FileAccessError.

        After an error nothing of the transaction is in the file.
        """
        with self.connection() as connection:
            connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            connection.execute("BEGIN IMMEDIATE")
            if durable:
                # A row that is replaced by the same one is no change: nothing would be synced, neither what earlier
                # transactions have written.
                connection.execute("UPDATE durable SET transactions = transactions + 1")
            yield connection
            connection.execute("COMMIT")

    @contextmanager
    def connection(self) -> "Iterator[Connection]":
        """Run the block with the open file. Raises FileAccessError, also for errors of SQLite in the block."""
        sqlite_error = _sqlite_error()
        try:
            yield self._connection or self._open()
        except sqlite_error as exc:
            is_damage = _is_damage(exc, self._connection is None)
            self.close()
            raise (self._replace_damaged(exc) if is_damage else self._refused(exc)) from exc
        except OSError as exc:
            self.close()
            raise refusal("write the agents in", self.folder, exc) from exc
        except BaseException:
            # Rolls back what the block has begun.
            self.close()
            raise

    def shrink(self) -> None:
        """Give pages of removed rows back to the file system."""
        if self._connection is None:
            return
        try:
            # `execute` would do one page. `executescript` commits, and here there is no transaction.
            self._connection.executescript(f"PRAGMA incremental_vacuum({_VACUUM_PAGES})")
        except _sqlite_error() as exc:
            log.error("agents file not shrunk path=%s reason=%s", self.path, exc)

    def close(self) -> None:
        """Close the file. Nothing that was committed is lost."""
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                connection.close()
            except _sqlite_error():
                # The disk is full or gone: closing writes the log back, and so does the next opening.
                pass

    # --- opening

    def _open(self) -> "Connection":
        make_private(self.folder)
        if not self.exists():
            private_files.create(self.path, b"")
        elif os.stat(self.path).st_mode & 0o077:
            # Restored from a backup, perhaps.
            os.chmod(self.path, 0o600)
        connection = _connect(self.path)
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return connection

    def _prepare(self, connection: "Connection") -> None:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version > len(MIGRATIONS):
            raise FileAccessError(
                f"{self.path} was written by a newer Hearth (version {version} of its format; this one knows"
                f" {len(MIGRATIONS)}); update Hearth, or move the file away to begin without agents"
            )
        if not version:
            # Only before there are tables, and before the log.
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        connection.execute(f"PRAGMA journal_size_limit = {_WAL_LIMIT_BYTES}").fetchall()
        connection.execute("PRAGMA journal_mode = WAL").fetchall()
        for number, statements in enumerate(MIGRATIONS[version:], version + 1):
            connection.execute("BEGIN IMMEDIATE")
            for statement in statements:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number}")
            connection.execute("COMMIT")
            log.info("agents file migrated path=%s version=%d", self.path, number)
        for table, columns in {**COLUMNS, "durable": "transactions"}.items():
            connection.execute(f"SELECT {columns} FROM {table} LIMIT 0")

    # --- trouble

    def _refused(self, exc: "SQLiteError") -> FileAccessError:
        """Return the error for the user."""
        what = f"cannot write the agents in {self.folder}"
        if "full" in str(exc):
            return FileAccessError(f"{what}: the disk is full; free some space")
        # SQLite says of most trouble only that the file cannot be opened.
        probe = private_files.beside(self.path)
        try:
            private_files.write(probe, bytes(_PROBE_BYTES))
        except OSError as cause:
            return refusal("write the agents in", self.folder, cause)
        finally:
            private_files.remove(probe)
        return FileAccessError(f"{what}: {exc}; is another program using {self.path}?")

    def _replace_damaged(self, exc: "SQLiteError") -> FileAccessError:
        """Begin a new file, and return the error for what met the damaged one."""
        try:
            aside = self._set_aside()
        except OSError as cause:
            return refusal("replace the damaged file", self.path, cause)
        if aside is None:
            return FileAccessError(
                f"{self.path} is damaged ({exc}), and {_DAMAGED_LIMIT} damaged ones are beside it already; check the"
                f" disk, and move them away"
            )
        rows = self._rescue(aside)
        log.error("agents file damaged, begun again moved_to=%s rows_kept=%d reason=%s", aside, rows, exc)
        return DamagedFile(f"{self.path} was damaged ({exc}) and is now {aside}; a new file was begun")

    def _set_aside(self) -> str | None:
        """Move the file aside; return its new path, or None if there are too many of them."""
        paths = (f"{self.path}.damaged-{number}" for number in range(1, _DAMAGED_LIMIT + 1))
        aside = next((path for path in paths if not os.path.lexists(path)), None)
        if aside is None:
            return None
        # The file itself comes last: with the log of another file, a new one would be damaged at once.
        for suffix in ("-shm", "-wal", ""):
            if os.path.lexists(self.path + suffix):
                private_files.replace(self.path + suffix, aside + suffix)
        return aside

    def _rescue(self, aside: str) -> int:
        """Copy the rows that can be read to a new file; return their number."""
        sqlite_error = _sqlite_error()
        count = 0
        try:
            source = _connect(aside)
            try:
                with self.transaction(durable=True) as connection:
                    for table, columns in COLUMNS.items():
                        if table != "timeline":
                            count += _copy(source, connection, table, columns)
            finally:
                source.close()
        except (sqlite_error, FileAccessError) as exc:
            log.error("agents file not rescued path=%s reason=%s", aside, exc)
            return 0
        return count


def _copy(source: "Connection", target: "Connection", table: str, columns: str) -> int:
    """Copy the rows of a table up to the first that cannot be read; return their number."""
    rows = []
    try:
        for row in source.execute(f"SELECT {columns} FROM {table}"):
            rows.append(row)  # noqa: PERF402  # rows before an error are kept
    except _sqlite_error() as exc:
        log.error("agents table not read to its end table=%s rows_kept=%d reason=%s", table, len(rows), exc)
    slots = ", ".join("?" * len(columns.split(",")))
    target.executemany(f"INSERT OR IGNORE INTO {table} ({columns}) VALUES ({slots})", rows)
    return len(rows)


def _connect(path: str) -> "Connection":
    """Open a file that exists. Raises sqlite3.Error."""
    import sqlite3
    from urllib.parse import quote

    uri = f"file:{quote(path.replace(os.sep, '/'), safe='/')}?mode=rw"
    # No transaction is begun implicitly. Any thread may use the connection, though never two at once.
    connection = sqlite3.connect(uri, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False, uri=True)
    # Damaged texts are no reason to refuse their rows.
    connection.text_factory = _decoded
    return connection


def _decoded(text: bytes) -> str:
    return text.decode("utf-8", "replace")


def _sqlite_error() -> "type[SQLiteError]":
    """Return the base class of SQLite's errors. Raises FileAccessError if this Python has no SQLite."""
    try:
        import sqlite3
    except ImportError as exc:
        raise FileAccessError(f"agents are not kept without Python's sqlite3 module ({exc}); install it") from exc
    return sqlite3.Error


def _is_damage(exc: "SQLiteError", is_opening: bool) -> bool:
    """Tell whether the file is no database, or not one of this package."""
    import sqlite3

    # The low byte is the primary code.
    code = getattr(exc, "sqlite_errorcode", 0) & 0xFF
    # A table or a column that is missing or in the way. Later such an error would be one of the statement.
    is_foreign = is_opening and code == sqlite3.SQLITE_ERROR
    return is_foreign or code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
