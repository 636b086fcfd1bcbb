"""How many files this process may have open. The limit is looked at, never raised: what Hearth starts inherits it, and
programs that use select(2) break above 1024.
"""

import sys


def limit() -> int | None:
    """The number of descriptors that may be open at a time; None where nothing limits it."""
    if sys.platform == "win32":
        return None
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft
