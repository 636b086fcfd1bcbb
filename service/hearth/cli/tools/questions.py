"""What a server asks in the midst of `hearth call`: put to the person at the terminal, or declined."""

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any
from urllib.parse import quote

import click

from hearth.cli.tools import elicitation_form
from hearth.output.table import harmless

Message = dict[str, Any]


class Questions:
    """Answers questions. `quiet` stops what is being drawn on the terminal while somebody types."""

    def __init__(self, server: str, can_ask: bool, quiet: Callable[[], AbstractContextManager[object]]) -> None:
        self._server = server
        self._can_ask = can_ask
        self._quiet = quiet

    def answer(self, method: str, params: Message) -> Message | None:
        """The result for the server; None if it cannot be answered. Raises KeyboardInterrupt for Ctrl-C."""
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
                # click makes one exception of Ctrl-C and of the end of the input.
                raise KeyboardInterrupt from None

    def _visit(self, params: Mapping[str, Any]) -> Message:
        click.echo(f"  {harmless(str(params.get('url')))}", err=True)
        accepted = click.confirm("Open it in a browser. Will you?", err=True)
        return {"action": "accept" if accepted else "decline"}

    def _fill_in(self, params: Mapping[str, Any]) -> Message:
        asked = elicitation_form.fields(params.get("requestedSchema"))
        if not click.confirm("Answer it?", default=True, err=True):
            return {"action": "decline"}
        content = {field.name: found for field in asked if (found := _typed(field)) is not None}
        return {"action": "accept", "content": content}


def _typed(field: elicitation_form.Field) -> Any:
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
    """Whether there is a person at a terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def _roots() -> Message:
    folder = os.getcwd()
    return {"roots": [{"uri": f"file://{quote(folder)}", "name": os.path.basename(folder) or folder}]}
