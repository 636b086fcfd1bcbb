"""Guard of the protected files: finds them in the arguments of a call that may write. Text in, a sentence out.

The guard covers clients' own tools, as hooks report them, and tools of MCP servers by the paths in their arguments.
Against a program of the same user it is a guardrail and not a boundary: a script may open any file. Reading is left to
the policy.

    Bash                 words of the command that name such a file, unless the program only reads; `hearth` itself
    Write, Edit, …       the path
    other own tools      arguments whose key means a path, other texts that look like one, and the headers of patches
    tools of servers     the same, unless the tool's name says that it reads; `hearth` itself in commands
"""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence

from hearth.policy import shell
from hearth.policy.captures import PATH_CHARACTERS_LIMIT, Surroundings
from hearth.policy.matchers import WRAPPERS
from hearth.policy.protected import ProtectedFiles, candidates, globs_in, with_variables

SHELL_TOOL = "Bash"
# Clients' own tools that write no file.
_READING_TOOLS = frozenset({"Read", "Glob", "Grep", "LS", "WebFetch", "WebSearch", "TodoRead", "TodoWrite"})
# Clients' own tools whose other arguments are the content of a file, in which any path may be mentioned.
_WRITING_TOOLS = frozenset({"Write", "Edit", "MultiEdit", "NotebookEdit"})
# Words in the name of a server's tool that only reads.
_READING_WORD = re.compile(
    r"(?:^|[_./-])(?:cat|find|get|grep|info|list|ls|query|read|search|show|stat|view)(?:$|[_./-])", re.IGNORECASE
)
# Words that make it a writing one: `search_replace`, `read_and_write`.
_WRITING_WORD = re.compile(
    r"(?:^|[_./-])(?:add|append|apply|copy|create|delete|edit|insert|install|mkdir|modify|move|overwrite|patch|put"
    r"|remove|rename|replace|save|set|touch|update|upload|write)(?:$|[_./-])",
    re.IGNORECASE,
)
_PATH_KEY = re.compile(r"path|file|dir|folder|target|dest|uri", re.IGNORECASE)
# Arguments with text for people or for a file, which may mention any path.
_PROSE_KEY = re.compile(
    r"answer|body|code|comment|content|descr|label|message|note|pattern|prompt|query|question|reason|regex|replac"
    r"|search|str$|string|subject|summary|text|title",
    re.IGNORECASE,
)
# Text under any other key that may be a path: one line, and without spaces unless it begins as paths do.
_PATH_LIKE = re.compile(r"[^\s]+|(?:[/~$\\]|file:|[A-Za-z]:)[^\n\r]*")
_COMMAND_KEY = re.compile(r"command|cmd|(?<!de)(?<!sub)(?<!tran)script", re.IGNORECASE)
# Keys of tools of servers whose texts are run: commands, their words, and programs.
_RUN_KEY = re.compile(
    rf"{_COMMAND_KEY.pattern}|arg[sv]|exec|program|shell|stdin|^(?:code|input|keys|run)$", re.IGNORECASE
)
_ARGUMENTS_KEY = re.compile(r"arg[sv]", re.IGNORECASE)
# Arguments of a shell tool that are for people.
_REMARKS = frozenset({"description", "justification"})
# Headers of a patch that name a file: Codex's own format, and unified diffs.
_PATCHED = re.compile(
    r"^(?:\*\*\* (?:Add|Update|Delete) File:|\*\*\* Move to:|(?:---|\+\+\+) (?:[ab]/)?)([^\n]+)$", re.MULTILINE
)
# Beginnings of these: the search for them takes a tenth of the time of the search for a header.
_PATCH_MARKS = ("*** ", "--- ", "+++ ")
# Parts of raw JSON without which it names no protected file. An escape may hide a letter.
_TRIGGERS = (
    ".hearth", "/hearth", "\\hearth", "hearth~", ".claude", ".codex", ".gemini", ".mcp.json", "opencode", "\\u00"
)  # fmt: skip
# Raw JSON without case, with `.` for `/` and `\\`, `c` for `g`, `h` and `u`, `e` for `l`, `o` and `0`: triggers begin
# alike then, and a regular expression with a literal beginning takes half the time of others.
_FOLDED = bytes.maketrans(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ/\\ghulo0", b"abcdefccijkemnepqrstcvwxyz..ccceee")
_MENTION = re.compile(rb"\.ce(?:artc|acde|dex|mini|e)")
_DOT, _SLASH, _BACKSLASH, _TILDE = b"./\\~"
# Names in one call that are looked at closely. No granted call has more; one with more is refused.
_NAMES_LIMIT = 1000
# Programs that write no file of which they are told the name.
_READERS = frozenset({
    "basename", "cat", "cmp", "diff", "dirname", "du", "echo", "egrep", "fgrep", "file", "grep", "head", "jq", "ls",
    "md5sum", "printf", "pwd", "readlink", "realpath", "rg", "sha1sum", "sha256sum", "stat", "tail", "test", "wc",
})  # fmt: skip
# Verbs of git that write no file of the work tree, or none without its name.
_READING_GIT = frozenset({"add", "blame", "commit", "diff", "log", "ls-files", "push", "show", "status"})
# Programs that change a folder together with everything in it, or fill it.
_FOLDER_CHANGERS = frozenset({
    "7z", "bsdtar", "chgrp", "chmod", "chown", "cp", "cpio", "find", "git", "ln", "mv", "patch", "rename", "rm",
    "rmdir", "rsync", "scp", "shred", "tar", "trash", "unlink", "unrar", "unzip", "wget",
})  # fmt: skip
# `install` as a program, and not as a verb of another one.
_INSTALL = re.compile(r"(?:^|[;&|({\n]|\bsudo\b)\s*install\s")
# Programs that are given other programs as text.
_INTERPRETER = re.compile(r"(?:python|perl|ruby|node|deno|bun|php|lua|awk|gawk|mawk|sed|osascript|pwsh)[0-9.]*")
# Programs that run the program in their arguments, beside WRAPPERS and interpreters.
_LAUNCHERS = WRAPPERS | {
    *("at", "batch", "expect", "pipx", "pkexec", "runuser", "screen", "socat", "systemd-run", "tmux", "uv", "uvx")
}
# Programs that run what they are told on their input, behind a pipe.
_RUNS_INPUT = re.compile(
    r"\|&?\s*(?:(?:sudo|env|nohup|command|exec)\s+)*(?:\S*/)?"
    r"(?:(?:ba|da|z|k|fi)?sh|xargs|parallel|at|batch|ssh|su|python[0-9.]*|perl|ruby|node)(?=$|[\s;&|<>)])"
)
# Programs that expand the globs of a text.
_SHELLS = frozenset({"bash", "dash", "eval", "fish", "ksh", "parallel", "screen", "sh", "ssh", "su", "tmux", "zsh"})
_GLOB_MARK = re.compile(r"[*?\[{]|\([^()\s]*\|")
# Verbs of Hearth that change its files, a client's or a decision; None for every argument.
_HEARTH_VERBS: Mapping[str, frozenset[str] | None] = {
    **dict.fromkeys(("add", "approve", "connect", "deny", "disable", "disconnect", "enable", "import", "install")),
    **dict.fromkeys(("remove", "role", "setup", "uninstall")),
    "auth": frozenset({"login", "logout"}),
    "config": frozenset({"edit", "set"}),
    "pack": frozenset({"disable", "enable", "install"}),
    "policy": frozenset({"apply", "init", "trust", "untrust"}),
    "secret": frozenset({"remove", "set"}),
    "token": frozenset({"rotate"}),
    "tools": frozenset({"approve", "block", "unblock"}),
}
# Beginnings of a call of `hearth` in raw JSON: the verb may follow in the same text or, of a list of words, in another.
_RAW_CALL = re.compile(
    r'"hearth"|-m hearth"|(?:(?<![a-z0-9_-])|(?<=\\[nrt]))hearth\b[^\n]{0,80}?(?:\b|\\[nrt])'
    rf"(?:{'|'.join(_HEARTH_VERBS)})\b"
)
# Commands after which relative paths mean other files.
_MOVERS = frozenset({"cd", "chdir", "pushd"})
# Options of `hearth` that may stand before the verb, such as `--profile NAME`, and the verb.
_WORDS_BEFORE_VERB = 5
_TOO_MANY = f"the call has over {_NAMES_LIMIT} names to look at"
# A command that only reads, although it cannot be split: it has a tilde or a glob.
_PLAIN_READING = re.compile(rf"\s*(?:{'|'.join(sorted(_READERS))})\s[^;&|<>`$()\\\n\r]*")
_BREAKS = re.compile(r"[\s;&|<>()\[\]{}=,:`'\"]+")
# Changes of the folder in a command that cannot be split.
_MOVES_LIMIT = 8
# Words of a command that are resolved through links; a granted command has fewer.
_RESOLVED_WORDS_LIMIT = 64


def is_guarded(server: str | None, tool: str) -> bool:
    """Tell whether a tool may write files, by its name."""
    if server is None:
        return tool not in _READING_TOOLS
    return _READING_WORD.search(tool) is None or _WRITING_WORD.search(tool) is not None


def mentions(arguments: bytes) -> bool:
    """Tell whether raw arguments may name a protected file: a quick look at every call of a server's tool."""
    has_tilde = _TILDE in arguments
    if not (has_tilde or _DOT in arguments or _SLASH in arguments or _BACKSLASH in arguments):
        # Most ids and phrases: the search for a byte costs a tenth of the search for a word.
        return "hearth" in (text := arguments.decode("latin-1").lower()) and _calls_hearth(text)
    # One search for everything, because each takes as long.
    folded = arguments.translate(_FOLDED)
    is_named = b".mcp.js" in folded or b"epencede" in folded or (has_tilde and b"ceartc~" in folded)
    if not is_named and _MENTION.search(folded) is None:
        return b"ceartc" in folded and _calls_hearth(arguments.decode("latin-1").lower())
    lowered = arguments.decode("latin-1").lower()
    return any(trigger in lowered for trigger in _TRIGGERS) or _calls_hearth(lowered)


def _calls_hearth(lowered: str) -> bool:
    return _RAW_CALL.search(lowered) is not None


def refusal(
    server: str | None, tool: str, values: Mapping[str, object], around: Surroundings, policy_path: str
) -> str | None:
    """Return the sentence that refuses a call; None if it writes no protected file."""
    search = _Search(ProtectedFiles(around, policy_path))
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
        self._names = 0

    def _exceeds(self) -> bool:
        """Count one more name; tell whether there are too many."""
        self._names += 1
        return self._names > _NAMES_LIMIT

    # --- arguments by key

    def in_arguments(self, values: Mapping[str, object], has_content: bool) -> str | None:
        for key, text in _texts(values):
            if _PATH_KEY.search(key):
                if self._exceeds():
                    return _TOO_MANY
                if self._protected.include(text.removeprefix("file://")):
                    return _settings(text)
            elif not has_content:
                if _COMMAND_KEY.search(key) and (found := self.in_command(text)) is not None:
                    return found
                if (found := self._in_value(key, text)) is not None:
                    return found
                for path in _PATCHED.findall(text) if any(mark in text for mark in _PATCH_MARKS) else ():
                    if self._exceeds():
                        return _TOO_MANY
                    if self._protected.include(path.strip()):
                        return _settings(path.strip())
        return None if has_content else _call_of_hearth(values)

    def _in_value(self, key: str, text: str) -> str | None:
        """Search a text that may be a path, whatever its key means."""
        if len(text) > PATH_CHARACTERS_LIMIT or _PROSE_KEY.search(key) or not _PATH_LIKE.fullmatch(text):
            return None
        path = text.removeprefix("file://")
        if not path.startswith(("/", "~", "$")) and not self._protected.may_include(path):
            return None
        if self._exceeds():
            return _TOO_MANY
        return _settings(text) if self._protected.include(path) else None

    # --- commands

    def in_commands(self, values: Mapping[str, object]) -> str | None:
        """Search every text: a client may have its command elsewhere, or as a list of words."""
        for key, text in _texts(values):
            if key not in _REMARKS and (found := self.in_command(text)) is not None:
                return found
        return _call_of_hearth(values)

    def in_command(self, command: str) -> str | None:
        """Search a shell command, which may read protected files."""
        try:
            commands = shell.split(command)
        except shell.Unsplittable:
            return self._in_text(command, has_globs=True)
        here, feeds = self._protected, "|" in command and _RUNS_INPUT.search(command) is not None
        try:
            for simple in commands:
                if (found := self._in_words(simple.words, feeds)) is not None:
                    return found
                if simple.words[0] in _MOVERS:
                    self._protected = self._protected.seen_from(simple.words[-1] if len(simple.words) > 1 else "~")
        finally:
            self._protected = here
        return None

    def _in_words(self, words: Sequence[str], feeds: bool) -> str | None:
        """Search a simple command. `feeds`: another one of the line runs what it is told."""
        program = words[0].rpartition("/")[2]
        if program in _READERS:
            is_fed = feeds and program in ("echo", "printf")
            return self._in_text(" ".join(words[1:]), has_globs=True) if is_fed else None
        if program == "git" and _only_reads(words):
            return None
        if self._protected.has_workspace:
            return _settings("the current folder")
        if (found := _hearth_verb(shell.may_be_programs(words))) is not None:
            return found
        runs_programs = program in _LAUNCHERS
        takes_programs = runs_programs or _INTERPRETER.fullmatch(program) is not None
        has_shell = runs_programs and not _SHELLS.isdisjoint(word.rpartition("/")[2] for word in words)
        changes_folders = program in _FOLDER_CHANGERS or program == "install"
        for index, word in enumerate(words[1:]):
            for path in candidates(word):
                if self._protected.include(path, index < _RESOLVED_WORDS_LIMIT):
                    return _settings(word)
                if changes_folders and (path != word or word[0] != "-") and self._protected.lie_below(path):
                    return _settings(word)
            if takes_programs and (found := self._in_text(word, has_globs=has_shell and " " in word)) is not None:
                return found
        return None

    def _in_text(self, command: str, has_globs: bool) -> str | None:
        """Search a text that cannot be split, without its quotes, and with `\\` as a separator of Windows's paths."""
        if _PLAIN_READING.fullmatch(command):
            return None
        if self._protected.has_workspace and _BREAKS.search(command):
            return _settings("the current folder")
        command = with_variables(command)
        joined = command.replace("'", "").replace('"', "")
        texts = dict.fromkeys((command, joined, joined.replace("\\", ""), joined.replace("\\", "/")))
        for text in texts:
            pieces = _pieces(text)
            changes_folders = not _FOLDER_CHANGERS.isdisjoint(pieces) or _INSTALL.search(text) is not None
            verb = _hearth_verb(_pieces(shell.without_folder(text)))
            if (found := verb or self._in_pieces(pieces, changes_folders)) is not None:
                return found
            if has_globs and text is command and _GLOB_MARK.search(text):
                globs = globs_in(text, is_inner=not _SHELLS.isdisjoint(pieces))
                if (found := self._in_globs(globs, self._places(pieces), changes_folders)) is not None:
                    return found
        return None

    def _places(self, pieces: list[str]) -> list[ProtectedFiles]:
        """Return the protected files as seen from here, and from the folders that a text changes to."""
        moves = [after for before, after in itertools.pairwise(pieces) if before in _MOVERS][:_MOVES_LIMIT]
        return [self._protected, *map(self._protected.seen_from, moves)]

    def _in_pieces(self, pieces: list[str], changes_folders: bool) -> str | None:
        places = self._places(pieces)
        for piece in dict.fromkeys(pieces):
            path = piece[2:] if piece[0] == "-" and piece[2:3] in ("~", "/", ".") else piece
            is_folder = changes_folders and path.startswith(("~", "/"))
            if not is_folder and not self._protected.may_include(path):
                continue
            if self._exceeds():
                return _TOO_MANY
            if any(place.include(path, through_links=False) for place in places):
                return _settings(piece)
            if changes_folders and self._protected.lie_below(path):
                return _settings(piece)
        return None

    def _in_globs(self, globs: Iterator[str], places: Sequence[ProtectedFiles], changes_folders: bool) -> str | None:
        """Search words with globs: a shell puts the names of files in their place."""
        with_folders = changes_folders or len(places) > 1
        for glob in globs:
            if not any(place.may_match(glob) for place in places):
                continue
            if self._exceeds():
                return _TOO_MANY
            if any(place.match(glob, with_folders) for place in places):
                return _settings(glob)
        return None


def _texts(values: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yield each text in the arguments with the key that it stands under, however deep."""
    waiting: list[tuple[str, object]] = list(values.items())
    while waiting:
        key, value = waiting.pop()
        if isinstance(value, str):
            yield key, value
        elif isinstance(value, list):
            waiting.extend((key, item) for item in value)
        elif isinstance(value, dict):
            waiting.extend(value.items())


def _only_reads(words: Sequence[str]) -> bool:
    """Tell whether a command of git writes no file of which it is told the name; `--output` does."""
    return len(words) > 1 and words[1] in _READING_GIT and not any(word.startswith("--o") for word in words)


def _pieces(text: str) -> list[str]:
    return [piece for piece in _BREAKS.split(text) if piece]


def _hearth_verb(words: Sequence[str]) -> str | None:
    """Return a phrase about a verb of Hearth that changes something; options may stand before the verb."""
    for index, word in enumerate(words):
        if _program(word) != "hearth":
            continue
        rest = words[index + 1 : index + 1 + _WORDS_BEFORE_VERB]
        for number, verb in enumerate(rest):
            inner = _HEARTH_VERBS.get(verb, frozenset())
            if inner is None or inner.intersection(words[index + number + 2 : index + number + 4]):
                return f"`hearth {verb}` changes the settings of Hearth or of a client, or a decision"
            if number == 0 and not verb.startswith("-"):
                break
    return None


def _program(word: str) -> str:
    """Return the name of a program, as systems that ignore case and know `.exe` have it."""
    return word.lower().replace("\\", "/").rpartition("/")[2].removesuffix(".exe")


def _call_of_hearth(values: Mapping[str, object]) -> str | None:
    """Return a phrase about a verb of Hearth in arguments that a tool of a server may run.

    The words of one command may be under several keys: the program first, then its arguments.
    """
    programs: list[str] = []
    arguments: list[str] = []
    for key, text in reversed([*_texts(values)]):
        if _ARGUMENTS_KEY.search(key):
            arguments += text.split()
        elif _RUN_KEY.search(key):
            if (found := _call_in_text(text)) is not None:
                return found
            programs += text.split()
    words = [*programs, *arguments][:_NAMES_LIMIT]
    return _hearth_verb(shell.may_be_programs(words)) if words and _takes_verb(words[0]) else None


def _call_in_text(text: str) -> str | None:
    """Return a phrase about a verb of Hearth in a text that is run; quotes of other programs are left alone."""
    if "hearth" not in text.lower():
        return None
    try:
        commands = [simple.words for simple in shell.split(text)]
    except shell.Unsplittable:
        return _hearth_verb(_pieces(shell.without_folder(text)))
    for words in commands:
        text = " ".join(shell.may_be_programs(words))
        if _takes_verb(words[0]) and (found := _hearth_verb(_pieces(text))) is not None:
            return found
    return None


def _takes_verb(word: str) -> bool:
    """Tell whether a program is Hearth, or runs another one that is named in its arguments."""
    program = _program(word)
    return program == "hearth" or program in _LAUNCHERS or _INTERPRETER.fullmatch(program) is not None
