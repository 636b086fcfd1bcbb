"""Which package a command line runs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth.mcp.packages import folder, packages, scripts


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("npx -y @scope/name@1.2.3 --flag", ["@scope/name"]),
        ("npx @scope/name", ["@scope/name"]),
        ("npx --yes name@latest", ["name"]),
        ("npx -y -p @scope/name tool", ["@scope/name", "tool"]),
        ("npx --package=name -- tool", ["name", "tool"]),
        ("npx --registry http://r name", ["name"]),
        ("npx -y github:me/name", ["name"]),
        ("/opt/node/bin/npx.cmd name", ["name"]),
        ("cmd /c npx -y name", ["name"]),
        ("cmd.exe /C npx -y name", ["name"]),
        ("npm exec -- name", ["name"]),
        ("npm x name@1", ["name"]),
        ("npm run start", []),
        ("bunx name", ["name"]),
        ("bun x name", ["name"]),
        ("bun run /x/name/index.ts", ["name"]),
        ("pnpm dlx name@2", ["name"]),
        ("yarn dlx name", ["name"]),
        ("uvx name==1.2", ["name"]),
        ("uvx name@latest", ["name"]),
        ("uvx name[cli]>=2", ["name"]),
        ("uvx --from name==1 --with mcp<2 tool", ["name", "mcp", "tool"]),
        ("uvx --from git+https://github.com/me/name.git@v1 tool", ["name", "tool"]),
        ("uvx --from git+https://github.com/me/name tool", ["name", "tool"]),
        ("uvx --python 3.12 name", ["name"]),
        ("uv tool run name", ["name"]),
        ("uv run name", ["name"]),
        ("uv run --with name==1 python -m module", ["module", "name"]),
        ("uv run -m my_module", ["my-module"]),
        ("uv --directory /x/y run name", ["name"]),
        ("uv sync", []),
        ("pipx run name", ["name"]),
        ("pipx run --spec name==1 tool", ["name", "tool"]),
        ("python -m mcp_server_git --x", ["mcp-server-git"]),
        ("python3.12 -u -m name.server", ["name"]),
        ("/v/bin/python -W error /x/name/server.py", ["name"]),
        ("python -c import", []),
        ("py -3 -m name", ["name"]),
        ("node /x/node_modules/@scope/name/dist/index.js", ["@scope/name"]),
        ("node --env-file .env /x/name/build/index.js", ["name"]),
        (r"node C:\x\name\dist\index.js", ["name"]),
        ("deno run -A npm:@scope/name@1", ["@scope/name"]),
        ("docker run -i --rm mcp/name:1.2", ["mcp/name"]),
        ("docker run -i --rm -e TOKEN -v /a:/b --name x ghcr.io:443/me/name@sha256:0 /b", ["ghcr.io:443/me/name"]),
        ("docker run --mount=type=bind,src=/a,dst=/b image", ["image"]),
        ("docker compose up", []),
        ("env A=b npx -y name", ["name"]),
        ("/usr/bin/env -i python -m name", ["name"]),
        ("timeout 30 npx name", ["name"]),
        ("op run --env-file x -- npx -y name", ["name"]),
        ("mcp-server-git", ["mcp-server-git"]),
        ("/x/bin/mcp_server_git", ["mcp-server-git"]),
        ("/x/name/bin/server", ["name"]),
        ("npx", []),
        ("uvx --from", []),
        ("docker run", []),
        ("env", ["env"]),
    ],
)
def test_a_package_is_recognised_behind_its_runner(line: str, names: list[str]) -> None:
    command, *args = line.split()
    assert packages(command, args) == names


def test_a_shell_text_is_looked_into() -> None:
    assert packages("bash", ["-lc", "exec npx -y name --flag"]) == ["name"]
    assert packages("sh", ["-c", "sh -c sh -c sh -c sh -c sh -c npx"]) == []


def test_of_an_interpreter_the_script_is_known() -> None:
    assert scripts("python", ["-u", "server.py", "x.py"]) == ["server.py"]
    assert scripts("uv", ["run", "--with", "mcp", "/x/server.py"]) == ["/x/server.py"]
    assert scripts("npx", ["-y", "chart.js"]) == []
    assert scripts("docker", ["run", "image", "python", "server.py"]) == []


def test_the_folder_that_a_runner_goes_to_is_known() -> None:
    assert folder("uv", ["--directory", "/x", "run", "y"]) == "/x"
    assert folder("uv", ["run", "--directory=/x", "y"]) == "/x"
    assert folder("uv", ["run", "--directory"]) is None
    assert folder("npx", ["name", "--directory", "/x"]) is None


RUNNERS = ["npx", "uv", "uvx", "pipx", "python", "node", "docker", "sh", "cmd", "env", "bun", "op", "/", ""]
WORDS = [
    "run",
    "-m",
    "-c",
    "-y",
    "--",
    "--from",
    "-p",
    "x",
    "a/b",
    ".",
    "",
    "=",
    "@",
    "node_modules",
    "30",
    "/",
    "tool",
]


@given(st.sampled_from(RUNNERS), st.lists(st.sampled_from(RUNNERS + WORDS) | st.text(max_size=4), max_size=8))
def test_any_command_line_has_names_or_none(command: str, args: list[str]) -> None:
    assert all(isinstance(name, str) and name for name in packages(command, args))
    assert len(scripts(command, args)) <= 1
