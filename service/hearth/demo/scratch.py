"""A home of its own for the demo, and nothing left of it afterwards: no file, no process, also after Ctrl-C.

HOME and XDG_RUNTIME_DIR point into it, which keeps the demo's daemon apart from the user's own, and away
from the user's systemd. Every process of the demo is recognised by that HOME.
"""

import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

# prctl(2): PR_SET_CHILD_SUBREAPER. A daemon forks itself away; this brings it back to be reaped.
_SET_CHILD_SUBREAPER = 36
# What a client hands to an MCP server; nothing of the user's own XDG_* must leak into the scratch home.
_KEPT_VARIABLES: tuple[str, ...] = ("LANG", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
if sys.platform == "win32":
    _KEPT_VARIABLES += ("COMSPEC", "PATHEXT", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "TMP", "USERNAME", "WINDIR")
# SIGKILL is not discussed; this bounds a machine that is too busy to bury its dead.
CLEAN_UP_SECONDS = 10.0
# Long for a process that has already been killed, short where a shell left a child of its own to us.
BURIAL_SECONDS = 1.0
_POLL_SECONDS = 0.02


# Each of them ends a program at once by default; here, something must be cleared away first.
_ENDING_SIGNALS = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT") if hasattr(signal, name)
]


# A pipe's name does not depend on the home: there, the demo has a profile that no daemon of the user's has.
PROFILE = f"demo-{os.getpid()}" if sys.platform == "win32" else ""
_CONFIG_FOLDER = os.path.join("hearth", "profiles", PROFILE) if PROFILE else os.path.join(".config", "hearth")


def _own_variables(folder: str, home: str) -> dict[str, str]:
    if sys.platform == "win32":
        return {"USERPROFILE": home, "APPDATA": home, "LOCALAPPDATA": home}
    return {"HOME": home, "XDG_RUNTIME_DIR": os.path.join(folder, "run")}


class Scratch:
    """The folder, and what belongs to it."""

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
        """Return every process that has this home, the calling one excepted. Only Linux tells; elsewhere none."""
        mark = os.fsencode(f"HOME={self.home}")
        found = []
        for name in os.listdir("/proc") if os.path.isdir("/proc/self") else []:
            if name.isdigit() and int(name) != os.getpid():
                try:
                    with open(f"/proc/{name}/environ", "rb") as file:
                        if mark in file.read().split(b"\0"):
                            found.append(int(name))
                except OSError:
                    # Gone meanwhile, or another user's.
                    continue
        return found

    def wait_until_empty(self, seconds: float) -> list[int]:
        """Wait for the last process to go by itself; return those that did not."""
        deadline = time.monotonic() + seconds
        while (left := self.processes()) and time.monotonic() < deadline:
            _reap()
            time.sleep(_POLL_SECONDS)
        return left

    def clear(self) -> None:
        """End every process, remove every file."""
        deadline = time.monotonic() + CLEAN_UP_SECONDS
        # More than once: a bridge may start a daemon between the look and the kill.
        while (left := self.processes()) and time.monotonic() < deadline:
            for pid in left:
                _kill(pid)
            _reap()
            time.sleep(_POLL_SECONDS)
        # One that is about to end has no environment any more, but still is a child to be buried.
        deadline = time.monotonic() + BURIAL_SECONDS
        while not _reap() and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        shutil.rmtree(self.folder, ignore_errors=True)


def _kill(pid: int) -> None:
    if sys.platform != "win32":
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def _reap() -> bool:
    """Bury children that have ended, adopted ones too; whether there is none left."""
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


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


@contextmanager
def scratch_home() -> Iterator[Scratch]:
    """Yield a scratch home that is gone at the end, however it comes."""
    # A short path: a socket's may have 107 bytes, and TMPDIR may be long.
    folder = tempfile.mkdtemp(prefix="hearth-demo-", dir="/tmp" if os.access("/tmp", os.W_OK) else None)
    scratch = None
    _adopt_orphans(True)
    former = {number: signal.signal(number, _interrupt) for number in _ENDING_SIGNALS}
    try:
        scratch = Scratch(folder)
        yield scratch
    finally:
        # A second Ctrl-C must not stop the cleaning up.
        for number in former:
            signal.signal(number, signal.SIG_IGN)
        if scratch:
            scratch.clear()
        shutil.rmtree(folder, ignore_errors=True)
        _adopt_orphans(False)
        for number, handler in former.items():
            signal.signal(number, handler)
