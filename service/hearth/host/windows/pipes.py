"""The named pipe that the daemon listens on, on Windows: this user's alone, and of this machine alone.

What the kernel is asked for is at the top and pure; below, the pipe itself on asyncio's Proactor. asyncio's own server
would give every pipe the default descriptor, which lets everybody read, and has one instance at a time listen: a
second client that comes in the same moment would be told that the pipe is busy.
"""

import asyncio
import logging
import sys
from collections import deque
from collections.abc import Callable, Collection
from typing import Any

from hearth import sids
from hearth.errors import AlreadyRunning, StartError
from hearth.host.access import OWNER_ONLY, Access
from hearth.host.posix.peers import Peer

log = logging.getLogger(__name__)

# CreateNamedPipe: PIPE_ACCESS_DUPLEX, FILE_FLAG_OVERLAPPED, FILE_FLAG_FIRST_PIPE_INSTANCE.
_DUPLEX, _OVERLAPPED, _FIRST_INSTANCE = 0x3, 0x4000_0000, 0x0008_0000
# Bytes and not messages, blocking (as far as overlapped I/O blocks), PIPE_REJECT_REMOTE_CLIENTS.
PIPE_MODE = 0x8
_UNLIMITED_INSTANCES = 255
# What a connection holds unread, each way, without the writer having to wait: a bridge relies on 32 KiB.
BUFFER_BYTES = 64 * 1024
# So many may connect between two turns of the loop; the next one waits in WaitNamedPipe.
LISTENING_INSTANCES = 8
# When no instance can be made, trying again at once would spin.
RETRY_SECONDS = 0.2


def open_mode(first: bool) -> int:
    """How an instance is opened. The first one must be the first: what another process made before us is not ours."""
    return _DUPLEX | _OVERLAPPED | (_FIRST_INSTANCE if first else 0)


def descriptor(sid: str, elevated: bool) -> str:
    """Who may do what with the pipe, in Microsoft's SDDL: its owner everything, and nobody else is named.

    The owner is written down because an administrator's would otherwise be a group. A daemon that is elevated is out of
    reach for programs that are not: its servers would do for them what they may not.
    """
    return f"O:{sid}D:P(A;;GA;;;{sid})" + ("S:(ML;;NW;;;HI)" if elevated else "")


def stranger(peer: Peer | None, own: str) -> str | None:
    """Why that client may not come in; None if it is this very user."""
    if peer is None or not peer.sid:
        return "Windows does not say who it is"
    return None if peer.sid == own else f"{peer.sid} may not use the daemon of {own}"


if sys.platform == "win32":
    import _winapi
    import ctypes
    from asyncio.windows_utils import PipeHandle
    from ctypes import wintypes

    from hearth.host.windows import security_descriptors

    Connection = PipeHandle

    _kernel = ctypes.WinDLL("kernel32", use_last_error=True)
    _kernel.GetNamedPipeClientProcessId.argtypes = (wintypes.HANDLE, wintypes.PULONG)

    class Listener:
        """The pipe, and the clients that have connected to it and were not accepted yet. `bind` makes one."""

        holder = "self"
        owned = True
        # The system tells who connects.
        token = ""

        def __init__(self, path: str, sid: str) -> None:
            self.path = path
            self._attributes = security_descriptors.attributes(descriptor(sid, sids.is_elevated()))
            self._listening: dict[PipeHandle, asyncio.Future[Any] | None] = {}
            self._connected: deque[PipeHandle] = deque()
            self._ready: Callable[[], None] | None = None
            self._make(first=True)

        def _make(self, first: bool = False) -> None:
            handle = _winapi.CreateNamedPipe(
                self.path, open_mode(first), PIPE_MODE, _UNLIMITED_INSTANCES, BUFFER_BYTES, BUFFER_BYTES, 0,
                ctypes.addressof(self._attributes),
            )  # fmt: skip
            self._listening[PipeHandle(handle)] = None

        def address(self) -> str | None:
            """The pipe's name."""
            return self.path

        def replaced(self) -> bool:
            """Nobody can take the place of a pipe that is open."""
            return False

        def poll(self, ready: Callable[[], None]) -> None:
            """Call `ready` in the running loop whenever somebody waits to be accepted."""
            self._ready = ready
            self._listen()

        def rest(self) -> None:
            """Poll no longer. Who connects now is found by `accept`, as long as the listener is not retired."""
            self._ready = None
            for pipe, waiting in self._listening.items():
                if waiting:
                    waiting.cancel()
                self._listening[pipe] = None

        def accept(self) -> PipeHandle | None:
            """The next waiting connection, or None."""
            if self._connected:
                return self._connected.popleft()
            for pipe in list(self._listening) if self._ready is None else ():
                if _is_connected(pipe):
                    del self._listening[pipe]
                    return pipe
            return None

        def retire(self) -> None:
            """Let go of it. Who has connected and was not accepted finds a broken pipe."""
            self.rest()
            for pipe in (*self._listening, *self._connected):
                pipe.close()
            self._listening.clear()
            self._connected.clear()

        def _listen(self) -> None:
            """Have enough instances listen."""
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
                # Somebody connected and has left already.
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
        try:
            _winapi.PeekNamedPipe(pipe.fileno(), 0)
        except OSError as exc:
            # Of one that has left again it is said that the pipe is broken. Not so of an instance to which nobody has
            # come, which Windows calls bad (ERROR_BAD_PIPE), and Python broken as well.
            return exc.winerror == _winapi.ERROR_BROKEN_PIPE
        return True

    def is_there(path: str) -> bool:
        """Whether somebody has made a pipe of that name. Opens none, as a look at its file would."""
        try:
            _winapi.WaitNamedPipe(path, 1)
        except OSError as exc:
            return exc.winerror == _winapi.ERROR_SEM_TIMEOUT
        return True

    def inherit(path: str) -> Listener | None:
        """Nothing hands a listening pipe over."""
        return None

    def listen(where: str, default: str, access: Access = OWNER_ONLY) -> Listener:
        """Make the pipe, for its owner alone. Raises StartError, also for `listen`, which is for other systems."""
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
        """Who is at the other end."""
        pid = wintypes.ULONG()
        known = _kernel.GetNamedPipeClientProcessId(connection.fileno(), ctypes.byref(pid))
        # Windows may refuse to tell of a client before something was read from it; then its process is asked.
        sid = sids.of_client(connection.fileno()) or (sids.of_process(pid.value) if known else sids.NOBODY)
        return Peer(pid.value if known else None, -1, -1, sid)

    def groups_of(connection: PipeHandle) -> tuple[int, ...]:
        """Return nothing: groups have no numbers here."""
        return ()

    def refusal(
        peer: Peer | None, uids: Collection[int], gids: Collection[int], groups: Collection[int] = ()
    ) -> str | None:
        """Why that client may not come in; None for this user. There are no numbers by which others could be let in."""
        return stranger(peer, sids.own())

    async def attach(connection: PipeHandle, protocol: asyncio.Protocol) -> None:
        """Have the loop read and write the connection."""
        loop: Any = asyncio.get_running_loop()
        # What the loop's own pipe server calls.
        loop._make_duplex_pipe_transport(connection, protocol)

    def dismiss(connection: PipeHandle, words: bytes) -> None:
        """Say a few words, if that needs no waiting, and close."""
        try:
            writing, _ = _winapi.WriteFile(connection.fileno(), words, overlapped=True)
            writing.cancel()
            writing.GetOverlappedResult(True)
        except OSError:
            pass
        connection.close()

    def write_now(transport: asyncio.WriteTransport, data: bytes) -> None:
        """Hand bytes to the kernel before anything else happens; only for the first words on a fresh connection."""
        # The Proactor begins a write at once when none is under way.
        transport.write(data)

    def reader_left(transport: asyncio.BaseTransport) -> bool:
        """Whether nobody reads any longer, once the input has ended: a pipe ends in both directions at once.

        Standard input and output are two pipes, of which nobody tells.
        """
        return transport.get_extra_info("pipe") is not None
