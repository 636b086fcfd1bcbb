"""Units of systemd, the user's or the system's: their names and text, their files, and the manager that reads them.

The manager is asked through systemctl. `host.install.systemd_user` and `systemd_system` install the units. This module
does not talk to a person.
"""

import os
import shlex
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

from hearth import paths
from hearth.errors import HearthError
from hearth.host import system
from hearth.host.install import service_files
from hearth.host.install.service_files import Outcome, Plan
from hearth.host.lasting_paths import Search

if TYPE_CHECKING:
    from subprocess import CompletedProcess

SOCKET_UNIT = "mcp.socket"
SERVICE_UNIT = "mcp.service"
UNIT_NAMES = (SOCKET_UNIT, SERVICE_UNIT)
# A port for HTTP, which a person may also enable.
HTTP_UNIT = "mcp-http.socket"
# One instance for each profile but the default one.
PROFILE_UNIT_NAMES = ("mcp@.socket", "mcp@.service")
# For the system's own systemd, one instance for each user, by uid; the templates are in a subfolder.
SYSTEM_UNIT_NAMES = ("system/mcp-user@.socket", "system/mcp-user@.service")
PLACEHOLDER = "@PYTHON@"
# Stands beside drop-ins of the user's own, and is read before drop-ins without a number.
PATH_DROP_IN = "10-hearth-path.conf"
# Stopping the socket stops the daemon first, which may take its whole TimeoutStopSec (30 s).
_LIMIT_SECONDS = 60


class Units(NamedTuple):
    """Two units of one daemon, the files that they come from, and the systemd that runs them."""

    socket: str
    service: str
    files: tuple[str, str]
    # Options of `systemctl` that select that systemd.
    scope: tuple[str, ...] = ("--user",)
    # Further units of the same service, which are off unless a person enables them.
    more: tuple[str, ...] = ()

    @property
    def file_names(self) -> tuple[str, ...]:
        """Names of the unit files in systemd's folder."""
        return tuple(map(os.path.basename, (*self.files, *self.more)))

    def systemctl(self, *arguments: str) -> str:
        """Return a command for a person to type."""
        return " ".join(("systemctl", *self.scope, *arguments))

    @property
    def path_drop_in(self) -> str:
        """Path of the drop-in with the PATH of this daemon, below the folder of the units."""
        return f"{self.service}.d/{PATH_DROP_IN}"

    @property
    def enabled_link(self) -> str:
        """Link that `systemctl enable` makes, because of WantedBy= in the socket unit."""
        return enabled(self.socket)


def enabled(socket: str) -> str:
    """Return the link that `systemctl enable` makes for a socket unit."""
    return f"sockets.target.wants/{socket}"


def of_profile(profile: str) -> Units:
    """Return the user's own units for a profile's daemon; for `*` a pattern of all profiles but the default one."""
    if profile == paths.DEFAULT_PROFILE:
        return Units(SOCKET_UNIT, SERVICE_UNIT, UNIT_NAMES, more=(HTTP_UNIT,))
    return Units(f"mcp@{profile}.socket", f"mcp@{profile}.service", PROFILE_UNIT_NAMES)


def of_user(uid: int | str) -> Units:
    """Return the units of the system's systemd for one user's daemon; for `*` a pattern of all users."""
    return Units(f"mcp-user@{uid}.socket", f"mcp-user@{uid}.service", SYSTEM_UNIT_NAMES, scope=())


# systemd refuses an executable whose path contains one of these, even quoted.
_REFUSED = frozenset("'\"\\")


def exec_word(path: str) -> str:
    """Return a path as the first word of an Exec line, in the syntax of systemd.service(5) and systemd.syntax(7).

    Raises HearthError for a path that is not allowed there.
    """
    if not os.path.isabs(path) or not path.isprintable() or _REFUSED & set(path):
        raise HearthError(f"systemd cannot start {path!r}: install Hearth in a folder with a plainer name")
    # The colon, which keeps `$` as it is, belongs inside the quotes.
    word = ":" + path.replace("%", "%%")
    return f'"{word}"' if " " in path or ";" in path else word


def render(template: str, python: str) -> str:
    """Return a unit file: the template with the interpreter of this installation in it."""
    return template.replace(PLACEHOLDER, exec_word(python))


def render_path(path: str) -> str:
    """Return a drop-in that gives a service this PATH. Its first line shows whether the file was changed later."""
    escaped = path.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    body = f"""\
# Where the programs of the MCP servers are looked for: the PATH of the shell in which it was typed, because npx and uvx
# are seldom on systemd's own. Installing again renews it, `hearth install --no-path` removes it. Once you have
# changed anything here the file is yours: it is neither renewed nor removed any more.

[Service]
Environment="PATH={escaped}"
"""
    return f"# {service_files.MARK} ({paths.digest(body)}).\n{body}"


def is_untouched(text: str) -> bool:
    """Tell whether a drop-in is as `render_path` has made it, in this version or another."""
    head, _, body = text.partition("\n")
    return head == f"# {service_files.MARK} ({paths.digest(body)})."


# --- files in a folder of systemd


def render_all(python: str, ours: Units) -> dict[str, str]:
    """Return the text of each unit file for this interpreter."""
    texts = [render(service_files.template("units", name), python) for name in (*ours.files, *ours.more)]
    return dict(zip(ours.file_names, texts, strict=True))


def is_packaged(folder: str, ours: Units, python: str) -> bool:
    """Tell whether a package has installed these units for this very interpreter: copies would only become outdated."""
    present = service_files.read(folder, ours.file_names)
    service = present[ours.file_names[1]] or ""
    return all(present.values()) and f"ExecStart={exec_word(python)} " in service


def plan_changes(
    folder: str, ours: Units, wanted: dict[str, str], drop_ins: Iterable[str], search: Search
) -> tuple[Plan, dict[str, str]]:
    """Plan the changes to the unit files and to the PATH in each drop-in; return the plan and the texts.

    `wanted` is empty where a package has installed the units: older copies would take precedence over them. A PATH that
    a person has changed is `foreign`, and no obstacle. Raises HearthError for a unit file that Hearth did not write.
    """
    present = service_files.read(folder, ours.file_names)
    files = service_files.plan_install(wanted, present) if wanted else service_files.plan_uninstall(present)
    if files.foreign:
        raise HearthError(_in_the_way(folder, ours, files.foreign[0]))
    kept = read_paths(folder, drop_ins)
    texts = {name: render_path(search.path) for name in kept} if search.path else {}
    path = service_files.plan_install(texts, kept) if texts else service_files.plan_uninstall(kept)
    joined = Plan(files.write + path.write, files.keep + path.keep, files.remove + path.remove, path.foreign)
    return joined, {**wanted, **texts}


def read_paths(folder: str, drop_ins: Iterable[str]) -> dict[str, str | None]:
    """Read the drop-ins that set a PATH. One that a person has changed counts as foreign: its text is empty."""
    present = service_files.read(folder, drop_ins)
    return {name: "" if text is not None and not is_untouched(text) else text for name, text in present.items()}


def describe_search(outcome: Outcome, search: Search) -> None:
    """Add to the outcome which PATH will be in effect, as far as it is known here."""
    for name in outcome.plan.foreign:
        path = os.path.join(outcome.folder, name)
        outcome.notes.append(f"{path} was changed by hand and is left as it is: the PATH in it holds.")
    if not outcome.plan.foreign:
        outcome.search_path = search.path or None
        outcome.left_out = search.left_out


def matching(folder: str, pattern: str) -> list[str]:
    """List, in order, the files below the folder whose relative path matches the pattern."""
    found = []
    for root, _, files in os.walk(folder):
        relative = (os.path.relpath(os.path.join(root, name), folder) for name in files)
        found += [name for name in relative if fnmatchcase(name, pattern)]
    return sorted(found)


def remove_files(folder: str, gone: Iterable[str]) -> None:
    """Remove files, and the folders that are then empty."""
    removed = list(gone)
    if not removed:
        return
    service_files.remove(folder, removed)
    emptied = {os.path.dirname(os.path.join(folder, name)) for name in removed}
    for each in (*sorted(emptied - {folder}), folder, os.path.dirname(folder)):
        try:
            os.rmdir(each)
        except OSError:
            # Absent, or not empty because it holds files of others.
            continue


def _in_the_way(folder: str, ours: Units, name: str) -> str:
    path = os.path.join(folder, name)
    if os.path.realpath(path) == os.devnull:
        return f"{name} is masked; type `{ours.systemctl('unmask', name)}`, then `hearth install` again"
    return f"{path} was not written by Hearth and is left as it is; move it away, then try again"


# --- systemctl


class Manager:
    """Service manager. `problem` says why it cannot be used, or is None."""

    def __init__(self, folder: str, scope: tuple[str, ...] = ("--user",)) -> None:
        """Connect to the manager that reads units from `folder`. `scope` is systemctl's option: `--user`, or none."""
        self._systemctl = ["systemctl", *scope]
        # Shells started by `su` or `ssh HOST COMMAND` lack the variable although the manager runs.
        self._environment = {**os.environ, "XDG_RUNTIME_DIR": paths.runtime_dir()}
        self.problem = self._find_problem(folder)

    def _find_problem(self, folder: str) -> str | None:
        import shutil

        if shutil.which("systemctl") is None:
            return "systemctl is not installed"
        done = self._run("show", "--property=UnitPath", "--value")
        if done.returncode:
            said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
            whose = "of this user " if "--user" in self._systemctl else ""
            return f"no service manager {whose}answers ({said[0]})"
        if os.path.realpath(folder) not in map(os.path.realpath, shlex.split(done.stdout)):
            return f"the service manager does not read {folder}: its HOME or XDG_CONFIG_HOME is another"
        return None

    def _run(self, *arguments: str) -> "CompletedProcess[str]":
        return system.ask([*self._systemctl, "--no-ask-password", *arguments], _LIMIT_SECONDS, self._environment)

    def do(self, *arguments: str) -> None:
        """Run one command. Raises HearthError with what systemctl said."""
        done = self._run(*arguments)
        if done.returncode:
            said = done.stderr.strip() or f"exit code {done.returncode}"
            raise HearthError(f"`{' '.join([*self._systemctl, *arguments])}` failed: {said}")

    def attempt(self, *arguments: str) -> None:
        """Run one command whose failure means that there was nothing to do."""
        self._run(*arguments)

    def listen(self, units: Units) -> None:
        """Enable a socket and start it. Raises HearthError."""
        # A start limit that was hit before a repair must not prevent the start after it.
        self.attempt("reset-failed", units.socket, units.service)
        self.do("enable", "--now", units.socket)

    def is_active(self, unit: str) -> bool:
        """Tell whether a unit is active."""
        return self._run("is-active", "--quiet", unit).returncode == 0
