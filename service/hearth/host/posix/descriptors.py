"""Limit on open files of this process, which Hearth reads and never raises.

Programs that Hearth starts inherit the limit, and programs that use select(2) break above 1024.
"""

import sys


def limit() -> int | None:
    """Return the number of descriptors that may be open at a time; None where there is no limit."""
    if sys.platform == "win32":
        return None
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft
