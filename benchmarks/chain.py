"""The chains that are compared: Hearth's bridge and daemon, and socat in both roles, before the same
upstream.

Knows how each is configured, started and found; measures nothing.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from time import monotonic, sleep

from client import ChainError
from stage import Child, Stage

HERE = os.path.dirname(os.path.abspath(__file__))
SERVERS = os.path.abspath(os.path.join(HERE, "..", "tests", "support", "upstreams"))
# The interpreter as the venv names it: the link, not what it points to, as `hearth connect` prints it.
PYTHON = sys.executable
ECHO = [PYTHON, "-E", "-s", "-S", os.path.join(SERVERS, "echo_server.py")]
SWIFT = [PYTHON, "-E", "-s", "-S", os.path.join(SERVERS, "swift_server.py")]
FLOODING = [PYTHON, "-E", "-s", "-S", os.path.join(SERVERS, "flooding_server.py")]
MODERN = [PYTHON, "-E", "-s", "-S", os.path.join(SERVERS, "modern_server.py")]
BOTH_ERAS = [PYTHON, "-E", "-s", "-S", os.path.join(SERVERS, "keeping_server.py"), "legacy", "modern"]
HEARTH = os.path.join(os.path.dirname(PYTHON), "hearth")
# For a socket to appear, or a process to go.
PATIENCE_SECONDS = 10.0
POLL_INTERVAL_SECONDS = 0.005


class HearthChain:
    """A home of its own with one upstream, `echo`, and others if they are given; its first bridge starts the daemon."""

    tool = "echo__echo"

    def __init__(
        self,
        stage: Stage,
        name: str,
        upstream: list[str],
        others: Mapping[str, list[str]] | None = None,
        settings: Mapping[str, str] | None = None,
        keys: Mapping[str, str] | None = None,
    ) -> None:
        """Configure it. `settings` are the daemon's and `keys` every server's, as TOML values."""
        self._stage = stage
        self.env = stage.env(name)
        self._runtime = self.env["XDG_RUNTIME_DIR"]
        self.socket = os.path.join(self._runtime, "mcp", "mcp.sock")
        folder = os.path.join(self.env["HOME"], ".config", "hearth")
        os.makedirs(folder)
        with open(os.path.join(folder, "config.toml"), "w") as config:
            # The daemon stays: an idle exit between two rounds would be measured as a cold start.
            config.write("idle_timeout = 0\n")
            config.writelines(f"{key} = {value}\n" for key, value in (settings or {}).items())
            for server, command in {"echo": upstream, **(others or {})}.items():
                config.write(f"\n[mcpServers.{server}]\n")
                config.write(f"command = {json.dumps(command[0])}\nargs = {json.dumps(command[1:])}\n")
                config.writelines(f"{key} = {value}\n" for key, value in (keys or {}).items())
        self.printed = self._printed_command()
        self.typed = [HEARTH, "bridge"]

    def bridge(self, command: list[str] | None = None) -> Child:
        """A bridge, by the printed command unless another is given."""
        return self._stage.spawn(command or self.printed, self.env)

    def daemon_pid(self) -> int:
        """The daemon that the registry names."""
        with open(os.path.join(self._runtime, "mcp", "mcp", "daemon.json")) as entry:
            return int(json.load(entry)["pid"])

    def server_pids(self) -> list[int]:
        """Return the processes of the upstream, as the daemon knows them."""
        shown = subprocess.run([HEARTH, "status", "--json"], env=self.env, capture_output=True, check=True)
        (upstream,) = json.loads(shown.stdout)["upstreams"]
        return list(upstream["pids"])

    def stop(self) -> None:
        """End the daemon and wait until the kernel says that it has gone."""
        pid = self.daemon_pid()
        os.kill(pid, signal.SIGTERM)
        wait_until(lambda: gone(pid), f"the daemon {pid} to end")

    def _printed_command(self) -> list[str]:
        shown = subprocess.run(
            [HEARTH, "connect", "--print"], env=self.env, capture_output=True, text=True, check=False
        )
        if shown.returncode:
            raise ChainError(f"`hearth connect --print` failed: {shown.stderr.strip()[-400:]}")
        (entry,) = json.loads(shown.stdout)["mcpServers"].values()
        return [entry["command"], *entry["args"]]


class SocatChain:
    """socat in the daemon's place, an upstream behind each connection, and socat as the bridge."""

    tool = "echo"

    def __init__(self, stage: Stage, name: str, upstream: list[str]) -> None:
        self._stage = stage
        self.env = stage.env(name)
        socket = os.path.join(self.env["XDG_RUNTIME_DIR"], "s")
        program = socat()
        self._listener = stage.spawn([program, f"UNIX-LISTEN:{socket},fork", "EXEC:" + " ".join(upstream)], self.env)
        wait_until(lambda: os.path.exists(socket), "socat to listen")
        self._command = [program, "-", f"UNIX-CONNECT:{socket}"]

    def bridge(self) -> Child:
        """A connection."""
        return self._stage.spawn(self._command, self.env)


def socat() -> str:
    """The path of socat; raises ChainError where there is none."""
    found = shutil.which("socat")
    if found is None:
        raise ChainError("socat is what Hearth is measured against, and it is not installed: apt install socat")
    return found


def gone(pid: int) -> bool:
    """The process has ended; it is reaped if it became a child of ours by adoption."""
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    return not os.path.exists(f"/proc/{pid}")


def wait_until(happened: Callable[[], bool], what: str, patience: float = PATIENCE_SECONDS) -> None:
    """Poll a condition; raises ChainError when it takes too long."""
    limit = monotonic() + patience
    while not happened():
        if monotonic() > limit:
            raise ChainError(f"waited {patience:g} s for {what}")
        sleep(POLL_INTERVAL_SECONDS)
