"""Protected files are found in calls that may write, and left alone in calls that read."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth.policy import guard
from hearth.policy.captures import Surroundings
from hearth.policy.protected import ProtectedFiles, expanded


@pytest.fixture
def policy_path(home: Path) -> str:
    return str(home / "elsewhere" / "team.toml")


def refused(project: Path, policy_path: str, tool: str, server: str | None = None, **values: object) -> bool:
    return guard.refusal(server, tool, values, Surroundings(str(project)), policy_path) is not None


@pytest.mark.parametrize(
    "command",
    [
        "cat .hearth/policy.toml",
        "cat ~/.config/hearth/config.toml",
        "ls -la ~/.config/hearth",
        "grep -r x .hearth",
        "diff .claude/settings.json x",
        "git diff .hearth/policy.toml",
        "git add .hearth/policy.toml",
        "git commit -m 'change .hearth/policy.toml'",
        "hearth policy show",
        "hearth policy check && hearth status",
        "hearth config get idle_timeout",
        "rm -rf src",
        "cp src/a.py src/b.py",
        "python3 -m pytest",
        "echo hearth > src/a.py",
        "vim src/settings.json",
        "sed -i 's/.*/x/' src/a.py",
        "sudo sed -i 's/foo .*/x/' src/a.py",
        "cat src/a.py | sed 's/.*/x/' > out.py",
        "rm -f src/*.pyc .*.swp",
        "cp src/{a,b}.py ~/work/",
        "cp -t src x*.py",
        "cd ~/work && npm install > log",
        "pip install --target=lib x",
        "tar -xf x.tar -C src",
        "tar --directory=src -xf x.tar",
        "unzip x.zip -d src",
        "echo 'see .hearth/policy.toml' && python3 -m pytest",
        "echo hearth | sh",
        "cat .hearth/policy.toml | sed 's/a/b/'",
        "cat .hearth/policy.toml | python3 -m json.tool",
        "gh pr create --title 'Document hearth add'",
        "tmux new-session -d 'hearth status'",
        "make -C hearth install",
        "make -j4 -C ~/src/hearth install",
        "npm --prefix hearth install",
        "uv --directory ~/src/hearth add httpx",
        "uv --directory hearth add httpx",
        "poetry -C hearth add x",
        "cp -r hearth remove",
        "git worktree add ../hearth add",
    ],
)
def test_commands_that_change_no_protected_file_pass(project: Path, policy_path: str, command: str) -> None:
    assert not refused(project, policy_path, "Bash", command=command)


@pytest.mark.parametrize(
    "command",
    [
        "tee ~/.config/hearth/x",
        "cat x | tee .hearth/x",
        "cat .hearth/x > .hearth/y",
        "truncate -s0 .hearth/policy.toml",
        "install -m600 x -t.hearth",
        "curl -o.hearth/policy.toml https://x",
        "curl --output=.hearth/policy.toml https://x",
        "scp x localhost:.hearth/policy.toml",
        "env X=1 tee .hearth/x",
        "sudo rm .hearth/policy.toml",
        "node -e 'fs.writeFileSync(\".hearth/x\", 1)'",
        "find . -delete",
        "chmod -R 777 .",
        "git checkout .hearth",
        "git rm .hearth/policy.toml",
        "rm -rf ~/.config",
        "mv ~/.config/hearth x",
        "rm -rf ~/.codex",
        "cp -r x ~/.local/state/hearth",
        "for f in .hearth/*; do rm $f; done",
        "echo x >> ~/.claude/settings.json",
        "sed -i x hearth-config/policy.toml",
        "hearth connect claude",
        "/usr/bin/hearth uninstall",
        "hearth add x -- y",
        "uv --directory hearth run hearth add x",
        "uv run strace -C hearth add x",
        "uv --directory; hearth add ~",
        "make -C $(hearth approve 1) x",
        "make -C\nhearth approve ~",
        "strace -C hearth approve 1",
        "cp a b; hearth approve 1",
        "cp ~/a b; hearth approve 1",
        "git worktree list; hearth approve ~",
        "git worktree add ~/x; hearth approve 1",
        "git bisect run hearth approve 1",
        "git diff --output=.hearth/policy.toml",
        "git log --outp .hearth/policy.toml",
        "cd .hearth/.. && tee .hearth/x",
        "cd .. && tee project/.hearth/x",
        "cd ~/.config && tee hearth/policy.toml",
        "cd ~/.config; echo x > hearth/policy.toml",
        "(cd ~/.config/hearth && tee policy.toml)",
        "pushd .hearth && tee x",
    ],
)
def test_commands_that_change_a_protected_file_are_refused(project: Path, policy_path: str, command: str) -> None:
    assert refused(project, policy_path, "Bash", command=command)


def test_a_command_as_a_list_of_words_is_searched_too(project: Path, policy_path: str) -> None:
    assert refused(project, policy_path, "Bash", command=["bash", "-lc", "echo x > .hearth/policy.toml"])


def test_a_command_that_moves_elsewhere_is_followed(project: Path, policy_path: str, home: Path) -> None:
    assert refused(project, policy_path, "Bash", command=f"cd {home}/.config && tee hearth/policy.toml")
    assert refused(project, policy_path, "Bash", command=f"cd {home} && cd .config/hearth && tee x")
    assert refused(project, policy_path, "Bash", command="cd && tee .config/hearth/x")
    assert not refused(project, policy_path, "Bash", command=f"cd {project} && npm test")
    assert not refused(project, policy_path, "Bash", command=f"cd {home} && ls && tee notes")


def test_a_path_is_found_however_deep_it_is(project: Path, policy_path: str) -> None:
    value: object = {"path": ".hearth/x"}
    for _ in range(500):
        value = [{"x": value}]
    assert refused(project, policy_path, "write", "files", items=value)


def test_inside_of_a_protected_folder_nothing_but_reading_passes(project: Path, policy_path: str) -> None:
    inside = project / ".hearth"
    assert refused(inside, policy_path, "Bash", command="tee policy.toml")
    assert refused(inside, policy_path, "Bash", command="echo x > policy.toml")
    assert refused(inside, policy_path, "Write", file_path="policy.toml")
    assert not refused(inside, policy_path, "Bash", command="cat policy.toml")


def test_the_policy_in_force_is_protected_wherever_it_is(project: Path, policy_path: str) -> None:
    assert refused(project, policy_path, "Write", file_path=policy_path)
    assert refused(project, policy_path, "Bash", command=f"cp x {policy_path}")


def test_a_folder_that_a_client_was_told_of_is_protected(
    project: Path, policy_path: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home / "claude-config"))
    assert refused(project, policy_path, "Write", file_path=str(home / "claude-config" / "settings.json"))
    assert not refused(project, policy_path, "Write", file_path=str(home / "claude-config" / "notes.md"))


def test_tools_of_servers_are_refused_by_their_paths(project: Path, policy_path: str) -> None:
    assert refused(project, policy_path, "write_file", "files", path=".hearth/x")
    assert refused(project, policy_path, "edit", "files", edits=[{"file": ".claude/settings.json"}])
    assert refused(project, policy_path, "run", "shell", cmd="rm -rf .hearth")
    assert not refused(project, policy_path, "write_file", "files", path="src/a.py", content=".hearth/x")
    assert not refused(project, policy_path, "create_issue", "github", title=".hearth/policy.toml is wrong")


def test_reading_tools_are_not_guarded() -> None:
    assert not guard.is_guarded(None, "Read")
    assert not guard.is_guarded("files", "read_file")
    assert not guard.is_guarded("files", "list_directory")
    assert guard.is_guarded("files", "write_file")
    assert guard.is_guarded("files", "spread")
    assert guard.is_guarded("files", "search_replace")
    assert guard.is_guarded("files", "read-and-write")
    assert guard.is_guarded(None, "Unheard")


@pytest.mark.parametrize(
    "raw",
    [
        b'{"p": ".HEARTH/x"}',
        b'{"p": ".he\\u0061rth"}',
        b'{"p": "h\\u0065arth"}',
        b'{"p": "~/.claude/settings.json"}',
        b'{"p": ".Codex"}',
        b'{"p": "x.gemini"}',
        b'{"p": "/Hearth"}',
        b'{"p": "C:\\\\hearth"}',
        b'{"p": "HEARTH~1"}',
    ],
)
def test_raw_arguments_that_may_name_a_protected_file_are_noticed(raw: bytes) -> None:
    assert guard.mentions(raw)


def test_ordinary_arguments_are_not_looked_at() -> None:
    assert not guard.mentions(b'{"path": "src/a.py", "content": "hearth and settings, 100 \\u2013 200"}')
    assert not guard.mentions(b'{"text": "a hearth and what .else there is"}')
    assert not guard.mentions(b'{"text": "the hearth"}')


def test_more_names_than_anybody_needs_are_refused(project: Path, policy_path: str) -> None:
    assert refused(project, policy_path, "Bash", command="x > y " + " ".join(f"hearth{n}" for n in range(5000)))
    assert refused(project, policy_path, "write", "files", paths=[f"a{n}" for n in range(5000)])
    assert not refused(project, policy_path, "Bash", command="cat > y <<EOF\n" + "word " * 50_000 + "\nEOF")


@pytest.mark.parametrize(
    "path",
    [
        ".hearth",
        ".hearth/",
        "a/.hearth/b",
        ".HEARTH",
        ".hea\u0301rth",
        ".h\u200dearth",
        "./.hearth/../.hearth/x",
        "src/../.hearth",
        "~/.config/hearth/x",
        "$HOME/.config/hearth/x",
        "notes.txt",
        "hearth-config/new",
        "hearth-config",
    ],
)
def test_a_protected_file_is_recognised_in_every_spelling(project: Path, policy_path: str, path: str) -> None:
    assert ProtectedFiles(Surroundings(str(project)), policy_path).include(path)


@pytest.mark.parametrize(
    "path", ["", "src", "hearth", "x.hearth", "a\0b", "\ud800", "~nobody/x", "settings.json", "../x"]
)
def test_other_files_are_not_protected(project: Path, policy_path: str, path: str) -> None:
    assert not ProtectedFiles(Surroundings(str(project)), policy_path).include(path)


def test_names_for_the_home_are_expanded(home: Path) -> None:
    for path in ("~/x", "$HOME/x", "${HOME}/x", f"~{home.name}/x"):
        assert expanded(path) == f"{home}/x"
    assert expanded("~other/x") == "~other/x"
    assert expanded("$XDG_CONFIG_HOME/x") == f"{home}/.config/x"


def test_worktrees_of_agents_are_no_part_of_the_state(home: Path, policy_path: str) -> None:
    state = home / ".local" / "state" / "hearth"
    worktree = state / "worktrees" / "mcp" / "0a1b" / "fix-login"
    (worktree / "src").mkdir(parents=True)
    for path in ("src/a.py", str(worktree / "src" / "a.py"), "~/.local/state/hearth/worktrees/mcp/0a1b/fix-login/x"):
        assert not refused(worktree, policy_path, "Write", file_path=path)
    assert not refused(worktree, policy_path, "Bash", command="git commit -am x && tee src/a.py")
    for path in (
        ".hearth/policy.toml",
        ".claude/settings.json",
        "../../x",
        "../../../../grants/mcp",
        str(state),
    ):
        assert refused(worktree, policy_path, "Write", file_path=path), path
    (worktree / "link").symlink_to(state / "grants")
    assert refused(worktree, policy_path, "Write", file_path="link/mcp")
    assert refused(worktree, policy_path, "Bash", command="rm -rf ../../../../roles")


_PIECES = ["hearth", "HEARTH", "Claude", "codex", "gemini", "u00", "ceartc", ".", "/", "\\", "~", "c", "e", "x", "ä"]


@given(st.lists(st.sampled_from(_PIECES), max_size=8))
def test_a_name_with_its_mark_is_a_mention_and_letters_alike_are_none(pieces: list[str]) -> None:
    text = "".join(pieces)
    marked = [mark + "hearth" for mark in "./\\"] + ["hearth~", ".claude", ".codex", ".gemini", "\\u00"]
    assert guard.mentions(text.encode()) is any(each in text.lower() for each in marked)
