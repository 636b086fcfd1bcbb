"""Core dump limit: none for the daemon, whose memory holds the secrets of every server; servers keep the former one.

The soft limit of RLIMIT_CORE is lowered, so that it can be raised again without privileges. PR_SET_DUMPABLE is not
used: it would hide the daemon's memory figures from `hearth status`. Windows writes no core files.
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_FORMER: list[int] = []
# Several threads may start servers at once, and the limit belongs to the whole process.
_LOCK = threading.Lock()


def forbid() -> None:
    """Set the core limit of this process, and of processes that it forks, to 0."""
    if sys.platform == "win32":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    _FORMER[:] = [soft]
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))


def restore() -> None:
    """Restore the limit from before `forbid`; call it before an exec."""
    if sys.platform == "win32" or not _FORMER:
        return
    import resource

    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (_FORMER[0], hard))


@contextmanager
def restored() -> Iterator[None]:
    """Restore the former limit while a child is started, which inherits it at its fork.

    A function between fork and exec (`preexec_fn`) could hang on a lock of another thread; this lasts less than a
    millisecond.
    """
    if sys.platform == "win32" or not _FORMER:
        yield
        return
    import resource

    with _LOCK:
        restore()
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
