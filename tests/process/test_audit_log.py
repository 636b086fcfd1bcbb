"""Audit log between real processes: kills, readers beside a writer, a full disk and a read-only one."""

import gc
import os
import random
import select
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from hearth.policy import audit_files, audit_reading
from hearth.policy.audit_reading import AuditFilter, verify
from hearth.policy.audit_store import AuditStore
from unit.policy.audit_logs import entry, segments

# For a process to start, or a row to be synced, on a machine that is busy with other things.
PATIENCE_SECONDS = 60.0

# Records calls without end, and decisions durably; prints the number of a decision when it has taken effect.
DECIDING = """
import asyncio, sys, time
from hearth.policy.audit import AuditEntry, AuditLog
async def main():
    trail = AuditLog(sys.argv[1], size=int(sys.argv[2]))
    number = 0
    while True:
        for _ in range(7):
            trail.record(AuditEntry(time.time(), "call", tool="noise", reason="x" * 200))
        await trail.record_durably(AuditEntry(time.time(), "decision", tool=str(number), decided_by="person"))
        print(number, flush=True)
        number += 1
asyncio.run(main())
"""

# Reads and verifies until its input ends; prints each count of rows.
READING = """
import select, sys
from hearth.policy import audit_reading
while not select.select([sys.stdin], [], [], 0)[0]:
    found = audit_reading.verify(sys.argv[1])
    assert found.ok, found
    rows = [row.seq for row in audit_reading.rows(sys.argv[1], audit_reading.AuditFilter())]
    assert rows == list(range(rows[0], rows[-1] + 1)), rows
    print(len(rows), flush=True)
"""

# Meets a disk without room, or without writing, and prints how recording and deciding ended.
TROUBLED = """
import asyncio, logging, os, sys, time
from hearth.errors import FileAccessError
from hearth.policy import audit, audit_reading
from hearth.policy.audit import AuditEntry, AuditLog
folder, mend = sys.argv[1:]
logging.basicConfig(format="%(levelname)s %(message)s")
audit.RETRY_SECONDS = 0.05
async def main():
    trail = AuditLog(folder)
    for number in range(3000):
        trail.record(AuditEntry(time.time(), "call", tool=str(number), reason="x" * 1000))
    try:
        await trail.record_durably(AuditEntry(time.time(), "decision", tool="first"))
        print("decided first")
    except FileAccessError as exc:
        print("refused first:", exc)
    os.system(mend)
    await trail.record_durably(AuditEntry(time.time(), "decision", tool="second"))
    print("decided second")
    trail.close()
    rows = [row.entry.tool for row in audit_reading.rows(folder, audit_reading.AuditFilter())]
    assert rows == [*map(str, range(3000)), "second"], rows[-3:]
    found = audit_reading.verify(folder)
    assert found.ok, found
    print("verified", found.last)
asyncio.run(main())
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    with TemporaryDirectory(dir="/tmp") as place:
        yield Path(place) / "audit"


@contextmanager
def running(program: str, *arguments: object) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a program in a process of its own, and kill it at the end."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        try:
            yield child
        finally:
            child.kill()


def line(child: "subprocess.Popen[bytes]") -> bytes:
    assert child.stdout
    assert select.select([child.stdout], [], [], PATIENCE_SECONDS)[0]
    found: bytes = child.stdout.readline()
    return found


def decided(folder: Path) -> list[str]:
    return [row.entry.tool for row in audit_reading.rows(str(folder), AuditFilter(kind="decision"))]


# Many small segments: rotation is in the middle of most of what is interrupted.
@pytest.mark.parametrize("size", [1 << 28, 4 << 20])
def test_a_kill_loses_no_decision_that_took_effect(folder: Path, size: int) -> None:
    chance = random.Random(size)
    promised: list[int] = []
    for _ in range(6):
        before = len(decided(folder))
        with running(DECIDING, folder, size) as child:
            effective = [int(line(child)) for _ in range(chance.randrange(1, 60))]
            child.kill()
            rest = child.stdout.read().split(b"\n")[:-1] if child.stdout else []
            effective += [int(each) for each in rest if each]
        found = verify(str(folder))
        assert found.problems == ()
        now = decided(folder)
        # One decision may have been written whose process did not live to act on it.
        assert len(effective) <= len(now) - before <= len(effective) + 1
        assert now[before : before + len(effective)] == [str(number) for number in effective]
        promised += effective
    assert promised
    AuditStore(str(folder)).append([entry()], durable=True)
    assert verify(str(folder)).ok


def test_processes_read_and_verify_while_others_write_and_rotate(folder: Path) -> None:
    AuditStore(str(folder)).append([entry()])
    with (
        running(DECIDING, folder, 16 << 20) as one,
        running(DECIDING, folder, 16 << 20) as other,
        running(READING, folder) as first,
        running(READING, folder) as second,
    ):
        for _ in range(5):
            assert int(line(first)) and int(line(second))
            for _ in range(20):
                line(one), line(other)
        for reader in (first, second):
            assert reader.stdin and reader.stdout
            reader.stdin.close()
            reader.stdout.read()
            assert reader.wait(PATIENCE_SECONDS) == 0
    assert verify(str(folder)).ok


def test_two_processes_that_begin_a_log_at_once_begin_one(folder: Path) -> None:
    with running(DECIDING, folder, 1 << 28) as one, running(DECIDING, folder, 1 << 28) as other:
        for child in (one, other):
            assert int(line(child)) == 0
    assert audit_files.segment_numbers(str(folder)) == [1]
    assert verify(str(folder)).ok


# --- disks


def in_own_mounts(script: str) -> "subprocess.CompletedProcess[str]":
    """Run a shell script that may mount what only it sees."""
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-e", "-c", script]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)


@pytest.fixture(scope="module", autouse=True)
def program() -> Iterator[Path]:
    with TemporaryDirectory(dir="/tmp") as place:
        path = Path(place) / "troubled.py"
        path.write_text(TROUBLED)
        yield path


@pytest.fixture
def mount(folder: Path) -> Path:
    if not shutil.which("unshare") or in_own_mounts("true").returncode:
        pytest.skip("no mounts in a namespace here")
    folder.parent.joinpath("disk").mkdir()
    return folder.parent / "disk"


def test_a_full_disk_refuses_decisions_and_keeps_calls_until_there_is_room(mount: Path, program: Path) -> None:
    done = in_own_mounts(
        f"mount -t tmpfs -o size=12m,mode=700 none {mount}; head -c 11900k /dev/zero > {mount}/ballast;"
        f" {sys.executable} {program} {mount}/audit 'rm {mount}/ballast'"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr.count("ERROR audit log not written waiting=") == 1
    assert "the disk is full; free some space" in done.stderr
    assert "refused first: cannot write the audit log" in done.stdout
    assert "decided second\n" in done.stdout
    assert "verified 3001" in done.stdout


def test_a_read_only_folder_refuses_decisions_and_keeps_calls_until_it_is_writable(mount: Path, program: Path) -> None:
    done = in_own_mounts(
        f"mount -t tmpfs -o mode=700 none {mount}; mkdir {mount}/audit; mount -o remount,ro {mount};"
        f" {sys.executable} {program} {mount}/audit 'mount -o remount,rw {mount}'"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr.count("ERROR audit log not written") == 1
    assert "refused first: cannot" in done.stdout
    assert "read-only" in done.stdout
    assert "verified 3001" in done.stdout


@pytest.mark.parametrize("was_closed", [True, False])
def test_a_log_on_a_read_only_disk_can_be_read_and_verified(mount: Path, folder: Path, was_closed: bool) -> None:
    store = AuditStore(str(folder))
    store.append([entry(number) for number in range(5)], durable=True)
    if was_closed:
        store.close()
    shutil.copytree(folder, mount.parent / "copy")
    code = (
        "import sys; from hearth.policy import audit_reading as r;"
        "print(r.verify(sys.argv[1]), len(list(r.rows(sys.argv[1], r.AuditFilter()))))"
    )
    done = in_own_mounts(
        f"mount -t tmpfs -o mode=700 none {mount}; cp -r {mount.parent}/copy {mount}/audit;"
        f' mount -o remount,ro {mount}; {sys.executable} -c "{code}" {mount}/audit'
    )
    assert done.returncode == 0, done.stderr
    assert "problems=()) 5" in done.stdout


def test_no_file_is_left_open_or_behind(folder: Path) -> None:
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    store = AuditStore(str(folder), size=1)
    for number in range(300):
        store.append([entry(number, reason="x" * 500)])
    store.close()
    verify(str(folder))
    assert len(os.listdir("/proc/self/fd")) == before
    assert len(segments(folder)) <= 3
