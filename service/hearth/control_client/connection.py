"""Control connection: request a running daemon's status, a reload, a shutdown. Blocking, frames over a socket.

Never starts a daemon: callers have read the registry first (see `running_daemon`). A control connection is not a
session; the daemon neither counts it nor waits for it.
"""

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

from hearth.errors import FrameError, Refused, TurnedAway, Unreachable, WireError
from hearth.host import listening, system
from hearth.wire.frames import FrameDecoder, encode

# A daemon whose event loop runs accepts and answers at once; five seconds allow for a loaded machine.
ANSWER_SECONDS = 5.0
# A reload reads the file and may search for programs on slow disks before it answers.
RELOAD_SECONDS = 30.0
# Thousands of tools are read from the catalog cache, indexed and sent.
TOOLS_SECONDS = 30.0
# The store of agents may have to be opened first, on a slow disk.
AGENTS_SECONDS = 30.0
CHUNK_BYTES = 64 * 1024
QUEUE_POLL_SECONDS = 0.02

Header = dict[str, Any]


class ControlConnection:
    """One control connection to a daemon that is known to run."""

    def __init__(self, endpoint: str, pid: int, token: str = "") -> None:
        self.endpoint = endpoint
        self.pid = pid
        # Sent with every request, if there is one.
        self._shown = {"token": token} if token else {}
        self._decoder = FrameDecoder()
        self._frames: list[tuple[bytes, bytes]] = []
        self._seq = 0
        self._socket = _connect(endpoint, pid)

    def __enter__(self) -> "ControlConnection":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def status(self) -> dict[str, Any]:
        """Return the status document. Raises Unreachable."""
        return self._document("status", self._ask("status", ANSWER_SECONDS)[1])

    def tools(self, query: str, server: str | None, limit: int) -> dict[str, Any]:
        """Return the tools that the daemon knows, or those that match a query. Raises Unreachable and Refused."""
        header, payload = self._ask("tools", TOOLS_SECONDS, query=query, server=server, limit=limit)
        if not header.get("ok"):
            raise Refused(f"the daemon lists no tools: {header.get('message')}")
        return self._document("tools", payload)

    def approved(self) -> None:
        """Make the daemon read the approvals of tools again. Raises Unreachable."""
        self._ask("approved", ANSWER_SECONDS)

    def reload(self) -> tuple[bool, str]:
        """Make the daemon reload its config; return whether it was accepted, and a message. Raises Unreachable."""
        header, _ = self._ask("reload", RELOAD_SECONDS)
        return bool(header.get("ok")), str(header.get("message") or "")

    def restart(self, server: str) -> str:
        """Stop the processes of a server, so that the next call starts it again. Raises Unreachable and Refused."""
        return self.command("restart", server=server)

    def shutdown(self, restart: bool, when_quiet: bool = False) -> str:
        """Ask the daemon to shut down, and return its message; `wait_for_end` waits until it has.

        `when_quiet`: when no call is in flight; no session is asked for approval then, because attached clients notice
        nothing. Raises Unreachable and Refused.
        """
        return self.command("shutdown", restart=restart, whenQuiet=when_quiet)

    def approvals(self) -> dict[str, Any]:
        """Return what waits for a decision, and what is granted. Raises Unreachable and Refused."""
        header, payload = self._ask("approvals", ANSWER_SECONDS)
        self._check(header, "approvals")
        return self._document("approvals", payload)

    def command(self, kind: str, **keys: object) -> str:
        """Give a command and return the daemon's sentence. Raises Unreachable and Refused."""
        header, _ = self._ask(kind, ANSWER_SECONDS, b"", **keys)
        self._check(header, kind)
        return str(header.get("message") or "")

    def agents(self, include_closed: bool) -> dict[str, Any]:
        """Return the agents that this caller may see. Raises Unreachable and Refused."""
        return self._document("agents", self._asked("agents", AGENTS_SECONDS, {}, all=include_closed))

    def agent(self, verb: str, arguments: Mapping[str, object], seconds: float | None = None) -> dict[str, Any]:
        """Give a command about agents and return its result; wait as long as it takes without `seconds`.

        Raises Unreachable and Refused.
        """
        return self._document("agent", self._asked("agent", seconds, arguments, verb=verb))

    def agent_log(
        self, id: str, count: int | None, follow: bool, seconds: float | None = None
    ) -> Iterator[dict[str, Any]]:
        """Yield the newest `count` entries of an agent's timeline (all without it) and, to `follow`, what comes.

        Then an entry of kind `state` comes behind the first ones, and one for each change. Ends with the agent or with
        the daemon. Raises Unreachable and Refused, and TimeoutError after `seconds`.
        """
        deadline = None if seconds is None else time.monotonic() + seconds
        arguments = {"agentId": id, "count": count, "follow": follow}
        header, payload = self._ask("agentLog", AGENTS_SECONDS, json.dumps(arguments).encode())
        self._check(header, "agentLog")
        yield from self._continued(header, payload, deadline)

    def _asked(self, kind: str, seconds: float | None, arguments: Mapping[str, object], **keys: object) -> bytes:
        # Prompts are longer than a header may be.
        header, payload = self._ask(kind, seconds, json.dumps(arguments).encode(), **keys)
        self._check(header, kind)
        return payload

    def _check(self, header: Header, kind: str) -> None:
        if not header.get("ok"):
            raise Refused(str(header.get("message") or f"this daemon refused {kind}; `hearth restart` updates it"))

    def events(self, follow: bool, count: int) -> Iterator[dict[str, Any]]:
        """Return the newest stored events and, with `follow`, later ones until the daemon stops. Raises Unreachable.

        The subscription begins at once, and not with the first look at the events.
        """
        return self._continued(*self._ask("events", ANSWER_SECONDS, follow=follow, count=count))

    def _continued(self, header: Header, payload: bytes, deadline: float | None = None) -> Iterator[dict[str, Any]]:
        """Yield the objects of an answer's array, and those of the frames that continue it."""
        yield from self._array(payload)
        while header.get("more"):
            try:
                header, payload = self._receive(deadline)
            except TimeoutError:
                if deadline is not None:
                    raise
                # The system has given the connection up.
                return
            except (OSError, Unreachable):
                # The daemon has stopped, or the system has given the connection up: no more events will arrive.
                return
            yield from self._array(payload)

    def _array(self, payload: bytes) -> list[dict[str, Any]]:
        found = self._parse(payload)
        return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []

    def wait_for_end(self, seconds: float) -> bool:
        """Tell whether the daemon closed this connection within the time, as it does when it stops."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self._socket.settimeout(left)
            try:
                if not self._socket.recv(CHUNK_BYTES):
                    return True
            except TimeoutError:
                return False
            except OSError:
                return True
        return False

    def _ask(self, kind: str, seconds: float | None, body: bytes = b"", **keys: object) -> tuple[Header, bytes]:
        self._seq += 1
        request = {"type": kind, "seq": self._seq, **self._shown, **keys}
        deadline = None if seconds is None else time.monotonic() + seconds
        # The first frame to a daemon on TCP has a size limit, until the token was shown.
        shown = encode(json.dumps({"type": "heartbeat", **self._shown}).encode()) if self._shown and body else b""
        try:
            self._send(shown + encode(json.dumps(request).encode(), body))
            while True:
                header, payload = self._receive(deadline)
                if header.get("type") == "error":
                    raise Unreachable(f"the daemon at {self.endpoint} refused {kind}: {header.get('message')}")
                if header.get("re") == self._seq:
                    return header, payload
        except TimeoutError as exc:
            raise Unreachable(
                f"the daemon at {self.endpoint} did not answer {kind} within {seconds or 0:g} s: it hangs or is"
                f" stopped; {last_resort(self.pid)}; `hearth logs` may say why"
            ) from exc
        except OSError as exc:
            raise Unreachable(f"the daemon at {self.endpoint} closed the connection: {exc.strerror}") from exc
        except (WireError, ValueError) as exc:
            raise self._garbled(exc) from exc

    def _send(self, request: bytes) -> None:
        try:
            self._socket.sendall(request)
        except OSError:
            # The daemon refuses a connection before it reads from it; the reason can still be read.
            self._look_for_refusal(self._last_words())
            raise

    def _last_words(self) -> bytes:
        try:
            return self._socket.recv(CHUNK_BYTES)
        except OSError:
            return b""

    def _look_for_refusal(self, data: bytes) -> None:
        from hearth.bridge.replies import refusal_in  # seldom needed

        reason = refusal_in(data)
        if reason:
            raise TurnedAway(f"the daemon at {self.endpoint} runs and takes no connection more: {reason}")

    def _parse(self, payload: bytes) -> Any:
        try:
            return json.loads(payload)
        except ValueError as exc:
            raise self._garbled(exc) from exc

    def _document(self, kind: str, payload: bytes) -> dict[str, Any]:
        document = self._parse(payload)
        if not isinstance(document, dict):
            raise self._garbled(f"its answer to {kind} is not an object")
        return document

    def _receive(self, deadline: float | None) -> tuple[Header, bytes]:
        while not self._frames:
            self._socket.settimeout(None if deadline is None else max(0.001, deadline - time.monotonic()))
            data = self._socket.recv(CHUNK_BYTES)
            if not data:
                raise Unreachable(f"the daemon at {self.endpoint} went away before it answered; ask again")
            try:
                self._frames = self._decoder.receive_data(data)
            except WireError:
                self._look_for_refusal(data)
                raise
        raw, payload = self._frames.pop(0)
        header = json.loads(raw)
        if not isinstance(header, dict):
            raise FrameError("a header is not an object")
        return header, payload

    def _garbled(self, reason: object) -> Unreachable:
        return Unreachable(
            f"the daemon at {self.endpoint} answers in a way that this version does not understand"
            f" ({reason}); `hearth restart` brings both to one version"
        )


def last_resort(pid: int) -> str:
    """Return a phrase on how to kill a daemon that does not stop."""
    command = f"taskkill /f /pid {pid}" if system.is_windows() else f"kill -9 {pid}"
    return f"`{command}` ends it (bridges survive that)"


def _connect(endpoint: str, pid: int) -> listening.Stream:
    deadline = time.monotonic() + ANSWER_SECONDS
    while True:
        try:
            return listening.connect(endpoint, ANSWER_SECONDS)
        except BlockingIOError as exc:
            # The accept queue is full. A Unix socket with a timeout does not wait for room in the queue.
            if time.monotonic() >= deadline:
                raise _no_connection(endpoint, pid, exc) from exc
            time.sleep(QUEUE_POLL_SECONDS)
        except OSError as exc:
            raise _no_connection(endpoint, pid, exc) from exc


def _no_connection(endpoint: str, pid: int, exc: OSError) -> Unreachable:
    if isinstance(exc, PermissionError) and exc.filename:
        return Unreachable(f"{exc.filename} {exc.strerror}; `hearth doctor` looks for the cause")
    return Unreachable(
        f"the daemon at {endpoint} takes no connection ({exc.strerror or exc}); `hearth doctor` looks for the"
        f" cause, {last_resort(pid)}"
    )
