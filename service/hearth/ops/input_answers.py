"""What VS Code's inputs are answered with when its servers are imported: by a person, by their defaults, or later."""

import json
from collections.abc import Callable

import click

from hearth import secret_patterns
from hearth.clients import discovery
from hearth.clients.importer import placeholders
from hearth.clients.importer.placeholders import Input, UnusablePlaceholder
from hearth.clients.importer.templates import Kept, Secret
from hearth.clients.table import Table
from hearth.errors import ConfigError
from hearth.ops.gather_servers import title
from hearth.output import table as tables

Piece = str | Secret | Kept


class Answers:
    """Each question is put once, however many servers want to know."""

    def __init__(self, ask: Callable[[Input], str] | None, is_later: bool = False) -> None:
        self._ask = ask
        self._is_later = is_later
        self._given: dict[tuple[str, str], str] = {}
        # Those that are to be asked for.
        self.pending: list[Input] = []

    def __call__(self, table: Table, name: str) -> Piece:
        """The answer. Raises UnusablePlaceholder if there is none to be had."""
        question = _question(table, name)
        if self._is_later:
            if question not in self.pending:
                self.pending.append(question)
            return Kept(f"${{input:{name}}}")
        key = (table.path, name)
        if key not in self._given:
            self._given[key] = self._answer(question)
        value = self._given[key]
        is_secret = question.is_password or secret_patterns.is_secret(name, value) or secret_patterns.has_secret(value)
        return Secret(value, name) if is_secret and value else value

    def _answer(self, question: Input) -> str:
        if self._ask is not None:
            return self._ask(question)
        if question.default is None:
            raise UnusablePlaceholder(
                f"${{input:{question.name}}} is asked for by VS Code; type this at a terminal without --yes, and it is"
                " asked for here"
            )
        return question.default


def _question(table: Table, name: str) -> Input:
    try:
        found = placeholders.read_inputs(table.path).get(name)
    except ConfigError as exc:
        raise UnusablePlaceholder(str(exc)) from exc
    if found is None:
        raise UnusablePlaceholder(f"${{input:{name}}} is not explained in {table.path}")
    if found.is_command:
        raise UnusablePlaceholder(f"${{input:{name}}} is answered by a command of VS Code, which Hearth cannot run")
    wanted = [each.name for each in discovery.read(table) if f"${{input:{name}}}" in json.dumps(each.raw)]
    described = found.description.rstrip(": ") or name
    return (
        found._replace(description=f"{described} ({', '.join(wanted)} in {title(table.client)})") if wanted else found
    )


def at_terminal(question: Input) -> str:
    """Ask the person at the terminal; a password is not shown."""
    return str(
        click.prompt(
            tables.clean(question.description),
            default=question.default,
            hide_input=question.is_password,
            show_default=not question.is_password,
            type=click.Choice(question.choices) if question.choices else str,
            err=True,
        )
    )
