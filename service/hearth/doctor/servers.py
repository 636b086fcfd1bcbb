"""Doctor's checks of each configured server: whether its references resolve and its program is found, with the
variables and the PATH of the *service*. Starts no server.
"""

import os
import shutil
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from hearth import config
from hearth.control_client import service_state
from hearth.doctor.context import CheckContext, ServiceEnvironment
from hearth.errors import ConfigError
from hearth.findings import Finding, FixRequest
from hearth.host import lasting_paths, system
from hearth.host.install import systemd_user
from hearth.host.linux import units
from hearth.paths import Places, home_dir
from hearth.secret_patterns import masked_url
from hearth.secrets import references

if TYPE_CHECKING:
    from hearth.upstreams.oauth.store import RegistrationRefusal

# Programs that take the file to run as the first argument.
_RUNNERS = frozenset({"node", "bun", "deno", "tsx", "python", "python3", "ruby", "php", "java", "bash", "sh"})
_WHERE_FROM = {
    "npx": "Install Node.js (https://nodejs.org).",
    "node": "Install Node.js (https://nodejs.org).",
    "uvx": "Install uv (https://docs.astral.sh/uv).",
    "uv": "Install uv (https://docs.astral.sh/uv).",
    "docker": "Install Docker, and let your user use it.",
    "bunx": "Install Bun (https://bun.sh).",
    "deno": "Install Deno (https://deno.com).",
}

_FILE = "config.file"


class ConfigFacts(NamedTuple):
    """Facts about the config file."""

    path: str
    exists: bool
    problems: Sequence[str]
    warnings: Sequence[str]
    servers: int


class ShimTrouble(NamedTuple):
    """Problem of a version manager's shim that is started without a shell, and its fix."""

    message: str
    fix: str


class _VersionManager(NamedTuple):
    """Version manager: a part of its shims' paths, the variables of its shell integration, its lookup command."""

    name: str
    part: str
    variables: tuple[str, ...]
    asked: str


class ServerFacts(NamedTuple):
    """Facts about one server, as it would be started."""

    name: str
    # The command as written: the values of its references may be secret.
    written: str
    url: str
    problem: str = ""
    # The path of the program for the service, and for this shell.
    found: str = ""
    found_here: str = ""
    # Whether `hearth install` would make the service find it: not in a folder that is gone tomorrow.
    findable: bool = False
    # The working folder, and a file among the arguments, if missing.
    missing_folder: str = ""
    missing_file: str = ""
    # For a server by url: the refusal to register Hearth as a client at the last login.
    refusal: "RegistrationRefusal | None" = None


class ServersFacts(NamedTuple):
    """Facts about all servers, and the environments of service and shell."""

    servers: list[ServerFacts]
    service: ServiceEnvironment
    shell: Mapping[str, str]

    @property
    def has_service(self) -> bool:
        """Whether the servers are started by the service."""
        return self.service.whose == "the service"


def look(context: CheckContext) -> ServersFacts:
    """Return the facts about every enabled server."""
    service = context.surroundings()
    servers = [_look_at(spec, service.values, context) for spec in context.servers()]
    return ServersFacts(servers, service, context.environ)


def _look_at(spec: config.ServerSpec, service: Mapping[str, str], context: CheckContext) -> ServerFacts:
    shell, places = context.environ, context.places
    server = ServerFacts(spec.name, spec.command or "", masked_url(spec.url or ""))
    try:
        resolved = references.glance(spec, service, None if spec.isolation == "shared" else home_dir())
    except ConfigError as error:
        return server._replace(problem=str(error))
    if resolved.command is None:
        from hearth.upstreams.oauth.store import Store

        return server._replace(refusal=Store().refusal(resolved))
    path = references.child_environment(resolved, service)["PATH"]
    here = references.child_environment(resolved, shell)["PATH"]
    kept = lasting_paths.of_shell(here).path
    folder = resolved.cwd if resolved.cwd and not os.path.isdir(resolved.cwd) else ""
    return server._replace(
        found=shutil.which(resolved.command, path=path) or "",
        found_here=shutil.which(resolved.command, path=here) or "",
        findable=shutil.which(resolved.command, path=kept) is not None and not _is_kept_by_hand(places),
        missing_folder=folder and _as_written(str(spec.cwd), folder),
        missing_file=(script := missing_file(resolved)) and _as_written(spec.args[0], script),
    )


def _as_written(value: str, resolved: str) -> str:
    """Return a path to show: the value of a reference may be a secret."""
    return value if "${" in value else resolved


def _is_kept_by_hand(places: Places) -> bool:
    """Tell whether the user has edited the PATH that `hearth install` keeps: then it is left as it is."""
    if not system.is_linux() or places.config:
        return False
    drop_in = units.of_profile(places.profile).path_drop_in
    return units.read_paths(systemd_user.units_folder(), [drop_in]).get(drop_in) == ""


def missing_file(spec: config.ServerSpec) -> str:
    """Return the file that an interpreter is told to run, if it is missing."""
    program = os.path.basename(spec.command or "")
    script = next((word for word in spec.args if not word.startswith("-")), "")
    if program not in _RUNNERS or not os.path.isabs(script) or script != spec.args[0] or os.path.exists(script):
        return ""
    return script


def judge(facts: ServersFacts) -> list[Finding]:
    """Return the findings on the servers."""
    return [_judge(server, facts) for server in facts.servers]


def _judge(server: ServerFacts, facts: ServersFacts) -> Finding:
    name = server.name
    if server.problem:
        return Finding("servers.reference", "broken", server.problem, service_state.ADVICE_ON_VARIABLES, name)
    if server.refusal:
        message = f"{name}: {server.refusal.issuer} does not register clients, so a login is not possible"
        return Finding("servers.registration", "note", message, server.refusal.advice, name)
    if server.url:
        return Finding("servers.program", "ok", f"{name}: {server.url}, which is not tried from here", "", name)
    if not server.found:
        return _unfound(server, facts)
    if server.missing_folder:
        message = f"{name}: its folder (cwd) {server.missing_folder} is not there"
        return Finding("servers.folder", "broken", message, "Make it, or mend cwd in the config.", name)
    if server.missing_file:
        message = f"{name}: {server.written} is told to run {server.missing_file}, which is not there"
        return Finding("servers.file", "broken", message, "Mend its args in the config, or put the file there.", name)
    if trouble := shim_trouble(server.found, facts.service.values, facts.shell if facts.has_service else {}):
        return Finding("servers.shim", "note", f"{name}: {trouble.message}", trouble.fix, name)
    shown = server.found if server.found.endswith(server.written) else server.written
    return Finding("servers.program", "ok", f"{name}: {shown}", "", name)


def _unfound(server: ServerFacts, facts: ServersFacts) -> Finding:
    name, written = server.name, server.written
    if server.found_here and facts.has_service:
        folder = os.path.dirname(server.found_here)
        message = f"{name}: {written} is found by this shell, in {folder}, and not by the service: its PATH lacks that"
        fix = "`hearth install` gives the service the PATH of this shell; or write the program's whole path."
        if not server.findable:
            fix = f"Write the program's whole path into the config: {folder} is not kept by `hearth install`."
        return Finding("servers.path", "broken", message, fix, name, FixRequest("install") if server.findable else None)
    if os.path.sep in written:
        fix = "Install it, or correct the path of its command in the config."
        return Finding("servers.program", "broken", f"{name}: {written} is not there, or no program", fix, name)
    where = f"the PATH of {facts.service.whose}" if facts.service.whose != "this shell" else "PATH"
    fix = " ".join(filter(None, [_WHERE_FROM.get(written, ""), service_state.ADVICE_ON_PATH]))
    return Finding("servers.program", "broken", f"{name}: {written} is not on {where}", fix, name)


# --- version managers' shims

_MANAGERS = (
    _VersionManager("fnm", "/fnm_multishells/", (), "fnm exec --using=default which {program}"),
    _VersionManager("asdf", "/.asdf/shims/", ("ASDF_DIR", "ASDF_DATA_DIR"), "asdf which {program}"),
    _VersionManager("mise", "/mise/shims/", ("MISE_DATA_DIR", "MISE_CONFIG_DIR"), "mise which {program}"),
    _VersionManager("pyenv", "/.pyenv/shims/", ("PYENV_ROOT", "PYENV_VERSION"), "pyenv which {program}"),
    _VersionManager("nodenv", "/.nodenv/shims/", ("NODENV_ROOT", "NODENV_VERSION"), "nodenv which {program}"),
    _VersionManager("rbenv", "/.rbenv/shims/", ("RBENV_ROOT", "RBENV_VERSION"), "rbenv which {program}"),
    _VersionManager("volta", "/.volta/bin/", ("VOLTA_HOME",), "volta which {program}"),
)


def shim_trouble(path: str, service: Mapping[str, str], shell: Mapping[str, str]) -> ShimTrouble | None:
    """Return the problem of a program that the service would start.

    None if it is no shim, or needs nothing from a shell.
    """
    manager = next((each for each in _MANAGERS if each.part in path.replace(os.sep, "/")), None)
    if manager is None:
        return None
    program = os.path.basename(path)
    fix = f"Write the whole path that `{manager.asked.format(program=program)}` prints into the config."
    if manager.name == "fnm":
        message = f"{path} lies in a folder that fnm makes for one shell and removes with it"
        return ShimTrouble(message, fix)
    lacking = [name for name in manager.variables if shell.get(name) and shell[name] != service.get(name)]
    if not lacking:
        return None
    message = f"{path} is a stand-in of {manager.name}, which goes by {' and '.join(lacking)}: set in this shell only"
    return ShimTrouble(message, fix)


# --- the config file


def look_at_config(context: CheckContext) -> ConfigFacts:
    """Return the config as the daemon would read it."""
    found = context.examined()
    return ConfigFacts(
        context.places.config_file(),
        bool(found.config.hash),
        tuple(found.problems),
        tuple(found.warnings),
        len(found.config.servers),
    )


def judge_config(facts: ConfigFacts) -> list[Finding]:
    """Return the findings on the config."""
    if facts.problems:
        fix = f"Mend {facts.path}; `hearth config check` looks again."
        return [Finding("config.broken", "broken", problem, fix) for problem in facts.problems]
    warnings = [
        Finding("config.odd", "note", warning, f"Look at it: {facts.path}; `hearth config check` looks again.")
        for warning in facts.warnings
    ]
    if not facts.exists:
        message = f"{facts.path} does not exist, so there is no MCP server"
        missing = Finding("config.missing", "note", message, "`hearth add NAME -- COMMAND` writes it.")
        return [missing, *warnings]
    number = f"{facts.servers} MCP server{'' if facts.servers == 1 else 's'}"
    return [Finding(_FILE, "ok", f"{facts.path}: {number}"), *warnings]
