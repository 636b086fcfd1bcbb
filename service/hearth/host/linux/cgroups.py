"""Control groups: one for each MCP server, below the group that the service manager has delegated to the daemon.

A process that starts in such a group stays in it, whatever it forks and whichever session it opens, so killing the
group kills all descendants. cgroups(7), version 2 only; where it is missing, read-only or not delegated, process
groups take its place. This module knows nothing about the programs inside.
"""

import os
import signal
import sys
from collections.abc import Iterator, Mapping

from hearth.paths import safe_name

assert sys.platform == "linux", "imported on Linux only"

MOUNT = "/sys/fs/cgroup"
# Group of the daemon itself: a group whose children have limits must contain no process of its own.
LEAF = "daemon"
PREFIX = "upstream-"


class Group:
    """Control group with its descendants. No method raises for processes or folders that are gone."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def pids(self) -> list[int]:
        """List the processes in the group."""
        return [pid for folder in self._folders() for pid in _pids(folder)]

    def _folders(self) -> Iterator[str]:
        """Yield the group's folder and the folders that its processes have made below it, the innermost first."""
        return (folder for folder, _, _ in os.walk(self.folder, topdown=False))

    def terminate_strangers(self, leader: int) -> None:
        """Send SIGTERM to processes that have left the leader's process group, which is signalled as a whole."""
        for pid in self.pids():
            try:
                if os.getpgid(pid) != leader:
                    os.kill(pid, signal.SIGTERM)
            except (ProcessLookupError, PermissionError):
                pass

    def kill(self) -> None:
        """Kill every process in the group, including processes that are being forked."""
        try:
            _write(os.path.join(self.folder, "cgroup.kill"), "1")
        except OSError:
            # A kernel before 5.14. A process forked meanwhile is killed with the next attempt to remove the group.
            self._kill_each()

    def _kill_each(self) -> None:
        for pid in self.pids():
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass

    def remove(self) -> bool:
        """Remove the group's folders; return whether that was possible. The kernel refuses while a process is left."""
        for folder in self._folders():
            try:
                os.rmdir(folder)
            except FileNotFoundError:
                pass
            except OSError:
                return False
        return True


class Subtree:
    """Part of the cgroup tree that is delegated to the daemon."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._count = 0
        # Groups that were killed and could not be removed yet.
        self.ended: list[Group] = []

    def make(self, name: str) -> Group:
        """Make a new group for a process of that server. Raises OSError."""
        self.sweep()
        while True:
            self._count += 1
            group = Group(os.path.join(self.root, f"{PREFIX}{safe_name(name)}-{self._count}"))
            try:
                os.mkdir(group.folder)
            except FileExistsError:
                # Left by this daemon from before an exec; its processes could not be ended yet.
                continue
            return group

    def limit(self, group: Group, limits: Mapping[str, str]) -> dict[str, OSError]:
        """Write limits to files of a group, such as `memory.max`; return the limits that failed, with the reason."""
        failed: dict[str, OSError] = {}
        for file, value in limits.items():
            try:
                # A group has the files of a controller only when its parent group enables that controller.
                _write(os.path.join(self.root, "cgroup.subtree_control"), "+" + file.partition(".")[0])
                _write(os.path.join(group.folder, file), value)
            except OSError as exc:
                failed[file] = exc
        return failed

    def end(self, group: Group) -> bool:
        """Kill a group; return whether its folder is gone. If not, `sweep` tries again."""
        group.kill()
        if group.remove():
            return True
        self.ended.append(group)
        return False

    def sweep(self) -> bool:
        """Kill again the groups that could not be removed; return whether none is left."""
        ended, self.ended = self.ended, []
        for group in ended:
            self.end(group)
        return not self.ended


def take(mount: str = MOUNT) -> Subtree | None:
    """Move this process into a leaf of the service's group and take over the rest; return None if that fails."""
    root = _service_group(mount)
    if root is None:
        return None
    try:
        leaf = os.path.join(root, LEAF)
        os.makedirs(leaf, exist_ok=True)
        # 0 stands for the writing process.
        _write(os.path.join(leaf, "cgroup.procs"), "0")
    except OSError:
        return None
    subtree = Subtree(root)
    # Groups from before an exec of this daemon.
    subtree.ended = [Group(entry.path) for entry in os.scandir(root) if entry.name.startswith(PREFIX)]
    subtree.sweep()
    return subtree


def _service_group(mount: str) -> str | None:
    """Return the cgroup folder of this process's service; None without cgroups v2 or outside a service."""
    if not os.path.exists(os.path.join(mount, "cgroup.controllers")):
        # Version 1, or the hybrid of both, in which the service manager tracks processes by version 1.
        return None
    try:
        with open("/proc/self/cgroup") as file:
            path = next((line.rstrip("\n")[3:] for line in file if line.startswith("0::")), "")
    except OSError:
        return None
    if path.endswith(f"/{LEAF}"):
        path = os.path.dirname(path)
    # Outside a service, or in a namespace whose root is elsewhere.
    if not path.endswith(".service") or "/.." in path:
        return None
    return mount + path


def _pids(folder: str) -> list[int]:
    try:
        with open(os.path.join(folder, "cgroup.procs")) as file:
            # 0 is a process of another pid namespace, which has no pid here.
            return [pid for pid in map(int, file.read().split()) if pid]
    except OSError:
        return []


def _write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
