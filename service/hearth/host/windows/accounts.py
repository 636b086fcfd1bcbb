"""Accounts of Windows: users of processes and of a pipe's clients, accounts that are refused, and access rights.

`hearth.sids` knows this process's user and a pipe's owner, without a package, for the bridge as well.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from hearth.sids import NOBODY

# Well-known security identifiers of accounts that belong to no person, the same on every Windows.
_OF_THE_SYSTEM = {
    "S-1-5-18": "LocalSystem",
    "S-1-5-19": "LocalService",
    "S-1-5-20": "NetworkService",
}


def refusal(sid: str) -> str | None:
    """Return why the daemon, which is for one person, refuses to run as this user; None for a person's account."""
    name = _OF_THE_SYSTEM.get(sid)
    if name is None:
        return None
    return (
        f"Hearth does not run as {name}: it would start the MCP servers of a person with the rights of the system."
        " `hearth install --service` sets up a service for each user, which runs as that user"
    )


@contextmanager
def os_errors() -> Iterator[None]:
    """Raise errors of pywin32 (`pywintypes.error`) as OSError, of the subclass that their number stands for."""
    try:
        yield
    except Exception as exc:
        if isinstance(exc, OSError) or not hasattr(exc, "winerror"):
            raise
        raise OSError(None, exc.args[-1], None, exc.winerror) from exc


if sys.platform == "win32":
    import _winapi
    from typing import TYPE_CHECKING

    if TYPE_CHECKING:
        from _win32typing import PySECURITY_ATTRIBUTES

    QUERY_LIMITED_INFORMATION = 0x1000
    # GetCurrentThread's answer. win32api, which has that function, and OpenProcess too, would load shell32.
    _THIS_THREAD = -2

    def is_elevated() -> bool:
        """Tell whether this process runs with administrator rights."""
        import win32security

        try:
            token = win32security.OpenProcessToken(_winapi.GetCurrentProcess(), win32security.TOKEN_QUERY)
            return bool(win32security.GetTokenInformation(token, win32security.TokenElevation))
        except win32security.error:
            return False

    def of_process(pid: int) -> str:
        """Return the user of a process; NOBODY if it is gone or may not be examined."""
        import win32security

        try:
            process = _winapi.OpenProcess(QUERY_LIMITED_INFORMATION, False, pid)
        except OSError:
            return NOBODY
        try:
            return _user_of(win32security.OpenProcessToken(process, win32security.TOKEN_QUERY))
        except win32security.error:
            return NOBODY
        finally:
            _winapi.CloseHandle(process)

    def of_client(pipe: int) -> str:
        """Return the user at the other end of a connected server pipe; NOBODY if that is not known yet.

        The client's process is not examined: its pid may have been reused by another user's process.
        """
        import win32security

        try:
            win32security.ImpersonateNamedPipeClient(pipe)
            try:
                token = win32security.OpenThreadToken(_THIS_THREAD, win32security.TOKEN_QUERY, True)
            finally:
                _stop_impersonating()
            return _user_of(token)
        except win32security.error:
            return NOBODY

    def _stop_impersonating() -> None:
        import win32security

        try:
            win32security.RevertToSelf()
        except win32security.error:
            # The process must not continue as another user.
            os._exit(1)

    def _user_of(token: int) -> str:
        import win32security

        sid, _ = win32security.GetTokenInformation(token, win32security.TokenUser)
        return win32security.ConvertSidToStringSid(sid)

    def attributes(text: str) -> "PySECURITY_ATTRIBUTES":
        """Return attributes for a new pipe or file with a descriptor given in SDDL. Raises OSError."""
        import win32security

        found = win32security.SECURITY_ATTRIBUTES()
        with os_errors():
            found.SECURITY_DESCRIPTOR = win32security.ConvertStringSecurityDescriptorToSecurityDescriptor(
                text, win32security.SDDL_REVISION_1
            )
        # pywin32 would have the handle inherited.
        found.bInheritHandle = False
        return found
