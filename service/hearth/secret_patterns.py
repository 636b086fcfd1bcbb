"""Patterns of secrets: the one list of names and shapes, for masking, moving and warning. Pure.

- A value from a keyring, a credential or a file was put there to be secret: hidden, whatever it looks like.
- A variable, a header or an argument may be anything: hidden, unless it is as plain as `true`, `8080`, `production`,
  `/usr/bin` or `https://example.com/api`, which would turn every log into asterisks. Under a name that sounds like a
  secret (`…_TOKEN`, `Authorization`) even a plain value is hidden.

`references` decides the first case, this module the second. Masking one value too many costs little; a value that is
moved out of a file, or warned of, makes a setting harder to read. So for moves and warnings a name such as `…_TOKEN` is
enough, unless the value is a path, an address or a yes or no; under any other name the value has to look like a token.

Imported on use, because it has many patterns.
"""

import binascii
import re
from collections.abc import Iterator, Sequence

from hearth.masking import MASK, SHORTEST_CHARACTERS

SECRET_NAME = re.compile(
    r"key|token|secret|passw|passphrase|passcode|pwd|auth|credential|cookie|session|bearer|jwt|webhook|dsn"
    r"|connection[_-]?string|(?:^|[_-])pat(?:$|[_-])"
    # Neither bypass nor compass, nor passthrough.
    r"|(?<!by)(?<!om)pass(?![a-z])|(?-i:[a-z0-9]Pass(?![a-z]))",
    re.IGNORECASE,
)
# As the last word of a name: any value is a secret, unless it is plainly something else.
_LAST_WORD = re.compile(
    r"(?:^|[^a-z])(?:token|secret|passwd|password|passphrase|passcode|passwort|pwd|pass|key|apikey|pat|jwt|bearer"
    r"|credential|cookie|authorization)$",
    re.IGNORECASE,
)
_NO_SECRET = frozenset({"true", "false", "none", "null", "auto", "always", "never", "default", "enabled", "disabled"})
_PLACE = re.compile(r"(?:~|\.\.?)?/|[A-Za-z]:[\\/]|https?://")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
# Options of one letter that many programs use for a secret, and as many for a port, a project or a type.
_SHORT_OPTIONS = {"-k": "key", "-p": "password", "-t": "token"}
_LIKE_A_TOKEN = re.compile(r"(?=.*\d)(?=.*[A-Za-z])\S{8,}")

# Tokens with a known prefix.
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
    r"|hearth-(?:role|agent)-[A-Za-z0-9_-]{20,}"
    r"|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}|ATATT[A-Za-z0-9_=-]{20,}"
    r")"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*"
    r"|(?<=\bBearer )[^\s\"']{8,}"
)
_WORDS = frozenset(
    {
        *_NO_SECRET,
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
_PASSWORD_IN_URL = re.compile(r"(?<=://)(?P<user>[^/?#@:\s]*):(?P<password>[^/?#@\s]+)@")
_QUERY = re.compile(r"(?<=[?&])(?P<name>[^=&#\s]+)=(?P<value>[^&#\s]+)")
_LONG = re.compile(r"(?=.*\d)(?=.*[A-Za-z])[A-Za-z0-9_.~%-]{20,}")
# Some services use an address that is itself a secret: a part of its path is long, with letters and digits.
_TOKEN_IN_PATH = re.compile(r"(?<=/)(?=[^/?#$\s]*\d)(?=[^/?#$\s]*[A-Za-z])[\w.~%-]{16,}(?=[/?#]|$)")
# A reference without a default, because a default may be a secret.
_REFERENCE = re.compile(r"\$\{(?:(?!:-)[^}])*\}")
_HEADER = re.compile(r"([A-Za-z][\w-]*)(: *)(?!//)(.+)", re.DOTALL)
_SCHEME = re.compile(r"[A-Za-z][\w-]* +(.+)", re.DOTALL)


def is_secret(name: str, value: str) -> bool:
    """Tell whether a value in a file is a secret by its name."""
    name = _CAMEL.sub("_", name)
    if len(value) < SHORTEST_CHARACTERS or value.lower() in _NO_SECRET or not SECRET_NAME.search(name):
        return False
    if _LAST_WORD.search(name):
        return not (_PLACE.match(value) and is_plain(value))
    return not is_plain(value) and not _PLACE.match(value)


def has_secret(value: str) -> bool:
    """Tell whether a value contains a secret by its shape."""
    return bool(spans(value))


def spans(value: str) -> list[tuple[int, int, str]]:
    """Return the spans of secrets in a value by their shapes, with their names, if known."""
    shapes = ((*match.span(), "") for match in _SHAPE.finditer(value))
    return sorted((*shapes, *(_in_url(value) if "://" in value else ())))


def _in_url(value: str) -> Iterator[tuple[int, int, str]]:
    for match in _PASSWORD_IN_URL.finditer(value):
        yield *match.span("password"), "password"
    for match in _QUERY.finditer(value):
        if is_secret(match["name"], match["value"]) or _LONG.fullmatch(match["value"]):
            yield *match.span("value"), match["name"]
    if value.startswith(("http://", "https://")):
        for match in _TOKEN_IN_PATH.finditer(value.partition("?")[0]):
            yield *match.span(), ""


def of_short_option(option: str, value: str) -> str:
    """Return the meaning of a value by the one-letter option before it, such as `-k`; empty if it has none."""
    meant = _SHORT_OPTIONS.get(option, "")
    if not meant or is_plain(value) or _PLACE.match(value):
        return ""
    return meant if option == "-k" or _LIKE_A_TOKEN.fullmatch(value) else ""


def of_variable(name: str, value: str) -> Iterator[str]:
    """Yield the possible secrets in a variable, or in anything else that has a name."""
    if SECRET_NAME.search(name) or not is_plain(value):
        yield value
    if "://" in value:
        yield from of_url(value)


def of_header(name: str, value: str) -> Iterator[str]:
    """Yield the secrets in an HTTP header: the value, and the part after the word `Bearer` or `Basic`."""
    if not SECRET_NAME.search(name) and is_plain(value):
        return
    yield value
    if found := _SCHEME.fullmatch(value):
        yield found[1]
        if value[:6].lower() == "basic ":
            yield from _of_user(_decoded(found[1]))


def of_url(url: str) -> Iterator[str]:
    """Yield the secrets in an address: its user and password, the values of its query, a long token in its path."""
    from urllib.parse import unquote

    for user in _USER_IN_URL.findall(url):
        yield from _of_user(user)
        yield from _of_user(unquote(user))
    for token in (*_VALUE_IN_QUERY.findall(url.partition("?")[2]), *_TOKEN_IN_PATH.findall(url.partition("?")[0])):
        if not is_plain(token):
            yield token
            yield unquote(token)


def of_arguments(arguments: Sequence[str]) -> Iterator[str]:
    """Yield the secrets among arguments, by their shape and by the option before them."""
    for before, secret in split_arguments(arguments):
        if secret:
            yield secret
        else:
            yield from (match[0] for match in _SHAPE.finditer(before))
            yield from of_url(before) if "://" in before else ()


def split_arguments(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Split each argument in two: the part that may be shown, and a secret by the name in front of it.

    `--token x`, `--token=x`, `TOKEN=x`, `Authorization: x`, `-k x`.
    """
    is_value = False
    for former, argument in zip(("", *arguments), arguments, strict=False):
        name, sign, value = _named(argument)
        is_secret = bool(SECRET_NAME.search(name)) and (name.startswith("-") or bool(sign))
        if (is_value or of_short_option(former, argument)) and not argument.startswith("-"):
            yield "", argument
        else:
            yield (name + sign, value) if is_secret and sign else (argument, "")
        is_value = is_secret and not sign


def _named(argument: str) -> tuple[str, str, str]:
    if found := _HEADER.fullmatch(argument):
        return found[1], found[2], found[3]
    return argument.partition("=")


def masked(text: str) -> str:
    """Return a text with secrets masked by their shape; in an address, also the parts that `masked_url` masks."""
    return _SHAPE.sub(MASK, masked_url(text) if "://" in text else text)


def masked_url(url: str) -> str:
    """Return a URL with its user and password, the values of its query and likely tokens in its path masked."""
    address, mark, query = _USER_IN_URL.sub(f"{MASK}@", url).partition("?")
    shown = _VALUE_IN_QUERY.sub(lambda value: value[0] if _REFERENCE.fullmatch(value[0]) else MASK, query)
    return _TOKEN_IN_PATH.sub(MASK, address) + mark + shown


def _of_user(user: str) -> Iterator[str]:
    name, colon, password = user.partition(":")
    if colon:
        # The pair as well, because it is sent as a whole, in base64. The name alone is no secret.
        yield user
        yield password
    elif name:
        yield name


def is_plain(value: str) -> bool:
    """Tell whether a value is so ordinary that it is no secret, unless its name says so."""
    return value.lower() in _WORDS or bool(_PLAIN.fullmatch(value))


def _decoded(text: str) -> str:
    try:
        return binascii.a2b_base64(text).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""
