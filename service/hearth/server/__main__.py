"""`python -I -m hearth.server`: what systemd and the bridge start."""

import sys

from hearth.server import main

sys.exit(main(sys.argv[1:]))
