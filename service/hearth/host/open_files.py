"""Files that others may rename or remove while they are open here, as everywhere but on Windows they may.

A log is rotated by renaming it; on Windows one that any process has opened in the usual way stays where it is.
Standard library only.
"""

import os
import sys

if sys.platform == "win32":
    import _winapi
    import msvcrt

    # CreateFile: FILE_READ_DATA; FILE_APPEND_DATA with SYNCHRONIZE; sharing of all three kinds; OPEN_ALWAYS;
    # FILE_ATTRIBUTE_NORMAL.
    _READ, _APPEND, _SHARED = 0x8000_0000, 0x0010_0004, 0x7
    _OPEN_ALWAYS, _NORMAL = 4, 0x80

    def open_to_append(path: str) -> int:
        """A descriptor at the end of the file, which is made if need be. Raises OSError."""
        handle = _winapi.CreateFile(path, _APPEND, _SHARED, _winapi.NULL, _OPEN_ALWAYS, _NORMAL, _winapi.NULL)
        return msvcrt.open_osfhandle(handle, os.O_WRONLY | os.O_APPEND | os.O_BINARY | os.O_NOINHERIT)

    def open_to_read(path: str, flags: int = 0) -> int:
        """A descriptor at the beginning of the file; an opener for `open`. Raises OSError."""
        handle = _winapi.CreateFile(path, _READ, _SHARED, _winapi.NULL, _winapi.OPEN_EXISTING, _NORMAL, _winapi.NULL)
        return msvcrt.open_osfhandle(handle, os.O_RDONLY | os.O_BINARY | os.O_NOINHERIT)

else:

    def open_to_append(path: str) -> int:
        """A descriptor at the end of the file, which is made if need be, for this user only. Raises OSError."""
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def open_to_read(path: str, flags: int = 0) -> int:
        """A descriptor at the beginning of the file; an opener for `open`. Raises OSError."""
        return os.open(path, os.O_RDONLY)
