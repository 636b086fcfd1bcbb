"""Real Claude Code, Codex and Gemini CLI with hooks by `hearth connect --hooks`, driven by a fake model."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.daemon import Scratch
from support.kernel import until
from support.real.hooked_clients import CLIENTS, Codex, HookedClient
from support.real.model_server import ModelServer

pytestmark = pytest.mark.real

POLICY = """\
default_role = "dev"
hook_wait = {wait}

[roles.dev]
tools = ["**"]
grants = ["make", "commit"]
otherwise = "ask"

[permissions.make]
tool = "Bash"
command = ["touch allowed", "touch new"]

[permissions.commit]
tool = "Bash"
command = ["git add .", "git commit -qm {{message:word}}"]

[permissions.forbidden]
tool = "Bash"
command = "touch forbidden"

[[rules]]
permission = "forbidden"
decide = "deny"
reason = "the lead makes that file"

[[stop_checks]]
kind = "committed"
action = "block"
message = "commit your work first"
"""
# A person needs no longer in a test; and not so short that a slow machine gets in the way.
LONG, SHORT = 40, 6


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with ModelServer() as found:
        yield found


@pytest.fixture
def scratch() -> Iterator[Scratch]:
    """A home with a policy, and the daemon that applies it."""
    with Scratch() as found:
        found.configure({})
        write_policy(found, LONG)
        found.start()
        yield found
        found.hearth("stop")


@pytest.fixture(params=CLIENTS, ids=lambda kind: kind.name)
def client(request: pytest.FixtureRequest, scratch: Scratch, model: ModelServer) -> HookedClient:
    """A client whose hooks are in place."""
    found: HookedClient = request.param(scratch, model)
    connect(found)
    found.trust()
    return found


def write_policy(scratch: Scratch, wait: int) -> Path:
    path = scratch.config.parent / "policy.toml"
    path.write_text(POLICY.format(wait=wait))
    return path


def connect(client: HookedClient) -> None:
    done = client.scratch.hearth("connect", client.name, "--hooks", "--yes")
    assert done.returncode == 0, done.stderr


def audited(scratch: Scratch) -> str:
    """Everything in the audit trail."""
    return scratch.hearth("audit", "--json").stdout


def question(client: HookedClient) -> dict[str, Any]:
    """The call that waits for a decision."""

    def found() -> Any:
        listed = client.scratch.hearth("approvals", "--json")
        waiting = json.loads(listed.stdout or "{}").get("approvals", [])
        return waiting[0] if waiting else None

    one: dict[str, Any] = until(found, "the question", 60)
    return one


def kill_daemon(scratch: Scratch) -> None:
    os.kill(json.loads(scratch.registry.read_text())["pid"], signal.SIGKILL)


def test_an_allowed_command_runs_and_a_denied_one_does_not(client: HookedClient) -> None:
    client.is_open = client.name != "claude-code"
    client.run("touch allowed", "touch forbidden", "git add .", "git commit -qm x")
    assert client.has("allowed") and not client.has("forbidden")
    assert "the lead makes that file" in client.model.seen()


def test_a_denied_command_does_not_run_where_the_client_itself_allows_it(client: HookedClient) -> None:
    client.is_open = True
    client.run("touch forbidden")
    assert not client.has("forbidden")


def test_an_asked_command_runs_when_a_person_approves_it(client: HookedClient) -> None:
    process = client.start("touch asked", "git add .", "git commit -qm x")
    asked = question(client)
    assert asked["tool"] == "Bash" and "touch asked" in json.dumps(asked)
    assert not client.has("asked")
    done = client.scratch.hearth("approve", asked["id"])
    assert done.returncode == 0, done.stderr
    client.finish(process)
    assert client.has("asked")


def test_an_asked_command_does_not_run_when_a_person_denies_it(client: HookedClient) -> None:
    process = client.start("touch asked")
    done = client.scratch.hearth("deny", question(client)["id"], "--reason", "ask the lead first")
    assert done.returncode == 0, done.stderr
    client.finish(process)
    assert not client.has("asked")
    assert "ask the lead first" in client.model.seen()


def test_a_stop_is_blocked_until_the_tree_is_committed(client: HookedClient) -> None:
    client.run("touch new", "", "git add . && git commit -qm work")
    assert "commit your work first: not committed: new" in client.model.seen()
    status = subprocess.run(["git", "status", "--porcelain"], cwd=client.work, capture_output=True, check=True)
    assert status.stdout == b""


def test_a_daemon_that_is_killed_while_a_person_decides_leaves_the_command_denied(
    client: HookedClient, scratch: Scratch
) -> None:
    write_policy(scratch, SHORT)
    scratch.hearth("reload")
    process = client.start("touch asked")
    question(client)
    kill_daemon(scratch)
    client.finish(process)
    assert not client.has("asked")


def test_a_command_is_denied_when_no_daemon_can_be_started(client: HookedClient, scratch: Scratch) -> None:
    kill_daemon(scratch)
    os.unlink(scratch.socket)
    os.mkdir(scratch.socket)
    client.run("touch allowed")
    assert not client.has("allowed")
    assert "could not be asked" in client.model.seen()
    os.rmdir(scratch.socket)


def test_a_killed_daemon_is_started_again_by_the_next_hook(client: HookedClient, scratch: Scratch) -> None:
    kill_daemon(scratch)
    client.run("touch allowed", "touch forbidden", "git add .", "git commit -qm x")
    assert client.has("allowed") and not client.has("forbidden")


def test_without_a_policy_the_hooks_do_nothing(client: HookedClient, scratch: Scratch) -> None:
    (scratch.config.parent / "policy.toml").unlink()
    client.is_open = True
    client.run("touch forbidden")
    assert client.has("forbidden")


@pytest.mark.parametrize("kind", CLIENTS, ids=lambda kind: kind.name)
def test_after_disconnecting_no_tool_is_blocked_and_the_file_is_as_it_was(
    scratch: Scratch, model: ModelServer, kind: type[HookedClient]
) -> None:
    client = kind(scratch, model)
    before = client.file.read_bytes() if client.file.exists() else None
    connect(client)
    client.trust()
    assert scratch.hearth("disconnect", client.name).returncode == 0
    assert (client.file.read_bytes() if client.file.exists() else None) == before
    client.is_open = True
    client.run("touch forbidden")
    assert client.has("forbidden")


def test_hooks_that_an_uninstallation_left_behind_block_nothing(client: HookedClient, scratch: Scratch) -> None:
    (scratch.home / ".local" / "state" / "hearth" / "hearth-bridge").unlink()
    client.is_open = True
    client.run("touch forbidden")
    assert client.has("forbidden")


def test_codex_runs_no_hook_before_it_is_trusted(scratch: Scratch, model: ModelServer) -> None:
    """The reason why `connect` says the step, and doctor looks for it."""
    client = Codex(scratch, model)
    done = scratch.hearth("connect", "codex", "--hooks", "--yes")
    assert "/hooks" in done.stdout + done.stderr
    client.run("touch forbidden")
    assert client.has("forbidden")
