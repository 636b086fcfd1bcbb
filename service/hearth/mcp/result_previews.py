"""Previews of large tool results: head and tail for the model, the full text for a resource.

Works on one result of `tools/call`. Does not know where the full text is kept, or for how long.
"""

from collections.abc import Callable
from typing import NamedTuple

from hearth.errors import MessageError
from hearth.mcp import downgrade
from hearth.wire import json, values
from hearth.wire.values import Members, RawBytes

# Share of a preview that its head gets. Listings and documents say most at the top, so the head is larger; logs and
# builds end with the error, so there is a tail.
HEAD_SHARE = 0.75
# Room for the notice between head and tail: its words, two numbers of up to ten digits and a URI of 49 characters.
NOTICE_BYTES = 320
# Smallest preview. A result may consist of very many texts; with smaller shares it would show little but notices.
SMALLEST_PREVIEW_BYTES = 1024

TEXT = "text/plain"
JSON = "application/json"


class Part(NamedTuple):
    """Text of a large result: its media type, and the text as a raw JSON string."""

    mime_type: str
    text: bytes


class _Cut(NamedTuple):
    """Text that is too long: the members of its block, its UTF-8, and the most bytes of its preview."""

    block: Members
    text: bytes
    budget: int


class Preview:
    """Plan for one large result. `parts` are for a resource; `write` returns the result once its URI is known."""

    def __init__(self, fields: Members, content: list[RawBytes | _Cut], parts: tuple[Part, ...]) -> None:
        self._fields = fields
        self._content = content
        self.parts = parts

    def write(self, uri: str, version: str) -> bytes:
        """Return the result for a client of that revision. Older revisions have no `resource_link`."""
        blocks: list[bytes] = []
        number = 0
        for each in self._content:
            if isinstance(each, _Cut):
                number += 1
                shown = _shortened(each, f"{uri} (part {number})" if len(self.parts) > 1 else uri)
                blocks.append(json.join({**each.block, "text": json.dumps(shown)}))
            else:
                blocks.append(bytes(each))
        if version >= downgrade.LINKS_SINCE:
            blocks.append(self._link(uri))
        return json.join({**self._fields, "content": b"[%b]" % b",".join(blocks)})

    def _link(self, uri: str) -> bytes:
        kinds = {part.mime_type for part in self.parts}
        link = {
            "type": "resource_link",
            "uri": uri,
            "name": "full-result",
            "title": "Full result",
            "description": "Everything that was left out above. Expires; call the tool again then.",
            "mimeType": kinds.pop() if len(kinds) == 1 else TEXT,
        }
        return json.dumps(link)


def plan(result: RawBytes, limit: int, has_output_schema: Callable[[], bool]) -> Preview | None:
    """Plan the preview of a result whose texts have more than `limit` bytes; return None if nothing can be left out.

    `has_output_schema` is called only if structured content is large: clients validate that against the schema.
    """
    fields: Members = {**values.members(result)}
    try:
        blocks = values.elements(fields.get("content"))
    except MessageError:
        return None
    texts = {index: text for index, block in enumerate(blocks) if (text := _text_of(block)) is not None}
    budget = _budget([len(text) for text in texts.values()], limit)
    content: list[RawBytes | _Cut] = list(blocks)
    parts: list[Part] = []
    for index, text in texts.items():
        if len(text) > budget:
            block: Members = {**values.members(blocks[index])}
            parts.append(Part(TEXT, bytes(block["text"])))
            content[index] = _Cut(block, text, budget)
    structured = bytes(fields.get("structuredContent", b""))
    if len(structured) > limit and not has_output_schema():
        del fields["structuredContent"]
        if not parts:
            # Not needed if a text was cut: that text shows the model the same data.
            left = limit - sum(map(len, texts.values()))
            content.append(_Cut({"type": b'"text"'}, structured, max(left, SMALLEST_PREVIEW_BYTES)))
        parts.append(Part(JSON, json.dumps(structured.decode("utf-8", "replace"))))
    return Preview(fields, content, tuple(parts)) if parts else None


def read_result(uri: str, parts: tuple[Part, ...]) -> bytes:
    """Return the result of `resources/read` for a legacy client."""
    contents = [
        json.join({"uri": json.dumps(uri), "mimeType": json.dumps(part.mime_type), "text": part.text}) for part in parts
    ]
    return b'{"contents":[%b]}' % b",".join(contents)


def _text_of(block: RawBytes) -> bytes | None:
    """Return the UTF-8 of a text block; None for any other block. Lone surrogates, which have none, become `?`."""
    fields = values.members(block)
    text = values.text(fields.get("text")) if values.text(fields.get("type")) == "text" else None
    return None if text is None else text.encode("utf-8", "replace")


def _budget(sizes: list[int], limit: int) -> int:
    """Return the most bytes that each text may have, so that all together stay within the limit.

    Texts below their share stay whole and leave the rest of it to the longer ones.
    """
    share = left = limit
    for others, size in zip(range(len(sizes), 0, -1), sorted(sizes), strict=True):
        share = left // others
        if size > share:
            break
        left -= size
    return max(share, SMALLEST_PREVIEW_BYTES)


def _shortened(cut: _Cut, where: str) -> str:
    room = cut.budget - NOTICE_BYTES
    head = _head(cut.text, int(room * HEAD_SHARE))
    tail = _tail(cut.text, room - int(room * HEAD_SHARE))
    left_out = len(cut.text) - len(head) - len(tail)
    notice = (
        f"\n\n[{left_out} of {len(cut.text)} bytes left out here. The full text is the resource {where}; "
        "read it before it expires.]\n\n"
    )
    return head.decode("utf-8", "replace") + notice + tail.decode("utf-8", "replace")


def _head(text: bytes, size: int) -> bytes:
    """Return the first bytes, at most `size`, without a part of a character at their end."""
    while size and _continues(text[size]):
        size -= 1
    return text[:size]


def _tail(text: bytes, size: int) -> bytes:
    """Return the last bytes, at most `size`, without a part of a character at their beginning."""
    start = len(text) - size
    while start < len(text) and _continues(text[start]):
        start += 1
    return text[start:]


def _continues(byte: int) -> bool:
    """Tell whether the byte is inside a character: 10xxxxxx in UTF-8."""
    return byte & 0xC0 == 0x80
