"""Real Claude Code, Codex and Gemini CLI with hooks by `hearth connect --hooks`, driven by a fake model."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.daemon import Scratch
from support.kernel import until
from support.real.hooked_clients import CLIENTS, Codex, HookedClient
from support.real.model_server import ModelServer

pytestmark = pytest.mark.real

HOOK_DAEMON = (sys.executable, "-I", str(Path(__file__).parents[1] / "support" / "hook_daemon.py"))
# For a daemon that a hook starts in the place of the one that decides by words.
POLICY = 'default_role = "dev"\n\n[roles.dev]\ntools = ["**"]\notherwise = "deny"\n'
COMMIT = "git add . && git -c user.name=u -c user.email=u@h commit -qm work"


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with ModelServer() as found:
        yield found


@pytest.fixture(params=CLIENTS, ids=lambda kind: kind.name)
def client(request: pytest.FixtureRequest, model: ModelServer) -> Iterator[HookedClient]:
    """A client whose hooks ask a daemon that decides by words."""
    with Scratch() as scratch:
        scratch.configure({})
        policy(scratch).write_text(POLICY)
        scratch.start(command=HOOK_DAEMON)
        found: HookedClient = request.param(scratch, model)
        connect(found)
        found.trust()
        yield found
        scratch.hearth("stop")


def policy(scratch: Scratch) -> Path:
    return scratch.config.parent / "policy.toml"


def connect(client: HookedClient) -> None:
    done = client.scratch.hearth("connect", client.name, "--hooks", "--yes")
    assert done.returncode == 0, done.stderr


def log(client: HookedClient) -> list[str]:
    file = client.scratch.home / "hooks.log"
    return file.read_text().splitlines() if file.exists() else []


def kill_daemon(client: HookedClient) -> None:
    os.kill(json.loads(client.scratch.registry.read_text())["pid"], signal.SIGKILL)


def test_an_allowed_command_runs_and_a_denied_one_does_not(client: HookedClient) -> None:
    client.run("touch allowed", "touch forbidden")
    assert client.has("allowed") and not client.has("forbidden")
    assert "the word forbids it" in client.model.seen()
    assert any(line.endswith("session-start") for line in log(client))


def test_a_denied_command_does_not_run_where_the_client_itself_allows_it(client: HookedClient) -> None:
    client.is_open = True
    client.run("touch forbidden")
    assert not client.has("forbidden")


@pytest.mark.parametrize(("answer", "runs"), [("approved", True), ("refused", False)])
def test_an_asked_command_waits_for_the_person(client: HookedClient, answer: str, runs: bool) -> None:
    process = client.start("touch asked")
    until(lambda: any("asked" in line for line in log(client)), "the question", 60)
    assert not client.has("asked")
    (client.scratch.home / answer).touch()
    client.finish(process)
    assert client.has("asked") is runs
    assert ("a person refused it" in client.model.seen()) is not runs


def test_a_stop_is_blocked_until_the_tree_is_committed(client: HookedClient) -> None:
    client.run("touch new", "", COMMIT)
    assert "commit your work first" in client.model.seen()
    status = subprocess.run(["git", "status", "--porcelain"], cwd=client.work, capture_output=True, check=True)
    assert status.stdout == b""
    stops = [line for line in log(client) if line.endswith((" stop", " after-agent"))]
    assert len(stops) == 2


def test_a_command_is_denied_when_the_daemon_was_killed(client: HookedClient) -> None:
    kill_daemon(client)
    client.run("touch anything")
    assert not client.has("anything")


def test_a_command_is_denied_when_no_daemon_can_be_started(client: HookedClient) -> None:
    kill_daemon(client)
    os.unlink(client.scratch.socket)
    os.mkdir(client.scratch.socket)
    client.run("touch anything")
    assert not client.has("anything")
    assert "could not be asked" in client.model.seen()
    os.rmdir(client.scratch.socket)


def test_without_a_policy_the_hooks_do_nothing(client: HookedClient) -> None:
    policy(client.scratch).unlink()
    client.is_open = True
    client.run("touch forbidden")
    assert client.has("forbidden") and log(client) == []


def test_after_disconnecting_no_tool_is_blocked_and_the_file_is_as_it_was(model: ModelServer) -> None:
    for kind in CLIENTS:
        with Scratch() as scratch:
            scratch.configure({})
            policy(scratch).write_text(POLICY)
            scratch.start(command=HOOK_DAEMON)
            client = kind(scratch, model)
            before = client.file.read_bytes() if client.file.exists() else None
            connect(client)
            client.trust()
            assert scratch.hearth("disconnect", client.name).returncode == 0
            assert (client.file.read_bytes() if client.file.exists() else None) == before
            client.is_open = True
            client.run("touch forbidden")
            assert client.has("forbidden") and log(client) == []


def test_hooks_that_an_uninstallation_left_behind_block_nothing(client: HookedClient) -> None:
    (client.scratch.home / ".local" / "state" / "hearth" / "hearth-bridge").unlink()
    client.is_open = True
    client.run("touch forbidden")
    assert client.has("forbidden")


def test_codex_runs_no_hook_before_it_is_trusted(model: ModelServer) -> None:
    """The reason why `connect` says the step, and doctor looks for it."""
    with Scratch() as scratch:
        scratch.configure({})
        policy(scratch).write_text(POLICY)
        scratch.start(command=HOOK_DAEMON)
        client = Codex(scratch, model)
        done = scratch.hearth("connect", "codex", "--hooks", "--yes")
        assert "/hooks" in done.stdout + done.stderr
        client.run("touch forbidden")
        assert client.has("forbidden") and log(client) == []
