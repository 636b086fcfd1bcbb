"""What is refused before anybody looks into a message: foreign origins and hosts, unknown types. Pure.

A page of any site may have a browser send requests to this machine. What tells them is `Origin`, and for a name that
was made to mean this machine only afterwards (DNS rebinding) `Host`.
"""

from collections.abc import Collection, Iterable, Mapping
from urllib.parse import urlsplit

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
JSON = "application/json"
EVENTS = "text/event-stream"


def headers_of(raw: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """By name in small letters; of one that is repeated, both values, as RFC 9110 joins them."""
    found: dict[str, str] = {}
    for name, value in raw:
        key, text = name.decode("latin-1"), value.decode("latin-1")
        found[key] = f"{found[key]}, {text}" if key in found else text
    return found


def refused_address(headers: Mapping[str, str], hosts: Collection[str] = LOOPBACK) -> str | None:
    """Why a request is not let in, or None."""
    host = headers.get("host", "")
    if host and _name(f"//{host}") not in hosts:
        return f"the Host {host!r} is not this machine's"
    origin = headers.get("origin")
    if origin is not None and not is_local(origin, hosts):
        return f"the Origin {origin!r} may not use this server"
    return None


def is_local(origin: str, hosts: Collection[str] = LOOPBACK) -> bool:
    """Whether a page of that origin came from this machine."""
    scheme, mark, _ = origin.partition("://")
    return bool(mark) and scheme in ("http", "https") and _name(origin) in hosts


def _name(address: str) -> str | None:
    try:
        parts = urlsplit(address)
        # Raises for what is no port.
        _ = parts.port
    except ValueError:
        return None
    if parts.username is not None or parts.path or parts.query or parts.fragment:
        return None
    return parts.hostname


def is_json(content_type: str) -> bool:
    """Whether a body is declared to be JSON, in the one encoding that it may have."""
    kind, _, parameters = content_type.partition(";")
    charset = parameters.strip().lower().replace('"', "").replace(" ", "")
    return kind.strip().lower() == JSON and (not charset or charset in ("charset=utf-8", "charset=utf8"))


def accepts(accept: str | None, *kinds: str) -> bool:
    """Whether a client takes every one of these types. One that does not say takes anything."""
    if accept is None:
        return True
    given = [_range(each) for each in accept.split(",")]
    return all(any(_covers(kind, range_) for range_ in given) for kind in kinds)


def _range(text: str) -> str:
    kind, *parameters = (part.strip().lower() for part in text.split(";"))
    is_refused = any(part.replace(" ", "") in ("q=0", "q=0.0", "q=0.00", "q=0.000") for part in parameters)
    return "" if is_refused else kind


def _covers(kind: str, range_: str) -> bool:
    return range_ in (kind, "*/*", f"{kind.partition('/')[0]}/*")
