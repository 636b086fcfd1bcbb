"""Client requests during `hearth call`: questions of the server, asked at the terminal or declined."""

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from operator import gt, lt
from typing import Any, NamedTuple
from urllib.parse import quote

import click

from hearth.cli.tools import call_arguments
from hearth.output.table import harmless

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


def can_ask() -> bool:
    """Return whether a user at a terminal can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


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
