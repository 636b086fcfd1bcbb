"""A scratch home with real servers in its config: the same server directly and through `hearth bridge`."""

import json
import os
import subprocess
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from process.daemon import Scratch
from process.kernel import BOUND_SECONDS, pids_at_home, until
from real.clients import Command
from real.installation import BIN

# Servers take a second of processor time to start, and several start at once.
PATIENCE_SECONDS = 60.0
Entry = Mapping[str, Any]


class RealHome:
    """The home, its servers, and the daemon that the first bridge starts."""

    def __init__(self, servers: Mapping[str, Entry]) -> None:
        self.servers = dict(servers)
        self.scratch = Scratch()
        self.scratch.configure(self.servers, list_timeout=PATIENCE_SECONDS, idle_timeout=600)

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

    @cached_property
    def _words(self) -> dict[str | None, list[str]]:
        """The bridge's command line, by server; the one for all servers under None."""
        chosen = [word for name in self.servers for word in ("--server", name)]
        entries: dict[str | None, Any] = {None: self._connect()["hearth"], **self._connect(*chosen)}
        return {name: [entry["command"], *entry["args"]] for name, entry in entries.items()}

    def _connect(self, *words: str) -> dict[str, Any]:
        printed = subprocess.run(
            [BIN / "hearth", "connect", "--print", *words],
            env=self.scratch.environment(),
            capture_output=True,
            timeout=BOUND_SECONDS,
            check=True,
        )
        found: dict[str, Any] = json.loads(printed.stdout)["mcpServers"]
        return found
