"""Fault seams: named points where a test stops or kills the process, so that a race is hit on purpose.

In normal operation, a seam costs one read of a module global: `SEAMS` is None and the `if` falls through.

    if SEAMS:
        SEAMS.hit("before-ack")

A test arms seams with `HEARTH_FAULTS`, a comma-separated list of `NAME=ACTION[@N][:FILE]`. ACTION is `kill`
(SIGKILL to itself), `stop` (SIGSTOP to itself) or `exit`; N is the hit that counts (default the first).
When FILE is given the seam acts only if it can remove FILE, so that exactly one process, once, takes the fault.
"""

import os

NAMES = frozenset(
    {
        "after-accept",  # a connection was accepted, nothing was read from it
        "before-exec",  # the orphan reaper knows the upstream's process, its program has not started yet
        "before-ack",  # a line was received, its acknowledgement not yet written
        "after-ack",  # the acknowledgement was passed to the kernel
        "mid-write",  # half of an answer was passed to the kernel
        "before-answer",  # the upstream answered, nothing was written to the client
        "before-reload",  # a change of the config file has settled, and the file was not read yet
        "before-unlink",  # shutting down; the socket file still exists
        "bridge-mid-write",  # the bridge wrote half a line to its client
    }
)


class Seams:
    """Armed seams of this process."""

    def __init__(self, specification: str) -> None:
        self._armed: dict[str, tuple[str, int, str]] = {}
        for item in filter(None, specification.split(",")):
            name, _, rest = item.partition("=")
            rest, _, claim = rest.partition(":")
            action, _, count = rest.partition("@")
            if name not in NAMES or action not in {"kill", "stop", "exit"}:
                raise ValueError(f"HEARTH_FAULTS: {item!r} is not a fault")
            self._armed[name] = (action, int(count or 1), claim)

    def armed(self, name: str) -> bool:
        """Tell whether the seam would act at its next hit; for seams that need preparation, such as half a write."""
        return name in self._armed and self._armed[name][1] == 1

    def hit(self, name: str) -> None:
        """Count one hit, and act if it is the armed one."""
        if name not in self._armed:
            return
        action, left, claim = self._armed[name]
        if left > 1:
            self._armed[name] = (action, left - 1, claim)
            return
        del self._armed[name]
        if claim:
            try:
                os.unlink(claim)
            except OSError:
                return
        if action == "exit":
            os._exit(86)
        import signal

        os.kill(os.getpid(), signal.Signals["SIGKILL" if action == "kill" else "SIGSTOP"])


SEAMS: Seams | None = Seams(os.environ["HEARTH_FAULTS"]) if os.environ.get("HEARTH_FAULTS") else None
