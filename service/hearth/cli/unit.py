"""What the user's systemd says about Hearth's units. Looks only; `install` is what changes them.

Asks only a manager that is there: its private socket lies in the runtime folder, so that a scratch one has
none.
"""

import os
import subprocess
from typing import NamedTuple

from hearth import paths

# The manager answers from memory; one that takes longer is not worth waiting for.
SYSTEMCTL_SECONDS = 5.0
_PROPERTIES = ("Id", "LoadState", "ActiveState", "Result", "MainPID", "FragmentPath")


class Unit(NamedTuple):
    """One unit as the manager sees it. `active` is its ActiveState; an unknown unit is not `installed`."""

    name: str
    installed: bool
    active: str
    result: str
    pid: int
    path: str


def unit_name(places: paths.Places, kind: str) -> str | None:
    """The unit of this daemon; None for one that is named by a config's path, which has none."""
    if places.config:
        return None
    instance = "" if places.profile == paths.DEFAULT_PROFILE else f"@{places.profile}"
    return f"mcp{instance}.{kind}"


def user_manager_runs() -> bool:
    """Whether a systemd user manager serves this runtime folder."""
    return os.path.exists(os.path.join(paths.runtime_dir(), "systemd", "private"))


def look(places: paths.Places, kind: str) -> Unit | None:
    """The daemon's unit of this kind; None when there is no manager to ask, or it has no name there."""
    name = unit_name(places, kind)
    if name is None or not user_manager_runs():
        return None
    command = ["systemctl", "--user", "show", f"--property={','.join(_PROPERTIES)}", "--", name]
    environment = {**os.environ, "XDG_RUNTIME_DIR": paths.runtime_dir()}
    try:
        asked = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=SYSTEMCTL_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse(name, asked.stdout) if asked.returncode == 0 else None


def parse(name: str, text: str) -> Unit:
    """What `systemctl show` printed, as a Unit."""
    known = dict(line.partition("=")[::2] for line in text.splitlines())
    return Unit(
        name=name,
        installed=known.get("LoadState", "not-found") not in {"not-found", ""},
        active=known.get("ActiveState", ""),
        result=known.get("Result", ""),
        pid=int(known.get("MainPID") or 0),
        path=known.get("FragmentPath", ""),
    )
