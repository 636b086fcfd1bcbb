"""MCP servers among the running processes, the client that started each, and an estimate of the memory saved. Pure.

A process is a server if one of these holds, and another program writes to its standard input, as far as can be told:

    entry   its command line is that of an entry in a client's file
    name    the package, module or script that it runs has the word `mcp` in its name
    verb    a client or a tool runs as a server: `claude mcp serve`, `docker mcp gateway run`

An instance is the topmost such process below its client: `npx`, the shell that npx starts and the program that the
shell starts count once. Processes below a daemon of Hearth are shared already, and bridges are no servers.
"""

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from hearth.clients import formats
from hearth.clients.table import KINDS
from hearth.host.process_table import ProcessInfo, Weight
from hearth.mcp import isolation
from hearth.mcp.packages import base, packages, scripts

# The client of a server whose own client has ended.
ORPHAN = "none (orphaned)"
_SIGN = re.compile(r"(^|[^a-z0-9])([a-z0-9]*mcp|modelcontextprotocol)($|[^a-z0-9])")
# Programs that use servers and are not servers themselves.
_NO_SERVER = re.compile(r"(^|[^a-z0-9])(clients?|inspector|agents?|hearth)($|[^a-z0-9])")
# A script's name and the two folders above it: /opt/mcp/github/server.py.
_TELLING_PARTS = 3
_RUNNERS = frozenset(
    {"npx", "npm", "pnpm", "pnpx", "yarn", "bun", "bunx", "deno", "uv", "uvx", "pipx", "docker", "podman"}
)
_SHELLS = frozenset({"sh", "bash", "zsh", "dash", "fish", "cmd", "powershell", "pwsh"})
_TOOLS_WITH_VERB = frozenset({"docker", "gh"})
_VERBS = frozenset({"mcp", "mcp-server", "mcp-serve"})
# Programs that adopt processes without a parent.
_INITS = frozenset({"init", "systemd", "launchd"})
# Modules that run a daemon: the second is the name of earlier versions.
DAEMON_MODULES = frozenset({"hearth.daemon", "hearth.server"})
_PLACEHOLDER = re.compile(r"[${~%]")

# Names that a client's processes have besides its commands: packages, and programs of the desktop.
_NAMES: dict[str, tuple[str, ...]] = {
    "claude-code": ("@anthropic-ai/claude-code", "claude-code"),
    "claude-desktop": ("claude-desktop",),
    "codex": ("@openai/codex",),
    "gemini": ("@google/gemini-cli", "gemini-cli"),
    "vscode": ("code-insiders", "codium", "vscodium", "code helper (plugin)", "code-oss"),
    "cursor": ("cursor helper (plugin)",),
    "windsurf": ("windsurf-next", "windsurf helper (plugin)"),
    "zed": ("zed-editor",),
    "opencode": ("opencode-ai",),
    "jetbrains": ("idea", "pycharm", "webstorm", "goland", "clion", "rubymine", "phpstorm", "rider", "rustrover"),
}
_CLIENTS = {name: kind.name for kind in KINDS.values() for name in (*kind.commands, *_NAMES.get(kind.name, ()))}
# On macOS the desktop program has the name of Claude Code's command, with a capital letter.
_DESKTOP_PROGRAM = "Claude"


class ConfiguredCommand(NamedTuple):
    """Server in a client's file, as written there."""

    name: str
    command: str
    args: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()


class RunningServer(NamedTuple):
    """Server as one client runs it. The first pid is the topmost process, and `argv` is its command line."""

    name: str
    client: str
    agent: int  # pid of the client, 0 if it has ended
    pids: tuple[int, ...]
    argv: tuple[str, ...]
    entry: ConfiguredCommand | None


class Survey(NamedTuple):
    """Result of a survey: servers that clients run for themselves, and the processes of Hearth."""

    instances: list[RunningServer]
    daemons: list[int]  # the first process of each: an orphan reaper, or the daemon itself
    bridges: list[int]
    shared: list[int]  # processes of servers below a daemon
    own: list[int]  # every process of Hearth itself


def survey(
    processes: Iterable[ProcessInfo],
    entries: Sequence[ConfiguredCommand],
    is_on_pipes: Callable[[ProcessInfo], bool | None],
) -> Survey:
    """Find the servers; `is_on_pipes` looks at a process's standard input."""
    tree = _Tree(processes)
    daemons = {pid for pid, process in tree.processes.items() if _is_daemon(process.argv)}
    bridges = {pid for pid, process in tree.processes.items() if _is_bridge(process.argv)}
    shared = {pid for daemon in daemons for pid in tree.below(daemon)} - daemons - bridges
    others = tree.processes.keys() - daemons - bridges - shared
    servers: dict[int, ConfiguredCommand | None] = {}
    for pid in sorted(others):
        entry = next((each for each in entries if fits(each, tree.argv(pid))), None)
        if entry or shows_a_server(tree.argv(pid)):
            is_server = is_on_pipes(tree.processes[pid])
            # If stdin cannot be examined, a program without a client is taken for a service.
            if is_server or (is_server is None and tree.client(pid)[0] != ORPHAN):
                servers[pid] = entry
    roots = sorted({tree.root(pid, servers) for pid in servers})
    found = [_instance(tree, root, servers, frozenset(roots)) for root in roots]
    first = [pid for pid in daemons if tree.processes[pid].parent not in daemons]
    return Survey(found, sorted(first), sorted(bridges), sorted(shared), sorted(daemons | bridges))


def fits(entry: ConfiguredCommand, argv: Sequence[str]) -> bool:
    """Tell whether a command line is that of an entry: directly, through an interpreter, or through a runner."""
    words = (entry.command, *entry.args)
    extra = len(argv) - len(words)
    # An interpreter with one option comes first where the command is a script.
    if 0 <= extra <= 2 and all(map(_same, words, argv[extra:])):
        return True
    if base(entry.command) not in _RUNNERS:
        return False
    wanted, have = packages(entry.command, entry.args), packages(argv[0], argv[1:])
    return bool(wanted) and wanted[0] in have[:1]


def shows_a_server(argv: Sequence[str]) -> bool:
    """Tell whether the names in a command line are those of an MCP server."""
    if client_of(argv) or (base(argv[0]) in _TOOLS_WITH_VERB and "run" not in argv[1:3]):
        return not _VERBS.isdisjoint(argv[1:3]) and "list" not in argv[1:4]
    names = list(_telling_names(argv))
    return any(map(_SIGN.search, names)) and not any(map(_NO_SERVER.search, names))


def _telling_names(argv: Sequence[str]) -> Iterator[str]:
    yield from packages(argv[0], argv[1:])
    for script in scripts(argv[0], argv[1:]):
        yield "/".join(re.split(r"[/\\]", script.lower())[-_TELLING_PARTS:])
    for word, following in pairwise(argv[1:]):
        if word == "-m":
            yield following.lower().replace("_", "-")
        if not word.startswith("-"):
            return


def _without_interpreter(argv: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command line of a runner without its interpreter: `npx -y x` for `node /usr/bin/npx -y x`."""
    script = re.sub(r"(-cli)?\.[cm]?js$", "", base(argv[1])) if len(argv) > 1 else ""
    return (script, *argv[2:]) if script in _RUNNERS and base(argv[0]) not in _RUNNERS else argv


def _same(written: str, word: str) -> bool:
    if _PLACEHOLDER.search(written):
        return True
    return written == word or base(written) == base(word) != ""


def _is_daemon(argv: Sequence[str]) -> bool:
    words = [base(word) if index < 2 else word for index, word in enumerate(argv[:6])]
    return bool(DAEMON_MODULES & set(words)) or any(pair == ("hearth", "serve") for pair in pairwise(words))


def _is_bridge(argv: Sequence[str]) -> bool:
    return formats.bridge_to({"command": argv[0], "args": list(argv[1:])}) is not None


def _is_interactive_shell(argv: Sequence[str]) -> bool:
    return base(argv[0]).lstrip("-") in _SHELLS and all(word in ("-i", "-l", "--login", "-li") for word in argv[1:])


class _Tree:
    """Process tree."""

    def __init__(self, processes: Iterable[ProcessInfo]) -> None:
        self.processes: Mapping[int, ProcessInfo] = {
            process.pid: process._replace(argv=_without_interpreter(process.argv)) for process in processes
        }
        self._children: dict[int, list[int]] = {}
        for process in self.processes.values():
            if process.parent != process.pid:
                self._children.setdefault(process.parent, []).append(process.pid)

    def argv(self, pid: int) -> tuple[str, ...]:
        return self.processes[pid].argv

    def above(self, pid: int) -> Iterator[int]:
        """Yield the ancestors, nearest first."""
        seen = {pid}
        parent = self.processes[pid].parent
        while parent in self.processes and parent not in seen:
            yield parent
            seen.add(parent)
            parent = self.processes[parent].parent

    def below(self, pid: int, stop: Callable[[int], bool] = lambda pid: False) -> list[int]:
        """List a process and its descendants, without the branches whose first process is one to stop at."""
        found, waiting = [], [pid]
        while waiting:
            each = waiting.pop()
            found.append(each)
            waiting += [child for child in self._children.get(each, ()) if child not in found and not stop(child)]
        return found

    def root(self, pid: int, servers: Mapping[int, ConfiguredCommand | None]) -> int:
        """Return the topmost server above this one, with no client between them."""
        top, kind = pid, client_of(self.argv(pid))
        for ancestor in self.above(pid):
            # A client that is itself a server counts as one with its runner; the servers that it runs are others.
            if client_of(self.argv(ancestor)) != kind or (kind and ancestor not in servers):
                break
            if ancestor in servers:
                top = ancestor
        return top

    def client(self, pid: int) -> tuple[str, int]:
        """Return the title and pid of a server's client: the nearest known client, else the nearest program."""
        nearest = None
        for ancestor in self.above(pid):
            argv = self.argv(ancestor)
            if kind := client_of(argv):
                return KINDS[kind].title, self._first_of(ancestor, kind)
            if _is_interactive_shell(argv):
                break
            if nearest is None and base(argv[0]) not in _SHELLS | _RUNNERS:
                nearest = ancestor
        if nearest is None or base(self.argv(nearest)[0]) in _INITS:
            return ORPHAN, 0
        return name_of(self.argv(nearest)), nearest

    def _first_of(self, pid: int, kind: str) -> int:
        """Return the first process of a client: desktop programs start helpers, scripts start programs."""
        for ancestor in self.above(pid):
            if client_of(self.argv(ancestor)) != kind:
                break
            pid = ancestor
        return pid


def _instance(
    tree: _Tree, root: int, servers: Mapping[int, ConfiguredCommand | None], roots: frozenset[int]
) -> RunningServer:
    client, agent = tree.client(root)
    members = tree.below(root, lambda pid: pid in roots or client_of(tree.argv(pid)) is not None)
    entry = servers[root] or next((each for pid in members if (each := servers.get(pid))), None)
    return RunningServer(
        name_of(tree.argv(root), entry), client, agent, (root, *sorted(members[1:])), tree.argv(root), entry
    )


def name_of(argv: Sequence[str], entry: ConfiguredCommand | None = None) -> str:
    """Return a name for a command line: its package, or the name in the client's file, or the program."""
    names = packages(argv[0], argv[1:])
    telling = [name for name in names if _SIGN.search(name)] or ([] if entry else names)
    return telling[0] if telling else entry.name if entry else base(argv[0])


# --- programs of clients


def client_of(argv: Sequence[str]) -> str | None:
    """Return the name of the client that a command line runs; None for any other program."""
    if argv[0].endswith(f".app/Contents/MacOS/{_DESKTOP_PROGRAM}"):
        return "claude-desktop"
    return next((_CLIENTS[name] for name in (base(argv[0]), *packages(argv[0], argv[1:])) if name in _CLIENTS), None)


# --- memory now, and through Hearth

# Measured by `hearth demo` (PSS) and rounded up: the daemon, and one bridge for each server of each client.
DAEMON_BYTES = 26_000_000
BRIDGE_BYTES = 4_300_000


class ServerWeight(NamedTuple):
    """Memory of one server, with all its instances."""

    name: str
    instances: tuple[RunningServer, ...]
    needed: int  # how many would run through Hearth
    isolation: isolation.Mode
    weight: Weight | None  # of all instances; None if unknown

    @property
    def saved_bytes(self) -> float:
        """Memory of the instances that Hearth would not start."""
        spare = len(self.instances) - self.needed
        return self.weight.private * spare / len(self.instances) if self.weight else 0.0


class Estimate(NamedTuple):
    """Estimate for the whole machine, as it is and with Hearth."""

    servers: list[ServerWeight]
    now_bytes: int
    servers_bytes: int  # through Hearth
    daemon_bytes: int
    bridges_bytes: int

    @property
    def with_hearth_bytes(self) -> int:
        """Total memory with Hearth."""
        return self.servers_bytes + self.daemon_bytes + self.bridges_bytes


def servers_of(
    instances: Sequence[RunningServer],
    variables: Callable[[int], Mapping[str, str]],
    folder: Callable[[int], str | None],
    weigh: Callable[[Sequence[int]], Weight | None],
) -> list[ServerWeight]:
    """Group equal instances: the same command line, and the same values of the variables that an entry sets."""
    groups: dict[Hashable, list[RunningServer]] = {}
    for instance in instances:
        groups.setdefault(_key(instance, variables), []).append(instance)
    found = [_server(group, folder, weigh) for group in groups.values()]
    return sorted(found, key=lambda server: (-len(server.instances), server.name))


def estimate(servers: list[ServerWeight], daemon_runs: bool) -> Estimate:
    """Estimate the memory without and with Hearth. A daemon that runs already costs nothing more.

    The estimate is pessimistic about Hearth: memory that processes share (libraries, the interpreter's file) is
    counted as if all of it stayed, so only the private memory of the processes that would not run is saved.
    """
    now = sum(server.weight.whole for server in servers if server.weight)
    saved = sum(server.saved_bytes for server in servers)
    instances = sum(len(server.instances) for server in servers)
    daemon = 0 if daemon_runs or not servers else DAEMON_BYTES
    return Estimate(servers, now, round(now - saved), daemon, instances * BRIDGE_BYTES)


def _key(instance: RunningServer, variables: Callable[[int], Mapping[str, str]]) -> Hashable:
    program, *words = instance.argv
    arguments = tuple(word for word in words if word not in ("-y", "--yes"))
    names = instance.entry.variables if instance.entry else ()
    values = variables(instance.pids[0]) if names else {}
    return base(program), arguments, tuple((name, values.get(name)) for name in sorted(names))


def _server(
    group: list[RunningServer], folder: Callable[[int], str | None], weigh: Callable[[Sequence[int]], Weight | None]
) -> ServerWeight:
    first = group[0]
    words = (first.entry.command, *first.entry.args) if first.entry else first.argv
    mode, _ = isolation.initial(words[0], words[1:])
    needed = len(group) if mode == isolation.SESSION else 1
    if mode == isolation.WORKSPACE:
        needed = len({folder(instance.pids[0]) for instance in group})
    pids = [pid for instance in group for pid in instance.pids]
    return ServerWeight(first.name, tuple(group), needed, mode, weigh(pids))
