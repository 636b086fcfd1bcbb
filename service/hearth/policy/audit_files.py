"""Files of the audit log: SQLite segments whose rows are chained by a keyed hash.

    FOLDER/key               32 random bytes in hex; without them no row can be forged or verified
    FOLDER/head              the last synced row: {"count": N, "hash": H}
    FOLDER/000001.sqlite     segment: a header, and rows that are only ever appended

1. Row N has hash(N) = HMAC-SHA256(key, hash(N - 1) + JSON of N and the row's values). hash(0) is 32 zero bytes.
2. Every row has the number of its predecessor plus one, across segments. A transaction reads the last row after it has
   the write lock, so several processes (a daemon, the command line) may append to one log.
3. The header of a segment has its first number, the hash before it, and `kept_from`: the first row that retention
   keeps. An HMAC covers the header. Rows before `kept_from` of the newest segment are removed on purpose; any other
   missing row was not removed by Hearth.
4. `head` is written after the rows that it counts are synced. A log with fewer rows than its head was truncated; the
   writer notes that in a row, so that later rows do not hide it.
5. Retention acts at rotation only: the new segment with its `kept_from` is complete before any file is removed.

This module has the format; `audit_store` writes it, `audit_reading` reads it. Opening files blocks. sqlite3, hmac
and json are imported by the first use, because they cost the daemon's start 10 ms and 5 MB.
"""

import os
from collections.abc import Callable, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from hearth.errors import FileAccessError
from hearth.host import private_files
from hearth.host.folders import refusal

if TYPE_CHECKING:
    from sqlite3 import Connection

# "audit" is for rows of the log itself, such as a note of lost entries.
AuditKind = Literal["call", "decision", "hook", "stop", "token", "policy", "session", "audit"]

# Outcomes of rows of kind "audit".
LOST = "lost"
TRUNCATED = "truncated"
# A reason is a sentence or two; names are far shorter. Longer values are cut, and end with an ellipsis.
TEXT_LIMIT_CHARACTERS = 2000
# Another process holds the write lock for milliseconds; a stopped one must not hold up decisions for longer.
BUSY_SECONDS = 5.0

KEY_BYTES = 32
HASH_BYTES = 32
NO_HASH = bytes(HASH_BYTES)
SUFFIX = ".sqlite"
# `head` and `key` are far shorter.
SMALL_FILE_BYTES = 4096

SCHEMA = """
CREATE TABLE segment (first INTEGER NOT NULL, previous BLOB NOT NULL, kept_from INTEGER NOT NULL,
                      created REAL NOT NULL, mac BLOB NOT NULL);
CREATE TABLE entries (seq INTEGER PRIMARY KEY, time REAL NOT NULL, kind TEXT NOT NULL, session TEXT NOT NULL,
                      client TEXT NOT NULL, agent TEXT NOT NULL, role TEXT NOT NULL, server TEXT NOT NULL,
                      tool TEXT NOT NULL, digest TEXT NOT NULL, decision TEXT NOT NULL, decided_by TEXT NOT NULL,
                      channel TEXT NOT NULL, reason TEXT NOT NULL, outcome TEXT NOT NULL, duration REAL,
                      hash BLOB NOT NULL);
CREATE TRIGGER no_update BEFORE UPDATE ON entries BEGIN SELECT RAISE(ABORT, 'rows are only appended'); END;
CREATE TRIGGER no_delete BEFORE DELETE ON entries BEGIN SELECT RAISE(ABORT, 'rows are only appended'); END;
"""


class AuditEntry(NamedTuple):
    """One event to record. `time` is in seconds since 1970, `duration` in seconds; empty texts are unknown."""

    time: float
    kind: AuditKind
    session: str = ""
    client: str = ""
    agent: str = ""
    role: str = ""
    server: str = ""
    tool: str = ""
    digest: str = ""
    decision: str = ""
    decided_by: str = ""
    channel: str = ""
    reason: str = ""
    outcome: str = ""
    duration: float | None = None


COLUMNS = AuditEntry._fields
# Columns by name: a schema that was tampered with must not exchange two of them unnoticed.
SELECT = f"SELECT seq, {', '.join(COLUMNS)}, hash FROM entries"
INSERT = f"INSERT INTO entries VALUES ({', '.join('?' * (len(COLUMNS) + 2))})"


class AuditHead(NamedTuple):
    """Last row of a log: its number, which is the count of all rows ever written, and its hash in hex."""

    seq: int
    hash: str


class SegmentHeader(NamedTuple):
    """Header of a segment."""

    first: int
    previous: bytes
    kept_from: int
    created: float
    mac: bytes = b""

    def is_authentic(self, chain: "Chain") -> bool:
        """Tell whether the holder of the key has written this header."""
        return self.mac == chain.header_mac(self)


class Chain:
    """Keyed hash of rows and headers."""

    def __init__(self, key: bytes) -> None:
        import hmac
        import json

        self._key = key
        self._digest = hmac.digest
        self._encode = json.JSONEncoder(separators=(",", ":")).encode
        self._quoted: Callable[[str], str] = json.encoder.encode_basestring_ascii

    def link(self, previous: bytes, seq: int, values: Sequence[object]) -> bytes:
        """Return the hash of a row. Raises TypeError for values that no row of this table has, such as bytes."""
        return self._digest(self._key, previous + self._encode((seq, *values)).encode(), "sha256")

    def link_written(self, previous: bytes, seq: int, values: Sequence[Any]) -> bytes:
        """Do the same for values of `row_values`, in half the time: their types are known."""
        texts = ",".join(map(self._quoted, values[1:-1]))
        duration = "null" if values[-1] is None else repr(values[-1])
        return self._digest(self._key, previous + f"[{seq},{values[0]!r},{texts},{duration}]".encode(), "sha256")

    def header_mac(self, header: SegmentHeader) -> bytes:
        """Return the authentication code of a header."""
        text = self._encode(("segment", header.first, header.previous.hex(), header.kept_from, header.created))
        return self._digest(self._key, text.encode(), "sha256")


def row_values(entry: AuditEntry) -> list[object]:
    """Return the values of an entry's row: texts bounded and encodable, numbers finite."""
    texts: Sequence[object] = entry[1:-1]
    if not _is_plain(texts):
        texts = list(map(_text, texts))
    values: list[object] = [0.0, *texts, None]
    values[0] = float(entry.time) if isfinite(entry.time) else 0.0
    values[-1] = float(entry.duration) if entry.duration is not None and isfinite(entry.duration) else None
    return values


def _is_plain(texts: Sequence[object]) -> bool:
    """Tell whether all are short texts in ASCII, as nearly all are."""
    try:
        joined = "".join(texts)  # type: ignore[arg-type]  # others raise
    except TypeError:
        return False
    return len(joined) <= TEXT_LIMIT_CHARACTERS and joined.isascii()


def _text(value: object) -> str:
    text = value if isinstance(value, str) else "" if value is None else str(value)
    if len(text) > TEXT_LIMIT_CHARACTERS:
        text = text[: TEXT_LIMIT_CHARACTERS - 1] + "…"
    # Half a surrogate pair, as some clients send, has no place in a database.
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def unusable(action: str, folder: str, exc: Exception) -> FileAccessError:
    """Return a FileAccessError that says why the log cannot be read or written, and what to do."""
    if isinstance(exc, FileAccessError):
        return exc
    if isinstance(exc, OSError):
        return refusal(f"{action} the audit log in", folder, exc)
    if "full" in str(exc):
        return FileAccessError(f"cannot {action} the audit log in {folder}: the disk is full; free some space")
    return FileAccessError(
        f"cannot {action} the audit log in {folder}: {exc}; `hearth audit --verify` checks its files"
    )


# --- files


def segment_path(folder: str, number: int) -> str:
    """Return the path of a segment."""
    return os.path.join(folder, f"{number:06d}{SUFFIX}")


def segment_numbers(folder: str) -> list[int]:
    """Return the numbers of the segments, oldest first; none if there is no folder. Raises OSError."""
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
    stems = (name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX))
    return sorted(int(stem) for stem in stems if stem.isascii() and stem.isdigit())


def key_path(folder: str) -> str:
    """Return the path of the key."""
    return os.path.join(folder, "key")


def head_path(folder: str) -> str:
    """Return the path of the head file."""
    return os.path.join(folder, "head")


def read_head(folder: str) -> AuditHead | None:
    """Return the head in the head file, None if there is no such file. Raises OSError, and ValueError for no head."""
    import json

    path = head_path(folder)
    data = private_files.read(path, SMALL_FILE_BYTES)
    if not data and not os.path.exists(path):
        return None
    try:
        tree = json.loads(data)
        return AuditHead(int(tree["count"]), str(tree["hash"]))
    except (ValueError, KeyError, TypeError) as exc:
        raise ValueError(f"{path} is not a head file") from exc


def write_head(folder: str, head: AuditHead) -> None:
    """Write the head file; the rows that it counts must be synced. Raises OSError."""
    data = f'{{"count": {head.seq}, "hash": "{head.hash}"}}\n'
    private_files.write(head_path(folder), data.encode(), durable=True)


def make_key(folder: str) -> bytes:
    """Return the key, made first if there is none. Raises OSError, FileAccessError."""
    private_files.create(key_path(folder), os.urandom(KEY_BYTES).hex().encode() + b"\n")
    return read_key(folder)


def read_key(folder: str) -> bytes:
    """Return the key. Raises OSError, and FileAccessError if it is missing or is no key."""
    path = key_path(folder)
    try:
        key = bytes.fromhex(private_files.read(path, SMALL_FILE_BYTES).decode())
    except ValueError as exc:
        raise FileAccessError(f"{path} is not a key of an audit log: {exc}; restore it, or move {folder} away") from exc
    if len(key) != KEY_BYTES:
        what = "is not a key of an audit log" if key else "is missing"
        raise FileAccessError(f"{path} {what}; restore it, or move {folder} away to begin a new log")
    return key


def sqlite_errors() -> type[Exception]:
    """Return the base class of SQLite's errors. Raises FileAccessError if this Python has no SQLite."""
    try:
        import sqlite3
    except ImportError as exc:
        raise FileAccessError(f"there is no audit log without Python's sqlite3 module ({exc}); install it") from exc
    return sqlite3.Error


def connect(path: str, read_only: bool = False) -> "Connection":
    """Open a segment that exists. Raises sqlite3.Error."""
    import sqlite3
    from pathlib import Path

    mode = "ro" if read_only else "rw"
    if read_only and not os.path.exists(f"{path}-wal") and not os.access(os.path.dirname(path), os.W_OK):
        # SQLite makes a file beside the segment even to read it; on a disk where it cannot, nothing changes either.
        mode += "&immutable=1"
    # No transaction is begun implicitly. Any thread may use the connection, though never two at once.
    return sqlite3.connect(
        f"{Path(path).absolute().as_uri()}?mode={mode}",
        timeout=BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
        uri=True,
    )


def read_header(connection: "Connection") -> SegmentHeader | None:
    """Return the header of a segment, None if it has none. Raises sqlite3.Error."""
    rows = connection.execute("SELECT first, previous, kept_from, created, mac FROM segment LIMIT 2").fetchall()
    if len(rows) != 1 or not all(isinstance(rows[0][index], bytes) for index in (1, 4)):
        return None
    return SegmentHeader(*rows[0])


def header_of(path: str) -> SegmentHeader | None:
    """Return the header of a segment file, None if it cannot be read. Raises FileAccessError without SQLite."""
    sqlite_error = sqlite_errors()
    try:
        connection = connect(path, read_only=True)
        try:
            return read_header(connection)
        finally:
            connection.close()
    except sqlite_error:
        return None
