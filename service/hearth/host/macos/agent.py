"""The launchd agent: what it is called, whose daemon it is, which PATH it keeps.

Pure but for the user's number and home; `host.install_launchd` puts the file in place. Imported by the bridge: standard
library only.
"""

import os
import sys

from hearth import paths
from hearth.errors import HearthError

LABEL = "mcp.hearth"
FILE_NAME = f"{LABEL}.plist"
# Where everybody's programs are; a PATH without them would break what relies on them.
STANDARD_PATH = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin")


def agents_folder() -> str:
    """Where the user's own agents are. launchd reads it at every login."""
    return os.path.join(paths.home_dir(), "Library", "LaunchAgents")


def file() -> str:
    """The property list; it need not exist."""
    return os.path.join(agents_folder(), FILE_NAME)


def domain() -> str:
    """What launchctl calls this user's graphical login."""
    if sys.platform == "win32":
        raise HearthError("launchd is macOS's, and Windows has none")
    return f"gui/{os.getuid()}"


def job() -> str:
    """What launchctl calls the agent once it is loaded."""
    return f"{domain()}/{LABEL}"


def serves(places: paths.Places) -> bool:
    """Whether the agent is the one of this daemon: only the default profile has one."""
    return not places.config and not places.named and places.profile == paths.DEFAULT_PROFILE


def is_too_old(said: str) -> bool:
    """Whether launchctl, before macOS 10.11, said that it does not know a command."""
    return "unknown subcommand" in said.lower() or "unrecognized subcommand" in said.lower()


def search_path(typed: str) -> str:
    """The PATH to keep, out of that of a shell: whole paths, each once, and the standard ones at the end."""
    folders = [folder for folder in typed.split(":") if folder.startswith("/") and folder.isprintable()]
    return ":".join(dict.fromkeys([*folders, *STANDARD_PATH]))
