"""Guard of the protected files: finds them in the arguments of a call that may write. Text in, a sentence out.

The guard covers clients' own tools, as hooks report them, and tools of MCP servers by the paths in their arguments.
Against a program of the same user it is a guardrail and not a boundary: a script may open any file. Reading is left to
the policy.

    Bash                 words of the command that name such a file, unless the program only reads; `hearth` itself
    Write, Edit, …       the path
    other own tools      arguments whose key means a path, and the headers of patches
    tools of servers     the same, unless the tool's name says that it reads
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from hearth.policy import shell
from hearth.policy.matchers import WRAPPERS
from hearth.policy.protected import TRIGGERS, ProtectedFiles, with_variables

SHELL_TOOL = "Bash"
# Clients' own tools that write no file.
_READING_TOOLS = frozenset({"Read", "Glob", "Grep", "LS", "WebFetch", "WebSearch", "TodoRead", "TodoWrite"})
# Clients' own tools whose other arguments are the content of a file, in which any path may be mentioned.
_WRITING_TOOLS = frozenset({"Write", "Edit", "MultiEdit", "NotebookEdit"})
# Words in the name of a server's tool that only reads.
_READING_WORD = re.compile(
    r"(?:^|[_./-])(?:cat|find|get|grep|info|list|ls|query|read|search|show|stat|view)(?:$|[_./-])", re.IGNORECASE
)
_PATH_KEY = re.compile(r"path|file|dir|folder|target|dest|uri", re.IGNORECASE)
_COMMAND_KEY = re.compile(r"command|cmd|script", re.IGNORECASE)
# Arguments of a shell tool that are for people.
_REMARKS = frozenset({"description", "justification"})
# Headers of a patch that name a file: Codex's own format, and unified diffs.
_PATCHED = re.compile(
    r"^(?:\*\*\* (?:Add|Update|Delete) File:|\*\*\* Move to:|(?:---|\+\+\+) (?:[ab]/)?)([^\n]+)$", re.MULTILINE
)
# An escape in JSON may hide a letter of a trigger.
_ESCAPE = b"\\u"
_RAW_TRIGGERS = tuple(trigger.encode() for trigger in TRIGGERS)
# Nested tables and lists in arguments that are searched; no tool has more.
_DEPTH_LIMIT = 8

# Programs that write no file of which they are told the name.
_READERS = frozenset({
    "basename", "cat", "cmp", "diff", "dirname", "du", "echo", "egrep", "fgrep", "file", "grep", "head", "jq", "ls",
    "md5sum", "printf", "pwd", "readlink", "realpath", "rg", "sha1sum", "sha256sum", "stat", "tail", "test", "wc",
})  # fmt: skip
_READING_GIT = frozenset({"add", "blame", "commit", "diff", "log", "ls-files", "show", "status"})
# Programs that change a folder together with everything in it.
_FOLDER_CHANGERS = frozenset({
    "chgrp", "chmod", "chown", "cp", "find", "git", "ln", "mv", "rename", "rm", "rmdir", "rsync", "shred", "tar",
    "trash", "unlink",
})  # fmt: skip
# Programs that are given other programs as text.
_INTERPRETER = re.compile(r"(?:python|perl|ruby|node|deno|bun|php|lua|awk|gawk|mawk|sed|osascript|pwsh)[0-9.]*")
# Verbs of Hearth that change its files, a client's or a decision; None for every argument.
_HEARTH_VERBS: Mapping[str, frozenset[str] | None] = {
    "approve": None,
    "config": frozenset({"edit", "set"}),
    "connect": None,
    "deny": None,
    "disconnect": None,
    "policy": frozenset({"apply", "init", "trust"}),
    "role": None,
    "uninstall": None,
}
# A command that only reads, although it cannot be split: it has a tilde or a glob.
_PLAIN_READING = re.compile(rf"\s*(?:{'|'.join(sorted(_READERS))})\s[^;&|<>`$()\\\n\r]*")
_BREAKS = re.compile(r"[\s;&|<>()\[\]{}=,:`'\"]+")
# Words of a command that are resolved through links; a granted command has fewer.
_RESOLVED_WORDS_LIMIT = 64


def is_guarded(server: str | None, tool: str) -> bool:
    """Tell whether a tool may write files, by its name."""
    return tool not in _READING_TOOLS if server is None else _READING_WORD.search(tool) is None


def mentions(arguments: bytes) -> bool:
    """Tell whether raw arguments may name a protected file: a quick look at every call of a server's tool."""
    lowered = arguments.lower()
    return _ESCAPE in lowered or any(trigger in lowered for trigger in _RAW_TRIGGERS)


def refusal(
    server: str | None, tool: str, values: Mapping[str, object], workspace: str | None, policy_path: str
) -> str | None:
    """Return the sentence that refuses a call; None if it writes no protected file."""
    search = _Search(ProtectedFiles(workspace, policy_path))
    if server is None and tool == SHELL_TOOL:
        found = search.in_commands(values)
    else:
        found = search.in_arguments(values, has_content=server is None and tool in _WRITING_TOOLS)
    return None if found is None else f"no agent may do this: {found}; ask a person to do it"


def _settings(path: str) -> str:
    return f"{path[:200]!a} belongs to the settings of Hearth or of a client"


class _Search:
    """Search of one call. Methods return a phrase about the protected file, or None."""

    def __init__(self, protected: ProtectedFiles) -> None:
        self._protected = protected

    # --- arguments by key

    def in_arguments(self, values: Mapping[str, object], has_content: bool) -> str | None:
        for key, text in _texts(values):
            if _PATH_KEY.search(key):
                if self._protected.include(text.removeprefix("file://")):
                    return _settings(text)
            elif not has_content:
                if _COMMAND_KEY.search(key) and (found := self.in_command(text)) is not None:
                    return found
                for path in _PATCHED.findall(text):
                    if self._protected.include(path.strip()):
                        return _settings(path.strip())
        return None

    # --- commands

    def in_commands(self, values: Mapping[str, object]) -> str | None:
        """Search every text: a client may have its command elsewhere, or as a list of words."""
        for key, text in _texts(values):
            if key not in _REMARKS and (found := self.in_command(text)) is not None:
                return found
        return None

    def in_command(self, command: str) -> str | None:
        """Search a shell command, which may read protected files."""
        try:
            commands = shell.split(command)
        except shell.Unsplittable:
            return self._in_text(command)
        for simple in commands:
            if (found := self._in_words(simple.words)) is not None:
                return found
        return None

    def _in_words(self, words: Sequence[str]) -> str | None:
        program = words[0].rpartition("/")[2]
        if program in _READERS:
            return None
        if program == "hearth" and _changes_hearth(words[1:]):
            return f"{' '.join(words[:3])[:200]!a} changes the settings of Hearth or of a client"
        if program == "git" and len(words) > 1 and words[1] in _READING_GIT:
            return None
        if self._protected.has_workspace:
            return _settings("the current folder")
        takes_programs = program in WRAPPERS or _INTERPRETER.fullmatch(program) is not None
        for index, word in enumerate(words[1:]):
            if any(self._protected.include(path, index < _RESOLVED_WORDS_LIMIT) for path in _candidates(word)):
                return _settings(word)
            if program in _FOLDER_CHANGERS and not word.startswith("-") and self._protected.lie_below(word):
                return _settings(word)
            if takes_programs and (found := self._in_text(word)) is not None:
                return found
        return None

    def _in_text(self, command: str) -> str | None:
        """Search a text that cannot be split, without its quotes, and with `\\` as a separator of Windows's paths."""
        if _PLAIN_READING.fullmatch(command):
            return None
        if self._protected.has_workspace and _BREAKS.search(command):
            return _settings("the current folder")
        command = with_variables(command)
        joined = command.replace("'", "").replace('"', "")
        texts = dict.fromkeys((command, joined, joined.replace("\\", ""), joined.replace("\\", "/")))
        for text in texts:
            pieces = dict.fromkeys(_BREAKS.split(text))
            changes_folders = not _FOLDER_CHANGERS.isdisjoint(pieces)
            for piece in pieces:
                if piece and self._protected.include(piece, through_links=False):
                    return _settings(piece)
                if changes_folders and piece.startswith(("~", "/")) and self._protected.lie_below(piece):
                    return _settings(piece)
        return None


def _texts(value: object, key: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield each text in the arguments with the key that it stands under."""
    if isinstance(value, str):
        yield key, value
    elif depth < _DEPTH_LIMIT and isinstance(value, list):
        for item in value:
            yield from _texts(item, key, depth + 1)
    elif depth < _DEPTH_LIMIT and isinstance(value, dict):
        for name, item in value.items():
            yield from _texts(item, name, depth + 1)


def _changes_hearth(words: Sequence[str]) -> bool:
    for index, word in enumerate(words):
        if word in _HEARTH_VERBS:
            inner = _HEARTH_VERBS[word]
            return inner is None or bool(inner.intersection(words[index + 1 :]))
    return False


def _candidates(word: str) -> Iterator[str]:
    """Yield the paths that a word may name: itself, and the end of `--output=PATH`, `host:PATH` or `-oPATH`."""
    yield word
    for mark in "=:@":
        if mark in word:
            yield word.rpartition(mark)[2]
    if word.startswith("-") and not word.startswith("--") and len(word) > 2:
        yield word[2:]
