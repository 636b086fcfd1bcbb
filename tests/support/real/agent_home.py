"""A scratch home with Hearth and one real agent of the pack `agents`, used by a client through the bridge."""

import contextlib
import json
import os
import queue
import signal
import subprocess
import threading
from collections.abc import Callable
from typing import Any, Self, TypeVar

from hearth.clients.launcher import bridge_command
from hearth.paths import Places
from support.clients import Client, Closed
from support.daemon import Scratch
from support.kernel import describe, pids_at_home, until
from support.real.acp_agents import AcpAgent, program_path
from support.real.acp_client import Document
from support.real.model_server import ModelServer, Step

Found = TypeVar("Found")
# A start of an agent, and a turn with a command, on two busy cores.
TURN_SECONDS = 90.0
CONFIG = """\
[packs.agents]
enabled = true

[packs.self-id]
enabled = true

[agents]
default_provider = "{name}"

[agents.providers.{name}]
command = {command}
args = {args}
env = {{ {env} }}
"""


class BridgeClient(Client):
    """An MCP client that starts the bridge, as the config of `hearth connect` says."""

    def __init__(self, environment: dict[str, str], folder: str) -> None:
        self.aside: list[Document] = []
        self._last_id = 0
        self._lines: queue.Queue[bytes] = queue.Queue()
        command = bridge_command(Places())
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.process = subprocess.Popen(command, env=environment, cwd=folder, **pipes)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def send_line(self, line: bytes) -> None:
        assert self.process.stdin
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def receive_line(self) -> bytes:
        try:
            line = self._lines.get(timeout=TURN_SECONDS)
        except queue.Empty:
            raise AssertionError(f"not within {TURN_SECONDS:g} s: a message from the bridge") from None
        if not line:
            raise Closed
        return line

    def close(self) -> None:
        assert self.process.stdin and self.process.stdout
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(TURN_SECONDS)
        finally:
            self.process.kill()
            self.process.wait()
            self._reader.join()
            self.process.stdout.close()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(b"")


class AgentHome:
    """The home, the agent's model, and a client. The daemon is started by the bridge."""

    def __init__(self, kind: type[AcpAgent]) -> None:
        self.scratch = Scratch()
        self.model = ModelServer()
        self.agent = kind(self.scratch.home, self.model)
        self.folder = self.scratch.home / "work"
        self.folder.mkdir()
        subprocess.run(["git", "init", "-q"], cwd=self.folder, check=True)
        self.scratch.write_config(self._config())
        self.environment = self.scratch.environment(SHELL="/bin/sh", PATH=program_path(), **self.agent.variables())
        self.client = BridgeClient(self.environment, str(self.folder))
        self.client.initialize()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _config(self) -> str:
        command, *args = self.agent.words
        env = ", ".join(f"{key} = {json.dumps(value)}" for key, value in self.agent.quiet.items())
        words = {"command": json.dumps(command), "args": json.dumps(args)}
        return CONFIG.format(name=self.agent.name, env=env, **words)

    # --- tools

    def begin(self, tool: str, **arguments: object) -> object:
        """Call a tool of the pack; `end` waits for it."""
        return self.client.begin_call(f"agents__{tool}", **arguments)

    def end(self, call: object) -> Document:
        answer = self.client.answer_to(call)
        assert "result" in answer and not answer["result"].get("isError"), answer
        result: Document = answer["result"]["structuredContent"]
        return result

    def call(self, tool: str, **arguments: object) -> Document:
        """The structured result of a tool that succeeds."""
        return self.end(self.begin(tool, **arguments))

    def create(self, *steps: Step, **arguments: object) -> Document:
        """Create an agent in the asking mode, whose model takes these steps."""
        self.model.script(*steps)
        mode = {} if self.agent.asking_mode == self.agent.modes[0] else {"initialMode": self.agent.asking_mode}
        return self.call("create_agent", cwd=str(self.folder), provider=self.agent.name, **{**mode, **arguments})

    def send(self, agent: str, prompt: str, *steps: Step, **arguments: object) -> Document:
        """Prompt an agent, whose model takes these steps."""
        self.model.script(*steps)
        return self.call("send_agent_prompt", agentId=agent, prompt=prompt, **arguments)

    def wait(self, agent: str) -> Document:
        """Wait until the agent has finished, or asks for something."""

        def over() -> Document | None:
            found = self.call("wait_for_agent", agentId=agent)
            return found if found["status"] != "running" or found["permission"] else None

        return self.until(over, "the agent finishes, or asks")

    def status(self, agent: str) -> Document:
        """The snapshot of an agent."""
        found: Document = self.call("get_agent_status", agentId=agent)["snapshot"]
        return found

    def activity(self, agent: str) -> str:
        return str(self.call("get_agent_activity", agentId=agent)["content"])

    def respond(self, agent: str, request: Document, **response: object) -> None:
        done = self.call("respond_to_permission", agentId=agent, requestId=request["id"], response=response)
        assert done == {"success": True}

    def until(self, condition: Callable[[], Found], what: str) -> Found:
        return until(condition, what, TURN_SECONDS)

    # --- processes

    def pids(self) -> set[int]:
        """Every process of this home: the bridge, the daemon and what it has started."""
        return set(pids_at_home(str(self.scratch.home)))

    def agent_pids(self) -> set[int]:
        """Every process of agents: all of this home but the client's bridge, and the daemon with its watcher."""
        return {pid for pid in self.pids() - {self.client.process.pid} if b"hearth.daemon" not in _words(pid)}

    def until_gone(self, pids: set[int]) -> None:
        """Wait until the kernel knows none of these processes."""
        try:
            self.until(lambda: not pids & self.pids(), "all processes are gone")
        except AssertionError as error:
            raise AssertionError(f"{error}: {describe(sorted(pids & self.pids()))}") from error

    def kill_daemon(self) -> None:
        os.kill(int(json.loads(self.scratch.registry.read_text())["pid"]), signal.SIGKILL)

    def close(self) -> None:
        """End the daemon as a person does; the kernel must know no process of this home afterwards."""
        try:
            self.model.release()
            self.client.close()
            done = self.scratch.hearth("stop", "--yes")
            assert done.returncode == 0, done.stderr
            self.until_gone(self.pids())
        finally:
            self.model.close()
            self.scratch.close()


def _words(pid: int) -> list[bytes]:
    """The command line of a process; none if it has just ended."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []
