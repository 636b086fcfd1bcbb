"""Script that a client runs: `python -I -S .../hearth/bridge/main.py`. Compiled at every start, hence short."""

import os
import sys

# `-I -S` leaves every folder but the standard library off the path; at its end, nothing of that can be shadowed.
sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from hearth.bridge import main  # noqa: PLW0406  # this file is a script, `main` the package's function

sys.exit(main(sys.argv[1:]))
