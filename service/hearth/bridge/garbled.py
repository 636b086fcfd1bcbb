"""Lines of the client that are not JSON, as they are told on standard error: cut, masked, in printable characters.

Pure. Loaded when there is such a line.
"""

import re

# Enough to recognise a stray print by.
SHOWN_CHARACTERS = 200
# Long runs that mix letters and digits are tokens far more often than words.
_TOKEN = re.compile(r"(?=[A-Za-z_+/=.~-]*\d)(?=[\d_+/=.~-]*[A-Za-z])[A-Za-z0-9_+/=.~-]{16,}")
# The value that follows a name of a secret, with or without quotes.
_NAMED = re.compile(
    r"((?:token|secret|passw(?:or)?d|api[_-]?key|credential|authorization|bearer|cookie)\w*[\"']?\s*[:= ]\s*[\"']?"
    r"(?:bearer\s+|basic\s+)?)([^\s\"',;}]+)",
    re.IGNORECASE,
)


def described(line: bytes) -> str:
    """Return the sentence for one line."""
    # Masked before it is cut: half a token has no name in front of it.
    text = line[: 16 * SHOWN_CHARACTERS].decode("utf-8", "replace")
    text = _TOKEN.sub("***", _NAMED.sub(r"\1***", text))
    printable = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)
    rest = len(printable) - SHOWN_CHARACTERS
    cut = printable[:SHOWN_CHARACTERS] + (" …" if rest > 0 else "")
    return f"a line of the client is not JSON, and was refused: {cut}"
