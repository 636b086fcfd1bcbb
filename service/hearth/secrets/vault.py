"""Vault for values that only this user may read: named secrets, and the tokens of logins.

The values are in the desktop's keyring, or without one in a file with mode 0600. An index beside it has the name, time
and location of each value, so that the daemon looks in the same place as the command line even if their environments
differ; the index contains no values. Every call blocks for as long as a keyring may take: in a daemon, call from a
thread.
"""

import contextlib
import json
import os
import time
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from hearth.errors import FileAccessError, VaultError
from hearth.host import private_files, system
from hearth.host.folders import make_private
from hearth.host.private_files import FileLock
from hearth.places import state_dir
from hearth.secrets import keyring_process

Kind = Literal["secrets", "oauth"]

# Tokens and private keys are short; a longer value is a mistake.
VALUE_LIMIT_BYTES = 64 * 1024
# Room for thousands of names; a longer index is not ours.
INDEX_LIMIT_BYTES = 1024 * 1024
FILE_LIMIT_BYTES = 16 * 1024 * 1024
# The process that writes may be waiting for a person to unlock the keyring.
LOCK_SECONDS = keyring_process.KEYRING_SECONDS + 15
_VERSION = 1
_SERVICES: dict[Kind, str] = {"secrets": "hearth", "oauth": "hearth-oauth"}
_FILE = "file"
# Limit of Windows' Credential Manager (CRED_MAX_CREDENTIAL_BLOB_SIZE), in UTF-16; longer values go to the file.
_WINDOWS_LIMIT_BYTES = 2560
_OTHERWISE = "; or set PYTHON_KEYRING_BACKEND=keyring.backends.null.Keyring, which keeps values in a file instead"


class VaultEntry(NamedTuple):
    """Index entry of a value: `backend` is the class of its keyring, or "file"; `where` names it for people."""

    changed_at: float
    where: str
    backend: str


class Vault:
    """Store for the values of one kind. Any process of this user may use it at any time; a lock serializes writes."""

    def __init__(self, kind: Kind) -> None:
        folder = os.path.join(state_dir(), "vault")
        self._service = _SERVICES[kind]
        self._index = os.path.join(folder, f"{kind}.json")
        self._values = os.path.join(folder, f"{kind}.values.json")
        self._lock = os.path.join(folder, f"{kind}.lock")

    def entries(self) -> dict[str, VaultEntry]:
        """Return the index entries by name, without asking the keyring. Raises VaultError if the index is damaged."""
        return {
            name: VaultEntry(entry["changedAt"], self._in_words(entry["backend"]), entry["backend"])
            for name, entry in _read(self._index, INDEX_LIMIT_BYTES, _is_entry).items()
        }

    def get(self, name: str) -> str | None:
        """Return the value; None if there is none. Raises VaultError if it cannot be read."""
        for _ in range(2):
            entry = self.entries().get(name)
            if entry is None:
                return None
            value = self._look_up(entry.backend, name)
            if value is not None:
                return value
            # The value may have moved elsewhere between the two reads.
        return None

    def _look_up(self, backend: str, name: str) -> str | None:
        if backend == _FILE:
            return self._read_values().get(name)
        value = keyring_process.ask(self._request("get", name, backend=backend)).get("value")
        return value if isinstance(value, str) else None

    def reach(self, name: str, seconds: float) -> None:
        """Raise VaultError if a value's keyring is out of reach. The value is not read, and nothing is unlocked."""
        entry = self.entries().get(name)
        if entry and entry.backend != _FILE:
            keyring_process.ask({"do": "look", "backend": entry.backend}, seconds)

    def put(self, name: str, value: str) -> str:
        """Store a value, replacing a former one; return its location in words. Raises VaultError."""
        if not name or not value:
            raise VaultError("neither a name nor a value that is kept may be empty")
        if len(value.encode("utf-8", "surrogatepass")) > VALUE_LIMIT_BYTES:
            raise VaultError(f"the value is longer than {VALUE_LIMIT_BYTES} bytes")
        with self._writing():
            former = self.entries().get(name)
            backend = self._put_into_keyring(name, value)
            if backend == _FILE:
                _write(self._values, {**self._read_values(), name: value})
            self._note({name: {"changedAt": time.time(), "backend": backend}})
            if former and former.backend != backend:
                # The index no longer refers to the former copy.
                with contextlib.suppress(VaultError):
                    self._take_from(former.backend, name)
        return self._in_words(backend)

    def _put_into_keyring(self, name: str, value: str) -> str:
        if system.is_windows() and len(value.encode("utf-16-le", "surrogatepass")) > _WINDOWS_LIMIT_BYTES:
            return _FILE
        try:
            answer = keyring_process.ask(self._request("put", name, value=value))
        except VaultError as exc:
            raise VaultError(f"{exc}{_OTHERWISE}") from exc
        return str(answer.get("backend") or _FILE)

    def remove(self, name: str) -> bool:
        """Remove a value; return False if there is none. Raises VaultError if its keyring does not remove it."""
        with self._writing():
            entry = self.entries().get(name)
            if entry is None:
                return False
            self._take_from(entry.backend, name)
            self._note({name: None})
            return True

    def _take_from(self, backend: str, name: str) -> None:
        if backend != _FILE:
            keyring_process.ask(self._request("remove", name, backend=backend))
            return
        left = self._read_values()
        if left.pop(name, None) is not None:
            _write(self._values, left)

    def _request(self, do: str, name: str, **more: str) -> dict[str, Any]:
        return {"do": do, "service": self._service, "name": name, **more}

    def _in_words(self, backend: str) -> str:
        return f"the file {self._values}" if backend == _FILE else keyring_process.in_words(backend)

    # --- files

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        lock = FileLock(self._lock)
        try:
            make_private(os.path.dirname(self._lock))
            if not lock.acquire(seconds=LOCK_SECONDS):
                raise VaultError(
                    f"another hearth has been writing for {LOCK_SECONDS:g} s; it may be waiting for the keyring"
                    " to be unlocked"
                )
            yield
        except FileAccessError as exc:
            raise VaultError(str(exc)) from exc
        finally:
            lock.release()

    def _note(self, changes: dict[str, dict[str, object] | None]) -> None:
        known = {**_read(self._index, INDEX_LIMIT_BYTES, _is_entry), **changes}
        _write(self._index, {name: entry for name, entry in known.items() if entry is not None})

    def _read_values(self) -> dict[str, str]:
        return _read(self._values, FILE_LIMIT_BYTES, lambda value: isinstance(value, str))


def _is_entry(found: Any) -> bool:
    return (
        isinstance(found, dict)
        and isinstance(found.get("changedAt"), int | float)
        and isinstance(found.get("backend"), str)
    )


def _read(path: str, limit: int, is_right: Any) -> dict[str, Any]:
    try:
        data = private_files.read(path, limit)
        tree = json.loads(data) if data else {"version": _VERSION, "entries": {}}
    except OSError as exc:
        raise VaultError(f"cannot read {path}: {(exc.strerror or str(exc)).lower()}") from exc
    except (ValueError, RecursionError) as exc:
        raise _damaged(path) from exc
    entries = tree.get("entries") if isinstance(tree, dict) and tree.get("version") == _VERSION else None
    if not isinstance(entries, dict) or not all(map(is_right, entries.values())):
        raise _damaged(path)
    return entries


def _damaged(path: str) -> VaultError:
    # A damaged file is never replaced automatically: its entries would be lost.
    return VaultError(f"{path} is damaged, or not a file of yours; move it away, then store what was in it again")


def _write(path: str, entries: dict[str, Any]) -> None:
    try:
        data = json.dumps({"version": _VERSION, "entries": entries}, indent=1).encode() + b"\n"
        private_files.write(path, data, durable=True)
    except OSError as exc:
        raise VaultError(f"cannot write {path}: {(exc.strerror or str(exc)).lower()}") from exc
