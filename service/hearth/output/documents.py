"""JSON output: the `--json` option, and printing of documents for programs."""

import json
from collections.abc import Callable
from typing import Any

import click

from hearth import masking


def json_option(help_text: str = "Print what was done as JSON.") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add `--json` to a command, which gets it as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help=help_text)


def text(document: object, indent: int | None = 2) -> str:
    """Return a document as JSON, with every terminal control character escaped."""
    return masking.escaped(json.dumps(document, indent=indent, ensure_ascii=False))


def show(document: object) -> None:
    """Print a document on standard output."""
    click.echo(text(document))


def tell(as_json: bool, document: object, *lines: str) -> None:
    """Print a document for programs, or these lines for people."""
    if as_json:
        show(document)
    elif lines:
        click.echo("\n".join(lines))
