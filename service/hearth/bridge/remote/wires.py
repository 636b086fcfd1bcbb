"""Sockets: connecting to the server's address, sending, receiving, and being interrupted by another thread.

Plain connections use the interpreter's own `_socket`; TLS loads `socket` and `ssl`. Knows nothing of HTTP.
"""

import sys
from _socket import (
    IPPROTO_TCP,
    SHUT_RDWR,
    SO_KEEPALIVE,
    SOCK_STREAM,
    SOL_SOCKET,
    gaierror,
    getaddrinfo,
    socket,
)
from _thread import allocate_lock
from time import monotonic

from hearth.errors import Unreachable

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl

    from hearth.bridge.remote.proxies import Proxy
    from hearth.bridge.remote.target import Target

CONNECT_SECONDS = 10.0
# For one write to get into the kernel: a server that does not read for so long never will.
WRITE_SECONDS = 60.0
# Given to one write. TLS returns from it only when all of it is through: a slow network would not be told from a server
# that does not read.
WRITE_BYTES = 64 * 1024
CHUNK_BYTES = 32 * 1024
# More than a kernel holds for one connection.
_DRAIN_READS = 1024
# A silent peer is asked whether it lives: after a minute, six times ten seconds. Otherwise a stream over a network that
# has forgotten it would wait for ever. These are TCP_KEEPIDLE, TCP_KEEPINTVL and TCP_KEEPCNT of Linux.
_KEEPALIVE = ((4, 60), (5, 10), (6, 6)) if sys.platform == "linux" else ()


class Wire:
    """One connection, used by one thread at a time; `interrupt` is for the others."""

    __slots__ = ("_sock", "idle_since", "is_used")

    def __init__(self, sock: socket) -> None:
        self._sock = sock
        # Whether a request has been answered on it.
        self.is_used = False
        self.idle_since = 0.0

    def send(self, data: bytes) -> None:
        """Send everything. Raises OSError."""
        left = memoryview(data)
        self._sock.settimeout(WRITE_SECONDS)
        while left:
            left = left[self._sock.send(left[:WRITE_BYTES]) :]

    def receive(self, seconds: float | None) -> bytes:
        """What came; empty at the end. Raises OSError, TimeoutError after so long."""
        self._sock.settimeout(seconds)
        return self._sock.recv(CHUNK_BYTES)

    def is_quiet(self) -> bool:
        """Whether nothing has come since the last answer, not even the end."""
        try:
            self._sock.settimeout(0)
            # Past TLS: whatever it is, it was not asked for.
            socket.recv(self._sock, 1)
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False

    def interrupt(self) -> None:
        """Wake whoever waits on it: it is at its end."""
        try:
            # Past TLS, which would first say goodbye, and is in use by the other thread.
            socket.shutdown(self._sock, SHUT_RDWR)
            # A server that waits for us to read would not notice; with room for one more byte it is told by a reset.
            for _ in range(_DRAIN_READS):
                if not socket.recv(self._sock, CHUNK_BYTES):
                    break
        except OSError:
            pass  # the other side was quicker

    def close(self) -> None:
        """Give it up."""
        try:
            self._sock.close()
        except OSError:
            pass


class Call:
    """What can be given up while it goes on: the connection that it uses at the moment, and the pauses between them."""

    __slots__ = ("_lock", "_news", "_sent", "_wire", "given_up")

    def __init__(self) -> None:
        self.given_up = False
        self._lock = allocate_lock()
        self._wire: Wire | None = None
        self._news = allocate_lock()
        self._news.acquire()
        self._sent = allocate_lock()
        self._sent.acquire()

    def use(self, wire: Wire | None) -> None:
        """From now on it is that connection that has to be interrupted. One that was given up is, at once."""
        with self._lock:
            self._wire = wire
            if wire and self.given_up:
                wire.interrupt()

    def give_up(self) -> None:
        """Nobody wants what comes of it."""
        with self._lock:
            if self.given_up:
                return
            self.given_up = True
            if self._wire:
                self._wire.interrupt()
            self._news.release()

    def was_sent(self) -> None:
        """All of a request has been written."""
        if self._sent.locked():
            self._sent.release()

    def wait_until_sent(self, seconds: float) -> bool:
        """Wait until the request has been written, at most so long."""
        if not self._sent.acquire(True, seconds):
            return False
        self._sent.release()
        return True

    def pause(self, seconds: float) -> bool:
        """Wait; False as soon as it is given up."""
        if self._news.acquire(True, max(0.0, seconds)):
            self._news.release()
        return not self.given_up


def connect(target: "Target", proxy: "Proxy | None" = None) -> Wire:
    """A connection to the server. Raises OSError, or Unreachable for what cannot be done here."""
    if target.socket is not None:
        return Wire(_connect_unix(target.socket))
    sock = _connect_through(proxy, target) if proxy else _connect_tcp(target.host, target.port)
    if target.scheme == "https":
        sock = _encrypted(sock, target.host)
    return Wire(sock)


def _connect_unix(path: str) -> socket:
    if sys.platform != "win32":
        from _socket import AF_UNIX

        sock = socket(AF_UNIX, SOCK_STREAM)
        try:
            sock.settimeout(CONNECT_SECONDS)
            sock.connect(path)
            _check_listener(sock, path)
        except BaseException:
            sock.close()
            raise
        return sock
    raise Unreachable("Unix sockets are not to be had on Windows; use http:// or https:// after --to")


def _check_listener(sock: socket, path: str) -> None:
    """Raise Unreachable where the user who listens may have put the socket in the place of another's."""
    from hearth import socket_trust

    uid = socket_trust.peer_uid(sock)
    if uid is None:
        return
    from hearth.host.posix import ownership

    flaw = ownership.objection_to_listener(path, uid)
    if flaw:
        raise Unreachable(f"nothing was sent to unix:{path}: {flaw}")


def _connect_tcp(host: str, port: int) -> socket:
    """The first address that takes a connection. As bytes: text would load the tables of international names."""
    problem: OSError = gaierror(0, "it has no address")
    deadline = monotonic() + CONNECT_SECONDS
    found = getaddrinfo(host.encode("ascii"), port, 0, SOCK_STREAM)
    for left, (family, kind, protocol, _, address) in zip(range(len(found), 0, -1), found, strict=True):
        sock = socket(family, kind, protocol)
        try:
            # One that nothing comes back from, as where IPv6 leads nowhere, must leave the others their time.
            sock.settimeout(max(0.1, (deadline - monotonic()) / left))
            sock.connect(address)
            _keep_alive(sock)
            return sock
        except OSError as exc:
            problem = exc
            sock.close()
        except BaseException:
            sock.close()
            raise
    raise problem


def _connect_through(proxy: "Proxy", target: "Target") -> socket:
    if proxy.problem:
        raise Unreachable(proxy.problem)
    try:
        sock = _connect_tcp(proxy.host, proxy.port)
    except OSError as exc:
        raise OSError(exc.errno or 0, f"the proxy {proxy.shown}: {reason(exc)}") from exc
    if target.scheme == "https":
        try:
            sock.settimeout(CONNECT_SECONDS)
            proxy.open_tunnel(sock, target)
        except BaseException:
            sock.close()
            raise
    return sock


def _keep_alive(sock: socket) -> None:
    try:
        sock.setsockopt(IPPROTO_TCP, 1, 1)  # TCP_NODELAY, everywhere
        sock.setsockopt(SOL_SOCKET, SO_KEEPALIVE, 1)
        for option, value in _KEEPALIVE:
            sock.setsockopt(IPPROTO_TCP, option, value)
    except OSError:
        pass  # the system has no such thing


_trust: "ssl.SSLContext | None" = None
# What OpenSSL says, by its version, of an answer that is no TLS.
_NOT_TLS = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG", "HTTP_REQUEST"})


def _encrypted(plain: socket, host: str) -> socket:
    """The connection over TLS, its certificate verified. SSL_CERT_FILE and SSL_CERT_DIR say whom to believe instead."""
    global _trust
    import socket as sockets
    import ssl

    try:
        if _trust is None:
            _trust = ssl.create_default_context()
        sock = sockets.socket(plain.family, plain.type, plain.proto, fileno=plain.detach())
    except BaseException:
        plain.close()
        raise
    try:
        sock.settimeout(CONNECT_SECONDS)
        return _trust.wrap_socket(sock, server_hostname=host)
    except BaseException:
        sock.close()
        raise


def reason(exc: OSError) -> str:
    """What the system said."""
    verify = getattr(exc, "verify_message", None)
    if verify:
        return f"its certificate is not trusted: {verify}; {_advice_on_trust()}"
    if getattr(exc, "reason", None) in _NOT_TLS:
        return "it does not speak TLS there; is it http:// instead of https://?"
    return exc.strerror or str(exc) or type(exc).__name__


def _advice_on_trust() -> str:
    from os import environ

    path = environ.get("SSL_CERT_FILE")
    try:
        if path:
            # OpenSSL says nothing of one that it cannot read.
            open(path, "rb").close()
    except OSError as exc:
        return f"SSL_CERT_FILE names {path}, which cannot be read ({exc.strerror}): nobody is trusted by it"
    return "for an authority of your own, set SSL_CERT_FILE in the bridge's environment"
