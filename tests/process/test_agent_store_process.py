"""Store of agents between real processes: kills at any moment, a full disk and a read-only one."""

import random
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from hearth.packs.agents.model import AgentRecord
from hearth.packs.agents.storage import database
from hearth.packs.agents.store import AgentStore
from support.kernel import until
from support.mounts import inside, read_only_mount

# For a process to start, or a row to be synced, on a machine that is busy with other things.
PATIENCE_SECONDS = 60.0

# Floods a timeline, and writes a record, a notice, a message and a task in each round. Prints the number of the round
# when all of them are on disk and the notice of the round before is delivered.
WORKING = """
import asyncio, sys
from hearth.packs.agents.model import AgentRecord, Notice, Task, TeamMessage
from hearth.packs.agents.store import AgentStore
from hearth.packs.agents.timeline import Timeline
async def main():
    store = AgentStore(sys.argv[1])
    known = {record.id: record for record in store.load()}
    record = known.get("a1") or AgentRecord(id="a1", provider="p", cwd="/")
    await store.save_durably(record)
    timeline = Timeline(first_seq=await store.last_seq("a1") + 1)
    while True:
        record.turn += 1
        for number in range(50):
            timeline.update({"sessionUpdate": "tool_call", "toolCallId": f"{record.turn}/{number}", "title": "x" * 300})
            store.append("a1", timeline.take_changed())
            store.save(record)
        number = record.turn
        notice = Notice(parent_id="p", child_id="a1", kind="finished", turn=number)
        former = store.notices()
        message = TeamMessage(sender="x", recipient=f"r{number}", content="hello")
        await asyncio.gather(
            store.save_durably(record), store.add_notice(notice), store.add_message(message),
            store.put_task(Task(subject=str(number), id=str(number))),
        )
        for each in former:
            store.deliver_notice(each.id)
        await store.flush()
        print(number, flush=True)
asyncio.run(main())
"""

# Meets a disk without room, or without writing, and prints how saving and reading ended.
TROUBLED = """
import asyncio, logging, os, sys
from hearth.errors import FileAccessError
from hearth.packs.agents.storage import writer
from hearth.packs.agents.model import AgentRecord, Notice, TeamMessage
from hearth.packs.agents.store import AgentStore
from hearth.packs.agents.timeline_items import TimelineItem
folder, break_it, mend = sys.argv[1:]
logging.basicConfig(format="%(levelname)s %(message)s")
writer.RETRY_SECONDS = 0.02
def item(seq):
    return TimelineItem(seq, "message", 0.0, {"text": "x" * 20_000})
async def main():
    store = AgentStore(folder)
    store.load()
    record = AgentRecord(id="a1", provider="p", cwd="/")
    if break_it:
        await store.save_durably(record)
        store.append("a1", [item(1)])
        await store.flush()
        assert os.system(break_it) == 0
    record.turn = 1
    store.save(record)
    store.append("a1", [item(seq) for seq in range(2, 200)])
    notice = Notice(parent_id="p", child_id="a1", kind="finished", turn=1)
    for call in (store.save_durably(record), store.add_notice(notice), store.flush(),
                 store.add_message(TeamMessage(sender="x", recipient="a1", content="y" * 2_000_000))):
        try:
            await call
            print("done")
        except FileAccessError as exc:
            print("refused:", exc)
    if break_it:
        print("read", [each.seq for each in await store.timeline("a1")][:1])
    assert os.system(mend) == 0
    await store.flush()
    await store.close()
    again = AgentStore(folder)
    print([(each.id, each.turn) for each in again.load()], again.notices() == [notice])
    print("kept", len(await again.timeline("a1")), len(await again.messages("a1")))
    await again.close()
asyncio.run(main())
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    with TemporaryDirectory(dir="/tmp") as place:
        yield Path(place) / "agents"


@contextmanager
def running(folder: Path) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-c", WORKING, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        try:
            yield child
        finally:
            child.kill()


def rows(folder: Path, statement: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(folder / database.FILE_NAME)
    try:
        return connection.execute(statement).fetchall()
    finally:
        connection.close()


async def test_a_kill_loses_nothing_that_was_promised_and_leaves_nothing_half_written(folder: Path) -> None:
    chance = random.Random(15)
    last = 0
    for _ in range(8):
        with running(folder) as child:
            assert child.stdout
            for _ in range(chance.randrange(1, 12)):
                last = int(child.stdout.readline())
            child.kill()
            last = max([last, *map(int, child.stdout.read().split("\n")[:-1])])
        store = AgentStore(str(folder))
        (record,) = store.load()
        assert last <= record.turn <= last + 1
        # The next round may have been interrupted at any point, but no notice that was delivered comes back.
        assert store.notices() and {notice.turn for notice in store.notices()} <= {last, last + 1}
        tasks = {int(task.subject) for task in await store.tasks(None)}
        assert tasks >= set(range(max(1, last - 900), last + 1))
        assert await store.messages(f"r{last}")
        items = await store.timeline("a1")
        assert [item.seq for item in items] == list(range(items[0].seq, items[-1].seq + 1))
        assert {f"{last}/{number}" for number in range(50)} <= {item.data["id"] for item in items}
        await store.close()
        assert rows(folder, "PRAGMA integrity_check") == [("ok",)]
    assert last


async def test_a_kill_while_the_file_is_created_leaves_one_that_can_be_used(folder: Path) -> None:
    for number in range(6):
        place = folder / str(number)
        with running(place) as child:
            until(lambda path=place / database.FILE_NAME: path.exists(), "the file")  # type: ignore[misc]
            child.kill()
        store = AgentStore(str(place))
        assert len(store.load()) <= 1
        await store.save_durably(AgentRecord(id="a2", provider="p", cwd="/"))
        await store.close()
        assert "a2" in {record.id for record in AgentStore(str(place)).load()}
        assert not list(place.glob("*damaged*"))


# --- disks


def troubled(folder: Path, mounting: str, break_it: str, mend: str) -> "subprocess.CompletedProcess[str]":
    folder.mkdir()
    program = folder.parent / "troubled.py"
    program.write_text(TROUBLED)
    command = [*inside(mounting), folder, sys.executable, program, folder / "agents"]
    return subprocess.run(
        [*map(str, command), break_it.format(folder), mend.format(folder)],
        capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False,
    )  # fmt: skip


FILL = "head -c 64m /dev/zero >{0}/ballast 2>/dev/null; test -s {0}/ballast"


# A disk may have room for the file and not for what is in it, or become full later.
@pytest.mark.parametrize("free_kib", [0, 64, 300, None])
def test_a_full_disk_is_an_error_until_there_is_room(folder: Path, free_kib: int | None) -> None:
    is_full_later = free_kib is None
    mounting = 'mount -t tmpfs -o size=12m,mode=700 none "$0"'
    if not is_full_later:
        mounting += f' && head -c {12 * 1024 - 4 - (free_kib or 0)}k /dev/zero >"$0"/ballast'
    done = troubled(folder, mounting, FILL if is_full_later else "", "rm {0}/ballast")
    assert done.returncode == 0, done.stdout + done.stderr
    refused = [line for line in done.stdout.splitlines() if line.startswith("refused")]
    assert refused and all("the disk is full; free some space" in line for line in refused), done.stdout + done.stderr
    assert ("read [1]" in done.stdout) == is_full_later
    assert "[('a1', 1)] True\n" in done.stdout
    assert f"kept {199 if is_full_later else 198} 0\n" in done.stdout
    assert done.stderr.count("ERROR agents file not written, trying again") == 1
    assert done.stderr.count("WARNING agents file written again") == 1


def test_a_read_only_disk_is_an_error_until_it_is_writable(folder: Path) -> None:
    mounting = 'mount -t tmpfs -o size=64m,mode=700 none "$0" && mount -o remount,ro "$0"'
    done = troubled(folder, mounting, "", "mount -o remount,rw {0}")
    assert done.returncode == 0, done.stdout + done.stderr
    refused = [line for line in done.stdout.splitlines() if line.startswith("refused")]
    assert len(refused) == 4 and all("the file system is read-only; make it writable" in line for line in refused)
    assert "[('a1', 1)] True\n" in done.stdout
    assert "kept 198 0\n" in done.stdout


async def test_a_read_only_folder_with_records_is_an_error(folder: Path) -> None:
    store = AgentStore(str(folder))
    await store.save_durably(AgentRecord(id="a1", provider="p", cwd="/"))
    await store.close()
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    program = "import sys; from hearth.packs.agents.store import AgentStore; AgentStore(sys.argv[1]).load()"
    command = [*read_only_mount(), str(folder), sys.executable, "-c", program, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert f"FileAccessError: cannot write the agents in {folder}: the file system is read-only" in done.stderr
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
