"""Kinds of captured values: branch, remote, path, word, text. Each check returns the value as patterns compare it.

A check is for granting: whatever it does not know for certain, it refuses with NoMatch, and the call is asked. The
only module of the package, with `protected`, that looks at the file system: a path is resolved as the kernel would do
it, a remote must be configured in the repository of the workspace.
"""

import os
import re
import stat
import unicodedata
from collections.abc import Callable
from functools import lru_cache

from hearth import paths, secret_patterns
from hearth.policy.shell import unseen

# git refuses longer names on most file systems; a remote's or a word's length is bounded alike.
NAME_CHARACTERS_LIMIT = 255
# Longer than any path that a kernel takes.
PATH_CHARACTERS_LIMIT = 4096
# A text that a person could still read.
TEXT_CHARACTERS_LIMIT = 8192
# Enough of a value to recognise it by; the longer part is masked first, so that no half of a secret is left.
_SHOWN_CHARACTERS = 60
_MASKED_CHARACTERS = 1024
# Folders above the workspace in which its repository is looked for.
_FOLDERS_UP_LIMIT = 40
# git's own files of this kind have some hundred bytes, a config with many remotes some thousand.
_GIT_FILE_LIMIT_BYTES = 256 * 1024

# No leading `@` (a file of arguments to many programs) or `+`, and no `=` (a variable to make).
_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+,:-]*")
_REMOTE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_BRANCH = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.@%,=#!/-]*")
_REMOTE_SECTION = re.compile(rb'^[ \t]*\[[ \t]*remote[ \t]+"([A-Za-z0-9_.-]+)"[ \t]*\]', re.MULTILINE | re.IGNORECASE)
# Names that git resolves to something else than the branch of that name.
_PSEUDO_REF = re.compile(r"(?:[A-Z]+_)?HEAD", re.IGNORECASE)
# Parts of a path that no grant covers: git's own files run programs (hooks, aliases, filters) and hold credentials.
_GIT_FOLDER = re.compile(r"\.git|git~[0-9]+", re.IGNORECASE)
# Windows's short names for other files, such as HEARTH~1.
_SHORT_NAME = re.compile(r"[^/]*~[0-9]+(?:\.[^/]*)?")
# Parts of a path after which it is another one.
_MOVING_PARTS = frozenset({"", ".", ".."})
# Folders through which Linux offers a process's own view of other files.
_KERNEL_FOLDERS = ("/proc", "/dev", "/sys")
_IN_KERNEL_FOLDERS = tuple(f"{folder}/" for folder in _KERNEL_FOLDERS)

Check = Callable[[str, "Surroundings"], str]
# Values by the name of their capture.
Captured = dict[str, list[str]]


class NoMatch(Exception):
    """Error for a value or a command that does not match: a sentence with places for values, as `str.format` has.

    `certain`: the value is something else beyond doubt. This is for rules that take access away: they are skipped then,
    and ask otherwise. `fits`: the form is right, and only a value is not what a pattern wants.
    """

    def __init__(self, sentence: str, *values: str, certain: bool = False, fits: bool = False) -> None:
        super().__init__(sentence)
        self._values = values
        self.certain = certain or fits
        self.fits = fits

    def __str__(self) -> str:
        # Composed when it is read: most refusals are not, and masking costs more than the match.
        return self.args[0].format(*map(shown, self._values)) if self._values else str(self.args[0])


class Surroundings:
    """File system around one call: looked at when first needed, and once, so that all steps see the same."""

    __slots__ = ("_real", "_remotes", "_resolved", "_root", "matches", "workspace")

    def __init__(self, workspace: str | None) -> None:
        self.workspace = workspace if workspace and os.path.isabs(workspace) else None
        self._real: str | None = None
        self._root: str | None = None
        self._remotes: frozenset[str] | None = None
        self._resolved: dict[str, str] = {}
        # Results of templates of commands, by their id and the words; for `matchers`.
        self.matches: dict[tuple[int, tuple[str, ...]], Captured | NoMatch] = {}

    @property
    def real(self) -> str | None:
        """Workspace with every link resolved; None if there is none."""
        if self._real is None and self.workspace is not None:
            self._real = _real_folder(self.workspace)
        return self._real

    def resolve(self, path: str) -> str:
        """Return an absolute path with every link resolved. Raises ValueError for a NUL, or half a surrogate pair."""
        found = self._resolved.get(path)
        if found is None:
            found = self._resolved[path] = real_path(path, self.real)
        return found

    @property
    def root(self) -> str:
        """The same, if it is small enough that a grant may cover all of it. Raises NoMatch."""
        if self._root is None:
            real = self.real
            if real is None:
                raise NoMatch("the folder that paths are relative to is not known")
            if is_inside(_real_folder(paths.home_dir()), real):
                raise NoMatch("the workspace is the home folder or above it, which is too much for a grant")
            self._root = real
        return self._root

    def remotes(self) -> frozenset[str]:
        """Return the names of the remotes of the workspace's repository; none if there is no repository."""
        if self._remotes is None:
            self._remotes = _remotes_of(self.root)
        return self._remotes


def real_path(path: str, real: str | None = None) -> str:
    """Return what `os.path.realpath` does for an absolute path, in a third of its time where there are no links.

    `real` is a folder that was resolved for the same call: the way to it is not looked at again.
    """
    begin = len(real) if real and path.startswith(f"{real}/") else 0
    parts = path[begin + 1 :].split("/")
    if os.sep != "/" or not path.startswith("/") or not _MOVING_PARTS.isdisjoint(parts):
        return os.path.realpath(path)
    whole = path[:begin]
    for part in parts:
        whole = f"{whole}/{part}"
        try:
            if stat.S_ISLNK(os.lstat(whole).st_mode):
                return os.path.realpath(path)
        except OSError:
            # Nor can anything below it be looked at, so that nothing more is resolved.
            break
    return path


def _real_folder(path: str) -> str:
    """Return the same for a folder: looked up again if another folder is there now, or if it was moved."""
    try:
        found = os.stat(path)
        real = _real_of(path, found.st_dev, found.st_ino)
        if os.path.samestat(found, os.stat(real)):
            return real
    except (OSError, ValueError):
        pass
    return real_path(path)


@lru_cache(maxsize=256)
def _real_of(path: str, device: int, inode: int) -> str:
    # The other arguments tell one folder of that name from the next.
    return real_path(path)


def _remotes_of(folder: str) -> frozenset[str]:
    config = _git_config(folder)
    if config is None:
        return frozenset()
    try:
        found = os.stat(config)
    except OSError:
        return frozenset()
    return _remotes_in(config, found.st_mtime_ns, found.st_size, found.st_ino)


def _git_config(folder: str) -> str | None:
    """Return the config of the repository that the folder is in. A linked worktree has it in the main one."""
    for _ in range(_FOLDERS_UP_LIMIT):
        place = os.path.join(folder, ".git")
        if os.path.isdir(place):
            return os.path.join(place, "config")
        if os.path.isfile(place):
            return _linked_config(place, folder)
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent
    return None


def _linked_config(file: str, folder: str) -> str | None:
    place, common = _linked_folders(file, folder) or ("", "")
    return os.path.join(place, common, "config") if place else None


def _linked_folders(file: str, folder: str) -> tuple[str, str] | None:
    """Return git's folder for a worktree or submodule, and the path from there to the one that worktrees share."""
    pointer = _read(file).decode("utf-8", "replace").strip()
    if not pointer.startswith("gitdir:"):
        return None
    place = os.path.join(folder, pointer.removeprefix("gitdir:").strip())
    return place, _read(os.path.join(place, "commondir")).decode("utf-8", "replace").strip()


def main_worktree(folder: str) -> str | None:
    """Return the main working tree of the linked worktree whose top a folder is; None for any other folder."""
    file = os.path.join(folder, ".git")
    place, common = (_linked_folders(file, folder) if os.path.isfile(file) else None) or ("", "")
    shared = os.path.normpath(os.path.join(place, common))
    return os.path.dirname(shared) if common and os.path.basename(shared) == ".git" else None


@lru_cache(maxsize=64)
def _remotes_in(config: str, modified_ns: int, size: int, inode: int) -> frozenset[str]:
    # The other arguments tell one version of the file from the next.
    return frozenset(name.decode("ascii") for name in _REMOTE_SECTION.findall(_read(config)))


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(_GIT_FILE_LIMIT_BYTES)
    except OSError:
        return b""


# --- kinds


def branch(value: str, around: Surroundings) -> str:
    """Check the name of a branch, as `git check-ref-format --branch` does, in ASCII and without refspec syntax."""
    if len(value) > NAME_CHARACTERS_LIMIT or not _BRANCH.fullmatch(value):
        raise NoMatch("{} is not the plain name of a branch", value)
    parts = value.split("/")
    if ".." in value or "@{" in value or value.endswith(".") or value == "@":
        raise NoMatch("{} is not the name of a branch to git", value)
    if any(not part or part.startswith(".") or part.lower().endswith(".lock") for part in parts):
        raise NoMatch("{} is not the name of a branch to git", value)
    if parts[0].lower() == "refs" or any(_PSEUDO_REF.fullmatch(part) for part in (parts[0], parts[-1])):
        raise NoMatch("{} names another ref than a branch", value)
    return value


def remote(value: str, around: Surroundings) -> str:
    """Check the name of a remote that the workspace's repository has. An address is none."""
    if len(value) > NAME_CHARACTERS_LIMIT or not _REMOTE.fullmatch(value):
        raise NoMatch("{} is not the plain name of a remote", value)
    if value not in around.remotes():
        raise NoMatch("the repository has no remote {}", value)
    return value


def path(value: str, around: Surroundings) -> str:
    """Return the path relative to the workspace, links resolved, with `/` between its parts."""
    root = around.root
    _check_path_text(value, root)
    whole = around.resolve(os.path.join(root, value))
    if not is_inside(whole, root):
        raise NoMatch("{} is outside the workspace", value)
    parts = whole.replace(os.sep, "/").split("/") if not whole.isascii() or "git" in whole.casefold() else ()
    if any(_GIT_FOLDER.fullmatch(part if part.isascii() else _folded(part)) for part in parts):
        raise NoMatch("{} is one of git's own files", value)
    return whole[len(root) :].strip(os.sep).replace(os.sep, "/") or "."


def is_inside(whole: str, folder: str) -> bool:
    """Tell whether a path is the folder or in it; both absolute and resolved."""
    return whole == folder or whole.startswith(folder.rstrip(os.sep) + os.sep)


def _check_path_text(value: str, root: str) -> None:
    if not value or len(value) > PATH_CHARACTERS_LIMIT:
        raise NoMatch("the path is empty or too long")
    if unseen(value) is not None or (not value.isascii() and unicodedata.normalize("NFKC", value) != value):
        raise NoMatch("{} has characters that look like others", value)
    is_windows = os.sep == "\\"
    if not is_windows and "\\" in value:
        raise NoMatch("{} has a backslash", value)
    parts = value.replace(os.sep, "/").split("/")
    # Many programs read `@file` as a list of arguments, and `+x` as an option.
    if ".." in parts or value[0] in "~-@+":
        raise NoMatch("{} leads through `..`, or begins with a character that programs read otherwise", value)
    _check_colon(value, parts[0], root)
    if value in _KERNEL_FOLDERS or value.startswith(_IN_KERNEL_FOLDERS):
        raise NoMatch("{} is a file of the kernel's", value)
    if is_windows and _is_odd_on_windows(value, parts):
        raise NoMatch("{} may name another file on Windows", value)


def _check_colon(value: str, first: str, root: str) -> None:
    """Refuse an address (`host:path`, `https:…`) and git's `:(magic)`; `file.py::test` is pytest's name of a test."""
    name, colon, _ = first.partition(":")
    if not colon or os.path.splitdrive(value)[0]:
        return
    if not name or not os.path.isfile(os.path.join(root, name)):
        raise NoMatch("{} may be an address", value)


def _is_odd_on_windows(value: str, parts: list[str]) -> bool:
    """Tell whether Windows may read the path otherwise: a stream, a device, a short name, a trailing dot or space."""
    drive, rest = os.path.splitdrive(value)
    return (
        ":" in rest
        or len(drive) > len("C:")
        or bool(drive and not rest.startswith(("/", "\\")))
        or any(part != part.rstrip(" .") and part != "." for part in parts)
        or any(_SHORT_NAME.fullmatch(part) for part in parts)
    )


def word(value: str, around: Surroundings) -> str:
    """Check one plain word: letters, digits and `_.@+,:-`; no path, no option, no assignment."""
    if len(value) > NAME_CHARACTERS_LIMIT or not _WORD.fullmatch(value):
        raise NoMatch("{} is not a plain word", value)
    return value


def text(value: str, around: Surroundings) -> str:
    """Check any text whose characters can all be seen."""
    if len(value) > TEXT_CHARACTERS_LIMIT:
        raise NoMatch(f"the text has over {TEXT_CHARACTERS_LIMIT} characters")
    if (character := unseen(value)) is not None:
        raise NoMatch(f"the text has the character U+{ord(character):04X}, which is not seen")
    return value


KINDS: dict[str, Check] = {"branch": branch, "remote": remote, "path": path, "word": word, "text": text}
# Captures of this kind take no positional pattern of a grant.
UNPATTERNED = "remote"


def _folded(part: str) -> str:
    """Return a part of a path as a file system that ignores case, widths and ignorable characters compares it."""
    plain = "".join(character for character in part if unicodedata.category(character) != "Cf")
    return unicodedata.normalize("NFKC", plain).casefold().rstrip(" .")


def shown(value: str) -> str:
    """Return a value for a reason: on one line, in ASCII, without secrets, shortened."""
    text = ascii(secret_patterns.masked(value[:_MASKED_CHARACTERS]))
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…'"
