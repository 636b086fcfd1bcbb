"""`python -I -m hearth.daemon`: what systemd and the bridge start."""

import os
import sys

# Asked before anything else: whoever takes the listener removes the variable.
activated = os.environ.get("LISTEN_PID") == str(os.getpid())
try:
    from hearth.daemon.main import main

    code = main(sys.argv[1:])
except Exception as exc:
    # Not even the guard could be loaded.
    from hearth.daemon.degraded.last_resort import explain

    code = explain(exc, activated)
sys.exit(code)
