"""A scratch home with real servers in its config: the same server directly, through `hearth bridge` and over HTTP."""

import json
import os
import subprocess
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from support.daemon import Scratch
from support.kernel import BOUND_SECONDS, pids_at_home, until
from support.real.clients import Address, Command
from support.real.installation import BIN

# Servers take a second of processor time to start, and several start at once.
PATIENCE_SECONDS = 60.0
Entry = Mapping[str, Any]


class RealHome:
    """The home, its servers, and the daemon that the first bridge starts."""

    def __init__(self, servers: Mapping[str, Entry], **settings: object) -> None:
        self.servers = dict(servers)
        self.scratch = Scratch()
        self.scratch.configure(self.servers, list_timeout=PATIENCE_SECONDS, idle_timeout=600, **settings)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            # A daemon that a bridge started is nobody's child.
            if os.path.lexists(self.scratch.socket):
                self.scratch.control().control("shutdown")
                until(lambda: not pids_at_home(str(self.scratch.home)), "the daemon has gone", PATIENCE_SECONDS)
        finally:
            self.scratch.close()

    def folder(self, name: str) -> Path:
        """A folder in the home."""
        path = self.scratch.home / name
        path.mkdir(exist_ok=True)
        return path

    def direct(self, name: str, folder: str | Path | None = None) -> Command:
        """The server as a client without Hearth would start it."""
        entry = self.servers[name]
        environment = {**self.scratch.environment(), **entry.get("env", {})}
        return Command([entry["command"], *entry.get("args", [])], environment, str(folder or self.scratch.home))

    def bridged(self, name: str | None = None, folder: str | Path | None = None) -> Command:
        """What `hearth connect` tells a person to paste into a client: for one server, or for all."""
        return Command(self._words[name], self.scratch.environment(), str(folder or self.scratch.home))

    def on_port(self, path: str = "/mcp") -> Address:
        """What a client is told that connects over TCP."""
        return Address(f"{self._port}{path}", {"Authorization": f"Bearer {self._token}"}, is_old=path == "/sse")

    def on_socket(self, path: str = "/mcp") -> Address:
        """The same on the Unix socket, where the kernel tells who it is."""
        assert self._port
        return Address(f"http://localhost{path}", socket=self.scratch.socket)

    @cached_property
    def _port(self) -> str:
        """The URL without its path, of a daemon that is started for it."""
        self.scratch.start("--http", "127.0.0.1:0")
        return self.scratch.status()["http"][0].removesuffix("/mcp")

    @cached_property
    def _token(self) -> str:
        return self._run("token", "show").strip()

    @cached_property
    def _words(self) -> dict[str | None, list[str]]:
        """The bridge's command line, by server; the one for all servers under None."""
        chosen = [word for name in self.servers for word in ("--server", name)]
        entries: dict[str | None, Any] = {None: self._connect()["hearth"], **self._connect(*chosen)}
        return {name: [entry["command"], *entry["args"]] for name, entry in entries.items()}

    def _connect(self, *words: str) -> dict[str, Any]:
        return json.loads(self._run("connect", "--print", *words))["mcpServers"]

    def _run(self, *words: str) -> str:
        """What a command of Hearth prints."""
        done = subprocess.run(
            [BIN / "hearth", *words],
            env=self.scratch.environment(),
            capture_output=True,
            text=True,
            timeout=BOUND_SECONDS,
            check=True,
        )
        return done.stdout
