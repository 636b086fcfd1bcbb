"""Masking of secrets, and of characters that control a terminal, in texts from elsewhere. Pure, and cheap to import.

`secret_patterns` knows which values are secrets. A secret is replaced wherever it occurs in a text, also as JSON, in a
URL, in base64 or hex, as programs write their input. If a secret is long enough to exclude a coincidence, its
upper-case and lower-case forms are replaced too, and so is a secret that is broken into lines. Fewer than four
characters are never hidden: they occur in every other line, and are too short for a secret.

Control characters of ASCII and of ISO 6429 (C1) move the cursor, change colours and titles, and may make a terminal
type commands. Bidirectional and invisible format characters show a text in another order than it has, or hide a part of
it. Line feeds and tabs are kept.
"""

import binascii
import re
import weakref
from collections.abc import Iterable, Iterator

MASK = "***"
SHORTEST_CHARACTERS = 4
# Length from which the beginning of a secret at the end of a cut text is no coincidence.
CUT_CHARACTERS = 8
# Sixteen hexadecimal digits are no coincidence.
HEX_CHARACTERS = 8
# Shorter values are words, such as `postgres`, whose upper-case forms occur in names of variables.
CASE_CHARACTERS = 12
# Parts of CUT_CHARACTERS are hidden of a secret that is broken into lines: most of a shorter value would still show.
BROKEN_CHARACTERS = 16
# The pattern of a longer value takes long to compile; the lines of such a value are hidden one by one.
_LONGEST_PATTERN_CHARACTERS = 1024
# A line end, as it is or as JSON writes it, with the blanks that programs put around it.
_LINE_BREAK = r"(?:[ \t]*(?:\\[rn]|\\?[\r\n])+[ \t]*)?"

# C0 without tab and line feed; DEL and C1; bidirectional marks, embeddings, overrides and isolates; separators of lines
# and paragraphs; invisible characters, with which two names look the same, or which (the tags above U+E0000) only a
# model reads; halves of surrogate pairs, which cannot be printed.
UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f]"
)
# Sequences that this command line writes: colours and weights, and the erasing of a line after a carriage return.
_OWN = re.compile("(\x1b\\[(?:0|1|2|3[1-36])m|\r\x1b\\[K|\r\n)")
REPLACEMENT = "\ufffd"


class Mask:
    """Mask that hides these secrets in texts. Every mask that is still referenced is also part of `everywhere`."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        plain = {part for secret in secrets for part in _parts(secret)}
        forms = {form for part in plain for form in _forms(part)}
        # The longest first: one secret may be a part of another.
        self._forms = sorted(forms, key=lambda form: (-len(form), form))
        self._plain = [part for part in plain if len(part) > CUT_CHARACTERS]
        long = [part for part in plain if len(part) >= BROKEN_CHARACTERS and len(part.splitlines()) == 1]
        self._long = sorted({form for part in long for form in (part, *_encoded(part))})
        # Cheap tests for texts without any part of a secret, which nearly all texts are.
        self._heads = {secret[:CUT_CHARACTERS] for secret in (*self._plain, *self._long)}
        self._tails = {secret[-CUT_CHARACTERS:] for secret in self._long}
        self._pieces = {
            secret[at : at + CUT_CHARACTERS] for secret in self._long for at in range(len(secret) - CUT_CHARACTERS + 1)
        }
        self._broken: re.Pattern[str] | None = None
        _HELD.add(self)

    def __call__(self, text: str) -> str:
        """Return the text with asterisks in place of each secret."""
        for form in self._forms:
            if form in text:
                text = text.replace(form, MASK)
        if not self._plain:
            return text
        has_head = any(head in text for head in self._heads)
        is_broken = "\n" in text or "\\n" in text
        if is_broken and (has_head or any(tail in text for tail in self._tails)):
            text = self._pattern().sub(MASK, text)
        return "\n".join([self._without_part(line, has_head) for line in text.split("\n")])

    def _pattern(self) -> "re.Pattern[str]":
        """Return the pattern of long secrets that are broken into lines.

        Compiled on first use: most texts are one line.
        """
        if self._broken is None:
            short = (form for form in self._long if len(form) <= _LONGEST_PATTERN_CHARACTERS)
            self._broken = re.compile("|".join(_LINE_BREAK.join(map(re.escape, form)) for form in short) or r"(?!)")
        return self._broken

    def _without_part(self, line: str, has_head: bool) -> str:
        """Hide the parts of a secret at the beginning or end of a line: a text was cut, or a long secret was broken."""
        begun = line.lstrip()
        head = begun[:CUT_CHARACTERS]
        if head in self._pieces:
            rest = begun.rstrip("\\ \r")
            size = max(_continued(secret, head, rest) for secret in self._long)
            line = line[: len(line) - len(begun)] + MASK + begun[size:] if size else line
        if not has_head:
            return line
        # A text that was cut within a character ends with a replacement character.
        end = line.rstrip("\N{REPLACEMENT CHARACTER}… \r")
        for secret in (*self._plain, *self._long):
            start = end.rfind(secret[:CUT_CHARACTERS])
            if start >= 0 and secret.startswith(end[start:]):
                return end[:start] + MASK + line[len(end) :]
        return line


def _continued(secret: str, head: str, line: str) -> int:
    """Return how many characters of a line with this head belong to the secret: to its end, or to the line's."""
    start = secret.find(head)
    while start >= 0:
        rest = secret[start:]
        if line.startswith(rest) or rest.startswith(line):
            return min(len(rest), len(line))
        start = secret.find(head, start + 1)
    return 0


_HELD: "weakref.WeakSet[Mask]" = weakref.WeakSet()
NOTHING = Mask()


def everywhere(text: str) -> str:
    """Return the text without the secrets of any live mask. For the log: any line may have any server's secrets."""
    for mask in tuple(_HELD):
        text = mask(text)
    return text


def _parts(secret: str) -> Iterator[str]:
    """Yield the secret, and its lines: the output of a server is stored line by line."""
    for part in (secret, secret.strip(), *secret.splitlines()):
        if len(part) >= SHORTEST_CHARACTERS:
            yield part


def _forms(secret: str) -> Iterator[str]:
    import json

    data = secret.encode("utf-8", "surrogatepass")
    yield secret
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    yield repr(secret)[1:-1]
    for kept in ("", "/", " "):
        yield _percent_encoded(data, kept)
        yield _percent_encoded(data, kept, "%%%02x")
    yield from _encoded(secret)
    if len(secret) >= CASE_CHARACTERS:
        yield secret.upper()
        yield secret.lower()


def _encoded(secret: str) -> Iterator[str]:
    """Yield the secret in base64, and in hex if that is long enough."""
    data = secret.encode("utf-8", "surrogatepass")
    encoded = binascii.b2a_base64(data, newline=False).decode().rstrip("=")
    yield encoded
    yield encoded.replace("+", "-").replace("/", "_")
    if len(secret) >= HEX_CHARACTERS:
        yield data.hex()
        yield data.hex().upper()


def _percent_encoded(data: bytes, kept: str, hexadecimal: str = "%%%02X") -> str:
    """Return the percent-encoded form, as in a URL; with a space kept, as a form encodes it."""
    safe = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~" + kept.encode()
    text = "".join(chr(byte) if byte in safe else hexadecimal % byte for byte in data)
    return text.replace(" ", "+")


# --- characters that control a terminal


def escaped(text: str) -> str:
    """Return a text with every unsafe character as its JSON escape."""
    return UNSAFE.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    # A character beyond U+FFFF has two escapes.
    return "\\u" + found[0].encode("utf-16-be", "surrogatepass").hex(" ", 2).replace(" ", "\\u")


def replaced(text: str) -> str:
    """Return a text with every unsafe character replaced by a visible one."""
    return UNSAFE.sub(REPLACEMENT, text)


def guarded(text: str) -> str:
    """Return a text for a terminal, with the control sequences that Hearth itself writes, and no others."""
    if UNSAFE.search(text) is None:
        return text
    return "".join(part if number % 2 else replaced(part) for number, part in enumerate(_OWN.split(text)))
