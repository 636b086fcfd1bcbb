"""Names that are free, readable, and always the same for the same input: of servers and of their secrets. Pure."""

import re
import unicodedata
from collections.abc import Callable, Iterator
from itertools import count

from hearth.clients.table import Table

# Tools are called SERVER__TOOL, in 64 characters at most: a long name of a server would leave them nothing.
SERVER_CHARACTERS = 40
SECRET_CHARACTERS = 80

# Words that say that something is secret, and not whose.
_GENERIC = frozenset(
    {
        *("access", "api", "apikey", "auth", "authorization", "bearer", "client", "cookie", "credential", "header"),
        *("id", "jwt", "key", "oauth", "pass", "passphrase", "password", "passwd", "pat", "personal", "private", "pwd"),
        *("refresh", "secret", "session", "token", "url", "user", "x"),
    }
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def of_server(name: str, table: Table, is_free: Callable[[str], bool]) -> str:
    """The name that the client has for it, mended; if it is taken, with that of the client or project, or a number."""
    base = _plain(name)[:SERVER_CHARACTERS].strip("-") or "server"
    origin = _plain(re.split(r"[/\\]", table.folder.rstrip("/\\"))[-1]) if table.folder else table.client
    return next(each for each in _candidates(base, origin) if is_free(each))


def of_secret(server: str, hint: str, is_free: Callable[[str], bool]) -> str:
    """What a secret of that server is called: `github-token`, not `github-github-token`."""
    words = [word for word in re.split(r"[^a-z0-9]+", _CAMEL.sub("_", hint).lower()) if word] or ["secret"]
    if words[0] == "x" and words[1:]:
        del words[0]  # of a header that somebody made up
    if _GENERIC.issuperset(words):
        words.insert(0, server.lower())
    name = "-".join(words)[:SECRET_CHARACTERS].strip("-")
    # A secret's name begins with a letter.
    name = name if name[:1].isalpha() else f"secret-{name}"
    return next(each for each in _numbered(name) if is_free(each))


def _candidates(base: str, origin: str) -> Iterator[str]:
    yield base
    if origin and origin != base:
        yield f"{base}-{origin}"
    yield from _numbered(base, 2)


def _numbered(base: str, first: int = 1) -> Iterator[str]:
    for number in count(first):
        yield base if number == 1 else f"{base}-{number}"


def _plain(name: str) -> str:
    # An accent is a character of its own then, and its letter stays.
    letters = (each for each in unicodedata.normalize("NFKD", name) if not unicodedata.combining(each))
    return re.sub(r"[^A-Za-z0-9_-]+", "-", "".join(letters)).strip("-")
