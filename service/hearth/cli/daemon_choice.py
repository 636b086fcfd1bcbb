"""Choice of the daemon that a verb is for: `--profile`, `--config` and `HEARTH_CONFIG`, and completion of their values.

The options may be given before the verb or after it. This module turns them into Places; it does not know the daemon.
"""

import functools
import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from hearth import paths, places
from hearth.cli.messages import completed, suggestion
from hearth.paths import Places

if TYPE_CHECKING:
    from hearth.config import ServerSpec
    from hearth.config.layers import Examination

Verb = TypeVar("Verb", bound=Callable[..., Any])


class Number(click.FloatRange):
    """Parameter type for numbers."""

    name = "number"


class WholeNumber(click.IntRange):
    """Parameter type for whole numbers."""

    name = "whole number"


def profile_names() -> list[str]:
    """Return the profiles that have a config, with the default one first."""
    try:
        named = sorted(
            entry.name for entry in os.scandir(os.path.join(places.config_dir(), "profiles")) if entry.is_dir()
        )
    except OSError:
        named = []
    return [paths.DEFAULT_PROFILE, *named]


def complete_profile(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the profiles that begin with the typed text."""
    return completed(profile_names(), incomplete)


def choose(profile: str | None, config: str | None, environ: Mapping[str, str]) -> paths.Places:
    """Return the places that the options name; options override the environment. Raises click.UsageError."""
    if profile and config:
        raise click.UsageError("--profile and --config name two daemons: give one of them.")
    if not profile and not config:
        config = environ.get("HEARTH_CONFIG") or None
    socket = environ.get("HEARTH_SOCKET")
    try:
        named = paths.socket_path(socket) if socket else None
        return paths.Places(profile or paths.DEFAULT_PROFILE, config, named=named)
    except ValueError as error:
        raise click.UsageError(f"{error}.") from error


def target_options(function: Verb) -> Verb:
    """Add `--profile` and `--config`, the same for every verb."""
    config = click.option(
        "--config",
        metavar="PATH",
        type=click.Path(dir_okay=False),
        help="The daemon of this config file. Also HEARTH_CONFIG.",
    )
    profile = click.option(
        "--profile", metavar="NAME", shell_complete=complete_profile, help="The daemon of this profile."
    )
    return profile(config(function))


def typed(profile: str | None, config: str | None) -> tuple[str | None, str | None]:
    """Return the options given after the verb, or else those before it."""
    if profile or config:
        return profile, config
    before = click.get_current_context().find_root().params
    return before.get("profile"), before.get("config")


def with_places(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the two options to a verb, and pass it `places` instead of them."""

    @functools.wraps(function)
    def verb(*args: Any, profile: str | None, config: str | None, **kwargs: Any) -> Any:
        return function(*args, places=choose(*typed(profile, config), os.environ), **kwargs)

    return target_options(verb)


# --- names of servers


def examined(places: Places) -> "Examination":
    """Return the configuration in force. Raises ConfigError if it has problems."""
    from hearth import config  # takes 5 ms, which `hearth version` saves
    from hearth.errors import ConfigError

    found = config.examine(places)
    if found.problems:
        raise ConfigError(found.problems)
    return found


def configured(places: Places) -> "dict[str, ServerSpec]":
    """Return the servers of the config, as far as it can be read."""
    from hearth import config

    return dict(config.examine(places).config.servers)


def served(places: Places) -> "dict[str, ServerSpec]":
    """Return the servers and packs of the config, as far as it can be read."""
    from hearth import config

    return dict(config.examine(places).config.served)


def complete_server(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the servers that begin with the typed text; none if the daemon is unknown."""
    places = places_of(ctx)
    names = configured(places) if places else {}
    taken = ctx.params.get(parameter.name or "") or ()
    return completed((name for name in names if name not in taken), incomplete)


def places_of(ctx: click.Context) -> Places | None:
    """Return the places of the daemon that an incomplete command line means, or None."""
    given = [context.params for context in (ctx, ctx.find_root())]
    profile, name = (next((params[key] for params in given if params.get(key)), None) for key in ("profile", "config"))
    try:
        return choose(profile, name, os.environ)
    except click.UsageError:
        return None


def check_server_names(names: Iterable[str], known: Iterable[str], where: str) -> None:
    """Raise click.UsageError for the first unknown name; the error suggests the most similar one."""
    known = list(known)
    for name in names:
        if name not in known:
            hint = suggestion(name, known, f"Known: {', '.join(known)}.") if known else ""
            raise click.UsageError(f"There is no server {name!r} in {where}. {hint}".rstrip())
