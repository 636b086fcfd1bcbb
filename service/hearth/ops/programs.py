"""Programs of servers, looked for on this machine: as a client would find them, and as `hearth add` is told of them."""

import os
import shutil
from collections.abc import Mapping
from typing import Any

# Marks a reference, which only the daemon resolves.
_REFERENCE = "${"


def full_path(command: str, search_path: str | None, folder: str | None) -> str | None:
    """Return the full path of a command as a client started from this shell would find it, or None.

    `search_path` and `folder` are the PATH and the working folder of the entry, where it sets them.
    """
    command = os.path.expanduser(command)
    if not os.path.dirname(command):
        found = shutil.which(command, path=search_path)
        # A folder in PATH may be relative, such as node_modules/.bin.
        return os.path.abspath(found) if found else None
    path = os.path.join(os.path.expanduser(folder or ""), command)
    # A path that is still relative depends on the folder that the client runs in.
    return shutil.which(os.path.normpath(path)) if os.path.isabs(path) else None


def problem(entry: Mapping[str, Any]) -> str | None:
    """Say why an entry's command, given by its path, cannot be run; None if it can, or if only the daemon can tell."""
    command, folder = str(entry.get("command") or ""), str(entry.get("cwd") or "")
    if not os.path.dirname(command) or _REFERENCE in command + folder:
        return None
    path = os.path.join(os.path.expanduser(folder), os.path.expanduser(command))
    if not os.path.isabs(path) or shutil.which(path):
        return None
    return f"the command {path!r} {'is not a program' if os.path.exists(path) else 'does not exist'}"
