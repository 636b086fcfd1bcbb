"""Nobody outlives the job that holds it."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from house import LIMIT_SECONDS

from hearth.host import process_table, processes
from hearth.host.windows.processes import SUSPENDED, Job, handle_of, let_run

# Longer than anybody waits here.
FOR_EVER_SECONDS = 600

# Says its own pid and that of a grandchild, then waits for its end, which does not come by itself.
PARENT = f"""
import os, subprocess, sys
below = subprocess.Popen([sys.executable, "-c", "import time; time.sleep({FOR_EVER_SECONDS})"])
print(os.getpid(), below.pid, flush=True)
below.wait()
"""
# A daemon of one server, which it starts as Hearth does; or, carelessly, in none but its own job.
DAEMON = f"""
import subprocess, sys
from hearth.host.windows.processes import SUSPENDED, hold_descendants, let_run
hold_descendants()
server = subprocess.Popen([sys.executable, "-c", {PARENT!r}], creationflags=0 if %(careless)s else SUSPENDED)
job = None if %(careless)s else let_run(server)
server.wait()
"""

Start = Callable[[str], "subprocess.Popen[bytes]"]


def start_in_job(code: str) -> "tuple[subprocess.Popen[bytes], Job]":
    """Start it as a server is started."""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, creationflags=SUSPENDED)
    return process, let_run(process)


@pytest.fixture
def python() -> Iterator[Start]:
    started: list[subprocess.Popen[bytes]] = []

    def start(code: str) -> "subprocess.Popen[bytes]":
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def read_pids(process: "subprocess.Popen[bytes]") -> list[tuple[int, int]]:
    """The pids that it prints, each with its start time, so that no stranger is taken for it."""
    assert process.stdout
    pids = [int(word) for word in process.stdout.readline().split()]
    assert len(pids) == 2
    return [(pid, processes.start_time(pid) or 0) for pid in pids]


def survivors(found: list[tuple[int, int]]) -> list[int]:
    return [pid for pid, born in found if not processes.wait_gone(pid, born, LIMIT_SECONDS)]


@pytest.mark.parametrize("end", [Job.terminate, Job.close])
def test_what_a_server_has_started_ends_with_it(end: Callable[[Job], None]) -> None:
    process, job = start_in_job(PARENT)
    with process:
        found = read_pids(process)
        assert all(processes.is_alive(*each) for each in found)
        end(job)
        assert survivors(found) == []
    # Doing it again changes nothing.
    job.close()
    job.close()
    job.terminate()


@pytest.mark.parametrize("careless", [False, True])
def test_a_daemon_that_is_killed_leaves_no_child_and_no_grandchild(careless: bool, python: Start) -> None:
    process = python(DAEMON % {"careless": careless})
    found = read_pids(process)
    assert all(processes.is_alive(*each) for each in found)
    process.kill()
    assert survivors(found) == []


def test_one_server_ends_and_the_other_goes_on() -> None:
    (first, first_job), (second, second_job) = (start_in_job(PARENT) for _ in range(2))
    with first, second:
        gone, staying = read_pids(first), read_pids(second)
        first_job.terminate()
        assert survivors(gone) == []
        assert all(processes.is_alive(*each) for each in staying)
        second_job.terminate()
        assert survivors(staying) == []
    first_job.close()
    second_job.close()


def test_a_server_that_ends_by_itself_keeps_its_exit_code() -> None:
    process, job = start_in_job("raise SystemExit(7)")
    with process:
        assert process.wait(LIMIT_SECONDS) == 7
    job.close()


def test_a_process_that_is_gone_cannot_be_confined_and_nothing_is_left_open(python: Start) -> None:
    process = python("")
    process.wait(LIMIT_SECONDS)
    with pytest.raises(OSError):
        Job(handle_of(process))


def test_memory_of_a_server_includes_what_it_has_started() -> None:
    process, job = start_in_job(PARENT)
    with process:
        pids = [pid for pid, _ in read_pids(process)]
        assert process_table.families([process.pid]) == {process.pid: sorted(pids)}
        assert (process_table.of_families([process.pid])[process.pid] or 0) > 1_000_000
        job.terminate()
    job.close()
    assert process_table.of_families([os.getpid()])[os.getpid()]
