"""The agents that speak ACP, each in a scratch home and with a fake model: how they are started, and what they can.

`test_acp_agents_directly.py` holds what is said of them here, with the versions of `tests/real/package.json`.
"""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

from support.real.acp_client import AcpClient, Document
from support.real.installation import REMEDY, node, packages
from support.real.model_server import ModelServer, Step
from support.requirements import needs

# Parts of `lastUsage`.
TOKENS = ("inputTokens", "outputTokens")
CONTEXT = ("contextWindowMaxTokens", "contextWindowUsedTokens")
# What a client says of itself: it lends neither its files nor its terminal.
CAPABILITIES = {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}


def program_path() -> str:
    """A PATH with all four programs and their node."""
    modules = Path(packages()) / "node_modules"
    folders = [Path(node()).parent, modules / ".bin", modules / "opencode-linux-x64" / "bin"]
    return os.pathsep.join([*map(str, folders), os.environ["PATH"]])


class AcpAgent:
    """An agent in a home: its settings are written when it is made."""

    # Hearth's name of the provider.
    name = ""
    words: tuple[str, ...] = ()
    # Modes of a session; the first one is that of a new session. `asking_mode` is one in which `question` asks.
    modes: tuple[str, ...] = ()
    asking_mode = ""
    # Model that is not the first one of a session; it is offered, and never asked.
    other_model = ""
    never_asks: frozenset[str] = frozenset()
    # Variables that keep it from looking for a network, where its settings cannot.
    quiet: Mapping[str, str] = {}
    # What it tells of its usage, by the names of a snapshot.
    usage = frozenset({*TOKENS, "cachedInputTokens", *CONTEXT})
    # Method for `authenticate`, where a session is refused without.
    auth_method: str | None = None
    can_resume = True
    can_close = True
    # Whether a model that fails is an error of the prompt. Else the turn ends well, with the error as a message.
    fails_aloud = True
    # Whether the model goes on in the same turn after a permission is denied, and how that turn ends.
    goes_on_after_denial = True
    stop_after_denial = "end_turn"
    # Whether a command ends with the turn that is cancelled. Else it runs on until the session is closed.
    cancel_ends_command = True
    # Whether the process ends with its input while a command runs.
    ends_with_input = True

    def __init__(self, home: Path, model: ModelServer) -> None:
        self.home = home
        self.model = model
        self.prepare()

    def prepare(self) -> None:
        """Write the agent's own settings."""

    def variables(self) -> dict[str, str]:
        """The variables that lead the agent to the model."""
        return {}

    def start(self, environment: Mapping[str, str], folder: Path) -> AcpClient:
        """Start the agent as a client would."""
        path = program_path()
        program = next((each for part in path.split(os.pathsep) if (each := Path(part) / self.words[0]).exists()), None)
        needs(program, f"{self.words[0]}: {REMEDY}")
        own = {"PATH": path, "SHELL": "/bin/sh", **self.quiet, **self.variables()}
        return AcpClient([str(program), *self.words[1:]], {**environment, **own}, str(folder))

    def open(self, client: AcpClient, folder: Path, former: str | None = None, method: str = "session/load") -> str:
        """Initialize, and open a session or continue a former one; returns its id."""
        client.call("initialize", protocolVersion=1, clientCapabilities=CAPABILITIES)
        if self.auth_method:
            client.call("authenticate", methodId=self.auth_method)
        if former:
            client.call(method, sessionId=former, cwd=str(folder), mcpServers=[])
            return former
        created = client.call("session/new", cwd=str(folder), mcpServers=[])
        session: str = created["sessionId"]
        if self.asking_mode != self.modes[0]:
            client.call("session/set_mode", sessionId=session, modeId=self.asking_mode)
        return session

    def question(self, command: str) -> Step:
        """A step that runs a command which needs permission in the asking mode."""
        return Step(command)

    def age_session(self) -> None:
        """Make the stored sessions as old as they must be to be continued."""


class ClaudeAgent(AcpAgent):
    name = "claude"
    words = ("claude-agent-acp",)
    modes = ("default", "acceptEdits", "plan", "auto")
    asking_mode = "default"
    other_model = "haiku"
    usage = frozenset({*TOKENS, "cachedInputTokens", "totalCostUsd", *CONTEXT})
    # The second one is not offered to root, unless IS_SANDBOX is set.
    never_asks = frozenset({"auto", "bypassPermissions"})

    def prepare(self) -> None:
        quiet = {
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            # Would ask the model between turns, with the same tools as a turn.
            "CLAUDE_CODE_ENABLE_PROMPT_SUGGESTION": "false",
            # Would hide the tools of MCP servers behind a tool that searches them.
            "ENABLE_TOOL_SEARCH": "false",
        }
        folder = self.home / ".claude"
        folder.mkdir()
        (folder / "settings.json").write_text(json.dumps({"env": quiet}))

    def variables(self) -> dict[str, str]:
        return {"ANTHROPIC_BASE_URL": self.model.url, "ANTHROPIC_API_KEY": "fake"}


class CodexAgent(AcpAgent):
    name = "codex"
    words = ("codex-acp",)
    modes = ("agent", "read-only", "workspace-write", "agent-full-access")
    asking_mode = "read-only"
    other_model = "gpt-5.5"
    # In the first one another model decides.
    never_asks = frozenset({"agent", "agent-full-access"})
    fails_aloud = False
    goes_on_after_denial = False
    stop_after_denial = "cancelled"
    cancel_ends_command = False

    def prepare(self) -> None:
        provider = f'name = "fake"\nbase_url = "{self.model.url}/v1"\nwire_api = "responses"\n'
        quiet = "[analytics]\nenabled = false\n\n[features]\nplugins = false\napps = false\n"
        config = f'model = "fake"\nmodel_provider = "fake"\n\n{quiet}\n[model_providers.fake]\n{provider}'
        folder = self.home / ".codex"
        folder.mkdir()
        (folder / "config.toml").write_text(config)

    def question(self, command: str) -> Step:
        # Other commands run in its sandbox without a question.
        escalated = {"sandbox_permissions": "require_escalated", "justification": "May it run?"}
        return Step(call=("exec_command", {"cmd": command, **escalated}))


class GeminiAgent(AcpAgent):
    name = "gemini"
    words = ("gemini", "--acp")
    modes = ("default", "autoEdit", "yolo", "plan")
    asking_mode = "default"
    other_model = "gemini-2.5-pro"
    usage = frozenset(TOKENS)
    never_asks = frozenset({"yolo"})
    auth_method = "gemini-api-key"
    can_resume = False
    can_close = False
    ends_with_input = False

    def prepare(self) -> None:
        settings = {
            "security": {"auth": {"selectedType": self.auth_method}},
            "model": {"name": "gemini-2.5-flash"},
            "privacy": {"usageStatisticsEnabled": False},
            # By default every start deletes the sessions of the folder that were loaded before.
            "general": {"enableAutoUpdate": False, "sessionRetention": {"enabled": False}},
        }
        folder = self.home / ".gemini"
        folder.mkdir()
        (folder / "settings.json").write_text(json.dumps(settings))
        # In other folders it starts no MCP server and has no mode that asks less.
        (folder / "trustedFolders.json").write_text(json.dumps({str(self.home): "TRUST_FOLDER"}))

    def variables(self) -> dict[str, str]:
        return {"GEMINI_API_KEY": "fake", "GOOGLE_GEMINI_BASE_URL": self.model.url}

    def age_session(self) -> None:
        """Date the files of sessions back.

        A load in the same minute as the session's start overwrites its file, whose name has the minute.
        """
        for file in (self.home / ".gemini" / "tmp").rglob("session-*.jsonl"):
            aged = file.with_name(re.sub(r"^session-.{16}", "session-2026-01-01T00-00", file.name))
            # A load leaves an empty file of the same session beside the one that it goes on with.
            if not aged.exists():
                file.rename(aged)


class OpencodeAgent(AcpAgent):
    name = "opencode"
    words = ("opencode", "acp")
    modes = ("build", "plan")
    asking_mode = "build"
    other_model = "opencode/big-pickle"
    usage = frozenset({*TOKENS, "totalCostUsd", *CONTEXT})
    quiet = dict.fromkeys(
        ("OPENCODE_DISABLE_MODELS_FETCH", "OPENCODE_DISABLE_AUTOUPDATE", "OPENCODE_DISABLE_DEFAULT_PLUGINS"), "1"
    )
    # By its own config it asks nobody; here the config says otherwise.
    never_asks = frozenset()
    goes_on_after_denial = False

    def prepare(self) -> None:
        model = {"name": "fake", "tool_call": True, "limit": {"context": 100_000, "output": 10_000}}
        provider = {"npm": "@ai-sdk/openai-compatible", "models": {"fake": model}}
        settings = {
            "model": "fake/fake",
            "small_model": "fake/fake",
            "autoupdate": False,
            "share": "disabled",
            "permission": {"bash": "ask", "edit": "ask"},
            "provider": {"fake": {**provider, "options": {"baseURL": f"{self.model.url}/v1", "apiKey": "fake"}}},
        }
        folder = self.home / ".config" / "opencode"
        folder.mkdir(parents=True)
        (folder / "opencode.json").write_text(json.dumps(settings))
        # It would install a package of its own beside its settings.
        (folder / "node_modules").mkdir()
        root = {"dependencies": {"@opencode-ai/plugin": "*"}}
        (folder / "package-lock.json").write_text(json.dumps({"lockfileVersion": 3, "packages": {"": root}}))


AGENTS = (ClaudeAgent, CodexAgent, GeminiAgent, OpencodeAgent)


def text(words: str) -> list[Document]:
    """A prompt."""
    return [{"type": "text", "text": words}]
