"""An MCP server on stdio that speaks one revision and refuses the other era's words.

    revision_server.py REVISION [FILE]

FILE gets a line for everything that was received and that a server of this revision must never get.
"""

import json
import os
import signal
import sys
from collections.abc import Iterator

sys.path.insert(0, os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", "..")))

from support.conformance.revisions import REVISIONS, is_modern
from support.conformance.upstreams.legacy import LegacyServer
from support.conformance.upstreams.modern import ModernServer

CHUNK_BYTES = 1 << 16
# A server that a broken test loses ends by itself; longer than any test's own limit.
LIFETIME_SECONDS = 600


def lines() -> Iterator[bytes]:
    """Every line of stdin until its end."""
    rest = b""
    while chunk := os.read(0, CHUNK_BYTES):
        *whole, rest = (rest + chunk).split(b"\n")
        yield from whole


def write(descriptor: int, data: bytes) -> None:
    """All of it, however small the pipe."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def main() -> None:
    """Serve until stdin ends."""
    signal.alarm(LIFETIME_SECONDS)
    revision, *files = sys.argv[1:]
    assert revision in REVISIONS
    server = ModernServer(revision) if is_modern(revision) else LegacyServer(revision)
    record = os.open(files[0], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600) if files else 2
    for line in lines():
        message = json.loads(line)
        # Not ASCII: a peer has to take UTF-8 as it is.
        answers = [json.dumps(answer, ensure_ascii=False).encode() + b"\n" for answer in server.receive(message)]
        for complaint in server.complaints:
            write(record, f"{revision}: {complaint} in {message}\n".encode())
        server.complaints.clear()
        write(1, b"".join(answers))


main()
