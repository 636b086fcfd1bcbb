"""Files that can be renamed or removed while they are open, and private files of this user, on Windows as well.

A log is rotated by renaming it. On Windows, a file that any process has opened in the usual way cannot be renamed, and
the mode of a new file means nothing. pywin32 is imported by the first private file.
"""

import os
import sys
from typing import Any

if sys.platform == "win32":
    import _winapi
    import msvcrt

    from hearth import sids
    from hearth.host.windows import accounts

    # CreateFile: GENERIC_READ; GENERIC_WRITE; FILE_APPEND_DATA with SYNCHRONIZE; sharing of all three kinds, or none;
    # CREATE_NEW; OPEN_ALWAYS; FILE_ATTRIBUTE_NORMAL.
    _READ, _WRITE, _APPEND, _SHARED, _ALONE = 0x8000_0000, 0x4000_0000, 0x0010_0004, 0x7, 0x0
    _CREATE_NEW, _OPEN_ALWAYS, _NORMAL = 1, 4, 0x80

    def open_to_append(path: str) -> int:
        """Open the file for appending, and create it if needed; return the descriptor. Raises OSError."""
        handle = _winapi.CreateFile(path, _APPEND, _SHARED, _winapi.NULL, _OPEN_ALWAYS, _NORMAL, _winapi.NULL)
        return msvcrt.open_osfhandle(handle, os.O_WRONLY | os.O_APPEND | os.O_BINARY | os.O_NOINHERIT)

    def open_to_read(path: str, flags: int = 0) -> int:
        """Open the file for reading; return the descriptor. Usable as an opener for `open`. Raises OSError."""
        handle = _winapi.CreateFile(path, _READ, _SHARED, _winapi.NULL, _winapi.OPEN_EXISTING, _NORMAL, _winapi.NULL)
        return msvcrt.open_osfhandle(handle, os.O_RDONLY | os.O_BINARY | os.O_NOINHERIT)

    def open_private(path: str) -> int:
        """Create an empty file for this user only, replacing any former one; return the descriptor. Raises OSError."""
        import win32file

        # Remove a former file first: opening it would keep its access rights.
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
        # One entry, this user's, none inherited: an installer may have opened the folder.
        security = accounts.attributes(f"O:{sids.own()}D:P(A;;FA;;;{sids.own()})")
        with accounts.os_errors():
            handle: Any = win32file.CreateFile(path, _WRITE, _ALONE, security, _CREATE_NEW, _NORMAL, None)
        return msvcrt.open_osfhandle(handle.Detach(), os.O_WRONLY | os.O_BINARY | os.O_NOINHERIT)

else:

    def open_to_append(path: str) -> int:
        """Open the file for appending, or create it for this user only; return the descriptor. Raises OSError."""
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def open_to_read(path: str, flags: int = 0) -> int:
        """Open the file for reading; return the descriptor. Usable as an opener for `open`. Raises OSError."""
        return os.open(path, os.O_RDONLY)

    def open_private(path: str) -> int:
        """Open the file empty, created for this user only; return the descriptor. Raises OSError, also for a link."""
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
