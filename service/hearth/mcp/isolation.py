"""Who may share a process of a server: the policy behind `isolation = "auto"`. Pure: values in, a mode out.

    shared < workspace < session      everybody, the sessions of one folder, one session

A mode is raised by what a server turns out to do and never lowered: to mix two clients up is worse than a process more.
`hearth.upstreams.traits` remembers what was raised.
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

# Words in a package's name, each between dashes, by what is held in the memory of such a server and would be mixed up.
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
# Relative to a repository: to the working directory, unless they are told which one.
_OF_A_REPOSITORY = ("git",)
_IN_A_REPOSITORY = "it works on the repository that it is started in"

OF_A_PROJECT = "it stands in a project's file"
RELATIVE = "it depends on the folder that it is started in"
NOTHING_KNOWN = "nothing is known that it keeps for one client"

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
    return explained(command, args, cwd, url, project_scope)[0]


def explained(
    command: str | None,
    args: Sequence[str] = (),
    cwd: str | None = None,
    url: str | None = None,
    project_scope: bool = False,
) -> tuple[Mode, str]:
    """The same, and why: a phrase for people."""
    words = [word for word in (command, *args, cwd, url) if word]
    mode, reason = _known(command, args) if command else (SHARED, NOTHING_KNOWN)
    if mode != SHARED:
        return mode, reason
    if any(map(_WORKSPACE_VARIABLE.search, words)) or _is_relative(command, args, cwd):
        return WORKSPACE, RELATIVE
    return (WORKSPACE, OF_A_PROJECT) if project_scope else (mode, reason)


def raised(mode: Mode, event: Event) -> Mode:
    """The mode of a server after it did this."""
    return stricter(mode, SESSION if event == QUESTION else WORKSPACE)


def stricter(one: Mode, other: Mode) -> Mode:
    """Of two modes, the one that shares less."""
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
