"""A user at the fresh machine: what is typed there, and what of the user's runs."""

import shlex
import subprocess
from pathlib import Path

from e2e.systemd.client import Client
from e2e.systemd.machine import BASE_ENVIRONMENT, Machine, User
from fresh.layers import CLIENTS_INSIDE, SERVERS_INSIDE

SERVICE = "mcp.service"
# As a person's shell has it, by their .profile: the user's service manager knows nothing of the first three.
SHELL_PATH = ":".join(
    ["/home/ada/.local/bin", f"{CLIENTS_INSIDE}/bin", f"{SERVERS_INSIDE}/bin", BASE_ENVIRONMENT["PATH"]]
)
# opencode unpacks itself when it is first run; a busy machine with two cores took 20 s for all clients at once.
COMMAND_LIMIT_SECONDS = 120.0
# Of the terminal; nothing that is pictured is wider.
COLUMNS = 130


class Desk:
    """Ada's shell on the booted machine."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.user: User = machine.add_user("ada", linger=True)
        self.environment = {**self.user.environment, "PATH": SHELL_PATH}

    def run(self, *argv: str, stdin: str = "", **settings: str) -> str:
        """Type a command that must succeed; all that it says."""
        done = self.machine.run(
            *argv,
            user=self.user,
            environment={**self.environment, **settings},
            stdin=stdin,
            limit=COMMAND_LIMIT_SECONDS,
        )
        assert done.returncode == 0, f"{shlex.join(argv)} exited with {done.returncode}:\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def on_terminal(self, command: str) -> str:
        """Type a command that must succeed at a terminal; all that is written to it, carriage returns included."""
        script = ["script", "--quiet", "--return", "--command", f"stty cols {COLUMNS}; {command}", "/dev/null"]
        done = subprocess.run(
            self.machine.command(script, self.user, self.environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=COMMAND_LIMIT_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{command} exited with {done.returncode}:\n{done.stdout.decode()}"
        return done.stdout.decode()

    def start(self, *argv: str) -> Client:
        """Start something that speaks JSON-RPC on its pipes."""
        return Client(self.machine.start(*argv, user=self.user, environment=self.environment))

    def start_bare(self, *argv: str) -> Client:
        """The same with no more of an environment than MCP clients hand to a server."""
        return Client(self.machine.start(*argv, user=self.user, environment=self.user.client_environment))

    # --- files

    def outside(self, path: str) -> Path:
        """A file of the machine's, seen from out here."""
        return Path(f"/proc/{self.machine.pid}/root") / path.lstrip("/")

    def at_home(self, path: str) -> Path:
        """A file of the user's home, seen from out here. Its links are those of the machine: follow none of them."""
        return self.outside(f"{self.user.home}/{path}")

    def write(self, path: str, text: str) -> None:
        """Write a file of the home as it is, line ends included."""
        self.run("sh", "-c", 'mkdir -p "$(dirname "$0")" && cat >"$0"', path, stdin=text)

    # --- processes

    def service(self, name: str) -> str:
        """One property of the daemon's unit."""
        return self.run("systemctl", "--user", "show", f"--property={name}", "--value", SERVICE).strip()

    def in_service(self) -> dict[int, str]:
        """Every process in the control group of the service, and in the groups below it: its pid and command line."""
        top = self.outside(f"/sys/fs/cgroup{self.service('ControlGroup')}")
        pids = [int(pid) for file in top.rglob("cgroup.procs") for pid in file.read_text().split()]
        return {pid: self._command_line(pid) for pid in pids}

    def servers(self) -> dict[int, str]:
        """The MCP servers among them: everything that is not the daemon or its watcher."""
        return {pid: line for pid, line in self.in_service().items() if "hearth.daemon" not in line}

    def everywhere(self, pattern: str) -> list[int]:
        """The user's processes whose command line matches, whoever started them."""
        return [int(pid) for pid in self.machine.run("pgrep", "-u", str(self.user.uid), "-f", pattern).stdout.split()]

    def _command_line(self, pid: int) -> str:
        # The pids in those files are translated for whoever reads them: out here they are ours.
        return " ".join(Path(f"/proc/{pid}/cmdline").read_bytes().decode().rstrip("\0").split("\0"))
