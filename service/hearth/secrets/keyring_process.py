"""Desktop keyring, accessed in a process per request: `python -I -m hearth.secrets.keyring_process`.

A keyring may wait for a person to unlock it, or for a bus that never answers. A waiting thread cannot be stopped; a
process can. The `keyring` package and its dependencies would also hold 24 MB in the daemon permanently. Request and
answer are JSON on the standard streams, so that no value is ever on a command line.

    {"do": "put", "service": …, "name": …, "value": …}     → {"backend": CLASS}, or null where there is no keyring
    {"do": "get", …, "backend": CLASS}                     → {"value": TEXT or null}
    {"do": "remove", …, "backend": CLASS}                  → {}
    {"do": "look", "backend": CLASS}                       → {}, if the keyring is there; unlocks nothing
    any failure                                            → {"error": CLASS, "message": TEXT}
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any

from hearth.errors import VaultError
from hearth.host import system
from hearth.paths import runtime_dir

# Time for a person to type the keyring's password, and less than a server gets to start.
KEYRING_SECONDS = 30.0
# Python and the package take a quarter of a second to load; many times that on a busy machine.
_STARTUP_SECONDS = 10.0

# One request at a time: with a locked keyring, each process would open a window of its own.
_TURN = threading.Lock()


def ask(request: dict[str, Any], seconds: float | None = None) -> dict[str, Any]:
    """Return the keyring's answer. Raises VaultError if the keyring does not answer, or refuses. Blocks, bounded."""
    seconds = KEYRING_SECONDS if seconds is None else seconds
    end = time.monotonic() + seconds
    if not _TURN.acquire(timeout=seconds):
        raise _silent(seconds)
    try:
        left = max(0.0, end - time.monotonic())
        answer = _run({**request, "seconds": left}, left + _STARTUP_SECONDS)
    finally:
        _TURN.release()
    if answer.get("error") == "TimeoutError":
        raise _silent(seconds)
    if "error" in answer:
        raise VaultError(_refused(request, answer))
    return answer


def _run(request: dict[str, Any], seconds: float) -> dict[str, Any]:
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-m", "hearth.secrets.keyring_process"],
            input=json.dumps(request).encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **_session_bus()},
            timeout=seconds,
            check=False,
            # Without this flag a console window would flash up on Windows.
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
        answer = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        return {"error": "TimeoutError"}
    except OSError as exc:
        raise VaultError(f"the keyring cannot be asked: {sys.executable} cannot be run: {exc.strerror}") from exc
    except ValueError:
        # The process was killed, or failed at its first import.
        raise VaultError(
            f"the keyring cannot be asked: the process that does so ended with code {done.returncode};"
            " is Hearth still installed?"
        ) from None
    return answer if isinstance(answer, dict) else {"error": "ValueError", "message": "it answered nonsense"}


def _session_bus() -> dict[str, str]:
    # MCP clients pass on neither variable, but the bus of a login session is in a known place.
    bus = os.path.join(runtime_dir(), "bus")
    known = "DBUS_SESSION_BUS_ADDRESS" in os.environ or not system.is_linux() or not os.path.exists(bus)
    return {} if known else {"DBUS_SESSION_BUS_ADDRESS": f"unix:path={bus}"}


def _silent(seconds: float) -> VaultError:
    return VaultError(
        f"the keyring did not answer within {seconds:g} s; it may be waiting to be unlocked: look for its window,"
        " or unlock it in the desktop's password manager, and try again"
    )


def _refused(request: dict[str, Any], answer: dict[str, Any]) -> str:
    where = in_words(request["backend"]) if request.get("backend") else "the keyring"
    if answer["error"] == "KeyringLocked":
        return f"{where} is locked; unlock it in the desktop's password manager, or log in there, and try again"
    return f"{where} cannot be used from here: {answer.get('message') or answer['error']}"


def in_words(backend: str) -> str:
    """Return a readable name for the keyring of a backend class."""
    *_, module, name = ["", *backend.split(".")]
    return f"the keyring ({module if name in ('Keyring', 'DBusKeyring') else name})"


# --- the child process


def main() -> int:
    """Answer one request."""
    answers, sys.stdout = sys.stdout, sys.stderr  # backends may print
    request = json.loads(sys.stdin.buffer.read())
    seconds = float(request["seconds"])
    if hasattr(signal, "alarm"):
        # If the parent is gone by then, nothing else would stop a waiting process.
        signal.alarm(int(seconds + 2 * _STARTUP_SECONDS))
    found: list[dict[str, Any]] = []
    _answer({"do": "load"})  # loading waits for no person, so its time does not count
    asking = threading.Thread(target=lambda: found.append(_answer(request)), daemon=True)
    asking.start()
    asking.join(seconds)
    json.dump(found[0] if found else {"error": "TimeoutError"}, answers)
    answers.flush()
    os._exit(0)  # a normal exit would wait for a thread that blocks in native code


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    try:
        return _perform(request)
    except Exception as exc:
        # Backends raise any exception; none of them may carry the value.
        message = str(exc)
        if request.get("value"):
            message = message.replace(request["value"], "***")
        return {"error": type(exc).__name__, "message": message}


def _perform(request: dict[str, Any]) -> dict[str, Any]:
    import keyring.core
    import keyring.errors

    if request["do"] == "load":
        return {}
    if request["do"] == "look":
        _named(request["backend"])  # fails if the keyring's own service is out of reach
        return {}
    service, name = request["service"], request["name"]
    if request["do"] == "put":
        backend = _usable()
        if backend is None:
            return {"backend": None}
        backend.set_password(service, name, request["value"])
        return {"backend": f"{type(backend).__module__}.{type(backend).__qualname__}"}
    backend = _named(request["backend"])
    if request["do"] == "get":
        return {"value": backend.get_password(service, name)}
    try:
        backend.delete_password(service, name)
    except keyring.errors.PasswordDeleteError:
        # The value was removed by other means, unless it can still be read.
        if backend.get_password(service, name) is not None:
            raise
    return {}


def _named(backend: str) -> Any:
    import keyring.core

    try:
        return keyring.core.load_keyring(backend)
    except ModuleNotFoundError:
        keyring.core.load_config()  # may add directories to the search path of modules
        return keyring.core.load_keyring(backend)


def _usable() -> Any:
    """Return the keyring that the user has chosen, or the best of the recommended ones; None if there is none."""
    import keyring.core
    from keyring.backends import chainer, fail, null

    # Backends that are not recommended store plain text, or ask for a password on a terminal.
    keyring.core.init_backend(limit=keyring.core.recommended)
    found: Any = keyring.core.get_keyring()
    if isinstance(found, chainer.ChainerBackend):
        # Choose one backend by name: the available ones may differ between a terminal and a service.
        found = next(iter(found.backends), None)
    return None if isinstance(found, fail.Keyring | null.Keyring) else found


if __name__ == "__main__":
    sys.exit(main())
