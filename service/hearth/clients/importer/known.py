"""A server of Hearth's config taken apart as an entry of a client is, so that the two can be compared. Pure."""

import re
from collections.abc import Callable

from hearth.clients.importer.identity import Parts
from hearth.clients.importer.templates import Kept, Secret, Text
from hearth.config import ServerSpec

_REFERENCE = re.compile(r"\$\$\{|\$\{([^}]*)\}")
_KEYRING = "keyring:"


def parts_of(spec: ServerSpec, secret: Callable[[str], str | None]) -> Parts:
    """What its server knows of it; `secret` gives what is stored under a name."""

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
    """A value of the config, its references apart."""
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
