"""Keyring of the desktop, asked in a process of its own: `python -I -m hearth.secrets.keyring_process`, one each.

A keyring may wait for a person who is to unlock it, or for a bus that never answers, and no thread that waits can be
ended; a process can. The `keyring` package with what it needs would also hold 24 MB in a daemon for good. Request and
answer are JSON on the standard streams, so that no value is ever on a command line.

    {"do": "put", "service": …, "name": …, "value": …}     → {"backend": CLASS}, or null where there is no keyring
    {"do": "get", …, "backend": CLASS}                     → {"value": TEXT or null}
    {"do": "remove", …, "backend": CLASS}                  → {}
    {"do": "look", "backend": CLASS}                       → {}, if it is there; nothing is unlocked for that
    whatever goes wrong                                    → {"error": CLASS, "message": TEXT}
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
from hearth.paths import runtime_dir

# Time for a person to type the keyring's password, and less than a server gets to start.
KEYRING_SECONDS = 30.0
# Python and the package take a quarter of a second to load; on a busy machine many times that.
_STARTUP_SECONDS = 10.0

# One at a time: were it locked, each of them would put up a window of its own.
_TURN = threading.Lock()


def ask(request: dict[str, Any], seconds: float | None = None) -> dict[str, Any]:
    """What the keyring answers. Raises VaultError when it does not, or refuses. Blocks, bounded."""
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
            # On Windows a console would flash up.
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
        answer = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        return {"error": "TimeoutError"}
    except OSError as exc:
        raise VaultError(f"the keyring cannot be asked: {sys.executable} cannot be run: {exc.strerror}") from exc
    except ValueError:
        # Killed, or broken at its first import.
        raise VaultError(
            f"the keyring cannot be asked: the process that does so ended with code {done.returncode};"
            " is Hearth still installed?"
        ) from None
    return answer if isinstance(answer, dict) else {"error": "ValueError", "message": "it answered nonsense"}


def _session_bus() -> dict[str, str]:
    # MCP clients hand on neither variable; the bus of a login lies in a known place all the same.
    bus = os.path.join(runtime_dir(), "bus")
    known = "DBUS_SESSION_BUS_ADDRESS" in os.environ or sys.platform != "linux" or not os.path.exists(bus)
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
    """A keyring by the class that speaks to it, as a person would call it."""
    *_, module, name = ["", *backend.split(".")]
    return f"the keyring ({module if name in ('Keyring', 'DBusKeyring') else name})"


# --- in the process


def main() -> int:
    """Answer the one request."""
    answers, sys.stdout = sys.stdout, sys.stderr  # whatever a backend may print
    request = json.loads(sys.stdin.buffer.read())
    seconds = float(request["seconds"])
    if sys.platform != "win32":
        # Should whoever asked be gone by then, nobody else ends a process that waits.
        signal.alarm(int(seconds + 2 * _STARTUP_SECONDS))
    found: list[dict[str, Any]] = []
    _answer({"do": "load"})  # waits for nobody, hence does not count
    asking = threading.Thread(target=lambda: found.append(_answer(request)), daemon=True)
    asking.start()
    asking.join(seconds)
    json.dump(found[0] if found else {"error": "TimeoutError"}, answers)
    answers.flush()
    os._exit(0)  # a thread that waits in the package's native code would be waited for


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    try:
        return _perform(request)
    except Exception as exc:
        # Backends raise what they like; none of it may carry the value.
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
        _named(request["backend"])  # which fails where the keyring's own service is out of reach
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
        # Somebody has removed it by other means; unless it can still be read.
        if backend.get_password(service, name) is not None:
            raise
    return {}


def _named(backend: str) -> Any:
    import keyring.core

    try:
        return keyring.core.load_keyring(backend)
    except ModuleNotFoundError:
        keyring.core.load_config()  # which may say where else modules are to be looked for
        return keyring.core.load_keyring(backend)


def _usable() -> Any:
    """The keyring that the user has chosen, or the best of the recommended ones; None if there is none."""
    import keyring.core
    from keyring.backends import chainer, fail, null

    # Those that are not recommended keep plain text, or ask for a password on a terminal.
    keyring.core.init_backend(limit=keyring.core.recommended)
    found: Any = keyring.core.get_keyring()
    if isinstance(found, chainer.ChainerBackend):
        # One of them by name: which of them are there may differ between a terminal and a service.
        found = next(iter(found.backends), None)
    return None if isinstance(found, fail.Keyring | null.Keyring) else found


if __name__ == "__main__":
    sys.exit(main())
