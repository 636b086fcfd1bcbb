"""A server that cannot be used before a person has logged in: that it is so, and when it may no longer be.

Whoever logs in writes a file that all daemons of this user know. It is looked at now and then, by a timer, which holds
no daemon that nobody uses. Knows nothing of what a login is.
"""

import asyncio
import os
from collections.abc import Callable, Coroutine
from typing import Any

from hearth.places import oauth_file
from hearth.upstreams.client_context import ClientContext

# In `hearth status`: neither started nor failed.
NEEDS_LOGIN = "needs login"

# Between a login and the server's tools in every client: a person comes back from the browser in about as long.
LOOK_SECONDS = 1.0


class AwaitedLogin:
    """Of one server. `start` starts it for the client that wanted it, and whoever has seen lists without it is told."""

    def __init__(self, start: Callable[[ClientContext], Coroutine[Any, Any, object]]) -> None:
        self._start = start
        self._context: ClientContext | None = None
        self._seen: object = None
        self._timer: asyncio.TimerHandle | None = None
        self._attempt: asyncio.Future[object] | None = None

    @property
    def is_awaited(self) -> bool:
        """Whether it could not be started without one."""
        return self._context is not None

    def needed(self, context: ClientContext, seen: object) -> None:
        """It could not be started for that client. `seen` is the `signature` of before the attempt."""
        if self._context is None:
            # Afterwards only what is looked at counts: somebody who joined an attempt has seen what was written in it.
            self._seen = seen
        self._context = context
        if self._timer is None:
            self._arm()

    def over(self) -> None:
        """It can, or nobody wants it any more."""
        self._context = None
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)

    def _look(self) -> None:
        self._arm()
        if self._attempt is None or self._attempt.done():
            # What is written during an attempt is seen after it.
            found = signature()
            if found != self._seen:
                self._seen = found
                self._try()

    def _try(self) -> None:
        """Somebody has logged in somewhere, perhaps to this one."""
        if self._context:
            self._attempt = asyncio.ensure_future(self._start(self._context))
            self._attempt.add_done_callback(lambda late: late.cancelled() or late.exception())


def signature() -> tuple[int, int] | None:
    """What changes whenever somebody logs in anywhere."""
    try:
        found = os.stat(oauth_file())
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino
