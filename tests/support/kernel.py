"""What the kernel knows: who lives, whose descendants and whose home they are. Nothing here trusts Hearth's word."""

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")

# Two busy cores and a cold cache; whatever takes longer hangs.
BOUND_SECONDS = 20.0
_POLL_SECONDS = 0.01


def until(condition: Callable[[], Found], what: str, bound: float = BOUND_SECONDS) -> Found:
    """What the condition gives as soon as it is true; the test fails when that does not come."""
    deadline = time.monotonic() + bound
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {bound:g} s: {what}")
        time.sleep(_POLL_SECONDS)
    return found


def is_gone(pid: int) -> bool:
    """Whether no such process is running; a zombie does not run."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] in (b"Z", b"X")
    except OSError:
        return True


def pids_at_home(home: str) -> list[int]:
    """Every process whose environment names that folder as HOME, those without a family included."""
    wanted = b"HOME=" + home.encode()
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    if wanted in file.read().split(b"\0"):
                        found.append(int(name))
            except OSError:
                # It has just ended, or is not ours to see.
                continue
    return [pid for pid in found if not is_gone(pid)]


def kill_all_at_home(home: str) -> bool:
    """Kill every process with that home; whether there was none."""
    left = pids_at_home(home)
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return not left


def is_over(pipe: int, limit: float = 0) -> bool:
    """Whether nobody holds the writing end of a pipe any more, as the kernel has it; wait so many seconds for that."""
    waiter = select.poll()
    waiter.register(pipe, select.POLLHUP)
    return bool(waiter.poll(limit * 1000))


def describe(pids: list[int]) -> str:
    """The command lines, for a failure's message."""
    lines = []
    for pid in pids:
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                lines.append(f"{pid}: {file.read().replace(bytes(1), b' ').decode('utf-8', 'replace')}")
        except OSError:
            lines.append(f"{pid}: gone by now")
    return "; ".join(lines)
