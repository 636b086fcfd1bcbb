"""Steps of the demo: separate servers, shared servers, the kill, the idle exit. Each returns its measurements.

Uses Hearth only from outside: bridges that are started as a client starts them, and `hearth status --json`.
"""

import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, NamedTuple

from hearth.demo.client import DemoClient
from hearth.demo.scratch import Scratch, scratch_home
from hearth.host import process_table, processes
from hearth.stdio_client import ClientError

# Long enough for one agent to follow another, short enough to wait for.
IDLE_TIMEOUT_SECONDS = 1.0
# The exit takes the time to stop the servers, in addition to the idle time.
IDLE_PATIENCE_SECONDS = 30.0
# Starts of one more agent; one outlier does not move the median of three.
SAMPLES = 3
# A large server takes a second or more to start, so an outlier does not matter.
SAMPLES_APART = 1
# Long enough that every agent's call is surely running when the daemon is killed.
SLOW_SECONDS = 1.0
STATUS_SECONDS = 30.0
# SIGKILL; on Windows, every signal has this effect.
KILL = 9


# --- results: every figure comes from a run


@dataclass(frozen=True)
class Times:
    """Seconds from the start of each agent's process to its first answer, and to its list of tools."""

    first_answer: list[float]
    tools_listed: list[float]


@dataclass(frozen=True)
class Side:
    """One way to serve the agents: its server processes, its memory, its times."""

    server_pids: list[int]
    servers_bytes: int
    daemon_bytes: int
    bridges_bytes: int
    together: Times
    one_more: Times

    @property
    def total_bytes(self) -> int:
        """Memory of servers, daemon and bridges."""
        return self.servers_bytes + self.daemon_bytes + self.bridges_bytes


@dataclass(frozen=True)
class Kill:
    """Result of killing the daemon while every agent had a call in flight."""

    pid_before: int
    pid_after: int
    calls: int
    answered: int
    bridges_alive: int
    seconds: float


@dataclass(frozen=True)
class IdleExit:
    """Exit of the idle daemon after the last agent left, and when the kernel reported it."""

    pid: int
    timeout_seconds: float
    seconds: float


@dataclass(frozen=True)
class Report:
    """Report of a whole run."""

    agents: int
    eras: list[str]
    servers: list[str]
    measure: str
    # None if there is no server of realistic size to compare with.
    apart: Side | None
    hearth: Side
    daemon_pid: int
    daemon_ids: list[str]
    answered_by: list[int]
    counts: list[int]
    kill: Kill
    idle: IdleExit
    processes_left: int
    files_left: int

    @property
    def break_even_bytes(self) -> float:
        """Size of one agent's servers from which Hearth takes less memory than servers per agent."""
        return (self.hearth.daemon_bytes + self.hearth.bridges_bytes) / (self.agents - 1)

    def as_document(self) -> dict[str, Any]:
        """Return the document of `hearth demo --json`."""
        derived = {
            "apartBytes": self.apart.total_bytes if self.apart else None,
            "hearthBytes": self.hearth.total_bytes,
            "breakEvenBytes": round(self.break_even_bytes),
            "firstAnswerSeconds": {
                "apart": median(self.apart.one_more.first_answer) if self.apart else None,
                "cold": median(self.hearth.together.first_answer),
                "warm": median(self.hearth.one_more.first_answer),
            },
        }
        return {**_camel(asdict(self)), **derived}


def _camel(value: Any) -> Any:
    if isinstance(value, dict):
        return {_camel_word(key): _camel(item) for key, item in value.items()}
    return value


def _camel_word(word: str) -> str:
    first, *rest = word.split("_")
    return first + "".join(part.capitalize() for part in rest)


# --- steps


class Commands(NamedTuple):
    """Commands that start a bridge and print the status."""

    bridge: Sequence[str]
    status: Sequence[str]


def known_servers() -> dict[str, list[str]]:
    """Return the demo server, and one from PyPI if it is installed (the extra `demo`): real servers are larger."""
    servers = {"demo": [sys.executable, "-I", "-m", "hearth.demo.server"]}
    if importlib.util.find_spec("mcp_server_time"):
        servers["time"] = [sys.executable, "-I", "-m", "mcp_server_time", "--local-timezone", "UTC"]
    return servers


def config_text(servers: Mapping[str, Sequence[str]]) -> str:
    """Return the config of the demo's daemon."""
    lines = [f"idle_timeout = {IDLE_TIMEOUT_SECONDS:g}"]
    for name, (command, *arguments) in servers.items():
        # A JSON string is a TOML string as long as it is not escaped beyond ASCII.
        quoted = [json.dumps(word, ensure_ascii=False) for word in (command, *arguments)]
        lines += [f"[mcpServers.{name}]", f"command = {quoted[0]}", f"args = [{', '.join(quoted[1:])}]"]
        # One process for agents of both eras: otherwise a server that speaks both would get one for each.
        lines += ['isolation = "shared"']
    return "\n".join([*lines, ""])


class Stage:
    """Stage of the demo: a scratch home with agents in it."""

    def __init__(self, scratch: Scratch, commands: Commands, agents: int) -> None:
        self._scratch = scratch
        self._commands = commands
        self.servers = known_servers()
        self.measure = process_table.choose()
        # Both eras side by side, sharing the same servers.
        self.eras = ["legacy" if number % 2 else "modern" for number in range(1, agents + 1)]
        self._clients: list[DemoClient] = []
        scratch.write_config(config_text(self.servers))

    @property
    def can_compare(self) -> bool:
        """Whether there is a server of realistic size: the demo's own takes next to no memory."""
        return len(self.servers) > 1

    def servers_apart(self) -> Side:
        """Give every agent servers of its own, as clients do without Hearth."""
        sets = [self._own_servers(number) for number in range(len(self.eras))]
        together = _merge([_times(clients) for clients in sets])
        pids = [client.process.pid for clients in sets for client in clients]
        size = process_table.total(self.measure, self._scratch.processes() or pids)
        _leave([client for clients in sets for client in clients])
        samples = []
        for number in range(SAMPLES_APART):
            more = self._own_servers(number)
            samples.append(_times(more))
            _leave(more)
        return Side(pids, size, 0, 0, together, _merge(samples))

    def servers_shared(self) -> tuple[Side, dict[str, Any]]:
        """Start all agents at the same moment, without a daemon; return the measurements and the status."""
        self._clients = [self._bridge(number) for number in range(len(self.eras))]
        together = _merge([_times([client]) for client in self._clients])
        one_more = _merge([self._one_more(number) for number in range(SAMPLES)])
        status = self.status()
        servers = [pid for upstream in status["upstreams"] for pid in upstream["pids"]]
        bridges = [client.process.pid for client in self._clients]
        others = set(self._scratch.processes() or [status["pid"]]) - {*servers, *bridges}
        ours, daemon, relays = (process_table.total(self.measure, pids) for pids in (servers, sorted(others), bridges))
        return Side(servers, ours, daemon, relays, together, one_more), status

    def daemon_ids(self) -> list[str]:
        """Return the id of the daemon that answered each agent's first request."""
        return [str(client.opened.get("_meta", {}).get("hearth/daemonId")) for client in self._clients]

    def ask_everybody(self, tool: str) -> list[int]:
        """Make every agent call a tool at the same moment; return the numbers in the answers."""
        calls = [(client, client.call(tool)) for client in self._clients]
        return [int(client.text(call)) for client, call in calls]

    def kill_daemon(self, pid: int) -> Kill:
        """Kill the daemon while every agent waits for a call, and count the answers."""
        calls = [(client, client.call("slow", True, seconds=SLOW_SECONDS, steps=10)) for client in self._clients]
        for client, call in calls:
            client.wait_for_progress(call)
        processes.send_signal(pid, processes.UNKNOWN_START_TIME, KILL)
        killed = time.monotonic()
        answered = sum(_is_answered(client, call) for client, call in calls)
        seconds = time.monotonic() - killed
        alive = sum(client.process.poll() is None for client in self._clients)
        return Kill(pid, self.status()["pid"], len(calls), answered, alive, seconds)

    def let_go_out(self, pid: int) -> IdleExit:
        """Disconnect every agent, and wait until the kernel reports the daemon's exit."""
        start_time = processes.start_time(pid) or processes.UNKNOWN_START_TIME
        _leave(self._clients)
        left = time.monotonic()
        if not processes.wait_gone(pid, start_time, IDLE_PATIENCE_SECONDS):
            raise ClientError(f"the daemon (pid {pid}) is still there {IDLE_PATIENCE_SECONDS:g} s after the last agent")
        return IdleExit(pid, IDLE_TIMEOUT_SECONDS, time.monotonic() - left)

    def status(self) -> dict[str, Any]:
        """Return the output of `hearth status --json` in the scratch home."""
        asked = subprocess.run(
            self._commands.status,
            env=self._scratch.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=STATUS_SECONDS,
            check=False,
        )
        if asked.returncode:
            raise ClientError(f"hearth status failed: {asked.stderr.decode(errors='replace').strip()}")
        document: dict[str, Any] = json.loads(asked.stdout)
        return document

    def _bridge(self, number: int) -> DemoClient:
        modern = self.eras[number % len(self.eras)] == "modern"
        return DemoClient(f"agent {number + 1}", self._commands.bridge, self._scratch.environment, modern)

    def _own_servers(self, number: int) -> list[DemoClient]:
        return [
            DemoClient(f"{name} of agent {number + 1}", command, self._scratch.environment, modern=False)
            for name, command in self.servers.items()
        ]

    def _one_more(self, number: int) -> Times:
        client = self._bridge(number)
        times = _times([client])
        client.leave()
        return times


def _times(clients: Sequence[DemoClient]) -> Times:
    """Return one agent's times: those of the last of its servers to answer."""
    answered = max(client.first_answer() for client in clients)
    return Times([answered], [max(client.tools_listed() for client in clients)])


def _merge(times: Sequence[Times]) -> Times:
    return Times(
        [seconds for each in times for seconds in each.first_answer],
        [seconds for each in times for seconds in each.tools_listed],
    )


def _leave(clients: Sequence[DemoClient]) -> None:
    for client in clients:
        client.hang_up()
    for client in clients:
        client.leave()


def _is_answered(client: DemoClient, call: int) -> bool:
    try:
        client.text(call)
    except ClientError:
        return False
    return True


# --- the whole demo


def run(commands: Commands, agents: int, tell: Callable[[str], None]) -> Report:
    """Run every step; `tell` is called with a text about each. Raises HearthError if a step fails."""
    with scratch_home() as scratch:
        stage = Stage(scratch, commands, agents)
        names = " and ".join(stage.servers)
        apart = None
        if stage.can_compare:
            tell(f"without Hearth: {agents} agents, each with {names} of its own")
            apart = stage.servers_apart()
        tell(f"with Hearth: {agents} agents started at once, no daemon running")
        shared, status = stage.servers_shared()
        greeted_by = stage.daemon_ids()
        tell(f"{agents} agents count on one counter")
        answered_by, counts = stage.ask_everybody("whoami"), stage.ask_everybody("count")
        tell(f"kill -9 {status['pid']}, with {agents} calls in flight")
        kill = stage.kill_daemon(status["pid"])
        tell("every agent leaves; the daemon goes out by itself")
        idle = stage.let_go_out(kill.pid_after)
        left = scratch.wait_until_empty(IDLE_PATIENCE_SECONDS)
    return Report(
        agents=agents,
        eras=stage.eras,
        servers=list(stage.servers),
        measure=stage.measure.name,
        apart=apart,
        hearth=shared,
        daemon_pid=status["pid"],
        daemon_ids=greeted_by,
        answered_by=answered_by,
        counts=counts,
        kill=kill,
        idle=idle,
        processes_left=len(left),
        files_left=int(os.path.exists(scratch.folder)),
    )
