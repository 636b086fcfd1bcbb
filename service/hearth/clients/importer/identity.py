"""Identity of servers: decides whether two entries mean the same server, whatever their names and files. Pure.

These differences are ignored: the order of variables and of headers, `-y` of `npx`, a slash at the end of an address,
and the full path of a program that PATH leads to anyway. Names, timeouts and all other settings that the server's
process does not see are ignored as well.
"""

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from hearth.clients.importer.templates import Kept, Secret, Text, revealed
from hearth.config import ServerSpec
from hearth.mcp.packages import base

_NPX_YES = frozenset({"-y", "--yes"})
_AUTHORITY = re.compile(r"(?P<scheme>[A-Za-z][\w+.-]*://)(?P<user>[^/?#@]*@)?(?P<host>[^/?#]*)")
_NONE: Mapping[str, Text] = MappingProxyType({})

_REFERENCE = re.compile(r"\$\$\{|\$\{([^}]*)\}")
_KEYRING = "keyring:"


class Parts(NamedTuple):
    """Parts of an entry that its server sees."""

    command: Text | None = None
    args: Sequence[Text] = ()
    env: Mapping[str, Text] = _NONE
    cwd: Text | None = None
    url: Text | None = None
    headers: Mapping[str, Text] = _NONE
    oauth: Mapping[str, Text] = _NONE
    scopes: tuple[str, ...] = ()


def key(parts: Parts, which: Callable[[str], str | None], with_folder: bool = True) -> Hashable:
    """Return a key that is equal for entries of the same server. `which` finds a program on PATH.

    The key contains secrets: compare it, and do not keep it.
    """
    command = revealed(parts.command) if parts.command else ""
    args = [revealed(text) for text in parts.args]
    name = base(command)
    if re.search(r"[/\\]", command) and which(re.split(r"[/\\]", command)[-1]) == command:
        command = re.split(r"[/\\]", command)[-1]
    return (
        command,
        tuple(_without_yes(args) if name == "npx" else args),
        _sorted(parts.env),
        _folder(revealed(parts.cwd)) if parts.cwd and with_folder else "",
        _address(revealed(parts.url)) if parts.url else "",
        _sorted({header.lower(): text for header, text in parts.headers.items()}),
        _sorted(parts.oauth),
        parts.scopes,
    )


def _without_yes(args: list[str]) -> list[str]:
    """Return the arguments without the option that answers npx's question, which stands before the package."""
    first = next((number for number, word in enumerate(args) if not word.startswith("-")), len(args))
    return [word for word in args[:first] if word not in _NPX_YES] + args[first:]


def _sorted(texts: Mapping[str, Text]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, revealed(text)) for name, text in texts.items()))


def _folder(path: str) -> str:
    return path.rstrip("/\\") or path


def _address(url: str) -> str:
    found = _AUTHORITY.match(url)
    authority = found["scheme"].lower() + (found["user"] or "") + found["host"].lower() if found else ""
    path, mark, query = url[found.end() if found else 0 :].partition("?")
    return authority + path.rstrip("/") + mark + query


# --- configured servers


def parts_of(spec: ServerSpec, secret: Callable[[str], str | None]) -> Parts:
    """Return the parts of a configured server. `secret` returns the secret stored under a name."""

    def text(value: str) -> Text:
        return text_of(value, secret)

    oauth = {name: getattr(spec.oauth, name) for name in spec.oauth.fields}
    return Parts(
        command=text(spec.command) if spec.command else None,
        args=[text(value) for value in spec.args],
        env={name: text(value) for name, value in spec.env.items()},
        cwd=text(spec.cwd) if spec.cwd else None,
        url=text(spec.url) if spec.url else None,
        headers={name: text(value) for name, value in spec.headers.items()},
        oauth={name: text(value) for name, value in oauth.items() if isinstance(value, str)},
        scopes=spec.oauth.scopes,
    )


def text_of(value: str, secret: Callable[[str], str | None]) -> Text:
    """Return a value of the config, split at its references."""
    pieces: list[str | Secret | Kept] = []
    at = 0
    for match in _REFERENCE.finditer(value):
        pieces += [value[at : match.start()], _piece(match, secret)]
        at = match.end()
    return tuple(piece for piece in (*pieces, value[at:]) if piece != "")


def _piece(match: re.Match[str], secret: Callable[[str], str | None]) -> str | Secret | Kept:
    inner = match[1]
    if inner is None:
        return "${"
    name = inner.removeprefix(_KEYRING)
    found = secret(name) if inner.startswith(_KEYRING) else None
    return Kept(match[0]) if found is None else Secret(found, name)
