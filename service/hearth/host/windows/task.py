"""What starts the daemon on Windows, by its names and places: the logon task, or the service.

`host.install_windows` puts them in place. Imported by the bridge: standard library only.
"""

import os
import sys

from hearth import paths

FILE_NAME = "logon-task.xml"
_PREFIX = "HearthMcp-"
SERVICE_NAME = "HearthMcp"
SERVICES_KEY = "SYSTEM\\CurrentControlSet\\Services"


def name(sid: str) -> str:
    """What the Task Scheduler calls it. All users of a machine have their tasks in one folder, so it names its user."""
    return _PREFIX + sid


def folder() -> str:
    """Where a copy is kept of what was registered: it tells without asking anybody whether there is a task."""
    return os.path.join(paths.state_dir(), "windows")


def file() -> str:
    """That copy; it need not exist."""
    return os.path.join(folder(), FILE_NAME)


def serves(places: paths.Places) -> bool:
    """Whether task and service are those of this daemon: only the default profile has them."""
    return not places.config and not places.named and places.profile == paths.DEFAULT_PROFILE


def scheduler() -> str:
    """The program that speaks with the Task Scheduler. By its whole path: Windows looks in the current folder first."""
    return os.path.join(os.environ.get("SYSTEMROOT") or "C:\\Windows", "System32", "schtasks.exe")


def service_is_there() -> bool:
    """Whether the service is registered. Anybody may look."""
    if sys.platform != "win32":
        return False
    import winreg

    try:
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, f"{SERVICES_KEY}\\{SERVICE_NAME}"):
            return True
    except OSError:
        return False
