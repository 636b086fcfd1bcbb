"""Providers of agents: programs that speak the Agent Client Protocol, built in or configured, as they are installed.

A program is looked for on the PATH that agents are started with. `hearth install` gives the daemon's service the
lasting folders of the shell's PATH, so that programs of npm, nvm and Homebrew are found. The look-up is done for every
new agent: what was just installed is found without a restart.
"""

import os
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from hearth.config import schema
from hearth.errors import AgentError
from hearth.host import system

if TYPE_CHECKING:
    from hearth.config.model import ProviderSpec

_NOTHING: Mapping[str, str] = MappingProxyType({})
# In `never_asks`: whatever the mode.
ANY_MODE = "*"


class Provider(NamedTuple):
    """Provider of agents. Without `argv` it is not installed."""

    name: str
    title: str
    argv: tuple[str, ...] = ()
    env: Mapping[str, str] = _NOTHING
    # Method for ACP's `authenticate`, for when `session/new` is refused with `acp.AUTH_REQUIRED`. Never before: Gemini
    # CLI writes the method into the user's settings, and forgets the login of another method.
    auth_method: str | None = None
    # Advice on what to type, each as the end of a sentence.
    install_hint: str = ""
    login_hint: str = ""
    # Key of the table of a client's own tools in `policy.hook_tools`; empty: none is known.
    tool_client: str = ""
    # Modes in which the agent, or a model in its place, decides by itself what it may do.
    never_asks: frozenset[str] = frozenset()
    # Whether its sessions may be continued again and again: an idle agent then gives its process back.
    rests: bool = True

    @property
    def is_installed(self) -> bool:
        """Whether there is a program to start."""
        return bool(self.argv)


_BUILT_IN: Mapping[str, Provider] = MappingProxyType(
    {
        "claude": Provider(
            "claude",
            "Claude Code",
            ("claude-agent-acp",),
            install_hint="type `npm install -g @agentclientprotocol/claude-agent-acp` (Node.js 22 or later)",
            login_hint="type `claude-agent-acp --cli auth login --claudeai`, or set ANTHROPIC_API_KEY",
            tool_client="claude",
            # In `dontAsk` it does not ask either, but refuses what is not allowed already.
            never_asks=frozenset({"bypassPermissions", "auto"}),
        ),
        "codex": Provider(
            "codex",
            "Codex",
            ("codex-acp",),
            install_hint="type `npm install -g @agentclientprotocol/codex-acp`",
            login_hint="type `codex login`",
            tool_client="codex",
            # `agent`, its default, has a model review what would be asked. The last one is of its predecessor,
            # @zed-industries/codex-acp.
            never_asks=frozenset({"agent", "agent-full-access", "full-access"}),
        ),
        "gemini": Provider(
            "gemini",
            "Gemini CLI",
            ("gemini", "--acp"),
            install_hint="type `npm install -g @google/gemini-cli` (Node.js 20 or later)",
            login_hint="type `gemini` and log in there, or set GEMINI_API_KEY",
            tool_client="gemini",
            never_asks=frozenset({"yolo"}),
            # By default a session can be loaded once, and not within a minute after its beginning.
            rests=False,
        ),
        "opencode": Provider(
            "opencode",
            "OpenCode",
            ("opencode", "acp"),
            install_hint="type `npm install -g opencode-ai`",
            login_hint="type `opencode auth login`",
            # Its modes are agents of its own, and nearly all tools are allowed unless its config says otherwise.
            never_asks=frozenset({ANY_MODE}),
        ),
    }
)
# Of a program that is not built in, which may be one of those under another name.
_NEVER_ASKS = frozenset().union(*(each.never_asks for each in _BUILT_IN.values())) - {ANY_MODE}
# Sets the auth method of Gemini CLI's, if it is there.
_GEMINI_KEY, _GEMINI_METHOD = "GEMINI_API_KEY", "gemini-api-key"
# Claude Code offers no mode that bypasses permissions to root, unless it is told that it is in a sandbox. Whether an
# agent may use that mode is Hearth's policy to decide.
_FOR_ROOT = {"IS_SANDBOX": "1"}


def known(configured: "Mapping[str, ProviderSpec]", environ: Mapping[str, str]) -> dict[str, Provider]:
    """Return all providers, built-in ones first, each with its program's whole path if it is installed.

    `environ` is the environment that agents are started with. A configured provider with the name of a built-in one
    replaces its program only.
    """
    found = {name: _prepared(provider, environ) for name, provider in _BUILT_IN.items()}
    for name, spec in configured.items():
        found[name] = _configured(found.get(name) or Provider(name, name, never_asks=_NEVER_ASKS), spec, environ)
    gemini = found["gemini"]
    if {**environ, **gemini.env}.get(_GEMINI_KEY):
        found["gemini"] = gemini._replace(auth_method=_GEMINI_METHOD)
    return found


def choose(name: str | None, default: str | None, known: Mapping[str, Provider]) -> Provider:
    """Return the provider of that name, else the default one, else the first that is installed.

    Raises AgentError: unknown, or not installed, with what to type.
    """
    wanted = name or default
    if not wanted:
        return _first(known)
    provider = known.get(wanted)
    if provider is None:
        raise AgentError(_unknown(wanted, known, is_default=not name))
    if not provider.is_installed:
        raise AgentError(f"provider {wanted!r} is not installed: {provider.install_hint}")
    return provider


def never_asks(provider: Provider, mode: str | None) -> bool:
    """Tell whether an agent in this mode uses tools without asking."""
    return ANY_MODE in provider.never_asks or mode in provider.never_asks


def _first(known: Mapping[str, Provider]) -> Provider:
    installed = next((provider for provider in known.values() if provider.is_installed), None)
    if installed:
        return installed
    hints = "; ".join(f"{name}: {provider.install_hint}" for name, provider in known.items())
    raise AgentError(f"no provider of agents is installed, install one: {hints}")


def _unknown(name: str, known: Mapping[str, Provider], is_default: bool) -> str:
    near = schema.nearest(name, known)
    meant = f"did you mean {near!r}? " if near else ""
    where = " (key agents.default_provider)" if is_default else ""
    return f"provider {name!r}{where} is not known: {meant}Known are {', '.join(known)}"


def _prepared(provider: Provider, environ: Mapping[str, str]) -> Provider:
    """Return a built-in provider as it is on this machine."""
    program, *arguments = provider.argv
    path = find(program, environ)
    if provider.name == "claude" and not system.is_windows() and system.user_id() == 0:
        provider = provider._replace(env=_FOR_ROOT)
    if path is None:
        hint = f"{provider.install_hint}; if it is installed, `hearth install` gives the daemon the PATH of your shell"
        return provider._replace(argv=(), install_hint=hint)
    return provider._replace(argv=(path, *arguments))


def _configured(base: Provider, spec: "ProviderSpec", environ: Mapping[str, str]) -> Provider:
    path = find(spec.command, {**environ, **spec.env})
    hint = f"its command {spec.command!r} (key agents.providers.{base.name}.command) is no program on the daemon's PATH"
    return base._replace(
        title=spec.title or base.title,
        argv=(path, *spec.args) if path else (),
        env={**base.env, **spec.env},
        install_hint=hint,
    )


def find(program: str, environ: Mapping[str, str]) -> str | None:
    """Return the whole path of a program; None if there is none.

    Folders of the PATH that are no whole paths are left out: the daemon's own folder means nothing.
    """
    program = os.path.expanduser(program)
    if os.path.dirname(program):
        folders = [""] if os.path.isabs(program) else []
    else:
        folders = [folder for folder in environ.get("PATH", os.defpath).split(os.pathsep) if os.path.isabs(folder)]
    paths = (os.path.join(folder, name) for folder in folders for name in _names(program, environ))
    return next((path for path in paths if os.path.isfile(path) and os.access(path, os.X_OK)), None)


def _names(program: str, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the names that a program's file may have. PATHEXT is set on Windows only."""
    endings = [ending for ending in environ.get("PATHEXT", "").split(os.pathsep) if ending]
    if not endings or program.lower().endswith(tuple(ending.lower() for ending in endings)):
        yield program
    for ending in endings:
        yield program + ending
