"""The form that a server asks a person to fill in: its fields, and what was typed into one to a value. Pure."""

from collections.abc import Mapping
from operator import gt, lt
from typing import Any, NamedTuple

import click

from hearth.cli.tools import call_arguments

Schema = Mapping[str, Any]


class Field(NamedTuple):
    """One question. `choices` are values with their titles, where only those can be chosen."""

    name: str
    title: str
    schema: Schema
    required: bool
    choices: tuple[tuple[str, str], ...] = ()
    many: bool = False

    @property
    def default(self) -> Any:
        """What holds when nothing is typed; None if nothing does."""
        return self.schema.get("default")

    def prompt(self) -> str:
        """What is shown before the cursor."""
        description = self.schema.get("description")
        about = f" ({description})" if isinstance(description, str) and description != self.title else ""
        options = f" [{', '.join(_shown(*choice) for choice in self.choices)}]" if self.choices else ""
        several = ", several with commas" if self.many else ""
        return f"{self.title}{about}{options}{several}" + ("" if self.required else ", or nothing")

    def parse(self, text: str) -> Any:
        """The value; None for an optional one that was left out. Raises click.UsageError, and it is asked again."""
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


def fields(requested: object) -> list[Field]:
    """The fields of a requestedSchema, in its order."""
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
