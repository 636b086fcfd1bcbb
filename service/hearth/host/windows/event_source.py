"""Registration of an event source: the message texts that Windows's event log shows for a service's entries.

Without it every entry begins with an apology. The registration is in the registry, beside the services, and needs an
administrator.
"""

import sys

from hearth.errors import HearthError
from hearth.host.windows.task import SERVICES_KEY

_SOURCES_KEY = f"{SERVICES_KEY}\\EventLog\\Application"
# Errors, warnings and information.
_TYPES_SUPPORTED = 0x1 | 0x2 | 0x4


def key(name: str) -> str:
    """Return the registry key of the source, below HKLM."""
    return f"{_SOURCES_KEY}\\{name}"


if sys.platform == "win32":
    import winreg

    def register(name: str, file: str) -> None:
        """Register the message table in that file for entries of that name. Raises HearthError."""
        try:
            with winreg.CreateKey(winreg.HKEY_LOCAL_MACHINE, key(name)) as opened:
                winreg.SetValueEx(opened, "EventMessageFile", 0, winreg.REG_EXPAND_SZ, file)
                winreg.SetValueEx(opened, "TypesSupported", 0, winreg.REG_DWORD, _TYPES_SUPPORTED)
        except OSError as exc:
            raise HearthError(f"Windows refuses HKLM\\{key(name)}: {exc.strerror}") from exc

    def forget(name: str) -> None:
        """Remove the source, if it exists. Raises HearthError."""
        try:
            winreg.DeleteKey(winreg.HKEY_LOCAL_MACHINE, key(name))
        except FileNotFoundError:
            pass
        except OSError as exc:
            raise HearthError(f"Windows refuses to remove HKLM\\{key(name)}: {exc.strerror}") from exc
