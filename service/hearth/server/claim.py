"""Becoming the daemon of a profile: the lock, the registry entry, and the hand-over from one that was there first."""

import os
import time

from hearth import __version__, registry
from hearth.errors import AlreadyRunning, StartError
from hearth.host import processes, signals
from hearth.paths import Places
from hearth.wire.frames import PROTOCOL_VERSION

# A daemon on its way out holds the lock for moments; one that starts has no entry yet. Both are worth waiting for.
TRANSITION_SECONDS = 5.0
# A self-started daemon that hands over lets its calls finish (drain_timeout) and stops its servers first.
HANDOVER_SECONDS = 40.0
_POLL_SECONDS = 0.02


class Claim:
    """The right to be the daemon, held until `release`."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._lock = registry.Lock(places.daemon_lock)
        self._started_at = time.time()

    def take(self, activated: bool) -> None:
        """Get the lock. Raises AlreadyRunning with who has it, StartError when the folder cannot be used.

        An activated daemon asks a self-started one to hand over: the service manager's socket has replaced its file,
        so nobody new could ever reach it.
        """
        registry.prepare(self._places)
        deadline = time.monotonic() + (HANDOVER_SECONDS if activated else TRANSITION_SECONDS)
        asked: registry.Entry | None = None
        while not self._lock.acquire(blocking=False):
            holder = registry.read(self._places)
            # An entry of this very process is that of its degraded self before an exec.
            if holder and holder.pid != os.getpid() and registry.is_alive(holder):
                if not activated:
                    raise self._taken(holder)
                if asked is None or asked.pid != holder.pid:
                    self._ask(holder)
                    asked = holder
            if time.monotonic() > deadline:
                raise self._held(activated, holder)
            time.sleep(_POLL_SECONDS)

    def _ask(self, holder: registry.Entry) -> None:
        if signals.HAND_OVER is not None:
            processes.send_signal(holder.pid, holder.start_time, signals.HAND_OVER)

    def _taken(self, holder: registry.Entry) -> AlreadyRunning:
        import shlex

        stop = shlex.join(["hearth", "stop", *self._places.arguments()])
        who = f"pid {holder.pid}, {holder.endpoint}"
        return AlreadyRunning(f"a daemon already runs: {who}; `{stop}` first, if another is to take its place")

    def _held(self, activated: bool, holder: registry.Entry | None) -> StartError:
        who = f"pid {holder.pid}" if holder else "an unknown process"
        if activated:
            return StartError(f"another daemon ({who}) did not hand over within {HANDOVER_SECONDS:.0f} s; stop it")
        return AlreadyRunning(f"another daemon holds {self._places.daemon_lock}: {who}")

    def register(self, daemon_id: str, config_hash: str, endpoint: str, token: str = "") -> None:
        """Say who is the daemon and where it listens. Raises StartError."""
        entry = registry.Entry(
            daemon_id=daemon_id,
            endpoint=endpoint,
            pid=os.getpid(),
            start_time=processes.start_time(os.getpid()) or processes.UNKNOWN_START_TIME,
            started_at=self._started_at,
            version=__version__,
            protocol=PROTOCOL_VERSION,
            config_hash=config_hash,
            token=token,
        )
        registry.write(self._places, entry)

    def release(self) -> None:
        """Take the entry away, then the lock."""
        entry = registry.read(self._places)
        try:
            # Somebody may have removed the whole folder, lock included, and another daemon may live in the new one, or
            # be about to write its entry there.
            if entry is not None and entry.pid == os.getpid():
                registry.remove(self._places)
        except StartError:
            # The folder became read-only; the entry is stale by its pid.
            pass
        self._lock.release()
