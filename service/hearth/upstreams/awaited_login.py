"""Awaited login: the state of a server that cannot be used until a user has logged in.

A login writes a file that all daemons of this user know. A timer checks the file periodically; it does not keep an
unused daemon running. This module knows nothing of how a login works.
"""

import asyncio
import os
from collections.abc import Callable, Coroutine
from typing import Any

from hearth.places import oauth_file
from hearth.upstreams.client_context import ClientContext

# In `hearth status`: neither started nor failed.
NEEDS_LOGIN = "needs login"

# Delay between a login and the server's tools in every client: returning from the browser takes a user about as long.
LOOK_SECONDS = 1.0


class AwaitedLogin:
    """Awaited login of one server.

    `start` starts the server for the client that wanted it, and notifies the clients that have seen lists without it.
    """

    def __init__(self, start: Callable[[ClientContext], Coroutine[Any, Any, object]]) -> None:
        self._start = start
        self._context: ClientContext | None = None
        self._seen: object = None
        self._timer: asyncio.TimerHandle | None = None
        self._attempt: asyncio.Future[object] | None = None

    @property
    def is_awaited(self) -> bool:
        """True while the server cannot be started without a login."""
        return self._context is not None

    def needed(self, context: ClientContext, seen: object) -> None:
        """Note that the server could not be started for a client. `seen` is the `signature` from before the attempt."""
        if self._context is None:
            # Later only the timer updates it: a caller that joined an attempt has a signature from during the attempt.
            self._seen = seen
        self._context = context
        if self._timer is None:
            self._arm()

    def over(self) -> None:
        """Stop waiting: the server can be started, or no client wants it any more."""
        self._context = None
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)

    def _look(self) -> None:
        self._arm()
        if self._attempt is None or self._attempt.done():
            # A login during an attempt is noticed after it.
            found = signature()
            if found != self._seen:
                self._seen = found
                self._try()

    def _try(self) -> None:
        """Try to start the server: a user has logged in somewhere, perhaps to this server."""
        if self._context:
            self._attempt = asyncio.ensure_future(self._start(self._context))
            self._attempt.add_done_callback(lambda late: late.cancelled() or late.exception())


def signature() -> tuple[int, int] | None:
    """Return a value that changes with every login to any server."""
    try:
        found = os.stat(oauth_file())
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino
