"""The socket's own language, spoken by a test: control requests, and a session that is no bridge."""

import json
import socket
from typing import Any

from hearth.wire.frames import PROTOCOL_VERSION, FrameDecoder, encode
from support.chaos.home import Home
from support.kernel import BOUND_SECONDS

Header = dict[str, Any]


class Framed:
    """One connection that speaks frames."""

    def __init__(self, home: Home) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(BOUND_SECONDS)
        self._decoder = FrameDecoder()
        self._arrived: list[tuple[Header, bytes]] = []
        try:
            self._socket.connect(str(home.socket))
        except OSError:
            self._socket.close()
            raise

    def __enter__(self) -> "Framed":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, payload: bytes = b"", **header: Any) -> None:
        """Write one frame."""
        self._socket.sendall(encode(json.dumps(header).encode(), payload))

    def receive(self, kind: str) -> tuple[Header, bytes]:
        """The next frame of that type; others before it are passed over. EOFError at the end."""
        while True:
            while self._arrived:
                header, payload = self._arrived.pop(0)
                if header["type"] == kind:
                    return header, payload
            data = self._socket.recv(1 << 16)
            if not data:
                raise EOFError(f"the daemon hung up before it sent {kind!r}")
            frames = self._decoder.receive_data(data)
            self._arrived += [(json.loads(header), payload) for header, payload in frames]

    def greet(self, line: bytes | None = None) -> Header:
        """Open a session, as a bridge does with a line right behind; return what the daemon said."""
        self.send(type="hello", protocol=PROTOCOL_VERSION, version="0", pid=0, clientId="chaos")
        if line is not None:
            self.send(line, type="mcp", seq=1)
        return self.receive("helloAck")[0]


def status(home: Home) -> dict[str, Any]:
    """The status document of the daemon that runs."""
    with Framed(home) as connection:
        connection.send(type="status", seq=1)
        return json.loads(connection.receive("status")[1])


def restart(home: Home) -> None:
    """Ask the daemon politely to go and be started anew; returns when it has gone."""
    with Framed(home) as connection:
        connection.send(type="shutdown", seq=1, restart=True)
        assert connection.receive("shutdown")[0]["ok"]
        try:
            connection.receive("nothing more")
        except (EOFError, ConnectionResetError):
            return
