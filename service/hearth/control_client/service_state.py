"""State of the service manager that holds the socket while no daemon runs: systemd, launchd or Windows.

Each has a module with these names. `check` is doctor's check of it; for systemd, that is in `doctor.units`.
"""

import sys

from hearth.findings import Finding
from hearth.paths import Places

if sys.platform == "darwin":
    from hearth.control_client.launchd_agent import (
        ADVICE_ON_PATH,
        ADVICE_ON_VARIABLES,
        check,
        look,
        search_path,
        start_hint,
    )
elif sys.platform == "win32":
    from hearth.control_client.windows_task import (
        ADVICE_ON_PATH,
        ADVICE_ON_VARIABLES,
        check,
        look,
        search_path,
        start_hint,
    )
else:
    from hearth.control_client.systemd_unit import ADVICE_ON_PATH, ADVICE_ON_VARIABLES, look, search_path, start_hint

    def check(places: Places) -> list[Finding]:
        """Return no finding: there is no known service manager."""
        return []


__all__ = ["ADVICE_ON_PATH", "ADVICE_ON_VARIABLES", "check", "look", "search_path", "start_hint"]
