"""Every check by its id: what it finds, and what `--fix` does about it. docs/doctor.md has the same table. Pure."""

from typing import NamedTuple

from hearth.cli.findings import Deed


class Check(NamedTuple):
    """What a finding with this id says; `deed` is what `--fix` does, where it does something."""

    means: str
    deed: Deed | None = None


# In words, for the documentation.
DEEDS: dict[Deed, str] = {
    "close": "closes it to others",
    "forget": "removes the file, under the daemon's lock",
    "sweep": "removes the file, under both locks",
    "compile": "writes the byte code",
    "install": "`hearth install`, on units that are Hearth's own",
    "reload": "`systemctl --user daemon-reload`",
    "start": "`daemon-reload`, `reset-failed`, and starts the socket unit",
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
    "servers.failed": Check("the running daemon says that a server does not start, or has died"),
    "servers.given_up": Check("the running daemon has given a server up"),
    "secrets.kept": Check("secrets are out of others' reach"),
    "secrets.open": Check("the vault, or another private folder of the state, is open to others", "close"),
    "secrets.config": Check("a secret stands in the config, and others can read the file", "close"),
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
    "daemon.state": Check("whether a daemon runs"),
    "daemon.stale": Check("the registry names a process that is gone", "forget"),
    "daemon.reused": Check("the registry names a process that is another program by now", "forget"),
    "daemon.registry": Check("the registry's file is damaged", "forget"),
    "daemon.silent": Check("the daemon runs and does not answer"),
    "daemon.degraded": Check("the daemon runs and cannot serve"),
    "daemon.config": Check("the daemon refused the new config and goes on with the former one"),
    "daemon.version": Check("the daemon is of another version than what is installed"),
    "daemon.path": Check("the daemon was started with another PATH than its next start will have"),
    "doctor.unfinished": Check("a look did not come to an end: a file system or a program hangs"),
}  # fmt: skip
