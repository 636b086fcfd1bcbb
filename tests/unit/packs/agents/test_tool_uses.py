"""Permission requests as uses of tools, by everything but their titles."""

import json
from typing import Any

import pytest

from hearth.packs.agents.permissions.tool_uses import is_own_tool, uses_of

# Tells whether the agent's session has a tool.
HAS_TOOL = {"github__delete_repository", "self-id__set_title", "team__send_message"}.__contains__


def uses(client: str = "", **call: Any) -> list[tuple[str, dict[str, Any]]]:
    return [(use.tool, json.loads(use.arguments)) for use in uses_of(client, {"toolCallId": "1", **call}, "/work")]


def test_the_tools_own_name_tells_most() -> None:
    raw = {"command": "git push", "description": "Push"}
    call = {"_meta": {"claudeCode": {"toolName": "Bash"}}, "kind": "read", "rawInput": raw}
    assert uses("claude", **call) == [("Bash", {"command": "git push"})]
    named = {"name": "run_shell_command", "kind": "execute", "rawInput": {"command": "ls", "dir_path": "/tmp"}}
    assert uses("gemini", **named) == [("Bash", {"command": "cd /tmp && ls"})]


@pytest.mark.parametrize(
    ("kind", "raw", "found"),
    [
        ("execute", {"command": "ls -l"}, [("Bash", {"command": "ls -l"})]),
        ("execute", {"command": ["sh", "-c", "a b"]}, [("Bash", {"command": "sh -c 'a b'"})]),
        ("execute", {"command": "ls", "cwd": "/other dir"}, [("Bash", {"command": "cd '/other dir' && ls"})]),
        ("execute", {"command": "ls", "cwd": "/work"}, [("Bash", {"command": "ls"})]),
        ("execute", {"cmd": "ls", "workdir": "/a", "description": "x"}, [("Bash", {"command": "cd /a && ls"})]),
        ("execute", {"command": "ls", "env": {"A": "b"}}, [("Bash", {"command": "ls", "env": {"A": "b"}})]),
        ("execute", {"command": "ls", "cwd": ["/a"]}, [("Bash", {"command": "ls", "cwd": ["/a"]})]),
        ("execute", {"command": " "}, []),
        ("execute", {"command": 7}, []),
        ("read", {"file_path": "/etc/hosts"}, [("Read", {"file_path": "/etc/hosts"})]),
        ("fetch", {"url": "https://example.org"}, [("WebFetch", {"url": "https://example.org"})]),
        ("fetch", {}, []),
        ("search", {"pattern": "x", "path": "/a"}, [("Grep", {"pattern": "x", "path": "/a"})]),
        ("search", {"query": "x"}, []),
        ("other", {"command": "ls"}, []),
        ("think", {}, []),
    ],
)
def test_the_kind_and_the_raw_input_tell_it_otherwise(kind: str, raw: Any, found: list[Any]) -> None:
    assert uses(kind=kind, rawInput=raw, title="ls") == found


def test_a_named_tool_without_an_input_is_no_other_tool() -> None:
    named = {"_meta": {"claudeCode": {"toolName": "Bash"}}, "locations": [{"path": "/work/a"}]}
    assert uses("claude", **named, kind="read") == [("Bash", {})]
    edit = {"_meta": {"claudeCode": {"toolName": "Edit"}}, "locations": [{"path": "/work/a"}]}
    (found,) = uses("claude", **edit, kind="edit")
    assert (found[0], found[1]["file_path"]) == ("Edit", "/work/a")
    assert uses("claude", **edit) == [("Edit", {})]


def test_every_file_of_an_edit_is_a_use_of_its_own() -> None:
    diffs = [
        {"type": "diff", "path": "/work/new", "oldText": None, "newText": "x"},
        {"type": "diff", "path": "/work/old", "oldText": "y", "newText": "x"},
    ]
    found = uses(kind="edit", content=diffs, locations=[{"path": "/work/third"}])
    assert [(tool, arguments["file_path"]) for tool, arguments in found] == [
        ("Write", "/work/new"), ("Edit", "/work/old"), ("Edit", "/work/third"),
    ]  # fmt: skip


def test_two_edits_of_one_file_have_two_digests() -> None:
    first, second = ({"file_path": "/a", "new_string": text} for text in "xy")
    assert uses(kind="edit", rawInput=first) != uses(kind="edit", rawInput=second)


def test_a_title_tells_nothing() -> None:
    assert uses(title="Bash(ls)") == uses(title="`rm -rf /`", kind="execute") == []


def test_more_paths_than_can_be_decided_are_asked_about() -> None:
    assert uses(kind="edit", locations=[{"path": f"/{number}"} for number in range(101)]) == []


def test_tools_of_the_bridge_need_no_permission_where_the_hub_decides() -> None:
    def own(name: str, packs: Any) -> bool:
        return is_own_tool("claude", {"_meta": {"claudeCode": {"toolName": name}}}, packs, HAS_TOOL)

    assert own("mcp__hearth__github__delete_repository", None)
    assert own("mcp__hearth__self-id__set_title", {"self-id": 1})
    # Without a policy, other servers are what the agent was told to ask about.
    assert not own("mcp__hearth__github__delete_repository", {"self-id": 1})
    assert not own("mcp__hearth__team__send_message", {"self-id": 1})
    assert not own("mcp__other__set_title", None)
    assert not own("mcp__hearth__github__run", None)
    assert not own("mcp__hearth__x__run", None)
    assert not own("mcp__hearth__agents__run", {"agents": 1})
    assert not is_own_tool("claude", {"title": "mcp__hearth__x"}, None, HAS_TOOL)


def test_tools_of_the_bridge_are_known_in_the_words_of_each_client() -> None:
    packs: Any = {"self-id": 1}
    asked = {"_meta": {"is_mcp_tool_approval": True}, "rawInput": {"server": "hearth", "tool": "self-id__set_title"}}
    assert is_own_tool("codex", asked, packs, HAS_TOOL)
    assert not is_own_tool("codex", {**asked, "_meta": {}}, packs, HAS_TOOL)
    other = {"server": "other", "tool": "self-id__set_title"}
    assert not is_own_tool("codex", {**asked, "rawInput": other}, packs, HAS_TOOL)
    assert is_own_tool("gemini", {"toolCallId": "mcp_hearth_self-id__set_title__call_1"}, packs, HAS_TOOL)
    assert not is_own_tool("gemini", {"toolCallId": "mcp_hearth_other_tool__call_1"}, None, HAS_TOOL)
    assert not is_own_tool("gemini", {"toolCallId": "mcp_hearth_agents__evil_run__1"}, None, HAS_TOOL)
    assert not is_own_tool("gemini", {"toolCallId": "self-id__set_title__call_1"}, packs, HAS_TOOL)
    assert not is_own_tool("claude", {"toolCallId": "mcp_hearth_self-id__set_title__call_1"}, packs, HAS_TOOL)
