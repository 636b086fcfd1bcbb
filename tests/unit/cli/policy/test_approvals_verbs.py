"""`hearth approvals` and the completion of ids, with a daemon that a test stands in for and without one."""

import json
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import click
import pytest

from hearth.cli.main import cli, main
from hearth.control_client import running_daemon


def completed(verb: str, parameter: str, incomplete: str) -> list[str]:
    """Return what a shell would complete. No context is current, as in a shell's completion."""
    context = click.Context(cli)
    command = cli.get_command(context, verb)
    assert command
    (found,) = (each for each in command.params if each.name == parameter)
    return [item.value for item in found.shell_complete(click.Context(command, parent=context), incomplete)]


def test_ids_of_approvals_and_grants_are_completed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"approvals": [{"id": "3f9a01c2"}, {"id": "77aa01c2"}], "grants": [{"id": "955f1b6b"}]}
    control = SimpleNamespace(approvals=lambda: found)
    daemon = SimpleNamespace(control=lambda: nullcontext(control))
    monkeypatch.setattr(running_daemon, "find", lambda places: daemon)
    assert completed("approve", "id", "3") == ["3f9a01c2"]
    assert completed("deny", "id", "") == ["3f9a01c2", "77aa01c2"]
    assert completed("approvals", "revoke", "9") == ["955f1b6b"]


def test_a_permission_without_a_policy_is_shown_without_a_role_an_end_and_scopes(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    request = {"id": "3f9a01c2", "kind": "permission", "session": None, "client": "claude", "agent": "a1f2"}
    request |= {"role": None, "server": None, "tool": "Bash", "arguments": '{"command":"make"}', "digest": "d"}
    request |= {"reason": "", "level": "human", "lead": None, "workspace": "/work", "created": 1.0, "expires": None}
    control = SimpleNamespace(approvals=lambda: {"approvals": [request], "grants": []})
    monkeypatch.setattr(running_daemon, "find", lambda places: SimpleNamespace(control=lambda: nullcontext(control)))
    assert main(["approvals"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "ID        CLIENT  AGENT  TOOL  ASKS  LEFT",
        "3f9a01c2  claude  a1f2   Bash  you   -",
        "",
        '3f9a01c2: Bash {"command":"make"}',
        "hearth approve 3f9a01c2, or hearth deny 3f9a01c2",
    ]


def test_without_a_daemon_nothing_is_completed(home: Path) -> None:
    assert completed("approve", "id", "") == []


def test_grants_for_always_are_listed_without_a_daemon(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = home / ".config" / "hearth" / "approvals.toml"
    file.parent.mkdir(parents=True)
    fields = {"id": "955f1b6b", "role": "dev", "server": "github", "tool": "add", "definition": "a", "digest": "b"}
    lines = [f'{key} = "{value}"\n' for key, value in {**fields, "decided_by": "person"}.items()]
    file.write_text("[[always]]\n" + "".join(lines))
    assert main(["approvals", "--granted", "--json"]) == 0
    (grant,) = json.loads(capsys.readouterr().out)["grants"]
    assert (grant["id"], grant["scope"]) == ("955f1b6b", "always")
    assert main(["approvals", "--revoke", "955f1b6b"]) == 5
    assert str(file) in capsys.readouterr().err
