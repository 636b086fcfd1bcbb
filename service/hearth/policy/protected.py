"""Files that no agent writes, whatever the policy says: Hearth's config and state, `.hearth/`, clients' hook settings.

An agent that could write them would grant itself everything. This guards against a client's own tools, as its hooks
report them; against a shell of the same user it is a guardrail and not a boundary (docs/policy.md). Reading is left
to the policy. Names are compared as the most lenient file system does: without case, widths and ignorable characters.
"""

import os
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from hearth import paths
from hearth.policy import shell

SHELL_TOOL = "Bash"
# Tools of clients that write no file.
_READING_TOOLS = frozenset({"Read", "Glob", "Grep", "LS", "WebFetch", "WebSearch", "TodoRead", "TodoWrite"})
# Tools whose other arguments are the content of a file, in which any path may be mentioned.
_WRITING_TOOLS = frozenset({"Write", "Edit", "MultiEdit", "NotebookEdit"})
_PATH_KEY = re.compile(r"path|file|dir|folder|target|dest", re.IGNORECASE)
# Headers of a patch that name a file: Codex's own format, and unified diffs.
_PATCHED = re.compile(
    r"^(?:\*\*\* (?:Add|Update|Delete) File: |\*\*\* Move to: |(?:---|\+\+\+) (?:[ab]/)?)(.+?)\s*$", re.MULTILINE
)

# Folders of clients, and the files in them that hold hooks or switch them off.
_CLIENT_FOLDERS = frozenset({".claude", ".codex", ".gemini"})
_HOOK_SETTINGS = re.compile(
    r"\.claude/(?:managed-)?settings[^/]*\.json|\.codex/(?:config\.toml|hooks\.json|requirements\.toml)"
    r"|\.gemini/settings[^/]*\.json"
)
_OWN_FOLDER = re.compile(r"\.hearth|hearth~[0-9]+")
# Variables of clients for another folder than the one in the home.
_CLIENT_VARIABLES = {"CLAUDE_CONFIG_DIR": ".claude", "CODEX_HOME": ".codex"}

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
# Verbs of Hearth that change its files, or a client's; None for every argument.
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
_BREAKS = re.compile(r"[\s;&|<>()=,:`]+")
# Words of a command that are resolved through links; a granted command has fewer.
_RESOLVED_WORDS_LIMIT = 64


def is_guarded(tool: str) -> bool:
    """Tell whether a client's own tool may write files."""
    return tool not in _READING_TOOLS


def refusal(tool: str, values: Mapping[str, object], workspace: str | None, policy_path: str) -> str | None:
    """Return the sentence that refuses a call of a client's own tool; None if it writes no protected file."""
    check = _Check(workspace, policy_path)
    if tool == SHELL_TOOL:
        command = values.get("command")
        found = check.in_command(command) if isinstance(command, str) else None
    else:
        found = next(filter(check.is_protected, _paths(tool, values)), None)
    if found is None:
        return None
    return f"no agent may change {found!a}: it is part of Hearth's or a client's own settings; ask a person to do it"


def _paths(tool: str, values: Mapping[str, object]) -> Iterator[str]:
    for key, value in values.items():
        texts = [item for item in (value if isinstance(value, list) else [value]) if isinstance(item, str)]
        if _PATH_KEY.search(key):
            yield from texts
        elif tool not in _WRITING_TOOLS:
            for text in texts:
                yield from _PATCHED.findall(text)


class _Check:
    """Search for protected files in one call."""

    def __init__(self, workspace: str | None, policy_path: str) -> None:
        self._workspace = workspace or "/"
        self._policy_path = policy_path

    def is_protected(self, path: str) -> bool:
        """Tell whether a path leads to a protected file, as it is written or through links."""
        return self._leads_to_protected(path, resolve=True)

    def _leads_to_protected(self, path: str, resolve: bool) -> bool:
        try:
            whole = os.path.normpath(os.path.join(self._workspace, _expanded(path)))
            if self._is_inside(whole):
                return True
            real = os.path.realpath(os.path.join(self._workspace, _expanded(path))) if resolve else whole
            return real != whole and self._is_inside(real)
        except (OSError, ValueError):  # a NUL, or half of a surrogate pair
            return False

    def _is_inside(self, whole: str) -> bool:
        folded = _folded(whole)
        parts = folded.split("/")
        if any(map(_OWN_FOLDER.fullmatch, parts)) or folded == _folded(self._policy_path):
            return True
        if len(parts) > 1 and _HOOK_SETTINGS.fullmatch("/".join(parts[-2:])):
            return True
        return any(folded == root or folded.startswith(root + "/") for root in _roots())

    def _holds_protected(self, path: str) -> bool:
        """Tell whether a folder has protected files in it."""
        try:
            whole = os.path.normpath(os.path.join(self._workspace, _expanded(path)))
            folded = _folded(whole)
            if folded.rpartition("/")[2] in _CLIENT_FOLDERS or any(_is_below(root, folded) for root in _roots()):
                return True
            return os.path.isdir(os.path.join(whole, ".hearth"))
        except (OSError, ValueError):
            return False

    def in_command(self, command: str) -> str | None:
        """Return the protected file that a shell command names, unless it only reads it; None if there is none."""
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
            return " ".join(words[:3])
        if program == "git" and len(words) > 1 and words[1] in _READING_GIT:
            return None
        for index, word in enumerate(words[1:]):
            resolve = index < _RESOLVED_WORDS_LIMIT
            if any(self._leads_to_protected(path, resolve) for path in _candidates(word)):
                return word
            if program in _FOLDER_CHANGERS and not word.startswith("-") and self._holds_protected(word):
                return word
        return None

    def _in_text(self, command: str) -> str | None:
        """Search a command that cannot be split, without its quotes, for the names of protected files."""
        if _PLAIN_READING.fullmatch(command):
            return None
        bare = command[: shell.COMMAND_CHARACTERS_LIMIT].translate({ord(quote): None for quote in "'\"\\"})
        pieces = dict.fromkeys(_BREAKS.split(bare))
        return next((piece for piece in pieces if piece and self._leads_to_protected(piece, resolve=False)), None)


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


def _expanded(path: str) -> str:
    """Return a path with the shell's and the clients' names for the home in it replaced."""
    home = paths.home_dir()
    path = path.replace("${HOME}", home).replace("$HOME", home)
    for variable, folder in (("XDG_CONFIG_HOME", ".config"), ("XDG_STATE_HOME", ".local/state")):
        value = os.environ.get(variable) or os.path.join(home, folder)
        path = path.replace(f"${{{variable}}}", value).replace(f"${variable}", value)
    if path == "~" or path.startswith("~/"):
        return home + path[1:]
    own = f"~{os.path.basename(home)}"
    return home + path[len(own) :] if path == own or path.startswith(own + "/") else path


def _is_below(root: str, folded: str) -> bool:
    return root == folded or root.startswith(folded.rstrip("/") + "/")


def _roots() -> tuple[str, ...]:
    """Return the folders of Hearth and of clients, compared as file names are here."""
    folders = [paths.config_dir(), paths.state_dir(), paths.log_dir()]
    named = tuple((os.environ[name], folder) for name, folder in _CLIENT_VARIABLES.items() if os.environ.get(name))
    return _resolved_roots(tuple(folders), named)


@lru_cache(maxsize=8)
def _resolved_roots(folders: tuple[str, ...], named: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    found = [*folders, *map(os.path.realpath, folders)]
    for folder, usual in named:
        names = ("settings.json", "settings.local.json") if usual == ".claude" else ("config.toml", "hooks.json")
        found += [os.path.join(folder, name) for name in names]
    return tuple(dict.fromkeys(map(_folded, found)))


@lru_cache(maxsize=1024)
def _folded(path: str) -> str:
    """Return a path as the most lenient file system compares it."""
    path = path.replace(os.sep, "/")
    if not path.isascii():
        path = "".join(character for character in path if unicodedata.category(character) not in ("Cf", "Mn"))
        path = unicodedata.normalize("NFKC", path)
    return "/".join(part.rstrip(" .") if part.strip(" .") else part for part in path.casefold().split("/"))
