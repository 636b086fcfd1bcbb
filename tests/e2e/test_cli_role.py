"""`hearth role` as typed: tokens in files, never on the screen."""

import json
import os
import shutil
import stat
from collections.abc import Iterator

import pytest

from e2e.cli_home import Home, scratch_home
from hearth.policy.role_tokens import PREFIX, RoleTokens


@pytest.fixture
def home() -> Iterator[Home]:
    yield from scratch_home()


def folder(home: Home) -> str:
    return os.path.join(home.home, ".local", "state", "hearth", "roles", "mcp")


def tokens(home: Home) -> RoleTokens:
    return RoleTokens(os.path.join(folder(home), "tokens.json"))


def read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read().strip()


def audit(home: Home) -> list[dict[str, object]]:
    return [json.loads(line) for line in home.ok("audit", "--json").splitlines()]


def test_a_token_is_written_to_a_private_file_and_not_printed(home: Home) -> None:
    printed = home.ok("role", "token", "tl")
    (name,) = (name for name in os.listdir(folder(home)) if name.endswith(".token"))
    path = os.path.join(folder(home), name)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert name.startswith("tl-")
    assert PREFIX not in printed
    assert f"hearth bridge --token-file {path}" in printed
    holder = tokens(home).check(read(path))
    assert (holder.role, holder.agent_id) == ("tl", None)


def test_a_role_that_the_policy_does_not_have_is_noted(home: Home) -> None:
    home.ok("policy", "init")
    assert home.run("role", "token", "tl").stderr == ""
    assert "has no role 'dve'; clients with this token are refused. Did you mean 'dev'?" in (
        home.run("role", "token", "dve").stderr
    )


def test_a_token_for_an_agent_in_a_file_of_choice(home: Home) -> None:
    path = os.path.join(home.home, "my tokens")
    shown = json.loads(home.ok("role", "token", "dev", "--agent-id", "w1", "--out", path, "--label", "x", "--json"))
    assert (shown["role"], shown["agentId"], shown["label"], shown["state"]) == ("dev", "w1", "x", "valid")
    assert shown["path"] == path
    assert shown["command"] == f"hearth bridge --token-file '{path}'"
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert tokens(home).check(read(path)).agent_id == "w1"


def test_the_command_names_the_daemon_of_another_profile(home: Home) -> None:
    assert "hearth bridge --profile work --token-file" in home.ok("--profile", "work", "role", "token", "dev")
    assert json.loads(home.ok("role", "list", "--json")) == []


@pytest.mark.parametrize("kind", ["file", "link", "dangling link", "folder"])
def test_a_name_that_is_taken_is_left_alone_and_no_token_is_issued(home: Home, kind: str) -> None:
    path, other = os.path.join(home.home, "taken"), os.path.join(home.home, "other")
    if kind == "folder":
        os.mkdir(path)
    elif kind == "file":
        shutil.copy(__file__, path)
    else:
        os.symlink(other, path)
    if kind == "link":
        shutil.copy(__file__, other)
    home.run("role", "token", "tl", "--out", path)
    assert home.run("role", "token", "tl", "--out", path).returncode in (2, 5)
    assert json.loads(home.ok("role", "list", "--json")) == []
    assert os.path.lexists(other) == (kind == "link")


def test_a_folder_that_is_missing_leaves_no_valid_token(home: Home) -> None:
    sentence = home.fails(1, "role", "token", "tl", "--out", os.path.join(home.home, "no", "where"))
    assert "cannot write the role token to" in sentence
    assert [each["state"] for each in json.loads(home.ok("role", "list", "--json"))] == ["revoked"]


@pytest.mark.parametrize("lifetime", ["5x", "0d", "-1h", "10s", "", "soon"])
def test_a_lifetime_that_is_none_is_refused(home: Home, lifetime: str) -> None:
    assert "say 30m, 8h, 90d or never" in home.fails(2, "role", "token", "tl", "--expires", lifetime)


def test_tokens_are_listed_and_revoked(home: Home) -> None:
    for role in ("tl", "dev"):
        home.ok("role", "token", role, "--expires", "never" if role == "tl" else "8h")
    first, second = json.loads(home.ok("role", "list", "--json"))
    assert (first["role"], first["expiresAt"], second["role"]) == ("tl", None, "dev")
    assert "hash" not in first
    assert f"{first['id']} (role 'tl') is revoked." in home.ok("role", "revoke", first["id"][:6])
    listed = home.ok("role", "list")
    assert "revoked" in listed
    assert "never" in listed
    with open(os.path.join(folder(home), f"tl-{first['id']}.token"), encoding="utf-8") as file:
        token = file.read().strip()
    with pytest.raises(Exception, match="was revoked at"):
        tokens(home).check(token)


def test_an_unknown_id_is_refused(home: Home) -> None:
    assert "`hearth role list` shows them" in home.fails(5, "role", "revoke", "abc")


def test_without_a_policy_there_is_no_audit_log(home: Home) -> None:
    home.ok("role", "token", "tl")
    assert not os.path.exists(os.path.join(home.home, ".local", "state", "hearth", "audit"))


def with_policy(home: Home) -> None:
    path = os.path.join(os.path.dirname(home.write_config("")), "policy.toml")
    with open(path, "w", encoding="utf-8") as file:
        file.write('default_role = "dev"\n')


def test_with_a_policy_issuing_and_revoking_are_audited(home: Home) -> None:
    with_policy(home)
    home.ok("role", "token", "tl", "--label", "lead")
    (token,) = json.loads(home.ok("role", "list", "--json"))
    home.ok("role", "revoke", token["id"])
    found = [(row["kind"], row["decision"], row["role"], row["digest"], row["decidedBy"]) for row in audit(home)]
    assert found == [("token", action, "tl", token["id"], "person") for action in ("issue", "revoke")]
    home.ok("audit", "--verify")


def test_a_token_that_cannot_be_audited_is_not_issued(home: Home) -> None:
    with_policy(home)
    state = os.path.join(home.home, ".local", "state", "hearth")
    os.makedirs(os.path.join(state, "audit"))
    with open(os.path.join(state, "audit", "mcp"), "w", encoding="utf-8"):
        pass
    home.fails(1, "role", "token", "tl")
    assert [each["state"] for each in json.loads(home.ok("role", "list", "--json"))] == ["revoked"]
    assert not [name for name in os.listdir(folder(home)) if name.endswith(".token")]


def test_a_token_can_still_be_revoked_when_that_cannot_be_audited(home: Home) -> None:
    home.ok("role", "token", "tl")
    with_policy(home)
    with open(os.path.join(home.home, ".local", "state", "hearth", "audit"), "w", encoding="utf-8"):
        pass
    (token,) = json.loads(home.ok("role", "list", "--json"))
    home.fails(1, "role", "revoke", token["id"])
    assert json.loads(home.ok("role", "list", "--json"))[0]["state"] == "revoked"


def test_the_entry_for_a_client_names_the_file_by_its_whole_path(home: Home) -> None:
    shown = json.loads(home.ok("connect", "--print", "--token-file", "dev.token"))
    assert shown["mcpServers"]["hearth"]["args"][-2:] == ["--token-file", os.path.join(home.home, "dev.token")]
