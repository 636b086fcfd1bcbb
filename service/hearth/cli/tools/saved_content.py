"""Images, sounds and resources that a tool returned, written into a folder; what is there is never overwritten."""

import base64
import binascii
import mimetypes
import os
from collections.abc import Mapping
from typing import Any

from hearth.cli.tools import tool_lines
from hearth.errors import HearthError

# Names are tried in turn; a folder with so many of them is not one to save into.
_MOST_NAMES = 10_000
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")


def save(block: Mapping[str, Any], folder: str, stem: str) -> str | None:
    """Write the data of a content block; the path, or None if it has none. Raises HearthError."""
    encoded = tool_lines.data_of(block)
    if encoded is None:
        return None
    try:
        data = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError) as exc:
        raise HearthError(f"the server returned data that are no base64: {exc}") from exc
    suffix = mimetypes.guess_extension(tool_lines.mime_type(block)) or ".bin"
    return _write(folder, "".join(character if character in _PLAIN else "_" for character in stem), suffix, data)


def _write(folder: str, stem: str, suffix: str, data: bytes) -> str:
    try:
        os.makedirs(folder, exist_ok=True)
        for number in range(1, _MOST_NAMES):
            path = os.path.join(folder, f"{stem}-{number}{suffix}")
            try:
                with open(path, "xb") as file:
                    file.write(data)
            except FileExistsError:
                continue
            return path
    except OSError as exc:
        raise HearthError(f"cannot save into {folder}: {(exc.strerror or str(exc)).lower()}") from exc
    raise HearthError(f"cannot save into {folder}: there are too many files called {stem}-…{suffix}")
