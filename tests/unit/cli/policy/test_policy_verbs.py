"""`hearth policy check|show|explain|init`, without a daemon."""

import json
import os
from pathlib import Path

import click
import pytest

from hearth.cli.main import cli, main
from hearth.cli.policy.policy import split_tool
from hearth.policy.loader import parse
from hearth.policy.template import TEAM


@pytest.fixture
def policy_file(home: Path) -> Path:
    path = home / ".config" / "hearth" / "policy.toml"
    path.parent.mkdir(parents=True)
    path.write_text(TEAM)
    return path


def line_of(text: str) -> int:
    """Return the number of the line of the template that has a text."""
    return next(number for number, line in enumerate(TEAM.splitlines(), 1) if text in line)


def said(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out


def test_init_writes_a_valid_private_file_once(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = home / ".config" / "hearth" / "policy.toml"
    assert main(["policy", "init", "--template", "team", "--json"]) == 0
    assert json.loads(said(capsys)) == {"path": str(path), "template": "team", "replaced": False, "dryRun": False}
    assert path.stat().st_mode & 0o777 == 0o600
    assert parse(str(path), path.read_bytes()).default_role == "dev"
    path.write_text("x")
    assert main(["policy", "init"]) == 5
    assert path.read_text() == "x"
    assert main(["policy", "init", "--force"]) == 0
    assert path.read_text() == TEAM


def test_a_dry_run_of_init_prints_and_writes_nothing(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "init", "--dry-run"]) == 0
    assert said(capsys) == TEAM
    assert not (home / ".config").exists()


def test_check_without_a_policy_says_what_that_means(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "check"]) == 0
    assert "every client may do everything" in said(capsys)


def test_check_says_that_a_policy_is_right(policy_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "check", "--json"]) == 0
    assert json.loads(said(capsys)) == {"path": str(policy_file), "exists": True, "problems": [], "warnings": []}


def test_check_lists_every_problem_with_its_line(policy_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy_file.write_text(TEAM.replace('"commit", "push_branch(**)"', '"comit", "push_branch(**)"'))
    assert main(["policy", "check"]) == 2
    assert f"{policy_file}:15: there is no permission 'comit'; did you mean 'commit'?" in said(capsys)
    assert main(["policy", "show"]) == 2


def test_check_takes_a_file(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    draft = home / ".hearth" / "policy.toml"
    assert main(["policy", "check", str(draft)]) == 2
    draft.parent.mkdir()
    draft.write_text("[roles.dev]\nlead = true\n")
    assert main(["policy", "check", str(draft)]) == 2
    assert "may only narrow" in said(capsys)


def test_show_has_roles_rules_and_settings(policy_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "show"]) == 0
    shown = said(capsys)
    assert "dev (default)\n" in shown
    assert "commit, push_branch(feature/**), read_file(./**), search, edit_file(./**)" in shown
    assert "Commit your work before you stop." in shown
    assert "ask_human" in shown
    assert "approval_wait = 45.0" in shown
    assert main(["policy", "show", "--json"]) == 0
    assert json.loads(said(capsys))["roles"]["tl"]["lead"] is True


def test_show_without_a_policy_is_null(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "show", "--json"]) == 0
    assert said(capsys) == "null\n"


def test_explain_prints_the_decision_and_the_line_that_made_it(
    policy_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["policy", "explain", "--role", "dev", "agents__create_agent"]) == 0
    assert said(capsys).splitlines() == [
        "deny: tool 'create_agent' not available for role 'dev'",
        '  policy.toml:21: tools = ["**", "!agents__**", "!policy__**", "!hearth__**", "!team__ask_human"]',
    ]
    assert main(["policy", "explain", "--role", "dev", "github__merge_pull_request"]) == 0
    assert said(capsys).splitlines() == [
        "ask the lead: only the lead merges and deletes",
        f'  policy.toml:{line_of("ask_lead")}: decide = "ask_lead"',
    ]
    assert main(["policy", "explain", "Bash", "make test"]) == 0
    assert said(capsys).startswith("allow: granted by run_tests\n  policy.toml:23: ")


def test_the_page_shows_what_explain_prints(policy_file: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "work" / ".git").mkdir(parents=True)
    (home / "work" / ".git" / "config").write_text('[remote "origin"]\n')
    words = ["policy", "explain", "--role", "dev", "Bash", "git push origin main", "--workspace", str(home / "work")]
    assert main(words) == 0
    page = Path(__file__).parents[4] / "docs" / "policy.md"
    assert f"```\n{said(capsys)}```" in page.read_text(encoding="utf-8")


def test_explain_takes_a_command_a_path_or_json(
    policy_file: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    workspace = home / "work"
    workspace.mkdir()
    for tool, arguments, outcome in (
        ("Bash", "make test", "allow"),
        ("Bash", '{"command": "make test"}', "allow"),
        ("Bash", "make test; id", "ask"),
        ("Read", "x", "allow"),
        ("Read", "../x", "ask"),
        ("Write", "~/.config/hearth/policy.toml", "deny"),
        ("team__send_message", '{"content": "x"}', "allow"),
    ):
        assert main(["policy", "explain", tool, arguments, "--workspace", str(workspace), "--json"]) == 0
        shown = json.loads(said(capsys))
        assert (shown["outcome"], shown["role"]) == (outcome, "dev"), arguments
        assert (shown["line"] is None) == (shown["source"] == "built in")


def test_explain_counts_a_projects_policy_when_told_to(
    policy_file: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    draft = home / "draft.toml"
    draft.write_text('[[rules]]\ntool = "Bash"\ndecide = "deny"\nreason = "not here"\n')
    assert main(["policy", "explain", "Bash", "make test", "--project", str(draft)]) == 0
    assert said(capsys).splitlines() == ["deny: not here", '  .hearth/policy.toml:3: decide = "deny"']


def test_explain_names_the_project_s_line_for_a_tool_that_the_project_leaves_out(
    policy_file: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    draft = home / "draft.toml"
    draft.write_text('[roles.dev]\ntools = ["**", "!github__**"]\n')
    assert main(["policy", "explain", "github__list_issues", "--project", str(draft)]) == 0
    assert said(capsys).splitlines()[1] == '  .hearth/policy.toml:2: tools = ["**", "!github__**"]'
    assert main(["policy", "explain", "agents__create_agent", "--project", str(draft)]) == 0
    assert said(capsys).splitlines()[1].startswith("  policy.toml:21: tools = ")


def test_explain_refuses_arguments_that_no_client_would_send(
    policy_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["policy", "explain", "bash", "make test"]) == 2
    assert "ARGUMENTS of bash are a JSON object, not 'make test'. Did you mean 'Bash'?" in capsys.readouterr().err
    assert main(["policy", "explain", "github__create_issue", "title=x"]) == 2


def test_explain_suggests_the_nearest_role(policy_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "explain", "--role", "dve", "Bash"]) == 2
    assert "Did you mean 'dev'?" in capsys.readouterr().err


def test_without_a_policy_everything_is_allowed(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "explain", "--role", "any", "Bash", "rm -rf /"]) == 0
    assert said(capsys).startswith("allow: there is no policy")


def test_a_tool_belongs_to_the_server_with_the_longest_name() -> None:
    assert split_tool("Bash", ["a"]) == (None, "Bash")
    assert split_tool("a__b__c", ["a", "a__b"]) == ("a__b", "c")
    assert split_tool("x__b__c", ["a"]) == ("x", "b__c")


def test_roles_tools_and_templates_are_completed(policy_file: Path) -> None:
    (policy_file.parent / "config.toml").write_text('[mcpServers.time]\ncommand = "x"\n')
    context = click.Context(cli)
    group = cli.get_command(context, "policy")
    assert isinstance(group, click.Group)
    explain = group.get_command(context, "explain")
    assert explain
    options = {parameter.name: parameter for parameter in explain.params}
    inner = click.Context(explain, parent=context)
    assert [item.value for item in options["role"].shell_complete(inner, "d")] == ["dev"]
    assert [item.value for item in options["tool"].shell_complete(inner, "ti")] == ["time__"]
    policy_file.write_text("broken")
    assert options["role"].shell_complete(inner, "d") == []


def test_the_policy_of_another_daemon_is_beside_its_config(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "check", "--config", os.path.join(home, "x", "mcp.json"), "--json"]) == 0
    assert json.loads(said(capsys))["path"] == os.path.join(os.path.realpath(home), "x", "policy.toml")


# --- trusted projects


@pytest.fixture
def project(policy_file: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    (folder / ".hearth").mkdir(parents=True)
    (folder / ".git").mkdir()
    (folder / ".hearth" / "policy.toml").write_text('[[rules]]\ntool = "Bash"\ndecide = "deny"\nreason = "not here"\n')
    return folder


def explained(folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    capsys.readouterr()
    assert main(["policy", "explain", "Bash", "git status", "--workspace", str(folder)]) == 0
    found = capsys.readouterr()
    return found.out, found.err


def test_explain_counts_a_trusted_policy_as_it_was_when_trusted(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "is not trusted" in explained(project, capsys)[1]
    assert main(["policy", "trust", str(project), "--yes"]) == 0
    denied = 'deny: not here\n  .hearth/policy.toml:3: decide = "deny"\n'
    assert explained(project, capsys) == (denied, "")
    (project / ".hearth" / "policy.toml").write_text("")
    out, err = explained(project, capsys)
    assert out == denied and "has changed since it was trusted" in err
    assert main(["policy", "untrust", str(project / ".hearth")]) == 0
    assert explained(project, capsys)[0] != denied


def test_a_project_s_policy_is_not_trusted_without_a_yes_nor_with_a_mistake(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["policy", "trust", str(project)]) == 5
    found = capsys.readouterr()
    assert 'tool = "Bash"' in found.err and "--yes" in found.err
    (project / ".hearth" / "policy.toml").write_text('default_role = "tl"\n')
    assert main(["policy", "trust", str(project), "--yes"]) == 2
    assert "may only narrow" in capsys.readouterr().err
    (project / ".hearth" / "policy.toml").unlink()
    assert main(["policy", "trust", str(project), "--yes"]) == 5
    capsys.readouterr()
    assert main(["policy", "trust", "--list", "--json"]) == 0
    assert json.loads(said(capsys)) == []


def test_the_repository_of_a_folder_is_trusted(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "src").mkdir()
    assert main(["policy", "trust", str(project / "src"), "--yes", "--json"]) == 0
    document = json.loads(said(capsys))
    assert (document["folder"], document["state"]) == (str(project), "trusted")
    assert main(["policy", "trust", "--list"]) == 0
    assert str(project) in said(capsys)


def test_apply_needs_a_daemon(policy_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "apply"]) == 5
    assert "not running" in capsys.readouterr().err
