"""The names of configured servers: for completion, and to say which one was meant by a name that is not right.

Reads the config file and wakes nothing.
"""

import os
from collections.abc import Iterable

import click
from click.shell_completion import CompletionItem

from hearth import config
from hearth.cli import target
from hearth.paths import Places


def configured(places: Places) -> dict[str, config.ServerSpec]:
    """The servers of the config, as far as it can be read."""
    return dict(config.examine(places).config.servers)


def complete_server(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The names that begin like that; none where it cannot be told whose."""
    places = places_of(ctx)
    names = configured(places) if places else {}
    taken = ctx.params.get(parameter.name or "") or ()
    return [CompletionItem(name) for name in names if name.startswith(incomplete) and name not in taken]


def places_of(ctx: click.Context) -> Places | None:
    """The daemon that a command line means which is still being typed."""
    given = [context.params for context in (ctx, ctx.find_root())]
    profile, name = (next((params[key] for params in given if params.get(key)), None) for key in ("profile", "config"))
    try:
        return target.choose(profile, name, os.environ)
    except click.UsageError:
        return None


def check(names: Iterable[str], known: Iterable[str], where: str) -> None:
    """Raise click.UsageError for the first name that is not known; it says which one is most like it."""
    from hearth.config.spelling import nearest

    known = list(known)
    for name in names:
        if name in known:
            continue
        near = nearest(name, known)
        hint = f" Did you mean {near!r}?" if near else f" Known: {', '.join(known)}." if known else ""
        raise click.UsageError(f"There is no server {name!r} in {where}.{hint}")
