"""State of Hearth's agent in the user's launchd. Reads only; `install` changes it. See `service_state`."""

import os
import plistlib
from functools import partial
from xml.parsers.expat import ExpatError

from hearth import paths
from hearth.control_client.unit import AGAIN, BY_BRIDGE, Unit, check_unit
from hearth.errors import HearthError
from hearth.findings import Finding, FixRequest
from hearth.host import system
from hearth.host.macos import launchd

# launchd answers from memory; a slower answer is not worth waiting for.
LAUNCHCTL_SECONDS = 5.0
ADVICE_ON_VARIABLES = (
    "Do as it says. launchd hands on none of your shell's variables but PATH: write the value into the server's env, or"
    " store it with `hearth secret set`."
)
ADVICE_ON_PATH = "Install it, or write its whole path; `hearth install` gives launchd the PATH of its shell."


def look(places: paths.Places, kind: str) -> Unit | None:
    """Return the agent as a unit of this kind, socket or service.

    None for a daemon without an agent, or without launchctl.
    """
    if not launchd.serves(places):
        return None
    try:
        asked = system.ask(["launchctl", "print", launchd.job()], LAUNCHCTL_SECONDS)
    except HearthError:
        return None
    return parse(kind, asked.stdout if asked.returncode == 0 else None, os.path.lexists(launchd.file()))


def parse(kind: str, text: str | None, written: bool) -> Unit:
    """Parse the output of `launchctl print`, None if it failed; `written`: whether the property list exists.

    Pure.
    """
    if text is None:
        return Unit(launchd.LABEL, written, "inactive", "", 0, "")
    # The job's own lines are indented by one tab; those of its sockets and its environment by more.
    rows = (line[1:].partition(" = ")[::2] for line in text.splitlines() if line[:1] == "\t" and line[1:2] != "\t")
    known: dict[str, str] = {}
    for key, value in rows:
        known.setdefault(key, value)
    pid = int(known["pid"]) if known.get("pid", "").isdigit() else 0
    active = "active" if kind == "socket" or pid else "inactive"
    return Unit(launchd.LABEL, True, active, known.get("last exit code", ""), pid, known.get("path", ""))


def start_hint(held: Unit | None) -> str:
    """Return a sentence on what would start the daemon."""
    if held is None or not held.installed:
        return BY_BRIDGE
    if held.active == "active":
        return f"launchd holds the socket ({held.name}): the first connection lights it."
    return f"{held.name} is installed but not loaded: `{AGAIN}` loads it, and so does the next bridge or login."


def check(places: paths.Places) -> list[Finding]:
    """Check the agent, its socket and its interpreter."""
    nothing, state = "launchd has no agent for this daemon", partial(_state, places)
    return [check_unit(look(places, "socket"), nothing, lambda _: missing_interpreter(launchd.file()), state)]


def _state(places: paths.Places, found: Unit) -> Finding:
    name = found.name
    if found.active != "active":
        return Finding(
            "units.stopped", "note", f"{name} is installed, and not loaded", AGAIN, name, FixRequest("install")
        )
    if not os.path.lexists(places.socket):
        message = f"{name} is loaded, but {places.socket} is gone, so nobody can connect"
        return Finding("socket.gone", "broken", message, AGAIN, name)
    if found.result and found.result[0].isdigit() and not found.result.startswith("0"):
        fix = f"{os.path.dirname(places.log)} has what it said."
        message = f"{name} is loaded; it ended last with exit code {found.result}"
        return Finding("units.failed", "note", message, fix, name)
    return Finding("units.state", "ok", f"{name} is installed and loaded", "", name)


def missing_interpreter(path: str) -> str | None:
    """Return the interpreter that the property list names, if it is missing: an upgrade may have moved it."""
    words = _read(path).get("ProgramArguments")
    python = words[0] if isinstance(words, list) and words else None
    return python if isinstance(python, str) and not os.access(python, os.X_OK) else None


def search_path(places: paths.Places) -> str | None:
    """Return the PATH that launchd gives the daemon; None if it has no agent."""
    variables = _read(launchd.file()).get("EnvironmentVariables") if launchd.serves(places) else None
    path = variables.get("PATH") if isinstance(variables, dict) else None
    return path if isinstance(path, str) else None


def _read(path: str) -> dict[str, object]:
    """Return the property list; empty if it cannot be read, which launchd reports itself when it loads it."""
    try:
        with open(path, "rb") as file:
            found = plistlib.load(file)
    except (OSError, ValueError, ExpatError, plistlib.InvalidFileException):
        return {}
    return found if isinstance(found, dict) else {}
