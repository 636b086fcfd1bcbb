"""Fingerprints that identify configured servers in files: keyed hashes of everything that defines an entry.

A changed entry has another fingerprint, and a file with fingerprints reveals no arguments or secrets. The key is in a
file of its own; losing it loses only the knowledge stored under its hashes.
"""

import os

from hearth.config import ServerSpec
from hearth.host import private_files

_KEY_BYTES = 32
# A longer file is not ours, and is left alone; one of another length below this limit is replaced.
_FILE_LIMIT_BYTES = 4096


class Fingerprints:
    """Fingerprints of one daemon; `path` is the file of its key, read on first use."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._key = b""
        # Whether the key is new: nothing that was stored under a former key is found again.
        self.are_new = False

    def load(self) -> None:
        """Read the key, or create one. Raises OSError and ValueError; a key exists even then."""
        if self._key:
            return
        self._key, self.are_new = os.urandom(_KEY_BYTES), True
        key = private_files.read(self.path, _FILE_LIMIT_BYTES)
        if len(key) == _KEY_BYTES:
            self._key, self.are_new = key, False

    def keep(self) -> None:
        """Write the key to its file, whose folder must exist. Raises OSError and ValueError.

        If the file has another key, that key is used from now on, and earlier hashes are void.
        """
        self.load()
        key = private_files.read(self.path, _FILE_LIMIT_BYTES)
        if key and len(key) != _KEY_BYTES:
            private_files.write(self.path, self._key)
        elif key or not private_files.create(self.path, self._key):
            # Another process of this profile may have created a key meanwhile: all processes use the first one.
            self._key = key or private_files.read(self.path, _FILE_LIMIT_BYTES)

    def of(self, spec: ServerSpec, *more: object) -> str:
        """Return the hash of an entry, and of other values it depends on: texts, numbers, tuples and lists of them."""
        started = (spec.command, spec.args, sorted(spec.env.items()), spec.cwd)
        reached = (spec.url, sorted(spec.headers.items()), spec.transport)
        # repr is exact for such values: no two different entries look the same.
        return self.digest(repr((started, reached, *more)).encode("utf-8", "surrogatepass"))

    def digest(self, data: bytes) -> str:
        """Return the keyed hash of some bytes; call `load` first."""
        # Not hashlib, which loads OpenSSL: 4 MB of memory for one hash.
        from _blake2 import blake2s

        return blake2s(data, key=self._key, digest_size=16).hexdigest()
