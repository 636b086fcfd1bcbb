"""Text output for tools and their results. Definitions and results come from servers, so any key may be missing."""

import base64
import binascii
import json
import mimetypes
import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

from hearth.cli.tools import call_arguments
from hearth.errors import HearthError
from hearth.output.table import clean, fit

Document = Mapping[str, Any]
BAR_CELLS = 20

# Limit for the search of a free file name: a folder with that many files of the name is refused.
_MOST_NAMES = 10_000
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")


def tool_lines(tools: Sequence[Document], width: int) -> list[str]:
    """Return each tool with its arguments, and below it the first line of its description."""
    lines = []
    for tool in tools:
        schema = tool.get("inputSchema")
        usage = call_arguments.usage(schema) if isinstance(schema, Mapping) else ""
        lines.append(clean(f"{tool.get('name')} {usage}".rstrip()))
        description = str(tool.get("description") or tool.get("title") or "").strip().splitlines()
        if description:
            lines.append(fit(f"    {clean(description[0])}", width).rstrip())
    return lines


def text_of(block: Document) -> str | None:
    """Return the text of a content block; None if the block holds data, which `description_of` describes."""
    if block.get("type") == "text":
        return str(block.get("text") or "")
    resource = block.get("resource")
    if block.get("type") == "resource" and isinstance(resource, Mapping) and isinstance(resource.get("text"), str):
        return f"[{resource.get('uri')}]\n{resource['text']}"
    return None


def description_of(block: Document) -> str:
    """Return a description, in brackets, of a content block that is not text."""
    kind = block.get("type")
    if kind == "resource_link":
        title = block.get("title") or block.get("name") or ""
        return f"[link to {block.get('uri')}{f': {title}' if title else ''}]"
    resource = block.get("resource")
    inner = resource if isinstance(resource, Mapping) else block
    data = data_of(block)
    size = f", {_size(len(data) * 3 // 4)}" if data is not None else ""
    where = f" {inner['uri']}" if inner.get("uri") else ""
    return f"[{kind}{where}: {inner.get('mimeType') or 'of an unknown kind'}{size}]"


def data_of(block: Document) -> str | None:
    """Return the base64 of an image, a sound or a resource; None for anything else."""
    resource = block.get("resource")
    found = resource.get("blob") if isinstance(resource, Mapping) else block.get("data")
    return found if isinstance(found, str) else None


def mime_type(block: Document) -> str:
    """Return the MIME type of a block's data."""
    resource = block.get("resource")
    found = (resource if isinstance(resource, Mapping) else block).get("mimeType")
    return found if isinstance(found, str) else ""


def blocks_of(result: Document) -> list[Document]:
    """Return the content blocks of a result; its structured content if there are none."""
    content = result.get("content")
    found = [block for block in content if isinstance(block, Mapping)] if isinstance(content, list) else []
    if not found and "structuredContent" in result:
        text = json.dumps(result["structuredContent"], indent=2, ensure_ascii=False)
        return [{"type": "text", "text": text}]
    return found


def progress_text(params: Document) -> str:
    """Format a progress notification as one line, with a bar if the total is known."""
    done, total, message = params.get("progress"), params.get("total"), params.get("message")
    words = clean(str(message)) if message else ""
    if not _is_number(done):
        return words
    if not _is_number(total) or total <= 0:
        return f"{done:g} {words}".rstrip()
    share = min(max(done / total, 0.0), 1.0)
    bar = "#" * round(share * BAR_CELLS)
    return f"[{bar:<{BAR_CELLS}}] {share:4.0%} {words}".rstrip()


def _is_number(found: object) -> TypeGuard[float]:
    return isinstance(found, int | float) and not isinstance(found, bool)


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.1f} KB" if count >= 1e3 else f"{count} bytes"


# --- saved content


def save_content(block: Mapping[str, Any], folder: str, stem: str) -> str | None:
    """Save the data of a content block; return the path, or None if the block has no data. Raises HearthError."""
    encoded = data_of(block)
    if encoded is None:
        return None
    try:
        data = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError) as exc:
        raise HearthError(f"the server returned data that are no base64: {exc}") from exc
    suffix = mimetypes.guess_extension(mime_type(block)) or ".bin"
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
