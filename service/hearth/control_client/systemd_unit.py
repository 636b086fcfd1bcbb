"""State of Hearth's systemd units: the user's own, or the system's. Reads only; `install` changes them.

See `service_state`. Asks only a manager that exists: the user's has its private socket in the runtime folder, so that
a scratch runtime folder has none.
"""

import json
import os
import shlex

from hearth import paths
from hearth.control_client.unit import BY_BRIDGE, Unit
from hearth.errors import HearthError
from hearth.findings import Finding
from hearth.host import system
from hearth.host.linux import units

# The manager answers from memory; a slower one is not worth waiting for.
SYSTEMCTL_SECONDS = 5.0
ADVICE_ON_VARIABLES = "Do as it says; variables are set where the daemon starts: for systemd, in environment.d(5)."
ADVICE_ON_PATH = (
    "Install it, or write its whole path; `hearth install`, typed in a shell that finds it, gives systemd"
    " that shell's PATH."
)
_PROPERTIES = ("Id", "LoadState", "ActiveState", "Result", "MainPID", "FragmentPath")


def units_of(places: paths.Places) -> units.Units | None:
    """Return the units of this daemon; None for a daemon that is named by its config's path, which has none."""
    if places.config:
        return None
    return units.of_user(system.user_id()) if places.system_wide else units.of_profile(places.profile)


def unit_name(places: paths.Places, kind: str) -> str | None:
    """Return the name of this daemon's unit of that kind; None if it has none."""
    found = units_of(places)
    return found and (found.socket if kind == "socket" else found.service)


def user_manager_runs() -> bool:
    """Tell whether a systemd user manager serves this runtime folder."""
    return os.path.exists(os.path.join(paths.runtime_dir(), "systemd", "private"))


def look(places: paths.Places, kind: str) -> Unit | None:
    """Return the daemon's unit of this kind; None if no manager answers, or if the daemon has no unit."""
    name = unit_name(places, kind)
    said = _ask(places, "show", f"--property={','.join(_PROPERTIES)}", "--", name) if name else None
    return parse(name, said) if name and said is not None else None


def _ask(places: paths.Places, *arguments: str) -> str | None:
    """Return the output of systemctl for the daemon's manager; None if there is none, or it does not answer."""
    found = units_of(places)
    if found is None or not (places.system_wide or user_manager_runs()):
        return None
    environment = {**os.environ, "XDG_RUNTIME_DIR": paths.runtime_dir()}
    try:
        asked = system.ask(["systemctl", *found.scope, *arguments], SYSTEMCTL_SECONDS, environment)
    except HearthError:
        return None
    return asked.stdout if asked.returncode == 0 else None


def parse(name: str, text: str) -> Unit:
    """Parse the output of `systemctl show`."""
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
    """Return the PATH that systemd gives the daemon at its next start.

    None if systemd does not start the daemon, or does not answer.
    """
    name = unit_name(places, "service")
    said = _ask(places, "show", "--property=LoadState,Environment", "--", name) if name else None
    if said is None:
        return None
    known = dict(line.partition("=")[::2] for line in said.splitlines())
    if known.get("LoadState") != "loaded":
        return None
    return path_in(known.get("Environment", "")) or _manager_path(places)


def path_in(environment: str) -> str | None:
    """Return the PATH in a unit's Environment, which `systemctl show` prints with shell quoting. Pure."""
    try:
        words = shlex.split(environment)
    except ValueError:
        return None
    # Within quotes, shlex keeps the backslash before characters that are special only to a shell.
    set_here = [word[5:].replace("\\$", "$").replace("\\`", "`") for word in words if word.startswith("PATH=")]
    return set_here[-1] if set_here else None


def _manager_path(places: paths.Places) -> str | None:
    try:
        path = json.loads(_ask(places, "show-environment", "--output=json") or "").get("PATH")
    except (ValueError, AttributeError):
        return None
    return path if isinstance(path, str) else None


def check(places: paths.Places) -> list[Finding]:
    """Return no finding: `doctor.units` checks these units."""
    return []


def start_hint(held: Unit | None) -> str:
    """Return a sentence on what would start the daemon."""
    if held is None or not held.installed:
        return BY_BRIDGE
    if held.active == "active":
        return f"systemd holds the socket ({held.name}): the first connection lights it."
    if held.active == "failed":
        return (
            f"{held.name} has failed ({held.result}), so nothing will:"
            f" `{held.systemctl} reset-failed {held.name}`, then `{held.systemctl} start {held.name}`."
        )
    return f"{held.name} is installed but not started: `{held.systemctl} enable --now {held.name}`."
