"""Orphan reaper: the daemon's parent, which outlives it just long enough to leave no orphan behind.

Where no service manager tracks the processes, the daemon is forked from a small process that is a child subreaper
(prctl(2)): whatever an upstream starts, even by a double fork to get away, is reparented to the reaper. When the daemon
ends, however it ends, the reaper kills the remaining children one by one, until the kernel reports none. Process groups
do not matter to it: setsid leaves a process group, but not the line of descent.
PDEATHSIG could not replace the reaper: it does not reach grandchildren. PDEATHSIG serves the other direction: if the
reaper is killed, whose pid is the one that others know, the daemon receives SIGTERM and ends its servers. (The signal
is sent when the forking *thread* ends: the reaper has only one.)

The daemon is a child subreaper too, so that the orphans of its servers become its own children and not the reaper's.
The daemon reaps orphans that end while it serves, and kills the rest when it ends: `Orphans`. Therefore killing the
reaper alone leaves no process behind.

A process that leaves on purpose through another manager (systemd-run, at, a container), or that runs as another user
(sudo), is out of reach.
"""

import os
import signal
import sys
import time
from typing import NoReturn

from hearth.host import process_setup, processes

assert sys.platform == "linux", "imported on Linux only"

# prctl(2): PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER.
_SET_PDEATHSIG = 1
_SET_CHILD_SUBREAPER = 36
# Shortest time between two scans for zombies. The daemon waits for its own children within one iteration of the loop.
_REAP_SECONDS = 1.0
# A terminal sends SIGQUIT (Ctrl-\) to both: the reaper has to survive that, too.
_FORWARDED = ("SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGQUIT")


def fork_watched() -> bool:
    """Fork into reaper and daemon: return True in the daemon; the reaper never returns.

    Call it before anything heavy is imported. Returns False in a daemon whose reaper cannot inherit orphans.
    """
    ready, told = os.pipe()
    reaper = os.getpid()
    child = os.fork()
    if child:
        os.close(ready)
        _watch(child, told)
    os.close(told)
    _prctl(_SET_CHILD_SUBREAPER, 1)
    _prctl(_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != reaper:
        # The reaper was killed before PDEATHSIG was set; nothing has been started yet.
        os._exit(1)
    # The upstreams must not be started before the reaper can inherit them.
    try:
        return os.read(ready, 1) == b"1"
    finally:
        os.close(ready)


class Orphans:
    """Descendants of servers that the kernel made children of the daemon."""

    def __init__(self) -> None:
        self._looked_at = time.monotonic()
        # Pid and start time of each zombie in the last scan.
        self._zombies: set[tuple[int, int]] = set()

    def reap(self) -> None:
        """Reap every zombie that two scans in a row have found.

        A zombie that is found once may be a child that the daemon itself is about to wait for.
        """
        now = time.monotonic()
        if now - self._looked_at < _REAP_SECONDS:
            return
        self._looked_at = now
        zombies = _zombies()
        for pid, _ in zombies & self._zombies:
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                pass
        self._zombies = zombies

    def end(self) -> None:
        """Kill and reap every child of this process, and their descendants."""
        _kill_the_rest()


def _zombies() -> set[tuple[int, int]]:
    try:
        # A single system call while there is no zombie, which is nearly always.
        if os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return set()
    except ChildProcessError:
        return set()
    found = ((pid, processes.start_time(pid)) for pid in _children())
    return {(pid, since) for pid, since in found if since is not None and not processes.is_alive(pid, since)}


def _prctl(option: int, value: int) -> bool:
    import ctypes

    return bool(ctypes.CDLL(None).prctl(option, value, 0, 0, 0) == 0)


def _watch(daemon: int, told: int) -> NoReturn:
    status = 1
    try:
        os.write(told, b"1" if _prctl(_SET_CHILD_SUBREAPER, 1) else b"0")
        os.close(told)
        # The ready pipe and the log belong to the daemon: a reader must see EOF when *the daemon* closes them.
        process_setup.close_inherited(set())
        for name in _FORWARDED:
            signal.signal(getattr(signal, name), lambda number, _frame: _forward(daemon, number))
        status = _reap_until(daemon)
        _kill_the_rest()
    finally:
        os._exit(status)


def _forward(daemon: int, number: int) -> None:
    try:
        os.kill(daemon, number)
    except ProcessLookupError:
        pass


def _reap_until(daemon: int) -> int:
    while True:
        pid, status = os.wait()
        if pid == daemon:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def _kill_the_rest() -> None:
    # The children of a process that dies here become ours; repeat until none is left that can be killed. The kernel's
    # list may omit a process while another one ends, hence the second scan.
    while _kill(_children()) or _kill(_children_by_scan()):
        try:
            os.wait()
        except ChildProcessError:
            return


def _kill(pids: list[int]) -> bool:
    """Kill these processes; return whether any was killed: a program that runs as another user cannot be."""
    killed = False
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
            killed = True
        except (ProcessLookupError, PermissionError):
            pass
    return killed


def _children() -> list[int]:
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as file:
            return [int(pid) for pid in file.read().split()]
    except OSError:
        return _children_by_scan()


def _children_by_scan() -> list[int]:
    # For kernels without CONFIG_PROC_CHILDREN: the parent is the second field after the closing bracket of the name.
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat") as file:
                    parent = int(file.read().rpartition(")")[2].split()[1])
            except (OSError, ValueError, IndexError):
                continue
            if parent == os.getpid():
                found.append(int(name))
    return found
