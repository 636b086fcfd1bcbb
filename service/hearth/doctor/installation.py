"""Doctor's checks of the installation: the interpreter, the package, the bridge that clients start."""

import importlib.util
import os
import platform
import sys
from collections.abc import Sequence
from typing import NamedTuple

import hearth
from hearth.clients import launcher
from hearth.doctor.context import CheckContext
from hearth.findings import Finding, FixRequest
from hearth.host import system

OLDEST_PYTHON = (3, 11)
_NEEDED = ("click", "msgspec", "httpx", "httptools", "starlette", "uvicorn")
# Limit for the first line of a script that pip or uv wrote; the kernel reads no more of one either.
_FIRST_LINE_BYTES = 4096


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
