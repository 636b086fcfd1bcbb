"""The `--json` option, and how a document for programs is printed."""

import json
from collections.abc import Callable
from typing import Any

import click


def json_option(help_text: str = "Print what was done as JSON.") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add `--json` to a verb, which gets it as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help=help_text)


def show(document: object) -> None:
    """Print a document on standard output."""
    click.echo(json.dumps(document, indent=2, ensure_ascii=False))
