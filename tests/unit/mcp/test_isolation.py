"""Who shares a process, before and after something was learned of it."""

import pytest

from hearth.config.model import ServerSpec
from hearth.mcp import isolation
from hearth.secrets import references


def initial(line: str, cwd: str | None = None, project_scope: bool = False) -> str:
    command, *args = line.split()
    return isolation.initial(command, args, cwd, None, project_scope)[0]


@pytest.mark.parametrize(
    "line",
    [
        "npx -y @playwright/mcp@latest --headless",
        "npx @executeautomation/playwright-mcp-server",
        "npx -y @modelcontextprotocol/server-puppeteer",
        "npx chrome-devtools-mcp@latest",
        "npx -y @modelcontextprotocol/server-sequential-thinking",
        "npx -y @wonderwhy-er/desktop-commander",
        "uvx browser-use[cli] --mcp",
        "uvx --from browser-use==0.5 tool",
        "uvx jupyter-mcp-server",
        "uv run --with mcp mcp-python-repl",
        "python -m mcp_server_jupyter",
        "docker run -i --rm mcp/playwright",
        "docker run -i --rm --init mcr.microsoft.com/playwright/mcp:v1",
        "node /opt/node_modules/@playwright/mcp/cli.js",
        "/usr/bin/tmux-mcp",
        "cmd /c npx -y @playwright/mcp",
    ],
)
def test_what_is_known_to_keep_state_is_for_one_session(line: str) -> None:
    assert initial(line) == "session"
    assert initial(line, cwd=".", project_scope=True) == "session"


@pytest.mark.parametrize(
    "line",
    [
        "npx -y @modelcontextprotocol/server-filesystem /home/me/notes",
        "uvx mcp-server-git",
        "uvx mcp-server-git --repository .",
        "uvx --from git+https://github.com/oraios/serena serena start-mcp-server",
        "claude mcp serve",
        "uvx mcp-server-sqlite --db-path ./test.db",
        "uvx mcp-server-sqlite --db-path=../test.db",
        "docker run -i --rm -v .:/data image",
        "docker run -i --rm --mount type=bind,src=./x,dst=/y image",
        "npx name ${workspaceFolder}/x",
        "npx name --root=${env:CLAUDE_PROJECT_DIR}",
        "npx name ${CLAUDE_PROJECT_DIR:-.}",
        "./server",
        "bin/server",
        "node build/index.js",
        "python server.py",
        "uv run server.py",
        "uv --directory . run name",
        "uv run --directory src name",
    ],
)
def test_what_depends_on_a_folder_is_for_the_sessions_of_one(line: str) -> None:
    assert initial(line) == "workspace"


@pytest.mark.parametrize(
    "line",
    [
        "uvx mcp-server-time",
        "uvx mcp-server-fetch",
        "npx -y @modelcontextprotocol/server-everything",
        "npx -y @modelcontextprotocol/server-memory",
        "npx -y @modelcontextprotocol/server-github",
        "uvx mcp-server-git --repository /home/me/project",
        "uvx mcp-server-sqlite --db-path /home/me/test.db",
        "uvx mcp-server-sqlite --db-path ~/test.db",
        "npx -y replicate-mcp",
        "node /home/me/git/time/index.js",
        "python /home/me/server.py --every 1.5",
        "uv --directory /home/me/x run server.py",
        "docker run -i --rm image python server.py",
        "/usr/bin/server",
        "npx -y name@1.2.3 --pattern *.py --note etc.",
    ],
)
def test_everything_else_is_shared(line: str) -> None:
    assert initial(line) == "shared"


def test_a_folder_that_is_given_holds_for_every_relative_path() -> None:
    assert initial("python server.py .", cwd="/home/me/x") == "shared"
    assert initial("python server.py", cwd="~/x") == "shared"
    assert initial("python /server.py", cwd="x") == "workspace"
    assert initial("python /server.py", cwd="${workspaceFolder}/x") == "workspace"


def test_the_entry_of_a_project_is_for_its_folder() -> None:
    assert initial("uvx mcp-server-time", project_scope=True) == "workspace"


def test_a_server_elsewhere_is_shared_unless_its_address_names_the_folder() -> None:
    assert isolation.initial(None, url="https://example.com/git/mcp")[0] == "shared"
    assert isolation.initial(None, url="unix:${workspaceFolder}/x.sock")[0] == "workspace"


@pytest.mark.parametrize(
    ("line", "project_scope", "reason"),
    [
        ("npx @playwright/mcp", True, "a browser keeps its open pages"),
        ("uvx jupyter-mcp-server", False, "variables and running programs are kept"),
        ("npx server-filesystem /x", False, "it works on one project"),
        ("uvx mcp-server-git", False, "it works on the repository that it is started in"),
        ("uvx x ./data", True, isolation.RELATIVE),
        ("uvx mcp-server-time", True, isolation.OF_A_PROJECT),
        ("uvx mcp-server-time", False, isolation.NOTHING_KNOWN),
    ],
)
def test_the_first_mode_has_a_reason(line: str, project_scope: bool, reason: str) -> None:
    command, *args = line.split()
    mode, why = isolation.initial(command, args, project_scope=project_scope)
    assert why == reason
    assert mode == initial(line, project_scope=project_scope)


@pytest.mark.parametrize("name", references.WORKSPACE_VARIABLES)
def test_every_name_of_the_clients_folder_is_known_to_both(name: str) -> None:
    assert isolation.initial("x", [f"--root=${{{name}}}"])[0] == "workspace"
    assert references.resolve(ServerSpec(name="a", command="x", args=(f"${{{name}}}",)), {}, "/f").spec.args == ("/f",)


@pytest.mark.parametrize(
    ("mode", "event", "after"),
    [
        ("shared", "roots", "workspace"),
        ("shared", "question", "session"),
        ("workspace", "roots", "workspace"),
        ("workspace", "question", "session"),
        ("session", "roots", "session"),
        ("session", "question", "session"),
    ],
)
def test_a_mode_is_raised_and_never_lowered(mode: isolation.Mode, event: isolation.Event, after: str) -> None:
    assert isolation.raised(mode, event) == after


def test_of_two_modes_the_stricter_is_told() -> None:
    assert isolation.stricter("shared", "session") == isolation.stricter("session", "workspace") == "session"
    assert isolation.MODES == ("shared", "workspace", "session")
