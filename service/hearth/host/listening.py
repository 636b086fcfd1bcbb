"""Listener of the daemon: a Unix socket, or a named pipe on Windows. Both modules have the same functions."""

import sys

if sys.platform == "win32":
    from hearth.host.windows.pipes import Listener, bind, inherit, is_there, listen
else:
    from hearth.host.listener import Listener, bind, inherit, is_there, listen

__all__ = ["Listener", "bind", "inherit", "is_there", "listen"]
