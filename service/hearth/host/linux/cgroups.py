"""Control groups: one for each MCP server, below the one that the service manager has handed to the daemon.

Whoever is born into such a group stays in it, whatever it forks and whichever session it opens, so the group's end is
the end of all descendants. cgroups(7), version 2 only; where it is missing, read-only or not handed over, process
groups have to do. Knows nothing of what runs inside.
"""

import os
import signal
import sys
from collections.abc import Iterator, Mapping

from hearth.paths import safe_name

assert sys.platform == "linux", "imported on Linux only"

MOUNT = "/sys/fs/cgroup"
# Where the daemon itself lives: a group whose parts are to have limits must hold no process of its own.
LEAF = "daemon"
PREFIX = "upstream-"


class Group:
    """One group and what lies below it. Nothing here raises for processes that are gone or a folder that is."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def pids(self) -> list[int]:
        """Every process in it."""
        return [pid for folder in self._folders() for pid in _pids(folder)]

    def _folders(self) -> Iterator[str]:
        """Itself and those that its processes have made below it, the innermost first."""
        return (folder for folder, _, _ in os.walk(self.folder, topdown=False))

    def terminate_strangers(self, leader: int) -> None:
        """Ask those to end who have left the leader's process group, which is asked as a whole."""
        for pid in self.pids():
            try:
                if os.getpgid(pid) != leader:
                    os.kill(pid, signal.SIGTERM)
            except (ProcessLookupError, PermissionError):
                pass

    def kill(self) -> None:
        """End every process in it, those that are being forked included."""
        try:
            _write(os.path.join(self.folder, "cgroup.kill"), "1")
        except OSError:
            # A kernel before 5.14. Who is forked meanwhile is killed with the next try to remove the group.
            self._kill_each()

    def _kill_each(self) -> None:
        for pid in self.pids():
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass

    def remove(self) -> bool:
        """Take its folders away; whether that was possible. The kernel refuses while a process is left."""
        for folder in self._folders():
            try:
                os.rmdir(folder)
            except FileNotFoundError:
                pass
            except OSError:
                return False
        return True


class Subtree:
    """The part of the tree that is the daemon's to divide."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._count = 0
        # Groups that were ended and could not be removed yet.
        self.ended: list[Group] = []

    def make(self, name: str) -> Group:
        """A new group for a process of that server. Raises OSError."""
        self.sweep()
        while True:
            self._count += 1
            group = Group(os.path.join(self.root, f"{PREFIX}{safe_name(name)}-{self._count}"))
            try:
                os.mkdir(group.folder)
            except FileExistsError:
                # Of a daemon that executed itself anew, whose process could not be ended yet.
                continue
            return group

    def limit(self, group: Group, limits: Mapping[str, str]) -> dict[str, OSError]:
        """Write limits to files of a group, such as `memory.max`; return those that could not be, with the reason."""
        failed: dict[str, OSError] = {}
        for file, value in limits.items():
            try:
                # A group has the files of a controller only when the group above it hands the controller on.
                _write(os.path.join(self.root, "cgroup.subtree_control"), "+" + file.partition(".")[0])
                _write(os.path.join(group.folder, file), value)
            except OSError as exc:
                failed[file] = exc
        return failed

    def end(self, group: Group) -> bool:
        """End a group; whether its folder is gone. If not, `sweep` tries again."""
        group.kill()
        if group.remove():
            return True
        self.ended.append(group)
        return False

    def sweep(self) -> bool:
        """End again what could not be removed; whether nothing is left."""
        ended, self.ended = self.ended, []
        for group in ended:
            self.end(group)
        return not self.ended


def take(mount: str = MOUNT) -> Subtree | None:
    """Move this process into a leaf of the service's group and take the rest; None where that cannot be done."""
    root = _service_group(mount)
    if root is None:
        return None
    try:
        leaf = os.path.join(root, LEAF)
        os.makedirs(leaf, exist_ok=True)
        # 0 is whoever writes.
        _write(os.path.join(leaf, "cgroup.procs"), "0")
    except OSError:
        return None
    subtree = Subtree(root)
    # Left by a daemon that executed itself anew.
    subtree.ended = [Group(entry.path) for entry in os.scandir(root) if entry.name.startswith(PREFIX)]
    subtree.sweep()
    return subtree


def _service_group(mount: str) -> str | None:
    """The folder of the service that this process belongs to; None without cgroups v2 or outside of a service."""
    if not os.path.exists(os.path.join(mount, "cgroup.controllers")):
        # Version 1, or the mixture of both, in which the service manager follows processes by version 1.
        return None
    try:
        with open("/proc/self/cgroup") as file:
            path = next((line.rstrip("\n")[3:] for line in file if line.startswith("0::")), "")
    except OSError:
        return None
    if path.endswith(f"/{LEAF}"):
        path = os.path.dirname(path)
    # Outside of a service, or seen through a namespace whose root is elsewhere.
    if not path.endswith(".service") or "/.." in path:
        return None
    return mount + path


def _pids(folder: str) -> list[int]:
    try:
        with open(os.path.join(folder, "cgroup.procs")) as file:
            # 0 is a process of another pid namespace, which cannot be named from here.
            return [pid for pid in map(int, file.read().split()) if pid]
    except OSError:
        return []


def _write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
