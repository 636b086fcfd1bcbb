"""Secrets in the values of an entry, found by their names and by their shapes. Pure.

Found too seldom, a token stays in a file that people show around; found too often, a setting is harder to read. So a
name such as `…_TOKEN` is enough, unless the value is a path, an address or a yes or no; under any other name the value
has to look like a token.
"""

import re
from collections.abc import Iterator, Sequence

from hearth import secrecy
from hearth.clients.texts import Kept, Secret, Text, plain

# Stands for what is no plain text while a value is searched: one that no value may have.
_MARK = "\0"
# What is shorter is no secret worth the name.
SHORTEST_CHARACTERS = 4

# As the last word of a name: whatever the value is, but for what is plainly something else.
_LAST_WORD = re.compile(
    r"(?:^|[^a-z])(?:token|secret|passwd|password|passphrase|passwort|pwd|pass|key|apikey|pat|jwt|bearer|credential"
    r"|cookie|authorization)$",
    re.IGNORECASE,
)
_NO_SECRET = frozenset({"true", "false", "none", "null", "auto", "always", "never", "default", "enabled", "disabled"})
_PLACE = re.compile(r"(?:~|\.\.?)?/|[A-Za-z]:[\\/]|https?://")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

# Tokens that say by their beginning what they are.
_SHAPE = re.compile(
    r"(?<![A-Za-z0-9_-])(?:"
    r"sk-[A-Za-z0-9_-]{16,}"
    r"|[rsp]k_(?:live|test)_[A-Za-z0-9]{10,}"
    r"|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}"
    r"|glpat-[A-Za-z0-9_-]{16,}"
    r"|xox[a-z]-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{10,}"
    r"|A(?:KIA|SIA)[0-9A-Z]{16}"
    r"|AIza[A-Za-z0-9_-]{30,}|ya29\.[A-Za-z0-9_-]{20,}"
    r"|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"
    r"|(?:npm|hf|figd|sbp|shpat|ntn|pat|dop_v1)_[A-Za-z0-9_-]{20,}|lin_api_[A-Za-z0-9]{16,}"
    r"|(?:tvly|pplx|fc|ctx7sk|gsk|r8)[-_][A-Za-z0-9-]{16,}"
    r"|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}|ATATT[A-Za-z0-9_=-]{20,}"
    r")"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*"
    r"|(?<=\bBearer )[^\s\"']{8,}"
)
_PASSWORD_IN_URL = re.compile(r"(?<=://)(?P<user>[^/?#@:\s]*):(?P<password>[^/?#@\s]+)@")
_QUERY = re.compile(r"(?<=[?&])(?P<name>[^=&#\s]+)=(?P<value>[^&#\s]+)")
_TOKEN_IN_PATH = re.compile(r"(?<=/)(?=[^/?#\s]*\d)(?=[^/?#\s]*[A-Za-z])[\w~%-]{20,}(?=[/?#]|$)")
_LONG = re.compile(r"(?=.*\d)(?=.*[A-Za-z])[A-Za-z0-9_.~%-]{20,}")
_SCHEME = re.compile(r"((?:Bearer|Basic|Token|ApiKey|Api-Key) +)(\S.*)", re.IGNORECASE | re.DOTALL)
_HEADER = re.compile(r"([A-Za-z][\w-]*: *)(?!//)(.+)", re.DOTALL)


def is_secret(name: str, value: str) -> bool:
    """Whether a value is one by its name."""
    name = _CAMEL.sub("_", name)
    if len(value) < SHORTEST_CHARACTERS or value.lower() in _NO_SECRET or not secrecy.SECRET_NAME.search(name):
        return False
    if _LAST_WORD.search(name):
        return not (_PLACE.match(value) and secrecy.is_plain(value))
    return not secrecy.is_plain(value) and not _PLACE.match(value)


def has_secret(value: str) -> bool:
    """Whether a value has one in it by its shape."""
    return bool(_spans(value))


def shapes(value: str) -> list[str]:
    """What a value has in it that is a secret by its shape."""
    return [value[start:end] for start, end, _ in _spans(value)]


def named(name: str, text: Text) -> Text:
    """The value of a variable, with its secrets apart."""
    value = plain(text)
    return (Secret(value, name),) if value is not None and is_secret(name, value) else _split(text, name)


def header(name: str, text: Text) -> Text:
    """The value of an HTTP header; of `Bearer xyz` the first word stays."""
    value = plain(text)
    if value is not None and is_secret(name, value):
        hint = "token" if name.lower() == "authorization" else name
        scheme = _SCHEME.fullmatch(value)
        return (scheme[1], Secret(scheme[2], hint)) if scheme else (Secret(value, hint),)
    return _split(text, name)


def arguments(texts: Sequence[Text]) -> list[Text]:
    """Arguments: `--token x`, `--token=x`, `TOKEN=x`, `Authorization: x`, and what looks like a token."""
    hidden = []
    option = ""
    for text in texts:
        value = plain(text)
        hidden.append(_split(text, option or "token") if value is None else _argument(value, option))
        is_option = value is not None and value.startswith("-") and "=" not in value
        option = str(value).lstrip("-") if is_option else ""
    return hidden


def _argument(value: str, option: str) -> Text:
    if option and not value.startswith("-") and is_secret(option, value):
        return (Secret(value, option),)
    if found := _HEADER.fullmatch(value):
        return (found[1], *header(found[1].rstrip(": "), (found[2],)))
    name, sign, rest = value.partition("=")
    if sign and re.fullmatch(r"[\w-]+", name) and is_secret(name.lstrip("-"), rest):
        return (name + sign, Secret(rest, name.lstrip("-")))
    return _split((value,), option or "token")


def url(text: Text) -> Text:
    """An address: its password, parameters that sound like a secret, a token in its path."""
    return _split(text, "url-token")


def _split(text: Text, hint: str) -> Text:
    """The text with what looks like a secret apart; what was no plain text before stays as it is."""
    value = "".join(piece if isinstance(piece, str) else _MARK for piece in text)
    others = (piece for piece in text if not isinstance(piece, str))
    pieces: list[str | Secret | Kept] = []
    at = 0
    for start, end, name in _spans(value):
        if start >= at and _MARK not in value[start:end]:
            pieces += [*_unmarked(value[at:start], others), Secret(value[start:end], name or hint)]
            at = end
    return tuple(piece for piece in (*pieces, *_unmarked(value[at:], others)) if piece != "")


def _unmarked(value: str, others: Iterator[Secret | Kept]) -> Iterator[str | Secret | Kept]:
    first, *rest = value.split(_MARK)
    yield first
    for part in rest:
        yield next(others, _MARK)
        yield part


def _spans(value: str) -> list[tuple[int, int, str]]:
    """Where secrets are, and what they are called, if that is said."""
    return sorted((*_shapes(value), *(_in_url(value) if "://" in value else ())))


def _shapes(value: str) -> Iterator[tuple[int, int, str]]:
    for match in _SHAPE.finditer(value):
        yield match.start(), match.end(), ""


def _in_url(value: str) -> Iterator[tuple[int, int, str]]:
    for match in _PASSWORD_IN_URL.finditer(value):
        yield *match.span("password"), "password"
    for match in _QUERY.finditer(value):
        is_named = bool(secrecy.SECRET_NAME.search(match["name"])) and is_secret(match["name"], match["value"])
        if is_named or _LONG.fullmatch(match["value"]):
            yield *match.span("value"), match["name"]
    if value.startswith(("http://", "https://")):
        for match in _TOKEN_IN_PATH.finditer(value.partition("?")[0]):
            yield *match.span(), ""
