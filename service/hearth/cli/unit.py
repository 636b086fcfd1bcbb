"""What the user's systemd says about Hearth's units. Looks only; `install` is what changes them. See `holder`.

Asks only a manager that is there: its private socket lies in the runtime folder, so that a scratch one has
none.
"""

import os
import subprocess
import sys
from typing import NamedTuple

from hearth import paths
from hearth.cli.findings import Finding

# The manager answers from memory; one that takes longer is not worth waiting for.
SYSTEMCTL_SECONDS = 5.0
ADVICE_ON_VARIABLES = "Do as it says; variables are set where the daemon starts: for systemd, in environment.d(5)."
ADVICE_ON_PATH = "Install it, or write its whole path: under systemd the PATH is shorter than in a shell."
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


def search_path(places: paths.Places) -> str | None:
    """The PATH that the manager gives the daemon; None: it is not told from here."""
    return None


def lights(held: Unit | None) -> str:
    """What would start the daemon, in a sentence."""
    if held is None or not held.installed:
        return "The first bridge starts it: `hearth connect --print` shows how a client is connected."
    if held.active == "active":
        return f"systemd holds the socket ({held.name}): the first connection lights it."
    if held.active == "failed":
        return (
            f"{held.name} has failed ({held.result}), so nothing will:"
            f" `systemctl --user reset-failed {held.name}`, then `systemctl --user start {held.name}`."
        )
    return f"{held.name} is installed but not started: `systemctl --user enable --now {held.name}`."


def check(places: paths.Places) -> list[Finding]:
    """The units, where there is a user manager."""
    if sys.platform != "linux":
        return []
    if not user_manager_runs():
        return [Finding("systemd", "note", "no user manager here: the first bridge starts the daemon")]
    found = [look(places, "socket"), look(places, "service")]
    return [_check_unit(each) for each in found if each]


def _check_unit(found: Unit) -> Finding:
    if not found.installed:
        return Finding(found.name, "note", "not installed: the first bridge starts the daemon", "hearth install")
    if found.active == "failed":
        fix = f"systemctl --user reset-failed {found.name}; systemctl --user start {found.name}"
        return Finding(found.name, "broken", f"failed ({found.result})", fix)
    if found.name.endswith(".socket") and found.active != "active":
        return Finding(found.name, "note", f"installed, {found.active}", f"systemctl --user enable --now {found.name}")
    return Finding(found.name, "ok", f"installed, {found.active}")
