"""Start of a daemon for a command that needs one, in the way of a bridge: by the service manager, else by itself.

For commands that act, such as `hearth agent run`. Commands that only look never start a daemon (`running_daemon`).
"""

import time

from hearth import registry
from hearth.control_client import running_daemon
from hearth.control_client.running_daemon import RunningDaemon
from hearth.errors import Unreachable
from hearth.paths import Places

# The bound of a bridge for a start: a loaded machine takes seconds, a service manager some more.
START_SECONDS = 30.0
# Between two looks at the registry while the daemon that a service manager starts is not there yet.
LOOK_SECONDS = 0.02


def find_or_start(places: Places) -> RunningDaemon:
    """Return the daemon of these places; start one if none runs. Raises StartError, Unreachable and FileAccessError."""
    found = running_daemon.find(places)
    return found if found is not None else _start(places)


def _start(places: Places) -> RunningDaemon:
    # Loaded only where a daemon is started: commands that look do without it.
    from hearth.bridge import activation, finder

    deadline = time.monotonic() + START_SECONDS
    attempt = finder.attempt(places)
    if attempt.absent:
        attempt = activation.start(places, finder.attempt, deadline)
    if attempt.sock is None:
        raise Unreachable(f"no daemon could be started: {attempt.hint or 'it does not answer'}; try `hearth doctor`")
    places = attempt.places or places
    try:
        # The connection is held meanwhile: it keeps the daemon, and where a service manager listens it starts it.
        while time.monotonic() < deadline:
            entry = registry.read(places)
            if entry and registry.is_alive(entry) and (found := running_daemon.find(places)):
                return found
            time.sleep(LOOK_SECONDS)
    finally:
        attempt.sock.close()
    raise Unreachable(f"the daemon was started and is not in the registry after {START_SECONDS:g} s; `hearth logs`")
