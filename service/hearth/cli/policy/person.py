"""Check for commands that change files by themselves: a running daemon tells whether a person types them."""

from hearth.control_client import running_daemon
from hearth.paths import Places


def require_person(places: Places, what: str) -> None:
    """Raise Refused if a command is typed below an agent. Without a daemon there are no agents to tell apart."""
    daemon = running_daemon.find(places)
    if daemon is not None:
        with daemon.control() as control:
            control.command("person", what=what)
