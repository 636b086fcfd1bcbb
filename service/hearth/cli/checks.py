"""The checks behind `hearth doctor`. Each looks at one thing; none changes or wakes anything."""

import importlib.util
import os
import platform
import shutil
import sys
from collections.abc import Callable, Mapping

import hearth
from hearth import config, references
from hearth.cli import entry, holder
from hearth.cli.daemon_checks import check_registry, check_socket
from hearth.cli.findings import Finding
from hearth.cli.folder_checks import check_runtime, check_state
from hearth.errors import ConfigError
from hearth.paths import Places, home_dir
from hearth.secrecy import masked_url

OLDEST_PYTHON = (3, 11)
_NEEDED = ("click", "msgspec", "platformdirs")


def examine(places: Places) -> list[Finding]:
    """Everything, in the order in which it is told."""
    return [finding for check in CHECKS for finding in check(places)]


def check_python(places: Places) -> list[Finding]:
    """The interpreter."""
    found = f"Python {platform.python_version()} at {sys.executable}"
    if sys.version_info[:2] < OLDEST_PYTHON:
        return [Finding("python", "broken", found, "Hearth needs Python 3.11 or later: install it with a newer one.")]
    return [Finding("python", "ok", found)]


def check_package(places: Places) -> list[Finding]:
    """The installation."""
    where = os.path.dirname(hearth.__file__)
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        fix = f"{sys.executable} -m pip install --force-reinstall mcp-hearth"
        return [Finding("package", "broken", f"{where} lacks {', '.join(missing)}", fix)]
    return [Finding("package", "ok", f"hearth {hearth.__version__} in {where}")]


def check_bridge(places: Places) -> list[Finding]:
    """The bridge's file, which clients' configs name, and its compiled form, which makes it start quickly."""
    main = entry.bridge_file()
    folder = os.path.dirname(main)
    if not os.path.isfile(main):
        fix = f"{sys.executable} -m pip install --force-reinstall mcp-hearth"
        return [Finding("bridge", "broken", f"{main} is not there", fix)]
    sources = [name for name in sorted(os.listdir(folder)) if name.endswith(".py") and name != "main.py"]
    stale = [name for name in sources if not _is_compiled(os.path.join(folder, name))]
    if stale:
        fix = f"{sys.executable} -m compileall -q {os.path.dirname(folder)}"
        return [Finding("bridge", "note", f"{', '.join(stale)} not compiled: each start takes longer", fix)]
    return [Finding("bridge", "ok", main)]


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


def check_config(places: Places) -> list[Finding]:
    """The configuration, and the program of every server in it."""
    path = places.config_file()
    try:
        loaded = config.load(places)
    except ConfigError as error:
        fix = f"Mend {path}; `hearth config check` looks again."
        return [Finding("config", "broken", problem, fix) for problem in error.problems]
    if not loaded.hash:
        fix = "`hearth add NAME -- COMMAND` writes it."
        return [Finding("config", "note", f"{path} does not exist, so there is no MCP server", fix)]
    findings = [Finding("config", "note", warning) for warning in loaded.warnings]
    number = len(loaded.servers)
    findings.append(Finding("config", "ok", f"{path}: {number} MCP server{'' if number == 1 else 's'}"))
    environ = _environment(places)
    return findings + [_check_server(spec, environ) for spec in loaded.servers.values() if not spec.disabled]


def _environment(places: Places) -> Mapping[str, str]:
    """The daemon's, as far as its service manager is known to give it another one than this shell's."""
    path = holder.search_path(places)
    return {**os.environ, "PATH": path} if path else os.environ


def _check_server(spec: config.ServerSpec, environ: Mapping[str, str]) -> Finding:
    check = f"server {spec.name}"
    try:
        resolved = references.glance(spec, environ, None if spec.isolation == "shared" else home_dir())
    except ConfigError as error:
        return Finding(check, "broken", str(error), holder.ADVICE_ON_VARIABLES)
    if resolved.command is None:
        # As it was written: what its references stand for may be secret.
        return Finding(check, "ok", f"{masked_url(spec.url or '')}, which is not tried from here")
    path = references.child_environment(resolved, environ)["PATH"]
    found = shutil.which(resolved.command, path=path)
    if found:
        return Finding(check, "ok", found if found.endswith(spec.command or "") else str(spec.command))
    return Finding(check, "broken", f"{spec.command} is not on PATH", holder.ADVICE_ON_PATH)


CHECKS: tuple[Callable[[Places], list[Finding]], ...] = (
    check_python,
    check_package,
    check_bridge,
    check_config,
    check_runtime,
    check_state,
    check_socket,
    check_registry,
    holder.check,
)
