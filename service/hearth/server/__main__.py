"""`python -I -m hearth.server`: what systemd and the bridge start."""

import sys

try:
    from hearth.server.entry import main

    code = main(sys.argv[1:])
except Exception as exc:
    # Not even the guard could be loaded.
    from hearth.server.last_resort import explain

    code = explain(exc)
sys.exit(code)
