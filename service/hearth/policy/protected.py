"""Files that no agent writes, whatever the policy says: Hearth's config and state, `.hearth/`, clients' settings.

Clients' settings are those that hold hooks or MCP servers, and what a client loads as its environment or its plugins.
An agent that could write them would grant itself everything. The worktrees that Hearth makes for agents lie below its
state, and are no part of it: there `.hearth/` and clients' settings are protected, as in any project. Names are
compared as the most lenient file system does: without case, widths, accents and ignorable characters. `guard` looks for
these files in calls.
"""

import itertools
import os
import re
import unicodedata
from collections.abc import Iterator, Mapping
from functools import cached_property, lru_cache
from typing import Any

from hearth import paths
from hearth.policy.captures import PATH_CHARACTERS_LIMIT, Surroundings

# Folders of clients that hold their hook settings.
_CLIENT_FOLDERS = frozenset({".claude", ".codex", ".gemini"})
# Files in them, and the copies that clients read in a project, which hold hooks or switch them off.
_HOOK_SETTINGS = re.compile(
    r"\.claude/(?:managed-)?settings[^/]*\.json"
    r"|\.codex/(?:(?:[^/]*\.)?config\.toml|hooks\.json|requirements\.toml)"
    r"|\.gemini/(?:settings[^/]*\.json|\.env)"
)
# Files that a client reads in any project, and a folder with programs that it runs.
_PROJECT_FILES = frozenset({".mcp.json", "opencode.json", "opencode.jsonc"})
_EXTENSIONS = re.compile(r"(?:.*/)?\.gemini/extensions(?:/.*)?")
# Names of such files by their folder, for globs.
_CLIENT_FILES = {
    ".claude": ("settings.json", "settings.local.json", "managed-settings.json"),
    ".codex": ("config.toml", "x.config.toml", "hooks.json", "requirements.toml"),
    ".gemini": ("settings.json", ".env", "extensions"),
}
# The folder of a project, Windows's short name for it, and the folder of a client that is nothing but settings.
_OWN_FOLDER = re.compile(r"\.hearth|hearth~[0-9]+|\.opencode")
# Variables of clients for another folder than the one in the home, with the files in it.
_CLIENT_VARIABLES = {
    "CLAUDE_CONFIG_DIR": ("settings.json", "settings.local.json"),
    "CODEX_HOME": ("config.toml", "hooks.json", "requirements.toml"),
}
# Words of a command with globs.
_QUOTED = re.compile(r"\\.|'[^']*'|\"[^\"]*\"", re.DOTALL)
_NO_GLOBS = dict.fromkeys(map(ord, "*?[]{}'\""))
# Groups of bash and zsh, and sets of characters, which count as `*` and `?`.
_GLOB_GROUP = re.compile(r"[@+?*!]\([^()\n]*\)|\([^()\s]*\|[^()\s]*\)")
_GLOB_SET = re.compile(r"\[(?:\[:\w+:\]|[^\]\s])+\]")
_GLOB_BREAKS = re.compile(r"[\s;&|<>()`'\"]+")
_BRACE = re.compile(r"\{([^{}]*)\}")
# Words that one word with braces may stand for; with more, each brace counts as `*`.
_BRACES_LIMIT = 64
_VARIABLES = ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "APPDATA", "LOCALAPPDATA", *_CLIENT_VARIABLES)
# The environment in bytes, where there is one: half the time of the other, which encodes names and decodes values.
_ENVIRONMENT: Mapping[Any, object] = getattr(os, "environb", os.environ)
_KEYS = tuple(map(os.fsencode, _VARIABLES)) if os.supports_bytes_environ else _VARIABLES
# Folders between that of all worktrees and each of them: profile and repository (`Places.worktrees`).
_WORKTREE_DEPTH = 2


class ProtectedFiles:
    """Protected files as seen from one workspace. `policy_path` is protected wherever it is."""

    def __init__(self, around: Surroundings, policy_path: str) -> None:
        self._around = around
        self._workspace = around.workspace or os.path.abspath(os.sep)
        self._policy_path, self._other_name = _policy_names(policy_path)

    @cached_property
    def has_workspace(self) -> bool:
        """Whether the workspace itself is a protected folder: then every relative path is."""
        real = self._around.real or self._workspace
        return self._is_inside(self._workspace) or (real != self._workspace and self._is_inside(real))

    def include(self, path: str, through_links: bool = True) -> bool:
        """Tell whether a path leads to a protected file, as it is written or through links."""
        try:
            whole = os.path.join(self._workspace, expanded(path))
            if self.may_include(whole) and self._is_inside(os.path.normpath(whole)):
                return True
            return through_links and self._is_inside(self._resolved(whole))
        except (OSError, ValueError):  # a NUL, or half of a surrogate pair
            return False

    def seen_from(self, folder: str) -> "ProtectedFiles":
        """Return the same files as seen from another folder, after a `cd`."""
        found = ProtectedFiles(Surroundings(os.path.join(self._workspace, expanded(folder))), self._policy_path)
        found._roots = self._roots
        return found

    def may_include(self, path: str) -> bool:
        """Tell whether a path might lead to a protected file by its name: a quick look, without the workspace."""
        folded = path.casefold()
        if not path.isascii() or _has_trigger(folded):
            return True
        return self._other_name is not None and self._other_name in folded

    def lie_below(self, path: str) -> bool:
        """Tell whether a folder has protected files in it."""
        try:
            whole = os.path.normpath(os.path.join(self._workspace, expanded(path)))
            folded = _folded(whole)
            if folded.rpartition("/")[2] in _CLIENT_FOLDERS:
                return True
            above = folded.rstrip("/") + "/"
            return any(root.startswith(above) for root in self._roots) or os.path.isdir(os.path.join(whole, ".hearth"))
        except (OSError, ValueError):
            return False

    def may_match(self, glob: str) -> bool:
        """Tell whether a word with globs might become a protected file's name: a quick look."""
        return glob.startswith(("/", "~", "$", ".")) or "/." in glob or self._is_above

    def match(self, glob: str, with_folders: bool) -> bool:
        """Tell whether a shell may put a protected file's name in place of a word with `*` and `?`.

        `with_folders`: folders that have one in them count too. Only a part that begins with a dot means a hidden file.
        """
        try:
            parts = _folded(os.path.normpath(os.path.join(self._workspace, expanded(glob)))).split("/")
        except (OSError, ValueError):
            return False
        if any(_fits(part, ".hearth") or _fits(part, ".opencode") for part in parts):
            return True
        folder = os.path.dirname(os.path.join(self._workspace, expanded(glob)))
        if any(_fits(parts[-1], name) and os.path.lexists(os.path.join(folder, name)) for name in _PROJECT_FILES):
            return True
        if any(_fits(parts[-1], folder) for folder in _CLIENT_FOLDERS) and with_folders:
            return True
        for folder, names in _CLIENT_FILES.items():
            for above, part in itertools.pairwise(parts):
                if _fits(above, folder) and any(_fits(part, name) for name in names):
                    return True
        known = "/".join(itertools.takewhile(lambda part: "*" not in part and "?" not in part, parts))
        if any(_is_in_worktree(known, root) for root in _worktrees(self._environment)):
            return False
        for root in (*self._roots, self._policy_path):
            wanted = root.split("/")
            if (with_folders or len(parts) >= len(wanted)) and all(map(_fits, parts, wanted)):
                return True
        return False

    @cached_property
    def _is_above(self) -> bool:
        above = _folded(self._workspace).rstrip("/") + "/"
        return any(root.startswith(above) for root in (*self._roots, self._policy_path))

    def _is_inside(self, whole: str) -> bool:
        folded = _folded(whole)
        if folded == self._policy_path:
            return True
        parts = folded.split("/") if _has_trigger(folded) else ()
        if any(map(_OWN_FOLDER.fullmatch, parts)):
            return True
        if len(parts) > 1 and (parts[-1] in _PROJECT_FILES or _HOOK_SETTINGS.fullmatch("/".join(parts[-2:]))):
            return True
        if ".gemini" in parts and _EXTENSIONS.fullmatch(folded):
            return True
        if not any(folded == root or folded.startswith(root + "/") for root in self._roots):
            return False
        return not any(_is_in_worktree(folded, root) for root in _worktrees(self._environment))

    @cached_property
    def _roots(self) -> tuple[str, ...]:
        return _roots(self._environment)

    def _resolved(self, path: str) -> str:
        try:
            return self._around.resolve(path)
        except (OSError, ValueError):
            return path

    @property
    def _environment(self) -> tuple[object, ...]:
        return tuple(map(_ENVIRONMENT.get, _KEYS))


def expanded(path: str) -> str:
    """Return a path with the names that shells and clients have for the home replaced."""
    path = with_variables(path)
    if path.startswith("~"):
        home = paths.home_dir()
        name, slash, rest = path[1:].partition("/")
        if name in ("", "+", os.path.basename(home)):
            return home + slash + rest
    return path


def with_variables(text: str) -> str:
    """Return a text with the variables that lead to protected folders replaced."""
    if "$" not in text:
        return text
    home = paths.home_dir()
    for variable, usual in (("XDG_CONFIG_HOME", ".config"), ("XDG_STATE_HOME", ".local/state"), ("HOME", "")):
        value = os.environ.get(variable) or os.path.join(home, usual)
        text = text.replace(f"${{{variable}}}", value).replace(f"${variable}", value)
    return text


def candidates(word: str) -> Iterator[str]:
    """Yield the paths that a word may name: itself, and the end of `--output=PATH`, `host:PATH`, `-oPATH`, `-xC/X`."""
    if word:
        yield word
    for mark in "=:@":
        if mark in word and word[-1] != mark:
            yield word.rpartition(mark)[2]
    if word.startswith("-") and not word.startswith("--") and len(word) > 2:
        yield word[2:]
        if "/" in word[3:]:
            yield word[word.index("/", 2) :]


def globs_in(text: str, is_inner: bool) -> Iterator[str]:
    """Yield the words of a command that have globs, with `*` and `?` alone. `is_inner`: also those in quotes."""
    if not is_inner:
        text = _QUOTED.sub(lambda found: found[0].removeprefix("\\").translate(_NO_GLOBS), text)
    text = _GLOB_SET.sub("?", _GLOB_GROUP.sub("*", text.replace("'", "").replace('"', "")))
    for word in dict.fromkeys(_GLOB_BREAKS.split(text)):
        if len(word) <= PATH_CHARACTERS_LIMIT and ("*" in word or "?" in word or "{" in word):
            for single in _without_braces(word):
                yield from candidates(single)


def _without_braces(word: str) -> Iterator[str]:
    """Yield the words that a word with braces stands for."""
    waiting, count = [word], 1
    while waiting:
        single = waiting.pop()
        brace = _BRACE.search(single)
        if brace is None:
            yield single
            continue
        options = brace[1].split(",") if "," in brace[1] else ["*"]
        count += len(options) - 1
        if count > _BRACES_LIMIT:
            options = ["*"]
        waiting.extend(single[: brace.start()] + option + single[brace.end() :] for option in options)


@lru_cache(maxsize=64)
def _policy_names(path: str) -> tuple[str, str | None]:
    """Return the path of a policy as it is compared, and its name if that has none of the usual parts."""
    name = os.path.basename(path).casefold()
    return _folded(path), None if _has_trigger(name) else name


def _has_trigger(folded: str) -> bool:
    """Tell whether a text has a part that every name of a protected file has. Other paths are not looked at further."""
    # A regular expression takes four times as long, and nearly every path of every call comes here.
    return (
        "hearth" in folded
        or ".claude" in folded
        or ".codex" in folded
        or ".gemini" in folded
        or "settings" in folded
        or ".toml" in folded
        or ".mcp.json" in folded
        or "opencode" in folded
        or "hooks.json" in folded
    )


def _real(path: str) -> str:
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):
        return path


@lru_cache(maxsize=8)
def _roots(environment: tuple[object, ...]) -> tuple[str, ...]:
    """Return the folders of Hearth, and the files of clients that a variable has moved, as `_folded` makes them.

    `environment` has the variables that they depend on: a daemon's do not change, a test's do.
    """
    found = [paths.config_dir(), paths.state_dir(), paths.log_dir()]
    for variable, names in _CLIENT_VARIABLES.items():
        if folder := os.environ.get(variable):
            found += [os.path.join(folder, name) for name in names]
    return tuple(dict.fromkeys(_folded(path) for path in (*found, *map(_real, found))))


@lru_cache(maxsize=8)
def _worktrees(environment: tuple[object, ...]) -> tuple[str, ...]:
    """Return the folder of the worktrees, with and without its links; `environment` is as for `_roots`."""
    path = os.path.join(paths.state_dir(), "worktrees")
    return _folded(path) + "/", _folded(_real(path)) + "/"


def _is_in_worktree(folded: str, root: str) -> bool:
    """Tell whether a folded path is a worktree or in one: PROFILE/REPOSITORY/NAME below the folder of all."""
    return folded.startswith(root) and folded.count("/", len(root)) >= _WORKTREE_DEPTH


def _fits(glob: str, name: str) -> bool:
    """Tell whether one part of a path with `*` and `?` may be a name. Bounded, unlike a regular expression."""
    if glob[:1] != name[:1] and (name[:1] == "." or glob[:1] not in ("*", "?")):
        return False
    at = begin = 0
    star = -1
    while begin < len(name):
        if at < len(glob) and glob[at] == "*":
            star, after = at, begin
            at += 1
        elif at < len(glob) and glob[at] in ("?", name[begin]):
            at, begin = at + 1, begin + 1
        elif star >= 0:
            after += 1
            at, begin = star + 1, after
        else:
            return False
    return not glob[at:].strip("*")


def _folded(path: str) -> str:
    """Return a path as the most lenient file system compares it."""
    path = path.replace(os.sep, "/")
    if not path.isascii():
        # Decomposed first: HFS+ and APFS compare so, and accents on ASCII letters then go with the ignorable ones.
        apart = unicodedata.normalize("NFKD", path)
        path = "".join(character for character in apart if unicodedata.category(character) not in ("Cf", "Mn"))
    folded = path.casefold()
    if " /" not in folded and "./" not in folded and not folded.endswith((" ", ".")):
        return folded
    return "/".join(part.rstrip(" .") if part.strip(" .") else part for part in folded.split("/"))
