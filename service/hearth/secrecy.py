"""Which values are secrets. Pure.

- a value from a keyring, a credential or a file was put there to be secret: hidden, whatever it looks like;
- a variable, a header or an argument may be anything: hidden, unless it is as plain as `true`, `8080`, `production`,
  `/usr/bin` or `https://example.com/api`, which would turn every log into asterisks. Under a name that sounds like a
  secret (`…_TOKEN`, `Authorization`) it is hidden all the same.

The first is for `references` to say; the second is here. Imported when it is needed: it is full of patterns.
"""

import binascii
import re
from collections.abc import Iterator, Sequence

from hearth.masking import MASK

SECRET_NAME = re.compile(
    r"key|token|secret|passw|pwd|auth|credential|cookie|session|bearer|jwt|webhook|dsn|(?:^|_)pat(?:$|_)", re.IGNORECASE
)
_WORDS = frozenset(
    {
        *("true", "false", "none", "null", "auto", "always", "never", "default", "enabled", "disabled"),
        *("trace", "debug", "info", "notice", "warn", "warning", "error", "critical", "fatal"),
        *("production", "development", "staging", "test", "testing", "local", "localhost"),
        *("stdio", "http", "https", "json", "text", "utf-8", "utf8", "main", "master", "latest", "stable"),
        *("public", "private", "read", "write", "readonly", "user", "admin", "root", "example"),
    }
)
_PLAIN = re.compile(
    r"\d{1,5}(?:\.\d{1,5})*"  # numbers, versions, ports, addresses
    r"|\d{4}-\d\d-\d\d"
    r"|[a-z]{2}[_-][A-Z]{2}(?:\.UTF-8)?"
    r"|(?:application|text|image|audio|\*)/[a-z0-9.+*-]+(?:[,;] ?[a-z0-9.+*/=-]+)*"
    r"|(?:~|\.\.?)/[^+=]*"
    r"|/(?:usr|bin|sbin|lib|lib64|home|root|opt|tmp|var|etc|run|srv|mnt|media|dev|proc|sys|nix|snap"
    r"|Users|Applications|Library|System|Volumes|private)(?:[/:][^+=]*)?"
    r"|[A-Za-z]:[\\/][^+=]*"
    r"|https?://[\w.-]+(?::\d+)?(?:/(?:[a-z]{0,12}|v\d+))*"
)
_USER_IN_URL = re.compile(r"(?<=://)([^/?#@]*)@")
_VALUE_IN_QUERY = re.compile(r"(?<==)[^&#]+")
# Some services give an address that is a secret itself: a part of its path is long, and of letters and digits.
_TOKEN_IN_PATH = re.compile(r"(?<=/)(?=[^/?#$]*\d)(?=[^/?#$]*[A-Za-z])[\w.~%-]{16,}(?=[/?#]|$)")
# One without a default, which may be a secret.
_REFERENCE = re.compile(r"\$\{(?:(?!:-)[^}])*\}")
_HEADER = re.compile(r"([A-Za-z][\w-]*)(: *)(?!//)(.+)", re.DOTALL)
_SCHEME = re.compile(r"[A-Za-z][\w-]* +(.+)", re.DOTALL)


def of_variable(name: str, value: str) -> Iterator[str]:
    """The secret in a variable, or in anything else that has a name, if it may be one."""
    if SECRET_NAME.search(name) or not is_plain(value):
        yield value
    if "://" in value:
        yield from of_url(value)


def of_header(name: str, value: str) -> Iterator[str]:
    """The secrets in an HTTP header: the value, and what follows the word `Bearer` or `Basic`."""
    if not SECRET_NAME.search(name) and is_plain(value):
        return
    yield value
    if found := _SCHEME.fullmatch(value):
        yield found[1]
        if value[:6].lower() == "basic ":
            yield from _of_user(_decoded(found[1]))


def of_url(url: str) -> Iterator[str]:
    """The secrets in an address: its user and password, the values of its query, a long token in its path."""
    from urllib.parse import unquote

    for user in _USER_IN_URL.findall(url):
        yield from _of_user(user)
        yield from _of_user(unquote(user))
    for token in (*_VALUE_IN_QUERY.findall(url.partition("?")[2]), *_TOKEN_IN_PATH.findall(url.partition("?")[0])):
        if not is_plain(token):
            yield token
            yield unquote(token)


def of_arguments(arguments: Sequence[str]) -> Iterator[str]:
    """The secrets among arguments, by what they look like and by what comes before them."""
    for before, secret in split_arguments(arguments):
        if secret:
            yield secret
        elif "://" in before:
            yield from of_url(before)


def split_arguments(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each argument in two: what may be shown, and what sounds like a secret by the name in front of it.

    `--token x`, `--token=x`, `TOKEN=x`, `Authorization: x`.
    """
    is_value = False
    for argument in arguments:
        name, sign, value = _named(argument)
        is_secret = bool(SECRET_NAME.search(name)) and (name.startswith("-") or bool(sign))
        if is_value and not argument.startswith("-"):
            yield "", argument
        else:
            yield (name + sign, value) if is_secret and sign else (argument, "")
        is_value = is_secret and not sign


def _named(argument: str) -> tuple[str, str, str]:
    if found := _HEADER.fullmatch(argument):
        return found[1], found[2], found[3]
    return argument.partition("=")


def masked_url(url: str) -> str:
    """A URL without its user and password, the values of its query and what looks like a token in its path."""
    address, mark, query = _USER_IN_URL.sub(f"{MASK}@", url).partition("?")
    return _TOKEN_IN_PATH.sub(MASK, address) + mark + _VALUE_IN_QUERY.sub(_unless_reference, query)


def _unless_reference(match: re.Match[str]) -> str:
    return match[0] if _REFERENCE.fullmatch(match[0]) else MASK


def _of_user(user: str) -> Iterator[str]:
    name, colon, password = user.partition(":")
    if colon:
        # Whole as well: so it is sent, in base64. The name alone is no secret.
        yield user
        yield password
    elif name:
        yield name


def is_plain(value: str) -> bool:
    """Whether a value is so ordinary that it is no secret, unless its name says so."""
    return value.lower() in _WORDS or bool(_PLAIN.fullmatch(value))


def _decoded(text: str) -> str:
    try:
        return binascii.a2b_base64(text).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""
