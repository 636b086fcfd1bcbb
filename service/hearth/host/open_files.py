"""Files that others may rename or remove while they are open here, and files for this user only, on Windows as well.

A log is rotated by renaming it; on Windows one that any process has opened in the usual way stays where it is, and the
mode of a new file means nothing. Standard library only.
"""

import os
import sys

if sys.platform == "win32":
    import _winapi
    import ctypes
    import functools
    import msvcrt

    from hearth import sids
    from hearth.host.windows import security_descriptors

    # CreateFile: GENERIC_READ; GENERIC_WRITE; FILE_APPEND_DATA with SYNCHRONIZE; sharing of all three kinds, or none;
    # CREATE_NEW; OPEN_ALWAYS; FILE_ATTRIBUTE_NORMAL.
    _READ, _WRITE, _APPEND, _SHARED, _ALONE = 0x8000_0000, 0x4000_0000, 0x0010_0004, 0x7, 0x0
    _CREATE_NEW, _OPEN_ALWAYS, _NORMAL = 1, 4, 0x80

    def open_to_append(path: str) -> int:
        """A descriptor at the end of the file, which is made if need be. Raises OSError."""
        handle = _winapi.CreateFile(path, _APPEND, _SHARED, _winapi.NULL, _OPEN_ALWAYS, _NORMAL, _winapi.NULL)
        return msvcrt.open_osfhandle(handle, os.O_WRONLY | os.O_APPEND | os.O_BINARY | os.O_NOINHERIT)

    def open_to_read(path: str, flags: int = 0) -> int:
        """A descriptor at the beginning of the file; an opener for `open`. Raises OSError."""
        handle = _winapi.CreateFile(path, _READ, _SHARED, _winapi.NULL, _winapi.OPEN_EXISTING, _NORMAL, _winapi.NULL)
        return msvcrt.open_osfhandle(handle, os.O_RDONLY | os.O_BINARY | os.O_NOINHERIT)

    @functools.cache
    def _owner_only() -> security_descriptors.SecurityAttributes:
        """One entry, for this user, and nothing from the folder: an installation may have opened that to others."""
        sid = sids.own()
        return security_descriptors.attributes(f"O:{sid}D:P(A;;FA;;;{sid})")

    def open_private(path: str) -> int:
        """A descriptor of an empty file for this user only. Raises OSError."""
        # Who may open it stays as it is for a file that is there.
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
        security = ctypes.addressof(_owner_only())
        handle = _winapi.CreateFile(path, _WRITE, _ALONE, security, _CREATE_NEW, _NORMAL, _winapi.NULL)
        return msvcrt.open_osfhandle(handle, os.O_WRONLY | os.O_BINARY | os.O_NOINHERIT)

else:

    def open_to_append(path: str) -> int:
        """A descriptor at the end of the file, which is made if need be, for this user only. Raises OSError."""
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def open_to_read(path: str, flags: int = 0) -> int:
        """A descriptor at the beginning of the file; an opener for `open`. Raises OSError."""
        return os.open(path, os.O_RDONLY)

    def open_private(path: str) -> int:
        """A descriptor of an empty file for this user only. Raises OSError, also for a link."""
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
