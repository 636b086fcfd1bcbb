"""Token for HTTP over TCP, where the kernel does not identify the peer: one file, readable by this user only.

The daemon and the command line share this module. Rotating the token locks out every client with the old one at once.
"""

import os
import re
import secrets
import stat

from hearth import places
from hearth.errors import FileAccessError
from hearth.host import folders, private_files, system

_BYTES = 32
_LIMIT_BYTES = 1024
# Format of `rotate`: 256 random bits. A token that a person made up can be guessed.
_FORM = re.compile(r"[A-Za-z0-9_-]{43}")


def path() -> str:
    """Return the path of the token's file; all profiles share it."""
    return os.path.join(places.state_dir(), "http", "token")


def read() -> str | None:
    """Return the token, or None without one. Raises FileAccessError for a file that cannot be used."""
    file = path()
    try:
        found = private_files.read(file, _LIMIT_BYTES).decode("ascii").strip()
        if found:
            _check(file, found)
    except OSError as exc:
        raise folders.refusal("read", file, exc) from exc
    except ValueError as exc:
        raise FileAccessError(f"{file} is no token ({exc}); `hearth token rotate` makes a new one") from exc
    return found or None


def _check(file: str, token: str) -> None:
    """Raise ValueError for a token that others may know or guess."""
    mode = os.lstat(file).st_mode
    if not stat.S_ISREG(mode):
        raise ValueError("it is a link to another file")
    if not system.is_windows() and stat.S_IMODE(mode) & 0o077:
        raise ValueError(f"others can read or write it: its mode is {stat.S_IMODE(mode):04o}, not 0600")
    if not _FORM.fullmatch(token):
        raise ValueError("it has other content than one line of 43 letters, digits, - and _")


class Current:
    """Reader of the token for checks on every request: a rotated token is refused from the next request on."""

    def __init__(self) -> None:
        self._path = path()
        self._seen: tuple[int, ...] | None = None
        self._token: str | None = None

    def read(self) -> str | None:
        """Return the token, or None without one; read the file only if it was replaced. Raises FileAccessError."""
        try:
            found = os.stat(self._path)
        except OSError:
            return read()
        # Rotation creates a new file.
        seen = (found.st_ino, found.st_ctime_ns, found.st_mtime_ns, found.st_size)
        if seen != self._seen:
            self._token, self._seen = read(), seen
        return self._token


def ensure() -> str:
    """Return the token; create one if there is none. Raises FileAccessError."""
    return read() or rotate()


def rotate() -> str:
    """Create a new token and return it. Raises FileAccessError."""
    file = path()
    folders.make_private(os.path.dirname(file))
    token = secrets.token_urlsafe(_BYTES)
    try:
        private_files.write(file, f"{token}\n".encode(), durable=True)
    except OSError as exc:
        raise folders.refusal("write", file, exc) from exc
    return token
