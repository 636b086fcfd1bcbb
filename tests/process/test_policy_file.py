"""The policy file of a running daemon: whatever is in its place, nothing becomes allowed by it."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from support.daemon import Scratch, server
from support.http.clients import HttpClient
from support.kernel import until
from support.policies import TEAM, Team

REFUSED = "not available for role 'dev'"


def replace(path: Path, kind: str) -> None:
    """Put something else in the place of the policy."""
    path.unlink(missing_ok=True)
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "loop":
        path.symlink_to(path.name)
    elif kind == "dangling":
        path.symlink_to("nowhere")
    elif kind == "huge":
        with path.open("wb") as file:
            file.truncate(100 << 20)
    elif kind == "nested":
        path.write_text("x = " + "[" * 200_000)
    elif kind == "binary":
        path.write_bytes(bytes(range(256)))


KINDS = ("folder", "fifo", "loop", "dangling", "huge", "nested", "binary")


@pytest.mark.parametrize("kind", KINDS)
def test_a_start_with_something_else_in_its_place_keeps_the_last_good_policy(scratch: Scratch, kind: str) -> None:
    team = Team(scratch)
    team.serve()
    assert team.person("stop", "--yes").returncode == 0
    replace(team.policy, kind)
    scratch.start()
    assert REFUSED in team.client().call("count__put")["error"]["message"]
    assert scratch.status()["policy"]["error"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_first_start_with_something_else_in_its_place_asks_about_everything(scratch: Scratch, kind: str) -> None:
    team = Team(scratch, "")
    team.policy.parent.mkdir(parents=True, exist_ok=True)
    replace(team.policy, kind)
    team.serve()
    team.client().begin_call("count__once", key="k1")
    team.wait_pending()
    assert team.ran() == []


def test_a_policy_that_is_removed_stays_removed_and_frees_what_waits(scratch: Scratch) -> None:
    team = Team(scratch)
    team.serve()
    dev = team.client()
    id = dev.begin_call("count__once", key="k1")
    team.wait_pending()
    team.policy.unlink()
    scratch.status()
    assert "the policy was removed" in str(dev.answer_to(id))
    assert "policy" not in scratch.status()
    assert dev.call("count__once", key="k1")["result"]["content"][0]["text"] == "once k1"
    assert scratch.hearth("stop", "--yes").returncode == 0
    scratch.start()
    assert "policy" not in scratch.status()


def test_a_removal_waits_for_a_person_also_over_a_restart(scratch: Scratch) -> None:
    team = Team(scratch, 'apply = "manual"\n' + TEAM)
    team.serve()
    assert team.person("stop", "--yes").returncode == 0
    team.policy.unlink()
    scratch.start()
    assert scratch.status()["policy"]["waiting"] == "none"
    assert REFUSED in team.client().call("count__put")["error"]["message"]


def test_an_audit_trail_that_cannot_be_written_does_not_undo_the_policy(scratch: Scratch) -> None:
    team = Team(scratch, "")
    team.serve()
    state = Path(team.tokens.path).parents[2]
    shutil.rmtree(state / "audit", ignore_errors=True)
    state.mkdir(parents=True, exist_ok=True)
    (state / "audit").write_text("a file")
    team.write(TEAM)
    until(lambda: "policy" in scratch.status(), "the policy is in force")
    dev = team.client()
    assert REFUSED in dev.call("count__put")["error"]["message"]
    id = dev.begin_call("count__once", key="k1")
    (waiting,) = team.wait_pending()
    done = team.person("approve", str(waiting["id"]))
    assert done.returncode != 0, done
    assert len(team.pending()) == 1 and team.ran() == []
    dev.notify("notifications/cancelled", {"requestId": id})


def test_without_a_policy_nothing_of_it_is_loaded_or_written(scratch: Scratch) -> None:
    team = Team(scratch, "")
    seen = scratch.home / "modules"
    code = (
        "import sys; from hearth.daemon.main import main; code = main(sys.argv[1:]);"
        f"open({str(seen)!r}, 'w').write(' '.join(sys.modules)); sys.exit(code)"
    )
    scratch.configure({"count": server("counting", team.ledger)})
    scratch.start(command=(sys.executable, "-c", code))
    before = set(scratch.home.rglob("*"))
    client = scratch.frames(role="dev", agentId="a1", roleToken="anything")
    client.initialize()
    assert client.call("count__once", key="k1")["result"]
    assert HttpClient(scratch, "/hooks/pre-tool-use?client=claude").request("POST", {}).status == 200
    assert scratch.control().control("person")[0]["ok"] is True
    assert HttpClient(scratch, "/api/v1/reload").request("POST", {}).status == 200
    assert scratch.control().control("shutdown")[0]["ok"] is True
    until(seen.exists, "the daemon ends")
    loaded = [name for name in seen.read_text().split() if name.startswith("hearth.policy")]
    assert loaded == []
    new = {path.name for path in {*scratch.home.rglob("*")} - before}
    assert not [
        name for name in new if any(word in name for word in ("policy", "grants", "audit", "approvals", "role"))
    ]
