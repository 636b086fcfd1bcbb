"""Start of an agent's process: its environment, the bridge that it gets as MCP server, and its first instruction.

The process gets an allow-list of the daemon's environment, as MCP servers do, and the keys of model providers
(PASSED_ON). Its token is in a file that only this user can read; the bridge gets the path of that file.
"""

import functools
import hashlib
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import hearth
from hearth.host import folders, private_files
from hearth.host.lasting_paths import lasting
from hearth.masking import Mask
from hearth.upstreams import threads

if TYPE_CHECKING:
    from hearth.packs.agents.providers import Provider
    from hearth.paths import Places

# Name of the bridge among an agent's MCP servers: its tools are `mcp__hearth__…` to the agent.
BRIDGE_NAME = "hearth"
# Variables of the daemon's environment that agents get besides those of every server: keys and addresses of model
# providers, and the folders in which the built-in agents keep their logins. docs/agents.md lists them.
PASSED_ON = frozenset(
    {
        *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "ANTHROPIC_MODEL"),
        *("CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CONFIG_DIR", "CLAUDE_CODE_EXECUTABLE", "IS_SANDBOX"),
        *("OPENAI_API_KEY", "OPENAI_BASE_URL", "CODEX_API_KEY", "CODEX_HOME"),
        *("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL", "GOOGLE_CLOUD_PROJECT"),
        *("GOOGLE_CLOUD_LOCATION", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_APPLICATION_CREDENTIALS"),
        *("OPENCODE_CONFIG", "OPENCODE_CONFIG_DIR", "OPENROUTER_API_KEY", "GROQ_API_KEY", "MISTRAL_API_KEY"),
        *("DEEPSEEK_API_KEY", "XAI_API_KEY", "AWS_REGION", "AWS_PROFILE", "CLAUDE_CODE_USE_BEDROCK"),
    }
)

# Names of variables whose values are hidden in logs and errors.
_SECRET_ENDINGS = ("_KEY", "_TOKEN", "_SECRET", "_PASSWORD")

_TITLE_SENTENCE = (
    "You run under Hearth, which looks after several agents. Call the tool self-id__set_title of the MCP server hearth"
    " once, as soon as you understand the task."
)
_BRANCH_SENTENCE = (
    " You work in a git worktree of your own: call self-id__set_branch once as well, to name its branch after the task."
)


class Prepared(NamedTuple):
    """Command and environment of a process, references resolved, and the mask that hides its secrets."""

    argv: tuple[str, ...]
    environment: dict[str, str]
    mask: Mask


async def prepare(provider: "Provider", environ: Mapping[str, str], folder: str) -> Prepared:
    """Return what an agent's process is started with. Raises ConfigError for a reference that cannot be resolved."""
    from hearth.config import ServerSpec
    from hearth.secrets import references

    command, *arguments = provider.argv
    written = ServerSpec(name=provider.name, command=command, args=tuple(arguments), env=provider.env)
    resolve = functools.partial(references.resolve, written, dict(environ), folder)
    spec = (await threads.run(resolve) if references.may_block(written) else resolve()).spec
    passed_on = {name: environ[name] for name in PASSED_ON if name in environ}
    environment = {**references.child_environment(ServerSpec(name=provider.name), environ), **passed_on, **spec.env}
    secrets = {value for name, value in environment.items() if name.endswith(_SECRET_ENDINGS)}
    secrets |= {value for name, value in spec.env.items() if value != written.env[name]}
    secrets |= {value for value, former in zip(spec.args, written.args, strict=True) if value != former}
    return Prepared((spec.command or command, *spec.args), environment, Mask(secrets))


def bridge_entry(places: "Places", agent_id: str, token_file: str) -> dict[str, Any]:
    """Return the bridge as an MCP server of `session/new`: the command that `hearth connect` writes."""
    main = os.path.join(os.path.dirname(os.path.abspath(hearth.__file__)), "bridge", "main.py")
    identity = ["--agent-id", agent_id, "--token-file", token_file]
    return {
        "name": BRIDGE_NAME,
        "command": lasting(sys.executable),
        "args": ["-I", "-S", lasting(main), *places.bridge_arguments(), *identity],
        "env": [],
    }


def instruction(is_in_worktree: bool) -> str:
    """Return the instruction that precedes the first prompt, where the pack `self-id` is served."""
    return _TITLE_SENTENCE + (_BRANCH_SENTENCE if is_in_worktree else "")


def mark_prefix(places: "Places") -> str:
    """Return the beginning of every mark of this profile's agents, by which they are told from another profile's."""
    return f"{hashlib.sha256(os.path.abspath(places.agents).encode('utf-8', 'surrogateescape')).hexdigest()[:8]}."


def token_file(places: "Places", agent_id: str) -> str:
    """Return the path of an agent's token file."""
    return os.path.join(places.agent_tokens(), f"{agent_id}.token")


def write_token(path: str, token: str) -> None:
    """Write a token for one process. Raises FileAccessError."""
    folders.make_private(os.path.dirname(path))
    private_files.write(path, token.encode())


def remove_token(path: str) -> None:
    """Remove the token file of a process that has ended."""
    private_files.remove(path)
