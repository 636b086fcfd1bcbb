"""What the daemon listens on: a Unix socket, or on Windows a named pipe. Each in a module with these words."""

import sys

if sys.platform == "win32":
    from hearth.host.windows.pipes import Listener, bind, inherit, is_there, listen
else:
    from hearth.host.listener import Listener, bind, inherit, is_there, listen

__all__ = ["Listener", "bind", "inherit", "is_there", "listen"]
