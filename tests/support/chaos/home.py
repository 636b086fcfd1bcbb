"""A scratch home: its config, its daemon, and every process that belongs to it, as the kernel tells.

HOME and XDG_RUNTIME_DIR point into a short folder of /tmp, because a socket's path has 107 bytes. Every process of a
test is known by that HOME in its environment, whoever started it and whatever became of its parent.
"""

import contextlib
import json
import logging
import os
import select
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from hearth.host import processes
from support.daemon import server_command
from support.kernel import BOUND_SECONDS, kill_all_at_home, pids_at_home, until

log = logging.getLogger(__name__)

REPOSITORY = Path(__file__).resolve().parents[3]
BRIDGE = [sys.executable, "-I", "-S", str(REPOSITORY / "service" / "hearth" / "bridge" / "main.py")]
# What an MCP client hands to a server that it starts; and what measures the coverage in children.
_HANDED_ON = ("LOGNAME", "PATH", "SHELL", "TERM", "USER")
_LAST_WORDS = 4000
_MEASURING = ("COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG", "COVERAGE_FILE")


class Home:
    """One user's world with one daemon in it, which bridges start."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "home"
        # What the counting server notes: one line for each execution.
        self.notes = folder / "notes"
        # The standard error of all bridges.
        self.complaints = folder / "complaints"
        self.socket = folder / "run" / "mcp" / "mcp.sock"
        self.registry = folder / "run" / "mcp" / "mcp" / "daemon.json"
        self.log = self.path / ".local" / "state" / "hearth" / "logs" / "mcp.log"
        kept = {name: os.environ[name] for name in _HANDED_ON + _MEASURING if name in os.environ}
        self.environment = {**kept, "HOME": str(self.path), "XDG_RUNTIME_DIR": str(folder / "run")}
        for needed in (self.path / ".config" / "hearth", folder / "run"):
            needed.mkdir(parents=True, mode=0o700)

    def configure(
        self,
        servers: Mapping[str, list[str]] | None = None,
        more: Mapping[str, str] = MappingProxyType({}),
        **settings: float,
    ) -> None:
        """Write the config: by default one counting server, and a daemon that stays. `more`: lines of some servers."""
        commands = servers or {"counting": server_command("counting", str(self.notes))}
        lines = [f"{name} = {value}" for name, value in {"idle_timeout": 0, **settings}.items()]
        for name, command in commands.items():
            words = ", ".join(f'"{word}"' for word in command[1:])
            lines += [f"[mcpServers.{name}]", f'command = "{command[0]}"', f"args = [{words}]", more.get(name, "")]
        (self.path / ".config" / "hearth" / "config.toml").write_text("\n".join(lines) + "\n")

    # --- the daemon

    def daemon(self) -> int | None:
        """The pid of the daemon that is registered and lives."""
        try:
            entry = json.loads(self.registry.read_bytes())
        except (OSError, ValueError):
            return None
        return entry["pid"] if processes.is_alive(entry["pid"], entry["startTime"]) else None

    def wait_for_daemon(self, other_than: int | None = None) -> int:
        """The pid of the daemon, when there is one, and another one than that."""

        def found() -> int | None:
            pid = self.daemon()
            return None if pid == other_than else pid

        return until(found, "a daemon is registered") or 0

    def kill_daemon(self) -> int:
        """End the daemon with SIGKILL; return its pid when the kernel says that it is dead."""
        pid = self.wait_for_daemon()
        kill(pid)
        return pid

    # --- processes

    def processes(self) -> dict[int, str]:
        """Every process of this home, with its command line."""
        return {pid: _command(pid) for pid in pids_at_home(str(self.path))}

    def daemons(self) -> list[int]:
        """The daemons among the processes: each is the child of its watcher, which has the same command line."""
        servers = {pid for pid, command in self.processes().items() if "hearth.daemon" in command}
        return [pid for pid in servers if parent(pid) in servers]

    def upstreams(self) -> list[int]:
        """The servers' processes."""
        return [pid for pid, command in self.processes().items() if "_server.py" in command]

    def noted(self) -> list[str]:
        """The lines that the counting server wrote."""
        return self.notes.read_text().splitlines() if self.notes.exists() else []

    def last_words(self) -> str:
        """What the daemons logged and the bridges complained about lately."""
        texts = [path.read_text() for path in (self.log, self.complaints) if path.exists()]
        return "\n".join(text[-_LAST_WORDS:] for text in texts)

    def clear(self) -> None:
        """End every process, remove every file."""
        try:
            # More than once: a bridge may start a daemon between the look and the kill.
            until(lambda: kill_all_at_home(str(self.path)), "nobody is left")
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    except OSError:
        return "gone meanwhile"


def parent(pid: int) -> int | None:
    """The parent's pid, while the process is there."""
    try:
        # The second field behind the bracket that closes the name.
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError):
        return None


def kill(pid: int) -> None:
    """SIGKILL, and wait until the kernel says that it is dead: by then its sockets are closed."""
    descriptor = os.pidfd_open(pid)
    try:
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        wait_for_end(descriptor)
    finally:
        os.close(descriptor)


def wait_for_end(pidfd: int) -> None:
    """Wait until the process behind the descriptor is dead."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    assert poll.poll(BOUND_SECONDS * 1000), "the process did not die"


@contextlib.contextmanager
def scratch_home() -> Iterator[Home]:
    """A home with the usual config, gone at the end with everything that ran in it."""
    home = Home(Path(tempfile.mkdtemp(prefix="hearth-chaos-", dir="/tmp")))
    try:
        home.configure()
        yield home
    finally:
        # Shown by pytest when the test failed.
        log.warning("%s", home.last_words())
        home.clear()
