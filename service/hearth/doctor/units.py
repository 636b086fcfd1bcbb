"""Doctor's checks of systemd: whether the user's manager answers, and the state of Hearth's units."""

import os
import sys
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from hearth.doctor.context import CheckContext, ManagerState, Properties, service_program
from hearth.errors import HearthError
from hearth.findings import Finding, FixRequest, State
from hearth.host.folders import read_text
from hearth.host.install import service_files, systemd_user
from hearth.host.lasting_paths import lasting
from hearth.host.linux import units
from hearth.host.linux.units import PATH_DROP_IN

_MANAGER = "units.manager"
_STATE = "units.state"
# Properties that a drop-in may change, and the consequence; values as in `systemctl show`.
_EXPECTED: dict[str, tuple[str, State, str]] = {
    "Type": ("notify", "broken", "systemd does not learn when the daemon is ready"),
    "NotifyAccess": ("main", "note", "servers could declare the daemon ready or stopping"),
    "KillMode": ("mixed", "note", "servers are ended in the middle of the calls that are being finished"),
    "Delegate": ("yes", "note", "what a server leaves running is not ended with it"),
    "NoNewPrivileges": ("no", "note", "sudo, rootless containers and the like do not work in servers"),
    "MemoryDenyWriteExecute": ("no", "broken", "Node.js does not start"),
}
# Results of a daemon that served and was killed from outside.
_KILLED = frozenset({"signal", "core-dump", "oom-kill", "watchdog"})

# Folders for units that packages install for every user.
_PACKAGED = ("/usr/local/lib/systemd/user", "/usr/lib/systemd/user", "/lib/systemd/user", "/etc/systemd/user")
_EXEC = "ExecStart="


class UnitFile(NamedTuple):
    """One unit file. `wanted` is the text that this version would write for the same interpreter; empty if not ours."""

    path: str
    text: str
    wanted: str
    # The interpreter that the unit names, and whether it can be run and has Hearth beside it.
    python: str
    python_works: bool
    # A packaged unit of the same name, which this file overrides.
    hides: str


class UnitFacts(NamedTuple):
    """Facts about the units. `names` is None for a daemon that is named by its config's path, which has no units."""

    seen: ManagerState
    names: tuple[str, str] | None
    files: tuple[UnitFile, UnitFile] | None
    # The interpreter that `hearth install` of this installation would write.
    mine: str
    program_works: bool
    socket_path: str
    lingers: bool
    is_remote: bool


def look(context: CheckContext) -> UnitFacts:
    """Return the manager's state and the unit files."""
    from hearth.control_client import systemd_unit

    seen, places = context.manager(), context.places
    socket, service = (systemd_unit.unit_name(places, kind) for kind in ("socket", "service"))
    program = service_program(seen)
    return UnitFacts(
        seen,
        (socket, service) if socket and service else None,
        (look_at_file(seen.socket), look_at_file(seen.service)) if seen.state == "answers" else None,
        lasting(sys.executable),
        not program or os.access(program, os.X_OK),
        places.socket,
        is_lingering(context.environ),
        bool(context.environ.get("SSH_CONNECTION")),
    )


def judge(facts: UnitFacts) -> list[Finding]:
    """Return the findings on the units."""
    if facts.seen.state == "absent":
        message = "no systemd user manager here: the first bridge starts the daemon"
        return [Finding(_MANAGER, "ok", message)]
    if facts.seen.state == "silent":
        message = f"systemd's user manager does not answer: {facts.seen.said or 'it does not say why'}"
        fix = "Log in anew; `systemctl --user status` shows more. `loginctl terminate-user $USER` ends it by force."
        return [Finding("units.silent", "broken", message, fix)]
    if facts.names is None or facts.files is None:
        return [Finding(_MANAGER, "ok", "a daemon that is named by its config's path has no units")]
    socket, service = facts.seen.socket, facts.seen.service
    if masked := [name for name, known in zip(facts.names, (socket, service), strict=True) if _is(known, "masked")]:
        fix = f"{facts.seen.systemctl} unmask {' '.join(masked)}; hearth install"
        return [Finding("units.masked", "broken", f"{name} is masked: it cannot start", fix, name) for name in masked]
    if not _is(socket, "loaded"):
        message = f"{facts.names[0]} is not installed: the first bridge starts the daemon"
        return [Finding("units.missing", "note", message, "hearth install", facts.names[0])]
    return _installed(facts, facts.names, facts.files)


def _is(known: Properties, state: str) -> bool:
    return known.get("LoadState") == state


def _installed(facts: UnitFacts, names: tuple[str, str], files: tuple[UnitFile, UnitFile]) -> list[Finding]:
    findings = [*_texts(names, files, facts), *_drop_ins(names[1], facts), *_states(names, facts.seen)]
    if not _is(facts.seen.service, "loaded"):
        message = f"{names[0]} is installed, and {names[1]} is not, so a connection starts nothing"
        findings.append(
            Finding("units.incomplete", "broken", message, "hearth install", names[1], facts.seen.request("install"))
        )
    if any(known.get("NeedDaemonReload") == "yes" for known in (facts.seen.socket, facts.seen.service)):
        message = "unit files have changed since systemd read them"
        fix = f"{facts.seen.systemctl} daemon-reload"
        findings.append(Finding("units.unread", "note", message, fix, request=facts.seen.request("reload")))
    if facts.is_remote and not facts.lingers:
        message = "systemd ends your services, the daemon among them, when you log out from this machine"
        fix = "Where they should go on: loginctl enable-linger"
        findings.append(Finding("units.linger", "note", message, fix))
    return [finding for finding in findings if finding.state != "ok"] or findings


def _texts(names: tuple[str, str], files: tuple[UnitFile, UnitFile], facts: UnitFacts) -> Iterator[Finding]:
    """Yield the differences between the files and the text that this version would write."""
    python = files[1].python
    if python and not files[1].python_works:
        message = f"{files[1].path} starts {python}, which is not there"
        request = FixRequest("install") if files[1].wanted else None
        yield Finding("units.interpreter", "broken", message, "hearth install", names[1], request)
    elif files[1].wanted and python != facts.mine:
        message = f"{files[1].path} starts another installation, {python}, and not this one, {facts.mine}"
        fix = "`hearth install` of the one that you want to keep; remove the other."
        yield Finding("units.other", "note", message, fix, names[1])
    for name, file in zip(names, files, strict=True):
        if file.wanted and file.wanted != file.text:
            message = f"{file.path} is not what this version writes: it is of another version, or was edited"
            fix = f"hearth install; put changes of your own into a drop-in: systemctl --user edit {name}"
            yield Finding("units.outdated", "note", message, fix, name, FixRequest("install"))
        if file.hides:
            message = f"{file.path} hides {file.hides}, which a package brings and keeps up to date"
            yield Finding("units.hidden", "note", message, "hearth uninstall", name)


def _drop_ins(name: str, facts: UnitFacts) -> Iterator[Finding]:
    """Yield the findings on drop-ins; without a drop-in, the check of the text is enough."""
    service, socket = facts.seen.service, facts.seen.socket
    listen = socket.get("Listen", "")
    if socket.get("DropInPaths") and facts.socket_path not in listen:
        message = f"a drop-in ({socket['DropInPaths']}) has systemd listen on {listen}, and not on {facts.socket_path}"
        fix = f"{facts.seen.systemctl} edit {socket.get('Id')}: add a ListenStream= instead of replacing it"
        yield Finding("units.drop_in", "broken", message, fix, str(socket.get("Id")))
    # The drop-in in which `hearth install` keeps a PATH does not count.
    where = " ".join(path for path in service.get("DropInPaths", "").split() if not path.endswith(PATH_DROP_IN))
    if not where:
        return
    fix = f"Look at it, then mend or remove it: {facts.seen.systemctl} edit {name}"
    program = service_program(facts.seen)
    if program and not facts.program_works and facts.files and program != facts.files[1].python:
        message = f"a drop-in ({where}) has {name} start {program}, which is not there"
        yield Finding("units.drop_in", "broken", message, fix, name)
    for key, (wanted, state, trouble) in _EXPECTED.items():
        if (found := service.get(key, wanted)) != wanted:
            message = f"a drop-in ({where}) has set {key}={found}: {trouble}"
            yield Finding("units.drop_in", state, message, fix, name)


def _states(names: tuple[str, str], seen: ManagerState) -> list[Finding]:
    """Return the findings on the units' states."""
    pairs = zip(names, (seen.socket, seen.service), strict=True)
    if failed := [
        _failed(name, known, names[0], seen) for name, known in pairs if known.get("ActiveState") == "failed"
    ]:
        # Both units fail when the limit is hit: report that cause once.
        return [finding for finding in failed if finding.id == "units.start_limit"][:1] or failed
    name, state = names[0], seen.socket.get("ActiveState", "")
    enabled = seen.socket.get("UnitFileState", "")
    if state not in ("active", "activating"):
        if enabled.startswith("enabled"):
            message, fix = f"{name} is enabled and not started", f"{seen.systemctl} start {name}"
            return [Finding("units.stopped", "broken", message, fix, name, seen.request("start", name))]
        fix = f"{seen.systemctl} enable --now {name}"
        return [Finding("units.disabled", "note", f"{name} is installed, and neither enabled nor started", fix, name)]
    if enabled == "disabled":
        message = f"{name} listens, and will not after the next login: it is not enabled"
        return [Finding("units.disabled", "note", message, f"{seen.systemctl} enable {name}", name)]
    return [
        Finding(_STATE, "ok", f"{names[0]} is {state}, {names[1]} is {seen.service.get('ActiveState')}", "", names[0])
    ]


def _failed(name: str, known: Properties, socket: str, seen: ManagerState) -> Finding:
    result = known.get("Result", "")
    if name != socket and result in _KILLED and seen.socket.get("ActiveState") == "active":
        journal = f"{seen.systemctl.replace('systemctl', 'journalctl')} -u {name}"
        message = f"{name} was killed ({result}); {socket} listens, so the next connection starts it again"
        return Finding("units.killed", "note", message, f"Nothing to do; `{journal}` may say who did it.", name)
    fix = (
        f"`{seen.systemctl.replace('systemctl', 'journalctl')} -u {name}` says why; then"
        f" {seen.systemctl} reset-failed {name}; {seen.systemctl} start {socket}"
    )
    request = seen.request("start", socket)
    if "start-limit-hit" in result:
        message = f"{name} has failed: the daemon ended too often right after its start, so systemd tries no more"
        return Finding("units.start_limit", "broken", message, fix, name, request)
    return Finding("units.failed", "broken", f"{name} has failed ({result})", fix, name, request)


# --- unit files


def look_at_file(known: Properties) -> UnitFile:
    """Return the unit file that the manager has read, or would read."""
    path = known.get("FragmentPath", "")
    text = read_text(path)
    ours = service_files.MARK in text and os.path.dirname(path) == systemd_user.units_folder()
    python = interpreter(text)
    return UnitFile(
        path=path,
        text=text,
        wanted=_wanted(os.path.basename(path), python) if ours else "",
        python=python,
        python_works=not python or os.access(python, os.X_OK),
        hides=_hidden(path) if ours else "",
    )


def _wanted(name: str, python: str) -> str:
    try:
        return units.render(service_files.template("units", name), python or sys.executable)
    except HearthError:
        return ""


def _hidden(path: str) -> str:
    others = (os.path.join(folder, os.path.basename(path)) for folder in _PACKAGED)
    return next((other for other in others if os.path.isfile(other)), "")


def interpreter(text: str) -> str:
    """Return the program of a unit's ExecStart= line, the inverse of `host.linux.units.exec_word`.

    Empty if there is none. Pure.
    """
    line = next((line for line in text.splitlines() if line.startswith(_EXEC)), "").removeprefix(_EXEC).strip()
    word = line[1:].partition('"')[0] if line.startswith('"') else line.partition(" ")[0]
    return word.lstrip(":@-+!").replace("%%", "%")


def is_lingering(account: Mapping[str, str]) -> bool:
    """Tell whether this user's manager keeps running without a login."""
    name = account.get("USER") or account.get("LOGNAME") or ""
    return os.path.exists(os.path.join("/var/lib/systemd/linger", name)) if name else False
