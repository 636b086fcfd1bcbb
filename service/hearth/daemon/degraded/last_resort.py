"""Last resort when even the guard around the daemon cannot be imported: needs nothing of Hearth, and only explains.

`degraded.core` explains what is wrong with the config, the folder or most of the installation; this module explains
what is wrong with the rest, so that an activated daemon still reaches `accept` and systemd does not give up on the
socket. When a request comes some seconds later, the process executes itself again: the cause may have been an upgrade
in progress. launchd hands its socket over on request only: if even that request cannot be made, the process exits, and
launchd starts it again, at most every ten seconds.
"""

import json
import os
import select
import socket
import sys
import time

_LISTENER = 3
RETRY_SECONDS = 2.0
IDLE_SECONDS = 60.0
_READ_BYTES = 65536
_FIRST_FRAME_BYTE_BELOW = 0x10


def explain(cause: BaseException, activated: bool) -> int:
    """Tell clients, and the process that started us, what is broken, and return the exit code."""
    reason = sentence(cause)
    _say(f"<3>hearth: {reason}\n")
    _tell_starter(reason)
    if not activated and not _taken_from_launchd():
        return 1
    listener = socket.socket(fileno=_LISTENER)
    _notify(f"READY=1\nSTATUS=degraded: {reason}")
    _serve(listener, reason)
    return 0


def sentence(cause: BaseException) -> str:
    """Return a sentence that says what is wrong with the installation, and what to do."""
    if isinstance(cause, ImportError):
        return (
            f"Hearth's installation is broken ({cause.name or 'a module'} cannot be loaded): it was moved, or is"
            " incomplete; `hearth doctor --fix` repairs what starts it, else install it again"
        )
    return f"Hearth's installation is broken ({type(cause).__name__}: {cause}); install it again"


def _say(text: str) -> None:
    try:
        os.write(2, text.encode("utf-8", "backslashreplace"))
    except OSError:
        # No process reads it; clients that connect are told all the same.
        pass


def _taken_from_launchd() -> bool:
    try:
        from hearth.host.macos import launchd

        held = launchd.take_listener("mcp") if launchd.PRESENT else None
    except Exception:
        # Any failure here has the same cause.
        return False
    if held is None:
        return False
    os.dup2(held.detach(), _LISTENER, inheritable=False)
    os.environ["LISTEN_FDNAMES"] = "launchd"
    return True


def _tell_starter(reason: str) -> None:
    """Write the reason to the pipe on which the bridge that started us waits."""
    if "--ready-fd" in sys.argv[:-1]:
        try:
            os.write(int(sys.argv[sys.argv.index("--ready-fd") + 1]), reason.encode() + b"\n")
        except (OSError, ValueError):
            pass


def _notify(message: str) -> None:
    address = os.environ.get("NOTIFY_SOCKET", "")
    if sys.platform == "win32" or not address:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notifier:
        try:
            notifier.sendto(message.encode(), "\0" + address[1:] if address.startswith("@") else address)
        except OSError:
            pass


def _serve(listener: socket.socket, reason: str) -> None:
    begun = heard = time.monotonic()
    listener.setblocking(False)
    while time.monotonic() - heard < IDLE_SECONDS:
        _notify("WATCHDOG=1")
        if not select.select([listener], [], [], 1.0)[0]:
            continue
        heard = time.monotonic()
        if heard - begun > RETRY_SECONDS:
            # Before the accept: the connection waits in the kernel's queue, and the next daemon serves it.
            _start_anew()
        try:
            connection, _ = listener.accept()
        except OSError:
            continue
        with connection:
            connection.settimeout(1.0)
            try:
                _talk(connection, reason)
            except (OSError, ValueError):
                # The client was silent for a second, or sent something unreadable; the next one waits.
                pass


def _start_anew() -> None:
    os.set_inheritable(_LISTENER, True)
    name = os.environ.get("LISTEN_FDNAMES", "mcp").split(":")[0]
    os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1", LISTEN_FDNAMES=name)
    limits = sys.modules.get("hearth.host.posix.core_dumps")
    if limits is not None:
        # The next daemon passes its own limit on to its servers.
        limits.restore()
    os.execv(sys.executable, [sys.executable, "-I", "-m", "hearth.daemon", *sys.argv[1:]])


def _talk(connection: socket.socket, reason: str) -> None:
    """Answer one connection's requests until it is silent; the bridge reconnects for its next request."""
    data = b""
    while chunk := connection.recv(_READ_BYTES):
        data += chunk
        if data[0] < _FIRST_FRAME_BYTE_BELOW:
            data = _answer_frames(connection, data, reason)
        else:
            *lines, data = data.split(b"\n")
            for line in lines:
                _send(connection, _failure(line, reason), b"\n")


def _answer_frames(connection: socket.socket, data: bytes, reason: str) -> bytes:
    """Answer complete frames and return the rest: as much of docs/protocol.md as an error needs."""
    while len(data) >= 6 and len(data) >= 4 + int.from_bytes(data[:4], "big"):
        stop, middle = 4 + int.from_bytes(data[:4], "big"), 6 + int.from_bytes(data[4:6], "big")
        header, payload, data = json.loads(data[6:middle]), data[middle:stop], data[stop:]
        if header.get("type") == "hello":
            _send_frame(connection, {"type": "error", "message": reason}, b"")
        elif header.get("type") == "mcp":
            failure = _failure(payload, reason)
            if failure:
                _send_frame(connection, {"type": "mcp", "re": header["seq"]}, failure)
    return data


def _send_frame(connection: socket.socket, fields: dict[str, object], payload: bytes) -> None:
    header = json.dumps(fields).encode()
    size = (2 + len(header) + len(payload)).to_bytes(4, "big")
    connection.sendall(size + len(header).to_bytes(2, "big") + header + payload)


def _send(connection: socket.socket, answer: bytes | None, end: bytes) -> None:
    if answer:
        connection.sendall(answer + end)


def _failure(line: bytes, reason: str) -> bytes | None:
    message = json.loads(line)
    batch = message if isinstance(message, list) else [message]
    refused = [error for item in batch if (error := _error(item, reason))]
    if not refused:
        return None
    return json.dumps(refused if batch is message else refused[0]).encode()


def _error(message: object, reason: str) -> dict[str, object] | None:
    if not isinstance(message, dict) or "id" not in message or "method" not in message:
        return None
    error = {"code": -32603, "message": f"Hearth cannot serve: {reason}"}
    return {"jsonrpc": "2.0", "id": message["id"], "error": error}
