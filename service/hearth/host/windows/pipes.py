"""Named pipe that the daemon listens on, on Windows: for this user and this machine only.

The arguments for the kernel are at the top and pure; the pipe itself, on asyncio's Proactor, is below. asyncio's own
server would give every pipe the default descriptor, which lets every user read, and has only one instance listen at a
time: a second client that connects at the same moment would be told that the pipe is busy.
"""

import asyncio
import logging
import sys
from collections import deque
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any

from hearth import sids
from hearth.errors import AlreadyRunning, StartError
from hearth.host.peers import Peer
from hearth.host.sockets import OWNER_ONLY, Access
from hearth.host.system import user_id

log = logging.getLogger(__name__)

# CreateNamedPipe: PIPE_ACCESS_DUPLEX, FILE_FLAG_OVERLAPPED, FILE_FLAG_FIRST_PIPE_INSTANCE.
_DUPLEX, _OVERLAPPED, _FIRST_INSTANCE = 0x3, 0x4000_0000, 0x0008_0000
# Bytes and not messages, blocking (as far as overlapped I/O blocks), PIPE_REJECT_REMOTE_CLIENTS.
PIPE_MODE = 0x8
_UNLIMITED_INSTANCES = 255
# Unread bytes that a connection holds, each way, before a write waits: a bridge relies on 32 KiB.
BUFFER_BYTES = 64 * 1024
# Number of clients that may connect between two iterations of the loop; the next one waits in WaitNamedPipe.
LISTENING_INSTANCES = 8
# When no instance can be made, an immediate retry would spin.
RETRY_SECONDS = 0.2


def open_mode(first: bool) -> int:
    """Return the open mode of an instance. The first must be the first: a pipe made by another process is not ours."""
    return _DUPLEX | _OVERLAPPED | (_FIRST_INSTANCE if first else 0)


def descriptor(sid: str, elevated: bool) -> str:
    """Return the access rights of the pipe in Microsoft's SDDL: its owner may do everything, no other user is named.

    The owner is explicit because an administrator's pipe would otherwise belong to a group. An elevated daemon is out
    of reach for programs that are not: its servers could do things for them that they may not do.
    """
    return f"O:{sid}D:P(A;;GA;;;{sid})" + ("S:(ML;;NW;;;HI)" if elevated else "")


def stranger(peer: Peer | None, own: str) -> str | None:
    """Return why that client is refused; None if it is this very user."""
    if peer is None or not peer.sid:
        return "Windows does not say who it is"
    return None if peer.sid == own else f"{peer.sid} may not use the daemon of {own}"


if sys.platform == "win32":
    import _winapi
    from asyncio.windows_utils import PipeHandle

    from hearth.host.windows import accounts

    Connection = PipeHandle

    class Listener:
        """Pipe with the clients that have connected and were not accepted yet. `bind` makes one."""

        holder = "self"
        owned = True
        # No token is needed: the system identifies the clients.
        token = ""

        def __init__(self, path: str, sid: str) -> None:
            self.path = path
            self._attributes = accounts.attributes(descriptor(sid, accounts.is_elevated()))
            self._listening: dict[PipeHandle, asyncio.Future[Any] | None] = {}
            self._connected: deque[PipeHandle] = deque()
            self._ready: Callable[[], None] | None = None
            self._make(first=True)

        def _make(self, first: bool = False) -> None:
            import win32pipe

            mode, sizes = open_mode(first), (BUFFER_BYTES, BUFFER_BYTES)
            with accounts.os_errors():
                handle: Any = win32pipe.CreateNamedPipe(
                    self.path, mode, PIPE_MODE, _UNLIMITED_INSTANCES, *sizes, 0, self._attributes
                )
            self._listening[PipeHandle(handle.Detach())] = None

        def address(self) -> str | None:
            """Return the pipe's name."""
            return self.path

        def replaced(self) -> bool:
            """Return False: no other process can replace a pipe that is open."""
            return False

        def poll(self, ready: Callable[[], None]) -> None:
            """Call `ready` in the running loop whenever a client waits to be accepted."""
            self._ready = ready
            self._listen()

        def rest(self) -> None:
            """Stop polling. `accept` finds clients that connect now, as long as the listener is not retired."""
            self._ready = None
            for pipe, waiting in self._listening.items():
                if waiting:
                    waiting.cancel()
                self._listening[pipe] = None

        def accept(self) -> PipeHandle | None:
            """Return the next waiting connection, or None."""
            if self._connected:
                return self._connected.popleft()
            for pipe in list(self._listening) if self._ready is None else ():
                if _is_connected(pipe):
                    del self._listening[pipe]
                    return pipe
            return None

        def retire(self) -> None:
            """Close the pipe. A client that has connected and was not accepted finds a broken pipe."""
            self.rest()
            for pipe in (*self._listening, *self._connected):
                pipe.close()
            self._listening.clear()
            self._connected.clear()

        def _listen(self) -> None:
            """Make enough instances listen."""
            if self._ready is None:
                return
            loop = asyncio.get_running_loop()
            try:
                while len(self._listening) < LISTENING_INSTANCES:
                    self._make()
            except OSError as exc:
                log.error("no further instance of the pipe can be made for now: %s", exc)
                loop.call_later(RETRY_SECONDS, self._listen)
            for pipe, waiting in list(self._listening.items()):
                if waiting is None:
                    self._await_client(loop, pipe)

        def _await_client(self, loop: asyncio.AbstractEventLoop, pipe: PipeHandle) -> None:
            proactor: Any = loop._proactor  # type: ignore[attr-defined]  # the loop's own pipe server uses it so
            try:
                waiting = proactor.accept_pipe(pipe)
            except OSError:
                # A client connected and has left already.
                self._discard(pipe)
                loop.call_soon(self._listen)
                return
            self._listening[pipe] = waiting
            waiting.add_done_callback(lambda done: self._came(pipe, done))

        def _came(self, pipe: PipeHandle, done: "asyncio.Future[Any]") -> None:
            if done.cancelled() or self._listening.get(pipe) is not done:
                return
            if done.exception():
                self._discard(pipe)
            else:
                del self._listening[pipe]
                self._connected.append(pipe)
            self._listen()
            if self._ready and self._connected:
                self._ready()

        def _discard(self, pipe: PipeHandle) -> None:
            self._listening.pop(pipe, None)
            pipe.close()

    def _is_connected(pipe: PipeHandle) -> bool:
        import win32pipe

        try:
            win32pipe.PeekNamedPipe(pipe.fileno(), 0)
        except win32pipe.error as exc:
            # A client that has left again is a broken pipe. An instance that no client has opened is a bad pipe.
            return exc.winerror == _winapi.ERROR_BROKEN_PIPE
        return True

    def is_there(path: str) -> bool:
        """Tell whether a pipe of that name exists, without opening it as a look at its file would."""
        try:
            _winapi.WaitNamedPipe(path, 1)
        except OSError as exc:
            return exc.winerror == _winapi.ERROR_SEM_TIMEOUT
        return True

    def inherit(path: str) -> Listener | None:
        """Return None: a listening pipe cannot be inherited."""
        return None

    def listen(where: str, default: str, access: Access = OWNER_ONLY) -> Listener:
        """Make the pipe, for its owner only. Raises StartError, also for a `listen` key, which is for other systems."""
        if where:
            raise StartError(f"listen = {where!r} is not for Windows: the daemon has a named pipe there; take it out")
        return bind(default)

    def bind(path: str) -> Listener:
        """Make the pipe. Raises StartError. Call it with the daemon lock held."""
        try:
            return Listener(path, sids.own())
        except PermissionError as exc:
            raise AlreadyRunning(
                f"another program has made {path} already; if `hearth status` knows of no daemon, it is not Hearth's:"
                " end it, or have it ended"
            ) from exc
        except OSError as exc:
            raise StartError(f"the pipe {path} cannot be made: {exc.strerror}") from exc

    def peer_of(connection: PipeHandle) -> Peer | None:
        """Return the process and the user at the other end."""
        import win32pipe

        pid: int | None = None
        with suppress(win32pipe.error):
            pid = win32pipe.GetNamedPipeClientProcessId(connection.fileno())
        # Windows may not identify a client before something was read from it; then its process is asked.
        sid = accounts.of_client(connection.fileno()) or (accounts.of_process(pid) if pid else sids.NOBODY)
        return Peer(pid, user_id(), -1, sid)

    def groups_of(connection: PipeHandle) -> tuple[int, ...]:
        """Return no groups: they have no numbers on Windows."""
        return ()

    def refusal(
        peer: Peer | None, uids: Collection[int], gids: Collection[int], groups: Collection[int] = ()
    ) -> str | None:
        """Return why that client is refused; None for this user. Windows has no uids or gids to allow others by."""
        return stranger(peer, sids.own())

    async def attach(connection: PipeHandle, protocol: asyncio.Protocol) -> None:
        """Attach the connection to the loop, which reads and writes it through the protocol."""
        loop: Any = asyncio.get_running_loop()
        # The loop's own pipe server makes the same call.
        loop._make_duplex_pipe_transport(connection, protocol)

    def dismiss(connection: PipeHandle, words: bytes) -> None:
        """Send a short message, if that needs no waiting, and close the connection."""
        try:
            writing, _ = _winapi.WriteFile(connection.fileno(), words, overlapped=True)
            writing.cancel()
            writing.GetOverlappedResult(True)
        except OSError:
            pass
        connection.close()

    def write_now(transport: asyncio.WriteTransport, data: bytes) -> None:
        """Write bytes to the kernel before anything else happens; only for the first bytes on a new connection."""
        # The Proactor begins a write at once when none is pending.
        transport.write(data)

    def reader_left(transport: asyncio.BaseTransport) -> bool:
        """Tell, once the input has ended, whether the reader is gone: a pipe ends in both directions at once.

        Standard input and output are two pipes, about which this is unknown.
        """
        return transport.get_extra_info("pipe") is not None
