"""Claude Code, Codex and Gemini CLI with a fake model, each in a scratch home and without a terminal."""

import json
import os
import subprocess
from pathlib import Path

from hearth.clients import codex_trust
from support.daemon import Scratch
from support.real.command_lines import npm_program
from support.real.installation import node
from support.real.model_server import ModelServer

# A start of the client, a few turns of the model and the hooks in between.
RUN_SECONDS = 90.0
# An agent commits in somebody's name.
_AUTHOR = {f"GIT_{role}_{key}": "u@h" for role in ("AUTHOR", "COMMITTER") for key in ("NAME", "EMAIL")}


class HookedClient:
    """One client: its files, and how it is run."""

    name = ""
    # The file with its hooks, below the home.
    settings = ""

    def __init__(self, scratch: Scratch, model: ModelServer) -> None:
        self.scratch = scratch
        self.model = model
        # Whether the client would run the command if it had no hooks.
        self.is_open = False
        self.work = scratch.home / "work"
        self.work.mkdir()
        subprocess.run(["git", "init", "-q"], cwd=self.work, check=True)
        self.file = scratch.home / self.settings
        self.file.parent.mkdir()
        self.prepare()

    def prepare(self) -> None:
        """Write the client's own settings."""

    def trust(self) -> None:
        """Do what the client wants before it runs hooks."""

    def words(self) -> list[str]:
        """The command line."""
        raise NotImplementedError

    def variables(self) -> dict[str, str]:
        """What leads the client to the model."""
        return {}

    def start(self, *commands: str) -> "subprocess.Popen[str]":
        """Start the client on a model that runs these commands; an empty one is a turn without a command."""
        self.model.play(*commands)
        path = f"{Path(node()).parent}:{os.environ['PATH']}"
        return subprocess.Popen(
            self.words(),
            cwd=self.work,
            env={**self.scratch.environment(), "PATH": path, "SHELL": "/bin/sh", **_AUTHOR, **self.variables()},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def finish(self, process: "subprocess.Popen[str]") -> str:
        """What the client prints, after it has ended well."""
        try:
            output, _ = process.communicate(timeout=RUN_SECONDS)
        finally:
            process.kill()
        assert process.returncode == 0, output[-4000:]
        return output

    def run(self, *commands: str) -> str:
        return self.finish(self.start(*commands))

    def has(self, name: str) -> bool:
        """Whether a command has made that file."""
        return (self.work / name).exists()


class ClaudeCode(HookedClient):
    name = "claude-code"
    settings = ".claude/settings.json"

    def prepare(self) -> None:
        self.file.write_text('{\n  "includeCoAuthoredBy": false\n}\n')

    def words(self) -> list[str]:
        # Without a terminal it denies whatever neither a hook nor this allows.
        return [npm_program("claude"), "-p", "do it", *(["--allowedTools", "Bash"] if self.is_open else [])]

    def variables(self) -> dict[str, str]:
        quiet = {"DISABLE_TELEMETRY": "1", "DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
        return {**quiet, "ANTHROPIC_BASE_URL": self.model.url, "ANTHROPIC_API_KEY": "fake"}


class Codex(HookedClient):
    name = "codex"
    settings = ".codex/hooks.json"

    def prepare(self) -> None:
        provider = f'name = "fake"\nbase_url = "{self.model.url}/v1"\nwire_api = "responses"\n'
        config = f'model = "fake"\nmodel_provider = "fake"\n\n[model_providers.fake]\n{provider}'
        (self.file.parent / "config.toml").write_text(config)

    def trust(self) -> None:
        """Trust every hook in the file, as `/hooks` does."""
        lists = json.loads(self.file.read_text())["hooks"]
        states = codex_trust.hashes(str(self.file), lists).values()
        with (self.file.parent / "config.toml").open("a") as config:
            config.writelines(f'\n[hooks.state."{key}"]\ntrusted_hash = "{found}"\n' for key, found in states)

    def words(self) -> list[str]:
        # The machine may have no sandbox for it; what is tested are the hooks.
        sandbox = ["--sandbox", "danger-full-access"]
        return [npm_program("codex"), "exec", "--skip-git-repo-check", *sandbox, "do it"]


class GeminiCli(HookedClient):
    name = "gemini"
    settings = ".gemini/settings.json"

    def prepare(self) -> None:
        self.file.write_text('{"security": {"auth": {"selectedType": "gemini-api-key"}}}')

    def words(self) -> list[str]:
        return [npm_program("gemini"), "-m", "gemini-2.5-flash", "--yolo", "-p", "do it"]

    def variables(self) -> dict[str, str]:
        trusted = {"GEMINI_CLI_TRUST_WORKSPACE": "true", "GEMINI_API_KEY": "fake"}
        return {**trusted, "GOOGLE_GEMINI_BASE_URL": self.model.url}


CLIENTS = (ClaudeCode, Codex, GeminiCli)
