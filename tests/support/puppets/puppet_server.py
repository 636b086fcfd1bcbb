"""A server that the test itself speaks for: what comes on stdin goes to the Unix socket that is given, and back.

    puppet_server.py SOCKET

Standard library only. It knows nothing of MCP.
"""

import os
import select
import signal
import socket
import sys

CHUNK_BYTES = 1 << 16
# A server that a broken test loses ends by itself; longer than any test's own limit.
LIFETIME_SECONDS = 600


def main() -> None:
    """Carry both ways until either end closes."""
    signal.alarm(LIFETIME_SECONDS)
    strings = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    strings.connect(sys.argv[1])
    while True:
        readable, _, _ = select.select([0, strings.fileno()], [], [])
        if 0 in readable:
            data = os.read(0, CHUNK_BYTES)
            if not data:
                return
            strings.sendall(data)
        if strings.fileno() in readable:
            data = strings.recv(CHUNK_BYTES)
            if not data:
                return
            view = memoryview(data)
            while view:
                view = view[os.write(1, view) :]


main()
