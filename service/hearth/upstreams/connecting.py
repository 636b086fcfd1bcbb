"""Construction of a connection to a configured server, after its references are resolved.

Knows nothing of how connections are shared.
"""

import functools
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from hearth.config import Config, ServerSpec
from hearth.mcp.catalog import ListLimits
from hearth.paths import home_dir
from hearth.secrets import references
from hearth.upstreams import threads
from hearth.upstreams.connection import Connection, Owner
from hearth.upstreams.stdio import StdioConnection

if TYPE_CHECKING:
    from hearth.upstreams.oauth.invitation import Invitation


class ConnectionLimits(NamedTuple):
    """Bounds of a conversation: bytes of one message, bytes queued for the server, size of a list."""

    message: int
    queue: int
    lists: ListLimits


def limits_of(config: Config) -> ConnectionLimits:
    """Return the limits in the settings."""
    lists = ListLimits(config.list_limit, config.list_entries)
    return ConnectionLimits(config.message_limit, config.upstream_queue_limit, lists)


async def connect(spec: ServerSpec, owner: Owner, folder: str | None, limits: ConnectionLimits) -> Connection:
    """Return a connection that is not open yet, for a client in that folder. Raises ConfigError."""
    resolved, mask = await _resolved(spec, folder)
    connection: Connection
    if resolved.url is not None:
        from hearth.upstreams.http import connect as connect_by_http

        connection = connect_by_http(spec.name, owner, resolved, limits[:2])
    else:
        stdio = connection = StdioConnection(spec.name, owner, _launch(resolved, os.environ, folder), limits[:2])
        stdio.group_limits = _group_limits(spec)
    connection.mask = mask
    connection.list_limits = limits.lists
    return connection


async def invite(spec: ServerSpec) -> "Invitation":
    """Return an invitation to log in, for a user whose client can show a page. Raises UpstreamError, VaultError."""
    from hearth.upstreams.oauth.invitation import invite as invite_by_oauth

    return await invite_by_oauth((await _resolved(spec, None)).spec)


async def _resolved(spec: ServerSpec, folder: str | None) -> references.Resolution:
    resolve = functools.partial(references.resolve, spec, dict(os.environ), folder)
    return await threads.run(resolve) if references.may_block(spec) else resolve()


def _group_limits(spec: ServerSpec) -> dict[str, str]:
    """Return the limits of the server's control group, by the kernel's names for them."""
    limits = {"memory.max": spec.memory_max, "cpu.weight": spec.cpu_weight}
    return {name: str(value) for name, value in limits.items() if value is not None}


def _launch(spec: ServerSpec, environ: Mapping[str, str], folder: str | None) -> tuple[list[str], dict[str, str], str]:
    """Return arguments, environment and working directory for the process; by default it runs in `folder`."""
    environment = references.child_environment(spec, environ)
    assert spec.command is not None
    cwd = os.path.expanduser(spec.cwd) if spec.cwd else folder or home_dir()
    return [spec.command, *spec.args], environment, cwd
