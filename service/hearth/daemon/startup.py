"""Startup sequence of the daemon: take the lock, read the config, open the log, listen, run the loop."""

import asyncio
import gc
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from hearth.daemon import config_file, log_setup
from hearth.daemon.daemon import Daemon
from hearth.daemon.daemon_lock import DaemonLock
from hearth.daemon.main import Start
from hearth.host import process_setup, system
from hearth.host.line_files import FILES
from hearth.host.linux import systemd
from hearth.host.sockets import Access

log = logging.getLogger(__name__)


def run(start: Start) -> int:
    """Run the daemon until it stops. Raises StartError, FileAccessError and ConfigError before it serves."""
    if start.streams is not None:
        # Other clients cannot find a stdio daemon: it may run beside the daemon, and once for each client.
        return _serve(start, None)
    claim = DaemonLock(start.places)
    claim.take(start.adopted)
    try:
        return _serve(start, claim)
    finally:
        claim.release()


def _serve(start: Start, claim: DaemonLock | None) -> int:
    try:
        _calm_collector()
        settings, start.config_error = config_file.load(start.places)
        _begin_log(start, settings.log_level)
        if start.config_error:
            log.error("the config file is not used: %s", start.config_error)
        else:
            config_file.keep(start.places, settings)
        if start.spawner:
            start.spawner.put_to_use()
        FILES.keep_in(start.places.server_log)
        # Bind the ports first, because that may fail: a socket file created before would have to be removed again.
        ports = start.ports()
        access = Access(int(settings.socket_mode, 8), settings.allowed_gids)
        listener = start.listen(settings.listen, access) if claim else None
        daemon = Daemon(start, settings, claim, listener, ports)
        _loop_run()(_serve_to_the_end(daemon))
    finally:
        FILES.close()
    return daemon.exit_code


async def _serve_to_the_end(daemon: Daemon) -> None:
    await daemon.serve()
    # Not after a failure: the degraded daemon that takes over has to receive signals.
    process_setup.hold_back_signals()


def _begin_log(start: Start, level: str) -> None:
    if start.streams is not None:
        # The log file belongs to the daemon.
        log_setup.set_up_beside_client(level)
    else:
        journal = start.activation == "systemd"
        log_setup.set_up(start.places.log, level, journal=journal, profile=start.places.key, aloud=start.aloud)
    if start.notifier.is_heard:
        log.info("systemd's protocols are spoken by %s", systemd.implementation())


def _calm_collector() -> None:
    """Make the garbage collector run less often.

    Everything loaded so far stays alive, and the few objects of a call in flight are not garbage.
    """
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


def _loop_run() -> Callable[[Coroutine[Any, Any, None]], None]:
    if system.is_windows():
        return asyncio.run
    import uvloop

    return uvloop.run
