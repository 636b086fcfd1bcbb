"""Policy behind `isolation = "auto"`: which sessions may share a server's process. Pure: values in, a mode out.

    shared < workspace < session      everybody, the sessions of one folder, one session

A mode is raised by the observed behaviour of a server and never lowered: mixing up two clients is worse than one more
process. `hearth.upstreams.traits` remembers raised modes.
"""

import re
from collections.abc import Sequence
from typing import Literal

from hearth.mcp.packages import folder, packages, scripts

Mode = Literal["shared", "workspace", "session"]
Event = Literal["roots", "question"]

SHARED: Mode = "shared"
WORKSPACE: Mode = "workspace"
SESSION: Mode = "session"
# From the mode that shares most to the one that shares least.
MODES: tuple[Mode, ...] = (SHARED, WORKSPACE, SESSION)

# The server asked for roots: it works in the folders of a client. All sessions of one workspace have the same roots.
ROOTS: Event = "roots"
# The server samples or elicits: it talks with one client during a call, and cannot say with which of several.
QUESTION: Event = "question"

# Words in a package's name, each between dashes, by the state that such a server keeps in memory and would mix up.
_KNOWN: dict[Mode, dict[str, tuple[str, ...]]] = {
    SESSION: {
        "a browser keeps its open pages": (
            *("playwright", "puppeteer", "selenium", "webdriver", "browser", "browsers", "browserbase"),
            *("browserbasehq", "browsermcp", "browserless", "stagehand", "chrome", "chromium", "firefox", "devtools"),
            *("camoufox",),
        ),
        "a device is picked by one call for those that follow": (
            *("appium", "mobile-mcp", "android", "xcodebuildmcp", "ios-simulator"),
        ),
        "variables and running programs are kept": (
            *("repl", "jupyter", "notebook", "ipython", "ipykernel", "pyodide", "interpreter", "matlab", "octave"),
            *("terminal", "tmux", "iterm", "pty", "shell", "ssh", "desktop-commander", "gdb", "lldb", "debugger"),
            *("windbg",),
        ),
        "a train of thought is kept": ("sequential-thinking", "sequentialthinking", "sequential-thinking-tools"),
    },
    WORKSPACE: {
        "it works on one project": (
            *("filesystem", "serena", "lsp", "language-server", "code-index", "repomix", "codebase", "task-master"),
            *("memory-bank", "codex", "claude", "claude-code", "aider"),
        ),
    },
}
# Relative to a repository: to the working directory, unless the arguments name one.
_OF_A_REPOSITORY = ("git",)
_IN_A_REPOSITORY = "it works on the repository that it is started in"

OF_A_PROJECT = "it stands in a project's file"
RELATIVE = "it depends on the folder that it is started in"
NOTHING_KNOWN = "nothing is known that it keeps for one client"

# Other clients' names for the working folder.
_WORKSPACE_VARIABLE = re.compile(r"\$\{(env:)?(workspaceFolder|workspaceRoot|CLAUDE_PROJECT_DIR|PWD)[}:]")
# One or two dots as a path: alone, or as the value of an option, a mount, or a word inside a shell's text.
_RELATIVE = re.compile(r"(^|[=,:\s\"'])\.{1,2}($|[/\\:,\s\"'])")
_ABSOLUTE = re.compile(r"[/~\\]|[A-Za-z]:[/\\]|\$\{")


def initial(
    command: str | None,
    args: Sequence[str] = (),
    cwd: str | None = None,
    url: str | None = None,
    project_scope: bool = False,
) -> tuple[Mode, str]:
    """Return the mode that `auto` begins with, and the reason: a phrase for people.

    Takes entries as configured, references unresolved. `project_scope`: the entry stands in a file of one project.
    """
    words = [word for word in (command, *args, cwd, url) if word]
    mode, reason = _known(command, args) if command else (SHARED, NOTHING_KNOWN)
    if mode != SHARED:
        return mode, reason
    if any(map(_WORKSPACE_VARIABLE.search, words)) or _is_relative(command, args, cwd):
        return WORKSPACE, RELATIVE
    return (WORKSPACE, OF_A_PROJECT) if project_scope else (mode, reason)


def raised(mode: Mode, event: Event) -> Mode:
    """Return the mode of a server after that event."""
    return stricter(mode, SESSION if event == QUESTION else WORKSPACE)


def stricter(one: Mode, other: Mode) -> Mode:
    """Return the mode of the two that shares less."""
    return max(one, other, key=MODES.index)


def _known(command: str, args: Sequence[str]) -> tuple[Mode, str]:
    names = ["-" + re.sub(r"[^a-z0-9]+", "-", name).strip("-") + "-" for name in packages(command, args)]
    for mode in reversed(MODES):
        for reason, words in _KNOWN.get(mode, {}).items():
            if any(f"-{word}-" in name for name in names for word in words):
                return mode, reason
    of_a_repository = any(f"-{word}-" in name for name in names for word in _OF_A_REPOSITORY)
    if of_a_repository and not any(map(_ABSOLUTE.match, args)):
        return WORKSPACE, _IN_A_REPOSITORY
    return SHARED, NOTHING_KNOWN


def _is_relative(command: str | None, args: Sequence[str], cwd: str | None) -> bool:
    """Tell whether the program, or what it works on, depends on the folder that it is started in."""
    if not command:
        return False
    anchor = folder(command, args) or cwd
    if anchor:
        # Everything else is relative to that folder.
        return not _ABSOLUTE.match(anchor)
    is_path = "/" in command or "\\" in command
    return (
        (is_path and not _ABSOLUTE.match(command))
        or any(map(_RELATIVE.search, args))
        or any(not _ABSOLUTE.match(script) and "://" not in script for script in scripts(command, args))
    )
