"""The options that `hearth import` and `hearth setup` have in common."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import click

from hearth.cli.target import Verb
from hearth.clients.table import KINDS, SCOPES
from hearth.ops import literal_secrets
from hearth.ops.gather_servers import ALL


class Manner(NamedTuple):
    """How it is to be gone about."""

    dry_run: bool
    yes: bool
    as_json: bool

    @property
    def can_ask(self) -> bool:
        """Whether a person is there who has not said that nothing be asked."""
        return literal_secrets.can_ask() and not (self.yes or self.as_json or self.dry_run)


def client_options(function: Verb) -> Verb:
    """The options by which clients and their files are chosen."""
    client = click.option(
        "--client", "clients", multiple=True, type=click.Choice(list(KINDS)), metavar="NAME", help="Only this client."
    )
    scope = click.option(
        "--scope",
        "scopes",
        multiple=True,
        type=click.Choice([*SCOPES, ALL]),
        help="Whose servers: yours everywhere (user), yours in one project (local), everybody's in the project"
        " of this folder (project). Without it, user and local.",
    )
    disabled = click.option("--disabled", is_flag=True, help="Also servers that are switched off in the client.")
    return client(scope(disabled(function)))


def with_manner(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a verb `--dry-run`, `--yes` and `--json`, and hand it a `manner` in their stead."""

    @click.option("--dry-run", is_flag=True, help="Show what would be done; change nothing, ask nothing.")
    @click.option("--yes", "-y", is_flag=True, help="Do not ask.")
    @click.option("--json", "as_json", is_flag=True, help="Print what was found and done as JSON; asks nothing.")
    @functools.wraps(function)
    def verb(*arguments: Any, dry_run: bool, yes: bool, as_json: bool, **options: Any) -> Any:
        return function(*arguments, manner=Manner(dry_run, yes, as_json), **options)

    return verb
