"""Audit logs for tests: written, tampered with, and verified."""

import sqlite3
import time
from pathlib import Path

from hearth.policy import audit_files
from hearth.policy.audit_files import AuditEntry
from hearth.policy.audit_store import AuditStore


def entry(number: int = 0, **fields: str) -> AuditEntry:
    """Return an entry whose tool has that number."""
    values = {"session": "s1", "client": "claude-code", "role": "dev", "server": "github", "decision": "allow"}
    return AuditEntry(time.time(), "call", tool=f"tool_{number}", duration=0.25)._replace(**{**values, **fields})


def written(folder: Path, count: int, size: int | None = None, batch: int = 10) -> Path:
    """Write rows as a daemon does, to the end of its life; return the folder."""
    store = AuditStore(str(folder), size=size) if size else AuditStore(str(folder))
    for begin in range(0, count, batch):
        store.append([entry(number) for number in range(begin, min(begin + batch, count))])
    store.sync()
    store.close()
    return folder


def segments(folder: Path) -> list[Path]:
    """Return the segment files, oldest first."""
    return [Path(audit_files.segment_path(str(folder), number)) for number in audit_files.segment_numbers(str(folder))]


def tamper(path: Path, *statements: str) -> None:
    """Change a segment behind Hearth's back, as anyone with the file and sqlite3 can."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.executescript("DROP TRIGGER IF EXISTS no_update; DROP TRIGGER IF EXISTS no_delete;")
    for statement in statements:
        connection.execute(statement)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
