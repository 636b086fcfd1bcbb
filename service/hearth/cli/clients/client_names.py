"""The names of MCP clients: for completion, and to say which one was meant by a name that is not right."""

from collections.abc import Iterable

import click
from click.shell_completion import CompletionItem

from hearth.clients.table import KINDS


def complete_client(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The names that begin like that, with the clients' own."""
    taken = ctx.params.get(parameter.name or "") or ()
    return [
        CompletionItem(kind.name, help=kind.title)
        for kind in KINDS.values()
        if kind.name.startswith(incomplete) and kind.name not in taken
    ]


def check(names: Iterable[str]) -> list[str]:
    """Each name once; click.UsageError for the first that is none says which one is most like it."""
    from hearth.config.spelling import nearest

    names = list(dict.fromkeys(names))
    for name in names:
        if name not in KINDS:
            near = nearest(name, KINDS)
            hint = f"Did you mean {near!r}?" if near else f"Known: {', '.join(KINDS)}."
            raise click.UsageError(f"There is no client {name!r}. {hint}")
    return names
