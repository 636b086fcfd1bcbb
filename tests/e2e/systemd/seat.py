"""A user with a service manager and an installed Hearth: what a test does, as that user would."""

import json
import subprocess
import tempfile
from collections.abc import Mapping
from typing import IO, Any

from e2e.systemd.client import Client
from e2e.systemd.installation import Installation
from e2e.systemd.machine import Machine, User, until

SERVICE = "mcp.service"
SOCKET = "mcp.socket"
# systemd's catalogue: "A start job for unit … has begun execution".
STARTING_MESSAGE_ID = "7d4958e842da4a758f6c1cdc7b36dcc5"


class Seat:
    """One user's chair: commands, files, units and bridges."""

    def __init__(self, machine: Machine, user: User, installation: Installation) -> None:
        self.machine = machine
        self.user = user
        self.installation = installation
        self.servers = str(installation.root.parent / "servers")
        self.node = str(installation.root.parent / "node")
        self.socket = f"{user.runtime}/mcp/mcp.sock"
        self.folder = f"{user.runtime}/mcp/mcp"
        self._clients: list[Client] = []
        self.bridge_stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the seat

    def close(self) -> None:
        """End the bridges, then everything else of the user."""
        for client in self._clients:
            client.close()
        self.machine.end_user(self.user)
        self.bridge_stderr.close()

    def run(self, *argv: str, environment: Mapping[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
        """Run a command as the user."""
        return self.machine.run(*argv, user=self.user, environment=environment)

    def check(self, *argv: str, stdin: str = "") -> str:
        """Run a command that must succeed; return what it printed."""
        return self.machine.check(*argv, user=self.user, stdin=stdin)

    def hearth(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run the command line."""
        return self.run(self.installation.hearth, *arguments)

    def ok(self, *arguments: str) -> str:
        """Run the command line, which must succeed; return what it printed."""
        return self.check(self.installation.hearth, *arguments)

    def status(self) -> dict[str, Any]:
        """`hearth status --json`."""
        return json.loads(self.hearth("status", "--json").stdout)

    def systemctl(self, *arguments: str) -> str:
        """`systemctl --user`, which must succeed."""
        return self.check("systemctl", "--user", *arguments)

    def show(self, name: str, unit: str = SERVICE) -> str:
        """One property of a unit."""
        return self.systemctl("show", f"--property={name}", "--value", unit).strip()

    def state(self, unit: str = SERVICE) -> str:
        """ActiveState of a unit."""
        return self.show("ActiveState", unit)

    def install(self) -> None:
        """What the user types to set it up."""
        self.ok("install")

    def write(self, path: str, text: str) -> None:
        """Write a file of the user's, with the folders that it needs."""
        self.check("sh", "-c", 'mkdir -p "$(dirname "$0")" && cat >"$0"', path, stdin=text)

    @property
    def config_path(self) -> str:
        """Where the default config is."""
        return f"{self.user.home}/.config/hearth/config.toml"

    def configure(self, text: str = "", *, idle_timeout: float = 60, upstream: bool = True) -> None:
        """Write a config with the test server `desk` in it; `text` comes first."""
        server = f'[mcpServers.desk]\ncommand = "/usr/bin/python3"\nargs = ["-I", "{self.servers}/desk.py"]\n'
        self.write(self.config_path, f"idle_timeout = {idle_timeout}\n{text}\n{server if upstream else ''}")

    def add_drop_in(self, text: str, unit: str = SERVICE) -> None:
        """Change a unit as `systemctl edit` does."""
        self.write(f"{self.user.home}/.config/systemd/user/{unit}.d/test.conf", text)
        self.systemctl("daemon-reload")

    def bridge(self, *arguments: str, environment: Mapping[str, str] | None = None) -> Client:
        """Start a bridge as a client's config does; it is ended with the seat if not before."""
        return self.client(*self.installation.bridge, *arguments, environment=environment)

    def client(self, *command: str, environment: Mapping[str, str] | None = None) -> Client:
        """Start a command that speaks MCP on its pipes; it is ended with the seat if not before."""
        process = self.machine.start(*command, user=self.user, environment=environment, stderr=self.bridge_stderr)
        client = Client(process)
        self._clients.append(client)
        return client

    def session(self, *arguments: str, environment: Mapping[str, str] | None = None) -> Client:
        """A bridge whose session is open."""
        client = self.bridge(*arguments, environment=environment)
        client.initialize()
        return client

    def attached_bridge(self) -> Client:
        """A bridge whose session is up and whose server has answered once."""
        client = self.session()
        assert client.call("desk__echo", text="up") == "up"
        return client

    def processes(self, pattern: str) -> list[int]:
        """The user's processes whose command line matches."""
        return [int(pid) for pid in self.run("pgrep", "-u", str(self.user.uid), "-f", pattern).stdout.split()]

    def journal(self, *matches: str) -> list[dict[str, Any]]:
        """The journal of the service, in order."""
        # As root: a user's own journal is not readable by it until journald has rotated in its ACL.
        return [json.loads(line) for line in self._journal("json", f"_SYSTEMD_USER_UNIT={SERVICE}", *matches)]

    def starts(self) -> int:
        """How often the service was started."""
        return len(self._journal("cat", f"USER_UNIT={SERVICE}", f"MESSAGE_ID={STARTING_MESSAGE_ID}"))

    def _journal(self, form: str, *matches: str) -> list[str]:
        self.machine.check("journalctl", "--sync")
        user = f"_UID={self.user.uid}"
        return self.machine.check("journalctl", "-q", "-o", form, "--no-pager", user, *matches).splitlines()

    def await_state(self, state: str, unit: str = SERVICE) -> None:
        """Wait until a unit is in a state."""
        until(lambda: self.state(unit) == state, f"{unit} is {state}")
