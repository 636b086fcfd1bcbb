"""State of the service manager that holds the socket while no daemon runs: systemd, launchd or Windows.

Each has a module with these names. `check` is doctor's check of it; for systemd, that is in `doctor.units`.
"""

import sys

if sys.platform == "darwin":
    from hearth.control_client import launchd_agent as manager
elif sys.platform == "win32":
    from hearth.control_client import windows_task as manager
else:
    from hearth.control_client import systemd_unit as manager

ADVICE_ON_PATH, ADVICE_ON_VARIABLES = manager.ADVICE_ON_PATH, manager.ADVICE_ON_VARIABLES
check, look = manager.check, manager.look
search_path, start_hint = manager.search_path, manager.start_hint
