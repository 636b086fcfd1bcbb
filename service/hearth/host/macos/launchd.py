"""Launchd: the agent that Hearth installs, and the sockets that launchd passes to a job that it starts.

The sockets come from the agent's property list, by launch_activate_socket(3). `host.install.launchd` puts the list in
place. Standard library only, and little of it at import: the bridge uses the agent's names, and the degraded daemon the
sockets when nothing else can be imported. ctypes is loaded only where launchd is.
"""

import errno
import os
import sys

from hearth import paths
from hearth.errors import HearthError, StartError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ctypes
    import socket

LABEL = "mcp.hearth"
FILE_NAME = f"{LABEL}.plist"
# Folders of the system's programs; a PATH without them would break programs that rely on them.
STANDARD_PATH = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin")
# Whether launchd may have started this process. The tests, which have no launchd, set it themselves.
PRESENT = sys.platform == "darwin"


def agents_folder() -> str:
    """Return the folder of the user's own agents. launchd reads it at every login."""
    return os.path.join(paths.home_dir(), "Library", "LaunchAgents")


def file() -> str:
    """Return the path of the property list, which need not exist."""
    return os.path.join(agents_folder(), FILE_NAME)


def domain() -> str:
    """Return launchctl's name for this user's graphical login."""
    if sys.platform == "win32":
        raise HearthError("launchd is macOS's, and Windows has none")
    return f"gui/{os.getuid()}"


def job() -> str:
    """Return launchctl's name for the loaded agent."""
    return f"{domain()}/{LABEL}"


def serves(places: paths.Places) -> bool:
    """Tell whether the agent starts this daemon: only the default profile has an agent."""
    return not places.config and not places.named and places.profile == paths.DEFAULT_PROFILE


def is_too_old(said: str) -> bool:
    """Tell whether launchctl reported an unknown command, as it does before macOS 10.11."""
    return "unknown subcommand" in said.lower() or "unrecognized subcommand" in said.lower()


def search_path(typed: str) -> str:
    """Return the PATH to keep from a shell's PATH: absolute paths, each once, with the standard ones at the end."""
    folders = [folder for folder in typed.split(":") if folder.startswith("/") and folder.isprintable()]
    return ":".join(dict.fromkeys([*folders, *STANDARD_PATH]))


# --- sockets


def take_listener(name: str) -> "socket.socket | None":
    """Return the socket of this name, close-on-exec; None in a process that launchd did not start.

    Raises StartError when launchd started this process and has no such socket for it.
    """
    import ctypes
    import socket

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
