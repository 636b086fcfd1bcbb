"""Texts without secrets. Pure, and cheap to import: what a secret is, `secrecy` knows.

A secret is replaced wherever it stands in a text, also as JSON, in a URL or in base64, as programs write what they
were given. Fewer than four characters are never hidden: they stand in every other line, and are no secret worth the
name.
"""

import binascii
import weakref
from collections.abc import Iterable, Iterator

MASK = "***"
SHORTEST_CHARACTERS = 4
# The beginning of a secret at the end of a text that was cut: so much of it is no coincidence.
CUT_CHARACTERS = 8


class Mask:
    """Texts without these secrets. Every mask that somebody holds is also part of `everywhere`."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        plain = {part for secret in secrets for part in _parts(secret)}
        forms = {form for part in plain for form in _forms(part)}
        # The longest first: one secret may be a part of another.
        self._forms = sorted(forms, key=lambda form: (-len(form), form))
        self._plain = [part for part in plain if len(part) > CUT_CHARACTERS]
        _HELD.add(self)

    def __call__(self, text: str) -> str:
        """The text with asterisks in place of each secret."""
        for form in self._forms:
            if form in text:
                text = text.replace(form, MASK)
        return self._without_cut(text) if self._plain else text

    def _without_cut(self, text: str) -> str:
        # Cut in the midst of a character, a replacement stands at its end.
        end = text.rstrip("\N{REPLACEMENT CHARACTER}… \r\n")
        for secret in self._plain:
            start = end.rfind(secret[:CUT_CHARACTERS])
            if start >= 0 and secret.startswith(end[start:]):
                return end[:start] + MASK + text[len(end) :]
        return text


_HELD: "weakref.WeakSet[Mask]" = weakref.WeakSet()
NOTHING = Mask()


def everywhere(text: str) -> str:
    """The text without the secrets of any mask that is held. For the log: any server's may be in any line."""
    for mask in tuple(_HELD):
        text = mask(text)
    return text


def _parts(secret: str) -> Iterator[str]:
    """The secret, and its lines: what a server says is kept line by line."""
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
        quoted = _percent_encoded(data, kept)
        yield quoted
        yield _percent_encoded(data, kept, "%%%02x")
    encoded = binascii.b2a_base64(data, newline=False).decode().rstrip("=")
    yield encoded
    yield encoded.replace("+", "-").replace("/", "_")


def _percent_encoded(data: bytes, kept: str, hexadecimal: str = "%%%02X") -> str:
    """As in a URL; with a space kept, as a form writes it."""
    safe = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~" + kept.encode()
    text = "".join(chr(byte) if byte in safe else hexadecimal % byte for byte in data)
    return text.replace(" ", "+")
