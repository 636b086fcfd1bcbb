"""Results of the demo. Every figure comes from a run; no value is defined here."""

from dataclasses import asdict, dataclass
from statistics import median
from typing import Any


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
