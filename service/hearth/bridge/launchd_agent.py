"""Whether launchd holds the socket: then the bridge never starts a daemon of its own, it only has the agent loaded.

The counterpart of `units` on macOS. Knows nothing of connecting.
"""

import os
import sys

from hearth.bridge import spawn_posix
from hearth.errors import StartError
from hearth.host.macos import agent

assert sys.platform != "win32", "Windows has neither agents nor `child`"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from hearth.paths import Places

# launchctl answers in some milliseconds; a launchd that loads a whole login takes longer.
SHOW_SECONDS = 5.0
# Loading an agent binds its socket; its daemon is not waited for.
LOAD_SECONDS = 10.0
_DEAF = f"launchd has {agent.LABEL}, but nobody listens there; `hearth install` sets it up anew"


def wake(places: "Places", environ: "Mapping[str, str]") -> str | None:
    """See to it that the agent is loaded. None: there is none. Otherwise what to tell if nobody listens still.

    Raises StartError when it cannot be loaded.
    """
    if not agent.serves(places) or not os.path.lexists(agent.file()):
        return None
    known, load = ["launchctl", "print", agent.job()], ["launchctl", "bootstrap", agent.domain(), agent.file()]
    code, said = spawn_posix.run(known, environ, SHOW_SECONDS)
    if code == 0:
        return _DEAF
    if agent.is_too_old(said):
        known, load = ["launchctl", "list", agent.LABEL], ["launchctl", "load", agent.file()]
    elif spawn_posix.run(["launchctl", "print", agent.domain()], environ, SHOW_SECONDS)[0] != 0:
        # Nobody is logged in at the screen, so this user's agents are not loaded; or there is no launchctl.
        return None
    if spawn_posix.run(known, environ, SHOW_SECONDS)[0] != 0:
        code, said = spawn_posix.run(load, environ, LOAD_SECONDS)
        # The exit code of `load` says nothing; and somebody else may have loaded it meanwhile.
        if spawn_posix.run(known, environ, SHOW_SECONDS)[0] != 0:
            raise StartError(f"`{' '.join(load)}` did not work: {said or code}. `hearth install` sets it up anew")
    return _DEAF
