"""Table of every check by its id, and the runner of their groups.

docs/doctor.md has the same table. Groups run in their order, each with a timeout, whatever hangs in it.
"""

import os
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from hearth.control_client import service_state
from hearth.doctor import clients, daemon, endpoints, environment, hooks, installation, policy, secrets, servers
from hearth.doctor.context import CheckContext
from hearth.findings import Finding, FixName, without_consequences
from hearth.host import system
from hearth.paths import Places


class Check(NamedTuple):
    """Meaning of a finding with this id; `fix` is the fix that `--fix` applies, if there is one."""

    means: str
    fix: FixName | None = None


# Descriptions of the fixes, for the documentation.
FIX_SUMMARIES: dict[FixName, str] = {
    "close": "closes it to others",
    "rotate": "`hearth token rotate`",
    "forget": "removes the file, under the daemon's lock",
    "sweep": "removes the file, under both locks",
    "compile": "writes the byte code",
    "install": "`hearth install`, on units that are Hearth's own",
    "reload": "`systemctl --user daemon-reload`",
    "repoint": "writes the launcher again, or the bridge of this installation in the entry's place",
    "start": "`daemon-reload`, `reset-failed`, and starts the socket unit",
    "renew": "`hearth restart`",
}

CHECKS: dict[str, Check] = {
    "installation.package": Check("the installed package; a package that it needs is missing"),
    "installation.python": Check("the interpreter; it is older than 3.11"),
    "installation.bridge": Check("the bridge's file, which clients start; it is missing"),
    "installation.byte_code": Check("the bridge is not compiled, so each start takes longer", "compile"),
    "installation.other": Check("your shell finds another installation of Hearth first"),
    "environment.well": Check("variables, clock and limits are as they should be"),
    "environment.variable": Check("a `HEARTH_*` variable changes what is looked at, in this shell only"),
    "environment.differs": Check("`HEARTH_CONFIG`, `XDG_CONFIG_HOME` or `XDG_STATE_HOME`: shell and service differ"),
    "environment.no_login": Check("no folder of a login: `XDG_RUNTIME_DIR` is missing, as after `sudo -i`"),
    "environment.runtime": Check("`XDG_RUNTIME_DIR` is somebody else's, as after `su`"),
    "environment.home": Check("`HOME` is somebody else's, as after `sudo`"),
    "environment.clock": Check("the clock is behind files that Hearth has, so logins and certificates will be refused"),
    "environment.open_files": Check("the limit of open files is too low for many clients"),
    "environment.wsl": Check("WSL without systemd"),
    "config.file": Check("the config file and the number of its servers"),
    "config.missing": Check("there is no config file yet"),
    "config.broken": Check("the config cannot be used: file, line, key and the nearest right name"),
    "config.odd": Check("something in the config is odd: a key twice, a `HEARTH_*` variable that is misspelt"),
    "servers.program": Check("where a server's program is; it is not found anywhere"),
    "servers.path": Check("a server's program is on your shell's PATH and not on the service's", "install"),
    "servers.shim": Check("a version manager's stand-in (fnm, asdf, mise, pyenv, volta …) that needs your shell"),
    "servers.reference": Check("a `${…}` leads nowhere in the service's environment"),
    "servers.folder": Check("a server's `cwd` is not there"),
    "servers.file": Check("the script that a server's interpreter is told to run is not there"),
    "servers.failed": Check("a server does not start, or has died; without a daemon, by the word of the last one"),
    "servers.given_up": Check("the running daemon has given a server up"),
    "servers.variable": Check("a server failed and says that an environment variable is missing"),
    "servers.registration": Check("a server's authorization server registers no clients; a client has to be named"),
    "servers.stdout": Check("a server prints to stdout, which is for MCP only; broken if it failed"),
    "secrets.kept": Check("secrets are out of others' reach"),
    "secrets.open": Check("the vault, or another private folder of the state, is open to others", "close"),
    "secrets.token": Check("others can read the token for the port, and may know it by now", "rotate"),
    "secrets.config": Check("a secret stands in the config, and others can read the file", "close"),
    "secrets.literal": Check("a secret stands in the config itself, which only you can read"),
    "secrets.damaged": Check("the vault's index is damaged"),
    "secrets.keyring": Check("secrets lie in a keyring that is out of reach"),
    "network.well": Check("proxies, or none"),
    "network.proxy": Check("a proxy is set in this shell and not for the service"),
    "network.loopback": Check("the service's proxy would catch a server on this machine"),
    "folders.runtime": Check("the folders of socket, locks and registry; they cannot be used"),
    "folders.open": Check("one of them is open to others", "close"),
    "folders.state": Check("the folder for what is remembered; it cannot be written to"),
    "folders.full": Check("the disk is full"),
    "folders.inodes": Check("the file system can hold no more files"),
    "folders.read_only": Check("the file system is read-only"),
    "units.manager": Check("whether there is a service manager"),
    "units.silent": Check("systemd's user manager does not answer"),
    "units.state": Check("what the units are doing"),
    "units.missing": Check("the units are not installed"),
    "units.incomplete": Check("the socket unit is installed and the service is not", "install"),
    "units.masked": Check("a unit is masked"),
    "units.disabled": Check("the socket unit is not enabled"),
    "units.stopped": Check("the socket unit is enabled and not started", "start"),
    "units.failed": Check("a unit has failed, with systemd's reason", "start"),
    "units.killed": Check("the daemon was killed, and the next connection starts it again"),
    "units.start_limit": Check("the daemon ended too often right after its start, so systemd tries no more", "start"),
    "units.outdated": Check("a unit's text is not what this version writes", "install"),
    "units.unread": Check("unit files have changed since systemd read them", "reload"),
    "units.interpreter": Check("the interpreter that the service starts is gone", "install"),
    "units.other": Check("the service starts another installation than this one"),
    "units.hidden": Check("a unit of `hearth install` hides the one of a package"),
    "units.drop_in": Check("a drop-in breaks a unit, or what servers may do in it"),
    "units.linger": Check("over SSH: systemd ends the daemon when you log out"),
    "socket.file": Check("the socket's file"),
    "socket.kind": Check("something else is where the socket should be"),
    "socket.owner": Check("the socket is somebody else's"),
    "socket.open": Check("the socket is open to others", "close"),
    "socket.dead": Check("a socket is left over, and nobody listens", "sweep"),
    "socket.gone": Check("a daemon runs, or systemd listens, and the socket's file is gone"),
    "socket.path": Check("the socket's path is too long for the kernel"),
    "socket.beside": Check("a daemon runs that systemd has not started, although there is a unit", "start"),
    "port.state": Check("the port for HTTP, or that there is none"),
    "port.failed": Check("`mcp-http.socket` has failed: another program may have the port"),
    "port.stopped": Check("`mcp-http.socket` is enabled and not started"),
    "port.lost": Check("a port that the daemon served is not served any more"),
    "port.remote": Check("`mcp-http.socket` listens on an address that other machines may reach"),
    "port.token": Check("there is no token for the port, or its file is open to others, a link or no token"),
    "daemon.state": Check("whether a daemon runs"),
    "daemon.stale": Check("the registry names a process that is gone; its file is removed"),
    "daemon.reused": Check("the registry names a process that is another program by now; its file is removed"),
    "daemon.registry": Check("the registry's file is damaged", "forget"),
    "daemon.silent": Check("the daemon runs and does not answer"),
    "daemon.full": Check("the daemon runs and takes no connection more"),
    "daemon.degraded": Check("the daemon runs and cannot serve"),
    "daemon.config": Check("the daemon refused the new config and goes on with the former one"),
    "daemon.version": Check("the daemon is of another version than what is installed", "renew"),
    "daemon.second": Check("another daemon of this profile runs, with another runtime folder"),
    "daemon.moved": Check("the installation that the daemon runs from is gone", "renew"),
    "daemon.path": Check("the daemon was started with another PATH than its next start will have"),
    "clients.bridges": Check("how many entries of each client lead to Hearth"),
    "clients.broken": Check("a client's file cannot be read"),
    "clients.record": Check("what is kept of a client's connection cannot be read"),
    "clients.bridge": Check(
        "an entry starts a bridge whose launcher, interpreter or file is gone,"
        " or a launcher whose interpreter or package is",
        "repoint",
    ),
    "clients.server": Check("an entry leads to a server that Hearth does not have"),
    "clients.own": Check("an entry runs a server of its own that Hearth has, too"),
    "clients.twice": Check("two entries of a file lead to the same server"),
    "clients.leftover": Check("a connection is on record whose file or entry is gone"),
    "policy.state": Check("the policy, or that there is none"),
    "policy.broken": Check("the policy cannot be used: file, line, key and the nearest right name"),
    "policy.waits": Check("a change of the policy waits for `hearth policy apply`"),
    "policy.tokens": Check("a file of role tokens, or their folder, is open to others", "close"),
    "policy.project": Check("the policy of a trusted project is not what was trusted, or what is trusted is unknown"),
    "hooks.state": Check("the clients whose own tools are held to the policy, or that there is none"),
    "hooks.missing": Check("there is a policy, and a connected client has no hooks that ask it"),
    "hooks.incomplete": Check("a client's file lacks hooks for some events"),
    "hooks.program": Check("a hook's launcher or interpreter is gone, so that every tool runs"),
    "hooks.trust": Check("Codex does not trust a hook, and does not run it"),
    "hooks.off": Check("a setting of the client switches its hooks off"),
    "hooks.time": Check("a client gives a hook less time than the policy takes for a decision (`hook_wait`)"),
    "hooks.unheard": Check("a client with a session has not called any of its hooks since the daemon started"),
    "hooks.broken": Check("the file with a client's hooks cannot be read"),
    "doctor.unfinished": Check("a look did not come to an end: a file system or a program hangs"),
}  # fmt: skip


# --- groups

# Above every bound inside a group (systemctl 10 s, a keyring 18 s): for operations without a bound, such as access to
# a network file system that hangs.
GROUP_SECONDS = 25.0


class CheckGroup(NamedTuple):
    """Group of checks of the same subject."""

    name: str
    findings: Callable[[CheckContext], list[Finding]]


def _group(name: str, look: Callable[[CheckContext], Any], judge: Callable[[Any], list[Finding]]) -> CheckGroup:
    return CheckGroup(name, lambda context: judge(look(context)))


if system.is_linux():
    from hearth.doctor import units

    _UNITS = _group("units", units.look, units.judge)
else:
    _UNITS = CheckGroup("units", lambda context: service_state.check(context.places))

GROUPS = (
    _group("installation", installation.look, installation.judge),
    _group("environment", environment.look, environment.judge),
    _group("config", servers.look_at_config, servers.judge_config),
    _group("servers", servers.look, servers.judge),
    _group("secrets", secrets.look, secrets.judge),
    _group("network", environment.look_at_proxies, environment.judge_proxies),
    _group("folders", installation.look_at_folders, installation.judge_folders),
    _UNITS,
    CheckGroup(
        "socket",
        lambda context: [] if context.is_locked_out() else endpoints.judge_socket(endpoints.look_at_socket(context)),
    ),
    _group("port", endpoints.look_at_port, endpoints.judge_port),
    _group("daemon", daemon.look, daemon.judge),
    _group("clients", clients.look, clients.judge),
    _group("policy", policy.look, policy.judge),
    _group("hooks", hooks.look, hooks.judge),
)


def examine(places: Places, tell: Callable[[str], None] = lambda name: None) -> list[Finding]:
    """Return all findings, in the order of display; `tell` is called with the name of each group before it runs."""
    context = CheckContext(places, os.environ)
    findings = []
    for group in GROUPS:
        tell(group.name)
        findings += within(group, context, GROUP_SECONDS)
    return without_consequences(findings)


def within(group: CheckGroup, context: CheckContext, seconds: float) -> list[Finding]:
    """Return the findings of a group, or one finding that it did not end in time."""
    found: list[list[Finding]] = []
    failed: list[BaseException] = []

    def go() -> None:
        try:
            found.append(group.findings(context))
        except Exception as error:
            failed.append(error)

    # A daemon thread: a thread that hangs in the kernel must not keep the process from exiting.
    thread = threading.Thread(target=go, daemon=True)
    thread.start()
    thread.join(seconds)
    if failed:
        raise failed[0]
    if found:
        return found[0]
    name = group.name
    message = f"the look at {name} did not end within {seconds:g} s: a disk, a home on the network or a program hangs"
    fix = "`df` and `mount` show a file system that stands still; `hearth doctor` looks again."
    return [Finding("doctor.unfinished", "broken", message, fix, name)]
