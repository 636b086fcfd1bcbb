"""The JSON of frame headers, read and written without the `json` package: that costs 2 ms and 1 MB.

Also the few frames that are always the same. Knows the protocol's keys, nothing of who sends them when.
"""

from _json import encode_basestring_ascii, make_scanner

from hearth import __version__
from hearth.errors import FrameError
from hearth.wire.frames import OLDEST_PROTOCOL_VERSION, PROTOCOL_VERSION, encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HEARTBEAT = encode(b'{"type":"heartbeat"}')
GOODBYE = encode(b'{"type":"goodbye"}')


class ScannerSettings:
    """Settings that the C scanner of the standard library reads; `json.JSONDecoder` has the same fields."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float: type = float
    parse_int: type = int
    parse_constant: type = float


_scan = make_scanner(ScannerSettings())  # type: ignore[arg-type]  # any object with these fields will do


def read(header: bytes) -> "dict[str, Any]":
    """Return a header as a dictionary. Raises FrameError."""
    try:
        found, end = _scan(header.decode(), 0)
    except (StopIteration, ValueError, RecursionError, SystemError, ImportError) as exc:
        # The scanner's own error belongs to `json.decoder`. Python 3.11 does not load that and fails with a
        # SystemError instead; later ones load it, if it is still there.
        raise FrameError(f"the daemon sent a header that is not JSON: {header[:80]!r}") from exc
    if not isinstance(found, dict) or end != len(header.decode()):
        raise FrameError(f"the daemon sent a header that is no object: {header[:80]!r}")
    return found


def quote(text: str) -> str:
    """Return a JSON string. Bytes of a folder's name that are no UTF-8 are replaced: surrogates would be refused."""
    return encode_basestring_ascii(text.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))


def hello(
    values: "dict[str, str | None]", pid: int, resume: tuple[str, str] | None, target: bytes | None = None
) -> bytes:
    """Return the frame that opens a session; `values` are its text keys, None and empty ones are left out.

    `target` are the settings of `--to`. Without them an older daemon understands the frame, too.
    """
    keys = "".join(f',"{key}":{quote(value)}' for key, value in values.items() if value)
    if resume:
        keys += f',"resume":{{"sessionId":{quote(resume[0])},"secret":{quote(resume[1])}}}'
    protocol = OLDEST_PROTOCOL_VERSION
    if target is not None:
        protocol = PROTOCOL_VERSION
        keys += ',"to":true'
    head = f'{{"type":"hello","protocol":{protocol},"version":"{__version__}","pid":{pid}'
    return encode(f"{head}{keys}}}".encode(), target or b"")


def headers(number: int, payload: bytes) -> bytes:
    """Return the frame with the resolved headers of the target, which answers the daemon's question."""
    return encode(b'{"type":"headers","re":%d}' % number, payload)
