"""Client of systemd's journal in its native protocol: one datagram with fields for each record (sd_journal_print(3)).

A few lines of standard library, so that fields need no package: systemd-python, which does the same, has to be compiled
against libsystemd. This module knows nothing about the records.
"""

import os
import socket
import sys
from collections.abc import Mapping

SOCKET = "/run/systemd/journal/socket"
# A datagram has to fit into the socket's buffer (208 KiB by default). Longer values are cut: no record needs more.
VALUE_LIMIT_BYTES = 64 * 1024


def is_behind_stderr() -> bool:
    """Tell whether stderr goes to the journal: systemd names that stream in JOURNAL_STREAM (systemd.exec(5)).

    A unit may send stderr elsewhere (StandardError=), and the log is then expected there.
    """
    if sys.platform == "win32":
        return False
    try:
        found = os.fstat(2)
    except OSError:
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{found.st_dev}:{found.st_ino}"


def encode(fields: Mapping[str, str]) -> bytes:
    """Encode a record as a datagram. A value of several lines follows its length, any other follows a `=`."""
    parts = []
    for name, value in fields.items():
        data = value.encode("utf-8", "replace")[:VALUE_LIMIT_BYTES]
        key = name.encode("ascii")
        if b"\n" in data:
            parts.append(key + b"\n" + len(data).to_bytes(8, "little") + data + b"\n")
        else:
            parts.append(key + b"=" + data + b"\n")
    return b"".join(parts)


class Journal:
    """Connection to the journal, for the life of a process."""

    def __init__(self, path: str = SOCKET) -> None:
        self._path = path
        self._socket: socket.socket | None = None
        # Number of records lost since the last one that was sent.
        self._lost = 0

    def send(self, fields: Mapping[str, str]) -> bool:
        """Send a record; return False if no journal listens. Never waits: a journal that hangs costs records."""
        if sys.platform == "win32":
            return False
        lost = {"HEARTH_LOST": str(self._lost)} if self._lost else {}
        try:
            if self._socket is None:
                self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
                self._socket.setblocking(False)
            # To its address each time: the journal may have been restarted.
            self._socket.sendto(encode({**fields, **lost}), self._path)
        except BlockingIOError:
            self._lost += 1
            return True
        except OSError:
            return False
        self._lost = 0
        return True

    def close(self) -> None:
        """Close the socket."""
        if self._socket:
            self._socket.close()
            self._socket = None
