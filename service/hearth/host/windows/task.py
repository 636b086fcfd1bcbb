"""Names and places of the logon task and the service that start the daemon on Windows.

`host.install.windows` puts them in place. Imported by the bridge: standard library only.
"""

import os
import sys

from hearth import paths

FILE_NAME = "logon-task.xml"
_PREFIX = "HearthMcp-"
SERVICE_NAME = "HearthMcp"
SERVICES_KEY = "SYSTEM\\CurrentControlSet\\Services"
# Registry key in which the service manager keeps services, in its usual spelling.
REGISTRY_FOLDER = f"HKLM\\{SERVICES_KEY}"


def name(sid: str) -> str:
    """Return the task's name, with the user's SID in it: the tasks of all users are in one folder."""
    return _PREFIX + sid


def folder() -> str:
    """Return the folder of the copy of the registered task, which shows without a query whether there is a task."""
    return os.path.join(paths.state_dir(), "windows")


def file() -> str:
    """Return the path of that copy, which need not exist."""
    return os.path.join(folder(), FILE_NAME)


def serves(places: paths.Places) -> bool:
    """Tell whether task and service start this daemon: only the default profile has them."""
    return not places.config and not places.named and places.profile == paths.DEFAULT_PROFILE


def scheduler() -> str:
    """Return schtasks.exe by its absolute path: Windows searches the current folder first."""
    return os.path.join(os.environ.get("SYSTEMROOT") or "C:\\Windows", "System32", "schtasks.exe")


def service_is_there() -> bool:
    """Tell whether the service is registered. Every user may read that."""
    if sys.platform != "win32":
        return False
    import winreg

    try:
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, f"{SERVICES_KEY}\\{SERVICE_NAME}"):
            return True
    except OSError:
        return False
