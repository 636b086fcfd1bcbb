"""The server of upstreams/sdk_http_server.py as a process."""

import subprocess
import sys
from collections.abc import Iterator

from support.daemon import UPSTREAMS


def serve_sdk(*words: str) -> Iterator[str]:
    """Its address, without a path, while it runs."""
    program = str(UPSTREAMS / "sdk_http_server.py")
    command = [sys.executable, "-W", "ignore", program, *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()
