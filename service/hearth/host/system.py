"""Which system this is, for code outside of host/ that has to say or skip something and calls nothing of the system.

Functions, so that a test can play another system by `sys.platform`. The type checker does not follow them: code that
uses a system's own calls belongs into host/.
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
    """Return this user's number; 0 on Windows, which has none."""
    if sys.platform == "win32":
        return 0
    return os.getuid()
