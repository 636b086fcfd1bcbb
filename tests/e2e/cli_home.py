"""A scratch home for tests of the command line: `hearth` as typed in it, bridges attached in it, nothing left of it."""

import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any

from e2e.terminal import Terminal
from support.kernel import kill_all_at_home, pids_at_home, until

HEARTH = os.path.join(os.path.dirname(sys.executable), "hearth")
# One bound for everything that a test waits for; a loaded machine takes seconds to start a daemon.
PATIENCE_SECONDS = 30.0


class Home:
    """HOME and XDG_RUNTIME_DIR in one short folder; every process in it is found again by its HOME."""

    def __init__(self) -> None:
        # Short: a socket's path may have 107 bytes.
        self.folder = tempfile.mkdtemp(prefix="hc-", dir="/tmp")
        self.home = os.path.join(self.folder, "home")
        self.runtime = os.path.join(self.folder, "run")
        self.socket = os.path.join(self.runtime, "mcp", "mcp.sock")
        self.registry = os.path.join(self.runtime, "mcp", "mcp", "daemon.json")
        for folder in (self.home, self.runtime):
            os.makedirs(folder, 0o700)
        self.environment = {
            "HOME": self.home,
            "XDG_RUNTIME_DIR": self.runtime,
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "TERM": "xterm",
        }

    def write_config(self, text: str, profile: str = "") -> str:
        """Write the config of a profile; return its path."""
        folder = os.path.join(self.home, ".config", "hearth", *(["profiles", profile] if profile else []))
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, "config.toml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def configure_demo(self) -> str:
        """A config with the demo server, under a daemon that stays."""
        return self.write_config(
            f'idle_timeout = 0\n[mcpServers.demo]\ncommand = "{sys.executable}"\n'
            'args = ["-I", "-m", "hearth.demo.server"]\n'
        )

    def run(self, *words: str, **changes: str) -> "subprocess.CompletedProcess[str]":
        """`hearth` as typed, with no terminal."""
        return self.run_in(self.home, *words, **changes)

    def run_in(
        self, folder: str, *words: str, stdin: IO[str] | None = None, **changes: str
    ) -> "subprocess.CompletedProcess[str]":
        """Run `hearth` in a folder, with no terminal."""
        return subprocess.run(
            [HEARTH, *words],
            env=self.environment | changes,
            cwd=folder,
            stdin=stdin or subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )

    def ok(self, *words: str, **changes: str) -> str:
        """Run `hearth`, which must succeed; return what it printed."""
        done = self.run(*words, **changes)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def ok_with(self, typed: str, *words: str) -> str:
        """As `ok`, with a text on stdin."""
        with tempfile.TemporaryFile("w+") as stdin:
            stdin.write(typed)
            stdin.seek(0)
            done = self.run_in(self.home, *words, stdin=stdin)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def fails(self, code: int, *words: str, **changes: str) -> str:
        """Run `hearth`, which must end with this code; return what it wrote to stderr."""
        done = self.run(*words, **changes)
        assert done.returncode == code, done.stderr
        return done.stderr

    def refuses(self, code: int, *words: str, **changes: str) -> str:
        """As `fails`, and nothing may be printed on stdout."""
        done = self.run(*words, **changes)
        assert (done.returncode, done.stdout) == (code, ""), done.stderr
        return done.stderr

    def json(self, *words: str) -> Any:
        """What `hearth` printed, which must be JSON and a success."""
        return json.loads(self.ok(*words))

    def shell(self, command: str, **options: Any) -> "subprocess.CompletedProcess[str]":
        """Run a command of a shell, in which `hearth` is the program under test."""
        command = f"hearth() {{ '{HEARTH}' \"$@\"; }}; {command}"
        return subprocess.run(
            ["sh", "-c", command], env=self.environment, capture_output=True, text=True, check=False, **options
        )

    def at_terminal(self, code: int, *words: str, answers: Mapping[str, str] | None = None, **changes: str) -> str:
        """Run `hearth` at a terminal, typing each answer when its question is shown; return what was shown."""
        terminal = Terminal([HEARTH, *words], self.environment | changes)
        for question, answer in (answers or {}).items():
            terminal.read_until(question)
            terminal.type(answer)
        assert terminal.finish() == code, terminal.seen
        return terminal.seen

    def findings(self) -> list[dict[str, Any]]:
        """Return the findings of `hearth doctor`."""
        found: list[dict[str, Any]] = json.loads(self.run("doctor", "--json").stdout)["findings"]
        return found

    def complete(self, line: str) -> list[str]:
        """Return what bash is offered for this line."""
        shown = self.run(COMP_WORDS=line, COMP_CWORD=str(line.count(" ")), _HEARTH_COMPLETE="bash_complete").stdout
        rows = [row.partition(",") for row in shown.split("\n") if row]
        assert {kind for kind, _, _ in rows} <= {"plain"}
        return [name for _, _, name in rows]

    def processes(self) -> list[int]:
        """Every process with this home."""
        return pids_at_home(self.home)

    def clear(self) -> None:
        """End every process, remove every file."""
        # More than once: a bridge may start a daemon between the look and the kill.
        until(lambda: kill_all_at_home(self.home), "nobody is left", PATIENCE_SECONDS)
        shutil.rmtree(self.folder)


class Lines:
    """Lines from a descriptor, each under the one bound."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._buffer = b""

    def next(self) -> bytes:
        """The next line, without its end; empty at the end of the stream."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([self._descriptor], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"nothing came within {PATIENCE_SECONDS:g} s"
            data = os.read(self._descriptor, 65536)
            if not data:
                return b""
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line


@contextmanager
def following(home: Home, *words: str) -> Iterator[Lines]:
    """Yield the lines of `hearth logs -f`."""
    process = subprocess.Popen([HEARTH, "logs", "-f", *words], env=home.environment, stdout=subprocess.PIPE)
    try:
        assert process.stdout
        yield Lines(process.stdout.fileno())
    finally:
        process.kill()
        process.communicate()


class Bridge:
    """An agent's bridge, held by its pipes."""

    def __init__(self, home: Home, *words: str, command: list[str] | None = None) -> None:
        self._ids = 0
        self.process = subprocess.Popen(
            command or [HEARTH, "bridge", *words],
            env=home.environment,
            cwd=home.home,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self.process.stdout
        self._lines = Lines(self.process.stdout.fileno())

    def __enter__(self) -> "Bridge":
        try:
            self.open()
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a request, wait for its answer."""
        self.begin(method, **params)
        return self.answer()

    def answer(self) -> dict[str, Any]:
        """Wait for the answer to the last request."""
        while True:
            line = self._lines.next()
            assert line, "the bridge went away"
            answer: dict[str, Any] = json.loads(line)
            if answer.get("id") == self._ids:
                return answer

    def begin(self, method: str, **params: Any) -> None:
        """Send a request, and do not wait."""
        assert self.process.stdin
        self._ids += 1
        message = {"jsonrpc": "2.0", "id": self._ids, "method": method, "params": params}
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def open(self) -> dict[str, Any]:
        """The handshake; the answer to initialize."""
        client = {"name": "test-agent", "version": "1.0"}
        answer = self.ask("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=client)
        assert self.process.stdin
        self.process.stdin.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        self.process.stdin.flush()
        return answer

    def leave(self) -> int:
        """End its input, wait for its end; its exit code."""
        assert self.process.stdin
        self.process.stdin.close()
        return self.process.wait(PATIENCE_SECONDS)

    def end(self) -> None:
        """Kill and bury it, in whatever state it is."""
        self.process.kill()
        self.process.wait(PATIENCE_SECONDS)
        for stream in (self.process.stdin, self.process.stdout):
            if stream:
                stream.close()


def scratch_home() -> Iterator[Home]:
    """For a fixture: a home that is gone afterwards."""
    home = Home()
    try:
        yield home
    finally:
        home.clear()


def attached_bridge(home: Home) -> Iterator[Bridge]:
    """For a fixture: a bridge with an open session."""
    home.configure_demo()
    with Bridge(home) as bridge:
        yield bridge


def read(path: str) -> str:
    """Return the text of a file, with its line ends as they are."""
    with open(path, encoding="utf-8", newline="") as file:
        return file.read()


def write(path: str, text: str) -> str:
    """Write a file, with its folders; return its path."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write(text)
    return path
