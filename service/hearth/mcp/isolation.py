"""Who may share a process of a server: the policy behind `isolation = "auto"`. Pure: values in, a mode out.

    shared < workspace < session      everybody, the sessions of one folder, one session

A mode is raised by what a server turns out to do and never lowered: to mix two clients up is worse than a process more.
`hearth.upstreams.learned` remembers what was raised.
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
# From the one that shares most.
MODES: tuple[Mode, ...] = (SHARED, WORKSPACE, SESSION)

# The server asked for roots: it works in the folders of a client. All sessions of one workspace have the same.
ROOTS: Event = "roots"
# It samples or elicits: it talks with one client in the midst of a call, and of several it cannot say with which.
QUESTION: Event = "question"

# Words in a package's name, each between dashes. What is held in the memory of such a server, and would be mixed up:
_KNOWN: dict[Mode, tuple[str, ...]] = {
    SESSION: (
        # the open pages of a browser
        *("playwright", "puppeteer", "selenium", "webdriver", "browser", "browsers", "browserbase", "browserbasehq"),
        *("browsermcp", "browserless", "stagehand", "chrome", "chromium", "firefox", "devtools", "camoufox"),
        # a device, picked by a call for those that follow
        *("appium", "mobile-mcp", "android", "xcodebuildmcp", "ios-simulator"),
        # variables and running programs
        *("repl", "jupyter", "notebook", "ipython", "ipykernel", "pyodide", "interpreter", "matlab", "octave"),
        *("terminal", "tmux", "iterm", "pty", "shell", "ssh", "desktop-commander", "gdb", "lldb", "debugger", "windbg"),
        # a train of thought
        *("sequential-thinking", "sequentialthinking", "sequential-thinking-tools"),
    ),
    WORKSPACE: (
        # one project's files, index or plan
        *("filesystem", "serena", "lsp", "language-server", "code-index", "repomix", "codebase", "task-master"),
        *("memory-bank", "codex", "claude", "claude-code", "aider"),
    ),
}
# Relative to a repository: to the working directory, unless they are told which one.
_OF_A_REPOSITORY = ("git",)

# Other clients' names for the folder that is worked in.
_WORKSPACE_VARIABLE = re.compile(r"\$\{(env:)?(workspaceFolder|workspaceRoot|CLAUDE_PROJECT_DIR|PWD)[}:]")
# A dot or two as a path, alone, or as the value of an option, a mount or a word inside a shell's text.
_RELATIVE = re.compile(r"(^|[=,:\s\"'])\.{1,2}($|[/\\:,\s\"'])")
_ABSOLUTE = re.compile(r"[/~\\]|[A-Za-z]:[/\\]|\$\{")


def initial(
    command: str | None,
    args: Sequence[str] = (),
    cwd: str | None = None,
    url: str | None = None,
    project_scope: bool = False,
) -> Mode:
    """The mode that `auto` begins with. Entries as configured, references unresolved.

    `project_scope` says that the entry stands in a file of one project.
    """
    words = [word for word in (command, *args, cwd, url) if word]
    known = _known_mode(command, args) if command else SHARED
    if project_scope or any(map(_WORKSPACE_VARIABLE.search, words)) or _is_relative(command, args, cwd):
        return stricter(known, WORKSPACE)
    return known


def raised(mode: Mode, event: Event) -> Mode:
    """The mode of a server after it did this."""
    return stricter(mode, SESSION if event == QUESTION else WORKSPACE)


def stricter(one: Mode, other: Mode) -> Mode:
    """Of two modes, the one that shares less."""
    return max(one, other, key=MODES.index)


def _known_mode(command: str, args: Sequence[str]) -> Mode:
    names = ["-" + re.sub(r"[^a-z0-9]+", "-", name).strip("-") + "-" for name in packages(command, args)]
    for mode in reversed(MODES):
        if any(f"-{word}-" in name for name in names for word in _KNOWN.get(mode, ())):
            return mode
    of_a_repository = any(f"-{word}-" in name for name in names for word in _OF_A_REPOSITORY)
    return WORKSPACE if of_a_repository and not any(map(_ABSOLUTE.match, args)) else SHARED


def _is_relative(command: str | None, args: Sequence[str], cwd: str | None) -> bool:
    """Whether what is run, or what it is told to work on, depends on the folder it is started in."""
    if not command:
        return False
    anchor = folder(command, args) or cwd
    if anchor:
        # Everything else is relative to that one.
        return not _ABSOLUTE.match(anchor)
    is_path = "/" in command or "\\" in command
    return (
        (is_path and not _ABSOLUTE.match(command))
        or any(map(_RELATIVE.search, args))
        or any(not _ABSOLUTE.match(script) and "://" not in script for script in scripts(command, args))
    )
