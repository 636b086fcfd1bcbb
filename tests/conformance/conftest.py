"""What is not run yet."""

import os

# Until the daemon carries every feature: HEARTH_MATRIX=1 runs it.
collect_ignore = [] if os.environ.get("HEARTH_MATRIX") else ["test_matrix.py", "test_corners.py"]
