"""A daemon of its own for a test on Windows, with real bridges, and nothing of it left afterwards."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import win32security

from hearth import registry
from hearth.clients.launcher import bridge_command
from hearth.control_client.connection import ControlConnection
from hearth.demo.client import DemoClient
from hearth.host import processes
from hearth.paths import Places

# A start of Python takes seconds here, more when the machine is busy.
LIMIT_SECONDS = 60.0
LOOK_SECONDS = 0.02
UPSTREAMS = Path(__file__).parent.parent / "support" / "upstreams"
DEMO = [sys.executable, "-I", "-m", "hearth.demo.server"]
ECHO = [sys.executable, "-E", "-s", "-S", str(UPSTREAMS / "echo_server.py")]

Found = TypeVar("Found")


def wait_for(look: Callable[[], Found | None], what: str) -> Found:
    """Look until something is seen, bounded."""
    deadline = time.monotonic() + LIMIT_SECONDS
    while not (found := look()):
        assert time.monotonic() < deadline, f"{what} was waited for {LIMIT_SECONDS:g} s"
        time.sleep(LOOK_SECONDS)
    return found


def named_in(descriptor: Any) -> list[str]:
    """The SIDs in its list of access rights."""
    entries = descriptor.GetSecurityDescriptorDacl()
    return [win32security.ConvertSidToStringSid(entries.GetAce(at)[2]) for at in range(entries.GetAceCount())]


def is_gone(pid: int) -> bool:
    """Whether nobody runs under that number any longer."""
    return not processes.is_alive(pid, processes.UNKNOWN_START_TIME)


class House:
    """One config file, the daemon that is named by it, and its clients."""

    def __init__(self, folder: Path) -> None:
        self.config = folder / "config.toml"
        self._clients: list[DemoClient] = []
        self._pids: set[int] = set()
        self.write()
        self.places = Places(config=str(self.config))

    def write(self, idle_timeout: float = 0, **servers: list[str]) -> None:
        """The config: each server by its command, shared."""
        lines = [f"idle_timeout = {idle_timeout:g}"]
        for name, command in servers.items():
            quoted = ", ".join(json.dumps(word, ensure_ascii=False) for word in command[1:])
            lines += [f"[mcpServers.{name}]", f"command = {json.dumps(command[0])}", f"args = [{quoted}]"]
            lines += ['isolation = "shared"']
        self.config.write_text("\n".join([*lines, ""]), encoding="utf-8")

    def client(self, name: str = "an agent", *extra: str) -> DemoClient:
        """A client behind a bridge that was started as its config would say."""
        client = DemoClient(name, bridge_command(self.places, extra), os.environ, modern=False)
        self._clients.append(client)
        client.first_answer()
        return client

    def entry(self) -> registry.RegistryEntry | None:
        """Who is the daemon, if one lives."""
        entry = registry.read(self.places)
        if entry is None or not registry.is_alive(entry):
            return None
        self._pids.add(entry.pid)
        return entry

    def pid(self) -> int:
        """The daemon's pid; there has to be one."""
        entry = wait_for(self.entry, "a daemon")
        assert entry
        return entry.pid

    def status(self) -> dict[str, Any]:
        """The daemon's own word."""
        with ControlConnection(self.places.socket, self.pid()) as control:
            return control.status()

    @contextmanager
    def serving_http(self) -> Iterator[str]:
        """`hearth serve` on a port, whose address is given; asked to end after the block, which it does."""
        command = [sys.executable, "-I", "-m", "hearth", "serve", "--transport", "http", "--http-port", "0"]
        nothing = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with subprocess.Popen([*command, *self.places.arguments()], **nothing) as daemon:
            try:
                yield self.status()["http"][0]
                with ControlConnection(self.places.socket, self.pid()) as control:
                    control.shutdown(restart=False)
                assert daemon.wait(LIMIT_SECONDS) == 0
            finally:
                daemon.kill()

    def kill(self) -> int:
        """End the daemon as the Task Manager would; its pid."""
        pid = self.pid()
        processes.send_signal(pid, processes.UNKNOWN_START_TIME, 9)
        assert processes.wait_gone(pid, processes.UNKNOWN_START_TIME, LIMIT_SECONDS)
        return pid

    def leave(self) -> None:
        """Have every client leave."""
        clients, self._clients = self._clients, []
        for client in clients:
            client.hang_up()
        for client in clients:
            client.leave()

    def clear(self) -> None:
        """End everything."""
        for client in self._clients:
            client.process.kill()
            client.process.wait()
            client.hang_up()
        self.entry()
        for pid in self._pids:
            processes.send_signal(pid, processes.UNKNOWN_START_TIME, 9)
