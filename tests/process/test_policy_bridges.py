"""Real bridges with roles on one daemon, and approvals over the death of a daemon."""

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from support.daemon import Scratch
from support.kernel import is_gone, until
from support.policies import Team
from support.scripted_daemon import BridgeProcess


class RoleBridge:
    """A real bridge with a role's token in a file, its handshake done."""

    def __init__(self, team: Team, role: str = "") -> None:
        options = ["--no-start"]
        if role:
            path = team.scratch.home / f"{role}.token"
            path.touch(mode=0o600)
            path.write_text(team.token(role))
            options += ["--token-file", str(path)]
        self.process = BridgeProcess(team.scratch.home, *options, environment=team.scratch.environment())
        self._count = 0
        info = {"name": role or "dev", "version": "1"}
        self.ask("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=info)
        self.process.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def begin(self, method: str, **params: object) -> int:
        self._count += 1
        self.process.send({"jsonrpc": "2.0", "id": self._count, "method": method, "params": params})
        return self._count

    def answer_to(self, id: int) -> dict[str, Any]:
        while (answer := self.process.read()).get("id") != id:
            pass
        return dict(answer)

    def ask(self, method: str, **params: object) -> dict[str, Any]:
        return self.answer_to(self.begin(method, **params))

    def begin_call(self, tool: str, **arguments: object) -> int:
        return self.begin("tools/call", name=tool, arguments=arguments)

    def tools(self) -> set[str]:
        return {each["name"] for each in self.ask("tools/list")["result"]["tools"]}


@pytest.fixture
def team(scratch: Scratch) -> Team:
    found = Team(scratch)
    found.serve()
    return found


@pytest.fixture
def bridges(team: Team) -> Iterator[dict[str, RoleBridge]]:
    opened = {"dev": RoleBridge(team), "tl": RoleBridge(team, "tl")}
    yield opened
    for each in opened.values():
        each.process.close()


def test_two_bridges_of_two_roles_see_different_lists_on_one_daemon(team: Team, bridges: dict[str, RoleBridge]) -> None:
    dev, lead = bridges["dev"], bridges["tl"]
    assert {"count__put", "other__echo", "policy__decide_approval"} <= lead.tools() - dev.tools()
    refused = dev.ask("tools/call", name="count__put", arguments={})["error"]
    assert refused["message"] == "tool 'count__put' not available for role 'dev'"
    assert len(team.scratch.status()["sessions"]) == 2


def test_a_call_that_waited_when_its_daemon_was_killed_is_asked_again_and_runs_once(
    team: Team, bridges: dict[str, RoleBridge]
) -> None:
    dev = bridges["dev"]
    bridges["tl"].process.close()
    id = dev.begin_call("count__once", key="k1")
    team.wait_pending()
    pid = team.scratch.status()["pid"]
    os.kill(pid, signal.SIGKILL)
    until(lambda: is_gone(pid), "the daemon is gone")
    team.scratch.start()
    (waiting,) = team.wait_pending()
    assert team.person("approve", str(waiting["id"])).returncode == 0
    assert dev.answer_to(id)["result"]["content"][0]["text"] == "once k1"
    assert team.ran() == ["once k1"]


def test_a_drain_does_not_wait_for_an_approval_and_the_call_has_not_run(
    team: Team, bridges: dict[str, RoleBridge]
) -> None:
    dev = bridges["dev"]
    bridges["tl"].process.close()
    id = dev.begin_call("count__once", key="k1")
    team.wait_pending()
    assert team.person("stop", "--yes").returncode == 0
    assert dev.answer_to(id)["result"]["content"][0]["text"].startswith("not run: the daemon shuts down")
    team.scratch.start()
    id = dev.begin_call("count__once", key="k1")
    (waiting,) = team.wait_pending()
    assert team.person("approve", str(waiting["id"])).returncode == 0
    assert dev.answer_to(id)["result"]["content"][0]["text"] == "once k1"
    assert team.ran() == ["once k1"]


def test_a_token_that_is_revoked_does_not_come_back_with_the_next_daemon(
    team: Team, bridges: dict[str, RoleBridge]
) -> None:
    lead = bridges["tl"]
    # A running daemon would end the session at once, and a bridge that starts no daemon with it.
    assert team.person("stop", "--yes").returncode == 0
    team.tokens.revoke(team.tokens.list()[-1].id)
    team.scratch.start()
    answer = lead.ask("tools/list")
    assert "was revoked" in answer["error"]["message"]
