"""Where Windows's event log finds the words to what a service writes into it; without it every entry begins with an
apology. In the registry, an administrator's, beside the services."""

import sys

from hearth.errors import HearthError
from hearth.host.windows.task import SERVICES_KEY

_SOURCES_KEY = f"{SERVICES_KEY}\\EventLog\\Application"
# Errors, warnings and information.
_TYPES_SUPPORTED = 0x1 | 0x2 | 0x4


def key(name: str) -> str:
    """The source's place, below HKLM."""
    return f"{_SOURCES_KEY}\\{name}"


if sys.platform == "win32":
    import winreg

    def register(name: str, file: str) -> None:
        """Have entries of that name looked up in the message table of that file. Raises HearthError."""
        try:
            with winreg.CreateKey(winreg.HKEY_LOCAL_MACHINE, key(name)) as opened:
                winreg.SetValueEx(opened, "EventMessageFile", 0, winreg.REG_EXPAND_SZ, file)
                winreg.SetValueEx(opened, "TypesSupported", 0, winreg.REG_DWORD, _TYPES_SUPPORTED)
        except OSError as exc:
            raise HearthError(f"Windows refuses HKLM\\{key(name)}: {exc.strerror}") from exc

    def forget(name: str) -> None:
        """Take the source away, if it is there. Raises HearthError."""
        try:
            winreg.DeleteKey(winreg.HKEY_LOCAL_MACHINE, key(name))
        except FileNotFoundError:
            pass
        except OSError as exc:
            raise HearthError(f"Windows refuses to remove HKLM\\{key(name)}: {exc.strerror}") from exc
