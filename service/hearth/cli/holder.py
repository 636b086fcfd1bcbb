"""Who holds the socket while no daemon runs: systemd or launchd, each in a module with these words."""

import sys

if sys.platform == "darwin":
    from hearth.cli.agent import ADVICE_ON_PATH, ADVICE_ON_VARIABLES, check, lights, look, search_path
else:
    from hearth.cli.unit import ADVICE_ON_PATH, ADVICE_ON_VARIABLES, check, lights, look, search_path

__all__ = ["ADVICE_ON_PATH", "ADVICE_ON_VARIABLES", "check", "lights", "look", "search_path"]
