"""Tools of clients under one name each, whatever the client calls them. No I/O.

    canonical         Claude Code               Codex              Gemini CLI                argument
    Bash              Bash, Monitor (command)   Bash               run_shell_command         command
    Read              Read, NotebookRead        view_image         read_file                 file_path
    Edit              Edit, NotebookEdit, …     apply_patch        replace                   file_path
    Write             Write                     apply_patch        write_file                file_path
    Glob, Grep, LS    Glob, Grep, LS                               glob, grep_search, …      path
    WebFetch, -Search the same                                     web_fetch, …

Any other tool keeps its own name. A patch of Codex is one use for each file that it names.
"""

import json
import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from hearth.errors import HookFormatError

# Files that one patch may touch. Each is decided by itself, and the client waits meanwhile.
PATCH_FILES_LIMIT = 100


class ToolUse(NamedTuple):
    """One use of a client's own tool, under its canonical name, with its arguments as JSON with canonical keys."""

    tool: str
    arguments: bytes


# --- MCP tools

_MCP_PREFIX = "mcp__"
# Name under which `hearth connect` adds the bridge to a client.
BRIDGE_NAME = "hearth"
# Tools of clients that read from an MCP server by its name.
RESOURCE_TOOLS = frozenset(
    {
        *("ListMcpResourcesTool", "ReadMcpResourceTool", "ReadMcpResourceDirTool"),
        *("list_mcp_resources", "list_mcp_resource_templates", "read_mcp_resource"),
    }
)


def mcp_tool(client: str, tool: str, arguments: Mapping[str, Any], context: object) -> tuple[str, str] | None:
    """Return the client's name of an MCP server and the tool there, for a tool that reaches one."""
    if tool in RESOURCE_TOOLS:
        server = arguments.get("server")
        return (server, tool) if isinstance(server, str) and server else None
    if client == "gemini":
        # `mcp_SERVER_TOOL` could be split in several ways; Gemini CLI says separately which server it means.
        if not isinstance(context, dict):
            return None
        server, name = context.get("server_name"), context.get("tool_name")
        if not isinstance(server, str) or not isinstance(name, str):
            raise HookFormatError("'mcp_context' in the hook's input names no server and tool")
        return server, name
    if not tool.startswith(_MCP_PREFIX):
        return None
    server, separator, name = tool.removeprefix(_MCP_PREFIX).partition("__")
    return (server, name) if server and separator and name else None


# Characters of names that Codex writes as `_`. Claude Code keeps the hyphen, and changes dots and spaces likewise.
_CHANGED = re.compile(r"[^A-Za-z0-9_]")
# Codex cuts the whole name of a tool to 64 characters, or a few less, and ends it with a hash.
_UNCUT_CHARACTERS = 60
_CUT = re.compile(r"(.{24})[0-9a-f]{40}|(.{24,})_[0-9a-f]{12}")


def plain_name(name: str) -> str:
    """Return the name of an MCP server or a tool as the client writes it that changes the most characters."""
    return _CHANGED.sub("_", name)


def is_written(server: str, name: str, tools: Iterable[str]) -> bool:
    """Tell whether a client may write the name of one of the server's tools like this."""
    prefix = plain_name(f"{_MCP_PREFIX}{server}__")
    called = prefix + plain_name(name)
    cut = _CUT.fullmatch(called)
    head = (cut[1] or cut[2]) if cut else None
    return any(
        whole == called or (head is not None and len(whole) > _UNCUT_CHARACTERS and whole.startswith(head))
        for whole in (prefix + plain_name(tool) for tool in tools)
    )


# --- the client's own tools


class _Canonical(NamedTuple):
    """Canonical name of a tool, and the client's keys that have another name there."""

    tool: str
    keys: Mapping[str, str] = {}


_IN_FOLDER = {"dir_path": "path"}
_TOOLS: dict[str, dict[str, _Canonical]] = {
    "claude": {
        "MultiEdit": _Canonical("Edit"),
        "NotebookEdit": _Canonical("Edit", {"notebook_path": "file_path"}),
        "NotebookRead": _Canonical("Read", {"notebook_path": "file_path"}),
    },
    "codex": {
        "shell": _Canonical("Bash", {"cmd": "command"}),
        "exec_command": _Canonical("Bash", {"cmd": "command"}),
        "local_shell": _Canonical("Bash", {"cmd": "command"}),
        "view_image": _Canonical("Read", {"path": "file_path"}),
    },
    "gemini": {
        "run_shell_command": _Canonical("Bash"),
        "read_file": _Canonical("Read", {"absolute_path": "file_path"}),
        "write_file": _Canonical("Write"),
        "replace": _Canonical("Edit"),
        "list_directory": _Canonical("LS", _IN_FOLDER),
        "glob": _Canonical("Glob", _IN_FOLDER),
        "grep_search": _Canonical("Grep", _IN_FOLDER),
        "search_file_content": _Canonical("Grep", _IN_FOLDER),
        "web_fetch": _Canonical("WebFetch"),
        "google_web_search": _Canonical("WebSearch"),
    },
}
_NETWORK_ACCESS = "network-access "


def uses(client: str, tool: str, arguments: Mapping[str, Any], cwd: str) -> list[ToolUse]:
    """Return the uses of tools that one call stands for, at least one. Raises HookFormatError."""
    if client == "codex" and tool == "apply_patch":
        return _patched_files(arguments)
    if client == "claude" and tool == "Monitor" and "command" in arguments:
        # A command of the shell whose output is watched.
        tool = "Bash"
    canonical = _TOOLS[client].get(tool, _Canonical(tool))
    renamed = _renamed(arguments, canonical.keys)
    if canonical.tool == "Bash":
        renamed = _shell_arguments(renamed, cwd)
    return [ToolUse(canonical.tool, encoded(renamed))]


def _renamed(arguments: Mapping[str, Any], keys: Mapping[str, str]) -> dict[str, Any]:
    found = {keys.get(key, key): value for key, value in arguments.items()}
    if len(found) != len(arguments):
        twice = next(new for old, new in keys.items() if old in arguments and new in arguments)
        raise HookFormatError(f"the tool's arguments have {twice!r} twice, under two names")
    return found


def _shell_arguments(arguments: dict[str, Any], cwd: str) -> dict[str, Any]:
    """Return the arguments without the description, which does nothing, and with the folder as part of the command."""
    description = arguments.get("description")
    if not (isinstance(description, str) and description.startswith(_NETWORK_ACCESS)):
        # Codex asks again, with this mark, when the sandbox stopped a command's connection: that is another question.
        arguments.pop("description", None)
    folder = arguments.pop("dir_path", None)
    command = arguments.get("command")
    if folder is None or folder in ("", ".", cwd):
        return arguments
    if not isinstance(folder, str) or not isinstance(command, str):
        raise HookFormatError("the folder of a shell command is not a text")
    # Paths in the command are relative to that folder. Said in shell, so that the decision sees what will run.
    return {**arguments, "command": f"cd {shlex.quote(folder)} && {command}"}


_PATCH_LINES = {
    "*** Add File: ": "Write",
    "*** Update File: ": "Edit",
    "*** Delete File: ": "Edit",
    "*** Move to: ": "Write",
}


def _patched_files(arguments: Mapping[str, Any]) -> list[ToolUse]:
    """Return one use for each file that a patch names. More lines count than Codex's parser takes: never fewer."""
    patch = arguments.get("command")
    if not isinstance(patch, str):
        return [ToolUse("apply_patch", encoded(arguments))]
    files: dict[tuple[str, str], None] = {}
    for line in patch.splitlines():
        for mark, tool in _PATCH_LINES.items():
            if line.strip().startswith(mark):
                files[tool, line.strip().removeprefix(mark).strip()] = None
    if not files:
        return [ToolUse("apply_patch", encoded(arguments))]
    if len(files) > PATCH_FILES_LIMIT:
        raise HookFormatError(f"the patch names {len(files)} files; the limit is {PATCH_FILES_LIMIT}")
    # The whole patch belongs to each use: an approval of one must not serve another patch of the same file.
    return [ToolUse(tool, encoded({"file_path": path, "patch": patch})) for tool, path in files]


def encoded(arguments: Mapping[str, Any]) -> bytes:
    """Return arguments as JSON, the same bytes for the same values."""
    return json.dumps(arguments, separators=(",", ":"), sort_keys=True).encode()
