"""Child processes in control groups: started by the cgroup spawner, ended with every process that they ever forked."""

import asyncio
import logging
import os
import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import IO

from hearth.host import children
from hearth.host.linux import cgroup_spawner, cgroups
from hearth.host.processes import Program

assert sys.platform == "linux", "imported on Linux only"

log = logging.getLogger(__name__)

# The kernel removes a killed process from its group a little after it can be waited for, and one that is stuck in a
# system call only when that call ends: removing the folder is retried after pauses that double from first to last.
FIRST_PAUSE_SECONDS = 0.01
LAST_PAUSE_SECONDS = 10.0


class Grouped:
    """Starter of programs in control groups, for as long as the cgroup spawner lives."""

    def __init__(self, starter: cgroup_spawner.CgroupSpawner) -> None:
        self._spawner: cgroup_spawner.CgroupSpawner | None = starter
        self._subtree = starter.subtree
        self._sweeping = False

    @property
    def containment(self) -> str:
        """Means that holds a server and its descendants together."""
        return "control groups" if self._spawner else "process groups"

    def spawn(
        self, name: str, program: Program, limits: Mapping[str, str] = MappingProxyType({})
    ) -> children.Child | None:
        """Start the program in its own group, within limits; return None if groups are unavailable. Raises OSError."""
        if self._spawner is None:
            return None
        # Pipes first: if they cannot be made, no group is left behind.
        with _Pipes() as pipes:
            group = self._make(name, limits)
            return self._spawn(self._spawner, group, program, pipes) if group else None

    def _make(self, name: str, limits: Mapping[str, str]) -> cgroups.Group | None:
        try:
            group = self._subtree.make(name)
        except OSError as exc:
            log.warning("no control group could be made: %s", exc, extra={"upstream": name})
            return None
        for limit, problem in self._subtree.limit(group, limits).items():
            log.warning("limit not in force: server=%s limit=%s: %s", name, limit, problem, extra={"upstream": name})
        return group

    def _spawn(
        self, starter: cgroup_spawner.CgroupSpawner, group: cgroups.Group, program: Program, pipes: "_Pipes"
    ) -> children.Child | None:
        try:
            pid = starter.bear(group, program, pipes.its)
        except cgroup_spawner.SpawnerLost as exc:
            log.warning("no control groups from now on, the process that starts servers in them is lost: %s", exc)
            starter.close()
            self._spawner = None
            self.end(group)
            return None
        except OSError:
            self.end(group)
            raise
        return _GroupedChild(pid, pipes.open_own(), self, group)

    def end(self, group: cgroups.Group) -> None:
        """Kill a group and remove it as soon as the kernel allows."""
        if not self._subtree.end(group) and not self._sweeping:
            self._sweeping = True
            self._sweep_after(FIRST_PAUSE_SECONDS)

    def _sweep_after(self, pause: float) -> None:
        asyncio.get_running_loop().call_later(pause, self._sweep, min(pause * 2, LAST_PAUSE_SECONDS))

    def _sweep(self, pause: float) -> None:
        if self._subtree.sweep():
            self._sweeping = False
        else:
            self._sweep_after(pause)


class _Pipes:
    """Three pipes: the child's ends and the daemon's ends. Raises OSError when too many files are open already."""

    def __init__(self) -> None:
        self._descriptors: list[int] = []
        try:
            for _ in range(3):
                self._descriptors += os.pipe()
        except OSError:
            self.close()
            raise
        stdin, _, _, stdout, _, stderr = self._descriptors
        self.its = (stdin, stdout, stderr)

    def __enter__(self) -> "_Pipes":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open_own(self) -> tuple[IO[bytes], IO[bytes], IO[bytes]]:
        """Return the daemon's ends; the caller closes them from now on."""
        _, stdin, stdout, _, stderr, _ = self._descriptors
        self._descriptors = list(self.its)
        return open(stdin, "wb", 0), open(stdout, "rb", 0), open(stderr, "rb", 0)

    def close(self) -> None:
        """Close the remaining ends."""
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors = []


class _GroupedChild(children.Child):
    def __init__(
        self, pid: int, pipes: tuple[IO[bytes], IO[bytes], IO[bytes]], grouped: Grouped, group: cgroups.Group
    ) -> None:
        super().__init__(pid, pipes, lambda: os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        self._grouped = grouped
        self._group = group

    def terminate(self) -> None:
        """Ask every process of the control group to end."""
        super().terminate()
        self._group.terminate_strangers(self.pid)

    def kill(self) -> None:
        """Kill every process of the control group."""
        super().kill()
        self._group.kill()

    def clear(self) -> None:
        """Kill processes that were forked meanwhile, and remove the group."""
        self._grouped.end(self._group)
