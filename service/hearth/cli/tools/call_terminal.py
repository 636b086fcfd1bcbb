"""Terminal side of `hearth call`: questions of the server, its tools, its progress and its results.

Definitions and results come from servers, so any key may be missing.
"""

import base64
import binascii
import json
import mimetypes
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from operator import gt, lt
from typing import Any, NamedTuple, TypeGuard
from urllib.parse import quote

import click

from hearth.cli.tools import call_arguments
from hearth.errors import HearthError
from hearth.output.table import clean, fit, harmless

Message = dict[str, Any]

Schema = Mapping[str, Any]


class Field(NamedTuple):
    """Field of a form. `choices` are the allowed values with their titles; empty if any value is allowed."""

    name: str
    title: str
    schema: Schema
    required: bool
    choices: tuple[tuple[str, str], ...] = ()
    many: bool = False

    @property
    def default(self) -> Any:
        """Value for an empty answer; None if there is no default."""
        return self.schema.get("default")

    def prompt(self) -> str:
        """Return the prompt for the field."""
        description = self.schema.get("description")
        about = f" ({description})" if isinstance(description, str) and description != self.title else ""
        options = f" [{', '.join(_shown(*choice) for choice in self.choices)}]" if self.choices else ""
        several = ", several with commas" if self.many else ""
        return f"{self.title}{about}{options}{several}" + ("" if self.required else ", or nothing")

    def parse(self, text: str) -> Any:
        """Parse an answer; return None for an optional field that was left empty.

        Raises click.UsageError; the caller then asks again.
        """
        if not text.strip():
            if self.default is not None:
                return self.default
            if self.required:
                raise click.UsageError("It needs an answer.")
            return None
        if self.many:
            return [self._choice(part.strip()) for part in text.split(",") if part.strip()]
        if self.choices:
            return self._choice(text.strip())
        found = call_arguments.value(self.name, text, self.schema, self.schema)
        self._check(found)
        return found

    def _choice(self, text: str) -> str:
        for value, title in self.choices:
            if text.lower() in (value.lower(), title.lower()):
                return value
        raise click.UsageError(f"Choose from {', '.join(value for value, _ in self.choices)}.")

    def _check(self, found: Any) -> None:
        is_text = isinstance(found, str)
        least, most, unit = ("minLength", "maxLength", " characters") if is_text else ("minimum", "maximum", "")
        measured = len(found) if is_text else found
        for key, is_beyond, words in ((least, lt, "at least"), (most, gt, "at most")):
            bound = self.schema.get(key)
            if isinstance(bound, int | float) and isinstance(measured, int | float) and is_beyond(measured, bound):
                raise click.UsageError(f"It must {'have' if is_text else 'be'} {words} {bound:g}{unit}.")


class Questions:
    """Handler for the questions of a server. `quiet` pauses other output to the terminal while the user types."""

    def __init__(self, server: str, can_ask: bool, quiet: Callable[[], AbstractContextManager[object]]) -> None:
        self._server = server
        self._can_ask = can_ask
        self._quiet = quiet

    def answer(self, method: str, params: Message) -> Message | None:
        """Return the result for the server; None for an unsupported method. Raises KeyboardInterrupt for Ctrl-C."""
        if method == "roots/list":
            return _roots()
        if method != "elicitation/create":
            return None
        with self._quiet():
            click.echo(f"{self._server} asks: {harmless(str(params.get('message') or ''))}", err=True)
            if not self._can_ask:
                click.echo("There is no terminal to ask at: declined.", err=True)
                return {"action": "decline"}
            try:
                return self._visit(params) if params.get("mode") == "url" else self._fill_in(params)
            except click.Abort:
                # click raises the same exception for Ctrl-C and for the end of the input.
                raise KeyboardInterrupt from None

    def _visit(self, params: Mapping[str, Any]) -> Message:
        click.echo(f"  {harmless(str(params.get('url')))}", err=True)
        accepted = click.confirm("Open it in a browser. Will you?", err=True)
        return {"action": "accept" if accepted else "decline"}

    def _fill_in(self, params: Mapping[str, Any]) -> Message:
        asked = form_fields(params.get("requestedSchema"))
        if not click.confirm("Answer it?", default=True, err=True):
            return {"action": "decline"}
        content = {field.name: found for field in asked if (found := _typed(field)) is not None}
        return {"action": "accept", "content": content}


def _typed(field: Field) -> Any:
    default = field.default
    shown = ", ".join(map(str, default)) if isinstance(default, list) else default
    while True:
        text = click.prompt(
            harmless(field.prompt()),
            default="" if shown is None else str(shown),
            show_default=shown is not None,
            err=True,
        )
        try:
            return field.parse(str(text))
        except click.UsageError as error:
            click.echo(error.format_message(), err=True)


def _roots() -> Message:
    folder = os.getcwd()
    return {"roots": [{"uri": f"file://{quote(folder)}", "name": os.path.basename(folder) or folder}]}


# --- forms


def form_fields(requested: object) -> list[Field]:
    """Return the fields of a requestedSchema, in the order of the schema."""
    schema = requested if isinstance(requested, Mapping) else {}
    required = schema.get("required")
    properties = schema.get("properties")
    return [
        _field(name, inner if isinstance(inner, Mapping) else {}, isinstance(required, list) and name in required)
        for name, inner in (properties.items() if isinstance(properties, Mapping) else ())
    ]


def _field(name: str, schema: Schema, required: bool) -> Field:
    title = schema.get("title")
    many = schema.get("type") == "array"
    inner = schema.get("items") if many else schema
    choices = _choices(inner if isinstance(inner, Mapping) else {})
    return Field(name, title if isinstance(title, str) else name, schema, required, choices, many)


def _choices(schema: Schema) -> tuple[tuple[str, str], ...]:
    values = schema.get("enum")
    if isinstance(values, list):
        names = schema.get("enumNames")
        titles = names if isinstance(names, list) and len(names) == len(values) else values
        return tuple((str(value), str(title)) for value, title in zip(values, titles, strict=True))
    options = schema.get("oneOf") or schema.get("anyOf")
    listed = [each for each in options if isinstance(each, Mapping)] if isinstance(options, list) else []
    return tuple((str(each["const"]), str(each.get("title") or each["const"])) for each in listed if "const" in each)


def _shown(value: str, title: str) -> str:
    return value if value == title else f"{value}: {title}"


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
    inner = _inner(block)
    data = data_of(block)
    size = f", {_size(len(data) * 3 // 4)}" if data is not None else ""
    where = f" {inner['uri']}" if inner.get("uri") else ""
    return f"[{kind}{where}: {inner.get('mimeType') or 'of an unknown kind'}{size}]"


def data_of(block: Document) -> str | None:
    """Return the base64 of an image, a sound or a resource; None for anything else."""
    inner = _inner(block)
    found = inner.get("data" if inner is block else "blob")
    return found if isinstance(found, str) else None


def _inner(block: Document) -> Document:
    """Return the resource of a block; the block itself if it has none."""
    resource = block.get("resource")
    return resource if isinstance(resource, Mapping) else block


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
    kind = _inner(block).get("mimeType")
    suffix = (mimetypes.guess_extension(kind) if isinstance(kind, str) else None) or ".bin"
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
