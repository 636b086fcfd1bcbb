"""A booted systemd for tests: running commands in it, as root or as one of its users.

Thin: boot.sh does the work. Knows nothing of Hearth.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

# A shell cannot trap what was ignored when it began, as SIGHUP is below nohup.
BOOT_COMMAND = ("env", "--default-signal", "bash", str(Path(__file__).with_name("boot.sh")))
COMMAND_LIMIT_SECONDS = 60.0
# Looking takes one nsenter, about 10 ms; looking oftener would take the cores from what is waited for.
LOOK_INTERVAL_SECONDS = 0.05
BASE_ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "LANG": "C.UTF-8"}

_PROGRAMS = (
    "nsenter", "unshare", "setpriv", "findmnt", "pgrep", "loginctl", "useradd", "dbus-daemon", "systemd-analyze",
)  # fmt: skip
_PAM_MODULES = ("/lib/*/security/pam_systemd.so", "/usr/lib/*/security/pam_systemd.so")


def missing_requirement() -> str | None:
    """Why no systemd can be booted here; None when it can."""
    if os.geteuid() != 0:
        return "booting systemd needs root"
    for program in _PROGRAMS:
        if shutil.which(program) is None:
            return f"{program} is not installed (packages: systemd dbus-user-session libpam-systemd)"
    if not Path("/lib/systemd/systemd").exists():
        return "the package systemd is not installed"
    if not any(list(Path("/").glob(pattern.lstrip("/"))) for pattern in _PAM_MODULES):
        return "the package libpam-systemd is not installed"
    command = ["unshare", "--mount", "--pid", "--fork", "--net", "true"]
    probe = subprocess.run(command, capture_output=True, text=True, check=False)
    return f"namespaces are not allowed here: {probe.stderr.strip()}" if probe.returncode else None


class Machine:
    """One booted system. A context manager: leaving it ends every process in it."""

    def __init__(self, folder_to_remove: str | None = None, over: Sequence[Path] = ()) -> None:
        """Boot over a copy of this machine's files, or of other folders, the upper ones first."""
        arguments = ["--over", ":".join(map(str, over))] if over else []
        arguments += [folder_to_remove] if folder_to_remove else []
        # A session of its own: Ctrl-C is for pytest, which then closes our end of the pipe.
        self._boot = subprocess.Popen(
            [*BOOT_COMMAND, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self._boot.stdout is not None
        words = self._boot.stdout.readline().split()
        if words[:1] != ["ready"]:
            self._boot.wait()
            raise RuntimeError("systemd did not boot; boot.sh has said why on stderr")
        self.pid = int(words[1])

    def __enter__(self) -> "Machine":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End it, and wait until nothing is left."""
        assert self._boot.stdin is not None and self._boot.stdout is not None
        self._boot.stdin.close()
        self._boot.wait()
        self._boot.stdout.close()

    def command(
        self, argv: Sequence[str], user: "User | None" = None, environment: Mapping[str, str] | None = None
    ) -> list[str]:
        """What to run out here to run `argv` in there, with this environment and no other."""
        command = ["nsenter", "-t", str(self.pid), "-m", "-u", "-i", "-n", "-p", "-C"]
        # setpriv, not runuser: it becomes the command, without a session of PAM's around it.
        become = ["setpriv", f"--reuid={user.uid}", f"--regid={user.uid}", "--init-groups"] if user else []
        if environment is None:
            environment = user.environment if user else BASE_ENVIRONMENT
        settings = [f"{name}={value}" for name, value in environment.items()]
        folder = user.home if user else "/"
        return [*command, "--", *become, "env", "-i", f"--chdir={folder}", *settings, *argv]

    def run(
        self,
        *argv: str,
        user: "User | None" = None,
        environment: Mapping[str, str] | None = None,
        stdin: str = "",
        limit: float = COMMAND_LIMIT_SECONDS,
    ) -> "subprocess.CompletedProcess[str]":
        """Run a command to its end; the exit code is the caller's to look at."""
        command = self.command(argv, user, environment)
        return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=limit, check=False)

    def check(self, *argv: str, user: "User | None" = None, stdin: str = "") -> str:
        """Run a command that must succeed; return what it printed."""
        done = self.run(*argv, user=user, stdin=stdin)
        assert done.returncode == 0, f"{argv} exited with {done.returncode}: {done.stdout}{done.stderr}"
        return done.stdout

    def start(
        self,
        *argv: str,
        user: "User | None" = None,
        environment: Mapping[str, str] | None = None,
        stderr: IO[bytes] | None = None,
    ) -> "subprocess.Popen[bytes]":
        """Start a command with pipes on its stdin and stdout; what it does not say there goes to `stderr`."""
        command = self.command(argv, user, environment)
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr)

    def add_user(self, name: str, *, linger: bool) -> "User":
        """A new user; a lingering one has a service manager of its own, running when this returns."""
        self.check("useradd", "--create-home", "--user-group", "--shell", "/bin/bash", name)
        uid = int(self.check("id", "-u", name))
        if linger:
            self.check("loginctl", "enable-linger", name)
            self.check("systemctl", "start", f"user@{uid}.service")
        return User(name, uid, lingering=linger)

    def end_user(self, user: "User") -> None:
        """End everything that the user runs, in its manager and beside it."""
        if user.lingering:
            self.check("loginctl", "disable-linger", user.name)
            self.run("systemctl", "stop", f"user@{user.uid}.service")
        # Exit code 1: there was none.
        self.run("pkill", "-KILL", "-u", str(user.uid))
        gone = f"every process of {user.name} is gone"
        until(lambda: self.run("pgrep", "-u", str(user.uid)).returncode == 1, gone)


class User:
    """A user of the machine."""

    def __init__(self, name: str, uid: int, *, lingering: bool) -> None:
        self.name = name
        self.uid = uid
        self.lingering = lingering
        self.home = f"/home/{name}"
        self.runtime = f"/run/user/{uid}"

    @property
    def client_environment(self) -> dict[str, str]:
        """The six variables that MCP clients pass on to a server, and no other."""
        return {
            "HOME": self.home,
            "LOGNAME": self.name,
            "PATH": BASE_ENVIRONMENT["PATH"],
            "SHELL": "/bin/bash",
            "TERM": "xterm",
            "USER": self.name,
        }

    @property
    def environment(self) -> dict[str, str]:
        """What a login shell would have."""
        login = {**self.client_environment, "LANG": BASE_ENVIRONMENT["LANG"]}
        if self.lingering:
            bus = f"unix:path={self.runtime}/bus"
            login |= {"XDG_RUNTIME_DIR": self.runtime, "DBUS_SESSION_BUS_ADDRESS": bus}
        return login


def until(condition: Callable[[], object], what: str, limit: float = COMMAND_LIMIT_SECONDS) -> None:
    """Look until the condition holds, and fail when it does not come to hold."""
    deadline = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < deadline, f"after {limit:g} s it is still not so that {what}"
        time.sleep(LOOK_INTERVAL_SECONDS)
