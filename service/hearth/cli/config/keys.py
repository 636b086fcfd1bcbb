"""Names of values in the config, as typed for `hearth config get` and `set`, and their values. Pure.

A name is that of a setting, `idle_timeout` or `owner.approve`, or that of a server or of a key of it:
`mcpServers.github`, `mcpServers.github.call_timeout`.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import click

from hearth.cli.servers import server_entry
from hearth.config.schema import SERVER_KEYS, SERVERS, SETTINGS, path_of
from hearth.config.spelling import nearest
from hearth.config.value_kinds import BadValue

_PREFIX = f"{SERVERS}."


class Name(NamedTuple):
    """A setting, or a server, or a key of a server."""

    setting: str | None = None
    server: str | None = None
    key: str | None = None

    @property
    def path(self) -> tuple[str, ...]:
        """The keys that lead to the value in a file."""
        if self.setting:
            return tuple(map(str, path_of(self.setting)))
        return tuple(part for part in (SERVERS, self.server, self.key) if part is not None)


def parse(text: str, servers: Iterable[str]) -> Name:
    """Return what a name means. Raises click.UsageError, which says the nearest one."""
    if text in SETTINGS:
        return Name(setting=text)
    if not text.startswith(_PREFIX):
        raise click.UsageError(f"There is no setting {text!r}.{_hint(text, SETTINGS)}")
    rest = text.removeprefix(_PREFIX)
    # A server's name may have dots in it: the longest one that fits is meant.
    for name in sorted(servers, key=len, reverse=True):
        if rest == name:
            return Name(server=name)
        if rest.startswith(f"{name}."):
            key = rest.removeprefix(f"{name}.")
            if key not in SERVER_KEYS:
                raise click.UsageError(f"A server has no key {key!r}.{_hint(key, SERVER_KEYS)}")
            return Name(server=name, key=key)
    raise click.UsageError(f"There is no server for {text!r} in the config.{_hint(rest.partition('.')[0], servers)}")


def value(name: Name, text: str) -> Any:
    """Return the value that a text means for a name, checked as the config's reader does. Raises click.UsageError."""
    if name.setting is None:
        if name.key is None:
            raise click.UsageError(
                "Name a key of the server, such as `.call_timeout`; `hearth add` writes a whole one."
            )
        found = server_entry.parsed(name.key, text)
        server_entry.check(name.key, found)
        return found
    kind = SETTINGS[name.setting]
    found = kind.from_text(text)
    try:
        kind.check(found)
    except BadValue as exc:
        raise click.UsageError(f"{name.setting} {exc}.") from exc
    return found


def names(servers: Iterable[str]) -> list[str]:
    """Return every name that there is, for completion."""
    return [*SETTINGS, *(f"{_PREFIX}{server}.{key}" for server in servers for key in SERVER_KEYS)]


def _hint(text: str, known: Iterable[str]) -> str:
    near = nearest(text, list(known))
    return f" Did you mean {near!r}?" if near else " `hearth config show` lists what there is."
