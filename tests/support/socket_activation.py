"""A socket that somebody else holds, who starts the daemon at the first connection: systemd-socket-activate."""

import os
import signal
import subprocess
from pathlib import Path

from support.daemon import COMMAND, Scratch
from support.kernel import BOUND_SECONDS
from support.requirements import needs_program


class Activation:
    """A holder of the socket that starts the daemon at the first connection, once."""

    def __init__(
        self, scratch: Scratch, command: tuple[str, ...] = COMMAND, fdname: str = "mcp", **environment: str
    ) -> None:
        Path(scratch.socket).parent.mkdir(mode=0o700, exist_ok=True)
        program = needs_program("systemd-socket-activate")
        variables = scratch.environment(**environment)
        passed = [word for name, value in variables.items() for word in ("-E", f"{name}={value}")]
        self.process = subprocess.Popen(
            [program, f"--fdname={fdname}", f"--listen={scratch.socket}", *passed, *command],
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        assert self.process.stderr
        # The file is there before anybody listens on it; this is said when somebody does.
        while not (line := self.process.stderr.readline()).startswith(b"Listening on"):
            assert line, "systemd-socket-activate ended"
        self.inode = os.lstat(scratch.socket).st_ino

    def end(self) -> int:
        """Tell the daemon, into which this process has turned, to end; returns the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(BOUND_SECONDS)
        finally:
            self.process.kill()
            self.process.wait()
            assert self.process.stderr
            self.process.stderr.close()
