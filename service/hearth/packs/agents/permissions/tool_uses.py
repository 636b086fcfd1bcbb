"""Uses of tools that a permission request stands for, in the names of the policy. Pure.

    told by            tool of the policy
    the tool's name    as in the client's hooks (`policy.hook_tools`)
    kind execute       Bash, with the command of the raw input, and with whatever else is in there
    kind edit          Edit or Write, once for each path in the raw input, the locations and the changes
    kind delete, move  Edit or Write, likewise
    kind read          Read, for each path
    kind search        Grep, where the raw input has a pattern
    kind fetch         WebFetch, with the URL of the raw input

No use: the request is asked about. The title is text for display, and tells nothing.
"""

import shlex
from collections.abc import Callable, Mapping
from typing import Any

from hearth.packs.agents import acp
from hearth.packs.agents.acp_updates import Members, object_of, objects_of, text_of
from hearth.policy import hook_tools
from hearth.policy.hook_tools import ToolUse

# Name of the bridge that Hearth gives to its agents, and the clients' prefixes for its tools.
_BRIDGE = "hearth"
_OWN_PREFIX = f"mcp__{_BRIDGE}__"
_GEMINI_PREFIX = f"mcp_{_BRIDGE}_"
# Packs whose tools are about the agents themselves: an agent may always use those that its role has.
_TEAM_PACKS = ("self-id", "team", "agents")
_PATH_KEYS = ("file_path", "path", "filePath", "absolute_path", "notebook_path", "abs_path")
_FOLDER_KEYS = ("cwd", "workdir", "directory")
# Tools that the policy has for the changes of a file.
_CHANGES = frozenset({"Edit", "Write", "apply_patch"})
# Paths of one request; each is decided by itself.
PATHS_LIMIT = 100


def is_own_tool(
    tool_client: str, tool_call: Members, packs: Mapping[str, object] | None, has_tool: Callable[[str], bool]
) -> bool:
    """Tell whether a tool reaches Hearth, which decides about it: its call goes through the hub.

    With a policy (`packs` None) that holds for every tool. Without one, only tools of the packs for agents need no
    permission: the others are servers that the person has configured, and asked this agent to ask about.

    `has_tool` tells whether the agent's session has a tool: `mcp__hearth__x__run` may be of a server `hearth__x`.
    """
    name = _own_name(tool_client, tool_call)
    if name is None or not has_tool(name):
        return False
    return packs is None or any(pack in packs and name.startswith(f"{pack}__") for pack in _TEAM_PACKS)


def _own_name(tool_client: str, tool_call: Members) -> str | None:
    """Return the name of a tool of the bridge, as the bridge lists it; None for any other tool."""
    name = acp.tool_name(tool_call) or ""
    if name.startswith(_OWN_PREFIX):
        return name.removeprefix(_OWN_PREFIX)
    if tool_client == "codex" and object_of(tool_call.get("_meta")).get("is_mcp_tool_approval") is True:
        raw = object_of(tool_call.get("rawInput"))
        return text_of(raw.get("tool")) if raw.get("server") == _BRIDGE else None
    if tool_client == "gemini":
        # `mcp_SERVER_TOOL__CALL` is the only place of the name. Another server's could begin alike: only the packs'
        # own names are taken for what they say.
        id = text_of(tool_call.get("toolCallId")) or ""
        found = id.removeprefix(_GEMINI_PREFIX).rpartition("__")[0] if id.startswith(_GEMINI_PREFIX) else ""
        return next((found for pack in _TEAM_PACKS if found.startswith(f"{pack}__")), None)
    return None


def uses_of(tool_client: str, tool_call: Members, cwd: str) -> list[ToolUse]:
    """Return the uses of tools that a request stands for; none if that is not known. Raises HookFormatError."""
    raw = object_of(tool_call.get("rawInput"))
    name = acp.tool_name(tool_call)
    named = hook_tools.uses(tool_client, name, raw, cwd) if name and tool_client else []
    if named and raw:
        return named
    handler = _BY_KIND.get(text_of(tool_call.get("kind")) or "")
    found = handler(tool_call, raw, cwd) if handler else []
    # Without an input the kind may tell more of the tool that is named, and does not make it another one.
    tools = {use.tool for use in named}
    known = _CHANGES if tools & _CHANGES else tools
    return found if not named or (found and all(use.tool in known for use in found)) else named


def _execute(tool_call: Members, raw: Members, cwd: str) -> list[ToolUse]:
    command = raw.get("command") or raw.get("cmd")
    if isinstance(command, list) and command and all(isinstance(word, str) for word in command):
        command = shlex.join(command)
    if not isinstance(command, str) or not command.strip():
        return []
    used = {"description", "command" if raw.get("command") else "cmd"}
    folder_key = next((key for key in _FOLDER_KEYS if text_of(raw.get(key))), None)
    if folder_key is not None:
        used.add(folder_key)
        if (folder := raw[folder_key]) != cwd:
            command = f"cd {shlex.quote(folder)} && {command}"
    # The rest, such as an environment, may change what the command does: no grant covers what is not listed.
    rest = {key: value for key, value in raw.items() if key not in used and value is not None}
    return [ToolUse("Bash", hook_tools.encoded({**rest, "command": command}))]


def _paths(tool_call: Members, raw: Members) -> dict[str, bool]:
    """Return the paths that a request names, each with whether the file is new."""
    found: dict[str, bool] = {}
    for key in _PATH_KEYS:
        if path := text_of(raw.get(key)):
            found[path] = "content" in raw
    for block in objects_of(tool_call.get("content")):
        path = text_of(block.get("path"))
        if block.get("type") == "diff" and path:
            found[path] = block.get("oldText") is None
    for place in objects_of(tool_call.get("locations")):
        if path := text_of(place.get("path")):
            found.setdefault(path, False)
    return found if len(found) <= PATHS_LIMIT else {}


def _edit(tool_call: Members, raw: Members, cwd: str) -> list[ToolUse]:
    # The whole input belongs to each use: an approval of one must not serve another change of the same file.
    change: dict[str, Any] = {"input": raw} if raw else {"change": tool_call.get("content")}
    return [
        ToolUse("Write" if is_new else "Edit", hook_tools.encoded({"file_path": path, **change}))
        for path, is_new in _paths(tool_call, raw).items()
    ]


def _read(tool_call: Members, raw: Members, cwd: str) -> list[ToolUse]:
    return [ToolUse("Read", hook_tools.encoded({"file_path": path})) for path in _paths(tool_call, raw)]


def _search(tool_call: Members, raw: Members, cwd: str) -> list[ToolUse]:
    if text_of(raw.get("pattern")) is None:
        return []
    return [ToolUse("Grep", hook_tools.encoded({"pattern": raw["pattern"], "path": text_of(raw.get("path")) or cwd}))]


def _fetch(tool_call: Members, raw: Members, cwd: str) -> list[ToolUse]:
    url = text_of(raw.get("url"))
    return [ToolUse("WebFetch", hook_tools.encoded(raw))] if url else []


_BY_KIND = {
    "execute": _execute,
    "edit": _edit,
    "delete": _edit,
    "move": _edit,
    "read": _read,
    "search": _search,
    "fetch": _fetch,
}

__all__ = ["ToolUse", "is_own_tool", "uses_of"]
