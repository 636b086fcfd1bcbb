"""Trusted projects: the copy that counts, what becomes of a change, and the policy that is narrowed by it."""

import os
import subprocess
from pathlib import Path

import pytest

from hearth.errors import FileAccessError, Refused
from hearth.policy import trust
from hearth.policy.decision import decide, sees
from hearth.policy.loader import parse
from hearth.policy.trust import ProjectPolicies, TrustStore, project_file, workspace_of

USER = parse("/c/policy.toml", b'default_role = "dev"\n[roles.dev]\ntools = ["**"]\notherwise = "allow"\n')
OTHER = parse("/c/policy.toml", b'default_role = "dev"\n[roles.dev]\ntools = ["echo__*"]\n')
PROJECT = b'[roles.dev]\ntools = ["**", "!github__**"]\n'


@pytest.fixture
def store(tmp_path: Path) -> TrustStore:
    return TrustStore(str(tmp_path / "trusted"))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    (folder / ".hearth").mkdir(parents=True)
    (folder / ".hearth" / "policy.toml").write_bytes(PROJECT)
    return folder


def outcome(policies: ProjectPolicies, folder: Path | str | None) -> str:
    policy = policies.over(USER, None if folder is None else str(folder))
    return decide(policy, "dev", "github", "merge", b"{}", None).outcome


def test_a_trusted_policy_narrows_in_its_folder_and_below_and_nowhere_else(store: TrustStore, project: Path) -> None:
    store.trust(str(project), PROJECT)
    policies = store.policies()
    (project / "src").mkdir()
    assert [outcome(policies, each) for each in (project, project / "src")] == ["deny", "deny"]
    assert [outcome(policies, each) for each in (project.parent, f"{project}-2", None)] == ["allow"] * 3
    assert not sees(policies.over(USER, str(project)).roles["dev"], "tools", "github", "merge")


def test_a_link_to_the_folder_is_the_folder(store: TrustStore, project: Path) -> None:
    store.trust(str(project), PROJECT)
    (project.parent / "link").symlink_to(project)
    assert outcome(store.policies(), project.parent / "link") == "deny"


def test_of_several_projects_the_nearest_counts(store: TrustStore, project: Path) -> None:
    store.trust(str(project.parent), b'[[rules]]\ntool = "**"\ndecide = "ask"\n')
    store.trust(str(project), PROJECT)
    assert outcome(store.policies(), project) == "deny"
    assert outcome(store.policies(), project.parent) == "ask"


def test_a_change_or_the_removal_of_the_file_changes_nothing(store: TrustStore, project: Path) -> None:
    found = store.trust(str(project), PROJECT)
    assert found.state() == "trusted"
    Path(found.path).write_bytes(b"")
    assert (found.state(), outcome(store.policies(), project)) == ("changed", "deny")
    Path(found.path).unlink()
    assert (found.state(), outcome(store.policies(), project)) == ("removed", "deny")


def test_one_policy_object_serves_all_folders_and_a_new_policy_gets_another(store: TrustStore, project: Path) -> None:
    other = project.parent / "clone"
    for folder in (project, other):
        store.trust(str(folder), PROJECT)
    policies = store.policies()
    first = policies.over(USER, str(project))
    assert policies.over(USER, str(other)) is first is policies.over(USER, str(project))
    assert policies.over(OTHER, str(project)) is not first


def test_a_damaged_copy_asks_a_person_about_everything(
    store: TrustStore, project: Path, caplog: pytest.LogCaptureFixture
) -> None:
    found = store.trust(str(project), PROJECT)
    (project.parent / "trusted" / f"{found.digest}.toml").write_bytes(b"")
    policy = store.policies().over(USER, str(project))
    for server, tool in (("echo", "add"), (None, "Bash")):
        decision = decide(policy, "dev", server, tool, b'{"command": "ls"}', None)
        assert (decision.outcome, decision.level) == ("ask", "human")
    assert "trusted policy of a project cannot be used" in caplog.text


def test_trust_that_ends_leaves_no_copy_unless_another_project_has_the_same(store: TrustStore, project: Path) -> None:
    found = store.trust(str(project), PROJECT)
    copy = project.parent / "trusted" / f"{found.digest}.toml"
    store.trust(str(project.parent), PROJECT)
    store.untrust(str(project))
    assert copy.exists() and [each.folder for each in store.list()] == [str(project.parent)]
    store.untrust(str(project.parent))
    assert not copy.exists() and outcome(store.policies(), project) == "allow"
    with pytest.raises(Refused, match="is not trusted"):
        store.untrust(str(project))


def test_the_files_are_for_this_user_only_and_a_change_is_noticed(store: TrustStore, project: Path) -> None:
    store.policies()
    assert not store.changed()
    store.trust(str(project), PROJECT)
    assert store.changed()
    store.policies()
    assert not store.changed()
    folder = project.parent / "trusted"
    assert {path.stat().st_mode & 0o077 for path in (folder, *folder.iterdir())} == {0}


@pytest.mark.parametrize("text", ["{", "[]", '{"version": 2, "projects": {}}', '{"version": 1, "projects": {"/a": 1}}'])
def test_an_index_that_is_none_is_refused_with_a_sentence(store: TrustStore, project: Path, text: str) -> None:
    store.trust(str(project), PROJECT)
    (project.parent / "trusted" / "projects.json").write_text(text)
    with pytest.raises(FileAccessError, match="move it away"):
        store.policies()


def test_the_number_of_projects_is_bounded(store: TrustStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trust, "PROJECTS_LIMIT", 1)
    store.trust(str(tmp_path / "a"), PROJECT)
    with pytest.raises(Refused, match="untrust"):
        store.trust(str(tmp_path / "b"), PROJECT)
    assert len(store.list()) == 1


def test_a_workspace_is_the_repository_or_else_the_folder(tmp_path: Path) -> None:
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    (tmp_path / "repo" / "src").mkdir()
    (tmp_path / "plain").mkdir()
    assert workspace_of(str(tmp_path / "repo" / "src")) == str(tmp_path / "repo")
    assert workspace_of(str(tmp_path / "plain")) == str(tmp_path / "plain")
    assert workspace_of(None) is None
    assert project_file("/a") == os.path.join("/a", ".hearth", "policy.toml")


@pytest.fixture
def repository(project: Path) -> Path:
    subprocess.run(["git", "init", "-q", "-b", "main", str(project)], check=True)
    commit = ["commit", "-q", "--allow-empty", "-m", "x"]
    subprocess.run(["git", "-C", str(project), "-c", "user.name=x", "-c", "user.email=x@x", *commit], check=True)
    return project


def test_a_linked_worktree_is_in_its_repository_wherever_it_lies(store: TrustStore, repository: Path) -> None:
    store.trust(str(repository), PROJECT)
    elsewhere = repository.parent / "state" / "fix"
    subprocess.run(["git", "-C", str(repository), "worktree", "add", "-q", "-b", "fix", str(elsewhere)], check=True)
    (elsewhere / "src").mkdir()
    assert [outcome(store.policies(), each) for each in (elsewhere, elsewhere / "src")] == ["deny", "deny"]
    assert outcome(store.policies(), elsewhere.parent) == "allow"
    assert workspace_of(str(elsewhere / "src")) == workspace_of(str(repository)) == str(repository)


def test_a_worktree_s_own_folders_come_before_those_above_it(store: TrustStore, repository: Path) -> None:
    elsewhere = repository.parent / "state" / "fix"
    subprocess.run(["git", "-C", str(repository), "worktree", "add", "-q", "-b", "fix", str(elsewhere)], check=True)
    store.trust(str(repository), PROJECT)
    store.trust(str(elsewhere.parent), b'[[rules]]\ntool = "**"\ndecide = "ask"\n')
    assert outcome(store.policies(), elsewhere) == "deny"
    store.trust(str(elsewhere), b'[[rules]]\ntool = "**"\ndecide = "ask_human"\n')
    assert outcome(store.policies(), elsewhere) == "ask"


@pytest.mark.parametrize("pointer", ["", "gitdir: nowhere", "rubbish", "gitdir: ../.git/modules/x"])
def test_a_git_file_that_names_no_repository_is_none(store: TrustStore, project: Path, pointer: str) -> None:
    store.trust(str(project), PROJECT)
    other = project.parent / "other"
    other.mkdir()
    (other / ".git").write_text(pointer)
    assert (outcome(store.policies(), other), workspace_of(str(other))) == ("allow", str(other))
