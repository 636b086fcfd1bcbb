"""Client context: everything about a client that the choice of its instance depends on. Knows nothing of sessions.

The set of its folders identifies a workspace, whatever names its clients give them: percent-decoded real paths.
`locate` follows links, which reads the disk; before that the paths count as written.
"""

import os
from collections.abc import Callable
from typing import NamedTuple

from hearth.mcp import versions
from hearth.wire import json, values

_FILE = "file:"


class Location(NamedTuple):
    """Folders of a client on this machine, and the working directory for a process of its workspace."""

    folders: tuple[str, ...]
    start: str | None


class ClientContext(NamedTuple):
    """Context of one client."""

    session: str
    era: str = versions.MODERN
    cwd: str | None = None
    # Raw `Root` objects, as the client listed them; None if it cannot list any.
    roots: tuple[bytes, ...] | None = None
    # Raw, as the client declared them.
    capabilities: bytes = b"{}"
    # Location of these roots and this folder, once the disk was read; None also if the disk does not respond.
    location: Location | None = None

    @property
    def workspace(self) -> str:
        """Key that is equal for clients in the same workspace; a client without a folder shares with no other."""
        folders = self.location.folders if self.location else _folders(self.roots, self.cwd, os.path.normpath)
        if not folders:
            place = self.cwd or f"session {self.session}"
            # A client with an empty list of roots must not share with a client that cannot list roots.
            return f"{place} (no roots)" if self.roots is not None else place
        return folders[0] if len(folders) == 1 else json.dumps(folders).decode()

    @property
    def folder(self) -> str | None:
        """Working directory for a process of the client's workspace."""
        return self.location.start if self.location else self.cwd

    def root_list(self) -> bytes:
        """Return the result of `roots/list` for this client."""
        roots = self.roots
        if roots is None:
            roots = (_root(self.cwd),) if self.cwd and os.path.isabs(self.cwd) else ()
        return b'{"roots":[%b]}' % b",".join(roots)


def locate(roots: tuple[bytes, ...] | None, cwd: str | None) -> Location:
    """Find the folders of a client on the disk. Blocks: a folder may be on a network that does not answer."""
    folders = _folders(roots, cwd, _real_path)
    return Location(folders, next(filter(os.path.isdir, folders), cwd))


def _folders(roots: tuple[bytes, ...] | None, cwd: str | None, normalise: Callable[[str], str]) -> tuple[str, ...]:
    """Return the set of normalised folders, sorted; without roots, only the working directory."""
    if roots is None:
        return (normalise(cwd),) if cwd else ()
    uris = ((values.text(values.members(root).get("uri")), root) for root in roots)
    found = {_place(root.decode("utf-8", "replace") if uri is None else uri, normalise) for uri, root in uris}
    return tuple(sorted(found))


def _place(uri: str, normalise: Callable[[str], str]) -> str:
    """Return the path of a folder on this machine; any other URI unchanged."""
    if not uri.lower().startswith(_FILE):
        return uri
    host, slash, path = uri[len(_FILE) :].removeprefix("//").partition("/")
    if host.lower() not in ("", "localhost") or not slash:
        return uri
    from urllib.parse import unquote

    path = unquote("/" + path, errors="surrogateescape")
    if os.name == "nt" and path[2:3] == ":":
        path = path[1:]
    return uri if "\0" in path else normalise(path)


def _real_path(path: str) -> str:
    try:
        # A relative path is relative to a folder that only the client knows.
        return os.path.realpath(path) if os.path.isabs(path) else os.path.normpath(path)
    except (OSError, ValueError):
        return os.path.normpath(path)


def _root(folder: str) -> bytes:
    from pathlib import Path

    return json.dumps({"uri": Path(folder).as_uri(), "name": os.path.basename(folder) or folder})
