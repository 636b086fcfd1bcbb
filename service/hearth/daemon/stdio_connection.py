"""MCP on standard input and output: the lines of one client, served by the daemon's core without a shared daemon.

The transport behaves like the loop's own, but consists of two threads. Neither delays the process's exit: a thread that
waits in a read or a write is abandoned.
"""

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hearth.daemon.line_connection import LineConnection
from hearth.host.stdio import CHUNK_BYTES, Streams

if TYPE_CHECKING:
    from hearth.daemon.daemon import Daemon

# Chunks that were read and not handled yet: more would only wait in memory instead of in the client's pipe.
UNHANDLED_PIECES = 4


def attend(services: "Daemon", streams: Streams) -> LineConnection:
    """Serve the client at the other end; its working directory is the one that it started us in."""
    transport = StdioTransport(streams)
    wire = LineConnection(services, transport, streams.client, "stdio")
    assert wire.session is not None
    wire.session.identify(wire.session.pid, _folder())
    transport.begin(wire)
    return wire


def _folder() -> str | None:
    try:
        return os.getcwd()
    except OSError:
        # The folder was removed.
        return None


class StdioTransport(asyncio.Transport):
    """Transport over standard input and output. Everything except the threads' own functions is called in the loop."""

    def __init__(self, streams: Streams) -> None:
        super().__init__()
        self._streams = streams
        self._loop = asyncio.get_running_loop()
        self._protocol: asyncio.Protocol | None = None
        self._room = threading.Semaphore(UNHANDLED_PIECES)
        self._change = threading.Condition()
        # Data that waits to be written. The condition guards this and the fields below.
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._high = CHUNK_BYTES
        self._congested = False
        self._closing = False
        self._aborted = False
        self._lost = False

    def begin(self, protocol: asyncio.Protocol) -> None:
        """Start the threads: one reads for that protocol, the other writes its output."""
        self._protocol = protocol
        for work in (self._read_all, self._write_all):
            threading.Thread(target=work, name=f"stdio{work.__name__}", daemon=True).start()

    # --- methods of asyncio.Transport

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._streams if name == "socket" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = CHUNK_BYTES if high is None else high

    def get_write_buffer_size(self) -> int:
        return self._size

    def is_closing(self) -> bool:
        return self._closing

    def write(self, data: "bytes | bytearray | memoryview[Any]") -> None:
        if self._closing:
            return
        with self._change:
            self._waiting.append(bytes(data))
            self._size += len(data)
            self._change.notify()
            is_news = self._size > self._high and not self._congested
            self._congested = self._congested or is_news
        if is_news and self._protocol:
            self._protocol.pause_writing()

    def close(self) -> None:
        """Close once everything is written."""
        with self._change:
            self._closing = True
            self._change.notify()

    def abort(self) -> None:
        with self._change:
            self._closing = self._aborted = True
            self._waiting.clear()
            self._change.notify()
        # Not in the writing thread, which may wait for a reader forever.
        self._loop.call_soon(self._lose, None)

    # --- callbacks in the loop, scheduled by the threads

    def _tell(self, what: Callable[..., None], *arguments: object) -> bool:
        """Call a function in the loop; return False if the loop is closed."""
        try:
            self._loop.call_soon_threadsafe(what, *arguments)
        except RuntimeError:
            return False
        return True

    def _receive(self, data: bytes) -> None:
        try:
            if self._protocol is None or self._lost:
                return
            if data:
                self._protocol.data_received(data)
            elif not self._protocol.eof_received():
                self.close()
        finally:
            self._room.release()

    def _resume(self) -> None:
        if self._protocol and not self._lost:
            self._protocol.resume_writing()

    def _lose(self, problem: Exception | None) -> None:
        self._closing = True
        if self._protocol and not self._lost:
            self._lost = True
            self._protocol.connection_lost(problem)

    # --- functions of the threads

    def _read_all(self) -> None:
        data = b"some"
        while data:
            self._room.acquire()
            data = self._streams.read()
            if not self._tell(self._receive, data):
                break
        self._streams.close_input()

    def _write_all(self) -> None:
        problem = None
        try:
            while data := self._next():
                for begin in range(0, len(data), CHUNK_BYTES):
                    if self._aborted:
                        break
                    piece = data[begin : begin + CHUNK_BYTES]
                    self._streams.write(piece)
                    self._written(len(piece))
        except OSError as exc:
            problem = exc
        self._streams.close_output()
        self._tell(self._lose, problem)

    def _next(self) -> memoryview:
        """Wait for data and return all of it; return nothing when the transport is closing."""
        with self._change:
            while not self._waiting and not self._closing:
                self._change.wait()
            data = b"".join(self._waiting)
            self._waiting.clear()
            return memoryview(data)

    def _written(self, size: int) -> None:
        with self._change:
            self._size -= size
            is_news = self._congested and self._size <= self._high // 4
            self._congested = self._congested and not is_news
        if is_news:
            self._tell(self._resume)
