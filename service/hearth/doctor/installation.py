"""Doctor's checks of the installation: the interpreter, the package, the bridge that clients start, and the folders.

Changes nothing. The folders of socket, locks and registry are held to the rule of `host.folders`, reported instead of
enforced: the daemon creates them, or makes them private, by itself at its start.
"""

import importlib.util
import os
import platform
import stat
import sys
from collections.abc import Sequence
from typing import NamedTuple

import hearth
from hearth.clients import launcher
from hearth.doctor.context import CheckContext
from hearth.findings import Finding, FixRequest
from hearth.host import system
from hearth.places import state_dir

OLDEST_PYTHON = (3, 11)
_NEEDED = ("click", "msgspec", "httpx", "httptools", "starlette", "uvicorn")
# Limit for the first line of a script that pip or uv wrote; the kernel reads no more of one either.
_FIRST_LINE_BYTES = 4096
# Room for a few cached catalogs, and a new log.
LEAST_FREE_BYTES = 1 << 20
# A start creates about twenty files.
LEAST_FREE_FILES = 32
# Flag of a file system; os.ST_RDONLY, which Windows does not have.
_READ_ONLY = 1
_RUNTIME, _STATE = "folders.runtime", "folders.state"
_REMEMBERED = "no log, no secret and nothing of what servers offer is kept"


class InstallationFacts(NamedTuple):
    """Facts about the installation. `others`: commands of the same name before it on PATH, with interpreters."""

    version: tuple[int, int]
    python: str
    package: str
    missing: Sequence[str]
    bridge: str
    has_bridge: bool
    uncompiled: Sequence[str]
    others: Sequence[tuple[str, str]]


def look(context: CheckContext) -> InstallationFacts:
    """Return the files of this installation, and which `hearth` a shell would find."""
    main = launcher.bridge_file()
    has_bridge = os.path.isfile(main)
    return InstallationFacts(
        version=sys.version_info[:2],
        python=sys.executable,
        package=os.path.dirname(os.path.abspath(hearth.__file__)),
        missing=[name for name in _NEEDED if importlib.util.find_spec(name) is None],
        bridge=main,
        has_bridge=has_bridge,
        uncompiled=uncompiled(os.path.dirname(main)) if has_bridge else (),
        others=_others(context.environ.get("PATH", "")),
    )


def judge(facts: InstallationFacts) -> list[Finding]:
    """Return the findings on the installation."""
    again = f"{facts.python} -m pip install --force-reinstall mcp-hearth"
    python = f"Python {platform.python_version()} at {facts.python}"
    findings = [Finding("installation.python", "ok", python)]
    if facts.version < OLDEST_PYTHON:
        fix = "Hearth needs Python 3.11 or later: install it with a newer one."
        findings = [Finding("installation.python", "broken", python, fix)]
    if facts.missing:
        message = f"{facts.package} lacks {', '.join(facts.missing)}"
        findings.append(Finding("installation.package", "broken", message, again))
    else:
        findings.insert(0, Finding("installation.package", "ok", f"hearth {hearth.__version__} in {facts.package}"))
    if not facts.has_bridge:
        findings.append(Finding("installation.bridge", "broken", f"{facts.bridge} is not there", again))
    else:
        findings.append(Finding("installation.bridge", "ok", facts.bridge))
    if facts.uncompiled:
        message = f"{', '.join(facts.uncompiled)} not compiled, so each start of a bridge takes longer"
        fix = f"{facts.python} -m compileall -q {facts.package}"
        findings.append(Finding("installation.byte_code", "note", message, fix, request=FixRequest("compile")))
    return findings + [_other(script, python, facts.python) for script, python in facts.others[:1]]


def _other(script: str, python: str, mine: str) -> Finding:
    of = python or "an unknown interpreter"
    message = f"your shell finds another Hearth first: {script}, of {of}; this one is of {mine}"
    fix = f"Remove one of the two, or put {os.path.dirname(mine)} before {os.path.dirname(script)} in PATH."
    return Finding("installation.other", "note", message, fix, subject=script)


def uncompiled(folder: str) -> list[str]:
    """Return the bridge's modules without matching byte code.

    The main file is never compiled: Python runs it as a script.
    """
    sources = [name for name in sorted(os.listdir(folder)) if name.endswith(".py") and name != "main.py"]
    return [name for name in sources if not _is_compiled(os.path.join(folder, name))]


def _is_compiled(source: str) -> bool:
    try:
        with open(importlib.util.cache_from_source(source), "rb") as file:
            head = file.read(16)
        found = os.stat(source)
    except OSError:
        return False
    if head[:4] != importlib.util.MAGIC_NUMBER:
        return False
    # PEP 552: with flags 0 the source's time and size follow; otherwise its hash, which is taken on trust.
    if int.from_bytes(head[4:8], "little"):
        return True
    stamp = int.from_bytes(head[8:12], "little"), int.from_bytes(head[12:16], "little")
    return stamp == (int(found.st_mtime) & 0xFFFFFFFF, found.st_size & 0xFFFFFFFF)


def _others(search_path: str) -> list[tuple[str, str]]:
    """Return the commands called hearth that come before this installation's own, with the interpreter of each."""
    name = "hearth.exe" if system.is_windows() else "hearth"
    mine = os.path.realpath(os.path.dirname(sys.executable)), os.path.realpath(sys.argv[0])
    found = []
    for folder in dict.fromkeys(search_path.split(os.pathsep)):
        script = os.path.join(folder, name)
        if not folder or not os.access(script, os.X_OK) or os.path.isdir(script):
            continue
        python = _interpreter(script)
        if os.path.realpath(script) == mine[1] or os.path.realpath(os.path.dirname(python)) == mine[0]:
            break
        found.append((script, python))
    return found


def _interpreter(script: str) -> str:
    """Return the program that a script names in its first line; empty if it names none."""
    try:
        with open(script, "rb") as file:
            first, _, rest = file.read(_FIRST_LINE_BYTES).partition(b"\n")
    except OSError:
        return ""
    if first == b"#!/bin/sh" and rest.startswith(b"'''exec' "):
        # Installers write a path that is too long, or has a blank in it, in this form.
        first = b"#!" + rest[len(b"'''exec' ") :].partition(b' "$0"')[0].strip(b'"')
    return os.fsdecode(first[2:].strip()) if first.startswith(b"#!") else ""


# --- folders


class Folder(NamedTuple):
    """One folder as it is; if it is missing, `above` is the nearest existing folder above it."""

    path: str
    found: os.stat_result | None
    above: str
    is_folder: bool
    writable: bool
    error: str = ""
    # Mode bits that others have because of `socket_mode`.
    allowed: int = 0


class Room(NamedTuple):
    """Free space on the file system of a folder."""

    path: str
    read_only: bool
    free_bytes: int
    # None where the file system does not count them.
    free_files: int | None


class FolderFacts(NamedTuple):
    """Facts about the folders."""

    private: Sequence[Folder]
    state: Folder
    rooms: Sequence[Room]
    me: int


def look_at_folders(context: CheckContext) -> FolderFacts:
    """Return every folder that must be private, the state folder, and the file systems of both."""
    private = [] if context.is_locked_out() else [look_at(path) for path in context.places.private_folders()]
    if context.examined().config.socket_mode == "0660":
        entered = os.path.dirname(context.places.socket)
        private = [each._replace(allowed=stat.S_IXGRP) if each.path == entered else each for each in private]
    state = look_at(state_dir())
    places = [*(folder.above for folder in private[:1]), state.above]
    rooms = [room for place in places if (room := _room(place))]
    return FolderFacts(private, state, rooms, system.user_id())


def look_at(path: str) -> Folder:
    """Return one folder, or the reason why it cannot be created."""
    above = nearest(path)
    usable = os.path.isdir(above), os.access(above, os.W_OK | os.X_OK)
    try:
        return Folder(path, os.lstat(path), above, *usable)
    except (FileNotFoundError, NotADirectoryError):
        return Folder(path, None, above, *usable)
    except OSError as error:
        return Folder(path, None, above, *usable, error=error.strerror or str(error))


def nearest(folder: str) -> str:
    """Return the folder, or the first one above it that exists."""
    while not os.path.lexists(folder) and os.path.dirname(folder) != folder:
        folder = os.path.dirname(folder)
    return folder


def _room(path: str) -> Room | None:
    statvfs = getattr(os, "statvfs", None)
    if statvfs is None:  # Windows
        return None
    try:
        found = statvfs(path)
    except OSError:
        return None
    files = found.f_favail if found.f_files else None
    return Room(path, bool(found.f_flag & _READ_ONLY), found.f_bavail * found.f_frsize, files)


def judge_folders(facts: FolderFacts) -> list[Finding]:
    """Return the findings on the folders, each cause once."""
    tight = [finding for room in facts.rooms if (finding := tightness(room))]
    short = {finding.subject for finding in tight if finding.id == "folders.read_only"}
    runtime: dict[str, Finding] = {}
    for folder in facts.private:
        # A folder inside a broken folder is broken for the same reason.
        if os.path.dirname(folder.path) in runtime or folder.above in short:
            continue
        if found := unfitness(folder, facts.me):
            runtime[folder.path] = found
    state = None if facts.state.above in short else _state(facts.state)
    findings = [*tight, *runtime.values(), *([state] if state else [])]
    findings = list({(each.id, each.subject): each for each in findings}.values())
    well = [_well(_RUNTIME, folder) for folder in facts.private[:1]]
    return findings or [*well, _well(_STATE, facts.state)]


def _well(check: str, folder: Folder) -> Finding:
    later = "" if folder.found else " will be made at the first start"
    return Finding(check, "ok", f"{folder.path}{later}")


def tightness(room: Room) -> Finding | None:
    """Return the finding on a file system that takes no more files; None if it does."""
    if room.read_only:
        message = f"the file system of {room.path} is read-only: {_REMEMBERED}"
        fix = "Make it writable, or set XDG_RUNTIME_DIR and XDG_STATE_HOME to others."
        return Finding("folders.read_only", "broken", message, fix, room.path)
    if room.free_bytes < LEAST_FREE_BYTES:
        message = f"the disk of {room.path} is full: {_REMEMBERED}"
        return Finding("folders.full", "broken", message, f"Free some space: `df -h {room.path}`.", room.path)
    if room.free_files is not None and room.free_files < LEAST_FREE_FILES:
        message = f"the file system of {room.path} can hold no more files (inodes): {_REMEMBERED}"
        return Finding("folders.inodes", "broken", message, f"Remove files: `df -i {room.path}`.", room.path)
    return None


def unfitness(folder: Folder, me: int) -> Finding | None:
    """Return the finding on a folder that cannot hold socket and locks; None if it can."""
    if folder.error:
        return _broken(folder, f"{folder.path}: {folder.error}", "Make it yours, with mode 0700.")
    if folder.found is None:
        return _unmakeable(folder)
    path, mode = folder.path, folder.found.st_mode
    if system.is_windows():
        return None
    if stat.S_ISLNK(mode):
        return _broken(folder, f"{path} is a symbolic link, which is not followed here", f"Remove the link: rm {path}")
    if not stat.S_ISDIR(mode):
        return _broken(folder, f"{path} is not a folder", f"Move it away: mv {path} {path}.old")
    if folder.found.st_uid != me:
        fix = "Have it removed, or point XDG_RUNTIME_DIR to a folder of yours."
        return _broken(folder, f"{path} belongs to user {folder.found.st_uid}, not to you", fix)
    if stat.S_IMODE(mode) & 0o077 & ~folder.allowed:
        message = f"{path} is open to others (mode {stat.S_IMODE(mode):04o})"
        return Finding("folders.open", "broken", message, f"chmod 700 {path}", path, FixRequest("close", path))
    if not folder.writable:
        return _broken(folder, f"{path} cannot be written to", f"chmod 700 {path}")
    return None


def _unmakeable(folder: Folder) -> Finding | None:
    """Return the finding on a missing folder that cannot be created; None if it can.

    Missing folders above it are created too, so the nearest existing one decides.
    """
    if not folder.is_folder:
        fix = f"Move {folder.above} away, or point XDG_RUNTIME_DIR elsewhere."
        return _broken(folder, f"{folder.path} cannot be made: {folder.above} is not a folder", fix)
    if not folder.writable:
        fix = "Point XDG_RUNTIME_DIR to a folder of yours, or unset it."
        return _broken(folder, f"{folder.path} cannot be made: {folder.above} cannot be written to", fix)
    return None


def _broken(folder: Folder, message: str, fix: str) -> Finding:
    return Finding(_RUNTIME, "broken", message, fix, folder.path)


def _state(folder: Folder) -> Finding | None:
    """Return the finding on the state folder. Without it the daemon serves, but starts servers to list them."""
    if folder.is_folder and folder.writable:
        return None
    message = f"{folder.path} cannot be written to: {_REMEMBERED}"
    return Finding(_STATE, "broken", message, f"Make {folder.above} a folder of yours that can be written to.")
