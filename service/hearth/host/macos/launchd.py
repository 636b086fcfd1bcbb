"""Sockets that launchd passes to a job that it starts, from its property list, by launch_activate_socket(3).

This module knows nothing about the socket's purpose. Standard library only: the degraded daemon uses it when nothing
else can be imported. ctypes is loaded only where launchd is.
"""

import errno
import os
import socket
import sys
from typing import TYPE_CHECKING

from hearth.errors import StartError

if TYPE_CHECKING:
    import ctypes

# Whether launchd may have started this process. The tests, which have no launchd, set it themselves.
PRESENT = sys.platform == "darwin"


def take_listener(name: str) -> socket.socket | None:
    """Return the socket of this name, close-on-exec; None in a process that launchd did not start.

    Raises StartError when launchd started this process and has no such socket for it.
    """
    import ctypes

    # None means the whole process: libSystem is in every program of macOS.
    code, descriptors = activate(ctypes.CDLL(None), name)
    if code == errno.ESRCH:
        return None
    if code:
        raise StartError(refusal(name, code))
    if not descriptors:
        raise StartError(
            f"launchd handed over no socket under the name {name!r}; `hearth install` writes the agent anew"
        )
    # A name may stand for several sockets, one for each address family; the others stay open, as launchd owns them.
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    return socket.socket(fileno=descriptors[0])


def activate(library: "ctypes.CDLL", name: str) -> tuple[int, list[int]]:
    """Ask launchd for the descriptors under this name; return its error number or 0, and the descriptors."""
    import ctypes

    call, free = library.launch_activate_socket, library.free
    # Without these types, ctypes would truncate pointers to 32 bits.
    call.argtypes = (
        ctypes.c_char_p,
        ctypes.POINTER(ctypes.POINTER(ctypes.c_int)),
        ctypes.POINTER(ctypes.c_size_t),
    )
    call.restype = ctypes.c_int
    free.argtypes, free.restype = (ctypes.c_void_p,), None
    array, count = ctypes.POINTER(ctypes.c_int)(), ctypes.c_size_t()
    code = int(call(name.encode(), ctypes.byref(array), ctypes.byref(count)))
    if code or not array:
        return code, []
    try:
        return 0, array[: count.value]
    finally:
        # The caller frees the array; the descriptors in it stay open.
        free(ctypes.cast(array, ctypes.c_void_p))


def refusal(name: str, code: int) -> str:
    """Return a sentence that says why launchd has no socket for a process. Pure."""
    if code == errno.ENOENT:
        return (
            f"the agent's property list names no socket {name!r} under Sockets; `hearth install` writes it anew,"
            " and without launchd the first bridge starts the daemon"
        )
    if code == errno.ESRCH:
        return "this process was not started by launchd, which has no socket for it"
    if code == errno.EALREADY:
        return f"the socket {name!r} of launchd was taken by this process before, and is lost to it; start it again"
    return f"launchd did not hand over the socket {name!r}: {os.strerror(code).lower()} (error {code})"
