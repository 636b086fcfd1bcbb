"""The place where a benchmark runs: a scratch folder, and every process that was started in it, until all
are gone.

The process that opens a stage adopts its orphans (Linux: child subreaper), so that a daemon that left its
parent on purpose is still ended and reaped here, after a failure and after Ctrl-C as well.
"""

import ctypes
import os
import shutil
import signal
import tempfile
from contextlib import suppress
from time import monotonic, sleep
from types import TracebackType

from client import Client

PR_SET_CHILD_SUBREAPER = 36
# A daemon drains and stops its upstreams after SIGTERM; idle ones need well under a second.
TERM_GRACE_SECONDS = 5.0
REAP_INTERVAL_SECONDS = 0.01


class Child:
    """A program with pipes on stdin and stdout; its stderr goes to the stage's log."""

    def __init__(self, command: list[str], env: dict[str, str], log: int, third: int | None = None) -> None:
        theirs_in, self.stdin = os.pipe()
        self.stdout, theirs_out = os.pipe()
        actions = [
            (os.POSIX_SPAWN_DUP2, theirs_in, 0),
            (os.POSIX_SPAWN_DUP2, theirs_out, 1),
            (os.POSIX_SPAWN_DUP2, log, 2),
        ]
        if third is not None:
            actions.append((os.POSIX_SPAWN_DUP2, third, 3))
        try:
            # Cheaper than subprocess and the same for all that is compared.
            self.pid = os.posix_spawn(command[0], command, env, file_actions=actions)
        finally:
            os.close(theirs_in)
            os.close(theirs_out)
        self.client = Client(self.stdin, self.stdout)

    def leave(self) -> None:
        """End it as its client would: close its stdin, read to EOF, reap."""
        os.close(self.stdin)
        while os.read(self.stdout, 1 << 16):
            pass
        os.close(self.stdout)
        os.waitpid(self.pid, 0)


class Stage:
    """A folder with a short name (a socket's path has 107 bytes) and the children that run in it."""

    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="hb-", dir="/tmp")
        self.log_path = os.path.join(self.folder, "stderr.log")
        self.log = os.open(self.log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def env(self, name: str) -> dict[str, str]:
        """A home and a runtime folder of its own, and little else: what MCP clients hand on."""
        home, runtime = os.path.join(self.folder, name), os.path.join(self.folder, name, "run")
        os.makedirs(runtime, mode=0o700, exist_ok=True)
        return {
            "HOME": home,
            "XDG_RUNTIME_DIR": runtime,
            "PATH": os.environ.get("PATH", os.defpath),
            "LANG": "C.UTF-8",
        }

    def spawn(self, command: list[str], env: dict[str, str], third: int | None = None) -> Child:
        """Start a program whose first word is a path; with something as its descriptor 3, if that is given."""
        return Child(command, env, self.log, third)

    def said(self) -> str:
        """The end of what the children wrote to stderr."""
        with open(self.log_path, errors="replace") as log:
            return log.read()[-2000:].strip()

    def __enter__(self) -> "Stage":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)  # a second Ctrl-C must not leave half of them behind
        signal.alarm(0)
        end_children()
        os.close(self.log)
        shutil.rmtree(self.folder, ignore_errors=True)


def end_children() -> None:
    """Terminate every child, adopted ones included, and kill what does not go within the grace."""
    limit, told = monotonic() + TERM_GRACE_SECONDS, set[int]()
    while pids := children():
        for pid in pids - told if monotonic() < limit else pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM if monotonic() < limit else signal.SIGKILL)
        told |= pids
        while reap_one():
            pass
        sleep(REAP_INTERVAL_SECONDS)


def reap_one() -> bool:
    """Reap a child that has exited, if there is one."""
    try:
        return os.waitpid(-1, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return False


def children() -> set[int]:
    """The pids of the processes whose parent is this one."""
    own = os.getpid()
    with open(f"/proc/self/task/{own}/children") as listed:
        return {int(word) for word in listed.read().split()}


def resident_mb(pid: int) -> float:
    """VmRSS in megabytes of 1024 times what the kernel calls kB."""
    with open(f"/proc/{pid}/status") as status:
        line = next(line for line in status if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024
