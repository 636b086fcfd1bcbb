"""Policies, role tokens and a person for tests: everything that a daemon with roles needs around it."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

from hearth.policy.role_tokens import RoleTokens
from support.clients import FramesClient
from support.daemon import Daemon, Scratch, server
from support.kernel import is_gone, until

TEAM = """
default_role = "dev"
approval_wait = 30

[roles.tl]
lead = true
tools = ["**"]
otherwise = "allow"

[roles.dev]
tools = ["echo__*", "count__*", "!count__put"]

[roles.desk]
human = true
tools = ["**"]

[[rules]]
role = "dev"
tool = "count__once"
decide = "ask"
reason = "what counts is the lead's to allow"

[[rules]]
role = "dev"
tool = "echo__add"
decide = "deny"
reason = "adding is not for devs"
"""


class Team:
    """A daemon with a policy, and its roles' clients."""

    def __init__(self, scratch: Scratch, policy: str = TEAM) -> None:
        self.scratch = scratch
        self.policy = scratch.config.parent / "policy.toml"
        self.tokens = RoleTokens(str(scratch.home / ".local/state/hearth/roles/mcp/tokens.json"))
        self.ledger = scratch.home / "ledger"
        if policy:
            self.write(policy)

    def serve(self, **settings: object) -> Daemon:
        """Start a daemon with two servers that the roles know, and one that devs do not."""
        servers = {"echo": server("echo"), "count": server("counting", self.ledger), "other": server("echo")}
        return self.scratch.serve(servers, **settings)

    def ran(self) -> list[str]:
        """What the counting server has run."""
        lines = self.ledger.read_text().splitlines() if self.ledger.exists() else []
        return [line for line in lines if not line.startswith("started")]

    def write(self, policy: str) -> None:
        """Replace the policy as an editor does, in a state that counts as settled."""
        self.policy.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.policy.with_suffix(".new")
        temporary.write_text(policy)
        past = temporary.stat().st_mtime - 10
        os.utime(temporary, (past, past))
        temporary.rename(self.policy)

    def apply(self, policy: str) -> None:
        """Replace the policy, and wait until it is in force."""
        self.write(policy)
        digest = hashlib.sha256(policy.encode()).hexdigest()
        until(lambda: self.scratch.status().get("policy", {}).get("digest") == digest, "the policy is in force")

    def token(self, role: str) -> str:
        Path(self.tokens.path).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        return self.tokens.issue(role)

    def client(self, role: str = "", cwd: str = "/", **handshake: object) -> FramesClient:
        """A client of a role, initialized; the default role needs no token."""
        hello: dict[str, object] = {"roleToken": self.token(role)} if role else {}
        client = self.scratch.frames(cwd=cwd, **hello)
        client.initialize(**handshake)  # type: ignore[arg-type]
        return client

    def person(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """Run the command line as a person does, in a process that does not descend from any client."""
        return self.beside(sys.executable, "-I", "-m", "hearth", *words)

    def beside(self, *command: str) -> "subprocess.CompletedProcess[str]":
        """Run a command in a process that does not descend from any client."""
        out = self.scratch.home / "person.json"
        out.unlink(missing_ok=True)
        script = Path(__file__).with_name("person.py")
        orphan = [sys.executable, "-I", str(script), str(out), *command]
        subprocess.run(orphan, env=self.scratch.environment(), check=True, timeout=60)
        until(out.exists, "the person's command ends")
        found = json.loads(out.read_text())
        until(lambda: is_gone(found["pid"]), "the person's process is gone")
        return subprocess.CompletedProcess(command, found["code"], found["stdout"], found["stderr"])

    def pending(self) -> list[dict[str, object]]:
        """What waits for a decision."""
        with FramesClient(self.scratch.socket) as control:
            answer, payload = control.control("approvals")
            assert answer["ok"] is True, answer
            return list(json.loads(payload)["approvals"])

    def wait_pending(self, count: int = 1) -> list[dict[str, object]]:
        until(lambda: len(self.pending()) == count, f"{count} approvals wait")
        return self.pending()
