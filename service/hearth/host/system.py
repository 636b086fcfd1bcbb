"""Name of the operating system, for code outside host/ that reports or skips something and makes no system calls.

These are functions, so that a test can simulate another system through `sys.platform`. The type checker does not
follow them: code that makes calls of one system belongs in host/.
"""

import os
import sys

PLATFORM = sys.platform


def is_windows() -> bool:
    """Return whether this is Windows."""
    return sys.platform == "win32"


def is_linux() -> bool:
    """Return whether this is Linux."""
    return sys.platform == "linux"


def is_macos() -> bool:
    """Return whether this is macOS."""
    return sys.platform == "darwin"


def user_id() -> int:
    """Return this user's uid; 0 on Windows, which has none."""
    if sys.platform == "win32":
        return 0
    return os.getuid()
