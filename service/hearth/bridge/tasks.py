"""Whether something of Windows holds the pipe while no daemon runs: the counterpart of `units` and `agents`.

Nothing does. A task of the Task Scheduler starts the daemon at logon, and the bridge starts it when it has gone out.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from hearth.paths import Places


def wake(places: "Places", environ: "Mapping[str, str]") -> str | None:
    """None: whoever finds no pipe starts a daemon."""
    return None
