"""A daemon that runs the scripted agent, and clients that call the tools of the pack `agents`."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from support.agents.launching import echo_command
from support.clients import Client, Message
from support.daemon import Daemon, Scratch, toml
from support.kernel import until

ECHO = "echo"


def config(
    scratch: Scratch,
    *options: str,
    settings: Mapping[str, object] | None = None,
    agents: Mapping[str, object] | None = None,
    packs: tuple[str, ...] = ("agents",),
    more: str = "",
) -> str:
    """A config with the scripted agent as the provider `echo`; its sessions outlive its processes."""
    command, *args = echo_command("--state", str(scratch.home / "sessions.json"), *options)
    provider = {"command": command, "args": args}
    lines = [toml(settings or {}, {})]
    lines += [f"[packs.{name}]\nenabled = true\n" for name in packs]
    lines.append("[agents]\ndefault_provider = 'echo'\n")
    lines += [f"{key} = {json.dumps(value)}\n" for key, value in (agents or {}).items()]
    lines.append(
        "[agents.providers.echo]\n" + "".join(f"{key} = {json.dumps(each)}\n" for key, each in provider.items())
    )
    return "".join(lines) + more


def serve(scratch: Scratch, *options: str, **keys: Any) -> Daemon:
    """Start a daemon with the scripted agent."""
    scratch.write_config(config(scratch, *options, **keys))
    return scratch.start()


class AgentTools:
    """A client's calls of the tools of the pack `agents`."""

    def __init__(self, client: Client, cwd: str = "/") -> None:
        self.client = client
        self.cwd = cwd

    def begin(self, tool: str, **arguments: object) -> object:
        return self.client.begin_call(f"agents__{tool}", None, None, **arguments)

    def end(self, id: object) -> Message:
        return self.result(self.client.answer_to(id))

    def result(self, answer: Message) -> Message:
        assert "result" in answer, answer
        assert not answer["result"].get("isError"), answer["result"]
        return answer["result"]["structuredContent"]

    def call(self, tool: str, **arguments: object) -> Message:
        """The structured result of a tool that succeeds."""
        return self.end(self.begin(tool, **arguments))

    def fails(self, tool: str, **arguments: object) -> str:
        """The sentence of a tool that fails."""
        answer = self.client.answer_to(self.begin(tool, **arguments))
        assert answer.get("result", {}).get("isError"), answer
        return str(answer["result"]["content"][0]["text"])

    def create(self, prompt: str | None = None, **arguments: object) -> Message:
        task = {} if prompt is None else {"initialPrompt": prompt}
        return self.call("create_agent", **{"cwd": self.cwd, **task, **arguments})

    def send(self, agent: str, prompt: str, **arguments: object) -> Message:
        return self.call("send_agent_prompt", agentId=agent, prompt=prompt, **arguments)

    def wait(self, agent: str) -> Message:
        return self.call("wait_for_agent", agentId=agent)

    def status(self, agent: str) -> Message:
        found: Message = self.call("get_agent_status", agentId=agent)["snapshot"]
        return found

    def agents(self, **arguments: object) -> list[Message]:
        found: list[Message] = self.call("list_agents", **arguments)["agents"]
        return found

    def pid(self, agent: str) -> int:
        return int(self.status(agent)["pid"])


def opened(scratch: Scratch, **hello: object) -> AgentTools:
    """A client with a session of the legacy era, in the scratch home."""
    client = scratch.frames(**{"cwd": str(scratch.home), **hello})
    client.initialize()
    return AgentTools(client, str(scratch.home))


def until_in_call(scratch: Scratch, agent: str) -> None:
    """Wait until an agent is inside of a call to Hearth."""

    def is_in_call() -> bool:
        return any(each["agentId"] == agent and each["inFlight"] for each in scratch.status()["sessions"])

    until(is_in_call, f"agent {agent} is inside of a call")


def new_repository(scratch: Scratch) -> Path:
    """A git repository with one commit on `main`, which has a file."""
    path = scratch.home / "project"
    path.mkdir()
    environment = {**scratch.environment(), "GIT_CONFIG_NOSYSTEM": "1"}

    def git(*words: str) -> None:
        identity = ["-c", "user.name=T", "-c", "user.email=t@example.org"]
        subprocess.run(["git", *identity, *words], cwd=path, env=environment, check=True, capture_output=True)

    git("init", "-b", "main")
    (path / "file").write_text("one\n")
    git("add", "file")
    git("commit", "-m", "first")
    return path
