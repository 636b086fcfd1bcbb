"""`python -I -m hearth.daemon`, the command that systemd and the bridge run."""

import os
import sys

# Read first: the code that takes over the listener removes the variable.
activated = os.environ.get("LISTEN_PID") == str(os.getpid())
try:
    from hearth.daemon.main import main

    code = main(sys.argv[1:])
except Exception as exc:
    # Even the guard could not be loaded.
    from hearth.daemon.degraded.posix import explain

    code = explain(exc, activated)
sys.exit(code)
