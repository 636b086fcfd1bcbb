"""What stands beside the daemon on loopback: a site with the tests' page, and a port that leads to a Unix socket."""

import contextlib
import http.server
import shutil
import socket
import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PAGES = Path(__file__).parent / "pages"
_KINDS = {".html": "text/html", ".js": "text/javascript"}


def site(**scripts: Path) -> contextlib.AbstractContextManager[int]:
    """A site with the page and more scripts by their names, under whatever name it is asked by; its port."""
    served = {"/": PAGES / "page.html", "/client.js": PAGES / "client.js"}
    served |= {f"/{name}.js": path for name, path in scripts.items()}

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = served.get(self.path)
            if found is None:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Type", f"{_KINDS[found.suffix]}; charset=utf-8")
            self.end_headers()
            self.wfile.write(found.read_bytes())

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing to anybody."""

    return _serving(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page))


def forwarded(path: str) -> contextlib.AbstractContextManager[int]:
    """A port that somebody has put in front of a Unix socket, as with socat."""

    class Forward(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            near: socket.socket = self.request
            with socket.socket(socket.AF_UNIX) as far:
                far.connect(path)
                there = threading.Thread(target=_carry, args=(near, far), daemon=True)
                there.start()
                _carry(far, near)
                there.join()

    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Forward)
    server.daemon_threads = True
    return _serving(server)


def _carry(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        shutil.copyfileobj(source.makefile("rb", buffering=0), sink.makefile("wb", buffering=0))
    for each in (source, sink):
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def _serving(server: socketserver.TCPServer) -> Iterator[int]:
    with server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()
