"""A real second user: programs run as that user, and a fake daemon that records every byte it is sent."""

import contextlib
import os
import pwd
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from support.kernel import BOUND_SECONDS
from support.requirements import needs, needs_program, needs_root

# Listens at the path in its first word, says so, answers everything with the bytes of its third word, and writes what
# it reads to the file in its second.
_FAKE = """
import os, socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
os.chmod(sys.argv[1], 0o666)
listener.listen()
print("listening", flush=True)
while True:
    connection = listener.accept()[0]
    with open(sys.argv[2], "ab", buffering=0) as heard:
        heard.write(b"+")
        while data := connection.recv(65536):
            heard.write(data)
            connection.sendall(sys.argv[3].encode())
"""


def stranger() -> pwd.struct_passwd:
    """Return the second user."""
    needs_root()
    try:
        return pwd.getpwnam("nobody")
    except KeyError:
        needs(False, "a user nobody")
        raise


def python() -> str:
    """Return an interpreter that the second user may run: that of the tests may lie in root's home."""
    return "/usr/bin/python3" if Path("/usr/bin/python3").exists() else sys.executable


def as_stranger(*command: str, groups: tuple[int, ...] = ()) -> list[str]:
    """Return the command line that runs a program as the second user, with these supplementary groups."""
    user = stranger()
    chosen = f"--groups={','.join(map(str, groups))}" if groups else "--clear-groups"
    return [needs_program("setpriv"), f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", chosen, *command]


class FakeDaemon:
    """A listener of the second user's."""

    def __init__(self, path: Path, heard: Path, answer: str) -> None:
        self.path = path
        self._heard = heard
        heard.touch()
        os.chown(heard, stranger().pw_uid, -1)
        command = as_stranger(python(), "-c", _FAKE, str(path), str(heard), answer)
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd="/")
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"listening\n"

    def heard(self) -> bytes:
        """Return what was sent to it, with a plus for each connection."""
        return self._heard.read_bytes()

    def settle(self) -> None:
        """Wait until everything is recorded that was sent so far: connections are served one after the other."""
        with socket.socket(socket.AF_UNIX) as last:
            last.settimeout(BOUND_SECONDS)
            last.connect(str(self.path))
            last.sendall(b"+")
            assert last.recv(1)

    def end(self) -> None:
        """Kill it."""
        self._process.kill()
        self._process.wait(BOUND_SECONDS)
        assert self._process.stdout is not None
        self._process.stdout.close()


@contextlib.contextmanager
def fake_daemon(path: Path, heard: Path, answer: str = "{}") -> Iterator[FakeDaemon]:
    """Run a fake daemon of the second user at that path."""
    fake = FakeDaemon(path, heard, answer)
    try:
        yield fake
    finally:
        fake.end()
