"""Folders of the user for daemon and command line: config and state, by the conventions of the platform.

platformdirs knows the conventions. `paths` computes the same folders with the standard library, for the bridge, which
runs without packages, and for the daemon's start, which the 6 ms of platformdirs' imports would delay; a test checks
that the two are equal. Hence platformdirs is imported by the first call.
"""

import os
import sys
from typing import TYPE_CHECKING

from hearth import paths

if TYPE_CHECKING:
    from platformdirs.api import PlatformDirsABC

_NAME = "hearth"


def config_dir() -> str:
    """Return the folder of `config.toml` and of the profiles."""
    if _departs("XDG_CONFIG_HOME", "APPDATA"):
        return paths.config_dir()
    # The config roams; the state does not.
    return _conventions(roaming=True).user_config_dir


def state_dir() -> str:
    """Return the folder of the state that is kept between runs."""
    if _departs("XDG_STATE_HOME", "LOCALAPPDATA"):
        return paths.state_dir()
    return _conventions().user_state_dir


def oauth_file() -> str:
    """Return the file that lists the servers with a login of this user; all daemons share it. No token is in it."""
    return os.path.join(state_dir(), "oauth", "servers.json")


def _departs(xdg: str, windows: str) -> bool:
    """Tell whether Hearth's choice differs from that of platformdirs in this environment.

    Windows: the variable takes precedence over the shell's known folder, because a process finds the daemon by the
    variable. macOS: XDG's variables are ignored, because launchd's agent has no variables of a shell, and would look
    elsewhere. Linux: a relative path would mean another folder in every process; a HOME that is not absolute is
    looked up.
    """
    if sys.platform == "win32":
        return bool(os.environ.get(windows))
    if not os.environ.get("HOME", "").startswith("/"):
        return True
    named = os.environ.get(xdg, "")
    return bool(named) and (sys.platform == "darwin" or not named.startswith("/"))


def _conventions(roaming: bool = False) -> "PlatformDirsABC":
    # Not `platformdirs.PlatformDirs`: on Android that is another class, and Hearth follows XDG there, too.
    if sys.platform == "win32":
        from platformdirs.windows import Windows

        return Windows(_NAME, appauthor=False, roaming=roaming)
    if sys.platform == "darwin":
        from platformdirs.macos import MacOS

        return MacOS(_NAME, appauthor=False)
    from platformdirs.unix import Unix

    return Unix(_NAME, appauthor=False)
