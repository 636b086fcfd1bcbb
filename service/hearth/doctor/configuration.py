"""Doctor's look at the config file: whether it can be used, and what is odd in it."""

from collections.abc import Sequence
from typing import NamedTuple

from hearth.doctor.context import CheckContext
from hearth.findings import Finding

_FILE = "config.file"


class ConfigFacts(NamedTuple):
    """What was seen."""

    path: str
    exists: bool
    problems: Sequence[str]
    warnings: Sequence[str]
    servers: int


def look(context: CheckContext) -> ConfigFacts:
    """The config as the daemon would take it."""
    found = context.examined()
    return ConfigFacts(
        context.places.config_file(),
        bool(found.config.hash),
        tuple(found.problems),
        tuple(found.warnings),
        len(found.config.servers),
    )


def judge(facts: ConfigFacts) -> list[Finding]:
    """What to say of it."""
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
