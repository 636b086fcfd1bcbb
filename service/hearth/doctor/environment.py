"""Doctor's checks of Hearth's environment: variables, the login's runtime folder, the clock, limits, WSL."""

import importlib
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import hearth
from hearth.addresses import host_of
from hearth.doctor.context import CheckContext, ServiceEnvironment, owner
from hearth.findings import Finding
from hearth.host import system
from hearth.paths import home_dir, runtime_dir
from hearth.places import state_dir

# A daemon with twenty servers and fifty bridges has about two hundred files open.
LEAST_OPEN_FILES = 256
# A wrong time zone makes a difference of up to a day.
CLOCK_SLACK_SECONDS = 86400.0
# Which config, which state, which daemon: a difference here makes shell and service work on different files.
_DECIDING = ("HEARTH_CONFIG", "XDG_CONFIG_HOME", "XDG_STATE_HOME")
_DEFAULTS = {"XDG_CONFIG_HOME": ".config", "XDG_STATE_HOME": os.path.join(".local", "state")}
# Variables that affect only what is checked, or only processes that this shell starts.
_UNREMARKABLE = frozenset({"HEARTH_COMPLETE"})

_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class ProxyFacts(NamedTuple):
    """Facts about proxies: the proxy variables of shell and service, by their names in capitals."""

    shell: Mapping[str, str]
    service: Mapping[str, str]
    source: ServiceEnvironment
    # Servers by url that run on this machine: name and host.
    local: Sequence[tuple[str, str]]
    servers: int


class EnvironmentFacts(NamedTuple):
    """Facts about variables, owners, times and limits."""

    shell: Mapping[str, str]
    service: ServiceEnvironment
    # The owner of XDG_RUNTIME_DIR's folder, if it is set and exists; whether it is writable; whether it is used.
    runtime_owner: int | None
    runtime_writable: bool
    runtime_used: bool
    # The socket's folder if the login has no runtime folder; empty otherwise.
    stand_in: str
    me: int
    home_owner: int | None
    now: float
    newest: tuple[float, str]
    open_files: int
    open_files_whose: str
    is_wsl: bool
    has_systemd: bool


def look(context: CheckContext) -> EnvironmentFacts:
    """Return the facts about variables, owners, times and limits."""
    living = context.living()
    named = context.environ.get("XDG_RUNTIME_DIR", "")
    limit, whose = _open_files(living.pid if living else 0, context.manager().service.get("LimitNOFILESoft", ""))
    unset = system.is_linux() and not named.startswith("/")
    return EnvironmentFacts(
        shell=context.environ,
        service=context.surroundings(),
        runtime_owner=owner(named) if named else None,
        runtime_writable=os.access(named, os.W_OK | os.X_OK),
        runtime_used=bool(named) and context.places.folder.startswith(named),
        stand_in=runtime_dir() if unset and not runtime_dir().startswith("/run/user/") else "",
        me=system.user_id(),
        home_owner=owner(home_dir()),
        now=time.time(),
        newest=_newest([os.path.abspath(hearth.__file__), context.places.config_file(), *_state_files()]),
        open_files=limit,
        open_files_whose=whose,
        is_wsl=_is_wsl(),
        has_systemd=os.path.isdir("/run/systemd/system"),
    )


def _state_files() -> list[str]:
    try:
        return [entry.path for entry in os.scandir(state_dir())]
    except OSError:
        return []


def _newest(files: Sequence[str]) -> tuple[float, str]:
    found = [(0.0, "")]
    for path in files:
        try:
            found.append((os.stat(path).st_mtime, path))
        except OSError:
            continue
    return max(found)


def _open_files(pid: int, of_unit: str) -> tuple[int, str]:
    """Return the limit of open files: of the running daemon, of the unit's next start, or else of this shell."""
    if system.is_windows():
        return sys.maxsize, "this shell"
    try:
        with open(f"/proc/{pid}/limits", encoding="ascii") as file:
            row = next(line for line in file if line.startswith("Max open files"))
        return int(row.split()[3]), f"the daemon (pid {pid})"
    except (OSError, StopIteration, ValueError):
        pass
    if of_unit.isdigit():
        return int(of_unit), "the service"
    resource: Any = importlib.import_module("resource")  # Windows has none
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return (sys.maxsize if soft == resource.RLIM_INFINITY else soft), "this shell"


def _is_wsl() -> bool:
    try:
        with open("/proc/sys/kernel/osrelease", encoding="utf-8") as file:
            return "microsoft" in file.read().lower()
    except OSError:
        return False


def judge(facts: EnvironmentFacts) -> list[Finding]:
    """Return the findings on the environment."""
    found = (*_variables(facts), *_differences(facts), _runtime(facts), _home(facts), _clock(facts), *_limits(facts))
    findings = [finding for finding in found if finding]
    return findings or [Finding("environment.well", "ok", "variables, clock and limits are as they should be")]


def _variables(facts: EnvironmentFacts) -> list[Finding]:
    names = sorted(name for name, value in facts.shell.items() if name.startswith("HEARTH_") and value)
    return [
        Finding(
            "environment.variable",
            "note",
            f"{name} is set in this shell" + _effect(name, facts.shell[name]),
            f"unset {name}, unless it is meant.",
            name,
        )
        for name in names
        if name not in _UNREMARKABLE
    ]


def _effect(name: str, value: str) -> str:
    if name == "HEARTH_CONFIG":
        return f": every command here is about the daemon of {value}, and your clients' bridges are not"
    return ": it holds for what is started from here, and not for a daemon that systemd or a client starts"


def _differences(facts: EnvironmentFacts) -> Iterator[Finding]:
    """Yield the findings on variables that make shell and service work on different files."""
    if not facts.service.known:
        return
    for name in _DECIDING:
        shell, service = (_meant(name, values, facts.shell) for values in (facts.shell, facts.service.values))
        if shell == service or (name == "HEARTH_CONFIG" and not service):
            continue
        here, there = shell or "not set", service or "not set"
        message = f"{name} is {here} in this shell and {there} for {facts.service.whose}: they work on different files"
        fix = f"Write {name}={shell} into ~/.config/environment.d/hearth.conf and log in anew, or unset it here."
        yield Finding("environment.differs", "broken", message, fix, name)


def _meant(name: str, values: Mapping[str, str], shell: Mapping[str, str]) -> str:
    default = os.path.join(shell.get("HOME", ""), _DEFAULTS[name]) if name in _DEFAULTS else ""
    return (values.get(name) or default).rstrip("/")


def _runtime(facts: EnvironmentFacts) -> Finding | None:
    """Check XDG_RUNTIME_DIR, which may be left from another login, as after `su`, or be missing, as after `sudo`."""
    if facts.stand_in:
        message = f"there is no folder of a login (XDG_RUNTIME_DIR is not set), so the socket lies in {facts.stand_in}"
        fix = "Log in by `su -`, ssh or `machinectl shell` instead; where that is how you work, there is nothing to do."
        return Finding("environment.no_login", "note", message, fix)
    if not facts.runtime_used or facts.runtime_owner in (None, facts.me):
        return None
    return foreign_variable(facts.shell["XDG_RUNTIME_DIR"], facts.runtime_owner or 0, facts.me, facts.runtime_writable)


def foreign_variable(named: str, whose: int, user: int, writable: bool) -> Finding:
    """Return the finding on an XDG_RUNTIME_DIR whose folder belongs to another user."""
    message = f"XDG_RUNTIME_DIR points to somebody else's folder: {named} belongs to user {whose}, and you are {user}"
    fix = f"Set it to /run/user/{user}, or unset it; `su -` or `machinectl shell` sets it right."
    return Finding("environment.runtime", "note" if writable else "broken", message, fix)


def _home(facts: EnvironmentFacts) -> Finding | None:
    if system.is_windows() or facts.home_owner in (None, facts.me):
        return None
    message = f"HOME is {home_dir()}, which belongs to user {facts.home_owner}, and you are {facts.me}, as after `sudo`"
    return Finding("environment.home", "note", message, "Run hearth as yourself, without sudo.")


def _clock(facts: EnvironmentFacts) -> Finding | None:
    at, path = facts.newest
    ahead = at - facts.now
    if ahead < CLOCK_SLACK_SECONDS:
        return None
    today = time.strftime("%Y-%m-%d", time.gmtime(facts.now))
    message = (
        f"the clock says {today}, and {path} was written {ahead / 86400:.0f} days later:"
        " logins and certificates will be refused"
    )
    fix = f"Set the clock: `timedatectl set-ntp true`. If it is right, the file's time is wrong: touch {path}"
    return Finding("environment.clock", "broken", message, fix, path)


def _limits(facts: EnvironmentFacts) -> Iterator[Finding]:
    if facts.open_files < LEAST_OPEN_FILES:
        message = f"{facts.open_files_whose} may have {facts.open_files} files open at once, too few for many clients"
        fix = f"`ulimit -n {4 * LEAST_OPEN_FILES}` in a shell, LimitNOFILE= for a service; then hearth restart"
        yield Finding("environment.open_files", "note", message, fix)
    if facts.is_wsl and not facts.has_systemd:
        message = "this is WSL without systemd, so each first bridge starts the daemon"
        fix = "Write [boot] and systemd=true into /etc/wsl.conf, then `wsl --shutdown` in Windows."
        yield Finding("environment.wsl", "note", message, fix)


# --- proxies


def look_at_proxies(context: CheckContext) -> ProxyFacts:
    """Return the proxy variables, and the servers that have a url on this machine."""
    surroundings = context.surroundings()
    specs = context.servers()
    hosts = ((spec.name, host_of(spec.url)) for spec in specs if spec.url and spec.url.startswith("http"))
    return ProxyFacts(
        proxy_variables(context.environ),
        proxy_variables(surroundings.values),
        surroundings,
        [(name, host) for name, host in hosts if host in _LOOPBACK],
        len(specs),
    )


def proxy_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the proxy variables by their upper-case names; lower-case ones win, as with curl."""
    names = (*_PROXIES, "NO_PROXY")
    found = {name: environ.get(name.lower()) or environ.get(name) or "" for name in names}
    return {name: value for name, value in found.items() if value}


def judge_proxies(facts: ProxyFacts) -> list[Finding]:
    """Return the findings on proxies."""
    findings = []
    lacking = [name for name in _PROXIES if name in facts.shell and name not in facts.service]
    if facts.source.known and lacking and facts.servers:
        named = " and ".join(lacking)
        message = (
            f"{named} set in this shell and not for {facts.source.whose}: servers may not get out, or download anything"
        )
        fix = (
            f"Write {lacking[0]}=… (and NO_PROXY=localhost,127.0.0.1) into ~/.config/environment.d/proxy.conf, log in"
            " anew, or: systemctl --user import-environment " + " ".join(lacking) + "; then hearth restart"
        )
        findings.append(Finding("network.proxy", "note", message, fix))
    if any(name in facts.service for name in ("HTTP_PROXY", "ALL_PROXY")):
        findings += [
            _caught(name, host) for name, host in facts.local if not is_exempt(host, facts.service.get("NO_PROXY", ""))
        ]
    summary = f"the service's: {', '.join(facts.service)}" if facts.service else "no proxy"
    return findings or [Finding("network.well", "ok", summary)]


def _caught(name: str, host: str) -> Finding:
    message = f"{name} runs on this machine ({host}), and the service's proxy would catch it: NO_PROXY leaves it out"
    fix = f"Set NO_PROXY={','.join(_LOOPBACK[:2])} where HTTP_PROXY is set for the service (environment.d(5))."
    return Finding("network.loopback", "broken", message, fix, name)


def is_exempt(host: str, no_proxy: str) -> bool:
    """Tell whether NO_PROXY exempts this host from the proxy."""
    rules = [rule.strip().strip("[]").lower().lstrip(".") for rule in no_proxy.split(",")]
    return any(rule == "*" or rule == host or (rule and host.endswith(f".{rule}")) for rule in rules)
