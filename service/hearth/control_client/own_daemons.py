"""Every daemon of this user that runs from this installation: what `--all` means for `stop` and `restart`.

Found by their registries, without waking any. Daemons of another installation, or of one that is gone, are left alone.
"""

import os
import sys
from collections.abc import Iterator

from hearth import paths, profile_lock
from hearth.control_client import running_daemon
from hearth.control_client.connection import ControlConnection
from hearth.control_client.running_daemon import RunningDaemon
from hearth.errors import Unreachable


def running() -> Iterator[tuple[str, RunningDaemon]]:
    """What each is called (its profile, or the hash of its config's path), and where it is."""
    # The default one may be where the system's systemd has put it, whatever else there is.
    keys = {paths.DEFAULT_PROFILE, *_keys(os.path.join(paths.runtime_dir(), "mcp")), *profile_lock.keys()}
    for key in sorted(keys):
        try:
            # A config's hash names the same folder and socket as its path does.
            lit = running_daemon.find(paths.Places(key))
        except ValueError:
            continue
        if lit is not None and _is_ours(lit):
            yield key, lit


def _keys(folder: str) -> list[str]:
    try:
        return [entry.name for entry in os.scandir(folder) if entry.is_dir()]
    except OSError:
        return []


def _is_ours(lit: RunningDaemon) -> bool:
    try:
        with ControlConnection(lit.endpoint, lit.pid, lit.token) as control:
            return control.status().get("executable") == sys.executable
    except Unreachable:
        # It has just gone, or hangs: nothing that asking once more would mend.
        return False
