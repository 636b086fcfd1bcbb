"""Reading, following and verifying the files of an audit log, beside a daemon that writes them.

`verify` follows the chain from the first row that retention keeps to the last one, and holds it against heads that were
recorded elsewhere: in the head file, and in the daemon's log. The rules are those of `audit_files`. Blocks.
"""

import os
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from hearth.policy import audit_files
from hearth.policy.audit_files import NO_HASH, SELECT, AuditEntry, AuditHead, Chain, SegmentHeader

if TYPE_CHECKING:
    from sqlite3 import Connection

# Problems that are reported; a log with more of them is not worth a longer list.
PROBLEMS_LIMIT = 20
# Rows fetched at a time: a reader that is slow to print must not hold a snapshot of a growing file.
PAGE_ROWS = 500
# Attempts to read a log whose segments are rotated meanwhile.
_ATTEMPTS = 3
_HEAD_LINE = re.compile(r"audit head count=(\d{1,18}) hash=([0-9a-f]{64})\b")
_WILDCARDS = frozenset("*?[")


class AuditRow(NamedTuple):
    """Row as read: its number, the entry, and its hash in hex."""

    seq: int
    entry: AuditEntry
    hash: str


class AuditFilter(NamedTuple):
    """Selection of rows: a value with `*`, `?` or `[` is a pattern; None selects all. Times are seconds since 1970."""

    kind: str | None = None
    session: str | None = None
    client: str | None = None
    agent: str | None = None
    role: str | None = None
    server: str | None = None
    tool: str | None = None
    decision: str | None = None
    since: float | None = None
    until: float | None = None

    def condition(self) -> tuple[str, list[object]]:
        """Return the condition in SQL, and its parameters."""
        terms, values = ["1"], list[object]()
        for column in self._fields[:-2]:
            value = getattr(self, column)
            if value is not None:
                terms.append(f"{column} {'GLOB' if _WILDCARDS & set(value) else '='} ?")
                values.append(value)
        for operator, moment in ((">=", self.since), ("<", self.until)):
            if moment is not None:
                terms.append(f"time {operator} ?")
                values.append(moment)
        return " AND ".join(terms), values


class Verification(NamedTuple):
    """Outcome of a verification: rows `first` to `last` were read, and `problems` has a sentence for each fault.

    `heads` counts the recorded heads that the rows agree with.
    """

    first: int
    last: int
    hash: str
    heads: int
    problems: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.problems


# --- reading


def rows(folder: str, wanted: AuditFilter, last: int | None = None) -> Iterator[AuditRow]:
    """Yield the selected rows, oldest first; only the `last` ones if given. Raises FileAccessError."""
    numbers = _numbers(folder)
    if last is None:
        for number in numbers:
            yield from _pages(folder, number, wanted, 0)
        return
    found: list[AuditRow] = []
    for number in reversed(numbers):
        found = _latest(folder, number, wanted, last - len(found)) + found
        if len(found) >= last:
            break
    yield from found


def rows_after(folder: str, wanted: AuditFilter, seq: int) -> Iterator[AuditRow]:
    """Yield the selected rows with a higher number, oldest first. Raises FileAccessError."""
    newer: list[int] = []
    for number in reversed(_numbers(folder)):
        newer.insert(0, number)
        header = audit_files.header_of(audit_files.segment_path(folder, number))
        if header and header.first <= seq + 1:
            break
    for number in newer:
        yield from _pages(folder, number, wanted, seq)


def last_number(folder: str) -> int:
    """Return the number of the last row, 0 if there is none. Raises FileAccessError."""
    for number in reversed(_numbers(folder)):
        for row in _latest(folder, number, AuditFilter(), 1):
            return row.seq
    return 0


def _numbers(folder: str) -> list[int]:
    try:
        return audit_files.segment_numbers(folder)
    except OSError as exc:
        raise audit_files.unusable("read", folder, exc) from exc


def _latest(folder: str, number: int, wanted: AuditFilter, count: int) -> list[AuditRow]:
    condition, values = wanted.condition()
    query = f"{SELECT} WHERE {condition} ORDER BY seq DESC LIMIT ?"
    return [_row(found) for found in reversed(_fetch(folder, number, query, [*values, count]))]


def _pages(folder: str, number: int, wanted: AuditFilter, after: int) -> Iterator[AuditRow]:
    condition, values = wanted.condition()
    query = f"{SELECT} WHERE {condition} AND seq > ? ORDER BY seq LIMIT ?"
    while found := _fetch(folder, number, query, [*values, after, PAGE_ROWS]):
        after = found[-1][0]
        yield from map(_row, found)


def _fetch(folder: str, number: int, query: str, values: list[object]) -> list[tuple[Any, ...]]:
    path = audit_files.segment_path(folder, number)
    sqlite_error = audit_files.sqlite_errors()
    try:
        connection = audit_files.connect(path, read_only=True)
        try:
            return connection.execute(query, values).fetchall()
        finally:
            connection.close()
    except sqlite_error as exc:
        if not os.path.exists(path):
            # Retention has removed the segment since the folder was listed.
            return []
        raise audit_files.unusable("read", folder, exc) from exc


def _row(found: tuple[Any, ...]) -> AuditRow:
    digest = found[-1]
    return AuditRow(found[0], AuditEntry(*found[1:-1]), digest.hex() if isinstance(digest, bytes) else str(digest))


# --- verification


def heads_in(lines: Iterable[str]) -> list[AuditHead]:
    """Return the heads in lines of the daemon's log."""
    return [AuditHead(int(found[1]), found[2]) for line in lines for found in _HEAD_LINE.finditer(line)]


def verify(folder: str, heads: Iterable[tuple[int, str]] | None = None) -> Verification:
    """Check every row of a log, and that it has the rows of the given heads and of its head file.

    Raises FileAccessError if the folder or the key cannot be read; a file that is damaged is a problem instead.
    """
    given = [AuditHead(*head) for head in heads or ()]
    for _ in range(_ATTEMPTS):
        # Before the rows are read: a head is never ahead of the rows.
        own, problems = _head_file(folder)
        numbers = _numbers(folder)
        found = _Verifier(folder, numbers, [*given, *own]).run(problems)
        if found.ok or numbers == _numbers(folder):
            break
    return found


def _head_file(folder: str) -> tuple[list[AuditHead], list[str]]:
    """Return the head in the head file, if there is one, and the problem with it, if any."""
    try:
        head = audit_files.read_head(folder)
    except OSError as exc:
        raise audit_files.unusable("read", folder, exc) from exc
    except ValueError as exc:
        return [], [str(exc)]
    return [head] if head else [], []


class _Verifier:
    """One pass over the segments of a log."""

    def __init__(self, folder: str, numbers: list[int], heads: list[AuditHead]) -> None:
        self._folder = folder
        self._numbers = numbers
        self._heads: dict[int, set[str]] = {}
        for head in heads:
            self._heads.setdefault(head.seq, set()).add(head.hash)
        self._problems: list[str] = []
        self._agreed = 0
        self._first = 0
        self._seq = 0
        self._hash = NO_HASH

    def run(self, problems: list[str]) -> Verification:
        """Read everything; return what was found, after the given problems."""
        self._problems += problems
        if self._numbers:
            self._check_segments(Chain(audit_files.read_key(self._folder)))
        beyond = [count for count in self._heads if count > self._seq]
        if beyond:
            missing = f"rows {self._seq + 1} to {max(beyond)}"
            witnesses = "a recorded head says" if len(beyond) == 1 else f"{len(beyond)} recorded heads say"
            self._report(f"the end is missing: {missing} were written, as {witnesses}")
        shown = self._problems[:PROBLEMS_LIMIT]
        if len(self._problems) > PROBLEMS_LIMIT:
            shown.append(f"{len(self._problems) - PROBLEMS_LIMIT} more problems are not listed")
        return Verification(self._first, self._seq, self._hash.hex(), self._agreed, tuple(shown))

    def _report(self, problem: str) -> None:
        self._problems.append(problem)

    def _check_segments(self, chain: Chain) -> None:
        newest = audit_files.header_of(audit_files.segment_path(self._folder, self._numbers[-1]))
        kept_from = newest.kept_from if newest and newest.is_authentic(chain) else 1
        for number in self._numbers:
            path = audit_files.segment_path(self._folder, number)
            header = audit_files.header_of(path)
            if header is None or not header.is_authentic(chain):
                self._report(f"{path}: the header is damaged, or was not written with the key of this log")
            elif header.first < kept_from:
                # Retention was interrupted, or could not remove a file that was open.
                continue
            elif self._first:
                self._check_seam(path, header)
            else:
                self._begin(path, header, kept_from)
            self._check_rows(path, chain)

    def _begin(self, path: str, header: SegmentHeader, kept_from: int) -> None:
        if header.first > kept_from:
            self._report(f"rows {kept_from} to {header.first - 1} are missing: segments before {path} were removed")
        self._first = header.first
        self._seq = header.first - 1
        self._hash = header.previous

    def _check_seam(self, path: str, header: SegmentHeader) -> None:
        if header.first != self._seq + 1:
            self._report(f"{path}: begins with row {header.first}, but the row before it is {self._seq}")
        elif header.previous != self._hash:
            self._report(f"{path}: does not continue the segment before it")
        self._seq = header.first - 1
        self._hash = header.previous

    def _check_rows(self, path: str, chain: Chain) -> None:
        self._first = self._first or 1
        sqlite_error = audit_files.sqlite_errors()
        try:
            connection = audit_files.connect(path, read_only=True)
            try:
                self._check_all(path, chain, connection)
            finally:
                connection.close()
        # Damaged bytes of a text are no UTF-8 and cannot be decoded.
        except (sqlite_error, UnicodeDecodeError) as exc:
            self._report(f"{path}: is damaged after row {self._seq}: {exc}")

    def _check_all(self, path: str, chain: Chain, connection: "Connection") -> None:
        # One statement reads one snapshot, whatever is written meanwhile.
        for found in connection.execute(f"{SELECT} ORDER BY seq"):
            seq, values, digest = found[0], found[1:-1], found[-1]
            if not isinstance(seq, int):
                self._report(f"{path}: is damaged after row {self._seq}: a row has no number")
                break
            if seq != self._seq + 1:
                self._report(f"{path}: row {seq} follows row {self._seq}: rows were removed or inserted")
            if not _is_linked(chain, self._hash, seq, values, digest):
                self._report(f"{path}: row {seq} was changed, or is not where it was written")
            if values[1] == "audit" and values[-2] == audit_files.TRUNCATED:
                self._report(f"{path}: row {seq} says: {values[-3]}")
            self._seq = seq
            self._hash = digest if isinstance(digest, bytes) else NO_HASH
            self._compare(path)
        for (state,) in connection.execute("PRAGMA integrity_check(1)"):
            if state != "ok":
                self._report(f"{path}: {state}")

    def _compare(self, path: str) -> None:
        for digest in self._heads.get(self._seq, ()):
            if digest == self._hash.hex():
                self._agreed += 1
            else:
                self._report(f"{path}: row {self._seq} differs from the head that was recorded for it")


def _is_linked(chain: Chain, previous: bytes, seq: int, values: tuple[object, ...], digest: object) -> bool:
    try:
        return chain.link(previous, seq, values) == digest
    except TypeError:
        # A changed byte may make a text a blob.
        return False
