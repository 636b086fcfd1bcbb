"""Target of `--to`: its address, and who the bridge is to it. Loaded only with that option.

The daemon connects, and is told the address, the headers and the proxy and certificate variables of the bridge's
environment, which may differ from its own. References in headers need more than the standard library: a process of
their own (`hearth.secrets.resolver_process`) resolves them whenever the daemon asks, and tells by a pipe. No value is
ever logged.
"""

import os
import sys
from time import monotonic

from hearth import addresses
from hearth.bridge.jsonlite import quote, read
from hearth.bridge.options import UsageError
from hearth.errors import HearthError, Unreachable
from hearth.paths import home_dir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

# A keyring may ask a person to unlock it.
RESOLVE_SECONDS = 60.0
# As the daemon has it (upstreams/http/target.py): more than any server takes, and less than the pipe of every system
# holds before the other side reads.
HEADERS_LIMIT_BYTES = 16 * 1024
# Longest address and longest variable; together with the headers they stay far below what a daemon takes.
_TEXT_LIMIT_CHARACTERS = 4096
_MARK = b"resolved "
# Beginning of a reference (hearth.secrets.references), or `$${`, which stands for itself there.
_REFERENCE = "${"
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
_FORMS = "http://HOST/PATH, https://HOST/PATH or unix:/PATH/OF/SOCKET[:/REQUEST]"


class BridgeTarget:
    """Target of one bridge."""

    def __init__(self, url: str, headers: "list[tuple[str, str]]", environ: "Mapping[str, str]") -> None:
        """Check what was given. Raises UsageError."""
        self._headers = headers
        size = sum(len(name) + len(value.encode("utf-8", "surrogateescape")) for name, value in headers)
        if size > HEADERS_LIMIT_BYTES:
            raise UsageError(f"the headers of --header are over the limit of {HEADERS_LIMIT_BYTES} bytes in all")
        url, variables = _checked(url), _variables(environ)
        for name, value in {"--to": url, **variables}.items():
            if len(value) > _TEXT_LIMIT_CHARACTERS:
                raise UsageError(f"{name} is over the limit of {_TEXT_LIMIT_CHARACTERS} characters")
        written = ",".join(f"{quote(name)}:{quote(value)}" for name, value in variables.items())
        references = "true" if any(_REFERENCE in value for _, value in headers) else "false"
        # Payload of `hello`.
        self.settings = (
            f'{{"url":{quote(url)},"headers":{_pairs(headers)},"references":{references},"environ":{{{written}}}}}'
        ).encode()

    def resolved(self) -> bytes:
        """Return the headers with their references resolved, or the reason why they cannot be: payload of `headers`."""
        try:
            return f'{{"headers":{_pairs(self._resolve())}}}'.encode()
        except HearthError as exc:
            return f'{{"error":{quote(str(exc))}}}'.encode()

    def _resolve(self) -> "list[tuple[str, str]]":
        texts = [value for _, value in self._headers if _REFERENCE in value]
        if not texts:
            return self._headers
        found = _run("\0".join(texts).encode("utf-8", "surrogatepass"))
        if len(found) != len(texts):
            raise Unreachable("the references in --header could not be resolved")
        values = iter(found)
        return [(name, str(next(values)) if _REFERENCE in value else value) for name, value in self._headers]


def _pairs(headers: "list[tuple[str, str]]") -> str:
    return "[" + ",".join(f"[{quote(name)},{quote(value)}]" for name, value in headers) + "]"


def _checked(url: str) -> str:
    """Return the address as the daemon takes it. Raises UsageError."""
    if _REFERENCE in url:
        raise UsageError("--to takes no references; --header does")
    phrase = addresses.fault(url)
    if phrase:
        raise UsageError(f"--to {phrase}: {_FORMS}")
    if url.startswith(addresses.UNIX):
        path, request = addresses.unix_parts(url)
        # The daemon's home may be another.
        return f"{addresses.UNIX}{home_dir() + path[1:] if path.startswith('~/') else path}:{request}"
    _check_authority(url.partition("://")[2])
    return url


def _check_authority(rest: str) -> None:
    end = min((found for found in map(rest.find, "/?#") if found >= 0), default=len(rest))
    authority = rest[:end]
    if "@" in authority:
        raise UsageError("--to has a user or a password in it; use --header 'Authorization: …'")
    if authority.startswith("["):
        host, closed, after = authority[1:].partition("]")
        is_sound = bool(closed) and after[:1] in ("", ":")
        port = after[1:]
    else:
        host, _, port = authority.partition(":")
        is_sound = ":" not in port and not set(host) & set(" []")
    if not host or not is_sound:
        raise UsageError("--to has no host that could be connected to")
    if port and not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise UsageError(f"--to has the port {port!r}, which is none")


def _variables(environ: "Mapping[str, str]") -> "dict[str, str]":
    """Return the variables that decide how a server is reached and trusted."""
    found = {name: environ.get(name) or environ.get(name.upper()) or "" for name in _PROXIES}
    # A relative path starts at the bridge's folder, not at the daemon's.
    found.update((name, os.path.abspath(environ[name])) for name in _CERTIFICATES if environ.get(name))
    return {name: value for name, value in found.items() if value}


def _run(texts: bytes) -> "list[object]":
    """Have texts resolved. Raises Unreachable with the reason."""
    from hearth.bridge.activation import Child

    command = [sys.executable, "-I", "-m", "hearth.secrets.resolver_process"]
    try:
        child = Child(command, dict(os.environ), numbered=True, told=texts)
    except OSError as exc:
        raise Unreachable(f"{sys.executable} cannot be run: {exc.strerror}; is Hearth still installed?") from exc
    try:
        has_ended = child.read(monotonic() + RESOLVE_SECONDS)
        if not has_ended:
            child.kill()
    finally:
        child.close()
    for line in child.output.splitlines():
        if line.startswith(_MARK):
            return _values(line.removeprefix(_MARK))
    if not has_ended:
        raise Unreachable(f"references could not be resolved within {RESOLVE_SECONDS:g} s")
    raise Unreachable("references cannot be resolved: is Hearth's installation complete?")


def _values(line: bytes) -> "list[object]":
    try:
        found = read(line)
    except HearthError as exc:
        raise Unreachable("references could not be resolved") from exc
    if "error" in found:
        raise Unreachable(str(found["error"]))
    values = found.get("values")
    return values if isinstance(values, list) else []
