"""The audit log: what an entry costs the event loop, a row the writer, and a decision that must be on the disk."""

import asyncio
import os
import shutil
from time import perf_counter_ns, process_time_ns, time

from client import ChainError
from measure import Action
from stage import Stage

from hearth.policy.audit import AuditEntry, AuditLog
from hearth.policy.audit_store import AuditStore

# Fewer than fit into the queue, as nothing is written while they are recorded in one turn of the loop.
ENTRIES = 5000
ROWS, BATCH_ROWS = 5000, 500
DECISIONS = 20
ENTRY = AuditEntry(
    time(),
    "call",
    session="s-0123456789abcdef",
    client="claude-code",
    agent="worker-1",
    role="dev",
    server="github",
    tool="list_issues",
    digest="ab" * 32,
    decision="allow",
    outcome="ok",
    duration=0.25,
)


def record_actions(stage: Stage) -> dict[str, Action]:
    """Microseconds of the event loop for one entry, the writer's thread included where it takes the interpreter."""

    def record() -> float:
        folder = os.path.join(stage.folder, "audit-record")
        trail = AuditLog(folder)
        trail.record(ENTRY)
        begin = perf_counter_ns()
        for _ in range(ENTRIES):
            trail.record(ENTRY)
        taken = perf_counter_ns() - begin
        trail.close()
        if trail.head().seq != ENTRIES + 1:
            raise ChainError(f"{trail.head().seq} rows were written of {ENTRIES + 1} entries")
        shutil.rmtree(folder)
        return taken / ENTRIES / 1e3

    return {"record": record}


def write_actions(stage: Stage) -> dict[str, Action]:
    """Microseconds of CPU for one row of a batch, as the writer's thread appends it."""

    def write() -> float:
        folder = os.path.join(stage.folder, "audit-write")
        store = AuditStore(folder)
        store.append([ENTRY])
        begin = process_time_ns()
        for _ in range(ROWS // BATCH_ROWS):
            store.append([ENTRY] * BATCH_ROWS)
        taken = process_time_ns() - begin
        store.close()
        shutil.rmtree(folder)
        return taken / ROWS / 1e3

    return {"row": write}


def durable_actions(stage: Stage) -> dict[str, Action]:
    """Milliseconds until a decision is on the disk, beside two small files that are written and synced.

    Two, because a decision is two of them: the row, and the head that counts it.
    """

    def decide() -> float:
        folder = os.path.join(stage.folder, "audit-durable")
        times = asyncio.run(_decisions(folder))
        shutil.rmtree(folder)
        return times[len(times) // 2] / 1e6

    def plain() -> float:
        times = sorted(_two_files(os.path.join(stage.folder, "audit-plain")) for _ in range(DECISIONS))
        return times[len(times) // 2] / 1e6

    return {"decision": decide, "two synced files": plain}


async def _decisions(folder: str) -> list[int]:
    trail, times = AuditLog(folder), []
    await trail.record_durably(ENTRY)
    for _ in range(DECISIONS):
        begin = perf_counter_ns()
        await trail.record_durably(ENTRY)
        times.append(perf_counter_ns() - begin)
    trail.close()
    return sorted(times)


def _two_files(path: str) -> int:
    begin = perf_counter_ns()
    for name in (path, f"{path}-2"):
        with open(name, "wb") as file:
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())
    return perf_counter_ns() - begin
