"""A web server that throws back the address and the headers that it was sent, in every place that HTTP has for it."""

import socket
import threading
from typing import Self


class ReflectingSite:
    """Answers by the first part of the path: a status such as `/401`, `/redirect`, `/broken` (no HTTP) or `/torn`."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.seen: list[str] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # Closing alone would not wake the thread that waits in accept.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def url(self, path: str, user: str = "") -> str:
        return f"http://{user}127.0.0.1:{self.port}/{path}"

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(10)
                try:
                    connection.sendall(self._answer(self._read(connection)))
                except OSError:
                    continue

    def _read(self, connection: socket.socket) -> str:
        data = b""
        while b"\r\n\r\n" not in data:
            if not (chunk := connection.recv(65536)):
                break
            data += chunk
        text = data.decode("latin-1")
        self.seen.append(text)
        return text

    def _answer(self, request: str) -> bytes:
        target = request.split(" ")[1] if " " in request else "/"
        kind = target.split("/")[1].partition("?")[0]
        flat = " ".join(request.split())
        if kind == "broken":
            return f"HTTP/1.1 200 OK\r\n{flat}\r\n\r\n".encode("latin-1")
        if kind == "redirect":
            return self._response(
                "307 Moved", f"Location: http://localhost:{self.port}{target}&{flat.replace(' ', '+')}"
            )
        if kind == "torn":
            return f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9999\r\n\r\n{flat}".encode(
                "latin-1"
            )
        reason = f"{kind} {flat}" if kind.isdigit() else f"404 {flat}"
        return self._response(reason, f'WWW-Authenticate: Bearer realm="{flat}"', flat)

    def _response(self, status: str, header: str, body: str = "") -> bytes:
        head = f"HTTP/1.1 {status}\r\n{header}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        return (head + body).encode("latin-1")
