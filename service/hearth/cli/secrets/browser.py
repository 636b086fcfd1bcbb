"""Showing a page to the person at the terminal, where there is a screen to show it on."""

import os
import sys
from collections.abc import Mapping


def can_show(environ: Mapping[str, str], platform: str = sys.platform) -> bool:
    """Whether a browser would be seen: the ones for terminals would take this one away."""
    if environ.get("BROWSER") or platform in ("darwin", "win32"):
        return True
    return bool(environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY"))


def show(url: str) -> bool:
    """Open the address in the user's browser; False where there is none."""
    if not can_show(os.environ):
        return False
    import webbrowser

    try:
        return webbrowser.open(url)
    except (webbrowser.Error, OSError):
        return False
