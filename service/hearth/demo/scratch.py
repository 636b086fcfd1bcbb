"""Scratch home for the demo, which leaves nothing behind: no file, no process, also after Ctrl-C.

HOME and XDG_RUNTIME_DIR point into it, which separates the demo's daemon from the user's own, and from the user's
systemd. Every process of the demo is recognised by that HOME.
"""

import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

from hearth.host import marked_processes

# prctl(2): PR_SET_CHILD_SUBREAPER. A daemon detaches itself by forking; as a subreaper, the demo can reap it.
_SET_CHILD_SUBREAPER = 36
# Variables that a client passes to an MCP server; none of the user's XDG_* must leak into the scratch home.
_KEPT_VARIABLES: tuple[str, ...] = ("LANG", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
if sys.platform == "win32":
    _KEPT_VARIABLES += ("COMSPEC", "PATHEXT", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "TMP", "USERNAME", "WINDIR")
# No process can refuse SIGKILL; this bounds the wait on a machine that is too busy to reap its processes.
CLEAN_UP_SECONDS = 10.0
# Long for a process that has already been killed, short if a shell left a child of its own to this process.
BURIAL_SECONDS = 1.0
_POLL_SECONDS = 0.02


# Each signal ends a program at once by default; the demo must clean up first.
_ENDING_SIGNALS = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT") if hasattr(signal, name)
]


# A pipe's name does not depend on the home: on Windows, the demo has a profile that no daemon of the user has.
PROFILE = f"demo-{os.getpid()}" if sys.platform == "win32" else ""
_CONFIG_FOLDER = os.path.join("hearth", "profiles", PROFILE) if PROFILE else os.path.join(".config", "hearth")


def _own_variables(folder: str, home: str) -> dict[str, str]:
    if sys.platform == "win32":
        return {"USERPROFILE": home, "APPDATA": home, "LOCALAPPDATA": home}
    return {"HOME": home, "XDG_RUNTIME_DIR": os.path.join(folder, "run")}


class Scratch:
    """Scratch folder, with its environment, its files and its processes."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.home = os.path.join(folder, "home")
        kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
        self.environment = {**kept, **_own_variables(folder, self.home)}
        self._config = os.path.join(self.home, _CONFIG_FOLDER)
        for name in (self.home, os.path.join(folder, "run"), self._config):
            os.makedirs(name, mode=0o700)

    def write_config(self, text: str) -> None:
        """Write the config that a daemon in this home reads."""
        with open(os.path.join(self._config, "config.toml"), "w", encoding="utf-8") as file:
            file.write(text)

    def processes(self) -> list[int]:
        """Return every process that was started in this home."""
        return marked_processes.find("HOME", self.home)

    def wait_until_empty(self, seconds: float) -> list[int]:
        """Wait until every process has exited by itself; return those that have not."""
        deadline = time.monotonic() + seconds
        while (left := self.processes()) and time.monotonic() < deadline:
            _reap()
            time.sleep(_POLL_SECONDS)
        return left

    def clear(self) -> None:
        """Kill every process, and remove every file."""
        marked_processes.kill_marked("HOME", self.home, CLEAN_UP_SECONDS)
        # A process that is about to exit has no environment any more, but is still a child to reap.
        deadline = time.monotonic() + BURIAL_SECONDS
        while not _reap() and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        shutil.rmtree(self.folder, ignore_errors=True)


def _reap() -> bool:
    """Reap children that have exited, adopted ones too; return whether none is left."""
    if sys.platform != "win32":
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return True
    return False


def _adopt_orphans(yes: bool) -> None:
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, int(yes), 0, 0, 0)


@contextmanager
def scratch_home() -> Iterator[Scratch]:
    """Yield a scratch home that is removed at the end, whatever happens."""
    # A short path: a socket's path may have 107 bytes, and TMPDIR may be long.
    folder = tempfile.mkdtemp(prefix="hearth-demo-", dir="/tmp" if os.access("/tmp", os.W_OK) else None)
    scratch = None
    _adopt_orphans(True)
    former = {number: signal.signal(number, signal.default_int_handler) for number in _ENDING_SIGNALS}
    try:
        scratch = Scratch(folder)
        yield scratch
    finally:
        # A second Ctrl-C must not stop the cleanup.
        for number in former:
            signal.signal(number, signal.SIG_IGN)
        if scratch:
            scratch.clear()
        shutil.rmtree(folder, ignore_errors=True)
        _adopt_orphans(False)
        for number, handler in former.items():
            signal.signal(number, handler)
