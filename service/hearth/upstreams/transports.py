"""Transports of one server: its connections, made after its references are resolved, and the login that it awaits.

A login writes a file that all daemons of this user know. A timer checks the file periodically; it does not keep an
unused daemon running. Knows nothing of how connections are shared, nor of how a login works.
"""

import asyncio
import functools
import os
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, NamedTuple

from hearth.config import Config, ServerSpec
from hearth.host import private_files
from hearth.host.marked_processes import SERVER_MARK
from hearth.mcp.catalog import ListLimits
from hearth.paths import home_dir
from hearth.places import oauth_file
from hearth.secrets import references
from hearth.upstreams import threads
from hearth.upstreams.client_context import ClientContext
from hearth.upstreams.connection import Connection, Owner
from hearth.upstreams.stdio import StdioConnection

if TYPE_CHECKING:
    from hearth.upstreams.oauth.logins import Invitation
    from hearth.upstreams.pack_api import CreatePack


class ConnectionLimits(NamedTuple):
    """Bounds of a conversation: bytes of one message, bytes queued for the server, size of a list."""

    message: int
    queue: int
    lists: ListLimits


def limits_of(config: Config) -> ConnectionLimits:
    """Return the limits in the settings."""
    lists = ListLimits(config.list_limit, config.list_entries)
    return ConnectionLimits(config.message_limit, config.upstream_queue_limit, lists)


# Makes the connection of a server that is not reached by what its entry says; it is not open yet.
Connect = Callable[[ServerSpec, Owner, ConnectionLimits], Connection]


def connect_pack(create: "CreatePack", spec: ServerSpec, owner: Owner, limits: ConnectionLimits) -> Connection:
    """Return a connection to a pack, which runs in this process."""
    from hearth.upstreams.pack_api import PackConnection

    return PackConnection(spec.name, owner, create, limits.message)


async def connect(spec: ServerSpec, owner: Owner, folder: str | None, limits: ConnectionLimits) -> Connection:
    """Return a connection that is not open yet, for a client in that folder. Raises ConfigError."""
    resolved, mask = await _resolved(spec, folder)
    connection: Connection
    if resolved.url is not None:
        from hearth.upstreams.http.connection import HttpUpstreamConnection

        connection = HttpUpstreamConnection(spec.name, owner, resolved, limits[:2])
    else:
        assert resolved.command is not None
        environment = {**references.child_environment(resolved, os.environ), SERVER_MARK: spec.name}
        cwd = os.path.expanduser(resolved.cwd) if resolved.cwd else folder or home_dir()
        launch = [resolved.command, *resolved.args], environment, cwd
        stdio = connection = StdioConnection(spec.name, owner, launch, limits[:2])
        # By the kernel's names for the limits of a control group.
        group_limits = {"memory.max": spec.memory_max, "cpu.weight": spec.cpu_weight}
        stdio.group_limits = {name: str(value) for name, value in group_limits.items() if value is not None}
    connection.mask = mask
    connection.list_limits = limits.lists
    return connection


async def invite(spec: ServerSpec) -> "Invitation":
    """Return an invitation to log in, for a user whose client can show a page. Raises UpstreamError, VaultError."""
    from hearth.upstreams.oauth.logins import invite as invite_by_oauth

    return await invite_by_oauth((await _resolved(spec, None)).spec)


async def _resolved(spec: ServerSpec, folder: str | None) -> references.Resolution:
    resolve = functools.partial(references.resolve, spec, dict(os.environ), folder)
    return await threads.run(resolve) if references.may_block(spec) else resolve()


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
        """Try to start the server if a user has logged in somewhere, perhaps to this server."""
        self._arm()
        if self._attempt and not self._attempt.done():
            # A login during an attempt is noticed after it.
            return
        former, self._seen = self._seen, signature()
        if self._context and self._seen != former:
            self._attempt = asyncio.ensure_future(self._start(self._context))
            self._attempt.add_done_callback(lambda late: late.cancelled() or late.exception())


def signature() -> private_files.Stamp:
    """Return a value that changes with every login to any server."""
    return private_files.stamp(oauth_file())
