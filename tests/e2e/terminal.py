"""`hearth` on a terminal: a pseudo-terminal that a test reads from and types into."""

import codecs
import os
import pty
import select
import subprocess
import time
from collections.abc import Mapping, Sequence

PATIENCE_SECONDS = 30.0
# Before a key is pressed once more.
KEY_SECONDS = 2.0


class Terminal:
    """A command with a terminal as its stdin, stdout and stderr."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._master, slave = pty.openpty()
        self.seen = ""
        # A read may end in the middle of a character.
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self.process = subprocess.Popen(
            # Ctrl-C is a signal only on a controlling terminal, and only who was not begun with signals ignored hears
            # any. Both programs become the command, with the same pid.
            ["env", "--default-signal", "setsid", "--ctty", *command],
            env=dict(environment),
            stdin=slave,
            stdout=slave,
            stderr=slave,
        )
        os.close(slave)

    def read_until(self, text: str) -> str:
        """Read until the text has been shown; everything that was shown so far."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while text not in self.seen:
            assert self._read(deadline), f"it ended, or time ran out, without {text!r}: {self.seen!r}"
        return self.seen

    def type(self, text: str) -> None:
        """Type on the keyboard."""
        os.write(self._master, text.encode())

    def interrupt(self) -> int:
        """Press Ctrl-C until it ends; the exit code.

        Once is not enough for certain: between its looking for signals and its waiting for a key, readline misses one.
        """
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            self.type("\x03")
            while self._is_ready(time.monotonic() + KEY_SECONDS):
                if not self._read(deadline):
                    return self.finish()
        return self.finish()

    def finish(self) -> int:
        """Read to the end; the exit code."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self._read(deadline):
            pass
        os.close(self._master)
        return self.process.wait(PATIENCE_SECONDS)

    def _is_ready(self, deadline: float) -> bool:
        return bool(select.select([self._master], [], [], max(0.0, deadline - time.monotonic()))[0])

    def _read(self, deadline: float) -> bool:
        if not self._is_ready(deadline):
            return False
        try:
            data = os.read(self._master, 65536)
        except OSError:
            # EIO: the last process on the terminal has gone.
            return False
        self.seen += self._decoder.decode(data)
        return bool(data)
