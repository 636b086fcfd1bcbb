"""Files of variables that an entry names (`envFile`), as the usual libraries read them.

# a comment            NAME=value           export NAME=value
NAME='as it is'        NAME="with \\n escapes"     NAME=value # and a comment
"""

import re
from collections.abc import Mapping

from hearth.config.loader import read_file
from hearth.errors import ConfigError

# Some dozens of variables; what is larger is another file.
SIZE_LIMIT_BYTES = 1024 * 1024

_LINE = re.compile(
    r"^[ \t]*(?:export[ \t]+)?(?P<name>[\w.-]+)[ \t]*=[ \t]*"
    r"(?:'(?P<raw>[^']*)'|\"(?P<quoted>(?:\\.|[^\"\\])*)\"|(?P<bare>[^#\r\n]*?))[ \t]*(?:#[^\r\n]*)?$",
    re.MULTILINE | re.DOTALL,
)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


def read(path: str) -> Mapping[str, str] | str:
    """The variables of a file, or a sentence on why there are none."""
    try:
        data = read_file(path, SIZE_LIMIT_BYTES)
    except ConfigError as exc:
        return f"its envFile {exc}"
    if data is None:
        return f"its envFile {path} does not exist"
    try:
        return parse(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        return f"its envFile {path} is not text in UTF-8"


def parse(text: str) -> dict[str, str]:
    """The variables of a text; of one that is there twice, the last counts."""
    found = {}
    for match in _LINE.finditer(text.replace("\r\n", "\n")):
        quoted, raw = match["quoted"], match["raw"]
        plain = raw if raw is not None else match["bare"]
        found[match["name"]] = re.sub(r"\\(.)", _unescaped, quoted, flags=re.DOTALL) if quoted is not None else plain
    return found


def _unescaped(match: re.Match[str]) -> str:
    return _ESCAPES.get(match[1], match[1])
