"""`hearth serve --transport stdio` as its client runs it: a child, its two pipes, and what it says on stderr."""

import contextlib
import fcntl
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import IO, Any

import pytest

from support.clients import Client, Closed
from support.daemon import Scratch
from support.installation import Installation
from support.kernel import BOUND_SECONDS

SERVE = (sys.executable, "-I", "-m", "hearth", "serve", "--transport")


class StdioServer(Client):
    """A client and the server that it started. `words` come after the transport."""

    def __init__(
        self,
        scratch: Scratch,
        *words: str,
        transport: str = "stdio",
        python: str = sys.executable,
        stderr: int | None = None,
    ) -> None:
        self._last_id = 0
        self.aside = []
        self._buffer = bytearray()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        self.process = subprocess.Popen(
            [python, *SERVE[1:], transport, *words],
            env=scratch.environment(),
            cwd=scratch.home,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors if stderr is None else stderr,
            bufsize=0,
        )
        assert self.process.stdin and self.process.stdout
        self.input: IO[bytes] = self.process.stdin
        self.output: IO[bytes] = self.process.stdout
        scratch.own(self)

    def send_line(self, line: bytes) -> None:
        self.input.write(line + b"\n")

    def receive_line(self) -> bytes:
        while (end := self._buffer.find(b"\n")) < 0:
            assert select.select([self.output], [], [], BOUND_SECONDS)[0], f"nothing came; {self.stderr()}"
            data = self.output.read(1 << 16)
            if not data:
                raise Closed(f"with {bytes(self._buffer[:200])!r} unread; {self.stderr()}")
            self._buffer += data
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line

    def rest(self) -> list[bytes]:
        """Every line up to the end of its output."""
        lines = []
        try:
            while True:
                lines.append(self.receive_line())
        except Closed:
            assert not self._buffer, f"half a line: {bytes(self._buffer)!r}"
            return lines

    def end_input(self) -> None:
        self.input.close()

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self) -> int:
        """The exit code."""
        return self.process.wait(BOUND_SECONDS)

    def stderr(self) -> str:
        self._errors.seek(0)
        return self._errors.read().decode()

    def close(self) -> None:
        for file in (self.input, self.output):
            file.close()
        try:
            if self.process.poll() is None:
                self.signal(signal.SIGTERM)
                self.wait()
        finally:
            self.process.kill()
            self.process.wait()
            self._errors.close()


def blocks(descriptor: int) -> bool:
    """Whether calls on it wait, for everybody who has it open."""
    return not fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_NONBLOCK


def run(scratch: Scratch, *words: str, **more: Any) -> "subprocess.CompletedProcess[bytes]":
    """Until it ends."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "timeout": BOUND_SECONDS, **more}
    command = [*SERVE, "stdio", *words]
    return subprocess.run(command, env=scratch.environment(), cwd=scratch.home, check=False, **options)


def started(scratch: Scratch, **pipes: Any) -> "subprocess.Popen[bytes]":
    """Start it on these pipes."""
    return subprocess.Popen([*SERVE, "stdio"], env=scratch.environment(), **{"stderr": subprocess.DEVNULL, **pipes})


def with_http(scratch: Scratch, **more: Any) -> StdioServer:
    """One that serves a port as well."""
    return StdioServer(scratch, "--http-port", "0", transport="both", **more)


def broken_python(scratch: Scratch, module: str) -> str:
    """The interpreter of an installation in which that module is empty."""
    installation = Installation(scratch.home / "venv")
    installation.truncate(module)
    return str(installation.python)


@contextlib.contextmanager
def pipe() -> Iterator[tuple[int, int]]:
    """Both ends, until they are not needed."""
    ends = os.pipe()
    try:
        yield ends
    finally:
        for end in ends:
            os.close(end)


def fill(pipe: int) -> None:
    """Write until nothing more fits."""
    os.set_blocking(pipe, False)
    for piece in (bytes(1 << 12), b" "):
        with pytest.raises(BlockingIOError):
            while True:
                os.write(pipe, piece)
    os.set_blocking(pipe, True)
