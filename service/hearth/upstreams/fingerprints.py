"""What configured servers are known by in files: a keyed hash of all that makes an entry what it is.

A changed entry is another one, and a file that holds the hash tells nothing of arguments or secrets. The key lies in a
file of its own; whoever loses it has lost what is known under its hashes, and nothing else.
"""

import os

from hearth.config import ServerSpec
from hearth.host import private_files

_KEY_BYTES = 32
# What is longer is not ours, and is left alone; what is shorter or a little longer is replaced.
_FILE_LIMIT_BYTES = 4096


class Fingerprints:
    """The hashes of one daemon; `path` is the file of its key, read at the first question."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._key = b""
        # Whether there was a key: under a new one, nothing that was kept is found again.
        self.are_new = False

    def load(self) -> None:
        """Read the key, or make one. Raises OSError and ValueError, and there is a key then, too."""
        if self._key:
            return
        self._key, self.are_new = os.urandom(_KEY_BYTES), True
        key = private_files.read(self.path, _FILE_LIMIT_BYTES)
        if len(key) == _KEY_BYTES:
            self._key, self.are_new = key, False

    def keep(self) -> None:
        """Have the key in its file, whose folder has to be there. Raises OSError and ValueError.

        Where the file has another one, that is the key from now on: hashes that were made before mean nothing then.
        """
        self.load()
        key = private_files.read(self.path, _FILE_LIMIT_BYTES)
        if key and len(key) != _KEY_BYTES:
            private_files.write(self.path, self._key)
        elif key or not private_files.create(self.path, self._key):
            # Another process of this profile may have made one meanwhile: what was made first is everybody's.
            self._key = key or private_files.read(self.path, _FILE_LIMIT_BYTES)

    def of(self, spec: ServerSpec, *more: object) -> str:
        """The hash of an entry, and of more that it depends on: texts, numbers, and tuples and lists of them."""
        started = (spec.command, spec.args, sorted(spec.env.items()), spec.cwd)
        reached = (spec.url, sorted(spec.headers.items()), spec.transport)
        # Of such values repr is exact: no two different entries look the same.
        return self.digest(repr((started, reached, *more)).encode("utf-8", "surrogatepass"))

    def digest(self, data: bytes) -> str:
        """The keyed hash of some bytes; `load` comes first."""
        # Not hashlib: it loads OpenSSL, 4 MB that the daemon would carry for one hash.
        from _blake2 import blake2s

        return blake2s(data, key=self._key, digest_size=16).hexdigest()
