"""Launchd agent: its names, the daemon that it starts, and the PATH that it keeps.

Pure but for the user's uid and home; `host.install.launchd` puts the file in place. Imported by the bridge: standard
library only.
"""

import os
import sys

from hearth import paths
from hearth.errors import HearthError

LABEL = "mcp.hearth"
FILE_NAME = f"{LABEL}.plist"
# Folders of the system's programs; a PATH without them would break programs that rely on them.
STANDARD_PATH = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin")


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
