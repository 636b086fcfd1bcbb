"""An HTTP/1.1 server of a few lines, in a thread of its own, that lets a test see and do what libraries hide.

It keeps every request, tells when a client has closed a response, and can break a connection at any byte. What it finds
wrong with a request goes into `faults`, which must be empty at the end.
"""

import asyncio
import json
import ssl
import threading
from collections.abc import Coroutine
from typing import Any, NamedTuple, Self, TypeVar

from support.kernel import BOUND_SECONDS

Result = TypeVar("Result")


class Request(NamedTuple):
    """One request. Names of headers are in lower case."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def message(self) -> Any:
        """The JSON in its body."""
        return json.loads(self.body)


class Reply:
    """The answer to one request. `gone` is set once the client has closed the connection."""

    def __init__(self, writer: asyncio.StreamWriter, gone: asyncio.Event) -> None:
        self._writer = writer
        self.gone = gone
        self.begun = False
        self.ended = False

    async def send(self, status: int, body: bytes = b"", kind: str = "text/plain", **headers: str) -> None:
        """A whole answer."""
        described = {"Content-Type": kind} if body else {}
        self._begin(status, {**described, "Content-Length": str(len(body)), **_named(headers)})
        self._writer.write(body)
        await self._drain()
        self.ended = True

    async def json(self, value: object, status: int = 200, **headers: str) -> None:
        """A whole answer in JSON."""
        await self.send(status, json.dumps(value).encode(), "application/json", **headers)

    async def stream(self, **headers: str) -> None:
        """The beginning of a stream of events."""
        self._begin(200, {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked", **_named(headers)})
        await self._drain()

    async def event(self, value: object, id: str | None = None, name: str | None = None) -> None:
        """One event, with a JSON value, or with text as it is."""
        fields = [("event", name), ("id", id), ("data", value if isinstance(value, str) else json.dumps(value))]
        await self.raw("".join(f"{key}: {item}\n" for key, item in fields if item is not None).encode() + b"\n")

    async def raw(self, data: bytes) -> None:
        """Bytes of the stream."""
        self._writer.write(b"%x\r\n%b\r\n" % (len(data), data))
        await self._drain()

    async def end(self) -> None:
        """The stream's proper end."""
        self._writer.write(b"0\r\n\r\n")
        await self._drain()
        self.ended = True

    def break_off(self) -> None:
        """Close the connection in the middle of whatever is being said."""
        self._writer.transport.abort()

    def _begin(self, status: int, headers: dict[str, str]) -> None:
        self.begun = True
        lines = [f"HTTP/1.1 {status} Status", *(f"{name}: {value}" for name, value in headers.items())]
        self._writer.write("\r\n".join(lines).encode() + b"\r\n\r\n")

    async def _drain(self) -> None:
        try:
            await self._writer.drain()
        except ConnectionError:
            self.gone.set()


def _named(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


class Site:
    """The server. Subclasses say what is served."""

    def __init__(self, unix: str | None = None, tls: ssl.SSLContext | None = None, path: str = "/mcp") -> None:
        self.requests: list[Request] = []
        self.faults: list[str] = []
        self.path = path
        self.port = 0
        self._unix = unix
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    async def serve(self, request: Request, reply: Reply) -> None:
        """Answer a request."""
        raise NotImplementedError

    async def receive(self, reader: asyncio.StreamReader) -> Request:
        """The next request of a connection."""
        return await read_request(reader)

    @property
    def url(self) -> str:
        """The address for a server's entry."""
        if self._unix:
            return f"unix:{self._unix}" + ("" if self.path == "/mcp" else f":{self.path}")
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}{self.path}"

    def __enter__(self) -> Self:
        self._thread.start()
        self.open()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(BOUND_SECONDS)
        self._loop.close()
        assert kind is not None or not self.faults, self.faults

    def open(self) -> None:
        """Listen, on the same port as before if there was one."""
        self.do(self._open())

    def close(self) -> None:
        """Stop listening and break every connection."""
        self.do(self._close())

    def do(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run something where the server runs."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(BOUND_SECONDS)

    def seen(self, method: str) -> list[Request]:
        """The requests with that method of HTTP, or that method of JSON-RPC."""
        if method.isupper():
            return [request for request in list(self.requests) if request.method == method]
        return [found for found in self.seen("POST") if found.body and _method(found.message) == method]

    async def _open(self) -> None:
        if self._unix:
            self._server = await asyncio.start_unix_server(self._accept, self._unix)
        else:
            self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port, ssl=self._tls)
            self.port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        if self._server:
            # First nobody is accepted: asyncio leaves a connection open whose server is closed before its task began.
            for listener in self._server.sockets:
                self._loop.remove_reader(listener.fileno())
            await _turns()
            self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        # Not only the handlers: a connection may be in the middle of its TLS handshake.
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        # Transports that were aborted are closed in the next turns; with TLS there is one below the other.
        await _turns()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            await self.converse(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError, ssl.SSLError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        while request := await self.receive(reader):
            self.requests.append(request)
            if not await self._answer(request, reader, writer):
                break

    async def _answer(self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Returns whether the connection is good for another request."""
        reply = Reply(writer, asyncio.Event())
        watching = asyncio.ensure_future(_watch(reader, reply.gone))
        try:
            await self.serve(request, reply)
        except Exception as exc:
            self.faults.append(f"{type(exc).__name__}: {exc}")
        finally:
            watching.cancel()
            await asyncio.wait([watching])
        return reply.ended and not reply.gone.is_set()


async def _turns() -> None:
    """Let the loop do what it has been given."""
    for _ in range(5):
        await asyncio.sleep(0)


def _method(message: Any) -> object:
    return message.get("method") if isinstance(message, dict) else None


async def _watch(reader: asyncio.StreamReader, gone: asyncio.Event) -> None:
    # A client sends nothing before it has the answer, so whatever can be read is the end.
    while not reader.at_eof():
        await asyncio.sleep(0.005)
    gone.set()


async def read_request(reader: asyncio.StreamReader) -> Request:
    """One request, from a connection on which it may take its time."""
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")[:-2]
    method, target, _ = first.split(" ")
    pairs = [line.split(":", 1) for line in lines]
    headers = {name.lower(): value.strip() for name, value in pairs}
    return Request(method, target, headers, await reader.readexactly(int(headers.get("content-length", "0"))))
