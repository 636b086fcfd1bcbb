"""Lock of a profile's daemon, its registry entry, and the hand-over from a daemon that was there first."""

import logging
import os
import time

from hearth import __version__, registry
from hearth.errors import AlreadyRunning, FileAccessError, RunsElsewhere, StartError
from hearth.host import listening, processes, signals, system
from hearth.host.locks import Lock
from hearth.paths import Places
from hearth.registry import ProfileLock
from hearth.wire.frames import PROTOCOL_VERSION

log = logging.getLogger(__name__)

# A daemon that shuts down holds the lock for moments; one that starts has no entry yet. Both are worth waiting for.
TRANSITION_SECONDS = 5.0
# A self-started daemon that hands over lets its calls finish (drain_timeout) and stops its servers first.
HANDOVER_SECONDS = 40.0
_POLL_SECONDS = 0.02


class DaemonLock:
    """Lock that makes this process the daemon of its profile until `release`."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._lock = Lock(places.daemon_lock)
        self._profile = ProfileLock(places)
        self._started_at = time.time()

    def take(self, activated: bool) -> None:
        """Acquire the lock. Raises AlreadyRunning, which names the holder, StartError and FileAccessError.

        An activated daemon asks a self-started one to hand over: the service manager's socket has replaced its file,
        so no new client could ever reach it.
        """
        registry.prepare(self._places)
        deadline = time.monotonic() + (HANDOVER_SECONDS if activated else TRANSITION_SECONDS)
        asked: registry.RegistryEntry | None = None
        while not self._lock.acquire(blocking=False):
            holder = registry.read(self._places)
            # An entry with this process's own pid is from the degraded daemon that it was before an exec.
            if holder and holder.pid != os.getpid() and registry.is_alive(holder):
                if not activated:
                    raise self._taken(holder)
                if asked is None or asked.pid != holder.pid:
                    if signals.HAND_OVER is not None:
                        processes.send_signal(holder.pid, holder.start_time, signals.HAND_OVER)
                    asked = holder
            if time.monotonic() > deadline:
                raise self._held(activated, holder)
            time.sleep(_POLL_SECONDS)
        try:
            # The entry of a killed daemon: while the lock is held, clients would take it for this daemon's.
            entry = registry.read(self._places)
            if entry and not registry.is_alive(entry):
                registry.remove(self._places)
            self._join_profile(activated)
        except BaseException:
            self._lock.release()
            raise

    def _join_profile(self, activated: bool) -> None:
        """Take the profile's lock, or run beside the daemon that has it. Raises RunsElsewhere if that one answers.

        An activated daemon runs in any case: its clients have connected to its socket already.
        """
        if system.is_windows():
            # A pipe has one name for all environments: there is no second daemon.
            return
        try:
            first = self._profile_holder()
            if first is None:
                return
            if first and not activated and self._answers(first):
                raise RunsElsewhere(first)
            if self._profile.take() is None:
                # The holder was not a daemon, but a process that tested whether the lock is held.
                return
            log.warning("another daemon of this profile runs too: socket=%s", first or "unknown")
            self._profile.run_beside()
        except FileAccessError as exc:
            # Without a state folder daemons of one profile do not see each other; each serves its clients.
            log.warning("daemons of this profile do not see each other: %s", exc)

    def _profile_holder(self) -> str | None:
        """Return the socket of the profile's first daemon, or None if that is this one. Waits for one that starts."""
        deadline = time.monotonic() + TRANSITION_SECONDS
        while (first := self._profile.take()) == "" and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        return first

    def _answers(self, named: str) -> bool:
        """Tell whether the daemon with that socket accepts connections from here."""
        places = Places(self._places.profile, self._places.config, named=named)
        return listening.answers(registry.endpoint(places))

    def _taken(self, holder: registry.RegistryEntry) -> AlreadyRunning:
        import shlex

        stop = shlex.join(["hearth", "stop", *self._places.arguments()])
        who = f"pid {holder.pid}, {holder.endpoint}"
        return AlreadyRunning(f"a daemon already runs: {who}; `{stop}` first, if another is to take its place")

    def _held(self, activated: bool, holder: registry.RegistryEntry | None) -> StartError:
        who = f"pid {holder.pid}" if holder else "an unknown process"
        if activated:
            return StartError(f"another daemon ({who}) did not hand over within {HANDOVER_SECONDS:.0f} s; stop it")
        return AlreadyRunning(f"another daemon holds {self._places.daemon_lock}: {who}")

    def register(self, daemon_id: str, config_hash: str, endpoint: str, token: str = "") -> None:
        """Write the registry entry of this daemon and its endpoint. Raises FileAccessError."""
        entry = registry.RegistryEntry(
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
        self._profile.publish()

    def release(self) -> None:
        """Remove the entry, then release the lock."""
        entry = registry.read(self._places)
        try:
            # The whole folder, lock included, may have been removed, and another daemon may run in the new one, or be
            # about to write its entry there.
            if entry is not None and entry.pid == os.getpid():
                registry.remove(self._places)
        except FileAccessError:
            # The folder became read-only; the entry is stale by its pid.
            pass
        self._profile.release()
        self._lock.release()
