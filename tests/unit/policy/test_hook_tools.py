"""Tools of clients under their canonical names, and the arguments that decisions look at."""

import json
from typing import Any

import pytest

from hearth.errors import HookFormatError
from hearth.policy.hook_formats import HookCall, parse
from hearth.policy.hook_tools import PATCH_FILES_LIMIT
from support.hook_payloads import payload, tool_call


def read(client: str, tool: str, arguments: Any, **more: Any) -> HookCall:
    event = "before-tool" if client == "gemini" else "pre-tool-use"
    return parse(client, event, tool_call(client, tool, arguments, **more))


@pytest.mark.parametrize(
    ("client", "tool", "arguments", "canonical", "expected"),
    [
        ("claude", "Bash", {"command": "ls", "timeout": 5}, "Bash", {"command": "ls", "timeout": 5}),
        ("claude", "Monitor", {"command": "ls", "timeout_ms": 5}, "Bash", {"command": "ls", "timeout_ms": 5}),
        ("claude", "Monitor", {"ws": {"url": "ws://h"}}, "Monitor", {"ws": {"url": "ws://h"}}),
        ("claude", "Read", {"file_path": "/a"}, "Read", {"file_path": "/a"}),
        ("claude", "Write", {"file_path": "/a", "content": "x"}, "Write", {"file_path": "/a", "content": "x"}),
        ("claude", "MultiEdit", {"file_path": "/a", "edits": []}, "Edit", {"file_path": "/a", "edits": []}),
        ("claude", "NotebookEdit", {"notebook_path": "/n"}, "Edit", {"file_path": "/n"}),
        ("claude", "Task", {"prompt": "p"}, "Task", {"prompt": "p"}),
        ("codex", "Bash", {"command": "ls"}, "Bash", {"command": "ls"}),
        ("codex", "exec_command", {"cmd": "ls"}, "Bash", {"command": "ls"}),
        ("codex", "view_image", {"path": "/a.png"}, "Read", {"file_path": "/a.png"}),
        ("codex", "spawn_agent", {"message": "m"}, "spawn_agent", {"message": "m"}),
        ("codex", "apply_patch", {"command": "no patch"}, "apply_patch", {"command": "no patch"}),
        ("codex", "apply_patch", {"command": ["x"]}, "apply_patch", {"command": ["x"]}),
        ("gemini", "run_shell_command", {"command": "ls"}, "Bash", {"command": "ls"}),
        ("gemini", "read_file", {"file_path": "a", "end_line": 2}, "Read", {"file_path": "a", "end_line": 2}),
        ("gemini", "read_file", {"absolute_path": "/a"}, "Read", {"file_path": "/a"}),
        ("gemini", "write_file", {"file_path": "a", "content": ""}, "Write", {"file_path": "a", "content": ""}),
        ("gemini", "replace", {"file_path": "a"}, "Edit", {"file_path": "a"}),
        ("gemini", "list_directory", {"dir_path": "d"}, "LS", {"path": "d"}),
        ("gemini", "glob", {"pattern": "*", "dir_path": "d"}, "Glob", {"pattern": "*", "path": "d"}),
        ("gemini", "grep_search", {"pattern": "x"}, "Grep", {"pattern": "x"}),
        ("gemini", "web_fetch", {"prompt": "p"}, "WebFetch", {"prompt": "p"}),
        ("gemini", "save_memory", {"fact": "f"}, "save_memory", {"fact": "f"}),
    ],
)
def test_a_tool_gets_its_canonical_name_and_keys(
    client: str, tool: str, arguments: Any, canonical: str, expected: Any
) -> None:
    call = read(client, tool, arguments)
    assert (call.tool, json.loads(call.arguments), call.mcp, call.also) == (canonical, expected, None, ())


@pytest.mark.parametrize(
    ("client", "tool", "arguments"),
    [
        ("claude", "NotebookEdit", {"notebook_path": "/n", "file_path": "/m"}),
        ("codex", "exec_command", {"cmd": "ls", "command": "rm"}),
        ("gemini", "read_file", {"file_path": "a", "absolute_path": "/etc/passwd"}),
        ("gemini", "glob", {"path": "a", "dir_path": "b"}),
        ("gemini", "run_shell_command", {"command": "ls", "dir_path": 7}),
    ],
)
def test_one_argument_under_two_names_is_refused(client: str, tool: str, arguments: Any) -> None:
    with pytest.raises(HookFormatError):
        read(client, tool, arguments)


def test_the_description_of_a_command_does_not_make_it_another_one() -> None:
    one = read("claude", "Bash", {"command": "ls", "description": "List"})
    other = parse("claude", "permission-request", payload("claude", "permission-request", tool_input={"command": "ls"}))
    assert one.arguments == other.arguments == b'{"command":"ls"}'


def test_a_request_for_the_network_is_another_question_than_the_command() -> None:
    given = payload(
        "codex", "permission-request", tool_input={"command": "ls", "description": "network-access https://h:443"}
    )
    assert json.loads(parse("codex", "permission-request", given).arguments)["description"].startswith("network-access")


@pytest.mark.parametrize(
    ("folder", "command"),
    [
        (".", "ls"),
        ("/work/project", "ls"),
        ("sub dir", "cd 'sub dir' && ls"),
        ("/etc", "cd /etc && ls"),
        ("a; rm -rf ~", "cd 'a; rm -rf ~' && ls"),
    ],
)
def test_the_folder_of_a_command_is_a_part_of_the_command(folder: str, command: str) -> None:
    call = read("gemini", "run_shell_command", {"command": "ls", "dir_path": folder})
    assert json.loads(call.arguments) == {"command": command}


# --- patches

PATCH = """*** Begin Patch
*** Update File: src/a.py
*** Move to: src/b.py
@@
-old
+*** Add File: looks like a header, and counts as one only without the sign
 *** Delete File: context
*** Add File: /etc/new
+x
*** End Patch"""


def test_a_patch_is_one_use_for_each_file_that_it_names() -> None:
    call = read("codex", "apply_patch", {"command": PATCH})
    found = [(use.tool, json.loads(use.arguments)["file_path"]) for use in call.uses]
    assert found == [("Edit", "src/a.py"), ("Write", "src/b.py"), ("Edit", "context"), ("Write", "/etc/new")]
    assert all(json.loads(use.arguments)["patch"] == PATCH for use in call.uses)


def test_a_patch_of_too_many_files_is_refused() -> None:
    files = "\n".join(f"*** Add File: {number}" for number in range(PATCH_FILES_LIMIT + 1))
    with pytest.raises(HookFormatError, match="101 files"):
        read("codex", "apply_patch", {"command": files})


# --- MCP


@pytest.mark.parametrize(
    ("client", "tool", "arguments", "context", "mcp"),
    [
        ("claude", "mcp__hearth__github__merge", {}, None, ("hearth", "github__merge")),
        ("codex", "mcp__hearth__time", {}, None, ("hearth", "time")),
        ("claude", "mcp__", {}, None, None),
        ("claude", "mcp__hearth", {}, None, None),
        ("claude", "mcp__hearth__", {}, None, None),
        ("claude", "ReadMcpResourceTool", {"server": "hearth", "uri": "x:y"}, None, ("hearth", "ReadMcpResourceTool")),
        ("claude", "ListMcpResourcesTool", {}, None, None),
        ("gemini", "mcp_hearth_time", {}, {"server_name": "hearth", "tool_name": "time"}, ("hearth", "time")),
        ("gemini", "mcp_hearth_time", {}, None, None),
        ("gemini", "mcp__hearth__time", {}, None, None),
    ],
)
def test_a_tool_of_an_mcp_server_is_told_by_the_clients_name_of_the_server(
    client: str, tool: str, arguments: Any, context: Any, mcp: tuple[str, str] | None
) -> None:
    call = read(client, tool, arguments, mcp_context=context)
    assert (call.tool, call.mcp) == (tool, mcp)


def test_an_mcp_context_that_names_no_server_is_refused() -> None:
    with pytest.raises(HookFormatError, match="mcp_context"):
        read("gemini", "mcp_x_y", {}, mcp_context={"server_name": "x"})
