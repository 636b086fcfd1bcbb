"""State of the logon task or the service that starts the daemon on Windows. Reads only; `install` changes them.

See `service_state`.
"""

import os
import sys
from xml.etree import ElementTree

from hearth import paths, sids
from hearth.control_client.unit import AGAIN, BY_BRIDGE, Unit, check_unit
from hearth.errors import HearthError
from hearth.findings import Finding, FixRequest
from hearth.host.folders import read_text
from hearth.host.windows import task

ADVICE_ON_VARIABLES = (
    "Do as it says. The Task Scheduler gives the daemon your variables as they were at logon: after `setx`, log on"
    " again."
)
ADVICE_ON_PATH = "Install it, or write its whole path; a PATH that was changed holds from the next logon on."
_NAMESPACE = "{http://schemas.microsoft.com/windows/2004/02/mit/task}"


def look(places: paths.Places, kind: str) -> Unit | None:
    """Return the service or the task as a unit; None for a daemon that has none. Runs no program, so it is quick."""
    if not task.serves(places):
        return None
    if task.service_is_there():
        return Unit(task.SERVICE_NAME, True, "active", "", 0, task.REGISTRY_FOLDER)
    return Unit(task.name(sids.own()), os.path.lexists(task.file()), "active", "", 0, task.file())


def start_hint(held: Unit | None) -> str:
    """Return a sentence on what would start the daemon."""
    if held is None or not held.installed:
        return BY_BRIDGE
    if held.name == task.SERVICE_NAME:
        return f"The service {held.name} starts it with the first connection."
    return f"The first bridge has the Task Scheduler start it ({held.name})."


def check(places: paths.Places) -> list[Finding]:
    """Check the task, or the service, and the interpreter that it starts."""
    return [check_unit(look(places, "service"), "no task or service is for this daemon", _missing, _state)]


def _state(held: Unit) -> Finding:
    if held.name == task.SERVICE_NAME:
        return Finding("units.state", "ok", f"the service {held.name} is installed", "", held.name)
    return _ask_scheduler(held.name)


def _missing(held: Unit) -> str | None:
    return None if held.name == task.SERVICE_NAME else missing_interpreter(read_text(held.path))


def _ask_scheduler(name: str) -> Finding:
    from hearth.host.windows.services import Schtasks  # loads pywin32

    tasks = Schtasks()
    try:
        known = tasks.problem is None and tasks.knows(name)
    except HearthError as exc:
        return Finding("units.manager", "note", str(exc), "", name)
    if tasks.problem:
        return Finding("units.manager", "note", f"the Task Scheduler was not asked: {tasks.problem}", "", name)
    if not known:
        message = f"{task.file()} tells of {name}, and the Task Scheduler does not know it"
        return Finding("units.stopped", "note", message, AGAIN, name, FixRequest("install"))
    return Finding("units.state", "ok", f"{name} is installed", "", name)


def missing_interpreter(text: str) -> str | None:
    """Return the interpreter that the task's XML names, if it is missing: an upgrade may have moved it."""
    try:
        command = ElementTree.fromstring(text).findtext(f"{_NAMESPACE}Actions/{_NAMESPACE}Exec/{_NAMESPACE}Command")
    except ElementTree.ParseError:
        return "what cannot be read"
    return command if command is None or not os.path.isfile(command) else None


def search_path(places: paths.Places) -> str | None:
    """Return the PATH of the next logon, which the Task Scheduler and the service manager give to the daemon.

    None for a daemon without a task or a service.
    """
    held = look(places, "service")
    if sys.platform != "win32" or held is None or not held.installed:
        return None
    import winreg

    system = winreg.HKEY_LOCAL_MACHINE, r"SYSTEM\CurrentControlSet\Control\Session Manager\Environment"
    parts = [_registered_path(*place) for place in (system, (winreg.HKEY_CURRENT_USER, "Environment"))]
    return os.pathsep.join(filter(None, parts)) or None


def _registered_path(root: int, key: str) -> str:
    if sys.platform != "win32":
        return ""
    import winreg

    try:
        with winreg.OpenKey(root, key) as opened:
            value, _ = winreg.QueryValueEx(opened, "Path")
    except OSError:
        return ""
    return winreg.ExpandEnvironmentStrings(str(value))
