"""Kinds of values in a configuration, and the check of each, for values from files, variables and flags.

A check takes the parser's value and returns the value to keep, or raises BadValue with a phrase that follows
the key's name: "must be …". Nothing here knows keys, files or lines.
"""

import math
import re
from collections.abc import Callable
from types import MappingProxyType
from typing import NamedTuple

from hearth import addresses

# About thirty years. Beyond that, the timers of operating systems overflow, and no such value is intended.
LONGEST_SECONDS = 1e9
# The largest uid is 2**32 - 2; the one above it means "no user" to the kernel.
LARGEST_ID = 2**32 - 2
_LAST_PORT = 65535
# Enough of a wrong value to recognise it by; more would flood the message.
SHOWN_CHARACTERS = 40

_UNITS = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
# A name, or an address, with or without the brackets of IPv6.
_HOST = r"[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]|[0-9A-Fa-f]*:[0-9A-Fa-f]*:[0-9A-Fa-f:.]*"
# Ports that browsers leave out of an origin.
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}
_KINDS = {dict: "a table", list: "a list", type(None): "null", bool: "true or false", str: "a text"}


class BadValue(ValueError):
    """Error for an unusable value: a phrase to follow the key's name, and the place inside the value."""

    def __init__(self, phrase: str, *at: str | int) -> None:
        super().__init__(phrase)
        self.at = at


class ValueKind(NamedTuple):
    """Kind of a value: its check, and its conversion from the text of a variable; a decorator for checks."""

    check: Callable[[object], object]
    from_text: Callable[[str], object] = str


def described(value: object) -> str:
    """Return the value as a person would write it, shortened."""
    if isinstance(value, dict | list) or value is None:
        return _KINDS[type(value)]
    if isinstance(value, bool):
        return "true" if value else "false"
    # Python refuses to print integers of thousands of digits, which TOML can hold in hexadecimal.
    if isinstance(value, int) and abs(value) >= 10**SHOWN_CHARACTERS:
        return "a number so large"
    shown = repr(value)
    return shown if len(shown) <= SHOWN_CHARACTERS else shown[: SHOWN_CHARACTERS - 1] + "…"


def _kind(value: object) -> str:
    return _KINDS.get(type(value), "a number: put it in quotes")


def number_from_text(text: str) -> object:
    """Return an int or a float if the text is one, else the text itself, for the check to refuse."""
    for convert in (int, float):
        try:
            return convert(text)
        except ValueError:
            pass
    return text


def _split(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def seconds(least: float = 0.0) -> ValueKind:
    """Return the kind of a duration. `least` above 0 is for waits that make no sense, or spin, without any length."""
    return _number("a number of seconds", least, LONGEST_SECONDS)


def rate(most: float) -> ValueKind:
    """Return the kind of a rate: a number per second."""
    return _number("a number per second", 0.0, most)


def _number(what: str, least: float, most: float) -> ValueKind:
    wanted = f"must be {what} from {least:g} to {most:.0f}"

    def check(value: object) -> float:
        number = math.nan if isinstance(value, bool) or not isinstance(value, int | float) else value
        if not least <= number <= most:  # of NaN, neither is true
            raise BadValue(f"{wanted}, not {described(value)}")
        return float(number)

    return ValueKind(check, number_from_text)


def _whole(value: object, least: int, most: int, wanted: str, *at: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise BadValue(f"{wanted}, not {described(value)}", *at)
    return value


def count(least: int, most: int) -> ValueKind:
    """Return the kind of a whole number within bounds."""
    wanted = f"must be a whole number from {least} to {most}"
    return ValueKind(lambda value: _whole(value, least, most, wanted), number_from_text)


def size(least: int, most: int) -> ValueKind:
    """Return the kind of a number of bytes, or a text such as "64 MiB"."""
    wanted = f'must be a number of bytes from {least} to {most}, or a text such as "64 MiB"'

    def check(value: object) -> int:
        number = _bytes_in(value) if isinstance(value, str) else value
        if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= most:
            raise BadValue(f"{wanted}, not {described(value)}")
        return number

    return ValueKind(check, number_from_text)


def size_or_off(least: int, most: int) -> ValueKind:
    """Return the kind of a number of bytes within bounds, or 0 for no limit."""
    bounded = size(least, most)

    def check(value: object) -> object:
        is_zero = value == 0 and not isinstance(value, bool)
        try:
            return 0 if is_zero else bounded.check(value)
        except BadValue as exc:
            raise BadValue(f"{exc}; 0 means no limit") from None

    return ValueKind(check, bounded.from_text)


def _bytes_in(text: str) -> int | None:
    digits = text.rstrip("bgikmBGIKM ")
    unit = _UNITS.get(text[len(digits) :].strip().lower())
    number = number_from_text(digits)
    return number * unit if isinstance(number, int) and unit else None


def _check_ids(value: object) -> tuple[int, ...]:
    if not isinstance(value, list | tuple):
        raise BadValue(f"must be a list of numeric ids, not {described(value)}")
    each = f"must be a numeric id from 0 to {LARGEST_ID}"
    return tuple(_whole(item, 0, LARGEST_ID, each, index) for index, item in enumerate(value))


# List of user or group ids.
ids = ValueKind(_check_ids, lambda text: list(map(number_from_text, _split(text))))


def choice(*options: str) -> ValueKind:
    """Return the kind of a text that is one of these options."""
    wanted = "must be " + " or ".join(f'"{option}"' for option in options)

    def check(value: object) -> str:
        if not isinstance(value, str) or value not in options:
            raise BadValue(f"{wanted}, not {described(value)}")
        return value

    return ValueKind(check)


@ValueKind
def flag(value: object) -> bool:
    """Check a boolean."""
    if not isinstance(value, bool):
        raise BadValue(f"must be true or false, not {described(value)}")
    return value


def _text(value: object, *at: str | int) -> str:
    # The value is not shown: it may be a secret.
    if not isinstance(value, str):
        raise BadValue(f"must be a text, not {_kind(value)}", *at)
    if "\0" in value:
        raise BadValue("has a NUL character in it, which no program can be given", *at)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise BadValue("has half of a surrogate pair in it, which is no character", *at) from None
    return value


@ValueKind
def text(value: object) -> str:
    """Check a text that is not empty."""
    if not _text(value):
        raise BadValue("must not be empty")
    return str(value)


@ValueKind
def text_or_nothing(value: object) -> str:
    """Check a text that may be empty."""
    return _text(value)


@ValueKind
def url(value: object) -> str:
    """Check an HTTP server's address, on a host or a Unix socket; references may replace parts of it."""
    found = _text(value)
    if not found.startswith("${") and (phrase := addresses.fault(found)):
        raise BadValue(phrase)
    return found


def web_address(scheme: str, needs_path: bool = False) -> ValueKind:
    """Return the kind of an address with that scheme; `http` is accepted on this machine only.

    An address that begins with a reference is not checked.
    """
    where = "http://127.0.0.1 or http://localhost" if scheme == "http" else "https://"
    wanted = f"must be an address that begins with {where}" + (" and has a path" if needs_path else "")

    def check(value: object) -> str:
        found = _text(value)
        if not found.startswith("${") and not _is_web_address(found, scheme, needs_path):
            raise BadValue(wanted)
        return found

    return ValueKind(check)


def _is_web_address(text: str, scheme: str, needs_path: bool) -> bool:
    begin, _, rest = text.partition("://")
    authority, _, path = rest.partition("/")
    is_here = begin == "http" and authority.partition(":")[0] in ("127.0.0.1", "localhost")
    is_right = is_here or (begin == "https" == scheme and bool(authority))
    return is_right and not set("#@ ?") & set(text) and bool(path if needs_path else True)


def table(keys: dict[str, ValueKind], record: Callable[..., object], needed: tuple[str, ...] = ()) -> ValueKind:
    """Return the kind of a table whose keys are known, and of which some are needed; its value is a record."""

    def check(value: object) -> object:
        if not isinstance(value, dict):
            raise BadValue(f"must be a table, not {_kind(value)}")
        found: dict[str, object] = {}
        for name, item in value.items():
            if name not in keys:
                raise BadValue(f"is not a key that is known here; known: {', '.join(keys)}", name)
            try:
                found[name] = keys[name].check(item)
            except BadValue as exc:
                raise BadValue(str(exc), name, *exc.at) from exc
        for name in needed:
            if name not in found:
                raise BadValue(f"needs a {name}")
        return record(**found)

    return ValueKind(check)


def _check_texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise BadValue(f"must be a list of texts, not {_kind(value)}")
    return tuple(_text(item, index) for index, item in enumerate(value))


# List of texts, which may be empty.
texts = ValueKind(_check_texts)


def _shell_words(text: str) -> object:
    import shlex

    try:
        return shlex.split(text)
    except ValueError:  # an open quotation: for the check to refuse
        return text


# Words of a command; in a variable they are separated as a shell does.
words = ValueKind(_check_texts, _shell_words)


@ValueKind
def endpoint(value: object) -> str:
    """Check an address on which the daemon listens: a socket's path, or a port of this machine."""
    found = _text(value)
    kind, _, place = found.partition(":")
    host, _, port = place.rpartition(":")
    is_path = kind == "unix" and place.startswith(("/", "~/"))
    is_port = kind == "tcp" and host == "127.0.0.1" and port.isdecimal() and int(port) <= _LAST_PORT
    if found and not is_path and not is_port:
        raise BadValue(f'must be "unix:/PATH/OF/SOCKET" or "tcp:127.0.0.1:PORT", not {described(found)}')
    return found


def _words(each: Callable[[str, int], str]) -> ValueKind:
    """Return the kind of a list of texts without commas; in a variable, commas separate them."""
    return ValueKind(lambda value: tuple(each(item, index) for index, item in enumerate(_check_texts(value))), _split)


def _host_name(text: str, index: int) -> str:
    if _is_host(text):
        return text.lower().strip("[]")
    # People write the address of the page, or the value of `Host`.
    likely = _without_port(text.rpartition("://")[2].partition("/")[0])
    if _is_host(likely):
        raise BadValue(f'must be a name without scheme, port or path: "{likely}", not {described(text)}', index)
    raise BadValue(f'must be a name such as "hearth.example", and not a pattern for many: {described(text)}', index)


def _origin(text: str, index: int) -> str:
    """Check one origin. Pages without an origin send `null`; browser extensions have schemes of their own."""
    scheme, mark, rest = text.partition("://")
    is_web = scheme.lower() in _DEFAULT_PORTS
    if text == "null" or (mark and scheme and rest and not is_web and not set("*/ ") & set(rest)):
        return text
    scheme = scheme.lower() if mark and scheme else "https"
    place = (rest if mark else text).partition("/")[0].lower()
    likely = f"{scheme}://{place.removesuffix(_DEFAULT_PORTS.get(scheme, ''))}"
    if _is_host(_without_port(place)):
        if text.lower() == likely:
            return likely
        raise BadValue(f'must be an origin as browsers send it: "{likely}", not {described(text)}', index)
    phrase = 'must be an origin such as "https://app.example", and not a pattern for many'
    raise BadValue(f"{phrase}: {described(text)}", index)


# Names or addresses for `Host`, in lower case, as they are compared; origins, as browsers send them.
host_names, origins = _words(_host_name), _words(_origin)


def _is_host(text: str) -> bool:
    # The pattern is compiled on use: most configs have no host names.
    return re.fullmatch(_HOST, text) is not None


def _without_port(place: str) -> str:
    return re.sub(r"(?<=[^:]):[0-9]*$", "", place)


def text_map(what: str, forbidden: str) -> ValueKind:
    """Return the kind of a table of texts by name. `forbidden` are characters that a name of `what` cannot have."""

    def check(value: object) -> MappingProxyType[str, str]:
        if not isinstance(value, dict):
            raise BadValue(f"must be a table of names and texts, not {_kind(value)}")
        for name, item in value.items():
            if not _text(name) or any(character in name for character in forbidden):
                raise BadValue(f"cannot be the name of {what}", name)
            _text(item, name)
        return MappingProxyType(dict(value))

    return ValueKind(check)
