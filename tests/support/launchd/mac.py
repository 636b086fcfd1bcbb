"""The command line as if on macOS: the platform has another name; its paths and its service manager follow from it."""

import subprocess
import sys
from pathlib import Path

# Before anything is imported: modules choose by it. Linux has no LOCAL_PEERCRED, so its option tells the peer's uid.
AS_ON_A_MAC = """
import sys
sys.platform = "darwin"
from socket import SO_PEERCRED, SOL_SOCKET
from hearth import socket_trust
socket_trust.peer_uid = lambda sock: int.from_bytes(sock.getsockopt(SOL_SOCKET, SO_PEERCRED, 12)[4:8], sys.byteorder)
from hearth.__main__ import main
sys.argv[0] = "hearth"
sys.exit(main())
"""


def hearth(home: Path, path: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """`hearth ARGUMENTS` in this home, on this PATH."""
    command = [sys.executable, "-I", "-c", AS_ON_A_MAC, *arguments]
    environment = {"HOME": str(home), "PATH": path}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=90, check=False)
