"""Who holds the socket while no daemon runs: systemd or launchd, each in a module with these three functions."""

import sys

if sys.platform == "darwin":
    from hearth.cli.agent import check, lights, look
else:
    from hearth.cli.unit import check, lights, look

__all__ = ["check", "lights", "look"]
