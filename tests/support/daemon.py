"""A real daemon in a scratch home: started, waited for by its ready pipe, ended, and proved gone by the kernel."""

import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

from support.clients import FramesClient, LinesClient, Message
from support.kernel import BOUND_SECONDS, describe, pids_at_home, until

UPSTREAMS = Path(__file__).parent / "upstreams"
COMMAND = (sys.executable, "-I", "-m", "hearth.daemon")
# What the tests themselves must hand on: the measuring of coverage in children.
_PASSED_ON = ("PATH", "LANG", "COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG", "COVERAGE_FILE")


class Closable(Protocol):
    """What is closed with the scratch home."""

    def close(self) -> None: ...


AnyClient = TypeVar("AnyClient", bound=Closable)


def server(name: str, *words: object, **keys: object) -> dict[str, object]:
    """The config entry of one of the small servers in `upstreams`."""
    program = str(UPSTREAMS / f"{name}_server.py")
    return {"command": sys.executable, "args": ["-I", "-S", program, *map(str, words)], **keys}


def toml(settings: Mapping[str, object], servers: Mapping[str, Mapping[str, object]]) -> str:
    """A config file."""
    lines = [f"{key} = {_toml_value(value)}" for key, value in settings.items()]
    for name, entry in servers.items():
        lines.append(f"[mcpServers.{json.dumps(name)}]")
        lines += [f"{key} = {_toml_value(value)}" for key, value in entry.items()]
    return "\n".join(lines) + "\n"


def _toml_value(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {_toml_value(item)}" for key, item in value.items()) + "}"
    # JSON's scalars and arrays are TOML's too.
    return json.dumps(value)


# Becomes the program in its words, with the descriptor in its first word as the socket that was handed over.
_HAND_OVER = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()))
os.execv(sys.argv[2], sys.argv[2:])
"""


def handing_over(listener: socket.socket, command: tuple[str, ...]) -> tuple[str, ...]:
    """A command that starts a daemon as a service manager does, which keeps its own copy of the listener."""
    return (sys.executable, "-I", "-S", "-c", _HAND_OVER, str(listener.fileno()), *command)


class Scratch:
    """A home of its own under a short path, and everything that was started in it."""

    def __init__(self) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="h", dir="/tmp"))
        self.runtime = self.home / "run"
        self.runtime.mkdir(mode=0o700)
        self.folder = self.runtime / "mcp" / "mcp"
        self.socket = str(self.runtime / "mcp" / "mcp.sock")
        self.registry = self.folder / "daemon.json"
        self.config = self.home / ".config" / "hearth" / "config.toml"
        self.log = self.home / ".local" / "state" / "hearth" / "logs" / "mcp.log"
        self._daemons: list[Daemon] = []
        self._clients: list[Closable] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def environment(self, **more: str) -> dict[str, str]:
        passed = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        return {**passed, "HOME": str(self.home), "XDG_RUNTIME_DIR": str(self.runtime), **more}

    def configure(self, servers: Mapping[str, Mapping[str, object]] | None = None, **settings: object) -> None:
        """Write the config file; dots in keys are written as `owner__approve`."""
        dotted = {key.replace("__", "."): value for key, value in settings.items()}
        self.write_config(toml(dotted, servers or {}))

    def write_config(self, text: str) -> None:
        """Replace the file as an editor does, so that its inode changes with it."""
        self.config.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.config.with_suffix(".new")
        temporary.write_text(text)
        temporary.rename(self.config)

    def start(
        self, *arguments: str, command: tuple[str, ...] = COMMAND, fds: tuple[int, ...] = (), **environment: str
    ) -> "Daemon":
        """Start a daemon and wait until it listens; the test fails when it does not."""
        daemon = self.attempt(*arguments, command=command, fds=fds, **environment)
        assert daemon.said == "ok\n", f"{daemon.said!r}; {daemon.stderr()}"
        return daemon

    def serve(self, servers: Mapping[str, Mapping[str, object]] | None = None, **settings: object) -> "Daemon":
        """Write the config file and start a daemon on it."""
        self.configure(servers, **settings)
        return self.start()

    def reload(self) -> None:
        """Have the config file read again; the test fails when it is refused."""
        assert self.control().control("reload")[0]["ok"] is True

    def reconfigure(self, servers: Mapping[str, Mapping[str, object]] | None = None, **settings: object) -> None:
        """Write the config file and have it read again."""
        self.configure(servers, **settings)
        self.reload()

    def attempt(
        self, *arguments: str, command: tuple[str, ...] = COMMAND, fds: tuple[int, ...] = (), **environment: str
    ) -> "Daemon":
        """Start a daemon, with descriptors that it is to inherit, and wait for what it has to say."""
        daemon = Daemon(self, [*command, *arguments], self.environment(**environment), fds)
        self._daemons.append(daemon)
        daemon.wait_ready()
        return daemon

    def own(self, client: AnyClient) -> AnyClient:
        """Close the client with the scratch home."""
        self._clients.append(client)
        return client

    def lines(self) -> LinesClient:
        return self.own(LinesClient(self.socket))

    def frames(self, **hello: object) -> FramesClient:
        """A client with an open session."""
        return self.own(FramesClient(self.socket, hello))

    def control(self) -> FramesClient:
        """A connection that is no session."""
        return self.own(FramesClient(self.socket))

    def status(self) -> Message:
        with FramesClient(self.socket) as client:
            found: Message = json.loads(client.control("status")[1])
            return found

    def upstream(self, name: str) -> Message:
        """One server's part of the status."""
        found: Message = next(item for item in self.status()["upstreams"] if item["name"] == name)
        return found

    def hearth(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """Run the command line to its end."""
        return subprocess.run(
            [sys.executable, "-I", "-m", "hearth", *words],
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=BOUND_SECONDS,
            check=False,
        )

    def findings(self) -> dict[str, Message]:
        """What `hearth doctor` finds, by its name."""
        return {each["id"]: each for each in json.loads(self.hearth("doctor", "--json").stdout)["findings"]}

    def logged(self) -> str:
        return self.log.read_text() if self.log.exists() else ""

    def close(self) -> None:
        """End everything; the kernel must know no process of this home afterwards."""
        for client in self._clients:
            client.close()
        try:
            for daemon in self._daemons:
                daemon.end()
            left = pids_at_home(str(self.home))
            assert not left, f"left over: {describe(left)}"
        finally:
            for pid in pids_at_home(str(self.home)):
                os.kill(pid, signal.SIGKILL)
            shutil.rmtree(self.home, ignore_errors=True)


class Daemon:
    """One started daemon. `process` is its watcher, which ends after it with its exit code."""

    def __init__(self, scratch: Scratch, command: list[str], environment: dict[str, str], fds: tuple[int, ...]) -> None:
        self._scratch = scratch
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by end()
        self._ready, told = os.pipe()
        self.said = ""
        try:
            self.process = subprocess.Popen(
                [*command, "--ready-fd", str(told)],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=self._errors,
                stderr=self._errors,
                pass_fds=(told, *fds),
                cwd="/",
            )
        finally:
            os.close(told)

    def wait_ready(self) -> None:
        """Until the daemon has said how its start ended, or is dead."""
        said = b""
        while select.select([self._ready], [], [], BOUND_SECONDS)[0]:
            data = os.read(self._ready, 4096)
            if not data:
                break
            said += data
        else:
            raise AssertionError(f"nothing on the ready pipe: {self.stderr()}")
        os.close(self._ready)
        self._ready = -1
        self.said = said.decode()

    @property
    def pid(self) -> int:
        """The daemon's own pid, by its registry entry."""
        found: dict[str, Any] = json.loads(self._scratch.registry.read_text())
        return int(found["pid"])

    def lines(self) -> LinesClient:
        return self._scratch.lines()

    def frames(self, **hello: object) -> FramesClient:
        return self._scratch.frames(**hello)

    def stderr(self) -> str:
        self._errors.seek(0)
        return self._errors.read().decode()

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self) -> int:
        """The exit code."""
        return self.process.wait(BOUND_SECONDS)

    def stop(self) -> int:
        """Ask it to end; returns the exit code."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def end(self) -> None:
        """Whatever state the test left it in. A daemon that does not end when it is asked to fails the test."""
        if self._ready >= 0:
            os.close(self._ready)
        try:
            if self.process.poll() is None:
                self.signal(signal.SIGCONT)
                self.stop()
        except subprocess.TimeoutExpired as exc:
            raise AssertionError(f"the daemon did not end; its log: {self._scratch.logged()[-2000:]}") from exc
        finally:
            self.process.kill()
            self.process.wait()
            self._errors.close()


def pids_of(scratch: Scratch, name: str) -> list[int]:
    """The pids of a server's processes by the status, once it runs."""

    def running() -> list[int]:
        found: list[int] = scratch.upstream(name)["pids"]
        return found

    return until(running, f"server {name!r} runs")


def noted(ledger: Path, line: str) -> None:
    """Wait until a server has written that line into its ledger."""
    until(lambda: ledger.exists() and line in ledger.read_text().splitlines(), f"the server notes {line!r}")
